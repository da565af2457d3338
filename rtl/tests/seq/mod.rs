//! Bench of the sequencer: host memory, tables, and the blocks that take its orders.
#![allow(dead_code)]

mod change;
pub mod cmds;
mod srq;
mod told;
mod windows;

use metaroce_hdl_spec::cmd;
use metaroce_rtl::diff::Rng;
use metaroce_rtl::prims::packed::{bits_from_bytes, bits_to_bytes};
use metaroce_rtl::sequencer::Sequencer;
use metaroce_rtl::types::*;
use metaroce_rtl::window::order;
use num_bigint::BigUint;
use rust_hdl::prelude::*;
use std::collections::{HashMap, HashSet, VecDeque};

/// 16 QPs, 16 MRs, 8 CQs, 8 PDs, 8 PASIDs, READs up to 4.
pub type S = Sequencer<64, 4, 4, 3, 3, 3, 6, 4>;
pub const QPS: usize = 16;
pub const MRS: usize = 16;
pub const CQS: usize = 8;
pub const PDS: usize = 8;
pub const MAX_RD: u64 = 4;

pub const RQR: usize = 0;
pub const RSP: usize = 1;
pub const RDR: usize = 2;
pub const SQF: usize = 3;
pub const RQF: usize = 4;

/// What the sequencer did, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Did {
    Cfg(usize),
    Av(usize),
    Mrc(usize),
    Mrm(usize),
    Cqt(usize),
    CqCtl(u64),
    CqResize(u64),
    /// PASID, base in 4 KiB units, log.
    EqCtl(u64, u64, u64),
    /// Block, op, QP, PSN, status: order carried out.
    Ctl(usize, u64, u64, u64, u64),
    /// Both tokens of both paths have come out.
    Fenced,
    /// Order to the window unit about an MR.
    Win(u64, usize),
    Flush,
    Event(u64, u64, u64),
    Answer(u64, u64),
    /// Pulses.
    Done,
    Refused,
    QpError,
}

/// Contents of cfg, av, mrc, mrm, cqt.
pub type Tables = (
    Vec<[u8; 32]>,
    Vec<[u8; 64]>,
    Vec<[u8; 24]>,
    Vec<[u8; 16]>,
    Vec<[u8; 16]>,
);

pub struct Bench {
    pub u: Box<S>,
    pub rng: Rng,
    /// Probability of ready.
    pub p: f64,
    pub t: u64,
    pub mem: HashMap<(u64, u64), [u8; 64]>,
    pub cfg: Vec<[u8; 32]>,
    pub av: Vec<[u8; 64]>,
    pub mrc: Vec<[u8; 24]>,
    pub mrm: Vec<[u8; 16]>,
    pub cqt: Vec<[u8; 16]>,
    pub did: Vec<Did>,
    pub errs: VecDeque<(u64, u64)>,
    pub dbs: VecDeque<(u64, u64)>,
    pub seed: Option<u64>,
    /// Blocks hold their orders while set.
    pub stall: bool,
    pub rqr: (u64, u64),
    /// The requester has something on its way.
    pub busy: bool,
    /// QP whose send units are freed in the next cycle; LINK, if it is written then.
    pub freed: Option<u64>,
    pub link: Option<bool>,
    /// MRs, QPs, CQs and PDs that a process may have, 16 bits each.
    pub limits: u64,
    /// SRQ that reaches its limit in the next cycle.
    pub limit: Option<u64>,
    pub rsp: u64,
    fills: VecDeque<(u64, CtlFill)>,
    tokens: [Vec<u64>; 2],
    come: u32,
    orders: [Option<u64>; 5],
    /// MRs with windows; when the window unit answers.
    pub bound: HashSet<usize>,
    win: Option<u64>,
    write: Vec<u8>,
    err_wait: u32,
    pub err_longest: u32,
    /// Inputs of every cycle, when recorded.
    pub trace: Option<Vec<Vec<(&'static str, BigUint)>>>,
    seq: u32,
}

fn bits<const N: usize>(x: impl Into<Bits<N>>) -> Vec<u8> {
    bits_to_bytes(x.into())
}

/// Bits of a value.
pub fn raw<T: Synth>(x: T) -> BigUint {
    let text = format!("{:x}", x.verilog());
    let hex = text.split("'h").nth(1).unwrap_or("0");
    BigUint::parse_bytes(hex.as_bytes(), 16).unwrap()
}

macro_rules! all_inputs {
    ($m:ident) => {
        $m!(
            rst,
            now,
            cmddb_valid,
            cmddb_data,
            adm_valid,
            adm_addr,
            adm_data,
            limits,
            rd_ready,
            fill_valid,
            fill_data,
            wr_ready,
            err_valid,
            err_data,
            lim_valid,
            lim_qp,
            ev_ready,
            rqr_ctl_ready,
            rqr_psn,
            rqr_idx,
            rqr_busy,
            sq_freed,
            sq_freed_qp,
            rsp_ctl_ready,
            rsp_psn,
            rdr_ctl_ready,
            sqf_ctl_ready,
            rqf_ctl_ready,
            tx_fence,
            pl_fence,
            win_done,
            win_busy
        )
    };
}

impl Drop for Bench {
    fn drop(&mut self) {
        println!("{} cycles", self.t);
    }
}

impl Bench {
    /// After reset, with SEED written.
    pub fn new(seed: u64, p: f64) -> Self {
        Self::with(seed, p, false)
    }

    pub fn with(seed: u64, p: f64, trace: bool) -> Self {
        let mut u = Box::new(S::default());
        u.connect_all();
        println!("bench seed {seed}");
        let mut b = Bench {
            u,
            rng: Rng(seed),
            p,
            t: 0,
            mem: HashMap::new(),
            cfg: vec![[0xFF; 32]; QPS],
            av: vec![[0xFF; 64]; QPS],
            mrc: vec![[0xFF; 24]; MRS],
            mrm: vec![[0xFF; 16]; MRS],
            cqt: vec![[0xFF; 16]; CQS],
            did: vec![],
            errs: VecDeque::new(),
            dbs: VecDeque::new(),
            seed: None,
            stall: false,
            rqr: (0x123456, 0x789A),
            busy: false,
            freed: None,
            link: None,
            limits: u64::MAX,
            limit: None,
            rsp: 0xABCDEF,
            fills: VecDeque::new(),
            tokens: [vec![], vec![]],
            come: 0,
            orders: [None; 5],
            bound: HashSet::new(),
            win: None,
            write: vec![],
            err_wait: 0,
            err_longest: 0,
            trace: trace.then(Vec::new),
            seq: 0,
        };
        b.u.rst.next = true;
        b.step();
        b.step();
        b.u.rst.next = false;
        b.did.clear();
        b.seed = Some(seed);
        let mut n = 0;
        b.step();
        while !b.u.idle.val() {
            b.step();
            n += 1;
            assert!(n < 200, "reset sweep");
        }
        assert!(b.cfg.iter().all(|c| *c == [0; 32]) && b.av.iter().all(|c| *c == [0; 64]));
        assert!(b.mrc.iter().all(|c| *c == [0; 24]) && b.mrm.iter().all(|c| *c == [0; 16]));
        assert!(b.cqt.iter().all(|c| *c == [0; 16]));
        b.did.clear();
        b
    }

    /// One clock cycle.
    pub fn step(&mut self) {
        self.t += 1;
        let (t, p) = (self.t, self.p);
        let u = &mut *self.u;
        u.now.next = (t * 3).into();
        u.limits.next = self.limits.into();
        u.adm_valid.next = self.seed.is_some();
        u.adm_addr.next = (metaroce_hdl_spec::regs::admin::SEED as u64).into();
        u.adm_data.next = (self.seed.take().unwrap_or(0) & 0xFFFF_FFFF).into();
        if let Some(up) = self.link.take() {
            u.adm_valid.next = true;
            u.adm_addr.next = (metaroce_hdl_spec::regs::admin::LINK as u64).into();
            u.adm_data.next = (up as u64).into();
        }
        let db = self.dbs.front().copied();
        u.cmddb_valid.next = db.is_some();
        let (pasid, addr) = db.unwrap_or_default();
        u.cmddb_data.next = CmdDb {
            pasid: pasid.into(),
            addr: addr.into(),
        };
        u.rd_ready.next = self.rng.p(p);
        u.wr_ready.next = self.rng.p(p);
        u.ev_ready.next = self.rng.p(p);
        let fill = self.fills.front().filter(|f| f.0 <= t).map(|f| f.1);
        // now and then a unit of somebody else
        let other = fill.is_none() && self.rng.p(0.05);
        u.fill_valid.next = fill.is_some() || other;
        u.fill_data.next = fill.unwrap_or(CtlFill {
            tag: 0x91.into(),
            last: true,
            ..Default::default()
        });
        if fill.is_some() {
            self.fills.pop_front();
        }
        let err = self.errs.front().copied();
        u.err_valid.next = err.is_some();
        let (qp, kind) = err.unwrap_or_default();
        u.err_data.next = QpErr {
            qp: qp.into(),
            kind: kind.into(),
        };
        for (i, list) in self.tokens.iter_mut().enumerate() {
            let due = list.iter().position(|d| *d <= t);
            if let Some(k) = due {
                list.remove(k);
                self.come += 1;
                if self.come == 4 {
                    self.come = 0;
                    self.did.push(Did::Fenced);
                }
            }
            if i == 0 {
                u.tx_fence.next = due.is_some();
            } else {
                u.pl_fence.next = due.is_some();
            }
        }
        let due = |o: Option<u64>| o.is_some_and(|d| d <= t);
        u.rqr_ctl_ready.next = due(self.orders[RQR]);
        u.rsp_ctl_ready.next = due(self.orders[RSP]);
        u.rdr_ctl_ready.next = due(self.orders[RDR]);
        u.sqf_ctl_ready.next = due(self.orders[SQF]);
        u.rqf_ctl_ready.next = due(self.orders[RQF]);
        // the answers are there in the cycle of ready only
        let good = |b: bool, v: u64| if b { v } else { 0x5A5A };
        u.rqr_psn.next = good(u.rqr_ctl_ready.next, self.rqr.0).into();
        u.rqr_idx.next = good(u.rqr_ctl_ready.next, self.rqr.1).into();
        u.rqr_busy.next = self.busy && u.rqr_ctl_ready.next;
        u.lim_valid.next = self.limit.is_some();
        u.lim_qp.next = self.limit.take().unwrap_or(2).into();
        u.sq_freed.next = self.freed.is_some();
        u.sq_freed_qp.next = self.freed.take().unwrap_or(1).into();
        u.win_done.next = due(self.win);
        u.win_busy.next = self.rng.p(0.5);
        if u.win_done.next {
            let o = u.win_data.val();
            let (op, i) = (o.op.to_u64() as u128, o.mr.to_u64() as usize);
            let busy = op == order::CLOSE && self.bound.contains(&i);
            u.win_busy.next = busy;
            match op {
                order::CLOSE if !busy => self.mrc[i] = [0; 24],
                order::DROP => self.mrc[i] = [0; 24],
                order::NEW => _ = self.bound.remove(&i),
                _ => assert!(busy),
            }
            self.win = None;
            self.did.push(Did::Win(op as u64, i));
        }
        u.rsp_psn.next = good(u.rsp_ctl_ready.next, self.rsp).into();
        assert!(simulate(u, 300));
        if let Some(trace) = &mut self.trace {
            macro_rules! record {
                ($($f:ident),*) => { trace.push(vec![$((stringify!($f), raw(u.$f.next))),*]) };
            }
            all_inputs!(record);
        }
        self.sample();
        self.u.clock.next = Clock { clk: true };
        assert!(simulate(&mut *self.u, 300));
        self.u.clock.next = Clock { clk: false };
        assert!(simulate(&mut *self.u, 300));
    }

    fn sample(&mut self) {
        let u = &*self.u;
        let t = self.t;
        if u.rst.val() {
            return;
        }
        if u.cmddb_valid.val() && u.cmddb_ready.val() {
            self.dbs.pop_front();
        }
        if u.err_valid.val() {
            self.err_wait += 1;
            self.err_longest = self.err_longest.max(self.err_wait);
            if u.err_ready.val() {
                self.err_wait = 0;
                self.errs.pop_front();
            }
        }
        if u.rd_valid.val() && u.rd_ready.val() {
            let r = u.rd_data.val();
            let (pasid, addr, len) = (r.pasid.to_u64(), r.addr.to_u64(), r.len.to_u64());
            assert!(r.tag.to_u64() == 0xE0 && addr % 64 == 0 && (len == 64 || len == 128));
            assert!(addr >> 12 == (addr + len - 1) >> 12, "read crosses 4 KiB");
            let units: Vec<_> = (0..len / 64)
                .map(|i| self.mem.get(&(pasid, addr + 64 * i)))
                .collect();
            let mut at = t + 2 + self.rng.below(20);
            if units.iter().any(|x| x.is_none()) {
                let f = CtlFill {
                    tag: 0xE0.into(),
                    last: true,
                    err: true,
                    ..Default::default()
                };
                self.fills.push_back((at, f));
            } else {
                let n = units.len();
                for (i, x) in units.into_iter().flatten().enumerate() {
                    let f = CtlFill {
                        data: bits_from_bytes(x),
                        tag: 0xE0.into(),
                        last: i + 1 == n,
                        err: false,
                    };
                    self.fills.push_back((at, f));
                    at += self.rng.below(3);
                }
            }
        }
        if u.wr_valid.val() && u.wr_ready.val() {
            let m = u.wr_meta.val();
            assert!(
                m.len.to_u64() == 64
                    && m.sop == self.write.is_empty()
                    && m.eop == (self.write.len() == 56)
            );
            self.write.extend(bits_to_bytes(u.wr_data.val()));
            if m.eop {
                let (pasid, addr) = (m.pasid.to_u64(), m.addr.to_u64());
                let line: [u8; 64] = std::mem::take(&mut self.write).try_into().unwrap();
                self.mem.insert((pasid, addr), line);
                self.did.push(Did::Answer(pasid, addr));
            }
        }
        let d = &mut self.did;
        if u.cfg_we.val() {
            let i = u.cfg_waddr.val().index();
            self.cfg[i] = bits(u.cfg_wdata.val()).try_into().unwrap();
            d.push(Did::Cfg(i));
        }
        if u.av_we.val() {
            let i = u.av_waddr.val().index();
            self.av[i] = bits(u.av_wdata.val()).try_into().unwrap();
            d.push(Did::Av(i));
        }
        if u.mrc_we.val() {
            let i = u.mrc_waddr.val().index();
            self.mrc[i] = bits(u.mrc_wdata.val()).try_into().unwrap();
            d.push(Did::Mrc(i));
        }
        if u.mrm_we.val() {
            let i = u.mrm_waddr.val().index();
            self.mrm[i] = bits(u.mrm_wdata.val()).try_into().unwrap();
            d.push(Did::Mrm(i));
        }
        if u.cqt_we.val() {
            let i = u.cqt_waddr.val().index();
            self.cqt[i] = bits(u.cqt_wdata.val()).try_into().unwrap();
            d.push(Did::Cqt(i));
        }
        if u.cqctl_valid.val() {
            let n = u.cqctl_cq.val().to_u64();
            d.push(if u.cqctl_resize.val() {
                Did::CqResize(n)
            } else {
                Did::CqCtl(n)
            });
        }
        if u.eqctl_valid.val() {
            d.push(Did::EqCtl(
                u.eqctl_pasid.val().to_u64(),
                u.eqctl_base.val().to_u64(),
                u.eqctl_log.val().to_u64(),
            ));
        }
        if u.mtt_flush.val() {
            d.push(Did::Flush);
        }
        if u.ev_valid.val() && u.ev_ready.val() {
            let e = u.ev_data.val();
            d.push(Did::Event(e.pasid.to_u64(), e.kind.to_u64(), e.id.to_u64()));
        }
        for (on, what) in [
            (u.ev_cmd.val(), Did::Done),
            (u.ev_cmd_refused.val(), Did::Refused),
            (u.ev_qp_error.val(), Did::QpError),
        ] {
            if on {
                d.push(what);
            }
        }
        if u.win_valid.val() && !u.win_done.val() && self.win.is_none() {
            self.win = Some(t + 1 + self.rng.below(15));
        }
        let orders = [
            (
                u.rqr_ctl_valid.val(),
                u.rqr_ctl_ready.val(),
                u.rqr_ctl_data.val(),
            ),
            (
                u.rsp_ctl_valid.val(),
                u.rsp_ctl_ready.val(),
                u.rsp_ctl_data.val(),
            ),
            (
                u.rdr_ctl_valid.val(),
                u.rdr_ctl_ready.val(),
                u.rdr_ctl_data.val(),
            ),
            (
                u.sqf_ctl_valid.val(),
                u.sqf_ctl_ready.val(),
                u.sqf_ctl_data.val(),
            ),
            (
                u.rqf_ctl_valid.val(),
                u.rqf_ctl_ready.val(),
                u.rqf_ctl_data.val(),
            ),
        ];
        for (i, (valid, ready, c)) in orders.into_iter().enumerate() {
            let op = c.op.to_u64();
            assert!(!ready || valid);
            if ready {
                self.orders[i] = None;
                d.push(Did::Ctl(
                    i,
                    op,
                    c.qp.to_u64(),
                    c.psn.to_u64(),
                    c.status.to_u64(),
                ));
            } else if valid && self.orders[i].is_none() && !self.stall {
                self.orders[i] = Some(t + 1 + self.rng.below(12));
                if op == ctl::FENCE {
                    // a token may be out before the order is acknowledged
                    let mut late = || t + 1 + self.rng.below(30);
                    let paths: &[usize] = [&[0, 1][..], &[1], &[0]][i];
                    for p in paths {
                        self.tokens[*p].push(late());
                    }
                }
            }
        }
    }

    /// A fresh command block of `opcode` for object `id`.
    pub fn block(&mut self, opcode: u8, id: u64) -> [u8; 128] {
        let mut c = [0u8; 128];
        // reserved bits and fields that are not looked at hold anything
        for x in c.iter_mut().skip(12) {
            *x = self.rng.next() as u8;
        }
        self.seq += 1;
        cmd::head::opcode.put(&mut c, opcode as u64);
        cmd::head::seq.put(&mut c, self.seq as u64);
        cmd::head::id.put(&mut c, id);
        c
    }

    /// Gives a command and waits for the answer: the response, or the status.
    pub fn run(&mut self, pasid: u64, c: &[u8; 128]) -> Result<[u8; 64], u8> {
        // one in five crosses a page after its first unit
        let unit = if self.rng.p(0.2) {
            63
        } else {
            self.rng.below(62)
        };
        let addr = (self.rng.below(1 << 50) << 12) | (unit << 6);
        self.run_at(pasid, addr, c)
    }

    pub fn run_at(&mut self, pasid: u64, addr: u64, c: &[u8; 128]) -> Result<[u8; 64], u8> {
        self.mem.insert((pasid, addr), c[..64].try_into().unwrap());
        self.mem
            .insert((pasid, addr + 64), c[64..].try_into().unwrap());
        self.mem.remove(&(pasid, addr + 128));
        self.dbs.push_back((pasid, addr));
        let from = self.did.len();
        let mut n = 0;
        while !self.did[from..].contains(&Did::Answer(pasid, addr + 128)) {
            self.step();
            n += 1;
            assert!(n < 20_000, "no answer; {:?}", &self.did[from..]);
        }
        let r = self.mem[&(pasid, addr + 128)];
        assert_eq!(cmd::response::seq.get(&r), cmd::head::seq.get(c));
        let status = cmd::response::status.get(&r) as u8;
        let pulse = if status == 0 { Did::Done } else { Did::Refused };
        assert_eq!(self.did[from..].iter().filter(|d| **d == pulse).count(), 1);
        match status {
            0 => Ok(r),
            s => Err(s),
        }
    }

    /// Runs until nothing is left to do.
    pub fn settle(&mut self) {
        let (mut n, mut still) = (0, 0);
        while still < 4 {
            self.step();
            n += 1;
            assert!(n < 20_000, "not idle");
            let at_rest = self.u.idle.val() && self.errs.is_empty() && self.dbs.is_empty();
            still = if at_rest { still + 1 } else { 0 };
        }
    }

    /// Everything done since the last call.
    pub fn take(&mut self) -> Vec<Did> {
        std::mem::take(&mut self.did)
    }

    pub fn simple(&mut self, pasid: u64, opcode: u8, id: u64) -> Result<u64, u8> {
        let c = self.block(opcode, id);
        self.run(pasid, &c).map(|r| cmd::response::id.get(&r))
    }
    pub fn pd(&mut self, pasid: u64) -> Result<u64, u8> {
        self.simple(pasid, cmd::op::ALLOC_PD, 0)
    }
    pub fn eq(&mut self, pasid: u64, base: u64, log: u64) -> Result<u64, u8> {
        let mut c = self.block(cmd::op::CREATE_EQ, 0);
        cmd::create_eq::log.put(&mut c, log);
        cmd::create_eq::base.put(&mut c, base);
        self.run(pasid, &c).map(|_| 0)
    }
    pub fn resize(&mut self, pasid: u64, cq: u64, base: u64, log: u64) -> Result<u64, u8> {
        let mut c = self.block(cmd::op::RESIZE_CQ, cq);
        cmd::create_cq::log.put(&mut c, log);
        cmd::create_cq::base.put(&mut c, base);
        self.run(pasid, &c).map(|r| cmd::response::id.get(&r))
    }
    pub fn cq(&mut self, pasid: u64, base: u64, log: u64) -> Result<u64, u8> {
        let mut c = self.block(cmd::op::CREATE_CQ, 0);
        cmd::create_cq::log.put(&mut c, log);
        cmd::create_cq::base.put(&mut c, base);
        self.run(pasid, &c).map(|r| cmd::response::id.get(&r))
    }
    /// The block of a REREG_MR.
    #[allow(clippy::too_many_arguments)]
    pub fn rereg_block(
        &mut self,
        key: u64,
        pd: u64,
        va: u64,
        len: u64,
        shift: u64,
        list: u64,
        access: u64,
    ) -> [u8; 128] {
        use cmd::reg_mr as f;
        let mut c = self.block(cmd::op::REREG_MR, key);
        f::pd.put(&mut c, pd);
        f::access.put(&mut c, access);
        f::page_shift.put(&mut c, shift);
        f::list.put(&mut c, list);
        f::va.put(&mut c, va);
        f::len.put(&mut c, len);
        c
    }
    #[allow(clippy::too_many_arguments)]
    pub fn mr(
        &mut self,
        pasid: u64,
        pd: u64,
        va: u64,
        len: u64,
        shift: u64,
        list: u64,
        access: u64,
    ) -> Result<u64, u8> {
        use cmd::reg_mr as f;
        let mut c = self.block(cmd::op::REG_MR, 0);
        f::pd.put(&mut c, pd);
        f::access.put(&mut c, access);
        f::page_shift.put(&mut c, shift);
        f::list.put(&mut c, list);
        f::va.put(&mut c, va);
        f::len.put(&mut c, len);
        self.run(pasid, &c).map(|r| cmd::response::id.get(&r))
    }
    /// The block of a CREATE_QP that is fine for `pd`, `scq`, `rcq`.
    pub fn qp_block(&mut self, pd: u64, scq: u64, rcq: u64) -> [u8; 128] {
        use cmd::create_qp as f;
        let mut c = self.block(cmd::op::CREATE_QP, 0);
        f::qp_type.put(&mut c, 0);
        f::sq_log.put(&mut c, 4 + self.rng.below(12));
        f::rq_log.put(&mut c, self.rng.below(16));
        f::rq_stride.put(&mut c, self.rng.below(3));
        f::pd.put(&mut c, pd);
        f::srq.put(&mut c, 0);
        f::sq_base.put(&mut c, self.rng.below(1 << 48) << 12);
        f::rq_base.put(&mut c, self.rng.below(1 << 48) << 12);
        f::scq.put(&mut c, scq);
        f::rcq.put(&mut c, rcq);
        c
    }
    pub fn qp(&mut self, pasid: u64, pd: u64, scq: u64, rcq: u64) -> Result<u64, u8> {
        let c = self.qp_block(pd, scq, rcq);
        self.run(pasid, &c).map(|r| cmd::response::id.get(&r))
    }
    /// The block of a CREATE_SRQ that is fine for `pd`.
    pub fn srq_block(&mut self, pd: u64) -> [u8; 128] {
        use cmd::create_srq as f;
        let mut c = self.block(cmd::op::CREATE_SRQ, 0);
        f::log.put(&mut c, self.rng.below(16));
        f::stride.put(&mut c, self.rng.below(3));
        f::pd.put(&mut c, pd);
        f::base.put(&mut c, self.rng.below(1 << 48) << 12);
        c
    }
    pub fn srq(&mut self, pasid: u64, pd: u64) -> Result<u64, u8> {
        let c = self.srq_block(pd);
        self.run(pasid, &c).map(|r| cmd::response::id.get(&r))
    }
    /// A QP that takes its receives from `srqn`.
    pub fn qp_of_srq(&mut self, pasid: u64, pd: u64, cq: u64, srqn: u64) -> Result<u64, u8> {
        use cmd::create_qp as f;
        let mut c = self.qp_block(pd, cq, cq);
        f::srq.put(&mut c, 1);
        f::srqn.put(&mut c, srqn);
        self.run(pasid, &c).map(|r| cmd::response::id.get(&r))
    }
    pub fn gid(
        &mut self,
        pasid: u64,
        index: u64,
        ip6: bool,
        mac: [u8; 6],
        gid: [u8; 16],
    ) -> Result<u64, u8> {
        use cmd::set_gid as f;
        let mut c = self.block(cmd::op::SET_GID, 0);
        f::index.put(&mut c, index);
        f::ip6.put(&mut c, ip6 as u64);
        f::mac.put_bytes(&mut c, &mac);
        f::gid.put_bytes(&mut c, &gid);
        self.run(pasid, &c).map(|_| 0)
    }
    /// All tables.
    pub fn tables(&self) -> Tables {
        (
            self.cfg.clone(),
            self.av.clone(),
            self.mrc.clone(),
            self.mrm.clone(),
            self.cqt.clone(),
        )
    }
}
