//! Cards with raw packet queues: unmodified programs run on the transport in software, and with cards that have it in hardware.

mod common;
use common::*;
use std::{path::Path, process::Command};

#[test]
fn pingpong_of_every_kind() {
    if !have("ibv_rc_pingpong") {
        return;
    }
    let lab = Lab::new();
    for (tool, options) in [
        ("rc", "-n 30"),
        ("rc", "-n 20 -s 9000 -e"),
        ("uc", "-n 20"),
        ("ud", "-n 20 -s 1024"),
        ("srq", "-n 60 -q 3"),
    ] {
        let p = free_port();
        let side = |d: &str| format!("ibv_{tool}_pingpong -d {d} -g 1 -p {p} {options}");
        let script = pair(&side("metaroce0"), &(side("metaroce1") + " 127.0.0.1"), p);
        let words = ["run", "--timeout", "60", "--card", "mini", "--", "sh", "-c"];
        let words: Vec<&str> = words.into_iter().chain([script.as_str()]).collect();
        let o = lab.metaroce(&words).wait(75).ok();
        assert_eq!(
            o.out.matches("iters in").count(),
            2,
            "{tool} {options}: {}",
            o.out
        );
    }
}

#[test]
fn perftest() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    for args in [
        "--card mini ib_write_bw -n 20 -s 65536",
        "--card mini,sim-100g ib_read_bw -n 10 -s 65536",
        "--card sim-100g,mini --loss 1% --seed 3 ib_send_bw -n 20 -s 16384",
        "--card mini ib_atomic_bw -n 10",
        "--card mini ib_write_bw -R -n 10",
    ] {
        let words: Vec<&str> = ["perftest", "--timeout", "100"]
            .into_iter()
            .chain(args.split_whitespace())
            .collect();
        lab.metaroce(&words).wait(110).ok().says("#bytes");
    }
}

/// Each status that a request can have, contents and events, on cards of one kind and of both: the provider's `tests/c/reliable.c`.
#[test]
fn statuses_are_the_same_whoever_does_the_transport() {
    if !have("cc") || !Path::new("/usr/include/infiniband/verbs.h").exists() {
        println!("skipped: no C compiler or no libibverbs-dev");
        return;
    }
    let lab = Lab::new();
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../host-driver/provider/tests/c/reliable.c"
    );
    let exe = lab.dir.join("reliable");
    let exe = exe.to_str().unwrap();
    let built = Command::new("cc")
        .args(["-Wall", "-O1", "-o", exe, source, "-libverbs"])
        .status();
    assert!(built.unwrap().success());
    let posted = [exe, "posted"];
    // the other two orders of cards pass, too, and take half a minute
    for (card, program) in [("mini", &posted[..1]), ("mini,sim-100g", &posted)] {
        let words = ["run", "--timeout", "100", "--card", card, "--"];
        let words: Vec<&str> = words.iter().chain(program).copied().collect();
        let o = lab.metaroce(&words).wait(110).ok();
        println!("{card}: {:.1} s", o.took.as_secs_f64());
        assert_eq!(o.out.matches("ok clean up").count(), 2, "{card}: {}", o.out);
    }
}

/// The variable is the option, also when the run is repeated.
#[test]
fn the_variable() {
    let lab = Lab::new();
    let mut c = lab.with(METAROCE, &["run", "--seed", "1", "--", "true"]);
    c.env("METAROCE_CARD", "mini,sim-100g");
    lab.start(c).wait(60).ok();
    let replay = lab.newest().join("replay.sh");
    let text = std::fs::read_to_string(&replay).unwrap();
    assert!(text.contains("METAROCE_CARD='mini,sim-100g' "), "{text}");
    lab.sh(&replay.display().to_string()).wait(60).ok();
    assert_eq!(lab.result()["report"]["config"]["minis"], 1);
    let mut c = lab.with(METAROCE, &["run", "--", "true"]);
    c.env("METAROCE_CARD", "ecp5-1g");
    lab.start(c).wait(60).code(2);
}
