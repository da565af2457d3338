//! Answers about an identifier.
use crate::abi::{addrs, mask, path, put, qp_attr, route, AH_BYTES};
use crate::addr::{self, Place};
use crate::state::{Id, State};
use crate::Errno;
use metaroce::{active_mtu, tree::CardInfo};

const PKEY: u16 = 0xFFFF;
const HOPS: u8 = 64;
/// Of a path of hardly any length: 4.096 us << 10.
const LIFE: u8 = 10;
/// 100 Gb/s, as `enum ibv_rate` has it.
const RATE: u8 = 16;
/// Timeout of a connection whose program names none: 67 ms, perftest's.
const TIMEOUT: u8 = 14;
/// RNR NAKs ask for 0.64 ms. The kernel's 0 would be 655 ms.
const MIN_RNR: u8 = 12;

fn gid(cards: &[CardInfo], p: Option<Place>) -> [u8; 16] {
    p.map_or([0; 16], |p| cards[p.card].gids()[p.gid])
}

/// GUID of the card that an identifier is at, as the network has it.
fn guid(cards: &[CardInfo], id: &Id) -> [u8; 8] {
    id.at.map_or([0; 8], |p| cards[p.card].guid.to_be_bytes())
}

fn mtu(cards: &[CardInfo], id: &Id) -> u8 {
    [id.at, id.to]
        .into_iter()
        .flatten()
        .map(|p| active_mtu(cards[p.card].mtu) as u8)
        .min()
        .unwrap_or(1)
}

/// Whether the route is known: what a request made has one from the start.
fn routed(id: &Id) -> bool {
    id.to.is_some() && !matches!(id.state, State::Idle | State::Bound | State::AddrResolved)
}

/// The way to the other side, as an address handle has it.
pub fn ah(cards: &[CardInfo], id: &Id) -> [u8; AH_BYTES] {
    let mut b = [0u8; AH_BYTES];
    put(&mut b, 0, &gid(cards, id.to));
    b[20] = id.at.map_or(0, |p| p.gid as u8);
    b[21] = HOPS;
    b[22] = id.tos;
    b[29] = 1;
    b[30] = 1;
    b
}

pub fn route(cards: &[CardInfo], id: &Id) -> Vec<u8> {
    let mut b = vec![0u8; route::SIZE];
    put(&mut b, 0, &guid(cards, id));
    if id.at.is_some() && id.to.is_some() {
        let p = &mut b[route::PATH..route::PATH + route::PATH_BYTES];
        put(p, 0, &gid(cards, id.to));
        put(p, 16, &gid(cards, id.at));
        put(p, 44, &1u32.to_ne_bytes());
        put(p, 48, &u32::from(mtu(cards, id)).to_ne_bytes());
        put(p, 52, &PKEY.to_be_bytes());
        (p[54], p[55], p[56]) = (HOPS, id.tos, 1);
        // Selectors: exactly so much.
        (p[58], p[59], p[60], p[61], p[62]) = (2, 2, RATE, 2, LIFE);
    }
    if let Some(a) = &id.src {
        addr::emit(a, &mut b[route::SRC..]);
    }
    if let Some(a) = &id.dst {
        addr::emit(a, &mut b[route::DST..]);
    }
    put(&mut b, route::PATHS, &u32::from(routed(id)).to_ne_bytes());
    b[route::PORT] = u8::from(id.at.is_some());
    // No index: programs find the device by its GUID.
    put(&mut b, route::DEVICE, &u32::MAX.to_ne_bytes());
    b
}

fn addr_head(cards: &[CardInfo], id: &Id) -> Vec<u8> {
    let mut b = vec![0u8; addrs::SIZE];
    put(&mut b, 0, &guid(cards, id));
    b[addrs::PORT] = u8::from(id.at.is_some());
    put(&mut b, addrs::PKEY, &PKEY.to_be_bytes());
    put(&mut b, addrs::DEVICE, &u32::MAX.to_ne_bytes());
    b
}

pub fn addresses(cards: &[CardInfo], id: &Id) -> Vec<u8> {
    let mut b = addr_head(cards, id);
    for (a, size, at) in [
        (&id.src, addrs::SRC_SIZE, addrs::SRC),
        (&id.dst, addrs::DST_SIZE, addrs::DST),
    ] {
        if let Some(a) = a {
            let n = addr::emit(a, &mut b[at..]) as u16;
            put(&mut b, size, &n.to_ne_bytes());
        }
    }
    b
}

/// `struct sockaddr_ib` of both ends.
pub fn gids(cards: &[CardInfo], id: &Id) -> Vec<u8> {
    const AF_IB: u16 = 27;
    const SIZE: u16 = 48;
    let mut b = addr_head(cards, id);
    for (p, a, size, at) in [
        (id.at, &id.src, addrs::SRC_SIZE, addrs::SRC),
        (id.to, &id.dst, addrs::DST_SIZE, addrs::DST),
    ] {
        put(&mut b, size, &SIZE.to_ne_bytes());
        put(&mut b, at, &AF_IB.to_ne_bytes());
        put(&mut b, at + 2, &PKEY.to_be_bytes());
        put(&mut b, at + 8, &gid(cards, p));
        let service = u64::from(id.ps) << 16 | a.map_or(0, |a| a.port().into());
        put(&mut b, at + 24, &service.to_be_bytes());
        put(&mut b, at + 32, &u64::MAX.to_be_bytes());
    }
    b
}

pub fn paths(cards: &[CardInfo], id: &Id) -> Vec<u8> {
    let mut b = vec![0u8; path::HEAD + path::RECORD];
    if !routed(id) {
        return b;
    }
    put(&mut b, 0, &1u32.to_ne_bytes());
    let r = &mut b[path::HEAD..];
    // GMP, primary, both ways.
    put(r, 0, &39u32.to_ne_bytes());
    let p = &mut r[8..];
    put(p, 8, &gid(cards, id.to));
    put(p, 24, &gid(cards, id.at));
    p[47] = HOPS;
    p[48] = id.tos;
    p[49] = 0x81;
    put(p, 50, &PKEY.to_be_bytes());
    (p[54], p[55], p[56]) = (0x80 | mtu(cards, id), 0x80 | RATE, 0x80 | LIFE);
    b
}

/// What the QP needs to get to `state`.
pub fn attributes(cards: &[CardInfo], id: &Id, state: u32) -> Result<Vec<u8>, Errno> {
    use qp_attr as f;
    let mut b = vec![0u8; f::SIZE];
    if id.at.is_none() {
        return Err(libc::EINVAL);
    }
    let what = match (state, id.ud) {
        (1, true) => {
            put(&mut b, f::QKEY, &id.qkey.to_ne_bytes());
            mask::PKEY | mask::PORT | mask::QKEY
        }
        (2, true) => 0,
        (3, true) => mask::SQ_PSN,
        (1, false) => {
            // WRITE always; READ and atomics if the other side wants to do some.
            let rights = if id.mine.responder != 0 {
                0b1110
            } else {
                0b0010
            };
            put(&mut b, f::ACCESS, &u32::to_ne_bytes(rights));
            mask::PKEY | mask::PORT | mask::ACCESS
        }
        (2 | 3, false) => {
            let theirs = id.theirs.as_ref().ok_or(libc::EINVAL)?;
            // Who has been asked follows what the request says, who asked follows the answer.
            let (request, initiator, responder) = if id.passive {
                (theirs, id.mine.initiator, id.mine.responder)
            } else {
                (&id.mine, theirs.responder, theirs.initiator)
            };
            if state == 2 {
                put(&mut b, f::AH, &ah(cards, id));
                put(
                    &mut b,
                    f::PATH_MTU,
                    &u32::from(mtu(cards, id)).to_ne_bytes(),
                );
                put(&mut b, f::DEST_QPN, &theirs.qpn.to_ne_bytes());
                put(&mut b, f::RQ_PSN, &id.their_psn.to_ne_bytes());
                b[f::MAX_DEST_RD] = responder;
                b[f::MIN_RNR] = MIN_RNR;
                mask::AV
                    | mask::PATH_MTU
                    | mask::DEST_QPN
                    | mask::RQ_PSN
                    | mask::MAX_DEST_RD
                    | mask::MIN_RNR
            } else {
                put(&mut b, f::SQ_PSN, &id.psn.to_ne_bytes());
                b[f::TIMEOUT] = id.timeout.unwrap_or(TIMEOUT);
                b[f::RETRY] = request.retry;
                b[f::RNR_RETRY] = theirs.rnr;
                b[f::MAX_RD] = initiator;
                mask::SQ_PSN | mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_RD
            }
        }
        _ => return Err(libc::EINVAL),
    };
    put(&mut b, f::MASK, &(what | mask::STATE).to_ne_bytes());
    put(&mut b, f::STATE, &state.to_ne_bytes());
    b[f::PORT] = 1;
    Ok(b)
}
