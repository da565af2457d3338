//! Neighbours of the requester in software: tables, rings, wire, a responder per QP, placement. Everything that leaves the block is checked here.
#![allow(dead_code)]
use metaroce_rtl::diff::{Rng, Stim};
use metaroce_rtl::layouts::{MrCheck, QpCfg};
use metaroce_rtl::prims::packed::{bits_from_bytes, bits_to_bytes, Unpack};
use metaroce_rtl::requester::Requester;
use metaroce_rtl::types::*;
use metaroce_rtl::window::WinJob;
use num_bigint::BigUint;
use rust_hdl::prelude::*;
use std::collections::{HashMap, VecDeque};

pub const LOG_QP: usize = 3;
pub const LOG_SQ: usize = 5;
pub const LOG_MR: usize = 4;
pub type Dut = Requester<LOG_QP, LOG_SQ, LOG_MR>;
pub const QPS: usize = 1 << LOG_QP;
const PSN: u32 = 0xFF_FFFF;

#[derive(Clone, Copy, Default)]
pub struct Ins {
    pub rst: bool,
    pub now: u64,
    pub sched: Option<QpIdx>,
    pub rx: Option<RxPkt>,
    pub ctl: Option<QpCtl>,
    pub cfg: QpCfg,
    pub mrc: MrCheck,
    pub slot: Bits<512>,
    pub avail: u16,
    pub stamp: u64,
    pub tx_ready: bool,
    pub no_atomics: bool,
    pub pl_ready: bool,
    pub pl_fence: bool,
    pub td: Option<usize>,
    pub ua_ready: bool,
    pub sqfree_ready: bool,
    pub err_ready: bool,
    /// The window unit's answer.
    pub win: Option<bool>,
}
#[derive(Clone, Copy, Default)]
pub struct Outs {
    pub sched_ready: bool,
    pub rx_ready: bool,
    pub ctl_ready: bool,
    pub ctl_psn: u32,
    pub ctl_idx: u16,
    pub ctl_busy: bool,
    pub cfg_raddr: usize,
    pub mrc_raddr: usize,
    pub slot_raddr: usize,
    pub avail_raddr: usize,
    pub stamp_raddr: usize,
    pub tx: Option<TxCmd>,
    pub pl: Option<PlJob>,
    pub sqfree: Option<QpIdx>,
    pub err: Option<QpErr>,
    pub ua: Option<Bits<309>>,
    pub win: Option<WinJob>,
    pub deadline: u64,
    pub deadline_valid: bool,
    pub idle: bool,
    /// retransmit, timeout, drop_response, drop_qp, rnr, seq, fatal
    pub ev: [bool; 7],
}

#[derive(Clone, Debug, Default)]
pub struct Wqe {
    pub op: u8,
    /// (MR, va, length)
    pub sge: Vec<(u16, u64, u32)>,
    pub len: u32,
    pub signaled: bool,
    pub fence: bool,
    pub solicited: bool,
    pub va: u64,
    pub rkey: u32,
    pub imm: u32,
    /// Faults put in on purpose.
    pub key_xor: u32,
    pub index_xor: u16,
    pub inline: bool,
    /// UD: flags of its address vector.
    pub ip6: bool,
    pub vlan: bool,
    // set by `post`
    pub idx: u16,
    pub first: u32,
    pub npsn: u32,
    /// Status of its CQE.
    pub status: Option<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Pkt {
    pub cmd: TxCmd,
    pub segs: Vec<(u16, u64, u32)>,
}

#[derive(Default)]
pub struct Qp {
    pub cfg: QpCfg,
    pub start: u32,
    pub pi: u16,
    pub post_psn: u32,
    pub wqes: Vec<Wqe>,
    pub units: HashMap<u16, [u8; 64]>,
    pub free: u16,
    pub cqes: Vec<(usize, u8)>,
    pub errs: Vec<u8>,
    pub tx: Vec<Pkt>,
    part: Option<Pkt>,
    wire: VecDeque<(u64, Pkt)>,
    pub epsn: u32,
    nak: bool,
    pub mute: bool,
    /// Answers each first SEND with an RNR NAK of this code with probability p.
    pub rnr: (f64, u8),
    rnr_at: Option<u32>,
    pub reads: usize,
    pub max_reads: usize,
    pub fence_tokens: usize,
    /// UC: messages that have left.
    pub left: usize,
}

pub struct World {
    pub rng: Rng,
    pub cycle: u64,
    pub now: u64,
    pub last: Ins,
    pub o: Outs,
    pub q: Vec<Qp>,
    pub mr: Vec<MrCheck>,
    pub loss: f64,
    pub ready: f64,
    /// Give no packets to the responders (tests answer by hand).
    pub manual: bool,
    pub no_atomics: bool,
    pub hold_fence: bool,
    sched: VecDeque<QpIdx>,
    pub ctl: VecDeque<QpCtl>,
    pub ctl_answers: Vec<(u32, u16, bool)>,
    rxw: VecDeque<(u64, RxPkt)>,
    slots: HashMap<u8, (u64, u64)>,
    next_slot: u8,
    pub mem: HashMap<(u16, u64), u64>,
    pub pl_log: Vec<PlJob>,
    fences: u32,
    /// Reports of messages that leave, with their time.
    leaving: VecDeque<(u64, usize)>,
    /// Address vectors of UD packets, and the packets.
    avs: VecDeque<Bits<309>>,
    ud_sent: VecDeque<(usize, Pkt)>,
    /// When the window unit answers, and what.
    win: Option<(u64, bool)>,
    pub bound: usize,
    next_va: u64,
    pub count: [u32; 7],
    pub token_tx: u32,
    pub token_pl: u32,
}

pub fn mtu_bytes(c: &QpCfg) -> u32 {
    128 << c.mtu.index()
}

impl Qp {
    /// UC or UD.
    pub fn uc(&self) -> bool {
        self.cfg.qp_type.index() != 0
    }
    pub fn ud(&self) -> bool {
        self.cfg.qp_type.index() == 2
    }
}

impl World {
    pub fn new(seed: u64) -> Self {
        println!("seed {seed}");
        let mut w = World {
            rng: Rng(seed),
            cycle: 0,
            now: 1_000_000,
            last: Ins::default(),
            o: Outs::default(),
            q: (0..QPS).map(|_| Qp::default()).collect(),
            mr: vec![MrCheck::default(); 1 << LOG_MR],
            loss: 0.0,
            ready: 1.0,
            manual: false,
            no_atomics: false,
            hold_fence: false,
            sched: VecDeque::new(),
            ctl: VecDeque::new(),
            ctl_answers: vec![],
            rxw: VecDeque::new(),
            slots: HashMap::new(),
            next_slot: 0,
            mem: HashMap::new(),
            pl_log: vec![],
            fences: 0,
            leaving: VecDeque::new(),
            avs: VecDeque::new(),
            ud_sent: VecDeque::new(),
            win: None,
            bound: 0,
            next_va: 0,
            count: [0; 7],
            token_tx: 0,
            token_pl: 0,
        };
        for i in 1..w.mr.len() - 1 {
            w.mr[i] = MrCheck {
                valid: true,
                local_write: true,
                variant: (0x50 + i as u64).into(),
                pd: 7.into(),
                va: (((i as u64) << 36) + 0x123).into(),
                len: 0x8_0000_0000_u64.into(),
                ..Default::default()
            };
        }
        w.last.rst = true;
        w
    }
    /// Make QP `i` live.
    pub fn up(&mut self, i: usize, mtu: u64, psn: u32, f: impl Fn(&mut QpCfg)) {
        let c = &mut self.q[i].cfg;
        c.state = 3.into();
        c.tag = (0xA000 + i as u64).into();
        c.mtu = mtu.into();
        c.pd = 7.into();
        c.scq = (20 + i as u64).into();
        c.retry_cnt = 7.into();
        c.rnr_retry = 7.into();
        c.timeout = 2.into();
        c.max_rd = 4.into();
        f(c);
        let q = &mut self.q[i];
        q.start = psn;
        q.epsn = psn;
        q.post_psn = psn;
        (q.pi, q.free) = (0, 0);
        q.units.clear();
        q.wqes.clear();
        q.cqes.clear();
        self.command(ctl::RESET, i, 0, 0);
        self.command(ctl::START, i, psn, 0);
    }
    pub fn command(&mut self, op: u64, qp: usize, psn: u32, status: u8) {
        self.ctl.push_back(QpCtl {
            op: op.into(),
            qp: (qp as u64).into(),
            psn: (psn as u64).into(),
            status: (status as u64).into(),
        });
    }
    /// A WQE of `op` whose SGEs have these lengths, in fresh memory.
    pub fn wqe(&mut self, op: u8, lens: &[u32]) -> Wqe {
        let mut sge = vec![];
        for &l in lens {
            let mr = 1 + self.rng.below((1 << LOG_MR) - 2) as u16;
            let va = ((mr as u64) << 36) + 0x123 + self.next_va;
            self.next_va += l as u64 + self.rng.below(100);
            sge.push((mr, va, l));
        }
        Wqe {
            op,
            sge,
            len: lens.iter().sum(),
            signaled: true,
            va: self.rng.next() >> 16,
            rkey: self.rng.next() as u32,
            imm: self.rng.next() as u32,
            ..Default::default()
        }
    }
    pub fn room(&self, qp: usize) -> usize {
        (1 << LOG_SQ) - self.q[qp].pi.wrapping_sub(self.q[qp].free) as usize
    }
    pub fn post(&mut self, qp: usize, mut w: Wqe) {
        let q = &mut self.q[qp];
        let n = w.sge.len();
        let ud = q.ud() as usize;
        let units = (n + 5) / 4 + ud;
        let mut b = vec![0u8; 64 * units];
        b[0] = w.op;
        b[1] = w.signaled as u8
            | (w.fence as u8) << 1
            | (w.solicited as u8) << 2
            | (w.inline as u8) << 3;
        b[2] = n as u8;
        b[3] = units as u8;
        b[4..8].copy_from_slice(&w.imm.to_le_bytes());
        b[8..12].copy_from_slice(&w.len.to_le_bytes());
        b[12..14].copy_from_slice(&(q.pi ^ w.index_xor).to_le_bytes());
        b[16..24].copy_from_slice(&w.va.to_le_bytes());
        b[24..28].copy_from_slice(&w.rkey.to_le_bytes());
        for (i, (mr, va, len)) in w.sge.iter().enumerate() {
            // the address vector of UD is unit 1
            let at = (i + 2) * 16 + if i >= 2 { 64 * ud } else { 0 };
            let mut key = (*mr as u32) << 8 | self.mr[*mr as usize].variant.index() as u32;
            if i + 1 == n {
                key ^= w.key_xor;
            }
            b[at..at + 8].copy_from_slice(&va.to_le_bytes());
            b[at + 8..at + 12].copy_from_slice(&len.to_le_bytes());
            b[at + 12..at + 16].copy_from_slice(&key.to_le_bytes());
        }
        if w.op == 6 || w.op == 7 {
            // operands stand where SGE 1 would
            b[48..56].copy_from_slice(&swap_of(w.va).to_le_bytes());
            b[56..64].copy_from_slice(&cmp_of(w.va).to_le_bytes());
        }
        if w.op == 9 {
            // the window's range, and the fields that tell what is bound
            b[32..48].copy_from_slice(&inline_of(w.va)[..16]);
        }
        if w.inline {
            b[32..64].copy_from_slice(&inline_of(w.va));
        }
        if ud == 1 {
            b[64..104].copy_from_slice(&av_of(w.va, w.ip6, w.vlan)[..40]);
        }
        w.idx = q.pi;
        w.first = q.post_psn;
        w.npsn = w.len.div_ceil(mtu_bytes(&q.cfg)).max(1);
        if w.op == 8 || w.op == 9 {
            w.npsn = 0;
        }
        q.post_psn = (q.post_psn + w.npsn) & PSN;
        for u in b.chunks(64) {
            q.units.insert(q.pi, u.try_into().unwrap());
            q.pi = q.pi.wrapping_add(1);
        }
        let idx = (q.pi as u64).into();
        q.wqes.push(w);
        self.sched.push_back(QpIdx {
            qp: (qp as u64).into(),
            idx,
        });
    }
    fn p(&mut self) -> bool {
        let r = self.ready;
        r >= 1.0 || self.rng.p(r)
    }

    /// Outputs of the last cycle in, inputs of the next out.
    pub fn step(&mut self, o: &Outs) -> Ins {
        let l = self.last;
        self.o = *o;
        self.cycle += 1;
        self.now += 3;
        let rst = self.cycle <= 2;
        if !l.rst {
            self.take(o, &l);
        }
        // time jumps over silence
        let quiet = !self.manual
            && self.rxw.is_empty()
            && self.sched.is_empty()
            && self.ctl.is_empty()
            && self.fences == 0
            && self.leaving.is_empty()
            && self.q.iter().all(|q| q.wire.is_empty());
        if !rst && o.idle && o.deadline_valid && quiet && self.cycle > 40 {
            assert_eq!(
                o.deadline & 0x3FF,
                if o.deadline >> 47 == 1 { 0x3FF } else { 0 }
            );
            if o.deadline >> 47 == 0 {
                self.now = self.now.max(o.deadline);
            }
        }
        for i in 0..QPS {
            while let Some((at, p)) = self.q[i].wire.front().cloned() {
                if at > self.cycle {
                    break;
                }
                self.q[i].wire.pop_front();
                self.respond(i, &p);
            }
        }
        let qp = o.slot_raddr >> LOG_SQ;
        let slot = (o.slot_raddr & ((1 << LOG_SQ) - 1)) as u16;
        let unit = self.q[qp].pi.wrapping_sub(1);
        // newest unit in that slot
        let idx = unit.wrapping_sub(unit.wrapping_sub(slot) & ((1 << LOG_SQ) - 1));
        let mut n = Ins {
            rst,
            now: self.now,
            cfg: self.q[o.cfg_raddr].cfg,
            mrc: self.mr[o.mrc_raddr & ((1 << LOG_MR) - 1)],
            slot: bits_from_bytes(self.q[qp].units.get(&idx).unwrap_or(&[0; 64])),
            avail: self.q[o.avail_raddr].pi,
            stamp: 0xD00 + o.stamp_raddr as u64,
            tx_ready: self.p(),
            no_atomics: self.no_atomics,
            pl_ready: self.p(),
            sqfree_ready: self.p(),
            err_ready: self.p(),
            ua_ready: self.p(),
            ..Default::default()
        };
        if self.fences > 0 && !self.hold_fence && self.rng.p(0.05) {
            self.fences -= 1;
            n.pl_fence = true;
        }
        if self.win.is_some_and(|x| x.0 <= self.cycle) {
            n.win = self.win.take().map(|x| x.1);
        }
        if self.leaving.front().is_some_and(|x| x.0 <= self.cycle) {
            let (_, i) = self.leaving.pop_front().unwrap();
            self.q[i].left += 1;
            n.td = Some(i);
        }
        if rst {
            self.last = n;
            return n;
        }
        let same = |a: bool, b: bool| a && !b;
        n.sched = if same(l.sched.is_some(), o.sched_ready) || self.p() {
            self.sched.front().copied()
        } else {
            None
        };
        n.ctl = self.ctl.front().copied();
        n.rx = match self.rxw.front() {
            Some((at, p)) if *at <= self.cycle => Some(*p),
            _ => None,
        };
        self.last = n;
        n
    }

    fn take(&mut self, o: &Outs, l: &Ins) {
        for (c, e) in self.count.iter_mut().zip(o.ev) {
            *c += e as u32;
        }
        if l.sched.is_some() && o.sched_ready {
            self.sched.pop_front();
        }
        if l.rx.is_some() && o.rx_ready {
            self.rxw.pop_front();
        }
        if l.ctl.is_some() && o.ctl_ready {
            self.ctl.pop_front();
            self.ctl_answers.push((o.ctl_psn, o.ctl_idx, o.ctl_busy));
        }
        if let (Some(t), true) = (o.tx, l.tx_ready) {
            self.piece(t);
        }
        if let (Some(j), true) = (o.pl, l.pl_ready) {
            self.job(j);
        }
        if let (Some(f), true) = (o.sqfree, l.sqfree_ready) {
            let q = &mut self.q[f.qp.index()];
            let n = (f.idx.index() as u16).wrapping_sub(q.free);
            assert!(n > 0 && n <= q.pi.wrapping_sub(q.free), "sqfree {f:?}");
            q.free = f.idx.index() as u16;
        }
        if let (Some(j), None, None) = (o.win, self.win, l.win) {
            self.window(j);
        }
        if let (Some(a), true) = (o.ua, l.ua_ready) {
            self.avs.push_back(a);
        }
        while !self.avs.is_empty() && !self.ud_sent.is_empty() {
            let a: Bits<309> = self.avs.pop_front().unwrap();
            let (i, p) = self.ud_sent.pop_front().unwrap();
            let q = &self.q[i];
            let psn = p.cmd.psn.index() as u32;
            let w = q.wqes.iter().find(|w| w.first == psn).unwrap();
            let want: Bits<512> = bits_from_bytes(&av_of(w.va, w.ip6, w.vlan));
            assert_eq!(a, want.get_bits::<309>(0), "address vector of {w:?}");
            assert_eq!((p.cmd.ip6, p.cmd.vlan), (w.ip6, w.vlan));
            let qpn = u64::from(q.cfg.tag) << LOG_QP | i as u64;
            assert_eq!(u64::from(p.cmd.dlen), qpn);
        }
        if let (Some(e), true) = (o.err, l.err_ready) {
            self.q[e.qp.index()].errs.push(e.kind.index() as u8);
        }
    }

    /// LOCAL_INV or BIND_MW: all that was posted before is complete, and nothing behind has left.
    fn window(&mut self, j: WinJob) {
        let i = u64::from(j.qpn) as usize & (QPS - 1);
        let q = &self.q[i];
        assert_eq!(u64::from(j.qpn) >> LOG_QP, u64::from(q.cfg.tag));
        assert_eq!(j.pd, q.cfg.pd);
        let key = u64::from(j.key) as u32;
        let k = q
            .wqes
            .iter()
            .rposition(|w| w.imm == key && w.op == 8 + j.binds as u8);
        let k = k.expect("a WQE of a window");
        let w = &q.wqes[k];
        let before = q.cqes.last().map_or(0, |x| x.0 + 1);
        assert!(before <= k, "{w:?} twice");
        assert!(q.wqes[before..k].iter().all(|w| !w.signaled));
        let sent = |w: &Wqe| {
            q.tx.iter()
                .any(|p| (p.cmd.psn.index() as u32).wrapping_sub(w.first) & PSN < w.npsn)
        };
        assert!(q.wqes[..k].iter().all(|w| w.npsn == 0 || sent(w)));
        assert!(!q.wqes[k + 1..].iter().any(sent), "overtaken");
        assert!(
            q.uc() || self.manual || q.epsn == w.first,
            "not all has come"
        );
        if j.binds {
            assert_eq!(u64::from(j.va), w.va);
            let b = inline_of(w.va);
            let word = |at: usize| u32::from_le_bytes(b[at..at + 4].try_into().unwrap());
            let len = (word(0) as u64 | (word(4) as u64) << 32) & ((1 << 48) - 1);
            assert_eq!(
                (u64::from(j.len), u64::from(j.lkey) as u32),
                (len, word(12))
            );
            let r = |n: u32| word(8) >> n & 1 == 1;
            assert_eq!((j.write, j.read, j.atomic), (r(1), r(2), r(3)));
        }
        self.bound += 1;
        self.win = Some((self.cycle + 1 + self.rng.below(25), w.key_xor == 0));
    }

    fn piece(&mut self, t: TxCmd) {
        if t.kind.index() == 1 {
            assert!(t.first && t.last);
            self.token_tx += 1;
            return;
        }
        let i = t.qp.index();
        let q = &mut self.q[i];
        if t.first {
            assert!(q.part.is_none());
            q.part = Some(Pkt {
                cmd: t,
                segs: vec![],
            });
        }
        let p = q.part.as_mut().expect("first piece");
        if t.inl && t.seg_len.index() > 0 {
            let n = t.seg_len.index();
            let va = u64::from(t.imm) << 32 | u64::from(t.rkey);
            let w = q
                .wqes
                .iter()
                .rev()
                .find(|w| w.inline && inline_key(w) == va);
            let want = inline_of(w.expect("a WQE with inline data").va);
            assert_eq!(bits_to_bytes(t.idata)[..n], want[..n]);
            p.segs.push(INLINE(n as u32));
        } else if t.seg_len.index() > 0 {
            p.segs.push((
                t.seg_mr.index() as u16,
                u64::from(t.seg_va),
                t.seg_len.index() as u32,
            ));
        }
        if t.last {
            let p = q.part.take().unwrap();
            self.check_packet(i, &p);
            let at = self.cycle + 20 + self.rng.below(4);
            let lost = self.rng.p(self.loss);
            let t = &p.cmd;
            assert!(!t.resp);
            assert_eq!(t.resp_end, self.q[i].uc() && self.last_of_message(i, &p));
            if t.resp_end {
                self.leaving.push_back((at, i));
            }
            if self.q[i].ud() {
                self.ud_sent.push_back((i, p.clone()));
            }
            let q = &mut self.q[i];
            q.tx.push(p.clone());
            if !lost && !self.manual && !q.mute {
                let at = at.max(q.wire.back().map_or(0, |x| x.0));
                q.wire.push_back((at, p));
            }
        }
    }

    /// The last packet of its WQE.
    fn last_of_message(&self, i: usize, p: &Pkt) -> bool {
        let psn = p.cmd.psn.index() as u32;
        let last = |w: &Wqe| (w.first + w.npsn - 1) & PSN;
        self.q[i].wqes.iter().any(|w| last(w) == psn)
    }

    /// Everything in a packet follows from its PSN.
    fn check_packet(&self, i: usize, p: &Pkt) {
        let q = &self.q[i];
        let c = &p.cmd;
        let psn = c.psn.index() as u32;
        let mtu = mtu_bytes(&q.cfg);
        let w = q
            .wqes
            .iter()
            .rev()
            .find(|w| (psn.wrapping_sub(w.first) & PSN) < w.npsn)
            .unwrap_or_else(|| panic!("PSN {psn:x} of no WQE"));
        let off = (psn.wrapping_sub(w.first) & PSN) * mtu;
        let rest = w.len - off;
        let (first, last) = (off == 0, rest <= mtu);
        let len = rest.min(mtu);
        let (want, send) = match (w.op, first, last) {
            (5, _, _) => (0x0C, false),
            (6, _, _) => (0x13, false),
            (7, _, _) => (0x14, false),
            (0 | 1 | 2, true, false) => (0, true),
            (0 | 1 | 2, false, false) => (1, true),
            (0, false, true) => (2, true),
            (1, false, true) => (3, true),
            (2, false, true) => (0x16, true),
            (0, true, true) => (4, true),
            (1, true, true) => (5, true),
            (2, true, true) => (0x17, true),
            (_, true, false) => (6, false),
            (_, false, false) => (7, false),
            (3, false, true) => (8, false),
            (3, true, true) => (0x0A, false),
            (_, false, true) => (9, false),
            (_, true, true) => (0x0B, false),
        };
        let class = [0, 0x20, 0x60][q.cfg.qp_type.index()];
        assert_eq!(c.opcode.index(), want | class, "opcode of {p:?} for {w:?}");
        let mark = 1 << 47 | (i as u64) << 16 | w.idx as u64;
        assert_eq!(u64::from(c.stamp), mark, "mark of {p:?} for {w:?}");
        if w.op >= 5 {
            assert_eq!(c.len.index(), 0);
            assert!(p.segs.is_empty());
            assert_eq!(u64::from(c.va), w.va + off as u64);
            if w.op == 5 {
                assert_eq!(u64::from(c.dlen) as u32, rest);
            } else {
                assert_eq!(u64::from(c.seg_va), swap_of(w.va));
                let cmp = u64::from(c.dlen) << 32 | u64::from(c.imm);
                assert_eq!(cmp, cmp_of(w.va));
            }
            assert_eq!(u64::from(c.rkey) as u32, w.rkey);
            return;
        }
        assert_eq!(c.len.index() as u32, len);
        if !send && first {
            assert_eq!(u64::from(c.va), w.va);
            assert_eq!(u64::from(c.dlen) as u32, w.len);
            assert_eq!(u64::from(c.rkey) as u32, w.rkey);
        }
        if last && matches!(w.op, 1 | 2 | 4) {
            assert_eq!(u64::from(c.imm) as u32, w.imm);
        }
        assert_eq!(c.se, last && w.solicited && w.op != 3, "se of {w:?}");
        assert!(c.ackreq || q.uc() || !(last || psn & 15 == 15));
        assert!(!(c.ackreq && q.uc()));
        let mut pieces = vec![];
        if w.inline && w.len > 0 {
            pieces.push(INLINE(w.len));
        }
        let (mut at, end) = (0u64, off as u64 + len as u64);
        for (mr, va, l) in &w.sge {
            let (a, b) = (at.max(off as u64), (at + *l as u64).min(end));
            if a < b {
                pieces.push((*mr, va + a - at, (b - a) as u32));
            }
            at += *l as u64;
        }
        assert_eq!(p.segs, pieces, "payload of {p:?} for {w:?}");
    }

    /// The responder of QP `i`.
    fn respond(&mut self, i: usize, p: &Pkt) {
        if self.q[i].uc() {
            return;
        }
        let psn = p.cmd.psn.index() as u32;
        let op = p.cmd.opcode.index();
        let mtu = mtu_bytes(&self.q[i].cfg);
        let d = psn.wrapping_sub(self.q[i].epsn) & PSN;
        let n = if op == 0x0C {
            (u64::from(p.cmd.dlen) as u32).div_ceil(mtu).max(1)
        } else {
            1
        };
        if d == 0 {
            let (pr, code) = self.q[i].rnr;
            if matches!(op, 0 | 4 | 5 | 0x17) && pr > 0.0 && self.rng.p(pr) {
                self.q[i].rnr_at = Some(psn);
                self.ack(i, psn, 0x20 | code);
                return;
            }
            self.q[i].rnr_at = None;
            self.q[i].nak = false;
            self.q[i].epsn = (psn + n) & PSN;
        } else if d < 1 << 23 {
            if !self.q[i].nak && self.q[i].rnr_at.is_none() {
                self.q[i].nak = true;
                let e = self.q[i].epsn;
                self.ack(i, e, 0x60);
            }
            return;
        } else if !matches!(op, 0x0C | 0x13 | 0x14) {
            let e = self.q[i].epsn.wrapping_sub(1) & PSN;
            self.ack(i, e, 0x1F);
            return;
        }
        if op == 0x13 || op == 0x14 {
            let r = RxPkt {
                opcode: 0x12.into(),
                va: orig_of(u64::from(p.cmd.va)).into(),
                ..self.pkt(i, psn)
            };
            self.deliver(r, u64::from(p.cmd.va));
        } else if op == 0x0C {
            let len = u64::from(p.cmd.dlen) as u32;
            for k in 0..n {
                let last = k + 1 == n;
                let code = match (k == 0, last) {
                    (true, true) => 16,
                    (true, false) => 13,
                    (false, true) => 15,
                    _ => 14,
                };
                let l = (len - k * mtu).min(mtu);
                self.read_resp(
                    i,
                    (psn + k) & PSN,
                    code,
                    l,
                    u64::from(p.cmd.va) + (k * mtu) as u64,
                );
            }
        } else if p.cmd.ackreq {
            self.ack(i, psn, 0x1F);
        }
    }
    pub fn ack(&mut self, i: usize, psn: u32, syn: u8) {
        let r = RxPkt {
            opcode: 0x11.into(),
            aeth: ((syn as u64) << 24 | 5).into(),
            ..self.pkt(i, psn)
        };
        self.deliver(r, 0);
    }
    pub fn read_resp(&mut self, i: usize, psn: u32, op: u64, len: u32, remote: u64) {
        let r = RxPkt {
            opcode: op.into(),
            len: (len as u64).into(),
            ..self.pkt(i, psn)
        };
        self.deliver(r, remote);
    }
    pub fn pkt(&self, i: usize, psn: u32) -> RxPkt {
        RxPkt {
            qpn: ((u64::from(self.q[i].cfg.tag) << LOG_QP) | i as u64).into(),
            psn: (psn as u64).into(),
            ..Default::default()
        }
    }
    pub fn deliver(&mut self, mut r: RxPkt, remote: u64) {
        if self.rng.p(self.loss) {
            return;
        }
        while self.slots.contains_key(&self.next_slot) {
            self.next_slot = (self.next_slot + 1) & 127;
        }
        assert!(self.slots.len() < 127, "slots are not released");
        let s = self.next_slot;
        self.next_slot = (s + 1) & 127;
        let src = s as u64 * 8192 + self.rng.below(64);
        r.slot = (s as u64).into();
        r.src = src.into();
        self.slots.insert(s, (src, remote));
        let at = self.cycle + 20 + self.rng.below(4);
        let at = at.max(self.rxw.back().map_or(0, |x| x.0));
        self.rxw.push_back((at, r));
    }

    fn job(&mut self, j: PlJob) {
        self.pl_log.push(j);
        match j.kind.index() {
            1 => {
                let (src, remote) = self.slots[&(j.slot.index() as u8)];
                let d = if j.inl {
                    let v = u64::from(j.imm) << 32 | u64::from(j.length);
                    assert_eq!((j.src.index(), j.len.index()), (0, 8));
                    assert_eq!(v, orig_of(remote), "data of an atomic");
                    0
                } else {
                    j.src.index() as u64 - src
                };
                let (mr, va) = (j.mr.index() as u16, u64::from(j.va));
                for b in 0..j.len.index() as u64 {
                    self.mem.insert((mr, va + b), remote + d + b);
                }
            }
            2 => self.cqe(&j),
            3 => {
                if j.slot.index() == 1 {
                    self.fences += 1;
                } else {
                    self.token_pl += 1;
                }
            }
            _ => {}
        }
        if j.free {
            let s = j.slot.index() as u8;
            assert!(self.slots.remove(&s).is_some(), "slot {s} released twice");
        }
    }

    fn cqe(&mut self, j: &PlJob) {
        let i = u64::from(j.qpn) as usize & (QPS - 1);
        let q = &mut self.q[i];
        assert_eq!(u64::from(j.qpn) >> LOG_QP, u64::from(q.cfg.tag));
        assert_eq!(j.cq, q.cfg.scq);
        assert!(!j.is_recv && !j.with_imm);
        let idx = j.index.index() as u16;
        let k = q
            .wqes
            .iter()
            .rposition(|w| w.idx == idx)
            .expect("CQE of no WQE");
        let st = j.status.index() as u8;
        let before = q.cqes.last().map_or(0, |x| x.0 + 1);
        assert!(k >= before, "CQE order");
        for w in &q.wqes[before..k] {
            assert!(!w.signaled && st != 5, "no CQE for {w:?}");
        }
        assert!(st != 0 || q.wqes[k].signaled);
        let sent = q.wqes[..=k].iter().filter(|w| w.npsn > 0).count();
        assert!(
            st != 0 || !q.uc() || sent <= q.left,
            "completed before it left"
        );
        assert_eq!(j.length.index() as u32, q.wqes[k].len);
        assert_eq!(j.opcode.index() as u8, q.wqes[k].op);
        q.cqes.push((k, st));
        q.wqes[k].status = Some(st);
        for n in before..=k {
            self.check_read(i, n, st);
        }
    }
    /// Data of a completed READ is where it belongs.
    fn check_read(&self, i: usize, k: usize, st: u8) {
        let w = &self.q[i].wqes[k];
        if w.op < 5 || (st != 0 && w.status == Some(st)) {
            return;
        }
        let mut at = 0u64;
        for (mr, va, l) in &w.sge {
            for b in 0..*l as u64 {
                assert_eq!(
                    self.mem.get(&(*mr, va + b)),
                    Some(&(w.va + at + b)),
                    "data of {w:?} at {}",
                    at + b
                );
            }
            at += *l as u64;
        }
    }
    pub fn done(&self) -> bool {
        self.o.idle
            && self.sched.is_empty()
            && self.ctl.is_empty()
            && self.rxw.is_empty()
            && self.leaving.is_empty()
            && self.avs.is_empty()
            && self.ud_sent.is_empty()
            && self.q.iter().all(|q| q.free == q.pi && q.wire.is_empty())
    }
    pub fn statuses(&self, i: usize) -> Vec<u8> {
        self.q[i].cqes.iter().map(|x| x.1).collect()
    }
}

/// The address vector of a UD WQE.
pub fn av_of(va: u64, ip6: bool, vlan: bool) -> [u8; 64] {
    let mut b = [0u8; 64];
    for (i, x) in b[..38].iter_mut().enumerate() {
        *x = swap_of(va ^ i as u64) as u8;
    }
    b[37] = (b[37] & 0x7F) | (vlan as u8) << 7;
    b[38] = (va as u8 & 15) | (ip6 as u8) << 4;
    b
}

/// How a piece of inline data stands in `Pkt::segs`.
#[allow(non_snake_case)]
fn INLINE(len: u32) -> (u16, u64, u32) {
    (u16::MAX, 0, len)
}
/// Inline data of a WQE, and what tells whose it is.
fn inline_of(va: u64) -> [u8; 32] {
    std::array::from_fn(|i| (va >> (i % 6 * 8)) as u8 ^ (i as u8).wrapping_mul(29))
}
fn inline_key(w: &Wqe) -> u64 {
    (w.imm as u64) << 32 | w.rkey as u64
}
/// Operands and original data of the atomic at an address.
fn swap_of(va: u64) -> u64 {
    va.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
fn cmp_of(va: u64) -> u64 {
    !swap_of(va).rotate_left(7)
}
fn orig_of(va: u64) -> u64 {
    swap_of(va ^ 0x5555)
}

impl World {
    /// As [`Bench::cycle`], for the differential harness.
    pub fn stim(&mut self, s: &mut Stim) {
        fn get<T: Unpack>(s: &Stim, name: &str) -> T {
            let v = s.out(name);
            T::unpack(&|i| v.bit(i as u64), 0)
        }
        fn put<T: Synth, const N: usize>(s: &mut Stim, name: &str, v: T)
        where
            Bits<N>: From<T>,
        {
            let b: Bits<N> = v.into();
            s.set(name, BigUint::from_bytes_le(&bits_to_bytes(b)));
        }
        let bit = |n: &str| s.out_u64(n) != 0;
        let o = Outs {
            sched_ready: bit("sched_ready"),
            rx_ready: bit("rx_ready"),
            ctl_ready: bit("ctl_ready"),
            ctl_psn: s.out_u64("ctl_psn") as u32,
            ctl_idx: s.out_u64("ctl_idx") as u16,
            ctl_busy: bit("ctl_busy"),
            cfg_raddr: s.out_u64("cfg_raddr") as usize,
            mrc_raddr: s.out_u64("mrc_raddr") as usize,
            slot_raddr: s.out_u64("slot_raddr") as usize,
            avail_raddr: s.out_u64("avail_raddr") as usize,
            stamp_raddr: s.out_u64("stamp_raddr") as usize,
            tx: bit("tx_valid").then(|| get(s, "tx_data")),
            pl: bit("pl_valid").then(|| get(s, "pl_data")),
            sqfree: bit("sqfree_valid").then(|| get(s, "sqfree_data")),
            err: bit("err_valid").then(|| get(s, "err_data")),
            win: bit("win_valid").then(|| get(s, "win_data")),
            ua: bit("ua_valid").then(|| get(s, "ua_data")),
            deadline: s.out_u64("deadline"),
            deadline_valid: bit("deadline_valid"),
            idle: bit("idle"),
            ev: [
                bit("ev_retransmit"),
                bit("ev_timeout"),
                bit("ev_drop_response"),
                bit("ev_drop_qp"),
                bit("ev_rnr_nak"),
                bit("ev_seq_nak"),
                bit("ev_fatal_nak"),
            ],
        };
        let n = self.step(&o);
        s.set("rst", n.rst as u8);
        s.set("now", n.now);
        s.set("sched_valid", n.sched.is_some() as u8);
        put::<QpIdx, { QpIdx::BITS }>(s, "sched_data", n.sched.unwrap_or_default());
        s.set("rx_valid", n.rx.is_some() as u8);
        put::<RxPkt, { RxPkt::BITS }>(s, "rx_data", n.rx.unwrap_or_default());
        s.set("ctl_valid", n.ctl.is_some() as u8);
        put::<QpCtl, { QpCtl::BITS }>(s, "ctl_data", n.ctl.unwrap_or_default());
        put::<QpCfg, { QpCfg::BITS }>(s, "cfg_rdata", n.cfg);
        put::<MrCheck, { MrCheck::BITS }>(s, "mrc_rdata", n.mrc);
        put::<Bits<512>, 512>(s, "slot_rdata", n.slot);
        s.set("avail_rdata", n.avail);
        s.set("stamp_rdata", n.stamp);
        s.set("tx_ready", n.tx_ready as u8);
        s.set("no_atomics", n.no_atomics as u8);
        s.set("pl_ready", n.pl_ready as u8);
        s.set("pl_fence", n.pl_fence as u8);
        s.set("ua_ready", n.ua_ready as u8);
        s.set("win_done", n.win.is_some() as u8);
        s.set("win_ok", (n.win == Some(true)) as u8);
        s.set("td_valid", n.td.is_some() as u8);
        s.set("td_qp", n.td.unwrap_or(0) as u64);
        s.set("sqfree_ready", n.sqfree_ready as u8);
        s.set("err_ready", n.err_ready as u8);
    }
}

/// The block with its world.
pub struct Bench {
    pub u: Box<Dut>,
    pub w: World,
    o: Outs,
}

impl Bench {
    pub fn new(seed: u64) -> Self {
        let mut u = Box::<Dut>::default();
        u.connect_all();
        let mut b = Bench {
            u,
            w: World::new(seed),
            o: Outs::default(),
        };
        b.run(20);
        b
    }
    pub fn run(&mut self, cycles: usize) {
        for _ in 0..cycles {
            self.cycle();
        }
    }
    /// Until everything posted is completed and freed.
    pub fn finish(&mut self, max: usize) {
        self.until(max, |w| w.done());
    }
    pub fn until(&mut self, max: usize, f: impl Fn(&World) -> bool) {
        for _ in 0..max {
            self.cycle();
            if f(&self.w) {
                return;
            }
        }
        for (i, q) in self.w.q.iter().enumerate().filter(|(_, q)| q.pi != 0) {
            println!(
                "QP {i}: pi {} free {} epsn {:x} errs {:?} {:?}",
                q.pi, q.free, q.epsn, q.errs, q.cqes
            );
        }
        println!("{} tokens {}", self.u.debug(), self.w.fences);
        panic!("not done after {max} cycles, idle {}", self.w.o.idle);
    }
    pub fn cycle(&mut self) {
        let n = self.w.step(&self.o);
        let u = &mut *self.u;
        u.clock.next = Clock { clk: false };
        u.rst.next = n.rst;
        u.now.next = n.now.into();
        u.sched_valid.next = n.sched.is_some();
        u.sched_data.next = n.sched.unwrap_or_default();
        u.rx_valid.next = n.rx.is_some();
        u.rx_data.next = n.rx.unwrap_or_default();
        u.ctl_valid.next = n.ctl.is_some();
        u.ctl_data.next = n.ctl.unwrap_or_default();
        u.cfg_rdata.next = n.cfg;
        u.mrc_rdata.next = n.mrc;
        u.slot_rdata.next = n.slot;
        u.avail_rdata.next = (n.avail as u64).into();
        u.stamp_rdata.next = n.stamp.into();
        u.tx_ready.next = n.tx_ready;
        u.no_atomics.next = n.no_atomics;
        u.pl_ready.next = n.pl_ready;
        u.pl_fence.next = n.pl_fence;
        u.ua_ready.next = n.ua_ready;
        u.win_done.next = n.win.is_some();
        u.win_ok.next = n.win == Some(true);
        u.td_valid.next = n.td.is_some();
        u.td_qp.next = (n.td.unwrap_or(0) as u64).into();
        u.sqfree_ready.next = n.sqfree_ready;
        u.err_ready.next = n.err_ready;
        assert!(simulate(u, 50), "no fixed point");
        self.o = outs(u);
        u.clock.next = Clock { clk: true };
        assert!(simulate(u, 50), "no fixed point");
    }
}

fn outs(u: &Dut) -> Outs {
    let when = |v: bool| v.then_some(());
    Outs {
        sched_ready: u.sched_ready.val(),
        rx_ready: u.rx_ready.val(),
        ctl_ready: u.ctl_ready.val(),
        ctl_psn: u.ctl_psn.val().index() as u32,
        ctl_idx: u.ctl_idx.val().index() as u16,
        ctl_busy: u.ctl_busy.val(),
        cfg_raddr: u.cfg_raddr.val().index(),
        mrc_raddr: u.mrc_raddr.val().index(),
        slot_raddr: u.slot_raddr.val().index(),
        avail_raddr: u.avail_raddr.val().index(),
        stamp_raddr: u.stamp_raddr.val().index(),
        tx: when(u.tx_valid.val()).map(|_| u.tx_data.val()),
        pl: when(u.pl_valid.val()).map(|_| u.pl_data.val()),
        sqfree: when(u.sqfree_valid.val()).map(|_| u.sqfree_data.val()),
        err: when(u.err_valid.val()).map(|_| u.err_data.val()),
        win: when(u.win_valid.val()).map(|_| u.win_data.val()),
        ua: when(u.ua_valid.val()).map(|_| u.ua_data.val()),
        deadline: u64::from(u.deadline.val()),
        deadline_valid: u.deadline_valid.val(),
        idle: u.idle.val(),
        ev: [
            u.ev_retransmit.val(),
            u.ev_timeout.val(),
            u.ev_drop_response.val(),
            u.ev_drop_qp.val(),
            u.ev_rnr_nak.val(),
            u.ev_seq_nak.val(),
            u.ev_fatal_nak.val(),
        ],
    }
}
