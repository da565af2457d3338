//! The QP table of `sim-100g` in use to its last entry. What it costs is measured by `cargo xtask bench -- --scale`.
//!
//! Shows: `queue_pairs`.

mod common;

use common::log::quiet;
use metaroce_hdl_spec::{cmd, config::SIM_100G, wqe::op};
use metaroce_tb::{bench::AT_ONCE, pair::Pair, rng::Rng, script::Conn, sim::SimConfig};
use std::collections::HashMap;

const QPS: usize = 1 << SIM_100G.log_qp;
/// Of these, so many are connected: a connection takes the command sequencer longer than all of its traffic here.
const LIVE: usize = 160;

/// Every entry of both QP tables is taken; connected pairs all over them each have a WRITE and a READ in flight at once. The next CREATE_QP is
/// refused with ENOMEM and takes nothing; a QP that leaves makes room for one.
#[test]
fn every_qp() {
    let c = Conn {
        mtu: 1,
        timeout: 17,
        ..Conn::default()
    };
    let cfg = SimConfig {
        host: AT_ONCE,
        ..SimConfig::default()
    };
    let mut p = Pair::new(&cfg, 0, 0x10_0000, &c);
    for k in 0..QPS {
        assert_eq!(p.create(6, 1), k);
    }
    for e in &p.ends {
        let mut index: Vec<_> = e.qps.iter().map(|q| q.qpn as usize % QPS).collect();
        index.sort_unstable();
        assert!(index.iter().copied().eq(0..QPS), "each entry once");
        assert!(e
            .qps
            .iter()
            .all(|q| q.qpn >= QPS as u32 && q.qpn < 0xFF_FFFF));
    }
    let full = |p: &mut Pair| {
        let e = &mut p.ends[0];
        e.host.command(&mut p.sim, cmd::op::CREATE_QP, 0, |b| {
            use cmd::create_qp as f;
            f::sq_log.put(b, 6);
            f::rq_log.put(b, 1);
            f::pd.put(b, e.pd as u64);
            f::sq_base.put(b, e.qps[0].sq);
            f::rq_base.put(b, e.qps[0].rq);
            f::scq.put(b, e.cq.id as u64);
            f::rcq.put(b, e.cq.id as u64);
        })
    };
    assert_eq!(full(&mut p), Err(12), "ENOMEM");

    let mut rng = Rng::new(2048);
    let live: Vec<usize> = (0..LIVE).map(|k| k * QPS / LIVE).collect();
    for q in &live {
        p.connect(*q, &c);
    }
    let (bytes, half) = (300u64, 0x8_0000u64);
    let data = rng.bytes(LIVE * bytes as usize);
    p.fill(0, 0, &data);
    let back = rng.bytes(LIVE * bytes as usize);
    p.fill(1, half, &back);
    let mut left: HashMap<u32, u32> = HashMap::new();
    for (k, q) in live.iter().enumerate() {
        let at = k as u64 * bytes;
        let w = p.rdma(0, op::WRITE, at, at, bytes as u32);
        let r = p.rdma(0, op::READ, half + at, half + at, bytes as u32);
        p.post(0, *q, &w);
        p.post(0, *q, &r);
        left.insert(p.ends[0].qps[*q].qpn, 2);
    }
    for _ in 0..2 * LIVE {
        let c = p.wait(0, 1_000_000);
        assert_eq!(c.status, 0, "{c:?}");
        let n = left.get_mut(&c.qpn).expect("a QP with requests");
        *n = n.checked_sub(1).expect("each completion once");
    }
    assert!(p.read(1, 0, data.len()) == data, "WRITEs");
    assert!(p.read(0, half, back.len()) == back, "READs");

    let gone = p.ends[0].qps.pop().expect("a QP");
    let e = &mut p.ends[0];
    e.host
        .command(&mut p.sim, cmd::op::DESTROY_QP, gone.qpn, |_| {})
        .expect("DESTROY_QP");
    full(&mut p).expect("room for one");
    assert_eq!(full(&mut p), Err(12), "ENOMEM");
    quiet(&mut p);
}
