//! One side of a queue pair: its ring, and what is remembered of each slot.
use super::wqe::used;
use crate::card::Dma;
use core::cell::UnsafeCell;
use metaroce_hdl_spec::wqe;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A ring and what is remembered of each of its slots.
pub struct Queue<S> {
    pub ring: Dma,
    /// Slots - 1.
    mask: u16,
    pub state: S,
    /// Oldest slot not yet completed.
    pub head: AtomicU32,
    /// Producer index, for the flush.
    pub tail: AtomicU32,
    slots: Box<[Slot]>,
}

#[derive(Default)]
pub struct Slot {
    wr_id: AtomicU64,
    /// Slots of this work request.
    units: UnsafeCell<u8>,
}
// SAFETY: a slot is written by the poster before the doorbell and read by the poller after its completion.
unsafe impl Sync for Slot {}

impl<S> Queue<S> {
    pub fn new(ring: Dma, log: u32, state: S) -> Queue<S> {
        Queue {
            ring,
            mask: ((1usize << log) - 1) as u16,
            state,
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            slots: (0..1usize << log).map(|_| Slot::default()).collect(),
        }
    }
    /// Slot of a ring index.
    #[inline]
    pub fn at(&self, index: u16) -> usize {
        (index & self.mask) as usize
    }
    #[inline]
    fn slot(&self, index: u16) -> &Slot {
        // SAFETY: there are mask + 1 slots.
        unsafe { self.slots.get_unchecked(self.at(index)) }
    }
    pub fn slots(&self) -> usize {
        self.mask as usize + 1
    }
    pub fn free(&self, pi: u16) -> usize {
        self.slots() - used(pi, self.head.load(Ordering::Acquire) as u16)
    }
    /// No slot is free at `pi`.
    #[inline]
    pub fn full(&self, pi: u16) -> bool {
        used(pi, self.head.load(Ordering::Acquire) as u16) > self.mask as usize
    }
    /// Remembers a work request at `index`, before the card can see it.
    pub fn remember(&self, index: u16, wr_id: u64, units: usize) {
        // SAFETY: a slot of this ring.
        unsafe { self.remember_at(self.at(index), wr_id, units) }
    }
    /// # Safety
    /// `slot` is one of [`Queue::at`].
    #[inline]
    pub unsafe fn remember_at(&self, slot: usize, wr_id: u64, units: usize) {
        // SAFETY: the contract above.
        let s = unsafe { self.slots.get_unchecked(slot) };
        s.wr_id.store(wr_id, Ordering::Relaxed);
        // SAFETY: the slot is free, and posting holds the queue's lock.
        unsafe { *s.units.get() = units as u8 };
    }
    /// The work request at `index` and all before it are done.
    pub fn complete(&self, index: u16) -> u64 {
        let s = self.slot(index);
        let wr_id = s.wr_id.load(Ordering::Relaxed);
        // SAFETY: written before the doorbell that led to this completion.
        let units = unsafe { *s.units.get() } as u16;
        self.head
            .store(index.wrapping_add(units) as u32, Ordering::Release);
        wr_id
    }
    pub fn flush(&self) -> Option<u64> {
        let head = self.head.load(Ordering::Relaxed) as u16;
        (head != self.tail.load(Ordering::Acquire) as u16).then(|| self.complete(head))
    }
    /// Signalled requests of a send ring that were posted and not polled. Nobody may poll meanwhile.
    pub fn signaled(&self) -> u32 {
        let (mut i, tail) = (
            self.head.load(Ordering::Relaxed) as u16,
            self.tail.load(Ordering::Acquire) as u16,
        );
        let mut n = 0;
        while i != tail {
            let at = i as usize & (self.slots() - 1);
            // SAFETY: a whole unit of the ring, which the poster has written before `tail` and leaves until it is polled.
            let unit = unsafe { core::slice::from_raw_parts(self.ring.ptr.add(at * 64), 64) };
            n += wqe::sq::signaled.get(unit) as u32;
            // SAFETY: as above.
            i = i.wrapping_add(unsafe { *self.slots[at].units.get() } as u16);
        }
        n
    }
    pub fn reset(&self) {
        self.head.store(0, Ordering::Relaxed);
        self.tail.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_positions_wrap() {
        let ring = Dma {
            ptr: core::ptr::null_mut(),
            bus: 0,
            len: 0,
        };
        let q = Queue::new(ring, 4, ());
        let mut pi = 0u16;
        for i in 0..70_000u64 {
            let units = (i % 5 + 1) as usize;
            while q.free(pi) < units {
                q.flush().unwrap();
            }
            q.remember(pi, i, units);
            pi = pi.wrapping_add(units as u16);
            q.tail.store(pi as u32, Ordering::Release);
            if i % 3 == 0 {
                // A signalled completion frees everything before it.
                let first = pi.wrapping_sub(units as u16);
                assert_eq!(q.complete(first), i);
                assert_eq!(q.free(pi), 16);
            }
        }
        assert_eq!(used(2, 0xfffe), 4);
    }
}
