//! Frames for the receive side, and what the card must make of each.
#![allow(dead_code)]

use metaroce_rtl::diff::Rng;

pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

pub fn crc(bytes: impl Iterator<Item = u8>) -> u32 {
    let mut c = 0xFFFF_FFFFu32;
    for b in bytes {
        c ^= b as u32;
        for _ in 0..8 {
            c = (c >> 1) ^ if c & 1 == 1 { 0xEDB8_8320 } else { 0 };
        }
    }
    !c
}

/// ICRC of the datagram `d` (IP header to pad).
pub fn icrc(d: &[u8], six: bool) -> u32 {
    let var: &[usize] = if six {
        &[1, 2, 3, 7, 46, 47, 52]
    } else {
        &[1, 8, 10, 11, 26, 27, 32]
    };
    let head = std::iter::repeat(0xFF).take(8);
    let body = d.iter().enumerate().map(|(i, b)| {
        if var.contains(&i) {
            0xFF
        } else if six && i == 0 {
            b | 0x0F
        } else {
            *b
        }
    });
    crc(head.chain(body))
}

pub fn ext_len(op: u8) -> Option<usize> {
    Some(match op {
        0..=2 | 4 | 7 | 8 | 14 => 0,
        3 | 5 | 9 | 0x16 | 0x17 | 13 | 15 | 16 | 17 => 4,
        6 | 10 | 12 | 0x1D => 16,
        11 | 0x1C => 20,
        18 => 12,
        19 | 20 => 28,
        0x20..=0x2B => return ext_len(op - 0x20),
        0x64 => 8,
        0x65 => 12,
        0x81 => 16,
        _ => return None,
    })
}

pub fn no_payload(op: u8) -> bool {
    matches!(op, 12 | 17 | 18 | 19 | 20 | 0x1C | 0x81)
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Malformed,
    Opcode,
    Icrc,
    Good { rsp: bool, at: usize, len: usize },
}

pub fn be(b: &[u8]) -> u64 {
    b.iter().fold(0, |a, x| a << 8 | *x as u64)
}

/// What the card must make of a frame.
pub fn judge(f: &[u8]) -> Verdict {
    try_judge(f).unwrap_or(Verdict::Malformed)
}

pub fn try_judge(f: &[u8]) -> Option<Verdict> {
    if f.get(..6)? != MAC {
        return None;
    }
    let mut l2 = 14;
    let mut et = be(f.get(12..14)?);
    if et == 0x8100 {
        l2 = 18;
        et = be(f.get(16..18)?);
    }
    let ip = f.get(l2..)?;
    let (six, total) = match et {
        0x0800 => {
            let h = ip.get(..20)?;
            let sum: u64 = h.chunks(2).map(be).sum();
            let sum = (sum & 0xFFFF) + (sum >> 16);
            if h[0] != 0x45 || h[9] != 17 || be(&h[6..8]) & 0xBFFF != 0 || sum != 0xFFFF {
                return None;
            }
            (false, be(&h[2..4]) as usize)
        }
        0x86DD => {
            let h = ip.get(..40)?;
            if h[0] >> 4 != 6 || h[6] != 17 {
                return None;
            }
            (true, be(&h[4..6]) as usize + 40)
        }
        _ => return None,
    };
    let d = ip.get(..total)?;
    if total + l2 != f.len() && f.len() > 64 {
        return None;
    }
    let u = d.get(if six { 40 } else { 20 }..)?;
    if u.len() < 24 || be(&u[2..4]) != 4791 || be(&u[4..6]) as usize != u.len() {
        return None;
    }
    let op = u[8];
    let Some(ext) = ext_len(op) else {
        return Some(Verdict::Opcode);
    };
    let pad = (u[9] >> 4 & 3) as usize;
    let fixed = 24 + ext + pad;
    if u.len() < fixed || u[9] & 15 != 0 || u.len() % 4 != 0 {
        return None;
    }
    let len = u.len() - fixed;
    if len > 4096 || (no_payload(op) && (len != 0 || pad != 0)) {
        return None;
    }
    let got = u32::from_le_bytes(d[total - 4..].try_into().unwrap());
    if got != icrc(&d[..total - 4], six) {
        return Some(Verdict::Icrc);
    }
    let at = l2 + if six { 40 } else { 20 } + 20 + ext;
    let rsp = (13..=18).contains(&op);
    Some(Verdict::Good { rsp, at, len })
}

pub fn fix_sum(h: &mut [u8]) {
    h[10] = 0;
    h[11] = 0;
    let mut s: u64 = h[..20].chunks(2).map(be).sum();
    s = (s & 0xFFFF) + (s >> 16);
    s = (s & 0xFFFF) + (s >> 16);
    h[10..12].copy_from_slice(&(!(s as u16)).to_be_bytes());
}

pub const OPS: [u8; 46] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 0x16, 0x17, 0x1C,
    0x1D, 0x20, 0x25, 0x2A, 0x2B, 0x64, 0x65, 0x81, 4, 10, 17, 17, 4, 10, 7, 8, 14, 0x15, 0x18,
    0x2C, 0xFF, 0x60,
];

/// A well-formed frame with random contents.
pub fn frame(rng: &mut Rng, max_len: usize) -> Vec<u8> {
    let (vlan, six) = (rng.p(0.3), rng.p(0.4));
    let op = OPS[rng.below(OPS.len() as u64) as usize];
    let ext = ext_len(op).unwrap_or(0);
    let len = match rng.below(4) {
        _ if no_payload(op) => 0,
        0 => rng.below(6) as usize,
        1 => rng.below(130) as usize,
        _ => rng.below(max_len as u64 + 1) as usize,
    };
    let pad = (4 - len % 4) % 4;
    let mut r = |n: usize| (0..n).map(|_| rng.next() as u8).collect::<Vec<u8>>();
    let mut u = r(8);
    u[2..4].copy_from_slice(&4791u16.to_be_bytes());
    let ulen = 24 + ext + len + pad;
    u[4..6].copy_from_slice(&(ulen as u16).to_be_bytes());
    let mut bth = r(12);
    bth[0] = op;
    bth[1] = bth[1] & 0xC0 | (pad as u8) << 4;
    u.extend(bth);
    u.extend(r(ext + len));
    u.extend(vec![0; pad]);
    let mut ip = if six {
        let mut h = r(40);
        h[0] = 0x60 | h[0] & 15;
        h[4..6].copy_from_slice(&(ulen as u16).to_be_bytes());
        h[6] = 17;
        h
    } else {
        let mut h = r(20);
        h[0] = 0x45;
        h[2..4].copy_from_slice(&(ulen as u16 + 20).to_be_bytes());
        h[6] &= 0x40;
        h[7] = 0;
        h[9] = 17;
        fix_sum(&mut h);
        h
    };
    ip.extend(u);
    let c = icrc(&ip, six).to_le_bytes();
    ip.extend(c);
    let mut f = MAC.to_vec();
    f.extend(r(6));
    if vlan {
        f.extend([0x81, 0]);
        f.extend(r(2));
    }
    f.extend(if six { [0x86, 0xDD] } else { [8, 0] });
    f.extend(ip);
    if f.len() < 60 {
        // Ethernet padding; some switches pad tagged frames to 64
        f.extend(r(60 - f.len()));
    }
    f
}

/// A piece of the wire: a frame (ends with `eop` or is cut off), and what becomes of it.
#[derive(Clone)]
pub struct Item {
    pub bytes: Vec<u8>,
    pub eop: bool,
    pub verdict: Verdict,
}

pub fn item(rng: &mut Rng, max_len: usize, l: usize) -> Item {
    let mut f = frame(rng, max_len);
    let mut eop = true;
    match rng.below(16) {
        0 => {
            let i = rng.below(f.len() as u64) as usize;
            f[i] ^= 1 << rng.below(8);
        }
        1 => {
            let i = rng.below(60.min(f.len()) as u64) as usize;
            f[i] = rng.next() as u8;
        }
        2 => f.truncate(1 + rng.below(f.len() as u64) as usize),
        3 => {
            f.truncate(l * (1 + rng.below(4) as usize));
            eop = false;
        }
        4 => f.extend((0..1 + rng.below(8)).map(|_| 0)),
        5 => {
            // the IPv4 length moves, with a right checksum
            if f[12..14] == [8, 0] {
                let d = rng.below(8) as i64 - 4;
                let n = (be(&f[16..18]) as i64 + d) as u16;
                f[16..18].copy_from_slice(&n.to_be_bytes());
                fix_sum(&mut f[14..34]);
            }
        }
        6 => {
            // both lengths move
            if f[12..14] == [8, 0] {
                let d = rng.below(60) as i64 - 30;
                let n = (be(&f[16..18]) as i64 + d) as u16;
                f[16..18].copy_from_slice(&n.to_be_bytes());
                let n = (be(&f[38..40]) as i64 + d) as u16;
                f[38..40].copy_from_slice(&n.to_be_bytes());
                fix_sum(&mut f[14..34]);
            }
        }
        7 if rng.p(0.3) => f = (0..5000).map(|_| rng.next() as u8).collect(),
        _ => {}
    }
    let verdict = if eop { judge(&f) } else { Verdict::Malformed };
    Item {
        bytes: f,
        eop,
        verdict,
    }
}

pub fn items(seed: u64, n: usize, max_len: usize, l: usize) -> Vec<Item> {
    let mut rng = Rng(seed);
    let mut v: Vec<Item> = (0..n).map(|_| item(&mut rng, max_len, l)).collect();
    // the last one ends, so that a cut frame before it is seen
    let f = frame(&mut rng, 10);
    v.push(Item {
        verdict: judge(&f),
        bytes: f,
        eop: true,
    });
    v
}
