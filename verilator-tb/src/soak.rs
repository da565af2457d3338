//! Long random run: every operation of RC, UC and UD QPs in both directions at once, random sizes and addresses, random
//! faults on the wire, with the reference models beside the cards ([`Watch`]). RC QPs bind windows, reach memory through
//! those of their peer, and end them from both sides.
//!
//! A round is a number of messages per QP and direction, all in flight together, up to silence. Then all completions
//! have come once and in order, all memory is as it must be, each atomic was executed once, and all counters are equal
//! to the wire.

use crate::{
    fabric::{FabricConfig, Faults},
    hostport::HostPortConfig,
    node::MmioWrite,
    pair::{
        window::{self, Window},
        Pair,
    },
    rng::Rng,
    script::{Conn, Cqe, UdDest, Wr},
    sim::SimConfig,
    watch::{received, Watch},
};
use metaroce_hdl_spec::{
    cqe::status,
    regs::{self, Ctr},
    table::qp_type,
    wqe::op,
};
use metaroce_protocol::model::Target;
use std::collections::{HashMap, VecDeque};

const RC: usize = 8;
const UC: usize = RC;
const UD: usize = RC + 1;
const QPS: usize = RC + 2;
/// Messages per UC or UD QP and direction in a round: as many as there are receives.
const PER_ROUND: usize = 8;
/// The same of RC in a long run: many, so that a lost packet of one QP stops few of the others.
const MANY: usize = 32;
/// Messages of a round of a long run.
pub const ROUND: u64 = 2 * (MANY * RC + 2 * PER_ROUND) as u64;

// Places in both buffers: words of atomics, receives of UC and UD, then what a round hands out.
const WORDS: u64 = 4;
const PRIVATE: u64 = 0x100;
const SLOTS: u64 = 0x1000;
const SLOT: u64 = 0x2400;
const RECVS: u64 = 16;
const FREE: u64 = 0x4_8000;
const BUF: u64 = 10 << 18;
const MAX: u64 = 8192;
/// Windows per RC QP and end.
const WINDOWS: usize = 3;

/// What a leg of the run is like.
#[derive(Debug, Clone, Copy)]
pub struct Leg {
    pub mtu: u8,
    pub gid: u8,
    pub psn: u32,
    pub faults: Faults,
    pub seed: u64,
}

impl Leg {
    /// Half of the legs have the smallest MTU, at which there is most to go wrong.
    pub fn random(rng: &mut Rng) -> Leg {
        let ppm = |r: &mut Rng| [0, 1_000, 10_000, 30_000][r.below(4) as usize];
        Leg {
            mtu: [1, 1, 1, 1, 2, 3, 4, 5][rng.below(8) as usize],
            gid: rng.below(2) as u8,
            psn: match rng.below(2) {
                0 => 0xFF_FFF0,
                _ => rng.below(1 << 24) as u32,
            },
            faults: Faults {
                loss_ppm: ppm(rng),
                duplicate_ppm: ppm(rng),
                reorder_ppm: ppm(rng),
                corrupt_ppm: ppm(rng),
            },
            seed: rng.next(),
        }
    }
}

struct Sent {
    index: u16,
    op: u8,
    /// FETCH_ADD: the shared word, and where its original goes.
    word: Option<(u64, u64)>,
}

/// What a round may do with a window: what is posted at one end does not know when the other end's work is done, so a
/// window that is being bound is used in the next round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Free,
    /// Its bind is posted in this round.
    Binding,
    Bound,
    /// Messages of this round go through it; a READ among them.
    Busy(bool),
    /// Its end is posted in this round.
    Ending,
}

pub struct Soak {
    p: Pair,
    w: Watch,
    rng: Rng,
    leg: Leg,
    want: [Vec<u8>; 2],
    at: [u64; 2],
    sends: [[VecDeque<Sent>; QPS]; 2],
    /// Receives of UC and UD.
    posted: [[u64; 2]; 2],
    taken: [[u64; 2]; 2],
    done: [u64; 2],
    cycles: u64,
    /// Messages per RC QP and direction in a round.
    per_rc: usize,
    invalidated: u64,
    /// Of each end and RC QP.
    windows: [[[(Window, Use); WINDOWS]; RC]; 2],
}

impl Soak {
    /// For a long run.
    pub fn new(leg: Leg) -> Soak {
        Soak {
            per_rc: MANY,
            ..Soak::short(leg)
        }
    }

    /// With short rounds.
    pub fn short(leg: Leg) -> Soak {
        let cfg = SimConfig {
            cards: 2,
            fabric: FabricConfig {
                faults: leg.faults,
                seed: leg.seed,
                // Small packets at 100 Gb/s from six QPs at once fill the receive buffer, which the wire does not show.
                rate_mbps: match leg.mtu {
                    1 => 40_000,
                    _ => 100_000,
                },
                ..FabricConfig::default()
            },
            ..SimConfig::default()
        };
        let conn = |t: u8| Conn {
            mtu: leg.mtu,
            gid: leg.gid,
            timeout: 4,
            qp_type: t,
            psn: if t == qp_type::UD { 0 } else { leg.psn },
            ..Conn::default()
        };
        let mut p = Pair::new(&cfg, 0, BUF, &conn(qp_type::RC));
        let w = Watch::new(&mut p, &conn(qp_type::RC)).keep_placed();
        for q in 0..QPS {
            let t = match q {
                UC => qp_type::UC,
                UD => qp_type::UD,
                _ => qp_type::RC,
            };
            for e in &mut p.ends {
                e.host.qp_type = t;
            }
            let k = p.add(&conn(t), 8, 6);
            w.add(&p, k, &conn(t));
        }
        let windows = [0, 1].map(|e| {
            let lkey = window::region(&mut p, e);
            [0; RC].map(|_| [0; WINDOWS].map(|_| (Window::new(&mut p, e, lkey), Use::Free)))
        });
        let mut rng = Rng::new(leg.seed);
        let want = [0, 1].map(|e| {
            let b = rng.bytes(BUF as usize);
            p.fill(e, 0, &b);
            b
        });
        let mut s = Soak {
            p,
            w,
            rng,
            leg,
            want,
            at: [FREE; 2],
            sends: Default::default(),
            posted: Default::default(),
            taken: Default::default(),
            done: [0; 2],
            cycles: 0,
            per_rc: PER_ROUND,
            invalidated: 0,
            windows,
        };
        s.warm();
        s
    }

    /// One byte to each page-list line (8 pages) of both buffers: while the card reads a page list headers queue up,
    /// and small packets at line rate are dropped for want of room, which the models cannot know.
    fn warm(&mut self) {
        for e in 0..2 {
            for off in (0..BUF + 8192).step_by(32768) {
                let off = off.min(BUF - 1);
                let byte = self.want[e][off as usize];
                self.want[1 - e][off as usize] = byte;
                let wr = self.p.rdma(e, op::WRITE, off, off, 1);
                self.w.post(e, 0, &wr);
                self.p.post(e, 0, &wr);
                assert_eq!(self.p.wait(e, 4_000_000).status, 0);
                self.done[e] += 1;
            }
        }
    }

    fn slot(q: usize, n: u64) -> u64 {
        SLOTS + SLOT * ((q - UC) as u64 * RECVS + n % RECVS)
    }

    fn take(&mut self, e: usize, len: u64) -> u64 {
        let a = self.at[e] + 1 + self.rng.below(100);
        self.at[e] = a + len;
        a
    }

    fn size(&mut self, q: usize) -> u32 {
        let mtu = 128u64 << self.leg.mtu;
        let n = match self.rng.below(8) {
            0 => 0,
            1 => [1, 2, 3, 63, 64, 65][self.rng.below(6) as usize],
            2 => mtu - 1 + self.rng.below(3),
            3 => 2 * mtu - 1 + self.rng.below(3),
            4 => self.rng.below(2000),
            _ => self.rng.below(8 * mtu),
        };
        n.min(if q == UD { mtu.min(4096) } else { MAX }) as u32
    }

    /// Plans and posts one message of end `e` on QP `q`; the send is not rung yet.
    fn post(&mut self, e: usize, q: usize) {
        let ops: &[u8] = match q {
            UC => &[op::SEND, op::SEND_IMM, op::WRITE, op::WRITE_IMM],
            UD => &[op::SEND, op::SEND_IMM],
            _ => &[
                op::SEND,
                op::SEND_IMM,
                op::WRITE,
                op::WRITE_IMM,
                op::READ,
                op::CMP_SWAP,
                op::FETCH_ADD,
                op::SEND_INV,
                op::BIND_MW,
                op::LOCAL_INV,
            ],
        };
        let o = ops[self.rng.below(ops.len() as u64) as usize];
        let r = 1 - e;
        let mut word = None;
        let mut wr = if o == op::FETCH_ADD || o == op::CMP_SWAP {
            self.at[e] = self.at[e].next_multiple_of(8);
            let result = self.at[e];
            self.at[e] += 8;
            let read = |b: &Vec<u8>, at: u64| {
                u64::from_le_bytes(b[at as usize..][..8].try_into().expect("8 bytes"))
            };
            let (at, swap, compare, new);
            if o == op::FETCH_ADD {
                let n = self.rng.below(WORDS);
                at = 8 * n;
                let old = read(&self.want[r], at);
                (swap, compare, new) = (1, 0, old.wrapping_add(1));
                word = Some((n, result));
            } else {
                at = PRIVATE + 8 * q as u64;
                let old = read(&self.want[r], at);
                swap = self.rng.next();
                compare = if self.rng.below(3) == 0 { !old } else { old };
                new = if compare == old { swap } else { old };
                self.want[e][result as usize..][..8].copy_from_slice(&old.to_le_bytes());
            }
            self.want[r][at as usize..][..8].copy_from_slice(&new.to_le_bytes());
            Wr {
                swap,
                compare,
                ..self.p.rdma(e, o, result, at, 8)
            }
        } else if let Some(wr) = self.of_window(e, q, o) {
            wr
        } else {
            self.plain(e, q, o)
        };
        wr.fence |= q < RC && self.rng.below(6) == 0;
        wr.signaled = true;
        self.w.post(e, q, &wr);
        let end = &mut self.p.ends[e];
        let index = end.host.post_send(&mut self.p.sim, &mut end.qps[q], &wr);
        let op = wr.op;
        self.sends[e][q].push_back(Sent { index, op, word });
    }

    /// A window of end `e`, QP `q` that is in a state of `which`.
    fn find(&self, e: usize, q: usize, which: fn(Use) -> bool) -> Option<usize> {
        let all = self.windows[e].get(q)?;
        all.iter().position(|w| which(w.1))
    }

    /// BIND_MW, LOCAL_INV and SEND with invalidate, if there is a window for it.
    fn of_window(&mut self, e: usize, q: usize, o: u8) -> Option<Wr> {
        let peer = o == op::SEND_INV;
        let of = if peer { 1 - e } else { e };
        let n = match o {
            op::BIND_MW => self.find(of, q, |u| u == Use::Free),
            op::LOCAL_INV => self.find(of, q, |u| u == Use::Bound),
            op::SEND_INV => self.find(of, q, |u| matches!(u, Use::Bound | Use::Busy(_))),
            _ => None,
        }?;
        let (mut w, was) = self.windows[of][q][n];
        let (wr, now) = match o {
            op::BIND_MW => {
                if self.rng.below(2) == 0 {
                    w.turn();
                }
                (w.bind(), Use::Binding)
            }
            op::LOCAL_INV => (w.end(), Use::Ending),
            _ => {
                let mut wr = w.ended_by(self.plain(e, q, op::SEND));
                // Responses of a READ through it may be on their way.
                wr.fence = was == Use::Busy(true);
                (wr, Use::Ending)
            }
        };
        self.windows[of][q][n] = (w, now);
        Some(wr)
    }

    /// Key for a WRITE or READ of end `e` on QP `q`: the peer's own, or that of a window.
    fn key(&mut self, e: usize, q: usize, o: u8) -> Option<u32> {
        let n = self.find(1 - e, q, |u| matches!(u, Use::Bound | Use::Busy(_)))?;
        if self.rng.below(2) == 0 {
            return None;
        }
        let w = &mut self.windows[1 - e][q][n];
        w.1 = Use::Busy(o == op::READ || w.1 == Use::Busy(true));
        Some(w.0.key)
    }

    /// A SEND, WRITE or READ; with the receive that an RC message needs.
    fn plain(&mut self, e: usize, q: usize, o: u8) -> Wr {
        let r = 1 - e;
        // Without a window for it.
        let o = match o {
            op::SEND_INV | op::BIND_MW | op::LOCAL_INV => op::SEND,
            o => o,
        };
        let len = self.size(q);
        let (lo, ro) = (self.take(e, len as u64), self.take(r, len as u64));
        let imm = self.rng.next() as u32;
        let send = o == op::SEND || o == op::SEND_IMM;
        if q < RC && (send || o == op::WRITE_IMM) {
            let end = &self.p.ends[r];
            let sge = (end.buf + ro, len, end.key);
            let sges: &[_] = if send && len > 0 { &[sge] } else { &[] };
            let room = if send { len as u64 } else { 0 };
            let end = &mut self.p.ends[r];
            end.host.post_recv(&mut self.p.sim, &mut end.qps[q], sges);
            self.w.recv(r, q, room);
        }
        // What an RC message moves is certain; UC and UD by the models, when it is over.
        let (from, src, to, dst) = if o == op::READ {
            (r, ro, e, lo)
        } else {
            (e, lo, r, ro)
        };
        if q < RC {
            let data = self.want[from][src as usize..][..len as usize].to_vec();
            self.want[to][dst as usize..][..len as usize].copy_from_slice(&data);
        }
        let mut wr = if send {
            self.p.send(e, lo, len, (o == op::SEND_IMM).then_some(imm))
        } else {
            let mut wr = self.p.rdma(e, o, lo, ro, len);
            wr.rkey = self.key(e, q, o).unwrap_or(wr.rkey);
            wr
        };
        wr.imm = imm;
        wr.solicited = o != op::READ && self.rng.below(4) == 0;
        if q == UD {
            let to = &self.p.sim.ids[r];
            wr.ud = Some(UdDest {
                qpn: self.p.ends[r].qps[UD].qpn,
                qkey: Conn::default().qkey,
                mac: to.mac,
                gid: to.gids()[self.leg.gid as usize],
                sgid: self.leg.gid,
            });
        }
        wr
    }

    /// Another bus of both hosts from now on: its behaviour, and PCIE_LIMITS.
    pub fn host(&mut self, cfg: HostPortConfig, limits: u32) {
        for n in &mut self.p.sim.nodes {
            n.host.set_config(cfg);
            n.mmio
                .push_back(MmioWrite::u32(regs::admin::PCIE_LIMITS, limits));
        }
        self.p.run(20);
    }

    /// One round; panics with what is wrong. Returns the frames that it took.
    pub fn round(&mut self) -> u64 {
        self.try_round().unwrap_or_else(|m| panic!("{m}"))
    }

    /// One round, or what is wrong.
    pub fn try_round(&mut self) -> Result<u64, String> {
        let before = self.w.frames();
        match self.messages() {
            Ok(()) => Ok(self.w.frames() - before),
            Err(m) => Err(format!(
                "{:?}: {m}\ncounters {:?}",
                self.leg,
                self.p.counters()
            )),
        }
    }

    fn messages(&mut self) -> Result<(), String> {
        self.at = [FREE; 2];
        for e in 0..2 {
            for q in [UC, UD] {
                while self.posted[e][q - UC] < self.taken[e][q - UC] + RECVS - 4 {
                    let at = Self::slot(q, self.posted[e][q - UC]);
                    let end = &mut self.p.ends[e];
                    let sge = (end.buf + at, SLOT as u32, end.key);
                    end.host.post_recv(&mut self.p.sim, &mut end.qps[q], &[sge]);
                    self.w.recv(e, q, SLOT);
                    self.posted[e][q - UC] += 1;
                }
            }
        }
        for n in 0..self.per_rc {
            for e in 0..2 {
                for q in 0..QPS {
                    if q < RC || n < PER_ROUND {
                        self.post(e, q);
                    }
                }
            }
        }
        if self.at.iter().any(|a| *a >= BUF) {
            return Err("the buffers are too small".into());
        }
        for e in 0..2 {
            for q in 0..QPS {
                let end = &self.p.ends[e];
                end.host.ring_rq(&mut self.p.sim, &end.qps[q]);
            }
        }
        // Receives must be there before the sends: no RNR here.
        self.p.run(100);
        for e in 0..2 {
            for q in 0..QPS {
                let end = &self.p.ends[e];
                end.host.ring_sq(&mut self.p.sim, &end.qps[q]);
            }
        }
        let t0 = self.p.sim.nodes[0].cycles;
        while self.p.sim.step_or_skip() {
            self.cycles += 1;
            if self.p.sim.nodes[0].cycles - t0 > 3_000_000 {
                return Err("no silence".into());
            }
        }
        if let Some(m) = self.w.error() {
            return Err(m);
        }
        let mut originals: [HashMap<u64, Vec<(usize, u64)>>; 2] = Default::default();
        let mut all: [Vec<Cqe>; 2] =
            [0, 1].map(|e| std::iter::from_fn(|| self.p.poll(e)).collect());
        // What is flushed tells nothing: a QP's own error first.
        let good = [status::SUCCESS, status::WR_FLUSH];
        for e in 0..2 {
            if let Some(c) = all[e].iter().find(|c| !good.contains(&c.status)) {
                return Err(format!("card {e}: {c:?}"));
            }
        }
        for e in 0..2 {
            for c in std::mem::take(&mut all[e]) {
                self.completion(e, c, &mut originals)?;
            }
            for q in 0..QPS {
                if let Some(s) = self.sends[e][q].front() {
                    return Err(format!("card {e}, QP {q}: WQE {} is not done", s.index));
                }
                if let Some(r) = self.w.received(e, q) {
                    return Err(format!("card {e}, QP {q}: the model received {r:?}"));
                }
            }
        }
        for w in self.windows.iter_mut().flatten().flatten() {
            w.1 = match w.1 {
                Use::Binding | Use::Busy(_) => Use::Bound,
                Use::Ending => Use::Free,
                u => u,
            };
        }
        self.words(originals)?;
        self.memory()?;
        for e in 0..2 {
            let got = self.p.sim.nodes[e].counter(Ctr::tx_messages);
            if got != self.done[e] {
                let want = self.done[e];
                return Err(format!("card {e}: tx_messages is {got}, not {want}"));
            }
        }
        self.w.compare(&mut self.p)
    }

    fn completion(
        &mut self,
        e: usize,
        c: Cqe,
        originals: &mut [HashMap<u64, Vec<(usize, u64)>>; 2],
    ) -> Result<(), String> {
        let qps = &self.p.ends[e].qps;
        let q = qps.iter().position(|q| q.qpn == c.qpn);
        let q = q.ok_or_else(|| format!("QPN of {c:?}"))?;
        if c.status != 0 {
            return Err(format!("card {e}, QP {q}: {c:?}"));
        }
        if c.is_recv {
            let model = self.w.received(e, q);
            if model != Some(received(&c)) {
                return Err(format!("card {e}, QP {q}: {c:?}, the model {model:?}"));
            }
            self.invalidated += c.inv.is_some() as u64;
            if q >= UC {
                self.taken[e][q - UC] += 1;
            }
            return Ok(());
        }
        let s = self.sends[e][q].pop_front();
        let s = s.ok_or_else(|| format!("card {e}, QP {q}: one too many, {c:?}"))?;
        if (s.index, s.op) != (c.index, c.opcode) {
            return Err(format!("card {e}, QP {q}: {c:?}, not WQE {}", s.index));
        }
        self.done[e] += 1;
        if let Some((word, at)) = s.word {
            let v = self.p.read(e, at, 8);
            self.want[e][at as usize..][..8].copy_from_slice(&v);
            let v = u64::from_le_bytes(v.try_into().expect("8 bytes"));
            originals[e].entry(word).or_default().push((q, v));
        }
        Ok(())
    }

    /// The FETCH_ADDs of 1 on a word found n consecutive values, each once, those of one QP in their order.
    fn words(&self, originals: [HashMap<u64, Vec<(usize, u64)>>; 2]) -> Result<(), String> {
        for (e, words) in originals.into_iter().enumerate() {
            for (word, found) in words {
                let end = &self.want[1 - e][8 * word as usize..][..8];
                let end = u64::from_le_bytes(end.try_into().expect("8 bytes"));
                let begin = end.wrapping_sub(found.len() as u64);
                let mut seen: Vec<u64> = found.iter().map(|f| f.1.wrapping_sub(begin)).collect();
                let ordered = (0..RC).all(|q| {
                    let of: Vec<u64> = (found.iter().filter(|f| f.0 == q))
                        .map(|f| f.1.wrapping_sub(begin))
                        .collect();
                    of.windows(2).all(|w| w[0] < w[1])
                });
                seen.sort_unstable();
                if !ordered || seen.iter().enumerate().any(|(k, v)| *v != k as u64) {
                    return Err(format!("card {e}, word {word} from {begin:#x}: {found:x?}"));
                }
            }
        }
        Ok(())
    }

    fn memory(&mut self) -> Result<(), String> {
        for e in 0..2 {
            for q in 0..QPS {
                // What RC moves is known, but the model has to be emptied.
                let placed = self.w.placed(e, q);
                for (target, bytes) in placed.into_iter().filter(|_| q >= UC) {
                    let at = match target {
                        Target::Memory { va, .. } => va - self.p.ends[e].buf,
                        Target::Recv { wqe, offset } => Self::slot(q, wqe) + offset,
                        Target::Local { .. } => return Err("READ without a connection".into()),
                    };
                    self.want[e][at as usize..][..bytes.len()].copy_from_slice(&bytes);
                }
            }
            let got = self.p.read(e, 0, BUF as usize);
            for n in 0..RECVS {
                // The IP header of a datagram is looked at in test `ud`.
                let at = Self::slot(UD, n) as usize;
                self.want[e][at..at + 40].copy_from_slice(&got[at..at + 40]);
            }
            if got != self.want[e] {
                let at = (0..BUF as usize).find(|k| got[*k] != self.want[e][*k]);
                let at = at.expect("they differ");
                return Err(format!(
                    "card {e}: byte {at:#x} is {:#x}, not {:#x}",
                    got[at], self.want[e][at]
                ));
            }
        }
        Ok(())
    }

    /// Windows that a message of the peer has ended.
    pub fn invalidated(&self) -> u64 {
        self.invalidated
    }

    /// Cycles that the rounds took, without the silence that was skipped.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Frames lost, duplicated, reordered and damaged by the wire; packets sent again.
    pub fn faults(&mut self) -> ([u64; 4], u64) {
        let s = self.p.sim.fabric.stats;
        let again = (0..2).map(|e| self.p.sim.nodes[e].counter(Ctr::tx_retransmits));
        let again = again.sum();
        ([s.lost, s.duplicated, s.reordered, s.corrupted], again)
    }
}
