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
    if claim == "atomicity" {
        let mut f = m.clone();
        let all = f["ordering"].as_array_mut().unwrap();
        let o = all.iter_mut().find(|o| o["id"] == "atomicity").unwrap();
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
    assert!(err.contains("conform: [6/6]"), "progress: {err}");
    let report: Value = serde_json::from_str(&out).expect("JSON");
    let all = verdicts(&report);
    let passed: Vec<&String> = all.iter().filter(|v| v.1 == "pass").map(|v| &v.0).collect();
    println!("{} of {} claims pass", passed.len(), all.len());
    assert!(passed.len() >= 40, "{passed:?}");
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
