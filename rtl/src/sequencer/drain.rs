//! QPs whose program wants to know when the send queue has drained (SQD with EN_SQD_ASYNC_NOTIFY).

use crate::prims::SdpRam2R;
use rust_hdl::prelude::*;

/// Says which QPs to look at again; whether one has drained is the requester's to say.
///
/// * `set`: QP `at` asked. A QP that asked is offered once at `m`, and again whenever something of its send queue has completed (`freed`).
/// * `m`: offered until `done`, which comes some time after `m_ready`: with `forget` the QP is no longer of interest.
/// * `clear`: sweep after a reset.
/// * A walk over all QPs finds them: 2 cycles each, behind a `set` or the `freed` of one that asked. `idle`: there is no walk and none is due.
#[derive(LogicBlock, Default)]
pub struct Drain<const LQ: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub clear: Signal<In, bool>,
    pub set: Signal<In, bool>,
    /// QP of `clear`, `set` and `done`.
    pub at: Signal<In, Bits<LQ>>,
    pub freed: Signal<In, bool>,
    pub freed_qp: Signal<In, Bits<LQ>>,
    pub m_valid: Signal<Out, bool>,
    pub m_qp: Signal<Out, Bits<LQ>>,
    pub m_ready: Signal<In, bool>,
    pub done: Signal<In, bool>,
    pub forget: Signal<In, bool>,
    pub idle: Signal<Out, bool>,
    asked: SdpRam2R<Bits<1>, LQ>,
    was_freed: DFF<bool>,
    /// A walk is due.
    due: DFF<bool>,
    walk: DFF<bool>,
    /// The entry of `n` is there; `n` is offered; it was taken.
    read: DFF<bool>,
    offer: DFF<bool>,
    taken: DFF<bool>,
    n: DFF<Bits<LQ>>,
    more: Signal<Local, Bits<LQ>>,
    next: Signal<Local, bool>,
}

impl<const LQ: usize> Logic for Drain<LQ> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, was_freed, due, walk, read, offer, taken, n);
        clock!(self, clock, asked);
        self.asked.we.next =
            self.clear.val() | (self.set.val() | (self.done.val() & self.forget.val()));
        self.asked.waddr.next = self.at.val();
        self.asked.wdata.next = 0.into();
        if self.set.val() {
            self.asked.wdata.next = 1.into();
        }
        self.asked.raddr0.next = self.n.q.val();
        self.asked.raddr1.next = self.freed_qp.val();
        self.was_freed.d.next = self.freed.val();
        self.more.next = self.n.q.val() + 1;
        self.next.next = false;
        if !self.walk.q.val() {
            if self.due.q.val() {
                self.due.d.next = false;
                self.walk.d.next = true;
            }
        } else if self.taken.q.val() {
            if self.done.val() {
                self.taken.d.next = false;
                self.next.next = true;
            }
        } else if self.offer.q.val() {
            if self.m_ready.val() {
                self.offer.d.next = false;
                self.taken.d.next = true;
            }
        } else if !self.read.q.val() {
            self.read.d.next = true;
        } else if self.asked.rdata0.val().any() {
            self.offer.d.next = true;
        } else {
            self.next.next = true;
        }
        if self.next.val() {
            self.read.d.next = false;
            self.n.d.next = self.more.val();
            self.walk.d.next = self.more.val().any();
        }
        // a walk that has passed this QP must come again
        if self.set.val() | (self.was_freed.q.val() & self.asked.rdata1.val().any()) {
            self.due.d.next = true;
        }
        self.m_valid.next = self.offer.q.val();
        self.m_qp.next = self.n.q.val();
        self.idle.next = !self.walk.q.val() & (!self.due.q.val() & !self.was_freed.q.val());
        if self.rst.val() {
            self.was_freed.d.next = false;
            self.due.d.next = false;
            self.walk.d.next = false;
            self.read.d.next = false;
            self.offer.d.next = false;
            self.taken.d.next = false;
            self.n.d.next = 0.into();
        }
    }
}
