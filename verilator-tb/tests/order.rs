//! Order of operations of one QP at the memory of the responder.
//!
//! Shows: `acknowledged_means_placed`, `read_after_write`.

use metaroce_hdl_spec::wqe::op;
use metaroce_tb::{hostport::HostPortConfig, pair::Pair, script::Conn, sim::SimConfig};

/// A READ behind WRITEs of its QP sees their data, however slowly the responder's host takes them (IBTA Vol. 1, table of
/// work request ordering: WRITE, then READ).
#[test]
fn read_sees_the_writes_before_it() {
    for (mbps, len) in [(5_000, 65_536u32), (20_000, 4096), (0, 64)] {
        let cfg = SimConfig {
            host: HostPortConfig {
                read_ns: 20,
                spread_ns: 0,
                mbps,
                ..HostPortConfig::default()
            },
            ..SimConfig::default()
        };
        let mut p = Pair::new(&cfg, 1, 1 << 20, &Conn::default());
        for round in 0..8u8 {
            p.fill(0, 0, &vec![round + 1; len as usize]);
            p.fill(0, 0x8_0000, &[0xEE; 64]);
            let w = p.rdma(0, op::WRITE, 0, 0, len);
            let tail = (len - 64) as u64;
            let r = p.rdma(0, op::READ, 0x8_0000, tail, 64);
            p.post(0, 0, &w);
            p.post(0, 0, &r);
            for _ in 0..2 {
                let c = p.wait(0, 2_000_000);
                assert_eq!(c.status, 0);
            }
            assert_eq!(
                p.read(0, 0x8_0000, 64),
                vec![round + 1; 64],
                "round {round} at {mbps} Mb/s"
            );
        }
    }
}

/// When a WRITE has completed at the requester its data is in the memory of the responder, however slowly that host takes it.
#[test]
fn acknowledged_means_placed() {
    for (mbps, len) in [(5_000, 65_536u32), (20_000, 4096), (1_000, 64)] {
        let cfg = SimConfig {
            host: HostPortConfig {
                mbps,
                ..HostPortConfig::default()
            },
            ..SimConfig::default()
        };
        let mut p = Pair::new(&cfg, 1, 1 << 20, &Conn::default());
        for round in 0..4u8 {
            p.fill(0, 0, &vec![round + 1; len as usize]);
            let w = p.rdma(0, op::WRITE, 0, 0, len);
            p.post(0, 0, &w);
            assert_eq!(p.wait(0, 2_000_000).status, 0);
            assert!(
                p.read(1, 0, len as usize).iter().all(|b| *b == round + 1),
                "round {round} at {mbps} Mb/s"
            );
        }
    }
}
