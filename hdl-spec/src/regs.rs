//! BAR map. Page 0 (4 KiB) is the administrator's; page `p` (1..) is the doorbell page of PASID `p`.
//! The card accepts a doorbell only for objects of that PASID; others are counted and ignored.

use crate::layout;

pub const PAGE: u32 = 4096;
/// Bits of a BAR offset.
pub const BAR_BITS: u32 = 24;

/// Page 0 registers (32 bit).
pub mod admin {
    /// "MRCE" in ASCII, little-endian.
    pub const ID: u32 = 0x000;
    pub const ID_VALUE: u32 = 0x4543_524D;
    /// major << 16 | minor of the host ABI.
    pub const ABI: u32 = 0x004;
    pub const LOG_QP: u32 = 0x008;
    pub const LOG_MR: u32 = 0x00C;
    pub const LOG_CQ: u32 = 0x010;
    pub const BUS_BITS: u32 = 0x014;
    pub const MAX_SGE: u32 = 0x018;
    pub const MAX_RD: u32 = 0x01C;
    pub const MAX_PASID: u32 = 0x020;
    /// Clock in units of 10 kHz (32227 = 322.27 MHz).
    pub const CLOCK_10KHZ: u32 = 0x024;
    /// RW: bits 2:0 log2(MPS/128) (0..=2), bits 6:4 log2(MRRS/128) (0..=5).
    pub const PCIE_LIMITS: u32 = 0x040;
    /// RW: bit 0 link up (drives PORT events).
    pub const LINK: u32 = 0x044;
    /// RW: low 32 bits of the port's MAC, then the high 16.
    pub const MAC_LO: u32 = 0x048;
    pub const MAC_HI: u32 = 0x04C;
    /// RW: seed of the QPN and key generators.
    pub const SEED: u32 = 0x050;
    /// Counter `i` is 64 bit at `COUNTERS + 8 i`.
    pub const COUNTERS: u32 = 0x400;
}

/// Offsets in a doorbell page. Doorbells are single 64-bit writes.
pub mod doorbell {
    pub const SQ: u32 = 0x00;
    pub const RQ: u32 = 0x08;
    pub const CQ: u32 = 0x10;
    pub const EQ: u32 = 0x18;
    pub const CMD: u32 = 0x20;
    /// 64-byte write of unit 0 of a WQE that is also in the ring.
    pub const DIRECT_WQE: u32 = 0x100;
}

layout! {
    /// SQ and RQ doorbell: the new producer index.
    db_queue: 64 {
        qpn: 0, 24, "QPN";
        pi: 32, 16, "Producer index: units for an SQ, entries for an RQ, modulo 2^16";
    }
}
layout! {
    /// CQ doorbell: consumer index, and optionally arms the CQ.
    db_cq: 64 {
        cqn: 0, 24, "CQN";
        arm: 24, 2, "0 none, 1 next completion, 2 next solicited or error";
        ci: 32, 24, "Consumer index, modulo 2^24";
    }
}
layout! {
    /// EQ doorbell.
    db_eq: 64 {
        ci: 32, 24, "Consumer index, modulo 2^24";
    }
}

/// A counter and what it counts.
pub struct Counter {
    pub name: &'static str,
    pub doc: &'static str,
}
macro_rules! counters {
    ($($id:ident $doc:literal;)*) => {
        /// Counter indices.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Ctr { $($id),* }
        pub const COUNTERS: &[Counter] = &[$(Counter { name: stringify!($id), doc: $doc }),*];
    };
}
counters! {
    tx_frames "Frames given to the wire";
    tx_bytes "Bytes of those frames, without FCS";
    tx_acks "ACK frames among them";
    tx_naks "NAK frames (sequence, invalid, access, operational)";
    tx_rnr_naks "RNR NAK frames";
    tx_retransmits "Request packets sent again";
    tx_messages "Send work requests completed with success";
    rx_frames "Frames from the wire";
    rx_bytes "Bytes of those frames";
    rx_drop_malformed "Dropped: not a well-formed RoCEv2 frame (L2, IP, UDP, length, pad, version)";
    rx_drop_icrc "Dropped: ICRC mismatch";
    rx_drop_opcode "Dropped: unknown opcode";
    rx_drop_qp "Dropped: no such QP, wrong state, wrong source or wrong type";
    rx_drop_full "Dropped: receive buffer full";
    rx_drop_duplicate "Duplicate requests (re-acknowledged or dropped)";
    rx_drop_sequence "Dropped: out of sequence";
    rx_drop_response "Dropped: response or ACK outside the expected window";
    rx_rnr_naks "RNR NAKs received";
    rx_seq_naks "Sequence NAKs received";
    rx_fatal_naks "Invalid, access and operational NAKs received";
    rx_cnp "CNPs received";
    rx_ecn_marked "Data packets received with CE";
    timeouts "Local ACK timeouts";
    qp_errors "QPs moved to ERR by the card";
    cq_overflows "CQs that overflowed";
    db_refused "Doorbells refused (PASID, QPN or CQN does not match)";
    host_reads "Host read requests";
    host_read_bytes "Bytes of those";
    host_writes "Host write requests";
    host_write_bytes "Bytes of those";
    mtt_misses "Page-list cache misses";
    cmds "Commands executed";
    cmds_refused "Commands refused";
}
