//! The responder against a model of its QPs: random traffic with damage, and the named cases; every run also compares rust-hdl with Verilator.
mod rsp;

use metaroce_rtl::diff::{Diff, Rng, Stim};
use metaroce_rtl::inputs;
use metaroce_rtl::responder::Responder;
use metaroce_rtl::types::{ctl, QpCtl, QpIdx};
use rsp::bench::*;
use rsp::model::*;

const M24: u64 = 0xFF_FFFF;
/// QPs of the random traffic; table entries 6 and 7 are SRQs.
const QPS: usize = 6;

fn run(name: &str, cycles: usize, f: impl FnMut(&mut Stim)) {
    Diff::new(
        name,
        Responder::<3, 4, 2, 5>::default,
        inputs!(
            rst,
            rx_valid,
            rx_data,
            ctl_valid,
            ctl_data,
            notify_valid,
            notify_data,
            cfg_rdata,
            av_rdata,
            mrc_rdata,
            slot_rdata,
            pi_rdata,
            avail_rdata,
            lvl_rdata,
            pl_ready,
            ack_ready,
            rj_ready,
            rqfree_ready,
            err_ready,
            no_atomics,
            inv_done,
            inv_ok
        ),
    )
    .cycles(cycles)
    .stim(f)
    .run();
}

fn order(op: u64, qp: u64, psn: u64) -> QpCtl {
    QpCtl {
        op: op.into(),
        qp: qp.into(),
        psn: psn.into(),
        status: 0.into(),
    }
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
            lw: i < 8 || i == 10 || i == 11,
            rw: i % 2 == 0,
            rr: i % 2 == 1,
            ra: i % 4 == 1,
            variant: rng.below(256),
            pd: if i == 7 { 9 } else { 5 },
            parent: [8, 9].contains(&i).then_some(i as u64 - 7),
            qpn: None,
            va: if top {
                u64::MAX - len + 1
            } else {
                rng.next() >> rng.below(20) & !0 >> 1
            },
            len,
        };
    }
}

fn configure(q: &mut Qp, rng: &mut Rng) {
    q.cfg = Cfg {
        state: *[2, 3, 3, 3, 4].get(rng.below(5) as usize).unwrap(),
        ty: [0, 0, 0, 0, 1, 1, 2, 2][rng.below(8) as usize],
        qkey: rng.next() >> 32,
        tag: rng.below(0x1_0000),
        mtu: 1 + rng.below(5),
        pd: 5,
        rcq: rng.below(4096),
        acc_write: !rng.p(0.05),
        acc_read: !rng.p(0.05),
        acc_atomic: !rng.p(0.05),
        min_rnr: rng.below(32),
        max_dest_rd: 1 + rng.below(16),
        dip: std::array::from_fn(|_| rng.next() as u8),
        stride: rng.below(3),
        srq: None,
    };
    if q.cfg.ty != 1 && rng.p(0.4) {
        let i = rng.below(2);
        q.cfg.srq = Some(6 + i);
        q.cfg.stride = 2 * i;
    }
}

/// A range of `len` bytes in MR `m`, now and then wrong by a little.
fn range(mrs: &[Mr], m: usize, len: u64, rng: &mut Rng) -> (u64, u64) {
    let r = &mrs[m];
    let slack = r.len.saturating_sub(len);
    let mut va = r.va.wrapping_add(if rng.p(0.3) {
        slack
    } else {
        rng.below(slack + 1)
    });
    let mut key = (m as u64) << 8 | r.variant;
    if rng.p(0.01) {
        va = va.wrapping_add(slack + 1);
    } else if rng.p(0.01) {
        key ^= 1 << rng.below(32);
    }
    (va, key)
}

/// MR `m`, or mostly another one if it is a window of another QP.
fn own(mrs: &[Mr], m: usize, qpn: u64, rng: &mut Rng) -> usize {
    if mrs[m].qpn.is_some_and(|q| q != qpn) && rng.p(0.9) {
        m - 4
    } else {
        m
    }
}

/// Fills the ring now and then; `srq`: its entries are numbered.
fn post(r: &mut Ring, stride: u64, srq: bool, mrs: &[Mr], rng: &mut Rng) {
    while r.posted() + (1 << stride) <= 4 && !rng.p(0.2) {
        let key_bits = if srq { 24 } else { 32 };
        for i in 0..1 << stride {
            let at = ((r.pi + i) & 3) as usize;
            r.numbers[at] = if srq && i == 0 { rng.below(1 << 16) } else { 0 };
            r.units[at] = std::array::from_fn(|_| {
                let lens = if stride == 0 {
                    [0, 1, 300, 5000, 16384]
                } else {
                    [0, 1, 30, 300, 5000]
                };
                let len = lens[rng.below(5) as usize];
                let m = if rng.p(0.02) {
                    rng.below(16) as usize
                } else {
                    1 + rng.below(6) as usize
                };
                let (va, key) = range(mrs, m, len, rng);
                (va, len, key & ((1 << key_bits) - 1))
            });
        }
        r.pi = (r.pi + (1 << stride)) & 0xFFFF;
    }
}

impl Peer {
    fn new(psn: u64) -> Self {
        Peer {
            hist: vec![],
            psns: vec![],
            pos: 0,
            next_psn: psn,
            left: None,
        }
    }
    /// Append the next packet of the message at hand, or start a message.
    fn make(&mut self, q: &Qp, mrs: &[Mr], rng: &mut Rng) {
        let mtu = 128 << q.cfg.mtu;
        let mut p = Pkt {
            qpn: q.cfg.tag << LOG_QP | q.idx,
            psn: self.next_psn,
            imm: rng.next() & 0xFFFF_FFFF,
            sip: q.cfg.dip,
            ..Default::default()
        };
        p.se = rng.p(0.3);
        p.ackreq = rng.p(0.5);
        p.ce = rng.p(0.1);
        let mut n = 1;
        if q.cfg.ty == 2 {
            p.op = 0x64 + rng.below(2) as u8;
            p.len = [0, 1, 100, 4096, rng.below(4097)][rng.below(5) as usize];
            p.va = (q.cfg.qkey << 32) | rng.below(1 << 24);
            if rng.p(0.03) {
                p.va ^= 1 << (32 + rng.below(32));
            }
            p.sip = std::array::from_fn(|_| rng.next() as u8);
            if rng.p(0.5) {
                p.sip[..12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]);
            }
            self.psns.push(self.next_psn);
            self.hist.push(p);
            self.next_psn = (self.next_psn + 1) & M24;
            return;
        }
        let (kind, left, imm, first) = *self.left.get_or_insert_with(|| {
            let len = match rng.below(6) {
                0 => rng.below(6),
                1 => mtu - 1 + rng.below(3),
                2 => 2 * mtu - 1 + rng.below(3),
                3 => 0,
                4 => rng.below(4 * mtu),
                _ => rng.below(mtu),
            };
            let kinds = if q.cfg.ty == 1 { 2 } else { 4 };
            (1 + rng.below(kinds) as u8, len, rng.p(0.3), true)
        });
        if kind == 4 {
            p.op = 0x13 + rng.below(2) as u8;
            p.imm = 0;
            (p.swap, p.cmp) = (rng.next(), rng.next());
            let m = 1 + 4 * rng.below(4) as usize;
            (p.va, p.rkey) = range(mrs, m, 16, rng);
            if !rng.p(0.03) {
                p.va = p.va.wrapping_add(7) & !7;
            }
            self.left = None;
        } else if kind == 3 {
            p.op = 12;
            p.dlen = left;
            let m = own(mrs, 1 + 2 * rng.below(8) as usize, p.qpn, rng);
            (p.va, p.rkey) = range(mrs, m, left, rng);
            n = left.div_ceil(mtu).max(1);
            self.left = None;
        } else {
            p.len = left.min(mtu);
            let last = left <= mtu;
            let base = if kind == 1 { 0 } else { 6 };
            // the RC of it: some SENDs invalidate a window
            let inv = kind == 1 && last && q.cfg.ty == 0 && rng.p(0.8);
            p.op = match (first, last, imm) {
                (_, true, _) if inv => 0x16 + first as u8,
                (true, false, _) => base,
                (false, false, _) => base + 1,
                (false, true, i) => base + 2 + i as u8,
                (true, true, i) => base + 4 + i as u8,
            };
            if kind == 2 && first {
                p.dlen = left;
                let m = if rng.p(0.03) {
                    rng.below(16) as usize
                } else {
                    2 * (1 + rng.below(7)) as usize
                };
                let m = own(mrs, m, p.qpn, rng);
                (p.va, p.rkey) = range(mrs, m, left, rng);
            }
            self.left = if last {
                None
            } else {
                Some((kind, left - mtu, imm, false))
            };
        }
        p.op |= 0x20 * (q.cfg.ty == 1) as u8;
        self.psns.push(self.next_psn);
        self.hist.push(p);
        self.next_psn = (self.next_psn + n) & M24;
    }
}

fn damage(p: &mut Pkt, rng: &mut Rng) {
    match rng.below(12) {
        0 => {
            p.op = *[0x11, 0x13, 0x14, 0x15, 0x16, 0x17, 0x1C, 0x1F]
                .get(rng.below(8) as usize)
                .unwrap()
        }
        1 => p.op = (p.op & 0xE0) | rng.below(13) as u8,
        2 => p.op |= 0x20 << rng.below(3),
        3 => p.op = 0x81,
        4 => p.qpn ^= 1 << rng.below(24),
        5 => p.sip[rng.below(16) as usize] ^= 1 << rng.below(8),
        6 => p.psn = (p.psn + rng.next()) & M24,
        7 => p.len = (p.len + 1 + rng.below(3)) & 0x1FFF,
        8 => p.len = p.len.saturating_sub(1),
        9 => {
            p.dlen = if rng.p(0.5) {
                rng.below(1 << 32)
            } else {
                p.dlen + 1
            }
        }
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
    for i in 6..8 {
        b.qps[i].cfg = Cfg {
            ty: 3,
            state: 1,
            stride: 2 * (i as u64 - 6),
            ..Default::default()
        };
    }
    let mut limits = 0;
    for i in 0..QPS {
        configure(&mut b.qps[i], &mut rng);
        let psn = if i == 0 {
            0xFF_FFF0
        } else {
            rng.below(1 << 24)
        };
        b.qps[i].start(psn);
        b.ctl.q.push_back(order(ctl::START, i as u64, psn));
        peers.push(Peer::new(psn));
    }
    // windows of type 2, of one QP each and of another one now and then
    for (m, q) in [(8, 1), (9, 2)] {
        b.mrs[m].qpn = Some(b.qps[q].cfg.tag << LOG_QP | q as u64);
    }
    let mut stats = [0usize; 6];
    let mut slot = 0;
    run(name, cycles, |s| {
        if b.quiet() {
            for (t, n) in stats.iter_mut().zip([
                want.jobs.len(),
                want.acks.len(),
                want.reads.len(),
                want.frees.len(),
                want.errs.len(),
                want.invs.len(),
            ]) {
                *t += n;
            }
            limits += want.lims.len();
            compare(&mut b, &mut want, s.cycle);
            match rng.below(10) {
                0 => {
                    let i = rng.below(QPS as u64);
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
                    let i = rng.below(QPS as u64) as usize;
                    b.qps[i].lvl = *[0, 0, 0, 0, 1, 2, 3, 15, 16]
                        .get(rng.below(9) as usize)
                        .unwrap();
                }
                3 => {
                    let i = 6 + rng.below(2);
                    let limit = rng.below(6);
                    b.ctl.q.push_back(order(ctl::LIMIT, i, limit));
                    b.srqs[i as usize].set_limit(i, limit, &mut want);
                }
                _ => {
                    for _ in 0..1 + rng.below(12) {
                        let i = rng.below(QPS as u64) as usize;
                        let (q, peer) = (&mut b.qps[i], &mut peers[i]);
                        if peer.pos == peer.hist.len() {
                            peer.make(q, &b.mrs, &mut rng);
                        }
                        let mut p = peer.hist[peer.pos].clone();
                        match rng.below(40) {
                            0 => peer.pos += 1, // lost
                            1 | 2 => {
                                p = peer.hist[peer.pos.saturating_sub(rng.below(6) as usize)]
                                    .clone()
                            }
                            3 => damage(&mut p, &mut rng),
                            _ => peer.pos += 1,
                        }
                        p.slot = slot;
                        slot = (slot + 1) % 128;
                        p.src = rng.below(0xF_0000);
                        let pq = (p.qpn & 7) as usize;
                        b.rx.q.push_back(rx(&p));
                        b.qps[pq].packet(&p, LOG_QP, &b.mrs, &mut b.srqs, &mut want);
                    }
                }
            }
            // between bursts: repair, post, start again
            if b.rx.q.is_empty() && b.ctl.q.is_empty() {
                for i in 6..8 {
                    let stride = b.qps[i].cfg.stride;
                    if rng.p(0.4) {
                        post(&mut b.srqs[i], stride, true, &b.mrs, &mut rng);
                    }
                }
                for i in 0..QPS {
                    let stride = b.qps[i].cfg.stride;
                    if rng.p(0.3) {
                        post(&mut b.qps[i].rq, stride, false, &b.mrs, &mut rng);
                    }
                    let q = &mut b.qps[i];
                    if q.err && q.cfg.state != 6 && rng.p(0.5) {
                        q.cfg.state = 6;
                        q.flush(LOG_QP, &mut want);
                        b.ctl.q.push_back(order(ctl::FLUSH, i as u64, 0));
                    } else if q.cfg.state == 6
                        && (q.rq.posted() == 0 || q.cfg.srq.is_some())
                        && rng.p(0.5)
                    {
                        q.reset(&mut want);
                        b.avail[i] = 0;
                        b.ctl.q.push_back(order(ctl::RESET, i as u64, 0));
                        configure(q, &mut rng);
                        let psn = rng.below(1 << 24);
                        q.start(psn);
                        b.ctl.q.push_back(order(ctl::START, i as u64, psn));
                        peers[i] = Peer::new(psn);
                    } else if q.cfg.state == 6 && q.rq.posted() != 0 && b.ctl.q.is_empty() {
                        q.flush(LOG_QP, &mut want);
                        b.notify.q.push_back(QpIdx {
                            qp: (i as u64).into(),
                            idx: q.rq.pi.into(),
                        });
                        break; // no order beside it: the sequence would be open
                    } else if q.cfg.ty == 0 && rng.p(0.5) && !q.err {
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
    println!("jobs, acks, reads, rqfrees, errors, windows: {stats:?}");
    println!("limits: {limits}");
    assert!(
        stats.iter().all(|n| *n > 3) && limits > 3,
        "{stats:?} {limits}"
    );
}

#[test]
fn random_traffic() {
    random("responder_random", 1, 16_000, 0.6, 0.7);
}

#[test]
fn random_traffic_no_back_pressure() {
    random("responder_random_b", 2, 16_000, 1.0, 1.0);
}

/// QP 1 live with ePSN 100, MTU 1024, four receives of 8 KiB in MR 2; MR 2 writable, MR 3 readable, 64 KiB each.
fn plain() -> Bench {
    let mut b = Bench::new(1.0, 1.0);
    for m in 1..8 {
        b.mrs[m] = Mr {
            valid: true,
            lw: true,
            rw: m % 2 == 0,
            rr: m % 2 == 1,
            ra: m == 5,
            variant: 9,
            pd: 5,
            va: 0x10_0000,
            len: 0x1_0000,
            ..Default::default()
        };
    }
    b.mrs[6].pd = 6;
    b.mrs[4].lw = false;
    b.mrs[4].va = 0xFFFF_FFFF_FFFF_F800;
    b.mrs[4].len = 0x400;
    for i in 0..8 {
        live(&mut b, i);
    }
    b
}

fn live(b: &mut Bench, i: usize) {
    let q = &mut b.qps[i];
    *q = Qp::new(i as u64);
    q.cfg = Cfg {
        state: 3,
        tag: 0x77,
        mtu: 3,
        pd: 5,
        rcq: 33,
        acc_write: true,
        acc_read: true,
        acc_atomic: true,
        min_rnr: 12,
        max_dest_rd: 4,
        ..Default::default()
    };
    q.rq.units = vec![[(0x10_0000, 8192, 0x209), (0, 0, 0), (0, 0, 0), (0, 0, 0)]; 4];
    q.rq.pi = 4;
    q.start(100);
    b.avail[i] = 0;
    b.ctl.q.push_back(order(ctl::RESET, i as u64, 0));
    b.ctl.q.push_back(order(ctl::START, i as u64, 100));
}

fn pkt(qp: u64, op: u8, psn: u64, len: u64) -> Pkt {
    Pkt {
        op,
        qpn: 0x77 << LOG_QP | qp,
        psn,
        len,
        dlen: len,
        va: 0x10_0000,
        rkey: if op == 12 { 0x309 } else { 0x209 },
        ackreq: true,
        ..Default::default()
    }
}

/// One row per fault: packets, the syndromes that must answer them, and the error kind if the QP goes down.
#[test]
fn named_faults() {
    let rd = |psn, va, dlen| Pkt {
        va,
        dlen,
        ..pkt(0, 12, psn, 0)
    };
    let at = |op, psn, va, rkey| Pkt {
        va,
        rkey,
        ..pkt(0, op, psn, 0)
    };
    let rows: Vec<(&str, Vec<Pkt>, Vec<u64>, Option<u64>)> = vec![
        ("good WRITE", vec![pkt(0, 10, 100, 1024)], vec![0x1F], None),
        (
            "A1 WRITE wraps",
            vec![Pkt {
                va: 0xFFFF_FFFF_FFFF_FC00,
                ..pkt(0, 10, 100, 0x400)
            }],
            vec![0x62],
            Some(2),
        ),
        (
            "A1 READ wraps",
            vec![rd(100, 0xFFFF_FFFF_FFFF_FC00, 0x400)],
            vec![0x62],
            Some(2),
        ),
        (
            "A1 at the top of memory",
            vec![Pkt {
                va: 0xFFFF_FFFF_FFFF_F900,
                rkey: 0x409,
                ..pkt(0, 10, 100, 0x400)
            }],
            vec![0x62],
            Some(2),
        ),
        (
            "top of memory, good",
            vec![Pkt {
                va: 0xFFFF_FFFF_FFFF_F800,
                rkey: 0x409,
                ..pkt(0, 10, 100, 0x400)
            }],
            vec![0x1F],
            None,
        ),
        (
            "A1 duplicate READ is checked",
            vec![rd(100, 0x10_0000, 10), rd(100, 0x10_FFFF, 2)],
            vec![0xFF],
            None,
        ),
        (
            "a new READ takes the ACK wish back, a duplicate does not",
            vec![
                pkt(0, 10, 100, 4),
                rd(101, 0x10_0000, 4),
                pkt(0, 10, 102, 4),
                rd(101, 0x10_0000, 4),
            ],
            vec![0x1F, 0xFF, 0x1F],
            None,
        ),
        (
            "A6 other PD",
            vec![Pkt {
                rkey: 0x609,
                ..pkt(0, 10, 100, 4)
            }],
            vec![0x62],
            Some(2),
        ),
        (
            "A6 right missing",
            vec![Pkt {
                rkey: 0x309,
                ..pkt(0, 10, 100, 4)
            }],
            vec![0x62],
            Some(2),
        ),
        (
            "A7 old variant",
            vec![Pkt {
                rkey: 0x20A,
                ..pkt(0, 10, 100, 4)
            }],
            vec![0x62],
            Some(2),
        ),
        (
            "key index beyond the table",
            vec![Pkt {
                rkey: 0x1209,
                ..pkt(0, 10, 100, 4)
            }],
            vec![0x62],
            Some(2),
        ),
        (
            "zero-length WRITE needs no key",
            vec![Pkt {
                rkey: 0,
                ..pkt(0, 10, 100, 0)
            }],
            vec![0x1F],
            None,
        ),
        (
            "A4 unsupported opcode",
            vec![pkt(0, 0x1D, 100, 0)],
            vec![0x61],
            Some(1),
        ),
        (
            "atomic",
            vec![at(0x13, 100, 0x10_0008, 0x509)],
            vec![0xFF],
            None,
        ),
        (
            "atomic at the end of its MR",
            vec![at(0x14, 100, 0x10_FFF8, 0x509)],
            vec![0xFF],
            None,
        ),
        (
            "atomic beyond its MR",
            vec![at(0x14, 100, 0x11_0000, 0x509)],
            vec![0x62],
            Some(2),
        ),
        (
            "atomic not aligned",
            vec![at(0x13, 100, 0x10_0004, 0x509)],
            vec![0x61],
            Some(1),
        ),
        (
            "atomic without the right",
            vec![at(0x13, 100, 0x10_0000, 0x309)],
            vec![0x62],
            Some(2),
        ),
        (
            "atomic with payload",
            vec![Pkt {
                len: 8,
                ..at(0x13, 100, 0x10_0000, 0x509)
            }],
            vec![0x61],
            Some(1),
        ),
        (
            "B6 Middle without First",
            vec![pkt(0, 7, 100, 1024)],
            vec![0x61],
            Some(1),
        ),
        (
            "B6 First inside a message",
            vec![pkt(0, 0, 100, 1024), pkt(0, 4, 101, 4)],
            vec![0x1F, 0x61],
            Some(1),
        ),
        (
            "B6 READ inside a message",
            vec![pkt(0, 0, 100, 1024), rd(101, 0x10_0000, 4)],
            vec![0x1F, 0x61],
            Some(1),
        ),
        (
            "B15 Only above MTU",
            vec![pkt(0, 10, 100, 1025)],
            vec![0x61],
            Some(1),
        ),
        (
            "B15 First below MTU",
            vec![Pkt {
                dlen: 2000,
                ..pkt(0, 6, 100, 1023)
            }],
            vec![0x61],
            Some(1),
        ),
        (
            "B15 Last empty",
            vec![pkt(0, 0, 100, 1024), pkt(0, 2, 101, 0)],
            vec![0x1F, 0x61],
            Some(1),
        ),
        (
            "B15 full Last",
            vec![
                Pkt {
                    dlen: 2048,
                    ..pkt(0, 6, 100, 1024)
                },
                pkt(0, 8, 101, 1024),
            ],
            vec![0x1F, 0x1F],
            None,
        ),
        (
            "DMALen longer than the message",
            vec![
                Pkt {
                    dlen: 2049,
                    ..pkt(0, 6, 100, 1024)
                },
                pkt(0, 8, 101, 1024),
            ],
            vec![0x1F, 0x61],
            Some(1),
        ),
        (
            "DMALen shorter than the message",
            vec![Pkt {
                dlen: 1024,
                ..pkt(0, 6, 100, 1024)
            }],
            vec![0x61],
            Some(1),
        ),
        (
            "READ above 2^31",
            vec![rd(100, 0x10_0000, (1 << 31) + 1)],
            vec![0x61],
            Some(1),
        ),
        (
            "sequence NAK once",
            vec![
                pkt(0, 10, 101, 4),
                pkt(0, 10, 102, 4),
                pkt(0, 10, 100, 4),
                pkt(0, 10, 102, 4),
            ],
            vec![0x60, 0x1F, 0x60],
            None,
        ),
        (
            "duplicate is acknowledged again",
            vec![pkt(0, 10, 100, 4), pkt(0, 10, 100, 4)],
            vec![0x1F, 0x1F],
            None,
        ),
        (
            "RNR, then silence until it comes again",
            (0..7)
                .map(|i| pkt(0, 4, 100 + i.min(5), 4))
                .chain([pkt(0, 4, 104, 4)])
                .collect(),
            vec![0x1F, 0x1F, 0x1F, 0x1F, 0x2C, 0x2C],
            None,
        ),
        (
            "RNR before any effect of WRITE with immediate",
            (0..5).map(|i| pkt(0, 11, 100 + i, 4)).collect(),
            vec![0x1F, 0x1F, 0x1F, 0x1F, 0x2C],
            None,
        ),
        (
            "D1 receive buffer too small",
            (0..9)
                .map(|i| pkt(0, (i > 0) as u8, 100 + i, 1024))
                .collect(),
            vec![0x1F, 0x1F, 0x1F, 0x1F, 0x1F, 0x1F, 0x1F, 0x1F, 0x61],
            Some(1),
        ),
        (
            "wrong tag",
            vec![Pkt {
                qpn: 0x78 << LOG_QP,
                ..pkt(0, 10, 100, 4)
            }],
            vec![],
            None,
        ),
        (
            "wrong source",
            vec![Pkt {
                sip: [1; 16],
                ..pkt(0, 10, 100, 4)
            }],
            vec![],
            None,
        ),
        (
            "C14 UD opcode on RC",
            vec![pkt(0, 0x64, 100, 4)],
            vec![],
            None,
        ),
        ("CNP", vec![pkt(0, 0x81, 0, 16)], vec![], None),
    ];
    let mut b = plain();
    b.fetch_p = 1.0;
    let mut want = Effects::default();
    let mut k = 0;
    run("responder_faults", 6500, |s| {
        if b.quiet() && s.cycle > 60 {
            if k % 2 == 0 && k < 2 * rows.len() {
                b.got = Effects::default();
                live(&mut b, 0);
            } else if k < 2 * rows.len() {
                b.got = Effects::default();
                want = Effects::default();
                for p in &rows[k / 2].1 {
                    b.rx.q.push_back(rx(p));
                    b.qps[(p.qpn & 7) as usize].packet(p, LOG_QP, &b.mrs, &mut b.srqs, &mut want);
                }
            }
            k += 1;
        }
        b.step(s);
        if k % 2 == 0 && k > 0 && k <= 2 * rows.len() && b.quiet() {
            let (name, _, syn, err) = &rows[k / 2 - 1];
            assert_eq!(
                b.got.acks.iter().map(|a| a.2).collect::<Vec<_>>(),
                *syn,
                "{name}"
            );
            assert_eq!(
                b.got.errs.iter().map(|e| e.1).collect::<Vec<_>>(),
                err.iter().copied().collect::<Vec<_>>(),
                "{name}"
            );
            assert_eq!(b.got, want, "{name}");
        }
    });
    assert!(
        k >= 2 * rows.len(),
        "only {} of {} rows ran",
        k / 2,
        rows.len()
    );
}

/// Cycles per packet with all outputs ready.
#[test]
fn initiation_intervals() {
    let mut b = plain();
    b.fetch_p = 1.0;
    let mut want = Effects::default();
    let mut pkts = vec![Pkt {
        dlen: 10 * 1024,
        ..pkt(1, 6, 100, 1024)
    }];
    pkts.extend((1..9).map(|i| pkt(1, 7, 100 + i, 1024)));
    pkts.push(pkt(1, 8, 109, 1024)); // 0..9 WRITE
    pkts.extend((0..4).map(|i| pkt(1, 4, 110 + i, 64))); // 10..13 SEND Only
    pkts.extend((0..4).map(|i| pkt(2, 11, 100 + i, 64))); // 14..17 WRITE Only with immediate
    pkts.extend((0..4).map(|i| pkt(3, 10, 100 + i, 64))); // 18..21 WRITE Only
    pkts.extend((0..4).map(|i| Pkt {
        dlen: 64,
        ..pkt(4, 12, 100 + i, 0)
    })); // 22..25 READ
    pkts.push(pkt(5, 0x81, 0, 16));
    run("responder_ii", 400, |s| {
        if s.cycle == 100 {
            for p in &pkts {
                b.rx.q.push_back(rx(p));
                b.qps[(p.qpn & 7) as usize].packet(p, LOG_QP, &b.mrs, &mut b.srqs, &mut want);
            }
            b.got = Effects::default();
        }
        b.step(s);
    });
    assert_eq!(b.got, want);
    let ii = |a: usize, z: usize| (b.taken[z] - b.taken[a]) as f64 / (z - a) as f64;
    for (name, a, z, bound) in [
        ("WRITE First..Last", 0, 9, 7.0),
        ("SEND Only", 10, 13, 7.0),
        ("WRITE Only with imm", 14, 17, 7.0),
        ("WRITE Only", 18, 21, 7.0),
        ("READ", 22, 25, 8.0),
    ] {
        println!("II {name}: {} cycles", ii(a, z));
        assert!(ii(a, z) <= bound, "{name}");
    }
}

/// A card without atomics answers one as any opcode that it does not know; the rest goes on.
#[test]
fn without_atomics() {
    let mut b = plain();
    b.fetch_p = 1.0;
    run("responder_no_atomics", 400, |s| {
        if s.cycle == 100 {
            b.got = Effects::default();
            for (q, op) in [(1, 0x13), (2, 0x14), (3, 12), (4, 10)] {
                let rkey = [0x509, 0x309][(op == 12) as usize];
                b.rx.q.push_back(rx(&Pkt {
                    rkey: if op == 10 { 0x209 } else { rkey },
                    dlen: 8,
                    ..pkt(q, op, 100, if op == 10 { 8 } else { 0 })
                }));
            }
        }
        b.step(s);
        s.set("no_atomics", 1u8);
    });
    let mut syn: Vec<_> = b.got.acks.iter().map(|a| (a.0, a.2)).collect();
    syn.sort();
    assert_eq!(syn, [(1, 0x61), (2, 0x61), (3, 0xFF), (4, 0x1F)]);
    let mut errs: Vec<_> = b.got.errs.iter().map(|e| (e.0, e.1)).collect();
    errs.sort();
    assert_eq!(errs, [(1, 1), (2, 1)]);
    assert!(b.quiet());
}

/// A SEND whose receive WQE is not on the card yet waits; orders are served; a QP that is reset meanwhile gets nothing.
#[test]
fn waits_for_the_receive_wqe() {
    let mut b = plain();
    b.fetch_p = 0.0;
    let mut want = Effects::default();
    run("responder_wait", 500, |s| {
        match s.cycle {
            100 => {
                b.got = Effects::default();
                b.ctl_done.clear();
                for p in [pkt(1, 4, 100, 64), pkt(2, 10, 100, 64)] {
                    b.rx.q.push_back(rx(&p));
                    b.qps[(p.qpn & 7) as usize].packet(&p, LOG_QP, &b.mrs, &mut b.srqs, &mut want);
                }
            }
            150 => {
                assert_eq!(b.got, Effects::default());
                b.ctl.q.push_back(order(ctl::QUERY, 1, 0));
                b.ctl.q.push_back(order(ctl::FENCE, 1, 0));
            }
            200 => {
                assert_eq!(b.ctl_done[0], 100, "PSN of QUERY");
                assert_eq!(b.got.jobs, [Job::Fence]);
                b.got = Effects::default();
                b.avail[1] = 1;
            }
            250 => {
                assert_eq!(b.got, want);
                assert_eq!(b.got.jobs.len(), 3);
                b.got = Effects::default();
                b.rx.q.push_back(rx(&pkt(3, 4, 100, 64)));
            }
            300 => b.qps[3].cfg.state = 0,
            302 => b.ctl.q.push_back(order(ctl::RESET, 3, 0)),
            350 => {
                assert_eq!(b.got.jobs, [Job::Free { slot: 0 }]);
                assert_eq!(b.got.ev, [1, 0, 0, 0, 0]);
            }
            _ => {}
        }
        b.step(s);
    });
    assert!(b.quiet());
}

/// A14, B7: QP to ERR in the middle of a SEND: the held receive and all others are flushed once, in order, then those posted later.
#[test]
fn flush() {
    let mut b = plain();
    b.fetch_p = 1.0;
    run("responder_flush", 400, |s| {
        match s.cycle {
            100 => {
                b.got = Effects::default();
                b.rx.q.push_back(rx(&pkt(1, 0, 100, 1024)));
            }
            130 => {
                b.qps[1].cfg.state = 6;
                b.rx.q.push_back(rx(&pkt(1, 2, 101, 4)));
                b.ctl.q.push_back(order(ctl::FLUSH, 1, 0));
            }
            200 => {
                b.qps[1].rq.pi = 6;
                b.notify.q.push_back(QpIdx {
                    qp: 1.into(),
                    idx: 6.into(),
                });
                b.notify.q.push_back(QpIdx {
                    qp: 2.into(),
                    idx: 4.into(),
                });
            }
            _ => {}
        }
        b.step(s);
    });
    let cqes: Vec<(u64, u64)> = b
        .got
        .jobs
        .iter()
        .filter_map(|j| {
            if let Job::Cqe { index, status, .. } = j {
                Some((*index, *status))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(cqes, (0..6).map(|i| (i, 5)).collect::<Vec<_>>());
    assert_eq!(b.got.ev[0], 1);
}
