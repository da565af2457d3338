//! Programs that connect with librdmacm (`rping`, `qperf`, `ib_write_bw -R`, ...), unmodified, between two cards.

mod common;
use common::*;
use std::{path::Path, process::Command};

/// Starts `server`, waits until it can be asked, runs `client`, and both must succeed. The server's own sign of life is
/// different for each tool, so the client tries again while nobody listens.
fn both(lab: &Lab, sim: &str, server: &str, client: &str) -> Output {
    let script = format!(
        "{server} & s=$!; n=0; until {client}; do n=$((n+1)); [ $n -lt 20 ] || exit 99; sleep 0.2; done; wait $s"
    );
    let words: Vec<&str> = ["run", "--timeout", "100"]
        .into_iter()
        .chain(sim.split_whitespace())
        .chain(["--", "sh", "-c", &script])
        .collect();
    lab.metaroce(&words).wait(110).ok()
}

#[test]
fn rping_clean_and_lossy() {
    if !have("rping") {
        return;
    }
    let lab = Lab::new();
    for (sim, at, clean) in [
        ("", "10.0.0.1", true),
        ("--agent-dma", "10.0.0.2", true),
        ("", "fd00::1", true),
        (
            "--loss 2% --dup 1% --reorder 2% --seed 5",
            "10.0.0.1",
            false,
        ),
    ] {
        // -V compares what arrived.
        let side = |s: &str| format!("rping {s} -a {at} -p 7174 -C 20 -S 5000 -V -v");
        let o = both(&lab, sim, &side("-s"), &side("-c"));
        assert!(
            o.out.contains("server ping data: rdma-ping-19"),
            "{}",
            o.out
        );
        assert!(!o.err.contains("data mismatch"), "{}", o.err);
        let r = lab.result();
        for k in 0..2 {
            assert!(counter(&r, k, "tx_frames") > 40, "the data is on the wire");
        }
        if clean {
            assert_clean(&r);
        }
    }
    // One server, several clients, one after the other: at once they would meet a race of rping's own, which keeps only
    // the latest request.
    let script = "rping -s -P -a 0.0.0.0 -p 7175 & s=$!; e=0; \
                  until rping -c -a 10.0.0.1 -p 7175 -C 1; do sleep 0.2; done; for k in 1 2 3; do \
                  rping -c -a 10.0.0.1 -p 7175 -C 5 -V -v || e=1; done; kill $s; exit $e";
    let o = lab
        .metaroce(&["run", "--timeout", "100", "--", "sh", "-c", script])
        .wait(110)
        .ok();
    assert_eq!(
        o.out.matches("ping data: rdma-ping-4").count(),
        3,
        "{}",
        o.out
    );
    assert_clean(&lab.result());
    lab.assert_tidy();
}

#[test]
fn qperf_over_the_connection_manager() {
    if !have("qperf") {
        return;
    }
    let lab = Lab::new();
    let tests = "rc_lat rc_bw rc_bi_bw rc_rdma_write_bw rc_rdma_write_lat rc_rdma_read_bw rc_rdma_read_lat \
                 rc_fetch_add_mr ver_rc_compare_swap";
    let p = free_port();
    let script = pair(
        &format!("qperf -lp {p}"),
        &format!("qperf -lp {p} -cm 1 -t 1 -to 60 127.0.0.1 {tests}; c=$?; kill $s; exit $c"),
        p,
    );
    let o = lab
        .metaroce(&["run", "--timeout", "100", "--", "sh", "-c", &script])
        .wait(110)
        .ok();
    for t in tests.split_whitespace() {
        assert!(o.out.contains(&format!("{t}:")), "no {t} in\n{}", o.out);
    }
    assert!(!o.err.contains("failed"), "{}", o.err);
    let r = lab.result();
    assert!(counter(&r, 1, "tx_frames") > 500);
}

#[test]
fn perftest_with_rdma_cm() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    for args in [
        "ib_write_bw -R -s 65536 -n 50",
        "ib_read_bw -R -s 16384 -n 50 -q 2",
        "ib_send_lat -R -s 64 -n 50",
        "ib_send_bw -R -c UD -s 1024 -n 50",
        "--loss 1% --seed 3 ib_write_bw -R -s 65536 -n 50",
    ] {
        let words: Vec<&str> = ["perftest", "--timeout", "100"]
            .into_iter()
            .chain(args.split_whitespace())
            .collect();
        lab.metaroce(&words)
            .wait(110)
            .ok()
            .says("rdma_cm QPs")
            .says("Card time");
        let r = lab.result();
        if !args.contains("--loss") {
            assert_clean(&r);
        }
        // The exchange of parameters goes over the cards, too, and is no part of the test.
        if args.starts_with("ib_write_bw") {
            let flow = &r["flows"][0];
            assert_eq!(flow["payload_bytes"], 50 * 65536, "{flow}");
            assert!(flow["goodput_gbps"].as_f64().unwrap() > 20.0, "{flow}");
            let all = r["report"]["cards"][0]["host"]["payload_bytes"].as_u64();
            assert!(all.unwrap() > 50 * 65536, "nothing was exchanged");
        }
    }
}

#[test]
fn tools_of_rdmacm_utils() {
    if !have("ucmatose") || !have("udaddy") || !have("rdma_server") {
        return;
    }
    let lab = Lab::new();
    for (server, client, says) in [
        (
            "ucmatose -b 10.0.0.1 -c 1 -C 5 -S 3000 -p 7400",
            "ucmatose -s 10.0.0.1 -c 1 -C 5 -S 3000 -p 7400",
            "return status 0",
        ),
        (
            "udaddy -b 10.0.0.1",
            "udaddy -s 10.0.0.1",
            "return status 0",
        ),
        (
            "rdma_server -s 10.0.0.1 -p 7402",
            "rdma_client -s 10.0.0.1 -p 7402",
            "rdma_server: end 0",
        ),
    ] {
        both(&lab, "", server, client).says(says);
        assert_clean(&lab.result());
    }
}

/// Nobody listens; no such host; the port is taken; two runs don't meet; who dies is noticed.
#[test]
fn refusals_and_deaths() {
    if !have("rping") {
        return;
    }
    let lab = Lab::new();
    let run = |script: &str| {
        lab.metaroce(&["run", "--timeout", "60", "--", "sh", "-c", script])
            .wait(70)
    };
    run("rping -c -a 10.0.0.1 -p 7200 -C 1 && exit 9; true")
        .ok()
        .says("RDMA_CM_EVENT_REJECTED, error 8");
    run("rping -c -a 10.0.0.77 -p 7200 -C 1 && exit 9; true")
        .ok()
        .says("RDMA_CM_EVENT_ADDR_ERROR");
    // A server that serves until it is ended; it listens when a client has come through.
    let served = |port: u16, then: &str| {
        let client = format!("rping -c -a 10.0.0.1 -p {port} -C 1");
        format!(
            "rping -s -P -a 10.0.0.1 -p {port} & s=$!; until {client}; do sleep 0.2; done; {then}; kill $s; true"
        )
    };
    run(&served(7200, "rping -s -a 10.0.0.1 -p 7200 -C 1 && exit 9"))
        .ok()
        .says("Address already in use");
    // A listener of another set of cards, meanwhile.
    let [up, stop] = ["up", "stop"].map(|f| lab.dir.join(f));
    let wait = format!(
        "touch {}; until [ -e {} ]; do sleep 0.1; done",
        up.display(),
        stop.display()
    );
    let script = served(7201, &wait);
    let other = lab.metaroce(&["run", "--timeout", "90", "--", "sh", "-c", &script]);
    until("listener", 60, || up.exists());
    run("rping -c -a 10.0.0.1 -p 7201 -C 1 && exit 9; true")
        .ok()
        .says("error 8");
    std::fs::write(&stop, "").unwrap();
    other.wait(60).ok();
    // The client is killed in the middle: the server, which waits for it, is told. (It prints to a file, line by line.)
    let log = lab.dir.join("log");
    let log = log.display();
    run(&format!(
        "stdbuf -oL rping -s -a 10.0.0.1 -p 7202 -v > {log} 2>&1 & s=$!; c=; \
         until grep -q 'server ping data' {log}; do \
         [ -n \"$c\" ] && kill -0 $c || {{ rping -c -a 10.0.0.1 -p 7202 & c=$!; }}; sleep 0.2; done; \
         kill -9 $c; wait $s; cat {log}"
    ))
    .ok()
    .says("server DISCONNECT EVENT");
    lab.assert_tidy();
}

/// Cards in the background: the first program after `env` finds them, and a link that is down is no way to connect.
#[test]
fn cards_in_the_background() {
    if !have("rping") {
        return;
    }
    let lab = Lab::new();
    let client = "rping -c -a 10.0.0.1 -p 7300 -C 3 -v";
    let script = format!(
        "eval \"$(metaroce env)\"; rping -s -a 10.0.0.1 -p 7300 -C 3 & s=$!; n=0; \
         until {client}; do n=$((n+1)); [ $n -lt 20 ] || exit 99; sleep 0.2; done; wait $s || exit 98; \
         metaroce link metaroce0 down; {client}; metaroce down"
    );
    lab.sh(&script)
        .wait(60)
        .ok()
        .says("rdma-ping-2")
        .says("RDMA_CM_EVENT_UNREACHABLE, error -110");
}

/// `tests/c/cm.c`, one line a check.
#[test]
fn the_device_as_no_library_uses_it() {
    if !have("cc") || !Path::new("/usr/include/rdma/rdma_user_cm.h").exists() {
        println!("skipped: no C compiler or no libibverbs-dev");
        return;
    }
    let lab = Lab::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/cm.c");
    let exe = lab.dir.join("cm");
    let exe = exe.to_str().unwrap();
    let built = Command::new("cc")
        .args(["-Wall", "-O1", "-pthread", "-o", exe, source])
        .status();
    assert!(built.unwrap().success());
    let o = lab
        .metaroce(&["run", "--timeout", "60", "--", exe])
        .wait(70)
        .ok()
        .says("ok closed");
    o.says(" in this set of cards): its open() fails with EMFILE");
}
