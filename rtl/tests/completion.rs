//! The completion unit of the placement against an exact model of CQ indices, arming, overflow and event queues.
use metaroce_rtl::diff::Rng;
use metaroce_rtl::layouts::Cq;
use metaroce_rtl::placement::{CqJob, CqUnit, EqSet};
use metaroce_rtl::prims::packed::bits_to_bytes;
use metaroce_rtl::types::{CqDb, Event};
use rust_hdl::prelude::*;
use std::collections::HashMap;

const CQS: u64 = 4;

fn cq(i: u64) -> Cq {
    Cq {
        valid: i < CQS,
        log: (4 + i % 2).into(),
        pasid: (i % 3 + 1).into(),
        // the ring of the third crosses a carry of the short address adder
        base: (0x12_3FFF_FFFF - 2 + i).into(),
        ..Default::default()
    }
}

/// One operation at a time, so that the model knows the order.
#[test]
fn completion_queues_against_an_exact_model() {
    #[derive(Default, Clone)]
    struct M {
        pi: u64,
        ci: u64,
        sol: u64,
        arm: u64,
        over: bool,
    }
    let seed = 5;
    println!("cq unit seed {seed}");
    let mut rng = Rng(seed);
    let mut u = CqUnit::<3, 2>::default();
    u.connect_all();
    let mut m: HashMap<u64, M> = HashMap::new();
    let mut eq: HashMap<u64, (u64, u64)> = HashMap::new();
    let (mut overs, mut fired) = (0, 0);
    let mut hist = [0; 6];
    for op in 0..2500 {
        // what to do, and what must come out
        let c = if rng.p(0.03) { CQS } else { rng.below(CQS) };
        let t = cq(c);
        let (pasid, log) = (t.pasid.to_u64(), t.log.to_u64());
        let s = m.entry(c).or_default();
        let kind = match rng.below(100) {
            0 => 4,
            1 => 5,
            2..=4 => 3,
            5..=7 => 2,
            // every other stretch has few doorbells
            8..=55 if op / 200 % 2 == 0 => 1,
            8..=12 => 1,
            _ => 0,
        };
        let kind = if op == 0 { 5 } else { kind };
        hist[kind] += 1;
        let mut want: Vec<(u64, u64, bool)> = vec![]; // kind, address, phase
        let mut over = false;
        let mut fire = None;
        let mut job = CqJob {
            cq: c.into(),
            status: if rng.p(0.1) { 5.into() } else { 0.into() },
            solicited: rng.p(0.3),
            ..Default::default()
        };
        let mut d = CqDb::default();
        let mut set = EqSet::default();
        match kind {
            0 => {
                if !t.valid || s.over {
                    want.push((0, 0, false));
                } else if s.pi - s.ci == 1 << log {
                    want.push((0, 0, false));
                    s.over = true;
                    over = true;
                } else {
                    want.push((
                        1,
                        (t.base.to_u64() << 12) + s.pi % (1 << log) * 64,
                        (s.pi >> log) % 2 == 0,
                    ));
                    s.pi += 1;
                    let news = job.solicited || job.status != 0u64;
                    if news {
                        s.sol = s.pi;
                    }
                    if s.arm == 1 || s.arm == 2 && news {
                        s.arm = 0;
                        fire = Some((pasid, 1, c));
                    }
                }
            }
            1 => {
                let ci = match rng.below(10) {
                    0 => rng.below(1 << 24),
                    _ => s.ci + rng.below(s.pi - s.ci + 1),
                };
                let arm = rng.below(3);
                d = CqDb {
                    cq: c.into(),
                    ci: ci.into(),
                    arm: arm.into(),
                };
                let used = s.pi.wrapping_sub(ci) & 0xFF_FFFF;
                if t.valid && used <= 1 << log {
                    s.ci = ci;
                    if arm == 1 && s.pi > ci || arm == 2 && s.sol > ci {
                        fire = Some((pasid, 1, c));
                        s.arm = 0;
                    } else if arm == 1 {
                        s.arm = 1;
                    } else if arm == 2 && s.arm != 1 {
                        s.arm = 2;
                    }
                }
            }
            2 => {
                job.fence = true;
                want.push((3, 0, false));
            }
            3 => fire = Some((rng.below(4), 3, 77)),
            4 => *s = M::default(),
            _ => {
                set = EqSet {
                    pasid: rng.below(4).into(),
                    base: rng.below(1 << 40).into(),
                    log: if rng.p(0.2) { 0.into() } else { 4.into() },
                };
                let p = set.pasid.to_u64();
                eq.remove(&p);
                if set.log != 0u64 {
                    eq.insert(p, (set.base.to_u64(), 0));
                }
            }
        }
        if let Some((p, _, _)) = fire {
            if let Some((base, n)) = eq.get_mut(&p) {
                want.push((2, (*base << 12) + *n % 16 * 64, (*n >> 4) % 2 == 0));
                *n += 1;
                fired += 1;
            }
        }
        overs += over as usize;
        // run it
        let (mut got, mut errs, mut done) = (vec![], 0, false);
        for k in 0..16 {
            u.clock.next = Clock { clk: false };
            u.rst.next = op == 0 && k < 2;
            let go = !done && (op > 0 || k > 2);
            u.j_valid.next = go && (kind == 0 || kind == 2);
            u.j_data.next = job;
            u.cqdb_valid.next = go && kind == 1;
            u.cqdb_data.next = d;
            u.ev_valid.next = go && kind == 3;
            let e = fire.unwrap_or_default();
            u.ev_data.next = Event {
                pasid: e.0.into(),
                kind: e.1.into(),
                id: e.2.into(),
            };
            u.cqctl_valid.next = go && kind == 4;
            u.cqctl_cq.next = c.into();
            u.cqctl_resize.next = false;
            u.eqctl_valid.next = go && kind == 5;
            u.eqctl_data.next = set;
            u.e_ready.next = true;
            u.cqerr_ready.next = true;
            assert!(simulate(&mut u, 50));
            done |= go
                && match kind {
                    0 | 2 => u.j_ready.val(),
                    1 => u.cqdb_ready.val(),
                    3 => u.ev_ready.val(),
                    4 => u.cqctl_ready.val(),
                    _ => u.eqctl_ready.val(),
                };
            if u.e_valid.val() {
                let x = u.e_data.val();
                let a = if x.kind == 1u64 || x.kind == 2u64 {
                    x.addr.to_u64()
                } else {
                    0
                };
                let raw: Bits<320> = x.body;
                let low: Vec<u8> = bits_to_bytes(raw);
                if x.kind == 2u64 {
                    let f = fire.unwrap();
                    assert_eq!((low[0] as u64, low[4] as u64), (f.1, f.2));
                    assert_eq!(x.pasid, f.0);
                }
                got.push((x.kind.to_u64(), a, if a == 0 { false } else { x.phase }));
            }
            if u.cqerr_valid.val() {
                assert_eq!(u.cqerr_data.val().id, c);
                assert_eq!(u.cqerr_data.val().pasid, pasid);
                errs += 1;
            }
            let a = u.cqt_raddr.val().to_u64();
            u.clock.next = Clock { clk: true };
            assert!(simulate(&mut u, 50));
            u.cqt_rdata.next = cq(a);
        }
        assert!(done && u.idle.val(), "operation {op} of kind {kind}");
        assert_eq!(got, want, "operation {op} of kind {kind} on CQ {c}");
        assert_eq!(errs, over as usize);
    }
    println!("{hist:?}, {overs} overflows, {fired} events");
    assert!(overs > 3 && fired > 50);
}

/// Rings change while completions stream in: each has the old ring and its next index, or the new one from index 0 on; none is lost, and the
/// arming stays.
#[test]
fn rings_change_between_two_completions() {
    let seed = 6;
    println!("cq unit seed {seed}");
    let mut rng = Rng(seed);
    let mut u = CqUnit::<3, 2>::default();
    u.connect_all();
    let mut table: Vec<Cq> = (0..8).map(cq).collect();
    // rings that are well apart
    for (i, t) in table.iter_mut().enumerate() {
        t.base = (0x800 + 0x40 * i as u64).into();
    }
    // rings of a CQ so far: base, log, entries; what was consumed of the newest
    let mut rings: Vec<Vec<(u64, u64, u64)>> = (0..CQS as usize)
        .map(|i| vec![(table[i].base.to_u64(), table[i].log.to_u64(), 0)])
        .collect();
    let mut sent = [0u64; CQS as usize];
    let mut ci = [0u64; CQS as usize];
    // the CQ's arming was taken, no event yet
    let mut armed = [false; CQS as usize];
    let (mut jobs, mut changes, mut events, mut mixed) = (0u64, 0, 0, 0);
    let (mut j, mut db): (Option<u64>, Option<(u64, u64, u64)>) = (None, None);
    let mut quiet = 0;
    for t in 0..10_000u64 {
        u.clock.next = Clock { clk: false };
        u.rst.next = t < 2;
        let live = t > 4;
        u.eqctl_valid.next = (3..8).contains(&t);
        u.eqctl_data.next = EqSet {
            pasid: (t.wrapping_sub(3) % 4).into(),
            base: 0x5000.into(),
            log: 16.into(),
        };
        if live && j.is_none() && t < 9_800 && rng.p(0.4) {
            // never more than half of the smallest ring
            let c = rng.below(CQS) as usize;
            if rings[c].last().unwrap().2 - ci[c] + sent[c] < 6 {
                j = Some(c as u64);
                sent[c] += 1;
            }
        }
        u.j_valid.next = j.is_some();
        u.j_data.next = CqJob {
            cq: j.unwrap_or(0).into(),
            index: (jobs & 0xFFFF).into(),
            ..Default::default()
        };
        // a change now and then; the driver is quiet around it
        quiet = if quiet > 0 { quiet - 1 } else { 0 };
        let change = live && db.is_none() && quiet == 0 && rng.p(0.03);
        let c = rng.below(CQS) as usize;
        if live && db.is_none() && quiet == 0 && !change && rng.p(0.1) {
            let arm = !armed[c] && rings[c].last().unwrap().2 == ci[c] && rng.p(0.3);
            ci[c] = rings[c].last().unwrap().2;
            db = Some((c as u64, ci[c], arm as u64));
        }
        u.cqdb_valid.next = db.is_some();
        let d = db.unwrap_or_default();
        u.cqdb_data.next = CqDb {
            cq: d.0.into(),
            ci: d.1.into(),
            arm: d.2.into(),
        };
        u.ev_valid.next = false;
        u.cqctl_valid.next = change;
        u.cqctl_cq.next = (c as u64).into();
        u.cqctl_resize.next = change;
        u.e_ready.next = rng.p(0.8);
        u.cqerr_ready.next = true;
        assert!(simulate(&mut u, 50));
        if j.is_some() && u.j_ready.val() {
            j = None;
            jobs += 1;
        }
        if let Some((c, _, arm)) = db.filter(|_| u.cqdb_ready.val()) {
            armed[c as usize] |= arm == 1;
            db = None;
            quiet = 12;
        }
        assert!(!u.ev_cq_overflow.val());
        if u.e_valid.val() && u.e_ready.val() {
            let x = u.e_data.val();
            if x.kind == 2u64 {
                let low: Vec<u8> = bits_to_bytes(x.body);
                assert!(std::mem::take(&mut armed[low[4] as usize]));
                events += 1;
            } else {
                assert_eq!(x.kind, 1u64);
                // the ring it belongs to: bases are all different
                let a = x.addr.to_u64();
                let find =
                    |r: &(u64, u64, u64)| (a >> 12) - r.0.min(a >> 12) < 64 && a >> 12 >= r.0;
                let (k, n) = (0..CQS as usize)
                    .find_map(|k| rings[k].iter().rposition(find).map(|n| (k, n)))
                    .expect("a ring");
                let newest = rings[k].len() - 1;
                if n < newest {
                    assert_eq!(rings[k][newest].2, 0, "old ring after the new one");
                    mixed += 1;
                }
                let (base, log, i) = rings[k][n];
                assert_eq!(a, (base << 12) + i % (1 << log) * 64);
                assert_eq!(x.phase, (i >> log) % 2 == 0);
                rings[k][n].2 += 1;
                sent[k] -= 1;
            }
        }
        let a = u.cqt_raddr.val().to_u64();
        u.clock.next = Clock { clk: true };
        assert!(simulate(&mut u, 50));
        u.cqt_rdata.next = table[a as usize % 8];
        if change {
            changes += 1;
            let base = 0x1000 + changes * 0x40;
            let log = 4 + rng.below(3);
            table[c].base = base.into();
            table[c].log = log.into();
            rings[c].push((base, log, 0));
            ci[c] = 0;
            quiet = 12;
        }
    }
    println!("{jobs} completions, {changes} changes, {mixed} to a ring that was the old one already, {events} events");
    assert!(sent.iter().all(|n| *n == 0), "{sent:?}");
    assert!(changes > 50 && events > 10 && mixed > 5 && jobs > 800);
}
