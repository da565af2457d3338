//! Rule of MODIFY_QP: which state comes next, and whether the QP may go there with these attributes.

use super::program::{transitions, TRANS_BITS};
use super::rom::Rom;
use rust_hdl::prelude::*;

/// `to` is the state that the command asks for (`want`, or `cur` when the mask names no state), combinational. `refuse` holds three cycles after
/// the inputs have come, which must not change meanwhile; it covers all but the values of attributes.
///
/// A block of its own, so that `rtl/formal/qp.sv` proves the very thing that the sequencer asks.
#[derive(LogicBlock)]
pub struct QpRule {
    pub clock: Signal<In, Clock>,
    pub qp_type: Signal<In, Bits<2>>,
    /// State that the QP is in, and the one that the command takes it to be in.
    pub cur: Signal<In, Bits<3>>,
    pub assumed: Signal<In, Bits<3>>,
    pub want: Signal<In, Bits<3>>,
    pub mask: Signal<In, Bits<21>>,
    pub to: Signal<Out, Bits<3>>,
    pub refuse: Signal<Out, bool>,
    rom: Rom<TRANS_BITS, 8>,
    row: DFF<Bits<TRANS_BITS>>,
    /// No such row, other state, bits missing, bits too many.
    w_row: DFF<bool>,
    w_cur: DFF<bool>,
    w_need: DFF<bool>,
    w_more: DFF<bool>,
    nx: Signal<Local, Bits<3>>,
    need: Signal<Local, Bits<21>>,
    allow: Signal<Local, Bits<21>>,
    nmask: Signal<Local, Bits<21>>,
    nallow: Signal<Local, Bits<21>>,
}

impl Default for QpRule {
    fn default() -> Self {
        Self {
            rom: Rom::new(transitions()),
            clock: Default::default(),
            qp_type: Default::default(),
            cur: Default::default(),
            assumed: Default::default(),
            want: Default::default(),
            mask: Default::default(),
            to: Default::default(),
            refuse: Default::default(),
            row: Default::default(),
            w_row: Default::default(),
            w_cur: Default::default(),
            w_need: Default::default(),
            w_more: Default::default(),
            nx: Default::default(),
            need: Default::default(),
            allow: Default::default(),
            nmask: Default::default(),
            nallow: Default::default(),
        }
    }
}

impl Logic for QpRule {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, row, w_row, w_cur, w_need, w_more);
        clock!(self, clock, rom);
        self.nx.next = self.cur.val();
        if self.mask.val().get_bit(0) {
            self.nx.next = self.want.val();
        }
        self.to.next = self.nx.val();
        self.rom.addr.next = (bit_cast::<8, 2>(self.qp_type.val()) << 6)
            | ((bit_cast::<8, 3>(self.cur.val()) << 3) | bit_cast::<8, 3>(self.nx.val()));
        self.row.d.next = self.rom.data.val();
        self.need.next = self.row.q.val().get_bits::<21>(1);
        self.allow.next = self.row.q.val().get_bits::<21>(22);
        self.nmask.next = !self.mask.val();
        self.nallow.next = !self.allow.val();
        self.need.next = self.need.val() & self.nmask.val();
        self.allow.next = self.mask.val() & self.nallow.val();
        self.w_row.d.next = !self.row.q.val().get_bit(0);
        self.w_cur.d.next = self.mask.val().get_bit(1) & (self.assumed.val() != self.cur.val());
        self.w_need.d.next = self.need.val().any();
        self.w_more.d.next = self.allow.val().any();
        self.refuse.next =
            (self.w_row.q.val() | self.w_cur.q.val()) | (self.w_need.q.val() | self.w_more.q.val());
    }
}
