//! Random bytes as work requests.

use super::{
    world::{World, MR, TYPES},
    Fuzz,
};
use crate::{
    node::MmioWrite,
    script::{Bind, UdDest, Wr},
};
use metaroce_hdl_spec::{regs, table::qp_type, wqe};

/// Completions that a step can bring: five requests, a ring of 64 for each wrong producer index, the receives of all rings.
const MOST: u64 = 5 * (5 + 64) + 6 * 64;

pub struct Wqes {
    w: World,
    units: u64,
    renewed: u64,
    completions: u64,
}

impl Wqes {
    pub fn new(seed: u64) -> Wqes {
        Wqes {
            w: World::new(seed, true),
            units: 0,
            renewed: 0,
            completions: 0,
        }
    }

    /// A work request that could be right.
    fn request(&mut self, e: usize, q: usize) -> Wr {
        let (me, peer) = (&self.w.guests[e], &self.w.guests[1 - e]);
        let (buf, key, there, rkey) = (me.buf, me.key, peer.buf, peer.key);
        let to = self.w.p.sim.ids[1 - e].clone();
        let qpn = peer.qps[q].qpn;
        let rng = &mut self.w.rng;
        let sges = (0..rng.below(5))
            .map(|_| {
                let at = match rng.below(12) {
                    0 => rng.next(),
                    1 => buf.wrapping_sub(rng.below(300)),
                    2 => buf + MR - rng.below(300),
                    _ => buf + rng.below(MR - 1000),
                };
                let len = if rng.below(12) == 0 {
                    rng.next() as u32
                } else {
                    rng.below(900) as u32
                };
                let k = if rng.below(12) == 0 {
                    rng.next() as u32
                } else {
                    key
                };
                (at, len, k)
            })
            .collect();
        let inline = (rng.below(4) == 0).then(|| {
            let n = rng.below(33) as usize;
            rng.bytes(n)
        });
        Wr {
            op: if rng.below(10) == 0 {
                rng.next() as u8
            } else {
                rng.below(8) as u8
            },
            signaled: rng.below(2) == 0,
            fence: rng.below(4) == 0,
            solicited: rng.below(4) == 0,
            imm: rng.next() as u32,
            remote_va: match rng.below(6) {
                0 => rng.next(),
                _ => (there + rng.below(MR)) & !(7 * (rng.below(2))),
            },
            rkey: if rng.below(8) == 0 {
                rng.next() as u32
            } else {
                rkey
            },
            swap: rng.next(),
            compare: rng.next(),
            ud: (TYPES[q] == qp_type::UD).then(|| UdDest {
                qpn: if rng.below(8) == 0 {
                    rng.next() as u32 & 0xFF_FFFF
                } else {
                    qpn
                },
                qkey: crate::script::Conn::default().qkey,
                mac: to.mac,
                gid: to.gids()[1],
                sgid: if rng.below(8) == 0 {
                    rng.below(16) as u8
                } else {
                    1
                },
            }),
            sges: if inline.is_some() { vec![] } else { sges },
            inline,
            bind: (rng.below(4) == 0).then(|| Bind {
                key: if rng.below(2) == 0 {
                    key
                } else {
                    rng.next() as u32
                },
                lkey: if rng.below(4) == 0 {
                    rng.next() as u32
                } else {
                    key
                },
                va: buf.wrapping_add(rng.below(2 * MR)),
                len: rng.below(MR),
                access: rng.below(16),
            }),
        }
    }
}

impl Fuzz for Wqes {
    fn step(&mut self) -> Result<(), String> {
        let e = self.w.rng.below(2) as usize;
        let q = self.w.rng.below(3) as usize;
        for side in [e, 1 - e] {
            if self.w.query(side, q).0 != 3 {
                self.w.connect(q);
                self.renewed += 1;
                break;
            }
        }
        // Receives of the peer, some of them nonsense.
        for _ in 0..self.w.rng.below(4) {
            let peer = &mut self.w.guests[1 - e];
            let rng = &mut self.w.rng;
            let sge = match rng.below(6) {
                0 => (rng.next(), rng.next() as u32, rng.next() as u32),
                1 => (peer.buf + MR - rng.below(300), 500, peer.key),
                _ => (peer.buf, rng.below(3000) as u32, peer.key),
            };
            peer.host
                .post_recv(&mut self.w.p.sim, &mut peer.qps[q], &[sge]);
            peer.host.ring_rq(&mut self.w.p.sim, &peer.qps[q]);
        }
        for _ in 0..1 + self.w.rng.below(5) {
            let wr = self.request(e, q);
            let g = &mut self.w.guests[e];
            let first = g.host.post_send(&mut self.w.p.sim, &mut g.qps[q], &wr);
            let qp = g.qps[q].clone();
            let units = qp.pi.wrapping_sub(first) as u64;
            self.units += units;
            // Damage to what is in the ring.
            for u in 0..units {
                let slot = (first as u64 + u) & ((1 << qp.sq_log) - 1);
                let at = qp.sq + slot * wqe::UNIT as u64;
                let rng = &mut self.w.rng;
                let bytes = match rng.below(8) {
                    0 => (0, rng.bytes(wqe::UNIT)),
                    1..4 => (rng.below(60), rng.bytes(4)),
                    4 => (rng.below(16), vec![rng.next() as u8]),
                    _ => continue,
                };
                self.w.p.sim.mem(e).poke(2, at + bytes.0, &bytes.1);
            }
            let g = &self.w.guests[e];
            match self.w.rng.below(6) {
                how @ 0..=2 => {
                    // The unit that comes along need not be the one in the ring.
                    let slot = first as u64 & ((1 << qp.sq_log) - 1);
                    let mut unit = self.w.p.sim.mem(e).peek_vec(2, qp.sq + slot * 64, 64);
                    let rng = &mut self.w.rng;
                    match how {
                        0 => unit[rng.below(64) as usize] = rng.next() as u8,
                        1 => unit = rng.bytes(64),
                        _ => {}
                    }
                    self.w.p.sim.nodes[e].mmio.push_back(MmioWrite {
                        addr: 2 * regs::PAGE + regs::doorbell::DIRECT_WQE,
                        len: 64,
                        data: unit.try_into().expect("64 bytes"),
                    });
                }
                3 => {
                    // A producer index beyond what was written: old and empty units, or more than the ring holds.
                    let by = [16, 512, 1 << 16][self.w.rng.below(3) as usize];
                    let pi = qp.pi.wrapping_add(self.w.rng.below(by) as u16);
                    let v = qp.qpn as u64 | (pi as u64) << 32;
                    let at = 2 * regs::PAGE + regs::doorbell::SQ;
                    self.w.p.sim.nodes[e].mmio.push_back(MmioWrite::u64(at, v));
                }
                _ => {}
            }
            g.host.ring_sq(&mut self.w.p.sim, &qp);
        }
        self.w.clean()?;
        self.w.settle()?;
        let new = self.w.drain();
        self.completions += new;
        if new > MOST {
            return Err(format!("{new} completions in one step"));
        }
        self.w.strays()
    }

    fn done(&self) -> String {
        format!(
            "{} units, {} completions, {} connections broken and made again, {} clean transfers",
            self.units, self.completions, self.renewed, self.w.transfers
        )
    }
}
