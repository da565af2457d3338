//! The READ responder: segmentation, order, round robin, checks at every packet, counts; every run also compares rust-hdl with Verilator.
mod rsp;

use metaroce_rtl::atomic::{AtomicDone, AtomicJob};
use metaroce_rtl::diff::{Diff, Rng, Stim};
use metaroce_rtl::inputs;
use metaroce_rtl::readresp::ReadResp;
use metaroce_rtl::types::*;
use rsp::bench::{cfg_bits, mr_bits};
use rsp::model::{Cfg, Mr};
use rsp::*;
use std::collections::{HashMap, VecDeque};

struct Bench {
    cfg: Vec<Cfg>,
    mrs: Vec<Mr>,
    rj: Feed<ReadJob>,
    done: Feed<TxDone>,
    ctl: Feed<QpCtl>,
    tx: Sink,
    err: Sink,
    /// The unit that executes atomics: its memory, what it has under way until when, all that it executed.
    at: Sink,
    ad: Feed<AtomicDone>,
    mem: HashMap<u64, u64>,
    under: Option<(usize, AtomicDone)>,
    executed: Vec<AtomicJob>,
    at_fault: bool,
    /// Jobs end without an answer: `busy` is not followed.
    silent: bool,
    /// Packets that left, per QP, and all of them in order.
    sent: Vec<VecDeque<TxCmd>>,
    order: Vec<(usize, u64)>,
    errs: Vec<(u64, u64)>,
    fences: usize,
    ctls: usize,
    /// Jobs given and final packets reported, per QP, with the cycle of the last change.
    given: Vec<(u64, usize)>,
    left: Vec<(u64, usize)>,
    quiet: usize,
    probe: [usize; 2],
    /// Report packets as sent, and whether those reported are the last of their jobs.
    egress: bool,
    lasts: VecDeque<bool>,
    fault: bool,
}

impl Bench {
    fn new(ready: f64, valid: f64) -> Self {
        let mut rng = Rng(3);
        Bench {
            cfg: (0..8)
                .map(|i| Cfg {
                    state: 3,
                    mtu: 1 + i % 5,
                    pd: 5,
                    ..Default::default()
                })
                .collect(),
            mrs: (0..16)
                .map(|i| Mr {
                    valid: true,
                    rr: true,
                    ra: true,
                    variant: rng.below(256),
                    pd: 5,
                    va: rng.next() >> 8,
                    len: 0x8000 + i,
                    // some are windows, one of a QP alone
                    parent: (i > 11).then_some(i - 8),
                    qpn: (i == 13).then_some(3),
                    ..Default::default()
                })
                .collect(),
            rj: Feed::new("rj", valid),
            done: Feed::new("done", 0.3),
            ctl: Feed::new("ctl", 0.5),
            tx: Sink::new("tx", ready),
            err: Sink::new("err", ready),
            at: Sink::new("at", ready),
            ad: Feed::new("ad", 0.5),
            mem: HashMap::new(),
            under: None,
            executed: vec![],
            at_fault: false,
            silent: false,
            sent: vec![VecDeque::new(); 8],
            order: vec![],
            errs: vec![],
            fences: 0,
            ctls: 0,
            given: vec![(0, 0); 8],
            left: vec![(0, 0); 8],
            quiet: 0,
            probe: [0; 2],
            egress: true,
            lasts: VecDeque::new(),
            fault: false,
        }
    }
    fn job(&self, qp: u64, psn: u64, len: u64, mr: usize, rng: &mut Rng) -> ReadJob {
        let m = &self.mrs[mr];
        ReadJob {
            qp: qp.into(),
            psn: psn.into(),
            msn: (psn / 3).into(),
            va: (m.va + rng.below(m.len - len + 1)).into(),
            rkey: ((mr as u64) << 8 | m.variant).into(),
            len: len.into(),
            stamp: (psn + 5).into(),
            ..Default::default()
        }
    }
    /// The MR whose page list holds an address.
    fn home(&self, va: u64) -> u64 {
        let at = |m: &Mr| va.checked_sub(m.va).is_some_and(|d| d < m.len);
        let i = self.mrs.iter().position(at).expect("an address of an MR");
        self.mrs[i].parent.unwrap_or(i as u64)
    }
    /// An atomic on one of four places of an MR, so that they meet.
    fn atomic(&self, qp: u64, psn: u64, mr: usize, rng: &mut Rng) -> ReadJob {
        let mut j = self.job(qp, psn, 8, mr, rng);
        j.va = (self.mrs[mr].va + 8 * rng.below(4)).into();
        j.op = (1 + rng.below(2)).into();
        j.swap = (rng.next() % 3).into();
        j.cmp = (rng.next() % 3).into();
        j
    }
    fn step(&mut self, s: &mut Stim) {
        s.set("no_atomics", 0u8);
        let t = s.cycle;
        s.set("rst", (t < 2) as u8);
        let head = self.rj.q.front().copied();
        if self.rj.step(s) {
            let g = &mut self.given[num(head.unwrap().qp) as usize];
            *g = (g.0 + 1, t);
        }
        let head = self.done.q.front().copied();
        if self.done.step(s) {
            let d = head.unwrap();
            if self.lasts.pop_front().unwrap() {
                let l = &mut self.left[num(d.qp) as usize];
                *l = (l.0 + 1, t);
            }
        }
        self.ctls += self.ctl.step(s) as usize;
        self.ad.step(s);
        if let Some(j) = self.at.step::<AtomicJob>(s) {
            assert!(
                self.under.is_none() && self.ad.q.is_empty(),
                "two at a time"
            );
            let m = self.mem.entry(num(j.va)).or_default();
            let orig = *m;
            if j.add {
                *m = orig.wrapping_add(num(j.swap));
            } else if orig == num(j.cmp) {
                *m = num(j.swap);
            }
            assert_eq!(num(j.mr), self.home(num(j.va)));
            self.executed.push(j);
            let d = AtomicDone {
                orig: orig.into(),
                err: self.at_fault,
            };
            self.under = Some((t + 1 + s.rng.below(40) as usize, d));
        }
        if let Some((at, d)) = self.under {
            if t >= at {
                self.ad.q.push_back(d);
                self.under = None;
            }
        }
        if let Some(c) = self.tx.step::<TxCmd>(s) {
            if num(c.kind) == 1 {
                self.fences += 1;
            } else {
                let q = num(c.qp) as usize;
                if num(c.seg_len) > 0 {
                    assert_eq!(num(c.seg_mr), self.home(num(c.seg_va)));
                }
                self.sent[q].push_back(c);
                self.order.push((t, q as u64));
                if self.egress || self.fault {
                    self.lasts.push_back(last(&c));
                    self.done.q.push_back(TxDone {
                        qp: c.qp,
                        resp: true,
                        resp_end: c.resp_end,
                        fault: self.fault,
                    });
                    self.fault = false;
                }
            }
        }
        if let Some(e) = self.err.step::<QpErr>(s) {
            self.errs.push((num(e.qp), num(e.kind)));
        }
        // out() of this cycle answers the address that was set two cycles ago: never down while a response is to leave
        let q = self.probe[0];
        let (g, l) = (self.given[q], self.left[q]);
        if t > g.1 + 3 && t > l.1 + 4 && self.errs.is_empty() && self.ctls == 0 && !self.silent {
            assert_eq!(
                s.out_u64("busy_rdata") == 1,
                g.0 != l.0,
                "busy of QP {q} in cycle {t}: {g:?} {l:?}"
            );
        }
        self.probe = [self.probe[1], s.rng.below(8) as usize];
        s.set("busy_raddr", self.probe[1] as u64);
        s.set("lvl_raddr", self.probe[1] as u64);
        s.set(
            "cfg_rdata",
            raw(cfg_bits(&self.cfg[s.out_u64("cfg_raddr") as usize])),
        );
        s.set(
            "mrc_rdata",
            raw(mr_bits(&self.mrs[s.out_u64("mrc_raddr") as usize % 16])),
        );
        let busy = !self.rj.q.is_empty()
            || !self.done.q.is_empty()
            || !self.ctl.q.is_empty()
            || s.out_u64("idle") == 0;
        self.quiet = if busy { 0 } else { self.quiet + 1 };
    }
}

fn run(name: &str, cycles: usize, f: impl FnMut(&mut Stim)) {
    Diff::new(
        name,
        ReadResp::<3, 4, 7>::default,
        inputs!(
            rst, rj_valid, rj_data, done_valid, done_data, ctl_valid, ctl_data, cfg_rdata,
            mrc_rdata, busy_raddr, lvl_raddr, tx_ready, no_atomics, err_ready, at_ready, ad_valid,
            ad_data
        ),
    )
    .cycles(cycles)
    .stim(f)
    .run();
}

/// The packets of one job.
fn packets(j: &ReadJob, mtu: u64) -> Vec<(u64, u64, u64, u64, u64, bool)> {
    if num(j.op) != 0 {
        // the original data takes the place of the address
        return vec![(0x12, num(j.psn), 0, 0, 0x1F00_0000 | num(j.msn), true)];
    }
    let n = num(j.len).div_ceil(mtu).max(1);
    (0..n)
        .map(|i| {
            let op = match (i == 0, i + 1 == n) {
                (true, true) => 0x10,
                (true, false) => 0x0D,
                (false, true) => 0x0F,
                _ => 0x0E,
            };
            let len = (num(j.len) - i * mtu).min(mtu);
            (
                op,
                (num(j.psn) + i) & 0xFF_FFFF,
                num(j.va) + i * mtu,
                len,
                0x1F00_0000 | num(j.msn),
                i + 1 == n,
            )
        })
        .collect()
}

fn seen(c: &TxCmd) -> (u64, u64, u64, u64, u64, bool) {
    assert!(c.first && c.last && c.resp && c.resp_end && c.len == c.seg_len);
    (
        num(c.opcode),
        num(c.psn),
        if num(c.opcode) == 0x12 {
            0
        } else {
            num(c.seg_va)
        },
        num(c.len),
        num(c.aeth),
        last(c),
    )
}

fn last(c: &TxCmd) -> bool {
    [0x0F, 0x10, 0x12].contains(&num(c.opcode))
}

fn random(name: &str, seed: u64, ready: f64) {
    println!("seed {seed}");
    let mut rng = Rng(seed);
    let mut b = Bench::new(ready, 0.3);
    let mut want: Vec<VecDeque<(u64, u64, u64, u64, u64, bool)>> = vec![VecDeque::new(); 8];
    let (mut psn, mut ok) = (0xFF_FFF0, 0);
    let mut atomics = vec![];
    run(name, 5600, |s| {
        if s.cycle > 3 && s.cycle < 5000 && s.rng.p(0.05) && b.rj.q.len() < 3 {
            let q = rng.below(8) as usize;
            let mtu = 128 << b.cfg[q].mtu;
            if want[q].iter().filter(|p| p.5).count() < 15 {
                let len = match rng.below(5) {
                    0 => 0,
                    1 => mtu,
                    2 => mtu * (1 + rng.below(4)) + rng.below(3) - 1,
                    _ => rng.below(4 * mtu),
                };
                let mr = match rng.below(16) as usize {
                    13 if q != 3 => 12,
                    mr => mr,
                };
                let mut j = b.job(q as u64, psn, len, mr, &mut rng);
                let mut len = len;
                if rng.p(0.3) {
                    j = b.atomic(q as u64, psn, mr, &mut rng);
                    len = 8;
                }
                psn = (psn + len.div_ceil(mtu).max(1)) & 0xFF_FFFF;
                want[q].extend(packets(&j, mtu));
                b.rj.q.push_back(j);
            }
        }
        b.step(s);
        for q in 0..8 {
            while let Some(c) = b.sent[q].pop_front() {
                if num(c.opcode) == 0x12 {
                    atomics.push((q, num(c.psn), num(c.va)));
                }
                assert_eq!(
                    Some(seen(&c)),
                    want[q].pop_front(),
                    "QP {q} in cycle {}",
                    s.cycle
                );
                ok += 1;
            }
        }
    });
    assert!(want.iter().all(|w| w.is_empty()), "not sent: {want:?}");
    assert!(b.quiet > 10 && b.given.iter().zip(&b.left).all(|(g, l)| g.0 == l.0));
    println!("{ok} packets, {} atomics", atomics.len());
    assert!(ok > 300 && atomics.len() > 25);
    // each executed once, with the result of a sequence
    assert_eq!(b.executed.len(), atomics.len());
    let mut mem: HashMap<u64, u64> = HashMap::new();
    for (j, (_, _, got)) in b.executed.iter().zip(&atomics) {
        let m = mem.entry(num(j.va)).or_default();
        assert_eq!(*m, *got, "{j:?}");
        if j.add {
            *m = m.wrapping_add(num(j.swap));
        } else if *m == num(j.cmp) {
            *m = num(j.swap);
        }
    }
}

#[test]
fn random_jobs() {
    random("readresp_random", 1, 1.0);
}

#[test]
fn random_jobs_back_pressure() {
    random("readresp_bp", 2, 0.25);
}

/// A long READ of one QP does not hold up a short one of another; single-packet READs come at the stated interval.
#[test]
fn round_robin_and_interval() {
    let mut b = Bench::new(1.0, 1.0);
    let mut rng = Rng(5);
    println!("seed 5");
    run("readresp_rr", 500, |s| {
        if s.cycle == 5 {
            for _ in 0..2 {
                b.rj.q.push_back(b.job(0, 100, 5000, 1, &mut rng));
            }
        }
        if s.cycle == 60 {
            b.rj.q.push_back(b.job(5, 500, 10, 2, &mut rng));
        }
        if s.cycle == 400 {
            for i in 0..8 {
                b.rj.q.push_back(b.job(3, i, 64, 2, &mut rng));
            }
        }
        b.step(s);
    });
    let of: Vec<u64> = b.order.iter().map(|x| x.1).collect();
    let at = of.iter().position(|q| *q == 5).unwrap();
    let time = b.order[at].0;
    println!("short READ given at 60 left at {time}");
    assert!(time < 80 && of[at + 1..].contains(&0));
    let t: Vec<usize> = b.order.iter().filter(|x| x.1 == 3).map(|x| x.0).collect();
    let long: Vec<usize> = b.order.iter().filter(|x| x.1 == 0).map(|x| x.0).collect();
    let ii = (t[7] - t[0]) as f64 / 7.0;
    println!(
        "II {ii} per single-packet READ, {} in a long one",
        long[30] - long[29]
    );
    assert!(ii <= 8.0 && long[30] - long[29] <= 6);
}

/// What stops a ring: MR gone, QP not live, payload fault, RESET; each leaves the others alone.
#[test]
fn drops() {
    let mut b = Bench::new(1.0, 1.0);
    let mut rng = Rng(6);
    println!("seed 6");
    let mut marks = vec![];
    run("readresp_drop", 1200, |s| {
        match s.cycle {
            5 => {
                for i in 0..4 {
                    b.rj.q.push_back(b.job(0, 10 * i, 1000, 1, &mut rng));
                }
                b.rj.q.push_back(b.job(2, 77, 1000, 2, &mut rng));
            }
            35 => b.mrs[1].valid = false,
            200 => {
                marks.push((b.order.len(), b.errs.clone()));
                b.mrs[1].valid = true;
                for i in 0..4 {
                    b.rj.q.push_back(b.job(1, 10 * i, 2000, 1, &mut rng));
                }
            }
            230 => b.cfg[1].state = 6,
            400 => {
                marks.push((b.order.len(), b.errs.clone()));
                b.fault = true;
                b.rj.q.push_back(b.job(3, 9, 8000, 3, &mut rng));
            }
            600 => {
                marks.push((b.order.len(), b.errs.clone()));
                b.rj.q.push_back(b.job(4, 9, 0x8000, 3, &mut rng));
            }
            620 => {
                b.ctl.q.push_back(QpCtl {
                    op: ctl::RESET.into(),
                    qp: 4.into(),
                    psn: 0.into(),
                    status: 0.into(),
                });
                b.ctl.q.push_back(QpCtl {
                    op: ctl::FENCE.into(),
                    qp: 4.into(),
                    psn: 0.into(),
                    status: 0.into(),
                });
                b.ctl.q.push_back(QpCtl {
                    op: ctl::KICK.into(),
                    qp: 4.into(),
                    psn: 0.into(),
                    status: 0.into(),
                });
            }
            800 => {
                marks.push((b.order.len(), b.errs.clone()));
                b.rj.q.push_back(b.job(4, 9, 100, 3, &mut rng));
                b.rj.q.push_back(b.job(0, 9, 100, 3, &mut rng));
            }
            _ => {}
        }
        b.step(s);
    });
    let count = |q: u64| b.order.iter().filter(|x| x.1 == q).count();
    println!("{marks:?}");
    assert_eq!(marks[0].1, [(0, 5)], "MR gone");
    assert!(count(0) >= 2 && count(0) < 16, "{}", count(0));
    assert_eq!(count(2), 1, "the other QP goes on"); // MTU 1024
    assert_eq!(marks[1].1.len(), 1, "a QP in ERR is dropped silently");
    assert!(count(1) < 12);
    assert_eq!(marks[2].1[1..], [(3, 5)], "payload fault");
    assert!(count(3) < 4);
    assert_eq!((b.ctls, b.fences), (3, 1));
    assert!(count(4) > 1 && count(4) < 9, "{}", count(4));
    assert_eq!(
        b.order[b.order.len() - 2..]
            .iter()
            .map(|x| x.1)
            .collect::<Vec<_>>(),
        [4, 0],
        "live again"
    );
    assert!(b.quiet > 100);
}

/// Bounds that wrap, wrong PD, key, right: nothing leaves.
#[test]
fn refuses() {
    let mut b = Bench::new(1.0, 1.0);
    b.mrs[3] = Mr {
        valid: true,
        rr: true,
        variant: 7,
        pd: 5,
        va: 0x1000,
        len: 0x1000,
        ..Default::default()
    };
    b.mrs[4] = Mr {
        pd: 6,
        ..b.mrs[3].clone()
    };
    b.mrs[5] = Mr {
        rr: false,
        ..b.mrs[3].clone()
    };
    let job = |qp: u64, va: u64, len: u64, rkey: u64| ReadJob {
        qp: qp.into(),
        psn: 1.into(),
        msn: 1.into(),
        va: va.into(),
        rkey: rkey.into(),
        len: len.into(),
        stamp: 0.into(),
        ..Default::default()
    };
    run("readresp_refuse", 200, |s| {
        if s.cycle == 5 {
            b.rj.q
                .push_back(job(0, 0xFFFF_FFFF_FFFF_FC00, 0x400, 0x307));
            b.rj.q.push_back(job(1, 0xFFF, 1, 0x307));
            b.rj.q.push_back(job(2, 0x1001, 0x1000, 0x307));
            b.rj.q.push_back(job(3, 0x1000, 1, 0x407));
            b.rj.q.push_back(job(4, 0x1000, 1, 0x507));
            b.rj.q.push_back(job(5, 0x1000, 1, 0x308));
            b.rj.q.push_back(job(6, 0x1000, 1, 0x1307));
            b.rj.q.push_back(job(7, 0x1FFF, 1, 0x307));
        }
        b.step(s);
    });
    assert_eq!(b.order.iter().map(|x| x.1).collect::<Vec<_>>(), [7]);
    let mut e = b.errs.clone();
    e.sort();
    assert_eq!(e, (0..7).map(|q| (q, 5)).collect::<Vec<_>>());
}

/// A duplicate whose MR is gone is left out alone, also in the middle of its packets: no error, and what is behind it is answered.
#[test]
fn late_duplicates() {
    let mut b = Bench::new(1.0, 1.0);
    let mut rng = Rng(9);
    println!("seed 9");
    run("readresp_late", 900, |s| {
        if s.cycle == 5 {
            for q in 0..4 {
                let (gone, there) = (1, 2);
                for (k, mr) in [gone, there, gone, there].into_iter().enumerate() {
                    let job = match q {
                        0 | 1 => b.job(q, 100 + 10 * k as u64, 3000, mr, &mut rng),
                        _ => b.atomic(q, 100 + 10 * k as u64, mr, &mut rng),
                    };
                    // those of QP 1 and 3 are no duplicates
                    let dup = q % 2 == 0 && mr == gone;
                    b.rj.q.push_back(ReadJob { dup, ..job });
                }
            }
        }
        if s.cycle == 45 {
            b.mrs[1].valid = false;
        }
        b.step(s);
    });
    let of = |q: u64| b.order.iter().filter(|x| x.1 == q).count();
    println!("{:?}, {:?}", b.order, b.errs);
    // MTU 256: both that are there whole, the first that is gone in part, the second not at all
    assert!(of(0) > 24 && of(0) < 36, "{}", of(0));
    assert_eq!(of(2), 2);
    assert!(of(1) < 12, "{}", of(1));
    let mut e = b.errs.clone();
    e.sort();
    assert_eq!(e, [(1, 5), (3, 5)]);
    assert!(b.quiet > 50);
}

/// What was sent of a job before the rest was left out keeps the QP busy until it has left: no ACK overtakes it.
#[test]
fn left_out_in_the_middle_is_busy() {
    let mut b = Bench::new(1.0, 1.0);
    b.egress = false;
    b.silent = true;
    let mut rng = Rng(10);
    let mut seen = vec![];
    run("readresp_middle", 400, |s| {
        if s.cycle == 5 {
            let dup = true;
            let job = b.job(0, 100, 3000, 1, &mut rng);
            b.rj.q.push_back(ReadJob { dup, ..job });
        }
        if s.cycle == 40 {
            b.mrs[1].valid = false;
        }
        if s.cycle == 200 {
            let sent: Vec<TxCmd> = b.sent[0].drain(..).collect();
            assert!(sent.len() > 1 && sent.len() < 12 && b.errs.is_empty());
            for c in sent {
                b.lasts.push_back(false);
                b.done.q.push_back(TxDone {
                    qp: c.qp,
                    resp: true,
                    resp_end: true,
                    fault: false,
                });
            }
        }
        b.step(s);
        s.set("busy_raddr", 0u8);
        seen.push(s.out_u64("busy_rdata") == 1);
    });
    assert!(seen[20..200].iter().all(|busy| *busy), "{seen:?}");
    assert!(seen[300..].iter().all(|busy| !*busy), "{seen:?}");
}

/// A ring holds 16 jobs; what comes beyond is dropped.
#[test]
fn full_ring() {
    let mut b = Bench::new(0.0, 1.0);
    let mut rng = Rng(8);
    println!("seed 8");
    let mut lvl = 0;
    run("readresp_full", 500, |s| {
        if s.cycle == 5 {
            for i in 0..20 {
                b.rj.q.push_back(b.job(1, i, 10, 1, &mut rng));
            }
        }
        if s.cycle == 200 {
            b.tx.p = 1.0;
        }
        b.step(s);
        s.set("lvl_raddr", 1u8);
        if s.cycle == 190 {
            lvl = s.out_u64("lvl_rdata");
            assert_eq!(b.rj.q.len(), 0);
        }
        b.given[1] = (b.left[1].0, s.cycle); // jobs were dropped: busy is not compared
    });
    // the first is in the output register
    assert_eq!(lvl, 15);
    assert_eq!(
        b.sent[1].iter().map(|c| num(c.psn)).collect::<Vec<_>>(),
        (0..16).collect::<Vec<_>>()
    );
}

/// Duplicates of atomics are answered from the last 16 results of their QP and never executed again; without a result there is no answer. Results end
/// with RESET. A refused one is an error of its QP, and RESET during one leaves nothing behind; a fence waits for it.
#[test]
fn atomics_happen_once() {
    let mut b = Bench::new(1.0, 1.0);
    b.silent = true;
    let mut rng = Rng(9);
    println!("seed 9");
    let mut jobs = vec![];
    let again = |j: &ReadJob| ReadJob { dup: true, ..*j };
    let order = |op: u64, qp: u64| QpCtl {
        op: op.into(),
        qp: qp.into(),
        psn: 0.into(),
        status: 0.into(),
    };
    let mut marks = vec![];
    run("readresp_atomic", 6000, |s| {
        match s.cycle {
            5 => {
                for i in 0..20 {
                    let j = b.atomic(1, 100 + i, 1, &mut rng);
                    jobs.push(j);
                }
            }
            // the ring holds 16
            n @ (10 | 1500) => {
                for j in &jobs[if n == 10 { 0..10 } else { 10..20 }] {
                    b.rj.q.push_back(*j);
                }
            }
            2500 => {
                marks.push((b.executed.len(), b.order.len()));
                for i in [19, 3, 4, 10, 19] {
                    b.rj.q.push_back(again(&jobs[i]));
                }
                // of another QP: no result there
                b.rj.q.push_back(ReadJob {
                    qp: 2.into(),
                    ..again(&jobs[19])
                });
            }
            3000 => {
                marks.push((b.executed.len(), b.order.len()));
                b.ctl.q.push_back(order(ctl::RESET, 1));
            }
            3050 => b.rj.q.push_back(again(&jobs[19])),
            3300 => {
                marks.push((b.executed.len(), b.order.len()));
                b.at_fault = true;
                b.rj.q.push_back(jobs[0]);
                b.rj.q.push_back(jobs[1]);
            }
            3600 => {
                marks.push((b.executed.len(), b.order.len()));
                assert_eq!(b.errs, [(1, 5)]);
                b.at_fault = false;
                b.at.p = 0.05;
                b.rj.q.push_back(jobs[2]);
            }
            3615 => {
                b.ctl.q.push_back(order(ctl::RESET, 1));
                b.ctl.q.push_back(order(ctl::FENCE, 1));
            }
            4200 => {
                marks.push((b.executed.len(), b.order.len()));
                b.rj.q.push_back(jobs[5]);
            }
            _ => {}
        }
        b.step(s);
    });
    println!("{marks:?}");
    assert_eq!(marks[0], (20, 20));
    // 19, 4, 10, 19 are among the last 16; 3 is not
    assert_eq!(marks[1], (20, 24));
    let replies: Vec<TxCmd> = b.sent[1].iter().copied().collect();
    for (k, i) in [(20, 19), (21, 4), (22, 10), (23, 19)] {
        assert_eq!(
            (replies[k].psn, replies[k].va),
            (replies[i].psn, replies[i].va)
        );
    }
    assert_eq!(marks[2], (20, 24), "results end with RESET");
    assert_eq!(marks[3], (21, 24), "a fault has no answer");
    assert_eq!(marks[4].1, 24, "reset while it was under way");
    assert_eq!(b.order.len(), 25);
    assert_eq!((b.ctls, b.fences), (3, 1));
    assert!(b.quiet > 100);
}
