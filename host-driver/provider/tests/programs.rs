//! Unmodified verbs programs on a software card: the launch shim, the tree, the provider and the host interface as the
//! programs use them. What is not installed is named and left out; `apt-get install ibverbs-utils perftest` adds it.
mod fake;
mod releases;
#[cfg(target_arch = "x86_64")]
mod steps;
mod world;

use fake::Server;
use std::time::{Duration, Instant};
use world::*;

/// With the software card.
fn new(name: &str) -> World {
    World::with(name, |at| Box::new(Server::start(at)))
}

#[test]
fn devinfo_shows_both_cards() {
    if !installed("ibv_devinfo") {
        return;
    }
    let w = new("info");
    let o = w.run("ibv_devinfo", &["-v"]);
    let t = both(&o);
    assert!(o.status.success(), "{t}");
    for want in [
        "metaroce0",
        "metaroce1",
        "PORT_ACTIVE",
        "active_mtu:\t\t4096",
        "::ffff:10.0.0.2",
        "max_qp_wr:\t\t\t4096",
    ] {
        assert!(t.contains(want), "no {want:?} in\n{t}");
    }
}

#[test]
fn pingpong() {
    if !installed("ibv_rc_pingpong") {
        return;
    }
    let w = new("pp");
    for args in [
        &["-g", "1", "-n", "50"][..],
        &["-g", "1", "-n", "50", "-e"],
        &["-g", "2", "-n", "20", "-s", "70000", "-c"],
        &["-g", "0", "-n", "20", "-s", "1", "-c"],
    ] {
        let [s, c] = w.pair("ibv_rc_pingpong", args);
        assert!(s.contains("iters in") && c.contains("iters in"), "{s}\n{c}");
    }
    w.pair("ibv_uc_pingpong", &["-g", "1", "-n", "20"]);
    w.pair("ibv_ud_pingpong", &["-g", "1", "-n", "20", "-s", "1024"]);
    w.pair(
        "ibv_ud_pingpong",
        &["-g", "1", "-n", "20", "-s", "512", "-e"],
    );
}

#[test]
fn perftest() {
    if !installed("ib_write_bw") {
        return;
    }
    let w = new("pt");
    for (program, args) in [
        ("ib_write_bw", &["-n", "50", "-s", "65536"][..]),
        ("ib_write_bw", &["-n", "20", "-s", "4096", "-q", "4", "-b"]),
        ("ib_read_bw", &["-n", "20", "-s", "9000"]),
        ("ib_send_bw", &["-n", "50", "-s", "1000"]),
        ("ib_send_bw", &["-n", "50", "-s", "1000", "-e"]),
        ("ib_send_lat", &["-n", "20", "-s", "64"]),
        ("ib_write_lat", &["-n", "20", "-s", "2", "-I", "200"]),
        ("ib_send_lat", &["-c", "UD", "-n", "20", "-s", "64"]),
        ("ib_send_bw", &["-a", "-n", "5"]),
    ] {
        w.pair(program, args);
    }
}

/// rdma-core's own tests of the verbs that the card does. A test of something else skips itself on EOPNOTSUPP.
#[test]
fn pyverbs() {
    let w = new("py");
    let Some(t) = world::pyverbs(&w) else {
        return;
    };
    // Nothing that the provider can do is left out: this card has all QP types and atomics, whether the RTL has them or
    // not.
    for missing in [
        "UD QP",
        "UC QP",
        "QP type",
        "Rereg",
        "Atomic operations",
        "Extended CQ",
    ] {
        let skipped = t
            .lines()
            .find(|l| l.contains("skipped") && l.contains(missing));
        assert_eq!(skipped, None, "{t}");
    }
    let passed = t.matches("... ok\n").count();
    assert!(passed >= PYVERBS_PASS, "{passed}\n{t}");
}

/// Of rdma-core 44; later releases have more.
const PYVERBS_PASS: usize = 82;

/// Statuses, limits, events, reset, fork: `tests/c/semantics.c`, one line a check.
#[test]
fn semantics() {
    let w = new("sem");
    let exe = w.root.join("semantics");
    if !compile("semantics.c", &exe) {
        return;
    }
    let o = w.run(exe.to_str().unwrap(), &[]);
    assert!(o.status.success(), "{}", both(&o));
    let err = String::from_utf8_lossy(&o.stderr);
    assert_eq!(err.matches("does not work after fork").count(), 1, "{err}");
}

/// Extended CQs and QPs, parent domains: `tests/c/extended.c`.
#[test]
fn extended() {
    let w = new("ext");
    let exe = w.root.join("extended");
    if !compile("extended.c", &exe) {
        return;
    }
    let o = w.run(exe.to_str().unwrap(), &[]);
    assert!(o.status.success(), "{}", both(&o));
    assert!(o.stderr.is_empty(), "{}", both(&o));
}

/// The simulator dies under a program that waits for completions.
#[test]
fn death_of_the_simulator() {
    let mut w = new("die");
    let exe = w.root.join("death");
    if !compile("death.c", &exe) {
        return;
    }
    for mode in ["poll", "event", "extended"] {
        let ready = w.root.join("ready");
        let _ = std::fs::remove_file(&ready);
        let child = w
            .command(exe.to_str().unwrap(), &[mode, ready.to_str().unwrap()])
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while !ready.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        w.server = None;
        let o = finish(child);
        assert!(o.status.success(), "{mode}: {}", both(&o));
        let err = String::from_utf8_lossy(&o.stderr);
        assert_eq!(err.matches("metaroce:").count(), 1, "one line: {err}");
        std::fs::remove_file(w.root.join("cardd.sock")).unwrap();
        w.server = Some(Box::new(Server::start(&w.root.join("cardd.sock"))));
    }
}

/// The card never sleeps, so that no doorbell has to wake it.
#[test]
#[cfg(target_arch = "x86_64")]
fn instructions_of_post_and_poll() {
    let w = World::with("steps", |at| Box::new(Server::with(at, true)));
    if let Some(all) = steps::measure(&w, &[]) {
        steps::limits(&all);
    }
}
