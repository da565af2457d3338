//! BAR map. Page 0 (4 KiB) is the administrator's; page `p` (1..) is the doorbell page of PASID `p`.
//! The card accepts a doorbell only for objects of that PASID; others are counted and ignored.

use crate::layout;

pub const PAGE: u32 = 4096;
/// Bits of a BAR offset.
pub const BAR_BITS: u32 = 24;

/// Window onto the ROM that holds the capability manifest: the last [`ROM_MAX`] bytes of the BAR, read in words of 32 bits (little-endian), zero
/// behind the image. A host finds it by the registers `ROM_OFFSET` and `ROM_BYTES`, or by a PCIe DVSEC with the same two values.
pub const ROM_BASE: u32 = (1 << BAR_BITS) - ROM_MAX;
pub const ROM_MAX: u32 = 1 << 16;

/// How a register may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Ro,
    Rw,
    Wo,
}

/// A register or doorbell: offset in its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register {
    pub name: &'static str,
    pub offset: u32,
    pub access: Access,
    pub doc: &'static str,
}

macro_rules! registers {
    ($($id:ident $off:literal $acc:ident $doc:literal;)*) => {
        $(#[doc = $doc] pub const $id: u32 = $off;)*
        pub const TABLE: &[super::Register] = &[$(super::Register {
            name: stringify!($id),
            offset: $off,
            access: super::Access::$acc,
            doc: $doc,
        }),*];
    };
}

/// Page 0 registers (32 bit).
pub mod admin {
    /// "MRCE" in ASCII, little-endian.
    pub const ID_VALUE: u32 = 0x4543_524D;
    /// Bits of `FEATURES`.
    pub const FEATURE_ATOMICS: u32 = 1;
    pub const FEATURE_WINDOWS: u32 = 2;
    pub const FEATURE_SRQ: u32 = 4;
    pub const FEATURE_DIRECT: u32 = 8;
    pub const FEATURE_TRANSPORT: u32 = 16;
    pub const FEATURE_RAW: u32 = 32;
    pub const FEATURES_ALL: u32 = FEATURE_ATOMICS
        | FEATURE_WINDOWS
        | FEATURE_SRQ
        | FEATURE_DIRECT
        | FEATURE_TRANSPORT
        | FEATURE_RAW;
    registers! {
        ID 0x000 Ro "Identification, `0x4543524D` (\"MRCE\" in ASCII, little-endian)";
        ABI 0x004 Ro "Host interface version: major << 16 | minor";
        LOG_QP 0x008 Ro "log2 of the QP table";
        LOG_MR 0x00C Ro "log2 of the MR table";
        LOG_CQ 0x010 Ro "log2 of the CQ table";
        BUS_BITS 0x014 Ro "Data path width in bits";
        MAX_SGE 0x018 Ro "SGEs per work request";
        MAX_RD 0x01C Ro "READs and atomics in flight per QP, either role";
        MAX_PASID 0x020 Ro "Highest PASID";
        CLOCK_10KHZ 0x024 Ro "Core clock in units of 10 kHz (32227 = 322.27 MHz)";
        FEATURES 0x028 Ro "What this card can do beyond SEND, WRITE and READ. Bit 0: atomics. Bit 1: memory windows, invalidation. Bit 2: shared receive queues. Bit 3: inline data, direct WQEs. Bit 4: queue pairs, commands and rings in hardware. Bit 5: raw packet queues";
        LOG_PD 0x02C Ro "log2 of the PD table";
        ROM_OFFSET 0x030 Ro "BAR offset of the window onto the ROM with the capability manifest (its CBOR image)";
        ROM_BYTES 0x034 Ro "Bytes of that image";
        PCIE_LIMITS 0x040 Rw "Bits 2:0 log2(MPS/128) (0..=2), bits 6:4 log2(MRRS/128) (0..=5)";
        LINK 0x044 Rw "Bit 0: link up. Down: frames neither leave nor enter. A change is PORT_ACTIVE or PORT_ERR in every event queue";
        MAC_LO 0x048 Rw "The port's MAC, low 32 bits (first wire byte lowest)";
        MAC_HI 0x04C Rw "The port's MAC, high 16 bits";
        SEED 0x050 Rw "Seed of the QPN and key generators";
        LIMIT_MR_QP 0x054 Rw "What a process may have at most: MRs in bits 15:0, QPs in bits 31:16. 0xFFFF: no limit. An allocation beyond is refused with ENOMEM";
        LIMIT_CQ_PD 0x058 Rw "The same for CQs (bits 15:0) and PDs (bits 31:16)";
        COUNTERS 0x400 Ro "Counter `i` is 64 bit at `COUNTERS + 8 i`";
    }
}

/// Offsets in a doorbell page. Doorbells are single 64-bit writes.
pub mod doorbell {
    registers! {
        SQ 0x00 Wo "Send queue: `db_queue`";
        RQ 0x08 Wo "Receive queue or SRQ: `db_queue`";
        CQ 0x10 Wo "Completion queue: `db_cq`";
        EQ 0x18 Wo "Event queue: `db_eq`";
        CMD 0x20 Wo "Bus address of a command block";
        RAW_TX_RING 0x40 Wo "Raw packets to send: the ring, `raw_ring`";
        RAW_RX_RING 0x48 Wo "Raw packets received: the ring, `raw_ring`";
        RAW_TX 0x50 Wo "One frame to send: `raw_tx`";
        RAW_RX 0x58 Wo "Received frames are consumed: `raw_rx`";
        DIRECT_WQE 0x100 Wo "64-byte write of unit 0 of a WQE that is also in the ring";
    }
}

layout! {
    /// SQ and RQ doorbell: the new producer index.
    db_queue: 64 {
        qpn: 0, 24, "QPN or SRQN";
        pi: 32, 16, "Producer index, units modulo 2^16";
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

/// Bytes of a slot of a raw ring: slot `i` is at base + (i modulo slots) * RAW_SLOT.
pub const RAW_SLOT: u32 = 8192;
/// Offset of the frame in a slot of received frames; the head is before it.
pub const RAW_RX_FRAME: u32 = 64;
/// A frame to send, without ICRC and FCS.
pub const RAW_TX_MIN: u32 = 54;
pub const RAW_TX_MAX: u32 = 4096 + 110;
/// log2 of the slots of a ring.
pub const RAW_LOG_MIN: u32 = 2;
pub const RAW_LOG_MAX: u32 = 10;
/// The PASID of a received frame is in the destination QPN, above so many bits.
pub const RAW_QPN_BITS: u32 = 18;

layout! {
    /// Doorbells RAW_TX_RING and RAW_RX_RING. Enabling sets the indices of the ring to 0.
    raw_ring: 64 {
        log: 0, 5, "log2 of slots, 2..=10";
        enable: 5, 1, "0: the ring is off";
        base: 12, 36, "Bus address, in units of 4 KiB";
    }
}
layout! {
    /// Doorbell RAW_TX: one write, one frame. When the frames up to an index have been read, in order, a block of 64 bytes with the next index in bits 15:0
    /// (`raw_done`) is written behind the last slot.
    raw_tx: 64 {
        index: 0, 16, "Slot, modulo 2^16";
        len: 16, 16, "Bytes of the frame without ICRC, 54..=4206; others are dropped, and are done";
    }
}
layout! {
    /// Behind the last slot of a ring to send, 64 bytes.
    raw_done: 512 {
        done: 0, 16, "Frames before this index have been read, modulo 2^16";
    }
}
layout! {
    /// Doorbell RAW_RX.
    raw_rx: 64 {
        ci: 0, 16, "Slots before this index may be written again, modulo 2^16";
        arm: 16, 1, "Interrupt at the next frame; at once if there is one at this index";
    }
}
layout! {
    /// Head of a received frame, in front of its slot and written last; the frame is from byte 64 on.
    raw_head: 512 {
        len: 0, 16, "Bytes of the frame from the Ethernet header on, without ICRC and FCS";
        ce: 16, 1, "CE was set";
        phase: 63, 1, "1 in the first lap of the ring, 0 in the second, and so on";
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
    db_refused "Doorbells refused (PASID, QPN or CQN does not match); raw frames that were not sent (length, ring off, slot that can't be read)";
    host_reads "Host read requests";
    host_read_bytes "Bytes of those";
    host_writes "Host write requests";
    host_write_bytes "Bytes of those";
    mtt_misses "Page-list cache misses";
    cmds "Commands executed";
    cmds_refused "Commands refused";
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn registers_are_in_order_and_in_their_page() {
        for t in [admin::TABLE, doorbell::TABLE] {
            assert!(t.windows(2).all(|w| w[0].offset < w[1].offset));
        }
        assert!(admin::COUNTERS + 8 * COUNTERS.len() as u32 <= PAGE);
    }
}
