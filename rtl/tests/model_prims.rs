//! Primitives against plain software models (what they should do, beside the differential test's "both simulations agree").
use metaroce_rtl::diff::Rng;
use metaroce_rtl::prims::packed::{bits_from_bytes, bits_to_bytes};
use metaroce_rtl::prims::*;
use rust_hdl::prelude::*;
use std::collections::VecDeque;

macro_rules! edge {
    ($u:ident) => {
        $u.clock.next = Clock { clk: true };
        assert!(simulate(&mut $u, 200));
        $u.clock.next = Clock { clk: false };
        assert!(simulate(&mut $u, 200));
    };
}

#[test]
fn fifo_is_a_queue() {
    for (seed, pv, pr) in [(1, 0.9, 0.2), (2, 0.2, 0.9), (3, 0.6, 0.6), (4, 1.0, 1.0)] {
        let mut rng = Rng(seed);
        let mut u = Fifo::<Bits<16>, 3>::default();
        u.connect_all();
        let mut q = VecDeque::new();
        let (mut popped, mut full) = (0, 0);
        for t in 0..2000u64 {
            u.s_valid.next = rng.p(pv);
            u.m_ready.next = rng.p(pr);
            u.s_data.next = (t % 65536).into();
            u.rst.next = t % 500 == 499;
            assert!(simulate(&mut u, 200));
            assert_eq!(u.s_ready.val(), q.len() < 8, "seed {seed} cycle {t}");
            assert_eq!(u.m_valid.val(), !q.is_empty());
            assert_eq!(u.level.val().to_u64() as usize, q.len());
            if let Some(h) = q.front() {
                assert_eq!(u.m_data.val().to_u64(), *h);
            }
            full += (q.len() == 8) as u32;
            if u.m_valid.val() && u.m_ready.next {
                q.pop_front();
                popped += 1;
            }
            if u.s_valid.next && u.s_ready.val() {
                q.push_back(t % 65536);
            }
            if u.rst.next {
                q.clear();
            }
            edge!(u);
        }
        assert!(popped > 200 && (pv <= pr || full > 50));
    }
}

#[test]
fn arbiter_is_fair_and_loses_nothing() {
    let mut rng = Rng(5);
    let mut u = Arb3::<Bits<16>>::default();
    u.connect_all();
    let mut sent = [0u64; 3];
    let mut got = [0u64; 3];
    let mut valid = [false; 3];
    let mut waits = [0; 3];
    for _ in 0..3000 {
        for i in 0..3 {
            valid[i] |= rng.p(0.7);
            u.s_valid[i].next = valid[i];
            u.s_data[i].next = (sent[i] % 65536).into();
        }
        u.m_ready.next = rng.p(0.8);
        assert!(simulate(&mut u, 200));
        if u.m_valid.val() && u.m_ready.next {
            let s = u.m_src.val().index();
            assert_eq!(u.m_data.val().to_u64(), got[s] % 65536);
            got[s] += 1;
        }
        let taken: Vec<bool> = (0..3).map(|i| valid[i] && u.s_ready[i].val()).collect();
        assert!(taken.iter().filter(|x| **x).count() <= 1);
        for i in 0..3 {
            if taken[i] {
                sent[i] += 1;
                valid[i] = false;
                waits[i] = 0;
            } else if valid[i] && taken.contains(&true) {
                waits[i] += 1;
                assert!(
                    waits[i] <= 2,
                    "input {i} was passed over {} times",
                    waits[i]
                );
            }
        }
        edge!(u);
    }
    assert!(got.iter().all(|g| *g > 500), "{got:?}");
}

#[test]
fn priority_arbiter_serves_the_first() {
    let mut rng = Rng(6);
    let mut u = PrioArb::<Bits<8>, 4>::default();
    u.connect_all();
    for _ in 0..500 {
        let v: Vec<bool> = (0..4).map(|_| rng.p(0.4)).collect();
        for i in 0..4 {
            u.s_valid[i].next = v[i];
        }
        u.m_ready.next = rng.p(0.7);
        assert!(simulate(&mut u, 200));
        let first = v.iter().position(|x| *x);
        for i in 0..4 {
            let load = !u.m_valid.val() || u.m_ready.next;
            assert_eq!(u.s_ready[i].val(), load && first == Some(i));
        }
        edge!(u);
    }
}

fn rotates<const W: usize, const L: usize>() {
    let mut rng = Rng(7);
    let mut u = ByteRot::<Bits<8>, W, L>::default();
    u.connect_all();
    u.ce.next = true;
    u.s_valid.next = true;
    let mut exp: VecDeque<(Vec<u8>, u64)> = VecDeque::new();
    for t in 0..100u64 {
        let d: Vec<u8> = (0..L).map(|_| rng.next() as u8).collect();
        let n = rng.below(64);
        u.s_data.next = bits_from_bytes(&d);
        u.s_n.next = n.into();
        u.s_tag.next = t.into();
        let mut r = d.clone();
        r.rotate_right(n as usize % L); // byte i goes to lane i + n
        exp.push_back((r, t));
        assert!(simulate(&mut u, 200));
        assert_eq!(u.m_valid.val(), t >= 2);
        if t >= 2 {
            let (r, tag) = exp.pop_front().unwrap();
            assert_eq!(bits_to_bytes(u.m_data.val()), r);
            assert_eq!(u.m_tag.val().to_u64(), tag);
        }
        edge!(u);
    }
}

#[test]
fn rotator_rotates() {
    rotates::<64, 8>();
    rotates::<512, 64>();
}

#[test]
fn lane_ram_moves_unaligned_windows() {
    const A: usize = 3;
    const L: usize = 8;
    let mut rng = Rng(8);
    let mut u = LaneRam::<64, L, A>::default();
    u.connect_all();
    let mut mem = [0u8; L << A];
    let mut want: Option<Vec<u8>> = None;
    for t in 0..1000 {
        let (wa, ra) = (rng.below(64) as usize, rng.below(64) as usize);
        let len = rng.below(L as u64 + 1) as usize;
        let data: Vec<u8> = (0..L).map(|_| rng.next() as u8).collect();
        // lane of byte k of a window at byte address x is (x + k) mod L; it lies in the next word when it wrapped
        let low = |x: usize| ((1u64 << (x % L)) - 1).into();
        let mut lanes = vec![0u8; L];
        let mut en = 0u64;
        for k in 0..len {
            lanes[(wa + k) % L] = data[k];
            en |= 1 << ((wa + k) % L);
        }
        u.we.next = true;
        u.waddr.next = ((wa / L) as u64).into();
        u.wsel.next = low(wa);
        u.wlane.next = en.into();
        u.wdata.next = bits_from_bytes(&lanes);
        u.raddr.next = ((ra / L) as u64).into();
        u.rsel.next = low(ra);
        assert!(simulate(&mut u, 200));
        if let Some(w) = &want {
            assert_eq!(&bits_to_bytes(u.rdata.val()), w, "cycle {t}");
        }
        let mut w = vec![0u8; L];
        for k in 0..L {
            w[(ra + k) % L] = mem[(ra + k) % mem.len()];
        }
        want = Some(w);
        for k in 0..len {
            mem[(wa + k) % mem.len()] = data[k];
        }
        edge!(u);
    }
}
