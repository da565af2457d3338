//! The tap: every frame goes through the wire checker; every request that arrives goes to the
//! model's responder, whose answers are compared with the card's; every packet sent for the first
//! time is compared with the model's requester.
//!
//! The card may acknowledge later than the model (coalescing): each ACK must be a state (PSN, MSN)
//! that the model has been in, never going back. A NAK may be overtaken by the ACK of what was missing.

use super::cover;
use metaroce_hdl_spec::wqe::op;
use metaroce_protocol::{
    model::{
        Access, Action, Memory, QpConfig, RecvWr, Requester, Responder, SendOp, SendWr, Side, Tx,
        WireChecker,
    },
    DropReason, Frame, Msn, Mtu, PacketRepr, Psn, Syndrome,
};
use metaroce_tb::{
    fabric::Seen,
    pair::Pair,
    script::{Conn, Wr},
};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

struct Open;
impl Memory for Open {
    fn check(&self, _: u32, _: u64, _: u64, _: Access) -> bool {
        true
    }
}

/// A receive completion of the model: bytes, immediate.
pub type Received = (u64, Option<[u8; 4]>);

/// One direction: requests of one QP and the answers of its peer.
struct Flow {
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
    received: VecDeque<Received>,
}

impl Flow {
    fn new(cfg: QpConfig) -> Flow {
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
            received: VecDeque::new(),
        }
    }

    fn post(&mut self, wr: SendWr) {
        let mut out = vec![];
        let (rq, rs) = &mut self.ideal;
        rq.post(wr, &mut out);
        let any = RecvWr {
            wr_id: 0,
            len: 1 << 31,
        };
        rs.post(any, &mut out);
        while let Some(tx) = rq.poll_transmit(0) {
            let info = tx.packet.opcode.info().expect("the model's opcode");
            self.expected.push_back(tx);
            rs.on_packet(&tx.packet, info, tx.payload.len() as usize, &Open, &mut out);
            while let Some(r) = rs.poll_transmit() {
                let info = r.packet.opcode.info().expect("the model's opcode");
                rq.on_packet(0, &r.packet, info, r.payload.len() as usize, &mut out);
            }
        }
    }

    /// The card sent a request.
    fn request(&mut self, p: &PacketRepr, len: usize) -> Result<(), String> {
        if p.psn != self.next {
            return Ok(()); // sent again: the checker compares it with the first time
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
        Ok(())
    }

    /// The peer's card has taken a request.
    fn arrived(&mut self, p: &PacketRepr, len: usize, drops: &mut [u64; 2]) {
        let info = p.opcode.info().expect("it was checked");
        let mut out = vec![];
        self.model.on_packet(p, info, len, &Open, &mut out);
        for a in out {
            match a {
                Action::RecvComplete { byte_len, imm, .. } => {
                    self.received.push_back((byte_len, imm))
                }
                Action::Drop(DropReason::OutOfSequence) => drops[1] += 1,
                Action::Drop(_) => drops[0] += 1,
                _ => {}
            }
        }
        let now = (self.model.epsn().sub(1), self.model.msn());
        if self.states.back() != Some(&now) {
            self.states.push_back(now);
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
    }

    /// The peer's card sent a response.
    fn response(&mut self, p: &PacketRepr) -> Result<(), String> {
        let Some(a) = p.ext.aeth else { return Ok(()) };
        let is_read = p.opcode.0 != 0x11;
        if is_read {
            let known = self.reads.get(&p.psn.get());
            // A duplicate is answered with the MSN of the first time or of now.
            return if known.is_some_and(|k| k.contains(&a.msn)) {
                Ok(())
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
            return Ok(());
        }
        let nak = (p.psn, a.syndrome, a.msn);
        let Some(k) = self.naks.iter().position(|n| *n == nak) else {
            return Err(format!("{nak:?} is no NAK of the model: {:?}", self.naks));
        };
        self.naks.drain(..=k);
        Ok(())
    }
}

struct Link {
    checker: WireChecker,
    /// Requests of A, requests of B.
    flows: [Flow; 2],
}

#[derive(Default)]
struct State {
    links: Vec<Link>,
    /// (sender, destination QPN) -> link.
    by_qpn: HashMap<(usize, u32), usize>,
    error: Option<String>,
    /// Dropped by the model per receiving card: duplicates, out of sequence.
    drops: [[u64; 2]; 2],
    sent: u64,
    recent: VecDeque<String>,
}

impl State {
    fn see(&mut self, what: Seen, port: usize, data: &[u8]) {
        let from = if what == Seen::Sent { port } else { 1 - port };
        let side = [Side::A, Side::B][from];
        let view = match Frame::new_checked(data) {
            Ok(v) => v,
            Err(e) => {
                if what == Seen::Sent {
                    self.fail(format!("card {port} sent a frame that is not legal: {e:?}"));
                }
                return;
            }
        };
        let p = PacketRepr::parse(&view.roce);
        let len = view.payload().len();
        if self.recent.len() == 40 {
            self.recent.pop_front();
        }
        self.recent.push_back(format!(
            "{what:?} {port}: {:?} qpn {:#x} psn {:#x} {:?} {len} bytes",
            p.opcode,
            p.dest_qpn,
            p.psn.get(),
            p.ext.aeth.map(|a| (a.syndrome, a.msn.get()))
        ));
        let Some(&l) = self.by_qpn.get(&(from, p.dest_qpn)) else {
            return self.fail(format!("frame for an unknown QPN {:#x}", p.dest_qpn));
        };
        let link = &mut self.links[l];
        let request = view.roce.info().is_request();
        let r = match what {
            Seen::Sent => {
                self.sent += 1;
                cover::frame(data);
                let legal = link.checker.sent(side, data);
                legal.map_err(|e| format!("{e:?}")).and_then(|()| {
                    if request {
                        link.flows[from].request(&p, len)
                    } else {
                        link.flows[1 - from].response(&p)
                    }
                })
            }
            Seen::Taken => {
                link.checker.delivered(side, data);
                if request {
                    link.flows[from].arrived(&p, len, &mut self.drops[1 - from]);
                }
                Ok(())
            }
        };
        if let Err(e) = r {
            self.fail(format!("QP {l}: {e}"));
        }
    }

    fn fail(&mut self, e: String) {
        if self.error.is_none() {
            let before: Vec<_> = self.recent.iter().map(|s| format!("\n  {s}")).collect();
            self.error = Some(format!("{e}; last frames:{}", before.concat()));
        }
    }
}

/// The tap on a pair's wire.
#[derive(Clone)]
pub struct Watch(Arc<Mutex<State>>);

impl Watch {
    /// For the connected QPs of `p`.
    pub fn new(p: &mut Pair, c: &Conn) -> Watch {
        let mut s = State::default();
        for k in 0..p.ends[0].qps.len() {
            let (a, b) = (p.ends[0].qps[k].qpn, p.ends[1].qps[k].qpn);
            let cfg = QpConfig {
                sq_psn: Psn::new(c.psn),
                rq_psn: Psn::new(c.psn),
                mtu: Mtu::from_code(c.mtu).expect("MTU"),
                max_rd_atomic: c.max_rd,
                max_dest_rd_atomic: c.max_rd,
                min_rnr_timer: c.min_rnr,
                ..QpConfig::new(a, b)
            };
            s.by_qpn.insert((0, b), k);
            s.by_qpn.insert((1, a), k);
            s.links.push(Link {
                checker: WireChecker::new(&cfg, &cfg.mirrored()),
                flows: [Flow::new(cfg), Flow::new(cfg.mirrored())],
            });
        }
        let s = Arc::new(Mutex::new(s));
        let t = s.clone();
        p.sim.fabric.tap = Some(Box::new(move |what, port, f| {
            t.lock().expect("tap").see(what, port, &f.data)
        }));
        Watch(s)
    }

    /// Tells the model what end `e` posts on QP `q`.
    pub fn post(&self, e: usize, q: usize, wr: &Wr) {
        let (va, rkey, imm) = (wr.remote_va, wr.rkey, wr.imm.to_le_bytes());
        let o = match wr.op {
            op::SEND => SendOp::Send,
            op::SEND_IMM => SendOp::SendImm(imm),
            op::WRITE => SendOp::Write { va, rkey },
            op::WRITE_IMM => SendOp::WriteImm { va, rkey, imm },
            op::READ => SendOp::Read { va, rkey },
            o => panic!("no operation of the model: {o}"),
        };
        let mut w = SendWr::new(0, o, wr.sges.iter().map(|s| s.1 as u64).sum());
        w.solicited = wr.solicited;
        w.fence = wr.fence;
        self.0.lock().expect("tap").links[q].flows[e].post(w);
    }

    /// End `e` posts a receive of `len` bytes on QP `q`.
    pub fn recv(&self, e: usize, q: usize, len: u64) {
        let mut s = self.0.lock().expect("tap");
        let wr = RecvWr { wr_id: 0, len };
        s.links[q].flows[1 - e].model.post(wr, &mut vec![]);
    }

    /// Next receive completion of the model at end `e`, QP `q`.
    pub fn received(&self, e: usize, q: usize) -> Option<Received> {
        let mut s = self.0.lock().expect("tap");
        s.links[q].flows[1 - e].received.pop_front()
    }

    /// (next PSN of the requester, expected PSN of the responder) of end `e`, by the models.
    pub fn psns(&self, e: usize, q: usize) -> (u32, u32) {
        let s = self.0.lock().expect("tap");
        let f = &s.links[q].flows;
        (f[e].next.get(), f[1 - e].model.epsn().get())
    }

    /// (duplicates, out of sequence) that the models dropped at card `e`.
    pub fn drops(&self, e: usize) -> [u64; 2] {
        self.0.lock().expect("tap").drops[e]
    }

    pub fn frames(&self) -> u64 {
        self.0.lock().expect("tap").sent
    }

    /// Panics with the first thing that was wrong.
    pub fn check(&self) {
        if let Some(e) = self.error() {
            panic!("{e}");
        }
    }

    pub fn error(&self) -> Option<String> {
        self.0.lock().expect("tap").error.clone()
    }
}
