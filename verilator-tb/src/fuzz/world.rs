//! Two cards with two processes each: PASID 1 with a clean connection, PASID 2 that is fuzzed.

use crate::{
    pair::{Pair, ALL_ACCESS},
    rng::Rng,
    script::{Conn, Host, Qp, Ring},
    sim::SimConfig,
};
use metaroce_hdl_spec::{cmd, table::qp_type, wqe::op};

/// Cycles after which something hangs.
pub const LIMIT: u64 = 400_000;
/// Memory of PASID 2 that is registered, with as much on each side that is not.
pub const MR: u64 = 1 << 16;

/// PASID 2 on one card.
pub struct Guest {
    pub host: Host,
    pub pd: u32,
    pub cq: Ring,
    /// RC, UC, UD.
    pub qps: Vec<Qp>,
    pub buf: u64,
    pub key: u32,
}

pub const TYPES: [u8; 3] = [qp_type::RC, qp_type::UC, qp_type::UD];

pub fn conn(t: u8) -> Conn {
    Conn {
        mtu: 1,
        timeout: 2,
        retry_cnt: 2,
        rnr_retry: 1,
        min_rnr: 1,
        qp_type: t,
        ..Conn::default()
    }
}

pub struct World {
    pub p: Pair,
    pub guests: Vec<Guest>,
    pub rng: Rng,
    pub transfers: u64,
}

impl World {
    /// With `qps`, PASID 2 has connected QPs on both cards, and a guard around its memory.
    pub fn new(seed: u64, qps: bool) -> World {
        let cfg = SimConfig::pair(Default::default(), seed);
        let mut p = Pair::new(
            &cfg,
            1,
            1 << 16,
            &Conn {
                mtu: 3,
                timeout: 8,
                ..Conn::default()
            },
        );
        let guests = (0..2).map(|card| guest(&mut p, card)).collect();
        let mut w = World {
            p,
            guests,
            rng: Rng::new(seed),
            transfers: 0,
        };
        if qps {
            for e in 0..2 {
                for t in TYPES {
                    let g = &mut w.guests[e];
                    g.host.qp_type = t;
                    let qp = g.host.create_qp(&mut w.p.sim, g.pd, &g.cq, &g.cq, 6, 6);
                    g.qps.push(qp);
                }
            }
            for q in 0..3 {
                w.connect(q);
            }
        }
        for e in 0..2 {
            w.guard(e, 1);
            if qps {
                w.guard(e, 2);
            }
        }
        w
    }

    /// From now on the card may touch only what the process has allocated, less what lies around its region.
    pub fn guard(&mut self, e: usize, pasid: u16) {
        let ranges = match pasid {
            1 => self.p.ends[e].host.allocated(),
            _ => {
                let g = &self.guests[e];
                let (from, to) = g.host.allocated();
                self.p.sim.mem(e).guard.insert(
                    2,
                    vec![
                        (from, g.buf - MR),
                        (g.buf, g.buf + MR),
                        (g.buf + 2 * MR, to),
                    ],
                );
                return;
            }
        };
        self.p.sim.mem(e).guard.insert(pasid, vec![ranges]);
    }

    /// RESET to RTS of the guests' QP pair `q`.
    pub fn connect(&mut self, q: usize) {
        let c = conn(TYPES[q]);
        for e in 0..2 {
            let g = &mut self.guests[e];
            let set = [(cmd::modify_qp::next_state, 0)];
            let qpn = g.qps[q].qpn;
            g.host
                .modify(&mut self.p.sim, qpn, 1, &set)
                .expect("to RESET");
            (g.qps[q].pi, g.qps[q].rpi) = (0, 0);
        }
        for e in 0..2 {
            let peer = self.guests[1 - e].qps[q].qpn;
            let g = &mut self.guests[e];
            let qp = g.qps[q].clone();
            g.host.connect(&mut self.p.sim, &qp, 1 - e, peer, &c);
        }
    }

    /// State, next PSN sent, expected PSN of a guest's QP.
    pub fn query(&mut self, e: usize, q: usize) -> (u8, u32, u32) {
        let g = &mut self.guests[e];
        let r = g
            .host
            .command(&mut self.p.sim, cmd::op::QUERY_QP, g.qps[q].qpn, |_| {})
            .expect("QUERY_QP");
        (
            cmd::response::state.get(&r) as u8,
            cmd::response::sq_psn.get(&r) as u32,
            cmd::response::rq_psn.get(&r) as u32,
        )
    }

    /// Takes the completions and events of the guests.
    pub fn drain(&mut self) -> u64 {
        let mut n = 0;
        for g in &mut self.guests {
            while g.host.poll(&mut self.p.sim, &mut g.cq).is_some() {
                n += 1;
            }
            while g.host.poll_event(&mut self.p.sim).is_some() {}
        }
        n
    }

    /// A WRITE, a SEND and a READ of the clean connection, from one end or the other, checked: in time, right, and with
    /// no counter of trouble that is its own.
    pub fn clean(&mut self) -> Result<(), String> {
        let e = self.rng.below(2) as usize;
        let len = 1 + self.rng.below(3000) as u32;
        let data = [0, 1, 2].map(|_| self.rng.bytes(len as usize));
        let p = &mut self.p;
        p.fill(e, 0, &data[0]);
        p.fill(e, 0x1000, &data[1]);
        p.fill(1 - e, 0x2000, &data[2]);
        let sge = (p.ends[1 - e].buf + 0x4000, len, p.ends[1 - e].key);
        p.recv(1 - e, 0, &[sge]);
        let w = p.rdma(e, op::WRITE, 0, 0x3000, len);
        let s = p.send(e, 0x1000, len, Some(7));
        let r = p.rdma(e, op::READ, 0x5000, 0x2000, len);
        for wr in [&w, &s, &r] {
            p.post(e, 0, wr);
        }
        let t0 = p.sim.nodes[0].cycles;
        let (mut sends, mut recvs) = (0, 0);
        while sends < 3 || recvs < 1 {
            p.sim.step_or_skip();
            if p.sim.nodes[0].cycles - t0 > LIMIT {
                return Err(format!(
                    "the clean connection hangs: {sends} of 3 sends, {recvs} of 1 receives; {:?}",
                    p.counters()
                ));
            }
            while let Some(c) = p.poll(e) {
                if c.status != 0 || c.is_recv {
                    return Err(format!("the clean connection: {c:?}"));
                }
                sends += 1;
            }
            while let Some(c) = p.poll(1 - e) {
                if c.status != 0 || !c.is_recv || c.length != len {
                    return Err(format!("the clean connection: {c:?}"));
                }
                recvs += 1;
            }
        }
        let n = len as usize;
        let got = [
            p.read(1 - e, 0x3000, n),
            p.read(1 - e, 0x4000, n),
            p.read(e, 0x5000, n),
        ];
        if got != data {
            return Err("payload of the clean connection differs".into());
        }
        self.transfers += 3;
        self.strays()
    }

    pub fn strays(&mut self) -> Result<(), String> {
        for e in 0..2 {
            let s = &self.p.sim.mem(e).strays;
            if !s.is_empty() {
                return Err(format!("card {e} strays: {s:?}"));
            }
        }
        Ok(())
    }

    /// Runs until nothing moves.
    pub fn settle(&mut self) -> Result<(), String> {
        let t0 = self.p.sim.nodes[0].cycles;
        while self.p.sim.step_or_skip() {
            if self.p.sim.nodes[0].cycles - t0 > 10 * LIMIT {
                return Err(format!("no silence; {:?}", self.p.counters()));
            }
        }
        Ok(())
    }
}

/// PASID 2 on a card: a PD, a CQ, and a region.
pub fn guest(p: &mut Pair, card: usize) -> Guest {
    let mut host = Host::new(&mut p.sim, card, 2);
    let pd = host.alloc_pd(&mut p.sim);
    let cq = host.create_cq(&mut p.sim, 12);
    let buf = host.alloc(3 * MR, 4096) + MR;
    let key = host
        .reg_mr(&mut p.sim, pd, buf, MR, ALL_ACCESS)
        .expect("REG_MR");
    Guest {
        host,
        pd,
        cq,
        qps: vec![],
        buf,
        key,
    }
}
