//! Half-rate register slice of a valid/ready stream.

use rust_hdl::prelude::*;

/// Cuts every path between its two sides with one register and no multiplexer: `s_ready`, `m_valid` and `m_data` come straight from registers.
///
/// Latency 1, initiation interval 2: for streams of packets and jobs, whose blocks take several cycles for one. `rst` empties it (synchronous).
#[derive(LogicBlock, Default)]
pub struct Half<D: Synth> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub s_data: Signal<In, D>,
    pub s_valid: Signal<In, bool>,
    pub s_ready: Signal<Out, bool>,
    pub m_data: Signal<Out, D>,
    pub m_valid: Signal<Out, bool>,
    pub m_ready: Signal<In, bool>,
    word: DFF<D>,
    v: DFF<bool>,
}

impl<D: Synth> Logic for Half<D> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, word, v);
        self.s_ready.next = !self.v.q.val();
        self.m_valid.next = self.v.q.val();
        self.m_data.next = self.word.q.val();
        if self.v.q.val() {
            if self.m_ready.val() {
                self.v.d.next = false;
            }
        } else {
            self.word.d.next = self.s_data.val();
            self.v.d.next = self.s_valid.val();
        }
        if self.rst.val() {
            self.v.d.next = false;
        }
    }
}
