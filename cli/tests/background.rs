//! Cards in the background when nothing happens, captures of their wire that end in every way, and what programs are told.

mod common;
use common::*;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::Duration,
};

/// CPU time of a process so far.
fn cpu(pid: i32) -> Duration {
    let s = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = s.rsplit_once(')').unwrap().1;
    let ticks: u64 = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|t| t.parse::<u64>().unwrap())
        .sum();
    // SAFETY: a plain question.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
    Duration::from_millis(ticks * 1000 / a_second)
}

fn simulator(lab: &Lab) -> i32 {
    lab.process(&["metaroce serve"]).expect("it runs")
}

/// Cards that have nothing to do use no CPU, before and after traffic.
#[test]
fn idle_cards_sleep() {
    let lab = Lab::new();
    lab.metaroce(&["up", "--cards", "4"]).wait(60).ok();
    // Counters come from cards that have been reset: their start takes CPU, too.
    lab.metaroce(&["stats"]).wait(60).ok();
    let pid = simulator(&lab);
    // What ended programs leave to be done (TEARDOWN looks through tables) is work of a moment: one of three times has none.
    let idle = |when: &str| {
        let mut seen = vec![];
        for _ in 0..3 {
            let before = cpu(pid);
            sleep(Duration::from_secs(2));
            seen.push(cpu(pid) - before);
            if seen.last() < Some(&Duration::from_millis(300)) {
                return;
            }
        }
        panic!("{seen:?} {when}");
    };
    idle("without clients");
    if have("ibv_rc_pingpong") {
        let p = free_port();
        let side = |d: &str| format!("ibv_rc_pingpong -d {d} -g 1 -p {p} -n 50");
        let script = pair(&side("metaroce0"), &(side("metaroce1") + " 127.0.0.1"), p);
        lab.sh(&format!("eval \"$(metaroce env)\"; {script}"))
            .wait(60)
            .ok();
        idle("after traffic");
    }
    lab.metaroce(&["down"]).wait(30).ok();
    assert_clean(&lab.result());
}

/// Time stamps (ns) of a capture's packets; the last one is complete.
fn stamps(p: &Path) -> Vec<u64> {
    let b = fs::read(p).unwrap();
    let word = |at: usize| u32::from_le_bytes(b[at..at + 4].try_into().unwrap()) as u64;
    let (mut at, mut v) = (24, vec![]);
    while at < b.len() {
        v.push(word(at) * 1_000_000_000 + word(at + 4));
        at += 16 + word(at + 8) as usize;
    }
    assert_eq!(at, b.len(), "{}", p.display());
    v
}

#[test]
fn captures_end() {
    let lab = Lab::new();
    lab.metaroce(&["pcap", "--seconds", "0", "x"])
        .wait(10)
        .code(2);
    lab.metaroce(&["up"]).wait(60).ok();
    let file = |n: u32| -> PathBuf { lab.dir.join(format!("{n}.pcap")) };
    let start = |n: u32| {
        let r = lab.metaroce(&["pcap", file(n).to_str().unwrap()]);
        until("capture", 20, || r.so_far().contains("capturing to"));
        r
    };
    // One at a time; the second leaves the first, and a file that is there, alone.
    let one = start(1);
    fs::write(file(2), "precious").unwrap();
    lab.metaroce(&["pcap", file(2).to_str().unwrap()])
        .wait(20)
        .code(1)
        .says("one capture at a time")
        .says("1.pcap");
    assert_eq!(fs::read_to_string(file(2)).unwrap(), "precious");
    kill(one.pid(), libc::SIGINT);
    one.wait(20).ok();
    stamps(&file(1));
    // Killed: the simulator notices, and takes the next.
    let killed = start(3);
    kill(killed.pid(), libc::SIGKILL);
    killed.wait(5).code(137);
    until("end of the capture", 10, || {
        let r = lab.metaroce(&["pcap", "--seconds", "1", file(4).to_str().unwrap()]);
        r.wait(20).code == 0
    });
    let size = || fs::metadata(file(3)).unwrap().len();
    let before = size();
    let traffic = |n: u32| {
        let p = free_port();
        let side = |d: &str| format!("ibv_rc_pingpong -d {d} -g 1 -p {p} -n {n}");
        let script = pair(&side("metaroce0"), &(side("metaroce1") + " 127.0.0.1"), p);
        lab.sh(&format!("eval \"$(metaroce env)\"; {script}"))
            .wait(60)
            .ok();
    };
    let tools = have("ibv_rc_pingpong");
    if tools {
        traffic(20);
    }
    assert_eq!(size(), before, "nobody captures any more");
    // The cards go down: the capture ends, says so, and has all.
    let last = start(5);
    if tools {
        traffic(50);
    }
    lab.metaroce(&["down"]).wait(30).ok();
    last.wait(20).ok().says("is complete");
    assert!(!tools || stamps(&file(5)).len() >= 100);
    // They end without a word: so is that told.
    lab.metaroce(&["up"]).wait(60).ok();
    let lost = start(6);
    kill(simulator(&lab), libc::SIGKILL);
    lost.wait(20).code(1).says("may be missing");
}

/// Frames of both directions, large and small ones, stand in the order in which they began.
#[test]
fn wire_pcap_is_in_time_order() {
    if !have("ib_send_bw") {
        return;
    }
    let lab = Lab::new();
    lab.metaroce(&["perftest", "ib_send_bw", "-b", "-s", "16384", "-n", "60"])
        .wait(120)
        .ok();
    let v = stamps(&lab.newest().join("wire.pcap"));
    assert!(v.len() > 400, "{}", v.len());
    let early = v.windows(2).filter(|w| w[1] < w[0]).count();
    assert_eq!(early, 0, "of {} frames", v.len());
}

#[test]
fn status_shows_links_that_are_down() {
    let lab = Lab::new();
    lab.metaroce(&["up"]).wait(60).ok();
    let status = || lab.metaroce(&["status"]).wait(20).ok();
    assert!(!status().out.contains("link"));
    lab.metaroce(&["link", "metaroce1", "down"]).wait(20).ok();
    status().says("link of metaroce1 down");
    lab.metaroce(&["link", "metaroce1", "up"]).wait(20).ok();
    assert!(!status().out.contains("link"));
    lab.metaroce(&["down"]).wait(30).ok();
}

/// `tests/c/unmap.c`: counted, and told once a program, whichever way the card reaches its memory.
#[test]
fn memory_that_is_gone_is_told() {
    if !have("cc") || !Path::new("/usr/include/infiniband/verbs.h").exists() {
        println!("skipped: no C compiler or no libibverbs-dev");
        return;
    }
    let lab = Lab::new();
    let program = lab.dir.join("unmap");
    let built = Command::new("cc")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/unmap.c"))
        .arg("-o")
        .arg(&program)
        .arg("-libverbs")
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
    for way in [&["run"][..], &["run", "--agent-dma"]] {
        let words = [way, &["--", program.to_str().unwrap()]].concat();
        let o = lab.metaroce(&words).wait(60).ok();
        let told = "2 access(es) of the card to memory that it has unmapped or protected";
        assert_eq!(o.err.matches(told).count(), 1, "{}", o.err);
        let r = lab.result();
        assert_eq!(r["report"]["cards"][0]["unmapped_accesses"], 2);
        let log = fs::read_to_string(lab.newest().join("sim.log")).unwrap();
        assert_eq!(log.matches(told).count(), 1, "{log}");
    }
}

/// `./metaroce` before its first build: help and refusals come at once, and nothing is installed or built.
#[test]
fn the_script_answers_before_it_builds() {
    let lab = Lab::new();
    let script = lab.dir.join("metaroce");
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../metaroce"), &script).unwrap();
    let run = |args: &[&str]| {
        // By the shell: a program that this process has just written may be open in a child of another test.
        let mut c = lab.with("sh", &[&[script.to_str().unwrap()], args].concat());
        c.env_remove("CARGO_TARGET_DIR");
        lab.start(c).wait(20)
    };
    for help in [
        &["--help"][..],
        &["perftest", "--help"],
        &["run", "-h"],
        &[],
    ] {
        run(help).ok().says("Not built yet");
    }
    run(&["nosuch"]).code(2).says("no command 'nosuch'");
    assert!(!lab.dir.join("target").exists());
}
