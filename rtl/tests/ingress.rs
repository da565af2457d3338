//! Ingress against a software model of the checks: random, damaged, cut and hostile frames on both widths, then rust-hdl = Verilator.
//!
//! Shows: `icrc_offload`.
use metaroce_rtl::diff::{Diff, Rng};
use metaroce_rtl::ingress::{Ingress, Ingress100g, Ingress1g};
use metaroce_rtl::inputs;
use metaroce_rtl::prims::packed::{bits_from_bytes, bits_to_bytes};
use metaroce_rtl::types::{RxPkt, WireMeta};
use num_bigint::BigUint;
use rust_hdl::prelude::*;
use rx::*;
use std::collections::VecDeque;

mod rx;

fn beats<const W: usize>(i: &Item, rng: &mut Rng, stamp: u64) -> Vec<(Bits<W>, WireMeta)> {
    let l = W / 8;
    let n = i.bytes.len().div_ceil(l);
    (0..n)
        .map(|k| {
            let mut b = i.bytes[k * l..i.bytes.len().min((k + 1) * l)].to_vec();
            let empty = l - b.len();
            b.resize_with(l, || rng.next() as u8);
            let eop = i.eop && k + 1 == n;
            let m = WireMeta {
                empty: if eop { (empty as u64).into() } else { 0.into() },
                sop: k == 0,
                eop,
                stamp: if k == 0 {
                    stamp.into()
                } else {
                    rng.below(1 << 40).into()
                },
            };
            (bits_from_bytes::<W>(&b), m)
        })
        .collect()
}

fn want(f: &[u8], at: usize, ext: usize) -> RxPkt {
    let b = &f[at - ext - 12..];
    let ip = &f[if f[12..14] == [0x81, 0] { 18 } else { 14 }..];
    let mut sip = [0u8; 16];
    let ce = if ip[0] >> 4 == 6 {
        sip.copy_from_slice(&ip[8..24]);
        ip[1] >> 4 & 3 == 3
    } else {
        sip[10] = 0xFF;
        sip[11] = 0xFF;
        sip[12..].copy_from_slice(&ip[12..16]);
        ip[1] & 3 == 3
    };
    RxPkt {
        opcode: (b[0] as u64).into(),
        se: b[1] >> 7 == 1,
        ackreq: b[8] >> 7 == 1,
        qpn: be(&b[5..8]).into(),
        psn: be(&b[9..12]).into(),
        sip: bits_from_bytes(&sip),
        ce,
        ..Default::default()
    }
}

#[derive(Default, Debug, PartialEq)]
struct Count {
    malformed: usize,
    opcode: usize,
    icrc: usize,
    full: usize,
    good: usize,
}

/// Fields that exist for this opcode.
fn check_fields(p: &RxPkt, f: &[u8], at: usize, len: usize) {
    let op = p.opcode.to_u8();
    let ext = ext_len(op).unwrap();
    let w = want(f, at, ext);
    assert_eq!(
        (p.opcode, p.se, p.ackreq, p.qpn, p.psn, p.sip, p.ce),
        (w.opcode, w.se, w.ackreq, w.qpn, w.psn, w.sip, w.ce)
    );
    let e = &f[at - ext..at];
    match op {
        6 | 10 | 11 | 12 => {
            assert_eq!(p.va, be(&e[..8]));
            assert_eq!(p.rkey, be(&e[8..12]));
            assert_eq!(p.dlen, be(&e[12..16]));
        }
        13 | 15..=17 => assert_eq!(p.aeth, be(&e[..4])),
        18 => {
            assert_eq!(p.aeth, be(&e[..4]));
            assert_eq!(p.va, be(&e[4..12]));
        }
        19 | 20 => {
            assert_eq!(p.va, be(&e[..8]));
            assert_eq!(p.rkey, be(&e[8..12]));
            assert_eq!(p.swap, be(&e[12..20]));
            assert_eq!(p.cmp, be(&e[20..28]));
            assert_eq!(p.dlen, 0);
        }
        _ => {}
    }
    if matches!(op, 3 | 5 | 9 | 11 | 0x16 | 0x17 | 0x2B | 0x65) {
        assert_eq!(bits_to_bytes(p.imm), e[ext - 4..]);
    }
    assert_eq!(p.len, len as u64);
}

/// With ready ports from the start.
fn run<
    const W: usize,
    const P: usize,
    const L: usize,
    const A: usize,
    const H: usize,
    const N: usize,
>(
    seed: u64,
    items: &[Item],
    gap: f64,
    hold: usize,
) -> Count {
    run_stalled::<W, P, L, A, H, N>(seed, items, gap, hold, 0)
}

/// Nobody takes a packet for the first `stall` cycles.
fn run_stalled<
    const W: usize,
    const P: usize,
    const L: usize,
    const A: usize,
    const H: usize,
    const N: usize,
>(
    seed: u64,
    items: &[Item],
    gap: f64,
    hold: usize,
    stall: usize,
) -> Count {
    println!("ingress W={W} seed {seed}");
    let mut rng = Rng(seed);
    let mut u = Ingress::<W, P, L, A, H, N>::default();
    u.connect_all();
    u.port_mac.next = bits_from_bytes(&MAC);
    let mut wire: VecDeque<(Bits<W>, WireMeta)> = VecDeque::new();
    for (i, it) in items.iter().enumerate() {
        wire.extend(beats::<W>(it, &mut rng, i as u64));
    }
    let mut c = Count::default();
    let mut held: Vec<(u64, u64, Vec<u8>)> = vec![];
    let mut last = [None, None];
    let mut reading: Option<(usize, Vec<u8>, u64, u64, Vec<u8>)> = None;
    let mut quiet = 0;
    let mut t = 0;
    while quiet < 400 {
        quiet += 1;
        t += 1;
        assert!(t < 200_000, "wedged");
        u.clock.next = Clock { clk: false };
        u.rst.next = t < 3;
        u.rx_valid.next = false;
        if t > 3 && !rng.p(gap) {
            if let Some((d, m)) = wire.pop_front() {
                u.rx_valid.next = true;
                u.rx_data.next = d;
                u.rx_meta.next = m;
                quiet = 0;
            }
        }
        let (mut rq, mut rs) = (rng.p(0.7), rng.p(0.7));
        if t < stall {
            (rq, rs) = (false, false);
            quiet = 0;
        }
        u.req_ready.next = rq;
        u.rsp_ready.next = rs;
        u.free_valid.next = false;
        let drain = wire.is_empty();
        if reading.is_none() && (held.len() > hold || (drain && !held.is_empty())) {
            let k = rng.below(held.len() as u64) as usize;
            let (src, slot, payload) = held.swap_remove(k);
            reading = Some((0, vec![], src, slot, payload));
            quiet = 0;
        }
        if let Some((n, got, src, slot, payload)) = &mut reading {
            if *n * L >= payload.len() {
                assert_eq!(got[..payload.len()], payload[..], "payload");
                u.free_valid.next = true;
                u.free_slot.next = (*slot).into();
                reading = None;
                quiet = 0;
            } else {
                let at = *src as usize + *n * L;
                u.buf_raddr.next = ((at / L % (1 << A)) as u64).into();
                let b = at % L;
                let mut sel = Bits::<L>::default();
                for i in 0..b {
                    sel = sel.replace_bit(i, true);
                }
                u.buf_rsel.next = sel;
            }
        }
        assert!(simulate(&mut u, 100));
        let pops = [
            (u.req_valid.val() && rq, u.req_data.val()),
            (u.rsp_valid.val() && rs, u.rsp_data.val()),
        ];
        for (k, (v, p)) in pops.into_iter().enumerate() {
            if !v {
                continue;
            }
            let i = p.stamp.to_u64() as usize;
            assert!(last[k] < Some(i), "order");
            last[k] = Some(i);
            let Verdict::Good { rsp, at, len } = items[i].verdict else {
                panic!("frame {i} is {:?}", items[i].verdict)
            };
            assert_eq!(rsp, k == 1);
            check_fields(&p, &items[i].bytes, at, len);
            held.push((
                p.src.to_u64(),
                p.slot.to_u64(),
                items[i].bytes[at..at + len].to_vec(),
            ));
            c.good += 1;
            quiet = 0;
        }
        c.malformed += u.ev_malformed.val() as usize;
        c.opcode += u.ev_opcode.val() as usize;
        c.icrc += u.ev_icrc.val() as usize;
        c.full += u.ev_full.val() as usize;
        u.clock.next = Clock { clk: true };
        assert!(simulate(&mut u, 100));
        if let Some((n, got, src, _, _)) = &mut reading {
            // the data of the address that was set in this cycle
            u.clock.next = Clock { clk: false };
            assert!(simulate(&mut u, 100));
            let w = bits_to_bytes(u.buf_rdata.val());
            let b = (*src as usize + *n * L) % L;
            got.extend((0..L).map(|i| w[(b + i) % L]));
            *n += 1;
        }
    }
    assert!(u.idle.val(), "holds something at the end");
    println!("{c:?} in {t} cycles");
    c
}

fn expect(items: &[Item]) -> Count {
    let n = |f: &dyn Fn(&Verdict) -> bool| items.iter().filter(|i| f(&i.verdict)).count();
    Count {
        malformed: n(&|v| *v == Verdict::Malformed),
        opcode: n(&|v| *v == Verdict::Opcode),
        icrc: n(&|v| *v == Verdict::Icrc),
        full: 0,
        good: n(&|v| matches!(v, Verdict::Good { .. })),
    }
}

#[test]
fn random_frames_64() {
    for seed in [1] {
        let it = items(seed, 250, 300, 8);
        assert_eq!(run::<64, 32, 8, 11, 14, 9>(seed, &it, 0.1, 4), expect(&it));
    }
}

#[test]
fn random_frames_512() {
    for seed in [3] {
        let it = items(seed, 150, 1500, 64);
        assert_eq!(
            run::<512, 256, 64, 9, 2, 2>(seed, &it, 0.75, 2),
            expect(&it)
        );
    }
}

#[test]
fn a_full_buffer_drops_whole_frames() {
    // long and short frames, since the last words of the buffer are the hard ones
    for (seed, max_len, n) in [(5, 2000, 120), (8, 40, 400)] {
        let it = items(seed, n, max_len, 64);
        let c = run::<512, 256, 64, 8, 2, 2>(seed, &it, if n == 400 { 0.85 } else { 0.0 }, 200);
        let e = expect(&it);
        assert!(c.full > 10, "{c:?}");
        assert_eq!(c.malformed + c.opcode + c.icrc + c.good + c.full, it.len());
        assert!(c.good <= e.good);
    }
}

/// The smallest frames back to back while nobody takes a packet: the buffer is nearly empty, so none is lost. 127 is the limit.
fn burst<
    const W: usize,
    const P: usize,
    const L: usize,
    const A: usize,
    const H: usize,
    const N: usize,
>(
    seed: u64,
) {
    let mut rng = Rng(seed);
    let mut it = vec![];
    while it.len() < 140 {
        let bytes = frame(&mut rng, 0);
        let verdict = judge(&bytes);
        if bytes.len() <= 64 && matches!(verdict, Verdict::Good { .. }) {
            it.push(Item {
                bytes,
                eop: true,
                verdict,
            });
        }
    }
    let c = run_stalled::<W, P, L, A, H, N>(seed, &it[..80], 0.0, 200, 2000);
    assert_eq!(c, expect(&it[..80]));
    let c = run_stalled::<W, P, L, A, H, N>(seed, &it, 0.0, 200, 2000);
    assert_eq!((c.good, c.full), (127, 13));
}

#[test]
fn a_burst_of_small_frames_is_kept() {
    burst::<512, 256, 64, 9, 2, 2>(21);
    burst::<64, 32, 8, 12, 14, 9>(22);
}

/// Frames of independent origin.
#[test]
fn published_frames() {
    let hex = [
        "02000000000202000000000108004502002c00004000401126bd0a0000010a000002c00012b7001800000440ffff00000012800000011839f5ef",
        "02000000000202000000000108004502003400004000401126b50a0000010a000002c00012b7002000000470ffff000000128000000101020304050000003c8e6114",
        "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118000000000000000000000000000000000000000082fd002a",
        "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf17104630818be28935d90e9a95505401be885e50000078f353f3",
    ];
    let it: Vec<Item> = hex
        .iter()
        .map(|h| {
            let mut bytes: Vec<u8> = (0..h.len() / 2)
                .map(|i| u8::from_str_radix(&h[2 * i..2 * i + 2], 16).unwrap())
                .collect();
            bytes[..6].copy_from_slice(&MAC);
            Item {
                verdict: judge(&bytes),
                bytes,
                eop: true,
            }
        })
        .collect();
    assert_eq!(expect(&it).good, 4);
    assert_eq!(run::<512, 256, 64, 8, 2, 2>(6, &it, 0.0, 0).good, 4);
    assert_eq!(run::<64, 32, 8, 11, 14, 9>(6, &it, 0.0, 0).good, 4);
}

fn diff<
    const W: usize,
    const P: usize,
    const L: usize,
    const A: usize,
    const H: usize,
    const N: usize,
>(
    name: &str,
    cycles: usize,
    gap: f64,
) {
    let it = items(7, 400, 3 * L, L);
    let mut rng = Rng(7);
    let mut wire: VecDeque<(Bits<W>, WireMeta)> = VecDeque::new();
    for (i, x) in it.iter().enumerate() {
        wire.extend(beats::<W>(x, &mut rng, i as u64));
    }
    Diff::new(
        name,
        Ingress::<W, P, L, A, H, N>::default,
        inputs!(
            rst, port_mac, rx_valid, rx_data, rx_meta, req_ready, rsp_ready, free_valid, free_slot,
            buf_raddr, buf_rsel
        ),
    )
    .cycles(cycles)
    .stim(move |s| {
        let rst = s.cycle < 2 || s.cycle == 400;
        s.set("rst", rst as u8);
        s.set("port_mac", BigUint::from_bytes_le(&MAC));
        let go = !s.rng.p(gap) && !wire.is_empty();
        s.set("rx_valid", go as u8);
        if go {
            let (d, m) = wire.pop_front().unwrap();
            s.set("rx_data", BigUint::from_bytes_le(&bits_to_bytes(d)));
            let m: Bits<56> = m.into();
            s.set("rx_meta", m.to_u64());
        }
        // every packet that leaves is freed some time later, in the order it came
        let v = s.rng.p(0.05);
        s.set("free_valid", v as u8);
    })
    .run();
}

#[test]
fn verilator_64() {
    diff::<64, 32, 8, 11, 14, 9>("ingress_64", 2000, 0.1);
}

#[test]
fn verilator_512() {
    diff::<512, 256, 64, 8, 2, 2>("ingress_512", 800, 0.5);
}

/// The two configurations elaborate and pass the lint.
#[test]
fn configurations() {
    for (name, text) in [
        (
            "ingress_100g",
            metaroce_rtl::emit::emit_verilog("ingress_100g", &mut Ingress100g::default()),
        ),
        (
            "ingress_1g",
            metaroce_rtl::emit::emit_verilog("ingress_1g", &mut Ingress1g::default()),
        ),
    ] {
        let dir = std::env::temp_dir().join(format!("metaroce-lint-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let v = dir.join(format!("{name}.v"));
        std::fs::write(&v, text).unwrap();
        let o = std::process::Command::new(metaroce_rtl::diff::verilator())
            .arg("--lint-only")
            .args(metaroce_rtl::diff::LINT)
            .args(["--top-module", name])
            .arg(&v)
            .output()
            .unwrap();
        assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
        let _ = std::fs::remove_dir_all(dir);
    }
}

/// The model of this test and the codec of the protocol crate see the same frames in the same way.
#[test]
fn the_codec_agrees() {
    use metaroce_protocol::{eth, ip, DropReason, Frame};
    let mut n = [0; 4];
    for i in items(9, 4000, 300, 64).into_iter().filter(|i| i.eop) {
        let f = &i.bytes;
        // the address and trailing bytes are the card's own rules
        let trailing = f.len() > 64
            && eth::EthFrame::new_checked(f).is_ok_and(|e| {
                ip::IpPacket::new_checked(e.ethertype(), e.payload())
                    .is_ok_and(|i| i.as_bytes().len() != e.payload().len())
            });
        if f.get(..6) != Some(&MAC[..]) || trailing {
            continue;
        }
        let k = match Frame::new_checked(f) {
            Ok(x) => {
                let Verdict::Good { at, len, .. } = i.verdict else {
                    panic!("{f:02x?}")
                };
                // the card counts the reserved bytes of a CNP as a header
                if x.roce.opcode().0 != 0x81 {
                    assert_eq!(x.payload(), &f[at..at + len]);
                }
                3
            }
            Err(DropReason::BadOpcode) => 0,
            Err(DropReason::BadIcrc) => 1,
            Err(_) => 2,
        };
        let v = [Verdict::Opcode, Verdict::Icrc, Verdict::Malformed];
        assert!(k == 3 || i.verdict == v[k], "{:?} {f:02x?}", i.verdict);
        n[k] += 1;
    }
    println!("{n:?}");
    assert!(n.iter().all(|x| *x > 50));
}
