//! `cargo xtask test`: everything that CI runs, cheapest first; the test runner last.

use anyhow::{bail, Context, Result};
use std::{path::Path, process::Command, time::Instant};

pub fn cargo(root: &Path, args: &[&str]) -> Result<()> {
    let s = Command::new(env!("CARGO"))
        .args(args)
        .current_dir(root)
        .status()
        .context("can't start cargo")?;
    if !s.success() {
        bail!("cargo {} failed", args.join(" "));
    }
    Ok(())
}

fn step(n: usize, of: usize, what: &str, f: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("[{n}/{of}] {what}");
    let t = Instant::now();
    f().with_context(|| format!("step {n}, {what}"))?;
    eprintln!("[{n}/{of}] {what}: ok, {:.0} s", t.elapsed().as_secs_f64());
    Ok(())
}

/// Builds what `metaroce` needs. The whole workspace, as the tests do: for some of its packages cargo would choose other features of a few crates, and build the
/// Verilated card once more.
pub const PROGRAMS: &[&str] = &["build", "--release", "--workspace", "-q"];

/// Runs all checks; `filter` goes to the test runner (and then the other checks are left out).
pub fn run(root: &Path, filter: &[String]) -> Result<()> {
    let mut test = vec!["test", "--release", "--workspace", "--no-fail-fast", "-q"];
    test.extend(filter.iter().map(String::as_str));
    if !filter.is_empty() {
        return cargo(root, &test);
    }
    step(1, 5, "format", || cargo(root, &["fmt", "--all", "--check"]))?;
    step(2, 5, "generated files are fresh", || {
        crate::gen::run(root, true)
    })?;
    step(3, 5, "RTL lint", || crate::lint::run(root))?;
    step(4, 5, "proofs", || crate::formal::run(root))?;
    step(5, 5, "programs, then tests", || {
        cargo(root, PROGRAMS)?;
        cargo(root, &test)
    })
}

/// Runs a program of the bench crate.
pub fn tb(root: &Path, bin: &str, args: &[String]) -> Result<()> {
    let mut v = vec!["run", "--release", "-q", "--bin", bin, "--"];
    v.extend(args.iter().map(String::as_str));
    cargo(root, &v)
}
