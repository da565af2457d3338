//! Completion and event queues: their indices, arming, and the entries to be written.

use super::mover::CqJob;
use crate::layouts::{Cq, Cqe, Eqe};
use crate::packed_struct;
use crate::prims::{Fifo, SdpRam};
use crate::types::{CqDb, Event};
use metaroce_hdl_spec::cqe;
use rust_hdl::prelude::*;

packed_struct! {
    /// State of a CQ. `sol`: index after the newest completion that is solicited or an error.
    pub struct CqState {
        pub pi: Bits<24>,
        pub ci: Bits<24>,
        pub sol: Bits<24>,
        pub arm: Bits<2>,
        pub over: bool,
    }
}

packed_struct! {
    /// Event queue of a PASID.
    pub struct EqState {
        pub base: Bits<48>,
        pub log: Bits<5>,
        pub pi: Bits<24>,
        pub valid: bool,
    }
}

packed_struct! {
    /// Order to (re)define an event queue; `log` 0 takes it away.
    pub struct EqSet {
        pub pasid: Bits<12>,
        pub base: Bits<48>,
        pub log: Bits<5>,
    }
}

packed_struct! {
    /// Order to begin a CQ's ring; `resize`: the CQ stays armed, or overrun.
    pub struct CqSet {
        pub cq: Bits<12>,
        pub resize: bool,
    }
}

packed_struct! {
    /// Entry to be written. `kind`: 0 a completion that is not written (overflow, no such CQ), 1 CQE, 2 EQE, 3 fence token. `body` is the low part
    /// of the 64 bytes, the rest is zero but for the phase in the last bit.
    pub struct QEntry {
        pub kind: Bits<2>,
        pub pasid: Bits<12>,
        pub addr: Bits<64>,
        pub body: Bits<320>,
        pub phase: bool,
    }
}

/// Owner of all CQ and EQ indices.
///
/// * In: `j` completions and fence tokens in order, `cqdb` doorbells, `ev` events of the sequencer, `cqctl` (a CQ's indices begin at 0 again; with
///   `cqctl_resize` the rest of its state stays), `eqctl` (define the EQ of a PASID). `cqctl` and `eqctl` may be pulses or held until `ready`.
/// * Out: `e` entries in order: the EQE that a completion causes comes right after it. `cqerr`: a CQ has overflowed (once until it is reset);
///   `ev_cq_overflow` with it.
/// * A CQ is full when `pi - ci == 2^log`. After an overflow nothing is written any more. A doorbell with a `ci` outside of `pi - 2^log ..= pi` is
///   ignored. Arming for the next completion, or for the next solicited one, with such a completion already behind `ci` gives the event at once.
///   A "next" arm stays when a solicited arm follows. One event per arm.
/// * Events of a PASID without an EQ are dropped.
/// * `cqctl` comes in the cycle in which the CQ's table entry is written, and goes before completions and doorbells: a completion has the old ring and its
///   index, or the new ring from index 0 on.
/// * 4 cycles a completion or doorbell, 8 with an event. Completions and doorbells alternate when both wait.
#[derive(LogicBlock)]
pub struct CqUnit<const LOG_CQ: usize, const LOG_PASID: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub now: Signal<In, Bits<48>>,
    pub j_valid: Signal<In, bool>,
    pub j_data: Signal<In, CqJob>,
    pub j_ready: Signal<Out, bool>,
    pub cqdb_valid: Signal<In, bool>,
    pub cqdb_data: Signal<In, CqDb>,
    pub cqdb_ready: Signal<Out, bool>,
    pub ev_valid: Signal<In, bool>,
    pub ev_data: Signal<In, Event>,
    pub ev_ready: Signal<Out, bool>,
    pub cqctl_valid: Signal<In, bool>,
    pub cqctl_cq: Signal<In, Bits<12>>,
    pub cqctl_resize: Signal<In, bool>,
    pub cqctl_ready: Signal<Out, bool>,
    pub eqctl_valid: Signal<In, bool>,
    pub eqctl_data: Signal<In, EqSet>,
    pub eqctl_ready: Signal<Out, bool>,
    pub cqt_raddr: Signal<Out, Bits<12>>,
    pub cqt_rdata: Signal<In, Cq>,
    pub e_valid: Signal<Out, bool>,
    pub e_data: Signal<Out, QEntry>,
    pub e_ready: Signal<In, bool>,
    pub cqerr_valid: Signal<Out, bool>,
    pub cqerr_data: Signal<Out, Event>,
    pub cqerr_ready: Signal<In, bool>,
    pub ev_cq_overflow: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    jq: Fifo<CqJob, 3>,
    cc: Fifo<CqSet, 2>,
    ec: Fifo<EqSet, 2>,
    ef: Fifo<QEntry, 3>,
    errs: Fifo<Event, LOG_CQ>,
    cqs: SdpRam<CqState, LOG_CQ>,
    eqs: SdpRam<EqState, LOG_PASID>,
    state: DFF<Bits<3>>,
    is_db: DFF<bool>,
    is_rs: DFF<bool>,
    turn: DFF<bool>,
    job: DFF<CqJob>,
    cq: DFF<Bits<12>>,
    ci: DFF<Bits<24>>,
    arm: DFF<Bits<2>>,
    t: DFF<Cq>,
    s: DFF<CqState>,
    used: DFF<Bits<25>>,
    size: DFF<Bits<25>>,
    sold: DFF<Bits<25>>,
    slot: DFF<Bits<24>>,
    lap: DFF<bool>,
    base: DFF<Bits<48>>,
    high_n: DFF<Bits<30>>,
    pasid: DFF<Bits<12>>,
    kind: DFF<Bits<8>>,
    id: DFF<Bits<24>>,
    eq: DFF<EqState>,
    jh: Signal<Local, CqJob>,
    dh: Signal<Local, CqDb>,
    eh: Signal<Local, Event>,
    es: Signal<Local, EqSet>,
    ch: Signal<Local, CqSet>,
    chi: Signal<Local, CqSet>,
    start: Signal<Local, bool>,
    pick_db: Signal<Local, bool>,
    sel: Signal<Local, Bits<12>>,
    tt: Signal<Local, Cq>,
    ss: Signal<Local, CqState>,
    n: Signal<Local, CqState>,
    jj: Signal<Local, CqJob>,
    tmask: Signal<Local, Bits<24>>,
    mask: Signal<Local, Bits<24>>,
    diff: Signal<Local, Bits<24>>,
    sdiff: Signal<Local, Bits<24>>,
    laps: Signal<Local, Bits<24>>,
    full: Signal<Local, bool>,
    news: Signal<Local, bool>,
    fire: Signal<Local, bool>,
    want: Signal<Local, bool>,
    put: Signal<Local, bool>,
    cqe: Signal<Local, Cqe>,
    cqe_raw: Signal<Local, Bits<512>>,
    eqe: Signal<Local, Eqe>,
    eqe_raw: Signal<Local, Bits<512>>,
    root: Signal<Local, Bits<48>>,
    low: Signal<Local, Bits<19>>,
    high: Signal<Local, Bits<30>>,
    en: Signal<Local, QEntry>,
    err: Signal<Local, Event>,
    ee: Signal<Local, EqState>,
    ne: Signal<Local, EqState>,
    emask: Signal<Local, Bits<24>>,
    eslot: Signal<Local, Bits<24>>,
    elaps: Signal<Local, Bits<24>>,
    room: Constant<Bits<16>>,
    completion: Constant<Bits<8>>,
    cq_err: Constant<Bits<8>>,
    ones: Constant<Bits<24>>,
    unit: Constant<Bits<25>>,
}

impl<const LOG_CQ: usize, const LOG_PASID: usize> Default for CqUnit<LOG_CQ, LOG_PASID> {
    fn default() -> Self {
        assert!(LOG_CQ <= 12 && LOG_PASID <= 12);
        assert!(cqe::cqe::phase.lo == 511 && cqe::eqe::phase.lo == 511);
        Self {
            clock: Default::default(),
            rst: Default::default(),
            now: Default::default(),
            j_valid: Default::default(),
            j_data: Default::default(),
            j_ready: Default::default(),
            cqdb_valid: Default::default(),
            cqdb_data: Default::default(),
            cqdb_ready: Default::default(),
            ev_valid: Default::default(),
            ev_data: Default::default(),
            ev_ready: Default::default(),
            cqctl_valid: Default::default(),
            cqctl_cq: Default::default(),
            cqctl_resize: Default::default(),
            cqctl_ready: Default::default(),
            eqctl_valid: Default::default(),
            eqctl_data: Default::default(),
            eqctl_ready: Default::default(),
            cqt_raddr: Default::default(),
            cqt_rdata: Default::default(),
            e_valid: Default::default(),
            e_data: Default::default(),
            e_ready: Default::default(),
            cqerr_valid: Default::default(),
            cqerr_data: Default::default(),
            cqerr_ready: Default::default(),
            ev_cq_overflow: Default::default(),
            idle: Default::default(),
            jq: Default::default(),
            cc: Default::default(),
            ec: Default::default(),
            ef: Default::default(),
            errs: Default::default(),
            cqs: Default::default(),
            eqs: Default::default(),
            state: Default::default(),
            is_db: Default::default(),
            is_rs: Default::default(),
            turn: Default::default(),
            job: Default::default(),
            cq: Default::default(),
            ci: Default::default(),
            arm: Default::default(),
            t: Default::default(),
            s: Default::default(),
            used: Default::default(),
            size: Default::default(),
            sold: Default::default(),
            slot: Default::default(),
            lap: Default::default(),
            base: Default::default(),
            pasid: Default::default(),
            kind: Default::default(),
            id: Default::default(),
            eq: Default::default(),
            jh: Default::default(),
            dh: Default::default(),
            eh: Default::default(),
            es: Default::default(),
            ch: Default::default(),
            chi: Default::default(),
            start: Default::default(),
            pick_db: Default::default(),
            sel: Default::default(),
            tt: Default::default(),
            ss: Default::default(),
            n: Default::default(),
            jj: Default::default(),
            tmask: Default::default(),
            mask: Default::default(),
            diff: Default::default(),
            sdiff: Default::default(),
            laps: Default::default(),
            full: Default::default(),
            news: Default::default(),
            fire: Default::default(),
            want: Default::default(),
            put: Default::default(),
            cqe: Default::default(),
            cqe_raw: Default::default(),
            eqe: Default::default(),
            eqe_raw: Default::default(),
            root: Default::default(),
            low: Default::default(),
            high: Default::default(),
            high_n: Default::default(),
            en: Default::default(),
            err: Default::default(),
            ee: Default::default(),
            ne: Default::default(),
            emask: Default::default(),
            eslot: Default::default(),
            elaps: Default::default(),
            // an operation adds two entries at most
            room: Constant::new(7u64.into()),
            completion: Constant::new((cqe::event::COMPLETION as u64).into()),
            cq_err: Constant::new((cqe::event::CQ_ERR as u64).into()),
            ones: Constant::new(Bits::<24>::mask()),
            unit: Constant::new(1u64.into()),
        }
    }
}

impl<const LOG_CQ: usize, const LOG_PASID: usize> Logic for CqUnit<LOG_CQ, LOG_PASID> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, is_db, is_rs, turn, job, cq, ci, arm, t, s, used, size, sold
        );
        dff_setup!(self, clock, slot, lap, base, high_n, pasid, kind, id, eq);
        clock!(self, clock, jq, cc, ec, ef, errs, cqs, eqs);
        self.jq.rst.next = self.rst.val();
        self.cc.rst.next = self.rst.val();
        self.ec.rst.next = self.rst.val();
        self.ef.rst.next = self.rst.val();
        self.errs.rst.next = self.rst.val();
        self.jq.s_valid.next = self.j_valid.val();
        self.jq.s_data.next = self.j_data.val();
        self.j_ready.next = self.jq.s_ready.val();
        self.cc.s_valid.next = self.cqctl_valid.val();
        self.chi.next.cq = self.cqctl_cq.val();
        self.chi.next.resize = self.cqctl_resize.val();
        self.cc.s_data.next = self.chi.val();
        self.cqctl_ready.next = self.cc.s_ready.val();
        self.ec.s_valid.next = self.eqctl_valid.val();
        self.ec.s_data.next = self.eqctl_data.val();
        self.eqctl_ready.next = self.ec.s_ready.val();
        self.jh.next = self.jq.m_data.val();
        self.dh.next = self.cqdb_data.val();
        self.eh.next = self.ev_data.val();
        self.es.next = self.ec.m_data.val();
        self.ch.next = self.cc.m_data.val();
        // idle: what comes next, with its table reads
        self.start.next = ((self.state.q.val() == 0) & (self.ef.level.val() < self.room.val()))
            & self.errs.s_ready.val();
        self.pick_db.next = self.cqdb_valid.val() & (self.turn.q.val() | !self.jq.m_valid.val());
        self.sel.next = self.jh.val().cq;
        if self.pick_db.val() {
            self.sel.next = self.dh.val().cq;
        }
        if self.cc.m_valid.val() {
            self.sel.next = self.ch.val().cq;
        }
        self.cqt_raddr.next = self.sel.val();
        self.cqs.raddr.next = bit_cast::<LOG_CQ, 12>(self.sel.val());
        self.cqs.we.next = false;
        self.cqs.waddr.next = bit_cast::<LOG_CQ, 12>(self.cq.q.val());
        self.eqs.raddr.next = bit_cast::<LOG_PASID, 12>(self.pasid.q.val());
        self.eqs.we.next = false;
        self.eqs.waddr.next = bit_cast::<LOG_PASID, 12>(self.pasid.q.val());
        self.jq.m_ready.next = false;
        self.cc.m_ready.next = false;
        self.ec.m_ready.next = false;
        self.cqdb_ready.next = false;
        self.ev_ready.next = false;
        self.put.next = false;
        self.errs.s_valid.next = false;
        self.ev_cq_overflow.next = false;
        // the entries
        self.tt.next = self.t.q.val();
        self.ss.next = self.s.q.val();
        self.jj.next = self.job.q.val();
        self.cqe.next.qpn = self.jj.val().qpn;
        self.cqe.next.opcode = self.jj.val().opcode;
        self.cqe.next.index = self.jj.val().index;
        self.cqe.next.status = self.jj.val().status;
        self.cqe.next.is_recv = self.jj.val().is_recv;
        self.cqe.next.with_imm = self.jj.val().with_imm;
        self.cqe.next.with_inv = self.jj.val().with_inv;
        self.cqe.next.grh = self.jj.val().grh;
        self.cqe.next.solicited = self.jj.val().solicited;
        self.cqe.next.rsv0 = 0.into();
        self.cqe.next.length = self.jj.val().length;
        self.cqe.next.imm = self.jj.val().imm;
        self.cqe.next.src_qp = self.jj.val().src_qp;
        self.cqe.next.vendor = 0.into();
        self.cqe.next.rsv1 = 0.into();
        self.cqe.next.timestamp = bit_cast::<64, 48>(self.now.val());
        self.cqe.next.post_time = bit_cast::<64, 48>(self.jj.val().stamp);
        if self.jj.val().is_recv {
            self.cqe.next.post_time = 0.into();
        }
        self.cqe.next.rsv2 = 0.into();
        self.cqe.next.phase = false;
        self.cqe_raw.next = self.cqe.val().into();
        self.eqe.next.kind = self.kind.q.val();
        self.eqe.next.rsv0 = 0.into();
        self.eqe.next.id = self.id.q.val();
        self.eqe.next.rsv1 = 0.into();
        self.eqe.next.phase = false;
        self.eqe_raw.next = self.eqe.val().into();
        self.en.next.kind = bits::<2>(1);
        self.en.next.pasid = self.pasid.q.val();
        // 18 bits of the page number are added here, the carry chooses the prepared high part
        self.low.next = bit_cast::<19, 18>(self.base.q.val().get_bits::<18>(0))
            + bit_cast::<19, 18>(self.slot.q.val().get_bits::<18>(6));
        self.high.next = self.base.q.val().get_bits::<30>(18);
        if self.low.val().get_bit(18) {
            self.high.next = self.high_n.q.val();
        }
        self.en.next.addr = ((bit_cast::<64, 30>(self.high.val()) << 30)
            | (bit_cast::<64, 18>(self.low.val().get_bits::<18>(0)) << 12))
            | (bit_cast::<64, 6>(self.slot.q.val().get_bits::<6>(0)) << 6);
        self.en.next.body = self.cqe_raw.val().get_bits::<320>(0);
        self.en.next.phase = self.lap.q.val();
        self.err.next.pasid = self.pasid.q.val();
        self.err.next.kind = self.cq_err.val();
        self.err.next.id = bit_cast::<24, 12>(self.cq.q.val());
        self.errs.s_data.next = self.err.val();
        // compute step: distances from the consumer index, ring slot, lap
        self.tmask.next = self.ones.val() << self.tt.val().log;
        self.mask.next = !self.tmask.val();
        self.diff.next = self.ss.val().pi - self.ci.q.val();
        self.sdiff.next = self.ss.val().sol - self.ci.q.val();
        self.laps.next = self.ss.val().pi >> self.tt.val().log;
        // decide step
        self.full.next = self.used.q.val() >= self.size.q.val();
        self.news.next = self.jj.val().solicited | (self.jj.val().status != 0);
        self.want.next = (self.ss.val().arm == 1) | ((self.ss.val().arm == 2) & self.news.val());
        self.fire.next = false;
        self.root.next = 0.into();
        self.n.next = self.ss.val();
        // event queue step
        self.ee.next = self.eq.q.val();
        self.ne.next = self.ee.val();
        self.ne.next.pi = self.ee.val().pi + 1;
        self.emask.next = self.ones.val() << self.ee.val().log;
        self.eslot.next = self.ee.val().pi & !self.emask.val();
        self.elaps.next = self.ee.val().pi >> self.ee.val().log;
        match self.state.q.val().index() {
            0 => {
                self.is_db.d.next = self.pick_db.val();
                self.is_rs.d.next = self.cc.m_valid.val();
                self.job.d.next = self.jh.val();
                self.cq.d.next = self.sel.val();
                self.ci.d.next = self.dh.val().ci;
                self.arm.d.next = self.dh.val().arm;
                if self.start.val() {
                    if self.ec.m_valid.val() {
                        self.ec.m_ready.next = true;
                        self.eqs.we.next = true;
                        self.eqs.waddr.next = bit_cast::<LOG_PASID, 12>(self.es.val().pasid);
                        self.ne.next.base = self.es.val().base;
                        self.ne.next.log = self.es.val().log;
                        self.ne.next.pi = 0.into();
                        self.ne.next.valid = self.es.val().log != 0;
                    } else if self.cc.m_valid.val() {
                        self.cc.m_ready.next = true;
                        if self.ch.val().resize {
                            self.state.d.next = bits::<3>(1);
                        } else {
                            self.cqs.we.next = true;
                        }
                        self.cqs.waddr.next = bit_cast::<LOG_CQ, 12>(self.ch.val().cq);
                        self.n.next.pi = 0.into();
                        self.n.next.ci = 0.into();
                        self.n.next.sol = 0.into();
                        self.n.next.arm = 0.into();
                        self.n.next.over = false;
                    } else if self.ev_valid.val() {
                        self.ev_ready.next = true;
                        self.pasid.d.next = self.eh.val().pasid;
                        self.kind.d.next = self.eh.val().kind;
                        self.id.d.next = self.eh.val().id;
                        self.state.d.next = bits::<3>(4);
                    } else if self.pick_db.val() {
                        self.cqdb_ready.next = true;
                        self.turn.d.next = false;
                        self.state.d.next = bits::<3>(1);
                    } else if self.jq.m_valid.val() {
                        self.jq.m_ready.next = true;
                        self.turn.d.next = true;
                        if self.jh.val().fence {
                            self.en.next.kind = bits::<2>(3);
                            self.put.next = true;
                        } else {
                            self.state.d.next = bits::<3>(1);
                        }
                    }
                }
            }
            1 => {
                self.t.d.next = self.cqt_rdata.val();
                self.s.d.next = self.cqs.rdata.val();
                if !self.is_db.q.val() {
                    self.ss.next = self.cqs.rdata.val();
                    self.ci.d.next = self.ss.val().ci;
                }
                self.state.d.next = bits::<3>(2);
            }
            2 => {
                self.used.d.next = bit_cast::<25, 24>(self.diff.val());
                self.sold.d.next = bit_cast::<25, 24>(self.sdiff.val());
                self.size.d.next = self.unit.val() << self.tt.val().log;
                self.slot.d.next = self.ss.val().pi & self.mask.val();
                self.lap.d.next = !self.laps.val().get_bit(0);
                self.root.next = self.tt.val().base;
                self.base.d.next = self.root.val();
                self.high_n.d.next = self.root.val().get_bits::<30>(18) + bits::<30>(1);
                self.pasid.d.next = self.tt.val().pasid;
                self.kind.d.next = self.completion.val();
                self.id.d.next = bit_cast::<24, 12>(self.cq.q.val());
                self.state.d.next = bits::<3>(3);
            }
            3 => {
                self.state.d.next = bits::<3>(0);
                if self.is_rs.q.val() {
                    self.cqs.we.next = true;
                    self.n.next.pi = 0.into();
                    self.n.next.ci = 0.into();
                    self.n.next.sol = 0.into();
                } else if self.is_db.q.val() {
                    // a consumer index that is not in the ring is refused
                    if self.tt.val().valid & (self.used.q.val() <= self.size.q.val()) {
                        self.cqs.we.next = true;
                        self.n.next.ci = self.ci.q.val();
                        if self.arm.q.val() == 1 {
                            self.n.next.arm = bits::<2>(1);
                            self.fire.next = self.used.q.val().any();
                        } else if self.arm.q.val() == 2 {
                            if self.ss.val().arm != 1 {
                                self.n.next.arm = bits::<2>(2);
                            }
                            self.fire.next =
                                self.sold.q.val().any() & (self.sold.q.val() <= self.used.q.val());
                        }
                    }
                } else {
                    self.put.next = true;
                    if (!self.tt.val().valid | self.ss.val().over) | self.full.val() {
                        self.en.next.kind = bits::<2>(0);
                        if self.tt.val().valid & !self.ss.val().over {
                            self.n.next.over = true;
                            self.cqs.we.next = true;
                            self.errs.s_valid.next = true;
                            self.ev_cq_overflow.next = true;
                        }
                    } else {
                        self.cqs.we.next = true;
                        self.n.next.pi = self.ss.val().pi + 1;
                        if self.news.val() {
                            self.n.next.sol = self.ss.val().pi + 1;
                        }
                        self.fire.next = self.want.val();
                    }
                }
                if self.fire.val() {
                    self.n.next.arm = 0.into();
                    self.state.d.next = bits::<3>(4);
                }
            }
            4 => {
                self.state.d.next = bits::<3>(5);
            }
            5 => {
                self.eq.d.next = self.eqs.rdata.val();
                self.state.d.next = bits::<3>(6);
            }
            6 => {
                self.slot.d.next = self.eslot.val();
                self.lap.d.next = !self.elaps.val().get_bit(0);
                self.root.next = self.ee.val().base;
                self.base.d.next = self.root.val();
                self.high_n.d.next = self.root.val().get_bits::<30>(18) + bits::<30>(1);
                self.state.d.next = bits::<3>(7);
            }
            _ => {
                self.en.next.kind = bits::<2>(2);
                self.en.next.body = self.eqe_raw.val().get_bits::<320>(0);
                self.put.next = self.ee.val().valid;
                self.eqs.we.next = self.ee.val().valid;
                self.state.d.next = bits::<3>(0);
            }
        }
        self.cqs.wdata.next = self.n.val();
        self.eqs.wdata.next = self.ne.val();
        self.ef.s_data.next = self.en.val();
        self.ef.s_valid.next = self.put.val();
        self.e_valid.next = self.ef.m_valid.val();
        self.e_data.next = self.ef.m_data.val();
        self.ef.m_ready.next = self.e_ready.val();
        self.cqerr_valid.next = self.errs.m_valid.val();
        self.cqerr_data.next = self.errs.m_data.val();
        self.errs.m_ready.next = self.cqerr_ready.val();
        self.idle.next = ((self.state.q.val() == 0) & !self.jq.m_valid.val())
            & ((!self.ef.m_valid.val() & !self.errs.m_valid.val())
                & (!self.cc.m_valid.val() & !self.ec.m_valid.val()));
        if self.rst.val() {
            self.state.d.next = 0.into();
            self.turn.d.next = false;
        }
    }
}
