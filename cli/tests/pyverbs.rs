//! `metaroce pyverbs`: rdma-core's own tests on the card, and the judgement of their results.

mod common;
use common::*;
use std::{fs, path::Path, process::Command};

/// True when pyverbs and its tests are installed; else says that the test is skipped.
fn installed() -> bool {
    let there = Path::new("/usr/share/doc/rdma-core/tests/run_tests.py").exists()
        && Command::new("/usr/bin/python3")
            .args(["-c", "import pyverbs.device"])
            .output()
            .is_ok_and(|o| o.status.success());
    if !there {
        println!("skipped: pyverbs or its tests are not installed (package python3-pyverbs)");
    }
    there
}

/// No test fails, and none is skipped but for what the card does not have by design.
fn everything(options: &[&str]) -> serde_json::Value {
    let lab = Lab::new();
    let o = lab
        .metaroce(&[&["pyverbs", "--timeout", "900"], options].concat())
        .wait(930)
        .says("unexpected skip");
    let r = lab.result();
    let t = &r["totals"];
    println!("{t}: {:.1} s", o.took.as_secs_f64());
    assert_eq!((&t["failed"], &t["error"]), (&0.into(), &0.into()), "{t}");
    assert!(t["passed"].as_u64().unwrap() >= 97, "{t}");
    let all = r["tests"].as_array().unwrap();
    // Those of rdma-core 44.
    assert!(all.len() >= 137);
    assert_eq!((&t["unexpected_skip"], o.code), (&0.into(), 0), "{t}");
    for (what, why) in [
        ("test_qpex.QpExTestCase.test_qp_ex_xrc_send", "xrc"),
        ("test_qp.QPTest.test_query_raw_qp", "raw_packet"),
        ("test_device.DMTest.test_create_dm", "device_memory"),
        (
            "test_shared_pd.SharedPDTestCase.test_imported_rc_ex_rdma_write",
            "import",
        ),
    ] {
        let one = all.iter().find(|t| t["test"] == what).unwrap();
        assert_eq!(
            (&one["outcome"], &one["absent"]),
            (&"skipped".into(), &why.into()),
            "{what}"
        );
    }
    lab.assert_tidy();
    lab.assert_no_processes();
    r
}

#[test]
fn every_module_runs_and_nothing_fails() {
    if installed() {
        everything(&[]);
    }
}

/// The same with faults on every RC connection.
#[test]
fn every_module_on_a_lossy_wire() {
    if !installed() {
        return;
    }
    let r = everything(&["--loss", "0.5%", "--reorder", "0.5%", "--faults-on", "rc"]);
    let f = &r["report"]["fabric"];
    println!("{f}");
    assert!(f["lost"].as_u64().unwrap() > 0 && f["reordered"].as_u64().unwrap() > 0);
}

/// The same modules with the transport in software.
#[test]
fn core_modules_on_cards_without_transport() {
    if !installed() {
        return;
    }
    let modules =
        "addr atomic cq cq_events cqex device fork mr pd qp qpex rdmacm relaxed_ordering shared_pd";
    let names: Vec<String> = modules
        .split_whitespace()
        .map(|m| format!("tests.test_{m}"))
        .collect();
    let mut words = vec!["pyverbs", "--timeout", "600", "--card", "mini"];
    words.extend(names.iter().map(String::as_str));
    let lab = Lab::new();
    lab.metaroce(&words).wait(630).ok();
    let r = lab.result();
    let t = &r["totals"];
    println!("{t}");
    assert_eq!(
        (&t["failed"], &t["error"], &t["unexpected_skip"]),
        (&0.into(), &0.into(), &0.into()),
        "{t}"
    );
    assert!(t["passed"].as_u64().unwrap() >= 80, "{t}");
}

#[test]
fn traffic_tests_on_a_lossy_wire() {
    if !installed() {
        return;
    }
    let lab = Lab::new();
    lab.metaroce(&[
        "pyverbs",
        "--loss",
        "1%",
        "--dup",
        "1%",
        "--seed",
        "7",
        "test_qpex.QpExTestCase.test_qp_ex_rc_send",
        "test_qpex.QpExTestCase.test_qp_ex_rc_rdma_read",
        "tests.test_cqex.CqExTestCase.test_rc_traffic_cq_ex",
        "test_relaxed_ordering.RoTestCase.test_ro_rc_traffic",
        "test_mr.MWTest.test_mw_type2_invalidate_remote",
    ])
    .wait(200)
    .ok();
    let r = lab.result();
    assert_eq!(r["totals"]["passed"], 5);
    assert!(r["report"]["fabric"]["lost"].as_u64().unwrap() > 0);
}

/// A `run_tests.py` that prints what it is told, in place of the distribution's.
fn stand_in(lab: &Lab, name: &str, script: &str) -> String {
    let d = lab.dir.join(name);
    fs::create_dir(&d).unwrap();
    fs::write(
        d.join("run_tests.py"),
        format!("import os, sys, random\nsay = sys.stderr.write\n{script}\n"),
    )
    .unwrap();
    d.to_str().unwrap().into()
}

#[test]
fn exit_status_says_what_happened() {
    if !installed() {
        return;
    }
    let lab = Lab::new();
    let ok = "say('test_a (tests.test_x.T) ... ok\\n')";
    let end = "say('Ran 1 test in 0.1s\\n\\nOK\\n')";
    let xrc = "say(\"test_qp_ex_xrc_send (tests.test_qpex.QpExTestCase) ... skipped 'Create XRCD is not supported'\\n\")";
    for (name, script, code, text) in [
        ("good", format!("{ok}\n{end}"), 0, "results:"),
        (
            "listed",
            format!("{xrc}\n{end}"),
            0,
            "skipped   1: XRC: shared receive queues",
        ),
        (
            "another reason",
            format!("{}\n{end}", xrc.replace("Create XRCD", "Create player")),
            1,
            "unexpected skip: test_qpex.QpExTestCase.test_qp_ex_xrc_send: Create player",
        ),
        (
            "failed",
            format!("{}\n{end}\nsys.exit(1)", ok.replace("ok\\n", "FAIL\\n")),
            1,
            "failed: test_x.T.test_a",
        ),
        (
            "died",
            "say('test_a (tests.test_x.T) ... ')\nos.abort()".into(),
            1,
            "error: test_x.T.test_a: Python ended: signal: 6",
        ),
        ("nothing", "say('Ran 0 tests in 0s\\n')".into(), 1, "all"),
        (
            "lost",
            format!("{ok}\n{}", end.replace("Ran 1", "Ran 2")),
            1,
            "1 results for 2 tests",
        ),
        (
            "slow",
            format!("{ok}\nimport time\ntime.sleep(60)"),
            124,
            "--timeout",
        ),
    ] {
        let tests = stand_in(&lab, name, &script);
        lab.metaroce(&["pyverbs", "--timeout", "5", "--tests", &tests])
            .wait(40)
            .code(code)
            .says(text);
    }
    lab.metaroce(&["pyverbs", "--tests", "/nonexistent"])
        .wait(40)
        .code(1)
        .says("there is no run_tests.py in /nonexistent");
    lab.assert_tidy();
}

/// The tests draw their sizes from Python's generator.
#[test]
fn the_seed_reaches_the_tests() {
    if !installed() {
        return;
    }
    let lab = Lab::new();
    let tests = stand_in(
        &lab,
        "seed",
        "say(f'number {random.getrandbits(60)}\\n' + ' '.join(sys.argv[1:]) + '\\n')",
    );
    let number = |seed: &str| {
        let o = lab
            .metaroce(&["pyverbs", "--seed", seed, "--tests", &tests, "test_q.C"])
            .wait(40)
            .says("--dev metaroce0 --port 1 --gid 1 -v tests.test_q.C");
        let line = o.err.lines().find(|l| l.starts_with("number ")).unwrap();
        line.to_string()
    };
    assert_eq!(number("5"), number("5"));
    assert_ne!(number("5"), number("6"));
}

/// The provider's own test of extended objects, which it runs on a card in software, on the RTL.
#[test]
fn extended_objects_on_the_card() {
    if !have("cc") || !Path::new("/usr/include/infiniband/verbs.h").exists() {
        println!("skipped: no C compiler or no libibverbs-dev");
        return;
    }
    let lab = Lab::new();
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../host-driver/provider/tests/c/extended.c"
    );
    let exe = lab.dir.join("extended");
    let exe = exe.to_str().unwrap();
    let built = Command::new("cc")
        .args(["-O1", "-o", exe, source, "-libverbs", "-lpthread"])
        .status();
    assert!(built.unwrap().success());
    lab.metaroce(&["run", "--timeout", "200", "--", exe])
        .wait(210)
        .ok()
        .says("ok clean up");
}
