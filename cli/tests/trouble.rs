//! Runs, their folders and exit codes; cards in the background; and what happens when something is killed, full or wrong.

mod common;
use common::*;
use std::{fs, os::unix::fs::PermissionsExt, path::Path, thread::sleep, time::Duration};

#[test]
fn the_folder_of_a_run() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    lab.metaroce(&["perftest", "--seed", "9", "-s", "4096", "-n", "10"])
        .wait(60)
        .ok();
    let dir = lab.newest();
    let r = lab.result();
    assert_eq!(r["command"][0], "ib_write_bw");
    assert_eq!(r["mtu"], 4096);
    assert_eq!(r["flows"][0]["receiver"], 0);
    assert!(r["flows"][0]["goodput_gbps"].as_f64().unwrap() > 1.0);
    assert_eq!(r["report"]["config"]["fabric"]["seed"], 9);
    let frames = r["report"]["fabric"]["frames"].as_u64().unwrap();
    assert_eq!(packets(&dir.join("wire.pcap")), frames);
    let log = fs::read_to_string(dir.join("sim.log")).unwrap();
    assert_eq!(log.matches(" opened ").count(), 2, "{log}");
    // The same again, from the script alone.
    lab.sh(&dir.join("replay.sh").display().to_string())
        .wait(60)
        .ok();
    assert_eq!(lab.result()["command"], r["command"]);
    assert_ne!(lab.newest(), dir);
}

/// Packets of a capture; every length is checked.
fn packets(p: &Path) -> u64 {
    let b = fs::read(p).unwrap();
    assert_eq!(b[..4], 0xA1B2_3C4Du32.to_le_bytes(), "nanosecond pcap");
    let (mut at, mut n) = (24, 0);
    while at < b.len() {
        let len = u32::from_le_bytes(b[at + 8..at + 12].try_into().unwrap()) as usize;
        at += 16 + len;
        n += 1;
    }
    assert_eq!(at, b.len(), "the last packet is complete");
    n
}

/// A program that is no test is told; a tool that is asked about itself answers, without cards.
#[test]
fn tools_that_send_nothing() {
    let lab = Lab::new();
    lab.metaroce(&["perftest", "/bin/true"])
        .wait(60)
        .code(0)
        .says("no card sent a frame");
    if have("ib_write_bw") {
        let o = lab.metaroce(&["perftest", "ib_write_bw", "-h"]).wait(60);
        assert!(o.out.contains("Usage"), "{}", o.out);
        assert!(!o.out.contains("Card time"), "{}", o.out);
    }
}

/// perftest gives up on a machine that is too busy to measure its clock: it gets two more chances.
#[test]
fn tools_that_find_no_clock() {
    let lab = Lab::new();
    let script = lab.dir.join("busy");
    let path = script.to_str().unwrap();
    for (bad, code) in [(2, 0), (9, 1)] {
        let text = format!(
            "#!/bin/sh\necho >> $0.n\n[ $(wc -l < $0.n) -gt {bad} ] && exit 0\necho 'Correlation coefficient r^2: 0.5 < 0.9' >&2\nexit 1\n"
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let _ = fs::remove_file(format!("{path}.n"));
        let o = lab.metaroce(&["perftest", path]).wait(60).code(code);
        assert_eq!(o.err.matches("once more").count(), 2, "{}", o.err);
    }
}

#[test]
fn exit_codes() {
    let lab = Lab::new();
    let run = |args: &[&str]| lab.metaroce(args).wait(60);
    run(&["run", "--", "true"]).ok();
    run(&["run", "--", "sh", "-c", "exit 7"]).code(7);
    run(&["run", "--", "sh", "-c", "kill -9 $$"]).code(137);
    run(&["run", "--timeout", "1", "--", "sleep", "50"])
        .code(124)
        .says("--timeout");
    // As a shell has it.
    run(&["run", "--", "no-such-program"])
        .code(127)
        .says("no program");
    run(&["run", "--", "/nonexistent"])
        .code(127)
        .says("there is no program /nonexistent: look for");
    let script = lab.dir.join("script");
    let path = script.to_str().unwrap();
    fs::write(&script, "#!/nowhere/sh\n").unwrap();
    run(&["run", "--", path]).code(126).says("chmod +x");
    run(&["run", "--", lab.dir.to_str().unwrap()])
        .code(126)
        .says("is a folder");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    run(&["run", "--", path]).code(127).says("interpreter");
    run(&["run", "--loss", "200%", "--", "true"]).code(2);
    // What makes no sense is refused before anything starts.
    for device in [
        &["-d", "metaroce0"][..],
        &["-dmlx5_0"],
        &["--ib-dev=mlx5_0"],
    ] {
        run(&[&["perftest"], device].concat())
            .code(2)
            .says("devices are chosen");
    }
    run(&["perftest", "--cards", "1"]).code(2).says("two cards");
    run(&["perftest", "no-such-tool"])
        .code(2)
        .says("no program");
    for c in ["perftest", "run", "pyverbs"] {
        run(&[c, "--timeout", "0", "--", "true"]).code(2);
    }
    run(&["status"]).code(3);
    run(&["stats"]).code(1).says("metaroce up");
    run(&["down"]).ok();
    if have("ib_write_bw") {
        // perftest's own refusal.
        run(&["perftest", "ib_write_bw", "-e", "-s", "2"])
            .code(1)
            .says("Events feature");
    }
    lab.assert_tidy();
    lab.assert_no_processes();
}

/// A disk that takes nothing behind stdout or stderr is told, and is no success; the run itself ends as ever.
#[test]
fn output_that_cannot_be_written() {
    let lab = Lab::new();
    for command in ["doctor", "down", "status"] {
        let o = lab.sh(&format!("metaroce {command} >/dev/full")).wait(60);
        assert_ne!(o.code, 0, "{command}");
        let o = o.says("can't write to standard output");
        assert!(!o.err.contains("panicked"), "{}", o.err);
    }
    lab.sh("metaroce run -- sh -c 'exit 7' 2>/dev/full")
        .wait(60)
        .code(7);
    if have("ib_write_bw") {
        let o = lab
            .sh("metaroce perftest -s 4096 -n 10 >/dev/full")
            .wait(60)
            .code(1)
            .says("can't write to standard output");
        assert!(!o.err.contains("panicked"), "{}", o.err);
        // all that goes into the folder is there
        assert_eq!(lab.result()["mtu"], 4096);
    }
    lab.assert_tidy();
}

/// A program that is not there leaves no folder; every other run has one, with a seed of its own that can be given again.
#[test]
fn seeds_and_empty_folders() {
    let lab = Lab::new();
    let runs = || fs::read_dir(lab.dir.join("runs")).unwrap().count();
    for (words, code) in [
        (&["run", "--", "no-such-program"][..], 127),
        (&["run", "--", "/etc/passwd"], 126),
        (&["perftest", "no-such-tool"], 2),
    ] {
        lab.metaroce(words).wait(30).code(code);
    }
    assert_eq!(runs(), 0);
    let seed = || {
        let o = lab.metaroce(&["run", "--", "true"]).wait(30).ok();
        let n = lab.result()["report"]["config"]["fabric"]["seed"].clone();
        let o = o.says(&format!("(seed {n})"));
        let script = fs::read_to_string(lab.newest().join("replay.sh")).unwrap();
        assert!(script.contains(&format!("--seed {n} ")), "{script}");
        drop(o);
        n
    };
    // two of 2^32: equal once in as many runs of this test
    assert_ne!(seed(), seed());
    lab.metaroce(&["run", "--seed", "7", "--", "true"])
        .wait(30)
        .ok()
        .says("(seed 7)");
}

#[test]
fn cards_in_the_background() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    lab.metaroce(&["up"]).wait(30).ok().says("2 card(s) up");
    lab.metaroce(&["up"]).wait(30).ok().says("already up");
    for other in [
        &["up", "--loss", "1%"][..],
        &["up", "--seed", "5"],
        &["env", "--cards", "3"],
    ] {
        lab.metaroce(other)
            .wait(30)
            .code(1)
            .says("were not applied");
    }
    let p = free_port();
    let traffic = pair(
        &format!("ib_write_bw -d metaroce0 -p {p} -s 4096 -n 50"),
        &format!("ib_write_bw -d metaroce1 -p {p} -s 4096 -n 50 127.0.0.1"),
        p,
    );
    let cap = lab.dir.join("cap.pcap");
    let capture = lab.metaroce(&["pcap", "--seconds", "4", cap.to_str().unwrap()]);
    until("capture", 10, || cap.exists());
    lab.sh(&format!("eval \"$(metaroce env)\"; {traffic}"))
        .wait(60)
        .ok()
        .says("BW average");
    capture.wait(30).ok();
    assert!(packets(&cap) >= 50, "the capture has the traffic");
    // a program's end is noticed when its socket closes, some time after its parent has seen it
    until("the programs are gone", 10, || {
        let o = lab.metaroce(&["status", "--json"]).wait(30).ok();
        let v: serde_json::Value = serde_json::from_str(&o.out).unwrap();
        assert_eq!(v["cards"], 2);
        v["clients"] == 0
    });
    let o = lab.metaroce(&["stats", "--json"]).wait(30).ok();
    let v: serde_json::Value = serde_json::from_str(&o.out).unwrap();
    let sent = v[1]["counters"].as_array().unwrap();
    let n = sent.iter().find(|c| c[0] == "tx_messages").unwrap();
    assert!(n[1].as_u64().unwrap() >= 50, "{n}");
    lab.metaroce(&["stats"]).wait(30).ok().says("tx_messages");
    lab.metaroce(&["down"]).wait(30).ok();
    lab.metaroce(&["status"]).wait(30).code(3);
    assert_clean(&lab.result());
    lab.assert_tidy();
    lab.assert_no_processes();
}

/// SIGINT to the whole group, as the terminal sends it, and to `metaroce` alone.
#[test]
fn interrupted_runs_leave_nothing() {
    let lab = Lab::new();
    // Background jobs of a shell ignore SIGINT.
    let script = "sleep 77 & (trap '' TERM INT; sleep 78) & sleep 79";
    for group in [true, false] {
        let r = lab.metaroce(&["run", "--", "sh", "-c", script]);
        until("sleeps", 20, || {
            lab.processes().iter().any(|(_, c)| c == "sleep 79 ")
        });
        kill(if group { -r.pid() } else { r.pid() }, libc::SIGINT);
        let o = r.wait(20).code(130);
        assert!(o.took < Duration::from_secs(10), "{:?}", o.took);
        lab.assert_no_processes();
        lab.assert_tidy();
    }
    // As early as it can come: either nothing had begun, or it is cleaned up.
    for ms in [5, 20, 60, 150] {
        let r = lab.metaroce(&["run", "--", "sleep", "50"]);
        sleep(Duration::from_millis(ms));
        kill(-r.pid(), libc::SIGINT);
        r.wait(20).code(130);
        lab.assert_no_processes();
        lab.assert_tidy();
    }
    if have("ib_write_bw") {
        let r = lab.metaroce(&["perftest", "ib_write_bw", "-s", "65536", "-n", "100000"]);
        until("transfer", 20, || {
            lab.process(&["ib_write_bw", "metaroce1", "127.0.0.1"])
                .is_some()
        });
        let pcap = lab.newest().join("wire.pcap");
        until("traffic", 60, || {
            fs::metadata(&pcap).is_ok_and(|m| m.len() > 24)
        });
        kill(-r.pid(), libc::SIGINT);
        r.wait(20).code(130);
        lab.assert_no_processes();
        lab.assert_tidy();
        // What was recorded until then is there.
        assert!(packets(&lab.newest().join("wire.pcap")) > 0);
        lab.result();
    }
}

/// SIGKILL leaves the tree; programs end at once, and the next run cleans up. It leaves trees in use alone.
#[test]
fn a_killed_run_takes_its_programs_along() {
    let lab = Lab::new();
    let sleeps = |n: &str| lab.processes().iter().any(|(_, c)| c == n);
    let alive = lab.metaroce(&["run", "--", "sleep", "51"]);
    let r = lab.metaroce(&["run", "--", "sleep", "50"]);
    until("programs", 20, || {
        sleeps("sleep 50 ") && sleeps("sleep 51 ")
    });
    kill(r.pid(), libc::SIGKILL);
    r.wait(5).code(137);
    until("end of the program", 5, || !sleeps("sleep 50 "));
    let trees = || fs::read_dir(lab.dir.join("rt")).unwrap().count();
    assert_eq!(trees(), 2);
    lab.metaroce(&["run", "--", "true"]).wait(20).ok();
    assert_eq!(trees(), 1);
    assert!(sleeps("sleep 51 "));
    kill(alive.pid(), libc::SIGTERM);
    alive.wait(20).code(143);
    lab.assert_tidy();
    lab.assert_no_processes();
}

/// A program that leaves a process behind doesn't keep it: its card is gone.
#[test]
fn what_a_program_leaves_in_the_background_ends_with_the_run() {
    let lab = Lab::new();
    lab.metaroce(&["run", "--", "sh", "-c", "setsid sleep 66 & exit 4"])
        .wait(20)
        .code(4);
    lab.assert_no_processes();
}

/// `metaroce link`: the program gets PORT_ERR and PORT_ACTIVE, and the port's state is what it says.
#[test]
fn a_link_that_goes_down_and_up() {
    let lab = Lab::new();
    lab.metaroce(&["link", "metaroce0", "down"])
        .wait(30)
        .code(1)
        .says("metaroce up");
    let program = lab.dir.join("events");
    let made = std::process::Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/events.c"))
        .arg("-libverbs")
        .output();
    if !made.is_ok_and(|o| o.status.success()) {
        println!("skipped: no C compiler or no libibverbs-dev");
        return;
    }
    lab.metaroce(&["up"]).wait(30).ok();
    for wrong in ["metaroce7", "eth0"] {
        lab.metaroce(&["link", wrong, "down"]).wait(30).code(1);
    }
    let r = background(&lab, &format!("exec {}", program.display()));
    let says = |text: &str| until(text, 20, || r.so_far().contains(text));
    says("active");
    lab.metaroce(&["link", "metaroce0", "down"]).wait(30).ok();
    says("down");
    lab.metaroce(&["link", "metaroce1", "down"]).wait(30).ok();
    lab.metaroce(&["link", "metaroce0", "up"]).wait(30).ok();
    let o = r.wait(20).ok();
    let lines: Vec<&str> = o.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", o.out);
    assert_eq!(lines[0], "active");
    assert_eq!(lines[1], "port error of port 1");
    assert_eq!(lines[2], "down");
    assert_eq!(lines[3], "port active of port 1");
    lab.metaroce(&["down"]).wait(30).ok();
    lab.assert_tidy();
}

fn background(lab: &Lab, script: &str) -> Running {
    lab.sh(&format!("eval \"$(metaroce env)\"; {script}"))
}

#[test]
fn a_killed_peer_is_an_error_for_its_peer_only() {
    if !have("ib_write_bw") || !have("ibv_rc_pingpong") {
        return;
    }
    let lab = Lab::new();
    lab.metaroce(&["up"]).wait(30).ok();
    let (p, q) = (free_port(), free_port());
    let doomed = background(
        &lab,
        &format!("exec ib_write_bw -d metaroce0 -p {p} -s 65536 -n 100000"),
    );
    let port = format!(":{p:04X} ");
    until("server", 20, || listens(&port));
    let peer = background(
        &lab,
        &format!("exec ib_write_bw -d metaroce1 -p {p} -s 65536 -n 100000 127.0.0.1"),
    );
    let side = |d: &str| format!("ibv_rc_pingpong -d {d} -g 1 -p {q} -n 200 -c");
    let other = background(
        &lab,
        &pair(&side("metaroce0"), &(side("metaroce1") + " 127.0.0.1"), q),
    );
    until("transfer", 30, || received(&lab) > 1_000_000);
    kill(doomed.pid(), libc::SIGKILL);
    // Transport retry counter exceeded: status 12.
    let o = peer.wait(60);
    assert_ne!(o.code, 0, "{}", o.out);
    let o = o.says("12");
    println!("peer ended after {:.1} s", o.took.as_secs_f64());
    let o = other.wait(60).ok();
    assert_eq!(o.out.matches("200 iters").count(), 2, "{}", o.out);
    assert!(!o.out.contains("invalid data"), "{}", o.out);
    until("end of all clients", 10, || {
        let o = lab.metaroce(&["status", "--json"]).wait(30).ok();
        o.out.contains("\"clients\":0")
    });
    lab.metaroce(&["down"]).wait(30).ok();
    lab.assert_no_processes();
}

fn listens(port: &str) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|f| {
        fs::read_to_string(f)
            .unwrap_or_default()
            .lines()
            .any(|l| l.contains(port) && l.contains(" 0A "))
    })
}

/// Bytes that card 0 has received.
fn received(lab: &Lab) -> u64 {
    let o = lab.metaroce(&["stats", "--json"]).wait(30).ok();
    let v: serde_json::Value = serde_json::from_str(&o.out).unwrap();
    let c = v[0]["counters"].as_array().unwrap();
    let n = c.iter().find(|c| c[0] == "rx_bytes").unwrap();
    n[1].as_u64().unwrap()
}

#[test]
fn a_killed_simulator_ends_its_clients() {
    if !have("ib_write_bw") {
        return;
    }
    let lab = Lab::new();
    lab.metaroce(&["up"]).wait(30).ok();
    let p = free_port();
    let traffic = background(
        &lab,
        &pair(
            &format!("ib_write_bw -d metaroce0 -p {p} -s 65536 -n 100000"),
            &format!("ib_write_bw -d metaroce1 -p {p} -s 65536 -n 100000 127.0.0.1"),
            p,
        ),
    );
    until("transfer", 30, || received(&lab) > 1_000_000);
    kill(
        lab.process(&["metaroce serve"]).expect("it runs"),
        libc::SIGKILL,
    );
    let o = traffic.wait(30).says("simulator ended");
    assert_ne!(o.code, 0);
    lab.metaroce(&["status"]).wait(30).code(3);
    // A program that starts now is told, and new cards come up over the old tree.
    lab.metaroce(&["up"]).wait(30).ok().says("2 card(s) up");
    background(&lab, "ibv_devinfo").wait(30).ok();
    lab.metaroce(&["down"]).wait(30).ok();
    lab.assert_tidy();
    lab.assert_no_processes();
}

/// Connects to the simulator's socket and sends `packet`.
fn knock(path: &Path, packet: &[u8]) -> std::os::fd::OwnedFd {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    // SAFETY: system calls on a descriptor of ours; the address is initialised and long enough.
    unsafe {
        let raw = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        assert!(raw >= 0);
        let fd = OwnedFd::from_raw_fd(raw);
        let mut a: libc::sockaddr_un = std::mem::zeroed();
        a.sun_family = libc::AF_UNIX as _;
        for (to, from) in a.sun_path.iter_mut().zip(path.to_str().unwrap().bytes()) {
            *to = from as _;
        }
        let r = libc::connect(
            fd.as_raw_fd(),
            (&raw const a).cast(),
            std::mem::size_of_val(&a) as _,
        );
        assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
        libc::send(
            fd.as_raw_fd(),
            packet.as_ptr().cast(),
            packet.len(),
            libc::MSG_NOSIGNAL,
        );
        fd
    }
}

#[test]
fn garbage_on_the_socket_is_refused_and_others_go_on() {
    if !have("ibv_rc_pingpong") {
        return;
    }
    let lab = Lab::new();
    lab.metaroce(&["up"]).wait(30).ok();
    let sock = fs::read_dir(lab.dir.join("rt"))
        .unwrap()
        .flatten()
        .map(|e| e.path().join("cardd.sock"))
        .find(|p| p.exists())
        .expect("a socket");
    let p = free_port();
    let side = |d: &str| format!("ibv_rc_pingpong -d {d} -g 1 -p {p} -n 100 -c");
    let other = background(
        &lab,
        &pair(&side("metaroce0"), &(side("metaroce1") + " 127.0.0.1"), p),
    );
    until("transfer", 30, || received(&lab) > 10_000);
    let mut state = 12345u32;
    let mut held = vec![];
    for n in 0..40usize {
        let bytes: Vec<u8> = (0..n * 7)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        held.push(knock(&sock, &bytes));
    }
    // Gone before the answer, and a huge one.
    drop(knock(&sock, b"x"));
    held.push(knock(&sock, &vec![0xFF; 100_000]));
    let o = other.wait(60).ok();
    assert!(!o.out.contains("invalid data"), "{}", o.out);
    drop(held);
    lab.metaroce(&["down"]).wait(30).ok();
    let log = fs::read_to_string(lab.newest().join("sim.log")).unwrap();
    assert!(log.matches("refused a connection").count() >= 40, "{log}");
    assert_clean(&lab.result());
    lab.assert_no_processes();
}

#[test]
fn a_full_disk_gives_a_message() {
    let lab = Lab::new();
    let disk = lab.dir.join("disk");
    fs::create_dir(&disk).unwrap();
    let d = disk.to_str().unwrap();
    let mounted = lab
        .sh(&format!("mount -t tmpfs -o size=64k none {d}"))
        .wait(10);
    if mounted.code != 0 {
        println!("skipped: a small file system needs root ({})", mounted.err);
        return;
    }
    let run = |args: &[&str]| {
        let mut c = lab.with(METAROCE, args);
        c.env("METAROCE_RUN_DIR", d);
        lab.start(c).wait(60)
    };
    // The capture fills it while the programs run: they go on, and the loss is told.
    let filling =
        have("ib_write_bw").then(|| run(&["perftest", "ib_write_bw", "-s", "65536", "-n", "20"]));
    fs::write(disk.join("fill"), vec![0; 1 << 20]).unwrap_err();
    let full = run(&["run", "--", "true"]);
    lab.sh(&format!("umount {d}")).wait(10).ok();
    full.code(1).says("disk full");
    if let Some(o) = filling {
        assert_ne!(o.code, 0, "result.json is not there, so it is no success");
        o.says("capture stops here")
            .says("BW average")
            .says("result.json");
    }
    lab.assert_tidy();
}
