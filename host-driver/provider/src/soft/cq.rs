//! Completion queues and the event queue, in memory that the verbs above poll.
use metaroce_hdl_spec::cqe::{cqe, eqe, event};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

const INDEX: u32 = 0xff_ffff;
const ENTRY: usize = 64;

/// Writes an entry of a ring: its last word, which has the phase, last.
///
/// # Safety
/// The ring has `2^log` entries.
unsafe fn write(ring: *mut u8, log: u32, index: u32, mut body: [u8; ENTRY]) {
    cqe::phase.put(&mut body, (!(index >> log) & 1) as u64);
    let slot = (index & ((1 << log) - 1)) as usize;
    let last = u64::from_le_bytes(body[ENTRY - 8..].try_into().expect("eight bytes"));
    // SAFETY: inside the ring; the reader looks at the rest only after the last word.
    unsafe {
        let at = ring.add(slot * ENTRY);
        core::ptr::copy_nonoverlapping(body.as_ptr(), at, ENTRY - 8);
        (*(at.add(ENTRY - 8) as *const AtomicU64)).store(last.to_le(), Ordering::Release);
    }
}

pub struct Cq {
    ring: *mut u8,
    log: u32,
    pi: u32,
    ci: u32,
    /// Index after the newest completion that is solicited or an error.
    sol: u32,
    /// 1: next completion, 2: next that is solicited or an error.
    arm: u8,
    /// It has overflowed: nothing is written any more.
    over: bool,
}
// SAFETY: the ring is the provider's, for as long as the CQ is.
unsafe impl Send for Cq {}

/// What an entry causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    None,
    /// The CQ was armed.
    Event,
    /// It was full.
    Overflow,
}

impl Cq {
    pub fn new(ring: *mut u8, log: u32) -> Cq {
        Cq {
            ring,
            log,
            pi: 0,
            ci: 0,
            sol: 0,
            arm: 0,
            over: false,
        }
    }

    /// Goes on in another ring. It stays armed, or overrun.
    pub fn resize(&mut self, ring: *mut u8, log: u32) {
        (self.ring, self.log) = (ring, log);
        (self.pi, self.ci, self.sol) = (0, 0, 0);
    }

    pub fn push(&mut self, body: [u8; ENTRY]) -> Effect {
        if self.over {
            return Effect::None;
        }
        if self.pi.wrapping_sub(self.ci) & INDEX >= 1 << self.log {
            self.over = true;
            return Effect::Overflow;
        }
        // SAFETY: the ring that CREATE_CQ or RESIZE_CQ gave.
        unsafe { write(self.ring, self.log, self.pi, body) };
        self.pi = (self.pi + 1) & INDEX;
        let news = cqe::solicited.get(&body) != 0 || cqe::status.get(&body) != 0;
        if news {
            self.sol = self.pi;
        }
        let fires = self.arm == 1 || (self.arm == 2 && news);
        if fires {
            self.arm = 0;
            return Effect::Event;
        }
        Effect::None
    }

    /// The doorbell; true: an event comes at once.
    pub fn doorbell(&mut self, ci: u32, arm: u8) -> bool {
        let used = self.pi.wrapping_sub(ci) & INDEX;
        if used > 1 << self.log {
            return false;
        }
        self.ci = ci;
        let new = self.sol.wrapping_sub(ci) & INDEX;
        let fires = match arm {
            1 => used != 0,
            2 => self.arm != 1 && new != 0 && new <= used,
            _ => return false,
        };
        self.arm = match (fires, arm) {
            (true, _) => 0,
            (_, 2) if self.arm == 1 => 1,
            _ => arm,
        };
        fires
    }
}

pub struct Eq {
    ring: *mut u8,
    log: u32,
    pi: u32,
    ci: u32,
    /// What did not fit.
    late: VecDeque<(u8, u32)>,
}
// SAFETY: as for a CQ.
unsafe impl Send for Eq {}

/// Events that wait for room: more are lost, as a program that does not look for so long has lost them already.
const LATE: usize = 1 << 16;

impl Eq {
    pub fn new(ring: *mut u8, log: u32) -> Eq {
        Eq {
            ring,
            log,
            pi: 0,
            ci: 0,
            late: VecDeque::new(),
        }
    }

    fn full(&self) -> bool {
        self.pi.wrapping_sub(self.ci) & INDEX >= 1 << self.log
    }

    fn put(&mut self, kind: u8, id: u32) {
        let mut e = [0u8; ENTRY];
        eqe::kind.put(&mut e, kind as u64);
        eqe::id.put(&mut e, id as u64);
        const { assert!(eqe::phase.lo == cqe::phase.lo) };
        // SAFETY: the ring that CREATE_EQ gave.
        unsafe { write(self.ring, self.log, self.pi, e) };
        self.pi = (self.pi + 1) & INDEX;
    }

    pub fn push(&mut self, kind: u8, id: u32) {
        if !self.late.is_empty() || self.full() {
            if self.late.len() < LATE || kind == event::COMPLETION {
                self.late.push_back((kind, id));
            }
            return;
        }
        self.put(kind, id);
    }

    /// The doorbell; true: entries have been added.
    pub fn doorbell(&mut self, ci: u32) -> bool {
        self.ci = ci;
        let mut any = false;
        while !self.full() {
            let Some((kind, id)) = self.late.pop_front() else {
                break;
            };
            self.put(kind, id);
            any = true;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(solicited: bool) -> [u8; ENTRY] {
        let mut b = [0; ENTRY];
        cqe::solicited.put(&mut b, solicited as u64);
        b
    }

    #[test]
    fn arming_fires_once_and_overflow_ends_it() {
        let mut ring = vec![0u64; 16 * 8];
        let mut q = Cq::new(ring.as_mut_ptr().cast(), 4);
        assert!(!q.doorbell(0, 1));
        assert_eq!(q.push(body(false)), Effect::Event);
        assert_eq!(q.push(body(false)), Effect::None);
        assert!(!q.doorbell(0, 2), "nothing solicited yet");
        assert_eq!(q.push(body(false)), Effect::None);
        assert_eq!(q.push(body(true)), Effect::Event);
        assert!(q.doorbell(3, 2), "it is there already");
        assert!(q.doorbell(3, 1));
        assert!(!q.doorbell(4, 1));
        assert!(!q.doorbell(4, 2), "next stays next");
        assert_eq!(q.push(body(false)), Effect::Event);
        for _ in 0..15 {
            assert_eq!(q.push(body(false)), Effect::None);
        }
        assert_eq!(q.push(body(false)), Effect::Overflow);
        assert_eq!(q.push(body(false)), Effect::None);
        assert_eq!(ring[7] >> 63, 0, "second lap");
        assert_eq!(ring[15 * 8 + 7] >> 63, 1);
    }

    #[test]
    fn events_wait_for_room() {
        let mut ring = vec![0u64; 16 * 8];
        let mut q = Eq::new(ring.as_mut_ptr().cast(), 4);
        for i in 0..20 {
            q.push(event::COMPLETION, i);
        }
        assert_eq!(q.late.len(), 4);
        assert!(q.doorbell(16));
        assert!(!q.doorbell(16));
        assert_eq!(ring[3 * 8] >> 32, 19);
    }
}
