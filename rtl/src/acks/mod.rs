//! Acknowledgement coalescing.

use crate::packed_struct;
use crate::prims::{Fifo, SdpRam};
use crate::types::{AckCmd, AckReq};
use rust_hdl::prelude::*;

packed_struct! {
    /// The newest wish of a QP.
    pub struct Wish { pub psn: Bits<24>, pub aeth: Bits<32> }
}
packed_struct! {
    /// A QP that waits, and the cycle (modulo 256) of its first wish.
    pub struct Waiting { pub qp: Bits<12>, pub t: Bits<8> }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum AckState {
    Idle,
    Take,
    Look,
}

/// Sends one ACK, NAK or RNR NAK for the newest wish of each QP.
///
/// * `LOG_QP`: log2 of QPs.
/// * In `ack` (II 2): replaces an unsent wish of its QP. Syndrome 0xFF takes the wish back (the QP was reset, or the
///   response of a READ that came after it says more): it is dropped when its turn comes, even while the QP is busy.
/// * A QP's first positive wish waits 16 cycles, so that a burst gives one ACK; a NAK does not wait. While `tx` is not ready wishes go on merging.
/// * Port `busy` (data one cycle after the address): while it is up the READ responses of the QP have to leave first, and the QP is looked at again in
///   turn with the others.
/// * Out `tx`: opcode 0x11. Latency of a NAK: 4 cycles; of an ACK: 20. II 2 per wish + 2 per ACK sent, 4 together.
/// * Each QP is in at most one of the two queues, so they cannot overflow.
#[derive(LogicBlock, Default)]
pub struct Acks<const LOG_QP: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub ack_valid: Signal<In, bool>,
    pub ack_data: Signal<In, AckReq>,
    pub ack_ready: Signal<Out, bool>,
    pub busy_raddr: Signal<Out, Bits<12>>,
    pub busy_rdata: Signal<In, bool>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_data: Signal<Out, AckCmd>,
    pub tx_ready: Signal<In, bool>,
    pub idle: Signal<Out, bool>,
    wish: SdpRam<Wish, LOG_QP>,
    pend: SdpRam<bool, LOG_QP>,
    /// First wishes, oldest first.
    fresh: Fifo<Waiting, LOG_QP>,
    /// NAKs, and QPs that were busy.
    now: Fifo<Waiting, LOG_QP>,
    state: DFF<AckState>,
    r: DFF<AckReq>,
    qp: DFF<Bits<12>>,
    tx: DFF<AckCmd>,
    tx_v: DFF<bool>,
    tick: DFF<Bits<8>>,
    turn: DFF<bool>,
    a: Signal<Local, AckReq>,
    aeth: Signal<Local, Bits<32>>,
    w: Signal<Local, Wish>,
    head: Signal<Local, Waiting>,
    head_b: Signal<Local, Waiting>,
    item: Signal<Local, Waiting>,
    age: Signal<Local, Bits<8>>,
    ripe: Signal<Local, bool>,
    take_b: Signal<Local, bool>,
    cancel: Signal<Local, bool>,
    urgent: Signal<Local, bool>,
    addr: Signal<Local, Bits<12>>,
    cmd: Signal<Local, AckCmd>,
}

impl<const LOG_QP: usize> Logic for Acks<LOG_QP> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, r, qp, tx, tx_v, tick, turn);
        clock!(self, clock, wish, pend, fresh, now);
        self.fresh.rst.next = self.rst.val();
        self.now.rst.next = self.rst.val();
        self.tick.d.next = self.tick.q.val() + 1;
        self.a.next = self.ack_data.val();
        self.head.next = self.fresh.m_data.val();
        self.head_b.next = self.now.m_data.val();
        self.age.next = self.tick.q.val() - self.head.val().t;
        self.ripe.next = self.fresh.m_valid.val() & self.age.val().get_bits::<4>(4).any();
        self.take_b.next = self.now.m_valid.val() & (self.turn.q.val() | !self.ripe.val());
        self.ack_ready.next = false;
        self.fresh.m_ready.next = false;
        self.now.m_ready.next = false;
        self.fresh.s_valid.next = false;
        self.now.s_valid.next = false;
        self.addr.next = self.qp.q.val();
        if self.tx_ready.val() {
            self.tx_v.d.next = false;
        }

        // the wish at hand: a new one in Take, the stored one in Look
        self.w.next = self.wish.rdata.val();
        self.aeth.next = self.w.val().aeth;
        self.wish.we.next = false;
        self.wish.wdata.next.psn = self.r.q.val().psn;
        self.wish.wdata.next.aeth = self.r.q.val().aeth;
        if self.state.q.val() == AckState::Take {
            self.aeth.next = self.r.q.val().aeth;
        }
        self.cancel.next = self.aeth.val().get_bit(31);
        self.urgent.next = self.aeth.val().get_bit(29);
        self.item.next.qp = self.qp.q.val();
        self.item.next.t = self.tick.q.val();
        self.fresh.s_data.next = self.item.val();
        self.now.s_data.next = self.item.val();
        self.pend.we.next = false;
        self.pend.wdata.next = false;
        self.cmd.next.qp = self.qp.q.val();
        self.cmd.next.opcode = 17.into();
        self.cmd.next.psn = self.w.val().psn;
        self.cmd.next.aeth = self.w.val().aeth;

        match self.state.q.val() {
            AckState::Idle => {
                if self.ack_valid.val() {
                    self.ack_ready.next = true;
                    self.r.d.next = self.a.val();
                    self.addr.next = self.a.val().qp;
                    self.state.d.next = AckState::Take;
                } else if !self.tx_v.q.val() & self.take_b.val() {
                    self.now.m_ready.next = true;
                    self.addr.next = self.head_b.val().qp;
                    self.turn.d.next = false;
                    self.state.d.next = AckState::Look;
                } else if !self.tx_v.q.val() & self.ripe.val() {
                    self.fresh.m_ready.next = true;
                    self.addr.next = self.head.val().qp;
                    self.turn.d.next = true;
                    self.state.d.next = AckState::Look;
                }
            }
            AckState::Take => {
                self.wish.we.next = true;
                if !self.pend.rdata.val() & !self.cancel.val() {
                    self.pend.we.next = true;
                    self.pend.wdata.next = true;
                    self.now.s_valid.next = self.urgent.val();
                    self.fresh.s_valid.next = !self.urgent.val();
                }
                self.state.d.next = AckState::Idle;
            }
            AckState::Look => {
                if self.cancel.val() {
                    self.pend.we.next = true;
                } else if self.busy_rdata.val() {
                    self.now.s_valid.next = true;
                } else {
                    self.pend.we.next = true;
                    self.tx.d.next = self.cmd.val();
                    self.tx_v.d.next = true;
                }
                self.state.d.next = AckState::Idle;
            }
            _ => {
                self.state.d.next = AckState::Idle;
            }
        }
        self.qp.d.next = self.addr.val();
        self.busy_raddr.next = self.addr.val();
        self.wish.raddr.next = self.addr.val().get_bits::<LOG_QP>(0);
        self.pend.raddr.next = self.addr.val().get_bits::<LOG_QP>(0);
        self.wish.waddr.next = self.qp.q.val().get_bits::<LOG_QP>(0);
        self.pend.waddr.next = self.qp.q.val().get_bits::<LOG_QP>(0);
        self.tx_valid.next = self.tx_v.q.val();
        self.tx_data.next = self.tx.q.val();
        self.idle.next = ((self.state.q.val() == AckState::Idle) & !self.tx_v.q.val())
            & (!self.fresh.m_valid.val() & !self.now.m_valid.val());
        if self.rst.val() {
            self.state.d.next = AckState::Idle;
            self.tx_v.d.next = false;
            self.tick.d.next = 0.into();
            self.turn.d.next = false;
        }
    }
}
