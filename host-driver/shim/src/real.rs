//! `realpath`. Its answer is put back into the names that the program knows, so that its next open is mapped again.
use crate::config;
use crate::next::next;
use crate::paths::{map, unmapped, Buf};
use core::ffi::{c_char, CStr};
use core::ptr::null_mut;

/// libc's own `realpath`.
pub unsafe fn next_realpath(path: *const c_char, out: *mut c_char) -> *mut c_char {
    next!(
        c"realpath",
        unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_char
    )(path, out)
}

/// Rewrites an answer in place; the known names are never longer than the mapped ones unless the root is very short,
/// and then the answer stays as it is (it still works, only longer).
unsafe fn put_back(answer: *mut c_char) {
    let bytes = CStr::from_ptr(answer).to_bytes();
    for root in [config::real_root(), config::root()] {
        let Some((prefix, rest)) = unmapped(bytes, root) else {
            continue;
        };
        if prefix.len() + rest.len() > bytes.len() {
            return;
        }
        let (rest_at, rest_len) = (rest.as_ptr(), rest.len());
        let a = answer as *mut u8;
        core::ptr::copy(rest_at, a.add(prefix.len()), rest_len);
        core::ptr::copy_nonoverlapping(prefix.as_ptr(), a, prefix.len());
        *a.add(prefix.len() + rest_len) = 0;
        return;
    }
}

#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn realpath(path: *const c_char, out: *mut c_char) -> *mut c_char {
    let mut buf = Buf::new();
    let p = map(c"realpath", path, &mut buf);
    let answer = next_realpath(p, out);
    if p != path && !answer.is_null() {
        put_back(answer);
    }
    answer
}

#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn __realpath_chk(
    path: *const c_char,
    out: *mut c_char,
    _room: usize,
) -> *mut c_char {
    realpath(path, out)
}

#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    realpath(path, null_mut())
}
