//! Invariant CRC (wire facts §8): CRC-32, reflected 0xEDB88320, final inversion, little-endian on
//! the wire, over the IP header to the pad with the fields that routers change set to ones.

use crate::bytes::slice;

/// CRC register after the eight 0xFF bytes that stand for the LRH; usable as a hardware seed.
pub const SEED: u32 = 0xdebb_20e3;

const POLY: u32 = 0xedb8_8320;

const fn build() -> [[u32; 256]; 4] {
    let mut t = [[0u32; 256]; 4];
    let mut i = 0;
    while i < 256 {
        let mut c = i as u32;
        let mut k = 0;
        while k < 8 {
            c = if c & 1 != 0 { (c >> 1) ^ POLY } else { c >> 1 };
            k += 1;
        }
        t[0][i] = c;
        i += 1;
    }
    let mut n = 1;
    while n < 4 {
        let mut i = 0;
        while i < 256 {
            let p = t[n - 1][i];
            t[n][i] = (p >> 8) ^ t[0][(p & 0xff) as usize];
            i += 1;
        }
        n += 1;
    }
    t
}

static TABLE: [[u32; 256]; 4] = build();

/// Running ICRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icrc(u32);

impl Default for Icrc {
    fn default() -> Self {
        Self::new()
    }
}

impl Icrc {
    /// Register seeded with [`SEED`].
    pub const fn new() -> Self {
        Icrc(SEED)
    }
    /// Raw register, before the final inversion.
    pub const fn register(self) -> u32 {
        self.0
    }
    /// Feed bytes in wire order, already masked.
    pub fn update(&mut self, data: &[u8]) {
        let mut c = self.0;
        let mut words = data.chunks_exact(4);
        for w in &mut words {
            let x = c ^ u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
            c = TABLE[3][(x & 0xff) as usize]
                ^ TABLE[2][(x >> 8 & 0xff) as usize]
                ^ TABLE[1][(x >> 16 & 0xff) as usize]
                ^ TABLE[0][(x >> 24) as usize];
        }
        for b in words.remainder() {
            c = (c >> 8) ^ TABLE[0][((c ^ u32::from(*b)) & 0xff) as usize];
        }
        self.0 = c;
    }
    /// The ICRC; write it with `to_le_bytes`.
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

/// Mask a copy of an IPv4 header: TOS, TTL, header checksum to ones.
pub fn mask_ipv4(h: &mut [u8; 20]) {
    for i in [1, 8, 10, 11] {
        h[i] = 0xff;
    }
}

/// Mask a copy of an IPv6 header: traffic class, flow label, hop limit to ones.
pub fn mask_ipv6(h: &mut [u8; 40]) {
    h[0] |= 0x0f;
    for i in [1, 2, 3, 7] {
        h[i] = 0xff;
    }
}

/// ICRC of a datagram from the first byte of its IP header to the end of its pad.
///
/// `ip_and_on` holds the final values (lengths, id): what is not masked is covered. `None` if it is
/// neither IPv4 without options nor IPv6, or shorter than IP + UDP + BTH.
pub fn compute(ip_and_on: &[u8]) -> Option<u32> {
    let mut crc = Icrc::new();
    let ip_len = match ip_and_on.first()? >> 4 {
        4 => {
            let mut h: [u8; 20] = *ip_and_on.first_chunk()?;
            mask_ipv4(&mut h);
            crc.update(&h);
            20
        }
        6 => {
            let mut h: [u8; 40] = *ip_and_on.first_chunk()?;
            mask_ipv6(&mut h);
            crc.update(&h);
            40
        }
        _ => return None,
    };
    let rest = slice(ip_and_on, ip_len, ip_and_on.len());
    let mut h: [u8; 20] = *rest.first_chunk()?;
    // UDP checksum, and the only mutable byte of the BTH (FECN, BECN, reserved).
    for i in [6, 7, 8 + 4] {
        h[i] = 0xff;
    }
    crc.update(&h);
    crc.update(slice(rest, 20, rest.len()));
    Some(crc.finish())
}
