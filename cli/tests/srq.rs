//! Shared receive queues through verbs: the distribution's tools, and a program that checks each promise.

mod common;
use common::*;
use std::{path::Path, process::Command};

#[test]
fn pingpong_over_a_shared_receive_queue() {
    if !have("ibv_srq_pingpong") {
        return;
    }
    let lab = Lab::new();
    for options in ["-q 4", "-q 3 -e -s 9000", "-q 16 -r 64 -s 100"] {
        let p = free_port();
        let side = |d: &str| format!("ibv_srq_pingpong -d {d} -g 1 -p {p} -n 60 {options}");
        let script = pair(&side("metaroce0"), &(side("metaroce1") + " 127.0.0.1"), p);
        let o = lab
            .metaroce(&["run", "--timeout", "60", "--", "sh", "-c", &script])
            .wait(75)
            .ok();
        assert_eq!(o.out.matches("60 iters").count(), 2, "{}", o.out);
        assert_clean(&lab.result());
    }
}

#[test]
fn perftest_over_a_shared_receive_queue() {
    if !have("ib_send_bw") {
        return;
    }
    let lab = Lab::new();
    for args in [
        "ib_send_bw --use-srq -s 4096 -n 50 -q 4",
        "--loss 1% --seed 3 ib_send_bw --use-srq -s 16384 -n 60 -q 2",
        "ib_send_bw --use-srq -c UD -s 1024 -n 50",
    ] {
        let words: Vec<&str> = ["perftest", "--timeout", "100"]
            .into_iter()
            .chain(args.split_whitespace())
            .collect();
        lab.metaroce(&words).wait(110).ok().says("Card time");
        let r = lab.result();
        assert_eq!(counter(&r, 0, "qp_errors") + counter(&r, 1, "qp_errors"), 0);
    }
}

/// `tests/c/srq.c`, one line a check.
#[test]
fn promises_of_verbs() {
    if !have("cc") || !Path::new("/usr/include/infiniband/verbs.h").exists() {
        println!("skipped: no C compiler or no libibverbs-dev");
        return;
    }
    let lab = Lab::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/srq.c");
    let exe = lab.dir.join("srq");
    let exe = exe.to_str().unwrap();
    let built = Command::new("cc")
        .args(["-Wall", "-O1", "-o", exe, source, "-libverbs"])
        .status();
    assert!(built.unwrap().success());
    lab.metaroce(&["run", "--timeout", "100", "--", exe])
        .wait(110)
        .ok()
        .says("ok clean up");
}
