//! Card time for programs that measure (`METAROCE_CARD_TIME`, x86-64 only; `metaroce perftest --card-time` sets it).
//!
//! perftest reads the time-stamp counter, and compares it with `gettimeofday` to learn its frequency. Here the counter
//! traps (`PR_SET_TSC`), and both answer from the same card time: [`TICKS`] per ns, which no processor has, so that
//! perftest takes the frequency that it measured and not the one of `/proc/cpuinfo`.
//!
//! | file | what |
//! |---|---|
//! | `time` | card time, and what it is while there is no card or while a program spins on the clock |
//! | `trap` | the counter: SIGSEGV, decoded; the program's own handler goes on working |
//! | `hooks` | `gettimeofday`, `clock_gettime`; signal calls that would take SIGSEGV away; programs that are started |
//!
//! Only the program itself gets card time. Libraries, this provider among them, wait for other things than the card, so
//! they keep real time; so does the kernel's own clock code (vDSO), which reads the counter too and traps like everybody.
mod hooks;
mod time;
mod trap;

use crate::config::say;
use core::ffi::{c_int, c_ulong, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counter ticks per ns of card time.
pub const TICKS: u64 = 10;

static ON: AtomicBool = AtomicBool::new(false);
/// Where the program's own code lies.
static PROGRAM: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Whether the program itself, not a library, executes `address`.
pub fn of_program(address: usize) -> bool {
    address >= PROGRAM[0].load(Ordering::Relaxed) && address < PROGRAM[1].load(Ordering::Relaxed)
}

/// Lets the counter of this thread, and of those that it starts, trap; or not.
pub unsafe fn set_trap(on: bool) -> bool {
    let mode = if on {
        libc::PR_TSC_SIGSEGV
    } else {
        libc::PR_TSC_ENABLE
    };
    libc::syscall(
        libc::SYS_prctl,
        libc::PR_SET_TSC,
        mode as c_ulong,
        0 as c_ulong,
        0 as c_ulong,
        0 as c_ulong,
    ) == 0
}

/// Called by the constructor of the library, before any thread of the program exists.
pub unsafe fn start() {
    if libc::getenv(c"METAROCE_CARD_TIME".as_ptr()).is_null() {
        return;
    }
    find_program();
    time::start();
    if !trap::install() || !set_trap(true) {
        // Wall time under the name of card time would be worse than no run.
        say(b"metaroce: this kernel does not trap the time-stamp counter (PR_SET_TSC), so there is no --card-time here\n");
        libc::_exit(1);
    }
    ON.store(true, Ordering::Release);
}

/// The loader's list of objects begins with the program.
unsafe fn find_program() {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        _: *mut c_void,
    ) -> c_int {
        let info = &*info;
        let (mut low, mut high) = (usize::MAX, 0);
        for k in 0..info.dlpi_phnum as usize {
            let h = &*info.dlpi_phdr.add(k);
            if h.p_type == libc::PT_LOAD {
                let at = info.dlpi_addr as usize + h.p_vaddr as usize;
                low = low.min(at);
                high = high.max(at + h.p_memsz as usize);
            }
        }
        PROGRAM[0].store(low, Ordering::Relaxed);
        PROGRAM[1].store(high, Ordering::Relaxed);
        1
    }
    libc::dl_iterate_phdr(Some(first), core::ptr::null_mut());
}
