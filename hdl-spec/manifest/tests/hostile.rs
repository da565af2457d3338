//! Files that nobody should have written: a clear error or an ignored key, never a panic, and no more memory than the limit.

use metaroce_hdl_spec::config::{ECP5_1G, SIM_100G};
use metaroce_manifest::{cbor, check::check, json, Error, Manifest, MAX_BYTES, MAX_DEPTH, SCHEMA};
use proptest::prelude::*;
use serde_json::{json, Value};

const ACME: &[u8] = include_bytes!("../../../docs/hdl/examples/acme-a200.json");

fn text_of(e: Error) -> String {
    e.to_string()
}

/// The image of other bytes, with a head that fits.
fn image(body: &[u8], major: u16) -> Vec<u8> {
    image_of(body, major, SCHEMA.minor as u16)
}

fn image_of(body: &[u8], major: u16, minor: u16) -> Vec<u8> {
    let mut v = cbor::MAGIC.to_vec();
    v.extend(major.to_le_bytes());
    v.extend(minor.to_le_bytes());
    v.extend((body.len() as u32).to_le_bytes());
    let crc = cbor::crc32(&[&v[4..], body]);
    v.extend(crc.to_le_bytes());
    v.extend(body);
    v
}

#[test]
fn checksum() {
    // the published check value
    assert_eq!(cbor::crc32(&[b"1234", b"56789"]), 0xCBF4_3926);
}

#[test]
fn damaged_or_cut_off() {
    let good = cbor::encode(&Manifest::of(&ECP5_1G));
    for i in 0..good.len() {
        for bit in [0, 3, 7] {
            let mut bad = good.clone();
            bad[i] ^= 1 << bit;
            let e = cbor::decode(&bad).expect_err("damaged");
            if i >= cbor::HEAD {
                assert!(text_of(e).starts_with("damaged"), "byte {i}");
            }
        }
        assert!(cbor::decode(&good[..i]).is_err(), "{i} bytes");
    }
    let text = json::encode(&Manifest::of(&ECP5_1G));
    for i in (0..text.len() - 2).step_by(7) {
        assert!(json::decode(&text.as_bytes()[..i]).is_err(), "{i} bytes");
    }
    assert!(json::decode_any(b"").is_err());
    assert!(json::decode(b"null").is_err());
}

#[test]
fn another_major_version() {
    let mut m = Manifest::of(&SIM_100G);
    m.schema.major = 2;
    let why = text_of(cbor::decode(&cbor::encode(&m)).unwrap_err());
    assert!(why.contains("version 2.1") && why.contains("1.x"), "{why}");
    // whatever else such a file has
    let text = br#"{"schema": {"major": 2, "minor": 7}, "cards": 3}"#;
    let why = text_of(json::decode(text).unwrap_err());
    assert!(why.contains("version 2.7") && why.contains("1.x"), "{why}");
    let deep = format!(
        r#"{{"schema": {{"major": 2}}, "x": {}1{}}}"#,
        "[".repeat(20),
        "]".repeat(20)
    );
    let why = text_of(json::decode(deep.as_bytes()).unwrap_err());
    assert!(why.contains("version 2.0"), "{why}");
    assert_eq!(check(&m)[0].at, "schema");
    // the head and what is behind it disagree
    let mut bad = cbor::encode(&Manifest::of(&SIM_100G));
    bad[6] = 9;
    let crc = cbor::crc32(&[&bad[4..12], &bad[16..]]);
    bad[12..16].copy_from_slice(&crc.to_le_bytes());
    assert!(text_of(cbor::decode(&bad).unwrap_err()).contains("another version"));
}

/// What a later minor version adds is not looked at.
#[test]
fn a_later_minor_version() {
    let mut v: Value = serde_json::from_slice(ACME).unwrap();
    v["schema"]["minor"] = json!(9);
    v["weather"] = json!({"sunny": [true, null, 1.5]});
    v["card"]["colour"] = json!("blue");
    v["capabilities"][0]["mood"] = json!("good");
    let later =
        json!({"id": "teleportation", "state": "present", "provenance": {"stage": "design"}});
    v["capabilities"].as_array_mut().unwrap().push(later);
    let m = json::decode(v.to_string().as_bytes()).unwrap();
    let found = check(&m);
    assert!(found.iter().all(|f| !f.error), "{found:?}");
    // the same id in our own version is a mistake
    v["schema"]["minor"] = json!(0);
    let m = json::decode(v.to_string().as_bytes()).unwrap();
    let found = check(&m);
    let errors: Vec<_> = found.iter().filter(|f| f.error).collect();
    assert!(
        errors.len() == 1 && errors[0].at.contains("teleportation"),
        "{found:?}"
    );
    // CBOR: a map of Manifest with one key more, whose value nests
    let good = cbor::encode(&m);
    let mut body = good[cbor::HEAD..].to_vec();
    assert_eq!(body[0] >> 5, 5);
    body[0] += 1;
    body.extend([0x18, 99, 0x82, 0xA1, 0, 0xF5, 0x43, 1, 2, 3]);
    assert_eq!(cbor::decode(&image_of(&body, 1, 0)), Ok(m));
}

#[test]
fn twice() {
    let mut m = Manifest::of(&SIM_100G);
    let again = m.capabilities[3].clone();
    m.capabilities.push(again);
    m.combined.push(m.combined[0].clone());
    m.ordering.push(m.ordering[0].clone());
    m.timers.push(m.timers[0].clone());
    let c = &mut m.capabilities[1];
    c.limits.push(c.limits[0].clone());
    c.set.push(c.set[0].clone());
    let at: Vec<String> = check(&m)
        .into_iter()
        .filter(|f| f.error && f.text.contains("twice"))
        .map(|f| f.at)
        .collect();
    assert_eq!(
        at,
        [
            "capabilities[segmentation_offload]",
            "capabilities[atomic_op_accel]",
            "capabilities[atomic_op_accel].limits[in_flight]",
            "combined[qp_table]",
            "ordering[completion_after_payload]",
            "timers[local_ack_timeout]"
        ]
    );
    // keys of the text form
    let text = json::encode(&Manifest::of(&SIM_100G)).replacen(
        "\"firmware\"",
        "\"card\": {}, \"firmware\"",
        1,
    );
    assert!(json::decode(text.as_bytes()).is_err());
    // keys of the image: 0 twice
    let why = text_of(cbor::decode(&image(&[0xA2, 0, 1, 0, 2], 1)).unwrap_err());
    assert!(why.contains("twice"), "{why}");
}

#[test]
fn large_and_deep() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(50_000), close.repeat(50_000));
        let why = text_of(json::decode(&deep.as_bytes()[..deep.len().min(MAX_BYTES)]).unwrap_err());
        assert!(why.contains("deeper than 16"), "{why}");
    }
    for byte in [0x81, 0xA1] {
        let mut body = vec![0xA1, 0x18, 99];
        for _ in 0..50_000 {
            body.push(byte);
            if byte == 0xA1 {
                body.push(0);
            }
        }
        body.push(0);
        let why = text_of(cbor::decode(&image(&body, 1)).unwrap_err());
        assert!(why.contains("deeper than 16"), "{why}");
    }
    // the deepest that is read
    for (levels, read) in [(MAX_DEPTH - 1, true), (MAX_DEPTH, false)] {
        let m = Manifest::of(&ECP5_1G);
        let nest = format!("{{\"x\": {}{}, ", "[".repeat(levels), "]".repeat(levels));
        let text = json::encode(&m).replacen('{', &nest, 1);
        assert_eq!(json::decode(text.as_bytes()).is_ok(), read, "{levels}");
        let mut body = cbor::encode(&m)[cbor::HEAD..].to_vec();
        body[0] += 1;
        body.extend([0x18, 99]);
        body.resize(body.len() + levels, 0x81);
        body.push(0);
        assert_eq!(cbor::decode(&image(&body, 1)).is_ok(), read, "{levels}");
    }
    // lengths that nothing could hold
    for body in [
        &[0x9B, 255, 255, 255, 255, 255, 255, 255, 255][..],
        &[0xBB, 255, 255, 255, 255, 255, 255, 255, 255],
        &[0x7B, 255, 255, 255, 255, 255, 255, 255, 255],
        &[0x9F, 0xFF],
        &[0xA1, 4, 0x9A, 255, 255, 255, 255],
    ] {
        assert!(cbor::decode(&image(body, 1)).is_err());
    }
    assert_eq!(
        json::decode(&vec![b' '; MAX_BYTES + 1]),
        Err(Error::TooLarge(MAX_BYTES as u64 + 1))
    );
    // 100 MB, of which no more than the limit is read
    let path = std::env::temp_dir().join(format!("manifest-{}", std::process::id()));
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(100_000_000).unwrap();
    let r = json::read(&path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(r, Err(Error::TooLarge(100_000_000)));
    assert!(json::read(std::path::Path::new("/dev/zero")).is_err());
}

/// What a terminal would take for a command is refused.
#[test]
fn control_characters() {
    let mut m = Manifest::of(&SIM_100G);
    m.card.name = "\u{1b}[2J".into();
    m.capabilities[0].id = "a\u{7}b".into();
    m.capabilities[1].set[0] = "x\ny".into();
    let found = check(&m);
    assert!(found.iter().filter(|f| f.error).count() >= 3);
    assert!(
        found
            .iter()
            .all(|f| !f.at.chars().chain(f.text.chars()).any(char::is_control)),
        "{found:?}"
    );
}

/// Random edits of the bytes of a good manifest.
fn edited(good: &[u8], edits: &[(u32, u8, u8)]) -> Vec<u8> {
    let mut b = good.to_vec();
    for (at, kind, value) in edits {
        let i = *at as usize % b.len();
        match kind % 4 {
            0 => b[i] = *value,
            1 => b.insert(i, *value),
            2 => drop(b.remove(i)),
            _ => {
                let n = (*value as usize).min(b.len() - i);
                let piece = b[i..i + n].to_vec();
                b.splice(i..i, piece);
            }
        }
        if b.is_empty() {
            b.push(0);
        }
    }
    b
}

/// Whatever comes out of a decoder goes through every other part.
fn through(m: Manifest) {
    let sound = check(&m).iter().all(|f| !f.error);
    metaroce_manifest::sheet::markdown(&m, "");
    for p in metaroce_manifest::profile::PROFILES {
        metaroce_manifest::profile::verdicts(p, &m);
    }
    metaroce_manifest::diff::diff(&Manifest::of(&ECP5_1G), &m);
    let same = metaroce_manifest::diff::diff(&m, &m);
    assert!(!sound || same.is_empty(), "{same:?}");
    if m.schema.major == 1 && m.schema.minor < 1 << 16 {
        assert_eq!(cbor::decode(&cbor::encode(&m)), Ok(m.clone()));
    }
    assert_eq!(json::decode(json::encode(&m).as_bytes()), Ok(m));
}

/// `PROPTEST_CASES` for more.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(4), ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(b in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = json::decode_any(&b);
        let _ = cbor::decode(&image(&b, 1));
    }

    #[test]
    fn random_edits_of_an_image(edits in proptest::collection::vec(any::<(u32, u8, u8)>(), 1..4)) {
        let body = cbor::encode(&Manifest::of(&ECP5_1G))[cbor::HEAD..].to_vec();
        if let Ok(m) = cbor::decode(&image(&edited(&body, &edits), 1)) {
            through(m);
        }
    }

    #[test]
    fn random_edits_of_a_text(edits in proptest::collection::vec(any::<(u32, u8, u8)>(), 1..3)) {
        if let Ok(m) = json::decode(&edited(ACME, &edits)) {
            through(m);
        }
    }

    /// Any figure survives both forms, and the worse end of its tolerance never overflows.
    #[test]
    fn any_figure(value: u64, tolerance: Option<u32>, percentile: Option<u32>, bound in 0usize..4, unit in 0usize..9, qps: Option<u32>, text: Option<String>) {
        let mut m = Manifest::of(&ECP5_1G);
        let l = &mut m.capabilities[3].limits[0];
        l.value = value;
        l.tolerance_ppm = tolerance;
        l.percentile_ppm = percentile;
        l.bound = metaroce_manifest::Bound::ALL[bound];
        l.unit = metaroce_manifest::Unit::ALL[unit];
        l.when = Some(metaroce_manifest::Condition { qps, text, ..Default::default() });
        through(m);
    }
}
