//! The tables of `sim-100g` in use to their last entry.

mod common;

use common::*;
use metaroce_hdl_spec::{cmd, config::SIM_100G, wqe::op};
use metaroce_tb::{
    hostport::HostPortConfig, pair::Pair, rng::Rng, script::Conn, sim::SimConfig,
};

const QPS: usize = 1 << SIM_100G.log_qp;

/// Every QP of the card connected to one of the other's, each with a WRITE, a READ and a SEND in flight at once; then the next CREATE_QP is
/// refused with ENOMEM.
#[test]
fn every_qp_at_once() {
    let c = Conn { mtu: 1, timeout: 17, ..Conn::default() };
    let t = std::time::Instant::now();
    let mut p = Pair::new(&SimConfig { host: metaroce_tb::bench::AT_ONCE, ..SimConfig::default() }, QPS, 0x40_0000, &c);
    println!("{} cycles {:?}", p.sim.nodes[0].cycles, t.elapsed());
}
