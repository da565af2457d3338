//! UC and UD: nothing is sent again, nothing is answered.

use super::Effect;
use crate::script::UdDest;
use metaroce_protocol::{
    model::{
        unreliable::{UcReceiver, UcSender, UdAddress, UdReceiver, UdSender},
        Access, Action, Memory, QpConfig, RecvWr, SendWr, Tx,
    },
    PacketRepr,
};
use std::collections::VecDeque;

/// Keys are right in these runs.
pub struct Open;
impl Memory for Open {
    fn check(&self, _: u32, _: u64, _: u64, _: Access) -> bool {
        true
    }
    fn may_invalidate(&self, _: u32) -> bool {
        true
    }
}

/// The packet that the card sent is the next one of the model.
fn next(expected: &mut VecDeque<Tx>, p: &PacketRepr, len: usize) -> Result<Effect, String> {
    let Some(tx) = expected.pop_front() else {
        return Err(format!("packet beyond what was posted: {p:?}"));
    };
    if *p != tx.packet || len != tx.payload.len() as usize {
        return Err(format!("sent {p:?} with {len} bytes, the model {tx:?}"));
    }
    Ok(Effect::default())
}

/// The last of each kind of effect; a packet has at most one.
pub fn effect(actions: Vec<Action>) -> Effect {
    let mut e = Effect::default();
    for a in actions {
        match a {
            Action::RecvComplete {
                byte_len, imm, inv, ..
            } => e.received = Some((byte_len, imm, inv)),
            Action::Invalidate { rkey } => e.invalidated = Some(rkey),
            Action::Place { target, .. } => e.placed = Some(target),
            Action::Drop(r) => e.drop = Some(r),
            _ => {}
        }
    }
    e
}

pub struct Uc {
    tx: UcSender,
    rx: UcReceiver,
    expected: VecDeque<Tx>,
}

impl Uc {
    pub fn new(cfg: QpConfig) -> Uc {
        Uc {
            tx: UcSender::new(cfg),
            rx: UcReceiver::new(cfg.mirrored()),
            expected: VecDeque::new(),
        }
    }
    pub fn post(&mut self, wr: SendWr) {
        self.tx.post(wr);
        let tx = &mut self.tx;
        self.expected
            .extend(std::iter::from_fn(|| tx.poll_transmit(&mut vec![])));
    }
    pub fn recv(&mut self, wr: RecvWr) {
        self.rx.post(wr);
    }
    pub fn sent(&mut self, p: &PacketRepr, len: usize) -> Result<Effect, String> {
        next(&mut self.expected, p, len)
    }
    pub fn arrived(&mut self, p: &PacketRepr, len: usize) -> Effect {
        let info = p.opcode.info().expect("it was checked");
        let mut out = vec![];
        self.rx.on_packet(p, info, len, &Open, &mut out);
        effect(out)
    }
    /// (next PSN sent when all is sent, expected PSN).
    pub fn psns(&self) -> (u32, u32) {
        (self.tx.next_psn().get(), self.rx.epsn().get())
    }
}

pub struct Ud {
    tx: UdSender,
    rx: UdReceiver,
    expected: VecDeque<Tx>,
}

impl Ud {
    pub fn new(cfg: QpConfig, qkey: u32) -> Ud {
        Ud {
            tx: UdSender::new(cfg),
            rx: UdReceiver::new(qkey),
            expected: VecDeque::new(),
        }
    }
    pub fn post(&mut self, wr: SendWr, to: UdDest) {
        let (qpn, qkey) = (to.qpn, to.qkey);
        self.tx.post(wr, UdAddress { qpn, qkey });
        self.expected.extend(self.tx.poll_transmit(&mut vec![]));
    }
    pub fn recv(&mut self, wr: RecvWr) {
        self.rx.post(wr);
    }
    pub fn sent(&mut self, p: &PacketRepr, len: usize) -> Result<Effect, String> {
        next(&mut self.expected, p, len)
    }
    pub fn arrived(&mut self, p: &PacketRepr, len: usize) -> Effect {
        let mut out = vec![];
        self.rx.on_packet(p, len, &mut out);
        effect(out)
    }
}
