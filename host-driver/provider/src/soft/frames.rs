//! Frames: from the transport model to the ring of frames to send, and from received ones to the model.
use super::act::Arrival;
use super::engine::{index, Engine};
use super::mem::{right, Mrs, Who, REMOTE_READ, REMOTE_WRITE};
use super::qp::{sender, Half, Path, Qp, READ_CHUNK};
use super::raw::ICRC;
use super::work::Buffers;
use crate::card::dma;
use metaroce_protocol::ip::IpRepr;
use metaroce_protocol::model::{Access, Action, Memory, Placed, Source, Status, Target, Tx};
use metaroce_protocol::opcode::Service;
use metaroce_protocol::qp::QpState;
use metaroce_protocol::udp::UdpRepr;
use metaroce_protocol::{Frame, FrameRepr, PacketRepr};
use std::cell::RefCell;

/// Memory as a request that came to a QP sees it. Payload is moved when the model asks whether it can be.
struct View<'a> {
    mrs: &'a Mrs,
    memory: &'a dma::Memory,
    who: Who,
    /// Rights that the QP grants.
    access: u32,
    buffers: Buffers<'a>,
    payload: &'a [u8],
    iov: RefCell<&'a mut Vec<libc::iovec>>,
}

impl Memory for View<'_> {
    fn check(&self, rkey: u32, va: u64, len: u64, access: Access) -> bool {
        self.mrs.allows(self.who, rkey, va, len, right(access))
    }
    fn permits(&self, access: Access) -> bool {
        self.access & right(access) != 0
    }
    fn may_invalidate(&self, rkey: u32) -> bool {
        self.mrs.may_invalidate(self.who, rkey)
    }
    fn place(&self, target: Target, len: u32) -> Placed {
        let mut iov = self.iov.borrow_mut();
        iov.clear();
        let (who, n) = (self.who, len as u64);
        let found = match target {
            Target::Memory { va, rkey } => {
                self.mrs.stretches(who, rkey, va, n, REMOTE_WRITE, &mut iov)
            }
            Target::Recv { wqe, offset } => {
                self.buffers
                    .stretches(self.mrs, who, wqe, (offset, n), &mut iov)
            }
            // of responses, whose effects the engine executes
            Target::Local { .. } => return Placed::Done,
        };
        if !found {
            Placed::Access
        } else if self.memory.scatter(&iov, &self.payload[..len as usize]) {
            Placed::Done
        } else {
            Placed::Fault
        }
    }
}

/// Answers that a QP that goes is given the time to send: an ACK behind the READ responses of one request.
const LAST: usize = 2 * READ_CHUNK as usize;

/// Why a packet can't be sent.
enum Fault {
    /// Of the send request with this ordinal.
    Request(u64, Status),
    /// Memory of a READ is not there any more.
    Response,
}

impl Engine {
    /// Sends the next packet of a QP, for which there is room. True: there may be more.
    pub fn send_one(&mut self, qp: &mut Qp) -> bool {
        let now = self.clock.now();
        let live = qp.state == QpState::Rts;
        let mut out = core::mem::take(&mut self.actions);
        let tx = match &mut qp.half {
            Half::Rc(m) => m.poll_transmit(now),
            Half::Uc(h) if live => h.0.poll_transmit(&mut out),
            Half::Ud(h) if live => h.0.poll_transmit(&mut out),
            _ => None,
        };
        let more = tx.is_some();
        if let Some(tx) = tx {
            match self.send(qp, &tx) {
                Ok(()) => {}
                Err(Fault::Request(wqe, status)) => {
                    out.clear();
                    match &mut qp.half {
                        Half::Rc(m) => m.local_error(wqe, status, &mut out),
                        _ => self.fail_sent(qp, wqe, status),
                    }
                }
                Err(Fault::Response) => {
                    if let Half::Rc(m) = &mut qp.half {
                        m.read_fault(&mut out);
                    }
                }
            }
            if !out.is_empty() {
                self.act(qp, &mut out, &[]);
            }
        }
        self.actions = out;
        if matches!(&qp.half, Half::Uc(h) if h.0.pending() == 0) {
            self.forget_sent(qp);
            self.take_sends(qp);
        } else if matches!(qp.half, Half::Ud(_)) {
            self.forget_sent(qp);
        }
        more
    }

    /// Before a QP goes: what it owes its peer for requests that have been completed here.
    pub fn send_answers(&mut self, qp: &mut Qp) {
        for _ in 0..LAST {
            let Half::Rc(m) = &mut qp.half else { return };
            if !self.rings.room() {
                return;
            }
            let Some(tx) = m.responder.poll_transmit() else {
                return;
            };
            if self.send(qp, &tx).is_err() {
                return;
            }
        }
    }

    fn send(&mut self, qp: &Qp, tx: &Tx) -> Result<(), Fault> {
        let len = tx.payload.len() as usize;
        let payload = &mut self.payload[..len];
        let mem = (&self.mrs, &self.memory);
        match tx.payload {
            Source::None => {}
            Source::Wqe { wqe, offset, .. } => qp
                .gather(mem, &mut self.iov, wqe, offset, payload)
                .map_err(|s| Fault::Request(wqe, s))?,
            Source::Memory { va, rkey, .. } => {
                self.iov.clear();
                let (who, n) = (qp.who(), len as u64);
                let found = self
                    .mrs
                    .stretches(who, rkey, va, n, REMOTE_READ, &mut self.iov);
                if !found || !self.memory.gather(&self.iov, payload) {
                    return Err(Fault::Response);
                }
            }
        }
        let path = match &qp.half {
            Half::Ud(_) => {
                // the datagram that the model has sent is the oldest that is kept
                let Some(e) = qp.sent.front() else {
                    return Ok(());
                };
                self.port.ud_path(qp.sq.unit(e.index.wrapping_add(1)))
            }
            _ => match qp.path {
                Some(p) => p,
                None => return Ok(()),
            },
        };
        let frame = frame(&path, tx.packet);
        let slot = self.rings.slot();
        if let Ok(n) = frame.emit_without_icrc(&self.payload[..len], slot) {
            self.rings.send(n - ICRC);
        }
        Ok(())
    }

    /// A frame that has come; the last four bytes are no ICRC.
    pub fn frame(&mut self, bytes: &[u8]) {
        let Ok(f) = Frame::new_without_icrc(bytes) else {
            return;
        };
        let packet = PacketRepr::parse(&f.roce);
        let at = index(packet.dest_qpn);
        let Some(mut qp) = self.qps[at].take_if(|q| q.qpn == packet.dest_qpn) else {
            return;
        };
        if qp.state.receives() && self.wanted(&qp, &f) {
            self.packet(&mut qp, &packet, &f);
            self.run(&mut qp);
        }
        self.qps[at] = Some(qp);
    }

    /// It is of this QP's service and, of a connection, from its peer.
    fn wanted(&self, qp: &Qp, f: &Frame) -> bool {
        let service = f.roce.info().service;
        let from_peer = || {
            let from = sender(&IpRepr::parse(&f.ip));
            qp.path.is_some_and(|p| p.peer == from)
        };
        match &qp.half {
            Half::Rc(_) => matches!(service, Service::Rc | Service::Cnp) && from_peer(),
            Half::Uc(_) => service == Service::Uc && from_peer(),
            Half::Ud(_) => service == Service::Ud,
        }
    }

    fn packet(&mut self, qp: &mut Qp, p: &PacketRepr, f: &Frame) {
        let (info, payload) = (f.roce.info(), f.payload());
        let needs = qp.srq.is_some()
            && match &qp.half {
                Half::Rc(m) => m.responder.receives() == 0 && m.responder.wants_receive(p, info),
                Half::Ud(h) => h.1.receives() == 0 && p.ext.deth.is_some_and(|d| d.qkey == qp.qkey),
                Half::Uc(_) => false,
            };
        if needs {
            self.take_shared(qp);
        }
        let mut out: Vec<Action> = core::mem::take(&mut self.actions);
        let view = View {
            mrs: &self.mrs,
            memory: &self.memory,
            who: Who {
                pd: qp.pd,
                qpn: qp.qpn,
            },
            access: qp.access,
            buffers: Buffers {
                ring: &qp.rq,
                stride: qp.stride,
                srq: qp.srq.is_some(),
                held: &qp.held,
            },
            payload,
            iov: RefCell::new(&mut self.iov),
        };
        let mut arrival = Arrival {
            payload,
            datagram: None,
        };
        match &mut qp.half {
            Half::Rc(m) => m.on_packet(self.clock.now(), p, payload.len(), &view, &mut out),
            Half::Uc(h) => {
                // a class that the QP does not grant is dropped like any other fault of UC
                h.1.on_packet(p, info, payload.len(), &Granted(&view), &mut out)
            }
            Half::Ud(h) => {
                let ip = f.ip.as_bytes();
                let header = &ip[..f.ip.header_len().min(ip.len())];
                let src = p.ext.deth.map_or(0, |d| d.src_qpn);
                arrival.datagram = Some((header, src));
                h.1.on_packet(p, payload.len(), &mut out);
            }
        }
        self.arrived(qp, &mut out, arrival);
        self.actions = out;
    }
}

/// A view whose keys count only with the QP's own right: UC has no answer that would say which one lacked.
struct Granted<'a>(&'a View<'a>);

impl Memory for Granted<'_> {
    fn check(&self, rkey: u32, va: u64, len: u64, access: Access) -> bool {
        self.0.permits(access) && self.0.check(rkey, va, len, access)
    }
}

fn frame(path: &Path, packet: PacketRepr) -> FrameRepr {
    FrameRepr {
        eth: path.eth,
        ip: path.ip,
        udp: UdpRepr {
            src_port: path.sport,
            checksum: 0,
        },
        packet,
    }
}
