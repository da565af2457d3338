//! Completion and event queue entries (64 bytes each).
//!
//! Entry `i` of a ring of `2^n` is written with `phase = !(i >> n) & 1`: the first lap carries 1, and
//! a zeroed ring holds no valid entry. The card writes an entry after the payload it announces; the
//! phase bit is in the last byte, and the reader needs an acquire barrier behind it.

use crate::{codes, layout};

layout! {
    /// Completion queue entry.
    cqe: 512 {
        qpn: 0, 24, "QPN that the work request was posted to";
        opcode: 24, 8, "Send completion: `sq.opcode`; receive completion: the table below";
        index: 32, 16, "Unit index of the WQE in its ring (frees it and all before it); of an SRQ the number that the entry carries";
        status: 48, 8, "`ibv_wc_status`";
        is_recv: 56, 1, "Receive queue completion";
        with_imm: 57, 1, "`imm` is valid";
        with_inv: 58, 1, "`imm` is an invalidated rkey";
        grh: 59, 1, "The first 40 bytes of the buffer are the GRH area";
        solicited: 60, 1, "The message asked for a solicited event";
        length: 64, 32, "Bytes received or read";
        imm: 96, 32, "Immediate data or rkey, both in wire byte order";
        src_qp: 128, 24, "Source QPN (UD)";
        vendor: 152, 8, "Vendor error; 0 on success and on flush";
        timestamp: 192, 64, "Card time in ns when the entry was made";
        post_time: 256, 64, "Card time in ns when the doorbell of a send WQE was accepted; 0 if not measured";
        phase: 511, 1, "Lap phase: entry `i` of a ring of `2^n` is written with `!(i >> n) & 1`";
    }
}

codes! {
    /// `cqe.opcode` of receive completions.
    recv_op {
        SEND = 0, "SEND";
        SEND_IMM = 1, "SEND with immediate data";
        SEND_INV = 2, "SEND with invalidate";
        WRITE_IMM = 3, "RDMA WRITE with immediate data";
    }
}

layout! {
    /// Event queue entry. One event queue per PASID.
    eqe: 512 {
        kind: 0, 8, "What happened";
        id: 32, 24, "CQN, QPN or SRQN";
        phase: 511, 1, "Lap phase, as in a CQE";
    }
}

codes! {
    /// Event kinds.
    event {
        COMPLETION = 1, "An armed CQ has a new entry";
        CQ_ERR = 2, "The CQ overflowed";
        QP_FATAL = 3, "The QP failed: a fault of the card or of its rings";
        QP_REQ_ERR = 4, "The responder got an invalid request";
        QP_ACCESS_ERR = 5, "The responder refused an access";
        COMM_EST = 6, "First packet while in RTR";
        SQ_DRAINED = 7, "SQD is reached";
        PORT_ACTIVE = 8, "Link up";
        PORT_ERR = 9, "Link down";
        SRQ_LIMIT = 10, "Shared receive queue below its limit";
        LAST_WQE = 11, "No more receives of a shared queue will complete on this QP";
        SRQ_ERR = 12, "The ring of a shared receive queue can't be read";
    }
}

codes! {
    /// `ibv_wc_status` values that the card writes (as in libibverbs/verbs.h).
    status {
        SUCCESS = 0, "Done";
        LOC_LEN = 1, "Local length error: the message does not fit the receive, or exceeds 2^31";
        LOC_QP_OP = 2, "Local QP operation error: the WQE is not legal";
        LOC_PROT = 4, "Local protection error: lkey, PD, bounds, or memory that is not there";
        WR_FLUSH = 5, "Flushed: the QP is in ERR";
        BAD_RESP = 7, "The response does not fit the request";
        REM_INV_REQ = 9, "The responder: invalid request";
        REM_ACCESS = 10, "The responder: access refused";
        REM_OP = 11, "The responder: could not do it";
        RETRY_EXC = 12, "No answer after all retries";
        RNR_RETRY_EXC = 13, "No receive posted after all retries";
        FATAL = 19, "The card failed";
        GENERAL = 21, "Other failure";
    }
}
