//! The port's switch: with the link down no frame leaves and none enters.

use crate::types::WireMeta;
use rust_hdl::prelude::*;

/// Between egress and wire, and before the ingress. Only the valid and ready bits pass through here.
///
/// * A frame that has begun ends as it began: `up` counts at the first word of a frame.
/// * With the link down the transmit side takes all frames and drops them, as a wire without a peer would, so that nothing
///   piles up in the card; received frames are not seen, and no counter counts them.
/// * Combinational: no latency, initiation interval 1.
#[derive(LogicBlock, Default)]
pub struct LinkGate {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub up: Signal<In, bool>,
    pub s_valid: Signal<In, bool>,
    pub s_meta: Signal<In, WireMeta>,
    pub s_ready: Signal<Out, bool>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_ready: Signal<In, bool>,
    pub rx_valid: Signal<In, bool>,
    pub rx_meta: Signal<In, WireMeta>,
    pub m_valid: Signal<Out, bool>,
    /// What holds for the frame at hand.
    tx_open: DFF<bool>,
    rx_open: DFF<bool>,
    s: Signal<Local, WireMeta>,
    r: Signal<Local, WireMeta>,
    send: Signal<Local, bool>,
    take: Signal<Local, bool>,
}

impl Logic for LinkGate {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, tx_open, rx_open);
        self.s.next = self.s_meta.val();
        self.send.next = self.tx_open.q.val();
        if self.s_valid.val() & self.s.val().sop {
            self.send.next = self.up.val();
        }
        // a first word that waits for the wire may still find the link gone
        self.tx_valid.next = self.s_valid.val() & self.send.val();
        self.s_ready.next = self.tx_ready.val() | !self.send.val();
        if self.s_valid.val() & (self.tx_ready.val() | !self.send.val()) {
            self.tx_open.d.next = self.send.val();
        }
        self.r.next = self.rx_meta.val();
        self.take.next = self.rx_open.q.val();
        if self.rx_valid.val() & self.r.val().sop {
            self.take.next = self.up.val();
        }
        self.m_valid.next = self.rx_valid.val() & self.take.val();
        self.rx_open.d.next = self.take.val();
        if self.rst.val() {
            self.tx_open.d.next = false;
            self.rx_open.d.next = false;
        }
    }
}
