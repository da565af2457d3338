//! A foreground run: simulator threads in this process, programs as its children.

use crate::output::{note, NoProgram};
use crate::{
    report,
    rundir::{cant, new_run, Root},
    SimArgs,
};
use anyhow::{bail, Context, Result};
use metaroce_cm::Cm;
use metaroce_tb::{
    fabric::{FabricConfig, Faults},
    hostport::HostPortConfig,
    server::{serve, Control, Report, ServerConfig},
    sim::SimConfig,
};
use std::{
    fs,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc, Arc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

pub fn sim_config(a: &SimArgs) -> SimConfig {
    SimConfig {
        cards: a.cards as usize,
        minis: a.minis(),
        fabric: FabricConfig {
            rate_mbps: a.rate * 1000,
            delay_ns: a.delay,
            faults: Faults {
                loss_ppm: a.loss,
                duplicate_ppm: a.dup,
                reorder_ppm: a.reorder,
                corrupt_ppm: a.corrupt,
            },
            faults_on_rc_only: a.faults_on == crate::FaultsOn::Rc,
            seed: a.seed(),
            ..FabricConfig::default()
        },
        host: HostPortConfig {
            read_ns: a.host_latency,
            mbps: a.host_bandwidth * 1000,
            ..HostPortConfig::default()
        },
        limits: a.limits(),
    }
}

/// Simulated cards in this process.
pub struct Session {
    pub root: Root,
    pub dir: PathBuf,
    card_time: bool,
    /// Files that a program may have open.
    files: libc::rlimit,
    control: Control,
    cm: Cm,
    thread: Option<JoinHandle<Result<Report>>>,
    pub interrupted: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Session {
    pub fn start(a: &SimArgs) -> Result<Session> {
        Session::start_with(a, false)
    }

    /// With `card_time` the clocks of the programs show card time.
    pub fn start_with(a: &SimArgs, card_time: bool) -> Result<Session> {
        if card_time {
            traps_the_counter()?;
        }
        if a.trace && !cfg!(feature = "trace") {
            bail!("this build has no signal dumps: start with ./metaroce, which builds them in (needs liblz4-dev and zlib1g-dev)");
        }
        // Signals end the children first, then everything is cleaned up; from here on there is something to clean.
        let interrupted = Arc::new(AtomicBool::new(false));
        let signal = Arc::new(AtomicUsize::new(0));
        for s in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            signal_hook::flag::register(s, interrupted.clone()).context("can't catch signals")?;
            signal_hook::flag::register_usize(s, signal.clone(), s as usize)
                .context("can't catch signals")?;
        }
        // What programs leave behind becomes a child of this process, so that it can be ended with the run.
        // SAFETY: a plain system call.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        // SAFETY: the call fills one struct.
        let files = unsafe {
            let mut r = std::mem::zeroed();
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut r);
            r
        };
        let root = Root::temporary()?;
        root.populate(a.cards as usize, a.rate * 1000)?;
        let dir = new_run()?;
        write_replay(&dir, a.seed())?;
        let cfg = ServerConfig {
            sim: sim_config(a),
            socket: root.socket(),
            pcap: Some(dir.join("wire.pcap")),
            trace: a.trace.then(|| dir.clone()),
            direct_dma: !a.agent_dma,
            card_time,
            log: Some(dir.join("sim.log")),
        };
        let (tx, rx) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("simulator".into())
            .spawn(move || serve(&cfg, |c| tx.send(c).expect("the starter waits")))?;
        match rx.recv() {
            Ok(control) => Ok(Session {
                cm: root.connections(a, &control)?,
                root,
                dir,
                card_time,
                files,
                control,
                thread: Some(thread),
                interrupted,
                signal,
            }),
            Err(_) => Err(match thread.join() {
                Ok(Err(e)) => e,
                _ => anyhow::anyhow!("the simulator did not start (message above)"),
            }),
        }
    }

    /// A command that sees the cards, in its own process group (so that Ctrl-C can end all of it).
    pub fn command(&self, cmd: &[String]) -> Result<Command> {
        let mut c = Command::new(&cmd[0]);
        c.args(&cmd[1..]).envs(self.root.environment()?);
        if self.card_time {
            c.env("METAROCE_CARD_TIME", "1");
        }
        // Those that this process started with: the connection manager takes more.
        let files = self.files;
        // SAFETY: both calls are async-signal-safe; the child dies with the simulator.
        unsafe {
            c.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::setrlimit(libc::RLIMIT_NOFILE, &files);
                Ok(())
            })
        };
        Ok(c)
    }

    /// Waits for all children; None = timeout or interruption, and they have been ended. With `quiet`, also when for that
    /// long nothing was on the wire any more.
    pub fn wait_all(
        &self,
        children: &mut [Child],
        timeout: Option<Duration>,
        quiet: Option<Duration>,
    ) -> Result<Option<Vec<ExitStatus>>> {
        let begun = Instant::now();
        let mut frames = (0, begun);
        let mut done: Vec<Option<ExitStatus>> = vec![None; children.len()];
        loop {
            for (c, d) in children.iter_mut().zip(&mut done) {
                if d.is_none() {
                    *d = c.try_wait()?;
                }
            }
            if done.iter().all(Option::is_some) {
                return Ok(Some(done.into_iter().flatten().collect()));
            }
            let late = timeout.is_some_and(|t| begun.elapsed() > t);
            if frames.0 != self.control.frames() {
                frames = (self.control.frames(), Instant::now());
            }
            let still = frames.0 != 0 && quiet.is_some_and(|t| frames.1.elapsed() > t);
            // One side failed: the other would wait for ever.
            let failed = done.iter().flatten().any(|s| !s.success()) && children.len() > 1;
            if late || still || failed || self.interrupted.load(Ordering::SeqCst) || !self.alive() {
                if failed {
                    std::thread::sleep(Duration::from_millis(500));
                }
                for (c, d) in children.iter_mut().zip(&mut done) {
                    if d.is_none() {
                        *d = stop(c)?;
                    }
                }
                if late {
                    note!(
                        "metaroce: stopped after {} s (--timeout): give a larger --timeout, or less to do (for perftest a smaller -n or -s); a busy machine simulates slowly",
                        begun.elapsed().as_secs()
                    );
                }
                return Ok(if failed {
                    Some(done.into_iter().flatten().collect())
                } else {
                    None
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether a program waits for connections on this port.
    pub fn listens(&self, port: u16) -> bool {
        self.cm.listens(port)
    }

    /// The signal that ended the run.
    pub fn signal(&self) -> Option<u8> {
        let n = self.signal.load(Ordering::SeqCst) as u8;
        self.interrupted.load(Ordering::SeqCst).then_some(n)
    }

    fn alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Stops the cards, writes result.json, and returns the report.
    pub fn finish(mut self) -> Result<(Report, PathBuf)> {
        end_descendants();
        self.control.stop();
        let r = match self.thread.take().expect("finished once").join() {
            Ok(r) => r?,
            Err(_) => bail!(
                "the simulator failed (message above); its log is {}",
                self.dir.join("sim.log").display()
            ),
        };
        for u in r.cards.iter().flat_map(|c| &c.unmapped) {
            note!("metaroce: {u}");
        }
        Ok((r, self.dir.clone()))
    }
}

/// Card time reaches a program through its time-stamp counter, which has to trap.
fn traps_the_counter() -> Result<()> {
    let mut mode: libc::c_int = 0;
    // SAFETY: the call writes one int.
    let here = cfg!(target_arch = "x86_64")
        && unsafe { libc::prctl(libc::PR_GET_TSC, &mut mode as *mut libc::c_int) } == 0;
    if !here {
        bail!("--card-time needs an x86-64 Linux whose kernel lets the time-stamp counter trap (PR_SET_TSC); without it the table below the tool's output is in card time");
    }
    Ok(())
}

/// Ends a child: SIGTERM, a moment, SIGKILL.
fn stop(c: &mut Child) -> Result<Option<ExitStatus>> {
    // SAFETY: the child has not been waited for, so the pid is its own.
    unsafe { libc::kill(c.id() as i32, libc::SIGTERM) };
    for _ in 0..200 {
        if let Some(s) = c.try_wait()? {
            return Ok(Some(s));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = c.kill();
    Ok(Some(c.wait()?))
}

/// Ends the processes that programs of the run left in the background: their cards go now.
pub fn end_descendants() {
    let begun = Instant::now();
    let mut signal = libc::SIGTERM;
    loop {
        // SAFETY: reaps children that nobody waits for any more; SIGTERM and SIGKILL go to processes below this one.
        unsafe {
            while libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) > 0 {}
            let left = descendants(std::process::id());
            if left.is_empty() || begun.elapsed() > Duration::from_secs(5) {
                return;
            }
            if begun.elapsed() > Duration::from_secs(1) {
                signal = libc::SIGKILL;
            }
            for pid in left {
                libc::kill(pid as i32, signal);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All processes below `root`.
fn descendants(root: u32) -> Vec<u32> {
    // "pid (name) state ppid ...": the name may hold spaces and parentheses.
    let parent = |pid: u32| -> Option<u32> {
        let s = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let rest = s.rsplit_once(')')?.1;
        rest.split_whitespace().nth(1)?.parse().ok()
    };
    let pairs: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|e| {
            let pid = e.ok()?.file_name().to_str()?.parse().ok()?;
            Some((pid, parent(pid)?))
        })
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let p = found[at];
        found.extend(pairs.iter().filter(|(_, q)| *q == p).map(|(c, _)| *c));
        at += 1;
    }
    found.split_off(1)
}

/// Programs that the preload library can't reach get a message instead of an empty device list.
pub fn refuse_static(program: &str) -> Result<()> {
    use std::os::unix::{ffi::OsStrExt, fs::PermissionsExt};
    let executable = |p: &Path| {
        let path = std::ffi::CString::new(p.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: a string that ends.
        p.is_file() && unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
    };
    let path = if program.contains('/') {
        PathBuf::from(program)
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = || std::env::split_paths(&path).map(|d| d.join(program));
        match all().find(|p| executable(p)).or_else(|| all().find(|p| p.is_file())) {
            Some(p) => p,
            None => bail!(NoProgram {
                there: false,
                text: format!("there is no program {program:?} on PATH (ib_write_bw is in the package perftest, ibv_devinfo in ibverbs-utils; one of this folder is ./{program})"),
            }),
        }
    };
    let Ok(meta) = fs::metadata(&path) else {
        bail!(NoProgram {
            there: false,
            text: format!(
                "there is no program {}: look for a misspelt path, or for one that is relative to another folder (this is {})",
                path.display(),
                std::env::current_dir().unwrap_or_default().display()
            ),
        })
    };
    if !executable(&path) {
        let text = if meta.is_dir() {
            format!(
                "{} is a folder, no program: name the program in it",
                path.display()
            )
        } else {
            format!(
                "{0} can't be executed: if it is a program, make it executable (chmod +x {0}); if it is a script, start it with its interpreter (sh {0})",
                path.display()
            )
        };
        bail!(NoProgram { there: true, text });
    }
    if meta.permissions().mode() & 0o6000 != 0 {
        note!("metaroce: {} is setuid or setgid: the dynamic loader ignores LD_PRELOAD for it, so it will not see the cards", path.display());
    }
    if let Ok(b) = fs::read(&path) {
        let elf = b.starts_with(b"\x7fELF");
        if elf && !b.windows(9).any(|w| w == b"ld-linux-" || w == b"/ld-linux") {
            note!("metaroce: {} looks statically linked: preload libraries don't reach it, so it will not see the cards", path.display());
        }
    }
    Ok(())
}

/// replay.sh: the command line that does the same again, with the seed that this run has.
fn write_replay(dir: &Path, seed: u64) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let quote = |s: &str| format!("'{}'", s.replace('\'', r"'\''"));
    let mut args: Vec<String> = std::env::args().map(|a| quote(&a)).collect();
    let given = |a: &String| a == "'--seed'" || a.starts_with("'--seed=");
    // Behind the subcommand; what stands behind `--` or a tool's name is not ours, but harmless to mistake.
    if args.len() > 1 && !args.iter().any(given) {
        args.insert(2, format!("--seed {seed}"));
    }
    let cwd = std::env::current_dir().unwrap_or_default();
    let kind = std::env::var("METAROCE_CARD").ok();
    let kind = kind.map(|k| format!("env METAROCE_CARD={} ", quote(&k)));
    let text = format!(
        "#!/bin/sh\ncd {} && exec {}{}\n",
        quote(&cwd.display().to_string()),
        kind.unwrap_or_default(),
        args.join(" ")
    );
    let p = dir.join("replay.sh");
    fs::write(&p, text).map_err(|e| cant("write", &p, &e))?;
    fs::set_permissions(&p, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Exit code of a child as a shell would give it.
pub fn exit_code(s: &ExitStatus) -> u8 {
    match (s.code(), s.signal()) {
        (Some(c), _) => c as u8,
        (None, Some(n)) => 128 + n as u8,
        _ => 1,
    }
}

pub fn run_command(a: &SimArgs, timeout: Option<u64>, cmd: &[String]) -> Result<u8> {
    refuse_static(&cmd[0])?;
    let s = Session::start(a)?;
    // It is there and executable: what its first line names is not, or it is a program of another machine.
    let child = s.command(cmd)?.spawn().map_err(|e| NoProgram {
        there: e.kind() != std::io::ErrorKind::NotFound,
        text: format!(
            "can't start {:?}: {e}. Look at its interpreter (the first line of a script) and at the machine that it was built for (file {:?})",
            cmd[0], cmd[0]
        ),
    });
    let mut children = match child {
        Ok(c) => [c],
        Err(e) => {
            // Nothing ran: no folder.
            let (_, dir) = s.finish()?;
            let _ = fs::remove_dir_all(dir);
            return Err(e.into());
        }
    };
    let st = s.wait_all(&mut children, timeout.map(Duration::from_secs), None)?;
    let signal = s.signal();
    let (r, dir) = s.finish()?;
    report::write_json(&dir, &r, cmd, None)?;
    note!("metaroce: {} (seed {})", dir.display(), a.seed());
    Ok(match (st, signal) {
        (Some(v), _) => exit_code(&v[0]),
        (None, Some(n)) => 128 + n,
        (None, None) => 124,
    })
}

pub fn shell(a: &SimArgs) -> Result<u8> {
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    let s = Session::start(a)?;
    note!(
        "metaroce: {} card(s): metaroce0..{}; `exit` ends them",
        a.cards,
        a.cards - 1
    );
    // The shell owns the terminal: Ctrl-C is for what runs in it.
    let mut child = s
        .command(&[shell])?
        .spawn()
        .context("can't start the shell")?;
    let st = child.wait()?;
    let (r, dir) = s.finish()?;
    report::write_json(&dir, &r, &["shell".to_string()], None)?;
    note!("metaroce: {}", dir.display());
    Ok(exit_code(&st))
}
