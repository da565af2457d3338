//! What the responder remembers of a QP.

use crate::packed_struct;
use rust_hdl::prelude::*;

packed_struct! {
    /// State of a QP as responder (33 B), written only by the responder.
    pub struct RspCtx {
        /// START has been given.
        pub live: bool,
        /// A fatal NAK was sent or the QP was flushed: every packet is dropped until RESET.
        pub err: bool,
        /// A sequence or RNR NAK is out: no other until the expected packet is accepted.
        pub nak: bool,
        /// Duplicate READs may be in the ring of the READ responder.
        pub dup: bool,
        /// Message at hand: 0 none, 1 SEND (holds the receive WQE `ci`), 2 WRITE.
        pub exp: Bits<2>,
        /// SEND: SGE in use, and the offset in it.
        pub sge: Bits<2>,
        pub off: Bits<32>,
        pub epsn: Bits<24>,
        pub msn: Bits<24>,
        /// Receive WQEs consumed.
        pub ci: Bits<16>,
        /// WRITE: next address, bytes still to come, rkey.
        pub va: Bits<64>,
        pub rem: Bits<32>,
        pub rkey: Bits<32>,
        /// SEND: bytes so far; WRITE: DMALen.
        pub len: Bits<32>,
    }
}

packed_struct! {
    /// What Fin has to do: write the context, send an ACK wish, free a receive WQE, start a READ, report an error.
    pub struct ToDo { pub ctx: bool, pub ack: bool, pub free: bool, pub read: bool, pub err: bool }
}

/// A packet goes Idle, Fetch (tables), Look (SGE or rkey to MR), Sub (verdict without MR), Cmp, Put (verdict with MR, payload job), then Fin, or Cqe
/// (completion, and what Fin does), before it Inv (the window of a SEND with invalidate).
#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum RspState {
    Idle,
    Fetch,
    Look,
    Sub,
    Cmp,
    Put,
    Inv,
    Cqe,
    Fatal,
    Free,
    Fin,
    Ctl,
    Note,
    Flush,
}
