//! Whole cards: atomics of several QPs on the same words, with a faulty wire: each executed once, results of a sequence.
//!
//! Shows: `atomic_op_accel`, `atomicity`.

use metaroce_hdl_spec::wqe::op;
use metaroce_tb::{
    fabric::Faults,
    pair::Pair,
    rng::Rng,
    script::{Conn, Wr},
    sim::SimConfig,
};
use std::collections::HashMap;

const RESULTS: u64 = 0x1_0000;

fn atomic(p: &Pair, o: u8, slot: u64, word: u64, swap: u64, compare: u64) -> Wr {
    Wr {
        swap,
        compare,
        ..p.rdma(0, o, RESULTS + 8 * slot, 8 * word, 8)
    }
}

fn word(p: &mut Pair, e: usize, off: u64) -> u64 {
    u64::from_le_bytes(p.read(e, off, 8).try_into().unwrap())
}

/// `n` atomics over four QPs on four words. FETCH_ADD of 1: the originals of a word are 0, 1, 2, ... in some order, all different, and the sum is right.
fn counts(faults: Faults, seed: u64, n: u64) -> u64 {
    println!("seed {seed}, faults {faults:?}; replay: cargo test --release -p metaroce-tb --test atomics");
    let cfg = SimConfig::pair(faults, seed);
    let conn = Conn {
        timeout: 4,
        ..Conn::default()
    };
    let mut p = Pair::new(&cfg, 4, 1 << 18, &conn);
    let mut rng = Rng::new(seed);
    let mut plan = vec![];
    let (mut posted, mut done) = (0, 0);
    while done < n {
        if posted < n && posted - done < 40 {
            let (q, w) = (rng.below(4) as usize, rng.below(4));
            // now and then a READ of the word in between, which must not disturb
            if rng.below(8) == 0 {
                let mut r = p.rdma(0, op::READ, 0x8000, 8 * w, 8);
                r.signaled = false;
                p.post(0, q, &r);
            }
            let wr = atomic(&p, op::FETCH_ADD, posted, w, 1, 0);
            p.post(0, q, &wr);
            plan.push((q, w));
            posted += 1;
        } else {
            let c = p.wait(0, 4_000_000);
            assert_eq!((c.status, c.opcode, c.length), (0, op::FETCH_ADD, 8));
            done += 1;
        }
    }
    let mut seen: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut newest: HashMap<(usize, u64), u64> = HashMap::new();
    for (k, (q, w)) in plan.iter().enumerate() {
        let orig = word(&mut p, 0, RESULTS + 8 * k as u64);
        seen.entry(*w).or_default().push(orig);
        // those of one QP in their order
        if let Some(before) = newest.insert((*q, *w), orig) {
            assert!(before < orig, "atomic {k}: {before} then {orig}");
        }
    }
    for (w, mut v) in seen {
        v.sort();
        let want: Vec<u64> = (0..v.len() as u64).collect();
        assert_eq!(v, want, "word {w}: executed once each");
        assert_eq!(word(&mut p, 1, 8 * w), v.len() as u64);
    }
    let c = p.counters();
    println!("{c:?}");
    c[1].iter()
        .find(|(n, _)| *n == "rx_drop_duplicate")
        .map_or(0, |x| x.1)
}

#[test]
fn once_on_a_clean_wire() {
    assert_eq!(counts(Faults::default(), 1, 200), 0);
}

#[test]
fn once_under_faults() {
    let faults = Faults {
        loss_ppm: 20_000,
        duplicate_ppm: 20_000,
        reorder_ppm: 20_000,
        corrupt_ppm: 5_000,
    };
    let dup = counts(faults, 2, 600) + counts(faults, 3, 600);
    assert!(dup > 10, "duplicates were asked for: {dup}");
}

/// Compare and swap: a failed one changes nothing, both give the original; values and operands at all bytes.
#[test]
fn compare_and_swap() {
    let mut p = Pair::new(&SimConfig::default(), 1, 1 << 18, &Conn::default());
    let v = [0x0102_0304_0506_0708u64, 0xF1E2_D3C4_B5A6_9788, 7];
    p.fill(1, 0x128, &v[0].to_le_bytes());
    let at = 0x128 / 8;
    let steps = [(v[1], v[0], v[0]), (v[2], v[0], v[1]), (v[2], v[1], v[1])];
    for (k, (swap, compare, orig)) in steps.into_iter().enumerate() {
        let wr = atomic(&p, op::CMP_SWAP, k as u64, at, swap, compare);
        p.post(0, 0, &wr);
        let c = p.wait(0, 100_000);
        assert_eq!((c.status, c.opcode, c.length), (0, op::CMP_SWAP, 8));
        assert_eq!(word(&mut p, 0, RESULTS + 8 * k as u64), orig, "step {k}");
    }
    assert_eq!(word(&mut p, 1, 0x128), v[2]);
    assert_eq!(word(&mut p, 1, 0x120), 0);
    assert_eq!(word(&mut p, 1, 0x130), 0);
    // an unaligned address is refused
    let mut wr = atomic(&p, op::FETCH_ADD, 9, at, 1, 0);
    wr.remote_va += 4;
    p.post(0, 0, &wr);
    assert_eq!(p.wait(0, 100_000).status, 9);
    assert_eq!(word(&mut p, 1, 0x128), v[2]);
}
