//! The responder's side of the wire checker.

use super::checker::{Flow, Parsed, WireErrorKind};
use crate::ext::Aeth;
use crate::opcode::Class;
use crate::psn::HALF24;
use crate::{Msn, NakCode, Syndrome};

impl Flow {
    /// A response to this flow's requests was sent.
    pub(super) fn response_sent(&mut self, p: &Parsed) -> Result<(), WireErrorKind> {
        if p.packet.ack_req {
            return Err(WireErrorKind::AckReqInResponse);
        }
        if self.dead {
            return Err(WireErrorKind::ResponseAfterFatalNak);
        }
        // Before anything was received a duplicate may be answered with the PSN before the first.
        let count = self
            .behind(p.packet.psn)
            .ok_or(WireErrorKind::ResponseBeyondSent)?;
        match (p.info.class, p.packet.ext.aeth) {
            (Class::ReadResponse, aeth) => self.read_response(p, count, aeth),
            (Class::AtomicAck, Some(aeth)) => {
                self.atomic_response(count, p.packet.ext.atomic_ack.unwrap_or(0), aeth)
            }
            (_, Some(aeth)) => self.answer(count, aeth),
            _ => Err(WireErrorKind::UnexpectedOpcode),
        }
    }

    /// Does something acknowledged up to (not including) `to` cover an unanswered READ?
    fn covers_open_read(&self, to: u64) -> bool {
        self.reads.iter().any(|r| !r.finished && r.first < to)
    }

    fn answer(&mut self, count: u64, aeth: Aeth) -> Result<(), WireErrorKind> {
        let to = match aeth.syndrome {
            Syndrome::Ack { .. } => count + 1,
            Syndrome::Reserved(_) => return Err(WireErrorKind::ReservedSyndrome),
            _ => count,
        };
        let sequence_nak = aeth.syndrome == Syndrome::Nak(NakCode::PsnSequence);
        // A sequence NAK names the packet that is missing; all others answer one that came.
        let limit = if sequence_nak {
            self.received + 1
        } else {
            self.received
        };
        if count >= limit {
            return Err(WireErrorKind::ResponseBeyondReceived);
        }
        if to < self.last_ack {
            return Err(WireErrorKind::AckWentBack);
        }
        if self.covers_open_read(to) {
            return Err(WireErrorKind::AckBeforeReadResponse);
        }
        if sequence_nak && self.newest <= count + 1 {
            return Err(WireErrorKind::NakWithoutGap);
        }
        if !matches!(aeth.syndrome, Syndrome::Ack { .. }) {
            if let Some(r) = self.record(count) {
                // One for the gap, and one for each time the packet came and was refused.
                if r.naks > r.arrivals {
                    return Err(WireErrorKind::NakRepeated);
                }
                r.naks += 1;
            }
        }
        self.message_number(aeth.msn)?;
        self.last_ack = to;
        self.acked = self.acked.max(to);
        self.dead = matches!(aeth.syndrome, Syndrome::Nak(_)) && !sequence_nak;
        Ok(())
    }

    fn message_number(&mut self, msn: Msn) -> Result<(), WireErrorKind> {
        let step = msn.since(Msn::new(self.msn as u32));
        if step >= HALF24 {
            return Err(WireErrorKind::MsnWentBack);
        }
        if self.msn + u64::from(step) > self.messages {
            return Err(WireErrorKind::MsnBeyondReceived);
        }
        self.msn += u64::from(step);
        Ok(())
    }

    fn atomic_response(&mut self, count: u64, value: u64, aeth: Aeth) -> Result<(), WireErrorKind> {
        let received = self.received;
        let span = self.read_at(count).ok_or(WireErrorKind::NotAnAtomic)?;
        let Some(answer) = &mut span.atomic else {
            return Err(WireErrorKind::NotAnAtomic);
        };
        if count >= received {
            return Err(WireErrorKind::ResponseBeyondReceived);
        }
        if answer.is_some_and(|v| v != value) {
            return Err(WireErrorKind::AtomicAnswerDiffers);
        }
        *answer = Some(value);
        if !matches!(aeth.syndrome, Syndrome::Ack { .. }) {
            return Err(WireErrorKind::ReservedSyndrome);
        }
        if self.covers_open_read(count) {
            return Err(WireErrorKind::AckBeforeReadResponse);
        }
        self.message_number(aeth.msn)?;
        if let Some(span) = self.read_at(count) {
            span.finished = true;
        }
        self.stream = None;
        self.last_ack = self.last_ack.max(count);
        self.acked = self.acked.max(count + 1);
        Ok(())
    }

    fn read_response(
        &mut self,
        p: &Parsed,
        count: u64,
        aeth: Option<Aeth>,
    ) -> Result<(), WireErrorKind> {
        let mtu = u64::from(self.cfg.mtu.bytes());
        let (received, stream, place) = (self.received, self.stream, p.info.place);
        let read = self
            .read_at(count)
            .filter(|r| r.atomic.is_none())
            .ok_or(WireErrorKind::NotARead)?;
        if read.end() > received {
            return Err(WireErrorKind::ResponseBeyondReceived);
        }
        let index = count - read.first;
        let last = index + 1 == u64::from(read.count);
        let begins_well = if place.starts() {
            read.issues.contains(&count)
        } else {
            stream == Some(count)
        };
        if !begins_well || place.ends() != last {
            return Err(WireErrorKind::ReadResponseSequence);
        }
        let want = (u64::from(read.reth.dma_len) - index * mtu).min(mtu);
        if p.payload.len() as u64 != want {
            return Err(WireErrorKind::PayloadLength);
        }
        let first = read.first;
        if self.covers_open_read(first) {
            return Err(WireErrorKind::AckBeforeReadResponse);
        }
        if let Some(aeth) = aeth {
            if !matches!(aeth.syndrome, Syndrome::Ack { .. }) {
                return Err(WireErrorKind::ReservedSyndrome);
            }
            self.message_number(aeth.msn)?;
        }
        if last {
            if let Some(read) = self.read_at(count) {
                read.finished = true;
            }
        }
        self.stream = (!last).then_some(count + 1);
        self.last_ack = self.last_ack.max(first);
        self.acked = self.acked.max(count + 1);
        Ok(())
    }
}
