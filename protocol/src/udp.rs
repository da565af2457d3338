//! UDP. The checksum is carried but not verified: RoCEv2 may send 0, and the ICRC masks it.

use crate::bytes::{put, slice, u16_at};
use crate::{DropReason, ROCE_UDP_PORT};

/// Header length in bytes.
pub const HEADER_LEN: usize = 8;

/// Checked view of a datagram to port 4791 whose length is that of the IP payload.
#[derive(Clone, Copy, Debug)]
pub struct UdpDatagram<'a> {
    buf: &'a [u8],
}

impl<'a> UdpDatagram<'a> {
    /// `buf` is the IP payload, already cut to the IP length.
    ///
    /// # Errors
    /// [`DropReason::UdpLength`], [`DropReason::NotRoce`].
    pub fn new_checked(buf: &'a [u8]) -> Result<Self, DropReason> {
        if buf.len() < HEADER_LEN {
            return Err(DropReason::UdpLength);
        }
        if u16_at(buf, 2) != ROCE_UDP_PORT {
            return Err(DropReason::NotRoce);
        }
        if usize::from(u16_at(buf, 4)) != buf.len() {
            return Err(DropReason::UdpLength);
        }
        Ok(Self { buf })
    }
    /// BTH to ICRC.
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buf, HEADER_LEN, self.buf.len())
    }
}

/// UDP header as values; the destination port is always 4791.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpRepr {
    /// Source port: entropy, any value is accepted.
    pub src_port: u16,
    /// Checksum as carried; send 0.
    pub checksum: u16,
}

impl UdpRepr {
    /// From a view.
    pub fn parse(v: &UdpDatagram) -> Self {
        UdpRepr {
            src_port: u16_at(v.buf, 0),
            checksum: u16_at(v.buf, 6),
        }
    }
    /// Write the header for `len` bytes of header and payload.
    pub fn emit(&self, b: &mut [u8], len: u16) {
        put(b, 0, &self.src_port.to_be_bytes());
        put(b, 2, &ROCE_UDP_PORT.to_be_bytes());
        put(b, 4, &len.to_be_bytes());
        put(b, 6, &self.checksum.to_be_bytes());
    }
}
