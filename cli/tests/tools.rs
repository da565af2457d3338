//! The distribution's own tools, unmodified, on simulated cards.

mod common;
use common::*;

/// One `metaroce perftest`; clean wire unless told.
fn perftest(lab: &Lab, args: &str) -> serde_json::Value {
    let words: Vec<&str> = ["perftest", "--timeout", "200"]
        .into_iter()
        .chain(args.split_whitespace())
        .collect();
    let o = lab.metaroce(&words).wait(210).ok().says("Card time");
    let r = lab.result();
    println!("{args}: {:.1} s", o.took.as_secs_f64());
    if !args.contains("--loss") {
        assert_clean(&r);
    }
    r
}

fn payload(r: &serde_json::Value, card: usize) -> u64 {
    r["report"]["cards"][card]["host"]["payload_bytes"]
        .as_u64()
        .unwrap()
}

#[test]
fn devices_and_their_attributes() {
    if !have("ibv_devices") || !have("ibv_devinfo") {
        return;
    }
    let lab = Lab::new();
    let o = lab
        .metaroce(&["run", "--cards", "3", "--", "ibv_devices"])
        .wait(30)
        .ok();
    for k in 0..3 {
        assert!(o.out.contains(&format!("metaroce{k}")), "{}", o.out);
    }
    let o = lab
        .metaroce(&["run", "--", "ibv_devinfo", "-v"])
        .wait(30)
        .ok();
    for text in [
        "PORT_ACTIVE",
        "active_mtu:\t\t4096",
        "link_layer:\t\tEthernet",
        "::ffff:10.0.0.1, RoCE v2",
        "::ffff:10.0.0.2, RoCE v2",
    ] {
        assert!(o.out.contains(text), "no {text:?} in\n{}", o.out);
    }
    lab.assert_tidy();
}

/// What a process may have is what the device says, and bad limits are refused with what to write.
#[test]
fn limits_of_a_process() {
    if !have("ibv_devinfo") {
        return;
    }
    let lab = Lab::new();
    let limits = "--limit qps=3 --limit mrs=100 --limit cqs=7 --limit pds=2 --limit qps=5";
    let words: Vec<&str> = ["run"]
        .into_iter()
        .chain(limits.split_whitespace())
        .chain(["--", "ibv_devinfo", "-v"])
        .collect();
    let o = lab.metaroce(&words).wait(30).ok();
    for text in [
        "max_qp:\t\t\t\t5\n",
        "max_mr:\t\t\t\t100\n",
        "max_cq:\t\t\t\t7\n",
        "max_pd:\t\t\t\t2\n",
    ] {
        assert!(o.out.contains(text), "no {text:?} in\n{}", o.out);
    }
    for bad in ["qps", "qp=3", "qps=-1", "qps=70000"] {
        lab.metaroce(&["run", "--limit", bad, "--", "true"])
            .wait(30)
            .code(2);
    }
}

fn pingpong(lab: &Lab, sim: &[&str], options: &str, devices: [&str; 2]) -> serde_json::Value {
    finished(lab, pingpong_run(lab, sim, options, devices))
}

fn pingpong_run(lab: &Lab, sim: &[&str], options: &str, devices: [&str; 2]) -> Output {
    let p = free_port();
    let side = |d: &str| format!("ibv_rc_pingpong {d} -p {p} -n 30 -c {options}");
    let script = pair(&side(devices[0]), &(side(devices[1]) + " 127.0.0.1"), p);
    let words: Vec<&str> = ["run", "--timeout", "60"]
        .into_iter()
        .chain(sim.iter().copied())
        .chain(["--", "sh", "-c", &script])
        .collect();
    lab.metaroce(&words).wait(75)
}

fn finished(lab: &Lab, o: Output) -> serde_json::Value {
    let o = o.ok();
    assert_eq!(o.out.matches("30 iters").count(), 2, "{}", o.out);
    // -c compares what arrived and only prints.
    assert!(!o.out.contains("invalid data"), "{}", o.out);
    lab.result()
}

const EACH: [&str; 2] = ["-d metaroce0", "-d metaroce1"];

#[test]
fn pingpong_polls_and_sleeps_over_ipv4_and_ipv6() {
    if !have("ibv_rc_pingpong") {
        return;
    }
    let lab = Lab::new();
    for options in [
        "-g 1",
        "-g 1 -e",
        "-g 2 -m 4096 -s 10000",
        "-g 1 -s 1 -e",
        "-g 0",
    ] {
        let r = pingpong(&lab, &[], options, EACH);
        assert_clean(&r);
    }
    let r = pingpong(&lab, &["--agent-dma"], "-g 1 -e", EACH);
    assert_clean(&r);
}

/// Who has sent and received its last message ends, and its QP with it. When the ACK of the other side's last message was lost, that side sends it again to
/// nobody and fails, as it would with any card: such a run says nothing of the card, and the next seed is tried.
#[test]
fn pingpong_on_a_lossy_wire() {
    if !have("ibv_rc_pingpong") {
        return;
    }
    let lab = Lab::new();
    let left_alone = |o: &Output| {
        o.code != 0
            && o.out.matches("30 iters").count() == 1
            && (o.out.clone() + &o.err).contains("transport retry counter exceeded (12)")
            && (0..2).any(|k| counter(&lab.result(), k, "rx_drop_qp") > 0)
    };
    let r = (5..15)
        .find_map(|seed| {
            let seed = seed.to_string();
            let faults = ["--loss", "2%", "--dup", "2%", "--seed", &seed];
            let o = pingpong_run(&lab, &faults, "-g 1 -s 9000", EACH);
            (!left_alone(&o)).then(|| finished(&lab, o))
        })
        .expect("a run of ten in which nobody is left alone");
    assert!(r["report"]["fabric"]["lost"].as_u64().unwrap() > 0);
}

/// Programs that take the first device they find: both sides are on one card.
#[test]
fn both_sides_on_one_card() {
    if !have("ibv_rc_pingpong") {
        return;
    }
    let lab = Lab::new();
    assert_clean(&pingpong(&lab, &[], "-g 1", ["", ""]));
}

#[test]
fn bandwidth_of_write_read_and_send() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    for tool in ["ib_write_bw", "ib_read_bw", "ib_send_bw"] {
        // READ brings the payload to its own side.
        let to = if tool == "ib_read_bw" { 1 } else { 0 };
        for (options, bytes, both) in [
            ("-s 2 -n 20", 40, false),
            ("-s 65536 -n 10", 655_360, false),
            ("-s 4096 -n 20 -q 4", 327_680, false),
            ("-s 4096 -n 20 -b", 81_920, true),
            ("-s 1000 -n 20 -m 1024 -x 2", 20_000, false),
        ] {
            let r = perftest(&lab, &format!("{tool} {options}"));
            // perftest may round the number of messages up to its depth, never down.
            assert!(payload(&r, to) >= bytes, "{tool} {options}");
            assert_eq!(payload(&r, 1 - to) > 0, both, "{tool} {options}");
        }
    }
    lab.assert_tidy();
}

#[test]
fn bandwidth_with_completion_channels() {
    if !have("ib_send_bw") {
        return;
    }
    let lab = Lab::new();
    for tool in ["ib_send_bw", "ib_read_bw"] {
        perftest(&lab, &format!("{tool} -e -s 4096 -n 20"));
    }
    perftest(&lab, "--agent-dma ib_send_bw -e -s 4096 -n 20 -b");
}

#[test]
fn latency_of_write_read_and_send() {
    if !have("ib_write_lat") {
        return;
    }
    let lab = Lab::new();
    for tool in ["ib_write_lat", "ib_read_lat", "ib_send_lat"] {
        for options in ["-s 2 -n 20", "-s 5000 -n 10 -x 2"] {
            perftest(&lab, &format!("{tool} {options}"));
        }
        if tool != "ib_write_lat" {
            perftest(&lab, &format!("{tool} -s 64 -n 10 -e"));
        }
    }
}

/// Inline requests: the program's buffer may be used again at once.
#[test]
fn inline_data() {
    if !have("ib_write_bw") || !have("ibv_rc_pingpong") {
        return;
    }
    let lab = Lab::new();
    perftest(&lab, "ib_write_lat -s 100 -n 20 -I 128");
    perftest(&lab, "ib_send_bw -s 33 -n 100 -I 64");
    perftest(&lab, "--agent-dma ib_write_bw -s 256 -n 50 -I 256");
    for size in [1, 28] {
        assert_clean(&pingpong(&lab, &[], &format!("-g 1 -s {size}"), EACH));
    }
}

#[test]
fn every_size_to_8_mib() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    let r = perftest(&lab, "ib_write_bw -a -n 5");
    // 2 B to 8 MiB in powers of two.
    assert!(payload(&r, 0) >= 5 * (16 * 1024 * 1024 - 2));
}

#[test]
fn a_lossy_wire_costs_only_retransmissions() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    for tool in ["ib_write_bw", "ib_read_bw", "ib_send_bw"] {
        let r = perftest(&lab, &format!("--loss 1% --seed 3 {tool} -s 16384 -n 100"));
        assert!(r["report"]["fabric"]["lost"].as_u64().unwrap() > 0);
        assert!(counter(&r, 0, "tx_retransmits") + counter(&r, 1, "tx_retransmits") > 0);
        assert_eq!(counter(&r, 0, "qp_errors") + counter(&r, 1, "qp_errors"), 0);
    }
    // The form with `run`, as a user writes it.
    let p = free_port();
    let script = pair(
        &format!("ib_write_bw -d metaroce0 -p {p} -s 4096 -n 20"),
        &format!("ib_write_bw -d metaroce1 -p {p} -s 4096 -n 20 127.0.0.1"),
        p,
    );
    lab.metaroce(&[
        "run", "--loss", "1%", "--seed", "3", "--", "sh", "-c", &script,
    ])
    .wait(60)
    .ok();
    lab.assert_tidy();
}

/// What the table says of UD is the program's payload, without the GRH area, and its limit is that of UD packets.
#[test]
fn datagrams_in_the_table() {
    if !have("ib_send_bw") {
        return;
    }
    let lab = Lab::new();
    let r = perftest(&lab, "ib_send_bw -c UD -s 4096 -n 200");
    let flow = &r["flows"][0];
    let n = flow["payload_bytes"].as_u64().unwrap();
    assert!(n >= 200 * 4096 && n % 4096 == 0, "{n}");
    assert_eq!(r["report"]["cards"][0]["host"]["overhead"], 90);
    let share = flow["of_wire_limit"].as_f64().unwrap();
    assert!((90.0..100.5).contains(&share), "{share} %");
}

/// UC and UD lose messages for good: the tool is stopped soon after the wire has fallen silent.
#[test]
fn a_lossy_wire_ends_what_does_not_send_again() {
    if !have("ib_send_bw") {
        return;
    }
    let lab = Lab::new();
    let o = lab
        .metaroce(&[
            "perftest",
            "--loss",
            "20%",
            "--seed",
            "2",
            "ib_send_bw",
            "-c",
            "UD",
            "-s",
            "1024",
            "-n",
            "100",
        ])
        .wait(60)
        .code(124)
        .says("don't send them again");
    assert!(o.took.as_secs() < 50, "{:?}", o.took);
    lab.assert_tidy();
    lab.assert_no_processes();
}

#[test]
fn memory_of_the_client_through_its_agent() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    for tool in ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat"] {
        perftest(&lab, &format!("--agent-dma {tool} -s 20000 -n 10"));
        let log = std::fs::read_to_string(lab.newest().join("sim.log")).unwrap();
        assert!(log.contains("through its agent"), "{log}");
    }
}

#[test]
fn two_runs_at_once_do_not_meet() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    let go = || lab.metaroce(&["perftest", "ib_write_bw", "-s", "4096", "-n", "30"]);
    let (a, b) = (go(), go());
    a.wait(60).ok();
    b.wait(60).ok();
    for n in ["1", "2"] {
        let r = lab.result_of(&lab.dir.join("runs").join(n));
        assert_clean(&r);
        assert!(payload(&r, 0) >= 30 * 4096);
    }
    lab.assert_tidy();
    lab.assert_no_processes();
}

/// The table counts every message, and ends with the last one that was placed: a tool that stops by time destroys its QP while
/// the other one still sends.
#[test]
fn every_message_is_in_the_table() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    for (args, card, n) in [
        ("ib_write_bw -s 65536 -n 60 -q 2", 0, 120),
        ("ib_read_bw -s 65536 -n 60", 1, 60),
        ("ib_send_lat -s 8 -n 50", 0, 50),
    ] {
        let r = perftest(&lab, args);
        let l = &r["report"]["cards"][card]["latency_ns"];
        assert_eq!(l["samples"], n, "{args}");
        let [min, p50, p99, max] =
            ["min", "p50", "p99", "max"].map(|k| l[k].as_u64().expect("a time"));
        assert!(min <= p50 && p50 <= p99 && p99 <= max, "{args}: {l}");
        // The wire alone takes that long.
        let wire = if args.contains("65536") { 5243 } else { 500 };
        assert!(min > wire, "{args}: {l}");
    }
    let r = perftest(&lab, "ib_write_bw -s 65536 -D 2");
    let of_limit = r["flows"][0]["of_wire_limit"].as_f64().expect("a share");
    assert!(of_limit > 97.0, "{}", r["flows"]);
}
