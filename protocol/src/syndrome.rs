//! AETH syndrome (wire facts §6).

/// Reason of a NAK; the discriminant is the low five bits of the syndrome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// 0x60: a PSN is missing; carries the expected PSN.
    PsnSequence = 0,
    /// 0x61: operation, sequence or length not allowed.
    InvalidRequest = 1,
    /// 0x62: rkey, bounds, protection domain or rights.
    RemoteAccess = 2,
    /// 0x63: the responder failed locally.
    RemoteOperational = 3,
}

/// Decoded syndrome byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// 0x00..=0x1F: positive, with a 5-bit credit code (31: none).
    Ack {
        /// Credit code, see [`crate::timing::credits`].
        credit: u8,
    },
    /// 0x20..=0x3F: receiver not ready, with a 5-bit timer code.
    Rnr {
        /// Timer code, see [`crate::timing::rnr_timer_ns`].
        timer: u8,
    },
    /// 0x60..=0x63.
    Nak(NakCode),
    /// Any other value; a receiver ignores the packet.
    Reserved(u8),
}

impl Syndrome {
    /// ACK without credit information, the one this NIC sends.
    pub const ACK: Syndrome = Syndrome::Ack { credit: 31 };

    /// Decode; total.
    pub const fn from_byte(b: u8) -> Syndrome {
        match b {
            0x00..=0x1f => Syndrome::Ack { credit: b },
            0x20..=0x3f => Syndrome::Rnr { timer: b & 31 },
            0x60 => Syndrome::Nak(NakCode::PsnSequence),
            0x61 => Syndrome::Nak(NakCode::InvalidRequest),
            0x62 => Syndrome::Nak(NakCode::RemoteAccess),
            0x63 => Syndrome::Nak(NakCode::RemoteOperational),
            _ => Syndrome::Reserved(b),
        }
    }
    /// Encode.
    pub const fn to_byte(self) -> u8 {
        match self {
            Syndrome::Ack { credit } => credit & 31,
            Syndrome::Rnr { timer } => 0x20 | (timer & 31),
            Syndrome::Nak(c) => 0x60 | c as u8,
            Syndrome::Reserved(b) => b,
        }
    }
}
