//! The rings of a CQ, and how its size changes.
//!
//! RESIZE_CQ takes the card from one ring to another between two completions. What it has written to the old one stays there until it
//! has been polled; the old ring ends at the first entry that is not valid once the card has answered.
use super::cq::{Completion, Cq};
use super::event::{valid, written};
use crate::abi::IbvCq;
use crate::card::{Dma, Errno};
use crate::ctx::Ctx;
use core::ffi::c_int;
use metaroce_hdl_spec::cmd;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

pub const MAX_LOG: u32 = 16;
pub const MIN_LOG: u32 = 4;
/// Largest CQ that can be asked for: a quarter of the ring is slack, see [`Cq::give_back`].
pub const MAX_CQE: u32 = (1 << MAX_LOG) - (1 << (MAX_LOG - 2));
pub const CI_MASK: u32 = 0xff_ffff;

/// log2 of the ring for `cqe` usable entries.
fn ring_log(cqe: u32) -> u32 {
    (MIN_LOG..=MAX_LOG)
        .find(|&l| (1 << l) - (1 << (l - 2)) >= cqe)
        .unwrap_or(MAX_LOG)
}

pub struct Ring {
    pub mem: Dma,
    log: u32,
    /// Entries - 1.
    mask: u32,
}

impl Ring {
    pub fn new(ctx: &Ctx, cqe: u32) -> Result<Ring, Errno> {
        let log = ring_log(cqe);
        let mem = ctx.card.alloc((64usize << log).max(4096));
        Ok(Ring {
            mem: mem.ok_or(libc::ENOMEM)?,
            log,
            mask: (1 << log) - 1,
        })
    }
    /// Fields of CREATE_CQ and RESIZE_CQ.
    pub fn put(&self, c: &mut [u8]) {
        cmd::create_cq::log.put(c, self.log as u64);
        cmd::create_cq::base.put(c, self.mem.bus);
    }
    /// Completions that a program may count on.
    pub fn room(&self) -> u32 {
        (1 << self.log) - (1 << (self.log - 2))
    }
    #[inline]
    fn has(&self, index: u32) -> bool {
        valid(self.mem.ptr, self.mask, index)
    }
    #[inline]
    pub fn entry(&self, index: u32) -> *mut u64 {
        let slot = (index & self.mask) as usize;
        // SAFETY: inside the ring.
        unsafe { self.mem.ptr.add(slot * 64) as *mut u64 }
    }
    /// Index behind what is there from `ci` on.
    pub fn end(&self, ci: u32) -> u32 {
        let mut i = ci;
        while i.wrapping_sub(ci) & CI_MASK < 1 << self.log && self.has(i) {
            i = (i + 1) & CI_MASK;
        }
        i
    }
}

pub struct State {
    /// What is being polled.
    pub ring: Ring,
    /// Consumer index, modulo 2^24.
    pub ci: u32,
    /// The last one that the card knows.
    pub told: u32,
    pub empty: u32,
    /// Rings that follow, each from index 0 on; the card writes to the last.
    later: VecDeque<Ring>,
    /// RESIZE_CQ is under way. Nothing is polled meanwhile: entries of a ring that the card may have left cannot be given back,
    /// and with entries that are not given back the ring would fill up.
    changing: bool,
    /// Arming that was asked for meanwhile, as in [`State::arm`]; 0 is none.
    owed_arm: u64,
}

impl State {
    pub fn new(ring: Ring) -> State {
        State {
            ring,
            ci: 0,
            told: 0,
            empty: 0,
            later: VecDeque::new(),
            changing: false,
            owed_arm: 0,
        }
    }
    /// The rings, and where what is not polled begins in them.
    pub fn rings(&self) -> impl Iterator<Item = (&Ring, u32)> {
        core::iter::once((&self.ring, self.ci)).chain(self.later.iter().map(|r| (r, 0)))
    }
    /// The completion at the consumer index.
    #[inline]
    pub fn peek(&self) -> Option<*mut u64> {
        if self.changing {
            return None;
        }
        let slot = (self.ci & self.ring.mask) as usize;
        // SAFETY: an entry of the ring.
        unsafe {
            let e = self.ring.mem.ptr.add(slot * 64) as *mut u64;
            written(e, self.ring.mask, self.ci).then_some(e)
        }
    }
    /// There is a completion at the consumer index.
    #[inline]
    pub fn has_next(&self) -> bool {
        !self.changing && self.ring.has(self.ci)
    }
    /// Nothing is at the consumer index. True = there is now: the card had left that ring.
    #[cold]
    pub fn advance(&mut self, ctx: &Ctx) -> bool {
        while !self.changing {
            let Some(next) = self.later.pop_front() else {
                return false;
            };
            (self.ci, self.told) = (0, 0);
            let left = core::mem::replace(&mut self.ring, next);
            ctx.card.free(left.mem);
            if self.has_next() {
                return true;
            }
        }
        false
    }
    /// The card must hear of what was consumed. A ring that it has left is not given back.
    #[inline]
    pub fn owes(&self) -> bool {
        let behind = self.ci.wrapping_sub(self.told) & CI_MASK;
        behind > self.ring.mask >> 2 && self.later.is_empty()
    }
    /// Arms for the next completion (1) or the next solicited one (2).
    pub fn arm(&mut self, cq: &Cq, how: u64) {
        if self.changing {
            if self.owed_arm != 1 {
                self.owed_arm = how;
            }
            return;
        }
        // The event is for completions added from now on. Those that are here already would raise it at once if the card
        // compared with what has been polled (programs that arm before they poll count on one event per completion).
        let (ring, ci) = self.rings().last().expect("one at least");
        let seen = ring.end(ci);
        cq.doorbell(seen, how);
        if seen != ci {
            // They are not consumed yet: the card must not write over them.
            cq.doorbell(ci, 0);
        }
        if self.later.is_empty() {
            self.told = self.ci;
        }
    }
    pub fn free(self, ctx: &Ctx) {
        for r in core::iter::once(self.ring).chain(self.later) {
            ctx.card.free(r.mem);
        }
    }
}

/// Completions that are in `cq`, or will certainly come into it: those of signalled sends. Whoever asked while the card is at work on
/// these would get an answer by chance.
fn held(cq: &Cq, s: &State) -> u32 {
    let (mut all, mut received) = (0, 0);
    for (ring, ci) in s.rings() {
        let (mut i, end) = (ci, ring.end(ci));
        while i != end {
            // SAFETY: a complete entry.
            let is_recv =
                unsafe { Completion::from(core::array::from_fn(|k| *ring.entry(i).add(k))) }
                    .is_recv;
            all += 1;
            received += is_recv as u32;
            i = (i + 1) & CI_MASK;
        }
    }
    let mut sends = 0;
    for slot in cq.ctx.qps.iter() {
        let qp = slot.load(Ordering::Acquire);
        // SAFETY: slots are cleared under the tables' mutex before a QP goes.
        if let Some(qp) = unsafe { qp.as_ref() } {
            if core::ptr::eq(qp.ibv().send_cq, &cq.ex.base) {
                sends += qp.send_debt();
            }
        }
    }
    all.max(received + sends)
}

/// Gives `cq` a ring for `cqe` completions.
fn resize(cq: &Cq, cqe: u32) -> Result<u32, Errno> {
    if !(1..=MAX_CQE).contains(&cqe) {
        return Err(libc::EINVAL);
    }
    let new = Ring::new(&cq.ctx, cqe)?;
    let (room, bus, log) = (new.room(), new.mem.bus, new.log);
    loop {
        // No QP goes while they are counted.
        let tables = cq.ctx.tables.lock().unwrap();
        let mut s = cq.state.lock();
        if s.changing {
            // Another thread does the same.
            drop((s, tables));
            std::thread::yield_now();
            continue;
        }
        if held(cq, &s) > cqe {
            drop((s, tables));
            cq.ctx.card.free(new.mem);
            return Err(libc::EINVAL);
        }
        // There before the card writes to it, for whoever removes the completions of a QP.
        s.later.push_back(new);
        s.changing = true;
        break;
    }
    // Without the lock: a command can take long, and the end of a device needs locks of its own.
    let answer = cq.ctx.command(cmd::op::RESIZE_CQ, cq.cqn, |c| {
        cmd::create_cq::log.put(c, log as u64);
        cmd::create_cq::base.put(c, bus);
    });
    let mut s = cq.state.lock();
    s.changing = false;
    if answer.is_err() {
        let new = s.later.pop_back().expect("the new ring");
        cq.ctx.card.free(new.mem);
    }
    match core::mem::take(&mut s.owed_arm) {
        0 => {}
        _ if !cq.ctx.usable() => {
            cq.notify();
        }
        how => s.arm(cq, how),
    }
    answer.map(|_| room)
}

pub unsafe extern "C" fn resize_cq(cq: *mut IbvCq, cqe: c_int) -> c_int {
    let Ok(cqe) = u32::try_from(cqe) else {
        return libc::EINVAL;
    };
    // SAFETY: a CQ of ours.
    match resize(unsafe { &*Cq::of(cq) }, cqe) {
        Ok(room) => {
            // SAFETY: as above; the size is the program's to read after this call.
            unsafe { (*cq).cqe = room as c_int };
            0
        }
        Err(e) => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_have_slack() {
        for cqe in [1, 12, 13, 100, 1000, 4096, MAX_CQE] {
            let log = ring_log(cqe);
            assert!((1 << log) - (1 << (log - 2)) >= cqe);
            assert!((MIN_LOG..=MAX_LOG).contains(&log));
        }
        assert_eq!(ring_log(12), 4);
        assert_eq!(ring_log(13), 5);
    }
}
