//! One fault at every frame of every operation, short version; all of it: `cargo xtask soak -- --faults`.
//!
//! Shows: `retransmission_offload`.

mod common;

use metaroce_hdl_spec::{table::qp_type, wqe::op};
use metaroce_tb::faults::{sweep, Bench, Extent, KINDS};

fn run(pick: impl Fn(u8, u8) -> bool, seed: u64) {
    let mut b = Bench::new(seed);
    let mut n = 0;
    for kind in KINDS.into_iter().filter(|k| pick(k.qp_type, k.op)) {
        n += sweep(&mut b, kind, Extent::Short, |_| {});
    }
    println!("{n} cases, seed {seed}");
}

#[test]
fn sends() {
    run(
        |t, o| t == qp_type::RC && (o == op::SEND || o == op::SEND_IMM),
        1,
    );
}

/// The window ends once, with its message: not before it, and what is bound again under the same key stays bound.
#[test]
fn invalidations() {
    run(|_, o| o == op::SEND_INV, 7);
}

#[test]
fn writes() {
    run(
        |t, o| t == qp_type::RC && (o == op::WRITE || o == op::WRITE_IMM),
        2,
    );
}

#[test]
fn reads() {
    run(|_, o| o == op::READ, 3);
}

/// Field fault A10: executed once each, whatever happens to requests and answers.
#[test]
fn a10_atomics_execute_once() {
    run(|_, o| o == op::CMP_SWAP || o == op::FETCH_ADD, 4);
}

#[test]
fn unreliable_connections() {
    run(|t, _| t == qp_type::UC, 5);
}

#[test]
fn datagrams() {
    run(|t, _| t == qp_type::UD, 6);
}
