//! The programs of `tests/c` with the libibverbs of other rdma-core releases, under that release's own loader: what the
//! provider knows of their private structures is right. The card is software; `cli/tests/releases.rs` has the real one.

mod found;

use super::{both, compile, finish, installed, new};
use std::path::Path;
use std::process::Command;

#[test]
fn releases_run_the_test_programs() {
    let all = found::releases();
    if all.is_empty() {
        return;
    }
    let w = new("rel");
    for source in ["semantics", "extended", "newer"] {
        let exe = w.root.join(source);
        if !compile(&format!("{source}.c"), &exe) {
            return;
        }
        for r in &all {
            let line = r.any(&exe);
            let args: Vec<_> = line[1..].iter().map(String::as_str).collect();
            let o = w.run(&line[0], &args);
            let text = both(&o);
            assert!(o.status.success(), "{source}, {}: {text}", r.name);
            if source == "newer" {
                // The program's own list of what the release has.
                for (name, since) in metaroce::layout::OPERATIONS {
                    let called = text.contains(&format!("ok ibv_{name}\n"));
                    let absent = text.contains(&format!("absent ibv_{name}\n"));
                    assert!(!called || since <= r.rdma_core, "{name}: {text}");
                    assert!(!absent || since > r.rdma_core, "{name}: {text}");
                }
            }
        }
    }
}

/// A libibverbs with a known suffix and another layout: one line says so, and nothing is registered.
#[test]
fn a_stranger_is_refused_by_name() {
    if !installed("gcc") {
        return;
    }
    let w = new("strange");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/stranger.c");
    let [library, program] = ["libibverbs.so.1", "stranger"].map(|f| w.root.join(f));
    let gcc = |args: &[&str], to: &Path| {
        let s = Command::new("gcc").args(args).arg("-o").arg(to).status();
        assert!(s.unwrap().success());
    };
    let (source, library_name) = (source.to_str().unwrap(), library.to_str().unwrap());
    for (front, entries, why) in [
        (6, 94, "94 entries, which matches no known release"),
        (7, 93, "is not where it is in release 65"),
        (40, 93, "is not where it is in release 65"),
    ] {
        let [front, entries] = [format!("-DFRONT={front}"), format!("-DENTRIES={entries}")];
        let shared = ["-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1"];
        gcc(
            &[&shared[..], &[&front, &entries, source]].concat(),
            &library,
        );
        gcc(&[source, library_name, "-ldl"], &program);
        let provider = w.root.join("lib/libmetaroce-rdmav65.so");
        let mut c = w.command(program.to_str().unwrap(), &[provider.to_str().unwrap()]);
        let o = finish(c.env("LD_LIBRARY_PATH", &w.root).spawn().unwrap());
        let text = both(&o);
        assert!(o.status.success() && text.lines().count() == 1, "{text}");
        assert!(text.contains(why) && text.contains("34 to 65"), "{text}");
    }
}
