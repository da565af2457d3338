//! BTH, extension headers, payload, pad, ICRC (wire facts §2, §3).

use crate::bytes::{put, put_u24, slice, u16_at, u24_at, u32_at, u8_at};
use crate::ext::Ext;
use crate::opcode::{OpcodeInfo, PayloadRule};
use crate::psn::Psn;
use crate::{DropReason, EmitError, Mtu, Opcode};

/// Base transport header in bytes.
pub const BTH_LEN: usize = 12;
/// ICRC in bytes.
pub const ICRC_LEN: usize = 4;

/// Checked view from the BTH to the ICRC. The ICRC itself is not verified here, since it also
/// covers the headers in front; [`crate::Frame`] does.
#[derive(Clone, Copy, Debug)]
pub struct RocePacket<'a> {
    buf: &'a [u8],
    info: &'static OpcodeInfo,
}

impl<'a> RocePacket<'a> {
    /// Checks in this order: 16 bytes at least, opcode known, `len >= headers(opcode) + pad + 4`
    /// (before any subtraction), TVer 0, payload plus pad a multiple of four, and no payload or the
    /// exact one where the opcode has no choice. A wrong ATOMIC WRITE length is left to the
    /// responder, which answers it with a NAK.
    ///
    /// # Errors
    /// `BadLength`, `BadOpcode`, `BadTver`, `BadPad`.
    pub fn new_checked(buf: &'a [u8]) -> Result<Self, DropReason> {
        if buf.len() < BTH_LEN + ICRC_LEN {
            return Err(DropReason::BadLength);
        }
        let info = Opcode(u8_at(buf, 0)).info().ok_or(DropReason::BadOpcode)?;
        let v = Self { buf, info };
        let fixed = info.header_len() + v.pad() + ICRC_LEN;
        if buf.len() < fixed {
            return Err(DropReason::BadLength);
        }
        let payload = buf.len() - fixed;
        if v.tver() != 0 {
            return Err(DropReason::BadTver);
        }
        if (payload + v.pad()) % 4 != 0 {
            return Err(DropReason::BadPad);
        }
        match info.payload {
            PayloadRule::None if payload != 0 => Err(DropReason::BadLength),
            PayloadRule::None if v.pad() != 0 => Err(DropReason::BadPad),
            PayloadRule::Exact(16) if payload != 16 || v.pad() != 0 => Err(DropReason::BadLength),
            _ => Ok(v),
        }
    }

    /// Row of the opcode table.
    pub fn info(&self) -> &'static OpcodeInfo {
        self.info
    }
    /// Opcode.
    pub fn opcode(&self) -> Opcode {
        Opcode(u8_at(self.buf, 0))
    }
    /// Transport version, 4 bits; 0 in a checked view.
    pub fn tver(&self) -> u8 {
        u8_at(self.buf, 1) & 15
    }
    /// Pad bytes, 0..=3.
    pub fn pad(&self) -> usize {
        usize::from(u8_at(self.buf, 1) >> 4 & 3)
    }
    /// Destination QPN, 24 bits.
    pub fn dest_qpn(&self) -> u32 {
        u24_at(self.buf, 5)
    }
    /// Packet sequence number.
    pub fn psn(&self) -> Psn {
        Psn::new(u24_at(self.buf, 9))
    }
    /// Extension headers.
    pub fn ext(&self) -> Ext {
        Ext::parse(
            self.info.ext,
            slice(self.buf, BTH_LEN, self.info.header_len()),
        )
    }
    fn payload_end(&self) -> usize {
        self.buf.len() - ICRC_LEN - self.pad()
    }
    /// Payload without pad.
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buf, self.info.header_len(), self.payload_end())
    }
    /// The pad bytes. A sender writes zeros; a receiver does not look.
    pub fn pad_bytes(&self) -> &'a [u8] {
        slice(
            self.buf,
            self.payload_end(),
            self.payload_end() + self.pad(),
        )
    }
    /// ICRC as carried, as a number (little-endian on the wire).
    pub fn icrc(&self) -> u32 {
        u32_at(self.buf, self.buf.len() - ICRC_LEN).swap_bytes()
    }
}

/// Does a payload of `len` bytes fit the opcode's rule at this MTU (wire facts §13)?
///
/// A request that fails is refused with NAK invalid request, a response with BAD_RESP.
pub fn check_payload(info: &OpcodeInfo, len: usize, mtu: Mtu) -> bool {
    let mtu = mtu.bytes() as usize;
    match info.payload {
        PayloadRule::None => len == 0,
        PayloadRule::Exact(n) => len == usize::from(n),
        PayloadRule::Full => len == mtu,
        PayloadRule::Last => (1..=mtu).contains(&len),
        PayloadRule::Only => len <= mtu,
    }
}

/// BTH and extension headers as values. Pad count and TVer are not stored: the pad follows from
/// the payload length and TVer is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRepr {
    /// Opcode.
    pub opcode: Opcode,
    /// Solicited event.
    pub se: bool,
    /// Migration request; send 1, accept both.
    pub mig_req: bool,
    /// Partition key.
    pub pkey: u16,
    /// Forward ECN (not covered by the ICRC).
    pub fecn: bool,
    /// Backward ECN, set in a CNP (not covered by the ICRC).
    pub becn: bool,
    /// Six reserved bits of byte 4: send 0, ignore on receive.
    pub resv6: u8,
    /// Destination QPN, 24 bits.
    pub dest_qpn: u32,
    /// Acknowledge request.
    pub ack_req: bool,
    /// Seven reserved bits of byte 8: send 0, ignore on receive.
    pub resv7: u8,
    /// Packet sequence number.
    pub psn: Psn,
    /// Extension headers.
    pub ext: Ext,
}

impl PacketRepr {
    /// A packet with the defaults that this NIC sends: MigReq 1, P_Key 0xFFFF, the rest 0.
    pub fn new(opcode: Opcode, dest_qpn: u32, psn: Psn) -> Self {
        PacketRepr {
            opcode,
            se: false,
            mig_req: true,
            pkey: crate::DEFAULT_PKEY,
            fecn: false,
            becn: false,
            resv6: 0,
            dest_qpn,
            ack_req: false,
            resv7: 0,
            psn,
            ext: Ext::default(),
        }
    }
    /// From a view.
    pub fn parse(v: &RocePacket) -> Self {
        let (b1, b4, b8) = (u8_at(v.buf, 1), u8_at(v.buf, 4), u8_at(v.buf, 8));
        PacketRepr {
            opcode: v.opcode(),
            se: b1 & 0x80 != 0,
            mig_req: b1 & 0x40 != 0,
            pkey: u16_at(v.buf, 2),
            fecn: b4 & 0x80 != 0,
            becn: b4 & 0x40 != 0,
            resv6: b4 & 0x3f,
            dest_qpn: v.dest_qpn(),
            ack_req: b8 & 0x80 != 0,
            resv7: b8 & 0x7f,
            psn: v.psn(),
            ext: v.ext(),
        }
    }
    /// Bytes from the BTH to the ICRC with a payload of `payload_len` bytes.
    ///
    /// # Errors
    /// `UnknownOpcode`, `HeaderMismatch`, `BadPayloadLength`.
    pub fn len_with(&self, payload_len: usize) -> Result<usize, EmitError> {
        let info = self.opcode.info().ok_or(EmitError::UnknownOpcode)?;
        if self.ext.set() != info.ext {
            return Err(EmitError::HeaderMismatch);
        }
        let fits = match info.payload {
            PayloadRule::None => payload_len == 0,
            PayloadRule::Exact(16) => payload_len == 16,
            _ => payload_len <= usize::from(u16::MAX) - 256,
        };
        if !fits {
            return Err(EmitError::BadPayloadLength);
        }
        Ok(info.header_len() + payload_len + pad_of(payload_len) + ICRC_LEN)
    }
    /// Write headers, payload and zero pad; the last four bytes (ICRC) are left alone. Returns the
    /// length including them.
    ///
    /// # Errors
    /// As [`PacketRepr::len_with`], and `BufferTooSmall`.
    pub fn emit(&self, payload: &[u8], b: &mut [u8]) -> Result<usize, EmitError> {
        let len = self.len_with(payload.len())?;
        if b.len() < len {
            return Err(EmitError::BufferTooSmall);
        }
        let pad = pad_of(payload.len());
        let bit = |on: bool, v: u8| if on { v } else { 0 };
        put(
            b,
            0,
            &[
                self.opcode.0,
                bit(self.se, 0x80) | bit(self.mig_req, 0x40) | (pad as u8) << 4,
            ],
        );
        put(b, 2, &self.pkey.to_be_bytes());
        put(
            b,
            4,
            &[bit(self.fecn, 0x80) | bit(self.becn, 0x40) | (self.resv6 & 0x3f)],
        );
        put_u24(b, 5, self.dest_qpn);
        put(b, 8, &[bit(self.ack_req, 0x80) | (self.resv7 & 0x7f)]);
        put_u24(b, 9, self.psn.get());
        let headers = len - ICRC_LEN - pad - payload.len();
        if let Some(x) = b.get_mut(BTH_LEN..headers) {
            self.ext.emit(x);
        }
        put(b, headers, payload);
        put(b, len - ICRC_LEN - pad, slice(&[0; 3], 0, pad));
        Ok(len)
    }
}

/// Pad bytes behind a payload of `len` bytes.
pub const fn pad_of(len: usize) -> usize {
    len.wrapping_neg() & 3
}
