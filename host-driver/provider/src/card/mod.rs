//! What the verbs need of a card, whatever carries it.
pub mod arena;
pub mod dma;
pub mod sim;

use std::sync::Arc;

/// Memory that the card reaches at `bus`: rings, command blocks, page lists.
#[derive(Debug)]
pub struct Dma {
    pub ptr: *mut u8,
    pub bus: u64,
    pub len: usize,
}
// SAFETY: plain memory; whoever holds the value decides who touches it.
unsafe impl Send for Dma {}
unsafe impl Sync for Dma {}

/// Linux errno, positive.
pub type Errno = i32;

/// A card as one process sees it.
pub trait Card: Send + Sync {
    /// Writes a 64-bit doorbell at `reg` (`regs::doorbell`) of this process's page. Waits while the path is full.
    fn doorbell(&self, reg: u32, value: u64);
    /// Writes a 64-byte unit at `reg`, in the order of the doorbells.
    fn direct(&self, reg: u32, unit: &[u8; 64]);
    /// A doorbell without waiting; false = full, nothing was written.
    fn try_doorbell(&self, reg: u32, value: u64) -> bool;
    /// Reads a 32-bit register of page 0 (`regs::admin`), or of the window onto the ROM (`regs::ROM_BASE`).
    fn register(&self, offset: u32) -> Result<u32, Errno>;
    /// Zeroed memory, aligned to its size rounded up to a power of two, at most 4 KiB.
    fn alloc(&self, bytes: usize) -> Option<Dma>;
    fn free(&self, memory: Dma);
    /// The MAC behind a GID.
    fn neighbor(&self, gid: [u8; 16]) -> Result<[u8; 6], Errno>;
    /// Called by who finds nothing where the card would put something: a card whose work is done by its process goes on with it.
    fn progress(&self) {}
    /// Starts delivering events.
    fn start(&self, events: Arc<dyn Events>) -> std::io::Result<()>;
    /// Ends delivery and disconnects; `events` is not called any more when this returns.
    fn stop(&self);
}

/// Starts a thread on which no signal handler of the program runs: it does not know of the thread.
pub fn without_signals<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: sets are initialised by sigfillset and pthread_sigmask.
    unsafe {
        let mut all = core::mem::zeroed::<libc::sigset_t>();
        let mut old = core::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        let r = f();
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, core::ptr::null_mut());
        r
    }
}

/// What a card tells its process.
pub trait Events: Send + Sync {
    /// The event queue has entries.
    fn interrupt(&self);
    /// Called now and then while there was something that could not be delivered at once. True = still waiting.
    fn retry(&self) -> bool;
    /// The card is gone. Called at most once.
    fn died(&self, why: &str);
}
