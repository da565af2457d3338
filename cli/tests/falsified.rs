//! Each field of a manifest, falsified: `validate` or `conform` names it, unless it is on the list of what can't be verified; and that list is honest.

use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const ME: &str = env!("CARGO_BIN_EXE_metaroce");

fn metaroce(args: &[&str]) -> (i32, String, String) {
    let o = Command::new(ME)
        .args(args)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    let text = |b| String::from_utf8(b).unwrap();
    let code = o.status.code().expect("no signal");
    (code, text(o.stdout), text(o.stderr))
}

/// What a run on a card of this kind finds, and its wire, in a file; the card conforms.
fn conform(card: &str, dir: &Path) -> (PathBuf, Value) {
    let run = ["run", "--card", card, "--seed", "7", "--", ME];
    let words = ["caps", "conform", card, "metaroce0", "--json"];
    // the second GID is that of IPv4, whose headers leave most to the payload
    let more = "--objects 8 --peer metaroce1 --gid-index 1";
    let more: Vec<&str> = more.split(' ').collect();
    let (code, out, err) = metaroce(&[&run[..], &words, &more].concat());
    assert_eq!(code, 0, "{out}{err}");
    let found = dir.join(format!("{card}-found.json"));
    fs::write(&found, &out).unwrap();
    let mut wires = vec![wire(&err)];
    if card == "sim-100g" {
        let words = "perftest --loss 1% --seed 5 ib_write_bw -n 20 -s 65536";
        let words: Vec<&str> = words.split(' ').collect();
        let (code, out, err) = metaroce(&words);
        assert_eq!(code, 0, "{out}{err}");
        wires.push(wire(&(out + &err)));
    }
    let facts = ["caps", "conform", card, "--json", "--facts"];
    let mut facts: Vec<&str> = facts.into_iter().chain(found.to_str()).collect();
    for w in &wires {
        facts.extend(["--wire", w]);
    }
    let (code, out, err) = metaroce(&facts);
    assert_eq!(code, 0, "{out}{err}");
    let file = dir.join(format!("{card}.json"));
    fs::write(&file, &out).unwrap();
    (file, serde_json::from_str(&out).unwrap())
}

/// The capture of a run, from what it said last: its folder.
fn wire(said: &str) -> String {
    let folder = said.lines().rev().find_map(|l| {
        let l = l
            .trim()
            .strip_prefix("metaroce: ")
            .or(l.trim().strip_prefix("results: "))?;
        l.split_once(" (seed").map(|(f, _)| f.trim())
    });
    format!("{}/wire.pcap", folder.expect("a folder"))
}

/// Fields that nothing names, and fields that are listed and named.
fn falsified(card: &str, report: &Path) -> (usize, BTreeSet<String>, BTreeSet<String>) {
    let facts = report.to_str().unwrap();
    let words = ["caps", "falsify", card, "--facts", facts];
    let (code, out, err) = metaroce(&[&words[..], &["--evidence", ".", "--json"]].concat());
    let all: Value = serde_json::from_str(&out).expect("JSON");
    let fields = all["all"].as_array().unwrap();
    let path = |f: &Value| f["path"].as_str().unwrap().to_string();
    let silent = |f: &&Value| !f["silent"].as_array().unwrap().is_empty();
    let told = |f: &&Value| f["reason"].is_null();
    let unknown: Vec<&Value> = fields.iter().filter(silent).filter(told).collect();
    assert!(code == 0 && unknown.is_empty(), "{unknown:#?}{err}");
    assert!(
        fields.iter().all(|f| f["ways"] != 0),
        "a field without a way"
    );
    let n = |k: &str| all[k].as_u64().unwrap();
    println!(
        "{card}: {} fields, {} named when falsified, {} unverifiable ({:.1} %)",
        n("fields"),
        n("named"),
        n("unverifiable"),
        n("unverifiable") as f64 * 100.0 / n("fields") as f64
    );
    // at most 15 %
    assert!(n("unverifiable") * 100 <= n("fields") * 15, "{card}");
    let listed = fields.iter().filter(|f| !silent(f) && !told(f));
    (
        fields.len(),
        fields.iter().filter(silent).map(path).collect(),
        listed.map(path).collect(),
    )
}

/// What only the wire shows.
fn claimed(report: &Value) {
    let all = report["verdicts"].as_array().unwrap();
    let pass = |claim: &str| {
        let of = all.iter().filter(|v| v["claim"] == claim);
        let n = of.filter(|v| v["outcome"] == "pass").count();
        println!("{claim}: {n} pass");
        n
    };
    for claim in ["icrc_offload", "retransmission_offload: go_back_n"] {
        assert_eq!(pass(claim), 1);
    }
    assert_eq!(pass("local_ack_timeout") + pass("rnr_timer"), 2);
    assert_eq!(pass("goodput.write") + pass("goodput.read"), 4);
    assert_eq!(pass("message_rate.write"), 3);
    assert_eq!(pass("rate_by_queue_pairs.write"), 4);
}

#[test]
fn every_field_is_named_or_listed() {
    if Command::new("ib_write_bw")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped: no perftest");
        return;
    }
    let dir = std::env::temp_dir().join(format!("falsified-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let (large, report) = conform("sim-100g", &dir);
    assert!(report["passed"].as_u64().unwrap() >= 98);
    claimed(&report);
    let (small, report) = conform("mini", &dir);
    assert!(report["passed"].as_u64().unwrap() >= 13);
    let (n, silent, listed) = falsified("sim-100g", &large);
    assert!(n > 900, "{n}");
    let (n, other, _) = falsified("mini", &small);
    assert!(n > 200, "{n}");
    // listed, and yet named: only what the other card needs on the list
    let wrong: Vec<&String> = listed.difference(&other).collect();
    assert!(
        wrong.is_empty(),
        "{wrong:?} are named; the list says they are not"
    );
    // nothing of it comes from the other card: a report without findings names less
    assert!(silent.len() > 10);
    let mut empty: Value = serde_json::from_str(&fs::read_to_string(&large).unwrap()).unwrap();
    for k in ["works", "words", "figures", "sums", "said", "timers"] {
        empty["facts"][k] = serde_json::json!({});
    }
    let file = dir.join("empty.json");
    fs::write(&file, empty.to_string()).unwrap();
    let facts = file.to_str().unwrap();
    let words = ["caps", "falsify", "sim-100g", "--facts", facts];
    let (code, out, _) = metaroce(&[&words[..], &["--evidence", "."]].concat());
    assert_eq!(code, 4);
    assert!(
        out.contains("SILENT        capabilities[reads_in_flight].limits[max].value"),
        "{out}"
    );
    fs::remove_dir_all(dir).unwrap();
}

/// What a driver says of its device is a part: what it leaves out is not judged, and what it says of all kinds of queues holds for each.
#[test]
fn what_a_driver_says_of_itself() {
    let words = ["caps", "conform", "device:metaroce0", "metaroce0"];
    for card in ["sim-100g", "mini"] {
        let run = ["run", "--card", card, "--", ME];
        let (code, out, err) = metaroce(&[&run[..], &words, &["--objects", "8"]].concat());
        assert_eq!(code, 0, "{card}: {out}{err}");
        assert!(
            out.contains("pass          scatter_gather.max_send: 16 work"),
            "{card}: {out}"
        );
    }
}
