//! The same bench with the same seed gives the same capture to the bit, faults included.

use metaroce_hdl_spec::wqe::op;
use metaroce_tb::{fabric::Faults, pair::Pair, rng::Rng, script::Conn, sim::SimConfig};

/// Traffic in both directions over two QPs; the capture, and when it ended.
fn capture(name: &str, seed: u64, faults: Faults) -> (Vec<u8>, u64) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let cfg = SimConfig::pair(faults, seed);
    let conn = Conn {
        mtu: 3,
        timeout: 4,
        ..Conn::default()
    };
    let mut p = Pair::new(&cfg, 2, 1 << 18, &conn);
    p.sim.fabric.record(&path).expect("capture");
    // The work is the same for every seed.
    let mut rng = Rng::new(1);
    let data = rng.bytes(1 << 17);
    p.fill(0, 0, &data);
    p.fill(1, 0, &data);
    for k in 0..24u64 {
        for e in 0..2 {
            let o = if (k + e) % 3 == 0 {
                op::READ
            } else {
                op::WRITE
            };
            let len = rng.below(16_000) as u32;
            let wr = p.rdma(e as usize, o, k * 5000, (1 << 17) + k * 5000, len);
            p.post(e as usize, k as usize % 2, &wr);
        }
    }
    for e in 0..2 {
        for _ in 0..24 {
            assert_eq!(p.wait(e, 2_000_000).status, 0);
        }
    }
    p.sim.fabric.finish();
    let bytes = std::fs::read(&path).expect("capture");
    std::fs::remove_file(&path).expect("capture");
    assert!(bytes.len() > 100_000);
    (bytes, p.sim.now_ps())
}

#[test]
fn same_seed_same_capture() {
    let faults = Faults {
        loss_ppm: 10_000,
        duplicate_ppm: 10_000,
        reorder_ppm: 10_000,
        corrupt_ppm: 10_000,
    };
    let a = capture("repeat-a.pcap", 42, faults);
    let b = capture("repeat-b.pcap", 42, faults);
    assert_eq!(a.1, b.1, "time of the end");
    assert!(a.0 == b.0, "captures differ");
    let c = capture("repeat-c.pcap", 43, faults);
    assert!(a.0 != c.0, "another seed makes other faults");
}

#[test]
fn same_seed_same_capture_without_faults() {
    let a = capture("repeat-d.pcap", 7, Faults::default());
    let b = capture("repeat-e.pcap", 7, Faults::default());
    assert_eq!(a.1, b.1, "time of the end");
    assert!(a.0 == b.0, "captures differ");
}
