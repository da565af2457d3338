//! The memory that the largest files take, whatever is in them. Alone in its program: it counts every allocation.

use metaroce_hdl_spec::config::ECP5_1G;
use metaroce_manifest::{
    cbor,
    check::{check, MAX_FINDINGS},
    json, Error, Manifest, MAX_BYTES,
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

struct Counting;
static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator, with two counters beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        let now = NOW.fetch_add(l.size(), Relaxed) + l.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(l) }
    }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        NOW.fetch_sub(l.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(p, l) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes beyond what is there already.
fn peak<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let r = f();
    (PEAK.load(Relaxed) - before, r)
}

/// An empty string is one byte of CBOR and 24 bytes in memory, and a vector that grows holds two copies for a moment.
const MOST: usize = 48 * MAX_BYTES;

#[test]
fn the_largest_files() {
    let m = Manifest::of(&ECP5_1G);
    // with a key that nobody knows
    let text = json::encode(&m).replacen('{', "{\"x\": [0],", 1);
    let full = |item: &str, at: &str| {
        let n = (MAX_BYTES - text.len() - 100) / (item.len() + 1);
        let list = vec![item; n].join(",");
        assert!(text.contains(at));
        text.replacen(at, &format!("{at}{list},"), 1)
    };
    let capability = r#"{"id":"","state":"absent"}"#;
    let limit =
        r#"{"name":"","bound":"exactly","value":0,"unit":"ns","provenance":{"stage":"design"}}"#;
    for (what, file) in [
        ("words", full("\"\"", "\"set\": [")),
        ("figures", full(limit, "\"limits\": [")),
        ("capabilities", full(capability, "\"capabilities\": [")),
        ("times", full("0", "\"code_ns\": [")),
        ("unknown", full("[[[]]]", "{\"x\": [")),
    ] {
        assert!(file.len() <= MAX_BYTES, "{what}");
        let (bytes, found) = peak(|| json::decode(file.as_bytes()).map(|m| check(&m).len()));
        println!("{what}: {bytes} bytes, {found:?}");
        assert!(bytes < MOST, "{what}: {bytes} bytes");
        assert!(found.is_ok_and(|n| n <= MAX_FINDINGS), "{what}");
    }
    // the densest image: a capability whose set is a quarter of a million empty words
    let n = MAX_BYTES - 100;
    let mut body = vec![
        0xA4, 0, 0xA2, 0, 1, 1, 0, 1, 0xA3, 0, 0x60, 1, 0x60, 2, 0x60, 3, 0xA1, 0, 0xF4, 4, 0x81,
        0xA3, 0, 0x60, 1, 0, 2, 0x9A,
    ];
    body.extend((n as u32).to_be_bytes());
    body.resize(body.len() + n, 0x60);
    let mut image = cbor::MAGIC.to_vec();
    image.extend([1, 0, 0, 0]);
    image.extend((body.len() as u32).to_le_bytes());
    image.extend(cbor::crc32(&[&image[4..], &body]).to_le_bytes());
    image.extend(&body);
    let (bytes, found) =
        peak(|| cbor::decode(&image).map(|m| (m.capabilities[0].set.len(), check(&m).len())));
    println!("image: {bytes} bytes, {found:?}");
    assert!(bytes < MOST, "{bytes} bytes");
    assert_eq!(found, Ok((n, MAX_FINDINGS)));
    // the manifest's own arrays announced too long: refused before anything is made
    let at = body.len() - n - 4;
    body[at..at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut lying = image[..8].to_vec();
    lying.extend((body.len() as u32).to_le_bytes());
    lying.extend(cbor::crc32(&[&lying[4..], &body]).to_le_bytes());
    lying.extend(&body);
    let (bytes, r) = peak(|| cbor::decode(&lying));
    assert!(
        matches!(r, Err(Error::Malformed(_))) && bytes < 4096,
        "{bytes} bytes"
    );
}
