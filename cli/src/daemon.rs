//! Cards in the background, for the user's own shell: `up`, `env`, `status`, `stats`, `pcap`, `down`.
//!
//! The background process answers one-line requests on a unix socket `ctl.sock` in its tree.

use crate::output::{note, say};
use crate::{
    private, report,
    rundir::{background_root, new_run, Root},
    session::sim_config,
    CardKind, FaultsOn, SimArgs,
};
use anyhow::{bail, Context, Result};
use clap::ValueEnum;
use metaroce_cm::Cm;
use metaroce_tb::server::{serve as serve_sim, CardReport, Control, ServerConfig};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    os::unix::{
        net::{UnixListener, UnixStream},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc, Mutex,
    },
    time::{Duration, Instant},
};

fn ctl(root: &Path) -> PathBuf {
    root.join("ctl.sock")
}

/// A request to the background process, whose answer comes on the connection.
fn request_to(request: &str) -> Result<UnixStream> {
    let mut s = UnixStream::connect(ctl(&background_root()?))
        .context("no cards in the background (metaroce up starts them)")?;
    s.set_read_timeout(Some(Duration::from_secs(30)))?;
    writeln!(s, "{request}")?;
    Ok(s)
}

/// Asks the background process; Err when there is none.
fn ask(request: &str) -> Result<String> {
    let mut s = request_to(request)?;
    let mut answer = String::new();
    s.read_to_string(&mut answer)
        .context("the background process did not answer; `metaroce down` ends it")?;
    match answer.strip_prefix("error ") {
        Some(e) => bail!("{}", e.trim()),
        None => Ok(answer),
    }
}

fn running() -> Result<bool> {
    Ok(UnixStream::connect(ctl(&background_root()?)).is_ok())
}

/// Catches what ends a program from the terminal, so that nothing half done stays.
struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    fn catch() -> Result<Interrupt> {
        let n = Arc::new(AtomicUsize::new(0));
        for s in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            signal_hook::flag::register_usize(s, n.clone(), s as usize)
                .context("can't catch signals")?;
        }
        Ok(Interrupt(n))
    }
    /// The signal that came.
    fn signal(&self) -> Option<u8> {
        Some(self.0.load(Ordering::SeqCst) as u8).filter(|n| *n != 0)
    }
}

/// What became of the wish that cards be up.
enum Ensured {
    Started,
    Ran,
    /// By this signal; nothing was left.
    Interrupted(u8),
}

/// Command-line options that make these settings.
fn options(a: &SimArgs) -> Vec<String> {
    let mut v = vec!["--cards".to_string(), a.cards.to_string()];
    for (flag, ppm) in [
        ("--loss", a.loss),
        ("--dup", a.dup),
        ("--reorder", a.reorder),
        ("--corrupt", a.corrupt),
    ] {
        v.extend([flag.into(), format!("{}%", ppm as f64 / 10_000.0)]);
    }
    for (flag, n) in [
        ("--delay", a.delay),
        ("--rate", a.rate),
        ("--host-latency", a.host_latency),
        ("--host-bandwidth", a.host_bandwidth),
    ] {
        v.extend([flag.into(), n.to_string()]);
    }
    for l in &a.limit {
        v.extend(["--limit".into(), l.to_string()]);
    }
    if !a.card.is_empty() {
        let names = a.card.iter().filter_map(CardKind::to_possible_value);
        let names: Vec<String> = names.map(|v| v.get_name().into()).collect();
        v.extend(["--card".into(), names.join(",")]);
    }
    if a.faults_on == FaultsOn::Rc {
        v.extend(["--faults-on".into(), "rc".into()]);
    }
    if a.agent_dma {
        v.push("--agent-dma".into());
    }
    if let Some(n) = a.seed {
        v.extend(["--seed".into(), n.to_string()]);
    }
    v
}

/// Starts the background process if there is none. Options that a running set does not have are an error.
fn ensure(a: &SimArgs) -> Result<Ensured> {
    let interrupt = Interrupt::catch()?;
    let root = background_root()?;
    // One at a time: another `up` waits here until this one is done, and so does `down`.
    let _lock = private::lock(&root, true)?;
    if running()? {
        let has = ask("options")?;
        let none = SimArgs::parse_none();
        let same = SimArgs {
            seed: a.seed.or(SimArgs::parse(has.split_whitespace())?.seed),
            ..a.clone()
        };
        if *a != none && options(&same).join(" ") != has.trim() {
            bail!("cards are up already, with other options, and stay as they are ({}): these options were not applied. `metaroce down` first", has.trim());
        }
        return Ok(Ensured::Ran);
    }
    private::empty(&root)?;
    let started = start(a, &root, &interrupt);
    if !matches!(started, Ok(None)) {
        private::retire(&root);
    }
    Ok(match started? {
        Some(signal) => {
            note!("metaroce: interrupted; no cards are up");
            Ensured::Interrupted(signal)
        }
        None => Ensured::Started,
    })
}

/// Starts the background process in the empty folder `root` and waits until it answers. Some = ended by this signal.
fn start(a: &SimArgs, root: &Path, interrupt: &Interrupt) -> Result<Option<u8>> {
    Root::background(root.into()).populate(a.cards as usize, a.rate * 1000)?;
    let log = root.join("up.log");
    let f = File::create(&log).with_context(|| format!("can't write {}", log.display()))?;
    let mut c = Command::new(std::env::current_exe()?);
    // The seed is chosen here, so that it can be told.
    let fixed = SimArgs {
        seed: Some(a.seed()),
        ..a.clone()
    };
    c.arg("serve").arg("--root").arg(root).args(options(&fixed));
    c.stdin(Stdio::null()).stdout(f.try_clone()?).stderr(f);
    // SAFETY: setsid is async-signal-safe; the process leaves this terminal.
    unsafe {
        c.pre_exec(|| {
            libc::setsid();
            Ok(())
        })
    };
    if let Some(n) = interrupt.signal() {
        return Ok(Some(n));
    }
    let mut child = c.spawn().context("can't start the background process")?;
    let begun = Instant::now();
    loop {
        let up = running()?;
        if let Some(n) = interrupt.signal() {
            // In order if it listens already: its folder gets its result.
            if !(up && ask("stop").is_ok()) {
                let _ = child.kill();
            }
            let _ = child.wait();
            return Ok(Some(n));
        }
        if up {
            return Ok(None);
        }
        if let Some(st) = child.try_wait()? {
            let text = fs::read_to_string(&log).unwrap_or_default();
            bail!("the background process ended ({st}): {}", text.trim());
        }
        if begun.elapsed() > Duration::from_secs(60) {
            let _ = child.kill();
            bail!("the cards did not start within 60 s, and were ended");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn up(a: &SimArgs) -> Result<u8> {
    match ensure(a)? {
        Ensured::Started => say!(
            "metaroce: {} card(s) up: metaroce0..{} (seed {}). Next: eval \"$(metaroce env)\"",
            a.cards,
            a.cards - 1,
            a.seed()
        ),
        Ensured::Ran => say!("metaroce: already up"),
        Ensured::Interrupted(n) => return Ok(128 + n),
    }
    Ok(0)
}

pub fn env(a: &SimArgs) -> Result<u8> {
    if let Ensured::Interrupted(n) = ensure(a)? {
        return Ok(128 + n);
    }
    let root = Root::background(background_root()?);
    for (k, v) in root.environment()? {
        say!("export {k}='{}'", v.replace('\'', r"'\''"));
    }
    say!("# cards are up; `metaroce down` stops them");
    Ok(0)
}

pub fn down() -> Result<u8> {
    let root = background_root()?;
    let lock = private::lock(&root, false)?;
    if lock.is_some() && running()? {
        ask("stop")?;
        let begun = Instant::now();
        while running()? && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
        }
        say!("metaroce: down");
    } else {
        say!("metaroce: no cards in the background");
    }
    if lock.is_some() {
        private::retire(&root);
    }
    Ok(0)
}

pub fn status(json: bool) -> Result<u8> {
    if !running()? {
        if json {
            say!("{{\"running\": false}}");
        } else {
            say!("metaroce: no cards in the background");
        }
        return Ok(3);
    }
    let v: serde_json::Value = serde_json::from_str(&ask("status")?)?;
    if json {
        say!("{v}");
    } else {
        say!(
            "metaroce: up; {} card(s), {} open device context(s), {}{:.3} ms of card time; tree {}",
            v["cards"],
            v["clients"],
            v["links_down"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|k| format!("link of metaroce{k} down, "))
                .collect::<String>(),
            v["card_time_ns"].as_f64().unwrap_or(0.0) / 1e6,
            background_root()?.display()
        );
    }
    Ok(0)
}

pub fn stats(json: bool) -> Result<u8> {
    let text = ask("stats")?;
    let v: Vec<serde_json::Value> = serde_json::from_str(&text)?;
    if json {
        say!("{text}");
        return Ok(0);
    }
    for card in v {
        say!("metaroce{}", card["card"]);
        for c in card["counters"].as_array().into_iter().flatten() {
            if c[1].as_u64() != Some(0) {
                say!("  {:<22}{:>14}", c[0].as_str().unwrap_or("?"), c[1]);
            }
        }
    }
    Ok(0)
}

pub fn link(card: &str, up: bool) -> Result<u8> {
    let Some(k) = card
        .strip_prefix("metaroce")
        .and_then(|k| k.parse::<u8>().ok())
    else {
        bail!("{card:?} is not a card; cards are metaroce0, metaroce1, ...");
    };
    let to = if up { "up" } else { "down" };
    ask(&format!("link {k} {to}"))?;
    say!("metaroce: link of {card} is {to}");
    Ok(0)
}

pub fn pcap(file: &Path, seconds: Option<u64>) -> Result<u8> {
    let full = std::path::absolute(file)?;
    let stop = Interrupt::catch()?;
    // The capture lasts as long as this connection.
    let s = request_to(&format!("pcap {}", full.display()))?;
    let mut from = BufReader::new(s.try_clone()?);
    let mut line = String::new();
    from.read_line(&mut line)
        .context("the background process did not answer; `metaroce down` ends it")?;
    if let Some(e) = line.strip_prefix("error ") {
        bail!("{}", e.trim());
    }
    note!(
        "metaroce: capturing to {} ({})",
        full.display(),
        seconds.map_or("Ctrl-C stops".into(), |s| format!("{s} s"))
    );
    s.set_read_timeout(Some(Duration::from_millis(50)))?;
    let begun = Instant::now();
    let mut asked = false;
    line.clear();
    loop {
        let over = seconds.is_some_and(|s| begun.elapsed().as_secs() >= s);
        if !asked && (over || stop.signal().is_some()) {
            asked = true;
            s.shutdown(std::net::Shutdown::Write)?;
        }
        use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        match from.read_line(&mut line) {
            Err(e) if matches!(e.kind(), WouldBlock | TimedOut | Interrupted) => {}
            Ok(n) if n > 0 && asked => return Ok(0),
            Ok(n) if n > 0 => {
                note!(
                    "metaroce: the cards went down: the capture ends here, {} is complete",
                    full.display()
                );
                return Ok(0);
            }
            _ => bail!(
                "the background process ended without finishing the capture: the end of {} may be missing",
                full.display()
            ),
        }
    }
}

/// The capture of the wire that runs: its file, and the connection of who wants it.
type Capturing = Arc<Mutex<Option<(String, UnixStream)>>>;

/// Captures until the other end closes the connection, or ends.
fn capture(mut s: UnixStream, c: &Control, path: &str, now: &Capturing) -> Result<()> {
    let mut running = now.lock().expect("no panics while locked");
    if let Some((other, _)) = &*running {
        writeln!(
            s,
            "error the wire is being captured already, to {other}: one capture at a time"
        )?;
        return Ok(());
    }
    if let Err(e) = File::create(path) {
        writeln!(s, "error can't write {path}: {e}")?;
        return Ok(());
    }
    s.set_read_timeout(None)?;
    *running = Some((path.into(), s.try_clone()?));
    drop(running);
    c.capture(Some(path.into()));
    let (c, now) = (c.clone(), now.clone());
    std::thread::spawn(move || {
        let told = writeln!(s, "capturing");
        // Nothing more comes: this returns when the connection has been closed, be it by SIGKILL.
        let _ = told.and_then(|()| s.read(&mut [0]));
        c.capture(None);
        *now.lock().expect("no panics while locked") = None;
        let _ = writeln!(s, "complete");
    });
    Ok(())
}

/// The background process: the simulator, and a thread that answers requests.
pub fn serve(a: &SimArgs, root: &Path) -> Result<u8> {
    if !private::check(root)? {
        bail!("{} is not there", root.display());
    }
    let dir = new_run()?;
    let path = ctl(root);
    let cfg = ServerConfig {
        sim: sim_config(a),
        socket: root.join("cardd.sock"),
        pcap: None,
        trace: None,
        direct_dma: !a.agent_dma,
        card_time: false,
        log: Some(dir.join("sim.log")),
    };
    let asked = a.clone();
    let capturing = Capturing::default();
    let theirs = capturing.clone();
    let mut cm: Result<Option<Cm>> = Ok(None);
    let tree = Root::background(root.into());
    let r = serve_sim(&cfg, |c| {
        // Who finds this process at `path` finds all the rest, too.
        let begin = || {
            let cm = tree.connections(a, &c)?;
            let listener = UnixListener::bind(&path)
                .with_context(|| format!("can't make {}", path.display()))?;
            let c = c.clone();
            std::thread::spawn(move || {
                for s in listener.incoming().flatten() {
                    let _ = answer(s, &c, &asked, &theirs);
                }
            });
            Ok(Some(cm))
        };
        cm = begin();
        if cm.is_err() {
            c.stop();
        }
    })?;
    drop(cm?);
    // The file is complete.
    if let Some((_, s)) = &mut *capturing.lock().expect("no panics while locked") {
        let _ = writeln!(s, "down");
    }
    report::write_json(&dir, &r, &["up".to_string()], None)?;
    let _ = fs::remove_file(path);
    Ok(0)
}

fn answer(mut s: UnixStream, c: &Control, a: &SimArgs, capturing: &Capturing) -> Result<()> {
    s.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut line = String::new();
    BufReader::new(s.try_clone()?)
        .take(4096)
        .read_line(&mut line)?;
    let line = line.trim();
    match line.split_once(' ').unwrap_or((line, "")) {
        ("status", _) => writeln!(
            s,
            "{}",
            serde_json::json!({"running": true, "cards": a.cards, "seed": a.seed(), "clients": c.clients(), "links_down": c.links_down(), "card_time_ns": c.now_ns()})
        )?,
        ("stats", _) => {
            let v: Vec<CardReport> = c.reports();
            writeln!(s, "{}", serde_json::to_string(&v)?)?;
        }
        ("pcap", p) => capture(s, c, p, capturing)?,
        ("options", _) => writeln!(s, "{}", options(a).join(" "))?,
        ("link", w) => {
            let (card, to) = w.split_once(' ').unwrap_or((w, ""));
            let done = card.parse().is_ok_and(|k| c.link(k, to == "up"));
            if !done {
                writeln!(s, "error there is no card metaroce{card}")?;
            }
        }
        ("stop", _) => c.stop(),
        ("", _) => {}
        (x, _) => writeln!(s, "error unknown request {x:?}")?,
    }
    Ok(())
}
