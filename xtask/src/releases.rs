//! `cargo xtask releases`: other rdma-core releases beside the system. Fetches Debian's packages with apt, without
//! installing anything and without root, unpacks them into `target/releases/<suite>`, and runs the tests that use
//! them. Release 59, which no Debian has, is built from the source that a Python package carries. Later test runs use
//! what is there.

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
    "rdmacm-utils",
];

/// Name of the release that is built, the package with its source, and what builds it.
const BUILT: &str = "59";
const SOURCE: &str = "pyverbs==59.0";
const BUILDERS: [&str; 2] = ["cmake==4.4.5", "ninja==1.13.2"];

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

fn fetch(scratch: &Path, suite: &str, to: &Path) -> Result<()> {
    let debs = scratch.join(suite);
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
    run(apt(scratch)
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

/// Builds libibverbs and its examples. They run under the system's loader and C library.
fn build(scratch: &Path, to: &Path) -> Result<()> {
    let dir = scratch.join(BUILT);
    for d in [&dir, &to.to_path_buf()] {
        let _ = fs::remove_dir_all(d);
    }
    fs::create_dir_all(&dir)?;
    let bin = dir.join("venv/bin");
    run(Command::new("python3")
        .args(["-m", "venv"])
        .arg(dir.join("venv")))?;
    let pip = || Command::new(bin.join("pip"));
    run(pip().args(["-q", "install"]).args(BUILDERS))?;
    run(pip()
        .args([
            "-q",
            "download",
            "--no-deps",
            "--no-binary",
            "pyverbs",
            SOURCE,
        ])
        .current_dir(&dir))?;
    let name = SOURCE.replace("==", "-");
    run(Command::new("tar")
        .args(["xzf", &format!("{name}.tar.gz")])
        .current_dir(&dir))?;
    let products = dir.join("build");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH")?);
    let log = fs::File::create(dir.join("build.log"))?;
    for (tool, args) in [
        (
            "cmake",
            &[
                "-GNinja",
                "-DNO_PYVERBS=1",
                "-DNO_MAN_PAGES=1",
                "-B",
                "build",
            ][..],
        ),
        ("ninja", &["-C", "build", "lib/libibverbs.so.1"]),
        (
            "ninja",
            &["-C", "build", "bin/ibv_devinfo", "bin/ibv_rc_pingpong"],
        ),
        ("ninja", &["-C", "build", "bin/ibv_ud_pingpong"]),
    ] {
        let mut c = Command::new(bin.join(tool));
        c.args(args).current_dir(&dir).env("PATH", &path);
        if tool == "cmake" {
            c.arg("-S").arg(dir.join(&name).join("rdma-core"));
        }
        run(c.stdout(log.try_clone()?).stderr(log.try_clone()?))
            .with_context(|| format!("see {}/build.log", dir.display()))?;
    }
    let part = to.with_extension("part");
    let _ = fs::remove_dir_all(&part);
    let lib = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    for (from, below) in [("bin", "usr/bin"), ("lib", lib.as_str())] {
        fs::create_dir_all(part.join(below))?;
        for f in fs::read_dir(products.join(from))? {
            let f = f?;
            let wanted = from == "bin" || f.file_name().to_string_lossy().contains(".so.");
            if wanted && f.path().is_file() {
                fs::copy(f.path(), part.join(below).join(f.file_name()))?;
            }
        }
    }
    let loaders = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    let loader = loaders.iter().map(Path::new).find(|p| p.exists());
    let loader = loader.context("where is this system's loader?")?;
    let name = loader.file_name().expect("it has a name");
    std::os::unix::fs::symlink(loader, part.join(&lib).join(name))?;
    fs::rename(&part, to)?;
    Ok(())
}

pub fn run_all(root: &Path, suites: &[String]) -> Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let dir = target.join("releases");
    let scratch = target.join("releases-fetched");
    for d in ["state/lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(scratch.join(d))?;
    }
    fs::create_dir_all(&dir)?;
    let default = ["trixie", "sid", BUILT].map(String::from);
    let names = if suites.is_empty() {
        &default[..]
    } else {
        suites
    };
    let suites = names.iter().filter(|n| *n != BUILT);
    if suites.clone().next().is_some() {
        let uri = archive()?;
        let line = |s: &String| format!("deb {uri} {s} main\n");
        fs::write(
            scratch.join("sources.list"),
            suites.clone().map(line).collect::<String>(),
        )?;
        run(apt(&scratch).args(["-q", "update"]))?;
    }
    for s in suites {
        fetch(&scratch, s, &dir.join(s))?;
    }
    if names.iter().any(|n| n == BUILT) {
        build(&scratch, &dir.join(BUILT))?;
    }
    // Without `-p`, as the test run does: for some of the packages cargo would build the Verilated card once more.
    run(Command::new(env!("CARGO"))
        .args([
            "test",
            "--release",
            "--test",
            "programs",
            "--test",
            "releases",
        ])
        .args(["releases", "--", "--nocapture"])
        .env("METAROCE_RELEASES", &dir)
        .current_dir(root))
}
