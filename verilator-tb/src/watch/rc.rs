//! RC: lock-step with the reference model.

use super::{
    unreliable::{effect, Open},
    Effect,
};
use metaroce_protocol::{
    model::{Action, Memory, QpConfig, RecvWr, Requester, Responder, SendOp, SendWr, Tx},
    DropReason, Msn, PacketRepr, Psn, Syndrome,
};
use std::collections::{HashMap, HashSet, VecDeque};

/// One direction: requests of one QP and the answers of its peer.
/// READs and atomics that wait for their answer at the card, at most: what comes beyond is dropped without effect, and a NAK asks for it again.
const RING: usize = 16;

/// How an error begins that is none of the card: it dropped a request for want of room, which the models can't know.
pub const NO_ROOM: &str = "no room for a READ or atomic";

pub struct Flow {
    cfg: QpConfig,
    /// Requester and responder without any delay between them: what is sent, in order.
    ideal: (Requester, Responder),
    expected: VecDeque<Tx>,
    next: Psn,
    /// The responder that sees what the card saw.
    model: Responder,
    /// States (last PSN, MSN) that an ACK may name, the first is the one last named.
    states: VecDeque<(Psn, Msn)>,
    naks: VecDeque<(Psn, Syndrome, Msn)>,
    /// MSNs that the model's READ responses carried.
    reads: HashMap<u32, Vec<Msn>>,
    /// READs and atomics that came and are not answered whole, by their last PSN; and those that came when as many as a ring holds were waiting.
    waiting: VecDeque<u32>,
    no_room: HashSet<u32>,
    /// The requester that is told what the card sent, and sees the responses that the card saw.
    follow: Requester,
}

impl Flow {
    pub fn new(cfg: QpConfig) -> Flow {
        let peer = cfg.mirrored();
        Flow {
            cfg,
            ideal: (Requester::new(cfg), Responder::new(peer)),
            expected: VecDeque::new(),
            next: cfg.sq_psn,
            model: Responder::new(peer),
            states: VecDeque::from([(cfg.sq_psn.sub(1), Msn::new(0))]),
            naks: VecDeque::new(),
            reads: HashMap::new(),
            waiting: VecDeque::new(),
            no_room: HashSet::new(),
            follow: Requester::new(QpConfig {
                // Retries are the card's affair.
                retry_cnt: u8::MAX,
                ..cfg
            }),
        }
    }

    /// Returns the local operations that begin.
    pub fn post(&mut self, wr: SendWr) -> Vec<SendOp> {
        let mut out = vec![];
        self.follow.post(wr, &mut out);
        let begun = self.locals(&mut out);
        let (rq, rs) = &mut self.ideal;
        rq.post(wr, &mut out);
        rq.local_done(true, &mut out);
        let any = RecvWr {
            wr_id: 0,
            len: 1 << 31,
        };
        rs.post(any, &mut out);
        while let Some(tx) = rq.poll_transmit(0) {
            let info = tx.packet.opcode.info().expect("the model's opcode");
            self.expected.push_back(tx);
            rs.on_packet(&tx.packet, info, tx.payload.len() as usize, &Open, &mut out);
            // What an atomic finds is not known here; the tests look at that.
            rs.atomic_done(0);
            while let Some(r) = rs.poll_transmit() {
                let info = r.packet.opcode.info().expect("the model's opcode");
                rq.on_packet(0, &r.packet, info, r.payload.len() as usize, &mut out);
            }
        }
        begun
    }

    /// Carries out the local operations in `out`; they are taken from it.
    fn locals(&mut self, out: &mut Vec<Action>) -> Vec<SendOp> {
        let mut all = vec![];
        while let Some(k) = out.iter().position(|a| matches!(a, Action::Local { .. })) {
            if let Action::Local { op, .. } = out.remove(k) {
                all.push(op);
                self.follow.local_done(true, out);
            }
        }
        all
    }

    pub fn recv(&mut self, wr: RecvWr) {
        self.model.post(wr, &mut vec![]);
    }

    /// (next PSN sent, expected PSN).
    pub fn psns(&self) -> (u32, u32) {
        (self.next.get(), self.model.epsn().get())
    }

    /// QPN of the requester.
    pub fn qpn(&self) -> u32 {
        self.cfg.qpn
    }

    pub fn pending(&self) -> usize {
        self.follow.pending()
    }

    /// The card sent a request.
    pub fn request(&mut self, p: &PacketRepr, len: usize) -> Result<Effect, String> {
        self.follow.note_sent(p.psn);
        if p.psn != self.next {
            // sent again: the checker compares it with the first time
            return Ok(Effect {
                sent_again: true,
                ..Effect::default()
            });
        }
        let Some(tx) = self.expected.pop_front() else {
            return Err(format!("request beyond what was posted: {p:?}"));
        };
        let plain = |p: &PacketRepr| PacketRepr {
            ack_req: false,
            ..*p
        };
        if plain(p) != plain(&tx.packet) || len != tx.payload.len() as usize {
            return Err(format!("sent {p:?} with {len} bytes, the model {tx:?}"));
        }
        self.next = match p.ext.reth.filter(|_| p.opcode.0 == 0x0c) {
            Some(r) => p.psn.add(self.cfg.mtu.packets(r.dma_len as u64)),
            None => p.psn.add(1),
        };
        Ok(Effect::default())
    }

    /// The peer's card has taken a request.
    pub fn arrived(&mut self, p: &PacketRepr, len: usize, keys: &dyn Memory) -> Effect {
        let info = p.opcode.info().expect("it was checked");
        let mut out = vec![];
        self.model.on_packet(p, info, len, keys, &mut out);
        self.model.atomic_done(0);
        let e = effect(out);
        self.queued(p, &e);
        let now = (self.model.epsn().sub(1), self.model.msn());
        if self.states.back() != Some(&now) {
            self.states.push_back(now);
        }
        if self.reads.len() > 1 << 16 {
            // Nobody asks again for what is so long ago.
            let epsn = self.model.epsn();
            self.reads
                .retain(|psn, _| epsn.since(Psn::new(*psn)) < 1 << 15);
        }
        while let Some(tx) = self.model.poll_transmit() {
            let Some(a) = tx.packet.ext.aeth else {
                continue;
            };
            if tx.packet.opcode.0 != 0x11 {
                self.reads
                    .entry(tx.packet.psn.get())
                    .or_default()
                    .push(a.msn);
            } else if !matches!(a.syndrome, Syndrome::Ack { .. }) {
                self.naks.push_back((tx.packet.psn, a.syndrome, a.msn));
            }
        }
        e
    }

    /// Keeps account of the ring of READs and atomics, as far as the wire shows it: it is at most as full as it seems.
    fn queued(&mut self, p: &PacketRepr, e: &Effect) {
        let len = p.ext.reth.map_or(8, |r| r.dma_len);
        let asks = matches!(p.opcode.0, 0x0C | 0x13 | 0x14);
        if !asks || !matches!(e.drop, None | Some(DropReason::Duplicate)) {
            return;
        }
        if self.waiting.len() >= RING && e.drop.is_none() {
            self.no_room.insert(p.psn.get());
        }
        let packets = self.cfg.mtu.packets(len.into());
        self.waiting.push_back(p.psn.add(packets - 1).get());
    }

    /// A request came when the card may have had no room for it.
    pub fn crowded(&self) -> bool {
        !self.no_room.is_empty()
    }

    /// The card has taken a response.
    pub fn answered(&mut self, p: &PacketRepr, len: usize) -> Effect {
        let info = p.opcode.info().expect("it was checked");
        let mut out = vec![];
        self.follow.on_packet(0, p, info, len, &mut out);
        let locals = self.locals(&mut out);
        Effect {
            locals,
            ..effect(out)
        }
    }

    /// The peer's card sent a response.
    pub fn response(&mut self, p: &PacketRepr) -> Result<Effect, String> {
        let Some(a) = p.ext.aeth else {
            return Ok(Effect::default());
        };
        let is_read = p.opcode.0 != 0x11;
        if is_read {
            let last = matches!(p.opcode.0, 0x0F | 0x10 | 0x12);
            let at = self.waiting.iter().position(|w| last && *w == p.psn.get());
            if let Some(k) = at {
                self.waiting.drain(..=k);
            }
            let known = self.reads.get(&p.psn.get());
            // A duplicate is answered with the MSN of the first time or of now.
            return if known.is_some_and(|k| k.contains(&a.msn)) {
                Ok(Effect::default())
            } else {
                Err(format!(
                    "READ response {:?} MSN {:?}, the model {known:?}",
                    p.psn, a.msn
                ))
            };
        }
        if let Syndrome::Ack { credit } = a.syndrome {
            if credit != 31 {
                return Err(format!("ACK with credits {credit}"));
            }
            let Some(k) = self.states.iter().position(|s| *s == (p.psn, a.msn)) else {
                let (f, b) = (self.states.front(), self.states.back());
                return Err(format!(
                    "ACK {:?} MSN {:?} is no state of the model: {f:?}..{b:?}",
                    p.psn, a.msn
                ));
            };
            self.states.drain(..k);
            return Ok(Effect::default());
        }
        let nak = (p.psn, a.syndrome, a.msn);
        let Some(k) = self.naks.iter().position(|n| *n == nak) else {
            if self.no_room.contains(&p.psn.get()) {
                return Err(format!("{NO_ROOM}: {nak:?}"));
            }
            return Err(format!("{nak:?} is no NAK of the model: {:?}", self.naks));
        };
        self.naks.drain(..=k);
        Ok(Effect::default())
    }
}
