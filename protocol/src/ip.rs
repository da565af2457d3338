//! IPv4 without options and IPv6 without extension headers.

use crate::bytes::{array, put, slice, u16_at, u32_at, u8_at};
use crate::{eth, DropReason};

/// IPv4 header length in bytes.
pub const V4_LEN: usize = 20;
/// IPv6 header length in bytes.
pub const V6_LEN: usize = 40;
const PROTO_UDP: u8 = 17;
const PROTO_FRAGMENT: u8 = 44;

/// ECN bits of the TOS or traffic class: not ECN-capable.
pub const ECN_NOT_ECT: u8 = 0;
/// ECN-capable, the code point this NIC sends.
pub const ECN_ECT0: u8 = 2;
/// ECN-capable, the other code point.
pub const ECN_ECT1: u8 = 1;
/// Congestion experienced.
pub const ECN_CE: u8 = 3;

/// One's complement header checksum of an IPv4 header whose checksum field is taken as zero.
pub fn ipv4_checksum(h: &[u8; 20]) -> u16 {
    let mut sum = 0u32;
    for (i, w) in h.chunks_exact(2).enumerate() {
        if i != 5 {
            sum += u32::from(u16_at(w, 0));
        }
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// Checked view of an IP packet that holds UDP; cut to the IP length.
#[derive(Clone, Copy, Debug)]
pub struct IpPacket<'a> {
    buf: &'a [u8],
    v6: bool,
}

impl<'a> IpPacket<'a> {
    /// Check version, header, lengths, checksum, fragmentation, protocol, in this order. Bytes
    /// behind the IP length (padding of a short Ethernet frame) are cut off.
    ///
    /// # Errors
    /// `NotIp`, `IpMalformed`, `IpLength`, `IpChecksum`, `IpFragment`, `NotUdp`.
    pub fn new_checked(ethertype: u16, buf: &'a [u8]) -> Result<Self, DropReason> {
        match ethertype {
            eth::TYPE_IPV4 => Self::new_v4(buf),
            eth::TYPE_IPV6 => Self::new_v6(buf),
            _ => Err(DropReason::NotIp),
        }
    }

    fn new_v4(buf: &'a [u8]) -> Result<Self, DropReason> {
        let h: &[u8; V4_LEN] = buf.first_chunk().ok_or(DropReason::IpMalformed)?;
        // 0x45: options are refused; bit 15 of the flags word is reserved.
        if h[0] != 0x45 || h[6] & 0x80 != 0 {
            return Err(DropReason::IpMalformed);
        }
        let total = usize::from(u16_at(h, 2));
        if total < V4_LEN || total > buf.len() {
            return Err(DropReason::IpLength);
        }
        if ipv4_checksum(h) != u16_at(h, 10) {
            return Err(DropReason::IpChecksum);
        }
        if u16_at(h, 6) & 0x3fff != 0 {
            return Err(DropReason::IpFragment);
        }
        if h[9] != PROTO_UDP {
            return Err(DropReason::NotUdp);
        }
        Ok(Self {
            buf: slice(buf, 0, total),
            v6: false,
        })
    }

    fn new_v6(buf: &'a [u8]) -> Result<Self, DropReason> {
        let h: &[u8; V6_LEN] = buf.first_chunk().ok_or(DropReason::IpMalformed)?;
        if h[0] >> 4 != 6 {
            return Err(DropReason::IpMalformed);
        }
        let total = usize::from(u16_at(h, 4)) + V6_LEN;
        if total > buf.len() {
            return Err(DropReason::IpLength);
        }
        match h[6] {
            PROTO_UDP => Ok(Self {
                buf: slice(buf, 0, total),
                v6: true,
            }),
            PROTO_FRAGMENT => Err(DropReason::IpFragment),
            _ => Err(DropReason::NotUdp),
        }
    }

    /// Header length, 20 or 40 bytes.
    pub fn header_len(&self) -> usize {
        if self.v6 {
            V6_LEN
        } else {
            V4_LEN
        }
    }
    /// The UDP datagram.
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buf, self.header_len(), self.buf.len())
    }
    /// Whole packet, header first.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.buf
    }
    /// ECN bits, see [`ECN_CE`].
    pub fn ecn(&self) -> u8 {
        match IpRepr::parse(self) {
            IpRepr::V4(r) => r.tos & 3,
            IpRepr::V6(r) => r.traffic_class & 3,
        }
    }
}

/// IPv4 header as values. Checksum and length are computed on emit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv4Repr {
    /// DSCP 6 bits, ECN 2 bits.
    pub tos: u8,
    /// Identification; covered by the ICRC.
    pub id: u16,
    /// Don't fragment; RoCEv2 sends it set.
    pub df: bool,
    /// Time to live.
    pub ttl: u8,
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
}

/// IPv6 header as values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// DSCP 6 bits, ECN 2 bits.
    pub traffic_class: u8,
    /// 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: [u8; 16],
    /// Destination address.
    pub dst: [u8; 16],
}

/// Either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpRepr {
    /// IPv4.
    V4(Ipv4Repr),
    /// IPv6.
    V6(Ipv6Repr),
}

impl IpRepr {
    /// From a view.
    pub fn parse(v: &IpPacket) -> Self {
        let b = v.buf;
        if v.v6 {
            let w = u32_at(b, 0);
            IpRepr::V6(Ipv6Repr {
                traffic_class: (w >> 20) as u8,
                flow_label: w & 0xf_ffff,
                hop_limit: u8_at(b, 7),
                src: array(b, 8),
                dst: array(b, 24),
            })
        } else {
            IpRepr::V4(Ipv4Repr {
                tos: u8_at(b, 1),
                id: u16_at(b, 4),
                df: u8_at(b, 6) & 0x40 != 0,
                ttl: u8_at(b, 8),
                src: array(b, 12),
                dst: array(b, 16),
            })
        }
    }
    /// EtherType to announce it with.
    pub fn ethertype(&self) -> u16 {
        match self {
            IpRepr::V4(_) => eth::TYPE_IPV4,
            IpRepr::V6(_) => eth::TYPE_IPV6,
        }
    }
    /// Header length in bytes.
    pub fn header_len(&self) -> usize {
        match self {
            IpRepr::V4(_) => V4_LEN,
            IpRepr::V6(_) => V6_LEN,
        }
    }
    /// Write the header in front of `payload_len` bytes.
    pub fn emit(&self, b: &mut [u8], payload_len: u16) {
        match self {
            IpRepr::V4(r) => {
                let mut h = [0u8; V4_LEN];
                h[0] = 0x45;
                h[1] = r.tos;
                put(&mut h, 2, &payload_len.wrapping_add(20).to_be_bytes());
                put(&mut h, 4, &r.id.to_be_bytes());
                h[6] = if r.df { 0x40 } else { 0 };
                h[8] = r.ttl;
                h[9] = PROTO_UDP;
                put(&mut h, 12, &r.src);
                put(&mut h, 16, &r.dst);
                let sum = ipv4_checksum(&h);
                put(&mut h, 10, &sum.to_be_bytes());
                put(b, 0, &h);
            }
            IpRepr::V6(r) => {
                let w = 6 << 28 | u32::from(r.traffic_class) << 20 | (r.flow_label & 0xf_ffff);
                put(b, 0, &w.to_be_bytes());
                put(b, 4, &payload_len.to_be_bytes());
                put(b, 6, &[PROTO_UDP, r.hop_limit]);
                put(b, 8, &r.src);
                put(b, 24, &r.dst);
            }
        }
    }
}
