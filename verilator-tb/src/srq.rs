//! Shared receive queues of a scripted host.

use crate::{
    script::{recv_entry, Host, Qp, Ring, PAGE},
    sim::Sim,
};
use metaroce_hdl_spec::{cmd, regs, wqe};

#[derive(Debug, Clone)]
pub struct Srq {
    pub srqn: u32,
    pub base: u64,
    /// log2 of the ring in units; an entry has `2^stride` of them.
    pub log: u32,
    pub stride: u32,
    pub pi: u16,
}

impl Host {
    pub fn create_srq(&mut self, sim: &mut Sim, pd: u32, log: u32, stride: u32) -> Srq {
        let base = self.alloc(64 << log, PAGE);
        let r = self
            .command(sim, cmd::op::CREATE_SRQ, 0, |c| {
                cmd::create_srq::log.put(c, log as u64);
                cmd::create_srq::stride.put(c, stride as u64);
                cmd::create_srq::pd.put(c, pd as u64);
                cmd::create_srq::base.put(c, base);
            })
            .expect("CREATE_SRQ");
        Srq {
            srqn: cmd::response::id.get(&r) as u32,
            base,
            log,
            stride,
            pi: 0,
        }
    }

    /// A QP whose receives come from `srq`.
    pub fn create_qp_srq(&mut self, sim: &mut Sim, pd: u32, cq: &Ring, srq: &Srq) -> Qp {
        self.srqn = Some(srq.srqn);
        let qp = self.create_qp(sim, pd, cq, cq, 10, 0);
        self.srqn = None;
        qp
    }

    /// Writes an entry that carries `number`; the card sees it when [`Host::ring_srq`] is called.
    pub fn post_srq(&self, sim: &mut Sim, srq: &mut Srq, number: u16, sges: &[(u64, u32, u32)]) {
        let mut b = recv_entry(sges, srq.stride);
        // the upper bytes of the first two keys
        for (at, n) in [wqe::rq::key0, wqe::rq::key1]
            .iter()
            .zip(number.to_le_bytes())
        {
            b[at.byte() + 3] = n;
        }
        let slot = srq.pi as u64 & ((1 << srq.log) - 1);
        sim.mem(self.card)
            .poke(self.pasid, srq.base + slot * wqe::UNIT as u64, &b);
        srq.pi = srq.pi.wrapping_add(1 << srq.stride);
    }

    pub fn ring_srq(&self, sim: &mut Sim, srq: &Srq) {
        let v = srq.srqn as u64 | (srq.pi as u64) << 32;
        self.doorbell(sim, regs::doorbell::RQ, v);
    }

    /// Arms the limit, in entries.
    pub fn arm_srq(&mut self, sim: &mut Sim, srq: &Srq, limit: u64) {
        self.command(sim, cmd::op::MODIFY_SRQ, srq.srqn, |c| {
            cmd::modify_srq::limit.put(c, limit << srq.stride)
        })
        .expect("MODIFY_SRQ");
    }

    /// The armed limit in entries, 0 for none.
    pub fn srq_limit(&mut self, sim: &mut Sim, srq: &Srq) -> u64 {
        let r = self
            .command(sim, cmd::op::QUERY_SRQ, srq.srqn, |_| {})
            .expect("QUERY_SRQ");
        cmd::response::rq_psn.get(&r) >> srq.stride
    }
}
