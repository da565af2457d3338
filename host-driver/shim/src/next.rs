//! The function that a hook hides.
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Address of the next definition of `name`, looked up once; 0 if there is none.
pub fn find(slot: &AtomicUsize, name: &CStr) -> usize {
    let known = slot.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: dlsym with RTLD_NEXT and a C string.
    let f = unsafe {
        crate::config::keep_errno(|| libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize)
    };
    slot.store(f, Ordering::Relaxed);
    f
}

/// `next!(c"open", type)`: the hidden function. A hook whose original does not exist cannot be reached from a program
/// that linked against this libc, so aborting there is only a guard.
macro_rules! next {
    ($name:expr, $ty:ty) => {{
        static SLOT: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
        let f = $crate::next::find(&SLOT, $name);
        if f == 0 {
            libc::abort()
        }
        core::mem::transmute::<usize, $ty>(f)
    }};
}
pub(crate) use next;
