//! Memory regions.
use super::fail;
use crate::abi::ex::{mr_init, IbvMrInitAttr};
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
    range: Range,
    list: Dma,
}

/// What the card knows of a region: the fields of REG_MR.
#[derive(Clone, Copy)]
struct Range {
    pd: u32,
    /// The card's four access bits, and MW_BIND.
    bits: u32,
    addr: u64,
    iova: u64,
    len: u64,
}

impl Range {
    fn put(&self, list: &Dma, c: &mut [u8]) {
        use cmd::reg_mr as f;
        f::pd.put(c, self.pd as u64);
        f::access.put(c, (self.bits & RIGHTS) as u64);
        f::mw_bind.put(c, (self.bits & access::MW_BIND != 0) as u64);
        f::page_shift.put(c, PAGE_SHIFT as u64);
        f::list.put(c, list.bus);
        f::va.put(c, self.iova);
        f::len.put(c, self.len);
    }
}

fn writable(bits: u32) -> bool {
    bits & access::LOCAL_WRITE != 0
}

/// Checks a range and makes its page list.
fn list(ctx: &Ctx, addr: u64, len: u64, iova: u64, bits: u32) -> Result<Dma, Errno> {
    let wraps = addr.checked_add(len).is_none() || iova.checked_add(len).is_none();
    if len == 0 || len > MAX_MR || wraps || (addr ^ iova) & (PAGE - 1) != 0 {
        return Err(libc::EINVAL);
    }
    if !dma::mapped(addr, len, writable(bits)) {
        return Err(libc::EFAULT);
    }
    let count = pages(addr, len).count();
    let list = ctx.card.alloc(count * 8).ok_or(libc::ENOMEM)?;
    for (i, page) in pages(addr, len).enumerate() {
        // SAFETY: the list has room for `count` entries.
        unsafe { (list.ptr as *mut u64).add(i).write(page.to_le()) };
    }
    Ok(list)
}

/// Rights that a region or, but for the first, a window has.
pub const RIGHTS: u32 =
    access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;

/// Access flags as `Range::bits`, on a card that has windows or not.
fn rights(flags: u32, windows: bool) -> Result<u32, Errno> {
    let known = RIGHTS | if windows { access::MW_BIND } else { 0 };
    // Hints may be ignored; what changes meaning (zero-based, on demand) may not.
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
    let (addr_word, len) = (addr as u64, length as u64);
    let made = rights(flags as u32, ctx.caps.windows)
        .and_then(|bits| Ok((bits, list(ctx, addr_word, len, iova, bits)?)));
    let (bits, list) = match made {
        Ok(m) => m,
        Err(e) => return fail(e),
    };
    let range = Range {
        pd: pd_handle,
        bits,
        addr: addr_word,
        iova,
        len,
    };
    let key = match ctx.command(cmd::op::REG_MR, 0, |c| range.put(&list, c)) {
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
        range,
        list,
    })) as *mut IbvMr
}

/// Releases from 59 on: the same with attributes. Memory of this process only.
pub unsafe extern "C" fn reg_mr_ex(pd: *mut IbvPd, attr: *const IbvMrInitAttr) -> *mut IbvMr {
    // SAFETY: the program's attributes.
    let a = unsafe { &*attr };
    if a.comp_mask & !(mr_init::IOVA | mr_init::ADDR) != 0 {
        return fail(libc::EOPNOTSUPP);
    }
    if a.comp_mask & mr_init::ADDR == 0 {
        return fail(libc::EINVAL);
    }
    let own = a.comp_mask & mr_init::IOVA != 0;
    let iova = if own { a.iova } else { a.addr as u64 };
    // SAFETY: a PD of ours.
    unsafe { reg_mr(pd, a.addr, a.length, iova, a.access) }
}

/// `enum ibv_rereg_mr_flags`.
mod change {
    pub const TRANSLATION: c_int = 1;
    pub const PD: c_int = 1 << 1;
    pub const ACCESS: c_int = 1 << 2;
    use core::ffi::c_int;
}

/// Replaces what `flags` name. libibverbs updates the public fields and wants `errno` set.
pub unsafe extern "C" fn rereg_mr(
    mr: *mut VerbsMr,
    flags: c_int,
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    new_access: c_int,
) -> c_int {
    // SAFETY: made by `reg_mr`; the program's PD is one of ours when its flag is set.
    let e = match unsafe { rereg(&mut *(mr as *mut Mr), flags, pd, addr, length, new_access) } {
        Ok(()) => return 0,
        Err(e) => e,
    };
    // SAFETY: errno is thread-local.
    unsafe { *libc::__errno_location() = e };
    e
}

unsafe fn rereg(
    mr: &mut Mr,
    flags: c_int,
    pd: *mut IbvPd,
    addr: *mut c_void,
    length: usize,
    new_access: c_int,
) -> Result<(), Errno> {
    let has = |bit| flags & bit != 0;
    // SAFETY: a context of ours.
    let ctx = unsafe { Ctx::of(mr.verbs.mr.context) };
    let mut new = mr.range;
    if has(change::PD) {
        // SAFETY: a PD of ours or NULL.
        new.pd = unsafe { pd.as_ref() }.ok_or(libc::EINVAL)?.handle;
    }
    if has(change::ACCESS) {
        new.bits = rights(new_access as u32, ctx.caps.windows)?;
    }
    let mut moved = None;
    if has(change::TRANSLATION) {
        (new.addr, new.iova, new.len) = (addr as u64, addr as u64, length as u64);
        moved = Some(list(ctx, new.addr, new.len, new.iova, new.bits)?);
    } else if writable(new.bits) && !dma::mapped(new.addr, new.len, true) {
        return Err(libc::EFAULT);
    }
    let pages = moved.as_ref().unwrap_or(&mr.list);
    let answer = ctx.command(cmd::op::REREG_MR, mr.verbs.mr.lkey, |c| new.put(pages, c));
    if let Some(mut list) = moved {
        if answer.is_ok() {
            core::mem::swap(&mut mr.list, &mut list);
        }
        // The list that is of no more use.
        ctx.card.free(list);
    }
    answer?;
    mr.range = new;
    if has(change::ACCESS) {
        mr.verbs.access = new_access;
    }
    Ok(())
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
        for windows in [false, true] {
            let rights = |f| super::rights(f, windows);
            assert_eq!(rights(0), Ok(0));
            assert_eq!(rights(7), Ok(7));
            assert_eq!(rights(1 | access::HUGETLB | 1 << 20), Ok(1));
            assert_eq!(rights(access::REMOTE_WRITE), Err(libc::EINVAL));
            assert_eq!(rights(access::REMOTE_ATOMIC), Err(libc::EINVAL));
            for unsupported in [access::ZERO_BASED, 1 << 6] {
                assert_eq!(rights(1 | unsupported), Err(libc::EOPNOTSUPP));
            }
        }
        let bind = access::MW_BIND | access::REMOTE_READ;
        assert_eq!(rights(bind, false), Err(libc::EOPNOTSUPP));
        assert_eq!(rights(bind, true), Ok(bind));
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
