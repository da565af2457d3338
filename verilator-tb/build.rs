//! Generates the Verilog of the cards from the `rtl` crate, runs Verilator on each and compiles the results.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Verilator: `$VERILATOR`, else the one that `metaroce` keeps under target/tools, else PATH.
fn verilator() -> PathBuf {
    if let Ok(v) = env::var("VERILATOR") {
        return v.into();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf();
    let kept = root.join("target/tools/bin/verilator");
    if kept.exists() {
        kept
    } else {
        "verilator".into()
    }
}

/// A kind of card: names of its library, class and functions, and its Verilog.
struct Model {
    name: &'static str,
    text: String,
    /// Verilator's own sources come with this one.
    runtime: bool,
}

fn main() {
    println!("cargo:rerun-if-changed=shim.cpp");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=VERILATOR");
    let trace = env::var("CARGO_FEATURE_TRACE").is_ok();
    println!("cargo:rustc-link-lib=pthread");
    if trace {
        println!("cargo:rustc-link-lib=z");
        println!("cargo:rustc-link-lib=lz4");
    }
    // who uses the runtime first: linkers look from left to right
    for m in [
        Model {
            name: "mini",
            text: metaroce_rtl::mini::verilog_mini(),
            runtime: false,
        },
        Model {
            name: "card",
            text: metaroce_rtl::card::verilog_sim_100g(),
            runtime: true,
        },
    ] {
        build(&m, trace);
    }
}

fn build(m: &Model, trace: bool) {
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let (name, class) = (m.name, format!("V{}", m.name));
    let (mdir, lib) = (out.join(format!("vl-{name}")), format!("v{name}"));
    let verilog = out.join(format!("{name}.v"));
    let vl = verilator();

    // The C++ compiler takes a minute: only when the Verilog, the shim or the tools are others than last time.
    let version = Command::new(&vl)
        .arg("--version")
        .output()
        .map(|o| o.stdout)
        .unwrap_or_default();
    let key = format!(
        "{}\n{trace}\n{}\n{}\n{}",
        String::from_utf8_lossy(&version),
        fs::read_to_string("shim.cpp").unwrap(),
        fs::read_to_string("build.rs").unwrap(),
        m.text
    );
    let stamp = out.join(format!("{lib}.key"));
    if fs::read_to_string(&stamp).ok().as_deref() == Some(key.as_str())
        && out.join(format!("lib{lib}.a")).exists()
    {
        println!("cargo:rustc-link-search=native={}", out.display());
        println!("cargo:rustc-link-lib=static={lib}");
        println!("cargo:rustc-link-lib=stdc++");
        return;
    }
    let _ = fs::remove_file(&stamp);
    fs::write(&verilog, &m.text).unwrap();
    let _ = fs::remove_dir_all(&mdir);

    let mut c = Command::new(&vl);
    c.args([
        "--cc",
        "-O3",
        "--x-assign",
        "fast",
        "--x-initial",
        "fast",
        "--noassert",
        "--output-split",
        "20000",
    ])
    .args([
        "-Wno-fatal",
        "-Wno-WIDTH",
        "-Wno-UNOPTFLAT",
        "-Wno-UNUSED",
        "-Wno-DECLFILENAME",
        "-Werror-LATCH",
    ])
    .args([
        "-Werror-MULTIDRIVEN",
        "-Werror-CASEINCOMPLETE",
        "--top-module",
        "card",
        "--prefix",
    ])
    .arg(&class)
    .arg("--Mdir")
    .arg(&mdir)
    .arg(&verilog);
    if trace {
        c.arg("--trace-fst");
    }
    match c.status() {
        Ok(s) if s.success() => {}
        Ok(s) => panic!("verilator failed ({s}) on {}", verilog.display()),
        Err(e) => panic!(
            "can't run {}: {e}. Run ./metaroce doctor, or set VERILATOR to a Verilator >= 5.006",
            vl.display()
        ),
    }
    let root = Command::new(&vl)
        .args(["--getenv", "VERILATOR_ROOT"])
        .output()
        .expect("verilator --getenv")
        .stdout;
    let inc = PathBuf::from(String::from_utf8(root).unwrap().trim()).join("include");

    let mut b = cc::Build::new();
    b.cpp(true)
        .std("c++20")
        .opt_level(3)
        .flag("-fno-strict-aliasing")
        .flag("-w")
        .define("VM_TRACE", if trace { "1" } else { "0" })
        .define("MODEL", class.as_str())
        .define("FN(x)", format!("{name}_##x").as_str())
        .include(&inc)
        .include(inc.join("vltstd"))
        .include(&mdir)
        .file("shim.cpp");
    if trace {
        b.define("VM_TRACE_FST", "1");
    }
    if m.runtime {
        b.define("RUNTIME", "1")
            .file(inc.join("verilated.cpp"))
            .file(inc.join("verilated_threads.cpp"));
        if trace {
            b.file(inc.join("verilated_fst_c.cpp"));
        }
    }
    let mut files: Vec<PathBuf> = fs::read_dir(&mdir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|x| x == "cpp"))
        .collect();
    files.sort();
    b.files(files).compile(&lib);
    fs::write(stamp, key).unwrap();
}
