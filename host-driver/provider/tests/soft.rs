//! The transport in software above raw packet queues: unmodified verbs programs, over a network that loses, doubles and reorders frames.
mod fake;
mod world;

use fake::{Net, RawServer};
use world::*;

fn new(name: &str, net: Net) -> World {
    World::with(name, |at| Box::new(RawServer::start(at, net)))
}

const PERFECT: Net = Net {
    seed: 1,
    lose: 0,
    double: 0,
    delay: 0,
};

#[test]
fn pingpong() {
    if !installed("ibv_rc_pingpong") {
        return;
    }
    let w = new("soft-pp", PERFECT);
    for args in [
        &["-g", "1", "-n", "50"][..],
        &["-g", "1", "-n", "50", "-e"],
        &["-g", "2", "-n", "20", "-s", "70000", "-c"],
        &["-g", "0", "-n", "20", "-s", "1", "-c"],
    ] {
        let [s, c] = w.pair("ibv_rc_pingpong", args);
        assert!(s.contains("iters in") && c.contains("iters in"), "{s}\n{c}");
    }
}
