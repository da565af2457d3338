//! Runs the distribution's pyverbs tests, unmodified, on a fresh pair of simulated cards and judges the results: a
//! skip is right only if it is on the list of what the card does not have.

mod parse;
mod skips;

use crate::output::say;
use crate::{report, session::Session, SimArgs};
use anyhow::{bail, Context, Result};
use metaroce_tb::sim::CardId;
use parse::{Outcome, Run, Test};
use serde::Serialize;
use skips::Skips;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// pyverbs is built for the distribution's Python; another one first on PATH does not have it.
const PYTHON: &str = "/usr/bin/python3";
/// Where distributions put the tests.
const PLACES: [&str; 3] = [
    "/usr/share/doc/rdma-core/tests",
    "/usr/share/doc/python3-pyverbs/tests",
    "/usr/share/doc/rdma-core-dev/tests",
];
const PACKAGE: &str = "the package python3-pyverbs has them: type  apt-get install python3-pyverbs";

/// Test modules that run when none is named: those whose subject a RoCE card of this kind has.
const MODULES: [&str; 14] = [
    "test_addr",
    "test_atomic",
    "test_cq",
    "test_cq_events",
    "test_cqex",
    "test_device",
    "test_fork",
    "test_mr",
    "test_pd",
    "test_qp",
    "test_qpex",
    "test_rdmacm",
    "test_relaxed_ordering",
    "test_shared_pd",
];

/// A judged test, as in result.json.
#[derive(Serialize)]
struct Judged {
    test: String,
    outcome: Outcome,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
    /// Capability that the card does not have; absent in a skip that is not on the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
struct Totals {
    passed: usize,
    failed: usize,
    error: usize,
    skipped: usize,
    unexpected_skip: usize,
}

impl Totals {
    fn count(&mut self, t: &Judged) {
        match t.outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Error => self.error += 1,
            Outcome::Skipped => {
                self.skipped += 1;
                self.unexpected_skip += t.absent.is_none() as usize;
            }
        }
    }
    fn good(&self) -> bool {
        self.failed + self.error + self.unexpected_skip == 0 && self.passed + self.skipped > 0
    }
}

/// The folder with the tests, or where it was looked for.
fn find_tests(given: Option<&Path>) -> Result<PathBuf> {
    let is_it = |p: &Path| p.join("run_tests.py").is_file();
    if let Some(p) = given {
        if !is_it(p) {
            bail!(
                "there is no run_tests.py in {}: --tests wants the folder `tests` of rdma-core",
                p.display()
            );
        }
        return Ok(p.into());
    }
    match PLACES.iter().map(Path::new).find(|p| is_it(p)) {
        Some(p) => Ok(p.into()),
        None => bail!(
            "the pyverbs tests of rdma-core are not in {}; {PACKAGE}. \
             Where distributions leave them out, --tests names the folder `tests` of an rdma-core source tree",
            PLACES[0]
        ),
    }
}

/// pyverbs itself.
fn check_python() -> Result<()> {
    let o = Command::new(PYTHON)
        .args(["-c", "import pyverbs.device"])
        .env_remove("LD_PRELOAD")
        .output();
    match o {
        Err(e) => bail!("{PYTHON} does not start ({e}); {PACKAGE}"),
        Ok(o) if !o.status.success() => {
            let text = String::from_utf8_lossy(&o.stderr);
            let last = text.lines().last().unwrap_or("no message");
            bail!("{PYTHON} has no pyverbs ({last}); {PACKAGE}")
        }
        Ok(_) => Ok(()),
    }
}

/// Copies the tests; Debian compresses the larger ones.
fn unpack(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).with_context(|| format!("can't make {}", to.display()))?;
    for e in fs::read_dir(from).with_context(|| format!("can't read {}", from.display()))? {
        let path = e?.path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
            continue;
        };
        let full = |p: &Path| format!("can't write {} (is the disk full?)", p.display());
        match name.strip_suffix(".gz") {
            Some(plain) if path.is_file() => {
                let out = to.join(plain);
                let f = File::create(&out).with_context(|| full(&out))?;
                let st = Command::new("gzip")
                    .arg("-dc")
                    .stdin(File::open(&path)?)
                    .stdout(f)
                    .status()
                    .context("can't start gzip")?;
                if !st.success() {
                    bail!("can't unpack {}", path.display());
                }
            }
            None if name.ends_with(".py") => {
                let out = to.join(name);
                // Not fs::copy: the copy is writable even if the original is not.
                fs::write(&out, fs::read(&path)?).with_context(|| full(&out))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Name of a test for Python: `test_qp`, `test_qp.QPTest`, with or without `tests.`.
fn full_name(t: &str) -> String {
    let t = t.strip_suffix(".py").unwrap_or(t);
    if t == "tests" || t.starts_with("tests.") {
        t.into()
    } else {
        format!("tests.{t}")
    }
}

/// What the tests find around them besides the cards, in one folder:
/// - the seed of Python's generator, from which they draw sizes and PSNs; nothing else can set it without changing them;
/// - `rdma`, which newer tests ask for the kernel's links: there are none, and the real one fails where the kernel has
///   no RDMA instead of saying so;
/// - the network interface of card 0, whose address the tests of librdmacm connect to: its name below the card, and an
///   `ip` that knows it and leaves all else to the system's.
fn surroundings(s: &Session, dir: &Path, seed: u64) -> Result<()> {
    fs::create_dir_all(dir)?;
    let net = "class/infiniband/metaroce0/device/net/metaroce0";
    fs::create_dir_all(s.root.path.join(net))?;
    let [a, b, c, d] = CardId::new(0).ipv4;
    let mac = CardId::new(0).mac.map(|x| format!("{x:02x}")).join(":");
    let shown = serde_json::json!([{
        "ifname": "metaroce0",
        "address": mac,
        "addr_info": [{"family": "inet", "local": format!("{a}.{b}.{c}.{d}"), "prefixlen": 24}],
    }]);
    for (name, text) in [
        (
            "sitecustomize.py",
            format!("import random\nrandom.seed({seed})\n"),
        ),
        ("rdma", "#!/bin/sh\necho '[]'\n".into()),
        (
            "ip",
            format!(
                "#!/bin/sh\nif [ \"$*\" = '-j addr show metaroce0' ]; then echo '{shown}'; else PATH=${{PATH#*:}} exec ip \"$@\"; fi\n"
            ),
        ),
    ] {
        let p = dir.join(name);
        fs::write(&p, text)
            .with_context(|| format!("can't write {} (is the disk full?)", p.display()))?;
        fs::set_permissions(&p, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

pub fn run(a: &SimArgs, timeout: u64, given: Option<&Path>, tests: &[String]) -> Result<u8> {
    let skips = Skips::committed()?;
    let from = find_tests(given)?;
    check_python()?;
    let names: Vec<String> = if tests.is_empty() {
        MODULES.iter().map(|m| full_name(m)).collect()
    } else {
        tests.iter().map(|t| full_name(t)).collect()
    };
    let s = Session::start(a)?;
    let prepared = unpack(&from, &s.dir.join("tests"))
        .and_then(|()| surroundings(&s, &s.dir.join("around"), a.seed()))
        .and_then(|()| run_python(&s, &names, timeout));
    let signal = s.signal();
    let (rep, dir) = s.finish()?;
    let (status, text) = prepared?;
    let r = parse::parse(&text);
    let judged = judge(&r, &skips, status.as_deref());
    let mut totals = Totals::default();
    judged.iter().for_each(|t| totals.count(t));
    let command: Vec<&str> = (["pyverbs"].into_iter())
        .chain(names.iter().map(String::as_str))
        .collect();
    let kept = report::write(
        &dir,
        &serde_json::json!({
            "command": command,
            "tests_from": from,
            "totals": totals,
            "tests": judged,
            "report": rep,
        }),
    );
    print(&judged, &skips);
    kept?;
    say!("  results: {}", dir.display());
    Ok(match status.as_deref() {
        Some("timeout") if signal.is_some() => 128 + signal.unwrap_or_default(),
        Some("timeout") => 124,
        _ if totals.good() => 0,
        _ => 1,
    })
}

/// Runs Python and shows its output; how it ended if not by itself (`timeout` also for Ctrl-C), and what it printed.
fn run_python(s: &Session, names: &[String], timeout: u64) -> Result<(Option<String>, String)> {
    let cmd: Vec<String> = [PYTHON, "run_tests.py"]
        .into_iter()
        .chain(["--dev", "metaroce0", "--port", "1", "--gid", "1", "-v"])
        .map(String::from)
        .chain(names.iter().cloned())
        .collect();
    let around = s.dir.join("around");
    let path = match std::env::var("PATH") {
        Ok(p) => format!("{}:{p}", around.display()),
        Err(_) => around.display().to_string(),
    };
    let mut child = s
        .command(&cmd)?
        .current_dir(s.dir.join("tests"))
        .env("PYTHONPATH", &around)
        .env("PATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONUNBUFFERED", "1")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("can't start {PYTHON}"))?;
    let pipe = child.stderr.take().expect("it was asked for");
    let copy = s.dir.join("pyverbs.out");
    let shown = std::thread::spawn(move || tee(pipe, &copy));
    let mut children = [child];
    let st = s.wait_all(&mut children, Some(Duration::from_secs(timeout)), None)?;
    // Processes that a test left behind hold the pipe.
    if st.is_none() {
        crate::session::end_descendants();
    }
    let text = shown.join().unwrap_or_default();
    let ended = match st {
        None => Some("timeout".to_string()),
        Some(v) => match v[0].code() {
            // unittest: 1 = something failed, 5 = nothing ran (Python 3.12).
            Some(0 | 1 | 5) => None,
            Some(c) => Some(format!("Python ended with status {c}")),
            None => Some(format!("Python ended: {}", v[0])),
        },
    };
    Ok((ended, text))
}

fn tee(mut pipe: impl Read, copy: &Path) -> String {
    let mut f = File::create(copy).ok();
    let mut all = Vec::new();
    let mut buf = [0u8; 4096];
    while let Ok(n @ 1..) = pipe.read(&mut buf) {
        let _ = std::io::stderr().write_all(&buf[..n]);
        if let Some(f) = &mut f {
            let _ = f.write_all(&buf[..n]);
        }
        all.extend_from_slice(&buf[..n]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn judge(r: &Run, skips: &Skips, died: Option<&str>) -> Vec<Judged> {
    let mut v: Vec<Judged> = r
        .tests
        .iter()
        .map(|t: &Test| Judged {
            test: t.name.clone(),
            outcome: t.outcome,
            why: t.why.clone(),
            absent: (t.outcome == Outcome::Skipped)
                .then(|| skips.find(&t.name, &t.why).map(|s| s.absent.clone()))
                .flatten(),
        })
        .collect();
    let mut error = |test: &str, why: String| {
        v.push(Judged {
            test: test.into(),
            outcome: Outcome::Error,
            why,
            absent: None,
        })
    };
    if let Some(t) = &r.unfinished {
        error(t, died.unwrap_or("no result was printed").to_string());
    } else if r.ran.is_none() {
        error(
            "run_tests.py",
            died.unwrap_or("ended without a summary").to_string(),
        );
    } else if let Some(d) = died {
        error("run_tests.py", d.to_string());
    }
    // A test that is in the summary and not above would be one that nobody judged.
    let above = r
        .tests
        .iter()
        .filter(|t| !t.name.contains(".setUp"))
        .count();
    if r.ran.is_some_and(|n| n > above) {
        error(
            "run_tests.py",
            format!("{above} results for {} tests", r.ran.unwrap_or(0)),
        );
    }
    v
}

/// The table, by module, and what is behind every figure that should be 0.
fn print(judged: &[Judged], skips: &Skips) {
    let mut modules: BTreeMap<&str, Totals> = BTreeMap::new();
    let mut all = Totals::default();
    for t in judged {
        let module = t.test.split('.').next().unwrap_or("");
        modules.entry(module).or_default().count(t);
        all.count(t);
    }
    let line = |name: &str, t: &Totals| {
        say!(
            "  {name:<24}{:>8}{:>8}{:>8}{:>9}{:>17}",
            t.passed,
            t.failed,
            t.error,
            t.skipped,
            t.unexpected_skip
        )
    };
    say!(
        "\n  {:<24}{:>8}{:>8}{:>8}{:>9}{:>17}",
        "pyverbs",
        "passed",
        "failed",
        "error",
        "skipped",
        "unexpected skip"
    );
    modules.iter().for_each(|(m, t)| line(m, t));
    line("all", &all);
    for t in judged {
        match (t.outcome, &t.absent) {
            (Outcome::Failed, _) => say!("  failed: {}", t.test),
            (Outcome::Error, _) if t.why.is_empty() => say!("  error: {}", t.test),
            (Outcome::Error, _) => say!("  error: {}: {}", t.test, t.why),
            (Outcome::Skipped, None) => say!("  unexpected skip: {}: {}", t.test, t.why),
            (Outcome::Passed, _) if skips.skips.iter().any(|s| s.test == t.test) => {
                say!("  note: {} passed and is on the list of skips", t.test)
            }
            _ => {}
        }
    }
    let mut absent: BTreeMap<&str, usize> = BTreeMap::new();
    for a in judged.iter().filter_map(|t| t.absent.as_deref()) {
        *absent.entry(a).or_default() += 1;
    }
    for (a, n) in absent {
        say!("  skipped {n:>3}: {}", skips.capabilities[a]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, died: Option<&str>) -> (Vec<Judged>, Totals) {
        let s = Skips::committed().unwrap();
        let v = judge(&parse::parse(text), &s, died);
        let mut t = Totals::default();
        v.iter().for_each(|j| t.count(j));
        (v, t)
    }

    #[test]
    fn only_listed_skips_are_good() {
        let text = "test_qp_ex_xrc_send (tests.test_qpex.QpExTestCase) ... skipped 'Create XRCD is not supported'\n\
                    test_qp_ex_rc_send (tests.test_qpex.QpExTestCase) ... ok\nRan 2 tests in 1s\n\nOK (skipped=1)\n";
        let (v, t) = run(text, None);
        assert!(t.good(), "{t:?}");
        assert_eq!(v[0].absent.as_deref(), Some("xrc"));
        // The same test for another reason.
        let (_, t) = run(&text.replace("Create XRCD", "Create player"), None);
        assert_eq!((t.unexpected_skip, t.good()), (1, false));
    }

    #[test]
    fn nothing_missing_goes_unseen() {
        assert!(!run("Ran 0 tests in 0s\n", None).1.good(), "nothing ran");
        assert!(!run("", None).1.good(), "no summary");
        let one = "test_a (tests.test_b.C) ... ok\n";
        assert!(run(&format!("{one}Ran 1 test in 1s\n"), None).1.good());
        assert!(!run(&format!("{one}Ran 2 tests in 1s\n"), None).1.good());
        assert!(!run(&format!("{one}Ran 1 test in 1s\n"), Some("signal 11"))
            .1
            .good());
        let (v, _) = run("test_a (tests.test_b.C) ... ", Some("signal 11"));
        assert_eq!(
            (v[0].outcome, v[0].why.as_str()),
            (Outcome::Error, "signal 11")
        );
    }

    #[test]
    fn names_of_tests() {
        for (given, want) in [
            ("test_qp", "tests.test_qp"),
            ("tests.test_qp.QPTest", "tests.test_qp.QPTest"),
            ("test_qp.py", "tests.test_qp"),
        ] {
            assert_eq!(full_name(given), want);
        }
    }
}
