//! Requester against a software responder: every packet, placement job and completion is checked in `requester_world`.
mod requester_world;
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
        let mut w = b.w.wqe(op, &lens);
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

const ALL: &[u8] = &[0, 1, 2, 3, 4, 5, 5];

#[test]
fn perfect_wire() {
    let mut b = Bench::new(1);
    for (i, mtu) in [(0, 1), (2, 2), (5, 3), (7, 1)] {
        b.w.up(i, mtu, 0xFF_FFF0 + i as u32, |_| {});
    }
    traffic(&mut b, &[0, 2, 5, 7], 40, ALL, 1500, 4_000);
    assert_eq!(b.w.count, [0; 7]);
    for i in [0, 2, 5, 7] {
        let q = &b.w.q[i];
        assert_eq!(q.cqes.len(), q.wqes.iter().filter(|w| w.signaled).count());
        assert!(q.cqes.iter().all(|x| x.1 == 0) && q.errs.is_empty());
        assert_eq!(q.epsn, q.post_psn);
    }
}

#[test]
fn one_write() {
    let mut b = Bench::new(1);
    b.w.up(2, 1, 0xFF_FFF0, |_| {});
    for op in [3, 0, 4, 1, 2, 5, 5, 0] {
        let w = b.w.wqe(op, &[300]);
        b.w.post(2, w);
    }
    let w = b.w.wqe(3, &[300, 0, 200, 1000, 20, 256, 7]);
    b.w.post(2, w);
    for _ in 0..1500 {
        b.cycle();
        if b.w.done() { break; }
        if let Some(t) = b.w.o.tx { println!("{} tx op {} psn {:x} len {} seg {:?}", b.w.cycle, t.opcode.index(), t.psn.index(), t.len.index(), t.seg_len.index()); }
        if let Some(t) = b.w.o.pl { println!("{} pl {} st {} idx {} free {}", b.w.cycle, t.kind.index(), t.status.index(), t.index.index(), t.free); }
    }
    println!("{:?}", b.w.q[2].cqes);
    b.finish(1000);
}
