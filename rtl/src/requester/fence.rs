//! Which fence token of the placement is whose.

use crate::prims::Fifo;
use crate::types::PlJob;
use rust_hdl::prelude::*;

/// Placement jobs of kind 3 are fence tokens: with slot 0 from the sequencer's FENCE orders, with slot 1 from a fenced send WQE. The placement reports
/// each with one `done` pulse, in order. This block watches the job stream and deals the pulses out, one cycle later.
///
/// At most four tokens may be under way (two of the sequencer, one of the requester).
#[derive(LogicBlock, Default)]
pub struct FenceSplit {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    /// The placement's job stream, watched.
    pub job_valid: Signal<In, bool>,
    pub job_data: Signal<In, PlJob>,
    pub job_ready: Signal<In, bool>,
    pub done: Signal<In, bool>,
    /// To the sequencer, and to `pl_fence` of the requester.
    pub order_done: Signal<Out, bool>,
    pub data_done: Signal<Out, bool>,
    who: Fifo<Bits<7>, 2>,
    od: DFF<bool>,
    dd: DFF<bool>,
    j: Signal<Local, PlJob>,
    mine: Signal<Local, bool>,
}

impl Logic for FenceSplit {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, od, dd);
        clock!(self, clock, who);
        self.j.next = self.job_data.val();
        self.who.rst.next = self.rst.val();
        self.who.s_valid.next =
            (self.job_valid.val() & self.job_ready.val()) & (self.j.val().kind == 3);
        self.who.s_data.next = self.j.val().slot;
        self.who.m_ready.next = self.done.val();
        self.mine.next = self.who.m_data.val().any();
        self.od.d.next = self.done.val() & !self.mine.val();
        self.dd.d.next = self.done.val() & self.mine.val();
        self.order_done.next = self.od.q.val();
        self.data_done.next = self.dd.q.val();
        if self.rst.val() {
            self.od.d.next = false;
            self.dd.d.next = false;
        }
    }
}
