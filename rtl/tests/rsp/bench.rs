//! Neighbours of the responder: tables, receive queue, ring level, streams; collects what it puts out.

use super::model::*;
use super::*;
use metaroce_rtl::layouts::{Av, MrCheck, QpCfg, Rq};
use metaroce_rtl::types::*;
use metaroce_rtl::window::WinInv;

pub const LOG_QP: u32 = 3;

pub struct Bench {
    pub qps: Vec<Qp>,
    pub mrs: Vec<Mr>,
    /// Rings of the table entries that are SRQs (`cfg.ty` is 3).
    pub srqs: Vec<Ring>,
    /// Units on the card, per ring; moves towards `pi` by itself.
    pub avail: Vec<u64>,
    pub fetch_p: f64,
    pub rx: Feed<RxPkt>,
    pub ctl: Feed<QpCtl>,
    pub notify: Feed<QpIdx>,
    pub sinks: Vec<Sink>,
    pub got: Effects,
    pub ctl_done: Vec<u64>,
    /// Cycles of rx transfers.
    pub taken: Vec<usize>,
    quiet: usize,
    inv_at: Option<usize>,
    told: bool,
}

pub fn gid(b: [u8; 16]) -> Bits<128> {
    metaroce_rtl::prims::packed::bits_from_bytes(&b)
}

pub fn rx(p: &Pkt) -> RxPkt {
    RxPkt {
        opcode: (p.op as u64).into(),
        se: p.se,
        ackreq: p.ackreq,
        qpn: p.qpn.into(),
        psn: p.psn.into(),
        va: p.va.into(),
        rkey: p.rkey.into(),
        // an AtomicETH has no DMALen
        dlen: if matches!(p.op & 31, 0x13 | 0x14) {
            0.into()
        } else {
            p.dlen.into()
        },
        aeth: 0.into(),
        imm: p.imm.into(),
        sip: gid(p.sip),
        ce: p.ce,
        swap: p.swap.into(),
        cmp: p.cmp.into(),
        src: p.src.into(),
        len: p.len.into(),
        slot: p.slot.into(),
        stamp: (p.psn + 1000).into(),
    }
}

impl Bench {
    pub fn new(ready: f64, valid: f64) -> Self {
        Bench {
            qps: (0..8).map(Qp::new).collect(),
            mrs: vec![Mr::default(); 16],
            srqs: vec![Ring::default(); 8],
            avail: vec![0; 8],
            fetch_p: 0.05,
            rx: Feed::new("rx", valid),
            ctl: Feed::new("ctl", 0.5),
            notify: Feed::new("notify", 0.5),
            sinks: ["pl", "ack", "rj", "rqfree", "err"]
                .map(|n| Sink::new(n, ready))
                .into(),
            got: Effects::default(),
            ctl_done: vec![],
            taken: vec![],
            quiet: 0,
            inv_at: None,
            told: false,
        }
    }

    /// Everything given has been handled.
    pub fn quiet(&self) -> bool {
        self.quiet > 3
    }

    fn ring(&self, i: usize) -> &Ring {
        match self.qps[i].cfg.ty {
            3 => &self.srqs[i],
            _ => &self.qps[i].rq,
        }
    }

    pub fn step(&mut self, s: &mut Stim) {
        s.set("no_atomics", 0u8);
        s.set("rst", (s.cycle < 2) as u8);
        let t = s.cycle;
        if self.rx.step(s) {
            self.taken.push(t - 1);
        }
        if self.ctl.step(s) {
            self.ctl_done.push(s.out_u64("ctl_psn"));
        }
        self.notify.step(s);
        let busy = !self.rx.q.is_empty() || !self.ctl.q.is_empty() || !self.notify.q.is_empty();
        self.quiet = if busy || s.out_u64("idle") == 0 {
            0
        } else {
            self.quiet + 1
        };
        for (i, n) in [
            "ev_drop_qp",
            "ev_duplicate",
            "ev_sequence",
            "ev_cnp",
            "ev_ecn",
        ]
        .iter()
        .enumerate()
        {
            self.got.ev[i] += s.out_u64(n);
        }
        if let Some(j) = self.sinks[0].step::<PlJob>(s) {
            self.got.jobs.push(job(&j));
        }
        if let Some(a) = self.sinks[1].step::<AckReq>(s) {
            let (syn, msn) = (num(a.aeth) >> 24, num(a.aeth) & 0xFF_FFFF);
            // a wish taken back has no PSN
            let (psn, msn) = if syn == 0xFF {
                (0, 0)
            } else {
                (num(a.psn), msn)
            };
            self.got.acks.push((num(a.qp), psn, syn, msn));
        }
        if let Some(r) = self.sinks[2].step::<ReadJob>(s) {
            self.got.reads.push((
                num(r.qp),
                num(r.psn),
                num(r.msn),
                num(r.va),
                num(r.rkey),
                num(r.len),
            ));
            self.got
                .ops
                .push((num(r.op), r.dup, num(r.swap), num(r.cmp)));
        }
        if let Some(f) = self.sinks[3].step::<QpIdx>(s) {
            self.got.frees.push((num(f.qp), num(f.idx)));
        }
        if let Some(e) = self.sinks[4].step::<QpErr>(s) {
            self.got.errs.push((num(e.qp), num(e.kind)));
        }
        // the window unit answers some time later
        let asks = s.out_u64("inv_valid") == 1 && !self.told;
        if asks && self.inv_at.is_none() {
            self.inv_at = Some(t + s.rng.below(12) as usize);
        }
        self.told = self.inv_at.is_some_and(|at| at <= t);
        let a: WinInv = un(&s.out("inv_data"));
        if self.told {
            self.inv_at = None;
            self.got.invs.push((num(a.key), num(a.qpn), num(a.pd)));
        }
        s.set("inv_done", self.told as u8);
        s.set("inv_ok", (self.told && may_invalidate(num(a.key))) as u8);
        // tables answer the addresses of the cycle before
        let mut addr = [0; 6];
        for (i, n) in [
            "cfg_raddr",
            "av_raddr",
            "mrc_raddr",
            "slot_raddr",
            "idx_raddr",
            "lvl_raddr",
        ]
        .iter()
        .enumerate()
        {
            addr[i] = s.out_u64(n);
        }
        let [cfg, av, mrc, slot, idx, lvl] = addr;
        s.set("cfg_rdata", raw(cfg_bits(&self.qps[cfg as usize].cfg)));
        s.set(
            "av_rdata",
            raw(Av {
                dip: gid(self.qps[av as usize].cfg.dip),
                qkey: self.qps[av as usize].cfg.qkey.into(),
                ..Default::default()
            }),
        );
        s.set(
            "mrc_rdata",
            raw(mr_bits(self.mrs.get(mrc as usize % 16).unwrap())),
        );
        let r = self.ring(slot as usize >> 2);
        let (w, n) = (&r.units[slot as usize & 3], r.numbers[slot as usize & 3]);
        s.set("slot_rdata", raw(rq_bits(w, n)));
        s.set("pi_rdata", self.ring(idx as usize).pi);
        s.set("avail_rdata", self.avail[idx as usize]);
        s.set("lvl_rdata", self.qps[lvl as usize].lvl);
        if s.out_u64("lim_valid") == 1 {
            self.got.lims.push(s.out_u64("lim_qp"));
        }
        for i in 0..8 {
            if s.rng.p(self.fetch_p) {
                self.avail[i] = self.ring(i).pi;
            }
        }
    }
}

fn job(j: &PlJob) -> Job {
    let slot = num(j.slot);
    match num(j.kind) {
        0 => {
            assert!(j.free);
            Job::Free { slot }
        }
        1 => Job::Pay {
            mr: num(j.mr),
            va: num(j.va),
            len: num(j.len),
            src: num(j.src),
            free: j.free,
            slot,
        },
        2 => {
            assert!(j.is_recv);
            Job::Cqe {
                cq: num(j.cq),
                qpn: num(j.qpn),
                op: num(j.opcode),
                index: num(j.index),
                status: num(j.status),
                imm: j.with_imm.then_some(num(j.imm)),
                inv: j.with_inv.then_some(num(j.imm)),
                sol: j.solicited,
                len: num(j.length),
                free: j.free.then_some(slot),
                grh: j.grh.then_some(num(j.va) & 0xFF_FFFF),
            }
        }
        _ => {
            // slot 1 is that of the requester's fences
            assert!(!j.free && num(j.slot) == 0);
            Job::Fence
        }
    }
}

pub fn cfg_bits(c: &Cfg) -> QpCfg {
    QpCfg {
        state: c.state.into(),
        qp_type: c.ty.into(),
        tag: c.tag.into(),
        mtu: c.mtu.into(),
        pd: c.pd.into(),
        rcq: c.rcq.into(),
        acc_write: c.acc_write,
        acc_read: c.acc_read,
        acc_atomic: c.acc_atomic,
        min_rnr: c.min_rnr.into(),
        max_dest_rd: c.max_dest_rd.into(),
        rq_stride: c.stride.into(),
        srq: c.srq.is_some(),
        srqn: c.srq.unwrap_or(0).into(),
        ..Default::default()
    }
}

pub fn mr_bits(m: &Mr) -> MrCheck {
    MrCheck {
        valid: m.valid,
        local_write: m.lw,
        remote_write: m.rw,
        remote_read: m.rr,
        remote_atomic: m.ra,
        variant: m.variant.into(),
        pd: m.pd.into(),
        window: m.parent.is_some(),
        parent: m.parent.unwrap_or(0).into(),
        type2: m.qpn.is_some(),
        qpn: m.qpn.unwrap_or(0).into(),
        va: m.va.into(),
        len: m.len.into(),
        ..Default::default()
    }
}

/// `n`: number of an SRQ entry.
fn rq_bits(w: &[Sge; 4], n: u64) -> Rq {
    Rq {
        va0: w[0].0.into(),
        len0: w[0].1.into(),
        key0: (w[0].2 | (n & 0xFF) << 24).into(),
        va1: w[1].0.into(),
        len1: w[1].1.into(),
        key1: (w[1].2 | (n >> 8) << 24).into(),
        va2: w[2].0.into(),
        len2: w[2].1.into(),
        key2: w[2].2.into(),
        va3: w[3].0.into(),
        len3: w[3].1.into(),
        key3: w[3].2.into(),
    }
}
