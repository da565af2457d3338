//! What time it is for the program. No locks: it is asked from signal handlers, also while it is being asked.
//!
//! time = card time + `EXTRA`. Card time stands still while the cards wait for the programs, and creeps while they work,
//! so a program that spins on the clock would spin for minutes. After [`SPIN_READS`] reads and [`SPIN_NS`] of wall time
//! without a doorbell of this process it counts as spinning, and wall time is added until its next doorbell. It is added when a clock is asked a second
//! time: two clocks asked one after the other show the same, or a program that compares them (perftest learns the counter's frequency so) would
//! find an error of milliseconds whenever it waits for the processor in between. For the same reason most of the wall time in which the processor was taken away is
//! not added.
use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

const SPIN_READS: u64 = 1000;
const SPIN_NS: u64 = 100_000_000;
/// More than this between two reads is a wait of the program, or the time of somebody else.
const LEAP_NS: u64 = 20_000;

/// Card time and doorbell count in the arena of the device that was opened last; null = none is open.
static CARD: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
static BELLS: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
/// Calls that are looking at those two.
static READERS: AtomicUsize = AtomicUsize::new(0);
/// What is added to card time (wraps).
static EXTRA: AtomicU64 = AtomicU64::new(0);
/// The latest answer: time does not go back.
static LATEST: AtomicU64 = AtomicU64::new(0);
/// Wall time of the last read.
static WALL: AtomicU64 = AtomicU64::new(0);
/// Reads since the last doorbell, its number, and the wall time of the read that saw it.
static READS: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);
/// How often the thread that read last had given the processor away of its own will.
static WAITS: AtomicU64 = AtomicU64::new(0);
/// Which clock was asked last, and how often another one than before, in a row.
static ASKED: AtomicU64 = AtomicU64::new(0);
static TURNS: AtomicU64 = AtomicU64::new(0);
/// Realtime minus monotonic time when the program began.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// A clock of the kernel, without the vDSO.
pub unsafe fn wall(clock: c_int) -> u64 {
    let mut t = core::mem::MaybeUninit::<libc::timespec>::zeroed();
    libc::syscall(
        libc::SYS_clock_gettime,
        clock as libc::c_long,
        t.as_mut_ptr(),
    );
    let t = t.assume_init();
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Whether this thread has waited for something since the last call.
unsafe fn waited() -> bool {
    let mut u = core::mem::MaybeUninit::<libc::rusage>::zeroed();
    libc::syscall(
        libc::SYS_getrusage,
        libc::RUSAGE_THREAD as libc::c_long,
        u.as_mut_ptr(),
    );
    let n = u.assume_init().ru_nvcsw as u64;
    WAITS.swap(n, Relaxed) != n
}

pub unsafe fn start() {
    let now = wall(libc::CLOCK_MONOTONIC);
    EPOCH.store(wall(libc::CLOCK_REALTIME).wrapping_sub(now), Relaxed);
    EXTRA.store(now, Relaxed);
    WALL.store(now, Relaxed);
    SINCE.store(now, Relaxed);
}

/// The clocks of a program.
#[derive(Clone, Copy)]
pub enum Clock {
    Counter = 1,
    Day,
    Monotonic,
}

/// Monotonic time of the program, ns, as `clock` shows it.
pub unsafe fn now(clock: Clock) -> u64 {
    let wall = wall(libc::CLOCK_MONOTONIC);
    READERS.fetch_add(1, SeqCst);
    let (card, bells) = (CARD.load(SeqCst), BELLS.load(SeqCst));
    let (mut t, mut spins) = (0, true);
    if !card.is_null() && !bells.is_null() {
        t = (*card).load(Acquire);
        let rung = (*bells).load(Relaxed);
        if SEEN.swap(rung, Relaxed) != rung {
            READS.store(0, Relaxed);
            SINCE.store(wall, Relaxed);
        }
        spins = READS.fetch_add(1, Relaxed) >= SPIN_READS
            && wall.saturating_sub(SINCE.load(Relaxed)) >= SPIN_NS;
    }
    READERS.fetch_sub(1, SeqCst);
    // Two clocks in turn, again and again, are a wait as well.
    let again = if ASKED.swap(clock as u64, Relaxed) == clock as u64 {
        TURNS.store(0, Relaxed);
        true
    } else {
        TURNS.fetch_add(1, Relaxed) >= 2
    };
    let mut passed = 0;
    if again || !spins {
        passed = wall.saturating_sub(WALL.fetch_max(wall, Relaxed));
    }
    if again && spins && !waited() {
        passed = passed.min(LEAP_NS);
    }
    let extra = if spins {
        EXTRA.fetch_add(passed, Relaxed).wrapping_add(passed)
    } else {
        EXTRA.load(Relaxed)
    };
    let t = t.wrapping_add(extra);
    LATEST.fetch_max(t, Relaxed).max(t)
}

/// The same as time of day, ns.
pub unsafe fn of_day() -> u64 {
    now(Clock::Day).wrapping_add(EPOCH.load(Relaxed))
}

/// The provider says where card time and the number of doorbells are once a device is open; null when it closes.
/// Time goes on from where it is. When this returns nobody looks at the old place any more.
#[no_mangle]
pub unsafe extern "C" fn metaroce_card_clock(card: *mut AtomicU64, bells: *mut AtomicU64) {
    if !super::on() {
        return;
    }
    let before = now(Clock::Monotonic);
    CARD.store(core::ptr::null_mut(), SeqCst);
    while READERS.load(SeqCst) != 0 {
        core::hint::spin_loop();
    }
    let t = if card.is_null() {
        0
    } else {
        (*card).load(Acquire)
    };
    EXTRA.store(before.wrapping_sub(t), Relaxed);
    BELLS.store(bells, SeqCst);
    CARD.store(card, SeqCst);
}
