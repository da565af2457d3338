//! Errors of QPs on their way to the sequencer.

use crate::prims::{Fifo, SdpRam};
use crate::types::QpErr;
use rust_hdl::prelude::*;

/// Takes an error within four cycles whatever happens on the other side, and keeps one per QP: a second error of a QP is dropped while the
/// first waits, since the QP goes to ERR for the first. So the FIFO of `2^LQ` can't be full.
///
/// `clear` with `clear_qp`: sweep after a reset; errors wait meanwhile. `empty`: nothing is inside.
#[derive(LogicBlock, Default)]
pub struct ErrQueue<const LQ: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub clear: Signal<In, bool>,
    pub clear_qp: Signal<In, Bits<LQ>>,
    pub s_valid: Signal<In, bool>,
    pub s_data: Signal<In, QpErr>,
    pub s_ready: Signal<Out, bool>,
    pub m_valid: Signal<Out, bool>,
    pub m_data: Signal<Out, QpErr>,
    pub m_ready: Signal<In, bool>,
    pub empty: Signal<Out, bool>,
    fifo: Fifo<QpErr, LQ>,
    /// QPs that are in `fifo`.
    pend: SdpRam<Bits<1>, LQ>,
    held: DFF<bool>,
    looked: DFF<bool>,
    e: DFF<QpErr>,
    h: Signal<Local, QpErr>,
    o: Signal<Local, QpErr>,
    pop: Signal<Local, bool>,
    go: Signal<Local, bool>,
}

impl<const LQ: usize> Logic for ErrQueue<LQ> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, held, looked, e);
        clock!(self, clock, fifo, pend);
        self.fifo.rst.next = self.rst.val();
        self.s_ready.next = !self.held.q.val();
        self.m_valid.next = self.fifo.m_valid.val();
        self.m_data.next = self.fifo.m_data.val();
        self.fifo.m_ready.next = self.m_ready.val();
        self.fifo.s_data.next = self.e.q.val();
        self.fifo.s_valid.next = false;
        self.empty.next = !self.fifo.m_valid.val() & !self.held.q.val();
        self.h.next = self.e.q.val();
        self.o.next = self.fifo.m_data.val();
        self.pend.raddr.next = bit_cast::<LQ, 12>(self.h.val().qp);
        self.pend.we.next = false;
        self.pend.waddr.next = bit_cast::<LQ, 12>(self.h.val().qp);
        self.pend.wdata.next = 0.into();
        self.pop.next = self.fifo.m_valid.val() & self.m_ready.val();
        self.go.next =
            (self.held.q.val() & self.looked.q.val()) & (!self.pop.val() & !self.clear.val());
        self.looked.d.next = self.held.q.val();
        if !self.held.q.val() {
            self.held.d.next = self.s_valid.val();
            self.e.d.next = self.s_data.val();
        }
        if self.go.val() {
            self.held.d.next = false;
            self.looked.d.next = false;
            if !self.pend.rdata.val().any() {
                self.fifo.s_valid.next = true;
                self.pend.we.next = true;
                self.pend.wdata.next = 1.into();
            }
        }
        if self.pop.val() {
            self.pend.we.next = true;
            self.pend.waddr.next = bit_cast::<LQ, 12>(self.o.val().qp);
        }
        if self.clear.val() {
            self.pend.we.next = true;
            self.pend.waddr.next = self.clear_qp.val();
        }
        if self.rst.val() {
            self.held.d.next = false;
            self.looked.d.next = false;
        }
    }
}
