//! The text form.

use crate::{cbor, Error, Manifest, Version, MAX_BYTES, MAX_DEPTH, SCHEMA};
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use std::{io::Read, path::Path};

/// As text, with a newline at its end.
pub fn encode(m: &Manifest) -> String {
    let mut s = serde_json::to_string_pretty(m).expect("the types have string keys only");
    s.push('\n');
    s
}

/// From text. Keys that are not known are not looked at.
pub fn decode(text: &[u8]) -> Result<Manifest, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::TooLarge(text.len() as u64));
    }
    #[derive(serde::Deserialize)]
    struct Major {
        major: u32,
        #[serde(default)]
        minor: u32,
    }
    #[derive(serde::Deserialize)]
    struct Head {
        schema: Major,
    }
    // The version first: of another major not even the types and limits are known.
    if let Ok(Head { schema }) = serde_json::from_slice(text) {
        if schema.major != SCHEMA.major {
            return Err(Error::Version(Version {
                major: schema.major,
                minor: schema.minor,
            }));
        }
    }
    depth(text)?;
    serde_json::from_slice(text).map_err(|e| Error::Malformed(e.to_string()))
}

/// Brackets outside of strings.
fn depth(text: &[u8]) -> Result<(), Error> {
    let (mut deep, mut string, mut escaped) = (0usize, false, false);
    for b in text {
        if string {
            match b {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => string = false,
                _ => {}
            }
            continue;
        }
        match b {
            b'"' => string = true,
            b'{' | b'[' => deep += 1,
            b'}' | b']' => deep = deep.saturating_sub(1),
            _ => {}
        }
        if deep > MAX_DEPTH {
            return Err(Error::Malformed(format!(
                "nested deeper than {MAX_DEPTH} levels"
            )));
        }
    }
    Ok(())
}

/// From either form.
pub fn decode_any(bytes: &[u8]) -> Result<Manifest, Error> {
    if bytes.starts_with(&cbor::MAGIC) {
        cbor::decode(bytes)
    } else {
        decode(bytes)
    }
}

/// From a file of either form, of which no more is read than a manifest can have.
pub fn read(path: &Path) -> Result<Manifest, Error> {
    let io = |e: std::io::Error| Error::Unreadable(e.to_string());
    let file = std::fs::File::open(path).map_err(io)?;
    let len = file.metadata().map_err(io)?.len();
    let mut bytes = Vec::new();
    let most = (MAX_BYTES + cbor::HEAD) as u64;
    file.take(most + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > most {
        return Err(Error::TooLarge(len.max(bytes.len() as u64)));
    }
    decode_any(&bytes)
}

/// The JSON Schema of [`Manifest`].
pub fn schema() -> String {
    let mut s = serde_json::to_value(schemars::schema_for!(Manifest)).expect("a schema is JSON");
    s["$id"] = format!("metaroce-manifest-{}.json", SCHEMA.major).into();
    s["title"] = "Manifest of a card in the hardware-offload description language".into();
    let mut s = serde_json::to_string_pretty(&s).expect("JSON");
    s.push('\n');
    s
}
