//! Inputs and outputs of the model.

use super::memory::MemoryRegion;
use crate::psn::HALF24;
use crate::{DropReason, Mtu, PacketRepr, Psn, DEFAULT_PKEY};

/// Attributes of an RC QP, by the names of `ibv_qp_attr` where they have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpConfig {
    /// Own QPN, 24 bits.
    pub qpn: u32,
    /// Peer's QPN, 24 bits.
    pub dest_qpn: u32,
    /// First PSN sent.
    pub sq_psn: Psn,
    /// First PSN expected.
    pub rq_psn: Psn,
    /// Path MTU; equal at both ends.
    pub mtu: Mtu,
    /// Local ACK timeout code, 0..=31; 0 = never.
    pub timeout: u8,
    /// Timeouts and sequence NAKs without progress before RETRY_EXC, 0..=7.
    pub retry_cnt: u8,
    /// RNR NAKs without progress before RNR_RETRY_EXC, 0..=6; 7 = no limit.
    pub rnr_retry: u8,
    /// Timer code sent in RNR NAKs, 0..=31.
    pub min_rnr_timer: u8,
    /// READs outstanding as initiator.
    pub max_rd_atomic: u8,
    /// READs outstanding as responder.
    pub max_dest_rd_atomic: u8,
    /// Partition key.
    pub pkey: u16,
    /// MigReq bit of every packet sent.
    pub mig_req: bool,
    /// Packets without AckReq before one is set in the middle of a message; 0 = only at its end.
    pub ack_interval: u32,
    /// PSNs in flight, 1..=2^23.
    pub window: u32,
}

impl QpConfig {
    /// Defaults: PSN 0, MTU 1024, timeout 14 (67 ms), 7 retries, RNR timer 12 (0.64 ms), 16 READs,
    /// AckReq each 64 packets, window 2^23.
    pub fn new(qpn: u32, dest_qpn: u32) -> Self {
        QpConfig {
            qpn,
            dest_qpn,
            sq_psn: Psn::new(0),
            rq_psn: Psn::new(0),
            mtu: Mtu::M1024,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            pkey: DEFAULT_PKEY,
            mig_req: true,
            ack_interval: 64,
            window: HALF24,
        }
    }
    /// The same attributes seen from the other end.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        QpConfig {
            qpn: self.dest_qpn,
            dest_qpn: self.qpn,
            sq_psn: self.rq_psn,
            rq_psn: self.sq_psn,
            max_rd_atomic: self.max_dest_rd_atomic,
            max_dest_rd_atomic: self.max_rd_atomic,
            ..*self
        }
    }
}

/// Operation of a send work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with immediate (bytes as on the wire).
    SendImm([u8; 4]),
    /// SEND that ends the binding of a window of type 2 at the receiver (RC).
    SendInv {
        /// Key of the window.
        rkey: u32,
    },
    /// RDMA WRITE.
    Write {
        /// Remote address.
        va: u64,
        /// Remote key.
        rkey: u32,
    },
    /// RDMA WRITE with immediate.
    WriteImm {
        /// Remote address.
        va: u64,
        /// Remote key.
        rkey: u32,
        /// Immediate.
        imm: [u8; 4],
    },
    /// RDMA READ.
    Read {
        /// Remote address.
        va: u64,
        /// Remote key.
        rkey: u32,
    },
    /// Atomic compare and swap of 8 bytes.
    CmpSwap {
        /// Remote address, a multiple of 8.
        va: u64,
        /// Remote key.
        rkey: u32,
        /// Written if the word is equal to this,
        compare: u64,
        /// this.
        swap: u64,
    },
    /// Atomic fetch and add of 8 bytes.
    FetchAdd {
        /// Remote address, a multiple of 8.
        va: u64,
        /// Remote key.
        rkey: u32,
        /// Summand, modulo 2^64.
        add: u64,
    },
    /// BIND_MW: a local operation, see [`SendOp::is_local`].
    Bind {
        /// Region that the window shall lie in.
        lkey: u32,
        /// The window: its key, range and rights; a length of 0 ends its binding.
        window: MemoryRegion,
    },
    /// LOCAL_INV: ends the binding of a window. A local operation.
    LocalInv {
        /// Key of the window.
        rkey: u32,
    },
}

impl SendOp {
    /// Completes by its own response (READ, atomics), not by an acknowledgement.
    pub fn is_answered(&self) -> bool {
        self.is_atomic() || matches!(self, SendOp::Read { .. })
    }
    /// Sends nothing: begins when all before it is complete ([`Action::Local`]), and what is behind it waits for
    /// [`super::Qp::local_done`].
    pub fn is_local(&self) -> bool {
        matches!(self, SendOp::Bind { .. } | SendOp::LocalInv { .. })
    }
    /// Compare and swap, or fetch and add.
    pub fn is_atomic(&self) -> bool {
        matches!(self, SendOp::CmpSwap { .. } | SendOp::FetchAdd { .. })
    }
}

/// Send work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWr {
    /// Caller's value, returned in the completion.
    pub wr_id: u64,
    /// Operation.
    pub op: SendOp,
    /// Message length in bytes; above 2^31 completes with LOC_LEN.
    pub len: u64,
    /// Ask for a completion on success; errors always complete.
    pub signaled: bool,
    /// Set SE in the last packet of a SEND or WRITE with immediate.
    pub solicited: bool,
    /// Begin only when all earlier READs have all their data.
    pub fence: bool,
}

impl SendWr {
    /// Signaled, neither solicited nor fenced.
    pub fn new(wr_id: u64, op: SendOp, len: u64) -> Self {
        SendWr {
            wr_id,
            op,
            len,
            signaled: true,
            solicited: false,
            fence: false,
        }
    }
}

/// Receive work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWr {
    /// Caller's value, returned in the completion.
    pub wr_id: u64,
    /// Room in bytes.
    pub len: u64,
}

/// Completion status; discriminants are `ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Success = 0,
    /// Local length error.
    LocLen = 1,
    /// The work request is not legal (said by the one who posts it).
    LocQpOp = 2,
    /// Local memory or key refused.
    LocProt = 4,
    /// Flushed in ERR.
    WrFlush = 5,
    /// Local operation refused.
    MwBind = 6,
    /// Response that does not answer what was asked.
    BadResp = 7,
    /// NAK 0x61.
    RemInvReq = 9,
    /// NAK 0x62.
    RemAccess = 10,
    /// NAK 0x63.
    RemOp = 11,
    /// Retries used up.
    RetryExc = 12,
    /// RNR retries used up.
    RnrRetryExc = 13,
}

/// Where the payload of a transmitted packet comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// No payload.
    None,
    /// Message of the `wqe`-th send work request posted to this QP (from 0).
    Wqe {
        /// Ordinal of the work request.
        wqe: u64,
        /// Bytes into the message.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// Responder's memory (READ response).
    Memory {
        /// Address.
        va: u64,
        /// Key that was checked.
        rkey: u32,
        /// Bytes.
        len: u32,
    },
}

impl Source {
    /// Payload bytes.
    pub fn len(&self) -> u32 {
        match *self {
            Source::None => 0,
            Source::Wqe { len, .. } | Source::Memory { len, .. } => len,
        }
    }
    /// No payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One packet to transmit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tx {
    /// BTH and extension headers.
    pub packet: PacketRepr,
    /// Payload.
    pub payload: Source,
}

/// Where the payload of a received packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Responder's memory (WRITE).
    Memory {
        /// Address.
        va: u64,
        /// Key that was checked.
        rkey: u32,
    },
    /// Buffer of the `wqe`-th receive work request posted to this QP (from 0).
    Recv {
        /// Ordinal of the work request.
        wqe: u64,
        /// Bytes into the buffer.
        offset: u64,
    },
    /// Local buffer of the `wqe`-th send work request (READ).
    Local {
        /// Ordinal of the work request.
        wqe: u64,
        /// Bytes into the message.
        offset: u64,
    },
}

/// An atomic to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicWork {
    /// Address, a multiple of 8.
    pub va: u64,
    /// Key that was checked.
    pub rkey: u32,
    /// Compare with this and write [`AtomicWork::value`] if equal; `None`: add it.
    pub compare: Option<u64>,
    /// Swap or summand.
    pub value: u64,
}

impl AtomicWork {
    /// What memory holds afterwards if it held `original`.
    pub fn result(&self, original: u64) -> u64 {
        match self.compare {
            None => original.wrapping_add(self.value),
            Some(c) if c == original => self.value,
            Some(_) => original,
        }
    }
}

/// An effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write the packet's payload, `len` bytes, before any later action.
    Place {
        /// Where.
        target: Target,
        /// Bytes; never 0.
        len: u32,
    },
    /// Completion on the send CQ.
    SendComplete {
        /// From the work request.
        wr_id: u64,
        /// Status.
        status: Status,
        /// Operation posted; an application may look at it only on success.
        op: SendOp,
        /// Message length (0 on error).
        byte_len: u64,
    },
    /// Completion on the receive CQ.
    RecvComplete {
        /// From the work request.
        wr_id: u64,
        /// Status.
        status: Status,
        /// Message length (0 on error).
        byte_len: u64,
        /// Immediate, if the message had one.
        imm: Option<[u8; 4]>,
        /// Key of the window that the message has ended.
        inv: Option<u32>,
        /// By a WRITE with immediate rather than a SEND.
        write: bool,
        /// SE was set.
        solicited: bool,
    },
    /// The QP went to ERR; flush completions surround this.
    ToError,
    /// The packet had no effect.
    Drop(DropReason),
    /// Execute this on 8 bytes of memory, whose key and bounds are checked, and give what was there
    /// to [`super::Responder::atomic_done`]. Comes exactly once per atomic, in order.
    Atomic(AtomicWork),
    /// The original value of an atomic; goes to the local buffer of the `wqe`-th send work request,
    /// as 8 bytes.
    AtomicResult {
        /// Ordinal of the work request.
        wqe: u64,
        /// What was in memory before.
        original: u64,
    },
    /// End the binding of this window, which [`super::Memory::may_invalidate`] has allowed. Comes exactly once per SEND
    /// with invalidate, before its receive completion.
    Invalidate {
        /// Its key.
        rkey: u32,
    },
    /// Execute a local operation and give the outcome to [`super::Qp::local_done`]. Comes exactly once per operation.
    Local {
        /// Ordinal of the work request.
        wqe: u64,
        /// [`SendOp::Bind`] or [`SendOp::LocalInv`].
        op: SendOp,
    },
    /// Congestion notification for this QP.
    Cnp,
    /// In SQD, all that had begun has completed.
    Drained,
}
