//! Register slice of a valid/ready stream.

use rust_hdl::prelude::*;

/// Cuts every path between its two sides: `s_ready`, `m_valid` and `m_data` come straight from registers.
///
/// Latency 1, initiation interval 1, holds two words. `rst` empties it (synchronous).
#[derive(LogicBlock, Default)]
pub struct Skid<D: Synth> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub s_data: Signal<In, D>,
    pub s_valid: Signal<In, bool>,
    pub s_ready: Signal<Out, bool>,
    pub m_data: Signal<Out, D>,
    pub m_valid: Signal<Out, bool>,
    pub m_ready: Signal<In, bool>,
    main: DFF<D>,
    main_v: DFF<bool>,
    spare: DFF<D>,
    spare_v: DFF<bool>,
    take: Signal<Local, bool>,
    load: Signal<Local, bool>,
}

impl<D: Synth> Logic for Skid<D> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, main, main_v, spare, spare_v);
        self.s_ready.next = !self.spare_v.q.val();
        self.m_valid.next = self.main_v.q.val();
        self.m_data.next = self.main.q.val();
        self.take.next = self.s_valid.val() & !self.spare_v.q.val();
        self.load.next = !self.main_v.q.val() | self.m_ready.val();
        if self.load.val() {
            if self.spare_v.q.val() {
                self.main.d.next = self.spare.q.val();
                self.main_v.d.next = true;
                self.spare_v.d.next = false;
            } else {
                self.main.d.next = self.s_data.val();
                self.main_v.d.next = self.take.val();
            }
        } else if self.take.val() {
            self.spare.d.next = self.s_data.val();
            self.spare_v.d.next = true;
        }
        if self.rst.val() {
            self.main_v.d.next = false;
            self.spare_v.d.next = false;
        }
    }
}
