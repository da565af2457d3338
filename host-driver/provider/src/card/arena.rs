//! The memory that this process shares with the simulator: doorbell ring and a heap for rings and lists.
use super::Dma;
use metaroce_hdl_spec::hostmsg::arena as at;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

const PAGE: usize = 4096;
/// Smallest block of the heap: a cache line, so that no two objects share one.
const MIN_LOG: usize = 6;

pub struct Arena {
    base: *mut u8,
    size: usize,
    fd: OwnedFd,
    heap: Mutex<Heap>,
}
// SAFETY: shared memory, accessed through atomics or by the owner of a block.
unsafe impl Send for Arena {}
unsafe impl Sync for Arena {}

/// Power-of-two blocks with a free list each; blocks are never merged. Sizes repeat in verbs programs (rings, page
/// lists of the same buffers), so lists stay short and nothing fragments in practice.
struct Heap {
    next: usize,
    end: usize,
    free: Vec<Vec<usize>>,
}

impl Heap {
    fn take(&mut self, log: usize) -> Option<(usize, bool)> {
        if let Some(offset) = self.free[log].pop() {
            return Some((offset, true));
        }
        let align = (1usize << log).min(PAGE);
        let offset = self.next.next_multiple_of(align);
        let end = offset.checked_add(1 << log)?;
        if end > self.end {
            return None;
        }
        self.next = end;
        Some((offset, false))
    }
}

impl Arena {
    /// Creates and maps the arena and initialises its header and doorbell ring.
    pub fn new() -> io::Result<Arena> {
        let size = at::SIZE as usize;
        // SAFETY: plain system calls; the results are checked.
        unsafe {
            let fd = libc::memfd_create(
                c"metaroce-arena".as_ptr(),
                libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
            );
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = OwnedFd::from_raw_fd(fd);
            if libc::ftruncate(fd.as_raw_fd(), size as libc::off_t) != 0 {
                return Err(io::Error::last_os_error());
            }
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let base = libc::mmap(
                core::ptr::null_mut(),
                size,
                protection,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            );
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let heap = Heap {
                next: at::HEAP as usize,
                end: size,
                free: vec![Vec::new(); 40],
            };
            let arena = Arena {
                base: base as *mut u8,
                size,
                fd,
                heap: Mutex::new(heap),
            };
            for i in 0..at::DB_ENTRIES {
                arena
                    .word(at::DB_RING + i * at::DB_ENTRY_BYTES)
                    .store(i, Ordering::Relaxed);
            }
            arena
                .word(at::HEADER + 8)
                .store(at::SIZE, Ordering::Relaxed);
            arena
                .word(at::HEADER + 16)
                .store(arena.bus(), Ordering::Relaxed);
            arena.word(at::HEADER).store(at::MAGIC, Ordering::Release);
            Ok(arena)
        }
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
    /// Bus address of the first byte: its address in this process.
    pub fn bus(&self) -> u64 {
        self.base as u64
    }
    fn word(&self, offset: u64) -> &AtomicU64 {
        debug_assert!(offset % 8 == 0 && offset < self.size as u64);
        // SAFETY: inside the mapping and aligned.
        unsafe { &*(self.base.add(offset as usize) as *const AtomicU64) }
    }
    fn half(&self, offset: u64) -> &AtomicU32 {
        debug_assert!(offset % 4 == 0 && offset < self.size as u64);
        // SAFETY: as above.
        unsafe { &*(self.base.add(offset as usize) as *const AtomicU32) }
    }

    /// Shows the launch shim where card time is, if there is a shim that wants to know (`--card-time`).
    pub fn show_clock(&self) {
        card_clock(self.word(at::CARD_TIME), self.word(at::DB_HEAD));
    }

    /// Card time in ns, and whether the simulator sleeps.
    pub fn card_time(&self) -> u64 {
        self.word(at::CARD_TIME).load(Ordering::Relaxed)
    }
    pub fn asleep(&self) -> bool {
        self.half(at::SLEEPING).load(Ordering::Relaxed) != 0
    }

    pub fn dead(&self) -> bool {
        self.half(at::DEAD).load(Ordering::Relaxed) != 0
    }
    pub fn set_dead(&self) {
        self.half(at::DEAD).store(1, Ordering::Relaxed);
    }

    /// Queues a doorbell write. False = the ring is full.
    #[inline(always)]
    pub fn push(&self, bar_offset: u64, value: u64) -> bool {
        // SAFETY: inside the entry, which is this caller's.
        self.queue(bar_offset, 8, |entry| unsafe {
            entry.add(24).cast::<u64>().write(value)
        })
    }
    /// Queues a write of 64 bytes.
    #[inline(always)]
    pub fn push_unit(&self, bar_offset: u64, unit: &[u8; 64]) -> bool {
        // SAFETY: inside the entry, which is this caller's.
        self.queue(bar_offset, 64, |entry| unsafe {
            entry
                .add(at::DB_DATA as usize)
                .cast::<[u8; 64]>()
                .write(*unit)
        })
    }
    /// A place of the doorbell ring that is this caller's, filled by `put`.
    #[inline(always)]
    fn queue(&self, bar_offset: u64, bytes: u64, put: impl Fn(*mut u8)) -> bool {
        let head = self.word(at::DB_HEAD);
        let mut p = head.load(Ordering::Relaxed);
        loop {
            let at = at::DB_RING + (p % at::DB_ENTRIES) * at::DB_ENTRY_BYTES;
            // SAFETY: the four words at the beginning of an entry of the ring.
            let place = unsafe { self.base.add(at as usize) };
            // SAFETY: as above.
            let entry = unsafe { &*(place as *const [AtomicU64; 4]) };
            let seq = entry[0].load(Ordering::Acquire);
            if seq == p {
                match head.compare_exchange_weak(p, p + 1, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => {
                        entry[1].store(bar_offset, Ordering::Relaxed);
                        entry[2].store(bytes, Ordering::Relaxed);
                        put(place);
                        // The card may look as soon as it sees this: everything before (WQEs too) is visible then.
                        entry[0].store(p + 1, Ordering::Release);
                        return true;
                    }
                    Err(now) => p = now,
                }
            } else if seq < p {
                return false;
            } else {
                p = head.load(Ordering::Relaxed);
            }
        }
    }

    /// After a push: whether the simulator sleeps and this caller is the one to wake it.
    pub fn must_wake(&self) -> bool {
        // Orders the published entry before the look at the flag; the simulator does the reverse.
        fence(Ordering::SeqCst);
        let flag = self.half(at::SLEEPING);
        flag.load(Ordering::Relaxed) == 1
            && flag
                .compare_exchange(1, 0, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
    }

    /// Zeroed memory, or None when the arena is full.
    pub fn alloc(&self, bytes: usize) -> Option<Dma> {
        let log = bytes
            .max(1)
            .next_power_of_two()
            .trailing_zeros()
            .max(MIN_LOG as u32) as usize;
        let (offset, used) = self.heap.lock().unwrap().take(log)?;
        // SAFETY: the block is inside the mapping and ours.
        unsafe {
            let ptr = self.base.add(offset);
            if used {
                core::ptr::write_bytes(ptr, 0, 1 << log);
            }
            Some(Dma {
                ptr,
                bus: self.bus() + offset as u64,
                len: 1 << log,
            })
        }
    }

    pub fn free(&self, memory: Dma) {
        let offset = memory.ptr as usize - self.base as usize;
        self.heap.lock().unwrap().free[memory.len.trailing_zeros() as usize].push(offset);
    }
}

fn card_clock(time: *const AtomicU64, doorbells: *const AtomicU64) {
    // SAFETY: the shim's own symbol with this signature, or none.
    unsafe {
        let f = libc::dlsym(libc::RTLD_DEFAULT, c"metaroce_card_clock".as_ptr());
        if !f.is_null() {
            let f: unsafe extern "C" fn(*const AtomicU64, *const AtomicU64) =
                core::mem::transmute(f);
            f(time, doorbells);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Also the place of another open device is taken away: rare, and its time then goes on with wall time.
        card_clock(core::ptr::null(), core::ptr::null());
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.base as *mut libc::c_void, self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The simulator's side of the doorbell ring.
    fn pop(a: &Arena, p: u64) -> Option<(u64, u64)> {
        let entry = at::DB_RING + (p % at::DB_ENTRIES) * at::DB_ENTRY_BYTES;
        if a.word(entry).load(Ordering::Acquire) != p + 1 {
            return None;
        }
        let v = (
            a.word(entry + 8).load(Ordering::Relaxed),
            a.word(entry + 24).load(Ordering::Relaxed),
        );
        a.word(entry).store(p + at::DB_ENTRIES, Ordering::Release);
        Some(v)
    }

    #[test]
    fn doorbells_keep_order_and_stop_when_full() {
        let a = Arena::new().unwrap();
        let mut p = 0;
        for lap in 0..3 {
            for i in 0..at::DB_ENTRIES {
                assert!(a.push(0x1000, lap * 10_000 + i));
            }
            assert!(!a.push(0x1000, 0), "a full ring takes nothing");
            for i in 0..at::DB_ENTRIES {
                assert_eq!(pop(&a, p), Some((0x1000, lap * 10_000 + i)));
                p += 1;
            }
            assert_eq!(pop(&a, p), None);
        }
    }

    #[test]
    fn many_producers_lose_nothing() {
        let a = Arena::new().unwrap();
        std::thread::scope(|s| {
            for t in 0..3u64 {
                let a = &a;
                s.spawn(move || {
                    for i in 0..5_000u64 {
                        while !a.push(t, i) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let (mut p, mut next) = (0, [0u64; 3]);
            while p < 15_000 {
                match pop(&a, p) {
                    Some((t, i)) => {
                        assert_eq!(i, next[t as usize]);
                        next[t as usize] += 1;
                        p += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
        });
    }

    #[test]
    fn heap_aligns_zeroes_and_reuses() {
        let a = Arena::new().unwrap();
        let small = a.alloc(8).unwrap();
        assert_eq!((small.len, small.bus % 64), (64, 0));
        let ring = a.alloc(5000).unwrap();
        assert_eq!((ring.len, ring.bus % 4096), (8192, 0));
        unsafe { *ring.ptr.add(77) = 9 };
        let bus = ring.bus;
        a.free(ring);
        let again = a.alloc(8192).unwrap();
        assert_eq!(again.bus, bus);
        assert_eq!(unsafe { *again.ptr.add(77) }, 0);
        assert!(a.alloc(at::SIZE as usize).is_none());
    }

    #[test]
    fn one_waker_only() {
        let a = Arena::new().unwrap();
        assert!(!a.must_wake());
        a.half(at::SLEEPING).store(1, Ordering::SeqCst);
        assert!(a.must_wake());
        assert!(!a.must_wake());
    }
}
