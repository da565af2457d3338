//! Work requests: from the rings into the transport model, and their bytes.
use super::engine::Engine;
use super::mem::{Mrs, Who, LOCAL_READ, LOCAL_WRITE};
use super::qp::{Half, Held, Qp, Ring, Sent, Sge, Srq, READ_CHUNK};
use crate::card::dma::Memory;
use metaroce_hdl_spec::cqe::event;
use metaroce_hdl_spec::table::qp_type;
use metaroce_hdl_spec::wqe::{self, op, rq, sq, ud_av};
use metaroce_protocol::model::unreliable::UdAddress;
use metaroce_protocol::model::{Action, MemoryRegion, RecvWr, SendOp, SendWr, Status};
use metaroce_protocol::qp::QpState;
use metaroce_protocol::Mtu;

const SGE_BYTES: usize = 16;
/// SGEs in unit 0 and their place, and those of a further unit.
const FIRST: usize = 2;
const FIRST_AT: usize = 32;
const PER_UNIT: usize = wqe::UNIT / SGE_BYTES;

/// Goes through `len` bytes of a list from `skip` on; false: the list is too short, or `part` (key, address, length) says no.
pub fn walk(
    list: impl Iterator<Item = Sge>,
    mut skip: u64,
    mut len: u64,
    mut part: impl FnMut(u32, u64, u64) -> bool,
) -> bool {
    for s in list {
        if len == 0 {
            break;
        }
        let n = s.len as u64;
        if skip >= n {
            skip -= n;
            continue;
        }
        let take = (n - skip).min(len);
        if !part(s.key, s.va.wrapping_add(skip), take) {
            return false;
        }
        skip = 0;
        len -= take;
    }
    len == 0
}

/// SGEs of the send request at `index`.
fn sges(ring: &Ring, index: u16, ud: bool) -> impl Iterator<Item = Sge> + '_ {
    let first = ring.unit(index);
    let n = sq::num_sge.get(first) as usize;
    (0..n.min(wqe::MAX_SGE)).map(move |i| {
        if i < FIRST {
            return Sge::of(&first[FIRST_AT + SGE_BYTES * i..]);
        }
        let (unit, at) = ((i - FIRST) / PER_UNIT, (i - FIRST) % PER_UNIT);
        let unit = index.wrapping_add((1 + ud as usize + unit) as u16);
        Sge::of(&ring.unit(unit)[SGE_BYTES * at..])
    })
}

/// SGEs of the receive at `index`.
pub fn recv_sges(ring: &Ring, index: u16, stride: u32) -> impl Iterator<Item = Sge> + '_ {
    let units = 0..1u16 << stride;
    units.flat_map(move |u| {
        let unit = ring.unit(index.wrapping_add(u));
        (0..PER_UNIT).map(move |i| Sge::of(&unit[SGE_BYTES * i..]))
    })
}

/// Where receives of a QP are, for who writes payload into them.
pub struct Buffers<'a> {
    pub ring: &'a Ring,
    pub stride: u32,
    pub srq: bool,
    pub held: &'a std::collections::VecDeque<Held>,
}

impl Buffers<'_> {
    /// Adds where `len` bytes from `offset` of receive `wqe` are to `out`.
    pub fn stretches(
        &self,
        mrs: &Mrs,
        who: Who,
        wqe: u64,
        (offset, len): (u64, u64),
        out: &mut Vec<libc::iovec>,
    ) -> bool {
        let part = |key, va, n| mrs.stretches(who, key, va, n, LOCAL_WRITE, out);
        if self.srq {
            let held = self.held.iter().find(|h| h.wqe == wqe);
            return held.is_some_and(|h| walk(h.sges.iter().copied(), offset, len, part));
        }
        let index = (wqe << self.stride) as u16;
        walk(recv_sges(self.ring, index, self.stride), offset, len, part)
    }
}

impl Qp {
    pub fn buffers(&self) -> Buffers<'_> {
        Buffers {
            ring: &self.rq,
            stride: self.stride,
            srq: self.srq.is_some(),
            held: &self.held,
        }
    }

    pub fn sent_at(&self, wqe: u64) -> Option<&Sent> {
        self.sent.get(wqe.checked_sub(self.sent_from)? as usize)
    }

    /// Payload of a send request.
    pub fn gather(
        &self,
        (mrs, memory): (&Mrs, &Memory),
        iov: &mut Vec<libc::iovec>,
        wqe: u64,
        offset: u64,
        to: &mut [u8],
    ) -> Result<(), Status> {
        let e = self.sent_at(wqe).ok_or(Status::LocQpOp)?;
        let unit = self.sq.unit(e.index);
        if sq::inline.get(unit) != 0 {
            let at = wqe::INLINE_AT + offset as usize;
            let data = unit.get(at..at + to.len()).ok_or(Status::LocQpOp)?;
            to.copy_from_slice(data);
            return Ok(());
        }
        iov.clear();
        let list = sges(&self.sq, e.index, self.kind == qp_type::UD);
        let who = self.who();
        let found = walk(list, offset, to.len() as u64, |key, va, n| {
            mrs.stretches(who, key, va, n, LOCAL_READ, iov)
        });
        (found && memory.gather(iov, to))
            .then_some(())
            .ok_or(Status::LocProt)
    }

    /// Puts what a READ or an atomic has brought into its buffers.
    pub fn scatter(
        &self,
        (mrs, memory): (&Mrs, &Memory),
        iov: &mut Vec<libc::iovec>,
        wqe: u64,
        offset: u64,
        data: &[u8],
    ) -> bool {
        let Some(e) = self.sent_at(wqe) else {
            return false;
        };
        iov.clear();
        let atomic = matches!(e.opcode, op::CMP_SWAP | op::FETCH_ADD);
        // the operands of an atomic are where its second SGE would be
        let list = sges(&self.sq, e.index, false).take(if atomic { 1 } else { wqe::MAX_SGE });
        let who = self.who();
        let at = e.offset as u64 + offset;
        walk(list, at, data.len() as u64, |key, va, n| {
            mrs.stretches(who, key, va, n, LOCAL_WRITE, iov)
        }) && memory.scatter(iov, data)
    }
}

/// The operation of a send request; None: not a legal one for this type.
fn operation(unit: &[u8], kind: u8) -> Option<SendOp> {
    let (va, rkey) = (sq::remote_va.get(unit), sq::rkey.get(unit) as u32);
    let imm = sq::imm.byte();
    let imm: [u8; 4] = unit[imm..imm + 4].try_into().expect("four bytes");
    let rc = kind == qp_type::RC;
    let connected = kind != qp_type::UD;
    Some(match sq::opcode.get(unit) as u8 {
        op::SEND => SendOp::Send,
        op::SEND_IMM => SendOp::SendImm(imm),
        op::SEND_INV if rc => SendOp::SendInv {
            rkey: u32::from_be_bytes(imm),
        },
        op::WRITE if connected => SendOp::Write { va, rkey },
        op::WRITE_IMM if connected => SendOp::WriteImm { va, rkey, imm },
        op::READ if rc => SendOp::Read { va, rkey },
        op::CMP_SWAP if rc => SendOp::CmpSwap {
            va,
            rkey,
            compare: sq::sge1_len.get(unit) | sq::sge1_key.get(unit) << 32,
            swap: sq::sge1_va.get(unit),
        },
        op::FETCH_ADD if rc => SendOp::FetchAdd {
            va,
            rkey,
            add: sq::sge1_va.get(unit),
        },
        op::LOCAL_INV if connected => SendOp::LocalInv {
            rkey: u32::from_le_bytes(imm),
        },
        // looked at in its ring when it begins
        op::BIND_MW if connected => SendOp::Bind {
            lkey: 0,
            window: MemoryRegion {
                rkey: 0,
                base: 0,
                len: 0,
                remote_write: false,
                remote_read: false,
                remote_atomic: false,
            },
        },
        _ => return None,
    })
}

impl Engine {
    /// Largest datagram.
    fn ud_mtu(&self) -> u64 {
        let code = crate::active_mtu(self.port.mtu) as u8;
        Mtu::from_code(code).map_or(256, |m| m.bytes() as u64)
    }

    /// Gives the model the send requests that have been posted.
    pub fn take_sends(&mut self, qp: &mut Qp) {
        if !matches!(
            qp.state,
            QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err
        ) {
            return;
        }
        while qp.sq.waiting() > 0 && !qp.broken {
            let index = qp.sq.at;
            let unit = qp.sq.unit(index);
            let units = sq::units.get(unit) as u16;
            let legal = (1..=wqe::MAX_UNITS as u16).contains(&units) && units <= qp.sq.waiting();
            if !legal || sq::index.get(unit) as u16 != index {
                return self.fatal(qp);
            }
            let op = operation(unit, qp.kind);
            let local = op.is_some_and(|o| o.is_local());
            if local && matches!(&qp.half, Half::Uc(h) if h.0.pending() != 0) {
                // begins when all before it is complete
                return;
            }
            let length = sq::length.get(unit);
            let mut wr = SendWr {
                signaled: sq::signaled.get(unit) != 0,
                solicited: sq::solicited.get(unit) != 0,
                fence: sq::fence.get(unit) != 0,
                ..SendWr::new(
                    0,
                    op.unwrap_or(SendOp::Send),
                    if local { 0 } else { length },
                )
            };
            let entry = Sent {
                index,
                opcode: sq::opcode.get(unit) as u8,
                offset: 0,
                length: length as u32,
                last: true,
                silent: false,
            };
            qp.sq.at = index.wrapping_add(units);
            if op.is_none() {
                wr.len = 0;
            }
            match &qp.half {
                Half::Rc(_) => self.post_reliable(qp, wr, entry, op.is_some()),
                _ => self.post_unreliable(qp, wr, entry, op.is_some()),
            }
        }
    }

    fn post_reliable(&mut self, qp: &mut Qp, wr: SendWr, entry: Sent, legal: bool) {
        let mut out = core::mem::take(&mut self.actions);
        let chunk = (READ_CHUNK * qp.cfg.mtu.bytes()) as u64;
        let mut offset = 0;
        loop {
            let rest = wr.len - offset;
            let mut part = wr;
            let mut last = true;
            if let SendOp::Read { va, rkey } = wr.op {
                last = rest <= chunk;
                part.op = SendOp::Read {
                    va: va.wrapping_add(offset),
                    rkey,
                };
                part.len = rest.min(chunk);
                part.signaled &= last;
                part.fence &= offset == 0;
            }
            part.wr_id = qp.sent_from + qp.sent.len() as u64;
            qp.sent.push_back(Sent {
                offset: offset as u32,
                last,
                ..entry
            });
            if let Half::Rc(m) = &mut qp.half {
                m.post_send(part, &mut out);
                if !legal {
                    m.local_error(part.wr_id, Status::LocQpOp, &mut out);
                }
            }
            if last {
                break;
            }
            offset += chunk;
        }
        self.act(qp, &mut out, &[]);
        self.actions = out;
    }

    fn post_unreliable(&mut self, qp: &mut Qp, mut wr: SendWr, entry: Sent, legal: bool) {
        wr.wr_id = qp.sent_from + qp.sent.len() as u64;
        qp.sent.push_back(entry);
        if qp.state == QpState::Err {
            self.sent_done(qp, wr.wr_id, Status::WrFlush);
            return self.forget_sent(qp);
        }
        if !legal {
            return self.fail_sent(qp, wr.wr_id, Status::LocQpOp);
        }
        if wr.op.is_local() {
            let done = self.local(qp, wr.wr_id, wr.op);
            if !done {
                return self.fail_sent(qp, wr.wr_id, Status::MwBind);
            }
            if wr.signaled {
                self.sent_done(qp, wr.wr_id, Status::Success);
            }
            return self.forget_sent(qp);
        }
        let too_long = wr.len > self.ud_mtu();
        match &mut qp.half {
            Half::Ud(_) if too_long => self.fail_sent(qp, wr.wr_id, Status::LocLen),
            Half::Ud(h) => {
                let av = qp.sq.unit(entry.index.wrapping_add(1));
                let to = UdAddress {
                    qpn: ud_av::dqpn.get(av) as u32,
                    qkey: ud_av::qkey.get(av) as u32,
                };
                h.0.post(wr, to);
            }
            Half::Uc(h) => h.0.post(wr),
            Half::Rc(_) => {}
        }
    }

    /// Gives the model the receives that have been posted.
    pub fn take_receives(&mut self, qp: &mut Qp) {
        let units = 1u16 << qp.stride;
        let mut out = core::mem::take(&mut self.actions);
        while qp.rq.waiting() >= units {
            let index = qp.rq.at;
            let len = recv_sges(&qp.rq, index, qp.stride)
                .map(|s| s.len as u64)
                .sum();
            let wr = RecvWr {
                wr_id: qp.received,
                len,
            };
            qp.rq.at = index.wrapping_add(units);
            qp.received += 1;
            match &mut qp.half {
                Half::Rc(m) => m.post_recv(wr, &mut out),
                _ if qp.state == QpState::Err => out.push(flushed(wr.wr_id)),
                Half::Uc(h) => h.1.post(wr),
                Half::Ud(h) => h.1.post(wr),
            }
        }
        self.act(qp, &mut out, &[]);
        self.actions = out;
    }

    /// Takes an entry of its SRQ for a QP; false: there is none.
    pub fn take_shared(&mut self, qp: &mut Qp) -> bool {
        let Some(Some(srq)) = qp.srq.map(|s| self.srqs[s as usize].as_mut()) else {
            return false;
        };
        let Some((number, sges)) = srq.take() else {
            return false;
        };
        let limit = srq.below_limit();
        let srqn = srq.srqn;
        let wr = RecvWr {
            wr_id: qp.received,
            len: sges.iter().map(|s| s.len as u64).sum(),
        };
        qp.held.push_back(Held {
            wqe: qp.received,
            number,
            sges,
        });
        qp.received += 1;
        match &mut qp.half {
            Half::Rc(m) => {
                let mut none = Vec::new();
                m.post_recv(wr, &mut none);
            }
            Half::Ud(h) => h.1.post(wr),
            Half::Uc(_) => {}
        }
        if limit {
            self.event(event::SRQ_LIMIT, srqn);
        }
        true
    }
}

/// A receive that is flushed.
pub fn flushed(wr_id: u64) -> Action {
    Action::RecvComplete {
        wr_id,
        status: Status::WrFlush,
        byte_len: 0,
        imm: None,
        inv: None,
        write: false,
        solicited: false,
    }
}

impl Srq {
    /// The next entry: its number and its buffers.
    fn take(&mut self) -> Option<(u16, Vec<Sge>)> {
        let units = 1u16 << self.stride;
        if self.broken || self.ring.waiting() < units {
            return None;
        }
        let index = self.ring.at;
        let first = self.ring.unit(index);
        let number = u16::from_le_bytes([first[rq::key0.byte() + 3], first[rq::key1.byte() + 3]]);
        let list = recv_sges(&self.ring, index, self.stride).filter(|s| s.len != 0);
        let sges = list.map(|s| Sge {
            key: s.key & 0xff_ffff,
            ..s
        });
        let sges = sges.collect();
        self.ring.at = index.wrapping_add(units);
        Some((number, sges))
    }

    /// Fewer units are posted than the limit, which disarms it.
    pub fn below_limit(&mut self) -> bool {
        let below = self.ring.waiting() < self.limit;
        if below {
            self.limit = 0;
        }
        below
    }
}
