//! The bus between card and host in all its ways: limits of requests, slow and reordered reads, stalls, every offset in a
//! page. (The model of the bus ends the run when a request is longer than PCIE_LIMITS allows, or crosses 4 KiB.)
//!
//! Shows: `host_port`.

use metaroce_hdl_spec::wqe::op;
use metaroce_tb::{
    bench::AT_ONCE,
    fabric::Faults,
    hostport::HostPortConfig,
    pair::Pair,
    rng::Rng,
    script::Conn,
    sim::SimConfig,
    soak::{Leg, Soak},
};

/// All maximum payload and read request sizes, each with another bus; all operations, a bad wire.
#[test]
fn b18_every_limit() {
    let mut rng = Rng::new(18);
    let leg = Leg {
        mtu: 4,
        faults: Faults {
            loss_ppm: 3_000,
            duplicate_ppm: 3_000,
            reorder_ppm: 3_000,
            corrupt_ppm: 3_000,
        },
        ..Leg::random(&mut rng)
    };
    println!("{leg:?}");
    let mut s = Soak::short(leg);
    for mps in 0..3 {
        for mrrs in 0..6 {
            let cfg = HostPortConfig {
                read_ns: [0, 100, 600, 2000][rng.below(4) as usize],
                spread_ns: [0, 50, 1500][rng.below(3) as usize],
                mbps: [0, 0, 60_000][rng.below(3) as usize],
                stall_ppm: [0, 100_000, 500_000][rng.below(3) as usize],
            };
            println!("MPS {}, MRRS {}, {cfg:?}", 128 << mps, 128 << mrrs);
            s.host(cfg, mps | mrrs << 4);
            s.round();
        }
    }
}

/// WRITEs and READs of 300 bytes that begin at every offset of a page, at either end.
#[test]
fn every_page_offset() {
    const AT_A_TIME: u64 = 64;
    let mut p = Pair::new(
        &SimConfig {
            host: AT_ONCE,
            ..SimConfig::default()
        },
        1,
        AT_A_TIME * 8192,
        &Conn::default(),
    );
    let mut rng = Rng::new(19);
    for base in (0..4096).step_by(AT_A_TIME as usize) {
        let mut want = vec![];
        for k in 0..AT_A_TIME {
            let off = base + k;
            let o = if off % 2 == 0 { op::WRITE } else { op::READ };
            let (area, other) = (8192 * k, rng.below(4096));
            // The offset is that of the target in one half of the cases, of the source in the other.
            let (lo, ro) = if off % 4 < 2 {
                (area + off, area + other)
            } else {
                (area + other, area + off)
            };
            let (src, soff, dst, doff) = match o {
                op::READ => (1, ro, 0, lo),
                _ => (0, lo, 1, ro),
            };
            let data = rng.bytes(300);
            p.fill(dst, area, &vec![0; 8192]);
            p.fill(src, soff, &data);
            let mut all = p.read(dst, area, 8192);
            all[(doff - area) as usize..][..300].copy_from_slice(&data);
            want.push((dst, area, all));
            let wr = p.rdma(0, o, lo, ro, 300);
            p.post(0, 0, &wr);
        }
        for _ in 0..AT_A_TIME {
            assert_eq!(p.wait(0, 100_000).status, 0);
        }
        for (e, at, all) in want {
            assert!(
                p.read(e, at, 8192) == all,
                "offsets from {base}, area {at:#x}"
            );
        }
    }
}
