//! The stat family, straight to the kernel: `stat` is a symbol only since glibc 2.33 and `__xstat` is kept only for old
//! binaries (NCCL is one), so neither can be found everywhere. On x86-64 and AArch64 the C structure is the kernel's.
use crate::paths::{map, Buf};
use core::ffi::{c_char, c_int, c_void, CStr};

unsafe fn stat_at(
    what: &CStr,
    dir: c_int,
    path: *const c_char,
    out: *mut c_void,
    flags: c_int,
) -> c_int {
    let mut buf = Buf::new();
    let p = map(what, path, &mut buf);
    libc::syscall(libc::SYS_newfstatat, dir, p, out, flags) as c_int
}

macro_rules! by_path {
    ($($name:ident $old:ident $c:literal $flags:expr;)*) => { $(
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, out: *mut c_void) -> c_int {
            stat_at($c, libc::AT_FDCWD, path, out, $flags)
        }
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $old(_version: c_int, path: *const c_char, out: *mut c_void) -> c_int {
            stat_at($c, libc::AT_FDCWD, path, out, $flags)
        }
    )* };
}

macro_rules! by_directory {
    ($($name:ident $old:ident $c:literal;)*) => { $(
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $name(dir: c_int, path: *const c_char, out: *mut c_void, flags: c_int) -> c_int {
            stat_at($c, dir, path, out, flags)
        }
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $old(_version: c_int, dir: c_int, path: *const c_char, out: *mut c_void, flags: c_int) -> c_int {
            stat_at($c, dir, path, out, flags)
        }
    )* };
}

by_path! {
    stat __xstat c"stat" 0;
    stat64 __xstat64 c"stat64" 0;
    lstat __lxstat c"lstat" libc::AT_SYMLINK_NOFOLLOW;
    lstat64 __lxstat64 c"lstat64" libc::AT_SYMLINK_NOFOLLOW;
}
by_directory! {
    fstatat __fxstatat c"fstatat";
    fstatat64 __fxstatat64 c"fstatat64";
}
