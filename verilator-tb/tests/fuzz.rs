//! The fuzzers for a short time; `cargo xtask fuzz` goes on.

use metaroce_tb::fuzz::{run, Budget, Target};

fn short(t: Target, steps: u64, seed: u64) {
    match run(t, Budget::Steps(steps), seed, |_| {}) {
        Ok(l) => println!("{t:?}, seed {seed}: {l}"),
        Err(e) => panic!("{t:?}, seed {seed}: {e}"),
    }
}

#[test]
fn wire() {
    short(Target::Wire, 60, 3);
}

#[test]
fn commands() {
    short(Target::Commands, 60, 3);
}

#[test]
fn wqes() {
    short(Target::Wqes, 60, 3);
}

#[test]
fn socket() {
    short(Target::Socket, 60, 3);
}
