//! `perftest --card-time`: the tools themselves print what the card's table says, and programs notice nothing else.
#![cfg(target_arch = "x86_64")]

mod common;
use common::*;

/// Runs a tool; returns its own last line of figures, and the table's flow into `card`.
fn run(lab: &Lab, args: &str, card: u64) -> (Vec<f64>, serde_json::Value) {
    let words: Vec<&str> = ["perftest", "--card-time", "--timeout", "200"]
        .into_iter()
        .chain(args.split_whitespace())
        .collect();
    let o = lab
        .metaroce(&words)
        .wait(210)
        .ok()
        .says("are in card time")
        .says("card time, as the program sees it");
    println!("{}", o.out);
    // the line under the head that begins with " #bytes"
    let line = o
        .out
        .lines()
        .skip_while(|l| !l.trim_start().starts_with("#bytes"))
        .nth(1)
        .unwrap_or_else(|| panic!("no figures in\n{}", o.out));
    let r = lab.result();
    assert_clean(&r);
    let flow = r["flows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["receiver"] == card)
        .unwrap()
        .clone();
    let figures = line
        .split_whitespace()
        .map(|w| w.parse().unwrap_or_else(|_| panic!("{w:?} in {line:?}")))
        .collect();
    (figures, flow)
}

/// #bytes, #iterations, BW peak, BW average, MsgRate
#[test]
fn bandwidth_is_that_of_the_table() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    let (tool, flow) = run(&lab, "ib_write_bw -s 65536 -n 100 --report_gbits", 0);
    let (tool, table) = (tool[3], flow["goodput_gbps"].as_f64().unwrap());
    assert!(
        (tool - table).abs() <= 0.1 * table,
        "the tool says {tool} Gb/s, the table {table}"
    );
    lab.assert_tidy();
}

/// #bytes, #iterations, t_min, t_max, t_typical, ...
#[test]
fn latency_is_that_of_the_table() {
    if !have("ib_write_lat") {
        return;
    }
    let lab = Lab::new();
    let (tool, flow) = run(&lab, "ib_write_lat -s 8 -n 100", 0);
    let (tool, table) = (tool[4], flow["p50_ns"].as_f64().unwrap() / 1000.0);
    assert!(
        (tool - table).abs() <= 0.4,
        "the tool says {tool} us, the table {table}"
    );
}

#[test]
fn a_program_has_its_signals_its_children_and_one_time() {
    let lab = Lab::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/clocks.c");
    let program = lab.dir.join("clocks");
    let made = std::process::Command::new("cc")
        .args(["-O1", "-pthread", "-Wall", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    if made.is_err() {
        println!("skipped: no C compiler");
        return;
    }
    assert!(made.unwrap().success());
    let run = |env: &str| {
        lab.sh(&format!(
            "{env} metaroce run --timeout 30 -- {}",
            program.display()
        ))
        .wait(40)
    };
    run("METAROCE_CARD_TIME=1").ok().says("all is well");
    // Without the wish the counter is the processor's.
    run("").code(1).says("by_day > 9800");
}
