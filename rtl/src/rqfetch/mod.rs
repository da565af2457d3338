//! Receive WQE prefetch.

use crate::fetch::Fetch;
use crate::layouts::QpCfg;
use crate::types::*;
use rust_hdl::prelude::*;

/// Keeps the next receive WQEs of every QP and SRQ on the card (an SRQ has a table index as a QP has). All indices count units of four SGEs, of
/// which an entry has `2^rq_stride`. See [`Fetch`] for limits and cycle counts.
///
/// * `LQ` log2 of QPs, `LS` log2 of slots a QP, `A` = `LQ + LS`.
/// * `slot_raddr` is {qp, index mod 2^LS}; entries below `avail` are valid, those below `pi` are posted.
/// * `notify` repeats a doorbell of a QP in ERR, so that late receives are flushed.
/// * A refused read reports `flt` (kind 1) once; that ring stops until RESET.
#[derive(LogicBlock)]
pub struct RqFetch<const LQ: usize, const LS: usize, const A: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub now: Signal<In, Bits<48>>,
    /// log2 of the longest read request, bytes.
    pub limit_log: Signal<In, Bits<4>>,
    pub rqdb_valid: Signal<In, bool>,
    pub rqdb_data: Signal<In, QpIdx>,
    pub rqdb_ready: Signal<Out, bool>,
    pub rqfree_valid: Signal<In, bool>,
    pub rqfree_data: Signal<In, QpIdx>,
    pub rqfree_ready: Signal<Out, bool>,
    pub ctl_valid: Signal<In, bool>,
    pub ctl_data: Signal<In, QpCtl>,
    pub ctl_ready: Signal<Out, bool>,
    pub cfg_raddr: Signal<Out, Bits<LQ>>,
    pub cfg_rdata: Signal<In, QpCfg>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub rd_ready: Signal<In, bool>,
    pub fill_valid: Signal<In, bool>,
    pub fill_data: Signal<In, CtlFill>,
    pub slot_raddr: Signal<In, Bits<16>>,
    pub slot_rdata: Signal<Out, Bits<512>>,
    pub idx_raddr: Signal<In, Bits<12>>,
    pub pi_rdata: Signal<Out, Bits<16>>,
    pub avail_rdata: Signal<Out, Bits<16>>,
    pub notify_valid: Signal<Out, bool>,
    pub notify_data: Signal<Out, QpIdx>,
    pub notify_ready: Signal<In, bool>,
    pub flt_valid: Signal<Out, bool>,
    pub flt_data: Signal<Out, QpErr>,
    pub flt_ready: Signal<In, bool>,
    pub idle: Signal<Out, bool>,
    core: Fetch<LQ, LS, A>,
}

impl<const LQ: usize, const LS: usize, const A: usize> Default for RqFetch<LQ, LS, A> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            rst: Default::default(),
            now: Default::default(),
            limit_log: Default::default(),
            rqdb_valid: Default::default(),
            rqdb_data: Default::default(),
            rqdb_ready: Default::default(),
            rqfree_valid: Default::default(),
            rqfree_data: Default::default(),
            rqfree_ready: Default::default(),
            ctl_valid: Default::default(),
            ctl_data: Default::default(),
            ctl_ready: Default::default(),
            cfg_raddr: Default::default(),
            cfg_rdata: Default::default(),
            rd_valid: Default::default(),
            rd_data: Default::default(),
            rd_ready: Default::default(),
            fill_valid: Default::default(),
            fill_data: Default::default(),
            slot_raddr: Default::default(),
            slot_rdata: Default::default(),
            idx_raddr: Default::default(),
            pi_rdata: Default::default(),
            avail_rdata: Default::default(),
            notify_valid: Default::default(),
            notify_data: Default::default(),
            notify_ready: Default::default(),
            flt_valid: Default::default(),
            flt_data: Default::default(),
            flt_ready: Default::default(),
            idle: Default::default(),
            core: Fetch::new(true, 0x90),
        }
    }
}

impl<const LQ: usize, const LS: usize, const A: usize> Logic for RqFetch<LQ, LS, A> {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, core);
        self.core.rst.next = self.rst.val();
        self.core.now.next = self.now.val();
        self.core.limit_log.next = self.limit_log.val();
        self.core.db_valid.next = self.rqdb_valid.val();
        self.core.db_data.next = self.rqdb_data.val();
        self.core.db_direct.next = false;
        self.core.db_unit.next = 0.into();
        self.rqdb_ready.next = self.core.db_ready.val();
        self.core.free_valid.next = self.rqfree_valid.val();
        self.core.free_data.next = self.rqfree_data.val();
        self.rqfree_ready.next = self.core.free_ready.val();
        self.core.ctl_valid.next = self.ctl_valid.val();
        self.core.ctl_data.next = self.ctl_data.val();
        self.ctl_ready.next = self.core.ctl_ready.val();
        self.cfg_raddr.next = self.core.cfg_raddr.val();
        self.core.cfg_rdata.next = self.cfg_rdata.val();
        self.rd_valid.next = self.core.rd_valid.val();
        self.rd_data.next = self.core.rd_data.val();
        self.core.rd_ready.next = self.rd_ready.val();
        self.core.fill_valid.next = self.fill_valid.val();
        self.core.fill_data.next = self.fill_data.val();
        self.core.slot_raddr.next = self.slot_raddr.val().get_bits::<A>(0);
        self.slot_rdata.next = self.core.slot_rdata.val();
        self.core.avail_raddr.next = self.idx_raddr.val().get_bits::<LQ>(0);
        self.avail_rdata.next = self.core.avail_rdata.val();
        self.core.pi_raddr.next = self.idx_raddr.val().get_bits::<LQ>(0);
        self.pi_rdata.next = self.core.pi_rdata.val();
        self.core.stamp_raddr.next = 0.into();
        self.notify_valid.next = self.core.out_valid.val();
        self.notify_data.next = self.core.out_data.val();
        self.core.out_ready.next = self.notify_ready.val();
        self.flt_valid.next = self.core.flt_valid.val();
        self.flt_data.next = self.core.flt_data.val();
        self.core.flt_ready.next = self.flt_ready.val();
        self.idle.next = self.core.idle.val();
    }
}
