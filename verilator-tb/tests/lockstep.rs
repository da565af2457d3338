//! Random traffic between two cards in step with the reference model: every frame, every answer,
//! every completion and every byte of memory, on a clean wire and under faults.
//!
//! Shows: `completions_in_order`, `wire_profiles`.

mod common;

use common::cover;
use metaroce_hdl_spec::{cmd, wqe::op};
use metaroce_tb::{
    fabric::{FabricConfig, Faults},
    pair::{
        window::{self, Window},
        Pair,
    },
    rng::Rng,
    script::{Conn, Cqe},
    sim::SimConfig,
    watch::{received, Watch},
};
use std::collections::VecDeque;

const QPS: usize = 4;
const BUF: u64 = 5 << 18;
const OPS: usize = 8;

type Sges = Vec<(u64, u32, u32)>;

/// `len` bytes in 1..=4 pieces at unaligned offsets behind `at`.
fn pieces(rng: &mut Rng, at: &mut u64, len: u32) -> Vec<(u64, u32)> {
    let n = (1 + rng.below(4) as u32).min(len);
    let mut left = len;
    (0..n)
        .map(|k| {
            let size = if k + 1 == n {
                left
            } else {
                1 + rng.below((left - (n - k - 1)) as u64) as u32
            };
            left -= size;
            let a = *at + 1 + rng.below(100);
            *at = a + size as u64;
            (a, size)
        })
        .collect()
}

fn size(rng: &mut Rng, mtu: u32) -> u32 {
    match rng.below(8) {
        0 => 0,
        1 => [1, 2, 3, 63, 64, 65][rng.below(6) as usize],
        2 => mtu - 1 + rng.below(3) as u32,
        3 => 2 * mtu - 1 + rng.below(3) as u32,
        4 | 5 => rng.below(2000) as u32,
        _ => rng.below(16_385) as u32,
    }
    .min(16_384)
}

struct Bench {
    p: Pair,
    w: Watch,
    rng: Rng,
    mtu: u32,
    /// What both buffers must hold.
    want: [Vec<u8>; 2],
    /// Next free offset of each buffer in this round.
    at: [u64; 2],
    /// Completions to come per end and QP: sends (index, opcode), receives (bytes, immediate).
    sends: [[VecDeque<(u16, u8, bool)>; QPS]; 2],
    recvs: [[VecDeque<Recv>; QPS]; 2],
    /// Of each end and QP: bound at the beginning of a round, until a SEND ends it (false).
    windows: [[(Window, bool); QPS]; 2],
}

/// A receive completion: index, bytes, immediate, invalidated key.
type Recv = (u16, u32, Option<u32>, Option<u32>);

impl Bench {
    fn new(conn: &Conn, faults: Faults, seed: u64) -> Bench {
        println!("seed {seed}, MTU code {}, {faults:?}", conn.mtu);
        let cfg = SimConfig {
            cards: 2,
            fabric: FabricConfig {
                faults,
                seed,
                // Packets of 256 bytes in up to four pieces each, at 100 Gb/s, are more than the card takes.
                rate_mbps: if conn.mtu == 1 { 40_000 } else { 100_000 },
                ..FabricConfig::default()
            },
            ..SimConfig::default()
        };
        let mut p = Pair::new(&cfg, QPS, BUF, conn);
        let w = Watch::new(&mut p, conn).on_sent(cover::frame);
        let windows = [0, 1].map(|e| {
            let lkey = window::region(&mut p, e);
            [0; QPS].map(|_| (Window::new(&mut p, e, lkey), false))
        });
        let mut rng = Rng::new(seed);
        let want = [0, 1].map(|e| {
            let b = rng.bytes(BUF as usize);
            p.fill(e, 0, &b);
            b
        });
        let mut b = Bench {
            p,
            w,
            rng,
            mtu: 128 << conn.mtu,
            want,
            at: [0; 2],
            sends: Default::default(),
            recvs: Default::default(),
            windows,
        };
        b.warm();
        b
    }

    /// One byte to each page-list line (8 pages) of both buffers. While the card reads a page list its
    /// headers queue up, and small packets at line rate are dropped (`rx_drop_full`), which the wire
    /// does not show: this bench keeps clear of that.
    fn warm(&mut self) {
        for e in 0..2 {
            for off in (0..BUF + 8192).step_by(32768) {
                let off = off.min(BUF - 1);
                let byte = self.want[e][off as usize];
                self.want[1 - e][off as usize] = byte;
                let wr = self.p.rdma(e, op::WRITE, off, off, 1);
                self.w.post(e, 0, &wr);
                self.p.post(e, 0, &wr);
                let c = self.p.wait(e, 1_000_000);
                assert_eq!(c.status, 0);
            }
        }
    }

    fn sges(&self, e: usize, v: &[(u64, u32)]) -> Sges {
        let end = &self.p.ends[e];
        v.iter().map(|(a, n)| (end.buf + a, *n, end.key)).collect()
    }

    /// Plans one operation of end `e` on QP `q`; posts its receive. Returns the work request.
    fn plan(&mut self, e: usize, q: usize, last: bool) -> metaroce_tb::script::Wr {
        let ops = [
            op::SEND,
            op::SEND_IMM,
            op::WRITE,
            op::WRITE_IMM,
            op::READ,
            op::SEND_INV,
        ];
        let mut o = ops[self.rng.below(6) as usize];
        let window = &mut self.windows[1 - e][q];
        let mut rkey = self.p.ends[1 - e].key;
        match o {
            op::SEND_INV if !window.1 => o = op::SEND,
            op::SEND_INV => window.1 = false,
            // READs do not go through a window that may end before their responses are there.
            op::WRITE | op::WRITE_IMM if window.1 => rkey = window.0.key,
            _ => {}
        }
        let inv = (o == op::SEND_INV).then_some(window.0.key);
        let len = size(&mut self.rng, self.mtu);
        let (l, r) = (e, 1 - e);
        let local = pieces(&mut self.rng, &mut self.at[l], len);
        let imm = self.rng.next() as u32;
        let with_imm = o == op::SEND_IMM || o == op::WRITE_IMM;
        let mut remote = vec![];
        let mut rva = 0;
        if matches!(o, op::SEND | op::SEND_IMM | op::SEND_INV) {
            remote = pieces(&mut self.rng, &mut self.at[r], len);
            let mut room = remote.clone();
            // Room to spare behind the message stays as it is.
            if room.len() < 4 && self.rng.below(2) == 0 {
                room.push((self.at[r], 32));
                self.at[r] += 32;
            }
            let s = self.sges(r, &room);
            let index = self.p.recv(r, q, &s);
            let total = room.iter().map(|x| x.1 as u64).sum();
            self.w.recv(r, q, total);
            self.recvs[r][q].push_back((index, len, with_imm.then_some(imm), inv));
        } else {
            rva = self.at[r] + 1 + self.rng.below(5000);
            self.at[r] = rva + len as u64;
            if len > 0 {
                remote.push((rva, len));
            }
            if o == op::WRITE_IMM {
                let index = self.p.recv(r, q, &[]);
                self.w.recv(r, q, 0);
                self.recvs[r][q].push_back((index, len, Some(imm), None));
            }
        }
        let (from, src, to, dst) = if o == op::READ {
            (r, &remote, l, &local)
        } else {
            (l, &local, r, &remote)
        };
        let data: Vec<u8> = src
            .iter()
            .flat_map(|(a, n)| self.want[from][*a as usize..][..*n as usize].to_vec())
            .collect();
        let mut k = 0;
        for (a, n) in dst {
            let n = *n as usize;
            self.want[to][*a as usize..][..n].copy_from_slice(&data[k..k + n]);
            k += n;
        }
        metaroce_tb::script::Wr {
            op: o,
            signaled: last || self.rng.below(3) != 0,
            fence: self.rng.below(4) == 0,
            solicited: o != op::READ && self.rng.below(4) == 0,
            imm: inv.map_or(imm, u32::swap_bytes),
            remote_va: self.p.ends[r].buf + rva,
            rkey,
            sges: self.sges(l, &local),
            ..Default::default()
        }
    }

    /// Binds the windows that are not bound, under another key or the same one; others end by LOCAL_INV now and then.
    fn bind(&mut self) {
        for e in 0..2 {
            for q in 0..QPS {
                let (mut w, bound) = self.windows[e][q];
                let mut wrs = vec![];
                if bound && self.rng.below(2) == 0 {
                    wrs.push(w.end());
                }
                if !bound || !wrs.is_empty() {
                    if self.rng.below(2) == 0 {
                        w.turn();
                    }
                    wrs.push(w.bind());
                }
                self.windows[e][q] = (w, true);
                for wr in wrs {
                    self.w.post(e, q, &wr);
                    let index = self.p.post(e, q, &wr);
                    let c = self.p.wait(e, 100_000);
                    assert_eq!((c.index, c.opcode, c.status), (index, wr.op, 0), "{c:?}");
                }
            }
        }
    }

    /// One round: `OPS` operations per QP and direction, all in flight together.
    fn round(&mut self) {
        self.at = [0; 2];
        self.bind();
        let mut wrs = vec![];
        for k in 0..OPS {
            for e in 0..2 {
                for q in 0..QPS {
                    wrs.push((e, q, self.plan(e, q, k + 1 == OPS)));
                }
            }
        }
        assert!(
            self.at.iter().all(|a| *a < BUF),
            "the buffers are too small"
        );
        // Receives must be there before the sends: no RNR in this test.
        for _ in 0..4000 {
            self.p.sim.step();
        }
        for (e, q, wr) in &wrs {
            self.w.post(*e, *q, wr);
            let index = self.p.post(*e, *q, wr);
            self.sends[*e][*q].push_back((index, wr.op, wr.signaled));
        }
        let t0 = self.p.sim.nodes[0].cycles;
        while self.open() {
            for e in 0..2 {
                while let Some(c) = self.p.poll(e) {
                    self.completion(e, c);
                }
            }
            self.p.sim.step_or_skip();
            if let Some(e) = self.w.error() {
                panic!("{e}\ncounters {:?}", self.p.counters());
            }
            let t = self.p.sim.nodes[0].cycles - t0;
            assert!(
                t < 3_000_000,
                "stuck; counters {:?}, open {:?} {:?}",
                self.p.counters(),
                self.sends,
                self.recvs
            );
        }
        for _ in 0..3000 {
            self.p.sim.step();
        }
        self.w.check();
        assert_eq!(
            (self.p.poll(0), self.p.poll(1)),
            (None, None),
            "completed twice"
        );
        for e in 0..2 {
            let got = self.p.read(e, 0, BUF as usize);
            if let Some(at) = (0..BUF as usize).find(|k| got[*k] != self.want[e][*k]) {
                panic!(
                    "card {e}: byte {at:#x} is {:#x}, not {:#x}",
                    got[at], self.want[e][at]
                );
            }
        }
    }

    fn open(&self) -> bool {
        let signaled = |v: &VecDeque<(u16, u8, bool)>| v.iter().any(|x| x.2);
        self.sends.iter().flatten().any(signaled)
            || self.recvs.iter().flatten().any(|v| !v.is_empty())
    }

    fn completion(&mut self, e: usize, c: Cqe) {
        let q = self.p.ends[e]
            .qps
            .iter()
            .position(|q| q.qpn == c.qpn)
            .expect("QPN of a completion");
        assert_eq!(c.status, 0, "{c:?}");
        cover::add("status", "SUCCESS", 1);
        if c.is_recv {
            let want = self.recvs[e][q].pop_front();
            assert_eq!(want, Some((c.index, c.length, c.imm, c.inv)), "{c:?}");
            let model = self.w.received(e, q);
            assert_eq!(model, Some(received(&c)), "receive of the model");
        } else {
            while self.sends[e][q].front().is_some_and(|x| !x.2) {
                self.sends[e][q].pop_front();
            }
            let want = self.sends[e][q].pop_front();
            assert_eq!(want, Some((c.index, c.opcode, true)), "{c:?}");
        }
    }

    /// After the last round: PSNs of card and model are equal, and so are the drop counters.
    fn end(mut self) -> Pair {
        for e in 0..2 {
            for q in 0..QPS {
                let end = &mut self.p.ends[e];
                let r = end
                    .host
                    .command(&mut self.p.sim, cmd::op::QUERY_QP, end.qps[q].qpn, |_| {})
                    .expect("QUERY_QP");
                let psns = (
                    cmd::response::sq_psn.get(&r) as u32,
                    cmd::response::rq_psn.get(&r) as u32,
                );
                assert_eq!(psns, self.w.psns(e, q), "PSNs of card {e}, QP {q}");
            }
        }
        self.w.compare(&mut self.p).expect("counters");
        println!("{} frames checked", self.w.frames());
        cover::finish("lockstep", &mut self.p);
        self.p
    }
}

fn run(mtu: u8, gid: u8, faults: Faults, seed: u64, rounds: usize) -> Pair {
    let conn = Conn {
        mtu,
        gid,
        timeout: 4,
        psn: 0xFF_FF80,
        ..Conn::default()
    };
    let mut b = Bench::new(&conn, faults, seed);
    for _ in 0..rounds {
        b.round();
    }
    b.end()
}

const PPM: u32 = 10_000;

fn clean(mtu: u8, gid: u8, seed: u64) {
    let mut p = run(mtu, gid, Faults::default(), seed, 3);
    for (name, v) in p.counters().into_iter().flatten() {
        let bad = name.starts_with("rx_drop") || name.contains("nak") || name.contains("retrans");
        assert!(!bad, "clean wire, but {name} = {v}");
    }
}

#[test]
fn clean_mtu_256() {
    clean(1, 1, 101);
}
#[test]
fn clean_mtu_1024() {
    clean(3, 2, 102);
}
#[test]
fn clean_mtu_4096() {
    clean(5, 0, 103);
}

#[test]
fn loss() {
    for (mtu, seed) in [(1, 201), (3, 202), (5, 203)] {
        let faults = Faults {
            loss_ppm: PPM,
            ..Faults::default()
        };
        let p = run(mtu, 1, faults, seed, 2);
        assert!(p.sim.fabric.stats.lost > 0);
    }
}

#[test]
fn duplication() {
    for (mtu, seed) in [(1, 211), (3, 212), (5, 213)] {
        let faults = Faults {
            duplicate_ppm: PPM,
            ..Faults::default()
        };
        let p = run(mtu, 1, faults, seed, 2);
        assert!(p.sim.fabric.stats.duplicated > 0);
    }
}

#[test]
fn reorder() {
    for (mtu, seed) in [(1, 221), (3, 222), (5, 223)] {
        let faults = Faults {
            reorder_ppm: PPM,
            ..Faults::default()
        };
        let p = run(mtu, 1, faults, seed, 2);
        assert!(p.sim.fabric.stats.reordered > 0);
    }
}

#[test]
fn corruption() {
    for (mtu, seed) in [(1, 231), (3, 232), (5, 233)] {
        let faults = Faults {
            corrupt_ppm: PPM,
            ..Faults::default()
        };
        let p = run(mtu, 2, faults, seed, 2);
        assert!(p.sim.fabric.stats.corrupted > 0);
    }
}

#[test]
fn all_faults_together() {
    for (mtu, seed) in [(1, 241), (3, 242), (5, 243)] {
        let faults = Faults {
            loss_ppm: PPM,
            duplicate_ppm: PPM,
            reorder_ppm: PPM,
            corrupt_ppm: PPM,
        };
        run(mtu, 1, faults, seed, 2);
    }
}
