//! RoCEv2 on the wire, and what a correct transport does with it.
//!
//! `no_std`, no I/O, no clock: time is an argument in nanoseconds. **No byte sequence makes this
//! crate panic**: every read is bounded, every table lookup is total, and a refused input is a
//! [`DropReason`].
//!
//! # Layers
//! * [`frame::Frame`] — a *checked view*: [`Frame::new_checked`](frame::Frame::new_checked) looks
//!   at every length once, after that accessors cannot fail. The layers under it are usable alone:
//!   [`eth`], [`ip`], [`udp`], [`roce`].
//! * [`frame::FrameRepr`] — the same frame as plain values; `parse(view)` and `emit(payload, buf)`
//!   are inverse to the bit (IPv4 checksum, pad and ICRC are computed, not stored).
//! * [`qp`] — the QP transition table as data.
//! * [`model`] (feature `model`, needs `alloc`) — the transport reference model of RC, UC and UD and
//!   a checker for frames seen on a wire.
//!
//! # Units
//! Lengths are bytes, times nanoseconds, PSN and MSN 24-bit values modulo 2^24, QPN 24-bit.
//! Multi-byte wire fields are big-endian except the ICRC, which is little-endian.
//!
//! # Not supported
//! IPv4 options, IPv6 extension headers, fragments, more than one VLAN tag, RD and XRC services.
//! All are refused with their own reason where they have one.
//!
//! ```
//! use metaroce_protocol::{frame::{Frame, FrameRepr}, DropReason};
//! assert_eq!(Frame::new_checked(&[0; 13]).err(), Some(DropReason::EthTruncated));
//! # let _ = |view: &Frame| FrameRepr::parse(view);
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "model")]
extern crate alloc;

mod bytes;
mod drop_reason;
pub mod eth;
pub mod ext;
pub mod frame;
pub mod icrc;
pub mod ip;
#[cfg(feature = "model")]
pub mod model;
pub mod opcode;
pub mod psn;
pub mod qp;
pub mod roce;
pub mod syndrome;
pub mod timing;
pub mod udp;

pub use drop_reason::DropReason;
pub use frame::{Frame, FrameRepr};
pub use opcode::Opcode;
pub use psn::{Msn, Psn};
pub use roce::PacketRepr;
pub use syndrome::{NakCode, Syndrome};
pub use timing::Mtu;

/// UDP destination port of RoCEv2.
pub const ROCE_UDP_PORT: u16 = 4791;
/// Default partition key (full member).
pub const DEFAULT_PKEY: u16 = 0xffff;
/// Queue key of the general service interface (QP 1).
pub const GSI_QKEY: u32 = 0x8001_0000;
/// Destination QPN of a multicast packet.
pub const MULTICAST_QPN: u32 = 0xff_ffff;
/// Greatest message, 2^31 bytes.
pub const MAX_MESSAGE: u64 = 1 << 31;

/// Why a representation could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// The buffer is smaller than the frame.
    BufferTooSmall,
    /// The opcode has no entry in [`opcode::TABLE`].
    UnknownOpcode,
    /// The extension headers present are not the ones of the opcode.
    HeaderMismatch,
    /// The payload length does not fit the opcode, or a 16-bit length field.
    BadPayloadLength,
}
