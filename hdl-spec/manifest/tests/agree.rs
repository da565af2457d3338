//! What a manifest says twice, or what follows from what it says elsewhere: each contradiction is told, and none is seen where there is none.

use metaroce_hdl_spec::config::{ALL, SIM_100G};
use metaroce_manifest::{check::check, evidence::Folder, json, Manifest};
use serde_json::{json, Value};
use std::path::Path;

fn ours() -> Value {
    serde_json::from_str(&json::encode(&Manifest::of(&SIM_100G))).unwrap()
}

fn of<'a>(v: &'a mut Value, list: &str, id: &str) -> &'a mut Value {
    let all = v[list].as_array_mut().unwrap();
    all.iter_mut().find(|c| c["id"] == id).unwrap()
}

fn cap<'a>(v: &'a mut Value, id: &str) -> &'a mut Value {
    of(v, "capabilities", id)
}

fn without(v: &mut Value, id: &str, word: &str) {
    let set = cap(v, id)["set"].as_array_mut().unwrap();
    set.retain(|w| w != word);
}

/// Findings, as "at: text".
fn found(v: &Value) -> Vec<String> {
    let m = json::decode(v.to_string().as_bytes()).unwrap();
    let all = check(&m).into_iter();
    all.map(|f| format!("{}: {}", f.at, f.text)).collect()
}

#[test]
fn ours_agree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = Folder::new(&root);
    for c in ALL {
        let m = Manifest::of(c);
        assert_eq!((check(&m), folder.look(&m)), (vec![], vec![]), "{}", c.name);
    }
}

#[test]
fn contradictions() {
    type Edit = fn(&mut Value);
    let edits: &[(&str, Edit)] = &[
        (
            "capabilities[rereg_mr]: is absent, and yet has a provenance",
            |v| cap(v, "rereg_mr")["state"] = json!("absent"),
        ),
        ("capabilities[queue_pairs]: is `present`", |v| {
            cap(v, "queue_pairs")["state"] = json!("present")
        }),
        ("says none of the words", |v| {
            cap(v, "host_port")["set"] = json!([])
        }),
        ("limits[most]: is not in the list", |v| {
            cap(v, "queue_pairs")["limits"][0]["name"] = json!("most")
        }),
        (
            "is `at_least`, which says nothing here: `up_to` or `exactly`",
            |v| cap(v, "queue_pairs")["limits"][0]["bound"] = json!("at_least"),
        ),
        ("limits[max]: `placed`", |v| {
            cap(v, "queue_pairs")["limits"][0]["provenance"] =
                json!({"stage": "placed", "test": "./metaroce fpga"})
        }),
        ("tolerance_ppm of 0", |v| {
            cap(v, "goodput")["limits"][0]["tolerance_ppm"] = json!(0)
        }),
        ("a tolerance of 100 % leaves nothing", |v| {
            cap(v, "latency")["limits"][0]["tolerance_ppm"] = json!(1_000_000)
        }),
        ("when mtu is 1500, which is not in mtus", |v| {
            cap(v, "goodput")["limits"][0]["when"]["mtu"] = json!(1500)
        }),
        (
            "core_clock says that the frequency is exactly 322266",
            |v| cap(v, "goodput")["limits"][0]["when"]["clock_khz"] = json!(322_000),
        ),
        ("says what clock was `reached`", |v| {
            cap(v, "core_clock")["limits"][0]["name"] = json!("reached")
        }),
        ("98010 mbps are more than packets of this size leave", |v| {
            cap(v, "goodput")["limits"][0]["when"]["mtu"] = json!(2048)
        }),
        (
            "messages of 4096 bytes a second are more than the wire carries",
            |v| cap(v, "message_rate")["limits"][0]["when"]["message"] = json!(4096),
        ),
        ("64 host reads at a time of 600000 ns", |v| {
            cap(v, "goodput")["limits"][0]["when"]["host_read_ns"] = json!(600_000)
        }),
        (
            "shares a limit with `raw_packet_queues`, which is absent",
            |v| of(v, "combined", "key_table")["capabilities"][1] = json!("raw_packet_queues"),
        ),
        ("is a sum, and resize_cq has no `max`", |v| {
            of(v, "combined", "key_table")["capabilities"][1] = json!("resize_cq")
        }),
        ("processes.max only 63, though they share", |v| {
            of(v, "combined", "key_table")["capabilities"][1] = json!("processes")
        }),
        ("is 2048, and queue_pairs.max is 2049", |v| {
            cap(v, "queue_pairs")["limits"][0]["value"] = json!(2049)
        }),
        (
            "is 5000, and all of them together are 4096: that is no limit",
            |v| of(v, "combined", "qp_table")["limits"][0]["value"] = json!(5000),
        ),
        ("is a figure of none of the capabilities", |v| {
            of(v, "combined", "qp_table")["limits"][0]["name"] = json!("most")
        }),
        ("is in bytes, and in count in `queue_pairs`", |v| {
            of(v, "combined", "qp_table")["limits"][0]["unit"] = json!("bytes")
        }),
        ("falls off with `queue_pairs`", |v| {
            of(v, "combined", "rate_by_queue_pairs")["capabilities"][1] = json!("ports")
        }),
        (
            "`RC WRITE Middle` is missing: it goes with rocev2_rc, segmentation_offload",
            |v| without(v, "opcodes", "RC WRITE Middle"),
        ),
        ("`UC SEND Only` is there, which goes with rocev2_uc", |v| {
            without(v, "wire_profiles", "rocev2_uc")
        }),
        (
            "`RC CMP_SWAP` is there, which goes with rocev2_rc, compare_and_swap",
            |v| without(v, "atomic_op_accel", "compare_and_swap"),
        ),
        ("`CNP` is there", |v| {
            cap(v, "opcodes")["set"]
                .as_array_mut()
                .unwrap()
                .push(json!("CNP"))
        }),
        ("`rx_cnp` is not among the counters", |v| {
            without(v, "counters", "rx_cnp")
        }),
        ("is exactly 34, and 33 are in the set", |v| {
            cap(v, "counters")["limits"][0]["value"] = json!(34)
        }),
        ("16777215 is not there, which no RoCE card gives out", |v| {
            without(v, "reserved_qpns", "16777215")
        }),
        ("`ud` is there, and rocev2_ud is no profile", |v| {
            without(v, "wire_profiles", "rocev2_ud")
        }),
        ("256 bits at 322266 kHz are 82500 mbps", |v| {
            cap(v, "data_path")["limits"][0]["value"] = json!(256)
        }),
        ("is 17, and max_send is 16", |v| {
            cap(v, "scatter_gather")["limits"][2]["value"] = json!(17)
        }),
        ("RDMA messages are at most 2^31 bytes", |v| {
            cap(v, "segmentation_offload")["limits"][0]["value"] = json!(1u64 << 32)
        }),
        ("only the bus of a simulator", |v| {
            cap(v, "rereg_mr")["provenance"]["stage"] = json!("silicon")
        }),
        ("show clocks, not what a card does", |v| {
            cap(v, "rereg_mr")["provenance"]["stage"] = json!("placed")
        }),
        ("`design`, so nothing was measured", |v| {
            cap(v, "rereg_mr")["provenance"]["stage"] = json!("design")
        }),
        ("ordering[fences]: is not registered", |v| {
            of(v, "ordering", "fence")["id"] = json!("fences")
        }),
        ("ordering[fence]: holds for nobody", |v| {
            of(v, "ordering", "fence")["scope"] = json!("nobody")
        }),
        ("ordering[fence]: can't hold for `host`", |v| {
            of(v, "ordering", "fence")["scope"] = json!("host")
        }),
        ("ordering[atomicity]: is not there", |v| {
            v["ordering"].as_array_mut().unwrap().pop();
        }),
        ("timers[timeout]: is not registered", |v| {
            v["timers"][0]["id"] = json!("timeout")
        }),
        (
            "code_ns[9] is 2000000, at most 0 ppm early, and lasts at least 2097152",
            |v| v["timers"][0]["code_ns"][9] = json!(2_000_000),
        ),
        (
            "code_ns[9] is 2100000, and 2097152 for every program",
            |v| v["timers"][0]["code_ns"][9] = json!(2_100_000),
        ),
        ("code_ns[0] is 5, and 0, for ever", |v| {
            v["timers"][0]["code_ns"][0] = json!(5)
        }),
        ("at most 4 times", |v| v["timers"][0]["late_ns"] = json!(1)),
        ("code_ns has 31 codes", |v| {
            v["timers"][1]["code_ns"].as_array_mut().unwrap().pop();
        }),
        ("and resolution_ns is 100000", |v| {
            v["timers"][1]["resolution_ns"] = json!(100_000)
        }),
    ];
    assert_eq!(found(&ours()), [""; 0]);
    for (says, edit) in edits {
        let mut v = ours();
        edit(&mut v);
        let all = found(&v);
        assert!(all.iter().any(|f| f.contains(says)), "{says}: {all:?}");
    }
}

/// What a folder does not have.
#[test]
fn beside_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = Folder::new(&root);
    type Edit = fn(&mut Value);
    let edits: &[(&str, Edit)] = &[
        ("register_map.file: docs/none.svd is not there", |v| {
            v["register_map"]["file"] = json!("docs/none.svd")
        }),
        ("register_map.file: ../README.md is not there", |v| {
            v["register_map"]["file"] = json!("../README.md")
        }),
        ("README.md is none", |v| {
            v["register_map"]["file"] = json!("README.md")
        }),
        ("is \"ip-xact\"", |v| {
            v["register_map"]["format"] = json!("ip-xact")
        }),
        ("register_map.abi: is 1.7, and 1.0 in", |v| {
            v["register_map"]["abi"]["minor"] = json!(7)
        }),
        ("card.vendor: is other, and metaroce in", |v| {
            v["card"]["vendor"] = json!("other")
        }),
        ("`tx_frame` is no register", |v| {
            let c = cap(v, "counters");
            c["set"][0] = json!("tx_frame");
        }),
        ("--test nothing` is not there", |v| {
            let p = &mut cap(v, "rereg_mr")["provenance"];
            p["test"] = json!("cargo test --release -p metaroce-tb --test nothing");
        }),
        ("`cargo xtask nothing` is not there", |v| {
            cap(v, "rereg_mr")["provenance"]["test"] = json!("cargo xtask nothing")
        }),
        ("`report.pdf` is not there", |v| {
            cap(v, "rereg_mr")["provenance"]["test"] = json!("report.pdf")
        }),
        ("nobody can tell", |v| {
            cap(v, "rereg_mr")["provenance"]["test"] = json!("ask us")
        }),
    ];
    for (says, edit) in edits {
        let mut v = ours();
        edit(&mut v);
        let m = json::decode(v.to_string().as_bytes()).unwrap();
        let all = folder.look(&m);
        let one = |f: &metaroce_manifest::check::Finding| format!("{}: {}", f.at, f.text);
        let all: Vec<String> = all.iter().map(one).collect();
        assert!(all.len() == 1 && all[0].contains(says), "{says}: {all:?}");
    }
}
