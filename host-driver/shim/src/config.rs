//! What the environment says, read once.
use core::ffi::{c_char, c_int};
use core::ptr::{addr_of, addr_of_mut};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

/// Longest accepted `METAROCE_ROOT`, so that root + rest of a path fits `PATH_MAX` comfortably.
pub const ROOT_MAX: usize = 900;

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static TRACE: AtomicBool = AtomicBool::new(false);
static mut ROOT: [u8; ROOT_MAX + 1] = [0; ROOT_MAX + 1];
static ROOT_LEN: AtomicUsize = AtomicUsize::new(0);
/// The root with symbolic links resolved: what `realpath` answers begin with.
static mut REAL_ROOT: [u8; libc::PATH_MAX as usize] = [0; libc::PATH_MAX as usize];
static REAL_ROOT_LEN: AtomicUsize = AtomicUsize::new(0);

/// Whether the shim is active. Safe to call before our constructor: other libraries' constructors open files too.
pub fn on() -> bool {
    match STATE.load(Ordering::Acquire) {
        ON => true,
        OFF => false,
        _ => unsafe { read_environment() },
    }
}

/// `METAROCE_ROOT`; only meaningful while [`on`].
pub fn root() -> &'static [u8] {
    unsafe {
        core::slice::from_raw_parts(
            addr_of!(ROOT) as *const u8,
            ROOT_LEN.load(Ordering::Relaxed),
        )
    }
}

/// `METAROCE_ROOT` with symbolic links resolved.
pub fn real_root() -> &'static [u8] {
    unsafe {
        core::slice::from_raw_parts(
            addr_of!(REAL_ROOT) as *const u8,
            REAL_ROOT_LEN.load(Ordering::Relaxed),
        )
    }
}

/// Whether the folder is there and somebody else made it, or may change what is in it: in `/tmp` anybody can make one after
/// the cards have gone. Root's are as good as the user's own. The raw system call: `stat` is one of our own hooks.
unsafe fn foreign(path: *const c_char) -> bool {
    let mut st: libc::stat = core::mem::zeroed();
    let r = libc::syscall(
        libc::SYS_newfstatat,
        libc::AT_FDCWD,
        path,
        &mut st as *mut libc::stat,
        0 as c_int,
    );
    r == 0 && ((st.st_uid != libc::geteuid() && st.st_uid != 0) || st.st_mode & 0o022 != 0)
}

unsafe fn read_environment() -> bool {
    let r = libc::getenv(c"METAROCE_ROOT".as_ptr());
    let mut n = if r.is_null() { 0 } else { libc::strlen(r) };
    if n == 0 {
        STATE.store(OFF, Ordering::Release);
        return false;
    }
    if n > ROOT_MAX || *r as u8 != b'/' {
        say(b"metaroce: METAROCE_ROOT has to be an absolute path of at most 900 bytes; the simulated card is not shown\n");
        STATE.store(OFF, Ordering::Release);
        return false;
    }
    while n > 1 && *r.add(n - 1) as u8 == b'/' {
        n -= 1;
    }
    if foreign(r) {
        say(b"metaroce: METAROCE_ROOT names a folder that others own or may write into; the simulated card is not shown (start again with metaroce up and metaroce env)\n");
        STATE.store(OFF, Ordering::Release);
        // libibverbs would load the folder's libraries.
        libc::unsetenv(c"RDMAV_DRIVERS".as_ptr());
        return false;
    }
    // Two threads in here at once write the same bytes.
    core::ptr::copy_nonoverlapping(r as *const u8, addr_of_mut!(ROOT) as *mut u8, n);
    ROOT_LEN.store(n, Ordering::Relaxed);
    TRACE.store(
        !libc::getenv(c"METAROCE_SHIM_TRACE".as_ptr()).is_null(),
        Ordering::Relaxed,
    );
    let mut buf = [0 as c_char; libc::PATH_MAX as usize];
    if !crate::real::next_realpath(r, buf.as_mut_ptr()).is_null() {
        let m = libc::strlen(buf.as_ptr());
        core::ptr::copy_nonoverlapping(
            buf.as_ptr() as *const u8,
            addr_of_mut!(REAL_ROOT) as *mut u8,
            m,
        );
        REAL_ROOT_LEN.store(m, Ordering::Relaxed);
    }
    STATE.store(ON, Ordering::Release);
    true
}

#[cfg(not(test))]
#[used]
#[link_section = ".init_array"]
static CONSTRUCTOR: unsafe extern "C" fn() = constructor;

/// Points libibverbs at the provider and the provider at the simulator, unless the user already did.
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn constructor() {
    if !on() {
        return;
    }
    let mut value = [0 as c_char; ROOT_MAX + 100];
    for (variable, below) in [
        (c"RDMAV_DRIVERS", c"lib/libmetaroce"),
        (c"METAROCE_SOCK", c"cardd.sock"),
    ] {
        libc::snprintf(
            value.as_mut_ptr(),
            value.len(),
            c"%s/%s".as_ptr(),
            addr_of!(ROOT) as *const c_char,
            below.as_ptr(),
        );
        libc::setenv(variable.as_ptr(), value.as_ptr(), 0);
    }
    #[cfg(target_arch = "x86_64")]
    crate::clock::start();
}

/// One line on stderr, by the raw system call: `write` is one of our own hooks.
pub unsafe fn say(text: &[u8]) {
    libc::syscall(libc::SYS_write, 2 as c_int, text.as_ptr(), text.len());
}

/// With `METAROCE_SHIM_TRACE` set, says what a hook did.
pub unsafe fn trace(what: *const c_char, from: *const c_char, to: *const c_char) {
    if !TRACE.load(Ordering::Relaxed) {
        return;
    }
    let from = if from.is_null() { c"-".as_ptr() } else { from };
    let mut line = [0 as c_char; 1024];
    let n = libc::snprintf(
        line.as_mut_ptr(),
        line.len(),
        c"[shim] %s %s -> %s\n".as_ptr(),
        what,
        from,
        to,
    );
    let n = (n.max(0) as usize).min(line.len() - 1);
    say(core::slice::from_raw_parts(line.as_ptr() as *const u8, n));
}

/// Runs `f` and leaves `errno` as it was: a hook's own calls must not show.
pub unsafe fn keep_errno<T>(f: impl FnOnce() -> T) -> T {
    let p = libc::__errno_location();
    let saved = *p;
    let r = f();
    *p = saved;
    r
}
