//! Send and receive work queue entries, in units of 64 bytes.
//!
//! A send WQE takes 1..=5 consecutive units: unit 0 is [`sq`] with the first two SGEs; further units
//! hold four SGEs each ([`sge_unit`]). A UD WQE puts [`ud_av`] in unit 1 and SGEs 2.. from unit 2.
//! Inline data is where the SGEs of unit 0 would be. An atomic puts
//! its operands where SGE 1 would be. BIND_MW is [`bind`]; LOCAL_INV has its key in `imm`; neither has SGEs. The ring index counts units and wraps at 2^16; the slot is the
//! index modulo the ring size, and a WQE may wrap from the last slot to slot 0.

use crate::{codes, layout};

pub const UNIT: usize = 64;
pub const MAX_UNITS: usize = 5;
pub const MAX_SGE: usize = 16;
/// Bytes of inline data: the place of the two SGEs of unit 0.
pub const MAX_INLINE: usize = 32;
/// First byte of inline data in unit 0.
pub const INLINE_AT: usize = 32;

layout! {
    /// Unit 0 of a send WQE.
    sq: 512 {
        opcode: 0, 8, "Operation";
        signaled: 8, 1, "Write a CQE on success (errors always write one)";
        fence: 9, 1, "Start only after all earlier READs and atomics have completed";
        solicited: 10, 1, "Set the SE bit on the last packet";
        inline: 11, 1, "SEND, WRITE: the payload, at most 32 bytes, is at byte 32 of unit 0; no SGE";
        num_sge: 16, 5, "Number of SGEs, 0..=16";
        units: 24, 3, "64-byte units of this WQE, 1..=5";
        imm: 32, 32, "Immediate data, SEND_INV: rkey to invalidate (both in wire byte order, untouched); LOCAL_INV: rkey to invalidate";
        length: 64, 32, "Message bytes, the sum of the SGE lengths, 0..=2^31";
        index: 96, 16, "Unit index of this WQE (compared with the ring position: a stale entry is an error)";
        remote_va: 128, 64, "Remote virtual address (WRITE, READ, atomics)";
        rkey: 192, 32, "Remote key";
        qpn: 224, 24, "QPN; looked at only when the unit is written as a direct WQE";
        sge0_va: 256, 64, "SGE 0 virtual address";
        sge0_len: 320, 32, "SGE 0 bytes";
        sge0_key: 352, 32, "SGE 0 lkey";
        sge1_va: 384, 64, "SGE 1 virtual address; atomics: swap or add operand";
        sge1_len: 448, 32, "SGE 1 bytes; atomics: compare operand, low half";
        sge1_key: 480, 32, "SGE 1 lkey; atomics: compare operand, high half";
    }
}

layout! {
    /// BIND_MW: one unit, with `signaled`, `fence`, `units`, `index` and `qpn` as in [`sq`]; `num_sge` and `length` are 0.
    /// Begins when all earlier work of the queue is complete, as LOCAL_INV does.
    bind: 512 {
        key: 32, 32, "Window: its index, and as lowest byte the one that its key shall have";
        va: 128, 64, "First virtual address";
        len: 256, 48, "Bytes; 0: the window is not bound any more, and nothing below is looked at";
        write: 321, 1, "Remote write allowed (only to an MR with local write)";
        read: 322, 1, "Remote read allowed";
        atomic: 323, 1, "Remote atomics allowed (only to an MR with local write)";
        lkey: 352, 32, "The MR";
    }
}

layout! {
    /// Four SGEs: units 1.. of a send WQE.
    sge_unit: 512 {
        va0: 0, 64, "Virtual address";
        len0: 64, 32, "Bytes";
        key0: 96, 32, "lkey";
        va1: 128, 64, "Virtual address";
        len1: 192, 32, "Bytes";
        key1: 224, 32, "lkey";
        va2: 256, 64, "Virtual address";
        len2: 320, 32, "Bytes";
        key2: 352, 32, "lkey";
        va3: 384, 64, "Virtual address";
        len3: 448, 32, "Bytes";
        key3: 480, 32, "lkey";
    }
}

layout! {
    /// Address vector of a UD send, unit 1.
    ud_av: 512 {
        dqpn: 0, 24, "Destination QPN";
        hop_limit: 24, 8, "IP TTL or hop limit";
        qkey: 32, 32, "Q_Key";
        dmac: 64, 48, "Destination MAC, first wire byte in the lowest byte";
        sport: 112, 16, "UDP source port";
        dgid: 128, 128, "Destination GID, first wire byte in the lowest byte; IPv4 as ::ffff:a.b.c.d";
        flow_label: 256, 20, "IPv6 flow label";
        tclass: 280, 8, "IP TOS or traffic class";
        vlan: 288, 12, "VLAN id";
        pcp: 300, 3, "VLAN priority";
        has_vlan: 303, 1, "Insert a VLAN tag";
        sgid_index: 304, 4, "Source GID index";
        ip6: 308, 1, "IPv6 (else IPv4)";
    }
}

layout! {
    /// A unit of a receive WQE, four SGEs; unused SGEs are zero. Longer lists take 2 or 4 units, aligned to their number. Ring indices count units.
    /// Keys have 24 bits; in an SRQ the bits above those of SGE 0 (low byte) and SGE 1 (high byte) of the first unit are the entry's number, which comes back as `cqe.index`.
    rq: 512 {
        va0: 0, 64, "Virtual address";
        len0: 64, 32, "Bytes";
        key0: 96, 32, "lkey";
        va1: 128, 64, "Virtual address";
        len1: 192, 32, "Bytes";
        key1: 224, 32, "lkey";
        va2: 256, 64, "Virtual address";
        len2: 320, 32, "Bytes";
        key2: 352, 32, "lkey";
        va3: 384, 64, "Virtual address";
        len3: 448, 32, "Bytes";
        key3: 480, 32, "lkey";
    }
}

codes! {
    /// Operations of a send WQE.
    op {
        SEND = 0, "SEND";
        SEND_IMM = 1, "SEND with immediate data";
        SEND_INV = 2, "SEND with invalidate";
        WRITE = 3, "RDMA WRITE";
        WRITE_IMM = 4, "RDMA WRITE with immediate data";
        READ = 5, "RDMA READ";
        CMP_SWAP = 6, "Compare and swap";
        FETCH_ADD = 7, "Fetch and add";
        LOCAL_INV = 8, "Local invalidate";
        BIND_MW = 9, "Bind memory window";
        NOP = 10, "Completes";
    }
}
