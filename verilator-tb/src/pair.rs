//! Two scripted hosts with connected QPs: the set-up of most benches and whole-card tests.

pub mod window;

use crate::{
    script::{mask, Conn, Cqe, Host, Qp, Ring, Wr},
    sim::{Sim, SimConfig},
};
use metaroce_hdl_spec::{cmd, wqe::op};

/// One end: a process, its PD, one CQ for all, its QPs and one big buffer.
pub struct End {
    pub host: Host,
    pub pd: u32,
    pub cq: Ring,
    pub qps: Vec<Qp>,
    pub buf: u64,
    pub len: u64,
    pub key: u32,
}

pub struct Pair {
    pub sim: Sim,
    pub ends: [End; 2],
}

/// All access rights.
pub const ALL_ACCESS: u64 = 0xF;

impl Pair {
    /// `qps` connected QPs and buffers of `len` bytes.
    pub fn new(cfg: &SimConfig, qps: usize, len: u64, conn: &Conn) -> Pair {
        let mut sim = Sim::scripted(&SimConfig { cards: 2, ..*cfg });
        let ends = [0, 1].map(|card| {
            let mut host = Host::new(&mut sim, card, 1);
            host.qp_type = conn.qp_type;
            let pd = host.alloc_pd(&mut sim);
            let cq = host.create_cq(&mut sim, 12);
            let buf = host.alloc(len + 8192, 4096);
            let key = host
                .reg_mr(&mut sim, pd, buf, len + 8192, ALL_ACCESS)
                .expect("REG_MR");
            End {
                host,
                pd,
                cq,
                qps: vec![],
                buf,
                len,
                key,
            }
        });
        let mut p = Pair { sim, ends };
        for _ in 0..qps {
            p.add(conn, 10, 8);
        }
        p
    }

    /// One more connected QP on each end, with attributes of its own; its index. The commands of the two cards run side by side.
    pub fn add(&mut self, conn: &Conn, sq_log: u32, rq_log: u32) -> usize {
        let k = self.create(sq_log, rq_log);
        self.connect(k, conn);
        k
    }

    /// One more QP in RESET on each end; its index.
    pub fn create(&mut self, sq_log: u32, rq_log: u32) -> usize {
        let Pair { sim, ends } = self;
        let new = ends
            .each_mut()
            .map(|e| e.host.begin_qp(sim, e.pd, &e.cq, &e.cq, sq_log, rq_log));
        for (e, qp) in ends.iter_mut().zip(new) {
            let qp = e.host.end_qp(sim, qp);
            e.qps.push(qp);
        }
        ends[0].qps.len() - 1
    }

    /// RESET to RTS on both ends of QP pair `k`.
    pub fn connect(&mut self, k: usize, conn: &Conn) {
        let Pair { sim, ends } = self;
        let qps = [ends[0].qps[k].clone(), ends[1].qps[k].clone()];
        for step in 0..3 {
            for e in 0..2 {
                let peer = qps[1 - e].qpn;
                ends[e]
                    .host
                    .begin_step(sim, &qps[e], step, 1 - e, peer, conn);
            }
            for (e, end) in ends.iter_mut().enumerate() {
                end.host.end(sim).unwrap_or_else(|errno| {
                    panic!("card {e}, QP {k}, step {step} to RTS: {errno}")
                });
            }
        }
    }

    /// State of a QP as the card says.
    pub fn state(&mut self, e: usize, q: usize) -> u8 {
        let end = &mut self.ends[e];
        let qpn = end.qps[q].qpn;
        let r = end
            .host
            .command(&mut self.sim, cmd::op::QUERY_QP, qpn, |_| {})
            .expect("QUERY_QP");
        cmd::response::state.get(&r) as u8
    }

    /// Moves a QP to a state that needs no attributes; a QP that goes to RESET has empty rings.
    pub fn to_state(&mut self, e: usize, q: usize, state: u64) {
        let end = &mut self.ends[e];
        let set = [(cmd::modify_qp::next_state, state)];
        end.host
            .modify(&mut self.sim, end.qps[q].qpn, mask::STATE, &set)
            .expect("MODIFY_QP");
        if state == 0 {
            (end.qps[q].pi, end.qps[q].rpi) = (0, 0);
        }
    }

    /// `n` cycles.
    pub fn run(&mut self, n: u32) {
        for _ in 0..n {
            self.sim.step();
        }
    }

    /// Posts on end `e`, QP `q`, and rings.
    pub fn post(&mut self, e: usize, q: usize, wr: &Wr) -> u16 {
        let end = &mut self.ends[e];
        let i = end.host.post_send(&mut self.sim, &mut end.qps[q], wr);
        end.host.ring_sq(&mut self.sim, &end.qps[q]);
        i
    }

    /// The same with a direct WQE in place of the doorbell.
    pub fn post_direct(&mut self, e: usize, q: usize, wr: &Wr) -> u16 {
        let end = &mut self.ends[e];
        let i = end.host.post_send(&mut self.sim, &mut end.qps[q], wr);
        end.host.ring_direct(&mut self.sim, &end.qps[q], i);
        i
    }

    pub fn recv(&mut self, e: usize, q: usize, sges: &[(u64, u32, u32)]) -> u16 {
        let end = &mut self.ends[e];
        let i = end.host.post_recv(&mut self.sim, &mut end.qps[q], sges);
        end.host.ring_rq(&mut self.sim, &end.qps[q]);
        i
    }

    pub fn poll(&mut self, e: usize) -> Option<Cqe> {
        let end = &mut self.ends[e];
        end.host.poll(&mut self.sim, &mut end.cq)
    }

    /// Steps until `e` has a completion; panics after `limit` cycles.
    pub fn wait(&mut self, e: usize, limit: u64) -> Cqe {
        let t0 = self.sim.nodes[0].cycles;
        loop {
            if let Some(c) = self.poll(e) {
                return c;
            }
            self.sim.step_or_skip();
            let t = self.sim.nodes[0].cycles;
            assert!(
                t - t0 < limit,
                "no completion on card {e} within {limit} cycles; counters {:?}",
                self.counters()
            );
        }
    }

    /// Non-zero counters of both cards.
    pub fn counters(&mut self) -> Vec<Vec<(&'static str, u64)>> {
        self.sim
            .nodes
            .iter_mut()
            .map(|n| n.counters().into_iter().filter(|(_, v)| *v != 0).collect())
            .collect()
    }

    /// A WRITE or READ between the two buffers: `len` bytes from offset `lo` of `e` to (or from) offset `ro` of the peer.
    pub fn rdma(&self, e: usize, op: u8, lo: u64, ro: u64, len: u32) -> Wr {
        let (l, r) = (&self.ends[e], &self.ends[1 - e]);
        Wr {
            op,
            signaled: true,
            remote_va: r.buf + ro,
            rkey: r.key,
            sges: if len == 0 {
                vec![]
            } else {
                vec![(l.buf + lo, len, l.key)]
            },
            ..Wr::default()
        }
    }

    /// A SEND of `len` bytes from offset `lo`.
    pub fn send(&self, e: usize, lo: u64, len: u32, imm: Option<u32>) -> Wr {
        let l = &self.ends[e];
        Wr {
            op: if imm.is_some() {
                op::SEND_IMM
            } else {
                op::SEND
            },
            signaled: true,
            imm: imm.unwrap_or(0),
            sges: if len == 0 {
                vec![]
            } else {
                vec![(l.buf + lo, len, l.key)]
            },
            ..Wr::default()
        }
    }

    /// Fills the buffer of `e` at `off` and returns the bytes.
    pub fn fill(&mut self, e: usize, off: u64, data: &[u8]) {
        let (p, a) = (self.ends[e].host.pasid, self.ends[e].buf + off);
        self.sim.mem(e).poke(p, a, data);
    }

    pub fn read(&mut self, e: usize, off: u64, len: usize) -> Vec<u8> {
        let (p, a) = (self.ends[e].host.pasid, self.ends[e].buf + off);
        self.sim.mem(e).peek_vec(p, a, len)
    }
}
