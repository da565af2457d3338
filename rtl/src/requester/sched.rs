//! Queue of the QPs that may have work to send.

use crate::prims::{Fifo, SdpRam};
use rust_hdl::prelude::*;

/// Round robin over QPs: each QP is in the queue at most once (a pending bit per QP), besides the one at the head.
///
/// * Pushes `i` (the requester itself, first) and `e` (from the WQE prefetch); II 2 cycles for a push, 1 for moving a QP to the head.
/// * `m`: the head. Its pending bit was cleared before it is shown, so a push that comes later queues the QP again: no wake-up is lost, and a visit
///   without work is possible.
/// * `ready` depends on no `valid`, except that `i` goes before `e`. After `rst` the pending bits are cleared, one per cycle.
/// * The queue can't overflow: it has one place per QP.
#[derive(LogicBlock, Default)]
pub struct Sched<const LOG_QP: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub i_valid: Signal<In, bool>,
    pub i_qp: Signal<In, Bits<12>>,
    pub i_ready: Signal<Out, bool>,
    pub e_valid: Signal<In, bool>,
    pub e_qp: Signal<In, Bits<12>>,
    pub e_ready: Signal<Out, bool>,
    pub m_valid: Signal<Out, bool>,
    pub m_qp: Signal<Out, Bits<12>>,
    pub m_ready: Signal<In, bool>,
    pub idle: Signal<Out, bool>,
    fifo: Fifo<Bits<12>, LOG_QP>,
    pend: SdpRam<Bits<1>, LOG_QP>,
    up: DFF<bool>,
    walk: DFF<Bits<LOG_QP>>,
    busy: DFF<bool>,
    bq: DFF<Bits<12>>,
    hv: DFF<bool>,
    hq: DFF<Bits<12>>,
    refill: Signal<Local, bool>,
    open: Signal<Local, bool>,
    fresh: Signal<Local, bool>,
    q: Signal<Local, Bits<12>>,
    w: Signal<Local, Bits<12>>,
}

impl<const LOG_QP: usize> Logic for Sched<LOG_QP> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, up, walk, busy, bq, hv, hq);
        clock!(self, clock, fifo, pend);
        self.fifo.rst.next = self.rst.val();
        self.refill.next =
            (self.up.q.val() & !self.busy.q.val()) & (!self.hv.q.val() & self.fifo.m_valid.val());
        self.open.next = (self.up.q.val() & !self.busy.q.val()) & !self.refill.val();
        self.i_ready.next = self.open.val();
        self.e_ready.next = self.open.val() & !self.i_valid.val();
        self.m_valid.next = self.hv.q.val();
        self.m_qp.next = self.hq.q.val();
        if self.m_ready.val() {
            self.hv.d.next = false;
        }
        // first cycle of a push: read the pending bit
        self.q.next = self.e_qp.val();
        if self.i_valid.val() {
            self.q.next = self.i_qp.val();
        }
        self.pend.raddr.next = bit_cast::<LOG_QP, 12>(self.q.val());
        if self.open.val() & (self.i_valid.val() | self.e_valid.val()) {
            self.bq.d.next = self.q.val();
            self.busy.d.next = true;
        }
        // second cycle: queue it if it was not pending
        self.fresh.next = self.busy.q.val() & !self.pend.rdata.val().any();
        self.fifo.s_valid.next = self.fresh.val();
        self.fifo.s_data.next = self.bq.q.val();
        self.w.next = self.bq.q.val();
        self.pend.we.next = self.fresh.val();
        self.pend.wdata.next = 1.into();
        if self.busy.q.val() {
            self.busy.d.next = false;
        }
        self.fifo.m_ready.next = self.refill.val();
        if self.refill.val() {
            self.w.next = self.fifo.m_data.val();
            self.hq.d.next = self.fifo.m_data.val();
            self.hv.d.next = true;
            self.pend.we.next = true;
            self.pend.wdata.next = 0.into();
        }
        self.pend.waddr.next = bit_cast::<LOG_QP, 12>(self.w.val());
        if !self.up.q.val() {
            self.pend.we.next = true;
            self.pend.wdata.next = 0.into();
            self.pend.waddr.next = self.walk.q.val();
            self.walk.d.next = self.walk.q.val() + 1;
            self.up.d.next = self.walk.q.val().all();
        }
        self.idle.next =
            (self.up.q.val() & !self.busy.q.val()) & (!self.hv.q.val() & !self.fifo.m_valid.val());
        if self.rst.val() {
            self.up.d.next = false;
            self.walk.d.next = 0.into();
            self.busy.d.next = false;
            self.hv.d.next = false;
        }
    }
}
