//! Completion queues.
use super::event::{both_ends, is_fifo, purge, wait};
use super::fail;
use super::qp::Qp;
use super::ring::{Ring, State, CI_MASK, MAX_CQE};
use crate::abi::ex::IbvCqEx;
use crate::abi::{self, IbvCompChannel, IbvContext, IbvCq, IbvWc};
use crate::card::Errno;
use crate::ctx::Ctx;
use crate::hce::Chosen;
use crate::say;
use crate::sync::Spin;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use metaroce_hdl_spec::{cmd, cqe, regs, wqe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Empty polls in a row before one gives up the processor, and before one sleeps. The simulator needs the processor
/// more than a program that finds nothing.
const EMPTY_YIELD: u32 = 4;
const EMPTY_SLEEP: u32 = 64;
const SLEEP: Duration = Duration::from_micros(50);
/// On a dead card nothing comes any more.
const SLEEP_DEAD: Duration = Duration::from_millis(1);

/// QPN 0 is reserved: it marks an entry that has lost its QP.
const NO_QP: u32 = 0;

#[repr(C)]
pub struct Cq {
    /// `struct verbs_cq`. Its functions are there if the program asked for an extended CQ.
    pub ex: IbvCqEx,
    pub ctx: Arc<Ctx>,
    pub(super) cqn: u32,
    pub state: Spin<State>,
    /// What the extended polling functions look at, under the lock.
    pub current: UnsafeCell<Completion>,
    channel: Option<OwnedFd>,
    pub comp_events: AtomicU32,
    pub async_events: AtomicU32,
}

impl Cq {
    pub fn of(cq: *mut IbvCq) -> *mut Cq {
        cq as *mut Cq
    }
    pub fn number(&self) -> u32 {
        self.cqn
    }

    /// Puts an event into the channel. False = it is full, try again.
    pub fn notify(&self) -> bool {
        let Some(fd) = &self.channel else { return true };
        let event = &self.ex.base as *const IbvCq as u64;
        // SAFETY: eight bytes of ours; the pipe does not block.
        unsafe { libc::write(fd.as_raw_fd(), &event as *const u64 as *const c_void, 8) == 8 }
    }

    pub(super) fn doorbell(&self, ci: u32, arm: u64) {
        let mut v = [0u8; 8];
        regs::db_cq::cqn.put(&mut v, self.cqn as u64);
        regs::db_cq::arm.put(&mut v, arm);
        regs::db_cq::ci.put(&mut v, ci as u64);
        self.ctx
            .card
            .doorbell(regs::doorbell::CQ, u64::from_le_bytes(v));
    }

    /// Tells the card what has been consumed, once per quarter ring: the ring is larger than what was asked for by that
    /// much, so a CQ that the program sized right never looks full to the card.
    #[inline(always)]
    pub fn give_back(&self, s: &mut State) {
        if s.owes() {
            self.give(s);
        }
    }

    #[inline(never)]
    fn give(&self, s: &mut State) {
        s.told = s.ci;
        self.doorbell(s.ci, 0);
    }

    /// Removes what is queued of a QP that is gone or reset.
    pub fn clean(&self, qp: &Qp) {
        let qpn = qp.ibv().qp_num;
        let s = self.state.lock();
        for (ring, ci) in s.rings() {
            let end = ring.end(ci);
            let mut i = ci;
            while i != end {
                let e = ring.entry(i);
                // SAFETY: a complete entry; the card does not write it again before it is given back.
                unsafe {
                    if *e as u32 & CI_MASK == qpn {
                        let c = Completion::from([*e, 0, 0, 0]);
                        if c.is_recv && !qp.srq.is_null() {
                            qp.complete(true, c.index);
                        }
                        *e &= !(CI_MASK as u64);
                    }
                }
                i = (i + 1) & CI_MASK;
            }
        }
    }

    /// The next completion and its wr_id.
    #[inline]
    pub fn next(&self, s: &mut State) -> Option<(Completion, u64)> {
        loop {
            let e = match s.peek() {
                Some(e) => e,
                None if s.advance(&self.ctx) => s.ring.entry(s.ci),
                None => return None,
            };
            // SAFETY: a complete entry: `valid` has acquired it.
            let words = unsafe { [*e, *e.add(1), *e.add(2), *e.add(3)] };
            s.ci = (s.ci + 1) & CI_MASK;
            let c = Completion::from(words);
            if c.qpn == NO_QP {
                continue;
            }
            let qp = self.ctx.qp_slot(c.qpn).load(Ordering::Acquire);
            if qp.is_null() {
                continue;
            }
            // SAFETY: `destroy_qp` cleans this CQ under its lock before the QP goes.
            let qp = unsafe { &*qp };
            if qp.ibv().qp_num != c.qpn {
                continue;
            }
            s.empty = 0;
            let wr_id = qp.complete(c.is_recv, c.index);
            return Some((c, wr_id));
        }
    }

    #[cold]
    #[inline(never)]
    fn advance(&self, s: &mut State) -> bool {
        s.advance(&self.ctx)
    }

    /// The completion at the consumer index into `wc`; what [`Cq::next`] and `fill` do, with nothing kept in between. None = there is none;
    /// false = it is of a QP that is gone.
    #[inline(always)]
    fn take(&self, s: &mut State, wc: &mut IbvWc) -> Option<bool> {
        let e = s.peek()?;
        // SAFETY: a complete entry: `peek` has acquired it.
        let words = unsafe { [*e, *e.add(1), *e.add(2), 0] };
        s.ci = (s.ci + 1) & CI_MASK;
        let c = Completion::plain(words);
        let qp = self.ctx.qp_slot(c.qpn).load(Ordering::Acquire);
        // SAFETY: `destroy_qp` cleans this CQ under its lock before the QP goes. QPN 0 is nobody's.
        match unsafe { qp.as_ref() } {
            Some(qp) if qp.ibv().qp_num == c.qpn => {
                c.fill(qp.complete(c.is_recv, c.index), wc);
                if words[0] & FLAGGED != 0 {
                    put_flags(words[0], wc);
                }
                Some(true)
            }
            _ => Some(false),
        }
    }

    #[inline(never)]
    fn poll(&self, out: &mut [IbvWc]) -> usize {
        let mut s = self.state.lock();
        let mut n = 0;
        while n < out.len() {
            match self.take(&mut s, &mut out[n]) {
                Some(one) => n += one as usize,
                None if self.advance(&mut s) => {}
                None => break,
            }
        }
        if n > 0 {
            s.empty = 0;
            self.give_back(&mut s);
            return n;
        }
        drop(s);
        self.nothing(out)
    }

    /// Nothing was there: the flush of a dead card, or a pause that grows with the number of empty polls.
    #[inline(never)]
    pub fn nothing(&self, out: &mut [IbvWc]) -> usize {
        if !self.ctx.usable() {
            return self.flush(out);
        }
        if self.ctx.hce.transport() == Chosen::Software {
            self.ctx.card.progress();
        }
        let empty = {
            let mut s = self.state.lock();
            s.empty = s.empty.saturating_add(1);
            s.empty
        };
        if empty > EMPTY_SLEEP {
            std::thread::sleep(SLEEP);
        } else if empty > EMPTY_YIELD {
            std::thread::yield_now();
        }
        0
    }

    /// On a dead card: one flush completion for every work request that is still out.
    #[cold]
    fn flush(&self, out: &mut [IbvWc]) -> usize {
        if self.ctx.forked() {
            self.ctx.unusable();
            return 0;
        }
        let _tables = self.ctx.tables.lock().unwrap();
        let _state = self.state.lock();
        let mut n = 0;
        for slot in self.ctx.qps.iter() {
            let qp = slot.load(Ordering::Acquire);
            if qp.is_null() {
                continue;
            }
            // SAFETY: slots are cleared under the tables' mutex before a QP goes.
            let qp = unsafe { &*qp };
            let this = &self.ex.base as *const IbvCq;
            while n < out.len() {
                let sent = core::ptr::eq(qp.ibv().send_cq, this)
                    .then(|| qp.flush_send())
                    .flatten();
                let wr_id = sent.or_else(|| {
                    core::ptr::eq(qp.ibv().recv_cq, this)
                        .then(|| qp.flush_recv())
                        .flatten()
                });
                let Some(wr_id) = wr_id else { break };
                out[n] = IbvWc {
                    wr_id,
                    status: cqe::status::WR_FLUSH as c_int,
                    qp_num: qp.ibv().qp_num,
                    ..IbvWc::default()
                };
                n += 1;
            }
        }
        if n == 0 && !out.is_empty() {
            std::thread::sleep(SLEEP_DEAD);
        }
        n
    }
}

/// The fields of a CQE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    pub qpn: u32,
    pub opcode: u8,
    pub index: u16,
    pub status: u8,
    pub is_recv: bool,
    pub wc_flags: u32,
    pub length: u32,
    pub imm: u32,
    pub src_qp: u32,
    pub vendor: u8,
    /// Card time in ns.
    pub stamp: u64,
}

/// Bits of word 0 that say that a completion has `wc_flags`.
const FLAGGED: u64 = 7 << 57;

/// `wc_flags` by word 0, and `imm`: a key is a number to the program, immediate data is bytes.
fn flags_of(a: u64, imm: u32) -> (u32, u32) {
    let flag = |bit: u32, value: u32| if a >> bit & 1 != 0 { value } else { 0 };
    let inv = flag(58, abi::wc_flag::WITH_INV);
    let flags = flag(57, abi::wc_flag::WITH_IMM) | inv | flag(59, abi::wc_flag::GRH);
    (flags, if inv != 0 { u32::from_be(imm) } else { imm })
}

/// [`flags_of`] for a completion that was filled without. Apart, so that others pay a branch alone.
#[cold]
#[inline(never)]
fn put_flags(a: u64, wc: &mut IbvWc) {
    (wc.wc_flags, wc.imm) = flags_of(a, wc.imm);
}

impl Completion {
    /// The fields, but those of [`flags_of`]. Positions are those of `cqe::cqe`; a test compares.
    #[inline(always)]
    fn plain([a, b, c, d]: [u64; 4]) -> Self {
        Completion {
            qpn: a as u32 & CI_MASK,
            opcode: (a >> 24) as u8,
            index: (a >> 32) as u16,
            status: (a >> 48) as u8,
            is_recv: a >> 56 & 1 != 0,
            wc_flags: 0,
            length: b as u32,
            imm: (b >> 32) as u32,
            src_qp: c as u32 & CI_MASK,
            vendor: (c >> 24) as u8,
            stamp: d,
        }
    }
}

impl From<[u64; 4]> for Completion {
    #[inline(always)]
    fn from(w: [u64; 4]) -> Self {
        let mut c = Completion::plain(w);
        if w[0] & FLAGGED != 0 {
            (c.wc_flags, c.imm) = flags_of(w[0], c.imm);
        }
        c
    }
}

impl Completion {
    /// `ibv_wc_opcode`.
    #[inline]
    pub fn opcode(&self) -> c_int {
        if self.is_recv {
            recv_opcode(self.opcode)
        } else {
            send_opcode(self.opcode)
        }
    }

    #[inline(always)]
    fn fill(&self, wr_id: u64, wc: &mut IbvWc) {
        *wc = IbvWc {
            wr_id,
            status: self.status as c_int,
            opcode: self.opcode(),
            vendor_err: self.vendor as u32,
            byte_len: self.length,
            imm: self.imm,
            qp_num: self.qpn,
            src_qp: self.src_qp,
            wc_flags: self.wc_flags,
            ..IbvWc::default()
        };
    }
}

fn send_opcode(op: u8) -> c_int {
    const TABLE: [u8; 16] = {
        use abi::wc_op;
        let mut t = [wc_op::SEND as u8; 16];
        t[wqe::op::WRITE as usize] = wc_op::WRITE as u8;
        t[wqe::op::WRITE_IMM as usize] = wc_op::WRITE as u8;
        t[wqe::op::READ as usize] = wc_op::READ as u8;
        t[wqe::op::CMP_SWAP as usize] = wc_op::COMP_SWAP as u8;
        t[wqe::op::FETCH_ADD as usize] = wc_op::FETCH_ADD as u8;
        t[wqe::op::LOCAL_INV as usize] = wc_op::LOCAL_INV as u8;
        t[wqe::op::BIND_MW as usize] = wc_op::BIND_MW as u8;
        t
    };
    TABLE[(op & 15) as usize] as c_int
}

fn recv_opcode(op: u8) -> c_int {
    match op {
        cqe::recv_op::WRITE_IMM => abi::wc_op::RECV_RDMA_WITH_IMM,
        _ => abi::wc_op::RECV,
    }
}

pub unsafe extern "C" fn create_cq(
    context: *mut IbvContext,
    cqe: c_int,
    channel: *mut IbvCompChannel,
    comp_vector: c_int,
) -> *mut IbvCq {
    let Ok(cqe) = u32::try_from(cqe) else {
        return fail(libc::EINVAL);
    };
    // SAFETY: libibverbs passes a context of ours and a channel or NULL.
    match unsafe { make(context, cqe, channel, comp_vector as u32) } {
        Ok(cq) => cq as *mut IbvCq,
        Err(e) => fail(e),
    }
}

/// A new CQ without extended functions.
///
/// # Safety
/// `context` must be one of ours; `channel` a channel or NULL.
pub unsafe fn make(
    context: *mut IbvContext,
    cqe: u32,
    channel: *mut IbvCompChannel,
    comp_vector: u32,
) -> Result<*mut Cq, Errno> {
    // SAFETY: the contract above.
    let (ctx, channel_fd) = unsafe { (Ctx::share(context), channel.as_ref().map(|c| c.fd)) };
    if !(1..=MAX_CQE).contains(&cqe) || comp_vector != 0 {
        return Err(libc::EINVAL);
    }
    let channel_fd = match channel_fd {
        Some(fd) if !is_fifo(fd) => {
            say("completion channels need the launch shim: start the program with 'metaroce run'");
            return Err(libc::EOPNOTSUPP);
        }
        Some(fd) => Some(both_ends(fd).map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?),
        None => None,
    };
    let ring = Ring::new(&ctx, cqe)?;
    let made = ctx.command(cmd::op::CREATE_CQ, 0, |c| ring.put(c));
    let cqn = match made {
        Ok(r) => r.id(),
        Err(e) => {
            ctx.card.free(ring.mem);
            return Err(e);
        }
    };
    let room = ring.room();
    // SAFETY: an all-zero C structure; mutex and condition are initialised below.
    let ex = unsafe { core::mem::zeroed::<IbvCqEx>() };
    let cq = Box::into_raw(Box::new(Cq {
        ex,
        ctx: ctx.clone(),
        cqn,
        state: Spin::new(State::new(ring)),
        current: UnsafeCell::new(Completion::default()),
        channel: channel_fd,
        comp_events: AtomicU32::new(0),
        async_events: AtomicU32::new(0),
    }));
    // SAFETY: just made; nobody else has it yet.
    unsafe {
        let c = &mut (*cq).ex.base;
        c.context = context;
        c.channel = channel;
        c.handle = cqn;
        c.cqe = room as c_int;
        libc::pthread_mutex_init(&mut c.mutex, core::ptr::null());
        libc::pthread_cond_init(&mut c.cond, core::ptr::null());
    }
    ctx.tables.lock().unwrap().cqs.insert(cqn, cq);
    Ok(cq)
}

pub unsafe extern "C" fn destroy_cq(cq: *mut IbvCq) -> c_int {
    let cq = Cq::of(cq);
    // SAFETY: the caller gives the CQ back; it is alive until the end of this function.
    let c = unsafe { &mut *cq };
    let ctx = c.ctx.clone();
    if ctx.usable() {
        if let Err(e) = ctx.command(cmd::op::DESTROY_CQ, c.cqn, |_| {}) {
            if ctx.usable() {
                return e;
            }
        }
    }
    if !ctx.forked() {
        {
            let mut tables = ctx.tables.lock().unwrap();
            // Events that the card had already queued are for this CQ, not for the next one with its number.
            tables.drain(&ctx);
            tables.cqs.remove(&c.cqn);
            tables.eq.forget(c.cqn);
        }
        if let Some(fd) = &c.channel {
            purge(fd, 8, cq as u64);
        }
        purge(&ctx.async_write, 16, cq as u64);
        let (mutex, cond) = (&raw mut c.ex.base.mutex, &raw mut c.ex.base.cond);
        // SAFETY: initialised at creation; the counters are read volatile because other threads change them.
        unsafe {
            wait(mutex, cond, || {
                let done = (&raw const (*cq).ex.base.comp_events_completed).read_volatile();
                let done_async = (&raw const (*cq).ex.base.async_events_completed).read_volatile();
                done == (*cq).comp_events.load(Ordering::Relaxed)
                    && done_async == (*cq).async_events.load(Ordering::Relaxed)
            });
        }
    }
    // SAFETY: made by Box::into_raw, and no table holds it any more.
    let Cq { state, .. } = *unsafe { Box::from_raw(cq) };
    if !ctx.forked() {
        state.into_inner().free(&ctx);
    }
    0
}

/// Most programs ask for one completion. All calls are the last thing that this does, so it needs no stack.
pub unsafe extern "C" fn poll_cq(cq: *mut IbvCq, num_entries: c_int, wc: *mut IbvWc) -> c_int {
    // SAFETY: a CQ of ours, and room for `num_entries` completions; the lock is held from `try_hold` to `release`, and there is no
    // other reference to the state.
    unsafe {
        let this = &*Cq::of(cq);
        if num_entries != 1 || !this.state.try_hold() {
            return poll_many(cq, num_entries, wc);
        }
        let s = this.state.held();
        if this.take(s, &mut *wc) != Some(true) {
            this.state.release();
            return poll_many(cq, num_entries, wc);
        }
        s.empty = 0;
        if s.owes() {
            return give_back(this);
        }
        this.state.release();
        1
    }
}

/// The end of `poll_cq` when the card has to hear of it.
///
/// # Safety
/// The caller holds the CQ's lock, which is released here.
#[inline(never)]
unsafe fn give_back(cq: &Cq) -> c_int {
    // SAFETY: the contract above.
    unsafe {
        cq.give(cq.state.held());
        cq.state.release();
    }
    1
}

/// As `poll_cq`.
#[inline(never)]
unsafe fn poll_many(cq: *mut IbvCq, num_entries: c_int, wc: *mut IbvWc) -> c_int {
    if num_entries <= 0 {
        return 0;
    }
    // SAFETY: a CQ of ours, and room for `num_entries` completions.
    unsafe {
        let out = core::slice::from_raw_parts_mut(wc, num_entries as usize);
        (*Cq::of(cq)).poll(out) as c_int
    }
}

pub unsafe extern "C" fn req_notify_cq(cq: *mut IbvCq, solicited_only: c_int) -> c_int {
    // SAFETY: a CQ of ours.
    let cq = unsafe { &*Cq::of(cq) };
    if !cq.ctx.usable() {
        // Flushed requests are all there will be, and they are there now.
        cq.notify();
        return 0;
    }
    let mut s = cq.state.lock();
    let how = if solicited_only != 0 { 2 } else { 1 };
    s.arm(cq, how);
    0
}

/// Takes a QP's completions out of both its queues.
pub unsafe fn clean_both(qp: &Qp) {
    let (s, r) = (qp.ibv().send_cq, qp.ibv().recv_cq);
    // SAFETY: a QP's CQs outlive it.
    unsafe {
        (*Cq::of(s)).clean(qp);
        if !core::ptr::eq(s, r) {
            (*Cq::of(r)).clean(qp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_fields_are_those_of_the_layout() {
        let mut b = [0u8; 64];
        for (f, v) in [
            (cqe::cqe::qpn, 0x123456),
            (cqe::cqe::opcode, 0xab),
            (cqe::cqe::index, 0xbeef),
            (cqe::cqe::status, 12),
            (cqe::cqe::is_recv, 1),
            (cqe::cqe::with_imm, 1),
            (cqe::cqe::grh, 1),
            (cqe::cqe::length, 0xdead_beef),
            (cqe::cqe::imm, 0x1122_3344),
            (cqe::cqe::src_qp, 0x654321),
            (cqe::cqe::vendor, 0x77),
            (cqe::cqe::timestamp, 0x0123_4567_89ab_cdef),
        ] {
            f.put(&mut b, v);
        }
        let words = |b: &[u8; 64]| {
            [0, 8, 16, 24].map(|i| u64::from_le_bytes(b[i..i + 8].try_into().unwrap()))
        };
        let full = Completion::from(words(&b));
        assert_eq!(
            full,
            Completion {
                qpn: 0x123456,
                opcode: 0xab,
                index: 0xbeef,
                status: 12,
                is_recv: true,
                wc_flags: abi::wc_flag::WITH_IMM | abi::wc_flag::GRH,
                length: 0xdead_beef,
                imm: 0x1122_3344,
                src_qp: 0x654321,
                vendor: 0x77,
                stamp: 0x0123_4567_89ab_cdef,
            }
        );
        // Immediate data keeps its bytes.
        let mut wc = IbvWc::default();
        full.fill(9, &mut wc);
        assert_eq!(wc.imm.to_le_bytes(), b[12..16]);
        assert_eq!((wc.wr_id, wc.opcode), (9, abi::wc_op::RECV));
        cqe::cqe::with_imm.put(&mut b, 0);
        cqe::cqe::grh.put(&mut b, 0);
        cqe::cqe::with_inv.put(&mut b, 1);
        // A key is a number.
        let inv = Completion::from(words(&b));
        let key = u32::from_be_bytes(b[12..16].try_into().unwrap());
        assert_eq!((inv.wc_flags, inv.imm), (abi::wc_flag::WITH_INV, key));
        // `take` fills in two steps.
        let (mut once, mut twice) = (IbvWc::default(), IbvWc::default());
        inv.fill(1, &mut once);
        Completion::plain(words(&b)).fill(1, &mut twice);
        put_flags(words(&b)[0], &mut twice);
        assert_eq!(once, twice);
    }
}
