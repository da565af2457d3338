//! `metaroce caps conform` on a simulated card: what the manifest claims is so, and each claim that passes is found when it is falsified.

use serde_json::{json, Value};
use std::{fs, path::PathBuf, process::Command};

fn folder(name: &str) -> PathBuf {
    let d = std::env::temp_dir().join(format!("conform-{name}-{}", std::process::id()));
    fs::create_dir_all(&d).unwrap();
    d
}

fn metaroce(args: &[&str]) -> (i32, String, String) {
    let o = Command::new(env!("CARGO_BIN_EXE_metaroce"))
        .args(args)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    let text = |b| String::from_utf8(b).unwrap();
    (
        o.status.code().expect("no signal"),
        text(o.stdout),
        text(o.stderr),
    )
}

fn verdicts(report: &Value) -> Vec<(String, String)> {
    let all = report["verdicts"].as_array().expect("verdicts").iter();
    all.map(|v| {
        let s = |k: &str| v[k].as_str().expect(k).to_string();
        (s("claim"), s("outcome"))
    })
    .collect()
}

/// The manifest with one claim falsified, in each way that there is.
fn falsified(m: &Value, claim: &str) -> Vec<Value> {
    let mut out = vec![];
    if claim == "card.version" {
        let mut f = m.clone();
        f["card"]["version"] = json!("9.9.9");
        return vec![f];
    }
    if claim == "atomicity" || claim == "data_in_order" {
        let mut f = m.clone();
        let all = f["ordering"].as_array_mut().unwrap();
        let o = all.iter_mut().find(|o| o["id"] == claim).unwrap();
        o["scope"] = json!("host");
        return vec![f];
    }
    let (id, word) = match claim.split_once(": ") {
        Some((id, w)) => (id, Some(w)),
        None => (claim, None),
    };
    let (id, figure) = match id.split_once('.') {
        Some((id, f)) => (id, Some(f)),
        None => (id, None),
    };
    let at = |f: &Value| {
        let all = f["capabilities"].as_array().unwrap();
        all.iter().position(|c| c["id"] == id).expect("capability")
    };
    let mut f = m.clone();
    let n = at(&f);
    if let Some(w) = word {
        let set = f["capabilities"][n]["set"].as_array_mut().unwrap();
        set.retain(|v| v != w);
        out.push(f);
    } else if let Some(name) = figure {
        for by in [-1i64, 1] {
            let mut f = m.clone();
            let all = f["capabilities"][n]["limits"].as_array_mut().unwrap();
            let l = all.iter_mut().find(|l| l["name"] == name).unwrap();
            l["value"] = json!(l["value"].as_i64().unwrap() + by);
            out.push(f);
        }
    } else {
        // absent, with nothing to speak of
        let mut g = f.clone();
        g["capabilities"][n] = json!({ "id": id, "state": "absent" });
        out.push(g);
        f["capabilities"][n]["state"] = json!("present");
        out.push(f);
        let mut g = m.clone();
        g["capabilities"].as_array_mut().unwrap().remove(n);
        out.push(g);
    }
    out
}

#[test]
fn what_is_claimed_is_so_and_what_is_falsified_is_found() {
    let dir = folder("card");
    let me = env!("CARGO_BIN_EXE_metaroce");
    let junit = dir.join("junit.xml");
    let args = ["run", "--", me, "caps", "conform", "sim-100g", "metaroce0"];
    let more = [
        "--objects",
        "8",
        "--json",
        "--junit",
        junit.to_str().unwrap(),
    ];
    let (code, out, err) = metaroce(&[&args[..], &more[..]].concat());
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("conform: [7/7]"), "progress: {err}");
    let report: Value = serde_json::from_str(&out).expect("JSON");
    let all = verdicts(&report);
    let passed: Vec<&String> = all.iter().filter(|v| v.1 == "pass").map(|v| &v.0).collect();
    println!("{} of {} claims pass", passed.len(), all.len());
    assert!(passed.len() >= 80, "{passed:?}");
    let xml = fs::read_to_string(&junit).unwrap();
    assert_eq!(xml.matches("<testcase ").count(), all.len());
    assert!(xml.contains(report["manifest_sha256"].as_str().unwrap()));
    // the same findings, another manifest
    let found = dir.join("report.json");
    fs::write(&found, &out).unwrap();
    let (code, text, _) = metaroce(&["caps", "show", "sim-100g", "--json"]);
    assert_eq!(code, 0);
    let mut m: Value = serde_json::from_str(&text).unwrap();
    // What was measured under conditions of this card would contradict each falsified limit, and be refused before anything is judged.
    for list in ["capabilities", "combined"] {
        for c in m[list].as_array_mut().unwrap() {
            if let Some(l) = c.get_mut("limits").and_then(Value::as_array_mut) {
                l.retain(|l| l.get("when").is_none());
            }
        }
    }
    let mut n = 0;
    for claim in passed {
        for f in falsified(&m, claim) {
            let file = dir.join("false.json");
            fs::write(&file, f.to_string()).unwrap();
            let (file, found) = (file.to_str().unwrap(), found.to_str().unwrap());
            let (code, out, err) = metaroce(&["caps", "conform", file, "--facts", found, "--json"]);
            n += 1;
            if code == 1 {
                // what `validate` finds already
                let parts = claim.split(['.', ':']).map(str::trim);
                assert!(parts.clone().all(|p| err.contains(p)), "{claim}: {err}");
                continue;
            }
            assert_eq!(code, 4, "{claim}: {out}{err}");
            let report: Value = serde_json::from_str(&out).unwrap();
            let failed = verdicts(&report);
            let failed: Vec<_> = failed.iter().filter(|v| v.1 == "fail").collect();
            assert!(failed.iter().any(|v| v.0 == *claim), "{claim}: {failed:?}");
        }
    }
    println!("{n} falsified claims found");
    // the report is there, although its copy can't be written
    let (code, out, err) = metaroce(&[
        "caps",
        "conform",
        "sim-100g",
        "--facts",
        found.to_str().unwrap(),
        "--json",
        "--junit",
        "/nonexistent/junit.xml",
    ]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("/nonexistent/junit.xml"), "{err}");
    assert!(out.contains("manifest_sha256"));
    // a card that has no atomics is another one
    let (code, out, _) = metaroce(&[
        "caps",
        "conform",
        "ecp5-1g",
        "--facts",
        found.to_str().unwrap(),
    ]);
    assert_eq!(code, 4);
    assert!(
        out.contains("FAIL          atomic_op_accel: absent, but it works"),
        "{out}"
    );
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_can_t_be_probed_is_told() {
    let (code, _, err) = metaroce(&[
        "run",
        "--",
        env!("CARGO_BIN_EXE_metaroce"),
        "caps",
        "conform",
        "sim-100g",
        "other0",
    ]);
    assert_eq!(code, 1);
    assert!(
        err.contains("no verbs device other0; there is metaroce0, metaroce1"),
        "{err}"
    );
    let (code, _, err) = metaroce(&["caps", "conform", "sim-100g"]);
    assert_eq!(code, 2, "{err}");
    let file = std::env::temp_dir().join(format!("conform-none-{}", std::process::id()));
    fs::write(&file, "{}").unwrap();
    let (code, _, err) = metaroce(&[
        "caps",
        "conform",
        "sim-100g",
        "--facts",
        file.to_str().unwrap(),
    ]);
    assert_eq!(code, 1);
    assert!(err.contains("no report of `caps conform --json`"), "{err}");
    fs::remove_file(file).unwrap();
}

/// A device of another vendor, which has few of everything: `tests/c/other_nic.c` stands in for its library. Nothing of ours is in between.
#[test]
fn a_device_never_seen() {
    let header = std::path::Path::new("/usr/include/infiniband/verbs.h");
    if !header.exists() || Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: no C compiler or no libibverbs-dev");
        return;
    }
    let dir = folder("other");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/other_nic.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-O1", "-o"])
        .arg(dir.join("libibverbs.so.1"))
        .arg(source)
        .status();
    assert!(built.unwrap().success());
    let conform = |m: &Value, more: &[&str]| {
        let file = dir.join("other.json");
        fs::write(&file, m.to_string()).unwrap();
        let o = Command::new(env!("CARGO_BIN_EXE_metaroce"))
            .args([
                "caps",
                "conform",
                file.to_str().unwrap(),
                "other_0",
                "--json",
            ])
            .args(more)
            .env("LD_LIBRARY_PATH", &dir)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&o.stderr).into_owned();
        if o.status.code() == Some(1) {
            // what `validate` finds already
            return (Value::Null, vec![text]);
        }
        let report: Value = serde_json::from_slice(&o.stdout).expect("JSON");
        let failed = verdicts(&report).into_iter().filter(|v| v.1 == "fail");
        let failed: Vec<String> = failed.map(|v| v.0).collect();
        assert_eq!(
            o.status.code(),
            Some(if failed.is_empty() { 0 } else { 4 }),
            "{failed:?}"
        );
        (report, failed)
    };
    let known = json!({ "stage": "silicon", "test": "the vendor's" });
    let has = |id: &str, set: &[&str], figures: &[(&str, u64, &str)]| {
        let figures: Vec<Value> = figures
            .iter()
            .map(|(name, value, unit)| json!({ "name": name, "bound": "up_to", "value": value, "unit": unit, "provenance": known }))
            .collect();
        json!({ "id": id, "state": "enabled", "set": set, "limits": figures, "provenance": known })
    };
    let m = json!({
        "schema": { "major": 1, "minor": 0 },
        "card": { "vendor": "other", "name": "other-25", "version": "7.1" },
        "firmware": { "needed": false },
        "capabilities": [
            has("resize_cq", &[], &[]),
            has("segmentation_offload", &[], &[]),
            // no immediate and no invalidation
            has("opcodes", &[
                "RC SEND First", "RC SEND Middle", "RC SEND Last", "RC SEND Only",
                "RC WRITE First", "RC WRITE Middle", "RC WRITE Last", "RC WRITE Only",
                "RC READ Request", "RC READ Response First", "RC READ Response Middle",
                "RC READ Response Last", "RC READ Response Only", "RC ACK",
                "UC SEND First", "UC SEND Middle", "UC SEND Last", "UC SEND Only",
                "UC WRITE First", "UC WRITE Middle", "UC WRITE Last", "UC WRITE Only",
            ], &[]),
            has("wire_profiles", &["rocev2_rc", "rocev2_uc"], &[]),
            has("mtus", &["256", "512", "1024"], &[("max", 1024, "bytes")]),
            has("line_rates", &["10000"], &[("max", 10_000, "mbps")]),
            has("ports", &[], &[("max", 1, "count")]),
            has("queue_pairs", &[], &[("max", 13, "count")]),
            has("memory_regions", &[], &[("max", 21, "count")]),
            has("completion_queues", &[], &[("max", 9, "count"), ("max_entries", 300, "count")]),
            has("protection_domains", &[], &[("max", 5, "count")]),
            has("work_queues", &[], &[("max_send", 100, "count"), ("max_recv", 100, "count")]),
            has("scatter_gather", &[], &[("max_send", 3, "count"), ("max_recv", 3, "count")]),
            has("reads_in_flight", &[], &[("max", 2, "count")]),
        ]
    });
    let (report, failed) = conform(&m, &[]);
    assert!(failed.is_empty(), "{failed:?}");
    let all = verdicts(&report);
    let passed = all.iter().filter(|v| v.1 == "pass").count();
    println!("{passed} of {} claims pass", all.len());
    assert_eq!(passed, all.len(), "{all:?}");
    // each of them, falsified
    // (where the driver names the limit itself, a card could have more: what is above can't be known)
    let of_driver = [
        "work_queues.max_send",
        "work_queues.max_recv",
        "completion_queues.max_entries",
    ];
    for (claim, _) in all {
        let ways = if of_driver.contains(&claim.as_str()) {
            1
        } else {
            9
        };
        for f in falsified(&m, &claim).into_iter().take(ways) {
            let (_, failed) = conform(&f, &[]);
            let id = claim.split(['.', ':']).next().unwrap();
            let found = |f: &String| *f == claim || f.contains("validate") && f.contains(id);
            assert!(failed.iter().any(found), "{claim}: {failed:?}");
        }
    }
    // what it does not have
    for (id, set) in [
        ("atomic_op_accel", &["fetch_and_add"][..]),
        ("memory_windows", &["type_1"]),
        ("shared_receive_queues", &["rc"]),
        ("inline_data", &[]),
        ("rereg_mr", &[]),
        ("remote_invalidation", &[]),
    ] {
        let mut f = m.clone();
        f["capabilities"]
            .as_array_mut()
            .unwrap()
            .push(has(id, set, &[]));
        let (_, failed) = conform(&f, &[]);
        assert!(failed.iter().any(|c| c == id), "{id}: {failed:?}");
    }
    // not counted to the end
    let (report, failed) = conform(&m, &["--objects", "3"]);
    assert!(failed.is_empty(), "{failed:?}");
    let open = verdicts(&report)
        .into_iter()
        .filter(|v| v.1 == "unverifiable");
    assert_eq!(open.count(), 4);
    fs::remove_dir_all(dir).unwrap();
}

/// What makes no sense together, or nothing at all, is refused; a report also comes through a pipe.
#[test]
fn arguments() {
    let (code, _, err) = metaroce(&["caps", "conform", "sim-100g", "x", "--objects", "0"]);
    assert!(code == 2 && err.contains("--objects"), "{err}");
    let (code, _, err) = metaroce(&[
        "caps",
        "conform",
        "sim-100g",
        "--facts",
        "f",
        "--objects",
        "8",
    ]);
    assert!(code == 2 && err.contains("--facts"), "{err}");
    // a capture is of an earlier run
    let (code, _, err) = metaroce(&["caps", "conform", "sim-100g", "x", "--wire", "w.pcap"]);
    assert!(code == 2 && err.contains("--wire"), "{err}");
    let (code, _, err) = metaroce(&["caps", "conform", "sim-100g", "--wire", "w.pcap"]);
    assert!(code == 2 && err.contains("<DEVICE>"), "{err}");
    let (code, _, err) = metaroce(&["caps", "conform", "sim-100g", "--facts", "-"]);
    assert!(
        code == 1 && err.contains("no report of `caps conform --json`"),
        "{err}"
    );
}
