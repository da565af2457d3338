//! Requester half: segmentation, go-back-N, READ responses, timers, completions.
//!
//! Packets are counted from 0 in 64 bits; the PSN is `sq_psn + count` modulo 2^24. A response's
//! PSN is taken relative to the oldest unacknowledged packet, so nothing is ambiguous.

use super::segment::segment;
use super::types::{Action, QpConfig, SendOp, SendWr, Source, Status, Target, Tx};
use crate::ext::{AtomicEth, Reth};
use crate::opcode::{Class, OpcodeInfo, Service};
use crate::psn::HALF24;
use crate::qp::QpState;
use crate::roce::PacketRepr;
use crate::timing::{ack_timeout_ns, rnr_timer_ns};
use crate::{DropReason, NakCode, Opcode, Psn, Syndrome, MAX_MESSAGE};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug)]
struct Wqe {
    index: u64,
    wr: SendWr,
    /// First packet count, and how many packets.
    first: u64,
    packets: u32,
    /// READ, atomic: responses received in order.
    received: u32,
    /// READ: packet count of the latest (re)issue; its response may begin with First or Only.
    issued: u64,
    /// Nothing more of it is sent; it fails with this when all before it is complete.
    error: Option<Status>,
}

impl Wqe {
    fn end(&self) -> u64 {
        self.first + u64::from(self.packets)
    }
    /// READ or atomic.
    fn is_answered(&self) -> bool {
        self.wr.op.is_answered()
    }
    /// Has no packets: the PSN of what is before it and of what is behind it are neighbours.
    fn is_local(&self) -> bool {
        self.wr.op.is_local()
    }
}

/// Requester state.
#[derive(Clone, Debug)]
pub struct Requester {
    cfg: QpConfig,
    state: QpState,
    wqes: VecDeque<Wqe>,
    posted: u64,
    /// Packet count that the next work request begins with.
    assigned: u64,
    /// Oldest unacknowledged packet.
    unacked: u64,
    /// Next packet to transmit.
    next: u64,
    /// One past the newest packet ever transmitted.
    high: u64,
    retries: u8,
    rnr_retries: u8,
    deadline: Option<u64>,
    rnr_until: Option<u64>,
    /// Hole for which an implied NAK has already rewound.
    rewound_at: Option<u64>,
    since_ack_req: u32,
    drained: bool,
    /// The oldest work request is a local operation that has begun.
    local: bool,
    /// How many work requests of the queue are local, are answered, have an error: none is the usual case, and then nothing is searched.
    locals: usize,
    answered: usize,
    errors: usize,
}

impl Requester {
    /// A requester in RTS.
    pub fn new(cfg: QpConfig) -> Self {
        Requester {
            cfg,
            state: QpState::Rts,
            wqes: VecDeque::new(),
            posted: 0,
            assigned: 0,
            unacked: 0,
            next: 0,
            high: 0,
            retries: cfg.retry_cnt,
            rnr_retries: cfg.rnr_retry,
            deadline: None,
            rnr_until: None,
            rewound_at: None,
            since_ack_req: 0,
            drained: false,
            local: false,
            locals: 0,
            answered: 0,
            errors: 0,
        }
    }

    /// Other attributes; what is under way goes on with them. The first PSN counts only before anything was posted.
    pub(super) fn reconfigure(&mut self, cfg: QpConfig) {
        (self.retries, self.rnr_retries) = (cfg.retry_cnt, cfg.rnr_retry);
        self.cfg = cfg;
    }

    /// RTS, SQD or ERR.
    pub fn state(&self) -> QpState {
        self.state
    }
    /// PSN of the oldest unacknowledged packet.
    pub fn unacked_psn(&self) -> Psn {
        self.psn(self.unacked)
    }
    /// PSN of the next packet to transmit.
    pub fn next_psn(&self) -> Psn {
        self.psn(self.next)
    }
    /// Work requests not yet completed.
    pub fn pending(&self) -> usize {
        self.wqes.len()
    }
    /// Retries left before RETRY_EXC.
    pub fn retries_left(&self) -> u8 {
        self.retries
    }

    fn psn(&self, count: u64) -> Psn {
        self.cfg.sq_psn.add(count as u32)
    }

    /// Post a work request; in ERR it is flushed at once.
    pub fn post(&mut self, wr: SendWr, out: &mut Vec<Action>) {
        if self.state == QpState::Err {
            return out.push(failed(&wr, Status::WrFlush));
        }
        let too_long = !wr.op.is_local() && wr.len > MAX_MESSAGE;
        self.locals += usize::from(wr.op.is_local());
        self.answered += usize::from(wr.op.is_answered());
        self.errors += usize::from(too_long);
        let packets = if wr.op.is_local() {
            0
        } else if too_long {
            1
        } else {
            self.cfg.mtu.packets(wr.len)
        };
        self.wqes.push_back(Wqe {
            index: self.posted,
            wr,
            first: self.assigned,
            packets,
            received: 0,
            issued: self.assigned,
            error: too_long.then_some(Status::LocLen),
        });
        self.posted += 1;
        self.assigned += u64::from(packets);
        self.settle(out);
    }

    /// The `wqe`-th work request posted can't go on for a reason of this side, such as memory that is not there. It fails when all
    /// before it is complete.
    pub fn local_error(&mut self, wqe: u64, status: Status, out: &mut Vec<Action>) {
        let Some(first) = self.wqes.front().map(|w| w.index) else {
            return;
        };
        let at = wqe.checked_sub(first).and_then(|d| usize::try_from(d).ok());
        let Some(w) = at.and_then(|at| self.wqes.get_mut(at)) else {
            return;
        };
        if w.error.is_none() {
            w.error = Some(status);
            self.errors += 1;
        }
        self.settle(out);
    }

    fn pop(&mut self) -> Option<Wqe> {
        let w = self.wqes.pop_front()?;
        self.locals -= usize::from(w.is_local());
        self.answered -= usize::from(w.is_answered());
        self.errors -= usize::from(w.error.is_some());
        Some(w)
    }

    /// RTS to SQD: what has begun ends, then [`Action::Drained`].
    pub fn drain(&mut self, out: &mut Vec<Action>) {
        if self.state == QpState::Rts {
            self.state = QpState::Sqd;
            self.drained = false;
            self.settle(out);
        }
    }

    /// SQD to RTS.
    pub fn resume(&mut self, out: &mut Vec<Action>) {
        if self.state == QpState::Sqd {
            self.state = QpState::Rts;
            self.settle(out);
        }
    }

    /// The local operation that [`Action::Local`] has named is done, or was refused.
    pub fn local_done(&mut self, ok: bool, out: &mut Vec<Action>) {
        if !core::mem::take(&mut self.local) {
            return;
        }
        if !ok {
            return self.fail(Status::MwBind, out);
        }
        if let Some(w) = self.pop() {
            done(&w.wr, out);
        }
        self.settle(out);
    }

    /// Next request packet at `now`, if one may be sent.
    pub fn poll_transmit(&mut self, now: u64) -> Option<Tx> {
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return None;
        }
        if self.rnr_until.is_some_and(|t| now < t) {
            return None;
        }
        self.rnr_until = None;
        let at = self.wqes.partition_point(|w| w.end() <= self.next);
        let w = *self.wqes.get(at)?;
        if self.locals != 0 && self.wqes.iter().take(at).any(Wqe::is_local) {
            return None;
        }
        if self.errors != 0 && self.wqes.iter().take(at + 1).any(|w| w.error.is_some()) {
            return None;
        }
        let fresh = self.next == w.first;
        if fresh && self.state == QpState::Sqd && w.first >= self.high {
            return None;
        }
        let reads = if self.answered == 0 {
            0
        } else {
            let before = self.wqes.iter().take(at);
            before.filter(|w| w.is_answered()).count()
        };
        if fresh && w.wr.fence && reads > 0 {
            return None;
        }
        let tx = if let SendOp::Read { va, rkey } = w.wr.op {
            if reads >= usize::from(self.cfg.max_rd_atomic) {
                return None;
            }
            // A message may alone exceed the window; it never exceeds half the PSN space.
            let fits = w.end() - self.unacked <= u64::from(self.cfg.window.min(HALF24));
            if !fits && self.next != self.unacked {
                return None;
            }
            self.read_request(&w, va, rkey)
        } else {
            if w.is_answered() && reads >= usize::from(self.cfg.max_rd_atomic) {
                return None;
            }
            let window = u64::from(self.cfg.window.clamp(1, HALF24));
            let in_flight = self.next + 1 - self.unacked;
            if in_flight > window {
                return None;
            }
            self.data_packet(&w, in_flight == window)
        };
        if let Some(w) = self.wqes.get_mut(at).filter(|w| w.is_answered()) {
            w.issued = self.next;
            self.next = w.end();
        } else {
            self.next += 1;
        }
        self.high = self.high.max(self.next);
        if self.deadline.is_none() {
            self.arm(now);
        }
        Some(tx)
    }

    fn packet(&self, opcode: Opcode) -> PacketRepr {
        PacketRepr {
            mig_req: self.cfg.mig_req,
            pkey: self.cfg.pkey,
            ..PacketRepr::new(opcode, self.cfg.dest_qpn, self.psn(self.next))
        }
    }

    fn read_request(&mut self, w: &Wqe, va: u64, rkey: u32) -> Tx {
        let offset = (self.next - w.first) * u64::from(self.cfg.mtu.bytes());
        let mut packet = self.packet(Opcode::RC_READ_REQUEST);
        packet.ack_req = true;
        packet.ext.reth = Some(Reth {
            va: va.wrapping_add(offset),
            rkey,
            dma_len: (w.wr.len - offset) as u32,
        });
        self.since_ack_req = 0;
        Tx {
            packet,
            payload: Source::None,
        }
    }

    fn atomic_request(
        &mut self,
        opcode: Opcode,
        va: u64,
        rkey: u32,
        swap_add: u64,
        compare: u64,
    ) -> Tx {
        let mut packet = self.packet(opcode);
        packet.ack_req = true;
        packet.ext.atomic = Some(AtomicEth {
            va,
            rkey,
            swap_add,
            compare,
        });
        self.since_ack_req = 0;
        Tx {
            packet,
            payload: Source::None,
        }
    }

    fn data_packet(&mut self, w: &Wqe, window_full: bool) -> Tx {
        match w.wr.op {
            SendOp::CmpSwap {
                va,
                rkey,
                compare,
                swap,
            } => return self.atomic_request(Opcode::RC_CMP_SWAP, va, rkey, swap, compare),
            SendOp::FetchAdd { va, rkey, add } => {
                return self.atomic_request(Opcode::RC_FETCH_ADD, va, rkey, add, 0)
            }
            _ => {}
        }
        let index = (self.next - w.first) as u32;
        let at = (index, w.packets);
        let (message, payload) = segment(Service::Rc, self.cfg.mtu, &w.wr, w.index, at);
        let mut packet = PacketRepr {
            se: message.se,
            ext: message.ext,
            ..self.packet(message.opcode)
        };
        self.since_ack_req += 1;
        let due = self.cfg.ack_interval != 0 && self.since_ack_req >= self.cfg.ack_interval;
        packet.ack_req = index + 1 == w.packets || due || window_full;
        if packet.ack_req {
            self.since_ack_req = 0;
        }
        Tx { packet, payload }
    }

    /// A response of this QP. `info` is the row of its opcode.
    pub fn on_packet(
        &mut self,
        now: u64,
        p: &PacketRepr,
        info: &OpcodeInfo,
        payload_len: usize,
        out: &mut Vec<Action>,
    ) {
        if !matches!(self.state, QpState::Rts | QpState::Sqd) {
            return out.push(Action::Drop(DropReason::QpState));
        }
        let count = self.unacked + u64::from(p.psn.since(self.psn(self.unacked)));
        if count >= self.high {
            return out.push(Action::Drop(DropReason::StaleResponse));
        }
        match (info.class, p.ext.aeth.map(|a| a.syndrome)) {
            (Class::ReadResponse, s) => {
                self.on_read_response(now, count, info, s, payload_len, out)
            }
            (Class::Ack, Some(s)) => self.on_ack(now, count, s, out),
            (Class::AtomicAck, Some(_)) => {
                self.on_atomic_response(now, count, p.ext.atomic_ack.unwrap_or(0), out)
            }
            _ => {
                self.advance(now, count, out);
                self.fail(Status::BadResp, out);
            }
        }
        self.settle(out);
    }

    fn on_ack(&mut self, now: u64, count: u64, s: Syndrome, out: &mut Vec<Action>) {
        let to = match s {
            Syndrome::Ack { .. } => count + 1,
            Syndrome::Reserved(_) => return out.push(Action::Drop(DropReason::StaleResponse)),
            _ => count,
        };
        if self.advance(now, to, out) {
            return self.implied_nak(now, out);
        }
        match s {
            Syndrome::Nak(NakCode::PsnSequence) => self.retry(now, out),
            Syndrome::Nak(NakCode::InvalidRequest) => self.fail(Status::RemInvReq, out),
            Syndrome::Nak(NakCode::RemoteAccess) => self.fail(Status::RemAccess, out),
            Syndrome::Nak(NakCode::RemoteOperational) => self.fail(Status::RemOp, out),
            Syndrome::Rnr { timer } => {
                if self.cfg.rnr_retry != 7 {
                    if self.rnr_retries == 0 {
                        return self.fail(Status::RnrRetryExc, out);
                    }
                    self.rnr_retries -= 1;
                }
                // The peer has answered: it is slow, not gone.
                self.retries = self.cfg.retry_cnt;
                self.rewind();
                self.deadline = None;
                self.rnr_until = Some(now.saturating_add(rnr_timer_ns(timer)));
            }
            Syndrome::Ack { .. } | Syndrome::Reserved(_) => {}
        }
    }

    fn on_read_response(
        &mut self,
        now: u64,
        count: u64,
        info: &OpcodeInfo,
        syndrome: Option<Syndrome>,
        payload_len: usize,
        out: &mut Vec<Action>,
    ) {
        let at = self.wqes.partition_point(|w| w.end() <= count);
        let Some(w) = self.wqes.get(at).copied() else {
            return out.push(Action::Drop(DropReason::StaleResponse));
        };
        // A response acknowledges everything before its READ.
        if self.advance(now, w.first, out) {
            out.push(Action::Drop(DropReason::ResponseGap));
            return self.implied_nak(now, out);
        }
        if !w.is_answered() || w.wr.op.is_atomic() {
            return self.fail(Status::BadResp, out);
        }
        let expected = w.first + u64::from(w.received);
        if count != expected {
            out.push(Action::Drop(DropReason::ResponseGap));
            return self.implied_nak(now, out);
        }
        let offset = u64::from(w.received) * u64::from(self.cfg.mtu.bytes());
        let want = (w.wr.len - offset).min(u64::from(self.cfg.mtu.bytes()));
        let last = w.received + 1 == w.packets;
        // A response stream begins where its request began: at the READ's first PSN or at the
        // latest reissue; elsewhere Middle or Last continues it.
        let place_ok = info.place.ends() == last
            && (!info.place.starts() || count == w.first || count == w.issued)
            && (info.place.starts() || count != w.first);
        let syndrome_ok = matches!(syndrome, None | Some(Syndrome::Ack { .. }));
        if !place_ok || !syndrome_ok || payload_len as u64 != want {
            return self.fail(Status::BadResp, out);
        }
        if payload_len != 0 {
            out.push(Action::Place {
                target: Target::Local {
                    wqe: w.index,
                    offset,
                },
                len: payload_len as u32,
            });
        }
        if let Some(w) = self.wqes.front_mut() {
            w.received += 1;
        }
        self.advance(now, expected + 1, out);
    }

    fn on_atomic_response(&mut self, now: u64, count: u64, original: u64, out: &mut Vec<Action>) {
        // A response acknowledges everything before its request.
        if self.advance(now, count, out) {
            out.push(Action::Drop(DropReason::ResponseGap));
            return self.implied_nak(now, out);
        }
        let Some(w) = self.wqes.front_mut().filter(|w| w.wr.op.is_atomic()) else {
            return self.fail(Status::BadResp, out);
        };
        w.received = 1;
        out.push(Action::AtomicResult {
            wqe: w.index,
            original,
        });
        self.advance(now, count + 1, out);
    }

    /// In lock-step: the hardware has sent the request with this PSN, by its own decision.
    ///
    /// With this, [`Requester::on_packet`] says what a response does without this model choosing when
    /// to send; the retry counters mean nothing then.
    pub fn note_sent(&mut self, psn: Psn) {
        let ahead = psn.since(self.psn(self.unacked));
        if ahead >= HALF24 {
            // sent again before the acknowledgement was looked at
            return;
        }
        let count = self.unacked + u64::from(ahead);
        let at = self.wqes.partition_point(|w| w.end() <= count);
        let Some(w) = self.wqes.get_mut(at) else {
            return;
        };
        self.next = count + 1;
        if w.is_answered() {
            w.issued = count;
            self.next = w.end();
        }
        self.high = self.high.max(self.next);
    }

    /// Everything before `to` is acknowledged. Completes in order; stops at a READ that lacks
    /// responses and returns true if `to` lies beyond them (implied NAK, field fault A12).
    fn advance(&mut self, now: u64, to: u64, out: &mut Vec<Action>) -> bool {
        let before = self.unacked;
        let mut hole = false;
        while let Some(w) = self.wqes.front().filter(|w| !w.is_local()) {
            let acked = if w.is_answered() {
                let got = w.first + u64::from(w.received);
                hole = w.received < w.packets && to > got;
                got
            } else {
                to.min(w.end())
            };
            self.unacked = self.unacked.max(acked);
            if self.unacked < w.end() {
                break;
            }
            done(&w.wr, out);
            self.pop();
        }
        if self.unacked > before {
            self.next = self.next.max(self.unacked);
            self.retries = self.cfg.retry_cnt;
            self.rnr_retries = self.cfg.rnr_retry;
            self.rewound_at = None;
            self.deadline = None;
            if self.unacked < self.high && self.rnr_until.is_none() {
                self.arm(now);
            }
        }
        hole
    }

    fn implied_nak(&mut self, now: u64, out: &mut Vec<Action>) {
        if self.rewound_at != Some(self.unacked) {
            self.retry(now, out);
            self.rewound_at = Some(self.unacked);
        }
    }

    /// Use one retry and go back to the oldest unacknowledged packet.
    fn retry(&mut self, now: u64, out: &mut Vec<Action>) {
        if self.retries == 0 {
            return self.fail(Status::RetryExc, out);
        }
        self.retries -= 1;
        self.rewind();
        self.arm(now);
    }

    fn rewind(&mut self) {
        self.next = self.unacked;
        self.since_ack_req = 0;
    }

    fn arm(&mut self, now: u64) {
        self.deadline = ack_timeout_ns(self.cfg.timeout).map(|t| now.saturating_add(t));
    }

    /// When [`Requester::on_timer`] has something to do.
    pub fn next_deadline(&self) -> Option<u64> {
        match (self.deadline, self.rnr_until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Let due timers fire.
    pub fn on_timer(&mut self, now: u64, out: &mut Vec<Action>) {
        if self.rnr_until.is_some_and(|t| t <= now) {
            self.rnr_until = None;
        }
        if self.deadline.is_some_and(|t| t <= now) {
            self.on_timeout(now, out);
        }
    }

    /// The local ACK timer fired. In lock-step, called when the hardware's timer did.
    pub fn on_timeout(&mut self, now: u64, out: &mut Vec<Action>) {
        self.deadline = None;
        if self.unacked < self.high && self.state != QpState::Err {
            self.rewound_at = None;
            self.retry(now, out);
        }
    }

    /// The oldest work request fails with `status`, all later ones are flushed.
    fn fail(&mut self, status: Status, out: &mut Vec<Action>) {
        if let Some(w) = self.pop() {
            out.push(failed(&w.wr, status));
        }
        out.push(Action::ToError);
        self.flush(out);
    }

    /// To ERR: flush every work request, in order.
    pub fn flush(&mut self, out: &mut Vec<Action>) {
        self.state = QpState::Err;
        self.deadline = None;
        self.rnr_until = None;
        self.local = false;
        (self.locals, self.answered, self.errors) = (0, 0, 0);
        out.extend(self.wqes.drain(..).map(|w| failed(&w.wr, Status::WrFlush)));
    }

    /// What follows once the queue has moved: a local error or operation reaches the head, SQD has drained.
    fn settle(&mut self, out: &mut Vec<Action>) {
        let error = self.wqes.front().and_then(|w| w.error);
        if let Some(status) = error.filter(|_| self.state != QpState::Err) {
            self.fail(status, out);
        }
        if self.state == QpState::Rts && !self.local {
            if let Some(w) = self.wqes.front().filter(|w| w.is_local()) {
                self.local = true;
                out.push(Action::Local {
                    wqe: w.index,
                    op: w.wr.op,
                });
            }
        }
        if self.state == QpState::Sqd && !self.drained && self.begun_is_done() {
            self.drained = true;
            out.push(Action::Drained);
        }
    }

    /// No work request has begun without having ended.
    fn begun_is_done(&self) -> bool {
        !self.local && self.wqes.front().is_none_or(|w| w.first >= self.high)
    }
}

fn done(wr: &SendWr, out: &mut Vec<Action>) {
    if wr.signaled {
        out.push(Action::SendComplete {
            wr_id: wr.wr_id,
            status: Status::Success,
            op: wr.op,
            byte_len: wr.len,
        });
    }
}

fn failed(wr: &SendWr, status: Status) -> Action {
    Action::SendComplete {
        wr_id: wr.wr_id,
        status,
        op: wr.op,
        byte_len: 0,
    }
}
