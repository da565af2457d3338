//! Wire checker: is every frame between two RC QPs legal?
//!
//! The frames are given in the order in which they were seen. [`WireChecker::sent`] when a side
//! transmits, [`WireChecker::delivered`] when the frame reaches the other side intact; a tap on a
//! wire that loses nothing calls [`WireChecker::observe`], which is both.
//!
//! What is checked never depends on timing: a retransmission is always allowed, but must repeat
//! the packet; an acknowledgement may be late, but never ahead of what was delivered.
//! Only RC SEND, WRITE, READ, atomics, their responses, and CNP are legal here.

use super::segment::message_bytes;
use super::types::QpConfig;
use crate::ext::Reth;
use crate::icrc::Icrc;
use crate::opcode::{Class, OpcodeInfo, Service};
use crate::psn::HALF24;
use crate::roce::{check_payload, PacketRepr};
use crate::{DropReason, Frame, Mtu, Psn, MAX_MESSAGE};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// One end of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first configuration given.
    A,
    /// The second.
    B,
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireErrorKind {
    /// The codec refuses it (ICRC included).
    Codec(DropReason),
    /// A pad byte is not zero.
    PadNotZero,
    /// A reserved bit is set.
    ReservedBits,
    /// Destination QPN is not the peer's.
    WrongQpn,
    /// P_Key is not the connection's.
    WrongPkey,
    /// Not an opcode of this checker's connection.
    UnexpectedOpcode,
    /// PSN beyond the next new one, or jumping forward over unsent or unacknowledged packets.
    PsnSkipped,
    /// PSN before the first of the connection, or longer ago than the checker remembers.
    PsnTooOld,
    /// Opcode does not follow the previous packet of the message.
    OpcodeSequence,
    /// Payload length against MTU, place or DMALen.
    PayloadLength,
    /// DMALen above 2^31.
    MessageTooLong,
    /// SE on a packet that may not carry it.
    SolicitedBit,
    /// More READs outstanding than `max_rd_atomic`.
    TooManyReads,
    /// A retransmission differs from the packet first sent with this PSN.
    RetransmissionDiffers,
    /// A reissued READ does not ask for the rest of the original.
    ReadReissueDiffers,
    /// AckReq in a response.
    AckReqInResponse,
    /// Response for a PSN that was never sent.
    ResponseBeyondSent,
    /// ACK, NAK or READ response for a request that had not been delivered.
    ResponseBeyondReceived,
    /// Acknowledgement goes back behind an earlier one.
    AckWentBack,
    /// Acknowledgement covers a READ whose responses have not all been sent.
    AckBeforeReadResponse,
    /// Second NAK for a PSN that has not arrived again since.
    NakRepeated,
    /// Sequence NAK although nothing later was delivered.
    NakWithoutGap,
    /// Syndrome with a reserved value.
    ReservedSyndrome,
    /// MSN decreased.
    MsnWentBack,
    /// MSN counts more messages than were delivered.
    MsnBeyondReceived,
    /// READ response for a PSN that is no READ's.
    NotARead,
    /// READ response stream begins or continues at the wrong PSN, or ends at the wrong one.
    ReadResponseSequence,
    /// A response after a NAK that ends the connection.
    ResponseAfterFatalNak,
    /// Address of an atomic that is no multiple of 8.
    AtomicUnaligned,
    /// ATOMIC ACK for a PSN that is no atomic's.
    NotAnAtomic,
    /// Second answer to an atomic with another value than the first.
    AtomicAnswerDiffers,
}

/// A frame that is not legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError {
    /// Transmitter.
    pub side: Side,
    /// Number of the frame among all `sent` calls, from 0.
    pub frame: u64,
    /// Its PSN, if it has one.
    pub psn: Option<Psn>,
    /// What is wrong.
    pub kind: WireErrorKind,
}

/// Packets remembered for the comparison of retransmissions.
const REMEMBER: usize = 1 << 16;

/// A request packet as first sent; AckReq and the ECN bits may differ later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    packet: PacketRepr,
    payload_len: usize,
    payload_crc: u32,
    pub(super) arrivals: u32,
    pub(super) naks: u32,
}

#[derive(Clone, Debug)]
pub(super) struct ReadSpan {
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) reth: Reth,
    /// It is an atomic, not a READ: with its answer, once that has been sent.
    pub(super) atomic: Option<Option<u64>>,
    /// Packet counts at which the request was issued.
    pub(super) issues: Vec<u64>,
    /// The response that ends it has been sent.
    pub(super) finished: bool,
}

impl ReadSpan {
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }
}

/// Requests of one side and the responses to them. Packets are counted from 0 in 64 bits.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) cfg: QpConfig,
    /// Next new packet.
    pub(super) high: u64,
    /// Packet that follows the one last sent.
    cursor: u64,
    /// Message that has not ended: class, DMALen if a WRITE, bytes so far.
    message: Option<(Class, Option<u64>, u64)>,
    /// The last packets sent, ending at `high`; READ spans hold one entry a PSN only at `issues`.
    sent: VecDeque<(u64, Sent)>,
    pub(super) reads: VecDeque<ReadSpan>,
    /// Upper bound of the responder's expected packet, and of its completed messages.
    pub(super) received: u64,
    pub(super) messages: u64,
    /// One past the newest packet delivered.
    pub(super) newest: u64,
    /// One past what acknowledgements and READ responses cover.
    pub(super) acked: u64,
    pub(super) last_ack: u64,
    pub(super) msn: u64,
    /// READ response stream that must continue at this packet.
    pub(super) stream: Option<u64>,
    pub(super) dead: bool,
}

impl Flow {
    fn new(cfg: QpConfig) -> Self {
        Flow {
            cfg,
            high: 0,
            cursor: 0,
            message: None,
            sent: VecDeque::new(),
            reads: VecDeque::new(),
            received: 0,
            messages: 0,
            newest: 0,
            acked: 0,
            last_ack: 0,
            msn: 0,
            stream: None,
            dead: false,
        }
    }

    /// Count of a PSN sent before `high`; `None` if it is not behind by 1..=2^23 or precedes all.
    pub(super) fn behind(&self, psn: Psn) -> Option<u64> {
        let back = self.cfg.sq_psn.add(self.high as u32).since(psn);
        let legal = (1..=HALF24).contains(&back) && u64::from(back) <= self.high;
        legal.then(|| self.high - u64::from(back))
    }

    pub(super) fn record(&mut self, count: u64) -> Option<&mut Sent> {
        let at = self.sent.partition_point(|(c, _)| *c < count);
        self.sent
            .get_mut(at)
            .filter(|(c, _)| *c == count)
            .map(|(_, s)| s)
    }

    pub(super) fn read_at(&mut self, count: u64) -> Option<&mut ReadSpan> {
        let at = self.reads.partition_point(|r| r.end() <= count);
        self.reads.get_mut(at).filter(|r| r.first <= count)
    }

    fn request_sent(&mut self, p: &Parsed) -> Result<(), WireErrorKind> {
        if p.packet.psn == self.cfg.sq_psn.add(self.high as u32) {
            return self.new_request(p);
        }
        let count = self.behind(p.packet.psn).ok_or(WireErrorKind::PsnSkipped)?;
        // Forward only to where acknowledgements have moved the window.
        if count > self.cursor && count > self.acked {
            return Err(WireErrorKind::PsnSkipped);
        }
        if p.info.class == Class::ReadRequest {
            return self.reissued_read(p, count);
        }
        let now = p.record();
        let old = self.record(count).ok_or(WireErrorKind::PsnTooOld)?;
        let same = old.packet == now.packet
            && old.payload_len == now.payload_len
            && old.payload_crc == now.payload_crc;
        if !same {
            return Err(WireErrorKind::RetransmissionDiffers);
        }
        self.cursor = count + 1;
        Ok(())
    }

    fn reissued_read(&mut self, p: &Parsed, count: u64) -> Result<(), WireErrorKind> {
        let mtu = u64::from(self.cfg.mtu.bytes());
        let reth = p.packet.ext.reth.unwrap_or_default();
        let record = p.record();
        let read = self
            .read_at(count)
            .filter(|r| r.atomic.is_none())
            .ok_or(WireErrorKind::RetransmissionDiffers)?;
        let offset = (count - read.first) * mtu;
        let same = reth.rkey == read.reth.rkey
            && reth.va == read.reth.va.wrapping_add(offset)
            && u64::from(reth.dma_len) + offset == u64::from(read.reth.dma_len);
        if !same {
            return Err(WireErrorKind::ReadReissueDiffers);
        }
        if !read.issues.contains(&count) {
            read.issues.push(count);
        }
        let end = read.end();
        if self.record(count).is_none() {
            let at = self.sent.partition_point(|(c, _)| *c < count);
            self.sent.insert(at, (count, record));
        }
        self.cursor = end;
        Ok(())
    }

    fn new_request(&mut self, p: &Parsed) -> Result<(), WireErrorKind> {
        let (info, reth) = (p.info, p.packet.ext.reth);
        if self.cursor != self.high && self.acked < self.high {
            return Err(WireErrorKind::PsnSkipped);
        }
        let follows = match self.message {
            None => info.place.starts(),
            Some((class, ..)) => class == info.class && !info.place.starts(),
        };
        if !follows {
            return Err(WireErrorKind::OpcodeSequence);
        }
        if !check_payload(info, p.payload.len(), self.cfg.mtu) {
            return Err(WireErrorKind::PayloadLength);
        }
        if reth.is_some_and(|r| u64::from(r.dma_len) > MAX_MESSAGE) {
            return Err(WireErrorKind::MessageTooLong);
        }
        let may_solicit = info.place.ends() && (info.class == Class::Send || info.consumes_recv());
        if p.packet.se && !may_solicit {
            return Err(WireErrorKind::SolicitedBit);
        }
        let mut packets = 1;
        let atomic = p.packet.ext.atomic;
        if atomic.is_some_and(|a| a.va % 8 != 0) {
            return Err(WireErrorKind::AtomicUnaligned);
        }
        if info.class == Class::ReadRequest || atomic.is_some() {
            let reth = reth.unwrap_or_default();
            let open = self.reads.iter().filter(|r| !r.finished).count();
            if open >= usize::from(self.cfg.max_rd_atomic) {
                return Err(WireErrorKind::TooManyReads);
            }
            packets = self.cfg.mtu.packets(u64::from(reth.dma_len));
            self.reads.push_back(ReadSpan {
                first: self.high,
                count: packets,
                reth,
                atomic: atomic.map(|_| None),
                issues: Vec::from([self.high]),
                finished: false,
            });
            if self.reads.len() > REMEMBER {
                self.reads.pop_front();
            }
        } else {
            let (total, so_far) = match self.message {
                Some((_, total, so_far)) => (total, so_far),
                None => (reth.map(|r| u64::from(r.dma_len)), 0),
            };
            let bytes = message_bytes(info, total, so_far, p.payload.len())
                .ok_or(WireErrorKind::PayloadLength)?;
            self.message = (!info.place.ends()).then_some((info.class, total, bytes));
        }
        self.sent.push_back((self.high, p.record()));
        if self.sent.len() > REMEMBER {
            self.sent.pop_front();
        }
        self.high += u64::from(packets);
        self.cursor = self.high;
        Ok(())
    }

    fn request_delivered(&mut self, p: &Parsed) {
        let Some(count) = self.behind(p.packet.psn) else {
            return;
        };
        self.newest = self.newest.max(count + 1);
        if let Some(r) = self.record(count) {
            r.arrivals += 1;
        }
        if count != self.received {
            return;
        }
        self.received = match self.read_at(count) {
            Some(r) => r.end(),
            None => count + 1,
        };
        if p.info.place.ends() {
            self.messages += 1;
        }
    }
}

/// A decoded frame.
pub(super) struct Parsed<'a> {
    pub(super) packet: PacketRepr,
    pub(super) info: &'static OpcodeInfo,
    pub(super) payload: &'a [u8],
}

impl Parsed<'_> {
    fn record(&self) -> Sent {
        let mut crc = Icrc::new();
        crc.update(self.payload);
        let packet = PacketRepr {
            ack_req: false,
            fecn: false,
            becn: false,
            ..self.packet
        };
        Sent {
            packet,
            payload_len: self.payload.len(),
            payload_crc: crc.finish(),
            arrivals: 0,
            naks: 0,
        }
    }
}

/// Checks the frames between two QPs, in both directions.
#[derive(Clone, Debug)]
pub struct WireChecker {
    /// Requests of A with responses of B, and the reverse.
    a: Flow,
    b: Flow,
    frames: u64,
}

impl WireChecker {
    /// `a` and `b` are the attributes of the two QPs, each from its own end. The MTU of `a` is
    /// used for both.
    pub fn new(a: &QpConfig, b: &QpConfig) -> Self {
        let mtu: Mtu = a.mtu;
        WireChecker {
            a: Flow::new(*a),
            b: Flow::new(QpConfig { mtu, ..*b }),
            frames: 0,
        }
    }

    /// Frames given to [`WireChecker::sent`] so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Flow of the requests of `side`.
    fn flow(&mut self, side: Side) -> &mut Flow {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }

    /// `frame` was transmitted by `side`.
    ///
    /// # Errors
    /// The first thing that is not legal about it.
    pub fn sent(&mut self, side: Side, frame: &[u8]) -> Result<(), WireError> {
        let number = self.frames;
        self.frames += 1;
        let err = |psn, kind| WireError {
            side,
            frame: number,
            psn,
            kind,
        };
        let view = Frame::new_checked(frame).map_err(|e| err(None, WireErrorKind::Codec(e)))?;
        let p = parsed(&view);
        self.check(side, &view, &p)
            .map_err(|kind| err(Some(p.packet.psn), kind))
    }

    fn check(&mut self, side: Side, view: &Frame, p: &Parsed) -> Result<(), WireErrorKind> {
        if view.roce.pad_bytes().iter().any(|b| *b != 0) {
            return Err(WireErrorKind::PadNotZero);
        }
        if p.packet.resv6 != 0 || p.packet.resv7 != 0 {
            return Err(WireErrorKind::ReservedBits);
        }
        let cfg = self.flow(side).cfg;
        if p.packet.dest_qpn != cfg.dest_qpn {
            return Err(WireErrorKind::WrongQpn);
        }
        if p.packet.pkey != cfg.pkey {
            return Err(WireErrorKind::WrongPkey);
        }
        match (p.info.service, p.info.class) {
            (Service::Cnp, _) => Ok(()),
            (Service::Rc, Class::Send | Class::Write | Class::ReadRequest) => {
                self.flow(side).request_sent(p)
            }
            (Service::Rc, Class::CmpSwap | Class::FetchAdd) => self.flow(side).request_sent(p),
            (Service::Rc, Class::Ack | Class::ReadResponse | Class::AtomicAck) => {
                self.flow(other(side)).response_sent(p)
            }
            _ => Err(WireErrorKind::UnexpectedOpcode),
        }
    }

    /// `frame` of `side` reached the other end. Frames that the codec refuses are ignored.
    pub fn delivered(&mut self, side: Side, frame: &[u8]) {
        if let Ok(view) = Frame::new_checked(frame) {
            let p = parsed(&view);
            let flow = self.flow(side);
            if p.info.is_request() && p.packet.dest_qpn == flow.cfg.dest_qpn {
                flow.request_delivered(&p);
            }
        }
    }

    /// `frame` was transmitted by `side` and reaches the other end.
    ///
    /// # Errors
    /// As [`WireChecker::sent`].
    pub fn observe(&mut self, side: Side, frame: &[u8]) -> Result<(), WireError> {
        self.sent(side, frame)?;
        self.delivered(side, frame);
        Ok(())
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::A => Side::B,
        Side::B => Side::A,
    }
}

fn parsed<'a>(view: &Frame<'a>) -> Parsed<'a> {
    Parsed {
        packet: PacketRepr::parse(&view.roce),
        info: view.roce.info(),
        payload: view.payload(),
    }
}
