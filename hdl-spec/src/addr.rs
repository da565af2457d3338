//! Addresses of a port: how its GID table follows from its MAC, its IPv4 address and its number.

/// Interface identifier of a MAC (modified EUI-64): also the node GUID.
pub const fn eui64(m: [u8; 6]) -> [u8; 8] {
    [m[0] ^ 2, m[1], m[2], 0xFF, 0xFE, m[3], m[4], m[5]]
}

/// The GID table: 0 link-local, 1 IPv4-mapped (what perftest picks), 2 `fd00::<index + 1>` (unique local).
pub fn gids(mac: [u8; 6], ipv4: [u8; 4], index: u16) -> [[u8; 16]; 3] {
    let mut link_local = [0u8; 16];
    link_local[..2].copy_from_slice(&[0xFE, 0x80]);
    link_local[8..].copy_from_slice(&eui64(mac));
    let mut mapped = [0u8; 16];
    mapped[10..12].copy_from_slice(&[0xFF, 0xFF]);
    mapped[12..].copy_from_slice(&ipv4);
    let mut local = [0u8; 16];
    local[0] = 0xFD;
    local[14..].copy_from_slice(&(index + 1).to_be_bytes());
    [link_local, mapped, local]
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;
    #[test]
    fn gid_table() {
        let g = super::gids([2, 0x4D, 0x52, 0, 0, 2], [10, 0, 0, 2], 1)
            .map(|g| Ipv6Addr::from(g).to_string());
        assert_eq!(g, ["fe80::4d:52ff:fe00:2", "::ffff:10.0.0.2", "fd00::2"]);
    }
}
