//! Events that no error makes, and numbers that nobody can guess.

use super::{Bench, Did};
use crate::{bring, go, ready};
use metaroce_hdl_spec::cqe::event;
use metaroce_protocol::qp::attr;
use std::collections::BTreeMap;

const NONE: [u64; 0] = [];

/// SQ_DRAINED comes once, when nothing is on its way, and only for a QP that asked and is still in SQD.
#[test]
fn drained_send_queues() {
    let mut b = Bench::new(11, 0.7);
    let (pd, cq) = ready(&mut b);
    let asked = |b: &mut Bench, qpn: u64, busy: bool| {
        bring(b, qpn, 3);
        b.busy = busy;
        go(b, qpn, 4, attr::STATE | attr::EN_SQD_ASYNC_NOTIFY);
    };
    let drained = |d: &[Did]| -> Vec<u64> {
        d.iter()
            .filter_map(|x| match x {
                Did::Event(1, k, id) if *k == event::SQ_DRAINED as u64 => Some(*id),
                Did::Event(..) => panic!("{x:?}"),
                _ => None,
            })
            .collect()
    };
    let q: Vec<u64> = (0..5).map(|_| b.qp(1, pd, cq, cq).unwrap()).collect();
    // at once; and not again
    asked(&mut b, q[0], false);
    b.settle();
    assert_eq!(drained(&b.take()), [q[0]]);
    b.freed = Some(q[0] % 16);
    b.settle();
    assert_eq!(drained(&b.take()), NONE);
    // not asked
    bring(&mut b, q[1], 4);
    b.freed = Some(q[1] % 16);
    b.settle();
    assert_eq!(drained(&b.take()), NONE);
    // later, and of two that wait only when it is their turn
    asked(&mut b, q[2], true);
    asked(&mut b, q[3], true);
    for k in 0..6 {
        b.freed = Some(q[2 + k % 2] % 16);
        b.settle();
    }
    // traffic of others is nobody's business here: no query
    b.take();
    b.freed = Some(q[0] % 16);
    b.settle();
    assert_eq!(b.take(), []);
    b.busy = false;
    b.freed = Some(q[3] % 16);
    b.settle();
    let mut d = drained(&b.take());
    d.sort_unstable();
    let mut both = vec![q[2], q[3]];
    both.sort_unstable();
    assert_eq!(d, both);
    // left SQD before it had drained; failed
    asked(&mut b, q[4], true);
    b.settle();
    go(&mut b, q[4], 3, attr::STATE);
    b.busy = false;
    b.freed = Some(q[4] % 16);
    b.settle();
    assert_eq!(drained(&b.take()), NONE);
    asked_err(&mut b, q[1]);
    b.settle();
    b.take();
    b.freed = Some(q[1] % 16);
    b.settle();
    assert_eq!(b.take(), []);
}

/// SQD with the wish, then an error, while something is on its way.
fn asked_err(b: &mut Bench, qpn: u64) {
    go(b, qpn, 3, attr::STATE);
    b.busy = true;
    go(b, qpn, 4, attr::STATE | attr::EN_SQD_ASYNC_NOTIFY);
    b.settle();
    b.errs.push_back((qpn % 16, 0));
    b.settle();
    b.busy = false;
}

/// Every PASID is told when LINK changes, and only then.
#[test]
fn link_changes() {
    let mut b = Bench::new(12, 0.6);
    for (up, was) in [(true, false), (true, true), (false, true), (false, false)] {
        b.link = Some(up);
        b.step();
        b.settle();
        let kind = if up {
            event::PORT_ACTIVE
        } else {
            event::PORT_ERR
        } as u64;
        let want: Vec<Did> = (0..8).map(|p| Did::Event(p, kind, 1)).collect();
        let d = b.take();
        if up == was {
            assert_eq!(d, []);
        } else {
            assert_eq!(d, want);
        }
    }
}

/// The generator steps through all 2^64 - 1 states: its matrix over GF(2) has that order, since it is 1 to that power and to
/// no power with a prime factor less.
#[test]
fn the_generator_has_no_short_cycle() {
    type Matrix = [u64; 64];
    fn step(mut x: u64) -> u64 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^ x << 17
    }
    // row k: what the state with bit k alone becomes
    let identity: Matrix = core::array::from_fn(|k| 1 << k);
    let one: Matrix = core::array::from_fn(|k| step(1 << k));
    let apply =
        |m: &Matrix, x: u64| (0..64).fold(0, |y, k| if x >> k & 1 == 1 { y ^ m[k] } else { y });
    let then = |a: &Matrix, b: &Matrix| -> Matrix { core::array::from_fn(|k| apply(b, a[k])) };
    let power = |mut e: u64| {
        let (mut r, mut m) = (identity, one);
        while e != 0 {
            if e & 1 == 1 {
                r = then(&r, &m);
            }
            m = then(&m, &m);
            e >>= 1;
        }
        r
    };
    let primes = [3u64, 5, 17, 257, 641, 65_537, 6_700_417];
    assert_eq!(primes.iter().product::<u64>(), u64::MAX);
    assert!(power(u64::MAX) == identity);
    for p in primes {
        assert!(power(u64::MAX / p) != identity, "{p}");
    }
    // and what QPNs are made of: 10^5 draws at the pace of commands, no step more common than chance allows
    let (mut x, mut last) = (0x9E37_79B9_7F4A_7C15u64, 0);
    let mut steps = BTreeMap::<u64, u32>::new();
    for k in 0..100_000u64 {
        for _ in 0..300 + k % 7 {
            x = step(x);
        }
        let qpn = (x >> 32 & 0xFFFF) << 8 | x & 0xFF;
        *steps.entry(qpn.wrapping_sub(last) & 0xFF_FFFF).or_default() += 1;
        last = qpn;
    }
    let most = steps.values().max().unwrap();
    println!("the most common of 10^5 steps: {most} times");
    assert!(*most <= 6);
}
