//! Protection domains, and the parent and thread domains around them, which are host-only.
use super::fail;
use crate::abi::ex::{parent, IbvParentDomainInitAttr, IbvTd};
use crate::abi::{IbvContext, IbvPd};
use crate::ctx::Ctx;
use core::ffi::{c_int, c_void};
use metaroce_hdl_spec::cmd;
use std::sync::atomic::{AtomicU32, Ordering};

#[repr(C)]
struct Pd {
    ibv: IbvPd,
    /// Parent domains that use it.
    users: AtomicU32,
    /// A parent domain has the card's PD of this one.
    of: *mut Pd,
    td: *mut Td,
}

#[repr(C)]
struct Td {
    ibv: IbvTd,
    users: AtomicU32,
}

fn boxed(ibv: IbvPd, of: *mut Pd, td: *mut Td) -> *mut IbvPd {
    Box::into_raw(Box::new(Pd {
        ibv,
        users: AtomicU32::new(0),
        of,
        td,
    })) as *mut IbvPd
}

pub unsafe extern "C" fn alloc_pd(context: *mut IbvContext) -> *mut IbvPd {
    // SAFETY: a context of ours.
    let ctx = unsafe { Ctx::of(context) };
    match ctx.command(cmd::op::ALLOC_PD, 0, |_| {}) {
        Ok(r) => boxed(
            IbvPd {
                context,
                handle: r.id(),
            },
            core::ptr::null_mut(),
            core::ptr::null_mut(),
        ),
        Err(e) => fail(e),
    }
}

/// Whether a PD is a parent domain.
///
/// # Safety
/// A PD of ours, or NULL.
pub unsafe fn is_parent(pd: *mut IbvPd) -> bool {
    // SAFETY: the contract above.
    unsafe { (pd as *const Pd).as_ref() }.is_some_and(|p| !p.of.is_null())
}

pub unsafe extern "C" fn dealloc_pd(pd: *mut IbvPd) -> c_int {
    // SAFETY: made by `boxed`, and alive until the end of this function.
    let p = unsafe { &*(pd as *const Pd) };
    if p.users.load(Ordering::Acquire) != 0 {
        return libc::EBUSY;
    }
    if p.of.is_null() {
        // SAFETY: as above.
        let ctx = unsafe { Ctx::of(p.ibv.context) };
        if ctx.usable() {
            if let Err(e) = ctx.command(cmd::op::DEALLOC_PD, p.ibv.handle, |_| {}) {
                if ctx.usable() {
                    return e;
                }
            }
        }
    } else {
        // SAFETY: what a parent domain uses outlives it: it is refused to go before.
        unsafe {
            (*p.of).users.fetch_sub(1, Ordering::AcqRel);
            if let Some(t) = p.td.as_ref() {
                t.users.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
    // SAFETY: made by Box::into_raw.
    drop(unsafe { Box::from_raw(pd as *mut Pd) });
    0
}

/// A thread domain promises that one thread at a time uses its objects. The locks it could save are one atomic
/// exchange each, so nothing changes.
pub unsafe extern "C" fn alloc_td(context: *mut IbvContext, attr: *mut c_void) -> *mut IbvTd {
    // SAFETY: the attributes are a mask, of which nothing is known.
    if unsafe { *(attr as *const u32) } != 0 {
        return fail(libc::EOPNOTSUPP);
    }
    Box::into_raw(Box::new(Td {
        ibv: IbvTd { context },
        users: AtomicU32::new(0),
    })) as *mut IbvTd
}

pub unsafe extern "C" fn dealloc_td(td: *mut IbvTd) -> c_int {
    // SAFETY: made by `alloc_td`.
    unsafe {
        if (*(td as *const Td)).users.load(Ordering::Acquire) != 0 {
            return libc::EBUSY;
        }
        drop(Box::from_raw(td as *mut Td));
    }
    0
}

pub unsafe extern "C" fn alloc_parent_domain(
    context: *mut IbvContext,
    attr: *mut IbvParentDomainInitAttr,
) -> *mut IbvPd {
    // SAFETY: the program's attributes.
    let a = unsafe { &*attr };
    if a.pd.is_null() {
        return fail(libc::EINVAL);
    }
    // Rings lie in memory that the card reaches; a program's allocator would not be asked.
    // SAFETY: a PD of ours.
    if a.comp_mask & !parent::PD_CONTEXT != 0 || unsafe { is_parent(a.pd) } {
        return fail(libc::EOPNOTSUPP);
    }
    let (pd, td) = (a.pd as *mut Pd, a.td as *mut Td);
    // SAFETY: both are ours; the thread domain may be NULL.
    let handle = unsafe {
        (*pd).users.fetch_add(1, Ordering::AcqRel);
        if let Some(t) = td.as_ref() {
            t.users.fetch_add(1, Ordering::AcqRel);
        }
        (*pd).ibv.handle
    };
    boxed(IbvPd { context, handle }, pd, td)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_parent_domain_uses_stays() {
        let none = core::ptr::null_mut::<core::ffi::c_void>();
        let base = boxed(
            IbvPd {
                context: none as *mut IbvContext,
                handle: 7,
            },
            none as *mut Pd,
            none as *mut Td,
        );
        let mut mask = 0u32;
        // SAFETY: objects of this test; none reaches a card.
        unsafe {
            let td = alloc_td(core::ptr::null_mut(), &raw mut mask as *mut c_void);
            let mut attr = IbvParentDomainInitAttr {
                pd: base,
                td,
                comp_mask: 0,
                alloc: None,
                free: None,
                pd_context: core::ptr::null_mut(),
            };
            let p = alloc_parent_domain(core::ptr::null_mut(), &mut attr);
            assert!(is_parent(p) && !is_parent(base) && !is_parent(core::ptr::null_mut()));
            assert_eq!((*p).handle, 7);
            assert_eq!(
                (dealloc_pd(base), dealloc_td(td)),
                (libc::EBUSY, libc::EBUSY)
            );
            attr.comp_mask = 1;
            assert!(
                alloc_parent_domain(core::ptr::null_mut(), &mut attr).is_null(),
                "allocators"
            );
            assert_eq!((dealloc_pd(p), dealloc_td(td)), (0, 0));
            drop(Box::from_raw(base as *mut Pd));
        }
    }
}
