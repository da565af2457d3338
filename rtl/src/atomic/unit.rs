//! The atomic unit with its translation and its share of the host port.

use super::{Atomic, AtomicDone, AtomicJob};
use crate::layouts::MrMap;
use crate::prims::Arb3;
use crate::translate::Translate;
use crate::types::{CtlFill, HostRd, HostWrMeta};
use rust_hdl::prelude::*;

/// [`Atomic`] and a translation of four lines; both join the command sequencer on its host read and write ports, `c_rd` and `c_wr`.
///
/// * Tags: `base..base + 8` for page lists (a multiple of 8), `base + 8` for data.
/// * Reads: round robin, one cycle more. Writes: whole requests, combinational, the sequencer first.
#[derive(LogicBlock)]
pub struct AtomicUnit<const W: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub job_valid: Signal<In, bool>,
    pub job_data: Signal<In, AtomicJob>,
    pub job_ready: Signal<Out, bool>,
    pub done_valid: Signal<Out, bool>,
    pub done_data: Signal<Out, AtomicDone>,
    pub done_ready: Signal<In, bool>,
    pub mrm_raddr: Signal<Out, Bits<16>>,
    pub mrm_rdata: Signal<In, MrMap>,
    pub flush: Signal<In, bool>,
    pub fill_valid: Signal<In, bool>,
    pub fill_data: Signal<In, CtlFill>,
    pub c_rd_valid: Signal<In, bool>,
    pub c_rd_data: Signal<In, HostRd>,
    pub c_rd_ready: Signal<Out, bool>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub rd_ready: Signal<In, bool>,
    pub c_wr_valid: Signal<In, bool>,
    pub c_wr_data: Signal<In, Bits<W>>,
    pub c_wr_meta: Signal<In, HostWrMeta>,
    pub c_wr_ready: Signal<Out, bool>,
    pub wr_valid: Signal<Out, bool>,
    pub wr_data: Signal<Out, Bits<W>>,
    pub wr_meta: Signal<Out, HostWrMeta>,
    pub wr_ready: Signal<In, bool>,
    pub ev_miss: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    core: Atomic<W>,
    xl: Translate<2, 4>,
    reads: Arb3<HostRd>,
    // a request of the sequencer has begun; a word of the unit is offered
    locked: DFF<bool>,
    held: DFF<bool>,
    mine: Signal<Local, bool>,
    cm: Signal<Local, HostWrMeta>,
    limit: Constant<Bits<4>>,
}

impl<const W: usize> AtomicUnit<W> {
    pub fn new(base: u8) -> Self {
        assert!(base % 8 == 0);
        Self {
            clock: Default::default(),
            rst: Default::default(),
            job_valid: Default::default(),
            job_data: Default::default(),
            job_ready: Default::default(),
            done_valid: Default::default(),
            done_data: Default::default(),
            done_ready: Default::default(),
            mrm_raddr: Default::default(),
            mrm_rdata: Default::default(),
            flush: Default::default(),
            fill_valid: Default::default(),
            fill_data: Default::default(),
            c_rd_valid: Default::default(),
            c_rd_data: Default::default(),
            c_rd_ready: Default::default(),
            rd_valid: Default::default(),
            rd_data: Default::default(),
            rd_ready: Default::default(),
            c_wr_valid: Default::default(),
            c_wr_data: Default::default(),
            c_wr_meta: Default::default(),
            c_wr_ready: Default::default(),
            wr_valid: Default::default(),
            wr_data: Default::default(),
            wr_meta: Default::default(),
            wr_ready: Default::default(),
            ev_miss: Default::default(),
            idle: Default::default(),
            core: Atomic::new(base + 8),
            xl: Translate::new(base),
            reads: Default::default(),
            locked: Default::default(),
            held: Default::default(),
            mine: Default::default(),
            cm: Default::default(),
            limit: Constant::new(12u64.into()),
        }
    }
}

impl<const W: usize> Logic for AtomicUnit<W> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, locked, held);
        clock!(self, clock, core, xl, reads);
        self.core.rst.next = self.rst.val();
        self.xl.rst.next = self.rst.val();
        self.reads.rst.next = self.rst.val();
        self.core.job_valid.next = self.job_valid.val();
        self.core.job_data.next = self.job_data.val();
        self.job_ready.next = self.core.job_ready.val();
        self.done_valid.next = self.core.done_valid.val();
        self.done_data.next = self.core.done_data.val();
        self.core.done_ready.next = self.done_ready.val();

        // translation
        self.xl.req_valid.next = self.core.xl_req_valid.val();
        self.xl.req_data.next = self.core.xl_req_data.val();
        self.core.xl_req_ready.next = self.xl.req_ready.val();
        self.core.xl_chunk_valid.next = self.xl.chunk_valid.val();
        self.core.xl_chunk_data.next = self.xl.chunk_data.val();
        self.xl.chunk_ready.next = self.core.xl_chunk_ready.val();
        self.xl.limit_log.next = self.limit.val();
        self.mrm_raddr.next = self.xl.mrm_raddr.val();
        self.xl.mrm_rdata.next = self.mrm_rdata.val();
        self.xl.flush.next = self.flush.val();
        self.xl.fill_valid.next = self.fill_valid.val();
        self.xl.fill_data.next = self.fill_data.val();
        self.core.fill_valid.next = self.fill_valid.val();
        self.core.fill_data.next = self.fill_data.val();
        self.ev_miss.next = self.xl.ev_miss.val();

        // reads
        self.reads.s_valid[0].next = self.c_rd_valid.val();
        self.reads.s_data[0].next = self.c_rd_data.val();
        self.c_rd_ready.next = self.reads.s_ready[0].val();
        self.reads.s_valid[1].next = self.xl.rd_valid.val();
        self.reads.s_data[1].next = self.xl.rd_data.val();
        self.xl.rd_ready.next = self.reads.s_ready[1].val();
        self.reads.s_valid[2].next = self.core.rd_valid.val();
        self.reads.s_data[2].next = self.core.rd_data.val();
        self.core.rd_ready.next = self.reads.s_ready[2].val();
        self.rd_valid.next = self.reads.m_valid.val();
        self.rd_data.next = self.reads.m_data.val();
        self.reads.m_ready.next = self.rd_ready.val();

        // writes: a request of the sequencer stays whole, an offered word stays
        self.cm.next = self.c_wr_meta.val();
        self.mine.next = self.held.q.val()
            | ((self.core.wr_valid.val() & !self.locked.q.val()) & !self.c_wr_valid.val());
        self.wr_valid.next = self.c_wr_valid.val();
        self.wr_data.next = self.c_wr_data.val();
        self.wr_meta.next = self.cm.val();
        self.c_wr_ready.next = self.wr_ready.val() & !self.mine.val();
        self.core.wr_ready.next = self.wr_ready.val() & self.mine.val();
        if self.mine.val() {
            self.wr_valid.next = self.core.wr_valid.val();
            self.wr_data.next = self.core.wr_data.val();
            self.wr_meta.next = self.core.wr_meta.val();
            self.held.d.next = !self.wr_ready.val();
        } else if self.c_wr_valid.val() {
            self.locked.d.next = !(self.wr_ready.val() & self.cm.val().eop);
        }
        self.idle.next = (self.core.idle.val() & self.xl.idle.val()) & !self.reads.m_valid.val();
        if self.rst.val() {
            self.locked.d.next = false;
            self.held.d.next = false;
        }
    }
}
