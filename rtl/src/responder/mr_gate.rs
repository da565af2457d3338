//! Access check against a memory region.

use crate::layouts::MrCheck;
use rust_hdl::prelude::*;

/// May `len` bytes at `va` be accessed with `key` by a QP of PD `pd`? `right` is the right of the MR that the access needs.
///
/// `ok` two cycles after the inputs, one check per cycle: valid, variant, key bits above the index, PD, right, and
/// `len <= mr.len && va - mr.va <= mr.len - len` (no sum that could wrap). Registered MRs end at or below 2^64. A window of type 2 is for the QP that
/// bound it. `at`, with `ok`: the MR whose page list holds the bytes, of a window the one that it is bound to.
#[derive(LogicBlock)]
pub struct MrGate<const LOG_MR: usize> {
    pub clock: Signal<In, Clock>,
    pub mr: Signal<In, MrCheck>,
    pub right: Signal<In, bool>,
    pub pd: Signal<In, Bits<12>>,
    pub qpn: Signal<In, Bits<24>>,
    pub key: Signal<In, Bits<32>>,
    pub va: Signal<In, Bits<64>>,
    pub len: Signal<In, Bits<32>>,
    pub ok: Signal<Out, bool>,
    pub at: Signal<Out, Bits<16>>,
    known: DFF<bool>,
    mine: DFF<bool>,
    place: DFF<Bits<16>>,
    place_r: DFF<Bits<16>>,
    off: DFF<Bits<64>>,
    slack: DFF<Bits<65>>,
    pass: DFF<bool>,
    k_high: Constant<Bits<32>>,
    m: Signal<Local, MrCheck>,
    ky: Signal<Local, Bits<32>>,
    high: Signal<Local, Bits<32>>,
}

crate::block_default! { MrGate<LOG_MR> {
    clock, mr, right, pd, qpn, key, va, len, ok, at, known, mine, place, place_r, off, slack, pass, m, ky, high;
    assert LOG_MR <= 16;
    k_high: Constant::new(((0xFFFF_FFFF_u64 << (LOG_MR + 8)) & 0xFFFF_FFFF).into()),
} }

impl<const LOG_MR: usize> Logic for MrGate<LOG_MR> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, known, mine, place, place_r, off, slack, pass);
        self.m.next = self.mr.val();
        self.high.next = self.key.val() & self.k_high.val();
        self.known.d.next = ((self.m.val().valid & self.right.val()) & !self.high.val().any())
            & ((self.m.val().variant == self.key.val().get_bits::<8>(0))
                & (self.m.val().pd == self.pd.val()));
        self.mine.d.next = !self.m.val().type2 | (self.m.val().qpn == self.qpn.val());
        self.ky.next = self.key.val();
        self.place.d.next = self.ky.val().get_bits::<16>(8);
        if self.m.val().window {
            self.place.d.next = self.m.val().parent;
        }
        self.place_r.d.next = self.place.q.val();
        self.off.d.next = self.va.val() - self.m.val().va;
        self.slack.d.next =
            bit_cast::<65, 48>(self.m.val().len) - bit_cast::<65, 32>(self.len.val());
        self.pass.d.next = ((self.known.q.val() & self.mine.q.val())
            & !self.slack.q.val().get_bit(64))
            & (self.off.q.val() <= self.slack.q.val().get_bits::<64>(0));
        self.ok.next = self.pass.q.val();
        self.at.next = self.place_r.q.val();
    }
}
