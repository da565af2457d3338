//! Entries of the card's tables. The command sequencer is the only writer of all of these, but that the window unit also changes [`mr_check`].

use crate::{codes, layout};

layout! {
    /// QP configuration part (32 B).
    qp_cfg: 256 {
        state: 0, 3, "State";
        qp_type: 3, 2, "Type; an entry of type SRQ is a receive ring with PD and owner, in state INIT";
        ip6: 5, 1, "Packets are IPv6 (else IPv4)";
        vlan: 6, 1, "Packets carry a VLAN tag";
        srq: 7, 1, "Receives come from an SRQ";
        tag: 8, 16, "QPN bits above the table index: a packet whose QPN differs is not for this QP";
        dqpn: 24, 24, "Destination QPN";
        pasid: 48, 12, "Process address space of rings and buffers";
        mtu: 60, 3, "Path MTU: 1 = 256 .. 5 = 4096 bytes";
        pd: 64, 12, "Protection domain";
        scq: 76, 12, "Send CQN";
        rcq: 88, 12, "Receive CQN";
        acc_write: 100, 1, "Remote WRITE allowed";
        acc_read: 101, 1, "Remote READ allowed";
        acc_atomic: 102, 1, "Remote atomics allowed";
        sq_log: 104, 4, "log2 of the send ring, units";
        rq_log: 108, 4, "log2 of the receive ring, units";
        rq_stride: 112, 2, "log2 of units per receive entry (0..=2)";
        retry_cnt: 116, 3, "Timeouts and sequence NAKs before RETRY_EXC";
        rnr_retry: 119, 3, "RNR NAKs before RNR_RETRY_EXC; 7 = no limit";
        timeout: 122, 5, "Local ACK timeout, 4.096 us * 2^n; 0 = never";
        min_rnr: 127, 5, "RNR timer code sent in RNR NAKs";
        max_rd: 132, 5, "READs and atomics in flight as requester";
        max_dest_rd: 137, 5, "READs and atomics in flight as responder";
        sq_base: 144, 48, "Bus address of the send ring in 4 KiB units";
        rq_base: 192, 48, "Bus address of the receive ring in 4 KiB units";
        srqn: 240, 12, "Table index of the SRQ";
    }
}

layout! {
    /// Address vector of a connected QP, read by the frame builder. Addresses hold their first wire
    /// byte in the lowest byte. IPv4 addresses are in the last four bytes of the GID form.
    av: 512 {
        dqpn: 0, 24, "Destination QPN";
        ip6: 24, 1, "IPv6 (else IPv4)";
        has_vlan: 25, 1, "Insert a VLAN tag";
        pcp: 26, 3, "VLAN priority";
        hop_limit: 32, 8, "TTL or hop limit";
        tclass: 40, 8, "TOS or traffic class (DSCP and ECN)";
        vlan: 48, 12, "VLAN id";
        sport: 64, 16, "UDP source port";
        dmac: 80, 48, "Destination MAC";
        flow_label: 128, 20, "IPv6 flow label";
        smac: 160, 48, "Source MAC";
        sip: 208, 128, "Source IP in GID form";
        dip: 336, 128, "Destination IP in GID form";
        qkey: 464, 32, "Q_Key of a UD QP, whose other fields here are unused";
    }
}

layout! {
    /// MR entry, access-check part. A memory window is an entry, too; its translation is that of its MR, `parent`.
    mr_check: 192 {
        valid: 0, 1, "Registered; window: bound";
        local_write: 1, 1, "Local write allowed";
        remote_write: 2, 1, "Remote write allowed";
        remote_read: 3, 1, "Remote read allowed";
        remote_atomic: 4, 1, "Remote atomics allowed";
        mw_bind: 5, 1, "Windows may be bound to it";
        window: 6, 1, "A memory window";
        type2: 7, 1, "Window of type 2: only its QP has access";
        variant: 8, 8, "Low byte of the key";
        pd: 16, 12, "Protection domain";
        qpn: 32, 24, "Window of type 2: the QP that bound it";
        va: 64, 64, "First virtual address";
        len: 128, 48, "Bytes";
        parent: 176, 16, "Window: index of its MR";
    }
}

layout! {
    /// MR entry, translation part. Page `k` covers `va_page + k`, with its bus address at `list + 8 k`.
    mr_map: 128 {
        page_shift: 0, 6, "log2 of the page size, 12..=30";
        list: 12, 52, "Bus address of the page list in units of 64 bytes (8 entries)";
        va_page: 64, 52, "First virtual address in 4 KiB units, rounded down to a page";
        pasid: 116, 12, "Owner";
    }
}

layout! {
    /// CQ entry, the part that the command sequencer writes.
    cq: 128 {
        valid: 0, 1, "Created";
        log: 1, 5, "log2 of the ring";
        pasid: 8, 12, "Owner";
        base: 64, 48, "Bus address of the ring in 4 KiB units";
    }
}

codes! {
    /// QP states.
    qp_state {
        RESET = 0, "Nothing is sent or received";
        INIT = 1, "Receives may be posted";
        RTR = 2, "Answers requests";
        RTS = 3, "Sends and answers";
        SQD = 4, "Send queue drained: what has begun ends, the rest waits";
        SQE = 5, "Send queue error (UC, UD): sends are flushed, receives live";
        ERR = 6, "Both queues are flushed";
    }
}
codes! {
    /// QP types.
    qp_type {
        RC = 0, "Reliable connection";
        UC = 1, "Unreliable connection";
        UD = 2, "Unreliable datagram";
        SRQ = 3, "No QP: a shared receive queue, whose number is a QPN like any other";
    }
}
