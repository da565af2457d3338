//! rust-hdl = Verilator for every primitive, and the ICRC against a bit-serial CRC.
use metaroce_rtl::diff::Diff;
use metaroce_rtl::prims::*;
use metaroce_rtl::{inputs, packed_struct};
use rust_hdl::prelude::*;

packed_struct! {
    /// A struct with odd widths.
    pub struct Item { pub a: Bits<13>, pub b: bool, pub c: Bits<70> }
}

#[test]
fn sdp_ram() {
    Diff::new(
        "sdp_ram_item_3",
        SdpRam::<Item, 3>::default,
        inputs!(we, waddr, wdata, raddr),
    )
    .run();
    Diff::new(
        "sdp_ram_bits_4",
        SdpRam::<Bits<128>, 4>::default,
        inputs!(we, waddr, wdata, raddr),
    )
    .run();
}

#[test]
fn sdp_ram_2r() {
    Diff::new(
        "sdp_ram_2r",
        SdpRam2R::<Item, 3>::default,
        inputs!(we, waddr, wdata, raddr0, raddr1),
    )
    .run();
}

#[test]
fn lane_ram() {
    Diff::new(
        "lane_ram_64",
        LaneRam::<64, 8, 3>::default,
        inputs!(we, waddr, wlane, wsel, wdata, raddr, rsel),
    )
    .run();
    Diff::new(
        "lane_ram_512",
        LaneRam::<512, 64, 2>::default,
        inputs!(we, waddr, wlane, wsel, wdata, raddr, rsel),
    )
    .cycles(200)
    .run();
    // the other branch of the leaf cell, which is what synthesis sees
    Diff::new(
        "lane_ram_64s",
        LaneRam::<64, 8, 3>::default,
        inputs!(we, waddr, wlane, wsel, wdata, raddr, rsel),
    )
    .define("SYNTHESIS")
    .run();
}

#[test]
fn fifo() {
    for (n, pv, pr) in [(0, 0.5, 0.5), (1, 0.9, 0.3), (2, 0.3, 0.9), (3, 1.0, 1.0)] {
        Diff::new(
            "fifo_item_2",
            Fifo::<Item, 2>::default,
            inputs!(rst, s_data, s_valid, m_ready),
        )
        .seed(n + 1)
        .p("s_valid", pv)
        .p("m_ready", pr)
        .run();
    }
}

#[test]
fn skid() {
    Diff::new(
        "skid_item",
        Skid::<Item>::default,
        inputs!(rst, s_data, s_valid, m_ready),
    )
    .run();
}

#[test]
fn half() {
    Diff::new(
        "half_item",
        Half::<Item>::default,
        inputs!(rst, s_data, s_valid, m_ready),
    )
    .run();
}

#[test]
fn arbiters() {
    Diff::new(
        "arb2",
        Arb2::<Bits<20>>::default,
        inputs!(rst, s_data, s_valid, m_ready),
    )
    .run();
    Diff::new(
        "arb3",
        Arb3::<Item>::default,
        inputs!(rst, s_data, s_valid, m_ready),
    )
    .run();
    Diff::new(
        "arb4",
        Arb4::<Bits<20>>::default,
        inputs!(rst, s_data, s_valid, m_ready),
    )
    .run();
    Diff::new(
        "prio3",
        PrioArb::<Bits<20>, 3>::default,
        inputs!(rst, s_data, s_valid, m_ready),
    )
    .run();
}

#[test]
fn rotate() {
    Diff::new(
        "rot64",
        ByteRot::<Bits<9>, 64, 8>::default,
        inputs!(rst, ce, s_data, s_n, s_tag, s_valid),
    )
    .p("ce", 0.8)
    .run();
    Diff::new(
        "rot512",
        ByteRot::<Item, 512, 64>::default,
        inputs!(rst, ce, s_data, s_n, s_tag, s_valid),
    )
    .cycles(150)
    .run();
}

#[test]
fn icrc() {
    Diff::new(
        "icrc64",
        Icrc::<64, 32>::default,
        inputs!(rst, s_data, s_sop, s_eop, s_empty, s_valid),
    )
    .max("s_empty", 7)
    .run();
    Diff::new(
        "icrc512",
        Icrc::<512, 256>::default,
        inputs!(rst, s_data, s_sop, s_eop, s_empty, s_valid),
    )
    .cycles(200)
    .run();
    // the XOR trees, which is what synthesis sees
    Diff::new(
        "icrc512s",
        Icrc::<512, 256>::default,
        inputs!(rst, s_data, s_sop, s_eop, s_empty, s_valid),
    )
    .define("SYNTHESIS")
    .cycles(200)
    .run();
}

/// Advance `u` by one clock with the inputs that are set; returns what `get` sees just before the edge.
fn tick<U: Block, R>(
    u: &mut U,
    clock: impl Fn(&mut U) -> &mut Signal<In, Clock>,
    get: impl Fn(&U) -> R,
) -> R {
    clock(u).next = Clock { clk: false };
    assert!(simulate(u, 200));
    let r = get(u);
    clock(u).next = Clock { clk: true };
    assert!(simulate(u, 200));
    r
}

fn serial_crc(init: u32, bytes: &[u8]) -> u32 {
    let mut c = init;
    for b in bytes {
        for k in 0..8 {
            let fb = (c ^ (*b as u32 >> k)) & 1;
            c = (c >> 1) ^ (0xEDB8_8320 * fb);
        }
    }
    !c
}

/// Feed frames back to back with random gaps and random bytes after the end; returns CRCs with the cycle of their eop and of their result.
fn run_icrc<const W: usize, const P: usize>(
    frames: &[Vec<u8>],
    seed: u64,
) -> Vec<(u32, usize, usize)> {
    let l = W / 8;
    let mut rng = metaroce_rtl::diff::Rng(seed);
    let mut beats = vec![];
    for f in frames {
        let n = f.len().div_ceil(l);
        for i in 0..n {
            while rng.p(0.2) {
                beats.push(None);
            }
            let mut b: Vec<u8> = f[i * l..f.len().min(i * l + l)].to_vec();
            let empty = l - b.len();
            b.resize_with(l, || rng.next() as u8);
            beats.push(Some((b, i == 0, i + 1 == n, empty)));
        }
    }
    beats.extend((0..10).map(|_| None));
    let mut u = Icrc::<W, P>::default();
    u.connect_all();
    let (mut eops, mut out) = (vec![], vec![]);
    for (t, b) in beats.iter().enumerate() {
        u.s_valid.next = b.is_some();
        if let Some((d, sop, eop, empty)) = b {
            u.s_data.next = packed::bits_from_bytes::<W>(d);
            u.s_sop.next = *sop;
            u.s_eop.next = *eop;
            u.s_empty.next = if *eop {
                (*empty as u64).into()
            } else {
                rng.below(64).into()
            };
            if *eop {
                eops.push(t);
            }
        }
        let (v, c) = tick(
            &mut u,
            |u| &mut u.clock,
            |u| (u.m_valid.val(), u.m_crc.val().to_u32()),
        );
        if v {
            out.push((c, eops[out.len()], t));
        }
    }
    out
}

fn check_icrc<const W: usize, const P: usize>(seed: u64) {
    let mut rng = metaroce_rtl::diff::Rng(seed);
    let frames: Vec<Vec<u8>> = (0..40)
        .map(|i| {
            (0..if i < 20 {
                1 + i as u64 * 7 % 130
            } else {
                1 + rng.below(300)
            })
                .map(|_| rng.next() as u8)
                .collect()
        })
        .collect();
    let got = run_icrc::<W, P>(&frames, seed);
    assert_eq!(got.len(), frames.len());
    for (f, (crc, eop, at)) in frames.iter().zip(got) {
        assert_eq!(crc, serial_crc(0, f), "length {} seed {seed}", f.len());
        assert_eq!(at - eop, icrc::LATENCY);
    }
}

#[test]
fn icrc_equals_bit_serial() {
    check_icrc::<64, 32>(1);
    check_icrc::<256, 128>(2);
    check_icrc::<512, 256>(3);
}

/// The frame as the engine wants it: seed in the L2 bytes, variant fields FF, ICRC cut off; and the ICRC on the wire.
fn for_icrc(hex: &str) -> (Vec<u8>, u32) {
    let mut f: Vec<u8> = (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
        .collect();
    let tail = f.split_off(f.len() - 4);
    for (i, b) in f.iter_mut().enumerate() {
        match i {
            0..=9 => *b = 0,
            10..=13 | 15 | 22 | 24 | 25 | 40 | 41 | 46 => *b = 0xFF,
            _ => {}
        }
    }
    (f, u32::from_le_bytes(tail.try_into().unwrap()))
}

#[test]
fn icrc_of_real_frames() {
    let frames: Vec<_> = [
        "02000000000202000000000108004502003400004000401126b50a0000010a000002c00012b7002000000470ffff000000128000000101020304050000003c8e6114",
        "02000000000202000000000108004502007000004000401126790a0000010a000002c00012b7005c00000470ffff00000012800000010102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f40410000008d0f6289",
    ]
    .map(for_icrc)
    .to_vec();
    let data: Vec<Vec<u8>> = frames.iter().map(|f| f.0.clone()).collect();
    for (i, f) in frames.iter().enumerate() {
        assert_eq!(run_icrc::<512, 256>(&data, 7)[i].0, f.1);
        assert_eq!(run_icrc::<64, 32>(&data, 7)[i].0, f.1);
    }
}

#[test]
fn a_broken_copy_is_caught() {
    let e = Diff::new(
        "broken_skid",
        Skid::<Bits<8>>::default,
        inputs!(rst, s_data, s_valid, m_ready),
    )
    .edit_verilog(|v| {
        v.replacen("spare_v$d = 32'h1;", "spare_v$d = 32'h0;", 1)
            .replacen("spare_v$d = 1'h1;", "spare_v$d = 1'h0;", 1)
            .replacen("spare_v$d = 1'b1;", "spare_v$d = 1'b0;", 1)
    })
    .try_run()
    .expect_err("a skid that loses its spare word passed");
    assert!(e.contains("DIFF_SEED=") && e.contains("cycle"), "{e}");
    println!("{e}");
}

#[test]
fn psn_compare() {
    Diff::new("psn_cmp", PsnCmp::default, inputs!(a, b))
        .pick(
            "a",
            &[0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFE, 0xFFFFFF],
        )
        .pick("b", &[0, 1, 0x7FFFFF, 0x800000, 0xFFFFFF])
        .run();
}

/// Random traffic and a link that comes and goes: rust-hdl = Verilator, and each frame is passed or dropped as a whole, by
/// what the link was at its first word.
#[test]
fn link_gate() {
    use metaroce_rtl::glue::LinkGate;
    let (sop, eop) = (1u64 << 6, 1u64 << 7);
    /// A side's word of the cycle before.
    #[derive(Clone, Copy, Default)]
    struct Word {
        valid: bool,
        meta: u64,
    }
    let mut words = [Word::default(); 2];
    let (mut up, mut tx_ready) = (false, false);
    // words of its frame that a side still has to give, this one included; what its first word met
    let mut left = [0u64; 2];
    let mut open = [false; 2];
    // words passed and dropped
    let mut counts = [[0u64; 2]; 2];
    Diff::new(
        "link_gate",
        LinkGate::default,
        inputs!(rst, up, s_valid, s_meta, tx_ready, rx_valid, rx_meta),
    )
    .cycles(4000)
    .stim(|s| {
        let mut waits = false;
        let outs = [
            (s.out_u64("tx_valid") == 1, s.out_u64("s_ready") == 1),
            (s.out_u64("m_valid") == 1, true),
        ];
        for (k, (out, ready)) in outs.into_iter().enumerate() {
            let w = words[k];
            if !w.valid {
                assert!(!out, "a word out of nothing");
                continue;
            }
            if w.meta & sop != 0 {
                open[k] = up;
            }
            assert_eq!(out, open[k], "side {k}, cycle {}", s.cycle);
            if k == 0 {
                assert_eq!(ready, !open[0] || tx_ready);
            }
            if ready {
                left[k] -= 1;
                counts[k][!out as usize] += 1;
            } else {
                waits = true;
            }
        }
        tx_ready = s.rng.p(0.7);
        up ^= s.rng.p(0.05);
        for (k, w) in words.iter_mut().enumerate() {
            if k == 0 && waits {
                continue;
            }
            let new = left[k] == 0;
            w.valid = s.cycle > 2 && s.rng.p(0.8);
            if w.valid && new {
                left[k] = 1 + s.rng.below(6);
            }
            let first = if w.valid && new { sop } else { 0 };
            let last = if left[k] == 1 { eop } else { 0 };
            w.meta = s.rng.below(64) | first | last;
        }
        s.set("rst", (s.cycle < 2) as u8);
        s.set("up", up as u8);
        s.set("tx_ready", tx_ready as u8);
        s.set("s_valid", words[0].valid as u8);
        s.set("s_meta", words[0].meta);
        s.set("rx_valid", words[1].valid as u8);
        s.set("rx_meta", words[1].meta);
    })
    .run();
    println!("words passed and dropped, transmit and receive: {counts:?}");
    assert!(counts.iter().flatten().all(|n| *n > 300));
}

/// Packets of one to four transfers from both sides and a receiver that waits: rust-hdl = Verilator; each side's transfers come out in their order, no packet
/// is cut by the other side's, and who has something waits for one packet of the other at most.
#[test]
fn tx_arb() {
    use metaroce_rtl::glue::TxArb;
    // a transfer: `last` is bit 1; the place of the QP carries a number
    let word = |side: u64, n: u64, last: bool| (n % 4096) << 4 | side << 2 | (last as u64) << 1;
    let (mut next, mut left, mut sent) = ([0u64; 2], [0u64; 2], [0u64; 2]);
    let (mut valid, mut words, mut ready) = ([false; 2], [0u64; 2], false);
    let (mut inside, mut waited, mut packets) = (None::<usize>, [0u32; 2], [0u32; 2]);
    Diff::new(
        "tx_arb",
        TxArb::default,
        inputs!(rst, a_valid, a_data, b_valid, b_data, m_ready),
    )
    .cycles(4000)
    .stim(|s| {
        if s.out_u64("m_valid") == 1 && ready && s.cycle > 2 {
            let out = s.out("m_data");
            let got = out.to_u64_digits().first().copied().unwrap_or(0);
            let side = (got >> 2 & 3) as usize;
            assert_eq!(got >> 4, sent[side] % 4096, "cycle {}", s.cycle);
            assert!(inside.is_none_or(|i| i == side), "cut, cycle {}", s.cycle);
            sent[side] += 1;
            inside = (got & 2 == 0).then_some(side);
            if got & 2 != 0 {
                packets[side] += 1;
                waited[side] = 0;
                // one that was chosen before the other came may go first, too
                if valid[1 - side] {
                    waited[1 - side] += 1;
                    assert!(waited[1 - side] <= 2, "cycle {}", s.cycle);
                }
            }
        }
        for (k, name) in ["a_ready", "b_ready"].into_iter().enumerate() {
            if valid[k] && s.cycle > 2 && s.out_u64(name) == 1 {
                valid[k] = false;
                next[k] += 1;
                left[k] -= 1;
            }
            if !valid[k] && s.rng.p(0.6) {
                if left[k] == 0 {
                    left[k] = 1 + s.rng.below(4);
                }
                valid[k] = s.cycle > 1;
                words[k] = word(k as u64, next[k], left[k] == 1);
            }
        }
        ready = s.rng.p(0.7);
        s.set("rst", (s.cycle < 2) as u8);
        s.set("a_valid", valid[0] as u8);
        s.set("a_data", words[0]);
        s.set("b_valid", valid[1] as u8);
        s.set("b_data", words[1]);
        s.set("m_ready", ready as u8);
    })
    .run();
    println!("packets of the two sides: {packets:?}");
    assert!(packets.iter().all(|n| *n > 200));
}

/// Random packets, address vectors that change, and a requester that waits: rust-hdl = Verilator, nothing is lost or out of
/// order, and exactly the packets from the peer keep their QPN.
#[test]
fn src_check() {
    use metaroce_hdl_spec::table::av;
    use metaroce_rtl::glue::SrcCheck;
    use num_bigint::BigUint;
    use std::collections::VecDeque;
    // bits of a packet before these fields
    const QPN: u64 = 10;
    const SIP: u64 = 250;
    const ADDRESSES: [u128; 3] = [0x0A00_0001 << 96, 0x0A00_0002 << 96, 1];
    let mask = |n: u64| (BigUint::from(1u8) << n) - 1u8;
    let field = |v: &BigUint, lo: u64, n: u64| (v >> lo) & mask(n);
    let mut table = [0u128; 4];
    let mut given = VecDeque::<(BigUint, bool)>::new();
    let (mut word, mut valid, mut ready) = (BigUint::ZERO, false, false);
    let mut counts = [0u32; 2];
    Diff::new(
        "src_check",
        SrcCheck::<2>::default,
        inputs!(rst, s_valid, s_data, m_ready, av_we, av_waddr, av_wdata),
    )
    .cycles(3000)
    .stim(|s| {
        let mut waits = false;
        if s.cycle > 3 {
            assert_eq!(s.out_u64("idle") == 1, given.is_empty());
            if s.out_u64("m_valid") == 1 && ready {
                let (p, good) = given.pop_front().expect("a packet that was given");
                let out = s.out("m_data");
                assert_eq!(field(&out, 0, QPN), field(&p, 0, QPN));
                assert_eq!(&out >> (QPN + 24), &p >> (QPN + 24));
                let want = if good { field(&p, QPN, 24) } else { mask(24) };
                assert_eq!(field(&out, QPN, 24), want, "cycle {}", s.cycle);
                counts[good as usize] += 1;
            }
            if valid && s.out_u64("s_ready") == 1 {
                let qp = field(&word, QPN, 2)
                    .to_u64_digits()
                    .first()
                    .copied()
                    .unwrap_or(0);
                let good = field(&word, SIP, 128) == BigUint::from(table[qp as usize]);
                given.push_back((word.clone(), good));
            } else {
                waits = valid;
            }
        }
        // the sequencer writes a QP's entry while none of its packets is under way
        let quiet = given.is_empty() && !waits && s.cycle > 3;
        let write = quiet && s.rng.p(0.2);
        s.set("av_we", write as u8);
        let at = s.rng.below(4);
        s.set("av_waddr", at);
        let dip = ADDRESSES[s.rng.below(3) as usize];
        s.set("av_wdata", BigUint::from(dip) << av::dip.lo as u64);
        if write {
            table[at as usize] = dip;
        }
        if !waits {
            valid = s.cycle > 3 && !write && s.rng.p(0.6);
            let low = s.get("s_data") & mask(SIP);
            let high = (s.get("s_data") >> (SIP + 128)) << (SIP + 128);
            let sip = ADDRESSES[s.rng.below(3) as usize];
            word = low | high | BigUint::from(sip) << SIP;
        }
        ready = s.rng.p(0.6);
        s.set("rst", (s.cycle < 2) as u8);
        s.set("s_valid", valid as u8);
        s.set("s_data", word.clone());
        s.set("m_ready", ready as u8);
    })
    .run();
    println!("packets from elsewhere and from the peer: {counts:?}");
    assert!(counts.iter().all(|n| *n > 100));
}
