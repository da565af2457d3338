//! Completion and event queue entries (64 bytes each).
//!
//! Entry `i` of a ring of `2^n` is written with `phase = !(i >> n) & 1`: the first lap carries 1, and
//! a zeroed ring holds no valid entry. The card writes an entry after the payload it announces; the
//! phase bit is in the last byte, and the reader needs an acquire barrier behind it.

use crate::layout;

layout! {
    /// Completion queue entry.
    cqe: 512 {
        qpn: 0, 24, "QPN that the work request was posted to";
        opcode: 24, 8, "`wqe::op` for a send completion, `recv_op` for a receive completion";
        index: 32, 16, "Unit index of the WQE in its ring (frees it and all before it)";
        status: 48, 8, "ibv_wc_status";
        is_recv: 56, 1, "Receive queue completion";
        with_imm: 57, 1, "`imm` is valid";
        with_inv: 58, 1, "`imm` is an invalidated rkey";
        grh: 59, 1, "The first 40 bytes of the buffer are the GRH area";
        solicited: 60, 1, "The message asked for a solicited event";
        length: 64, 32, "Bytes received or read";
        imm: 96, 32, "Immediate data (wire byte order) or rkey";
        src_qp: 128, 24, "Source QPN (UD)";
        vendor: 152, 8, "Vendor error; 0 on success and on flush";
        timestamp: 192, 64, "Card time in ns when the entry was made";
        post_time: 256, 64, "Card time in ns when the doorbell of a send WQE was accepted; 0 if not measured";
        phase: 511, 1, "Lap phase, see the module";
    }
}

/// `cqe.opcode` of receive completions.
pub mod recv_op {
    pub const SEND: u8 = 0;
    pub const SEND_IMM: u8 = 1;
    pub const SEND_INV: u8 = 2;
    pub const WRITE_IMM: u8 = 3;
}

layout! {
    /// Event queue entry. One event queue per PASID.
    eqe: 512 {
        kind: 0, 8, "See `event`";
        id: 32, 24, "CQN or QPN";
        phase: 511, 1, "Lap phase";
    }
}

/// Event kinds.
pub mod event {
    pub const COMPLETION: u8 = 1;
    pub const CQ_ERR: u8 = 2;
    pub const QP_FATAL: u8 = 3;
    pub const QP_REQ_ERR: u8 = 4;
    pub const QP_ACCESS_ERR: u8 = 5;
    pub const COMM_EST: u8 = 6;
    pub const SQ_DRAINED: u8 = 7;
    pub const PORT_ACTIVE: u8 = 8;
    pub const PORT_ERR: u8 = 9;
    pub const SRQ_LIMIT: u8 = 10;
    pub const LAST_WQE: u8 = 11;
}

/// `ibv_wc_status` values that the card writes (C1: libibverbs/verbs.h).
pub mod status {
    pub const SUCCESS: u8 = 0;
    pub const LOC_LEN: u8 = 1;
    pub const LOC_QP_OP: u8 = 2;
    pub const LOC_PROT: u8 = 4;
    pub const WR_FLUSH: u8 = 5;
    pub const BAD_RESP: u8 = 7;
    pub const REM_INV_REQ: u8 = 9;
    pub const REM_ACCESS: u8 = 10;
    pub const REM_OP: u8 = 11;
    pub const RETRY_EXC: u8 = 12;
    pub const RNR_RETRY_EXC: u8 = 13;
    pub const FATAL: u8 = 19;
    pub const GENERAL: u8 = 21;
}
