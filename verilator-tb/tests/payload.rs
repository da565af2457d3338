//! Whole cards: payload equal byte for byte at every size edge, unaligned at both ends, with and
//! without faults on the wire; nothing completed twice.
//!
//! Shows: `segmentation_offload`.

use metaroce_hdl_spec::wqe::op;
use metaroce_tb::{
    fabric::{FabricConfig, Faults},
    pair::Pair,
    rng::Rng,
    script::Conn,
    sim::SimConfig,
};

const MTU: u32 = 1024;

fn sizes() -> Vec<u32> {
    vec![
        0,
        1,
        3,
        4,
        5,
        63,
        64,
        65,
        MTU - 1,
        MTU,
        MTU + 1,
        2 * MTU,
        65_535,
        65_536,
    ]
}

fn config(faults: Faults, seed: u64) -> SimConfig {
    SimConfig {
        cards: 2,
        fabric: FabricConfig {
            faults,
            seed,
            ..FabricConfig::default()
        },
        ..SimConfig::default()
    }
}

/// Every operation at every size, offsets random; guard bytes around the target stay.
fn all_sizes(faults: Faults, seed: u64, sizes: &[u32]) -> Pair {
    println!("seed {seed}, faults {faults:?}; replay: cargo test --release -p metaroce-tb --test payload");
    let conn = Conn {
        mtu: 3,
        timeout: 4,
        ..Conn::default()
    };
    let mut p = Pair::new(&config(faults, seed), 1, 3 << 20, &conn);
    let mut rng = Rng::new(seed);
    for &len in sizes {
        for o in [op::WRITE, op::READ, op::SEND, op::WRITE_IMM, op::SEND_IMM] {
            let (lo, ro) = (64 + rng.below(4096), 64 + rng.below(4096));
            let data = rng.bytes(len as usize);
            let guard = rng.bytes(len as usize + 128);
            // Source and target: a READ moves from end 1 to end 0.
            let (src, soff, dst, doff) = if o == op::READ {
                (1, ro, 0, lo)
            } else {
                (0, lo, 1, ro)
            };
            p.fill(src, soff, &data);
            p.fill(dst, doff - 64, &guard);
            let sends = o == op::SEND || o == op::SEND_IMM;
            if sends || o == op::WRITE_IMM {
                let e = &p.ends[1];
                let sge = if sends && len > 0 {
                    vec![(e.buf + ro, len, e.key)]
                } else {
                    vec![]
                };
                p.recv(1, 0, &sge);
            }
            let imm = 0x1122_3344;
            let wr = match o {
                op::SEND => p.send(0, lo, len, None),
                op::SEND_IMM => p.send(0, lo, len, Some(imm)),
                _ => metaroce_tb::script::Wr {
                    imm,
                    ..p.rdma(0, o, lo, ro, len)
                },
            };
            let index = p.post(0, 0, &wr);
            let c = p.wait(0, 40_000_000);
            assert_eq!(
                (c.status, c.opcode, c.index, c.is_recv),
                (0, o, index, false),
                "op {o}, {len} bytes"
            );
            if sends || o == op::WRITE_IMM {
                let c = p.wait(1, 40_000_000);
                assert_eq!(
                    (c.status, c.is_recv, c.length),
                    (0, true, len),
                    "receive of op {o}, {len} bytes"
                );
                assert_eq!(c.imm, (o != op::SEND).then_some(imm));
            }
            // The acknowledgement says that the card has the data (IBTA 9.7.5.1.1), not that host memory has.
            for _ in 0..400 {
                p.sim.step();
            }
            let got = p.read(dst, doff - 64, len as usize + 128);
            let want = [&guard[..64], &data[..], &guard[64 + len as usize..]].concat();
            if got != want {
                let at = got.iter().zip(&want).position(|(a, b)| a != b).unwrap();
                panic!(
                    "op {o}, {len} bytes, from {soff} to {doff}: byte {} is {:#x}, not {:#x}",
                    at as i64 - 64,
                    got[at],
                    want[at]
                );
            }
        }
    }
    // Nothing more comes.
    for _ in 0..20_000 {
        p.sim.step();
    }
    assert_eq!(
        (p.poll(0), p.poll(1)),
        (None, None),
        "something completed twice"
    );
    p
}

#[test]
fn every_size_without_faults() {
    let mut p = all_sizes(Faults::default(), 11, &sizes());
    for n in &mut p.sim.nodes {
        let c = n.counters();
        let bad: Vec<_> = c
            .iter()
            .filter(|(name, v)| {
                (name.starts_with("rx_drop") || name.contains("retrans") || name.contains("nak"))
                    && *v != 0
            })
            .collect();
        assert!(bad.is_empty(), "clean wire, but {bad:?}");
    }
}

#[test]
fn one_mebibyte() {
    all_sizes(Faults::default(), 12, &[1 << 20]);
}

#[test]
fn loss() {
    let mut p = all_sizes(
        Faults {
            loss_ppm: 10_000,
            ..Faults::default()
        },
        13,
        &sizes(),
    );
    assert!(p.sim.fabric.stats.lost > 0);
    let sent: u64 = p
        .counters()
        .iter()
        .flatten()
        .filter(|(n, _)| *n == "tx_retransmits")
        .map(|(_, v)| v)
        .sum();
    assert!(sent > 0, "frames were lost, so some were sent again");
}

#[test]
fn duplication() {
    let p = all_sizes(
        Faults {
            duplicate_ppm: 10_000,
            ..Faults::default()
        },
        14,
        &sizes(),
    );
    assert!(p.sim.fabric.stats.duplicated > 0);
}

#[test]
fn reorder() {
    let p = all_sizes(
        Faults {
            reorder_ppm: 10_000,
            ..Faults::default()
        },
        15,
        &sizes(),
    );
    assert!(p.sim.fabric.stats.reordered > 0);
}

#[test]
fn all_faults_together() {
    let f = Faults {
        loss_ppm: 10_000,
        duplicate_ppm: 10_000,
        reorder_ppm: 10_000,
        corrupt_ppm: 0,
    };
    all_sizes(f, 16, &sizes());
}

/// Every damaged frame is counted: by the ICRC, or earlier where a header no longer makes sense.
#[test]
fn corruption_is_counted() {
    let mut p = all_sizes(
        Faults {
            corrupt_ppm: 10_000,
            ..Faults::default()
        },
        17,
        &sizes(),
    );
    let hurt = p.sim.fabric.stats.corrupted;
    let dropped: u64 = p
        .counters()
        .iter()
        .flatten()
        .filter(|(n, _)| matches!(*n, "rx_drop_icrc" | "rx_drop_malformed" | "rx_drop_opcode"))
        .map(|(_, v)| v)
        .sum();
    let icrc: u64 = p
        .counters()
        .iter()
        .flatten()
        .filter(|(n, _)| *n == "rx_drop_icrc")
        .map(|(_, v)| v)
        .sum();
    assert!(icrc > 0);
    // A flip in the UDP checksum (not used) or the masked BTH byte does no harm.
    assert!(
        dropped <= hurt && dropped * 100 >= hurt * 90,
        "{hurt} frames hurt, {dropped} dropped"
    );
}
