//! What the responder remembers of a QP.

use crate::packed_struct;
use rust_hdl::prelude::*;

packed_struct! {
    /// State of a QP as responder (36 B), written only by the responder.
    pub struct RspCtx {
        /// START has been given.
        pub live: bool,
        /// A fatal NAK was sent or the QP was flushed: every packet is dropped until RESET.
        pub err: bool,
        /// A sequence or RNR NAK is out: no other until the expected packet is accepted.
        pub nak: bool,
        /// Duplicate READs may be in the ring of the READ responder.
        pub dup: bool,
        /// Message at hand: 0 none, 1 SEND (holds the receive WQE `ci`, or one of the SRQ), 2 WRITE.
        pub exp: Bits<2>,
        /// SEND: SGE in use, and the offset in it.
        pub sge: Bits<4>,
        pub off: Bits<32>,
        pub epsn: Bits<24>,
        pub msn: Bits<24>,
        /// Receive units consumed.
        pub ci: Bits<16>,
        /// Number of the SRQ entry that is held.
        pub held: Bits<16>,
        /// WRITE: next address, bytes still to come, rkey.
        pub va: Bits<64>,
        pub rem: Bits<32>,
        pub rkey: Bits<32>,
        /// SEND: bytes so far; WRITE: DMALen.
        pub len: Bits<32>,
    }
}

packed_struct! {
    /// State of an SRQ, at its table index.
    pub struct SrqSt {
        /// Units consumed.
        pub ci: Bits<16>,
        /// SRQ_LIMIT is due when fewer units than this are posted; 0: never.
        pub limit: Bits<16>,
    }
}

packed_struct! {
    /// What Fin has to do: write the context, send an ACK wish, free a receive WQE, start a READ, report an error.
    pub struct ToDo { pub ctx: bool, pub ack: bool, pub free: bool, pub read: bool, pub err: bool }
}

/// A packet goes Idle, Fetch (tables), Ring (only if it may need an entry of an SRQ, or the SGEs of the next unit), Look (SGE or rkey to MR), Sub (verdict without MR), Cmp, Put (verdict with MR, payload job), then Fin, or Cqe
/// (completion, and what Fin does). Before Cqe may come Inv (the window of a SEND with invalidate). Copy, before Fin: the message keeps an SRQ entry of more than one unit.
#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum RspState {
    Idle,
    Fetch,
    Ring,
    Look,
    Sub,
    Cmp,
    Put,
    Inv,
    Copy,
    Cqe,
    Fatal,
    Free,
    Fin,
    Ctl,
    Limit,
    Note,
    Flush,
}
