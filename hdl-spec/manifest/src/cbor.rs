//! The image of a manifest for a card's ROM: a head, then one CBOR item.
//!
//! | bytes | |
//! |---|---|
//! | 0..4 | magic, "HDLM" |
//! | 4..6 | major version of the language, little-endian |
//! | 6..8 | minor version |
//! | 8..12 | bytes of CBOR that follow the head |
//! | 12..16 | CRC-32 (that of Ethernet) of bytes 4..12 and of the CBOR |
//!
//! The CBOR is deterministic (RFC 8949, 4.2): definite lengths, keys are unsigned and ascend. So the same manifest is the same image, and a key can't come twice.

use crate::{Error, Manifest, Version, MAX_BYTES, MAX_DEPTH, SCHEMA};
use alloc::{format, string::ToString, vec::Vec};

pub const MAGIC: [u8; 4] = *b"HDLM";
pub const HEAD: usize = 16;

/// CRC-32 as Ethernet, zlib and PNG have it.
pub fn crc32(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for b in parts.iter().copied().flatten() {
        crc ^= u32::from(*b);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// The image.
pub fn encode(m: &Manifest) -> Vec<u8> {
    let mut body = Vec::new();
    match minicbor::encode(m, &mut body) {
        Ok(()) => {}
        // The writer is a vector.
        Err(e) => match e.into_write() {
            Some(never) => match never {},
            None => unreachable!("the types encode without conditions"),
        },
    }
    let mut head = Vec::with_capacity(HEAD + body.len());
    head.extend(MAGIC);
    head.extend((m.schema.major as u16).to_le_bytes());
    head.extend((m.schema.minor as u16).to_le_bytes());
    head.extend((body.len() as u32).to_le_bytes());
    let crc = crc32(&[&head[4..], &body]);
    head.extend(crc.to_le_bytes());
    head.extend(body);
    head
}

/// The manifest of an image; what follows the image (a ROM is larger) is not looked at.
pub fn decode(image: &[u8]) -> Result<Manifest, Error> {
    let bad = |s: &str| Error::Malformed(s.to_string());
    if image.len() < HEAD || image[..4] != MAGIC {
        return Err(bad(
            "no image of a manifest: it does not begin with \"HDLM\"",
        ));
    }
    let u16_at = |i: usize| u32::from(u16::from_le_bytes([image[i], image[i + 1]]));
    let u32_at =
        |i: usize| u32::from_le_bytes([image[i], image[i + 1], image[i + 2], image[i + 3]]);
    let version = Version {
        major: u16_at(4),
        minor: u16_at(6),
    };
    let len = u32_at(8);
    if len as usize > MAX_BYTES {
        return Err(Error::TooLarge(len.into()));
    }
    let Some(body) = image[HEAD..].get(..len as usize) else {
        return Err(Error::Malformed(format!(
            "cut off: the head says {len} bytes, {} are there",
            image.len() - HEAD
        )));
    };
    let (said, is) = (u32_at(12), crc32(&[&image[4..12], body]));
    if said != is {
        return Err(Error::Checksum { said, is });
    }
    if version.major != SCHEMA.major {
        return Err(Error::Version(version));
    }
    let rest = item(body, 0)?;
    if !rest.is_empty() {
        return Err(bad("there is more behind the manifest's CBOR item"));
    }
    let m: Manifest = minicbor::decode(body).map_err(|e| Error::Malformed(e.to_string()))?;
    if m.schema != version {
        return Err(bad("the head has another version than the manifest"));
    }
    Ok(m)
}

/// One well-formed item, within the depth and in the deterministic form; gives what is behind it. Only then does anything trust a length in it.
fn item(b: &[u8], depth: usize) -> Result<&[u8], Error> {
    let bad = |s: &str| Error::Malformed(s.to_string());
    if depth > MAX_DEPTH {
        return Err(Error::Malformed(format!(
            "nested deeper than {MAX_DEPTH} levels"
        )));
    }
    let (major, n, mut rest) = head(b)?;
    match major {
        0 | 1 => Ok(rest),
        // byte and text strings
        2 | 3 => {
            let s = usize::try_from(n)
                .ok()
                .and_then(|n| rest.split_at_checked(n));
            s.map(|(_, r)| r).ok_or_else(|| bad("a string is cut off"))
        }
        4 => {
            for _ in 0..n {
                rest = item(rest, depth + 1)?;
            }
            Ok(rest)
        }
        5 => {
            let mut last = None;
            for _ in 0..n {
                let (major, key, behind) = head(rest)?;
                if major != 0 {
                    return Err(bad("a key is no unsigned number"));
                }
                if last.is_some_and(|l| l >= key) {
                    return Err(bad("keys do not ascend, or one is there twice"));
                }
                last = Some(key);
                rest = item(behind, depth + 1)?;
            }
            Ok(rest)
        }
        7 if (20..=22).contains(&n) => Ok(rest),
        _ => Err(bad("a tag, a float or a simple value that no manifest has")),
    }
}

/// Major type, argument and what is behind them.
fn head(b: &[u8]) -> Result<(u8, u64, &[u8]), Error> {
    let cut = || Error::Malformed("the CBOR is cut off".to_string());
    let (first, rest) = b.split_first().ok_or_else(cut)?;
    let (major, info) = (first >> 5, first & 31);
    let more = match info {
        0..=23 => return Ok((major, info.into(), rest)),
        24 => 1,
        25 => 2,
        26 => 4,
        27 => 8,
        _ => {
            return Err(Error::Malformed(
                "an indefinite length or a reserved byte".to_string(),
            ))
        }
    };
    let (arg, rest) = rest.split_at_checked(more).ok_or_else(cut)?;
    let n = arg.iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let least = match more {
        1 => 24,
        2 => 1 << 8,
        4 => 1 << 16,
        _ => 1 << 32,
    };
    if major == 7 || n < least {
        return Err(Error::Malformed(
            "a number is longer than it needs to be".to_string(),
        ));
    }
    Ok((major, n, rest))
}
