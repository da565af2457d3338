//! Generates the card's Verilog from the `rtl` crate, runs Verilator on it and compiles the result.

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

fn main() {
    println!("cargo:rerun-if-changed=shim.cpp");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=VERILATOR");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    let mdir = out.join("vl");
    let verilog = out.join("card.v");
    let text = metaroce_rtl::card::verilog_sim_100g();
    let trace = env::var("CARGO_FEATURE_TRACE").is_ok();
    let vl = verilator();
    println!("cargo:rustc-link-lib=pthread");
    if trace {
        println!("cargo:rustc-link-lib=z");
        println!("cargo:rustc-link-lib=lz4");
    }

    // The C++ compiler takes a minute: only when the Verilog, the shim or the tools are others than last time.
    let version = Command::new(&vl)
        .arg("--version")
        .output()
        .map(|o| o.stdout)
        .unwrap_or_default();
    let key = format!(
        "{}\n{trace}\n{}\n{}\n{text}",
        String::from_utf8_lossy(&version),
        fs::read_to_string("shim.cpp").unwrap(),
        fs::read_to_string("build.rs").unwrap()
    );
    let stamp = out.join("vcard.key");
    if fs::read_to_string(&stamp).ok().as_deref() == Some(key.as_str())
        && out.join("libvcard.a").exists()
    {
        println!("cargo:rustc-link-search=native={}", out.display());
        println!("cargo:rustc-link-lib=static=vcard");
        println!("cargo:rustc-link-lib=stdc++");
        return;
    }
    let _ = fs::remove_file(&stamp);
    fs::write(&verilog, &text).unwrap();
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
        "Vcard",
        "--Mdir",
    ])
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
        .include(&inc)
        .include(inc.join("vltstd"))
        .include(&mdir)
        .file("shim.cpp")
        .file(inc.join("verilated.cpp"))
        .file(inc.join("verilated_threads.cpp"));
    if trace {
        b.define("VM_TRACE_FST", "1")
            .file(inc.join("verilated_fst_c.cpp"));
    }
    let mut files: Vec<PathBuf> = fs::read_dir(&mdir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|x| x == "cpp"))
        .collect();
    files.sort();
    b.files(files).compile("vcard");
    fs::write(stamp, key).unwrap();
}
