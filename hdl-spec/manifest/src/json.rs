//! The text form.

use crate::{cbor, check::Finding, form, Error, Manifest, Version, MAX_BYTES, MAX_DEPTH, SCHEMA};
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

/// From text. Keys that are not known do not matter.
pub fn decode(text: &[u8]) -> Result<Manifest, Error> {
    inspect(text).map(|(m, _)| m)
}

/// From text, with what there is to say about its form: keys that are not known, and what they hold.
pub fn inspect(text: &[u8]) -> Result<(Manifest, Vec<Finding>), Error> {
    let bad = |s: &str| Err(Error::Malformed(s.to_string()));
    if text.len() > MAX_BYTES {
        return Err(Error::TooLarge(text.len() as u64));
    }
    if text.iter().all(u8::is_ascii_whitespace) {
        return bad(
            "the file is empty; a manifest is JSON, or a CBOR image that begins with \"HDLM\"",
        );
    }
    if text.starts_with(b"\xEF\xBB\xBF") {
        return bad(
            "the file begins with a byte order mark: JSON has none. Save it as UTF-8 without BOM",
        );
    }
    if text.starts_with(b"\xFF\xFE") || text.starts_with(b"\xFE\xFF") {
        return bad("the file is UTF-16: save it as UTF-8 without BOM");
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
    let form = form::walk(text)?;
    let m: Manifest = serde_json::from_slice(text).map_err(|e| Error::Malformed(e.to_string()))?;
    let found = form.findings(&m);
    Ok((m, found))
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
    inspect_any(bytes).map(|(m, _)| m)
}

/// From either form, with what there is to say about it.
pub fn inspect_any(bytes: &[u8]) -> Result<(Manifest, Vec<Finding>), Error> {
    if !bytes.starts_with(&cbor::MAGIC) {
        return inspect(bytes);
    }
    let m = cbor::decode(bytes)?;
    let mut found = Vec::new();
    // There is one image of each manifest.
    if m.schema.minor <= SCHEMA.minor && !bytes.starts_with(&cbor::encode(&m)) {
        found.push(Finding {
            error: false,
            at: "file".into(),
            text: format!(
                "not the image of what was read of it: it has keys that version {}.{} does not know, which are not looked at, or leaves out empty lists",
                SCHEMA.major, SCHEMA.minor
            ),
        });
    }
    Ok((m, found))
}

/// From a file of either form, of which no more is read than a manifest can have.
pub fn read(path: &Path) -> Result<Manifest, Error> {
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let len = file.metadata().map_err(unreadable)?.len();
    take(file, len).map(|(m, _)| m)
}

/// The same, with what there is to say about it.
pub fn read_inspected(path: &Path) -> Result<(Manifest, Vec<Finding>), Error> {
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let len = file.metadata().map_err(unreadable)?.len();
    take(file, len)
}

fn unreadable(e: std::io::Error) -> Error {
    Error::Unreadable(e.to_string())
}

/// From a stream, whose length may be known.
pub fn take(from: impl Read, len: u64) -> Result<(Manifest, Vec<Finding>), Error> {
    let mut bytes = Vec::new();
    let most = (MAX_BYTES + cbor::HEAD) as u64;
    from.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(Error::TooLarge(len.max(bytes.len() as u64)));
    }
    inspect_any(&bytes)
}

/// The JSON Schema of [`Manifest`].
pub fn schema() -> String {
    let mut s = schema_value();
    s["$id"] = format!("metaroce-manifest-{}.json", SCHEMA.major).into();
    s["title"] = "Manifest of a card in the hardware-offload description language".into();
    let mut s = serde_json::to_string_pretty(&s).expect("JSON");
    s.push('\n');
    s
}

pub(crate) fn schema_value() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(Manifest)).expect("a schema is JSON")
}
