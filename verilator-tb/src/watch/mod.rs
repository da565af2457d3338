//! The reference models beside a pair of cards: a tap on the wire through which every frame goes to the wire checker,
//! every request that arrives to the model's receiver, whose answers are compared with the card's, every response that
//! arrives to the model's requester, and every packet sent for the first time is compared with what the model sends.
//!
//! The card may acknowledge later than the model (coalescing): each ACK must be a state (PSN, MSN)
//! that the model has been in, never going back. A NAK may be overtaken by the ACK of what was missing.
//!
//! Counters: [`Watch::compare`] says whether those of both cards are what was on their wires.

mod count;
mod keys;
mod rc;
mod unreliable;

use crate::{
    fabric::Seen,
    pair::Pair,
    script::{Conn, Cqe, Wr},
};
use count::Counts;
use keys::Keys;
use metaroce_hdl_spec::{table::qp_type, wqe::op};
use metaroce_protocol::{
    model::{MemoryRegion, QpConfig, RecvWr, SendOp, SendWr, Side, Target, WireChecker},
    DropReason, Frame, Mtu, PacketRepr, Psn,
};
pub use rc::NO_ROOM;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

/// A receive completion of the model: bytes, immediate, invalidated key.
pub type Received = (u64, Option<[u8; 4]>, Option<u32>);

/// The same of the card.
pub fn received(c: &Cqe) -> Received {
    (c.length as u64, c.imm.map(u32::to_le_bytes), c.inv)
}

/// Bytes that a frame puts into memory, by the model.
pub type Placed = (Target, Vec<u8>);

/// One direction of a connection: requests of one QP and the answers of its peer.
enum Flow {
    Rc(Box<rc::Flow>),
    Uc(unreliable::Uc),
    Ud(unreliable::Ud),
}

struct Link {
    /// RC.
    checker: Option<WireChecker>,
    /// Requests of A, requests of B.
    flows: [Flow; 2],
    received: [VecDeque<Received>; 2],
    placed: [Vec<Placed>; 2],
}

/// What a frame did, for the counters and for those who want to know.
#[derive(Default)]
struct Effect {
    drop: Option<DropReason>,
    received: Option<Received>,
    /// At the receiver of the frame.
    placed: Option<Target>,
    /// Window of its receiver that it ended.
    invalidated: Option<u32>,
    /// Local operations of its receiver that it let begin.
    locals: Vec<SendOp>,
    sent_again: bool,
}

#[derive(Default)]
struct State {
    links: Vec<Link>,
    /// (sender, destination QPN) -> link.
    by_qpn: HashMap<(usize, u32), usize>,
    error: Option<String>,
    counts: [Counts; 2],
    keys: [Keys; 2],
    keep_placed: bool,
    on_sent: Option<fn(&[u8])>,
    recent: VecDeque<String>,
}

impl State {
    fn see(&mut self, what: Seen, port: usize, data: &[u8]) {
        let from = if what == Seen::Sent { port } else { 1 - port };
        let sent = what == Seen::Sent;
        self.counts[port].frame(sent, data.len());
        let view = match Frame::new_checked(data) {
            Ok(v) => v,
            Err(e) => {
                if sent {
                    self.fail(format!("card {port} sent a frame that is not legal: {e:?}"));
                }
                return self.counts[port].refused(e);
            }
        };
        let p = PacketRepr::parse(&view.roce);
        let payload = view.payload();
        if self.recent.len() == 40 {
            self.recent.pop_front();
        }
        self.recent.push_back(format!(
            "{what:?} {port}: {:?} qpn {:#x} psn {:#x} {:?} {} bytes",
            p.opcode,
            p.dest_qpn,
            p.psn.get(),
            p.ext.aeth.map(|a| (a.syndrome, a.msn.get())),
            payload.len()
        ));
        let Some(&l) = self.by_qpn.get(&(from, p.dest_qpn)) else {
            return self.fail(format!("frame for an unknown QPN {:#x}", p.dest_qpn));
        };
        if sent {
            if let Some(f) = self.on_sent {
                f(data);
            }
        }
        let link = &mut self.links[l];
        let request = view.roce.info().is_request();
        let side = [Side::A, Side::B][from];
        let flow = &mut link.flows[if request { from } else { 1 - from }];
        let legal = match &mut link.checker {
            Some(c) if sent => c.sent(side, data).map_err(|e| format!("{e:?}")),
            Some(c) => {
                c.delivered(side, data);
                Ok(())
            }
            None => Ok(()),
        };
        let r = legal.and_then(|()| match (flow, sent, request) {
            (Flow::Rc(f), true, true) => f.request(&p, payload.len()),
            (Flow::Rc(f), true, false) => f.response(&p),
            (Flow::Rc(f), false, true) => {
                let keys = self.keys[port].seen_by(p.dest_qpn);
                Ok(f.arrived(&p, payload.len(), &keys))
            }
            (Flow::Rc(f), false, false) => Ok(f.answered(&p, payload.len())),
            (_, _, false) => Err("response without a connection".into()),
            (Flow::Uc(f), true, _) => f.sent(&p, payload.len()),
            (Flow::Uc(f), false, _) => Ok(f.arrived(&p, payload.len())),
            (Flow::Ud(f), true, _) => f.sent(&p, payload.len()),
            (Flow::Ud(f), false, _) => Ok(f.arrived(&p, payload.len())),
        });
        match r {
            Err(e) => self.fail(format!("QP {l}: {e}")),
            Ok(e) => {
                let aeth = p.ext.aeth.filter(|_| p.opcode.0 == 0x11);
                if sent {
                    self.counts[port].sent(aeth.map(|a| a.syndrome), e.sent_again);
                } else {
                    self.counts[port].taken(request, aeth.map(|a| a.syndrome), e.drop);
                    if let Some(key) = e.invalidated {
                        self.keys[port].invalidate(p.dest_qpn, key);
                    }
                    self.locals(port, p.dest_qpn, &e.locals);
                    let link = &mut self.links[l];
                    link.received[port].extend(e.received);
                    if self.keep_placed {
                        let t = e.placed.map(|t| (t, payload.to_vec()));
                        link.placed[port].extend(t);
                    }
                }
            }
        }
    }

    /// Local operations of end `e` have begun on the QP `qpn`.
    fn locals(&mut self, e: usize, qpn: u32, all: &[SendOp]) {
        for o in all {
            if !self.keys[e].local(qpn, *o) {
                self.fail(format!("end {e}, QP {qpn:#x}: the model refuses {o:x?}"));
            }
        }
    }

    fn fail(&mut self, e: String) {
        if self.error.is_none() {
            let before: Vec<_> = self.recent.iter().map(|s| format!("\n  {s}")).collect();
            self.error = Some(format!("{e}; last frames:{}", before.concat()));
        }
    }
}

/// Model attributes of the QP with number `qpn`.
fn config(c: &Conn, qpn: u32, peer: u32) -> QpConfig {
    QpConfig {
        sq_psn: Psn::new(c.psn),
        rq_psn: Psn::new(c.psn),
        mtu: Mtu::from_code(c.mtu).expect("MTU"),
        max_rd_atomic: c.max_rd,
        max_dest_rd_atomic: c.max_rd,
        min_rnr_timer: c.min_rnr,
        ..QpConfig::new(qpn, peer)
    }
}

/// The tap on a pair's wire.
#[derive(Clone)]
pub struct Watch(Arc<Mutex<State>>);

impl Watch {
    /// For the connected QPs of `p`, all like `c`.
    pub fn new(p: &mut Pair, c: &Conn) -> Watch {
        let w = Watch(Arc::default());
        for k in 0..p.ends[0].qps.len() {
            w.add(p, k, c);
        }
        let s = w.0.clone();
        p.sim.fabric.tap = Some(Box::new(move |what, port, f| {
            s.lock().expect("tap").see(what, port, &f.data)
        }));
        w
    }

    /// QP pair `k` has just been connected, for the first time or again.
    pub fn add(&self, p: &Pair, k: usize, c: &Conn) {
        let (a, b) = (p.ends[0].qps[k].qpn, p.ends[1].qps[k].qpn);
        let cfg = config(c, a, b);
        let flow = |cfg: QpConfig| match c.qp_type {
            qp_type::UC => Flow::Uc(unreliable::Uc::new(cfg)),
            qp_type::UD => Flow::Ud(unreliable::Ud::new(cfg, c.qkey)),
            _ => Flow::Rc(Box::new(rc::Flow::new(cfg))),
        };
        let link = Link {
            checker: (c.qp_type == qp_type::RC).then(|| WireChecker::new(&cfg, &cfg.mirrored())),
            flows: [flow(cfg), flow(cfg.mirrored())],
            received: Default::default(),
            placed: Default::default(),
        };
        let mut s = self.0.lock().expect("tap");
        s.by_qpn.insert((0, b), k);
        s.by_qpn.insert((1, a), k);
        if k < s.links.len() {
            s.links[k] = link;
        } else {
            assert_eq!(k, s.links.len(), "QPs are added in order");
            s.links.push(link);
        }
    }

    /// Calls `f` with every frame that a card sends.
    pub fn on_sent(self, f: fn(&[u8])) -> Watch {
        self.0.lock().expect("tap").on_sent = Some(f);
        self
    }

    /// Keeps what frames put into memory, for [`Watch::placed`].
    pub fn keep_placed(self) -> Watch {
        self.0.lock().expect("tap").keep_placed = true;
        self
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
            op::CMP_SWAP => SendOp::CmpSwap {
                va,
                rkey,
                compare: wr.compare,
                swap: wr.swap,
            },
            op::FETCH_ADD => SendOp::FetchAdd {
                va,
                rkey,
                add: wr.swap,
            },
            op::SEND_INV => SendOp::SendInv {
                rkey: wr.imm.swap_bytes(),
            },
            op::LOCAL_INV => SendOp::LocalInv { rkey: wr.imm },
            op::BIND_MW => {
                let b = wr.bind.expect("what to bind");
                SendOp::Bind {
                    lkey: b.lkey,
                    window: MemoryRegion {
                        rkey: b.key,
                        base: b.va,
                        len: b.len,
                        remote_write: b.access & 2 != 0,
                        remote_read: b.access & 4 != 0,
                        remote_atomic: b.access & 8 != 0,
                    },
                }
            }
            o => panic!("no operation of the model: {o}"),
        };
        let len = wr.inline.as_ref().map(|d| d.len() as u64);
        let len = len.unwrap_or_else(|| wr.sges.iter().map(|s| s.1 as u64).sum());
        let mut w = SendWr::new(0, o, len);
        w.signaled = wr.signaled;
        w.solicited = wr.solicited;
        w.fence = wr.fence;
        let s = &mut *self.0.lock().expect("tap");
        match &mut s.links[q].flows[e] {
            Flow::Rc(f) => {
                let (begun, qpn) = (f.post(w), f.qpn());
                s.locals(e, qpn, &begun);
            }
            Flow::Uc(f) => f.post(w),
            Flow::Ud(f) => f.post(w, wr.ud.expect("a destination")),
        }
    }

    /// End `e` posts a receive of `len` bytes on QP `q`.
    pub fn recv(&self, e: usize, q: usize, len: u64) {
        let wr = RecvWr { wr_id: 0, len };
        match &mut self.0.lock().expect("tap").links[q].flows[1 - e] {
            Flow::Rc(f) => f.recv(wr),
            Flow::Uc(f) => f.recv(wr),
            Flow::Ud(f) => f.recv(wr),
        }
    }

    /// Next receive completion of the model at end `e`, QP `q`.
    pub fn received(&self, e: usize, q: usize) -> Option<Received> {
        self.0.lock().expect("tap").links[q].received[e].pop_front()
    }

    /// What frames have put into memory of end `e` through QP `q` since the last call, in order.
    pub fn placed(&self, e: usize, q: usize) -> Vec<Placed> {
        std::mem::take(&mut self.0.lock().expect("tap").links[q].placed[e])
    }

    /// (next PSN of the requester, expected PSN of the responder) of end `e`, by the models.
    pub fn psns(&self, e: usize, q: usize) -> (u32, u32) {
        let s = self.0.lock().expect("tap");
        let of = |f: &Flow| match f {
            Flow::Rc(f) => f.psns(),
            Flow::Uc(f) => f.psns(),
            Flow::Ud(_) => (0, 0),
        };
        let f = &s.links[q].flows;
        (of(&f[e]).0, of(&f[1 - e]).1)
    }

    /// Send work requests of end `e` on QP `q` that are not done by what has arrived (RC).
    pub fn pending(&self, e: usize, q: usize) -> usize {
        match &self.0.lock().expect("tap").links[q].flows[e] {
            Flow::Rc(f) => f.pending(),
            _ => 0,
        }
    }

    /// Compares the counters of both cards with what was on their wires since the tap was put in; an error names
    /// the card, the counter and both values.
    ///
    /// # Errors
    /// The first counter that differs.
    pub fn compare(&self, p: &mut Pair) -> Result<(), String> {
        // An increment shows up in at most 66 cycles.
        p.run(70);
        let s = self.0.lock().expect("tap");
        // one that was dropped is out of sequence for the card, and a duplicate later for the model; nothing else may differ
        let moved = |m: &str| {
            ["rx_drop_sequence ", "rx_drop_duplicate "]
                .iter()
                .any(|c| m.starts_with(c))
        };
        let crowded = (s.links.iter().flat_map(|l| &l.flows))
            .any(|f| matches!(f, Flow::Rc(f) if f.crowded()));
        for (e, w) in s.counts.iter().enumerate() {
            w.compare(&p.sim.nodes[e].counters()).map_err(|m| {
                match crowded && m.split("; ").all(moved) {
                    true => format!("card {e}: {NO_ROOM}: {m}"),
                    false => format!("card {e}: {m}"),
                }
            })?;
        }
        Ok(())
    }

    pub fn frames(&self) -> u64 {
        let s = self.0.lock().expect("tap");
        s.counts.iter().map(|c| c.tx_frames).sum()
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
