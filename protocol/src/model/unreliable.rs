//! UC and UD: nothing is answered, nothing is sent again, and a loss takes the whole message.
//!
//! # Decisions where the sources leave a choice
//! * UC: a First or Only packet is taken at any PSN and ends a message that was not finished. So a
//!   repeated Only packet is a second message, and a repeated First packet starts the same message anew.
//! * UC: any other packet that does not follow is dropped and ends the message; the receive work request
//!   that it had is used for the next one.
//! * UD: the PSN is not looked at. The first 40 bytes of a receive are for the IP header.

use super::memory::{Access, Memory};
use super::segment::{message_bytes, segment};
use super::types::{Action, QpConfig, RecvWr, SendWr, Source, Status, Target, Tx};
use crate::ext::{Deth, Reth};
use crate::opcode::{Class, OpcodeInfo, Service};
use crate::roce::{check_payload, PacketRepr};
use crate::{DropReason, Mtu, Opcode, Psn};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bytes of a UD receive before the payload.
pub const GRH_BYTES: u64 = 40;

fn sent(wr: &SendWr) -> Action {
    Action::SendComplete {
        wr_id: wr.wr_id,
        status: Status::Success,
        op: wr.op,
        byte_len: wr.len,
    }
}

/// Sending half of a UC QP in RTS.
#[derive(Clone, Debug)]
pub struct UcSender {
    cfg: QpConfig,
    wqes: VecDeque<(u64, SendWr)>,
    posted: u64,
    /// Packets of the first work request that have been sent.
    index: u32,
    psn: Psn,
}

impl UcSender {
    /// The first packet has PSN `cfg.sq_psn`.
    pub fn new(cfg: QpConfig) -> Self {
        UcSender {
            cfg,
            wqes: VecDeque::new(),
            posted: 0,
            index: 0,
            psn: cfg.sq_psn,
        }
    }
    /// Post a SEND or WRITE; there is no SEND with invalidate here.
    pub fn post(&mut self, wr: SendWr) {
        self.wqes.push_back((self.posted, wr));
        self.posted += 1;
    }
    /// PSN of the next packet.
    pub fn next_psn(&self) -> Psn {
        self.psn
    }
    /// Work requests not yet completed.
    pub fn pending(&self) -> usize {
        self.wqes.len()
    }
    /// The next packet. A work request completes with its last one.
    pub fn poll_transmit(&mut self, out: &mut Vec<Action>) -> Option<Tx> {
        let (wqe, wr) = *self.wqes.front()?;
        let packets = self.cfg.mtu.packets(wr.len);
        let at = (self.index, packets);
        let (mut packet, payload) = segment(Service::Uc, self.cfg.mtu, &wr, wqe, at);
        packet.dest_qpn = self.cfg.dest_qpn;
        packet.psn = self.psn;
        packet.pkey = self.cfg.pkey;
        packet.mig_req = self.cfg.mig_req;
        self.psn = self.psn.add(1);
        self.index += 1;
        if self.index == packets {
            self.index = 0;
            self.wqes.pop_front();
            if wr.signaled {
                out.push(sent(&wr));
            }
        }
        Some(Tx { packet, payload })
    }
}

#[derive(Clone, Copy, Debug)]
enum Message {
    Send { offset: u64 },
    Write { reth: Reth, offset: u64 },
}

/// Posted receives, in order.
#[derive(Clone, Debug, Default)]
struct Receives {
    queue: VecDeque<(u64, RecvWr)>,
    posted: u64,
}

impl Receives {
    fn post(&mut self, wr: RecvWr) {
        self.queue.push_back((self.posted, wr));
        self.posted += 1;
    }
    fn complete(&mut self, p: &PacketRepr, byte_len: u64, write: bool, out: &mut Vec<Action>) {
        if let Some((_, wr)) = self.queue.pop_front() {
            out.push(Action::RecvComplete {
                wr_id: wr.wr_id,
                status: Status::Success,
                byte_len,
                imm: p.ext.imm,
                inv: None,
                write,
                solicited: p.se,
            });
        }
    }
}

fn place(target: Target, len: usize, out: &mut Vec<Action>) {
    if len != 0 {
        let len = len as u32;
        out.push(Action::Place { target, len });
    }
}

/// Receiving half of a UC QP.
#[derive(Clone, Debug)]
pub struct UcReceiver {
    mtu: Mtu,
    epsn: Psn,
    message: Option<Message>,
    receives: Receives,
}

impl UcReceiver {
    /// A receiver that expects `cfg.rq_psn`.
    pub fn new(cfg: QpConfig) -> Self {
        UcReceiver {
            mtu: cfg.mtu,
            epsn: cfg.rq_psn,
            message: None,
            receives: Receives::default(),
        }
    }
    /// To RTR: path MTU and expected PSN of `cfg`.
    pub fn start(&mut self, cfg: QpConfig) {
        (self.mtu, self.epsn) = (cfg.mtu, cfg.rq_psn);
    }
    /// Expected PSN.
    pub fn epsn(&self) -> Psn {
        self.epsn
    }
    /// Receive work requests not yet taken.
    pub fn receives(&self) -> usize {
        self.receives.queue.len()
    }
    /// Post a receive.
    pub fn post(&mut self, wr: RecvWr) {
        self.receives.post(wr);
    }
    /// A request of this QP. `info` is the row of its opcode.
    pub fn on_packet(
        &mut self,
        p: &PacketRepr,
        info: &OpcodeInfo,
        payload_len: usize,
        memory: &dyn Memory,
        out: &mut Vec<Action>,
    ) {
        // Put back only by a packet that goes on as it should.
        let message = self.message.take();
        if info.place.starts() {
            self.epsn = p.psn;
        }
        let follows = match (&message, info.class) {
            (_, Class::Send | Class::Write) if info.place.starts() => true,
            (Some(Message::Send { .. }), Class::Send)
            | (Some(Message::Write { .. }), Class::Write) => p.psn == self.epsn,
            _ => false,
        };
        if !follows || p.ext.ieth.is_some() || !check_payload(info, payload_len, self.mtu) {
            return out.push(Action::Drop(DropReason::OutOfSequence));
        }
        let message = message.filter(|_| !info.place.starts());
        let r = if info.class == Class::Send {
            self.send(p, info, message, payload_len, out)
        } else {
            self.write(p, info, message, payload_len, memory, out)
        };
        match r {
            Ok(m) => {
                self.message = m.filter(|_| !info.place.ends());
                self.epsn = self.epsn.add(1);
            }
            Err(reason) => out.push(Action::Drop(reason)),
        }
    }

    fn send(
        &mut self,
        p: &PacketRepr,
        info: &OpcodeInfo,
        message: Option<Message>,
        len: usize,
        out: &mut Vec<Action>,
    ) -> Result<Option<Message>, DropReason> {
        let offset = match message {
            Some(Message::Send { offset }) => offset,
            _ => 0,
        };
        let &(wqe, wr) = self.receives.queue.front().ok_or(DropReason::NoRecvWqe)?;
        let total = message_bytes(info, None, offset, len)
            .filter(|total| *total <= wr.len)
            .ok_or(DropReason::OutOfSequence)?;
        place(Target::Recv { wqe, offset }, len, out);
        if info.place.ends() {
            self.receives.complete(p, total, false, out);
        }
        Ok(Some(Message::Send { offset: total }))
    }

    fn write(
        &mut self,
        p: &PacketRepr,
        info: &OpcodeInfo,
        message: Option<Message>,
        len: usize,
        memory: &dyn Memory,
        out: &mut Vec<Action>,
    ) -> Result<Option<Message>, DropReason> {
        let (reth, offset) = match (message, p.ext.reth) {
            (Some(Message::Write { reth, offset }), _) => (reth, offset),
            (_, Some(reth)) => (reth, 0),
            _ => return Err(DropReason::OutOfSequence),
        };
        if info.consumes_recv() && self.receives.queue.is_empty() {
            return Err(DropReason::NoRecvWqe);
        }
        let want = u64::from(reth.dma_len);
        let total = message_bytes(info, Some(want), offset, len)
            .filter(|_| want == 0 || memory.check(reth.rkey, reth.va, want, Access::RemoteWrite))
            .ok_or(DropReason::OutOfSequence)?;
        let target = Target::Memory {
            va: reth.va.wrapping_add(offset),
            rkey: reth.rkey,
        };
        place(target, len, out);
        if info.consumes_recv() {
            self.receives.complete(p, total, true, out);
        }
        let offset = total;
        Ok(Some(Message::Write { reth, offset }))
    }
}

/// Destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdAddress {
    /// QPN, 24 bits.
    pub qpn: u32,
    /// Its queue key.
    pub qkey: u32,
}

/// Sending half of a UD QP in RTS.
#[derive(Clone, Debug)]
pub struct UdSender {
    cfg: QpConfig,
    wqes: VecDeque<(u64, SendWr, UdAddress)>,
    posted: u64,
    psn: Psn,
}

impl UdSender {
    /// The first packet has PSN `cfg.sq_psn`; `cfg.dest_qpn` is not used.
    pub fn new(cfg: QpConfig) -> Self {
        UdSender {
            cfg,
            wqes: VecDeque::new(),
            posted: 0,
            psn: cfg.sq_psn,
        }
    }
    /// Post a SEND of one packet.
    pub fn post(&mut self, wr: SendWr, to: UdAddress) {
        self.wqes.push_back((self.posted, wr, to));
        self.posted += 1;
    }
    /// PSN of the next packet.
    pub fn next_psn(&self) -> Psn {
        self.psn
    }
    /// Work requests not yet completed.
    pub fn pending(&self) -> usize {
        self.wqes.len()
    }
    /// The next packet, which completes its work request.
    pub fn poll_transmit(&mut self, out: &mut Vec<Action>) -> Option<Tx> {
        let (wqe, wr, to) = self.wqes.pop_front()?;
        let (mut packet, payload): (_, Source) = segment(Service::Ud, Mtu::M4096, &wr, wqe, (0, 1));
        packet.opcode = if packet.ext.imm.is_some() {
            Opcode::UD_SEND_ONLY_IMM
        } else {
            Opcode::UD_SEND_ONLY
        };
        packet.dest_qpn = to.qpn;
        packet.psn = self.psn;
        packet.pkey = self.cfg.pkey;
        packet.mig_req = self.cfg.mig_req;
        packet.ext.deth = Some(Deth {
            qkey: to.qkey,
            src_qpn: self.cfg.qpn,
            resv: 0,
        });
        self.psn = self.psn.add(1);
        if wr.signaled {
            out.push(sent(&wr));
        }
        Some(Tx { packet, payload })
    }
}

/// Receiving half of a UD QP.
#[derive(Clone, Debug)]
pub struct UdReceiver {
    qkey: u32,
    receives: Receives,
}

impl UdReceiver {
    /// Takes datagrams with this queue key.
    pub fn new(qkey: u32) -> Self {
        UdReceiver {
            qkey,
            receives: Receives::default(),
        }
    }
    /// Takes datagrams with this queue key from now on.
    pub fn set_qkey(&mut self, qkey: u32) {
        self.qkey = qkey;
    }
    /// Receive work requests not yet taken.
    pub fn receives(&self) -> usize {
        self.receives.queue.len()
    }
    /// Post a receive.
    pub fn post(&mut self, wr: RecvWr) {
        self.receives.post(wr);
    }
    /// A datagram for this QP. The `Place` is the payload alone; what goes before it is the IP header.
    pub fn on_packet(&mut self, p: &PacketRepr, payload_len: usize, out: &mut Vec<Action>) {
        if p.ext.deth.is_none_or(|d| d.qkey != self.qkey) {
            return out.push(Action::Drop(DropReason::BadQkey));
        }
        let Some(&(wqe, wr)) = self.receives.queue.front() else {
            return out.push(Action::Drop(DropReason::NoRecvWqe));
        };
        let total = GRH_BYTES + payload_len as u64;
        if payload_len > Mtu::M4096.bytes() as usize || total > wr.len {
            return out.push(Action::Drop(DropReason::UdLength));
        }
        let offset = GRH_BYTES;
        place(Target::Recv { wqe, offset }, payload_len, out);
        self.receives.complete(p, total, false, out);
    }
}
