//! Requester against a software responder: every packet, placement job and completion is checked in `requester_world`.
mod requester_world;
use metaroce_rtl::types::{ctl, RxPkt};
use requester_world::*;

/// Random WQEs on several QPs, posted as the ring has room.
fn traffic(b: &mut Bench, qps: &[usize], each: usize, ops: &[u8], max_len: u64, cycles: usize) {
    let mut left: Vec<(usize, usize)> = qps.iter().map(|&q| (q, each)).collect();
    while !left.is_empty() {
        let k = b.w.rng.below(left.len() as u64) as usize;
        let (qp, n) = left[k];
        if b.w.room(qp) < 5 {
            b.until(cycles, |w| w.room(qp) >= 5);
            continue;
        }
        let op = ops[b.w.rng.below(ops.len() as u64) as usize];
        let sges = [0, 1, 1, 1, 2, 3, 5, 7, 16][b.w.rng.below(9) as usize];
        let mut rest = b.w.rng.below(max_len);
        if b.w.rng.p(0.2) {
            rest = mtu_bytes(&b.w.q[qp].cfg) as u64 * b.w.rng.below(4);
        }
        let mut lens = vec![];
        for i in 0..sges {
            let l = match (i + 1 == sges, b.w.rng.below(3)) {
                (true, _) => rest,
                (_, 0) => 0,
                _ => b.w.rng.below(rest + 1),
            };
            rest -= l;
            lens.push(l as u32);
        }
        if op > 5 {
            lens = vec![8];
        }
        if op > 7 {
            lens = vec![];
        }
        let inline = op < 5 && b.w.rng.p(0.2);
        if inline {
            lens = vec![];
        }
        let mut w = b.w.wqe(op, &lens);
        if inline {
            (w.inline, w.len) = (true, b.w.rng.below(33) as u32);
        }
        w.signaled = b.w.rng.p(0.6);
        w.solicited = b.w.rng.p(0.3);
        w.fence = b.w.rng.p(0.2);
        b.w.post(qp, w);
        left[k].1 = n - 1;
        left.retain(|x| x.1 > 0);
        for _ in 0..b.w.rng.below(30) {
            b.cycle();
        }
    }
    b.finish(cycles);
}

const ALL: &[u8] = &[0, 1, 2, 3, 4, 5, 5, 6, 7];

#[test]
fn perfect_wire() {
    let mut b = Bench::new(1);
    for (i, mtu) in [(0, 1), (2, 2), (5, 3), (7, 1)] {
        b.w.up(i, mtu, 0xFF_FFF0 + i as u32, |_| {});
    }
    traffic(&mut b, &[0, 2, 5, 7], 40, ALL, 1500, 4_000);
    assert_eq!(b.w.count, [0; 7]);
    all_good(&b, &[0, 2, 5, 7]);
}

/// UC beside RC: every message leaves once, in order, and completes when it has left; nothing else is waited for.
#[test]
fn unreliable_connection() {
    let mut b = Bench::new(12);
    b.w.up(0, 2, 0xFF_FFF0, |_| {});
    for i in [2, 5] {
        b.w.up(i, 1 + i as u64 / 2, 100, |c| c.qp_type = 1.into());
    }
    for _ in 0..3 {
        traffic(&mut b, &[2, 5], 30, &[0, 1, 3, 4], 3000, 6_000);
        traffic(&mut b, &[0, 5], 10, &[0, 3], 3000, 6_000);
    }
    assert_eq!(b.w.count, [0; 7]);
    all_good(&b, &[0, 2, 5]);
    // what UC does not have ends with LOC_QP_OP, behind what is under way
    let mut w = b.w.wqe(3, &[5000]);
    b.w.post(2, w);
    w = b.w.wqe(5, &[100]);
    b.w.post(2, w);
    w = b.w.wqe(3, &[100]);
    b.w.post(2, w);
    b.finish(3_000);
    let s = b.w.statuses(2);
    assert_eq!(s[s.len() - 3..], [0, 2, 5]);
}

/// A card without atomics refuses both as it refuses any operation that it does not know, and nothing of them leaves.
#[test]
fn without_atomics() {
    let mut b = Bench::new(17);
    b.w.no_atomics = true;
    b.w.up(0, 1, 50, |_| {});
    b.w.up(5, 3, 60, |_| {});
    traffic(&mut b, &[0, 5], 30, &[0, 1, 2, 3, 4, 5], 1500, 6_000);
    all_good(&b, &[0, 5]);
    for (i, op) in [(0, 6), (5, 7)] {
        let n = b.w.statuses(i).len();
        for op in [3, op, 3] {
            let w = b.w.wqe(op, &[8]);
            b.w.post(i, w);
        }
        b.finish(6_000);
        assert_eq!(b.w.statuses(i)[n..], [0, 2, 5]);
        let last = b.w.q[i].tx.last().expect("a packet");
        assert!(last.cmd.opcode.index() < 12, "no atomic leaves");
    }
}

/// LOCAL_INV and BIND_MW between all else, on a lossy wire and over UC: each once, alone in its queue, in order. What is refused ends the QP.
#[test]
fn local_operations() {
    for (seed, loss) in [(14, 0.0), (15, 0.05)] {
        let mut b = Bench::new(seed);
        b.w.loss = loss;
        for i in [0, 6] {
            b.w.up(i, 1 + i as u64 / 3, 0xFF_FFF0, |c| c.timeout = 1.into());
        }
        b.w.up(3, 2, 70, |c| c.qp_type = 1.into());
        traffic(&mut b, &[0, 6], 40, &[0, 2, 3, 5, 6, 8, 9, 9], 1500, 20_000);
        traffic(&mut b, &[3], 30, &[0, 3, 8, 9], 1500, 20_000);
        all_good(&b, &[0, 3, 6]);
        println!("{} operations", b.w.bound);
        assert!(b.w.bound > 30);
        for (i, op) in [(0, 8), (3, 9)] {
            let n = b.w.statuses(i).len();
            let lens = |op| if op > 7 { vec![] } else { vec![700] };
            for (k, op) in [3, op, op, 3].into_iter().enumerate() {
                let mut w = b.w.wqe(op, &lens(op));
                w.key_xor = (k == 1) as u32;
                b.w.post(i, w);
            }
            b.finish(20_000);
            assert_eq!(b.w.statuses(i)[n..], [0, 6, 5, 5]);
            assert_eq!(b.w.q[i].errs, [0]);
        }
    }
    // a window is no memory of one's own
    let mut b = Bench::new(16);
    b.w.up(2, 1, 9, |_| {});
    for m in &mut b.w.mr {
        m.window = true;
    }
    let w = b.w.wqe(3, &[500]);
    b.w.post(2, w);
    b.finish(1000);
    assert_eq!(b.w.statuses(2), [4]);
    // not for UD
    let mut b = Bench::new(17);
    b.w.up(2, 5, 9, |c| c.qp_type = 2.into());
    let w = b.w.wqe(8, &[]);
    b.w.post(2, w);
    b.finish(1000);
    assert_eq!(b.w.statuses(2), [2]);
}

/// UD beside RC: one packet each, with its address vector and SGEs behind that.
#[test]
fn datagrams() {
    let mut b = Bench::new(13);
    b.w.up(0, 2, 100, |_| {});
    for i in [3, 6] {
        b.w.up(i, 5, 0xFF_FFF0, |c| c.qp_type = 2.into());
    }
    for k in 0..60u32 {
        for i in [3, 6] {
            let n = [1, 0, 1, 2, 3, 5, 14][b.w.rng.below(7) as usize];
            let lens: Vec<u32> = (0..n).map(|_| b.w.rng.below(4096 / n) as u32).collect();
            let mut w = b.w.wqe((k & 1) as u8, &lens);
            w.ip6 = b.w.rng.p(0.5);
            w.vlan = b.w.rng.p(0.5);
            w.signaled = b.w.rng.p(0.7);
            while b.w.room(i) < 5 {
                b.cycle();
            }
            b.w.post(i, w);
        }
        if k % 3 == 0 && b.w.room(0) > 5 {
            let w = b.w.wqe(3, &[700]);
            b.w.post(0, w);
        }
    }
    b.finish(8_000);
    assert_eq!(b.w.count, [0; 7]);
    all_good(&b, &[0, 3, 6]);
    // more than 4096 bytes, and WRITE
    let w = b.w.wqe(0, &[4097]);
    b.w.post(3, w);
    let w = b.w.wqe(3, &[10]);
    b.w.post(6, w);
    b.finish(2_000);
    assert_eq!(b.w.statuses(3).last(), Some(&1));
    assert_eq!(b.w.statuses(6).last(), Some(&2));
}

/// Every WQE of these QPs completed with success, each signaled one with a CQE.
fn all_good(b: &Bench, qps: &[usize]) {
    for &i in qps {
        let q = &b.w.q[i];
        assert_eq!(q.cqes.len(), q.wqes.iter().filter(|w| w.signaled).count());
        assert!(q.cqes.iter().all(|x| x.1 == 0) && q.errs.is_empty());
        assert!(q.epsn == q.post_psn || q.uc());
    }
}

#[test]
fn back_pressure() {
    let mut b = Bench::new(2);
    b.w.ready = 0.4;
    b.w.up(1, 1, 77, |_| {});
    b.w.up(6, 2, 0x80_0000, |c| c.max_rd = 1.into());
    traffic(&mut b, &[1, 6], 50, ALL, 1500, 8_000);
    all_good(&b, &[1, 6]);
    assert_eq!(b.w.count, [0; 7]);
}

/// Losses in both directions: timeouts, sequence NAKs, READ gaps, duplicate responses. Time jumps to the deadline whenever all is silent.
#[test]
fn lossy_wire() {
    for seed in [3, 4] {
        let mut b = Bench::new(seed);
        b.w.ready = 0.8;
        b.w.loss = 0.08;
        for i in [0, 3, 4] {
            b.w.up(i, 1, 0xFF_FF80 + i as u32, |c| c.timeout = 1.into());
        }
        traffic(&mut b, &[0, 3, 4], 50, ALL, 1500, 20_000);
        all_good(&b, &[0, 3, 4]);
        println!("events {:?}", b.w.count);
        assert!(b.w.count[..3].iter().all(|n| *n > 2) && b.w.count[5] > 5);
    }
}

#[test]
fn rnr_waits_its_time() {
    let mut b = Bench::new(5);
    b.w.up(2, 3, 9, |_| {});
    b.w.q[2].rnr = (0.5, 14);
    traffic(&mut b, &[2], 40, &[0, 1, 3, 5], 3000, 20_000);
    all_good(&b, &[2]);
    assert!(b.w.count[4] > 5);
    assert_eq!(b.w.count[1], 0, "an RNR wait is no timeout");
    // 1.28 ms each
    assert!(b.w.now > 1_000_000 + 1_280_000 * b.w.count[4] as u64);
    assert!(b.w.now < 1_000_000 + 1_290_000 * b.w.count[4] as u64 + 400_000);

    // rnr_retry 3: the fourth RNR NAK ends it
    let mut b = Bench::new(6);
    b.w.up(2, 3, 9, |c| c.rnr_retry = 3.into());
    b.w.q[2].rnr = (1.0, 0);
    for op in [3, 0, 3] {
        let w = b.w.wqe(op, &[10]);
        b.w.post(2, w);
    }
    b.finish(8_000);
    assert_eq!(b.w.statuses(2), [0, 13, 5]);
    assert_eq!(b.w.count[4], 4);
    assert!(b.w.now > 1_000_000 + 3 * 655_360_000 && b.w.now < 4 * 655_360_000);
    assert_eq!(b.w.q[2].errs, [0]);
}

#[test]
fn silent_peer() {
    for (t, cnt) in [(1, 0), (3, 2), (14, 7), (31, 1)] {
        let mut b = Bench::new(7);
        b.w.up(2, 3, 9, |c| {
            c.timeout = t.into();
            c.retry_cnt = cnt.into();
        });
        b.w.q[2].mute = true;
        for _ in 0..3 {
            let w = b.w.wqe(3, &[3000]);
            b.w.post(2, w);
        }
        b.finish(8_000);
        assert_eq!(b.w.statuses(2), [12, 5, 5]);
        assert_eq!(b.w.count[1] as u64, cnt + 1);
        assert_eq!(b.w.q[2].tx.len() as u64, 9 * (cnt + 1));
        assert_eq!(b.w.count[0] as u64, 9 * cnt);
        let tries = (cnt + 1) * (4096 << t);
        let spent = b.w.now - 1_000_000;
        assert!(
            spent >= tries && spent < tries + tries / 4 + 100_000,
            "{spent} for {tries}"
        );
    }
    // timeout 0: never
    let mut b = Bench::new(8);
    b.w.up(2, 3, 9, |c| c.timeout = 0.into());
    b.w.q[2].mute = true;
    let w = b.w.wqe(3, &[30]);
    b.w.post(2, w);
    b.run(1000);
    assert_eq!(b.w.q[2].tx.len(), 1);
    assert!(b.w.o.idle && b.w.o.deadline_valid && b.w.o.deadline == (1 << 48) - 1);
}

/// Local faults: earlier WQEs complete, then the error, then flushes.
#[test]
fn local_errors() {
    let faults: [(u8, fn(&mut Wqe)); 11] = [
        (4, |w| w.key_xor = 1),
        (4, |w| w.key_xor = 1 << 31),
        (4, |w| w.key_xor = 16 << 8),
        (4, |w| w.sge.last_mut().unwrap().1 += 0x9_0000_0000),
        (4, |w| w.sge.last_mut().unwrap().1 ^= 1 << 63),
        (1, |w| w.len += 1),
        (2, |w| w.op = 9),
        (2, |w| w.index_xor = 0x20),
        // with an SGE, or of an operation that has none
        (2, |w| w.inline = true),
        (2, |w| (w.inline, w.op) = (true, 5)),
        (1, |w| {
            (w.inline, w.op, w.len, w.sge) = (true, 3, 33, vec![])
        }),
    ];
    for (n, (status, f)) in faults.into_iter().enumerate() {
        for sges in [&[100u32][..], &[50, 300, 20, 100]] {
            if n == 7 && sges.len() > 2 {
                // a stale entry counts as one unit, so its second unit is an entry of its own
                continue;
            }
            let mut b = Bench::new(9 + n as u64);
            b.w.up(2, 1, 9, |_| {});
            for op in [3, 5, 3] {
                let w = b.w.wqe(op, &[2000]);
                b.w.post(2, w);
            }
            let mut w = b.w.wqe([3, 5, 0][n % 3], sges);
            w.signaled = false;
            f(&mut w);
            b.w.post(2, w);
            for _ in 0..3 {
                let w = b.w.wqe(3, &[10]);
                b.w.post(2, w);
            }
            b.finish(6_000);
            assert_eq!(b.w.statuses(2), [0, 0, 0, status, 5, 5, 5], "fault {n}");
            assert_eq!(b.w.q[2].tx.len(), 8 + 1 + 8);
            assert_eq!(b.w.q[2].errs, [0]);
            // posted later: flushed too
            let w = b.w.wqe(5, &[10]);
            b.w.post(2, w);
            b.finish(500);
            assert_eq!(b.w.statuses(2)[7], 5);
            // and after RESET and START it works again
            b.w.up(2, 1, 99, |_| {});
            b.finish(500);
        }
    }
    // READ into memory without local write
    let mut b = Bench::new(30);
    b.w.up(2, 1, 9, |_| {});
    for m in &mut b.w.mr {
        m.local_write = false;
    }
    for op in [3, 5] {
        let w = b.w.wqe(op, &[500]);
        b.w.post(2, w);
    }
    b.finish(1000);
    assert_eq!(b.w.statuses(2), [0, 4]);
    // deregistered between two packets of a message, and between a READ and its data
    let mut b = Bench::new(31);
    b.w.up(2, 1, 9, |_| {});
    b.w.up(3, 1, 9, |_| {});
    let w = b.w.wqe(3, &[100, 20_000]);
    b.w.post(2, w);
    let w = b.w.wqe(5, &[100, 20_000]);
    b.w.post(3, w);
    b.until(2000, |w| w.q[2].tx.len() > 20 && w.pl_log.len() > 20);
    for m in &mut b.w.mr {
        m.valid = false;
    }
    b.finish(3000);
    assert_eq!((b.w.statuses(2), b.w.statuses(3)), (vec![4], vec![4]));
    assert!(b.w.q[2].tx.len() < 70);
}

/// NAKs that end the QP, for the WQE that holds the PSN; earlier WQEs are complete.
#[test]
fn fatal_naks() {
    for (syn, status) in [(0x61, 9), (0x62, 10), (0x63, 11)] {
        let mut b = Bench::new(40);
        b.w.manual = true;
        b.w.up(2, 1, 0xFF_FFFE, |_| {});
        for op in [3, 0, 3, 0] {
            let w = b.w.wqe(op, &[700]);
            b.w.post(2, w);
        }
        b.until(1000, |w| w.q[2].tx.len() == 12);
        b.w.ack(2, 7, 0x64);
        b.w.ack(2, 7, 0x80 | syn);
        b.run(100);
        assert!(b.w.statuses(2).is_empty());
        b.w.ack(2, 5, syn);
        b.w.ack(2, 9, 0x1F);
        b.finish(1000);
        assert_eq!(b.w.statuses(2), [0, 0, status, 5]);
        assert_eq!(b.w.count[6], 1);
    }
}

/// WRITE, READ, WRITE; the READ's data is lost and the last WRITE is acknowledged: the READ is asked for again, from the first missing PSN.
#[test]
fn implied_nak() {
    let mut b = Bench::new(50);
    b.w.manual = true;
    b.w.up(2, 1, 40, |_| {});
    for (op, len) in [(3, 100), (5, 1000), (3, 200)] {
        let w = b.w.wqe(op, &[len]);
        b.w.post(2, w);
    }
    b.until(1000, |w| w.q[2].tx.len() == 3);
    let va = b.w.q[2].wqes[1].va;
    b.w.read_resp(2, 41, 13, 256, va);
    b.w.ack(2, 45, 0x1F);
    b.w.ack(2, 45, 0x1F);
    b.w.read_resp(2, 44, 15, 232, va + 768);
    b.until(1000, |w| w.q[2].tx.len() == 5);
    b.run(100);
    assert_eq!(b.w.statuses(2), [0]);
    let p = &b.w.q[2].tx;
    assert_eq!(p.len(), 5);
    assert_eq!((p[3].cmd.opcode.index(), p[3].cmd.psn.index()), (12, 42));
    assert_eq!(p[4].cmd.psn.index(), 45);
    assert_eq!(b.w.count[0], 2);
    for (k, op) in [(1u64, 13), (2, 14), (3, 15)] {
        let len = if k == 3 { 232 } else { 256 };
        b.w.read_resp(2, 41 + k as u32, op, len, va + k * 256);
    }
    b.w.ack(2, 45, 0x1F);
    b.finish(500);
    assert_eq!(b.w.statuses(2), [0, 0, 0]);
}

/// Responses that must change nothing: other tag, past and future PSNs, data for a WRITE, reserved syndromes, ATOMIC ACK, state not RTS.
#[test]
fn ghosts() {
    let mut b = Bench::new(60);
    b.w.manual = true;
    b.w.up(2, 1, 40, |_| {});
    for op in [3, 5] {
        let w = b.w.wqe(op, &[700]);
        b.w.post(2, w);
    }
    b.until(1000, |w| w.q[2].tx.len() == 4);
    for psn in [39, 38, 46, 47, 0x80_0000, 0xFF_FFFF] {
        for syn in [0x1F, 0x60, 0x21, 0x61] {
            b.w.ack(2, psn, syn);
        }
        b.w.read_resp(2, psn, 16, 100, 0);
    }
    b.w.read_resp(2, 40, 16, 100, 0);
    b.w.ack(2, 42, 0x45);
    b.w.ack(2, 42, 0x7F);
    let r = b.w.pkt(2, 42);
    b.w.deliver(
        RxPkt {
            opcode: 0x12.into(),
            psn: 40.into(),
            ..r
        },
        0,
    );
    b.w.deliver(
        RxPkt {
            opcode: 0x11.into(),
            qpn: (u64::from(r.qpn) ^ (1 << LOG_QP)).into(),
            ..r
        },
        0,
    );
    b.w.deliver(
        RxPkt {
            opcode: 0x11.into(),
            qpn: (u64::from(r.qpn) ^ 1).into(),
            ..r
        },
        0,
    );
    b.run(900);
    assert_eq!(b.w.count, [0, 0, 34, 2, 0, 0, 0]);
    assert!(b.w.statuses(2).is_empty() && b.w.q[2].tx.len() == 4);
    // wrong opcode or length of an expected response
    let va = b.w.q[2].wqes[1].va;
    b.w.read_resp(2, 43, 13, 256, va);
    b.w.read_resp(2, 44, 15, 256, va + 256);
    b.finish(500);
    assert_eq!(b.w.statuses(2), [0, 7]);
}

#[test]
fn read_limit_and_fence() {
    let mut b = Bench::new(70);
    b.w.manual = true;
    b.w.hold_fence = true;
    b.w.up(2, 1, 40, |c| c.max_rd = 3.into());
    for _ in 0..4 {
        let w = b.w.wqe(5, &[100]);
        b.w.post(2, w);
    }
    let mut w = b.w.wqe(0, &[100]);
    w.fence = true;
    b.w.post(2, w);
    b.run(300);
    assert_eq!(b.w.q[2].tx.len(), 3);
    for k in 0..4u32 {
        let va = b.w.q[2].wqes[k as usize].va;
        b.w.read_resp(2, 40 + k, 16, 100, va);
        b.run(100);
        assert_eq!(b.w.q[2].tx.len(), 4);
    }
    // all READs complete, but their data may still be on the way to memory; other QPs go on
    assert_eq!(b.w.statuses(2), [0; 4]);
    assert!(!b.w.o.idle);
    b.w.manual = false;
    b.w.up(5, 1, 40, |_| {});
    for op in [5, 0, 5, 0] {
        let mut w = b.w.wqe(op, &[100]);
        w.fence = true;
        b.w.post(5, w);
    }
    b.run(500);
    assert_eq!(b.w.statuses(5), [0]);
    b.w.q[2].epsn = 44;
    b.w.hold_fence = false;
    b.finish(1500);
    assert_eq!((b.w.statuses(2), b.w.statuses(5)), (vec![0; 5], vec![0; 4]));
}

/// Lengths around the MTU and the largest READ: PSNs, window, no empty last packet.
#[test]
fn sizes() {
    let mut b = Bench::new(80);
    b.w.up(2, 1, 0xFF_FF00, |_| {});
    for op in [0, 3, 4, 5] {
        for len in [0, 1, 3, 4, 5, 255, 256, 257, 511, 512, 513, 2000] {
            b.until(500, |w| w.room(2) > 1);
            let w = b.w.wqe(op, &[len]);
            b.w.post(2, w);
        }
    }
    b.finish(3000);
    all_good(&b, &[2]);
    // 2^31 bytes: 2^23 PSNs at MTU 256; the window opens again when the end is near
    let mut b = Bench::new(81);
    b.w.manual = true;
    b.w.up(2, 1, 0xFF_FFFF, |c| c.timeout = 0.into());
    for (op, len) in [(3, 10), (5, 1 << 31), (3, 10)] {
        let w = b.w.wqe(op, &[len]);
        b.w.post(2, w);
    }
    b.run(300);
    assert_eq!(b.w.q[2].tx.len(), 2);
    b.w.command(ctl::QUERY, 2, 0, 0);
    let va = b.w.q[2].wqes[1].va;
    for k in 0..3u32 {
        b.w.read_resp(2, k, if k == 0 { 13 } else { 14 }, 256, va + 256 * k as u64);
    }
    b.run(300);
    assert_eq!(b.w.ctl_answers.last(), Some(&(0x80_0000, 0, true)));
    assert_eq!((b.w.statuses(2), b.w.count[2]), (vec![0], 0));
    // one byte more is too long
    let mut b = Bench::new(82);
    b.w.up(2, 1, 1, |_| {});
    let w = b.w.wqe(5, &[1 << 31, 1]);
    b.w.post(2, w);
    b.finish(300);
    assert_eq!(b.w.statuses(2), [1]);
}

/// FLUSH with a status for the oldest, FENCE tokens, QUERY, SQD and KICK.
#[test]
fn control() {
    let mut b = Bench::new(90);
    b.w.manual = true;
    b.w.up(2, 1, 40, |_| {});
    for _ in 0..16 {
        let w = b.w.wqe(3, &[10]);
        b.w.post(2, w);
    }
    b.run(60);
    b.w.command(ctl::FENCE, 2, 0, 0);
    b.w.command(ctl::QUERY, 2, 0, 0);
    b.w.command(ctl::FLUSH, 2, 0, 4);
    b.w.command(ctl::FLUSH, 2, 0, 0);
    b.finish(600);
    assert_eq!((b.w.token_tx, b.w.token_pl), (1, 1));
    let mut want = vec![5; 16];
    want[0] = 4;
    assert_eq!(b.w.statuses(2), want);
    assert!(b.w.q[2].errs.is_empty());
    b.w.ack(2, 40, 0x1F);
    b.run(60);
    assert_eq!(b.w.count[3], 1);
    // SQD: a begun message goes on, a new one does not start
    let mut b = Bench::new(91);
    b.w.up(2, 1, 40, |_| {});
    for _ in 0..2 {
        let w = b.w.wqe(3, &[4000]);
        b.w.post(2, w);
    }
    b.until(500, |w| w.q[2].tx.len() == 3);
    b.w.q[2].cfg.state = 4.into();
    b.run(400);
    assert_eq!((b.w.q[2].tx.len(), b.w.statuses(2)), (16, vec![0]));
    b.w.command(ctl::QUERY, 2, 0, 0);
    b.run(20);
    assert_eq!(b.w.ctl_answers.last(), Some(&(56, 1, false)));
    b.w.q[2].cfg.state = 3.into();
    b.w.command(ctl::KICK, 2, 0, 0);
    b.finish(600);
    all_good(&b, &[2]);
}

/// Cycles per packet with one SGE, one QP.
#[test]
fn speed() {
    for (op, len, max) in [(3, 64, 6.2), (3, 5000, 6.2), (5, 64, 15.0), (5, 5000, 7.6)] {
        let mut b = Bench::new(100);
        b.w.up(2, 1, 40, |c| {
            c.max_rd = if len > 64 { 4 } else { 16 }.into()
        });
        for _ in 0..24 {
            let mut w = b.w.wqe(op, &[len]);
            w.signaled = false;
            b.w.post(2, w);
        }
        let t = b.w.cycle;
        if op == 5 {
            b.finish(12_000);
        } else {
            b.w.manual = true;
            let n = (24 * len.div_ceil(256)).min(256) as usize;
            b.until(12_000, |w| w.q[2].tx.len() >= n);
        }
        let packets = if op == 5 {
            24 * len.div_ceil(256)
        } else {
            b.w.q[2].tx.len() as u32
        };
        let each = (b.w.cycle - t) as f64 / packets as f64;
        println!("op {op} length {len}: {each:.2} cycles per packet");
        assert!(
            each < max + 60.0 / packets as f64,
            "op {op} length {len}: {each}"
        );
    }
}

/// The same closed loop through rust-hdl and Verilator, on all outputs.
#[test]
fn differential() {
    use metaroce_rtl::{diff::Diff, inputs};
    for (seed, loss, cycles) in [(200u64, 0.0, 2500), (201, 0.1, 6000)] {
        let mut w = World::new(seed);
        w.ready = 0.7;
        w.loss = loss;
        w.up(0, 1, 0xFF_FFF0, |c| c.timeout = 1.into());
        w.up(5, 2, 5, |c| (c.timeout, c.rnr_retry) = (1.into(), 7.into()));
        w.q[5].rnr = (loss, 1);
        let done = std::cell::Cell::new(0);
        Diff::new(
            "requester_3_5_4",
            Dut::default,
            inputs!(
                rst,
                now,
                sched_valid,
                sched_data,
                rx_valid,
                rx_data,
                ctl_valid,
                ctl_data,
                cfg_rdata,
                mrc_rdata,
                slot_rdata,
                avail_rdata,
                stamp_rdata,
                tx_ready,
                pl_ready,
                pl_fence,
                td_valid,
                td_qp,
                ua_ready,
                sqfree_ready,
                err_ready,
                no_atomics,
                win_done,
                win_ok
            ),
        )
        .seed(seed)
        .cycles(cycles)
        .stim(|s| {
            if s.cycle > 20 && s.cycle % 40 == 0 && s.cycle < cycles * 3 / 4 {
                for i in [0, 5] {
                    if w.room(i) >= 5 {
                        let op = w.rng.below(10) as u8;
                        let mut lens: Vec<u32> = (0..w.rng.below(7))
                            .map(|_| w.rng.below(400) as u32)
                            .collect();
                        if op > 5 {
                            lens = vec![8];
                        }
                        if op > 7 {
                            lens = vec![];
                        }
                        let mut x = w.wqe(op, &lens);
                        x.fence = w.rng.p(0.2);
                        x.key_xor = w.rng.p(0.01) as u32;
                        w.post(i, x);
                    }
                }
            }
            if s.cycle == cycles - 300 {
                w.command(ctl::FENCE, 0, 0, 0);
                w.command(ctl::FLUSH, 0, 0, 4);
            }
            w.stim(s);
            done.set(w.q.iter().map(|q| q.cqes.len()).sum());
        })
        .run();
        println!("{} completions, {} of windows", done.get(), w.bound);
        assert!(done.get() > 40 && w.bound > 5);
    }
}

#[test]
fn parts_differential() {
    use metaroce_rtl::requester::{FenceSplit, Sched, Timer};
    use metaroce_rtl::{diff::Diff, inputs};
    Diff::new(
        "req_sched",
        Sched::<3>::default,
        inputs!(rst, i_valid, i_qp, e_valid, e_qp, m_ready),
    )
    .max("i_qp", 7)
    .max("e_qp", 7)
    .p("rst", 0.0)
    .stim(|s| s.set("rst", (s.cycle < 2) as u8))
    .cycles(1500)
    .run();
    Diff::new(
        "req_timer",
        Timer::<2>::default,
        inputs!(rst, now, we, qp, on, at, m_ready),
    )
    .p("we", 0.08)
    .max("at", 300)
    .stim(|s| {
        let t = s.cycle as u64 / 3;
        s.set("now", t)
    })
    .cycles(1500)
    .run();
    // two tokens at a time, of alternating kinds
    let mut open = 0;
    let mut last = (false, false);
    Diff::new(
        "req_fence",
        FenceSplit::default,
        inputs!(rst, job_valid, job_data, job_ready, done),
    )
    .stim(move |s| {
        s.set("rst", (s.cycle < 2) as u8);
        open += last.0 as i32 - last.1 as i32;
        let kind = s.get_u64("job_data") & 3;
        let go = open < 3 && s.get_u64("job_valid") == 1 && s.cycle > 2;
        s.set("job_valid", go as u8);
        let done = open > 0 && s.rng.p(0.4);
        s.set("done", done as u8);
        last = (go && s.get_u64("job_ready") == 1 && kind == 3, done);
    })
    .run();
}

/// Every QP that is pushed is shown again, however pushes and takes interleave; none is shown more often than it was pushed.
#[test]
fn no_wakeup_is_lost() {
    use metaroce_rtl::diff::Rng;
    use metaroce_rtl::requester::Sched;
    use rust_hdl::prelude::*;
    let mut u = Box::<Sched<3>>::default();
    u.connect_all();
    let mut rng = Rng(11);
    let (mut pushes, mut takes, mut waiting) = ([0u32; 8], [0u32; 8], [false; 8]);
    for cycle in 0..4000u64 {
        let draining = cycle % 1000 > 900;
        u.clock.next = Clock { clk: false };
        u.rst.next = cycle < 2;
        u.i_valid.next = cycle > 2 && !draining && rng.p(0.3);
        u.e_valid.next = cycle > 2 && !draining && rng.p(0.3);
        u.i_qp.next = rng.below(8).into();
        u.e_qp.next = rng.below(8).into();
        u.m_ready.next = u.m_valid.val() && (draining || rng.p(0.3));
        assert!(simulate(&mut *u, 50));
        if u.m_valid.val() && u.m_ready.val() {
            let q = u.m_qp.val().index();
            takes[q] += 1;
            waiting[q] = false;
            assert!(takes[q] <= pushes[q], "QP {q} shown without a push");
        }
        let i = (u.i_valid.val() && u.i_ready.val()).then(|| u.i_qp.val().index());
        let e = (u.e_valid.val() && u.e_ready.val()).then(|| u.e_qp.val().index());
        for q in i.into_iter().chain(e) {
            pushes[q] += 1;
            waiting[q] = true;
        }
        if cycle % 1000 == 999 {
            assert!(u.idle.val() && waiting == [false; 8], "{waiting:?}");
        }
        u.clock.next = Clock { clk: true };
        assert!(simulate(&mut *u, 50));
    }
    assert!(takes.iter().sum::<u32>() > 400);
}

/// The sizes of the named configurations elaborate.
#[test]
fn configurations() {
    use metaroce_rtl::{emit::emit_verilog, requester::Requester};
    for v in [
        emit_verilog("requester_100g", &mut Requester::<8, 5, 12>::default()),
        emit_verilog("requester_1g", &mut Requester::<5, 3, 6>::default()),
    ] {
        assert!(v.contains("endmodule"));
    }
}
