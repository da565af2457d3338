//! Ethernet II with at most one VLAN tag.

use crate::bytes::{array, put, slice, u16_at};
use crate::DropReason;

/// EtherType of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const TYPE_IPV6: u16 = 0x86dd;
/// EtherType of an 802.1Q tag.
pub const TYPE_VLAN: u16 = 0x8100;
/// EtherType of an 802.1ad service tag.
pub const TYPE_SVLAN: u16 = 0x88a8;
/// Header without tag.
pub const HEADER_LEN: usize = 14;
/// Header with tag.
pub const TAGGED_LEN: usize = 18;

/// VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// 0x8100 or 0x88A8.
    pub tpid: u16,
    /// Priority 3, DEI 1, VLAN id 12 bits. Not covered by the ICRC.
    pub tci: u16,
}

/// Checked view of an Ethernet frame without its FCS.
#[derive(Clone, Copy, Debug)]
pub struct EthFrame<'a> {
    buf: &'a [u8],
    vlan: bool,
}

impl<'a> EthFrame<'a> {
    /// Check the header's length.
    ///
    /// # Errors
    /// [`DropReason::EthTruncated`].
    pub fn new_checked(buf: &'a [u8]) -> Result<Self, DropReason> {
        let vlan = matches!(u16_at(buf, 12), TYPE_VLAN | TYPE_SVLAN);
        let need = if vlan { TAGGED_LEN } else { HEADER_LEN };
        if buf.len() < need {
            return Err(DropReason::EthTruncated);
        }
        Ok(Self { buf, vlan })
    }
    /// Header length, 14 or 18 bytes.
    pub fn header_len(&self) -> usize {
        if self.vlan {
            TAGGED_LEN
        } else {
            HEADER_LEN
        }
    }
    /// EtherType behind the tag.
    pub fn ethertype(&self) -> u16 {
        u16_at(self.buf, self.header_len() - 2)
    }
    /// Bytes behind the header, with the padding of a short frame.
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buf, self.header_len(), self.buf.len())
    }
}

/// Ethernet header as values; the EtherType follows from the IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthRepr {
    /// Destination address.
    pub dst: [u8; 6],
    /// Source address.
    pub src: [u8; 6],
    /// Tag, if any.
    pub vlan: Option<Vlan>,
}

impl EthRepr {
    /// From a view.
    pub fn parse(v: &EthFrame) -> Self {
        EthRepr {
            dst: array(v.buf, 0),
            src: array(v.buf, 6),
            vlan: v.vlan.then(|| Vlan {
                tpid: u16_at(v.buf, 12),
                tci: u16_at(v.buf, 14),
            }),
        }
    }
    /// Bytes that [`EthRepr::emit`] writes.
    pub fn len(&self) -> usize {
        if self.vlan.is_some() {
            TAGGED_LEN
        } else {
            HEADER_LEN
        }
    }
    /// Never: a header has bytes.
    pub fn is_empty(&self) -> bool {
        false
    }
    /// Write the header.
    pub fn emit(&self, b: &mut [u8], ethertype: u16) {
        put(b, 0, &self.dst);
        put(b, 6, &self.src);
        if let Some(t) = self.vlan {
            put(b, 12, &t.tpid.to_be_bytes());
            put(b, 14, &t.tci.to_be_bytes());
        }
        put(b, self.len() - 2, &ethertype.to_be_bytes());
    }
}
