//! One fault at a time, everywhere: for every operation, message length and kind of fault, a case at every frame that
//! the message makes, in both directions, alone and with a message behind it. Two cards, their QPs used again from
//! case to case, with the reference models beside them ([`Watch`]).
//!
//! After each case: every completion once and in order with the right status, atomics executed once, all memory of
//! both hosts as it must be, every counter of both cards equal to the wire.

use crate::{
    fabric::{Fate, Frame},
    pair::{
        window::{self, Window},
        Pair,
    },
    rng::Rng,
    script::{Conn, Cqe, UdDest, Wr},
    sim::SimConfig,
    watch::{received, Watch},
};
use metaroce_hdl_spec::{table::qp_type, wqe::op};
use metaroce_protocol::model::Target;
use std::sync::{Arc, Mutex};

/// An operation on a kind of QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub qp_type: u8,
    pub op: u8,
}

/// What there is.
pub const KINDS: [Kind; 14] = {
    const fn k(qp_type: u8, op: u8) -> Kind {
        Kind { qp_type, op }
    }
    [
        k(qp_type::RC, op::SEND),
        k(qp_type::RC, op::SEND_IMM),
        k(qp_type::RC, op::SEND_INV),
        k(qp_type::RC, op::WRITE),
        k(qp_type::RC, op::WRITE_IMM),
        k(qp_type::RC, op::READ),
        k(qp_type::RC, op::CMP_SWAP),
        k(qp_type::RC, op::FETCH_ADD),
        k(qp_type::UC, op::SEND),
        k(qp_type::UC, op::SEND_IMM),
        k(qp_type::UC, op::WRITE),
        k(qp_type::UC, op::WRITE_IMM),
        k(qp_type::UD, op::SEND),
        k(qp_type::UD, op::SEND_IMM),
    ]
};

/// What happens to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Lose,
    /// A copy comes right behind it.
    Twice,
    /// A copy comes when the message is over.
    TwiceLate,
    /// Behind the next few frames.
    Swap,
    /// Behind all frames of the message, before any timeout.
    Late,
    /// After the timeout.
    VeryLate,
    /// A bit behind the UDP header is flipped.
    Hurt,
}

pub const ACTS: [Act; 7] = [
    Act::Lose,
    Act::Twice,
    Act::TwiceLate,
    Act::Swap,
    Act::Late,
    Act::VeryLate,
    Act::Hurt,
];

/// A case; `Display` is what replays it in a person's head.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub kind: Kind,
    pub packets: u32,
    /// A short message of the same kind is posted right behind. Before a SEND with invalidate always goes a WRITE
    /// through its window.
    pub followed: bool,
    /// The frame that is hit: requests (0) or answers (1), and its number in that direction; None: none.
    pub hit: Option<(usize, usize)>,
    pub act: Act,
}

const MTU: u32 = 256;
/// Timeout code: 65 us.
const TIMEOUT: u8 = 4;

// Places in both buffers.
const SOURCE: u64 = 0;
const SOURCE2: u64 = 0x1000;
const TARGET: u64 = 0x2000;
const TARGET2: u64 = 0x3000;
const WORD: u64 = 0x4000;
const THROUGH: u64 = 0x4800;
const SLOTS: u64 = 0x5000;
const SLOT: u64 = 0x1000;
const RECVS: u64 = 16;
/// Receives that are posted at any time.
const AHEAD: u64 = 4;
const BUF: u64 = SLOTS + SLOT * RECVS * 3;

#[derive(Default)]
struct Armed {
    /// Frames of requests and answers since it was armed.
    seen: [usize; 2],
    from: usize,
    hit: Option<(usize, usize)>,
    act: Option<Act>,
    /// Chooses the bit.
    salt: usize,
}

impl Armed {
    fn fate(&mut self, port: usize, f: &Frame) -> Fate {
        let way = (port != self.from) as usize;
        let n = self.seen[way];
        self.seen[way] += 1;
        if self.hit != Some((way, n)) {
            return Fate::Pass;
        }
        match self.act {
            None => Fate::Pass,
            Some(Act::Lose) => Fate::Lose,
            Some(Act::Twice) => Fate::Twice(1_000),
            Some(Act::TwiceLate) => Fate::Twice(8_000_000),
            Some(Act::Swap) => Fate::Late(100_000),
            Some(Act::Late) => Fate::Late(8_000_000),
            Some(Act::VeryLate) => Fate::Late(300_000_000),
            Some(Act::Hurt) => {
                // 14 Ethernet, 20 IPv4, 8 UDP; BTH byte 4 is not covered by the ICRC.
                let n = f.data.len() - 42;
                let byte = match self.salt % n {
                    4 => 0,
                    k => k,
                };
                Fate::Hurt((42 + byte) * 8 + self.salt / n % 8)
            }
        }
    }
}

/// Two cards with an RC, a UC and a UD QP each.
pub struct Bench {
    p: Pair,
    w: Watch,
    armed: Arc<Mutex<Armed>>,
    rng: Rng,
    /// What both buffers must hold.
    want: [Vec<u8>; 2],
    /// Receives posted and completed, per end and QP.
    posted: [[u64; 3]; 2],
    taken: [[u64; 3]; 2],
    /// Of each end, for the message under test and the follower; bound during a case only.
    windows: [[Window; 2]; 2],
    cases: u64,
}

impl Bench {
    pub fn new(seed: u64) -> Bench {
        let cfg = SimConfig::pair(Default::default(), seed);
        let conn = |qp_type| Conn {
            mtu: 1,
            timeout: TIMEOUT,
            // On its way through zero.
            psn: 0xFF_FF00,
            qp_type,
            ..Conn::default()
        };
        let mut p = Pair::new(&cfg, 0, BUF, &conn(qp_type::RC));
        let w = Watch::new(&mut p, &conn(qp_type::RC)).keep_placed();
        for t in [qp_type::RC, qp_type::UC, qp_type::UD] {
            // A UD QP begins at PSN 0 here, since no attribute says otherwise.
            let c = Conn {
                psn: if t == qp_type::UD { 0 } else { 0xFF_FF00 },
                ..conn(t)
            };
            for e in &mut p.ends {
                e.host.qp_type = t;
            }
            let k = p.add(&c, 8, 6);
            w.add(&p, k, &c);
        }
        let armed = Arc::new(Mutex::new(Armed::default()));
        let a = armed.clone();
        p.sim.fabric.fate = Some(Box::new(move |port, f| {
            a.lock().expect("script").fate(port, f)
        }));
        let windows = [0, 1].map(|e| {
            let lkey = window::region(&mut p, e);
            [0; 2].map(|_| Window::new(&mut p, e, lkey))
        });
        let mut rng = Rng::new(seed);
        let want = [0, 1].map(|e| {
            let b = rng.bytes(BUF as usize);
            p.fill(e, 0, &b);
            b
        });
        Bench {
            p,
            w,
            armed,
            rng,
            want,
            posted: Default::default(),
            taken: Default::default(),
            windows,
            cases: 0,
        }
    }

    fn q(k: Kind) -> usize {
        match k.qp_type {
            qp_type::RC => 0,
            qp_type::UC => 1,
            _ => 2,
        }
    }

    /// Offset of receive `n` of a QP.
    fn slot(q: usize, n: u64) -> u64 {
        SLOTS + SLOT * (q as u64 * RECVS + n % RECVS)
    }

    fn fill(&mut self, e: usize, at: u64, data: &[u8]) {
        self.p.fill(e, at, data);
        self.want[e][at as usize..][..data.len()].copy_from_slice(data);
    }

    /// The work request of message `m` (0 the one under test, 1 the follower) of end `e`, and what it moves.
    fn message(&mut self, c: &Case, e: usize, m: usize) -> (Wr, Vec<u8>) {
        let atomic = c.kind.op == op::CMP_SWAP || c.kind.op == op::FETCH_ADD;
        let len = match m {
            _ if atomic => 8,
            0 => (c.packets - 1) * MTU + 1 + self.rng.below(MTU as u64) as u32,
            _ => 1 + self.rng.below(MTU as u64) as u32,
        };
        let shift = self.rng.below(64);
        let (src, dst) = ([SOURCE, SOURCE2][m] + shift, [TARGET, TARGET2][m] + shift);
        let data = self.rng.bytes(len as usize);
        let imm = self.rng.next() as u32;
        let read = c.kind.op == op::READ;
        if atomic {
            // The second one finds what the first one left.
            if m == 0 {
                self.fill(1 - e, WORD, &data);
            }
            let word = &self.want[1 - e][WORD as usize..][..8];
            let old = u64::from_le_bytes(word.try_into().expect("8 bytes"));
            let swap = self.rng.next();
            let compare = match self.rng.below(2) {
                _ if c.kind.op == op::FETCH_ADD => 0,
                0 => old,
                _ => !old,
            };
            let new = match c.kind.op {
                op::FETCH_ADD => old.wrapping_add(swap),
                _ if compare == old => swap,
                _ => old,
            };
            self.want[1 - e][WORD as usize..][..8].copy_from_slice(&new.to_le_bytes());
            let at = TARGET & !7;
            let at = at + 64 * m as u64;
            self.want[e][at as usize..][..8].copy_from_slice(&old.to_le_bytes());
            let wr = Wr {
                swap,
                compare,
                ..self.p.rdma(e, c.kind.op, at, WORD, 8)
            };
            return (wr, data);
        }
        self.fill(if read { 1 - e } else { e }, src, &data);
        let mut wr = match c.kind.op {
            op::READ => self.p.rdma(e, op::READ, dst, src, len),
            op::WRITE | op::WRITE_IMM => self.p.rdma(e, c.kind.op, src, dst, len),
            op::SEND_INV => self.windows[1 - e][m].ended_by(self.p.send(e, src, len, None)),
            o => self.p.send(e, src, len, (o == op::SEND_IMM).then_some(imm)),
        };
        if c.kind.op == op::WRITE_IMM {
            wr.imm = imm;
        }
        wr.solicited = c.kind.op != op::READ && self.rng.below(2) == 0;
        if c.kind.qp_type == qp_type::UD {
            let to = &self.p.sim.ids[1 - e];
            wr.ud = Some(UdDest {
                qpn: self.p.ends[1 - e].qps[2].qpn,
                qkey: Conn::default().qkey,
                mac: to.mac,
                gid: to.gids()[1],
                sgid: 1,
            });
        }
        (wr, data)
    }

    /// A WRITE through the window that the message under test will end.
    fn through(&mut self, e: usize) -> (Wr, Vec<u8>) {
        let len = 1 + self.rng.below(MTU as u64);
        let data = self.rng.bytes(len as usize);
        let (src, dst) = (THROUGH, THROUGH + self.rng.below(64));
        self.fill(e, src, &data);
        let wr = Wr {
            rkey: self.windows[1 - e][0].key,
            ..self.p.rdma(e, op::WRITE, src, dst, len as u32)
        };
        (wr, data)
    }

    /// A local operation of end `e` on its RC QP, with nothing else under way there.
    fn local(&mut self, e: usize, wr: &Wr) -> Result<(), String> {
        self.w.post(e, 0, wr);
        let index = self.p.post(e, 0, wr);
        let k = self.p.wait(e, 100_000);
        match (k.status, k.index, k.opcode) == (0, index, wr.op) {
            true => Ok(()),
            false => Err(format!("{k:?} of {wr:?}")),
        }
    }

    /// The card at end `e` has completed what it has: where a window has ended, the WRITE through it is in memory. Then the
    /// host puts other bytes there and binds the window again at once under the same key, which neither what is
    /// sent again nor what is still on its way must notice.
    fn ended(
        &mut self,
        e: usize,
        written: &(u64, Vec<u8>),
        done: &mut Vec<Cqe>,
        bound: &mut Vec<(u16, bool)>,
    ) -> Result<(), String> {
        while let Some(k) = self.p.poll(e) {
            if !k.is_recv {
                let open = bound.iter_mut().find(|b| !b.1);
                match open {
                    Some(b) if (k.index, k.opcode, k.status) == (b.0, op::BIND_MW, 0) => b.1 = true,
                    _ => return Err(format!("window of end {e}: {k:?}")),
                }
                continue;
            }
            done.push(k);
            let Some(key) = k.inv else { continue };
            let m = self.windows[e].iter().position(|w| w.key == key);
            let m = m.ok_or_else(|| format!("no window has that key: {k:?}"))?;
            if m == 0 {
                let (at, data) = written;
                if self.p.read(e, *at, data.len()) != *data {
                    return Err("the window has ended before the WRITE through it".into());
                }
                self.apply(0)?;
                let other = self.rng.bytes(data.len());
                self.fill(e, *at, &other);
            }
            let wr = self.windows[e][m].bind();
            self.w.post(e, 0, &wr);
            bound.push((self.p.post(e, 0, &wr), false));
        }
        Ok(())
    }

    /// Runs a case to silence and checks everything. Returns the frames seen: requests, answers.
    pub fn run(&mut self, c: &Case) -> [usize; 2] {
        match self.try_run(c) {
            Ok(n) => n,
            Err(e) => panic!(
                "case {}, {c:?}: {e}\ncounters {:?}",
                self.cases,
                self.p.counters()
            ),
        }
    }

    fn try_run(&mut self, c: &Case) -> Result<[usize; 2], String> {
        self.cases += 1;
        let e = (self.cases & 1) as usize;
        let q = Self::q(c.kind);
        let inv = c.kind.op == op::SEND_INV;
        let windows = if inv { 1 + c.followed as usize } else { 0 };
        for m in 0..windows {
            self.windows[1 - e][m].turn();
            let wr = self.windows[1 - e][m].bind();
            self.local(1 - e, &wr)?;
        }
        *self.armed.lock().expect("script") = Armed {
            from: e,
            hit: c.hit,
            act: Some(c.act),
            salt: self.rng.below(1 << 20) as usize,
            ..Armed::default()
        };
        let ud = q == 2;
        while self.posted[1 - e][q] < self.taken[1 - e][q] + AHEAD {
            let at = Self::slot(q, self.posted[1 - e][q]);
            let r = &self.p.ends[1 - e];
            let sge = (r.buf + at, SLOT as u32, r.key);
            self.p.recv(1 - e, q, &[sge]);
            self.w.recv(1 - e, q, SLOT);
            self.posted[1 - e][q] += 1;
        }
        let mut messages = vec![];
        let mut wrs = vec![];
        let mut written = (0, vec![]);
        if inv {
            let (wr, data) = self.through(e);
            written = (wr.remote_va - self.p.ends[1 - e].buf, data.clone());
            wrs.push((wr, data));
        }
        for m in 0..1 + c.followed as usize {
            wrs.push(self.message(c, e, m));
        }
        for (wr, data) in wrs {
            self.w.post(e, q, &wr);
            let index = self.p.post(e, q, &wr);
            messages.push((index, wr, data));
        }
        let t0 = self.p.sim.nodes[0].cycles;
        let (mut early, mut bound) = (vec![], vec![]);
        while self.p.sim.step_or_skip() {
            if inv {
                self.ended(1 - e, &written, &mut early, &mut bound)?;
            }
            if self.p.sim.nodes[0].cycles - t0 > 400_000 {
                return Err("no silence".into());
            }
        }
        if let Some(m) = self.w.error() {
            return Err(m);
        }
        // Completions at both ends.
        for (index, wr, _) in &messages {
            let Some(k) = self.p.poll(e) else {
                return Err(format!("no completion of WQE {index}"));
            };
            if (k.status, k.index, k.opcode, k.is_recv) != (0, *index, wr.op, false) {
                return Err(format!("completion of WQE {index} is {k:?}"));
            }
        }
        let mut done = vec![];
        while let Some(k) = self.p.poll(1 - e) {
            early.push(k);
        }
        for k in early {
            let model = self.w.received(1 - e, q);
            if !k.is_recv || k.status != 0 || model != Some(received(&k)) {
                return Err(format!("{k:?}, the model {model:?}"));
            }
            done.push((self.taken[1 - e][q], k));
            self.taken[1 - e][q] += 1;
        }
        if let Some(k) = self.p.poll(e) {
            return Err(format!("one completion too many: {k:?}"));
        }
        if let Some(r) = self.w.received(1 - e, q) {
            return Err(format!("the model received {r:?}, the card nothing"));
        }
        if bound.len() != windows || bound.iter().any(|b| !b.1) {
            return Err(format!("windows bound again: {bound:?}"));
        }
        if self.w.pending(e, q) != 0 {
            return Err("the model has not completed all".into());
        }
        self.memory(c, e, q)?;
        // Payload and number of messages.
        let recv = matches!(
            c.kind.op,
            op::SEND | op::SEND_IMM | op::SEND_INV | op::WRITE_IMM
        );
        messages.retain(|(_, wr, _)| wr.op == c.kind.op);
        let rc = c.kind.qp_type == qp_type::RC;
        let head = if ud { 40 } else { 0 };
        let mut of = vec![];
        for (n, k) in &done {
            let found = messages.iter().position(|(_, wr, data)| {
                let at = match c.kind.op {
                    op::WRITE_IMM => (wr.remote_va - self.p.ends[1 - e].buf) as usize,
                    _ => Self::slot(q, *n) as usize + head,
                };
                let imm = matches!(wr.op, op::SEND_IMM | op::WRITE_IMM).then_some(wr.imm);
                k.length as usize == data.len() + head
                    && k.imm == imm
                    && self.want[1 - e][at..][..data.len()] == data[..]
            });
            of.push(found.ok_or_else(|| format!("{k:?} is none of the messages"))?);
        }
        let all: Vec<usize> = (0..messages.len()).collect();
        if rc || c.hit.is_none() {
            if recv && of != all {
                return Err(format!("messages received: {of:?}"));
            }
            for (_, wr, data) in &messages {
                let (end, va) = match c.kind.op {
                    op::READ => (e, wr.sges[0].0),
                    op::WRITE | op::WRITE_IMM => (1 - e, wr.remote_va),
                    _ => continue,
                };
                let at = (va - self.p.ends[end].buf) as usize;
                if self.want[end][at..][..data.len()] != data[..] {
                    return Err("payload differs".into());
                }
            }
        } else if recv && (of.len() > messages.len() + 1 || (c.followed && !of.contains(&1))) {
            // A fault takes one message, and repeats at most one; the last one may be what is hit.
            let last = c.hit.is_some_and(|(_, n)| n as u32 + 1 >= c.packets);
            if of.len() > messages.len() + 1 || !last {
                return Err(format!("messages received: {of:?}"));
            }
        }
        // Nothing but this ends what was bound again.
        for m in 0..windows {
            let wr = self.windows[1 - e][m].end();
            self.local(1 - e, &wr)?;
        }
        self.w.compare(&mut self.p)?;
        Ok(self.armed.lock().expect("script").seen)
    }

    /// Applies what the model placed to what memory must be.
    fn apply(&mut self, q: usize) -> Result<(), String> {
        for end in 0..2 {
            for (target, bytes) in self.w.placed(end, q) {
                let at = match target {
                    Target::Memory { va, .. } => va - self.p.ends[end].buf,
                    Target::Recv { wqe, offset } => Self::slot(q, wqe) + offset,
                    // By which of the two READs is in the offsets of their buffers: see `message`.
                    Target::Local { wqe, offset } => {
                        let slot = wqe & ((1 << self.p.ends[end].qps[q].sq_log) - 1);
                        self.sge(end, q, slot)? + offset
                    }
                };
                self.want[end][at as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    /// Compares all of both memories with what they must be by the model.
    fn memory(&mut self, c: &Case, e: usize, q: usize) -> Result<(), String> {
        self.apply(q)?;
        for end in 0..2 {
            let mut got = self.p.read(end, 0, BUF as usize);
            if q == 2 && end == 1 - e {
                // The header area is not the model's: it is looked at in test `ud`.
                for n in 0..RECVS {
                    let at = Self::slot(q, n) as usize;
                    let head = got[at..at + 40].to_vec();
                    self.want[end][at..at + 40].copy_from_slice(&head);
                }
            }
            if let Some(at) = (0..BUF as usize).find(|k| got[*k] != self.want[end][*k]) {
                return Err(format!(
                    "card {end}: byte {at:#x} is {:#x}, not {:#x} ({c:?})",
                    got[at], self.want[end][at]
                ));
            }
            got.clear();
        }
        Ok(())
    }

    /// Offset of the local buffer of the WQE in ring slot `slot` (one unit per WQE here).
    fn sge(&mut self, e: usize, q: usize, slot: u64) -> Result<u64, String> {
        use metaroce_hdl_spec::wqe::{sq, UNIT};
        let end = &self.p.ends[e];
        let (pasid, at, buf) = (end.host.pasid, end.qps[q].sq + slot * UNIT as u64, end.buf);
        let unit = self.p.sim.mem(e).peek_vec(pasid, at, UNIT);
        let va = sq::sge0_va.get(&unit);
        va.checked_sub(buf)
            .ok_or_else(|| format!("no SGE in slot {slot}"))
    }
}

/// How much of the cases to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Lengths 1, 2 and 3 with every fault, one of the two surroundings each; 8 packets with loss.
    Short,
    /// All of 1..=8.
    Full,
}

/// Runs the cases of one kind; returns how many. `tell` gets a line now and then.
pub fn sweep(b: &mut Bench, kind: Kind, extent: Extent, mut tell: impl FnMut(String)) -> u64 {
    let atomic = kind.op == op::CMP_SWAP || kind.op == op::FETCH_ADD;
    let one = atomic || kind.qp_type == qp_type::UD;
    let lengths: &[u32] = match extent {
        _ if one => &[1],
        Extent::Short => &[1, 3, 8],
        Extent::Full => &[1, 2, 3, 4, 5, 6, 7, 8],
    };
    let mut cases = 0;
    for &packets in lengths {
        for followed in [false, true] {
            let mut c = Case {
                kind,
                packets,
                followed,
                hit: None,
                act: Act::Lose,
            };
            let frames = b.run(&c);
            cases += 1;
            for (way, n) in frames.into_iter().enumerate() {
                for (number, (k, act)) in
                    (0..n).flat_map(|i| ACTS.into_iter().enumerate().map(move |a| (i, a)))
                {
                    let half = (number + k + way) % 2 == followed as usize;
                    let short = match packets {
                        8 => followed && act == Act::Lose,
                        _ => half || one,
                    };
                    if extent == Extent::Full || short {
                        c.hit = Some((way, number));
                        c.act = act;
                        b.run(&c);
                        cases += 1;
                    }
                }
            }
            tell(format!("{kind:?}, {packets} packets: {cases} cases"));
        }
    }
    cases
}
