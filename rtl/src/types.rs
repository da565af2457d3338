//! Messages between the blocks of the card. The first field of a struct is the least significant.
//!
//! Structs can't be generic, so bus words travel as two signals: `x_data: Bits<W>` and `x_meta`.
//!
//! Handshake everywhere: `*_valid`, `*_data`, `*_ready`; a transfer happens on the clock edge where
//! valid and ready are both high; valid never depends on ready; data holds while valid waits.
//! `qp` is a QP table index, `mr` an MR table index, `stamp` travels with the data for latency figures. The requester
//! makes it: bit 47, the QP (bits 27:16) and the unit index of the WQE (bits 15:0); the simulated wire puts in place of it, with bit 47 clear, what it likes
//! (when that WQE's doorbell came). Of a completion job it is the card time in ns of the QP's last doorbell.

use crate::packed_struct;
use rust_hdl::prelude::*;

packed_struct! {
    /// Beside one bus word (`Bits<W>`) of a frame: `empty` = unused bytes at the end of the last word.
    pub struct WireMeta {
        pub empty: Bits<6>,
        pub sop: bool,
        pub eop: bool,
        pub stamp: Bits<48>,
    }
}

packed_struct! {
    /// Host read request. Never crosses 4 KiB, at most MRRS bytes.
    pub struct HostRd {
        pub pasid: Bits<12>,
        pub addr: Bits<64>,
        pub len: Bits<13>,
        pub tag: Bits<8>,
    }
}

packed_struct! {
    /// Beside one bus word of a read completion, lanes aligned to the address: byte `a` of memory is in lane
    /// `a mod (W/8)`. Words of one tag come in order; tags come in any order. `last` = last word of the tag.
    /// `err`: the host refused (unmapped memory); the data is void; only on a `last` word.
    pub struct HostRdMeta {
        pub tag: Bits<8>,
        pub last: bool,
        pub err: bool,
    }
}

packed_struct! {
    /// Read completion of a control block: whole 64-byte units, in order within a tag.
    pub struct CtlFill {
        pub data: Bits<512>,
        pub tag: Bits<8>,
        pub last: bool,
        pub err: bool,
    }
}

packed_struct! {
    /// Beside one bus word of a host write, lanes aligned to the address as in [`HostRdMeta`]. `pasid`, `addr`,
    /// `len` are valid (and constant) in every word of the request. Never crosses 4 KiB, at most MPS bytes.
    pub struct HostWrMeta {
        pub pasid: Bits<12>,
        pub addr: Bits<64>,
        pub len: Bits<13>,
        pub sop: bool,
        pub eop: bool,
        pub stamp: Bits<48>,
    }
}

packed_struct! {
    /// A queue of a QP has reached (or been freed up to) an index, modulo 2^16.
    pub struct QpIdx {
        pub qp: Bits<12>,
        pub idx: Bits<16>,
    }
}

packed_struct! {
    /// CQ doorbell. `arm`: 0 none, 1 next, 2 solicited.
    pub struct CqDb {
        pub cq: Bits<12>,
        pub ci: Bits<24>,
        pub arm: Bits<2>,
    }
}

packed_struct! {
    /// A command doorbell: block address and the page (PASID) that rang.
    pub struct CmdDb {
        pub pasid: Bits<12>,
        pub addr: Bits<64>,
    }
}

packed_struct! {
    /// Packet (or piece of one) for the transmit path: the first transfer of a packet carries the header
    /// fields and the first payload segment; further segments follow with `first` = 0. `kind` 1 is a fence
    /// token (first = last = 1, no payload): it comes out of the egress when everything before it is done.
    pub struct TxCmd {
        pub first: bool,
        pub last: bool,
        /// 0 packet, 1 fence token.
        pub kind: Bits<2>,
        pub qp: Bits<12>,
        pub opcode: Bits<8>,
        pub psn: Bits<24>,
        pub ackreq: bool,
        pub se: bool,
        pub ip6: bool,
        pub vlan: bool,
        /// Payload bytes of the whole packet, 0..=4096.
        pub len: Bits<13>,
        pub va: Bits<64>,
        pub rkey: Bits<32>,
        /// DMALen of a RETH. UD: the QPN that sends. An atomic request carries its compare operand in `imm` (low half) and `dlen`, the other one in `seg_va`.
        pub dlen: Bits<32>,
        pub imm: Bits<32>,
        /// AETH word: syndrome in bits 31:24, MSN in 23:0.
        pub aeth: Bits<32>,
        /// From the READ responder (reported by the egress when sent, errors go to the responder).
        pub resp: bool,
        /// Reported when sent: each packet of the READ responder, the last of a UC or UD message.
        pub resp_end: bool,
        pub stamp: Bits<48>,
        /// This segment: MR index, virtual address, bytes (0 = none).
        pub seg_mr: Bits<16>,
        pub seg_va: Bits<64>,
        pub seg_len: Bits<13>,
        /// The segment is not in host memory but here: `seg_len` (at most 32) bytes of `idata`, lowest byte first.
        pub inl: bool,
        pub idata: Bits<256>,
    }
}

packed_struct! {
    /// Frame without payload: ACK, NAK, RNR NAK (opcode 0x11) or CNP (0x81).
    pub struct AckCmd {
        pub qp: Bits<12>,
        pub opcode: Bits<8>,
        pub psn: Bits<24>,
        pub aeth: Bits<32>,
    }
}

packed_struct! {
    /// What the egress reports of a frame that has left (or was dropped because its payload could not be read).
    pub struct TxDone {
        pub qp: Bits<12>,
        pub resp: bool,
        pub resp_end: bool,
        /// The host refused to read the payload: the frame was not sent.
        pub fault: bool,
    }
}

packed_struct! {
    /// A received packet: ICRC good, well formed, opcode known, in the receive buffer.
    pub struct RxPkt {
        pub opcode: Bits<8>,
        pub se: bool,
        pub ackreq: bool,
        pub qpn: Bits<24>,
        pub psn: Bits<24>,
        /// RETH (or AtomicETH address and rkey). ATOMIC ACK: the original data. DETH: Q_Key in the high half, source QPN in the low 24 bits.
        pub va: Bits<64>,
        pub rkey: Bits<32>,
        pub dlen: Bits<32>,
        pub aeth: Bits<32>,
        /// Immediate data or IETH rkey, first wire byte in the lowest byte.
        pub imm: Bits<32>,
        /// Source IP in GID form (first wire byte lowest) for the source check.
        pub sip: Bits<128>,
        pub ce: bool,
        /// Operands of an AtomicETH: swap or add, compare.
        pub swap: Bits<64>,
        pub cmp: Bits<64>,
        /// Payload: byte address in the receive buffer (word index * W/8 + offset), and bytes.
        pub src: Bits<20>,
        pub len: Bits<13>,
        /// Buffer slot; released by a PlJob with `free`.
        pub slot: Bits<7>,
        pub stamp: Bits<48>,
    }
}

packed_struct! {
    /// Job of the placement engine. Jobs are carried out in order; a CQE is written after all payload of
    /// the jobs before it.
    pub struct PlJob {
        /// 0 nothing (only `free`), 1 write payload, 2 write a CQE, 3 fence token.
        pub kind: Bits<2>,
        /// Releases receive-buffer slot `slot` when done.
        pub free: bool,
        pub slot: Bits<7>,
        /// kind 1: destination.
        pub mr: Bits<16>,
        pub va: Bits<64>,
        pub len: Bits<13>,
        pub src: Bits<20>,
        pub stamp: Bits<48>,
        /// kind 1: the payload is not in the receive buffer but in the job: 8 bytes, `length` then `imm`, each lowest byte first; `src` is 0.
        pub inl: bool,
        /// kind 2: completion.
        pub cq: Bits<12>,
        pub qpn: Bits<24>,
        pub opcode: Bits<8>,
        pub index: Bits<16>,
        pub status: Bits<8>,
        pub is_recv: bool,
        pub with_imm: bool,
        pub with_inv: bool,
        /// The first 40 bytes are the GRH area; the source QPN is in `va`.
        pub grh: bool,
        pub solicited: bool,
        pub length: Bits<32>,
        pub imm: Bits<32>,
    }
}

packed_struct! {
    /// Acknowledgement wish of the responder, per QP; a newer one replaces an unsent older one.
    pub struct AckReq {
        pub qp: Bits<12>,
        pub psn: Bits<24>,
        /// Syndrome in bits 31:24, MSN in 23:0.
        pub aeth: Bits<32>,
    }
}

packed_struct! {
    /// READ or atomic request accepted by the responder, for the READ responder.
    pub struct ReadJob {
        pub qp: Bits<12>,
        /// 0 READ, 1 compare and swap, 2 fetch and add (`len` is 8).
        pub op: Bits<2>,
        /// A duplicate: an atomic is not executed again, its result is.
        pub dup: bool,
        pub swap: Bits<64>,
        pub cmp: Bits<64>,
        pub psn: Bits<24>,
        pub msn: Bits<24>,
        pub va: Bits<64>,
        pub rkey: Bits<32>,
        pub len: Bits<32>,
        pub stamp: Bits<48>,
    }
}

packed_struct! {
    /// Order from the command sequencer to a block that keeps QP state. `ready` rises for one cycle when
    /// it has been carried out, together with the answer on `ctl_psn`/`ctl_idx` where the op has one.
    pub struct QpCtl {
        /// See [`ctl`].
        pub op: Bits<3>,
        pub qp: Bits<12>,
        pub psn: Bits<24>,
        pub status: Bits<8>,
    }
}

/// `QpCtl.op`.
pub mod ctl {
    /// Forget everything about the QP (RESET): indices and state to zero. The responder answers with the SRQ entry that the QP held
    /// (bit 16 of the PSN: there is one).
    pub const RESET: u64 = 0;
    /// Become live with start PSN `psn` (responder at RTR, requester at RTS).
    pub const START: u64 = 1;
    /// The QP is in ERR: complete all posted work with WR_FLUSH_ERR, in order; a non-zero `status`
    /// is given to the oldest send WQE instead.
    pub const FLUSH: u64 = 2;
    /// Finish the packet at hand and send a fence token down each output path.
    pub const FENCE: u64 = 3;
    /// Answer with the PSN (next to send / next expected; the limit of an SRQ) and, from the requester, the oldest unit.
    pub const QUERY: u64 = 4;
    /// Look at the QP again (SQD left, configuration changed).
    pub const KICK: u64 = 5;
    /// Responder: the limit of an SRQ is `psn`, 0 for none.
    pub const LIMIT: u64 = 6;
}

packed_struct! {
    /// A QP must go to ERR. `kind`: 0 requester error (already completed with its own status), 1 responder
    /// error (QP_REQ_ERR event), 2 responder access error (QP_ACCESS_ERR event), 3 host fault while reading
    /// send payload (status LOC_PROT for the oldest WQE), 4 CQ overflow, 5 host fault in a READ response,
    /// 6 send ring that can't be read (status LOC_PROT, QP_FATAL event). Of an SRQ: 1, ring that can't be read.
    pub struct QpErr {
        pub qp: Bits<12>,
        pub kind: Bits<3>,
    }
}

packed_struct! {
    /// Event for the event queue of a PASID (`cqe::event` kinds).
    pub struct Event {
        pub pasid: Bits<12>,
        pub kind: Bits<8>,
        pub id: Bits<24>,
    }
}

packed_struct! {
    /// Request to translate `len` (1..=4096) bytes at `va` of MR `mr`; `tag` comes back with each chunk.
    pub struct XlReq {
        pub mr: Bits<16>,
        pub va: Bits<64>,
        pub len: Bits<13>,
    }
}

packed_struct! {
    /// A piece that lies in one page, does not cross 4 KiB and is at most the request limit (MPS or MRRS).
    pub struct XlChunk {
        pub pasid: Bits<12>,
        pub addr: Bits<64>,
        pub len: Bits<13>,
        /// Last chunk of its request.
        pub last: bool,
        /// The page list could not be read.
        pub err: bool,
    }
}
