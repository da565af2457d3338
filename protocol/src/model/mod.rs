//! Transport reference model: what a correct QP does, packet by packet. RC is [`Qp`]; UC and UD, which
//! keep much less, are the halves in [`unreliable`].
//!
//! Explicit state, explicit time (nanoseconds), no clock, no I/O and no payload bytes: inputs are
//! events, outputs are [`Action`]s and packets that *refer* to payload. Packets are pulled
//! ([`Qp::poll_transmit`]), one a call, so that the one who transmits decides when: hardware in
//! lock-step, or a simulation.
//!
//! Go-back-N (tracker depth 1). Rules by section of the wire facts: PSN §5, syndromes §6, ACK
//! rules §7, timers §11, completions §12, lengths §13.
//!
//! # Decisions where the sources leave a choice
//! * Responder checks in this order: PSN, opcode sequence, opcode supported, payload rule, receive
//!   WQE (RNR), lengths, rkey. A WRITE+Imm takes its receive WQE when it ends.
//! * An implied NAK (a response beyond a hole in READ responses) costs one retry, once per hole.
//! * An RNR NAK restores `retry_cnt`: the peer has answered, so a long wait for a receive under
//!   loss ends only by `rnr_retry`. `rnr_retry` itself is restored by progress alone.
//! * `retry_cnt` 7 means seven; only `rnr_retry` 7 means for ever.
//! * READ responses are data: an ACK is queued behind all responses of READs before it.
//! * A duplicate READ whose responses are still queued is not queued again.
//! * Atomics count with READs, in both roles, and are answered in order with them.
//!
//! * The owner of the windows executes local operations and invalidations ([`Action::Local`],
//!   [`Action::Invalidate`]; [`Windows`]). A SEND that may not invalidate what it names is a NAK remote access,
//!   as for any other key.
//!
//! # Not modelled
//! FLUSH and ATOMIC WRITE are refused with NAK invalid request. Windows of type 1,
//! SRQ, credits and congestion control are not here.

mod check_responses;
mod checker;
mod memory;
mod requester;
mod responder;
mod segment;
mod types;
pub mod unreliable;

pub use checker::{Side, WireChecker, WireError, WireErrorKind};
pub use memory::{Access, Memory, MemoryRegion, MrTable, Placed, SeenBy, Windows};
pub use requester::Requester;
pub use responder::Responder;
pub use types::{Action, AtomicWork, QpConfig, RecvWr, SendOp, SendWr, Source, Status, Target, Tx};

use crate::opcode::Service;
use crate::qp::QpState;
use crate::roce::PacketRepr;
use crate::DropReason;
use alloc::vec::Vec;

/// Both halves of an RC QP. An error of either flushes both (wire facts §12).
#[derive(Clone, Debug)]
pub struct Qp {
    cfg: QpConfig,
    /// Requester half.
    pub requester: Requester,
    /// Responder half.
    pub responder: Responder,
}

impl Qp {
    /// A QP in RTS.
    pub fn new(cfg: QpConfig) -> Self {
        Qp {
            cfg,
            requester: Requester::new(cfg),
            responder: Responder::new(cfg),
        }
    }

    /// Other attributes, as by MODIFY_QP. What has been posted stays, and what is under way goes on with them.
    pub fn reconfigure(&mut self, cfg: QpConfig) {
        self.cfg = cfg;
        self.requester.reconfigure(cfg);
        self.responder.reconfigure(cfg);
    }

    /// To RTR: other attributes, and `cfg.rq_psn` is expected. Nothing has been received.
    pub fn start_responder(&mut self, cfg: QpConfig) {
        self.reconfigure(cfg);
        self.responder.start(cfg.rq_psn);
    }

    /// See [`Requester::local_error`].
    pub fn local_error(&mut self, wqe: u64, status: Status, out: &mut Vec<Action>) {
        let from = out.len();
        self.requester.local_error(wqe, status, out);
        self.couple(from, out);
    }

    /// See [`Responder::read_fault`].
    pub fn read_fault(&mut self, out: &mut Vec<Action>) {
        let from = out.len();
        self.responder.read_fault(out);
        self.couple(from, out);
    }

    /// Attributes.
    pub fn config(&self) -> &QpConfig {
        &self.cfg
    }

    /// RTS, SQD or ERR.
    pub fn state(&self) -> QpState {
        self.requester.state()
    }

    /// Post a send work request.
    pub fn post_send(&mut self, wr: SendWr, out: &mut Vec<Action>) {
        let from = out.len();
        self.requester.post(wr, out);
        self.couple(from, out);
    }

    /// Post a receive work request.
    pub fn post_recv(&mut self, wr: RecvWr, out: &mut Vec<Action>) {
        self.responder.post(wr, out);
    }

    /// A packet that passed the codec (ICRC included) arrived with `payload_len` bytes.
    ///
    /// All actions appended belong to this packet; a `Place` takes its whole payload.
    pub fn on_packet(
        &mut self,
        now: u64,
        p: &PacketRepr,
        payload_len: usize,
        memory: &dyn Memory,
        out: &mut Vec<Action>,
    ) {
        let Some(info) = p.opcode.info() else {
            return out.push(Action::Drop(DropReason::BadOpcode));
        };
        if p.dest_qpn != self.cfg.qpn {
            return out.push(Action::Drop(DropReason::BadQpn));
        }
        if info.service == Service::Cnp {
            return out.push(Action::Cnp);
        }
        if info.service != Service::Rc {
            return out.push(Action::Drop(DropReason::WrongService));
        }
        // Two limited members do not match each other.
        let full = (p.pkey | self.cfg.pkey) & 0x8000 != 0;
        if (p.pkey ^ self.cfg.pkey) & 0x7fff != 0 || !full {
            return out.push(Action::Drop(DropReason::BadPkey));
        }
        let from = out.len();
        if info.is_response() {
            self.requester.on_packet(now, p, info, payload_len, out);
        } else {
            self.responder.on_packet(p, info, payload_len, memory, out);
        }
        self.couple(from, out);
    }

    /// The outcome of the local operation that [`Action::Local`] has named.
    pub fn local_done(&mut self, ok: bool, out: &mut Vec<Action>) {
        let from = out.len();
        self.requester.local_done(ok, out);
        self.couple(from, out);
    }

    /// Next packet to send at `now`; responses go first.
    pub fn poll_transmit(&mut self, now: u64) -> Option<Tx> {
        self.responder
            .poll_transmit()
            .or_else(|| self.requester.poll_transmit(now))
    }

    /// When [`Qp::on_timer`] has something to do, in nanoseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.requester.next_deadline()
    }

    /// Let timers that are due at `now` fire.
    pub fn on_timer(&mut self, now: u64, out: &mut Vec<Action>) {
        let from = out.len();
        self.requester.on_timer(now, out);
        self.couple(from, out);
    }

    /// Modify to ERR: both queues are flushed in order, nothing is sent any more.
    pub fn to_error(&mut self, out: &mut Vec<Action>) {
        self.requester.flush(out);
        self.responder.flush(out);
    }

    /// If one half went to ERR in the actions from `from` on, flush the other.
    fn couple(&mut self, from: usize, out: &mut Vec<Action>) {
        let failed = out
            .get(from..)
            .is_some_and(|a| a.iter().any(|a| matches!(a, Action::ToError)));
        if failed {
            self.requester.flush(out);
            self.responder.flush_receives(out);
        }
    }
}
