//! The time-stamp counter traps as SIGSEGV. Whatever else comes as SIGSEGV goes to the program's own handler.
use super::{of_program, set_trap, time, TICKS};
use crate::next::next;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{sigaction, siginfo_t, ucontext_t};

/// `si_code` of a general protection fault; a page fault has another.
const SI_KERNEL: c_int = 0x80;

type Action = unsafe extern "C" fn(c_int, *const sigaction, *mut sigaction) -> c_int;

/// What the program wants to happen on SIGSEGV, and a count that is odd while it changes.
struct Wish(UnsafeCell<core::mem::MaybeUninit<sigaction>>);
// SAFETY: written by one thread at a time under the odd count, read again when the count has moved.
unsafe impl Sync for Wish {}
static WISH: Wish = Wish(UnsafeCell::new(core::mem::MaybeUninit::zeroed()));
static TURN: AtomicU32 = AtomicU32::new(0);

pub unsafe fn next_action(signal: c_int, act: *const sigaction, old: *mut sigaction) -> c_int {
    next!(c"sigaction", Action)(signal, act, old)
}

pub unsafe fn install() -> bool {
    let mut own: sigaction = core::mem::zeroed();
    own.sa_sigaction = on_fault as *const () as usize;
    // The counter may be read in the program's own handler, and the program may have a stack for that one.
    own.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK | libc::SA_RESTART;
    next_action(libc::SIGSEGV, &own, (*WISH.0.get()).as_mut_ptr()) == 0
}

/// The program's wish as it is; and another one in its place.
pub unsafe fn exchange(new: *const sigaction, old: *mut sigaction) {
    if !old.is_null() {
        *old = wish();
    }
    if new.is_null() {
        return;
    }
    let new = new.read();
    loop {
        let t = TURN.load(Ordering::Acquire);
        let free = t % 2 == 0;
        if free
            && TURN
                .compare_exchange(t, t + 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            (*WISH.0.get()).as_mut_ptr().write_volatile(new);
            TURN.store(t.wrapping_add(2), Ordering::Release);
            return;
        }
        core::hint::spin_loop();
    }
}

unsafe fn wish() -> sigaction {
    loop {
        let t = TURN.load(Ordering::Acquire);
        let w = (*WISH.0.get()).as_ptr().read_volatile();
        core::sync::atomic::fence(Ordering::Acquire);
        if t % 2 == 0 && TURN.load(Ordering::Relaxed) == t {
            return w;
        }
        core::hint::spin_loop();
    }
}

/// Bytes of the instruction at `at` if it reads the counter, and whether it is RDTSCP.
unsafe fn counter_read(at: *const u8) -> Option<(i64, bool)> {
    match (*at, *at.add(1)) {
        (0x0F, 0x31) => Some((2, false)),
        (0x0F, 0x01) if *at.add(2) == 0xF9 => Some((3, true)),
        _ => None,
    }
}

/// The counter itself.
unsafe fn real() -> (u64, u32) {
    let mut core = 0;
    set_trap(false);
    let v = core::arch::x86_64::__rdtscp(&mut core);
    set_trap(true);
    (v, core)
}

unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let errno = *libc::__errno_location();
    let regs = &mut (*(context as *mut ucontext_t)).uc_mcontext.gregs;
    let at = regs[libc::REG_RIP as usize] as usize;
    if (*info).si_code == SI_KERNEL {
        if let Some((bytes, with_core)) = counter_read(at as *const u8) {
            let (v, core) = if of_program(at) {
                (time::now(time::Clock::Counter).wrapping_mul(TICKS), 0)
            } else {
                real()
            };
            regs[libc::REG_RAX as usize] = (v as u32) as i64;
            regs[libc::REG_RDX as usize] = (v >> 32) as i64;
            if with_core {
                regs[libc::REG_RCX as usize] = core as i64;
            }
            regs[libc::REG_RIP as usize] += bytes;
            *libc::__errno_location() = errno;
            return;
        }
    }
    pass_on(signal, info, context);
    *libc::__errno_location() = errno;
}

/// What would have happened without us.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let w = wish();
    if w.sa_sigaction == libc::SIG_DFL || w.sa_sigaction == libc::SIG_IGN {
        // SIGSEGV of a fault can't be ignored: the instruction runs again and ends the program. One that somebody
        // sent is not repeated by an instruction.
        if w.sa_sigaction == libc::SIG_IGN && (*info).si_code <= 0 {
            return;
        }
        next_action(signal, &w, core::ptr::null_mut());
        if (*info).si_code <= 0 {
            libc::raise(signal);
        }
        return;
    }
    if w.sa_flags & libc::SA_RESETHAND != 0 {
        let mut default: sigaction = core::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        exchange(&default, core::ptr::null_mut());
    }
    // The kernel would block these; it puts the mask back when this handler returns.
    let mut mask = w.sa_mask;
    libc::sigdelset(&mut mask, libc::SIGSEGV);
    libc::syscall(
        libc::SYS_rt_sigprocmask,
        libc::SIG_BLOCK,
        &mask,
        core::ptr::null::<c_void>(),
        8usize,
    );
    if w.sa_flags & libc::SA_SIGINFO != 0 {
        let f: unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
            core::mem::transmute(w.sa_sigaction);
        f(signal, info, context);
    } else {
        let f: unsafe extern "C" fn(c_int) = core::mem::transmute(w.sa_sigaction);
        f(signal);
    }
}
