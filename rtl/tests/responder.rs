//! The responder against a model of its QPs: random traffic with damage, and the named cases; every run also compares rust-hdl with Verilator.
mod rsp;

use metaroce_rtl::diff::{Diff, Rng, Stim};
use metaroce_rtl::inputs;
use metaroce_rtl::responder::Responder;
use metaroce_rtl::types::{ctl, QpCtl, QpIdx};
use rsp::bench::*;
use rsp::model::*;

const M24: u64 = 0xFF_FFFF;

fn run(name: &str, cycles: usize, f: impl FnMut(&mut Stim)) {
    Diff::new(
        name,
        Responder::<3, 4, 2>::default,
        inputs!(
            rst, rx_valid, rx_data, ctl_valid, ctl_data, notify_valid, notify_data, cfg_rdata, av_rdata, mrc_rdata, slot_rdata, pi_rdata, avail_rdata,
            lvl_rdata, pl_ready, ack_ready, rj_ready, rqfree_ready, err_ready
        ),
    )
    .cycles(cycles)
    .stim(f)
    .run();
}

fn order(op: u64, qp: u64, psn: u64) -> QpCtl {
    QpCtl { op: op.into(), qp: qp.into(), psn: psn.into(), status: 0.into() }
}

/// The peer of one QP: makes messages, remembers every packet, goes back when told.
struct Peer {
    hist: Vec<Pkt>,
    psns: Vec<u64>,
    pos: usize,
    next_psn: u64,
    left: Option<(u8, u64, bool, bool)>, // 1 SEND 2 WRITE, bytes left, with immediate, first
}

/// MR 1..: those with an even number may be written remotely, odd ones read.
fn tables(b: &mut Bench, rng: &mut Rng) {
    for (i, m) in b.mrs.iter_mut().enumerate() {
        let top = i == 15;
        let len = 0x4000 + rng.below(0x1_0000);
        *m = Mr {
            valid: i != 0,
            lw: i < 12,
            rw: i % 2 == 0,
            rr: i % 2 == 1,
            variant: rng.below(256),
            pd: if i == 7 { 9 } else { 5 },
            va: if top { u64::MAX - len + 1 } else { rng.next() >> rng.below(20) & !0 >> 1 },
            len,
        };
    }
}

fn configure(q: &mut Qp, rng: &mut Rng) {
    q.cfg = Cfg {
        state: *[2, 3, 3, 3, 4].get(rng.below(5) as usize).unwrap(),
        ty: 0,
        tag: rng.below(0x1_0000),
        mtu: 1 + rng.below(5),
        pd: 5,
        rcq: rng.below(4096),
        acc_write: !rng.p(0.05),
        acc_read: !rng.p(0.05),
        min_rnr: rng.below(32),
        max_dest_rd: 1 + rng.below(16),
        dip: std::array::from_fn(|_| rng.next() as u8),
    };
}

/// A range of `len` bytes in MR `m`, now and then wrong by a little.
fn range(mrs: &[Mr], m: usize, len: u64, rng: &mut Rng) -> (u64, u64) {
    let r = &mrs[m];
    let slack = r.len.saturating_sub(len);
    let mut va = r.va.wrapping_add(if rng.p(0.3) { slack } else { rng.below(slack + 1) });
    let mut key = (m as u64) << 8 | r.variant;
    if rng.p(0.01) {
        va = va.wrapping_add(slack + 1);
    } else if rng.p(0.01) {
        key ^= 1 << rng.below(32);
    }
    (va, key)
}

fn post(q: &mut Qp, mrs: &[Mr], rng: &mut Rng) {
    while (q.pi.wrapping_sub(q.ci)) & 0xFFFF < 4 && !rng.p(0.2) {
        let w = std::array::from_fn(|_| {
            let len = *[0, 1, 300, 5000, 16384].get(rng.below(5) as usize).unwrap();
            let m = if rng.p(0.02) { rng.below(16) as usize } else { 1 + rng.below(6) as usize };
            let (va, key) = range(mrs, m, len, rng);
            (va, len, key)
        });
        q.rq[(q.pi & 3) as usize] = w;
        q.pi = (q.pi + 1) & 0xFFFF;
    }
}

impl Peer {
    fn new(psn: u64) -> Self {
        Peer { hist: vec![], psns: vec![], pos: 0, next_psn: psn, left: None }
    }
    /// Append the next packet of the message at hand, or start a message.
    fn make(&mut self, q: &Qp, mrs: &[Mr], rng: &mut Rng) {
        let mtu = 128 << q.cfg.mtu;
        let mut p = Pkt { qpn: q.cfg.tag << LOG_QP | q.idx, psn: self.next_psn, imm: rng.next() & 0xFFFF_FFFF, sip: q.cfg.dip, ..Default::default() };
        p.se = rng.p(0.3);
        p.ackreq = rng.p(0.5);
        p.ce = rng.p(0.1);
        let mut n = 1;
        let (kind, left, imm, first) = *self.left.get_or_insert_with(|| {
            let len = match rng.below(6) {
                0 => rng.below(6),
                1 => mtu - 1 + rng.below(3),
                2 => 2 * mtu - 1 + rng.below(3),
                3 => 0,
                4 => rng.below(4 * mtu),
                _ => rng.below(mtu),
            };
            (1 + rng.below(3) as u8, len, rng.p(0.3), true)
        });
        if kind == 3 {
            p.op = 12;
            p.dlen = left;
            let m = 1 + 2 * rng.below(8) as usize;
            (p.va, p.rkey) = range(mrs, m, left, rng);
            n = left.div_ceil(mtu).max(1);
            self.left = None;
        } else {
            p.len = left.min(mtu);
            let last = left <= mtu;
            let base = if kind == 1 { 0 } else { 6 };
            p.op = match (first, last, imm) {
                (true, false, _) => base,
                (false, false, _) => base + 1,
                (false, true, i) => base + 2 + i as u8,
                (true, true, i) => base + 4 + i as u8,
            };
            if kind == 2 && first {
                p.dlen = left;
                let m = if rng.p(0.03) { rng.below(16) as usize } else { 2 * (1 + rng.below(7)) as usize };
                (p.va, p.rkey) = range(mrs, m, left, rng);
            }
            self.left = if last { None } else { Some((kind, left - mtu, imm, false)) };
        }
        self.psns.push(self.next_psn);
        self.hist.push(p);
        self.next_psn = (self.next_psn + n) & M24;
    }
}

fn damage(p: &mut Pkt, rng: &mut Rng) {
    match rng.below(12) {
        0 => p.op = *[0x11, 0x13, 0x14, 0x15, 0x16, 0x17, 0x1C, 0x1F].get(rng.below(8) as usize).unwrap(),
        1 => p.op = rng.below(13) as u8,
        2 => p.op |= 0x20 << rng.below(3),
        3 => p.op = 0x81,
        4 => p.qpn ^= 1 << rng.below(24),
        5 => p.sip[rng.below(16) as usize] ^= 1 << rng.below(8),
        6 => p.psn = (p.psn + rng.next()) & M24,
        7 => p.len = (p.len + 1 + rng.below(3)) & 0x1FFF,
        8 => p.len = p.len.saturating_sub(1),
        9 => p.dlen = if rng.p(0.5) { rng.below(1 << 32) } else { p.dlen + 1 },
        10 => p.rkey ^= 1 << rng.below(32),
        _ => p.va = p.va.wrapping_sub(1 << rng.below(64)),
    }
}

/// Compare all streams, then forget them.
fn compare(b: &mut Bench, want: &mut Effects, cycle: usize) {
    assert_eq!(b.got.jobs, want.jobs, "jobs at cycle {cycle}");
    assert_eq!(b.got, *want, "cycle {cycle}");
    b.got = Effects::default();
    *want = Effects::default();
}

fn random(name: &str, seed: u64, cycles: usize, ready: f64, valid: f64) {
    println!("seed {seed}");
    let mut rng = Rng(seed);
    let mut b = Bench::new(ready, valid);
    let mut want = Effects::default();
    let mut peers: Vec<Peer> = vec![];
    tables(&mut b, &mut rng);
    for i in 0..8 {
        configure(&mut b.qps[i], &mut rng);
        let psn = if i == 0 { 0xFF_FFF0 } else { rng.below(1 << 24) };
        b.qps[i].start(psn);
        b.ctl.q.push_back(order(ctl::START, i as u64, psn));
        peers.push(Peer::new(psn));
    }
    let mut stats = [0usize; 5];
    let mut slot = 0;
    run(name, cycles, |s| {
        if b.quiet() {
            for (t, n) in stats.iter_mut().zip([want.jobs.len(), want.acks.len(), want.reads.len(), want.frees.len(), want.errs.len()]) {
                *t += n;
            }
            compare(&mut b, &mut want, s.cycle);
            match rng.below(10) {
                0 => {
                    let i = rng.below(8);
                    b.ctl.q.push_back(order(ctl::FENCE, i, 0));
                    want.jobs.push(Job::Fence);
                    b.ctl.q.push_back(order(ctl::KICK, i, 0));
                }
                1 => {
                    // revoke and register again under another variant
                    let m = rng.below(16) as usize;
                    if rng.p(0.1) {
                        b.mrs[m].variant = rng.below(256);
                    }
                }
                2 => {
                    let i = rng.below(8) as usize;
                    b.qps[i].lvl = *[0, 0, 0, 0, 1, 2, 3, 15, 16].get(rng.below(9) as usize).unwrap();
                }
                _ => {
                    for _ in 0..1 + rng.below(12) {
                        let i = rng.below(8) as usize;
                        let (q, peer) = (&mut b.qps[i], &mut peers[i]);
                        if peer.pos == peer.hist.len() {
                            peer.make(q, &b.mrs, &mut rng);
                        }
                        let mut p = peer.hist[peer.pos].clone();
                        match rng.below(40) {
                            0 => peer.pos += 1, // lost
                            1 | 2 => p = peer.hist[peer.pos.saturating_sub(rng.below(6) as usize)].clone(),
                            3 => damage(&mut p, &mut rng),
                            _ => peer.pos += 1,
                        }
                        p.slot = slot;
                        slot = (slot + 1) % 128;
                        p.src = rng.below(0xF_0000);
                        let pq = (p.qpn & 7) as usize;
                        b.rx.q.push_back(rx(&p));
                        b.qps[pq].packet(&p, LOG_QP, &b.mrs, &mut want);
                    }
                }
            }
            // between bursts: repair, post, start again
            if b.rx.q.is_empty() && b.ctl.q.is_empty() {
                for i in 0..8 {
                    if rng.p(0.3) {
                        post(&mut b.qps[i], &b.mrs, &mut rng);
                    }
                    let q = &mut b.qps[i];
                    if q.err && q.cfg.state != 6 && rng.p(0.5) {
                        q.cfg.state = 6;
                        q.flush(LOG_QP, &mut want);
                        b.ctl.q.push_back(order(ctl::FLUSH, i as u64, 0));
                    } else if q.cfg.state == 6 && q.ci == q.pi && rng.p(0.5) {
                        q.reset(&mut want);
                        b.avail[i] = 0;
                        b.ctl.q.push_back(order(ctl::RESET, i as u64, 0));
                        configure(q, &mut rng);
                        let psn = rng.below(1 << 24);
                        q.start(psn);
                        b.ctl.q.push_back(order(ctl::START, i as u64, psn));
                        peers[i] = Peer::new(psn);
                    } else if q.cfg.state == 6 && q.ci != q.pi && b.ctl.q.is_empty() {
                        q.flush(LOG_QP, &mut want);
                        b.notify.q.push_back(QpIdx { qp: (i as u64).into(), idx: q.pi.into() });
                        break; // no order beside it: the sequence would be open
                    } else if rng.p(0.5) && !q.err {
                        if let Some(k) = peers[i].psns.iter().position(|p| *p == q.epsn) {
                            peers[i].pos = k;
                        } else if peers[i].next_psn == q.epsn {
                            peers[i].pos = peers[i].hist.len();
                        }
                    }
                }
            }
        }
        b.step(s);
    });
    println!("jobs, acks, reads, rqfrees, errors: {stats:?}");
    assert!(stats.iter().all(|n| *n > 3), "{stats:?}");
}

#[test]
fn random_traffic() {
    random("responder_random", 1, 12_000, 0.6, 0.7);
}

#[test]
fn random_traffic_no_back_pressure() {
    random("responder_random", 2, 12_000, 1.0, 1.0);
}
