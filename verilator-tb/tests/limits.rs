//! What a process may have at most, set by the administrator.
//!
//! Shows: `process_limits`.

use metaroce_hdl_spec::{cmd, regs::admin};
use metaroce_tb::{
    bench::AT_ONCE,
    node::MmioWrite,
    pair::ALL_ACCESS,
    script::Host,
    sim::{Sim, SimConfig},
};

const ENOMEM: u8 = 12;

/// A process that takes what it can get leaves the others theirs; the registers can be read back.
#[test]
fn a_greedy_process() {
    let mut sim = Sim::scripted(&SimConfig {
        cards: 1,
        host: AT_ONCE,
        ..SimConfig::default()
    });
    for at in [admin::LIMIT_MR_QP, admin::LIMIT_CQ_PD] {
        assert_eq!(sim.nodes[0].mmio_read(at), 0xFFFF_FFFF, "no limit");
    }
    for (at, v) in [
        (admin::LIMIT_MR_QP, 5 | 3 << 16),
        (admin::LIMIT_CQ_PD, 2 | 4 << 16),
    ] {
        sim.nodes[0].mmio.push_back(MmioWrite::u32(at, v));
        for _ in 0..20 {
            sim.step();
        }
        assert_eq!(sim.nodes[0].mmio_read(at), v);
    }
    let mut hosts = [1, 2].map(|p| Host::new(&mut sim, 0, p));
    for h in &mut hosts {
        let got = |h: &mut Host, sim: &mut Sim, op: u8, fill: &dyn Fn(&mut [u8])| {
            let mut n = 0;
            loop {
                match h.command(sim, op, 0, |c| fill(c)) {
                    Ok(_) => n += 1,
                    Err(e) => {
                        assert_eq!(e, ENOMEM);
                        return n;
                    }
                }
                assert!(n < 100, "no limit");
            }
        };
        let pd = h.alloc_pd(&mut sim);
        assert_eq!(got(h, &mut sim, cmd::op::ALLOC_PD, &|_| {}), 3, "PDs");
        let cq = h.create_cq(&mut sim, 4);
        let cqs = got(h, &mut sim, cmd::op::CREATE_CQ, &|c| {
            cmd::create_cq::log.put(c, 4);
            cmd::create_cq::base.put(c, 0x10_0000);
        });
        assert_eq!(cqs, 1, "CQs");
        let qps = got(h, &mut sim, cmd::op::CREATE_QP, &|c| {
            use cmd::create_qp as f;
            f::sq_log.put(c, 4);
            f::pd.put(c, pd as u64);
            f::sq_base.put(c, 0x20_0000);
            f::rq_base.put(c, 0x30_0000);
            f::scq.put(c, cq.id as u64);
            f::rcq.put(c, cq.id as u64);
        });
        assert_eq!(qps, 3, "QPs");
        for _ in 0..5 {
            h.reg_mr(&mut sim, pd, 0x40_0000, 4096, ALL_ACCESS)
                .expect("an MR within the limit");
        }
        let over = h.reg_mr(&mut sim, pd, 0x40_0000, 4096, ALL_ACCESS);
        assert_eq!(over, Err(ENOMEM), "MRs");
    }
}
