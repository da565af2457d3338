//! The state of the software transport, and what moves it. One thread at a time is here.
use super::clock::Clock;
use super::cq::{Cq, Effect, Eq};
use super::mem::Mrs;
use super::qp::{Half, Qp, Srq};
use super::raw::Rings;
use super::rng::Rng;
use crate::card::dma::Memory;
use metaroce_hdl_spec::cqe::{cqe, event};
use metaroce_hdl_spec::regs::{db_cq, db_eq, db_queue, doorbell, RAW_QPN_BITS};
use metaroce_hdl_spec::wqe::sq;
use metaroce_protocol::model::Action;
use metaroce_protocol::qp::QpState;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// log2 of QPs, SRQs together: the verbs above find a QP by these bits of its number.
pub const LOG_QP: u32 = 12;
pub const LOG_CQ: u32 = 10;
pub const LOG_PD: u32 = 8;
/// Packets that a QP sends before the next one has its turn.
const TURN: usize = 16;

/// The port of the card.
pub struct Port {
    pub gids: Vec<[u8; 16]>,
    pub mac: [u8; 6],
    /// Ethernet MTU in bytes.
    pub mtu: u32,
}

/// A send completion of a QP that gets no acknowledgement: it waits until the card has the frame, so that a program may end after it.
pub struct Late {
    /// What [`Rings::sent`] said behind the frame.
    frames: u16,
    cq: u16,
    qpn: u32,
    body: [u8; 64],
}

/// Objects that this process may have: MRs, QPs, CQs, PDs.
pub type Limits = [u32; 4];

pub struct Engine {
    pub rings: Rings,
    pub memory: Memory,
    pub clock: Clock,
    pub rng: Rng,
    pub port: Port,
    pub limits: Limits,
    /// What is above the bits of a QPN that we choose.
    pub qpn_high: u32,
    pub pds: Box<[bool]>,
    pub mrs: Mrs,
    pub cqs: Box<[Option<Cq>]>,
    pub eq: Option<Eq>,
    /// By the low bits of the number. A QP that is being worked on is not here.
    pub qps: Box<[Option<Box<Qp>>]>,
    pub srqs: Box<[Option<Box<Srq>>]>,
    /// QPs that may have something to send.
    pub queue: VecDeque<u16>,
    pub timers: BinaryHeap<Reverse<(u64, u16)>>,
    /// There are events that nobody has been told of.
    pub interrupt: bool,
    /// Frames could not be sent because the ring was full.
    pub blocked: bool,
    /// Until when the thread sleeps, if it does.
    pub asleep: Option<u64>,
    /// In the order of their frames.
    pub late: VecDeque<Late>,
    /// The thread looks again soon.
    pub napping: bool,
    /// QPs that an event of a CQ has broken.
    pub doomed: Vec<u16>,
    pub actions: Vec<Action>,
    pub iov: Vec<libc::iovec>,
    pub payload: Box<[u8; 4096]>,
}

pub fn index(number: u32) -> usize {
    number as usize & ((1 << LOG_QP) - 1)
}

impl Engine {
    pub fn new(
        rings: Rings,
        memory: Memory,
        clock: Clock,
        port: Port,
        limits: Limits,
        pasid: u32,
    ) -> Engine {
        Engine {
            rings,
            memory,
            clock,
            rng: Rng::new(),
            port,
            limits,
            qpn_high: pasid << RAW_QPN_BITS,
            pds: vec![false; 1 << LOG_PD].into(),
            mrs: Mrs::new(limits[0]),
            cqs: (0..1 << LOG_CQ).map(|_| None).collect(),
            eq: None,
            qps: (0..1 << LOG_QP).map(|_| None).collect(),
            srqs: (0..1 << LOG_QP).map(|_| None).collect(),
            queue: VecDeque::new(),
            timers: BinaryHeap::new(),
            interrupt: false,
            blocked: false,
            asleep: None,
            late: VecDeque::new(),
            napping: false,
            doomed: Vec::new(),
            actions: Vec::new(),
            iov: Vec::new(),
            payload: Box::new([0; 4096]),
        }
    }

    /// A doorbell of 64 bits.
    pub fn rung(&mut self, reg: u32, value: u64) {
        let b = value.to_le_bytes();
        match reg {
            doorbell::SQ => self.send_doorbell(db_queue::qpn.get(&b) as u32, db_queue::pi.get(&b)),
            doorbell::RQ => self.recv_doorbell(db_queue::qpn.get(&b) as u32, db_queue::pi.get(&b)),
            doorbell::CQ => {
                let cqn = db_cq::cqn.get(&b) as usize;
                if let Some(Some(q)) = self.cqs.get_mut(cqn) {
                    if q.doorbell(db_cq::ci.get(&b) as u32, db_cq::arm.get(&b) as u8) {
                        self.event(event::COMPLETION, cqn as u32);
                    }
                }
            }
            doorbell::EQ => {
                if let Some(eq) = &mut self.eq {
                    self.interrupt |= eq.doorbell(db_eq::ci.get(&b) as u32);
                }
            }
            // SAFETY: the provider's command block.
            doorbell::CMD => unsafe { self.command(value as usize as *mut u8) },
            _ => {}
        }
        self.end_doomed();
    }

    /// A WQE that came with its doorbell; it is in its ring, too.
    pub fn rung_unit(&mut self, unit: &[u8; 64]) {
        let pi = (sq::index.get(unit) + sq::units.get(unit)) & 0xffff;
        self.send_doorbell(sq::qpn.get(unit) as u32, pi);
        self.end_doomed();
    }

    fn send_doorbell(&mut self, qpn: u32, pi: u64) {
        let at = index(qpn);
        let Some(mut qp) = self.qps[at].take_if(|q| q.qpn == qpn) else {
            return;
        };
        if !qp.sq.plausible(pi as u16) {
            self.fatal(&mut qp);
        }
        if !qp.broken {
            qp.sq.pi = pi as u16;
            self.take_sends(&mut qp);
            self.run(&mut qp);
        }
        self.qps[at] = Some(qp);
    }

    fn recv_doorbell(&mut self, number: u32, pi: u64) {
        let (at, pi) = (index(number), pi as u16);
        if let Some(s) = self.srqs[at].as_mut().filter(|s| s.srqn == number) {
            if !s.ring.plausible(pi) {
                s.broken = true;
                return self.event(event::SRQ_ERR, number);
            }
            s.ring.pi = pi;
            return;
        }
        let Some(mut qp) = self.qps[at].take_if(|q| q.qpn == number && q.srq.is_none()) else {
            return;
        };
        if qp.rq.plausible(pi) {
            qp.rq.pi = pi;
            self.take_receives(&mut qp);
        } else {
            self.event(event::QP_REQ_ERR, number);
            self.end(&mut qp);
        }
        self.qps[at] = Some(qp);
    }

    pub fn event(&mut self, kind: u8, id: u32) {
        if let Some(eq) = &mut self.eq {
            eq.push(kind, id);
            self.interrupt = true;
        }
    }

    /// A completion of CQ `cqn` for a QP.
    pub fn complete(&mut self, cqn: u16, qpn: u32, body: [u8; 64]) {
        let Some(Some(q)) = self.cqs.get_mut(cqn as usize) else {
            return;
        };
        match q.push(body) {
            Effect::None => {}
            Effect::Event => self.event(event::COMPLETION, cqn as u32),
            Effect::Overflow => {
                self.event(event::CQ_ERR, cqn as u32);
                self.doomed.push(index(qpn) as u16);
            }
        }
    }

    /// The same of a send of UC or UD, when its frame, and those before it, have been read by the card.
    pub fn complete_late(&mut self, cq: u16, qpn: u32, body: [u8; 64]) {
        let frames = self.rings.sent();
        self.late.push_back(Late {
            frames,
            cq,
            qpn,
            body,
        });
    }

    /// A completion of this QP waits, so that those behind it wait, too.
    pub fn is_late(&self, qpn: u32) -> bool {
        self.late.iter().any(|l| l.qpn == qpn)
    }

    /// Completions whose frames the card has.
    pub fn release(&mut self) {
        while let Some(frames) = self.late.front().map(|l| l.frames) {
            if !self.rings.read(frames) {
                break;
            }
            if let Some(mut l) = self.late.pop_front() {
                cqe::timestamp.put(&mut l.body, self.clock.now());
                self.complete(l.cq, l.qpn, l.body);
            }
        }
        self.end_doomed();
    }

    /// The QP is gone, or begins anew.
    pub fn forget_late(&mut self, qpn: u32) {
        self.late.retain(|l| l.qpn != qpn);
    }

    /// QPs whose completions have no place any more.
    fn end_doomed(&mut self) {
        while let Some(at) = self.doomed.pop() {
            if let Some(mut qp) = self.qps[at as usize].take() {
                if qp.state != QpState::Reset {
                    self.end(&mut qp);
                    self.run(&mut qp);
                }
                self.qps[at as usize] = Some(qp);
            }
        }
    }

    /// After something has happened to `qp`: it may have something to send, and another timer.
    pub fn run(&mut self, qp: &mut Qp) {
        if !qp.ready {
            qp.ready = true;
            self.queue.push_back(index(qp.qpn) as u16);
        }
        self.set_timer(qp);
    }

    fn set_timer(&mut self, qp: &mut Qp) {
        let Half::Rc(m) = &qp.half else { return };
        if let Some(t) = m.next_deadline().filter(|t| *t < qp.timer) {
            qp.timer = t;
            self.timers.push(Reverse((t, index(qp.qpn) as u16)));
        }
    }

    /// When the next timer may be due.
    pub fn deadline(&self) -> Option<u64> {
        self.timers.peek().map(|t| t.0 .0)
    }

    /// Lets timers fire.
    pub fn fire_timers(&mut self) {
        let now = self.clock.now();
        while let Some(Reverse((t, at))) = self.timers.peek().copied() {
            if t > now {
                break;
            }
            self.timers.pop();
            let Some(mut qp) = self.qps[at as usize].take() else {
                continue;
            };
            // an older entry that an earlier one has replaced, or one of a QP that was here before
            if qp.timer == t {
                qp.timer = u64::MAX;
                let due = match &qp.half {
                    Half::Rc(m) => m.next_deadline().is_some_and(|d| d <= now),
                    _ => false,
                };
                if due {
                    let mut out = core::mem::take(&mut self.actions);
                    if let Half::Rc(m) = &mut qp.half {
                        m.on_timer(now, &mut out);
                    }
                    self.act(&mut qp, &mut out, &[]);
                    self.actions = out;
                    self.run(&mut qp);
                } else {
                    self.set_timer(&mut qp);
                }
            }
            self.qps[at as usize] = Some(qp);
        }
        self.end_doomed();
    }

    /// Sends what may be sent, at most `frames`. True: there is more.
    pub fn transmit(&mut self, frames: usize) -> bool {
        self.blocked = false;
        let mut left = frames;
        while let Some(at) = self.queue.pop_front() {
            let Some(mut qp) = self.qps[at as usize].take() else {
                continue;
            };
            let mut more = false;
            for _ in 0..TURN {
                if !self.rings.room() {
                    self.blocked = true;
                } else if left > 0 {
                    left -= 1;
                    more = self.send_one(&mut qp);
                    if more {
                        continue;
                    }
                    break;
                }
                more = true;
                break;
            }
            self.set_timer(&mut qp);
            qp.ready = more;
            if more {
                self.queue.push_back(at);
            }
            self.qps[at as usize] = Some(qp);
            self.end_doomed();
            if self.blocked || left == 0 {
                break;
            }
        }
        !self.queue.is_empty()
    }

    /// Takes frames that have come, at most `frames`. True: there are more.
    pub fn receive(&mut self, frames: usize) -> bool {
        for _ in 0..frames {
            let Some(frame) = self.rings.receive() else {
                return false;
            };
            self.frame(frame.bytes());
            self.rings.taken();
            self.end_doomed();
        }
        self.rings.receive().is_some()
    }
}

// SAFETY: stretches of memory are only described, and the rest may move.
unsafe impl Send for Engine {}
