//! Folders in which programs find their libraries: nobody else can have prepared them.

mod common;
use common::*;
use std::{
    fs,
    os::unix::fs::{symlink, MetadataExt, PermissionsExt},
    path::PathBuf,
};

fn uid() -> u32 {
    // SAFETY: no arguments, can't fail.
    unsafe { libc::geteuid() }
}

fn up_folder(lab: &Lab) -> PathBuf {
    lab.dir.join(format!("rt/metaroce-up-{}", uid()))
}

const COMMANDS: [&[&str]; 8] = [
    &["up"],
    &["env"],
    &["down"],
    &["status"],
    &["stats"],
    &["pcap", "x.pcap"],
    &["link", "metaroce0", "down"],
    &["status", "--json"],
];

/// A folder that is open to others, another's, or a link is refused by every command, and stays as it is.
#[test]
fn a_prepared_folder_is_refused() {
    let lab = Lab::new();
    let path = up_folder(&lab);
    let refused = |why: &str| {
        for c in COMMANDS {
            lab.metaroce(c)
                .wait(20)
                .code(1)
                .says("is not used")
                .says(why)
                .says("XDG_RUNTIME_DIR");
        }
    };
    let mode = |m| fs::set_permissions(&path, fs::Permissions::from_mode(m)).unwrap();
    fs::create_dir_all(path.join("lib")).unwrap();
    mode(0o777);
    refused("0777");
    assert!(path.join("lib").exists(), "it was left alone");
    mode(0o755);
    refused("0755");
    // one's own, left by a set that was killed, is used
    mode(0o700);
    lab.metaroce(&["up"]).wait(60).ok().says("2 card(s) up");
    lab.metaroce(&["down"]).wait(30).ok();
    lab.assert_tidy();
    let other = lab.dir.join("other");
    fs::create_dir(&other).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&other, &path).unwrap();
    refused("not a folder");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    fs::remove_file(&path).unwrap();
    if uid() == 0 {
        fs::create_dir(&path).unwrap();
        mode(0o700);
        std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
        refused("belongs to user 1234");
        // a shell that has the variables of `env` from before
        let root = path.display();
        lab.sh(&format!(
            "export RDMAV_DRIVERS={root}/lib/libmetaroce METAROCE_ROOT={root} LD_PRELOAD=$(dirname $(command -v metaroce))/libmetaroce_shim.so; \
             sh -c 'echo \"drivers=$RDMAV_DRIVERS.\"'"
        ))
        .wait(20)
        .says("others own")
        .says("drivers=.");
    } else {
        println!("skipped: another user's folder (needs root)");
    }
    lab.assert_no_processes();
}

/// The folder of a run has a name that nobody foresees, and is its user's alone.
#[test]
fn a_runs_folder_has_a_random_name() {
    let lab = Lab::new();
    let show = "echo \"$METAROCE_ROOT\"; stat -c %a \"$METAROCE_ROOT\"";
    let root = || {
        let r = lab.metaroce(&["run", "--", "sh", "-c", show]);
        let plain = lab.dir.join(format!("rt/metaroce-{}", r.pid()));
        let o = r.wait(60).ok();
        let mut l = o.out.lines().map(String::from);
        let path = l.next().unwrap();
        assert_eq!(l.next().unwrap(), "700");
        let name = path.strip_prefix(plain.to_str().unwrap()).unwrap();
        assert_eq!(name.len(), 17, "16 digits: {path}");
        name.to_string()
    };
    assert_ne!(root(), root());
    lab.assert_tidy();
}

/// Where anybody can make a folder, the name stays taken after `down`: shells with the variables of `env` still use it.
#[test]
fn the_name_stays_taken_in_a_shared_folder() {
    let lab = Lab::new();
    fs::set_permissions(lab.dir.join("rt"), fs::Permissions::from_mode(0o1777)).unwrap();
    for _ in 0..2 {
        lab.metaroce(&["up"]).wait(60).ok().says("2 card(s) up");
        lab.metaroce(&["down"]).wait(30).ok();
        let path = up_folder(&lab);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        lab.metaroce(&["status"]).wait(30).code(3);
    }
}

/// `up` that is interrupted leaves no cards and says so; or it had ended, and said that they are up.
#[test]
fn an_interrupted_up_says_what_is() {
    let lab = Lab::new();
    for ms in [2, 10, 20, 40, 80] {
        let r = lab.metaroce(&["up"]);
        std::thread::sleep(std::time::Duration::from_millis(ms));
        kill(-r.pid(), libc::SIGINT);
        let o = r.wait(30);
        if o.code == 0 {
            o.says("card(s) up");
            lab.metaroce(&["down"]).wait(30).ok();
        } else {
            // before it could catch the signal there was nothing
            assert!(o.code == 130, "{}{}", o.out, o.err);
            lab.metaroce(&["status"]).wait(30).code(3);
        }
        lab.assert_no_processes();
        // An empty folder may be left by one that had just begun.
        lab.metaroce(&["down"]).wait(30).ok();
        lab.assert_tidy();
    }
}

/// `up` and `down` at once: each does the whole of its work before the other begins.
#[test]
fn up_and_down_at_once() {
    let lab = Lab::new();
    let mut all = vec![];
    for k in 0..12 {
        all.push(lab.metaroce(&[if k % 2 == 0 { "up" } else { "down" }]));
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    for r in all {
        r.wait(90).ok();
    }
    lab.metaroce(&["down"]).wait(30).ok();
    lab.assert_tidy();
    lab.assert_no_processes();
}
