//! The verbs, by object.
pub mod ah;
pub mod cq;
pub mod cq_ex;
pub mod device;
pub mod event;
pub mod mr;
pub mod mw;
pub mod pd;
pub mod post;
pub mod qp;
pub mod qp_ex;
pub mod queue;
pub mod ring;
pub mod size;
pub mod srq;
pub mod wqe;

use crate::card::Errno;

/// Sets `errno` and answers NULL: how verbs that return an object fail.
pub fn fail<T>(e: Errno) -> *mut T {
    // SAFETY: errno is thread-local.
    unsafe { *libc::__errno_location() = e };
    core::ptr::null_mut()
}
