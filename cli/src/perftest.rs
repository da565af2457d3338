//! Runs an unmodified perftest tool as server on card 0 and as client on card 1.

use crate::output::{note, say, Usage};
use crate::{
    report,
    rundir::cant,
    session::{exit_code, refuse_static, Session},
    FaultsOn, SimArgs,
};
use anyhow::{bail, Context, Result};
use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const DEFAULT_TOOL: &str = "ib_write_bw";
/// A default that finishes in seconds at simulation speed.
const DEFAULT_ARGS: [&str; 4] = ["-s", "65536", "-n", "100"];

/// No frame for that long: what a tool still waits for does not come.
const SILENCE: Duration = Duration::from_secs(10);

/// Splits `[TOOL] [ARGS]`: the first word is the tool when it does not start with '-'.
fn split(args: &[String]) -> (String, Vec<String>) {
    match args.split_first() {
        Some((t, rest)) if !t.starts_with('-') => (t.clone(), rest.to_vec()),
        _ => (DEFAULT_TOOL.into(), args.to_vec()),
    }
}

/// A TCP port for the tool's own rendezvous, so that two runs at once don't meet.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")
        .context("no free TCP port on 127.0.0.1")?
        .local_addr()?
        .port())
}

/// Iterations: perftest's default of 1000 or 5000 takes long at simulation speed.
fn with_defaults(tool: &str, mut args: Vec<String>) -> Vec<String> {
    let has = |args: &[String], short: &str, long: &str| {
        args.iter().any(|a| {
            a == long
                || a.starts_with(&format!("{long}="))
                || (a.starts_with(short) && !a.starts_with("--"))
        })
    };
    if tool == DEFAULT_TOOL && args.is_empty() {
        args.extend(DEFAULT_ARGS.map(String::from));
    } else if !has(&args, "-n", "--iters") && !has(&args, "-D", "--duration") {
        args.extend(["-n".into(), "100".into()]);
    }
    args
}

/// Why a tool's option can't be given.
fn refused(option: &str) -> Option<&'static str> {
    let device = option == "--ib-dev"
        || option.starts_with("--ib-dev=")
        || (option.starts_with("-d") && !option.starts_with("--"));
    device.then_some("the devices are chosen here (server metaroce0, client metaroce1). For other set-ups use `metaroce shell`")
}

/// What a tool says on stderr when the machine is too busy for it to measure the frequency of its clock; it gives up then.
const NO_CLOCK: &str = "Correlation coefficient";
/// So often is a run begun again for that.
const AGAIN: u32 = 2;

pub fn run(a: &SimArgs, timeout: u64, card_time: bool, args: &[String]) -> Result<u8> {
    for _ in 0..AGAIN {
        let (code, no_clock) = once(a, timeout, card_time, args)?;
        if !no_clock {
            return Ok(code);
        }
        note!("metaroce: the tool could not measure the clock of this machine, which is busy: once more");
    }
    once(a, timeout, card_time, args).map(|(code, _)| code)
}

/// The status, and whether it is only that the tool could not measure the machine's clock.
fn once(a: &SimArgs, timeout: u64, card_time: bool, args: &[String]) -> Result<(u8, bool)> {
    let (tool, given) = split(args);
    if let Some(why) = given.iter().find_map(|x| refused(x)) {
        return Err(Usage(why.into()).into());
    }
    refuse_static(&tool).map_err(|e| Usage(format!("{e:#}")))?;
    if given
        .iter()
        .any(|x| ["-h", "--help", "-V", "--version"].contains(&x.as_str()))
    {
        // asked about itself, a tool needs no cards
        let st = std::process::Command::new(&tool)
            .args(&given)
            .status()
            .with_context(|| format!("can't start {tool}"))?;
        return Ok((exit_code(&st), false));
    }
    let args = with_defaults(&tool, given);
    let port = if args.iter().any(|x| x == "-p" || x.starts_with("--port")) {
        None
    } else {
        Some(free_port()?)
    };
    if a.cards < 2 {
        let why = "perftest runs between two cards: leave --cards away, or give 2 or more";
        return Err(Usage(why.into()).into());
    }
    let s = Session::start_with(a, card_time)?;
    if card_time {
        say!("metaroce: the figures of {tool} are in card time (its clock is the card's)");
    }
    // UC and UD lose messages on such a wire, and the tools wait for them until they are stopped.
    let waits = a.loss + a.corrupt > 0
        && a.faults_on == FaultsOn::All
        && args_have(&args, "-c", &["UC", "UD"]);
    if waits {
        note!("metaroce: the wire loses frames, and UC and UD don't send them again: {tool} ends only if none of its messages is hit; when the wire has been silent for {} s it is stopped", SILENCE.as_secs());
    }
    let r = both(&s, &tool, &args, port, timeout, waits.then_some(SILENCE));
    let signal = s.signal();
    let (rep, dir) = s.finish()?;
    let mtu = mtu_of(&dir.join("client.out"));
    let cmd: Vec<String> = [tool.clone()].into_iter().chain(args).collect();
    let kept = report::write_json(&dir, &rep, &cmd, mtu);
    let ended = r?;
    let whole = ended.is_some();
    let code = match (ended, signal) {
        (Some(c), _) => c,
        (None, Some(n)) => 128 + n,
        (None, None) => 124,
    };
    if code == 0 && rep.fabric.frames == 0 {
        note!("metaroce: {tool} ended with status 0, but no card sent a frame: is it a test that uses metaroce0 and metaroce1?");
    } else if code == 0 {
        report::print(&rep, mtu, report::pulls(&tool), card_time);
    } else if !whole {
        if signal.is_none() && waits {
            note!("metaroce: UC and UD don't send again what the wire loses, and {tool} waits for it; RC (the default) does");
        }
    } else {
        note!(
            "metaroce: {tool} failed with status {code}; server output: {}",
            dir.join("server.out").display()
        );
        show_tail(&dir.join("server.out"));
    }
    kept?;
    say!("  results: {} (seed {})", dir.display(), a.seed());
    let gave_up = |name: &str| {
        std::fs::read_to_string(dir.join(name)).is_ok_and(|text| text.contains(NO_CLOCK))
    };
    let no_clock = code != 0 && (gave_up("client.err") || gave_up("server.out"));
    Ok((code, no_clock))
}

/// Starts both sides; the client's output is shown and kept.
fn both(
    s: &Session,
    tool: &str,
    args: &[String],
    port: Option<u16>,
    timeout: u64,
    quiet: Option<Duration>,
) -> Result<Option<u8>> {
    let side = |dev: &str, peer: Option<&str>| {
        let mut c: Vec<String> = vec![tool.into(), "-d".into(), dev.into()];
        c.extend(args.iter().cloned());
        if let Some(p) = port {
            c.extend(["-p".into(), p.to_string()]);
        }
        c.extend(peer.map(String::from));
        c
    };
    let out = s.dir.join("server.out");
    let f = File::create(&out).map_err(|e| cant("write", &out, &e))?;
    let mut server = s
        .command(&side("metaroce0", None))?
        .stdin(Stdio::null())
        .stdout(f.try_clone()?)
        .stderr(f)
        .spawn()
        .with_context(|| format!("can't start {tool}"))?;
    if !listening(s, &mut server, port)? {
        return Ok(Some(server.wait().map(|st| exit_code(&st)).unwrap_or(1)));
    }
    let mut client = s
        .command(&side("metaroce1", Some("127.0.0.1")))?
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("can't start {tool}"))?;
    let errors = client.stderr.take().expect("it was asked for");
    let errors_copy = s.dir.join("client.err");
    let told = std::thread::spawn(move || show(errors, &errors_copy, |l| note!("{l}")));
    let pipe = client.stdout.take().expect("it was asked for");
    let copy = s.dir.join("client.out");
    let shown = std::thread::spawn(move || show(pipe, &copy, |l| say!("{l}")));
    let st = s.wait_all(
        &mut [server, client],
        Some(Duration::from_secs(timeout)),
        quiet,
    )?;
    let _ = shown.join();
    let _ = told.join();
    // the status of the side that failed, not of the one that was ended for it
    let ended = 128 + libc::SIGTERM as u8;
    Ok(st.map(|v| {
        let codes: Vec<u8> = v.iter().map(exit_code).collect();
        let own = codes.iter().copied().filter(|c| *c != ended).max();
        own.filter(|c| *c != 0)
            .or(codes.into_iter().max())
            .unwrap_or(1)
    }))
}

/// An option with one of these values: `-c UD`, `-cUD` or `--connection=UD`.
fn args_have(args: &[String], opt: &str, values: &[&str]) -> bool {
    args.iter().enumerate().any(|(k, a)| {
        values.iter().any(|v| {
            *a == format!("{opt}{v}")
                || *a == format!("--connection={v}")
                || (a == opt && args.get(k + 1).is_some_and(|n| n == v))
        })
    })
}

/// Waits until the server listens (its TCP port appears; with -R it listens at the connection manager), or has ended.
fn listening(s: &Session, server: &mut Child, port: Option<u16>) -> Result<bool> {
    let begun = Instant::now();
    loop {
        if server.try_wait()?.is_some() {
            return Ok(false);
        }
        let up = match port {
            // Looking at the kernel's table does not disturb the server, which serves one connection.
            Some(p) if s.listens(p) => true,
            Some(p) => std::fs::read_to_string("/proc/net/tcp")
                .unwrap_or_default()
                .lines()
                .chain(
                    std::fs::read_to_string("/proc/net/tcp6")
                        .unwrap_or_default()
                        .lines(),
                )
                .any(|l| {
                    let mut w = l.split_whitespace();
                    w.nth(1).is_some_and(|a| a.ends_with(&format!(":{p:04X}")))
                        && w.nth(1) == Some("0A")
                }),
            None => begun.elapsed() > Duration::from_secs(2),
        };
        if up {
            return Ok(true);
        }
        if begun.elapsed() > Duration::from_secs(60) {
            bail!("the server did not listen within 60 s");
        }
        sleep(Duration::from_millis(10));
    }
}

/// Shows what comes, and keeps it.
fn show(pipe: impl std::io::Read, copy: &Path, on: impl Fn(&str)) {
    use std::io::Write;
    let mut f = File::create(copy).ok();
    for l in BufReader::new(pipe).lines().map_while(|l| l.ok()) {
        on(&l);
        if let Some(f) = &mut f {
            let _ = writeln!(f, "{l}");
        }
    }
}

fn show_tail(p: &Path) {
    let text = std::fs::read_to_string(p).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    for l in &lines[lines.len().saturating_sub(8)..] {
        note!("  | {l}");
    }
}

/// perftest prints " Mtu             : 4096[B]".
fn mtu_of(p: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(p).ok()?;
    let l = text.lines().find(|l| l.trim_start().starts_with("Mtu"))?;
    l.split(':').nth(1)?.trim().split('[').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    fn v(s: &str) -> Vec<String> {
        s.split_whitespace().map(String::from).collect()
    }
    #[test]
    fn arguments() {
        assert_eq!(split(&v("-s 64")), ("ib_write_bw".into(), v("-s 64")));
        assert_eq!(
            split(&v("ib_read_lat -s 64")),
            ("ib_read_lat".into(), v("-s 64"))
        );
        assert_eq!(with_defaults("ib_read_bw", v("-s 64")), v("-s 64 -n 100"));
        assert_eq!(with_defaults("ib_read_bw", v("-n5")), v("-n5"));
        assert_eq!(with_defaults("ib_write_bw", v("")), v("-s 65536 -n 100"));
    }
}
