//! Faults that users of other cards met, on the whole card (docs/field-faults.md): named after their rows.
//!
//! Shows: `completion_after_payload`, `fence`, `reads_in_flight`.

mod common;

use common::log::{pair, quiet, take};
use metaroce_hdl_spec::{regs::Ctr, wqe::op};
use metaroce_tb::{
    bench::AT_ONCE,
    craft::settle,
    fabric::Fate,
    hostport::HostPortConfig,
    pair::Pair,
    rng::Rng,
    script::{Conn, Wr},
    sim::SimConfig,
    watch::Watch,
};
use std::sync::{
    atomic::{AtomicUsize, Ordering},
    Arc,
};

fn fast() -> Conn {
    Conn {
        mtu: 3,
        timeout: 6,
        ..Conn::default()
    }
}

fn at_once() -> SimConfig {
    SimConfig {
        host: AT_ONCE,
        ..SimConfig::default()
    }
}

/// Loses the `n`-th packet with payload of card 0.
fn lose(p: &mut Pair, n: usize) {
    let seen = AtomicUsize::new(0);
    p.sim.fabric.fate = Some(Box::new(move |from, f| {
        if from == 0 && f.data.len() > 100 && seen.fetch_add(1, Ordering::Relaxed) == n {
            return Fate::Lose;
        }
        Fate::Pass
    }));
}

/// Another thread of the program writes over a work request that the card has read: the first reading counts, also
/// when the message goes out again.
#[test]
fn a08_descriptors_are_read_once() {
    for lost in [0, 2, 3] {
        let (mut p, _) = pair(1, 1 << 16, &fast());
        lose(&mut p, lost);
        let data = Rng::new(8).bytes(4000);
        p.fill(0, 0, &data);
        let (buf, key) = (p.ends[0].buf, p.ends[0].key);
        let mut wr = p.rdma(0, op::WRITE, 0, 0, 4000);
        wr.sges = vec![
            (buf, 1000, key),
            (buf + 1000, 1, key),
            (buf + 1001, 2999, key),
        ];
        let reads = p.sim.nodes[0].host.stats.reads;
        let i = p.post(0, 0, &wr);
        while p.sim.nodes[0].host.stats.reads == reads || !p.sim.nodes[0].host.idle() {
            p.sim.step();
        }
        let ring = p.ends[0].qps[0].sq;
        p.sim.mem(0).poke(1, ring, &[0xFF; 128]);
        assert_eq!(take(&mut p, 0, 1), [(i, 0, false)]);
        p.run(500);
        assert!(p.read(1, 0, 4000) == data, "packet {lost} was lost");
    }
}

/// Each packet of a WRITE of four odd pieces is lost once.
#[test]
fn a09_resend_restores_the_cursor() {
    let (mut p, _) = pair(1, 1 << 16, &fast());
    let (buf, key) = (p.ends[0].buf, p.ends[0].key);
    for lost in 0..6 {
        lose(&mut p, lost);
        let data = Rng::new(lost as u64).bytes(5500);
        p.fill(0, 64, &data);
        p.fill(1, 0, &[0; 6000]);
        let mut wr = p.rdma(0, op::WRITE, 0, 7, 5500);
        let mut at = buf + 64;
        wr.sges = [777, 3, 2001, 2719]
            .map(|n| {
                at += n as u64;
                (at - n as u64, n, key)
            })
            .into();
        let before = p.sim.nodes[0].counter(Ctr::tx_retransmits);
        let i = p.post(0, 0, &wr);
        assert_eq!(take(&mut p, 0, 1), [(i, 0, false)]);
        settle(&mut p);
        assert!(p.read(1, 7, 5500) == data, "packet {lost}");
        assert_eq!(p.read(1, 5507, 100), [0; 100]);
        let again = p.sim.nodes[0].counter(Ctr::tx_retransmits) - before;
        assert!(again >= 6 - lost as u64, "from the lost one on");
    }
}

/// The receiver goes to ERR in the middle of a stream of messages, at many moments: each receive completes once, those
/// with success first.
#[test]
fn a14_error_in_the_middle_of_a_message() {
    let c = Conn {
        retry_cnt: 1,
        ..fast()
    };
    let (mut p, _) = pair(0, 1 << 16, &c);
    let mut rng = Rng::new(14);
    let (mut some, mut none) = (0, 0);
    for round in 0..12 {
        let q = p.add(&c, 6, 6);
        let (buf, key) = (p.ends[1].buf, p.ends[1].key);
        for _ in 0..16 {
            p.recv(1, q, &[(buf, 4096, key)]);
        }
        for _ in 0..16 {
            let wr = p.send(0, 0, 3000, None);
            p.post(0, q, &wr);
        }
        p.run(600 + rng.below(6000) as u32);
        p.to_state(1, q, 6);
        let got = take(&mut p, 1, 16);
        let good = got.iter().take_while(|c| c.1 == 0).count();
        let want: Vec<_> = (0..16)
            .map(|k| (k as u16, if k < good { 0 } else { 5 }, true))
            .collect();
        assert_eq!(got, want, "round {round}");
        some += (good > 0 && good < 16) as u32;
        none += (good == 0) as u32;
        // The sender gives up.
        assert_eq!(take(&mut p, 0, 16).len(), 16);
        quiet(&mut p);
    }
    assert!(some > 3 && none < 9, "{some} in the middle");
}

/// Whoever sees the completion sees the payload, in every cycle, however slow the bus is.
#[test]
fn a16_completion_follows_payload() {
    for mbps in [0, 10_000] {
        let cfg = SimConfig {
            host: HostPortConfig {
                mbps,
                ..HostPortConfig::default()
            },
            ..SimConfig::default()
        };
        let mut p = Pair::new(&cfg, 1, 1 << 18, &Conn::default());
        let mut rng = Rng::new(16);
        for len in [1u32, 64, 65, 1000, 4096, 4097, 20_000, 65_536] {
            let data = rng.bytes(len as usize);
            p.fill(0, 0, &data);
            p.fill(1, 0x2_0000, &data);
            p.fill(1, 0, &vec![0; len as usize]);
            p.fill(0, 0x2_0000, &vec![0; len as usize]);
            let sge = (p.ends[1].buf, len, p.ends[1].key);
            p.recv(1, 0, &[sge]);
            let (s, r) = (
                p.send(0, 0, len, None),
                p.rdma(0, op::READ, 0x2_0000, 0x2_0000, len),
            );
            p.post(0, 0, &s);
            p.post(0, 0, &r);
            let mut left = 3;
            while left > 0 {
                p.sim.step();
                if let Some(c) = p.poll(1) {
                    assert_eq!((c.status, c.is_recv), (0, true));
                    assert!(p.read(1, 0, len as usize) == data, "SEND, {len}");
                    left -= 1;
                }
                if let Some(c) = p.poll(0) {
                    assert_eq!(c.status, 0);
                    let at = 0x2_0000;
                    let there = c.opcode != op::READ || p.read(0, at, len as usize) == data;
                    assert!(there, "READ, {len}");
                    left -= 1;
                }
            }
        }
    }
}

/// A ring of 16 units, many times around, with inline data, direct WQEs, and lists of one and of two units mixed:
/// nothing of an older lap comes back.
#[test]
fn a17_ring_of_16_mixed() {
    let mut p = Pair::new(&at_once(), 0, 1 << 16, &fast());
    let q = p.add(&fast(), 4, 4);
    let mut rng = Rng::new(17);
    let (buf, key) = (p.ends[0].buf, p.ends[0].key);
    for round in 0..90u64 {
        let len = 1 + rng.below(32) as u32;
        let data = rng.bytes(len as usize);
        p.fill(1, 0, &[0; 64]);
        let mut wr = p.rdma(0, op::WRITE, 0, 0, len);
        match rng.below(3) {
            0 => {
                wr.sges.clear();
                wr.inline = Some(data.clone());
            }
            1 => p.fill(0, 0, &data),
            _ => {
                p.fill(0, 0, &data);
                wr.sges = (0..len.min(4))
                    .map(|k| {
                        let n = if k == len.min(4) - 1 { len - k } else { 1 };
                        (buf + k as u64, n, key)
                    })
                    .collect();
            }
        }
        let i = if rng.below(2) == 0 {
            p.post_direct(0, q, &wr)
        } else {
            p.post(0, q, &wr)
        };
        assert_eq!(take(&mut p, 0, 1), [(i, 0, false)], "round {round}");
        let mut want = data;
        want.resize(64, 0);
        assert_eq!(p.read(1, 0, 64), want, "round {round}");
    }
}

/// Pieces of 1 to 9 bytes around the edge of a page, at both ends and both ways; and up to the last byte of a region. (The
/// model of the bus stops the run when a request crosses 4 KiB.)
#[test]
fn a18_page_edges() {
    let mut p = Pair::new(&at_once(), 1, 1 << 16, &fast());
    let mut rng = Rng::new(18);
    let end = (1 << 16) + 8192;
    for len in 1..=9u32 {
        for off in 0xFFC..=0x1000u64 {
            for o in [op::WRITE, op::READ] {
                let (lo, ro) = match rng.below(3) {
                    0 => (off, 0x2000 + rng.below(64)),
                    1 => (0x2000 + rng.below(64), off),
                    _ => (off, end - len as u64),
                };
                let (src, soff, dst, doff) = match o {
                    op::READ => (1, ro, 0, lo),
                    _ => (0, lo, 1, ro),
                };
                let data = rng.bytes(len as usize);
                p.fill(src, soff, &data);
                // Nothing is written behind the region: the page list lies there.
                let size = if doff + len as u64 == end {
                    16 + len
                } else {
                    48
                } as usize;
                let guard = rng.bytes(size);
                p.fill(dst, doff - 16, &guard);
                let wr = p.rdma(0, o, lo, ro, len);
                p.post(0, 0, &wr);
                assert_eq!(p.wait(0, 100_000).status, 0);
                let n = len as usize;
                let want = [&guard[..16], &data[..], &guard[16 + n..]].concat();
                assert_eq!(
                    p.read(dst, doff - 16, size),
                    want,
                    "op {o}, {len} at {lo:#x}, {ro:#x}"
                );
            }
        }
    }
}

/// A SEND with fence of what a READ brings, on a slow bus: the peer gets the new bytes.
#[test]
fn a21_fence_waits_for_the_data() {
    let cfg = SimConfig {
        host: HostPortConfig {
            mbps: 4_000,
            read_ns: 20,
            spread_ns: 0,
            ..HostPortConfig::default()
        },
        ..SimConfig::default()
    };
    let mut p = Pair::new(&cfg, 1, 1 << 18, &Conn::default());
    let mut rng = Rng::new(21);
    for round in 0..4 {
        let data = rng.bytes(20_000);
        p.fill(1, 0, &data);
        let sge = (p.ends[1].buf + 0x1_0000, 20_000, p.ends[1].key);
        p.recv(1, 0, &[sge]);
        let r = p.rdma(0, op::READ, 0, 0, 20_000);
        let mut s = p.send(0, 0, 20_000, None);
        s.fence = true;
        p.post(0, 0, &r);
        p.post(0, 0, &s);
        assert_eq!(take(&mut p, 0, 2).len(), 2);
        assert_eq!(take(&mut p, 1, 1)[0].1, 0);
        assert!(p.read(1, 0x1_0000, 20_000) == data, "round {round}");
    }
}

/// Time of 150 WRITEs of 1 KiB one by one on QP 0 in ps.
fn clean_qp(p: &mut Pair) -> u64 {
    let t0 = p.sim.now_ps();
    for _ in 0..150 {
        let wr = p.rdma(0, op::WRITE, 0, 0, 1024);
        p.post(0, 0, &wr);
    }
    let mut left = 150;
    while left > 0 {
        let c = p.wait(0, 400_000);
        left -= (c.qpn == p.ends[0].qps[0].qpn) as u32;
    }
    p.sim.now_ps() - t0
}

/// QPs in trouble (no receive at the peer, a peer that never answers, one that is refused) cost a clean one nothing.
#[test]
fn b01_a_stuck_qp_stalls_nobody() {
    let mut p = Pair::new(&SimConfig::default(), 1, 1 << 16, &fast());
    clean_qp(&mut p);
    let alone = clean_qp(&mut p);
    let c = Conn {
        min_rnr: 1,
        timeout: 1,
        ..fast()
    };
    let stuck: Vec<usize> = (0..6).map(|_| p.add(&c, 6, 4)).collect();
    let dead: Vec<u32> = stuck[..3].iter().map(|q| p.ends[1].qps[*q].qpn).collect();
    p.sim.fabric.drop_if = Some(Box::new(move |_, f| {
        let qpn = u32::from_be_bytes([0, f.data[47], f.data[48], f.data[49]]);
        dead.contains(&qpn)
    }));
    for (k, q) in stuck.into_iter().enumerate() {
        for _ in 0..8 {
            let wr = match k {
                0..3 => p.rdma(0, op::WRITE, 0, 0, 256),
                _ => p.send(0, 0, 256, None),
            };
            p.post(0, q, &wr);
        }
    }
    let together = clean_qp(&mut p);
    println!("alone {alone} ps, together {together} ps");
    assert!(
        together * 10 < alone * 12,
        "alone {alone}, together {together}"
    );
}

/// A post at every moment of the life of the one before: no doorbell is lost.
#[test]
fn b10_post_while_the_last_is_consumed() {
    let mut p = Pair::new(&at_once(), 1, 1 << 16, &fast());
    for gap in 0..420 {
        let wr = p.rdma(0, op::WRITE, 0, 0, 8);
        let a = p.post(0, 0, &wr);
        p.run(gap);
        let b = p.post(0, 0, &wr);
        assert_eq!(
            take(&mut p, 0, 2),
            [(a, 0, false), (b, 0, false)],
            "{gap} cycles"
        );
    }
}

/// An acknowledgement for each of many small WRITEs, and one for 128.
#[test]
fn b16_one_ack_each_and_one_for_many() {
    let mut p = Pair::new(&at_once(), 1, 1 << 16, &fast());
    let mut posted = 0u32;
    let mut done = 0u32;
    while done < 1500 {
        while posted < 1500 && posted - done < 900 {
            let wr = p.rdma(0, op::WRITE, 0, 8 * (posted as u64 % 64), 8);
            p.post(0, 0, &wr);
            posted += 1;
        }
        let c = p.wait(0, 200_000);
        assert_eq!((c.status, c.index), (0, done as u16));
        done += 1;
    }
    for k in 0..128 {
        let mut wr = p.rdma(0, op::WRITE, 0, 8 * k, 8);
        wr.signaled = k == 127;
        let e = &mut p.ends[0];
        e.host.post_send(&mut p.sim, &mut e.qps[0], &wr);
    }
    let e = &p.ends[0];
    e.host.ring_sq(&mut p.sim, &e.qps[0]);
    assert_eq!(p.wait(0, 200_000).status, 0);
    settle(&mut p);
    let n = p.sim.nodes[0].counter(Ctr::tx_messages);
    assert_eq!((n, p.sim.nodes[0].counter(Ctr::tx_retransmits)), (1628, 0));
    quiet(&mut p);
}

/// More READs than may be in flight: they wait their turn (that no more are in flight is what the wire checker sees).
#[test]
fn b23_more_reads_than_may_be_in_flight() {
    let c = Conn {
        max_rd: 2,
        ..fast()
    };
    let mut p = Pair::new(&SimConfig::default(), 1, 1 << 18, &c);
    let w = Watch::new(&mut p, &c);
    let data = Rng::new(23).bytes(40 * 1500);
    p.fill(1, 0, &data);
    for k in 0..40u64 {
        let wr = Wr {
            signaled: k == 39,
            ..p.rdma(0, op::READ, 1500 * k, 1500 * k, 1500)
        };
        w.post(0, 0, &wr);
        p.post(0, 0, &wr);
    }
    assert_eq!(take(&mut p, 0, 1), [(39, 0, false)]);
    assert!(p.read(0, 0, data.len()) == data);
    settle(&mut p);
    w.check();
    w.compare(&mut p).expect("counters");
}

/// READs both ways, 64 in flight, lists of four: nothing is dropped or sent again, and at least 80 % of the line is used.
#[test]
fn e07_many_reads_both_ways() {
    let mut p = Pair::new(&SimConfig::default(), 1, 1 << 20, &Conn::default());
    const LEN: u32 = 16_384;
    let stop = Arc::new(AtomicUsize::new(0));
    let t0 = p.sim.now_ps();
    for k in 0..64u64 {
        for e in 0..2 {
            let mut wr = p.rdma(e, op::READ, 0, 0x8_0000 + 4096 * (k % 64), LEN);
            let (buf, key) = (p.ends[e].buf + 16_384 * (k % 16), p.ends[e].key);
            wr.sges = [0, 1, 2, 3].map(|n| (buf + n * 4096, 4096, key)).into();
            p.post(e, 0, &wr);
        }
    }
    for _ in 0..64 {
        for e in 0..2 {
            assert_eq!(p.wait(e, 200_000).status, 0);
            stop.fetch_add(1, Ordering::Relaxed);
        }
    }
    let ns = (p.sim.now_ps() - t0) / 1000;
    let gbps = 64 * LEN as u64 * 8 / ns;
    println!("{gbps} Gb/s each way");
    assert!(gbps >= 80, "{gbps} Gb/s");
    settle(&mut p);
    for (n, v) in p.counters().into_iter().flatten() {
        assert!(
            !n.starts_with("rx_drop") && n != "tx_retransmits",
            "{n} {v}"
        );
    }
}
