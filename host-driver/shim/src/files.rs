//! Every other call that takes a path and needs nothing but the map.
use crate::next::next;
use crate::paths::{map, Buf};
use core::ffi::{c_char, c_int, c_uint, c_void};

/// The path is the first argument.
macro_rules! first {
    ($($name:ident $c:literal ($($a:ident: $t:ty),*) -> $r:ty;)*) => { $(
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char $(, $a: $t)*) -> $r {
            let mut buf = Buf::new();
            let p = map($c, path, &mut buf);
            next!($c, unsafe extern "C" fn(*const c_char $(, $t)*) -> $r)(p $(, $a)*)
        }
    )* };
}

/// The path is the second argument, after a directory descriptor.
macro_rules! second {
    ($($name:ident $c:literal ($($a:ident: $t:ty),*) -> $r:ty;)*) => { $(
        #[cfg_attr(not(test), no_mangle)]
        pub unsafe extern "C" fn $name(dir: c_int, path: *const c_char $(, $a: $t)*) -> $r {
            let mut buf = Buf::new();
            let p = map($c, path, &mut buf);
            next!($c, unsafe extern "C" fn(c_int, *const c_char $(, $t)*) -> $r)(dir, p $(, $a)*)
        }
    )* };
}

first! {
    fopen c"fopen" (mode: *const c_char) -> *mut c_void;
    fopen64 c"fopen64" (mode: *const c_char) -> *mut c_void;
    opendir c"opendir" () -> *mut c_void;
    scandir c"scandir" (list: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int;
    scandir64 c"scandir64" (list: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int;
    access c"access" (mode: c_int) -> c_int;
    eaccess c"eaccess" (mode: c_int) -> c_int;
    euidaccess c"euidaccess" (mode: c_int) -> c_int;
    readlink c"readlink" (out: *mut c_char, size: usize) -> isize;
    __readlink_chk c"__readlink_chk" (out: *mut c_char, size: usize, room: usize) -> isize;
    chdir c"chdir" () -> c_int;
    getxattr c"getxattr" (name: *const c_char, value: *mut c_void, size: usize) -> isize;
    lgetxattr c"lgetxattr" (name: *const c_char, value: *mut c_void, size: usize) -> isize;
    listxattr c"listxattr" (list: *mut c_void, size: usize) -> isize;
    llistxattr c"llistxattr" (list: *mut c_void, size: usize) -> isize;
}
second! {
    faccessat c"faccessat" (mode: c_int, flags: c_int) -> c_int;
    readlinkat c"readlinkat" (out: *mut c_char, size: usize) -> isize;
    __readlinkat_chk c"__readlinkat_chk" (out: *mut c_char, size: usize, room: usize) -> isize;
    statx c"statx" (flags: c_int, mask: c_uint, out: *mut c_void) -> c_int;
}
