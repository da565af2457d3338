//! Numbers that nobody should guess: QPNs and keys of the card as it is.

use metaroce_hdl_spec::cmd::op;
use metaroce_tb::{
    fabric::FabricConfig,
    pair::ALL_ACCESS,
    script::Host,
    sim::{Sim, SimConfig},
};
use std::collections::{BTreeMap, BTreeSet};

/// QPNs and keys of `n` objects that come and go one at a time.
fn numbers(seed: u64, n: usize) -> [Vec<u32>; 2] {
    let mut sim = Sim::scripted(&SimConfig {
        cards: 1,
        fabric: FabricConfig {
            seed,
            ..FabricConfig::default()
        },
        ..SimConfig::default()
    });
    let mut h = Host::new(&mut sim, 0, 1);
    let pd = h.alloc_pd(&mut sim);
    let cq = h.create_cq(&mut sim, 4);
    let buf = h.alloc(4096, 4096);
    let mut all = [vec![], vec![]];
    for _ in 0..n {
        let q = h.create_qp(&mut sim, pd, &cq, &cq, 4, 4).qpn;
        let k = h.reg_mr(&mut sim, pd, buf, 4096, ALL_ACCESS).expect("MR");
        h.command(&mut sim, op::DESTROY_QP, q, |_| {}).expect("QP");
        h.command(&mut sim, op::DEREG_MR, k, |_| {}).expect("key");
        all[0].push(q);
        all[1].push(k);
    }
    all
}

/// What a process sees of its own numbers does not tell it the next: no fixed distance, every bit moves, another seed gives
/// other numbers.
#[test]
fn qpns_and_keys_are_drawn() {
    let n = 150;
    println!("seeds 21 and 22");
    let (one, two) = (numbers(21, n), numbers(22, n));
    for (what, bits, a, b) in [("QPN", 24, &one[0], &two[0]), ("key", 20, &one[1], &two[1])] {
        let distinct = a.iter().collect::<BTreeSet<_>>().len();
        let mut steps = BTreeMap::<u32, u32>::new();
        for w in a.windows(2) {
            *steps.entry(w[1].wrapping_sub(w[0])).or_default() += 1;
        }
        let common = *steps.values().max().expect("steps");
        let same = a.iter().zip(b).filter(|(x, y)| x == y).count();
        println!("{what}: {distinct} distinct of {n}, the most common step {common} times, {same} equal under the other seed");
        assert!(distinct > n - 5 && common <= 2 && same <= 2, "{what}");
        for k in 0..bits {
            let ones = a.iter().filter(|x| **x >> k & 1 == 1).count();
            // half of 150, seven standard deviations
            assert!((32..=118).contains(&ones), "{what}: bit {k} is 1 in {ones}");
        }
    }
}
