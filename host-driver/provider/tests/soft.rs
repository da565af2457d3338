//! The transport in software above raw packet queues: unmodified verbs programs, over a network that loses, doubles and reorders frames.
mod fake;
#[cfg(target_arch = "x86_64")]
mod steps;
mod world;

use fake::{Net, RawServer};
use world::*;

fn new(name: &str, net: Net) -> World {
    World::with(name, |at| Box::new(RawServer::start(at, net)))
}

const PERFECT: Net = Net {
    seed: 1,
    lose: 0,
    double: 0,
    delay: 0,
};

#[test]
fn pingpong() {
    if !installed("ibv_rc_pingpong") {
        return;
    }
    let w = new("soft-pp", PERFECT);
    for args in [
        &["-g", "1", "-n", "50"][..],
        &["-g", "1", "-n", "50", "-e"],
        &["-g", "2", "-n", "20", "-s", "70000", "-c"],
        &["-g", "0", "-n", "20", "-s", "1", "-c"],
    ] {
        let [s, c] = w.pair("ibv_rc_pingpong", args);
        assert!(s.contains("iters in") && c.contains("iters in"), "{s}\n{c}");
    }
}

#[test]
fn unreliable_pingpong() {
    if !installed("ibv_uc_pingpong") {
        return;
    }
    let w = new("soft-upp", PERFECT);
    w.pair("ibv_uc_pingpong", &["-g", "1", "-n", "20"]);
    w.pair("ibv_uc_pingpong", &["-g", "2", "-n", "20", "-s", "20000"]);
    w.pair("ibv_ud_pingpong", &["-g", "1", "-n", "20", "-s", "1024"]);
    w.pair(
        "ibv_ud_pingpong",
        &["-g", "2", "-n", "20", "-s", "512", "-e"],
    );
}

#[test]
fn shared_receives() {
    if !installed("ibv_srq_pingpong") {
        return;
    }
    let w = new("soft-srq", PERFECT);
    w.pair("ibv_srq_pingpong", &["-g", "1", "-n", "200", "-q", "4"]);
    w.pair(
        "ibv_srq_pingpong",
        &["-g", "1", "-n", "200", "-q", "4", "-e"],
    );
}

#[test]
fn perftest() {
    if !installed("ib_write_bw") {
        return;
    }
    let w = new("soft-pt", PERFECT);
    for (program, args) in [
        ("ib_write_bw", &["-n", "50", "-s", "65536"][..]),
        ("ib_write_bw", &["-n", "20", "-s", "4096", "-q", "4", "-b"]),
        ("ib_read_bw", &["-n", "20", "-s", "9000"]),
        ("ib_read_bw", &["-n", "5", "-s", "1000000"]),
        ("ib_send_bw", &["-n", "50", "-s", "1000"]),
        ("ib_send_bw", &["-n", "50", "-s", "1000", "-e"]),
        ("ib_send_lat", &["-n", "20", "-s", "64"]),
        ("ib_write_lat", &["-n", "20", "-s", "2", "-I", "200"]),
        ("ib_atomic_bw", &["-n", "20"]),
        ("ib_atomic_bw", &["-n", "20", "-A", "CMP_AND_SWAP"]),
        ("ib_send_lat", &["-c", "UD", "-n", "20", "-s", "64"]),
        ("ib_send_bw", &["-c", "UC", "-n", "20", "-s", "6400"]),
        (
            "ib_send_bw",
            &["-r", "64", "--use-srq", "-q", "3", "-n", "20", "-s", "6400"],
        ),
        ("ib_send_bw", &["-a", "-n", "5"]),
    ] {
        w.pair(program, args);
    }
}

/// What verbs promise: the same programs as for a card that has queue pairs.
#[test]
fn semantics() {
    let w = new("soft-sem", PERFECT);
    for (name, lines) in [("semantics", 1), ("extended", 0)] {
        let exe = w.root.join(name);
        if !compile(&format!("{name}.c"), &exe) {
            return;
        }
        let o = w.run(exe.to_str().unwrap(), &[]);
        assert!(o.status.success(), "{name}: {}", both(&o));
        assert_eq!(both(&o).matches("metaroce:").count(), lines, "{}", both(&o));
    }
}

/// Every status that a request can have, contents and events, between two cards: `tests/c/reliable.c`.
#[test]
fn statuses() {
    let w = new("soft-st", PERFECT);
    let exe = w.root.join("reliable");
    if !compile("reliable.c", &exe) {
        return;
    }
    let o = w.run(exe.to_str().unwrap(), &[]);
    assert!(o.status.success(), "{}", both(&o));
    assert!(o.stderr.is_empty(), "{}", both(&o));
}

/// Contents stay right on a network that loses, doubles and reorders.
#[test]
fn faults_of_the_network() {
    for seed in 1..4 {
        let net = Net {
            seed,
            lose: 20,
            double: 20,
            delay: 20,
        };
        let w = new(&format!("soft-net{seed}"), net);
        let exe = w.root.join("reliable");
        if !compile("reliable.c", &exe) {
            return;
        }
        let o = w.run(exe.to_str().unwrap(), &["data"]);
        assert!(o.status.success(), "seed {seed}: {}", both(&o));
    }
}

/// rdma-core's own tests of verbs.
#[test]
fn pyverbs() {
    let w = new("soft-py", PERFECT);
    let Some(t) = world::pyverbs(&w) else {
        return;
    };
    for missing in [
        "UD QP",
        "UC QP",
        "QP type",
        "Rereg",
        "Atomic operations",
        "SRQ",
        "MW",
        "window",
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
const PYVERBS_PASS: usize = 90;

/// The user chooses who does what, or learns why not; the decisions are in a file.
#[test]
fn decisions() {
    if !installed("ibv_devinfo") {
        return;
    }
    let w = new("soft-hce", PERFECT);
    let report = w.root.join("hce.json");
    let run = |switch: &str| {
        let mut c = w.command("ibv_devinfo", &["-d", "metaroce1", "-v"]);
        c.env("METAROCE_HCE", switch)
            .env("METAROCE_HCE_REPORT", &report);
        finish(c.spawn().unwrap())
    };
    let o = run("show");
    let t = both(&o);
    assert!(o.status.success(), "{t}");
    for want in [
        "max_srq_wr",
        "ATOMIC_HCA",
        "qp_state_offload         card absent   software",
    ] {
        assert!(t.contains(want), "no {want:?} in\n{t}");
    }
    let json = std::fs::read_to_string(&report).unwrap();
    let row =
        "{\"capability\": \"qp_state_offload\", \"card\": \"absent\", \"chosen\": \"software\"";
    assert!(
        json.contains("\"device\": \"metaroce1\"") && json.contains(row),
        "{json}"
    );
    for (switch, why) in [
        ("qp_state_offload=hardware", "raw packet queues only"),
        ("qp_state_offload=perhaps", "'perhaps'"),
        ("everything", "'everything'"),
    ] {
        let o = run(switch);
        let t = both(&o);
        assert!(!o.status.success() && t.contains(why), "{switch}: {t}");
    }
    assert!(run("qp_state_offload=software").status.success());
}

/// What the transport in software costs the thread that posts and polls. The frame is made and sent within the post.
#[test]
#[cfg(target_arch = "x86_64")]
fn instructions_of_post_and_poll() {
    let w = new("soft-steps", PERFECT);
    let Some(all) = steps::measure(&w, &["may allocate"]) else {
        return;
    };
    for c in all {
        assert!(c.instructions < 6000 || cfg!(debug_assertions), "{c:?}");
    }
}

/// Threads that share the engines of two devices, then silence: `tests/c/threads.c`.
#[test]
fn threads() {
    for net in [
        PERFECT,
        Net {
            seed: 5,
            lose: 10,
            double: 10,
            delay: 10,
        },
    ] {
        let w = new(&format!("soft-thr{}", net.seed), net);
        let exe = w.root.join("threads");
        if !compile("threads.c", &exe) {
            return;
        }
        let o = w.run(exe.to_str().unwrap(), &[]);
        assert!(o.status.success(), "{net:?}: {}", both(&o));
    }
}
