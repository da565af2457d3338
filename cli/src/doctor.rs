//! Says what is here and what is missing, and how to get it.

use crate::output::say;
use crate::rundir::Libraries;
use anyhow::Result;
use std::{path::Path, process::Command};

fn first_line(cmd: &str, args: &[&str]) -> Option<String> {
    let o = Command::new(cmd).args(args).output().ok()?;
    let s = String::from_utf8_lossy(if o.stdout.is_empty() {
        &o.stderr
    } else {
        &o.stdout
    })
    .into_owned();
    s.lines()
        .find(|l| !l.trim().is_empty())
        .map(|l| l.trim().to_string())
}

fn on_path(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|p| std::env::split_paths(&p).any(|d| d.join(name).is_file()))
}

pub fn run() -> Result<u8> {
    let mut missing = 0;
    let mut note = vec![];
    let mut say = |what: &str, found: Option<String>, fix: &str| match found {
        Some(v) => say!("ok       {what}: {v}"),
        None => {
            missing += 1;
            say!("missing  {what}: {fix}");
        }
    };
    let ibverbs = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
    ]
    .iter()
    .find_map(|d| std::fs::canonicalize(Path::new(d).join("libibverbs.so.1")).ok());
    say(
        "libibverbs",
        ibverbs.map(|p| p.display().to_string()),
        "apt-get install libibverbs1 (or rdma-core)",
    );
    for (tool, package) in [
        ("ib_write_bw", "perftest"),
        ("ibv_devinfo", "ibverbs-utils"),
    ] {
        say(
            tool,
            on_path(tool).then(|| "found".into()),
            &format!("apt-get install {package}"),
        );
    }
    for (tool, package) in [("rping", "rdmacm-utils"), ("qperf", "qperf")] {
        if on_path(tool) {
            note.push(format!("{tool}: found"));
        } else {
            note.push(format!("{tool}: not here (apt-get install {package}; only for those who want it, and for the tests)"));
        }
    }
    let cxx = ["c++", "g++"]
        .iter()
        .find_map(|c| first_line(c, &["--version"]));
    say(
        "C++ compiler",
        cxx,
        "apt-get install g++ (only to rebuild the card)",
    );
    let libs = Libraries::find();
    say(
        "provider and launch shim",
        libs.ok().map(|l| l.provider.display().to_string()),
        "run ./metaroce once: it builds them",
    );
    for n in note {
        say!("note     {n}");
    }
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .unwrap_or_else(|_| "0".into());
    let root = rdma_root();
    say!(
        "note     DMA: {}",
        if yama.trim() == "0" || root {
            "direct (process_vm_*), else through the client's agent"
        } else {
            "through the client's agent (ptrace_scope is set; nothing to do)"
        }
    );
    say!(
        "note     RDMA devices of this machine: {}",
        std::fs::read_dir("/sys/class/infiniband").map_or("none (none needed)".into(), |d| {
            let v: Vec<String> = d
                .filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned()))
                .collect();
            if v.is_empty() {
                "none (none needed)".into()
            } else {
                format!("{} (stay visible beside the simulated ones)", v.join(", "))
            }
        })
    );
    Ok(if missing == 0 { 0 } else { 2 })
}

fn rdma_root() -> bool {
    // SAFETY: no arguments, can't fail.
    unsafe { libc::geteuid() == 0 }
}
