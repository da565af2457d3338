//! Payload and completions to host memory.

mod cq;
mod merge;
mod mover;

use crate::layouts::{Cq, MrMap};
use crate::translate::Translate;
use crate::types::*;
pub use cq::{CqState, CqUnit, EqSet, EqState, QEntry};
pub use merge::Merge;
pub use mover::{CqJob, Mover, MvDesc, MvJob, PlWord};
use rust_hdl::prelude::*;

/// The mover, the completion unit and their merge: the placement without its translation, which hangs on `xl_req` and `xl_chunk`.
///
/// Ports as of [`Placement`], see there and at the sub-blocks.
#[derive(LogicBlock, Default)]
pub struct PlaceCore<
    const W: usize,
    const L: usize,
    const A: usize,
    const LOG_CQ: usize,
    const LOG_PASID: usize,
> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub now: Signal<In, Bits<48>>,
    pub job_valid: Signal<In, bool>,
    pub job_data: Signal<In, PlJob>,
    pub job_ready: Signal<Out, bool>,
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
    pub eqctl_pasid: Signal<In, Bits<12>>,
    pub eqctl_base: Signal<In, Bits<48>>,
    pub eqctl_log: Signal<In, Bits<5>>,
    pub eqctl_ready: Signal<Out, bool>,
    pub cqt_raddr: Signal<Out, Bits<12>>,
    pub cqt_rdata: Signal<In, Cq>,
    pub buf_raddr: Signal<Out, Bits<A>>,
    pub buf_rsel: Signal<Out, Bits<L>>,
    pub buf_rdata: Signal<In, Bits<W>>,
    pub wr_valid: Signal<Out, bool>,
    pub wr_data: Signal<Out, Bits<W>>,
    pub wr_meta: Signal<Out, HostWrMeta>,
    pub wr_ready: Signal<In, bool>,
    pub msi_valid: Signal<Out, bool>,
    pub msi_pasid: Signal<Out, Bits<12>>,
    pub free_valid: Signal<Out, bool>,
    pub free_slot: Signal<Out, Bits<7>>,
    pub fence_done: Signal<Out, bool>,
    pub told: Signal<Out, bool>,
    pub cqerr_valid: Signal<Out, bool>,
    pub cqerr_data: Signal<Out, Event>,
    pub cqerr_ready: Signal<In, bool>,
    pub xl_req_valid: Signal<Out, bool>,
    pub xl_req_data: Signal<Out, XlReq>,
    pub xl_req_ready: Signal<In, bool>,
    pub xl_chunk_valid: Signal<In, bool>,
    pub xl_chunk_data: Signal<In, XlChunk>,
    pub xl_chunk_ready: Signal<Out, bool>,
    pub ev_cq_overflow: Signal<Out, bool>,
    pub ev_fault: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    mover: Mover<W, L, A>,
    cq: CqUnit<LOG_CQ, LOG_PASID>,
    merge: Merge<W>,
    set: Signal<Local, EqSet>,
}

impl<
        const W: usize,
        const L: usize,
        const A: usize,
        const LOG_CQ: usize,
        const LOG_PASID: usize,
    > Logic for PlaceCore<W, L, A, LOG_CQ, LOG_PASID>
{
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, mover, cq, merge);
        self.mover.rst.next = self.rst.val();
        self.cq.rst.next = self.rst.val();
        self.merge.rst.next = self.rst.val();
        self.mover.job_valid.next = self.job_valid.val();
        self.mover.job_data.next = self.job_data.val();
        self.job_ready.next = self.mover.job_ready.val();
        self.xl_req_valid.next = self.mover.xl_req_valid.val();
        self.xl_req_data.next = self.mover.xl_req_data.val();
        self.mover.xl_req_ready.next = self.xl_req_ready.val();
        self.mover.xl_chunk_valid.next = self.xl_chunk_valid.val();
        self.mover.xl_chunk_data.next = self.xl_chunk_data.val();
        self.xl_chunk_ready.next = self.mover.xl_chunk_ready.val();
        self.buf_raddr.next = self.mover.buf_raddr.val();
        self.buf_rsel.next = self.mover.buf_rsel.val();
        self.mover.buf_rdata.next = self.buf_rdata.val();
        self.free_valid.next = self.mover.free_valid.val();
        self.free_slot.next = self.mover.free_slot.val();
        self.ev_fault.next = self.mover.ev_fault.val();
        self.cq.now.next = self.now.val();
        self.cq.j_valid.next = self.mover.cj_valid.val();
        self.cq.j_data.next = self.mover.cj_data.val();
        self.mover.cj_ready.next = self.cq.j_ready.val();
        self.cq.cqdb_valid.next = self.cqdb_valid.val();
        self.cq.cqdb_data.next = self.cqdb_data.val();
        self.cqdb_ready.next = self.cq.cqdb_ready.val();
        self.cq.ev_valid.next = self.ev_valid.val();
        self.cq.ev_data.next = self.ev_data.val();
        self.ev_ready.next = self.cq.ev_ready.val();
        self.cq.cqctl_valid.next = self.cqctl_valid.val();
        self.cq.cqctl_cq.next = self.cqctl_cq.val();
        self.cq.cqctl_resize.next = self.cqctl_resize.val();
        self.cqctl_ready.next = self.cq.cqctl_ready.val();
        self.set.next.pasid = self.eqctl_pasid.val();
        self.set.next.base = self.eqctl_base.val();
        self.set.next.log = self.eqctl_log.val();
        self.cq.eqctl_valid.next = self.eqctl_valid.val();
        self.cq.eqctl_data.next = self.set.val();
        self.eqctl_ready.next = self.cq.eqctl_ready.val();
        self.cqt_raddr.next = self.cq.cqt_raddr.val();
        self.cq.cqt_rdata.next = self.cqt_rdata.val();
        self.cqerr_valid.next = self.cq.cqerr_valid.val();
        self.cqerr_data.next = self.cq.cqerr_data.val();
        self.cq.cqerr_ready.next = self.cqerr_ready.val();
        self.ev_cq_overflow.next = self.cq.ev_cq_overflow.val();
        self.merge.w_valid.next = self.mover.w_valid.val();
        self.merge.w_data.next = self.mover.w_data.val();
        self.merge.w_meta.next = self.mover.w_meta.val();
        self.mover.w_ready.next = self.merge.w_ready.val();
        self.merge.e_valid.next = self.cq.e_valid.val();
        self.merge.e_data.next = self.cq.e_data.val();
        self.cq.e_ready.next = self.merge.e_ready.val();
        self.wr_valid.next = self.merge.wr_valid.val();
        self.wr_data.next = self.merge.wr_data.val();
        self.wr_meta.next = self.merge.wr_meta.val();
        self.merge.wr_ready.next = self.wr_ready.val();
        self.msi_valid.next = self.merge.msi_valid.val();
        self.msi_pasid.next = self.merge.msi_pasid.val();
        self.fence_done.next = self.merge.fence_done.val();
        self.told.next = self.merge.told.val();
        self.idle.next = (self.mover.idle.val() & self.cq.idle.val()) & self.merge.idle.val();
    }
}

/// Carries out the jobs of the requester and the responder.
///
/// * Jobs in order: payload is moved from the receive buffer to the translated address; a CQE is written after all payload before it, an EQE after
///   the CQE that causes it, `msi` after the EQE was taken by `wr_ready`; a fence pulses `fence_done` when all writes before it were taken, and
///   `told` pulses likewise for each job with `free` and `is_recv` (the last of a packet of the responder). `free` releases the receive-buffer slot after the last read of the job.
/// * Payload whose page list can't be read is not written (`ev_fault`, one per job).
/// * Writes of payload carry the stamp of their job, those of entries 0. Lanes outside of `addr .. addr + len` hold anything.
/// * `cqdb`, `ev`, `cqctl`, `eqctl`, `cqerr`: see [`CqUnit`]. `mps_log`: log2 of the largest write, 7..=12. `mtt_flush`: see [`Translate`].
/// * Throughput: one word a cycle; a job or piece every 6 cycles (translation), a completion every 4 to 8.
///
/// `L = W / 8`; `A` = log2 of receive-buffer words; `LL`, `NL = 2^LL` lines of the page-list cache.
#[derive(LogicBlock)]
pub struct Placement<
    const W: usize,
    const L: usize,
    const A: usize,
    const LOG_CQ: usize,
    const LOG_PASID: usize,
    const LL: usize,
    const NL: usize,
> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub now: Signal<In, Bits<48>>,
    pub job_valid: Signal<In, bool>,
    pub job_data: Signal<In, PlJob>,
    pub job_ready: Signal<Out, bool>,
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
    pub eqctl_pasid: Signal<In, Bits<12>>,
    pub eqctl_base: Signal<In, Bits<48>>,
    pub eqctl_log: Signal<In, Bits<5>>,
    pub eqctl_ready: Signal<Out, bool>,
    pub cqt_raddr: Signal<Out, Bits<12>>,
    pub cqt_rdata: Signal<In, Cq>,
    pub buf_raddr: Signal<Out, Bits<A>>,
    pub buf_rsel: Signal<Out, Bits<L>>,
    pub buf_rdata: Signal<In, Bits<W>>,
    pub wr_valid: Signal<Out, bool>,
    pub wr_data: Signal<Out, Bits<W>>,
    pub wr_meta: Signal<Out, HostWrMeta>,
    pub wr_ready: Signal<In, bool>,
    pub msi_valid: Signal<Out, bool>,
    pub msi_pasid: Signal<Out, Bits<12>>,
    pub free_valid: Signal<Out, bool>,
    pub free_slot: Signal<Out, Bits<7>>,
    pub fence_done: Signal<Out, bool>,
    pub told: Signal<Out, bool>,
    pub cqerr_valid: Signal<Out, bool>,
    pub cqerr_data: Signal<Out, Event>,
    pub cqerr_ready: Signal<In, bool>,
    pub mps_log: Signal<In, Bits<4>>,
    pub mrm_raddr: Signal<Out, Bits<16>>,
    pub mrm_rdata: Signal<In, MrMap>,
    pub mtt_rd_valid: Signal<Out, bool>,
    pub mtt_rd_data: Signal<Out, HostRd>,
    pub mtt_rd_ready: Signal<In, bool>,
    pub fill_valid: Signal<In, bool>,
    pub fill_data: Signal<In, CtlFill>,
    pub mtt_flush: Signal<In, bool>,
    pub ev_miss: Signal<Out, bool>,
    pub ev_cq_overflow: Signal<Out, bool>,
    pub ev_fault: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    core: PlaceCore<W, L, A, LOG_CQ, LOG_PASID>,
    xl: Translate<LL, NL>,
}

impl<
        const W: usize,
        const L: usize,
        const A: usize,
        const LOG_CQ: usize,
        const LOG_PASID: usize,
        const LL: usize,
        const NL: usize,
    > Placement<W, L, A, LOG_CQ, LOG_PASID, LL, NL>
{
    /// `tags`: first of the eight host read tags of the translation (a multiple of 8).
    pub fn new(tags: u8) -> Self {
        Self {
            clock: Default::default(),
            rst: Default::default(),
            now: Default::default(),
            job_valid: Default::default(),
            job_data: Default::default(),
            job_ready: Default::default(),
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
            eqctl_pasid: Default::default(),
            eqctl_base: Default::default(),
            eqctl_log: Default::default(),
            eqctl_ready: Default::default(),
            cqt_raddr: Default::default(),
            cqt_rdata: Default::default(),
            buf_raddr: Default::default(),
            buf_rsel: Default::default(),
            buf_rdata: Default::default(),
            wr_valid: Default::default(),
            wr_data: Default::default(),
            wr_meta: Default::default(),
            wr_ready: Default::default(),
            msi_valid: Default::default(),
            msi_pasid: Default::default(),
            free_valid: Default::default(),
            free_slot: Default::default(),
            fence_done: Default::default(),
            told: Default::default(),
            cqerr_valid: Default::default(),
            cqerr_data: Default::default(),
            cqerr_ready: Default::default(),
            mps_log: Default::default(),
            mrm_raddr: Default::default(),
            mrm_rdata: Default::default(),
            mtt_rd_valid: Default::default(),
            mtt_rd_data: Default::default(),
            mtt_rd_ready: Default::default(),
            fill_valid: Default::default(),
            fill_data: Default::default(),
            mtt_flush: Default::default(),
            ev_miss: Default::default(),
            ev_cq_overflow: Default::default(),
            ev_fault: Default::default(),
            idle: Default::default(),
            core: Default::default(),
            xl: Translate::new(tags),
        }
    }
}

impl<
        const W: usize,
        const L: usize,
        const A: usize,
        const LOG_CQ: usize,
        const LOG_PASID: usize,
        const LL: usize,
        const NL: usize,
    > Logic for Placement<W, L, A, LOG_CQ, LOG_PASID, LL, NL>
{
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, core, xl);
        self.core.rst.next = self.rst.val();
        self.xl.rst.next = self.rst.val();
        self.core.now.next = self.now.val();
        self.core.job_valid.next = self.job_valid.val();
        self.core.job_data.next = self.job_data.val();
        self.job_ready.next = self.core.job_ready.val();
        self.core.cqdb_valid.next = self.cqdb_valid.val();
        self.core.cqdb_data.next = self.cqdb_data.val();
        self.cqdb_ready.next = self.core.cqdb_ready.val();
        self.core.ev_valid.next = self.ev_valid.val();
        self.core.ev_data.next = self.ev_data.val();
        self.ev_ready.next = self.core.ev_ready.val();
        self.core.cqctl_valid.next = self.cqctl_valid.val();
        self.core.cqctl_cq.next = self.cqctl_cq.val();
        self.core.cqctl_resize.next = self.cqctl_resize.val();
        self.cqctl_ready.next = self.core.cqctl_ready.val();
        self.core.eqctl_valid.next = self.eqctl_valid.val();
        self.core.eqctl_pasid.next = self.eqctl_pasid.val();
        self.core.eqctl_base.next = self.eqctl_base.val();
        self.core.eqctl_log.next = self.eqctl_log.val();
        self.eqctl_ready.next = self.core.eqctl_ready.val();
        self.cqt_raddr.next = self.core.cqt_raddr.val();
        self.core.cqt_rdata.next = self.cqt_rdata.val();
        self.buf_raddr.next = self.core.buf_raddr.val();
        self.buf_rsel.next = self.core.buf_rsel.val();
        self.core.buf_rdata.next = self.buf_rdata.val();
        self.wr_valid.next = self.core.wr_valid.val();
        self.wr_data.next = self.core.wr_data.val();
        self.wr_meta.next = self.core.wr_meta.val();
        self.core.wr_ready.next = self.wr_ready.val();
        self.msi_valid.next = self.core.msi_valid.val();
        self.msi_pasid.next = self.core.msi_pasid.val();
        self.free_valid.next = self.core.free_valid.val();
        self.free_slot.next = self.core.free_slot.val();
        self.fence_done.next = self.core.fence_done.val();
        self.told.next = self.core.told.val();
        self.cqerr_valid.next = self.core.cqerr_valid.val();
        self.cqerr_data.next = self.core.cqerr_data.val();
        self.core.cqerr_ready.next = self.cqerr_ready.val();
        self.xl.limit_log.next = self.mps_log.val();
        self.mrm_raddr.next = self.xl.mrm_raddr.val();
        self.xl.mrm_rdata.next = self.mrm_rdata.val();
        self.mtt_rd_valid.next = self.xl.rd_valid.val();
        self.mtt_rd_data.next = self.xl.rd_data.val();
        self.xl.rd_ready.next = self.mtt_rd_ready.val();
        self.xl.fill_valid.next = self.fill_valid.val();
        self.xl.fill_data.next = self.fill_data.val();
        self.xl.flush.next = self.mtt_flush.val();
        self.ev_miss.next = self.xl.ev_miss.val();
        self.ev_cq_overflow.next = self.core.ev_cq_overflow.val();
        self.ev_fault.next = self.core.ev_fault.val();
        self.xl.req_valid.next = self.core.xl_req_valid.val();
        self.xl.req_data.next = self.core.xl_req_data.val();
        self.core.xl_req_ready.next = self.xl.req_ready.val();
        self.core.xl_chunk_valid.next = self.xl.chunk_valid.val();
        self.core.xl_chunk_data.next = self.xl.chunk_data.val();
        self.xl.chunk_ready.next = self.core.xl_chunk_ready.val();
        self.idle.next = self.core.idle.val() & self.xl.idle.val();
    }
}

/// `sim-100g`, with 64 PASIDs.
pub type Placement100g = Placement<512, 64, 12, 10, 6, 9, 512>;
/// `ecp5-1g`, with 16 PASIDs.
pub type Placement1g = Placement<64, 8, 12, 5, 4, 4, 16>;
