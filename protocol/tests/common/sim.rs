//! Two model QPs with real memories and a channel that loses, repeats, delays and damages frames.

use super::Rng;
use metaroce_protocol::eth::EthRepr;
use metaroce_protocol::ip::{IpRepr, Ipv4Repr};
use metaroce_protocol::model::*;
use metaroce_protocol::udp::UdpRepr;
use metaroce_protocol::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub const BASE: u64 = 0x10_0000;
pub const RKEY: u32 = 0x7700;
/// Keys of windows: the low byte is free.
pub const WINDOW: u32 = 0x8800;
const DELAY: u64 = 2_000;
const TICK: u64 = 100;

/// Rates in parts per million of frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u64,
    pub duplicate: u64,
    pub reorder: u64,
    pub corrupt: u64,
}

pub struct Host {
    pub qp: Qp,
    pub memory: Vec<u8>,
    pub mrs: Windows,
    /// Binds a window anew as soon as a SEND has ended its binding.
    pub rebind: bool,
    /// By ordinal of the send work request: what is sent, or where a READ lands.
    pub local: Vec<Vec<u8>>,
    /// By ordinal of the receive work request.
    pub receive: Vec<Vec<u8>>,
    /// Completions and other effects, without placements.
    pub log: Vec<Action>,
}

impl Host {
    pub fn new(cfg: QpConfig, memory: usize) -> Self {
        Host {
            qp: Qp::new(cfg),
            memory: vec![0; memory],
            mrs: Windows::new(MrTable(vec![region(RKEY, 0, memory as u64)])),
            rebind: false,
            local: Vec::new(),
            receive: Vec::new(),
            log: Vec::new(),
        }
    }
    pub fn post(&mut self, wr: SendWr, data: Vec<u8>) {
        self.local.push(data);
        let mut out = Vec::new();
        self.qp.post_send(wr, &mut out);
        self.effects(out, &[]);
    }
    pub fn post_recv(&mut self, wr: RecvWr) {
        self.receive.push(vec![0; wr.len as usize]);
        self.qp.post_recv(wr, &mut self.log);
    }
    fn fetch(&self, s: Source) -> &[u8] {
        match s {
            Source::None => &[],
            Source::Wqe { wqe, offset, len } => {
                &self.local[wqe as usize][offset as usize..][..len as usize]
            }
            Source::Memory { va, rkey, len } => {
                assert!(is_key(rkey));
                &self.memory[(va - BASE) as usize..][..len as usize]
            }
        }
    }
    fn place(&mut self, target: Target, data: &[u8]) {
        let dst = match target {
            Target::Memory { va, rkey } => {
                let mine = self.mrs.seen_by(self.qp.config().qpn);
                assert!(mine.check(rkey, va, data.len() as u64, Access::RemoteWrite));
                &mut self.memory[(va - BASE) as usize..]
            }
            Target::Recv { wqe, offset } => &mut self.receive[wqe as usize][offset as usize..],
            Target::Local { wqe, offset } => &mut self.local[wqe as usize][offset as usize..],
        };
        dst[..data.len()].copy_from_slice(data);
    }
    pub fn packet(&mut self, now: u64, p: &PacketRepr, payload: &[u8]) {
        let mut out = Vec::new();
        let mine = self.mrs.seen_by(self.qp.config().qpn);
        self.qp.on_packet(now, p, payload.len(), &mine, &mut out);
        self.effects(out, payload);
    }
    /// Carries out what the QP asks for.
    fn effects(&mut self, out: Vec<Action>, payload: &[u8]) {
        let qpn = self.qp.config().qpn;
        let mut todo = VecDeque::from(out);
        while let Some(a) = todo.pop_front() {
            match a {
                Action::Place { target, len } => {
                    assert_eq!(len as usize, payload.len());
                    self.place(target, payload);
                }
                Action::Atomic(w) => {
                    let at = (w.va - BASE) as usize;
                    let word: [u8; 8] = self.memory[at..at + 8].try_into().unwrap();
                    let old = u64::from_le_bytes(word);
                    self.memory[at..at + 8].copy_from_slice(&w.result(old).to_le_bytes());
                    self.qp.responder.atomic_done(old);
                    self.log.push(a);
                }
                Action::AtomicResult { wqe, original } => {
                    self.local[wqe as usize].copy_from_slice(&original.to_le_bytes());
                }
                Action::Invalidate { rkey } => {
                    let old = self.mrs.clone();
                    assert!(self.mrs.invalidate(qpn, rkey));
                    if self.rebind {
                        self.mrs = old;
                    }
                    self.log.push(a);
                }
                Action::Local { op, .. } => {
                    self.log.push(a);
                    let ok = match op {
                        SendOp::Bind { lkey, window } => self.mrs.bind(qpn, lkey, window),
                        SendOp::LocalInv { rkey } => self.mrs.invalidate(qpn, rkey),
                        _ => panic!("{op:?} is not local"),
                    };
                    let mut more = Vec::new();
                    self.qp.local_done(ok, &mut more);
                    todo.extend(more);
                }
                _ => self.log.push(a),
            }
        }
    }
    /// (wr_id, status) of send completions, in order.
    pub fn sent(&self) -> Vec<(u64, Status)> {
        self.log
            .iter()
            .filter_map(|a| match a {
                Action::SendComplete { wr_id, status, .. } => Some((*wr_id, *status)),
                _ => None,
            })
            .collect()
    }
    /// (wr_id, status, bytes) of receive completions, in order.
    pub fn received(&self) -> Vec<(u64, Status, u64)> {
        self.log
            .iter()
            .filter_map(|a| match a {
                Action::RecvComplete {
                    wr_id,
                    status,
                    byte_len,
                    ..
                } => Some((*wr_id, *status, *byte_len)),
                _ => None,
            })
            .collect()
    }
    pub fn dropped(&self, r: DropReason) -> usize {
        self.log.iter().filter(|a| **a == Action::Drop(r)).count()
    }
}

/// All rights on `[BASE + at, BASE + at + len)`.
pub fn region(rkey: u32, at: u64, len: u64) -> MemoryRegion {
    MemoryRegion {
        rkey,
        base: BASE + at,
        len,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
    }
}

fn is_key(rkey: u32) -> bool {
    rkey == RKEY || rkey >> 8 == WINDOW >> 8
}

/// What a test does to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Lose,
    /// A second copy comes this many ns later.
    Twice(u64),
    /// It comes this many ns later, behind others.
    Late(u64),
    /// This bit (modulo the length, from the BTH on) is flipped.
    Hurt(usize),
}

type Choose = Box<dyn FnMut(usize, u64, &PacketRepr) -> Fate>;
type Lose = Box<dyn FnMut(usize, u64, &PacketRepr) -> bool>;
type InFlight = Reverse<(u64, u64, usize, Vec<u8>)>;

pub struct Sim {
    pub now: u64,
    pub hosts: [Host; 2],
    pub faults: Faults,
    pub checker: WireChecker,
    pub rng: Rng,
    /// Called with (side, frame number of that side, packet): true loses the frame.
    pub lose: Lose,
    /// The same, with more to choose from.
    pub fate: Choose,
    pub trace: Vec<(usize, PacketRepr, usize)>,
    /// Frames as transmitted, if kept.
    pub raw: Option<Vec<(usize, Vec<u8>)>>,
    counts: [u64; 2],
    serial: u64,
    wire: BinaryHeap<InFlight>,
}

pub fn side(i: usize) -> Side {
    [Side::A, Side::B][i]
}

/// The headers that host `i` puts around a packet.
pub fn frame(i: usize, packet: PacketRepr, payload: &[u8]) -> Vec<u8> {
    let (me, peer) = (i as u8 + 1, 2 - i as u8);
    let r = FrameRepr {
        eth: EthRepr {
            dst: [2, 0, 0, 0, 0, peer],
            src: [2, 0, 0, 0, 0, me],
            vlan: None,
        },
        ip: IpRepr::V4(Ipv4Repr {
            tos: 2,
            id: 0,
            df: true,
            ttl: 64,
            src: [10, 0, 0, me],
            dst: [10, 0, 0, peer],
        }),
        udp: UdpRepr {
            src_port: udp_port(),
            checksum: 0,
        },
        packet,
    };
    let mut b = vec![0; r.len_with(payload.len()).unwrap()];
    r.emit(payload, &mut b).unwrap();
    b
}

fn udp_port() -> u16 {
    timing::udp_source_port(0, 0x11, 0x12)
}

impl Sim {
    pub fn new(cfg: QpConfig, memory: usize, seed: u64) -> Self {
        let peer = cfg.mirrored();
        Sim {
            now: 0,
            hosts: [Host::new(cfg, memory), Host::new(peer, memory)],
            faults: Faults::default(),
            checker: WireChecker::new(&cfg, &peer),
            rng: Rng::new(seed),
            lose: Box::new(|_, _, _| false),
            fate: Box::new(|_, _, _| Fate::Pass),
            trace: Vec::new(),
            raw: None,
            counts: [0; 2],
            serial: 0,
            wire: BinaryHeap::new(),
        }
    }

    fn transmit(&mut self, i: usize, tx: Tx) {
        let payload = self.hosts[i].fetch(tx.payload).to_vec();
        let bytes = frame(i, tx.packet, &payload);
        self.trace.push((i, tx.packet, payload.len()));
        if let Some(raw) = &mut self.raw {
            raw.push((i, bytes.clone()));
        }
        if let Err(e) = self.checker.sent(side(i), &bytes) {
            for t in self.trace.iter().rev().take(12).rev() {
                eprintln!("{t:?}");
            }
            panic!("the checker refuses a frame of the model: {e:?}");
        }
        let number = self.counts[i];
        self.counts[i] += 1;
        let f = self.faults;
        if (self.lose)(i, number, &tx.packet) || self.rng.chance(f.loss) {
            return;
        }
        let fate = (self.fate)(i, number, &tx.packet);
        let mut copy = |at, bytes: &[u8]| {
            self.serial += 1;
            self.wire
                .push(Reverse((at, self.serial, i, bytes.to_vec())));
        };
        let at = self.now + DELAY;
        match fate {
            Fate::Pass => {}
            Fate::Lose => return,
            Fate::Twice(by) => copy(at + by, &bytes),
            Fate::Late(by) => return copy(at + by, &bytes),
            Fate::Hurt(bit) => {
                let mut b = bytes;
                let bit = bit % ((b.len() - 42) * 8);
                b[42 + bit / 8] ^= 1 << (bit % 8);
                return copy(at, &b);
            }
        }
        let copies = 1 + u64::from(self.rng.chance(f.duplicate));
        for _ in 0..copies {
            let mut b = bytes.clone();
            let mut at = self.now + DELAY;
            if self.rng.chance(f.reorder) {
                at += self.rng.below(20 * TICK);
            }
            if self.rng.chance(f.corrupt) {
                for _ in 0..1 + self.rng.below(4) {
                    let bit = self.rng.below(b.len() as u64 * 8) as usize;
                    b[bit / 8] ^= 1 << (bit % 8);
                }
            }
            self.serial += 1;
            self.wire.push(Reverse((at, self.serial, i, b)));
        }
    }

    /// One instant: arrivals, timers, one packet from each side. False if nothing is left to do.
    pub fn step(&mut self) -> bool {
        while self.wire.peek().is_some_and(|Reverse(f)| f.0 <= self.now) {
            let Reverse((_, _, from, b)) = self.wire.pop().unwrap();
            if let Ok(f) = Frame::new_checked(&b) {
                self.checker.delivered(side(from), &b);
                let p = PacketRepr::parse(&f.roce);
                self.hosts[1 - from].packet(self.now, &p, f.payload());
            }
        }
        let mut busy = false;
        for i in 0..2 {
            let h = &mut self.hosts[i];
            if h.qp.next_deadline().is_some_and(|t| t <= self.now) {
                h.qp.on_timer(self.now, &mut h.log);
            }
            if let Some(tx) = h.qp.poll_transmit(self.now) {
                self.transmit(i, tx);
                busy = true;
            }
        }
        if busy {
            self.now += TICK;
            return true;
        }
        let next = self.hosts.iter().filter_map(|h| h.qp.next_deadline());
        let next = next.chain(self.wire.peek().map(|Reverse(f)| f.0)).min();
        match next {
            Some(t) => self.now = t.max(self.now + 1),
            None => return false,
        }
        true
    }

    /// Until nothing moves.
    pub fn run(&mut self) {
        let mut steps = 0u64;
        while self.step() {
            steps += 1;
            assert!(steps < 5_000_000, "no end at {} ns", self.now);
        }
    }

    /// Packets of one side with this opcode.
    pub fn count(&self, i: usize, op: Opcode) -> usize {
        self.trace
            .iter()
            .filter(|(s, p, _)| *s == i && p.opcode == op)
            .count()
    }
}
