//! The data path: posting work. No system call, no allocation; the queue's lock is one atomic exchange.
use super::ah::Ah;
use super::mw;
use super::qp::Qp;
use super::wqe::{put_sge, simple, simple_inline, Wqe, AV_UNIT};
use crate::abi::{mw_type, send_flag, state, wr_op, IbvQp, IbvRecvWr, IbvSendWr};
use crate::card::Errno;
use core::ffi::c_int;
use metaroce_hdl_spec::regs::doorbell;
use metaroce_hdl_spec::wqe::UNIT;
use std::sync::atomic::Ordering;

/// Value of an SQ or RQ doorbell (`regs::db_queue`; a test compares).
#[inline]
pub(super) fn queue_doorbell(qpn: u32, pi: u16) -> u64 {
    qpn as u64 | (pi as u64) << 32
}

pub unsafe extern "C" fn post_send(
    qp: *mut IbvQp,
    wr: *mut IbvSendWr,
    bad: *mut *mut IbvSendWr,
) -> c_int {
    // SAFETY: a QP of ours.
    let qp = unsafe { &*Qp::of(qp) };
    let mut s = qp.sq.state.lock();
    let mut next = wr;
    let mut error = 0;
    let mut all = Posted::default();
    // SAFETY: the program's list.
    while let Some(w) = unsafe { next.as_ref() } {
        match unsafe { send_one(qp, w, s.pi) } {
            Ok(p) => {
                s.pi = s.pi.wrapping_add(p.units());
                all.add(p);
            }
            Err(e) => {
                // SAFETY: the program's pointer.
                unsafe { *bad = next };
                error = e;
                break;
            }
        }
        next = w.next;
    }
    // Requests before a refused one are posted.
    if all != Posted::default() {
        ring_send(qp, all, s.pi);
    }
    error
}

/// What was put into the ring.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct Posted(u32);

impl Posted {
    /// One unit with inline data.
    const INLINE: Posted = Posted(1 << 16 | 1);
    /// Of one request.
    #[inline(always)]
    pub fn units(self) -> u16 {
        self.0 as u16
    }
    #[inline(always)]
    pub fn add(&mut self, p: Posted) {
        // however long a list is, it does not become nothing
        self.0 = self.0.saturating_add(p.0);
    }
}

/// Tells the card of what is in the send ring before `pi`. A lone unit with inline data goes along, so that no read of the card lies
/// between the post and the wire. Others don't: the card reads up to eight of them at a time.
#[inline(always)]
pub fn ring_send(qp: &Qp, all: Posted, pi: u16) {
    qp.sq.tail.store(pi as u32, Ordering::Release);
    if all == Posted::INLINE {
        return ring_unit(qp, pi);
    }
    qp.ctx
        .card
        .doorbell(doorbell::SQ, queue_doorbell(qp.ibv().qp_num, pi));
}

#[inline(never)]
fn ring_unit(qp: &Qp, pi: u16) {
    let slot = qp.sq.at(pi.wrapping_sub(1));
    // SAFETY: a unit of the ring, which nobody writes to before it is completed.
    let unit = unsafe { &*(qp.sq.ring.ptr.add(slot * UNIT) as *const [u8; UNIT]) };
    qp.ctx.card.direct(doorbell::DIRECT_WQE, unit);
}

/// A request may be put into the ring at `pi`.
#[inline(always)]
fn check(qp: &Qp, pi: u16) -> Result<(), Errno> {
    if !qp.ctx.usable() {
        return Err(qp.ctx.unusable());
    }
    if qp.state.load(Ordering::Relaxed) < state::RTS {
        return Err(libc::EINVAL);
    }
    // The slot's inline data may still be read while it is in use.
    if qp.sq.full(pi) {
        return Err(libc::ENOMEM);
    }
    Ok(())
}

/// Writes one request into the ring at `pi`. The card does not look before the doorbell.
///
/// # Safety
/// The send queue's lock is held; the request and what it points to are valid.
#[inline(always)]
pub unsafe fn send_one(qp: &Qp, wr: &IbvSendWr, pi: u16) -> Result<Posted, Errno> {
    check(qp, pi)?;
    // SAFETY: the program's request; the slot is free.
    unsafe {
        if wr.send_flags & send_flag::INLINE != 0 {
            return send_inline(qp, wr, pi);
        }
        match simple(wr, &qp.limits, pi, qp.ibv().qp_num) {
            Some(unit) => {
                put(qp, wr, pi, unit);
                Ok(Posted(1))
            }
            None => send_any(qp, wr, pi),
        }
    }
}

/// A request of one unit into its slot.
///
/// # Safety
/// The slot is free.
#[inline(always)]
unsafe fn put(qp: &Qp, wr: &IbvSendWr, pi: u16, unit: [u64; UNIT / 8]) {
    let slot = qp.sq.at(pi);
    // SAFETY: inside the ring.
    unsafe {
        qp.sq.remember_at(slot, wr.wr_id, 1);
        let at = qp.sq.ring.ptr.add(slot * UNIT);
        (at as *mut [u64; UNIT / 8]).write(unit.map(u64::to_le));
    }
}

/// A request with inline data.
///
/// # Safety
/// As for [`send_one`], which has checked the state.
#[inline(always)]
unsafe fn send_inline(qp: &Qp, wr: &IbvSendWr, pi: u16) -> Result<Posted, Errno> {
    // SAFETY: the program's request; the slot is free.
    unsafe {
        match simple_inline(wr, &qp.limits, pi, qp.ibv().qp_num) {
            Some(unit) => {
                put(qp, wr, pi, unit);
                Ok(Posted::INLINE)
            }
            None => send_any(qp, wr, pi),
        }
    }
}

/// Any request.
///
/// # Safety
/// As for [`send_one`], which has checked the state.
#[inline(never)]
unsafe fn send_any(qp: &Qp, wr: &IbvSendWr, pi: u16) -> Result<Posted, Errno> {
    if matches!(wr.opcode, wr_op::LOCAL_INV | wr_op::BIND_MW) {
        // SAFETY: the program's request; the slot is free.
        unsafe {
            let unit = mw::unit(wr, &qp.limits, mw_type::TYPE_2, pi, qp.ibv().qp_num)?;
            put(qp, wr, pi, unit);
        }
        return Ok(Posted(1));
    }
    // SAFETY: the program's request.
    let mut wqe = unsafe { Wqe::encode(wr, &qp.limits, pi, qp.keep(pi))? };
    if qp.limits.ud {
        if wr.ah().is_null() {
            return Err(libc::EINVAL);
        }
        // A Q_Key with its highest bit set means the QP's own.
        let qkey = wr.remote_qkey();
        let qkey = if qkey >> 31 != 0 {
            qp.qkey.load(Ordering::Relaxed)
        } else {
            qkey
        };
        // SAFETY: an address handle of ours.
        let unit = unsafe { Ah::of(wr.ah()).unit(qp.ibv().qp_num, wr.remote_qpn(), qkey) };
        wqe.put_unit(AV_UNIT, &unit);
    }
    if qp.sq.free(pi) < wqe.units {
        return Err(libc::ENOMEM);
    }
    wqe.put_qpn(qp.ibv().qp_num);
    qp.sq.remember(pi, wr.wr_id, wqe.units);
    for i in 0..wqe.units {
        let slot = qp.sq.at(pi.wrapping_add(i as u16));
        // SAFETY: inside the ring, and the slot is free.
        unsafe {
            core::ptr::copy_nonoverlapping(
                wqe.unit(i).as_ptr(),
                qp.sq.ring.ptr.add(slot * UNIT),
                UNIT,
            )
        };
    }
    Ok(if wqe.lone_inline() {
        Posted::INLINE
    } else {
        Posted(wqe.units as u32)
    })
}

/// Posts the BIND_MW of `ibv_bind_mw`, which is for windows of type 1.
///
/// # Safety
/// `wr` and what it points to are valid.
pub unsafe fn bind(qp: &Qp, wr: &IbvSendWr) -> Result<(), Errno> {
    let mut s = qp.sq.state.lock();
    check(qp, s.pi)?;
    // SAFETY: the program's window and region; the slot is free.
    unsafe {
        let unit = mw::unit(wr, &qp.limits, mw_type::TYPE_1, s.pi, qp.ibv().qp_num)?;
        put(qp, wr, s.pi, unit);
    }
    s.pi = s.pi.wrapping_add(1);
    ring_send(qp, Posted(1), s.pi);
    Ok(())
}

pub unsafe extern "C" fn post_recv(
    qp: *mut IbvQp,
    wr: *mut IbvRecvWr,
    bad: *mut *mut IbvRecvWr,
) -> c_int {
    // SAFETY: a QP of ours.
    let qp = unsafe { &*Qp::of(qp) };
    let mut s = qp.rq.state.lock();
    let first = s.pi;
    let mut next = wr;
    let mut error = 0;
    // SAFETY: the program's list.
    while let Some(w) = unsafe { next.as_ref() } {
        match unsafe { recv_one(qp, w, s.pi) } {
            Ok(()) => s.pi = s.pi.wrapping_add(1 << qp.rq_stride),
            Err(e) => {
                // SAFETY: the program's pointer.
                unsafe { *bad = next };
                error = e;
                break;
            }
        }
        next = w.next;
    }
    if s.pi != first {
        qp.rq.tail.store(s.pi as u32, Ordering::Release);
        qp.ctx
            .card
            .doorbell(doorbell::RQ, queue_doorbell(qp.ibv().qp_num, s.pi));
    }
    error
}

#[inline]
unsafe fn recv_one(qp: &Qp, wr: &IbvRecvWr, pi: u16) -> Result<(), Errno> {
    if !qp.ctx.usable() {
        return Err(qp.ctx.unusable());
    }
    // A QP with an SRQ takes none.
    if qp.state.load(Ordering::Relaxed) < state::INIT
        || wr.num_sge < 0
        || wr.num_sge as usize > qp.max_recv_sge
        || !qp.srq.is_null()
    {
        return Err(libc::EINVAL);
    }
    if qp.rq.full(pi) {
        return Err(libc::ENOMEM);
    }
    let slot = qp.rq.at(pi);
    // SAFETY: a slot of this ring.
    unsafe { qp.rq.remember_at(slot, wr.wr_id, 1 << qp.rq_stride) };
    if wr.num_sge == 1 && qp.rq_stride == 0 {
        // SAFETY: the program's list of one; the entry is free and inside the ring.
        unsafe {
            let s = *wr.sg_list;
            let full = s.length != 0;
            let entry = [
                if full { s.addr } else { 0 },
                if full {
                    s.length as u64 | (s.lkey as u64) << 32
                } else {
                    0
                },
                0,
                0,
                0,
                0,
                0,
                0,
            ];
            let at = qp.rq.ring.ptr.add(slot * UNIT) as *mut [u64; UNIT / 8];
            at.write(entry.map(u64::to_le));
        }
        return Ok(());
    }
    let size = UNIT << qp.rq_stride;
    // SAFETY: inside the ring, and the entry is free; the program's list.
    let (entry, list) = unsafe {
        let entry = core::slice::from_raw_parts_mut(qp.rq.ring.ptr.add(slot * UNIT), size);
        let n = wr.num_sge as usize;
        (
            entry,
            if n == 0 {
                &[]
            } else {
                core::slice::from_raw_parts(wr.sg_list, n)
            },
        )
    };
    let mut chunks = entry.chunks_exact_mut(16);
    for s in list.iter().filter(|s| s.length != 0) {
        if let Some(c) = chunks.next() {
            put_sge(c, s);
        }
    }
    // Nothing of the last lap stays.
    chunks.for_each(|c| c.fill(0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use metaroce_hdl_spec::regs::db_queue;

    #[test]
    fn doorbell_fields_are_those_of_the_layout() {
        let mut b = [0u8; 8];
        db_queue::qpn.put(&mut b, 0xabcdef);
        db_queue::pi.put(&mut b, 0x1234);
        assert_eq!(queue_doorbell(0xabcdef, 0x1234), u64::from_le_bytes(b));
    }
}
