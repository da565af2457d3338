//! `cargo xtask releases`: other rdma-core releases beside the system. Fetches Debian's packages with apt, without
//! installing anything and without root, unpacks them into `target/releases/<suite>`, and runs the tests that use
//! them. Later test runs use what is there.

use anyhow::{bail, Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What the tests run needs: the tools, their libraries, and the C library that they were linked with. Libraries that
/// are missing here are the system's.
const PACKAGES: &[&str] = &[
    "ibverbs-providers",
    "ibverbs-utils",
    "libc6",
    "libgcc-s1",
    "libibumad3",
    "libibverbs1",
    "libnl-3-200",
    "libnl-route-3-200",
    "libpci3",
    "perftest",
];

fn run(c: &mut Command) -> Result<()> {
    let s = c.status().with_context(|| format!("can't start {c:?}"))?;
    if !s.success() {
        bail!("{c:?} failed");
    }
    Ok(())
}

/// The archive that this system uses; another one if `METAROCE_DEBIAN` names it.
fn archive() -> Result<String> {
    if let Ok(uri) = std::env::var("METAROCE_DEBIAN") {
        return Ok(uri);
    }
    let o = Command::new("apt-get")
        .args(["indextargets", "--format", "$(ORIGIN) $(REPO_URI)"])
        .arg("Created-By: Packages")
        .output()
        .context("this task needs apt-get")?;
    let text = String::from_utf8_lossy(&o.stdout).into_owned();
    let uri = text
        .lines()
        .filter_map(|l| l.strip_prefix("Debian "))
        .find(|uri| uri.trim_end_matches('/').ends_with("/debian"));
    Ok(uri
        .context("apt here knows no Debian archive (or has no package lists yet: apt-get update); METAROCE_DEBIAN can name one, as in METAROCE_DEBIAN=http://<mirror>/debian")?
        .to_string())
}

/// apt with a folder of its own: sources, lists and cache of the system stay as they are.
fn apt(dir: &Path) -> Command {
    let mut c = Command::new("apt-get");
    let at = |what: &str, file: &str| format!("{what}={}", dir.join(file).display());
    for option in [
        at("Dir::Etc::sourcelist", "sources.list"),
        "Dir::Etc::sourceparts=-".into(),
        at("Dir::State", "state"),
        "Dir::State::status=/dev/null".into(),
        at("Dir::Cache", "cache"),
        "APT::Sandbox::User=root".into(),
        "Acquire::Languages=none".into(),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".into(),
    ] {
        c.args(["-o", &option]);
    }
    c
}

fn fetch(apt_dir: &Path, suite: &str, to: &Path) -> Result<()> {
    let debs = apt_dir.join(suite);
    // Of a former fetch: maybe of another version.
    for d in [&debs, &to.to_path_buf()] {
        let _ = fs::remove_dir_all(d);
    }
    fs::create_dir_all(&debs)?;
    let rdmacm = match suite {
        "bullseye" | "bookworm" => "librdmacm1",
        _ => "librdmacm1t64",
    };
    let wanted = PACKAGES.iter().chain([&rdmacm]);
    run(apt(apt_dir)
        .args(["-q", "download"])
        .args(wanted.map(|p| format!("{p}/{suite}")))
        .current_dir(&debs))?;
    // Complete or not there.
    let part = to.with_extension("part");
    let _ = fs::remove_dir_all(&part);
    for deb in fs::read_dir(&debs)? {
        run(Command::new("dpkg-deb")
            .arg("-x")
            .arg(deb?.path())
            .arg(&part))?;
    }
    fs::rename(&part, to)?;
    Ok(())
}

pub fn run_all(root: &Path, suites: &[String]) -> Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let dir = target.join("releases");
    let apt_dir = target.join("releases-apt");
    for d in ["state/lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt_dir.join(d))?;
    }
    fs::create_dir_all(&dir)?;
    let default = ["trixie".to_string(), "sid".to_string()];
    let suites = if suites.is_empty() {
        &default[..]
    } else {
        suites
    };
    let uri = archive()?;
    let sources: String = suites
        .iter()
        .map(|s| format!("deb {uri} {s} main\n"))
        .collect();
    fs::write(apt_dir.join("sources.list"), sources)?;
    run(apt(&apt_dir).args(["-q", "update"]))?;
    for s in suites {
        fetch(&apt_dir, s, &dir.join(s))?;
    }
    for (package, test) in [
        ("metaroce-provider", "programs"),
        ("metaroce-cli", "releases"),
    ] {
        run(Command::new(env!("CARGO"))
            .args(["test", "--release", "-p", package, "--test", test])
            .args(["releases", "--", "--nocapture"])
            .env("METAROCE_RELEASES", &dir)
            .current_dir(root))?;
    }
    Ok(())
}
