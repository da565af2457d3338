//! Merge of the two sources of transmit commands, whole packets at a time.

use crate::types::TxCmd;
use rust_hdl::prelude::*;

/// Merges `a` (requester) and `b` (READ responder) into `m`.
///
/// * A packet's transfers (`first` .. `last`) stay together; between packets the source that was not served last goes first.
/// * The choice and the output are registers: latency 2, initiation interval 2 (the transmit DMA takes no more). `ready` comes from registers alone. A source
///   keeps `valid` until `ready`.
#[derive(LogicBlock, Default)]
pub struct TxArb {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub a_valid: Signal<In, bool>,
    pub a_data: Signal<In, TxCmd>,
    pub a_ready: Signal<Out, bool>,
    pub b_valid: Signal<In, bool>,
    pub b_data: Signal<In, TxCmd>,
    pub b_ready: Signal<Out, bool>,
    pub m_valid: Signal<Out, bool>,
    pub m_data: Signal<Out, TxCmd>,
    pub m_ready: Signal<In, bool>,
    data: DFF<TxCmd>,
    v: DFF<bool>,
    /// A source is chosen: `b` or `a`.
    sel: DFF<bool>,
    sel_b: DFF<bool>,
    /// In the middle of a packet of `b` (else of `a`, or between packets).
    locked: DFF<bool>,
    was_b: DFF<bool>,
    pick_b: Signal<Local, bool>,
    take: Signal<Local, bool>,
    word: Signal<Local, TxCmd>,
}

impl Logic for TxArb {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, data, v, sel, sel_b, locked, was_b);
        // whose turn it is, while the word before goes out
        if self.locked.q.val() {
            self.pick_b.next = self.was_b.q.val();
        } else if self.was_b.q.val() {
            self.pick_b.next = self.b_valid.val() & !self.a_valid.val();
        } else {
            self.pick_b.next = self.b_valid.val();
        }
        self.sel_b.d.next = self.sel_b.q.val();
        if !self.sel.q.val() {
            self.sel_b.d.next = self.pick_b.val();
            self.sel.d.next = self.a_valid.val();
            if self.pick_b.val() {
                self.sel.d.next = self.b_valid.val();
            }
        }
        // one that is chosen waits for its turn: valid stays until ready
        self.take.next = self.sel.q.val() & !self.v.q.val();
        self.a_ready.next = self.take.val() & !self.sel_b.q.val();
        self.b_ready.next = self.take.val() & self.sel_b.q.val();
        self.word.next = self.a_data.val();
        if self.sel_b.q.val() {
            self.word.next = self.b_data.val();
        }
        if self.m_ready.val() {
            self.v.d.next = false;
        }
        if self.take.val() {
            self.v.d.next = true;
            self.sel.d.next = false;
            self.data.d.next = self.word.val();
            self.was_b.d.next = self.sel_b.q.val();
            self.locked.d.next = !self.word.val().last;
        }
        self.m_valid.next = self.v.q.val();
        self.m_data.next = self.data.q.val();
        if self.rst.val() {
            self.v.d.next = false;
            self.sel.d.next = false;
            self.locked.d.next = false;
            self.was_b.d.next = false;
        }
    }
}
