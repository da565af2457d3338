//! Reports of the egress to those who need them.

use crate::types::{QpErr, TxDone};
use rust_hdl::prelude::*;

/// Sends a report to the READ responder (all of `resp`), for a request whose payload could not be read to the command sequencer as `QpErr` kind 3,
/// and for the last packet of a UC message to the requester (`td`). Purely combinational: one report goes to one side, so nothing is stored.
#[derive(LogicBlock, Default)]
pub struct DoneSplit {
    pub done_valid: Signal<In, bool>,
    pub done_data: Signal<In, TxDone>,
    pub done_ready: Signal<Out, bool>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, TxDone>,
    pub rd_ready: Signal<In, bool>,
    pub err_valid: Signal<Out, bool>,
    pub err_data: Signal<Out, QpErr>,
    pub err_ready: Signal<In, bool>,
    pub td_valid: Signal<Out, bool>,
    pub td_qp: Signal<Out, Bits<12>>,
    pub td_ready: Signal<In, bool>,
    d: Signal<Local, TxDone>,
}

impl Logic for DoneSplit {
    #[hdl_gen]
    fn update(&mut self) {
        self.d.next = self.done_data.val();
        self.rd_data.next = self.d.val();
        self.err_data.next.qp = self.d.val().qp;
        self.err_data.next.kind = 3.into();
        self.rd_valid.next = false;
        self.err_valid.next = false;
        self.td_valid.next = false;
        self.td_qp.next = self.d.val().qp;
        self.done_ready.next = true;
        if self.d.val().resp {
            self.rd_valid.next = self.done_valid.val();
            self.done_ready.next = self.rd_ready.val();
        } else if self.d.val().fault {
            self.err_valid.next = self.done_valid.val();
            self.done_ready.next = self.err_ready.val();
        } else if self.d.val().resp_end {
            self.td_valid.next = self.done_valid.val();
            self.done_ready.next = self.td_ready.val();
        }
    }
}
