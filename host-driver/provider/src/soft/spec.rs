//! The raw queues' part of the host interface.
use metaroce_hdl_spec::layout;

pub const FEATURE_TRANSPORT: u32 = 16;
pub const FEATURE_RAW: u32 = 32;

/// Bytes of a slot.
pub const RAW_SLOT: usize = 8192;

pub mod doorbell {
    pub const RAW_TX_RING: u32 = 0x40;
    pub const RAW_RX_RING: u32 = 0x48;
    pub const RAW_TX: u32 = 0x50;
    pub const RAW_RX: u32 = 0x58;
}

layout! {
    /// RAW_TX_RING and RAW_RX_RING doorbell.
    raw_ring: 64 {
        log: 0, 5, "log2 of slots, 2..=10";
        enable: 5, 1, "On; all indices begin at 0";
        base: 12, 36, "Bus address of the ring in 4 KiB units";
    }
}
layout! {
    /// RAW_TX doorbell.
    raw_tx: 64 {
        index: 0, 16, "Index of the slot";
        len: 16, 16, "Bytes of the frame, without ICRC and FCS";
    }
}
layout! {
    /// RAW_RX doorbell.
    raw_rx: 64 {
        ci: 0, 16, "Consumer index";
        arm: 16, 1, "Interrupt at the next frame";
    }
}
layout! {
    /// Head of a slot of the receive ring.
    raw_head: 512 {
        len: 0, 16, "Bytes of the frame, without ICRC and FCS";
        flags: 16, 8, "Bit 0: CE was set";
        phase: 63, 1, "Lap phase";
    }
}
