//! Serial-number arithmetic on 24-bit PSNs.

use rust_hdl::prelude::*;

/// Where PSN `a` stands relative to `b`, modulo 2^24. Combinational.
///
/// `older`: `a` is before `b`, that is `b - a` is in `1..=2^23`; `newer`: `a` is after `b`, `a - b` in `1..2^23`; neither: equal. `diff` is `a - b`.
#[derive(LogicBlock, Default)]
pub struct PsnCmp {
    pub a: Signal<In, Bits<24>>,
    pub b: Signal<In, Bits<24>>,
    pub diff: Signal<Out, Bits<24>>,
    pub older: Signal<Out, bool>,
    pub newer: Signal<Out, bool>,
    d: Signal<Local, Bits<24>>,
}

impl Logic for PsnCmp {
    #[hdl_gen]
    fn update(&mut self) {
        self.d.next = self.a.val() - self.b.val();
        self.diff.next = self.d.val();
        self.older.next = self.d.val().get_bit(23);
        self.newer.next = self.d.val().any() & !self.d.val().get_bit(23);
    }
}
