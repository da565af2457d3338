//! A lock for the data path: uncontended it is one atomic exchange and one store, never a system call.
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

pub struct Spin<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives out one reference at a time.
unsafe impl<T: Send> Sync for Spin<T> {}
unsafe impl<T: Send> Send for Spin<T> {}

pub struct Guard<'a, T>(&'a Spin<T>);

impl<T> Spin<T> {
    pub const fn new(value: T) -> Self {
        Spin {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        self.hold();
        Guard(self)
    }
    /// Takes the lock for longer than a function: until [`Spin::release`].
    #[inline]
    pub fn hold(&self) {
        if self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
    }
    /// Takes the lock if nobody has it.
    #[inline]
    pub fn try_hold(&self) -> bool {
        !self.held.swap(true, Ordering::Acquire)
    }
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut tries = 0u32;
        while self.held.swap(true, Ordering::Acquire) {
            while self.held.load(Ordering::Relaxed) {
                tries += 1;
                if tries % 64 == 0 {
                    // The holder may have been preempted.
                    std::thread::yield_now();
                } else {
                    core::hint::spin_loop();
                }
            }
        }
    }
    /// What a held lock protects.
    ///
    /// # Safety
    /// The caller holds the lock, and no other reference of this thread is in use.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn held(&self) -> &mut T {
        // SAFETY: the contract above.
        unsafe { &mut *self.value.get() }
    }
    /// # Safety
    /// The caller holds the lock by [`Spin::hold`].
    #[inline]
    pub unsafe fn release(&self) {
        self.held.store(false, Ordering::Release);
    }
}

impl<T: Default> Default for Spin<T> {
    fn default() -> Self {
        Spin::new(T::default())
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.value.get() }
    }
}
impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held.
        unsafe { &mut *self.0.value.get() }
    }
}
impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard holds the lock.
        unsafe { self.0.release() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_under_contention() {
        let n = Spin::new(0u64);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..10_000).for_each(|_| *n.lock() += 1));
            }
        });
        assert_eq!(*n.lock(), 40_000);
    }
}
