//! MTU, timers, credits and the UDP source port: the small tables of the transport.

/// Path MTU. The discriminant is the verbs enumeration (1..=5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    M256 = 1,
    /// 512 bytes.
    M512 = 2,
    /// 1024 bytes.
    M1024 = 3,
    /// 2048 bytes.
    M2048 = 4,
    /// 4096 bytes.
    M4096 = 5,
}

/// Bytes of headers assumed around the payload when a PMTU is chosen from an Ethernet MTU.
pub const PMTU_HEADER_ALLOWANCE: u32 = 80;

impl Mtu {
    /// All MTUs, smallest first.
    pub const ALL: [Mtu; 5] = [Mtu::M256, Mtu::M512, Mtu::M1024, Mtu::M2048, Mtu::M4096];

    /// From the verbs enumeration (1..=5).
    pub const fn from_code(code: u8) -> Option<Mtu> {
        match code {
            1 => Some(Mtu::M256),
            2 => Some(Mtu::M512),
            3 => Some(Mtu::M1024),
            4 => Some(Mtu::M2048),
            5 => Some(Mtu::M4096),
            _ => None,
        }
    }
    /// Verbs enumeration value.
    pub const fn code(self) -> u8 {
        self as u8
    }
    /// Payload bytes of a full packet.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }
    /// Greatest PMTU that fits an Ethernet MTU in bytes (1500 -> 1024, 9000 -> 4096).
    pub const fn for_ethernet(mtu: u32) -> Option<Mtu> {
        let room = mtu.saturating_sub(PMTU_HEADER_ALLOWANCE);
        match room {
            0..=255 => None,
            256..=511 => Some(Mtu::M256),
            512..=1023 => Some(Mtu::M512),
            1024..=2047 => Some(Mtu::M1024),
            2048..=4095 => Some(Mtu::M2048),
            _ => Some(Mtu::M4096),
        }
    }
    /// PSNs that a message of `len` bytes takes: `max(1, ceil(len / MTU))` (wire facts §5).
    ///
    /// A message above 2^31 bytes is not legal; the result saturates.
    pub const fn packets(self, len: u64) -> u32 {
        if len == 0 {
            return 1;
        }
        let n = (len - 1) / self.bytes() as u64 + 1;
        if n > u32::MAX as u64 {
            u32::MAX
        } else {
            n as u32
        }
    }
}

/// RNR NAK timer codes 0..=31 in microseconds (wire facts §6). Code 0 is the longest, 655.36 ms.
pub const RNR_TIMER_US: [u32; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840,
    5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840,
    245_760, 327_680, 491_520,
];

/// RNR delay of a 5-bit timer code in nanoseconds (high bits ignored).
pub const fn rnr_timer_ns(code: u8) -> u64 {
    RNR_TIMER_US[(code & 31) as usize] as u64 * 1000
}

/// Credit codes 0..=30 of an ACK syndrome in messages. Code 31 carries no credit information.
pub const CREDITS: [u16; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
];

/// Credit code for "no information".
pub const CREDIT_NONE: u8 = 31;

/// Messages granted by a 5-bit credit code; `None` for "no information" and for 32 and above.
pub const fn credits(code: u8) -> Option<u16> {
    if (code as usize) < CREDITS.len() {
        Some(CREDITS[code as usize])
    } else {
        None
    }
}

/// Greatest credit code that does not promise more than `messages`.
pub const fn credit_code(messages: u32) -> u8 {
    let mut code = 0;
    while code + 1 < CREDITS.len() && CREDITS[code + 1] as u32 <= messages {
        code += 1;
    }
    code as u8
}

/// Local ACK timeout 4.096 us x 2^t in nanoseconds; `t` is 5 bits, 0 means never (`None`).
pub const fn ack_timeout_ns(t: u8) -> Option<u64> {
    match t & 31 {
        0 => None,
        t => Some(4096u64 << t),
    }
}

/// UDP source port 0xC000..=0xFFFF for path entropy.
///
/// `flow_label` is the 20-bit IPv6 flow label or the GRH's; 0 derives one from the two QPNs
/// (wire facts §1), so that both directions of a connection may differ but each is stable.
pub const fn udp_source_port(flow_label: u32, local_qpn: u32, remote_qpn: u32) -> u16 {
    let mut fl = flow_label & 0xf_ffff;
    if fl == 0 {
        let mut v = local_qpn as u64 * remote_qpn as u64;
        v ^= v >> 20;
        v ^= v >> 40;
        fl = (v & 0xf_ffff) as u32;
    }
    0xc000 | ((fl & 0x3fff) ^ ((fl & 0xf_c000) >> 14)) as u16
}
