//! The Verilator side of a differential test: build the model once per text, run it over the stimulus.

use super::Port;
use num_bigint::BigUint;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `<target>/diff`, found from the test's own executable.
fn work_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("own path");
    let target = exe.ancestors().nth(3).unwrap_or(Path::new("."));
    target.join("diff")
}

/// The Verilator to use.
pub fn verilator() -> String {
    std::env::var("VERILATOR").unwrap_or_else(|_| "verilator".into())
}

fn run(c: &mut Command, what: &str) -> String {
    let o = c
        .output()
        .unwrap_or_else(|e| panic!("{what}: cannot start {:?}: {e}", c.get_program()));
    let text = String::from_utf8_lossy(&o.stdout).to_string() + &String::from_utf8_lossy(&o.stderr);
    assert!(o.status.success(), "{what} failed:\n{text}");
    text
}

/// Lint flags of every Verilator run on generated text: latches, incomplete cases and double drivers are errors.
pub const LINT: &[&str] = &[
    "-Wall",
    "-Wno-WIDTH",
    "-Wno-DECLFILENAME",
    "-Wno-UNUSED",
    "-Wno-UNOPTFLAT",
    "-Wno-CMPCONST",
    "-Wno-UNSIGNED",
    "-Wno-PINCONNECTEMPTY",
    "-Wno-PROCASSINIT",
    "-Wno-BLKSEQ",
    "-Wno-VARHIDDEN",
];

/// The Verilator runtime, compiled once per target folder and Verilator version.
fn runtime(dir: &Path) -> (PathBuf, PathBuf) {
    static LOCK: std::sync::Mutex<Option<(PathBuf, PathBuf)>> = std::sync::Mutex::new(None);
    let mut done = LOCK.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(x) = &*done {
        return x.clone();
    }
    let version = run(
        Command::new(verilator()).arg("--version"),
        "verilator --version",
    );
    let tag: String = version
        .chars()
        .filter(|c| c.is_ascii_digit() || *c == '.')
        .take(6)
        .collect();
    let root = run(
        Command::new(verilator()).args(["--getenv", "VERILATOR_ROOT"]),
        "verilator --getenv",
    );
    let inc = PathBuf::from(root.trim()).join("include");
    let obj = dir.join(format!("runtime-{tag}.o"));
    if !obj.exists() {
        let mine = dir.join(format!("runtime-{tag}-{}", std::process::id()));
        std::fs::create_dir_all(&mine).unwrap();
        std::fs::write(
            mine.join("all.cpp"),
            "#include \"verilated.cpp\"\n#include \"verilated_threads.cpp\"\n",
        )
        .unwrap();
        run(
            cxx(&inc)
                .arg("-c")
                .arg(mine.join("all.cpp"))
                .arg("-o")
                .arg(mine.join("all.o")),
            "g++",
        );
        std::fs::rename(mine.join("all.o"), &obj).unwrap();
        let _ = std::fs::remove_dir_all(mine);
    }
    *done = Some((inc.clone(), obj.clone()));
    (inc, obj)
}

fn cxx(inc: &Path) -> Command {
    let mut c = Command::new(std::env::var("CXX").unwrap_or_else(|_| "g++".into()));
    c.args(["-std=c++20", "-O1", "-w", "-fno-strict-aliasing"])
        .arg("-I")
        .arg(inc)
        .arg("-I")
        .arg(inc.join("vltstd"));
    c
}

/// Build the model (unless the same text was built before) and run it over the stimulus.
pub(super) fn verilate(
    name: &str,
    text: &str,
    ins: &[Port],
    outs: &[Port],
    clock: Option<&str>,
    stim: &[Vec<BigUint>],
) -> Vec<Vec<BigUint>> {
    let base = work_dir();
    let dir = base.join(name);
    std::fs::create_dir_all(&dir).unwrap();
    let main = shim(ins, outs, clock);
    let v = dir.join(format!("{name}.v"));
    let exe = dir.join("sim");
    let same = |p: &Path, t: &str| std::fs::read_to_string(p).is_ok_and(|x| x == t);
    if !(exe.exists() && same(&v, text) && same(&dir.join("main.cpp"), &main)) {
        let _ = std::fs::remove_file(&exe);
        let (inc, obj) = runtime(&base);
        std::fs::write(&v, text).unwrap();
        let mdir = dir.join("vl");
        let _ = std::fs::remove_dir_all(&mdir);
        run(
            Command::new(verilator())
                .args(["--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast"])
                .args(["--noassert", "--output-split", "0", "--prefix", "Vtop"])
                .args(LINT)
                .args(["--top-module", name, "--Mdir"])
                .arg(&mdir)
                .arg(&v),
            "verilator",
        );
        let mut files: Vec<PathBuf> = std::fs::read_dir(&mdir)
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|x| x == "cpp"))
            .collect();
        files.sort();
        let mut all = String::new();
        for f in &files {
            let _ = writeln!(all, "#include \"{}\"", f.display());
        }
        std::fs::write(dir.join("unity.cpp"), all + "#include \"main.cpp\"\n").unwrap();
        std::fs::write(dir.join("main.cpp"), &main).unwrap();
        run(
            cxx(&inc)
                .arg("-I")
                .arg(&mdir)
                .arg(dir.join("unity.cpp"))
                .arg(&obj)
                .args(["-pthread", "-o"])
                .arg(&exe),
            "g++",
        );
    }
    let mut bytes = vec![];
    for row in stim {
        for (p, v) in ins.iter().zip(row) {
            let d = v.to_u32_digits();
            for w in 0..p.bits.div_ceil(32) {
                bytes.extend(d.get(w).copied().unwrap_or(0).to_le_bytes());
            }
        }
    }
    let tag = std::process::id();
    let (fi, fo) = (
        dir.join(format!("in-{tag}")),
        dir.join(format!("out-{tag}")),
    );
    std::fs::write(&fi, bytes).unwrap();
    run(
        Command::new(&exe)
            .arg(&fi)
            .arg(&fo)
            .arg(stim.len().to_string()),
        "simulation",
    );
    let out = std::fs::read(&fo).unwrap();
    let _ = std::fs::remove_file(fi);
    let _ = std::fs::remove_file(fo);
    let mut words = out
        .chunks_exact(4)
        .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
    (0..stim.len())
        .map(|_| {
            outs.iter()
                .map(|p| BigUint::new(words.by_ref().take(p.bits.div_ceil(32)).collect()))
                .collect()
        })
        .collect()
}

/// The C++ main: reads the stimulus, drives the model, writes the outputs.
fn shim(ins: &[Port], outs: &[Port], clock: Option<&str>) -> String {
    let cname = |n: &str| n.replace("__", "___05F").replace('$', "__024");
    let mut s = String::from(
        "#include <cstdio>\n#include <cstdlib>\n#include <cstdint>\n#include <type_traits>\ndouble sc_time_stamp() { return 0; }
static FILE *fi, *fo;
template <class T> static void put(T &p, int n) {
    uint32_t w[256];
    if (fread(w, 4, n, fi) != (size_t)n) exit(2);
    if constexpr (std::is_integral_v<T>) p = n == 1 ? (T)w[0] : (T)(w[0] | (uint64_t)w[1] << 32);
    else for (int i = 0; i < n; i++) p[i] = w[i];
}
template <class T> static void get(const T &p, int n) {
    uint32_t w[256];
    if constexpr (std::is_integral_v<T>) { w[0] = (uint32_t)p; if (n == 2) w[1] = (uint32_t)((uint64_t)p >> 32); }
    else for (int i = 0; i < n; i++) w[i] = p[i];
    fwrite(w, 4, n, fo);
}
int main(int, char **a) {
    fi = fopen(a[1], \"rb\"); fo = fopen(a[2], \"wb\");
    VerilatedContext c; Vtop t{&c};
    for (long n = atol(a[3]); n; n--) {\n",
    );
    let edge = |s: &mut String, l: u8| {
        if let Some(k) = clock {
            let _ = writeln!(s, "        t.{} = {l};", cname(k));
        }
    };
    edge(&mut s, 0);
    for p in ins {
        let _ = writeln!(
            s,
            "        put(t.{}, {});",
            cname(&p.name),
            p.bits.div_ceil(32)
        );
    }
    s += "        t.eval();\n";
    for p in outs {
        let _ = writeln!(
            s,
            "        get(t.{}, {});",
            cname(&p.name),
            p.bits.div_ceil(32)
        );
    }
    edge(&mut s, 1);
    s += "        t.eval();\n    }\n    t.final(); fclose(fo); return 0;\n}\n";
    s
}
