//! Ingress against a software model of the checks: random, damaged, cut and hostile frames on both widths, then rust-hdl = Verilator.
use metaroce_rtl::diff::{Diff, Rng};
use metaroce_rtl::ingress::{Ingress, Ingress100g, Ingress1g};
use metaroce_rtl::inputs;
use metaroce_rtl::prims::packed::{bits_from_bytes, bits_to_bytes};
use metaroce_rtl::types::{RxPkt, WireMeta};
use num_bigint::BigUint;
use rust_hdl::prelude::*;
use std::collections::VecDeque;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn crc(bytes: impl Iterator<Item = u8>) -> u32 {
    let mut c = 0xFFFF_FFFFu32;
    for b in bytes {
        c ^= b as u32;
        for _ in 0..8 {
            c = (c >> 1) ^ if c & 1 == 1 { 0xEDB8_8320 } else { 0 };
        }
    }
    !c
}

/// ICRC of the datagram `d` (IP header to pad).
fn icrc(d: &[u8], six: bool) -> u32 {
    let var: &[usize] = if six {
        &[1, 2, 3, 7, 46, 47, 52]
    } else {
        &[1, 8, 10, 11, 26, 27, 32]
    };
    let head = std::iter::repeat(0xFF).take(8);
    let body = d.iter().enumerate().map(|(i, b)| {
        if var.contains(&i) {
            0xFF
        } else if six && i == 0 {
            b | 0x0F
        } else {
            *b
        }
    });
    crc(head.chain(body))
}

fn ext_len(op: u8) -> Option<usize> {
    Some(match op {
        0..=2 | 4 | 7 | 8 | 14 => 0,
        3 | 5 | 9 | 0x16 | 0x17 | 13 | 15 | 16 | 17 => 4,
        6 | 10 | 12 | 0x1D => 16,
        11 | 0x1C => 20,
        18 => 12,
        19 | 20 => 28,
        0x20..=0x2B => return ext_len(op - 0x20),
        0x64 => 8,
        0x65 => 12,
        0x81 => 16,
        _ => return None,
    })
}

fn no_payload(op: u8) -> bool {
    matches!(op, 12 | 17 | 18 | 19 | 20 | 0x1C | 0x81)
}

#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Malformed,
    Opcode,
    Icrc,
    Good { rsp: bool, at: usize, len: usize },
}

fn be(b: &[u8]) -> u64 {
    b.iter().fold(0, |a, x| a << 8 | *x as u64)
}

/// What the card must make of a frame.
fn judge(f: &[u8]) -> Verdict {
    try_judge(f).unwrap_or(Verdict::Malformed)
}

fn try_judge(f: &[u8]) -> Option<Verdict> {
    if f.get(..6)? != MAC {
        return None;
    }
    let mut l2 = 14;
    let mut et = be(f.get(12..14)?);
    if et == 0x8100 {
        l2 = 18;
        et = be(f.get(16..18)?);
    }
    let ip = f.get(l2..)?;
    let (six, total) = match et {
        0x0800 => {
            let h = ip.get(..20)?;
            let sum: u64 = h.chunks(2).map(be).sum();
            let sum = (sum & 0xFFFF) + (sum >> 16);
            if h[0] != 0x45 || h[9] != 17 || be(&h[6..8]) & 0xBFFF != 0 || sum != 0xFFFF {
                return None;
            }
            (false, be(&h[2..4]) as usize)
        }
        0x86DD => {
            let h = ip.get(..40)?;
            if h[0] >> 4 != 6 || h[6] != 17 {
                return None;
            }
            (true, be(&h[4..6]) as usize + 40)
        }
        _ => return None,
    };
    let d = ip.get(..total)?;
    if total + l2 != f.len() && f.len() > 64 {
        return None;
    }
    let u = d.get(if six { 40 } else { 20 }..)?;
    if u.len() < 24 || be(&u[2..4]) != 4791 || be(&u[4..6]) as usize != u.len() {
        return None;
    }
    let op = u[8];
    let Some(ext) = ext_len(op) else {
        return Some(Verdict::Opcode);
    };
    let pad = (u[9] >> 4 & 3) as usize;
    let fixed = 24 + ext + pad;
    if u.len() < fixed || u[9] & 15 != 0 || u.len() % 4 != 0 {
        return None;
    }
    let len = u.len() - fixed;
    if len > 4096 || (no_payload(op) && (len != 0 || pad != 0)) {
        return None;
    }
    let got = u32::from_le_bytes(d[total - 4..].try_into().unwrap());
    if got != icrc(&d[..total - 4], six) {
        return Some(Verdict::Icrc);
    }
    let at = l2 + if six { 40 } else { 20 } + 20 + ext;
    let rsp = (13..=18).contains(&op);
    Some(Verdict::Good { rsp, at, len })
}

fn fix_sum(h: &mut [u8]) {
    h[10] = 0;
    h[11] = 0;
    let mut s: u64 = h[..20].chunks(2).map(be).sum();
    s = (s & 0xFFFF) + (s >> 16);
    s = (s & 0xFFFF) + (s >> 16);
    h[10..12].copy_from_slice(&(!(s as u16)).to_be_bytes());
}

const OPS: [u8; 46] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 0x16, 0x17, 0x1C, 0x1D, 0x20, 0x25,
    0x2A, 0x2B, 0x64, 0x65, 0x81, 4, 10, 17, 17, 4, 10, 7, 8, 14, 0x15, 0x18, 0x2C, 0xFF, 0x60,
];

/// A well-formed frame with random contents.
fn frame(rng: &mut Rng, max_len: usize) -> Vec<u8> {
    let (vlan, six) = (rng.p(0.3), rng.p(0.4));
    let op = OPS[rng.below(OPS.len() as u64) as usize];
    let ext = ext_len(op).unwrap_or(0);
    let len = match rng.below(4) {
        _ if no_payload(op) => 0,
        0 => rng.below(6) as usize,
        1 => rng.below(130) as usize,
        _ => rng.below(max_len as u64 + 1) as usize,
    };
    let pad = (4 - len % 4) % 4;
    let mut r = |n: usize| (0..n).map(|_| rng.next() as u8).collect::<Vec<u8>>();
    let mut u = r(8);
    u[2..4].copy_from_slice(&4791u16.to_be_bytes());
    let ulen = 24 + ext + len + pad;
    u[4..6].copy_from_slice(&(ulen as u16).to_be_bytes());
    let mut bth = r(12);
    bth[0] = op;
    bth[1] = bth[1] & 0xC0 | (pad as u8) << 4;
    u.extend(bth);
    u.extend(r(ext + len));
    u.extend(vec![0; pad]);
    let mut ip = if six {
        let mut h = r(40);
        h[0] = 0x60 | h[0] & 15;
        h[4..6].copy_from_slice(&(ulen as u16).to_be_bytes());
        h[6] = 17;
        h
    } else {
        let mut h = r(20);
        h[0] = 0x45;
        h[2..4].copy_from_slice(&(ulen as u16 + 20).to_be_bytes());
        h[6] &= 0x40;
        h[7] = 0;
        h[9] = 17;
        fix_sum(&mut h);
        h
    };
    ip.extend(u);
    let c = icrc(&ip, six).to_le_bytes();
    ip.extend(c);
    let mut f = MAC.to_vec();
    f.extend(r(6));
    if vlan {
        f.extend([0x81, 0]);
        f.extend(r(2));
    }
    f.extend(if six { [0x86, 0xDD] } else { [8, 0] });
    f.extend(ip);
    if f.len() < 60 {
        // Ethernet padding; some switches pad tagged frames to 64
        f.extend(r(60 - f.len()));
    }
    f
}

/// A piece of the wire: a frame (ends with `eop` or is cut off), and what becomes of it.
#[derive(Clone)]
struct Item {
    bytes: Vec<u8>,
    eop: bool,
    verdict: Verdict,
}

fn item(rng: &mut Rng, max_len: usize, l: usize) -> Item {
    let mut f = frame(rng, max_len);
    let mut eop = true;
    match rng.below(16) {
        0 => {
            let i = rng.below(f.len() as u64) as usize;
            f[i] ^= 1 << rng.below(8);
        }
        1 => {
            let i = rng.below(60.min(f.len()) as u64) as usize;
            f[i] = rng.next() as u8;
        }
        2 => f.truncate(1 + rng.below(f.len() as u64) as usize),
        3 => {
            f.truncate(l * (1 + rng.below(4) as usize));
            eop = false;
        }
        4 => f.extend((0..1 + rng.below(8)).map(|_| 0)),
        5 => {
            // the IPv4 length moves, with a right checksum
            if f[12..14] == [8, 0] {
                let d = rng.below(8) as i64 - 4;
                let n = (be(&f[16..18]) as i64 + d) as u16;
                f[16..18].copy_from_slice(&n.to_be_bytes());
                fix_sum(&mut f[14..34]);
            }
        }
        6 => {
            // both lengths move
            if f[12..14] == [8, 0] {
                let d = rng.below(60) as i64 - 30;
                let n = (be(&f[16..18]) as i64 + d) as u16;
                f[16..18].copy_from_slice(&n.to_be_bytes());
                let n = (be(&f[38..40]) as i64 + d) as u16;
                f[38..40].copy_from_slice(&n.to_be_bytes());
                fix_sum(&mut f[14..34]);
            }
        }
        7 if rng.p(0.3) => f = (0..5000).map(|_| rng.next() as u8).collect(),
        _ => {}
    }
    let verdict = if eop { judge(&f) } else { Verdict::Malformed };
    Item {
        bytes: f,
        eop,
        verdict,
    }
}

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
                stamp: if k == 0 { stamp.into() } else { rng.below(1 << 40).into() },
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
        13 | 15..=18 => assert_eq!(p.aeth, be(&e[..4])),
        19 | 20 => {
            assert_eq!(p.va, be(&e[..8]));
            assert_eq!(p.rkey, be(&e[8..12]));
        }
        _ => {}
    }
    if matches!(op, 3 | 5 | 9 | 11 | 0x16 | 0x17 | 0x2B | 0x65) {
        assert_eq!(bits_to_bytes(p.imm), e[ext - 4..]);
    }
    assert_eq!(p.len, len as u64);
}

fn run<const W: usize, const P: usize, const L: usize, const A: usize, const H: usize, const N: usize>(
    seed: u64,
    items: &[Item],
    gap: f64,
    hold: usize,
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
        let (rq, rs) = (rng.p(0.7), rng.p(0.7));
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
            held.push((p.src.to_u64(), p.slot.to_u64(), items[i].bytes[at..at + len].to_vec()));
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

fn items(seed: u64, n: usize, max_len: usize, l: usize) -> Vec<Item> {
    let mut rng = Rng(seed);
    let mut v: Vec<Item> = (0..n).map(|_| item(&mut rng, max_len, l)).collect();
    // the last one ends, so that a cut frame before it is seen
    let f = frame(&mut rng, 10);
    v.push(Item {
        verdict: judge(&f),
        bytes: f,
        eop: true,
    });
    v
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
        assert_eq!(run::<512, 256, 64, 9, 2, 2>(seed, &it, 0.75, 2), expect(&it));
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

fn diff<const W: usize, const P: usize, const L: usize, const A: usize, const H: usize, const N: usize>(
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
            rst, port_mac, rx_valid, rx_data, rx_meta, req_ready, rsp_ready, free_valid, free_slot, buf_raddr,
            buf_rsel
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
        ("ingress_100g", metaroce_rtl::emit::emit_verilog("ingress_100g", &mut Ingress100g::default())),
        ("ingress_1g", metaroce_rtl::emit::emit_verilog("ingress_1g", &mut Ingress1g::default())),
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
