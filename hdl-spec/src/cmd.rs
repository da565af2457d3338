//! Commands. A command block is 192 bytes, 64-byte aligned, in the caller's memory: 128 bytes of
//! command, then the 64-byte [`response`]. Writing its bus address to the command doorbell of the
//! caller's page starts it; one command per PASID is in flight. The card writes the response in one
//! write; it is valid when `response.seq` equals the command's `seq` (take `seq` from 1 upwards).
//! `status` is 0 or a positive errno; a refused command changes nothing.

use crate::{codes, layout};

pub const CMD_BYTES: usize = 128;
pub const BLOCK_BYTES: usize = 192;
pub const RESP_OFFSET: usize = 128;

codes! {
    /// Command opcodes.
    op {
        NOP = 0, "Answers";
        ALLOC_PD = 1, "New protection domain in `response.id`";
        DEALLOC_PD = 2, "Frees PD `id`; EBUSY while an MR, window, QP or SRQ uses it";
        CREATE_EQ = 3, "Event queue of this PASID; the first command of a process";
        CREATE_CQ = 4, "New CQN in `response.id`";
        DESTROY_CQ = 5, "Destroys CQN `id`; EBUSY while a QP uses it";
        REG_MR = 6, "New key (lkey = rkey) in `response.id`";
        DEREG_MR = 7, "Frees key `id`; no DMA through it afterwards; EBUSY while a window is bound to it";
        CREATE_QP = 8, "New QPN in `response.id`, state RESET";
        MODIFY_QP = 9, "State and attributes of QPN `id`";
        QUERY_QP = 10, "State, PSNs and send queue head of QPN `id`";
        DESTROY_QP = 11, "Destroys QPN `id`; no DMA and no CQE afterwards";
        TEARDOWN = 12, "Admin page only: destroys all that PASID `id` owns";
        SET_GID = 13, "Admin page only: source addresses of one GID index";
        REREG_MR = 14, "Replaces all of key `id` by the fields of REG_MR; the key stays, and no DMA through the old range afterwards; EBUSY as DEREG_MR";
        RESIZE_CQ = 15, "CQN `id` goes on in the ring of CREATE_CQ's fields; no CQE goes to the old one afterwards";
        ALLOC_MW = 16, "New key of a memory window, not bound, in `response.id`";
        DEALLOC_MW = 17, "Frees window `id`, bound or not; no DMA through it afterwards";
        CREATE_SRQ = 18, "New SRQN in `response.id`; it is a QPN of the same table, and its receive doorbell is that of a QP";
        MODIFY_SRQ = 19, "Arms the limit of SRQN `id`";
        QUERY_SRQ = 20, "Armed limit of SRQN `id` in `response.rq_psn`, 0 for none";
        DESTROY_SRQ = 21, "Destroys SRQN `id`; EBUSY while a QP uses it";
    }
}

codes! {
    /// Response status: Linux errno values.
    errno {
        OK = 0, "Done";
        EPERM = 1, "Not allowed from this page";
        ENOENT = 2, "No such object, or not this PASID's";
        ENOMEM = 12, "The table is full";
        EBUSY = 16, "Another object still uses it";
        EINVAL = 22, "A field or attribute mask is not legal";
        EOPNOTSUPP = 95, "This configuration leaves it out";
    }
}

layout! {
    /// Head of every command. `id` is the object: PD, CQN, MR key, QPN or PASID.
    head: 1024 {
        opcode: 0, 8, "Command";
        seq: 32, 32, "Copied into the response; not 0";
        id: 64, 32, "Object that the command acts on";
    }
}

layout! {
    /// Response to every command.
    response: 512 {
        id: 0, 32, "Created object (PD, CQN, key, QPN)";
        state: 32, 8, "QUERY_QP: state";
        sq_psn: 64, 24, "QUERY_QP: next PSN to send";
        rq_psn: 96, 24, "QUERY_QP: next PSN expected. QUERY_SRQ: limit. DESTROY_QP, MODIFY_QP to RESET: bit 16 says that the QP held the SRQ entry of bits 15:0, which is gone";
        sq_head: 128, 16, "QUERY_QP: oldest send unit not completed";
        status: 448, 8, "0 or a positive errno";
        seq: 480, 32, "Sequence of the command; written last";
    }
}

layout! {
    /// CREATE_EQ: one per PASID.
    create_eq: 1024 {
        log: 96, 5, "log2 of entries, 4..=16";
        base: 128, 64, "Bus address, 4 KiB aligned";
    }
}
layout! {
    /// CREATE_CQ and RESIZE_CQ. The ring is zeroed.
    create_cq: 1024 {
        log: 96, 5, "log2 of entries, 4..=16";
        base: 128, 64, "Bus address, 4 KiB aligned";
    }
}
layout! {
    /// REG_MR and REREG_MR. The page list holds 8-byte bus addresses, is 64-byte aligned and stays in place until the next REREG_MR or DEREG_MR.
    reg_mr: 1024 {
        pd: 96, 12, "Protection domain";
        access: 108, 4, "bit 0 local write, 1 remote write, 2 remote read, 3 remote atomic (as IBV_ACCESS_*)";
        page_shift: 112, 6, "log2 of the page size, 12..=30";
        mw_bind: 118, 1, "Windows may be bound";
        list: 128, 64, "Bus address of the page list";
        va: 192, 64, "First virtual address";
        len: 256, 64, "Bytes, 1..=2^40";
    }
}
layout! {
    /// ALLOC_MW.
    alloc_mw: 1024 {
        pd: 96, 12, "Protection domain";
        type2: 108, 1, "Type 2 (else type 1)";
    }
}
layout! {
    /// CREATE_QP. Rings are 4 KiB aligned.
    create_qp: 1024 {
        qp_type: 96, 2, "As `qp_cfg.qp_type`";
        sq_log: 98, 4, "log2 of the send ring, units (4..=15)";
        rq_log: 102, 4, "log2 of the receive ring, units (0..=15)";
        rq_stride: 106, 2, "log2 of units per receive entry (0..=2); with an SRQ that of the SRQ";
        pd: 108, 12, "Protection domain; with an SRQ that of the SRQ";
        srq: 120, 1, "Receives come from SRQ `srqn`: RC and UD";
        sq_base: 128, 64, "Bus address";
        rq_base: 192, 64, "Bus address";
        scq: 256, 12, "Send CQN";
        rcq: 272, 12, "Receive CQN";
        srqn: 288, 32, "SRQN";
    }
}
layout! {
    /// CREATE_SRQ. The ring is 4 KiB aligned.
    create_srq: 1024 {
        log: 102, 4, "log2 of the ring, units (0..=15)";
        stride: 106, 2, "log2 of units per entry (0..=2)";
        pd: 108, 12, "Protection domain";
        base: 192, 64, "Bus address";
    }
}
layout! {
    /// MODIFY_SRQ. SRQ_LIMIT comes once, when fewer units than the limit are posted (at once if they are), and disarms it.
    modify_srq: 1024 {
        limit: 96, 16, "Units; 0 disarms";
    }
}
layout! {
    /// MODIFY_QP. `mask` are the IBV_QP_* bits; fields of bits that are not set are not looked at.
    modify_qp: 1024 {
        mask: 96, 21, "IBV_QP_* attribute mask";
        next_state: 120, 3, "STATE";
        cur_state: 124, 3, "CUR_STATE";
        acc_write: 128, 1, "ACCESS_FLAGS";
        acc_read: 129, 1, "ACCESS_FLAGS";
        acc_atomic: 130, 1, "ACCESS_FLAGS";
        mtu: 132, 3, "PATH_MTU";
        timeout: 136, 5, "TIMEOUT";
        retry_cnt: 144, 3, "RETRY_CNT";
        rnr_retry: 148, 3, "RNR_RETRY";
        min_rnr: 152, 5, "MIN_RNR_TIMER";
        max_rd: 160, 5, "MAX_QP_RD_ATOMIC";
        max_dest_rd: 168, 5, "MAX_DEST_RD_ATOMIC";
        port: 176, 8, "PORT";
        pkey_index: 184, 8, "PKEY_INDEX";
        dqpn: 192, 24, "DEST_QPN";
        sgid_index: 216, 4, "AV";
        sq_psn: 224, 24, "SQ_PSN";
        rq_psn: 256, 24, "RQ_PSN";
        qkey: 288, 32, "QKEY";
        sport: 320, 16, "AV: UDP source port";
        dmac: 336, 48, "AV: destination MAC";
        dip: 384, 128, "AV: destination GID";
        hop_limit: 512, 8, "AV";
        tclass: 520, 8, "AV";
        vlan: 528, 12, "AV";
        pcp: 540, 3, "AV";
        has_vlan: 543, 1, "AV";
        flow_label: 544, 20, "AV";
        ip6: 564, 1, "AV: IPv6 (else IPv4)";
    }
}
layout! {
    /// SET_GID (admin): source addresses of one GID index.
    set_gid: 1024 {
        index: 96, 4, "GID index";
        ip6: 100, 1, "IPv6 (else IPv4)";
        mac: 128, 48, "Source MAC";
        gid: 256, 128, "GID";
    }
}
layout! {
    /// QUERY_QP has no fields beyond the head; its answer is in the response.
    query_qp_resp: 512 {
        state: 32, 8, "State";
    }
}
