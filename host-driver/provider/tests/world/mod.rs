//! A place in which unmodified verbs programs run: the tree of two cards, the shim, the provider, and what listens at the socket.
#![allow(dead_code)] // not every test needs all of it
use metaroce::tree::{build_tree, CardInfo};
use std::any::Any;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where cargo put the libraries; builds them once if they are not there in this version.
pub fn libraries() -> &'static Path {
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
pub struct World {
    pub root: PathBuf,
    pub server: Option<Box<dyn Any>>,
}

impl World {
    /// `start` starts what listens at a socket; dropped, it ends.
    pub fn with(name: &str, start: impl FnOnce(&Path) -> Box<dyn Any>) -> World {
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
        let server = Some(start(&root.join("cardd.sock")));
        World { root, server }
    }

    pub fn command(&self, program: &str, args: &[&str]) -> Command {
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

    pub fn run(&self, program: &str, args: &[&str]) -> Output {
        finish(self.command(program, args).spawn().unwrap())
    }

    /// A server on card 0 and a client on card 1; both have to succeed.
    pub fn pair(&self, program: &str, args: &[&str]) -> [String; 2] {
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

pub fn both(o: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&o.stdout),
        String::from_utf8_lossy(&o.stderr)
    )
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Without connecting: these servers take exactly one connection.
pub fn wait_for_listener(port: u16) {
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
pub fn finish(mut child: Child) -> Output {
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

pub fn installed(program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|p| std::env::split_paths(&p).any(|d| d.join(program).exists()));
    if !found {
        eprintln!("{program} is not installed: not run");
    }
    found
}

/// Builds a C program beside the tests.
pub fn compile(source: &str, to: &Path) -> bool {
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

/// The modules of rdma-core's tests that need no more than a device with verbs.
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

/// rdma-core's own tests of verbs: these modules with device metaroce0, all of which pass or skip themselves. What they say; None = not
/// installed.
pub fn pyverbs(w: &World) -> Option<String> {
    let tests = Path::new("/usr/share/doc/rdma-core/tests");
    let have = Command::new("/usr/bin/python3")
        .args(["-c", "import pyverbs.device"])
        .output();
    if !have.is_ok_and(|o| o.status.success()) || !tests.exists() {
        eprintln!("python3-pyverbs or rdma-core's tests are not installed: not run");
        return None;
    }
    let dir = w.root.join("tests");
    std::fs::create_dir(&dir).unwrap();
    for f in std::fs::read_dir(tests).unwrap() {
        let from = f.unwrap().path();
        if !from.is_file() {
            continue;
        }
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
    Some(t)
}
