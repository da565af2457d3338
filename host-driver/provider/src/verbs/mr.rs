//! Memory regions.
use super::fail;
use crate::abi::{access, IbvMr, IbvPd, VerbsMr};
use crate::card::{dma, Dma, Errno};
use crate::ctx::Ctx;
use core::ffi::{c_int, c_void};
use metaroce_hdl_spec::cmd;

pub const PAGE_SHIFT: u32 = 12;
const PAGE: u64 = 1 << PAGE_SHIFT;
/// Largest region, also the card's limit. The page list of a region must fit the arena, too.
pub const MAX_MR: u64 = 1 << 40;

#[repr(C)]
struct Mr {
    verbs: VerbsMr,
    list: Dma,
}

/// Access flags as the card's four bits.
fn rights(flags: u32) -> Result<u32, Errno> {
    let known =
        access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;
    // Hints may be ignored; what changes meaning (windows, zero-based, on demand) may not.
    if flags & !(known | access::HUGETLB | access::OPTIONAL) != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if flags & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0
        && flags & access::LOCAL_WRITE == 0
    {
        return Err(libc::EINVAL);
    }
    Ok(flags & known)
}

/// Bus addresses of the pages under `[addr, addr + len)`: virtual addresses of this process.
fn pages(addr: u64, len: u64) -> impl Iterator<Item = u64> {
    let first = addr & !(PAGE - 1);
    let count = (addr - first + len).div_ceil(PAGE);
    (0..count).map(move |i| first + i * PAGE)
}

pub unsafe extern "C" fn reg_mr(
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: c_int,
) -> *mut IbvMr {
    // SAFETY: a PD of ours.
    let (context, pd_handle) = unsafe { ((*pd).context, (*pd).handle) };
    let ctx = unsafe { Ctx::of(context) };
    let (a, len) = (addr as u64, length as u64);
    let bits = match rights(flags as u32) {
        Ok(b) => b,
        Err(e) => return fail(e),
    };
    let wraps = a.checked_add(len).is_none() || iova.checked_add(len).is_none();
    if len == 0 || len > MAX_MR || wraps || (a ^ iova) & (PAGE - 1) != 0 {
        return fail(libc::EINVAL);
    }
    if !dma::mapped(a, len, bits & access::LOCAL_WRITE != 0) {
        return fail(libc::EFAULT);
    }
    let count = pages(a, len).count();
    let Some(list) = ctx.card.alloc(count * 8) else {
        return fail(libc::ENOMEM);
    };
    for (i, page) in pages(a, len).enumerate() {
        // SAFETY: the list has room for `count` entries.
        unsafe { (list.ptr as *mut u64).add(i).write(page.to_le()) };
    }
    let made = ctx.command(cmd::op::REG_MR, 0, |c| {
        use cmd::reg_mr as f;
        f::pd.put(c, pd_handle as u64);
        f::access.put(c, bits as u64);
        f::page_shift.put(c, PAGE_SHIFT as u64);
        f::list.put(c, list.bus);
        f::va.put(c, iova);
        f::len.put(c, len);
    });
    let key = match made {
        Ok(r) => r.id(),
        Err(e) => {
            ctx.card.free(list);
            return fail(e);
        }
    };
    let mr = IbvMr {
        context,
        pd,
        addr,
        length,
        handle: key,
        lkey: key,
        rkey: key,
    };
    Box::into_raw(Box::new(Mr {
        verbs: VerbsMr {
            mr,
            mr_type: 0,
            access: flags,
        },
        list,
    })) as *mut IbvMr
}

pub unsafe extern "C" fn dereg_mr(mr: *mut VerbsMr) -> c_int {
    // SAFETY: made by `reg_mr`.
    let (context, key) = unsafe { ((*mr).mr.context, (*mr).mr.lkey) };
    let ctx = unsafe { Ctx::of(context) };
    if ctx.usable() {
        // Returns when nothing in the card's pipelines uses the region any more.
        if let Err(e) = ctx.command(cmd::op::DEREG_MR, key, |_| {}) {
            if ctx.usable() {
                return e;
            }
        }
    }
    // SAFETY: as above.
    let Mr { list, .. } = *unsafe { Box::from_raw(mr as *mut Mr) };
    if !ctx.forked() {
        ctx.card.free(list);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_rights() {
        assert_eq!(rights(0), Ok(0));
        assert_eq!(rights(7), Ok(7));
        assert_eq!(rights(1 | access::HUGETLB | 1 << 20), Ok(1));
        assert_eq!(rights(access::REMOTE_WRITE), Err(libc::EINVAL));
        assert_eq!(rights(access::REMOTE_ATOMIC), Err(libc::EINVAL));
        for unsupported in [1 << 4, 1 << 5, 1 << 6] {
            assert_eq!(rights(1 | unsupported), Err(libc::EOPNOTSUPP));
        }
    }

    #[test]
    fn page_lists() {
        let p = |a, l| pages(a, l).collect::<Vec<_>>();
        assert_eq!(p(0x1000, 1), [0x1000]);
        assert_eq!(p(0x1fff, 1), [0x1000]);
        assert_eq!(p(0x1fff, 2), [0x1000, 0x2000]);
        assert_eq!(p(0x1000, 0x1000), [0x1000]);
        assert_eq!(p(0x1001, 0x1000), [0x1000, 0x2000]);
    }
}
