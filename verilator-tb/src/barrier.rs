//! Where the cards' threads meet between two slices.

use std::{
    ptr,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
    thread,
};

/// Barrier that spins a little and then yields: slices are short, and parked threads wake slowly. While the one that everybody
/// waits for rests, the others sleep.
pub struct SpinBarrier {
    n: usize,
    count: AtomicUsize,
    round: AtomicUsize,
    /// 1: nothing will happen for a while.
    resting: AtomicU32,
}

impl SpinBarrier {
    pub fn new(n: usize) -> SpinBarrier {
        SpinBarrier {
            n,
            count: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            resting: AtomicU32::new(0),
        }
    }

    pub fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.count.fetch_add(1, Ordering::AcqRel) + 1 == self.n {
            self.count.store(0, Ordering::Release);
            self.round.fetch_add(1, Ordering::AcqRel);
            return;
        }
        let mut spins = 0u32;
        while self.round.load(Ordering::Acquire) == round {
            spins += 1;
            if spins < 200 {
                std::hint::spin_loop();
            } else if self.resting.load(Ordering::Acquire) == 1 {
                self.futex(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 1);
            } else {
                thread::yield_now();
            }
        }
    }

    /// Runs `f`, which takes long, while the others wait in [`SpinBarrier::wait`] for the caller.
    pub fn rest<T>(&self, f: impl FnOnce() -> T) -> T {
        self.resting.store(1, Ordering::Release);
        let r = f();
        self.resting.store(0, Ordering::Release);
        self.futex(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX);
        r
    }

    fn futex(&self, what: i32, v: i32) {
        // SAFETY: the word outlives the call; without a time limit it takes no other pointer.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.resting.as_ptr(),
                what,
                v,
                ptr::null::<libc::timespec>(),
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Arc, time::Duration};

    /// CPU time of the calling thread.
    fn used() -> Duration {
        // SAFETY: the call fills the struct.
        let t = unsafe {
            let mut t: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t);
            t
        };
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    }

    #[test]
    fn those_who_wait_for_a_resting_one_sleep() {
        let b = Arc::new(SpinBarrier::new(3));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let b = b.clone();
                thread::spawn(move || {
                    for _ in 0..5 {
                        b.wait();
                    }
                    used()
                })
            })
            .collect();
        for _ in 0..5 {
            b.rest(|| thread::sleep(Duration::from_millis(60)));
            b.wait();
        }
        for o in others {
            let t = o.join().unwrap();
            assert!(t < Duration::from_millis(50), "{t:?} of 300 ms");
        }
    }
}
