//! Effects of the transport model: completions, placement, errors, local operations.
use super::engine::Engine;
use super::mem::{Bind, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE};
use super::qp::{Half, Qp};
use super::work::flushed;
use metaroce_hdl_spec::cqe::{cqe, event, recv_op};
use metaroce_hdl_spec::wqe::bind;
use metaroce_protocol::model::{Action, AtomicWork, SendOp, Status, Target};
use metaroce_protocol::qp::QpState;
use metaroce_protocol::NakCode;

/// A packet that the actions belong to.
#[derive(Clone, Copy, Default)]
pub struct Arrival<'a> {
    pub payload: &'a [u8],
    /// UD: the IP header and the source QPN.
    pub datagram: Option<(&'a [u8], u32)>,
}

/// Bytes in front of a datagram in its buffer.
const GRH: usize = 40;

impl Engine {
    /// [`Engine::arrived`] for what needs no packet, or its payload alone.
    pub fn act(&mut self, qp: &mut Qp, out: &mut Vec<Action>, payload: &[u8]) {
        let packet = Arrival {
            payload,
            datagram: None,
        };
        self.arrived(qp, out, packet);
    }

    /// Executes actions, and those that they lead to.
    pub fn arrived(&mut self, qp: &mut Qp, out: &mut Vec<Action>, packet: Arrival) {
        let mut i = 0;
        while let Some(a) = out.get(i).copied() {
            i += 1;
            match a {
                Action::Place { target, .. } => self.place(qp, target, packet, out),
                Action::SendComplete { wr_id, status, .. } => self.sent_done(qp, wr_id, status),
                Action::RecvComplete { .. } => self.received(qp, a, packet),
                Action::ToError => self.failed(qp),
                Action::Atomic(work) => self.atomic(qp, work, out),
                Action::AtomicResult { wqe, original } => {
                    let data = original.to_ne_bytes();
                    self.scatter(qp, wqe, 0, &data, out);
                }
                Action::Invalidate { rkey } => {
                    self.mrs.invalidate(qp.who(), rkey);
                }
                Action::Local { wqe, op } => {
                    if qp.state != QpState::Err {
                        let done = self.local(qp, wqe, op);
                        if let Half::Rc(m) = &mut qp.half {
                            m.local_done(done, out);
                        }
                    }
                }
                Action::Drained => self.drained(qp),
                Action::Drop(_) | Action::Cnp => {}
            }
        }
        out.clear();
        self.forget_sent(qp);
    }

    /// Requests that have completed are not kept.
    pub fn forget_sent(&mut self, qp: &mut Qp) {
        let pending = match &qp.half {
            Half::Rc(m) => m.requester.pending(),
            Half::Uc(h) => h.0.pending(),
            Half::Ud(h) => h.0.pending(),
        };
        while qp.sent.len() > pending {
            qp.sent.pop_front();
            qp.sent_from += 1;
        }
    }

    pub fn drained(&mut self, qp: &mut Qp) {
        if core::mem::take(&mut qp.drain) {
            self.event(event::SQ_DRAINED, qp.qpn);
        }
    }

    /// Payload goes to memory, where the model's own question has not brought it there yet.
    fn place(&mut self, qp: &mut Qp, target: Target, packet: Arrival, out: &mut Vec<Action>) {
        match target {
            Target::Local { wqe, offset } => self.scatter(qp, wqe, offset, packet.payload, out),
            // see `Memory::place` of `frames`
            _ if matches!(qp.half, Half::Rc(_)) => {}
            Target::Recv { wqe, offset } => {
                let part = (offset, packet.payload.len() as u64);
                self.iov.clear();
                let who = qp.who();
                let buffers = qp.buffers();
                let ok = buffers.stretches(&self.mrs, who, wqe, part, &mut self.iov)
                    && self.memory.scatter(&self.iov, packet.payload);
                if !ok {
                    self.recv_fault(qp, wqe, out);
                }
            }
            Target::Memory { va, rkey } => {
                self.iov.clear();
                let (who, len) = (qp.who(), packet.payload.len() as u64);
                // what has been taken away since the message began is dropped without a word, as is all on such a QP
                if self
                    .mrs
                    .stretches(who, rkey, va, len, REMOTE_WRITE, &mut self.iov)
                {
                    self.memory.scatter(&self.iov, packet.payload);
                }
            }
        }
    }

    /// UC, UD: the buffer of a receive can't be written.
    fn recv_fault(&mut self, qp: &mut Qp, wqe: u64, out: &mut Vec<Action>) {
        out.clear();
        let Action::RecvComplete { wr_id, .. } = flushed(wqe) else {
            return;
        };
        let fault = Action::RecvComplete {
            wr_id,
            status: Status::LocProt,
            byte_len: 0,
            imm: None,
            inv: None,
            write: false,
            solicited: false,
        };
        self.received(qp, fault, Arrival::default());
        self.end(qp);
    }

    /// What a READ or an atomic brings; memory that is not there ends the QP.
    fn scatter(&mut self, qp: &mut Qp, wqe: u64, offset: u64, data: &[u8], out: &mut Vec<Action>) {
        let mem = (&self.mrs, &self.memory);
        if qp.scatter(mem, &mut self.iov, wqe, offset, data) || qp.state == QpState::Err {
            return;
        }
        self.sent_done(qp, wqe, Status::LocProt);
        self.failed(qp);
        if let Half::Rc(m) = &mut qp.half {
            m.to_error(out);
        }
    }

    fn atomic(&mut self, qp: &mut Qp, work: AtomicWork, out: &mut Vec<Action>) {
        let who = qp.who();
        self.iov.clear();
        let mut word = [0; 8];
        let rights = REMOTE_ATOMIC;
        let found = self
            .mrs
            .stretches(who, work.rkey, work.va, 8, rights, &mut self.iov)
            && self.memory.gather(&self.iov, &mut word);
        let old = u64::from_ne_bytes(word);
        let new = work.result(old).to_ne_bytes();
        let done = found && (new == word || self.memory.scatter(&self.iov, &new));
        if let Half::Rc(m) = &mut qp.half {
            if done {
                m.responder.atomic_done(old);
            } else {
                m.read_fault(out);
            }
        }
    }

    /// BIND_MW or LOCAL_INV; false: refused.
    pub fn local(&mut self, qp: &Qp, wqe: u64, op: SendOp) -> bool {
        let who = qp.who();
        if let SendOp::LocalInv { rkey } = op {
            return self.mrs.invalidate(who, rkey);
        }
        let Some(e) = qp.sent_at(wqe) else {
            return false;
        };
        let unit = qp.sq.unit(e.index);
        let right = |f: metaroce_hdl_spec::Field, bit| if f.get(unit) != 0 { bit } else { 0 };
        self.mrs.bind(
            who,
            &Bind {
                key: bind::key.get(unit) as u32,
                lkey: bind::lkey.get(unit) as u32,
                va: bind::va.get(unit),
                len: bind::len.get(unit),
                access: right(bind::write, REMOTE_WRITE)
                    | right(bind::read, REMOTE_READ)
                    | right(bind::atomic, REMOTE_ATOMIC),
            },
        )
    }

    fn stamp(&self, body: &mut [u8]) {
        cqe::timestamp.put(body, self.clock.now());
    }

    /// A send request, or a part of it, completes.
    pub fn sent_done(&mut self, qp: &mut Qp, wqe: u64, status: Status) {
        let Some(e) = qp.sent_at(wqe).copied() else {
            return;
        };
        if e.silent {
            return;
        }
        if status != Status::Success {
            let from = (wqe - qp.sent_from) as usize;
            for s in qp.sent.iter_mut().skip(from) {
                s.silent = true;
                if s.last {
                    break;
                }
            }
        }
        let mut b = [0u8; 64];
        cqe::qpn.put(&mut b, qp.qpn as u64);
        cqe::opcode.put(&mut b, e.opcode as u64);
        cqe::index.put(&mut b, e.index as u64);
        cqe::status.put(&mut b, status as u64);
        if status == Status::Success {
            cqe::length.put(&mut b, e.length as u64);
        }
        self.stamp(&mut b);
        let unanswered = !matches!(qp.half, Half::Rc(_));
        if unanswered && (status == Status::Success || self.is_late(qp.qpn)) {
            return self.complete_late(qp.scq, qp.qpn, b);
        }
        self.complete(qp.scq, qp.qpn, b);
    }

    fn received(&mut self, qp: &mut Qp, a: Action, packet: Arrival) {
        let Action::RecvComplete {
            wr_id,
            status,
            byte_len,
            imm,
            inv,
            write,
            solicited,
        } = a
        else {
            return;
        };
        let index = match qp.srq {
            None => (wr_id << qp.stride) as u16,
            Some(_) => {
                let at = qp.held.iter().position(|h| h.wqe == wr_id);
                match at.and_then(|at| qp.held.remove(at)) {
                    Some(h) => h.number,
                    None => return,
                }
            }
        };
        qp.completed = qp.completed.max(wr_id + 1);
        let mut b = [0u8; 64];
        let opcode = match (write, imm, inv) {
            (true, ..) => recv_op::WRITE_IMM,
            (_, Some(_), _) => recv_op::SEND_IMM,
            (_, _, Some(_)) => recv_op::SEND_INV,
            _ => recv_op::SEND,
        };
        cqe::qpn.put(&mut b, qp.qpn as u64);
        cqe::opcode.put(&mut b, opcode as u64);
        cqe::index.put(&mut b, index as u64);
        cqe::status.put(&mut b, status as u64);
        cqe::is_recv.put(&mut b, 1);
        cqe::solicited.put(&mut b, solicited as u64);
        cqe::length.put(&mut b, byte_len);
        if let Some(imm) = imm {
            cqe::with_imm.put(&mut b, 1);
            cqe::imm.put_bytes(&mut b, &imm);
        }
        if let Some(key) = inv {
            cqe::with_inv.put(&mut b, 1);
            cqe::imm.put_bytes(&mut b, &key.to_be_bytes());
        }
        if let Some((header, src)) = packet.datagram {
            cqe::grh.put(&mut b, 1);
            cqe::src_qp.put(&mut b, src as u64);
            self.put_header(qp, wr_id, header);
        }
        self.stamp(&mut b);
        self.complete(qp.rcq, qp.qpn, b);
    }

    /// The IP header in front of a datagram: 40 bytes of IPv6, or the IPv4 header in the last 20.
    fn put_header(&mut self, qp: &Qp, wqe: u64, header: &[u8]) {
        let part = ((GRH - header.len()) as u64, header.len() as u64);
        self.iov.clear();
        let who = qp.who();
        if qp
            .buffers()
            .stretches(&self.mrs, who, wqe, part, &mut self.iov)
        {
            self.memory.scatter(&self.iov, header);
        }
    }

    /// The QP is in ERR from here on.
    fn failed(&mut self, qp: &mut Qp) {
        if qp.state == QpState::Err {
            return;
        }
        qp.state = QpState::Err;
        if let Half::Rc(m) = &qp.half {
            match m.responder.refused() {
                Some(NakCode::RemoteAccess) => self.event(event::QP_ACCESS_ERR, qp.qpn),
                Some(_) => self.event(event::QP_REQ_ERR, qp.qpn),
                None => {}
            }
        }
        if qp.srq.is_some() {
            self.event(event::LAST_WQE, qp.qpn);
        }
    }

    /// Its send ring is not what it has to be.
    pub fn fatal(&mut self, qp: &mut Qp) {
        self.event(event::QP_FATAL, qp.qpn);
        self.end(qp);
        qp.broken = true;
    }

    /// UC, UD: a send request fails, and the QP with it.
    pub fn fail_sent(&mut self, qp: &mut Qp, wqe: u64, status: Status) {
        self.sent_done(qp, wqe, status);
        self.end(qp);
    }

    /// To ERR, with all that is posted.
    pub fn end(&mut self, qp: &mut Qp) {
        let mut out = Vec::new();
        if let Half::Rc(m) = &mut qp.half {
            m.to_error(&mut out);
            self.act(qp, &mut out, &[]);
            self.failed(qp);
            return self.take_sends(qp);
        }
        for wqe in qp.sent_from..qp.sent_from + qp.sent.len() as u64 {
            self.sent_done(qp, wqe, Status::WrFlush);
        }
        out.extend((qp.completed..qp.received).map(flushed));
        qp.clear_half();
        self.act(qp, &mut out, &[]);
        self.failed(qp);
        self.take_sends(qp);
    }
}
