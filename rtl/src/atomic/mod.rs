//! Atomic operations on host memory.

mod unit;

pub use unit::AtomicUnit;

use crate::packed_struct;
use crate::prims::Skid;
use crate::types::{CtlFill, HostRd, HostWrMeta, XlChunk, XlReq};
use rust_hdl::prelude::*;

packed_struct! {
    /// An atomic that has passed all checks: 8 bytes at `va`, aligned to 8.
    pub struct AtomicJob {
        pub mr: Bits<16>,
        pub va: Bits<64>,
        /// Fetch and add, else compare and swap.
        pub add: bool,
        pub swap: Bits<64>,
        pub cmp: Bits<64>,
    }
}
packed_struct! {
    pub struct AtomicDone {
        pub orig: Bits<64>,
        /// The host refused, or the page list could not be read: nothing was written.
        pub err: bool,
    }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum AtState {
    Idle,
    /// Waits for the bus address.
    Place,
    /// Asks for the line.
    Ask,
    /// Waits for the line.
    Fill,
    /// Takes the word of the line.
    Pick,
    /// Compares.
    Calc,
    /// Puts the write out; waits until the host has it.
    Write,
    Give,
}

/// Reads, changes and writes back 8 bytes of host memory (lowest byte first), one operation at a time: nothing else of the card changes them in between.
///
/// * `W` bus bits; `tag`: its host read tag (a constant of the instance).
/// * In `job`; out `done` when the host has taken the write. A compare that fails writes nothing.
/// * `xl_req`, `xl_chunk`: a translation of its own. `rd`: reads the aligned 64 bytes around; `fill`: other tags are ignored. `wr`: one word.
/// * Latency and initiation interval: translation + host read + 7 cycles.
#[derive(LogicBlock)]
pub struct Atomic<const W: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub job_valid: Signal<In, bool>,
    pub job_data: Signal<In, AtomicJob>,
    pub job_ready: Signal<Out, bool>,
    pub xl_req_valid: Signal<Out, bool>,
    pub xl_req_data: Signal<Out, XlReq>,
    pub xl_req_ready: Signal<In, bool>,
    pub xl_chunk_valid: Signal<In, bool>,
    pub xl_chunk_data: Signal<In, XlChunk>,
    pub xl_chunk_ready: Signal<Out, bool>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub rd_ready: Signal<In, bool>,
    pub fill_valid: Signal<In, bool>,
    pub fill_data: Signal<In, CtlFill>,
    pub wr_valid: Signal<Out, bool>,
    pub wr_data: Signal<Out, Bits<W>>,
    pub wr_meta: Signal<Out, HostWrMeta>,
    pub wr_ready: Signal<In, bool>,
    pub done_valid: Signal<Out, bool>,
    pub done_data: Signal<Out, AtomicDone>,
    pub done_ready: Signal<In, bool>,
    pub idle: Signal<Out, bool>,
    req: Skid<XlReq>,
    st: DFF<AtState>,
    j: DFF<AtomicJob>,
    c: DFF<XlChunk>,
    line: DFF<Bits<512>>,
    old: DFF<Bits<64>>,
    nv: DFF<Bits<64>>,
    err: DFF<bool>,
    job: Signal<Local, AtomicJob>,
    x: Signal<Local, XlReq>,
    chunk: Signal<Local, XlChunk>,
    f: Signal<Local, CtlFill>,
    ch: Signal<Local, XlChunk>,
    addr: Signal<Local, Bits<64>>,
    r: Signal<Local, HostRd>,
    m: Signal<Local, HostWrMeta>,
    pos: Signal<Local, Bits<9>>,
    lane: Signal<Local, Bits<9>>,
    word: Signal<Local, Bits<512>>,
    sum: Signal<Local, Bits<64>>,
    d: Signal<Local, AtomicDone>,
    k_tag: Constant<Bits<8>>,
    k_line: Constant<Bits<64>>,
    /// Bits of the position in a line that are in a bus word.
    k_lane: Constant<Bits<9>>,
}

impl<const W: usize> Atomic<W> {
    pub fn new(tag: u8) -> Self {
        assert!(W.is_power_of_two() && (64..=512).contains(&W));
        Self {
            clock: Default::default(),
            rst: Default::default(),
            job_valid: Default::default(),
            job_data: Default::default(),
            job_ready: Default::default(),
            xl_req_valid: Default::default(),
            xl_req_data: Default::default(),
            xl_req_ready: Default::default(),
            xl_chunk_valid: Default::default(),
            xl_chunk_data: Default::default(),
            xl_chunk_ready: Default::default(),
            rd_valid: Default::default(),
            rd_data: Default::default(),
            rd_ready: Default::default(),
            fill_valid: Default::default(),
            fill_data: Default::default(),
            wr_valid: Default::default(),
            wr_data: Default::default(),
            wr_meta: Default::default(),
            wr_ready: Default::default(),
            done_valid: Default::default(),
            done_data: Default::default(),
            done_ready: Default::default(),
            idle: Default::default(),
            req: Default::default(),
            st: Default::default(),
            j: Default::default(),
            c: Default::default(),
            line: Default::default(),
            old: Default::default(),
            nv: Default::default(),
            err: Default::default(),
            job: Default::default(),
            x: Default::default(),
            chunk: Default::default(),
            f: Default::default(),
            ch: Default::default(),
            addr: Default::default(),
            r: Default::default(),
            m: Default::default(),
            pos: Default::default(),
            lane: Default::default(),
            word: Default::default(),
            sum: Default::default(),
            d: Default::default(),
            k_tag: Constant::new((tag as u64).into()),
            k_line: Constant::new((!63u64).into()),
            k_lane: Constant::new((W as u64 - 1).into()),
        }
    }
}

impl<const W: usize> Logic for Atomic<W> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, st, j, c, line, old, nv, err);
        clock!(self, clock, req);
        self.req.rst.next = self.rst.val();
        self.job.next = self.j.q.val();
        self.chunk.next = self.xl_chunk_data.val();
        self.f.next = self.fill_data.val();
        self.ch.next = self.c.q.val();
        self.addr.next = self.ch.val().addr;

        // translation
        self.job_ready.next = false;
        self.x.next.mr = self.job.val().mr;
        self.x.next.va = self.job.val().va;
        self.x.next.len = 8.into();
        self.req.s_valid.next = false;
        self.req.s_data.next = self.x.val();
        self.xl_req_valid.next = self.req.m_valid.val();
        self.xl_req_data.next = self.req.m_data.val();
        self.req.m_ready.next = self.xl_req_ready.val();
        self.xl_chunk_ready.next = false;

        // host
        self.r.next.pasid = self.ch.val().pasid;
        self.r.next.addr = self.addr.val() & self.k_line.val();
        self.r.next.len = 64.into();
        self.r.next.tag = self.k_tag.val();
        self.rd_data.next = self.r.val();
        self.rd_valid.next = self.st.q.val() == AtState::Ask;
        self.m.next.pasid = self.ch.val().pasid;
        self.m.next.addr = self.addr.val();
        self.m.next.len = 8.into();
        self.m.next.sop = true;
        self.m.next.eop = true;
        self.m.next.stamp = 0.into();
        self.wr_meta.next = self.m.val();
        self.wr_valid.next = self.st.q.val() == AtState::Write;
        // position of the 8 bytes in the line, and in a bus word
        self.pos.next = bit_cast::<9, 3>(self.addr.val().get_bits::<3>(3)) << 6;
        self.lane.next = self.pos.val() & self.k_lane.val();
        self.word.next = bit_cast::<512, 64>(self.nv.q.val()) << self.lane.val();
        self.wr_data.next = bit_cast::<W, 512>(self.word.val());
        self.sum.next = self.old.q.val() + self.job.val().swap;

        self.d.next.orig = self.old.q.val();
        self.d.next.err = self.err.q.val();
        self.done_data.next = self.d.val();
        self.done_valid.next = self.st.q.val() == AtState::Give;

        match self.st.q.val() {
            AtState::Idle => {
                self.job_ready.next = true;
                self.err.d.next = false;
                if self.job_valid.val() {
                    self.j.d.next = self.job_data.val();
                    self.st.d.next = AtState::Place;
                    self.job.next = self.job_data.val();
                    self.x.next.mr = self.job.val().mr;
                    self.x.next.va = self.job.val().va;
                    self.req.s_valid.next = true;
                    self.req.s_data.next = self.x.val();
                }
            }
            AtState::Place => {
                self.xl_chunk_ready.next = true;
                self.c.d.next = self.chunk.val();
                if self.xl_chunk_valid.val() {
                    self.st.d.next = AtState::Ask;
                    if self.chunk.val().err {
                        self.err.d.next = true;
                        self.st.d.next = AtState::Give;
                    }
                }
            }
            AtState::Ask => {
                if self.rd_ready.val() {
                    self.st.d.next = AtState::Fill;
                }
            }
            AtState::Fill => {
                self.line.d.next = self.f.val().data;
                if self.fill_valid.val() & (self.f.val().tag == self.k_tag.val()) {
                    self.st.d.next = AtState::Pick;
                    if self.f.val().err {
                        self.err.d.next = true;
                        self.st.d.next = AtState::Give;
                    }
                }
            }
            AtState::Pick => {
                self.old.d.next = bit_cast::<64, 512>(self.line.q.val() >> self.pos.val());
                self.st.d.next = AtState::Calc;
            }
            AtState::Calc => {
                self.nv.d.next = self.job.val().swap;
                if self.job.val().add {
                    self.nv.d.next = self.sum.val();
                }
                self.st.d.next = AtState::Write;
                if !self.job.val().add & (self.old.q.val() != self.job.val().cmp) {
                    self.st.d.next = AtState::Give;
                }
            }
            AtState::Write => {
                if self.wr_ready.val() {
                    self.st.d.next = AtState::Give;
                }
            }
            _ => {
                if self.done_ready.val() {
                    self.st.d.next = AtState::Idle;
                }
            }
        }
        self.idle.next = self.st.q.val() == AtState::Idle;
        if self.rst.val() {
            self.st.d.next = AtState::Idle;
        }
    }
}
