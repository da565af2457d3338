//! READ responses and atomics: accepted requests become response packets.

use crate::atomic::{AtomicDone, AtomicJob};
use crate::layouts::{MrCheck, QpCfg};
use crate::packed_struct;
use crate::prims::{Fifo, SdpRam, SdpRam2R};
use crate::responder::mr_gate::MrGate;
use crate::types::{QpCtl, QpErr, ReadJob, TxCmd, TxDone};
use rust_hdl::prelude::*;

packed_struct! {
    /// A job in its ring: what is still to be sent of it.
    pub struct RingJob {
        pub psn: Bits<24>,
        pub msn: Bits<24>,
        pub va: Bits<64>,
        pub rkey: Bits<32>,
        pub len: Bits<32>,
        pub stamp: Bits<48>,
        pub op: Bits<2>,
        pub dup: bool,
        pub swap: Bits<64>,
        pub cmp: Bits<64>,
        /// A packet has been sent.
        pub begun: bool,
    }
}
packed_struct! {
    /// Ring of a QP: jobs put in, jobs taken out (done or dropped), packets given to `tx`; the QP is in the round-robin queue (or its atomic
    /// under way). Place of the next atomic result, and how many there are.
    pub struct Ring {
        pub put: Bits<5>,
        pub taken: Bits<5>,
        pub sent: Bits<12>,
        pub queued: bool,
        pub res: Bits<4>,
        pub results: Bits<5>,
    }
}
packed_struct! {
    /// Result of an atomic, for its duplicates.
    pub struct AtomicResult { pub psn: Bits<24>, pub orig: Bits<64> }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum RdState {
    Idle,
    Push,
    Ring,
    Job,
    Mr,
    Cmp,
    Emit,
    /// A duplicate of an atomic: looks for the result, newest first.
    Find,
    /// Response of an atomic; `Redo`: of a duplicate.
    Result,
    Redo,
    Drop,
    Ctl,
}

/// Sends the responses of the READ requests that the responder has accepted.
///
/// * `LOG_QP`, `LOG_MR`: log2 of the tables; `LOG_JOBS` must be `LOG_QP + 4`.
/// * In `rj`: a job, into the QP's ring of 16. The responder looks at port `lvl` (jobs in the ring) before it accepts a READ, so a ring never
///   overflows; a job that still comes to a full ring is dropped. `busy` and `lvl` count a job two cycles after its transfer.
/// * One packet a visit, round robin over QPs, jobs of a QP in order. QP state, rkey, PD, right and bounds are checked again for every packet: a ring
///   of a QP that is not in RTR, RTS or SQD is dropped silently, one whose MR is gone is dropped with `err` (kind 5).
///   A duplicate whose MR is gone is left out alone: it can be older than the end of a window, and a forged one must not end the QP.
/// * `done` (II 2), of every packet: counts down what port `busy` shows, also when the rest of a job was left out; `fault` drops the ring, with `err` (kind 5).
/// * Atomics: the job at the head of its ring goes to `at`, its result comes on `ad` and leaves as an ATOMIC ACK; other QPs go on meanwhile. One at a time
///   for all QPs. The last 16 results of each QP answer duplicates; a duplicate without a result is dropped.
/// * `ctl`: RESET and FLUSH drop the ring, FENCE sends a `tx` of kind 1 (when no atomic is under way).
/// * II: 6 cycles a packet, 2 a job. Latency from `rj` to `tx`: 8 cycles.
#[derive(LogicBlock)]
pub struct ReadResp<const LOG_QP: usize, const LOG_MR: usize, const LOG_JOBS: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub rj_valid: Signal<In, bool>,
    pub rj_data: Signal<In, ReadJob>,
    pub rj_ready: Signal<Out, bool>,
    pub done_valid: Signal<In, bool>,
    pub done_data: Signal<In, TxDone>,
    pub done_ready: Signal<Out, bool>,
    pub ctl_valid: Signal<In, bool>,
    pub ctl_data: Signal<In, QpCtl>,
    pub ctl_ready: Signal<Out, bool>,
    pub cfg_raddr: Signal<Out, Bits<12>>,
    pub cfg_rdata: Signal<In, QpCfg>,
    pub mrc_raddr: Signal<Out, Bits<16>>,
    pub mrc_rdata: Signal<In, MrCheck>,
    pub busy_raddr: Signal<In, Bits<12>>,
    pub busy_rdata: Signal<Out, bool>,
    pub lvl_raddr: Signal<In, Bits<12>>,
    pub lvl_rdata: Signal<Out, Bits<5>>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_data: Signal<Out, TxCmd>,
    pub tx_ready: Signal<In, bool>,
    /// A constant of the card: it has no atomics, and `ad` stays silent.
    pub no_atomics: Signal<In, bool>,
    pub err_valid: Signal<Out, bool>,
    pub err_data: Signal<Out, QpErr>,
    pub err_ready: Signal<In, bool>,
    pub at_valid: Signal<Out, bool>,
    pub at_data: Signal<Out, AtomicJob>,
    pub at_ready: Signal<In, bool>,
    pub ad_valid: Signal<In, bool>,
    pub ad_data: Signal<In, AtomicDone>,
    pub ad_ready: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    jobs: SdpRam<RingJob, LOG_JOBS>,
    results: SdpRam<AtomicResult, LOG_JOBS>,
    ring: SdpRam2R<Ring, LOG_QP>,
    ring_l: SdpRam<Ring, LOG_QP>,
    left: SdpRam2R<Bits<12>, LOG_QP>,
    rr: Fifo<Bits<12>, LOG_QP>,
    errs: Fifo<QpErr, LOG_QP>,
    state: DFF<RdState>,
    qp: DFF<Bits<12>>,
    j: DFF<RingJob>,
    n: DFF<Bits<13>>,
    rest: DFF<Bits<33>>,
    last: DFF<bool>,
    live: DFF<bool>,
    drop_err: DFF<bool>,
    popped: DFF<bool>,
    tx: DFF<TxCmd>,
    tx_v: DFF<bool>,
    d_busy: DFF<bool>,
    d: DFF<TxDone>,
    flt_v: DFF<bool>,
    flt_qp: DFF<Bits<12>>,
    // the atomic under way: its QP; the ring was dropped since
    at_on: DFF<bool>,
    at_qp: DFF<Bits<12>>,
    at_void: DFF<bool>,
    at_r: DFF<RingJob>,
    at_mr: DFF<Bits<16>>,
    at_v: DFF<bool>,
    orig: DFF<Bits<64>>,
    // search: places left, place, one is being read, the one that was read is it
    f_left: DFF<Bits<5>>,
    f_at: DFF<Bits<4>>,
    f_go: DFF<bool>,
    f_hit: DFF<bool>,
    k_one: Constant<Bits<5>>,
    k_log: Constant<Bits<5>>,
    pass: Signal<Local, bool>,
    gate: MrGate<LOG_MR>,
    cfg: Signal<Local, QpCfg>,
    st: Signal<Local, Bits<3>>,
    mtu: Signal<Local, Bits<3>>,
    mtu_b: Signal<Local, Bits<13>>,
    mr: Signal<Local, MrCheck>,
    rg: Signal<Local, Ring>,
    rw: Signal<Local, Ring>,
    rwe: Signal<Local, bool>,
    rb: Signal<Local, Ring>,
    rl: Signal<Local, Ring>,
    level: Signal<Local, Bits<5>>,
    full: Signal<Local, bool>,
    r: Signal<Local, ReadJob>,
    jr: Signal<Local, RingJob>,
    jw: Signal<Local, RingJob>,
    jwe: Signal<Local, bool>,
    slot: Signal<Local, Bits<5>>,
    jaddr: Signal<Local, Bits<16>>,
    key: Signal<Local, Bits<32>>,
    zero: DFF<bool>,
    taken_n: Signal<Local, Bits<5>>,
    cut: Signal<Local, Bits<13>>,
    t: Signal<Local, TxCmd>,
    addr: Signal<Local, Bits<12>>,
    c: Signal<Local, QpCtl>,
    e: Signal<Local, QpErr>,
    dd: Signal<Local, TxDone>,
    d_addr: Signal<Local, Bits<12>>,
    lt: Signal<Local, Bits<12>>,
    atomic: Signal<Local, bool>,
    aj: Signal<Local, AtomicJob>,
    ad: Signal<Local, AtomicDone>,
    rs: Signal<Local, AtomicResult>,
    rs_w: Signal<Local, AtomicResult>,
    rs_at: Signal<Local, Bits<4>>,
    rs_addr: Signal<Local, Bits<16>>,
    rs_we: Signal<Local, bool>,
    clear: Signal<Local, bool>,
    live_n: Signal<Local, bool>,
    full16: Signal<Local, bool>,
    n_res: Signal<Local, Bits<5>>,
    tag: Signal<Local, Bits<16>>,
    newest: Signal<Local, Bits<4>>,
    respond: Signal<Local, bool>,
    skip: Signal<Local, bool>,
    more: Signal<Local, bool>,
}

crate::block_default! { ReadResp<LOG_QP, LOG_MR, LOG_JOBS> {
    clock, rst, rj_valid, rj_data, rj_ready, done_valid, done_data, done_ready, ctl_valid, ctl_data, ctl_ready, cfg_raddr, cfg_rdata, mrc_raddr,
    mrc_rdata, busy_raddr, busy_rdata, lvl_raddr, lvl_rdata, tx_valid, tx_data, tx_ready, no_atomics, err_valid, err_data, err_ready, idle, at_valid, at_data, at_ready, ad_valid, ad_data, ad_ready, results, ring, ring_l,
    left, rr, errs, state, qp, j, n, rest, last, live, drop_err, popped, tx, tx_v, d_busy, d, flt_v, flt_qp, cfg, st, mtu, mtu_b,
    mr, rg, rw, rwe, rb, rl, level, full, r, jr, jw, jwe, slot, jaddr, key, zero, taken_n, cut, t, addr, c, e, dd, d_addr, lt, pass, gate, at_on, at_qp, at_void, at_r, at_v, orig, f_left, f_at, f_go, f_hit, atomic, aj, ad, rs, rs_w, rs_at, rs_addr, rs_we,
    clear, newest, respond, skip, more, live_n, at_mr, tag, full16, n_res;
    assert LOG_JOBS == LOG_QP + 4 && LOG_QP <= 12 && LOG_MR <= 16;
    // looked at in Job only, behind Ring, which writes none
    jobs: SdpRam::collision_free(),
    k_one: Constant::new(1.into()),
    k_log: Constant::new((LOG_QP as u64).into()),
} }

impl<const LOG_QP: usize, const LOG_MR: usize, const LOG_JOBS: usize> Logic
    for ReadResp<LOG_QP, LOG_MR, LOG_JOBS>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, qp, j, n, rest, last, live, zero);
        dff_setup!(self, clock, drop_err, popped, tx, tx_v, d_busy, d, flt_v, flt_qp);
        dff_setup!(
            self, clock, at_on, at_qp, at_void, at_r, at_mr, at_v, orig, f_left, f_at, f_go, f_hit
        );
        clock!(self, clock, jobs, results, ring, ring_l, left, rr, errs, gate);
        self.rr.rst.next = self.rst.val();
        self.errs.rst.next = self.rst.val();
        self.cfg.next = self.cfg_rdata.val();
        self.st.next = self.cfg.val().state;
        self.mtu.next = self.cfg.val().mtu;
        self.live_n.next = ((self.st.val() == 2) | (self.st.val() == 3)) | (self.st.val() == 4);
        self.mr.next = self.mrc_rdata.val();
        self.rg.next = self.ring.rdata0.val();
        self.r.next = self.rj_data.val();
        self.c.next = self.ctl_data.val();
        self.jr.next = self.jobs.rdata.val();
        match self.mtu.val().index() {
            2 => self.mtu_b.next = 512.into(),
            3 => self.mtu_b.next = 1024.into(),
            4 => self.mtu_b.next = 2048.into(),
            5 => self.mtu_b.next = 4096.into(),
            _ => self.mtu_b.next = 256.into(),
        }
        self.rj_ready.next = false;
        self.ctl_ready.next = false;
        self.addr.next = self.qp.q.val();
        self.rwe.next = false;
        self.rw.next = self.rg.val();
        self.level.next = self.rg.val().put - self.rg.val().taken;
        self.full.next = self.level.val().get_bit(4);
        self.taken_n.next = self.rg.val().taken + self.k_one.val();
        self.jwe.next = false;
        self.rr.s_valid.next = false;
        self.rr.s_data.next = self.qp.q.val();
        self.rr.m_ready.next = false;
        self.errs.s_valid.next = false;
        self.e.next.qp = self.qp.q.val();
        self.e.next.kind = 5.into();
        self.errs.s_data.next = self.e.val();
        self.zero.d.next = !self.j.q.val().len.any();
        if self.tx_ready.val() {
            self.tx_v.d.next = false;
        }
        if self.at_ready.val() {
            self.at_v.d.next = false;
        }
        self.ad.next = self.ad_data.val();
        self.ad_ready.next = false;
        self.rs.next = self.results.rdata.val();
        self.rs_at.next = self.f_at.q.val();
        self.rs_we.next = false;
        self.clear.next = false;
        self.newest.next = self.rg.val().res - 1;
        self.n_res.next = self.rg.val().results;
        self.full16.next = self.n_res.val().get_bit(4);
        self.respond.next = false;
        self.skip.next = false;
        self.more.next = self.taken_n.val() != self.rg.val().put;

        // the job at the head, or (Push) the next free place
        self.slot.next = self.rg.val().taken;
        self.jw.next = self.j.q.val();
        self.key.next = self.jr.val().rkey;
        self.mrc_raddr.next = self.key.val().get_bits::<16>(8);
        self.cut.next = self.mtu_b.val();

        self.gate.mr.next = self.mr.val();
        self.atomic.next = (self.j.q.val().op != 0) & !self.no_atomics.val();
        self.gate.right.next = self.mr.val().remote_read;
        if self.atomic.val() {
            self.gate.right.next = self.mr.val().remote_atomic;
        }
        self.gate.pd.next = self.cfg.val().pd;
        self.tag.next = self.cfg.val().tag;
        self.gate.qpn.next = (bit_cast::<24, 16>(self.tag.val()) << self.k_log.val())
            | bit_cast::<24, 12>(self.qp.q.val());
        self.gate.key.next = self.j.q.val().rkey;
        self.gate.va.next = self.j.q.val().va;
        self.gate.len.next = self.j.q.val().len;
        self.pass.next = self.live.q.val() & (self.zero.q.val() | self.gate.ok.val());

        // the packet at hand
        self.t.next.first = true;
        self.t.next.last = true;
        self.t.next.inl = false;
        self.t.next.idata = 0.into();
        self.t.next.kind = 0.into();
        self.t.next.qp = self.qp.q.val();
        self.t.next.opcode = 14.into();
        if self.last.q.val() {
            self.t.next.opcode = 15.into();
        }
        if !self.j.q.val().begun {
            self.t.next.opcode = 13.into();
            if self.last.q.val() {
                self.t.next.opcode = 16.into();
            }
        }
        self.t.next.psn = self.j.q.val().psn;
        self.t.next.ackreq = false;
        self.t.next.se = false;
        self.t.next.ip6 = self.cfg.val().ip6;
        self.t.next.vlan = self.cfg.val().vlan;
        self.t.next.len = self.n.q.val();
        self.t.next.va = 0.into();
        self.t.next.rkey = 0.into();
        self.t.next.dlen = 0.into();
        self.t.next.imm = 0.into();
        self.t.next.aeth = bits::<32>(0x1F00_0000) | bit_cast::<32, 24>(self.j.q.val().msn);
        self.t.next.resp = true;
        self.t.next.resp_end = true;
        self.t.next.stamp = self.j.q.val().stamp;
        self.t.next.seg_mr = self.gate.at.val();
        self.t.next.seg_va = self.j.q.val().va;
        self.t.next.seg_len = self.n.q.val();
        if self.atomic.val() {
            self.t.next.opcode = 18.into();
            self.t.next.len = 0.into();
            self.t.next.seg_len = 0.into();
            self.t.next.va = self.orig.q.val();
        }
        self.aj.next.mr = self.at_mr.q.val();
        self.aj.next.va = self.at_r.q.val().va;
        self.aj.next.add = self.at_r.q.val().op == 2;
        self.aj.next.swap = self.at_r.q.val().swap;
        self.aj.next.cmp = self.at_r.q.val().cmp;
        self.at_data.next = self.aj.val();
        self.at_valid.next = self.at_v.q.val();

        match self.state.q.val() {
            RdState::Idle => {
                // a fence waits for the atomic under way
                if self.ctl_valid.val() & !((self.c.val().op == 3) & self.at_on.q.val()) {
                    self.addr.next = self.c.val().qp;
                    self.state.d.next = RdState::Ctl;
                } else if self.flt_v.q.val() {
                    self.addr.next = self.flt_qp.q.val();
                    self.flt_v.d.next = false;
                    self.drop_err.d.next = true;
                    self.popped.d.next = false;
                    self.state.d.next = RdState::Drop;
                } else if (self.ad_valid.val() & !self.no_atomics.val())
                    & (!self.tx_v.q.val() | self.tx_ready.val())
                {
                    self.addr.next = self.at_qp.q.val();
                    self.orig.d.next = self.ad.val().orig;
                    self.j.d.next = self.at_r.q.val();
                    self.state.d.next = RdState::Result;
                } else if self.rj_valid.val() {
                    self.rj_ready.next = true;
                    self.addr.next = self.r.val().qp;
                    self.jw.next.psn = self.r.val().psn;
                    self.jw.next.msn = self.r.val().msn;
                    self.jw.next.va = self.r.val().va;
                    self.jw.next.rkey = self.r.val().rkey;
                    self.jw.next.len = self.r.val().len;
                    self.jw.next.stamp = self.r.val().stamp;
                    self.jw.next.op = self.r.val().op;
                    self.jw.next.dup = self.r.val().dup;
                    self.jw.next.swap = self.r.val().swap;
                    self.jw.next.cmp = self.r.val().cmp;
                    self.jw.next.begun = false;
                    self.j.d.next = self.jw.val();
                    self.state.d.next = RdState::Push;
                } else if self.rr.m_valid.val() & (!self.tx_v.q.val() | self.tx_ready.val()) {
                    // jobs are taken while tx waits
                    self.rr.m_ready.next = true;
                    self.addr.next = self.rr.m_data.val();
                    self.state.d.next = RdState::Ring;
                }
            }
            RdState::Push => {
                self.slot.next = self.rg.val().put;
                if !self.full.val() {
                    self.jwe.next = true;
                    self.rwe.next = true;
                    self.rw.next.put = self.rg.val().put + 1;
                    self.rw.next.queued = true;
                    self.rr.s_valid.next = !self.rg.val().queued;
                }
                self.state.d.next = RdState::Idle;
            }
            RdState::Ring => {
                self.live.d.next = self.live_n.val();
                self.state.d.next = RdState::Job;
                if !self.level.val().any() {
                    // dropped since it was queued
                    self.rwe.next = true;
                    self.rw.next.queued = false;
                    self.state.d.next = RdState::Idle;
                }
            }
            RdState::Job => {
                self.j.d.next = self.jr.val();
                self.key.next = self.jr.val().rkey;
                self.mrc_raddr.next = self.key.val().get_bits::<16>(8);
                self.state.d.next = RdState::Mr;
            }
            RdState::Mr => {
                self.rest.d.next =
                    bit_cast::<33, 32>(self.j.q.val().len) - bit_cast::<33, 13>(self.mtu_b.val());
                self.state.d.next = RdState::Cmp;
            }
            RdState::Cmp => {
                // rest is len - mtu: negative or zero on the last packet
                self.last.d.next = self.rest.q.val().get_bit(32) | !self.rest.q.val().any();
                if self.rest.q.val().get_bit(32) {
                    self.cut.next = bit_cast::<13, 32>(self.j.q.val().len);
                }
                self.n.d.next = self.cut.val();
                self.state.d.next = RdState::Emit;
            }
            RdState::Emit => {
                if (self.j.q.val().dup & self.live.q.val()) & !self.pass.val() {
                    // the requester may have its data, and have ended the window, since this was sent
                    self.skip.next = true;
                    self.state.d.next = RdState::Idle;
                } else if !self.pass.val() {
                    self.drop_err.d.next = self.live.q.val();
                    self.popped.d.next = true;
                    self.state.d.next = RdState::Drop;
                } else if self.atomic.val() & self.j.q.val().dup {
                    self.f_left.d.next = self.rg.val().results;
                    self.f_at.d.next = self.newest.val();
                    self.f_go.d.next = false;
                    self.f_hit.d.next = false;
                    self.state.d.next = RdState::Find;
                } else if self.atomic.val() {
                    // one at a time: another QP's turn comes first
                    self.state.d.next = RdState::Idle;
                    if self.at_on.q.val() {
                        self.rr.s_valid.next = true;
                    } else {
                        self.at_on.d.next = true;
                        self.at_void.d.next = false;
                        self.at_qp.d.next = self.qp.q.val();
                        self.at_r.d.next = self.j.q.val();
                        self.at_mr.d.next = self.gate.at.val();
                        self.at_v.d.next = true;
                    }
                } else if !self.tx_v.q.val() | self.tx_ready.val() {
                    self.tx.d.next = self.t.val();
                    self.tx_v.d.next = true;
                    self.jw.next.begun = true;
                    self.jw.next.psn = self.j.q.val().psn + 1;
                    self.jw.next.va = self.j.q.val().va + bit_cast::<64, 13>(self.n.q.val());
                    self.jw.next.len = self.rest.q.val().get_bits::<32>(0);
                    self.jwe.next = !self.last.q.val();
                    self.rwe.next = true;
                    self.rw.next.sent = self.rg.val().sent + 1;
                    if self.last.q.val() {
                        self.rw.next.taken = self.taken_n.val();
                        self.rw.next.queued = self.more.val();
                        self.rr.s_valid.next = self.more.val();
                    } else {
                        self.rr.s_valid.next = true;
                    }
                    self.state.d.next = RdState::Idle;
                }
            }
            RdState::Find => {
                // the place that was read in the cycle before; its verdict, a cycle later
                self.f_hit.d.next = self.f_go.q.val() & (self.rs.val().psn == self.j.q.val().psn);
                if !self.f_hit.q.val() {
                    self.orig.d.next = self.rs.val().orig;
                }
                if self.f_hit.q.val() {
                    self.state.d.next = RdState::Redo;
                } else if !self.f_left.q.val().any() & !self.f_go.q.val() {
                    // never executed, or too old: no answer
                    self.skip.next = true;
                    self.state.d.next = RdState::Idle;
                } else if self.f_left.q.val().any() {
                    self.f_left.d.next = self.f_left.q.val() - 1;
                    self.f_at.d.next = self.f_at.q.val() - 1;
                }
                self.f_go.d.next = self.f_left.q.val().any();
            }
            RdState::Redo => {
                if !self.tx_v.q.val() | self.tx_ready.val() {
                    self.respond.next = true;
                    self.state.d.next = RdState::Idle;
                }
            }
            RdState::Result => {
                self.ad_ready.next = true;
                self.at_on.d.next = false;
                self.rwe.next = true;
                self.state.d.next = RdState::Idle;
                if self.at_void.q.val() {
                    self.rw.next.queued = self.level.val().any();
                    self.rr.s_valid.next = self.level.val().any();
                } else if self.ad.val().err {
                    self.errs.s_valid.next = self.live_n.val();
                    self.rw.next.taken = self.rg.val().put;
                    self.rw.next.queued = false;
                    if !self.errs.s_ready.val() {
                        self.ad_ready.next = false;
                        self.at_on.d.next = true;
                        self.rwe.next = false;
                        self.state.d.next = RdState::Result;
                    }
                } else {
                    self.respond.next = true;
                    self.rs_we.next = !self.no_atomics.val();
                    self.rw.next.res = self.rg.val().res + 1;
                    if !self.full16.val() {
                        self.rw.next.results = self.rg.val().results + 1;
                    }
                }
            }
            RdState::Drop => {
                // after a fault the QP may be in the queue still: it leaves it at its next visit
                if !self.drop_err.q.val() | self.errs.s_ready.val() {
                    self.errs.s_valid.next = self.drop_err.q.val();
                    self.rwe.next = true;
                    self.rw.next.taken = self.rg.val().put;
                    self.rw.next.queued = self.rg.val().queued & !self.popped.q.val();
                    self.clear.next = true;
                    self.state.d.next = RdState::Idle;
                }
            }
            RdState::Ctl => {
                if self.c.val().op == 3 {
                    if !self.tx_v.q.val() | self.tx_ready.val() {
                        self.t.next.kind = 1.into();
                        self.t.next.opcode = 0.into();
                        self.t.next.len = 0.into();
                        self.t.next.seg_len = 0.into();
                        self.t.next.resp = false;
                        self.t.next.resp_end = false;
                        self.tx.d.next = self.t.val();
                        self.tx_v.d.next = true;
                        self.ctl_ready.next = true;
                        self.state.d.next = RdState::Idle;
                    }
                } else {
                    if (self.c.val().op == 0) | (self.c.val().op == 2) {
                        self.rwe.next = true;
                        self.rw.next.taken = self.rg.val().put;
                        self.clear.next = true;
                    }
                    if self.c.val().op == 0 {
                        self.rw.next.results = 0.into();
                    }
                    self.ctl_ready.next = true;
                    self.state.d.next = RdState::Idle;
                }
            }
            _ => {
                self.state.d.next = RdState::Idle;
            }
        }
        if self.respond.val() {
            self.tx.d.next = self.t.val();
            self.tx_v.d.next = true;
            self.rw.next.sent = self.rg.val().sent + 1;
        }
        if self.respond.val() | self.skip.val() {
            self.rwe.next = true;
            self.rw.next.taken = self.taken_n.val();
            self.rw.next.queued = self.more.val();
            self.rr.s_valid.next = self.more.val();
        }
        if self.clear.val() & (self.at_qp.q.val() == self.qp.q.val()) {
            self.at_void.d.next = true;
        }
        self.rs_w.next.psn = self.j.q.val().psn;
        self.rs_w.next.orig = self.orig.q.val();
        if self.rs_we.val() {
            self.rs_at.next = self.rg.val().res;
        }
        self.rs_addr.next =
            (bit_cast::<16, 12>(self.qp.q.val()) << 4) | bit_cast::<16, 4>(self.rs_at.val());
        self.results.raddr.next = self.rs_addr.val().get_bits::<LOG_JOBS>(0);
        self.results.waddr.next = self.rs_addr.val().get_bits::<LOG_JOBS>(0);
        self.results.wdata.next = self.rs_w.val();
        self.results.we.next = self.rs_we.val();
        self.qp.d.next = self.addr.val();
        self.cfg_raddr.next = self.addr.val();
        self.ring.raddr0.next = self.addr.val().get_bits::<LOG_QP>(0);
        self.ring.raddr1.next = self.busy_raddr.val().get_bits::<LOG_QP>(0);
        self.ring_l.raddr.next = self.lvl_raddr.val().get_bits::<LOG_QP>(0);
        self.ring.waddr.next = self.qp.q.val().get_bits::<LOG_QP>(0);
        self.ring_l.waddr.next = self.qp.q.val().get_bits::<LOG_QP>(0);
        self.ring.wdata.next = self.rw.val();
        self.ring_l.wdata.next = self.rw.val();
        self.ring.we.next = self.rwe.val();
        self.ring_l.we.next = self.rwe.val();
        self.jaddr.next = (bit_cast::<16, 12>(self.qp.q.val()) << 4)
            | bit_cast::<16, 4>(self.slot.val().get_bits::<4>(0));
        self.jobs.raddr.next = self.jaddr.val().get_bits::<LOG_JOBS>(0);
        self.jobs.waddr.next = self.jaddr.val().get_bits::<LOG_JOBS>(0);
        self.jobs.wdata.next = self.jw.val();
        self.jobs.we.next = self.jwe.val();

        // frames that have left: counted by QP, apart from the ring
        self.dd.next = self.done_data.val();
        self.d_addr.next = self.d.q.val().qp;
        self.done_ready.next = false;
        self.left.we.next = false;
        self.left.wdata.next = self.left.rdata0.val() + 1;
        if self.d_busy.q.val() {
            self.d_busy.d.next = false;
            self.left.we.next = self.d.q.val().resp & self.d.q.val().resp_end;
            if self.d.q.val().resp & self.d.q.val().fault {
                self.flt_v.d.next = true;
                self.flt_qp.d.next = self.d.q.val().qp;
            }
        } else if self.done_valid.val() & !self.flt_v.q.val() {
            self.done_ready.next = true;
            self.d.d.next = self.dd.val();
            self.d_addr.next = self.dd.val().qp;
            self.d_busy.d.next = true;
        }
        self.left.raddr0.next = self.d_addr.val().get_bits::<LOG_QP>(0);
        self.left.waddr.next = self.d_addr.val().get_bits::<LOG_QP>(0);
        self.left.raddr1.next = self.busy_raddr.val().get_bits::<LOG_QP>(0);
        self.lt.next = self.left.rdata1.val();
        self.rb.next = self.ring.rdata1.val();
        self.busy_rdata.next =
            (self.rb.val().put != self.rb.val().taken) | (self.rb.val().sent != self.lt.val());
        self.rl.next = self.ring_l.rdata.val();
        self.lvl_rdata.next = self.rl.val().put - self.rl.val().taken;

        self.tx_valid.next = self.tx_v.q.val();
        self.tx_data.next = self.tx.q.val();
        self.err_valid.next = self.errs.m_valid.val();
        self.err_data.next = self.errs.m_data.val();
        self.errs.m_ready.next = self.err_ready.val();
        self.idle.next = (((self.state.q.val() == RdState::Idle) & !self.tx_v.q.val())
            & (!self.rr.m_valid.val() & !self.errs.m_valid.val()))
            & ((!self.d_busy.q.val() & !self.flt_v.q.val()) & !self.at_on.q.val());
        if self.rst.val() {
            self.state.d.next = RdState::Idle;
            self.tx_v.d.next = false;
            self.d_busy.d.next = false;
            self.flt_v.d.next = false;
            self.at_on.d.next = false;
            self.at_v.d.next = false;
        }
    }
}
