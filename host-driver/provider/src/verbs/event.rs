//! Events: the card's event queue, and the pipes through which libibverbs delivers them.
use super::cq::Cq;
use crate::abi::{self, IbvAsyncEvent, IbvContext, IbvCq, IbvQp};
use crate::card::{Card, Dma};
use crate::ctx::{Ctx, Tables};
use metaroce_hdl_spec::cqe::{eqe, event as kind};
use metaroce_hdl_spec::regs::{db_eq, doorbell};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// log2 of event queue entries: more than there are CQs, and an armed CQ has at most one event here.
const LOG: u32 = 11;
const ENTRY: usize = 64;

pub struct EventQueue {
    ring: Dma,
    ci: u32,
    /// The doorbell ring was full when `ci` had to be told.
    owed: bool,
    /// CQNs whose channel was full.
    backlog: Vec<u32>,
}

/// Whether entry `index` of a ring of `mask` + 1 entries at `ring` has been written in this lap; orders the reads that follow.
#[inline]
pub fn valid(ring: *const u8, mask: u32, index: u32) -> bool {
    let slot = index & mask;
    // SAFETY: inside the ring, aligned.
    unsafe { written(ring.add(slot as usize * ENTRY).cast(), mask, index) }
}

/// The same of the entry at `entry`.
///
/// # Safety
/// It must be an entry of a ring.
#[inline]
pub unsafe fn written(entry: *const u64, mask: u32, index: u32) -> bool {
    // SAFETY: aligned; the card stores this word last.
    let last = unsafe { &*(entry.add(ENTRY / 8 - 1) as *const AtomicU64) };
    let phase = last.load(Ordering::Acquire) >> 63;
    // Laps alternate: the bit of the index above the mask.
    (phase == 0) == (index & (mask + 1) != 0)
}

impl EventQueue {
    pub fn new(card: &dyn Card) -> Option<EventQueue> {
        let ring = card.alloc(ENTRY << LOG)?;
        Some(EventQueue {
            ring,
            ci: 0,
            owed: false,
            backlog: Vec::new(),
        })
    }
    pub fn bus(&self) -> u64 {
        self.ring.bus
    }
    pub fn log(&self) -> u32 {
        LOG
    }
    /// Whether something waits to be tried again.
    pub fn busy(&self) -> bool {
        self.owed || !self.backlog.is_empty()
    }
    pub fn forget(&mut self, cqn: u32) {
        self.backlog.retain(|&c| c != cqn);
    }
    fn next(&mut self) -> Option<(u8, u32)> {
        if !valid(self.ring.ptr, (1 << LOG) - 1, self.ci) {
            return None;
        }
        let slot = (self.ci & ((1 << LOG) - 1)) as usize;
        // SAFETY: inside the ring; the entry is complete.
        let entry = unsafe { core::slice::from_raw_parts(self.ring.ptr.add(slot * ENTRY), ENTRY) };
        let e = (eqe::kind.get(entry) as u8, eqe::id.get(entry) as u32);
        self.ci = (self.ci + 1) & 0xff_ffff;
        Some(e)
    }
}

impl Tables {
    /// Delivers everything in the event queue.
    pub fn drain(&mut self, ctx: &Ctx) {
        for cqn in core::mem::take(&mut self.eq.backlog) {
            self.notify(cqn);
        }
        let mut any = self.eq.owed;
        while let Some((kind, id)) = self.eq.next() {
            any = true;
            self.deliver(ctx, kind, id);
        }
        if any {
            let mut v = [0u8; 8];
            db_eq::ci.put(&mut v, self.eq.ci as u64);
            self.eq.owed = !ctx.card.try_doorbell(doorbell::EQ, u64::from_le_bytes(v));
        }
    }

    fn notify(&mut self, cqn: u32) {
        if let Some(&cq) = self.cqs.get(&cqn) {
            // SAFETY: in the table, hence alive.
            if !unsafe { (*cq).notify() } {
                self.eq.backlog.push(cqn);
            }
        }
    }

    fn deliver(&mut self, ctx: &Ctx, kind: u8, id: u32) {
        let qp_event = match kind {
            kind::COMPLETION => return self.notify(id),
            kind::CQ_ERR => {
                if let Some(&cq) = self.cqs.get(&id) {
                    ctx.raise(abi::event::CQ_ERR, cq as u64);
                }
                return;
            }
            kind::SRQ_LIMIT | kind::SRQ_ERR => {
                if let Some(&srq) = self.srqs.get(&id) {
                    let what = match kind {
                        kind::SRQ_LIMIT => abi::event::SRQ_LIMIT,
                        _ => abi::event::SRQ_ERR,
                    };
                    ctx.raise(what, srq as u64);
                }
                return;
            }
            kind::PORT_ACTIVE => return ctx.raise(abi::event::PORT_ACTIVE, 1),
            kind::PORT_ERR => return ctx.raise(abi::event::PORT_ERR, 1),
            kind::QP_FATAL => abi::event::QP_FATAL,
            kind::QP_REQ_ERR => abi::event::QP_REQ_ERR,
            kind::QP_ACCESS_ERR => abi::event::QP_ACCESS_ERR,
            kind::COMM_EST => abi::event::COMM_EST,
            kind::SQ_DRAINED => abi::event::SQ_DRAINED,
            kind::LAST_WQE => abi::event::LAST_WQE,
            _ => return,
        };
        let qp = ctx.qp_slot(id).load(Ordering::Acquire);
        // SAFETY: slots are cleared under the tables' mutex before a QP goes.
        if !qp.is_null() && unsafe { (*qp).ibv().qp_num } == id {
            ctx.raise(qp_event, qp as u64);
        }
    }
}

/// A second descriptor of the pipe behind `fd`, for both directions and without blocking. The descriptor that the
/// program holds keeps its own flags.
pub fn both_ends(fd: RawFd) -> io::Result<OwnedFd> {
    let name = std::ffi::CString::new(format!("/proc/self/fd/{fd}")).unwrap();
    // SAFETY: a C string; the result is checked.
    unsafe {
        let fd = libc::open(
            name.as_ptr(),
            libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC,
        );
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

pub fn is_fifo(fd: RawFd) -> bool {
    // SAFETY: the structure is filled by fstat.
    unsafe {
        let mut st = core::mem::zeroed::<libc::stat>();
        libc::fstat(fd, &mut st) == 0 && st.st_mode & libc::S_IFMT == libc::S_IFIFO
    }
}

/// Takes the unread records that begin with `element` out of a pipe, as the kernel does when an object is destroyed:
/// its pointer must not be delivered afterwards.
pub fn purge(pipe: &OwnedFd, record: usize, element: u64) {
    let fd = pipe.as_raw_fd();
    let mut keep = Vec::new();
    let mut buf = [0u8; 16];
    // SAFETY: reads and writes of whole records; pipe operations of this size are atomic.
    unsafe {
        while libc::read(fd, buf.as_mut_ptr() as *mut _, record) == record as isize {
            if buf[..8] != element.to_ne_bytes() {
                keep.extend_from_slice(&buf[..record]);
            }
        }
        for r in keep.chunks(record) {
            libc::write(fd, r.as_ptr() as *const _, record);
        }
    }
}

/// Called by libibverbs when the program has read a completion event: destroy waits until each is acknowledged.
pub unsafe extern "C" fn cq_event(cq: *mut IbvCq) {
    // SAFETY: a CQ of ours.
    unsafe { (*Cq::of(cq)).comp_events.fetch_add(1, Ordering::Relaxed) };
}

/// Likewise for asynchronous events.
pub unsafe extern "C" fn async_event(_context: *mut IbvContext, event: *mut IbvAsyncEvent) {
    use abi::event as e;
    // SAFETY: libibverbs passes the event that it just read; its element is one of ours.
    unsafe {
        match (*event).event_type as u32 {
            e::CQ_ERR => {
                let cq = Cq::of((*event).element as *mut IbvCq);
                (*cq).async_events.fetch_add(1, Ordering::Relaxed);
            }
            e::SRQ_LIMIT | e::SRQ_ERR => {
                let srq = super::srq::Srq::of((*event).element as *mut abi::srq::IbvSrq);
                (*srq).events.fetch_add(1, Ordering::Relaxed);
            }
            e::QP_FATAL..=e::PATH_MIG_ERR | e::LAST_WQE => {
                let qp = super::qp::Qp::of((*event).element as *mut IbvQp);
                (*qp).events.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// Waits until `done()`; the program's acknowledgements signal `cond`.
///
/// # Safety
/// Both must be initialised and stay so.
pub unsafe fn wait(
    mutex: *mut libc::pthread_mutex_t,
    cond: *mut libc::pthread_cond_t,
    done: impl Fn() -> bool,
) {
    unsafe {
        libc::pthread_mutex_lock(mutex);
        while !done() {
            libc::pthread_cond_wait(cond, mutex);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_flips_at_exactly_the_ring_size() {
        let mut ring = vec![0u64; 8 << 4];
        let p = ring.as_mut_ptr() as *mut u8;
        for i in 0..100u32 {
            assert!(!valid(p, 15, i), "entry {i} is of the last lap");
            let phase = (!(i >> 4) & 1) as u64;
            ring[(i as usize & 15) * 8 + 7] = phase << 63;
            assert!(valid(p, 15, i));
        }
    }

    #[test]
    fn purge_takes_one_object_and_keeps_the_order() {
        let mut ends = [0; 2];
        assert_eq!(
            unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) },
            0
        );
        let both = both_ends(ends[0]).unwrap();
        assert!(is_fifo(ends[0]));
        for v in [1u64, 2, 1, 3, 2, 1] {
            unsafe { libc::write(both.as_raw_fd(), &v as *const u64 as *const _, 8) };
        }
        purge(&both, 8, 1);
        let mut got = [0u64; 8];
        let n = unsafe { libc::read(both.as_raw_fd(), got.as_mut_ptr() as *mut _, 64) };
        assert_eq!((n, &got[..3]), (24, &[2, 3, 2][..]));
        for f in ends {
            unsafe { libc::close(f) };
        }
    }
}
