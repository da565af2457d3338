//! Unmodified verbs programs on a software card: the launch shim, the tree, the provider and the host interface as the
//! programs use them. What is not installed is named and left out; `apt-get install ibverbs-utils perftest` adds it.
mod fake;
mod releases;
#[cfg(target_arch = "x86_64")]
mod steps;

use fake::Server;
use metaroce::tree::{build_tree, CardInfo};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where cargo put the libraries; builds them once if they are not there in this version.
fn libraries() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let exe = std::env::current_exe().unwrap();
        let dir = exe.parent().unwrap().parent().unwrap().to_path_buf();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "-q",
            "-p",
            "metaroce-provider",
            "-p",
            "metaroce-shim",
        ]);
        if dir.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.env("CARGO_TARGET_DIR", dir.parent().unwrap());
        assert!(cargo.status().unwrap().success());
        dir
    })
}

/// A tree with two cards and a card to talk to.
struct World {
    root: PathBuf,
    server: Option<Server>,
}

impl World {
    fn new(name: &str) -> World {
        World::with(name, false)
    }

    /// With a card that never sleeps, so that no doorbell has to wake it.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    fn awake(name: &str) -> World {
        World::with(name, true)
    }

    fn with(name: &str, awake: bool) -> World {
        let root = std::env::temp_dir().join(format!("mr-{name}-{}", std::process::id()));
        let cards = [0, 1].map(|i: u8| CardInfo {
            index: i as u32,
            name: format!("metaroce{i}"),
            guid: 0x024d_52ff_fe00_0001 + i as u64,
            mac: [2, 0x4d, 0x52, 0, 0, 1 + i],
            ipv4: [10, 0, 0, 1 + i],
            mtu: 4300,
            rate_mbps: 100_000,
        });
        build_tree(&root, &cards, Path::new("/sys")).unwrap();
        for suffix in metaroce::layout::SUFFIXES {
            let name = format!("lib/libmetaroce-rdmav{suffix}.so");
            std::fs::copy(libraries().join("libmetaroce.so"), root.join(name)).unwrap();
        }
        std::fs::copy(
            libraries().join("libmetaroce_shim.so"),
            root.join("lib/shim.so"),
        )
        .unwrap();
        let server = Some(Server::with(&root.join("cardd.sock"), awake));
        World { root, server }
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut c = Command::new(program);
        c.args(args)
            .env("METAROCE_ROOT", &self.root)
            // In the tree: LD_PRELOAD splits at spaces, and the build may lie below a folder with one.
            .env("LD_PRELOAD", self.root.join("lib/shim.so"));
        for v in ["RDMAV_DRIVERS", "METAROCE_SOCK", "SYSFS_PATH"] {
            c.env_remove(v);
        }
        c.stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        c
    }

    fn run(&self, program: &str, args: &[&str]) -> Output {
        finish(self.command(program, args).spawn().unwrap())
    }

    /// A server on card 0 and a client on card 1; both have to succeed.
    fn pair(&self, program: &str, args: &[&str]) -> [String; 2] {
        let port = free_port().to_string();
        let all = |dev: &str, extra: &[&str]| {
            let a: Vec<&str> = ["-d", dev, "-p", &port]
                .iter()
                .chain(args)
                .chain(extra)
                .copied()
                .collect();
            self.command(program, &a).spawn().unwrap()
        };
        let server = all("metaroce0", &[]);
        wait_for_listener(port.parse().unwrap());
        let client = all("metaroce1", &["127.0.0.1"]);
        let out = [finish(server), finish(client)];
        out.map(|o| {
            let text = both(&o);
            assert!(
                o.status.success(),
                "{program} {args:?}: {:?}\n{text}",
                o.status
            );
            text
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server = None;
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn both(o: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&o.stdout),
        String::from_utf8_lossy(&o.stderr)
    )
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Without connecting: these servers take exactly one connection.
fn wait_for_listener(port: u16) {
    let hex = format!(":{port:04X} ");
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        let listening = ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|f| {
            let t = std::fs::read_to_string(f).unwrap_or_default();
            t.lines().any(|l| l.contains(&hex) && l.contains(" 0A "))
        });
        if listening {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("nobody listens on {port}");
}

/// Ends within a minute, or is killed and the test fails.
fn finish(mut child: Child) -> Output {
    let end = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            let o = child.wait_with_output().unwrap();
            panic!("hangs:\n{}", both(&o));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

fn installed(program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|p| std::env::split_paths(&p).any(|d| d.join(program).exists()));
    if !found {
        eprintln!("{program} is not installed: not run");
    }
    found
}

#[test]
fn devinfo_shows_both_cards() {
    if !installed("ibv_devinfo") {
        return;
    }
    let w = World::new("info");
    let o = w.run("ibv_devinfo", &["-v"]);
    let t = both(&o);
    assert!(o.status.success(), "{t}");
    for want in [
        "metaroce0",
        "metaroce1",
        "PORT_ACTIVE",
        "active_mtu:\t\t4096",
        "::ffff:10.0.0.2",
        "max_qp_wr:\t\t\t4096",
    ] {
        assert!(t.contains(want), "no {want:?} in\n{t}");
    }
}

#[test]
fn pingpong() {
    if !installed("ibv_rc_pingpong") {
        return;
    }
    let w = World::new("pp");
    for args in [
        &["-g", "1", "-n", "50"][..],
        &["-g", "1", "-n", "50", "-e"],
        &["-g", "2", "-n", "20", "-s", "70000", "-c"],
        &["-g", "0", "-n", "20", "-s", "1", "-c"],
    ] {
        let [s, c] = w.pair("ibv_rc_pingpong", args);
        assert!(s.contains("iters in") && c.contains("iters in"), "{s}\n{c}");
    }
    w.pair("ibv_uc_pingpong", &["-g", "1", "-n", "20"]);
    w.pair("ibv_ud_pingpong", &["-g", "1", "-n", "20", "-s", "1024"]);
    w.pair(
        "ibv_ud_pingpong",
        &["-g", "1", "-n", "20", "-s", "512", "-e"],
    );
}

#[test]
fn perftest() {
    if !installed("ib_write_bw") {
        return;
    }
    let w = World::new("pt");
    for (program, args) in [
        ("ib_write_bw", &["-n", "50", "-s", "65536"][..]),
        ("ib_write_bw", &["-n", "20", "-s", "4096", "-q", "4", "-b"]),
        ("ib_read_bw", &["-n", "20", "-s", "9000"]),
        ("ib_send_bw", &["-n", "50", "-s", "1000"]),
        ("ib_send_bw", &["-n", "50", "-s", "1000", "-e"]),
        ("ib_send_lat", &["-n", "20", "-s", "64"]),
        ("ib_write_lat", &["-n", "20", "-s", "2", "-I", "200"]),
        ("ib_send_lat", &["-c", "UD", "-n", "20", "-s", "64"]),
        ("ib_send_bw", &["-a", "-n", "5"]),
    ] {
        w.pair(program, args);
    }
}

/// rdma-core's own tests of the verbs that the card does. A test of something else skips itself on EOPNOTSUPP.
#[test]
fn pyverbs() {
    let tests = Path::new("/usr/share/doc/rdma-core/tests");
    let have = Command::new("/usr/bin/python3")
        .args(["-c", "import pyverbs.device"])
        .output();
    if !have.is_ok_and(|o| o.status.success()) || !tests.exists() {
        eprintln!("python3-pyverbs or rdma-core's tests are not installed: not run");
        return;
    }
    let w = World::new("py");
    let dir = w.root.join("tests");
    std::fs::create_dir(&dir).unwrap();
    for f in std::fs::read_dir(tests).unwrap() {
        let from = f.unwrap().path();
        let name = from.file_name().unwrap().to_str().unwrap().to_string();
        let packed = name.strip_suffix(".gz");
        let data = match packed {
            Some(_) => Command::new("zcat").arg(&from).output().unwrap().stdout,
            None => std::fs::read(&from).unwrap(),
        };
        std::fs::write(dir.join(packed.unwrap_or(&name)), data).unwrap();
    }
    // Newer tests ask `rdma` for the kernel's links first. There are none: that program says so only where the kernel has
    // RDMA, and fails elsewhere.
    let bin = w.root.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let rdma = bin.join("rdma");
    std::fs::write(&rdma, "#!/bin/sh\necho '[]'\n").unwrap();
    std::fs::set_permissions(&rdma, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let args = [
        "tests/run_tests.py",
        "--dev",
        "metaroce0",
        "--port",
        "1",
        "--gid",
        "1",
        "-v",
    ];
    let args = args.iter().chain(PYVERBS).copied().collect::<Vec<_>>();
    let o = finish(
        w.command("/usr/bin/python3", &args)
            .current_dir(&w.root)
            .env("PATH", path)
            .spawn()
            .unwrap(),
    );
    let t = both(&o);
    if std::env::var_os("METAROCE_TEST_SHOW").is_some() {
        eprintln!("{t}");
    }
    assert!(o.status.success(), "{t}");
    // Nothing that the provider can do is left out: this card has all QP types and atomics, whether the RTL has them or
    // not.
    for missing in [
        "UD QP",
        "UC QP",
        "QP type",
        "Rereg",
        "Atomic operations",
        "Extended CQ",
    ] {
        let skipped = t
            .lines()
            .find(|l| l.contains("skipped") && l.contains(missing));
        assert_eq!(skipped, None, "{t}");
    }
    let passed = t.matches("... ok\n").count();
    assert!(passed >= PYVERBS_PASS, "{passed}\n{t}");
}

/// Of rdma-core 44; later releases have more.
const PYVERBS_PASS: usize = 82;

const PYVERBS: &[&str] = &[
    "tests.test_addr",
    "tests.test_cq",
    "tests.test_cq_events",
    "tests.test_cqex",
    "tests.test_device",
    "tests.test_mr",
    "tests.test_pd",
    "tests.test_qp",
    "tests.test_qpex",
    "tests.test_atomic",
    "tests.test_odp",
    "tests.test_parent_domain",
    "tests.test_relaxed_ordering",
    "tests.test_fork",
];

/// Builds a C program beside the tests.
fn compile(source: &str, to: &Path) -> bool {
    if !installed("gcc") || !Path::new("/usr/include/infiniband/verbs.h").exists() {
        eprintln!("gcc or libibverbs-dev is not installed: {source} not run");
        return false;
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(source);
    let mut gcc = Command::new("gcc");
    gcc.args(["-Wall", "-O1", "-o"])
        .arg(to)
        .arg(src)
        .args(["-libverbs", "-lpthread"]);
    assert!(gcc.status().unwrap().success());
    true
}

/// Statuses, limits, events, reset, fork: `tests/c/semantics.c`, one line a check.
#[test]
fn semantics() {
    let w = World::new("sem");
    let exe = w.root.join("semantics");
    if !compile("semantics.c", &exe) {
        return;
    }
    let o = w.run(exe.to_str().unwrap(), &[]);
    assert!(o.status.success(), "{}", both(&o));
    let err = String::from_utf8_lossy(&o.stderr);
    assert_eq!(err.matches("does not work after fork").count(), 1, "{err}");
}

/// Extended CQs and QPs, parent domains: `tests/c/extended.c`.
#[test]
fn extended() {
    let w = World::new("ext");
    let exe = w.root.join("extended");
    if !compile("extended.c", &exe) {
        return;
    }
    let o = w.run(exe.to_str().unwrap(), &[]);
    assert!(o.status.success(), "{}", both(&o));
    assert!(o.stderr.is_empty(), "{}", both(&o));
}

/// The simulator dies under a program that waits for completions.
#[test]
fn death_of_the_simulator() {
    let mut w = World::new("die");
    let exe = w.root.join("death");
    if !compile("death.c", &exe) {
        return;
    }
    for mode in ["poll", "event", "extended"] {
        let ready = w.root.join("ready");
        let _ = std::fs::remove_file(&ready);
        let child = w
            .command(exe.to_str().unwrap(), &[mode, ready.to_str().unwrap()])
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while !ready.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        w.server = None;
        let o = finish(child);
        assert!(o.status.success(), "{mode}: {}", both(&o));
        let err = String::from_utf8_lossy(&o.stderr);
        assert_eq!(err.matches("metaroce:").count(), 1, "one line: {err}");
        std::fs::remove_file(w.root.join("cardd.sock")).unwrap();
        w.server = Some(Server::start(&w.root.join("cardd.sock")));
    }
}
