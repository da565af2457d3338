//! Ring prefetch: every unit arrives once, in its slot, within the rules of the host port; and rust-hdl = Verilator.
use metaroce_rtl::diff::{Diff, Rng};
use metaroce_rtl::fetch::Fetch;
use metaroce_rtl::inputs;
use metaroce_rtl::layouts::QpCfg;
use metaroce_rtl::rqfetch::RqFetch;
use metaroce_rtl::sqfetch::SqFetch;
use metaroce_rtl::types::*;
use rust_hdl::prelude::*;
use std::collections::VecDeque;

const LQ: usize = 5;
const LS: usize = 3;
const A: usize = 8;
const N: usize = 1 << LQ;

macro_rules! edge {
    ($u:ident) => {
        $u.clock.next = Clock { clk: true };
        assert!(simulate(&mut $u, 200));
        $u.clock.next = Clock { clk: false };
        assert!(simulate(&mut $u, 200));
    };
}

/// One ring and what the driver and the consumer know of it.
#[derive(Clone)]
struct Ring {
    log: u64,
    base: u64,
    pasid: u64,
    state: u64,
    /// Ring memory: the index posted into each entry.
    mem: Vec<u64>,
    posted: u16,
    rung: u16,
    freed: u16,
    /// What the driver knows of it: no more than the card does.
    known: u16,
    avail: u16,
    asked: u16,
    in_flight: bool,
    dead: bool,
}

struct Flight {
    tag: u64,
    qp: usize,
    data: VecDeque<u64>,
    wait: u64,
    fail: bool,
}

/// `hard`: more rings want reads than there are tags, and the consumer of messages is slow.
/// Receive rings of these are SRQs.
fn is_srq(q: usize) -> bool {
    q % 3 == 1
}

fn run(receive: bool, hard: bool, seed: u64, logs: &[u64]) {
    let mut rng = Rng(seed);
    let mut u = Fetch::<LQ, LS, A>::new(receive, 0x80);
    u.connect_all();
    // Longest read request, log2 of bytes.
    let limit = [9, 12, 8, 7][seed as usize % 4];
    let mut rings: Vec<Ring> = (0..N)
        .map(|i| {
            let log = logs[i % logs.len()];
            Ring {
                log,
                base: 0x1000 * (100 + 64 * i as u64),
                pasid: 1 + i as u64 % 3,
                state: 3,
                mem: vec![0; 1 << log],
                posted: 0xFFF0, // indices wrap during the test
                rung: 0xFFF0,
                freed: 0xFFF0,
                known: 0,
                avail: 0,
                asked: 0,
                in_flight: false,
                dead: false,
            }
        })
        .collect();
    for r in &mut rings {
        (r.posted, r.rung, r.freed) = (0, 0, 0);
    }
    let mut flights: Vec<Flight> = vec![];
    let mut db: Option<usize> = None;
    let mut fr: Option<usize> = None;
    let mut ctl: Option<(usize, bool)> = None; // qp, reset
                                               // doorbell with its unit: at hand, taken
    let mut direct = false;
    // the index of a doorbell that no driver rings
    let mut wrong: Option<u16> = None;
    let mut wrongs = 0;
    let mut brought: Option<(usize, u16)> = None;
    let mut hits = 0;
    let mut cfg_q = 0usize;
    let mut probe = (0usize, 0u16, false);
    // (qp, index, may be missing: the QP was being reset)
    let mut expect_out: VecDeque<(usize, u16, bool)> = VecDeque::new();
    let mut expect_flt: VecDeque<(usize, bool)> = VecDeque::new();
    let (mut reads, mut units, mut resets, mut faults, mut most) = (0, 0, 0, 0, 0);
    let mut latency: Vec<u64> = vec![];
    let mut rung_at = [0u64; N];
    let total = 16_000u64;
    for t in 0..total {
        u.rst.next = t == 0;
        u.now.next = t.into();
        u.limit_log.next = limit.into();
        let quiet = t > total - 6000;
        // driver: post some entries, ring
        if t > 40 && db.is_none() && !quiet && rng.p(if hard { 0.7 } else { 0.15 }) {
            let q = rng.below(N as u64) as usize;
            let r = &mut rings[q];
            let space = (1u16 << r.log).min(96) - r.posted.wrapping_sub(r.known);
            let n = rng.below(u64::from(space) + 1).min(1 + rng.below(12)) as u16;
            for _ in 0..n {
                let at = r.posted as usize % r.mem.len();
                r.mem[at] = (q as u64) << 16 | r.posted as u64;
                r.posted = r.posted.wrapping_add(1);
            }
            if n > 0 && !ctl.is_some_and(|c| c.0 == q) {
                db = Some(q);
                direct = n == 1 && !receive && rng.p(0.9);
                rung_at[q] = if direct { 0 } else { t };
            } else if n == 0
                && rng.p(if hard { 0.02 } else { 0.1 })
                && !ctl.is_some_and(|c| c.0 == q)
            {
                db = Some(q);
                direct = !receive && rng.p(0.5);
                let most = 1 << r.log;
                // the card may not have heard of the last ones that were freed
                let beyond = [1, 1 + rng.below(65535 - most - 100)][rng.below(2) as usize];
                let back = r.posted.wrapping_sub(r.freed);
                wrong = Some(if back > 0 && r.rung == r.posted && rng.p(0.3) {
                    r.posted.wrapping_sub(1 + rng.below(back as u64) as u16)
                } else {
                    // in ERR receives are flushed without being freed: what counts is what was posted
                    let flushed = receive && r.state == 6;
                    let from = if flushed { r.rung } else { r.freed };
                    from.wrapping_add((most + beyond) as u16)
                });
            }
        }
        // consumer: free some units that have arrived
        if fr.is_none() && rng.p(if quiet || hard { 0.9 } else { 0.2 }) {
            let q = rng.below(N as u64) as usize;
            let r = &mut rings[q];
            let n = r.avail.wrapping_sub(r.freed);
            let in_doubt = wrong.is_some() && db == Some(q);
            if n > 0 && !in_doubt && !ctl.is_some_and(|c| c.0 == q) {
                r.freed = r.freed.wrapping_add(1 + rng.below(n as u64) as u16);
                fr = Some(q);
            }
        }
        if t > 40
            && ctl.is_none()
            && db.is_none()
            && fr.is_none()
            && !quiet
            && rng.p(if hard { 0.1 } else { 0.004 })
        {
            let q = rng.below(N as u64) as usize;
            let reset = rng.p(0.7);
            if reset {
                rings[q].state = 0;
                expect_out
                    .iter_mut()
                    .filter(|e| e.0 == q)
                    .for_each(|e| e.2 = true);
                expect_flt
                    .iter_mut()
                    .filter(|e| e.0 == q)
                    .for_each(|e| e.1 = true);
            }
            ctl = Some((q, reset));
        }
        u.db_valid.next = db.is_some();
        if let Some(q) = db {
            u.db_data.next = QpIdx {
                qp: (q as u64).into(),
                idx: (wrong.unwrap_or(rings[q].posted) as u64).into(),
            };
            let last = rings[q].posted.wrapping_sub(1) as usize % rings[q].mem.len();
            u.db_direct.next = direct;
            // only this unit may be used
            u.db_unit.next = if direct { rings[q].mem[last] } else { 0xBAD }.into();
        }
        u.free_valid.next = fr.is_some();
        if let Some(q) = fr {
            u.free_data.next = QpIdx {
                qp: (q as u64).into(),
                idx: (rings[q].freed as u64).into(),
            };
        }
        u.ctl_valid.next = ctl.is_some();
        if let Some((q, reset)) = ctl {
            u.ctl_data.next = QpCtl {
                op: (if reset { ctl::RESET } else { ctl::FLUSH }).into(),
                qp: (q as u64).into(),
                ..Default::default()
            };
        }
        let r = &rings[cfg_q];
        let (sq, rq) = if receive {
            (0, r.base >> 12)
        } else {
            (r.base >> 12, 0)
        };
        let (sl, rl) = if receive { (15, r.log) } else { (r.log, 15) };
        u.cfg_rdata.next = QpCfg {
            qp_type: if is_srq(cfg_q) { 3u64 } else { 0 }.into(),
            state: r.state.into(),
            pasid: r.pasid.into(),
            sq_base: sq.into(),
            rq_base: rq.into(),
            sq_log: sl.into(),
            rq_log: rl.into(),
            ..Default::default()
        };
        // host: one unit a cycle of a random read
        u.fill_valid.next = false;
        for f in &mut flights {
            f.wait = f.wait.saturating_sub(1);
        }
        let due: Vec<usize> = (0..flights.len())
            .filter(|i| flights[*i].wait == 0)
            .collect();
        let mut finished = None;
        if !due.is_empty() && rng.p(0.9) {
            let i = due[rng.below(due.len() as u64) as usize];
            let f = &mut flights[i];
            let d = f.data.pop_front().unwrap();
            let last = f.data.is_empty() || f.fail;
            u.fill_valid.next = true;
            u.fill_data.next = CtlFill {
                data: d.into(),
                tag: f.tag.into(),
                last,
                err: last && f.fail,
            };
            if last {
                finished = Some(i);
            }
        } else if rng.p(0.1) {
            u.fill_valid.next = true; // somebody else's
            u.fill_data.next = CtlFill {
                tag: 0xE0.into(),
                last: true,
                ..Default::default()
            };
        }
        if let Some(i) = finished {
            let f = flights.swap_remove(i);
            let resetting = ctl == Some((f.qp, true));
            let r = &mut rings[f.qp];
            r.in_flight = false;
            if f.fail {
                if !r.dead {
                    expect_flt.push_back((f.qp, resetting));
                }
                r.dead = true;
                faults += 1;
            } else {
                r.avail = r.asked;
                if !receive {
                    expect_out.push_back((f.qp, r.avail, resetting));
                }
            }
        }
        // look into a slot
        let q = rng.below(N as u64) as usize;
        let n = rings[q].avail.wrapping_sub(rings[q].freed);
        let check = n > 0 && !ctl.is_some_and(|c| c.0 == q);
        let idx = rings[q]
            .freed
            .wrapping_add(rng.below(n.max(1) as u64) as u16);
        u.slot_raddr.next = ((q as u64) << LS | (idx as u64 & ((1 << LS) - 1))).into();
        u.avail_raddr.next = (q as u64).into();
        u.pi_raddr.next = (q as u64).into();
        u.stamp_raddr.next = (q as u64).into();
        u.rd_ready.next = rng.p(0.7);
        u.out_ready.next = if hard && !quiet {
            t % 600 < 300 && rng.p(0.3)
        } else {
            rng.p(0.6)
        };
        u.flt_ready.next = rng.p(0.6);
        assert!(simulate(&mut u, 200));
        // the look of the cycle before: a unit is there as soon as `avail` says so
        if probe.2 && u.avail_rdata.val().to_u64() as u16 == rings[probe.0].avail {
            let r = &rings[probe.0];
            if probe.1.wrapping_sub(r.freed) < 1 << LS && r.state != 0 {
                let want = (probe.0 as u64) << 16 | probe.1 as u64;
                let got: num_bigint::BigUint = u.slot_rdata.val().into();
                assert_eq!(
                    got,
                    want.into(),
                    "qp {} index {} cycle {t}",
                    probe.0,
                    probe.1
                );
                units += 1;
            }
        }
        probe = (q, idx, check);
        if u.rd_valid.val() && u.rd_ready.next {
            let d = u.rd_data.val();
            let (addr, len, tag) = (d.addr.to_u64(), d.len.to_u64(), d.tag.to_u64());
            let q = rings
                .iter()
                .position(|r| addr >= r.base && addr < r.base + 0x40000)
                .unwrap();
            assert!((0x80..0x90).contains(&tag) && flights.iter().all(|f| f.tag != tag));
            assert!(addr % 64 == 0 && len % 64 == 0 && (64..=512.min(1 << limit)).contains(&len));
            assert_eq!(addr >> 12, (addr + len - 1) >> 12, "crosses 4 KiB");
            let r = &mut rings[q];
            let resetting = ctl == Some((q, true));
            assert!(
                !r.in_flight && !r.dead && (r.state != 0 || resetting),
                "qp {q}"
            );
            assert_eq!(d.pasid.to_u64(), r.pasid);
            assert_eq!(addr, r.base + 64 * (r.asked as u64 % r.mem.len() as u64));
            assert!(
                addr + len <= r.base + 64 * r.mem.len() as u64,
                "beyond the ring"
            );
            let n = (len / 64) as u16;
            let at = r.asked as usize % r.mem.len();
            r.asked = r.asked.wrapping_add(n);
            assert!(
                r.asked.wrapping_sub(r.freed) <= 1 << LS,
                "more than the slots hold"
            );
            assert!(
                r.asked.wrapping_sub(r.rung) as i16 <= 0,
                "beyond the doorbell"
            );
            r.in_flight = true;
            let data = (0..n as usize).map(|k| r.mem[at + k]).collect();
            let fail = rng.p(0.01);
            flights.push(Flight {
                tag,
                qp: q,
                data,
                wait: 5 + rng.below(if hard && !quiet { 900 } else { 60 }),
                fail,
            });
            reads += 1;
            most = most.max(flights.len());
            if rung_at[q] > 0 {
                latency.push(t - rung_at[q]);
                rung_at[q] = 0;
            }
        }
        if u.out_valid.val() {
            let d = u.out_data.val();
            let got = (d.qp.to_u64() as usize, d.idx.to_u64() as u16);
            if brought == Some(got) && !expect_out.iter().any(|e| (e.0, e.1) == got) {
                brought = None;
                let resetting = ctl == Some((got.0, true));
                let r = &mut rings[got.0];
                assert!(!r.in_flight && !r.dead);
                assert_eq!(r.asked.wrapping_add(1), got.1);
                (r.asked, r.avail) = (got.1, got.1);
                assert!(got.1.wrapping_sub(r.freed) <= 1 << LS, "no slot");
                // it is at the port now
                expect_out.push_front((got.0, got.1, resetting));
                hits += 1;
            }
        }
        if u.out_valid.val() && u.out_ready.next {
            let d = u.out_data.val();
            let got = (d.qp.to_u64() as usize, d.idx.to_u64() as u16);
            loop {
                let (q, i, maybe) = expect_out.pop_front().expect("message without a cause");
                if (q, i) == got {
                    break;
                }
                assert!(maybe, "cycle {t}: {got:?} instead of {q}, {i}");
            }
        }
        if u.flt_valid.val() && u.flt_ready.next {
            let d = u.flt_data.val();
            assert_eq!(d.kind.to_u64(), if receive { 1 } else { 6 });
            loop {
                let (q, maybe) = expect_flt.pop_front().expect("fault without a cause");
                if q == d.qp.to_u64() as usize {
                    break;
                }
                assert!(maybe, "cycle {t}");
            }
        }
        if db.is_some() && u.db_ready.val() {
            let q = db.take().unwrap();
            let r = &mut rings[q];
            if wrong.take().is_some() {
                if !r.dead {
                    expect_flt.push_back((q, false));
                }
                r.dead = true;
                wrongs += 1;
            } else {
                r.rung = r.posted;
                if direct {
                    brought = Some((q, r.posted));
                }
                if receive && r.state == 6 {
                    expect_out.push_back((q, r.posted, false));
                }
            }
        }
        if let (Some(q), true) = (fr, u.free_ready.val()) {
            rings[q].known = rings[q].freed;
            fr = None;
        }
        if let (Some((q, reset)), true) = (ctl, u.ctl_ready.val()) {
            ctl = None;
            if reset {
                assert!(
                    flights.iter().all(|f| f.qp != q),
                    "a read outlives the reset"
                );
                let r = &mut rings[q];
                (r.posted, r.rung, r.freed, r.avail, r.asked) = (0, 0, 0, 0, 0);
                r.known = 0;
                (r.dead, r.in_flight) = (false, false);
                r.state = [3, 3, 6][rng.below(3) as usize];
                resets += 1;
            }
        }
        cfg_q = u.cfg_raddr.val().to_u64() as usize;
        edge!(u);
    }
    let mut ends = 0;
    for (q, r) in rings.iter().enumerate() {
        if !r.dead {
            assert_eq!(r.asked, r.rung, "qp {q} was left with entries to fetch");
        }
        (u.pi_raddr.next, u.avail_raddr.next) = ((q as u64).into(), (q as u64).into());
        assert!(simulate(&mut u, 200));
        edge!(u);
        assert!(simulate(&mut u, 200));
        let (pi, avail) = (u.pi_rdata.val().to_u64(), u.avail_rdata.val().to_u64());
        assert_eq!(avail as u16, r.avail, "qp {q}");
        // nothing is posted in an SRQ but what is here
        let end = r.dead && is_srq(q);
        ends += end as usize;
        assert_eq!(pi as u16, if end { r.avail } else { r.rung }, "qp {q}");
    }
    assert!(!receive || hard || ends > 0);
    assert!(u.idle.val() && expect_out.iter().all(|e| e.2) && expect_flt.iter().all(|e| e.1));
    latency.sort();
    println!(
        "receive {receive} seed {seed}: {reads} reads, {hits} direct, {units} units looked at, {resets} resets, {faults} faults, {wrongs} wrong doorbells, {most} in flight, \
         doorbell to read: best {} median {}",
        latency[0],
        latency[latency.len() / 2]
    );
    assert!(!hard || most == 16);
    assert!(receive || hits > if hard { 2 } else { 20 });
    assert!(reads > 200 && units > 500 && resets + faults > 3 && wrongs > 3);
}

#[test]
fn send_rings() {
    run(false, false, 1, &[4, 5, 6, 9]);
    run(false, true, 2, &[4, 4, 15, 7]);
}

#[test]
fn receive_rings() {
    run(true, false, 3, &[0, 1, 2, 3]);
    run(true, true, 4, &[4, 2, 8, 15]);
}

macro_rules! diff {
    ($name:literal, $t:ty, $db:literal, $free:literal, $($p:ident),*) => {
        Diff::new($name, <$t>::default, inputs!($($p),*))
            .cycles(3000)
            .p("rst", 0.0005)
            .p("ctl_valid", 0.05)
            .p("rd_ready", 0.8)
            .stim(|s| {
                // tags of this block most of the time, so that reads end
                let tag = 0x80 | s.rng.below(32);
                let last = s.rng.p(0.5) as u64;
                let err = s.rng.p(0.02) as u64;
                let mut f = s.get("fill_data") & ((num_bigint::BigUint::from(1u8) << 512u32) - 1u8);
                f |= num_bigint::BigUint::from(tag | last << 8 | err << 9) << 512u32;
                s.set("fill_data", f);
                // Indices that go up together, or most rings are soon dead of a wrong doorbell.
                let at = s.cycle as u64 / 40;
                for (port, up) in [($db, 6), ($free, 1)] {
                    if s.rng.p(0.99) {
                        let qp = s.get_u64(port) & 0xFFF;
                        let idx = at + s.rng.below(up);
                        s.set(port, qp | idx << 12);
                    }
                }
            })
            .run()
    };
}

#[test]
fn diff_fetch() {
    diff!(
        "sqfetch_4_3", SqFetch<4, 3, 7>, "sqdb_data", "sqfree_data", rst, now, limit_log, sqdb_valid, sqdb_data, sqdb_direct, sqdb_unit, sqfree_valid, sqfree_data, ctl_valid, ctl_data,
        cfg_rdata, rd_ready, fill_valid, fill_data, slot_raddr, avail_raddr, stamp_raddr, ready_ready, flt_ready
    );
    diff!(
        "rqfetch_4_3", RqFetch<4, 3, 7>, "rqdb_data", "rqfree_data", rst, rqdb_valid, rqdb_data, rqfree_valid, rqfree_data, ctl_valid, ctl_data,
        cfg_rdata, rd_ready, fill_valid, fill_data, slot_raddr, idx_raddr, notify_ready, flt_ready, now, limit_log
    );
}
