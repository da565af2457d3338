//! Send WQE prefetch.

use crate::fetch::Fetch;
use crate::layouts::QpCfg;
use crate::types::*;
use rust_hdl::prelude::*;

/// Keeps the next send WQE units of every QP on the card; a unit stays in its slot until `sqfree` has passed it, so a
/// retransmission reads no ring. All indices count units. See [`Fetch`] for limits and cycle counts.
///
/// * `LQ` log2 of QPs, `LS` log2 of slots a QP, `A` = `LQ + LS`.
/// * `slot_raddr` is {qp, index mod 2^LS}; units below `avail` are valid. `ready` comes once after every completed read.
/// * `sqdb_direct`: `sqdb_unit` is the unit that the doorbell tells of (a WQE of one unit); no read is needed for it.
/// * `stamp`: when the newest doorbell of a QP was taken.
/// * A refused read reports `flt` (kind 6) once; that ring stops until RESET.
#[derive(LogicBlock)]
pub struct SqFetch<const LQ: usize, const LS: usize, const A: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub now: Signal<In, Bits<48>>,
    /// log2 of the longest read request, bytes.
    pub limit_log: Signal<In, Bits<4>>,
    pub sqdb_valid: Signal<In, bool>,
    pub sqdb_data: Signal<In, QpIdx>,
    pub sqdb_direct: Signal<In, bool>,
    pub sqdb_unit: Signal<In, Bits<512>>,
    pub sqdb_ready: Signal<Out, bool>,
    pub sqfree_valid: Signal<In, bool>,
    pub sqfree_data: Signal<In, QpIdx>,
    pub sqfree_ready: Signal<Out, bool>,
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
    pub avail_raddr: Signal<In, Bits<12>>,
    pub avail_rdata: Signal<Out, Bits<16>>,
    pub stamp_raddr: Signal<In, Bits<12>>,
    pub stamp_rdata: Signal<Out, Bits<48>>,
    pub ready_valid: Signal<Out, bool>,
    pub ready_data: Signal<Out, QpIdx>,
    pub ready_ready: Signal<In, bool>,
    pub flt_valid: Signal<Out, bool>,
    pub flt_data: Signal<Out, QpErr>,
    pub flt_ready: Signal<In, bool>,
    pub idle: Signal<Out, bool>,
    core: Fetch<LQ, LS, A>,
}

impl<const LQ: usize, const LS: usize, const A: usize> Default for SqFetch<LQ, LS, A> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            rst: Default::default(),
            now: Default::default(),
            limit_log: Default::default(),
            sqdb_valid: Default::default(),
            sqdb_data: Default::default(),
            sqdb_direct: Default::default(),
            sqdb_unit: Default::default(),
            sqdb_ready: Default::default(),
            sqfree_valid: Default::default(),
            sqfree_data: Default::default(),
            sqfree_ready: Default::default(),
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
            avail_raddr: Default::default(),
            avail_rdata: Default::default(),
            stamp_raddr: Default::default(),
            stamp_rdata: Default::default(),
            ready_valid: Default::default(),
            ready_data: Default::default(),
            ready_ready: Default::default(),
            flt_valid: Default::default(),
            flt_data: Default::default(),
            flt_ready: Default::default(),
            idle: Default::default(),
            core: Fetch::new(false, 0x80),
        }
    }
}

impl<const LQ: usize, const LS: usize, const A: usize> Logic for SqFetch<LQ, LS, A> {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, core);
        self.core.rst.next = self.rst.val();
        self.core.now.next = self.now.val();
        self.core.limit_log.next = self.limit_log.val();
        self.core.db_valid.next = self.sqdb_valid.val();
        self.core.db_data.next = self.sqdb_data.val();
        self.core.db_direct.next = self.sqdb_direct.val();
        self.core.db_unit.next = self.sqdb_unit.val();
        self.sqdb_ready.next = self.core.db_ready.val();
        self.core.free_valid.next = self.sqfree_valid.val();
        self.core.free_data.next = self.sqfree_data.val();
        self.sqfree_ready.next = self.core.free_ready.val();
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
        self.core.avail_raddr.next = self.avail_raddr.val().get_bits::<LQ>(0);
        self.avail_rdata.next = self.core.avail_rdata.val();
        self.core.pi_raddr.next = 0.into();
        self.core.stamp_raddr.next = self.stamp_raddr.val().get_bits::<LQ>(0);
        self.stamp_rdata.next = self.core.stamp_rdata.val();
        self.ready_valid.next = self.core.out_valid.val();
        self.ready_data.next = self.core.out_data.val();
        self.core.out_ready.next = self.ready_ready.val();
        self.flt_valid.next = self.core.flt_valid.val();
        self.flt_data.next = self.core.flt_data.val();
        self.core.flt_ready.next = self.flt_ready.val();
        self.idle.next = self.core.idle.val();
    }
}
