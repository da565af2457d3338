//! What the tests of the built `metaroce` share: a folder of their own, runs with a time limit, results.
#![allow(dead_code)]

use serde_json::Value;
use std::{
    fs::{self, File},
    net::TcpListener,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

pub const METAROCE: &str = env!("CARGO_BIN_EXE_metaroce");

/// True when `tool` is installed; else says that the test is skipped.
pub fn have(tool: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|p| std::env::split_paths(&p).any(|d| d.join(tool).is_file()));
    if !found {
        println!("skipped: {tool} is not installed (packages perftest, ibverbs-utils, rdmacm-utils, qperf)");
    }
    found
}

/// A folder with results and run-time files that no other test or user sees.
pub struct Lab {
    pub dir: PathBuf,
}

impl Lab {
    pub fn new() -> Lab {
        static N: AtomicU32 = AtomicU32::new(0);
        let n = N.fetch_add(1, Ordering::SeqCst);
        // Short: unix sockets lie below it.
        let dir = PathBuf::from(format!("/tmp/mrt-{}-{n}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        for d in ["rt", "runs"] {
            fs::create_dir_all(dir.join(d)).unwrap();
        }
        Lab { dir }
    }
    /// Surroundings in which `metaroce` keeps to this folder.
    pub fn with(&self, program: &str, args: &[&str]) -> Command {
        let mut c = Command::new(program);
        let path = format!(
            "{}:{}",
            Path::new(METAROCE).parent().unwrap().display(),
            std::env::var("PATH").unwrap_or_default()
        );
        c.args(args)
            .env("METAROCE_RUN_DIR", self.dir.join("runs"))
            .env("XDG_RUNTIME_DIR", self.dir.join("rt"))
            .env("PATH", path)
            .env_remove("LD_PRELOAD");
        c
    }
    pub fn metaroce(&self, args: &[&str]) -> Running {
        self.start(self.with(METAROCE, args))
    }
    /// Runs a script of the shell.
    pub fn sh(&self, script: &str) -> Running {
        self.start(self.with("sh", &["-c", script]))
    }
    /// Starts in a process group of its own, with its output in files (a full pipe must not stop it).
    pub fn start(&self, mut c: Command) -> Running {
        static N: AtomicU32 = AtomicU32::new(0);
        let n = N.fetch_add(1, Ordering::SeqCst);
        let (o, e) = (
            self.dir.join(format!("{n}.out")),
            self.dir.join(format!("{n}.err")),
        );
        let child = c
            .stdin(Stdio::null())
            .stdout(File::create(&o).unwrap())
            .stderr(File::create(&e).unwrap())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("can't start {c:?}: {e}"));
        Running {
            what: format!("{c:?}"),
            child,
            out: o,
            err: e,
        }
    }
    /// result.json of the newest run.
    pub fn result(&self) -> Value {
        self.result_of(&self.newest())
    }
    pub fn newest(&self) -> PathBuf {
        let n = fs::read_dir(self.dir.join("runs"))
            .unwrap()
            .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u64>().ok())
            .max()
            .expect("there was a run");
        self.dir.join("runs").join(n.to_string())
    }
    pub fn result_of(&self, dir: &Path) -> Value {
        let p = dir.join("result.json");
        let text = fs::read_to_string(&p).unwrap_or_else(|e| panic!("{}: {e}", p.display()));
        serde_json::from_str(&text).unwrap()
    }
    /// Nothing is left of trees and sockets.
    pub fn assert_tidy(&self) {
        let left: Vec<_> = fs::read_dir(self.dir.join("rt"))
            .unwrap()
            .flatten()
            .map(|e| e.path())
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
    /// Processes that carry this lab in their environment.
    pub fn processes(&self) -> Vec<(i32, String)> {
        let mark = format!("METAROCE_RUN_DIR={}/runs", self.dir.display());
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|e| {
                let pid: i32 = e.file_name().to_str()?.parse().ok()?;
                let env = fs::read(e.path().join("environ")).ok()?;
                let mine = env.split(|b| *b == 0).any(|v| v == mark.as_bytes());
                let cmd = fs::read(e.path().join("cmdline")).ok()?;
                let text = String::from_utf8_lossy(&cmd).replace('\0', " ");
                (mine && !text.is_empty()).then_some((pid, text))
            })
            .collect()
    }
    /// The process whose command line holds all of `words`.
    pub fn process(&self, words: &[&str]) -> Option<i32> {
        self.processes()
            .into_iter()
            .find(|(_, c)| !c.starts_with("sh ") && words.iter().all(|w| c.contains(w)))
            .map(|(p, _)| p)
    }
    pub fn assert_no_processes(&self) {
        let begun = Instant::now();
        while !self.processes().is_empty() {
            assert!(
                begun.elapsed() < Duration::from_secs(3),
                "left behind: {:?}",
                self.processes()
            );
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            kill(pid, libc::SIGKILL);
        }
        if std::thread::panicking() {
            eprintln!("files of the failed test: {}", self.dir.display());
        } else {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

pub fn kill(pid: i32, signal: i32) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(pid, signal) };
}

pub struct Running {
    what: String,
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

#[derive(Debug)]
pub struct Output {
    pub what: String,
    pub code: i32,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

impl Running {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }
    pub fn so_far(&self) -> String {
        let read = |p| fs::read_to_string(p).unwrap_or_default();
        read(&self.out) + &read(&self.err)
    }
    /// Waits for the end; too slow is a failure, and ends the whole group.
    pub fn wait(mut self, seconds: u64) -> Output {
        let begun = Instant::now();
        let status = loop {
            if let Some(s) = self.child.try_wait().unwrap() {
                break s;
            }
            if begun.elapsed() > Duration::from_secs(seconds) {
                kill(-self.pid(), libc::SIGKILL);
                let _ = self.child.wait();
                panic!(
                    "{} did not end in {seconds} s:\n{}",
                    self.what,
                    self.so_far()
                );
            }
            sleep(Duration::from_millis(5));
        };
        Output {
            code: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            out: fs::read_to_string(&self.out).unwrap_or_default(),
            err: fs::read_to_string(&self.err).unwrap_or_default(),
            took: begun.elapsed(),
            what: self.what,
        }
    }
}

impl Output {
    #[track_caller]
    pub fn ok(self) -> Output {
        self.code(0)
    }
    #[track_caller]
    pub fn code(self, code: i32) -> Output {
        assert_eq!(self.code, code, "{}\n{}\n{}", self.what, self.out, self.err);
        self
    }
    #[track_caller]
    pub fn says(self, text: &str) -> Output {
        assert!(
            self.out.contains(text) || self.err.contains(text),
            "{} does not say {text:?}:\n{}\n{}",
            self.what,
            self.out,
            self.err
        );
        self
    }
}

/// Waits for `done`; the failure says what was waited for.
#[track_caller]
pub fn until(what: &str, seconds: u64, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(
            begun.elapsed() < Duration::from_secs(seconds),
            "no {what} within {seconds} s"
        );
        sleep(Duration::from_millis(20));
    }
}

pub fn free_port() -> u16 {
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    l.local_addr().unwrap().port()
}

/// Shell code: `server` in the background, `client` once its TCP `port` listens, and the status of both.
pub fn pair(server: &str, client: &str, port: u16) -> String {
    format!(
        "{server} & s=$!; n=0; until grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6 || [ $n -gt 300 ]; \
         do n=$((n+1)); sleep 0.05; done; {client}; c=$?; wait $s && exit $c"
    )
}

pub fn counter(result: &Value, card: usize, name: &str) -> u64 {
    result["report"]["cards"][card]["counters"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c[0] == name)
        .unwrap_or_else(|| panic!("no counter {name}"))[1]
        .as_u64()
        .unwrap()
}

/// On a clean wire nothing is lost, resent, late, refused or in error. A missed wake-up shows as a timeout.
#[track_caller]
pub fn assert_clean(r: &Value) {
    for k in 0..r["report"]["cards"].as_array().unwrap().len() {
        for name in [
            "timeouts",
            "tx_retransmits",
            "tx_naks",
            "rx_drop_malformed",
            "rx_drop_icrc",
            "rx_drop_opcode",
            "rx_drop_full",
            "rx_drop_duplicate",
            "rx_drop_sequence",
            "rx_drop_response",
            "rx_fatal_naks",
            "cq_overflows",
            "db_refused",
            "cmds_refused",
        ] {
            let v = counter(r, k, name);
            assert_eq!(v, 0, "card {k}: {name} on a clean wire; {}", r["command"]);
        }
        let refused = r["report"]["cards"][k]["refused_accesses"].as_u64();
        assert_eq!(refused, Some(0), "card {k}: refused accesses");
        let unmapped = &r["report"]["cards"][k]["unmapped"];
        assert_eq!(unmapped, &Value::Array(vec![]), "card {k}: unmapped memory");
    }
}
