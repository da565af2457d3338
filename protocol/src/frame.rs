//! The whole frame: Ethernet, IP, UDP, RoCE.

use crate::bytes::put;
use crate::eth::{EthFrame, EthRepr};
use crate::icrc;
use crate::ip::{IpPacket, IpRepr};
use crate::roce::{PacketRepr, RocePacket, ICRC_LEN};
use crate::udp::{self, UdpDatagram, UdpRepr};
use crate::{DropReason, EmitError};

/// Checked view of a RoCEv2 frame (no FCS).
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Ethernet layer.
    pub eth: EthFrame<'a>,
    /// IP layer.
    pub ip: IpPacket<'a>,
    /// UDP layer.
    pub udp: UdpDatagram<'a>,
    /// BTH to ICRC.
    pub roce: RocePacket<'a>,
}

impl<'a> Frame<'a> {
    /// Check everything that can be checked without knowing a QP, outside in, the ICRC last.
    ///
    /// # Errors
    /// The first reason found.
    pub fn new_checked(buf: &'a [u8]) -> Result<Self, DropReason> {
        let f = Self::new_without_icrc(buf)?;
        if f.computed_icrc() != Some(f.roce.icrc()) {
            return Err(DropReason::BadIcrc);
        }
        Ok(f)
    }
    /// As [`Frame::new_checked`] but the ICRC may be wrong.
    ///
    /// # Errors
    /// The first reason found, never `BadIcrc`.
    pub fn new_without_icrc(buf: &'a [u8]) -> Result<Self, DropReason> {
        let eth = EthFrame::new_checked(buf)?;
        let ip = IpPacket::new_checked(eth.ethertype(), eth.payload())?;
        let udp = UdpDatagram::new_checked(ip.payload())?;
        let roce = RocePacket::new_checked(udp.payload())?;
        Ok(Self { eth, ip, udp, roce })
    }
    /// ICRC that the frame ought to carry.
    pub fn computed_icrc(&self) -> Option<u32> {
        let b = self.ip.as_bytes();
        icrc::compute(b.get(..b.len().checked_sub(ICRC_LEN)?)?)
    }
    /// Payload without pad.
    pub fn payload(&self) -> &'a [u8] {
        self.roce.payload()
    }
}

/// A frame as values; the payload is given beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRepr {
    /// Ethernet header.
    pub eth: EthRepr,
    /// IP header.
    pub ip: IpRepr,
    /// UDP header.
    pub udp: UdpRepr,
    /// BTH and extension headers.
    pub packet: PacketRepr,
}

impl FrameRepr {
    /// From a view.
    pub fn parse(f: &Frame) -> Self {
        FrameRepr {
            eth: EthRepr::parse(&f.eth),
            ip: IpRepr::parse(&f.ip),
            udp: UdpRepr::parse(&f.udp),
            packet: PacketRepr::parse(&f.roce),
        }
    }
    /// Frame length without FCS, with a payload of `payload_len` bytes.
    ///
    /// # Errors
    /// As [`PacketRepr::len_with`].
    pub fn len_with(&self, payload_len: usize) -> Result<usize, EmitError> {
        let roce = self.packet.len_with(payload_len)?;
        Ok(self.eth.len() + self.ip.header_len() + udp::HEADER_LEN + roce)
    }
    /// As [`FrameRepr::emit`], but the last four bytes (ICRC) are left alone. Returns the length including them.
    ///
    /// # Errors
    /// As [`PacketRepr::emit`].
    pub fn emit_without_icrc(&self, payload: &[u8], b: &mut [u8]) -> Result<usize, EmitError> {
        let len = self.len_with(payload.len())?;
        let b = b.get_mut(..len).ok_or(EmitError::BufferTooSmall)?;
        let ip_at = self.eth.len();
        let udp_at = ip_at + self.ip.header_len();
        let roce_at = udp_at + udp::HEADER_LEN;
        let too_long = |_| EmitError::BadPayloadLength;
        let udp_len = u16::try_from(len - udp_at).map_err(too_long)?;
        u16::try_from(len - ip_at).map_err(too_long)?;
        self.eth.emit(b, self.ip.ethertype());
        if let Some(x) = b.get_mut(ip_at..) {
            self.ip.emit(x, udp_len);
        }
        if let Some(x) = b.get_mut(udp_at..) {
            self.udp.emit(x, udp_len);
        }
        if let Some(x) = b.get_mut(roce_at..) {
            self.packet.emit(payload, x)?;
        }
        Ok(len)
    }
    /// Write the frame with its checksum, pad and ICRC. Returns its length. Padding to the
    /// Ethernet minimum and the FCS are the MAC's.
    ///
    /// # Errors
    /// As [`PacketRepr::emit`].
    pub fn emit(&self, payload: &[u8], b: &mut [u8]) -> Result<usize, EmitError> {
        let len = self.emit_without_icrc(payload, b)?;
        let ip_at = self.eth.len();
        let crc = b.get(ip_at..len - ICRC_LEN).and_then(icrc::compute);
        put(b, len - ICRC_LEN, &crc.unwrap_or(0).to_le_bytes());
        Ok(len)
    }
}
