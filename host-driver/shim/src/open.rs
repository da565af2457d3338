//! The open family.
//!
//! C declares these variadic, and stable Rust cannot define a variadic function. On x86-64 System V and AArch64 Linux
//! a variadic integer travels in the same register as a named one, so a fixed third argument reads it. Without
//! `O_CREAT` or `O_TMPFILE` it holds garbage and is passed on as garbage; libc ignores it then. The call onwards goes
//! through a variadic pointer, as the original's own ABI asks.
use crate::channel::note_open;
use crate::cm;
use crate::next::next;
use crate::paths::{map, Buf};
use core::ffi::{c_char, c_int, c_uint};

type Open = unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int;
type OpenAt = unsafe extern "C" fn(c_int, *const c_char, c_int, ...) -> c_int;

macro_rules! open {
    ($($name:ident $c:literal)*) => { $(
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            let mut buf = Buf::new();
            let p = map($c, path, &mut buf);
            if p != path && cm::is_device(p) {
                return cm::open(flags);
            }
            note_open(p != path, next!($c, Open)(p, flags, mode))
        }
    )* };
}

macro_rules! open_at {
    ($($name:ident $c:literal)*) => { $(
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $name(dir: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            let mut buf = Buf::new();
            let p = map($c, path, &mut buf);
            if p != path && cm::is_device(p) {
                return cm::open(flags);
            }
            note_open(p != path, next!($c, OpenAt)(dir, p, flags, mode))
        }
    )* };
}

open! {
    open c"open"
    open64 c"open64"
    __open_2 c"__open_2"
    __open64_2 c"__open64_2"
}
open_at! {
    openat c"openat"
    openat64 c"openat64"
    __openat_2 c"__openat_2"
    __openat64_2 c"__openat64_2"
}
