//! Socket addresses of programs, and which card has which.
use crate::abi::{put, u16_at};
use crate::Errno;
use metaroce::tree::CardInfo;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const AF_UNSPEC: u16 = libc::AF_UNSPEC as u16;
const AF_INET: u16 = libc::AF_INET as u16;
const AF_INET6: u16 = libc::AF_INET6 as u16;

/// Bytes of `struct sockaddr_in` and `struct sockaddr_in6`.
pub const V4: usize = 16;
pub const V6: usize = 28;

/// A card and the index of one of its GIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub card: usize,
    pub gid: usize,
}

/// From a `sockaddr`; None: it has no family. Other families than IP are refused, AF_IB among them: a card has no InfiniBand
/// addresses, and librdmacm then uses the commands for IP.
pub fn parse(b: &[u8]) -> Result<Option<SocketAddr>, Errno> {
    if b.len() < 2 {
        return Err(libc::EINVAL);
    }
    let port = |b: &[u8]| u16::from_be_bytes([b[2], b[3]]);
    match u16_at(b, 0) {
        AF_UNSPEC => Ok(None),
        AF_INET if b.len() >= V4 => {
            let ip = Ipv4Addr::new(b[4], b[5], b[6], b[7]);
            Ok(Some(SocketAddr::new(ip.into(), port(b))))
        }
        AF_INET6 if b.len() >= V6 => {
            let ip: [u8; 16] = b[8..24].try_into().expect("16 bytes");
            let scope = u32::from_ne_bytes(b[24..28].try_into().expect("4 bytes"));
            Ok(Some(SocketAddrV6::new(ip.into(), port(b), 0, scope).into()))
        }
        AF_INET | AF_INET6 => Err(libc::EINVAL),
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// Writes a `sockaddr`; returns its size.
pub fn emit(a: &SocketAddr, b: &mut [u8]) -> usize {
    match a {
        SocketAddr::V4(a) => {
            put(b, 0, &AF_INET.to_ne_bytes());
            put(b, 2, &a.port().to_be_bytes());
            put(b, 4, &a.ip().octets());
            V4
        }
        SocketAddr::V6(a) => {
            put(b, 0, &AF_INET6.to_ne_bytes());
            put(b, 2, &a.port().to_be_bytes());
            put(b, 8, &a.ip().octets());
            put(b, 24, &a.scope_id().to_ne_bytes());
            V6
        }
    }
}

/// Who has an address. Addresses of this machine itself stand for cards as well, so that a program which takes one name for
/// its TCP connection and for its RDMA one (qperf, perftest) finds both: 127.0.0.1 is card 0, 127.0.0.2 card 1.
pub fn find(cards: &[CardInfo], ip: IpAddr) -> Option<Place> {
    let ip = match ip {
        IpAddr::V6(v) => v.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        v4 => v4,
    };
    let p = match ip {
        IpAddr::V4(v) => {
            let o = v.octets();
            let card = match o {
                [127, 0, 0, n @ 1..=255] => {
                    (usize::from(n) <= cards.len()).then(|| usize::from(n) - 1)
                }
                _ => cards.iter().position(|c| c.ipv4 == o),
            };
            Place {
                card: card?,
                gid: 1,
            }
        }
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Place { card: 0, gid: 1 },
        IpAddr::V6(v) => cards.iter().enumerate().find_map(|(card, c)| {
            let gid = c.gids().iter().position(|g| *g == v.octets())?;
            Some(Place { card, gid })
        })?,
    };
    (p.card < cards.len()).then_some(p)
}

/// The address that belongs to a GID.
pub fn of(cards: &[CardInfo], p: Place, port: u16) -> SocketAddr {
    let c = &cards[p.card];
    match p.gid {
        1 => SocketAddr::new(IpAddr::from(c.ipv4), port),
        g => SocketAddr::new(IpAddr::from(c.gids()[g]), port),
    }
}

#[cfg(test)]
pub fn two_cards() -> Vec<CardInfo> {
    (0..2u8)
        .map(|k| CardInfo {
            index: k.into(),
            name: format!("metaroce{k}"),
            guid: 0x024d_52ff_fe00_0001 + u64::from(k),
            mac: [2, 0x4D, 0x52, 0, 0, 1 + k],
            ipv4: [10, 0, 0, 1 + k],
            mtu: 9000,
            rate_mbps: 100_000,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_round_trip_and_others_are_refused() {
        for text in ["10.0.0.2:7174", "[fd00::2]:18515", "0.0.0.0:0"] {
            let a: SocketAddr = text.parse().unwrap();
            let mut b = [0u8; V6];
            let n = emit(&a, &mut b);
            assert_eq!(parse(&b[..n]), Ok(Some(a)));
            assert_eq!(parse(&b[..n - 1]), Err(libc::EINVAL));
        }
        assert_eq!(parse(&[0; V6]), Ok(None));
        assert_eq!(parse(&[1]), Err(libc::EINVAL));
        let mut ib = [0u8; 128];
        ib[0] = 27;
        assert_eq!(parse(&ib), Err(libc::EAFNOSUPPORT));
    }

    #[test]
    fn addresses_of_cards() {
        let cards = two_cards();
        let at = |s: &str| find(&cards, s.parse().unwrap()).map(|p| (p.card, p.gid));
        assert_eq!(at("10.0.0.1"), Some((0, 1)));
        assert_eq!(at("::ffff:10.0.0.2"), Some((1, 1)));
        assert_eq!(at("fd00::2"), Some((1, 2)));
        assert_eq!(at("fe80::4d:52ff:fe00:1"), Some((0, 0)));
        assert_eq!(at("127.0.0.1"), Some((0, 1)));
        assert_eq!(at("127.0.0.2"), Some((1, 1)));
        assert_eq!(at("::1"), Some((0, 1)));
        for other in [
            "10.0.0.3",
            "127.0.0.3",
            "127.0.0.0",
            "192.168.1.1",
            "fd00::3",
            "::",
        ] {
            assert_eq!(at(other), None, "{other}");
        }
        for gid in 0..3 {
            let p = Place { card: 1, gid };
            assert_eq!(find(&cards, of(&cards, p, 9).ip()), Some(p));
        }
    }
}
