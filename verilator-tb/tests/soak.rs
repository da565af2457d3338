//! The long random run, for a short time: `cargo xtask soak` goes on.
//!
//! Shows: `counters`.

use metaroce_tb::{
    fabric::Faults,
    rng::Rng,
    soak::{Leg, Soak},
};

#[test]
fn a_few_rounds() {
    let mut rng = Rng::new(77);
    let faults = Faults {
        loss_ppm: 10_000,
        duplicate_ppm: 10_000,
        reorder_ppm: 10_000,
        corrupt_ppm: 10_000,
    };
    for (mtu, faults) in [(1, faults), (3, Faults::default())] {
        let leg = Leg {
            mtu,
            faults,
            ..Leg::random(&mut rng)
        };
        println!("{leg:?}");
        let mut s = Soak::short(leg);
        let frames: u64 = (0..4).map(|_| s.round()).sum();
        println!("{frames} frames, {} windows invalidated", s.invalidated());
        assert!(s.invalidated() > 0);
    }
}

/// An MSN counts the messages of its connection. The wrap of its 24 bits: `cargo xtask soak -- --msn`.
#[test]
fn msn_counts_messages() {
    let acks = metaroce_tb::msn::count(2000, 0xFF_FF00, |_| {}).unwrap_or_else(|m| panic!("{m}"));
    assert!(acks > 20, "{acks}");
}
