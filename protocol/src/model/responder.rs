//! Responder half: sequence, placement, acknowledgement, READ responses.

use super::memory::{Access, Memory, Placed};
use super::segment::message_bytes;
use super::types::{Action, AtomicWork, QpConfig, RecvWr, Source, Status, Target, Tx};
use crate::ext::{Aeth, AtomicEth, Reth};
use crate::opcode::{Class, OpcodeInfo, Place};
use crate::qp::QpState;
use crate::roce::{check_payload, PacketRepr};
use crate::{DropReason, Msn, NakCode, Opcode, Psn, Syndrome, MAX_MESSAGE};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug)]
struct Recv {
    index: u64,
    wr: RecvWr,
}

/// The message whose end has not come yet.
#[derive(Clone, Copy, Debug)]
enum Message {
    Send { recv: Recv, offset: u64 },
    Write { reth: Reth, offset: u64 },
}

#[derive(Clone, Copy, Debug)]
enum Response {
    /// ACK, NAK or RNR NAK.
    Answer {
        psn: Psn,
        syndrome: Syndrome,
        msn: Msn,
    },
    /// READ responses from `index` on.
    Read {
        psn: Psn,
        reth: Reth,
        index: u32,
        count: u32,
        msn: Msn,
        duplicate: bool,
    },
    /// Response of an atomic; waits for `original`.
    Atomic {
        psn: Psn,
        msn: Msn,
        original: Option<u64>,
        duplicate: bool,
    },
}

impl Response {
    /// Counts against `max_dest_rd_atomic`.
    fn is_running(&self) -> bool {
        matches!(
            self,
            Response::Read {
                duplicate: false,
                ..
            } | Response::Atomic {
                duplicate: false,
                ..
            }
        )
    }
}

/// An executed READ or atomic, remembered so that its duplicates can be told from forgeries.
#[derive(Clone, Copy, Debug)]
struct Executed {
    psn: Psn,
    count: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Read(Reth),
    /// Its operands, and what was there (a duplicate gets the same answer, field fault A10).
    Atomic(Opcode, AtomicEth, Option<u64>),
}

/// Responder state.
#[derive(Clone, Debug)]
pub struct Responder {
    cfg: QpConfig,
    state: QpState,
    epsn: Psn,
    msn: Msn,
    message: Option<Message>,
    /// A sequence or RNR NAK is out; cleared when the expected PSN arrives.
    nak_outstanding: bool,
    receives: VecDeque<Recv>,
    posted: u64,
    responses: VecDeque<Response>,
    executed: VecDeque<Executed>,
    refused: Option<NakCode>,
}

/// Why a request is not executed.
enum Refusal {
    Nak(NakCode),
    /// Receive buffer too small: NAK invalid request, LOC_LEN at the receiver.
    TooSmall,
    /// Receive buffer that can't be written: NAK remote operational, LOC_PROT at the receiver.
    NoBuffer,
    Rnr,
}

impl Responder {
    /// A responder that expects `cfg.rq_psn`.
    pub fn new(cfg: QpConfig) -> Self {
        Responder {
            cfg,
            state: QpState::Rts,
            epsn: cfg.rq_psn,
            msn: Msn::new(0),
            message: None,
            nak_outstanding: false,
            receives: VecDeque::new(),
            posted: 0,
            responses: VecDeque::new(),
            executed: VecDeque::new(),
            refused: None,
        }
    }

    /// Other attributes; what is under way goes on with them.
    pub(super) fn reconfigure(&mut self, cfg: QpConfig) {
        self.cfg = cfg;
    }
    /// Expect `psn` next; only before anything was received.
    pub(super) fn start(&mut self, psn: Psn) {
        self.epsn = psn;
    }
    /// The NAK with which it ended, if it did.
    pub fn refused(&self) -> Option<NakCode> {
        self.refused
    }
    /// Which receive work request the message has whose end has not come yet (from 0).
    pub fn held(&self) -> Option<u64> {
        match self.message {
            Some(Message::Send { recv, .. }) => Some(recv.index),
            _ => None,
        }
    }
    /// The request `p` needs a receive work request that has not been taken yet, and is the next one.
    pub fn wants_receive(&self, p: &PacketRepr, info: &OpcodeInfo) -> bool {
        let send = info.class == Class::Send && info.place.starts();
        p.psn == self.epsn
            && self.message.is_none() == info.place.starts()
            && (send || info.consumes_recv() && info.class == Class::Write)
    }
    /// Memory of a READ that was accepted is not there any more: it gets no answer, and the QP ends.
    pub fn read_fault(&mut self, out: &mut Vec<Action>) {
        self.refused = Some(NakCode::RemoteAccess);
        self.responses.clear();
        out.push(Action::ToError);
        self.flush_receives(out);
    }

    /// RTS or ERR.
    pub fn state(&self) -> QpState {
        self.state
    }
    /// Expected PSN.
    pub fn epsn(&self) -> Psn {
        self.epsn
    }
    /// Messages completed.
    pub fn msn(&self) -> Msn {
        self.msn
    }
    /// Receive work requests not yet taken.
    pub fn receives(&self) -> usize {
        self.receives.len()
    }

    /// Post a receive; in ERR it is flushed at once.
    pub fn post(&mut self, wr: RecvWr, out: &mut Vec<Action>) {
        if self.state == QpState::Err {
            return out.push(failed(&wr, Status::WrFlush));
        }
        self.receives.push_back(Recv {
            index: self.posted,
            wr,
        });
        self.posted += 1;
    }

    /// Next response. In ERR what was queued before the failure still goes out, the NAK last.
    pub fn poll_transmit(&mut self) -> Option<Tx> {
        let tx = |opcode, psn, aeth: Option<Aeth>, payload| {
            let mut packet = PacketRepr {
                mig_req: self.cfg.mig_req,
                pkey: self.cfg.pkey,
                ..PacketRepr::new(opcode, self.cfg.dest_qpn, psn)
            };
            packet.ext.aeth = aeth;
            Some(Tx { packet, payload })
        };
        match self.responses.front_mut()? {
            Response::Atomic {
                psn, msn, original, ..
            } => {
                let original = (*original)?;
                let aeth = Aeth {
                    syndrome: Syndrome::ACK,
                    msn: *msn,
                };
                let mut tx = tx(Opcode::RC_ATOMIC_ACK, *psn, Some(aeth), Source::None);
                if let Some(t) = &mut tx {
                    t.packet.ext.atomic_ack = Some(original);
                }
                self.responses.pop_front();
                tx
            }
            Response::Answer { psn, syndrome, msn } => {
                let aeth = Aeth {
                    syndrome: *syndrome,
                    msn: *msn,
                };
                let tx = tx(Opcode::RC_ACK, *psn, Some(aeth), Source::None);
                self.responses.pop_front();
                tx
            }
            Response::Read {
                psn,
                reth,
                index,
                count,
                msn,
                ..
            } => {
                let place = Place::of(*index, *count);
                let mtu = self.cfg.mtu.bytes();
                let offset = *index * mtu;
                let len = (reth.dma_len - offset).min(mtu);
                let payload = if len == 0 {
                    Source::None
                } else {
                    Source::Memory {
                        va: reth.va.wrapping_add(u64::from(offset)),
                        rkey: reth.rkey,
                        len,
                    }
                };
                let aeth = Aeth {
                    syndrome: Syndrome::ACK,
                    msn: *msn,
                };
                let aeth = (place != Place::Middle).then_some(aeth);
                let tx = tx(Opcode::read_response(place), psn.add(*index), aeth, payload);
                *index += 1;
                if index == count {
                    self.responses.pop_front();
                }
                tx
            }
        }
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
        if !self.state.receives() {
            return out.push(Action::Drop(DropReason::QpState));
        }
        if p.psn.before(self.epsn) {
            return self.duplicate(p, info, memory, out);
        }
        if p.psn != self.epsn {
            if !self.nak_outstanding {
                self.nak_outstanding = true;
                self.answer(self.epsn, Syndrome::Nak(NakCode::PsnSequence));
            }
            return out.push(Action::Drop(DropReason::OutOfSequence));
        }
        self.nak_outstanding = false;
        match self.execute(p, info, payload_len, memory, out) {
            Ok(()) => {
                if p.ack_req && !is_answered(info.class) {
                    self.acknowledge(p.psn);
                }
            }
            Err(Refusal::Rnr) => {
                let timer = self.cfg.min_rnr_timer;
                self.nak_outstanding = true;
                self.answer(p.psn, Syndrome::Rnr { timer });
                out.push(Action::Drop(DropReason::Rnr));
            }
            Err(Refusal::TooSmall) => {
                self.fail(p.psn, NakCode::InvalidRequest, Status::LocLen, out);
            }
            Err(Refusal::NoBuffer) => {
                self.fail(p.psn, NakCode::RemoteOperational, Status::LocProt, out);
            }
            Err(Refusal::Nak(code)) => {
                let status = match code {
                    NakCode::RemoteAccess => Status::RemAccess,
                    _ => Status::RemInvReq,
                };
                self.fail(p.psn, code, status, out);
            }
        }
    }

    /// All checks come before any effect.
    fn execute(
        &mut self,
        p: &PacketRepr,
        info: &OpcodeInfo,
        payload_len: usize,
        memory: &dyn Memory,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let invalid = Refusal::Nak(NakCode::InvalidRequest);
        let in_sequence = match (&self.message, info.class) {
            (None, _) => info.place.starts(),
            (Some(Message::Send { .. }), Class::Send)
            | (Some(Message::Write { .. }), Class::Write) => !info.place.starts(),
            _ => false,
        };
        let supported = is_answered(info.class) || matches!(info.class, Class::Send | Class::Write);
        if !in_sequence || !supported || !check_payload(info, payload_len, self.cfg.mtu) {
            return Err(invalid);
        }
        match info.class {
            Class::Send => self.execute_send(p, info, payload_len, memory, out),
            Class::Write => self.execute_write(p, info, payload_len, memory, out),
            Class::ReadRequest => self.execute_read(p, memory),
            _ => self.execute_atomic(p, info, memory, out),
        }
    }

    fn execute_send(
        &mut self,
        p: &PacketRepr,
        info: &OpcodeInfo,
        payload_len: usize,
        memory: &dyn Memory,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let (recv, offset) = match self.message {
            Some(Message::Send { recv, offset }) => (recv, offset),
            _ => (*self.receives.front().ok_or(Refusal::Rnr)?, 0),
        };
        if info.place.starts() {
            // Taken from here on: if the message fails, this work request completes in error.
            self.receives.pop_front();
            self.message = Some(Message::Send { recv, offset });
        }
        let total = message_bytes(info, None, offset, payload_len)
            .ok_or(Refusal::Nak(NakCode::InvalidRequest))?;
        if total > recv.wr.len {
            return Err(Refusal::TooSmall);
        }
        if p.ext.ieth.is_some_and(|rkey| !memory.may_invalidate(rkey)) {
            return Err(Refusal::Nak(NakCode::RemoteAccess));
        }
        if payload_len != 0 {
            let wqe = recv.index;
            let (target, len) = (Target::Recv { wqe, offset }, payload_len as u32);
            if memory.place(target, len) != Placed::Done {
                return Err(Refusal::NoBuffer);
            }
            out.push(Action::Place { target, len });
        }
        self.message = Some(Message::Send {
            recv,
            offset: total,
        });
        if info.place.ends() {
            if let Some(rkey) = p.ext.ieth {
                out.push(Action::Invalidate { rkey });
            }
            self.complete_receive(recv, total, p, false, out);
            self.message = None;
            self.msn = self.msn.add(1);
        }
        self.epsn = self.epsn.add(1);
        Ok(())
    }

    fn execute_write(
        &mut self,
        p: &PacketRepr,
        info: &OpcodeInfo,
        payload_len: usize,
        memory: &dyn Memory,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let invalid = Refusal::Nak(NakCode::InvalidRequest);
        let recv = self.receives.front().copied();
        if info.consumes_recv() && recv.is_none() {
            return Err(Refusal::Rnr);
        }
        let (reth, offset) = match (self.message, p.ext.reth) {
            (Some(Message::Write { reth, offset }), _) => (reth, offset),
            (_, Some(reth)) => (reth, 0),
            _ => return Err(invalid),
        };
        if !memory.permits(Access::RemoteWrite) {
            return Err(invalid);
        }
        let dma_len = u64::from(reth.dma_len);
        let total = message_bytes(info, Some(dma_len), offset, payload_len)
            .ok_or(Refusal::Nak(NakCode::InvalidRequest))?;
        if info.place.starts()
            && dma_len != 0
            && !memory.check(reth.rkey, reth.va, dma_len, Access::RemoteWrite)
        {
            return Err(Refusal::Nak(NakCode::RemoteAccess));
        }
        if payload_len != 0 {
            let va = reth.va.wrapping_add(offset);
            let rkey = reth.rkey;
            let (target, len) = (Target::Memory { va, rkey }, payload_len as u32);
            match memory.place(target, len) {
                Placed::Done => {}
                Placed::Access => return Err(Refusal::Nak(NakCode::RemoteAccess)),
                Placed::Fault => return Err(Refusal::Nak(NakCode::RemoteOperational)),
            }
            out.push(Action::Place { target, len });
        }
        self.message = Some(Message::Write {
            reth,
            offset: total,
        });
        if info.place.ends() {
            if let Some(recv) = recv.filter(|_| info.consumes_recv()) {
                self.receives.pop_front();
                self.complete_receive(recv, total, p, true, out);
            }
            self.message = None;
            self.msn = self.msn.add(1);
        }
        self.epsn = self.epsn.add(1);
        Ok(())
    }

    fn execute_read(&mut self, p: &PacketRepr, memory: &dyn Memory) -> Result<(), Refusal> {
        let invalid = Refusal::Nak(NakCode::InvalidRequest);
        let outstanding = self.responses.iter().filter(|r| r.is_running()).count();
        let Some(reth) = p.ext.reth else {
            return Err(invalid);
        };
        let len = u64::from(reth.dma_len);
        let permitted = memory.permits(Access::RemoteRead) && len <= MAX_MESSAGE;
        if outstanding >= usize::from(self.cfg.max_dest_rd_atomic) || !permitted {
            return Err(invalid);
        }
        if len != 0 && !memory.check(reth.rkey, reth.va, len, Access::RemoteRead) {
            return Err(Refusal::Nak(NakCode::RemoteAccess));
        }
        let count = self.cfg.mtu.packets(len);
        self.msn = self.msn.add(1);
        self.epsn = self.epsn.add(count);
        self.remember(p.psn, count, What::Read(reth));
        self.respond(p.psn, reth, count, false);
        Ok(())
    }

    fn remember(&mut self, psn: Psn, count: u32, what: What) {
        self.executed.push_back(Executed { psn, count, what });
        if self.executed.len() > usize::from(self.cfg.max_dest_rd_atomic) {
            self.executed.pop_front();
        }
    }

    fn execute_atomic(
        &mut self,
        p: &PacketRepr,
        info: &OpcodeInfo,
        memory: &dyn Memory,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let invalid = Refusal::Nak(NakCode::InvalidRequest);
        let outstanding = self.responses.iter().filter(|r| r.is_running()).count();
        let Some(eth) = p.ext.atomic.filter(|e| e.va % 8 == 0) else {
            return Err(invalid);
        };
        let permitted = memory.permits(Access::RemoteAtomic);
        if outstanding >= usize::from(self.cfg.max_dest_rd_atomic) || !permitted {
            return Err(invalid);
        }
        if !memory.check(eth.rkey, eth.va, 8, Access::RemoteAtomic) {
            return Err(Refusal::Nak(NakCode::RemoteAccess));
        }
        self.msn = self.msn.add(1);
        self.epsn = self.epsn.add(1);
        self.remember(p.psn, 1, What::Atomic(p.opcode, eth, None));
        self.responses.push_back(Response::Atomic {
            psn: p.psn,
            msn: self.msn,
            original: None,
            duplicate: false,
        });
        out.push(Action::Atomic(AtomicWork {
            va: eth.va,
            rkey: eth.rkey,
            compare: (info.class == Class::CmpSwap).then_some(eth.compare),
            value: eth.swap_add,
        }));
        Ok(())
    }

    /// The oldest [`Action::Atomic`] that has not been answered is done: memory held `value`.
    pub fn atomic_done(&mut self, value: u64) {
        let waiting = self.responses.iter_mut().find_map(|r| match r {
            Response::Atomic { psn, original, .. } if original.is_none() => Some((*psn, original)),
            _ => None,
        });
        let Some((psn, original)) = waiting else {
            return;
        };
        *original = Some(value);
        for e in &mut self.executed {
            if let What::Atomic(_, _, result) = &mut e.what {
                if e.psn == psn {
                    *result = Some(value);
                }
            }
        }
    }

    fn respond(&mut self, psn: Psn, reth: Reth, count: u32, duplicate: bool) {
        self.responses.push_back(Response::Read {
            psn,
            reth,
            index: 0,
            count,
            msn: self.msn,
            duplicate,
        });
    }

    fn duplicate(
        &mut self,
        p: &PacketRepr,
        info: &OpcodeInfo,
        memory: &dyn Memory,
        out: &mut Vec<Action>,
    ) {
        if matches!(info.class, Class::CmpSwap | Class::FetchAdd) {
            return self.duplicate_atomic(p, out);
        }
        if info.class != Class::ReadRequest {
            self.acknowledge(self.epsn.sub(1));
            return out.push(Action::Drop(DropReason::Duplicate));
        }
        let Some(reth) = p.ext.reth else { return };
        let mtu = self.cfg.mtu.bytes();
        let known = self.executed.iter().any(|e| {
            let skip = p.psn.since(e.psn);
            let offset = u64::from(skip) * u64::from(mtu);
            let What::Read(old) = e.what else {
                return false;
            };
            skip < e.count
                && reth.rkey == old.rkey
                && reth.va == old.va.wrapping_add(offset)
                && offset + u64::from(reth.dma_len) <= u64::from(old.dma_len)
        });
        let len = u64::from(reth.dma_len);
        let allowed = len == 0 || memory.check(reth.rkey, reth.va, len, Access::RemoteRead);
        if !known || !allowed {
            return out.push(Action::Drop(DropReason::DuplicateUnmatched));
        }
        let coming = self.responses.iter().any(|r| match r {
            Response::Read {
                psn, index, count, ..
            } => {
                let at = p.psn.since(*psn);
                at >= *index && at < *count
            }
            Response::Answer { .. } | Response::Atomic { .. } => false,
        });
        if !coming && self.has_room() {
            self.respond(p.psn, reth, self.cfg.mtu.packets(len), true);
        }
        out.push(Action::Drop(DropReason::Duplicate));
    }

    /// A legal requester cannot need more; a forged flood must not grow the queue.
    fn has_room(&self) -> bool {
        self.responses.len() < 4 * usize::from(self.cfg.max_dest_rd_atomic) + 4
    }

    /// Never executed again: the answer is the first one's (IBTA 9.4.5, field fault A10).
    fn duplicate_atomic(&mut self, p: &PacketRepr, out: &mut Vec<Action>) {
        let known = self.executed.iter().find_map(|e| match e.what {
            What::Atomic(op, eth, original)
                if e.psn == p.psn && op == p.opcode && Some(eth) == p.ext.atomic =>
            {
                Some(original)
            }
            _ => None,
        });
        let Some(original) = known else {
            return out.push(Action::Drop(DropReason::DuplicateUnmatched));
        };
        let coming = self
            .responses
            .iter()
            .any(|r| matches!(r, Response::Atomic { psn, .. } if *psn == p.psn));
        if !coming && self.has_room() {
            self.responses.push_back(Response::Atomic {
                psn: p.psn,
                msn: self.msn,
                original,
                duplicate: true,
            });
        }
        out.push(Action::Drop(DropReason::Duplicate));
    }

    /// Queue an ACK of everything up to `psn`, or widen the one at the end of the queue.
    fn acknowledge(&mut self, psn: Psn) {
        let now = self.msn;
        if let Some(Response::Answer {
            psn: p,
            syndrome: Syndrome::Ack { .. },
            msn,
        }) = self.responses.back_mut()
        {
            *p = psn;
            *msn = now;
        } else {
            self.answer(psn, Syndrome::ACK);
        }
    }

    fn answer(&mut self, psn: Psn, syndrome: Syndrome) {
        self.responses.push_back(Response::Answer {
            psn,
            syndrome,
            msn: self.msn,
        });
    }

    fn complete_receive(
        &mut self,
        recv: Recv,
        byte_len: u64,
        p: &PacketRepr,
        write: bool,
        out: &mut Vec<Action>,
    ) {
        out.push(Action::RecvComplete {
            wr_id: recv.wr.wr_id,
            status: Status::Success,
            byte_len,
            imm: p.ext.imm,
            inv: p.ext.ieth,
            write,
            solicited: p.se,
        });
    }

    fn fail(&mut self, psn: Psn, code: NakCode, status: Status, out: &mut Vec<Action>) {
        self.answer(psn, Syndrome::Nak(code));
        self.refused = Some(code);
        if let Some(Message::Send { recv, .. }) = self.message.take() {
            out.push(failed(&recv.wr, status));
        }
        out.push(Action::ToError);
        self.flush_receives(out);
    }

    /// To ERR: flush the held receive, then the rest in order; queued responses still go out.
    pub fn flush_receives(&mut self, out: &mut Vec<Action>) {
        self.state = QpState::Err;
        if let Some(Message::Send { recv, .. }) = self.message.take() {
            out.push(failed(&recv.wr, Status::WrFlush));
        }
        let rest = self.receives.drain(..);
        out.extend(rest.map(|r| failed(&r.wr, Status::WrFlush)));
    }

    /// Modify to ERR: as [`Responder::flush_receives`], and nothing is sent any more.
    pub fn flush(&mut self, out: &mut Vec<Action>) {
        self.flush_receives(out);
        self.responses.clear();
    }
}

/// Completes by a response of its own.
fn is_answered(c: Class) -> bool {
    matches!(c, Class::ReadRequest | Class::CmpSwap | Class::FetchAdd)
}

fn failed(wr: &RecvWr, status: Status) -> Action {
    Action::RecvComplete {
        wr_id: wr.wr_id,
        status,
        byte_len: 0,
        imm: None,
        inv: None,
        write: false,
        solicited: false,
    }
}
