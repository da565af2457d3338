//! Shared receive queues.
//!
//! Receives of an SRQ end in any order, so an entry carries a number, which its completion brings back: the place of its `wr_id`. A number is given
//! out again when its completion has been polled. The ring's entry is free when the card has taken it, which is never later.
use super::event::{purge, wait};
use super::fail;
use super::post::queue_doorbell;
use super::size::{recv_stride, MAX_WR};
use super::wqe::put_sge;
use crate::abi::srq::{attr_mask, init, IbvSrq, IbvSrqAttr, IbvSrqInitAttr, IbvSrqInitAttrEx};
use crate::abi::{IbvContext, IbvPd, IbvRecvWr};
use crate::card::{Dma, Errno};
use crate::ctx::Ctx;
use crate::sync::Spin;
use core::ffi::c_int;
use metaroce_hdl_spec::regs::doorbell;
use metaroce_hdl_spec::{cmd, wqe};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

#[repr(C)]
pub struct Srq {
    pub ibv: IbvSrq,
    ctx: Arc<Ctx>,
    pub srqn: u32,
    ring: Dma,
    /// Units of the ring - 1.
    mask: u16,
    /// log2 of units per entry.
    pub stride: u32,
    max_sge: usize,
    state: Spin<State>,
    ids: Numbers,
    pub events: AtomicU32,
}

#[derive(Default)]
struct State {
    pi: u16,
    /// Numbers taken so far.
    taken: u32,
}

/// Numbers `0..n`, a power of two, and what each stands for. Free ones are in a ring, which has room for all of them.
struct Numbers {
    wr_ids: Box<[AtomicU64]>,
    /// Number + 1; 0: not given back yet.
    free: Box<[AtomicU32]>,
    given: AtomicU32,
}

impl Numbers {
    fn new(n: usize) -> Numbers {
        assert!(n.is_power_of_two() && n <= 1 << 16);
        Numbers {
            wr_ids: (0..n).map(|_| AtomicU64::new(0)).collect(),
            free: (1..=n as u32).map(AtomicU32::new).collect(),
            given: AtomicU32::new(0),
        }
    }
    fn mask(&self) -> usize {
        self.free.len() - 1
    }
    /// The next free number for `wr_id`; `taken` counts them. One thread at a time.
    fn take(&self, taken: &mut u32, wr_id: u64) -> Option<u16> {
        let place = &self.free[*taken as usize & self.mask()];
        let n = place.load(Ordering::Acquire).checked_sub(1)?;
        place.store(0, Ordering::Relaxed);
        *taken = taken.wrapping_add(1);
        self.wr_ids[n as usize].store(wr_id, Ordering::Relaxed);
        Some(n as u16)
    }
    /// What `number` stood for; it is free again. Any thread.
    #[inline(always)]
    fn give(&self, number: u16) -> u64 {
        let (mask, n) = (self.mask(), number as usize);
        // SAFETY: both have mask + 1 places.
        unsafe {
            let wr_id = self.wr_ids.get_unchecked(n & mask).load(Ordering::Relaxed);
            let at = self.given.fetch_add(1, Ordering::AcqRel) as usize & mask;
            let place = self.free.get_unchecked(at);
            place.store((n & mask) as u32 + 1, Ordering::Release);
            wr_id
        }
    }
}

impl Srq {
    pub fn of(srq: *mut IbvSrq) -> *mut Srq {
        srq as *mut Srq
    }
    /// Books the completion of entry `number`; returns the wr_id.
    #[inline(always)]
    pub fn complete(&self, number: u16) -> u64 {
        self.ids.give(number)
    }
    /// The answer to a command that ended a QP: the entry that it held is gone.
    pub fn release(&self, response: &[u8]) {
        let held = cmd::response::rq_psn.get(response);
        if held >> 16 & 1 != 0 {
            self.ids.give(held as u16);
        }
    }
}

/// log2 of entries, and of units per entry.
fn sizes(a: &IbvSrqAttr, card_sge: u32) -> Result<(u32, u32), Errno> {
    if a.max_wr == 0 || a.max_wr > MAX_WR || a.max_sge > max_sge(card_sge) {
        return Err(libc::EINVAL);
    }
    let log = a.max_wr.next_power_of_two().trailing_zeros();
    Ok((log, recv_stride(a.max_sge)))
}

/// SGEs of a receive.
pub fn max_sge(card_sge: u32) -> u32 {
    card_sge.min(wqe::MAX_SGE as u32)
}

pub unsafe extern "C" fn create_srq(pd: *mut IbvPd, a: *mut IbvSrqInitAttr) -> *mut IbvSrq {
    // SAFETY: libibverbs passes a PD of ours and the program's attributes.
    match unsafe { make(pd, (*a).srq_context, &mut (*a).attr) } {
        Ok(srq) => srq as *mut IbvSrq,
        Err(e) => fail(e),
    }
}

pub unsafe extern "C" fn create_srq_ex(
    _context: *mut IbvContext,
    a: *mut IbvSrqInitAttrEx,
) -> *mut IbvSrq {
    // SAFETY: the program's attributes; a basic SRQ looks at these alone.
    unsafe {
        let mask = (*a).comp_mask;
        if mask & !(init::TYPE | init::PD) != 0
            || (mask & init::TYPE != 0 && (*a).srq_type != init::BASIC)
        {
            return fail(libc::EOPNOTSUPP);
        }
        if mask & init::PD == 0 || (*a).pd.is_null() {
            return fail(libc::EINVAL);
        }
        match make((*a).pd, (*a).srq_context, &mut (*a).attr) {
            Ok(srq) => srq as *mut IbvSrq,
            Err(e) => fail(e),
        }
    }
}

/// `attr` becomes what the SRQ has; a limit is not looked at.
///
/// # Safety
/// `pd` must be a PD of ours.
unsafe fn make(
    pd: *mut IbvPd,
    srq_context: *mut core::ffi::c_void,
    attr: &mut IbvSrqAttr,
) -> Result<*mut Srq, Errno> {
    // SAFETY: the contract above.
    let (context, handle) = unsafe { ((*pd).context, (*pd).handle) };
    let ctx = unsafe { Ctx::share(context) };
    if !ctx.caps.srq {
        return Err(libc::EOPNOTSUPP);
    }
    let (log, stride) = sizes(attr, ctx.caps.max_sge)?;
    let units = log + stride;
    let ring = ctx.card.alloc((64usize << units).max(4096));
    let ring = ring.ok_or(libc::ENOMEM)?;
    let made = ctx.command(cmd::op::CREATE_SRQ, 0, |c| {
        use cmd::create_srq as f;
        f::log.put(c, units as u64);
        f::stride.put(c, stride as u64);
        f::pd.put(c, handle as u64);
        f::base.put(c, ring.bus);
    });
    let srqn = match made {
        Ok(r) => r.id(),
        Err(e) => {
            ctx.card.free(ring);
            return Err(e);
        }
    };
    *attr = IbvSrqAttr {
        max_wr: 1 << log,
        max_sge: 4 << stride,
        srq_limit: 0,
    };
    attr.max_sge = attr.max_sge.min(max_sge(ctx.caps.max_sge));
    // SAFETY: an all-zero C structure, filled below.
    let mut ibv: IbvSrq = unsafe { core::mem::zeroed() };
    (ibv.context, ibv.srq_context, ibv.pd, ibv.handle) = (context, srq_context, pd, srqn);
    let srq = Box::into_raw(Box::new(Srq {
        ibv,
        ctx: ctx.clone(),
        srqn,
        ring,
        mask: ((1u32 << units) - 1) as u16,
        stride,
        max_sge: attr.max_sge as usize,
        state: Spin::default(),
        ids: Numbers::new(1 << log),
        events: AtomicU32::new(0),
    }));
    // SAFETY: just made. The mutex does not move any more.
    unsafe {
        libc::pthread_mutex_init(&mut (*srq).ibv.mutex, core::ptr::null());
        libc::pthread_cond_init(&mut (*srq).ibv.cond, core::ptr::null());
    }
    ctx.tables.lock().unwrap().srqs.insert(srqn, srq);
    Ok(srq)
}

pub unsafe extern "C" fn modify_srq(srq: *mut IbvSrq, attr: *mut IbvSrqAttr, mask: c_int) -> c_int {
    // SAFETY: an SRQ of ours and the program's attributes.
    let (s, a, mask) = unsafe { (&*Srq::of(srq), &*attr, mask as u32) };
    if mask & attr_mask::MAX_WR != 0 {
        return libc::EOPNOTSUPP;
    }
    if mask & !attr_mask::LIMIT != 0
        || (mask & attr_mask::LIMIT != 0 && a.srq_limit as usize > s.ids.free.len())
    {
        return libc::EINVAL;
    }
    if mask == 0 {
        return 0;
    }
    let r = s.ctx.command(cmd::op::MODIFY_SRQ, s.srqn, |c| {
        cmd::modify_srq::limit.put(c, (a.srq_limit as u64) << s.stride)
    });
    r.map_or_else(|e| e, |_| 0)
}

pub unsafe extern "C" fn query_srq(srq: *mut IbvSrq, attr: *mut IbvSrqAttr) -> c_int {
    // SAFETY: an SRQ of ours, and room for the answer.
    let s = unsafe { &*Srq::of(srq) };
    match s.ctx.command(cmd::op::QUERY_SRQ, s.srqn, |_| {}) {
        Ok(r) => {
            // SAFETY: as above.
            unsafe {
                *attr = IbvSrqAttr {
                    max_wr: s.ids.free.len() as u32,
                    max_sge: s.max_sge as u32,
                    srq_limit: (cmd::response::rq_psn.get(&r.0) >> s.stride) as u32,
                }
            };
            0
        }
        Err(e) => e,
    }
}

pub unsafe extern "C" fn get_srq_num(srq: *mut IbvSrq, num: *mut u32) -> c_int {
    // SAFETY: an SRQ of ours, and room for the answer.
    unsafe { *num = (*Srq::of(srq)).srqn };
    0
}

pub unsafe extern "C" fn destroy_srq(srq: *mut IbvSrq) -> c_int {
    let srq = Srq::of(srq);
    // SAFETY: the caller gives the SRQ back; it is alive until the end of this function.
    let s = unsafe { &mut *srq };
    let ctx = s.ctx.clone();
    if ctx.usable() {
        if let Err(e) = ctx.command(cmd::op::DESTROY_SRQ, s.srqn, |_| {}) {
            if ctx.usable() {
                return e;
            }
        }
    }
    if !ctx.forked() {
        {
            let mut tables = ctx.tables.lock().unwrap();
            tables.drain(&ctx);
            tables.srqs.remove(&s.srqn);
        }
        purge(&ctx.async_write, 16, srq as u64);
        let (mutex, cond) = (&raw mut s.ibv.mutex, &raw mut s.ibv.cond);
        // SAFETY: initialised at creation; other threads change the counters.
        unsafe {
            wait(mutex, cond, || {
                let done = (&raw const (*srq).ibv.events_completed).read_volatile();
                done == (*srq).events.load(Ordering::Relaxed)
            });
        }
    }
    // SAFETY: made by Box::into_raw, and no table holds it any more.
    let Srq { ring, .. } = *unsafe { Box::from_raw(srq) };
    if !ctx.forked() {
        ctx.card.free(ring);
    }
    0
}

pub unsafe extern "C" fn post_srq_recv(
    srq: *mut IbvSrq,
    wr: *mut IbvRecvWr,
    bad: *mut *mut IbvRecvWr,
) -> c_int {
    // SAFETY: an SRQ of ours.
    let srq = unsafe { &*Srq::of(srq) };
    let mut s = srq.state.lock();
    let first = s.pi;
    let mut next = wr;
    let mut error = 0;
    // SAFETY: the program's list.
    while let Some(w) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        if let Err(e) = unsafe { post_one(srq, &mut s, w) } {
            // SAFETY: the program's pointer.
            unsafe { *bad = next };
            error = e;
            break;
        }
        next = w.next;
    }
    if s.pi != first {
        let v = queue_doorbell(srq.srqn, s.pi);
        srq.ctx.card.doorbell(doorbell::RQ, v);
    }
    error
}

/// # Safety
/// The list of SGEs must be there.
unsafe fn post_one(srq: &Srq, s: &mut State, wr: &IbvRecvWr) -> Result<(), Errno> {
    if !srq.ctx.usable() {
        return Err(srq.ctx.unusable());
    }
    if wr.num_sge < 0 || wr.num_sge as usize > srq.max_sge {
        return Err(libc::EINVAL);
    }
    let Some(number) = srq.ids.take(&mut s.taken, wr.wr_id) else {
        return Err(libc::ENOMEM);
    };
    let size = wqe::UNIT << srq.stride;
    // SAFETY: inside the ring, and free: fewer entries are posted than it has. The program's list.
    let (entry, list) = unsafe {
        let at = (s.pi & srq.mask) as usize * wqe::UNIT;
        let n = wr.num_sge as usize;
        (
            core::slice::from_raw_parts_mut(srq.ring.ptr.add(at), size),
            if n == 0 {
                &[]
            } else {
                core::slice::from_raw_parts(wr.sg_list, n)
            },
        )
    };
    let mut chunks = entry.chunks_exact_mut(16);
    for sge in list.iter().filter(|s| s.length != 0) {
        if let Some(c) = chunks.next() {
            put_sge(c, sge);
            if sge.lkey >> 24 != 0 {
                // no key of a card: the bits are needed, and key 0 is nobody's
                c[12..].fill(0);
            }
        }
    }
    chunks.for_each(|c| c.fill(0));
    let [low, high] = number.to_le_bytes();
    entry[wqe::rq::key0.byte() + 3] = low;
    entry[wqe::rq::key1.byte() + 3] = high;
    s.pi = s.pi.wrapping_add(1 << srq.stride);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_in_any_order_and_never_twice() {
        let ids = Numbers::new(8);
        let mut taken = u32::MAX - 20;
        // the counters wrap together
        ids.given.store(taken, Ordering::Relaxed);
        for (i, p) in ids.free.iter().enumerate() {
            p.store(i as u32 + 1, Ordering::Relaxed);
        }
        let mut out: Vec<(u16, u64)> = vec![];
        let mut x = 1u64;
        for i in 0..10_000u64 {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            if x >> 63 == 0 && !out.is_empty() {
                let (n, id) = out.swap_remove((x >> 32) as usize % out.len());
                assert_eq!(ids.give(n), id);
            } else if let Some(n) = ids.take(&mut taken, i) {
                assert!(out.iter().all(|o| o.0 != n) && n < 8);
                out.push((n, i));
            } else {
                assert_eq!(out.len(), 8);
            }
        }
    }

    #[test]
    fn sizes_are_at_least_what_was_asked_for() {
        let ask = |max_wr, max_sge| {
            let a = IbvSrqAttr {
                max_wr,
                max_sge,
                srq_limit: 0,
            };
            sizes(&a, 16)
        };
        assert_eq!(ask(1, 1), Ok((0, 0)));
        assert_eq!(ask(17, 4), Ok((5, 0)));
        assert_eq!(ask(16, 5), Ok((4, 1)));
        assert_eq!(ask(MAX_WR, 16), Ok((12, 2)));
        for (wr, sge) in [(0, 1), (MAX_WR + 1, 1), (1, 17)] {
            assert_eq!(ask(wr, sge), Err(libc::EINVAL));
        }
    }
}
