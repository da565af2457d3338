//! C functions that have to know of card time.
//!
//! A clock's answer depends on who asks, so those hooks begin with two instructions that hand the return address on.
use super::{of_program, on, set_trap, time, trap};
use crate::next::next;
use core::ffi::{c_char, c_int, c_void};
use libc::{sigaction, sigset_t, timespec, timeval};

#[cfg_attr(not(test), no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn gettimeofday(_out: *mut timeval, _zone: *mut c_void) -> c_int {
    core::arch::naked_asm!("mov rdx, [rsp]", "jmp {}", sym day_for)
}

#[cfg_attr(not(test), no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn clock_gettime(_clock: c_int, _out: *mut timespec) -> c_int {
    core::arch::naked_asm!("mov rdx, [rsp]", "jmp {}", sym clock_for)
}

unsafe extern "C" fn day_for(out: *mut timeval, zone: *mut c_void, caller: usize) -> c_int {
    if !on() {
        return next!(
            c"gettimeofday",
            unsafe extern "C" fn(*mut timeval, *mut c_void) -> c_int
        )(out, zone);
    }
    // The system call, not the vDSO, which would trap.
    if !of_program(caller) || out.is_null() {
        return libc::syscall(libc::SYS_gettimeofday, out, zone) as c_int;
    }
    let t = time::of_day() / 1000;
    (*out).tv_sec = (t / 1_000_000) as i64;
    (*out).tv_usec = (t % 1_000_000) as i64;
    0
}

unsafe extern "C" fn clock_for(clock: c_int, out: *mut timespec, caller: usize) -> c_int {
    if !on() {
        return next!(
            c"clock_gettime",
            unsafe extern "C" fn(c_int, *mut timespec) -> c_int
        )(clock, out);
    }
    use libc::*;
    let t = match clock {
        _ if !of_program(caller) || out.is_null() => None,
        CLOCK_REALTIME | CLOCK_REALTIME_COARSE => Some(time::of_day()),
        CLOCK_MONOTONIC | CLOCK_MONOTONIC_RAW | CLOCK_MONOTONIC_COARSE | CLOCK_BOOTTIME => {
            Some(time::now(time::Clock::Monotonic))
        }
        _ => None,
    };
    match t {
        None => syscall(SYS_clock_gettime, clock as c_long, out) as c_int,
        Some(t) => {
            (*out).tv_sec = (t / 1_000_000_000) as i64;
            (*out).tv_nsec = (t % 1_000_000_000) as i64;
            0
        }
    }
}

/// `sigaction`: the program's handler of SIGSEGV is kept behind ours, and no handler of another signal blocks it.
#[cfg_attr(not(test), export_name = "sigaction")]
pub unsafe extern "C" fn sigaction_(
    signal: c_int,
    act: *const sigaction,
    old: *mut sigaction,
) -> c_int {
    if !on() {
        return trap::next_action(signal, act, old);
    }
    if signal == libc::SIGSEGV {
        trap::exchange(act, old);
        return 0;
    }
    if act.is_null() {
        return trap::next_action(signal, act, old);
    }
    let mut a = act.read();
    libc::sigdelset(&mut a.sa_mask, libc::SIGSEGV);
    trap::next_action(signal, &a, old)
}

#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    if !on() || signal != libc::SIGSEGV {
        return next!(c"signal", unsafe extern "C" fn(c_int, usize) -> usize)(signal, handler);
    }
    let mut a: sigaction = core::mem::zeroed();
    let mut old: sigaction = core::mem::zeroed();
    a.sa_sigaction = handler;
    a.sa_flags = libc::SA_RESTART;
    trap::exchange(&a, &mut old);
    old.sa_sigaction
}

/// A mask without SIGSEGV: a counter that is read while it is blocked would end the program.
macro_rules! masks {
    ($($name:ident $c:literal)*) => { $(
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $name(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
            let next = next!($c, unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int);
            if !on() || set.is_null() || how == libc::SIG_UNBLOCK {
                return next(how, set, old);
            }
            let mut s = set.read();
            libc::sigdelset(&mut s, libc::SIGSEGV);
            next(how, &s, old)
        }
    )* };
}
masks! {
    sigprocmask c"sigprocmask"
    pthread_sigmask c"pthread_sigmask"
}

/// Another program would begin with a counter that traps and without a handler: the loader reads it, and that would be
/// its end. These calls (and not `execl`, whose arguments can't be handed on) begin it with a counter that counts.
macro_rules! programs {
    ($($name:ident $c:literal ($($a:ident: $t:ty),*) -> $r:ty;)*) => { $(
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $name($($a: $t),*) -> $r {
            let next = next!($c, unsafe extern "C" fn($($t),*) -> $r);
            if !on() {
                return next($($a),*);
            }
            set_trap(false);
            let r = next($($a),*);
            crate::config::keep_errno(|| set_trap(true));
            r
        }
    )* };
}
type Words = *const *const c_char;
programs! {
    execve c"execve" (path: *const c_char, args: Words, env: Words) -> c_int;
    execv c"execv" (path: *const c_char, args: Words) -> c_int;
    execvp c"execvp" (file: *const c_char, args: Words) -> c_int;
    execvpe c"execvpe" (file: *const c_char, args: Words, env: Words) -> c_int;
    posix_spawn c"posix_spawn" (pid: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, args: Words, env: Words) -> c_int;
    posix_spawnp c"posix_spawnp" (pid: *mut c_int, file: *const c_char, actions: *const c_void, attributes: *const c_void, args: Words, env: Words) -> c_int;
    system c"system" (command: *const c_char) -> c_int;
    popen c"popen" (command: *const c_char, mode: *const c_char) -> *mut c_void;
}
