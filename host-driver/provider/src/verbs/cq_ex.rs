//! Extended CQs: a completion at a time, its fields read by functions.
//!
//! From a successful `start_poll` to `end_poll` the CQ's lock is held, as the interface has it.
use super::cq::{make, Completion, Cq};
use super::{fail, pd};
use crate::abi::ex::{cq_attr, wc_ex, CqFunctions, IbvCqEx, IbvCqInitAttrEx};
use crate::abi::{IbvContext, IbvWc};
use crate::card::Errno;
use core::ffi::{c_int, c_uint};

/// What can be read of a completion. RoCE has no LIDs and path bits, and the CQE no service level: they read 0, as in
/// `ibv_wc`.
const READABLE: u64 = wc_ex::STANDARD | wc_ex::TIMESTAMP;

fn check(attr: &IbvCqInitAttrEx) -> Result<(), Errno> {
    let has = |bit| attr.comp_mask & bit != 0;
    // The card has one clock, which is not the host's: no wall clock times. IGNORE_OVERRUN: the card protects entries
    // that were not read.
    if attr.wc_flags & !READABLE != 0
        || attr.comp_mask & !(cq_attr::MASK_FLAGS | cq_attr::MASK_PD) != 0
        || (has(cq_attr::MASK_FLAGS) && attr.flags & !cq_attr::SINGLE_THREADED != 0)
    {
        return Err(libc::EOPNOTSUPP);
    }
    // SAFETY: a PD of ours or NULL.
    if has(cq_attr::MASK_PD) && !unsafe { pd::is_parent(attr.parent_domain) } {
        return Err(libc::EINVAL);
    }
    Ok(())
}

pub unsafe extern "C" fn create_cq_ex(
    context: *mut IbvContext,
    attr: *mut IbvCqInitAttrEx,
) -> *mut IbvCqEx {
    // SAFETY: the program's attributes.
    let attr = unsafe { &*attr };
    if let Err(e) = check(attr) {
        return fail(e);
    }
    // SAFETY: libibverbs passes a context of ours; the program's channel or NULL.
    let cq = match unsafe { make(context, attr.cqe, attr.channel, attr.comp_vector) } {
        Ok(cq) => cq,
        Err(e) => return fail(e),
    };
    let wants = |bit: u64| attr.wc_flags & bit != 0;
    // SAFETY: just made; nobody else has it yet.
    let ex = unsafe { &mut (*cq).ex };
    ex.base.cq_context = attr.cq_context;
    ex.functions = CqFunctions {
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_slid),
        read_sl: Some(read_zero),
        read_dlid_path_bits: Some(read_zero),
        read_completion_ts: wants(wc_ex::TIMESTAMP).then_some(read_completion_ts as _),
        ..CqFunctions::default()
    };
    ex
}

unsafe fn cq<'a>(cq: *mut IbvCqEx) -> &'a Cq {
    // SAFETY: made by `create_cq_ex`; the extended part begins the object.
    unsafe { &*(cq as *const Cq) }
}

/// Makes `c` the completion that is looked at.
///
/// # Safety
/// The CQ is one of ours and its lock is held.
unsafe fn show(ex: *mut IbvCqEx, c: Completion, wr_id: u64) {
    // SAFETY: the contract above; the program reads these in the same critical section.
    unsafe {
        (*ex).status = c.status as c_int;
        (*ex).wr_id = wr_id;
        *cq(ex).current.get() = c;
    }
}

unsafe extern "C" fn start_poll(ex: *mut IbvCqEx, attr: *const u32) -> c_int {
    // SAFETY: the program's attributes: a mask, of which nothing is known.
    if unsafe { *attr } != 0 {
        return libc::EINVAL;
    }
    // SAFETY: a CQ of ours.
    let q = unsafe { cq(ex) };
    q.state.hold();
    // SAFETY: held; the reference ends in this statement.
    if let Some((c, wr_id)) = q.next(unsafe { q.state.held() }) {
        // SAFETY: held.
        unsafe { show(ex, c, wr_id) };
        return 0;
    }
    // SAFETY: held until here.
    unsafe { q.state.release() };
    let mut wc = [IbvWc::default()];
    if q.nothing(&mut wc) == 0 {
        return libc::ENOENT;
    }
    // The card is dead: a flushed request.
    let c = Completion {
        status: wc[0].status as u8,
        qpn: wc[0].qp_num,
        ..Completion::default()
    };
    q.state.hold();
    // SAFETY: held.
    unsafe { show(ex, c, wc[0].wr_id) };
    0
}

unsafe extern "C" fn next_poll(ex: *mut IbvCqEx) -> c_int {
    // SAFETY: between start and end the lock is held.
    unsafe {
        let q = cq(ex);
        match q.next(q.state.held()) {
            Some((c, wr_id)) => {
                show(ex, c, wr_id);
                0
            }
            None => libc::ENOENT,
        }
    }
}

unsafe extern "C" fn end_poll(ex: *mut IbvCqEx) {
    // SAFETY: between start and end the lock is held.
    unsafe {
        let q = cq(ex);
        q.give_back(q.state.held());
        q.state.release();
    }
}

macro_rules! read {
    ($($name:ident -> $t:ty = |$c:ident| $value:expr;)*) => { $(
        unsafe extern "C" fn $name(ex: *mut IbvCqEx) -> $t {
            // SAFETY: between start and end the lock is held, so the completion stays.
            let $c = unsafe { &*cq(ex).current.get() };
            $value
        }
    )* };
}

read! {
    read_opcode -> c_int = |c| c.opcode();
    read_vendor_err -> u32 = |c| c.vendor as u32;
    read_byte_len -> u32 = |c| c.length;
    read_imm_data -> u32 = |c| c.imm;
    read_qp_num -> u32 = |c| c.qpn;
    read_src_qp -> u32 = |c| c.src_qp;
    read_wc_flags -> c_uint = |c| c.wc_flags;
    read_completion_ts -> u64 = |c| c.stamp;
}

unsafe extern "C" fn read_slid(_: *mut IbvCqEx) -> u32 {
    0
}
unsafe extern "C" fn read_zero(_: *mut IbvCqEx) -> u8 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_refused() {
        let attr = |wc_flags, comp_mask, flags| IbvCqInitAttrEx {
            cqe: 1,
            cq_context: core::ptr::null_mut(),
            channel: core::ptr::null_mut(),
            comp_vector: 0,
            wc_flags,
            comp_mask,
            flags,
            parent_domain: core::ptr::null_mut(),
        };
        for bit in 0..12 {
            let r = check(&attr(1 << bit, 0, 0));
            // CVLAN, flow tag, tag matching, wall clock.
            assert_eq!(r.is_ok(), bit < 8, "{bit}");
        }
        assert_eq!(check(&attr(0, cq_attr::MASK_FLAGS, 1)), Ok(()));
        assert_eq!(
            check(&attr(0, cq_attr::MASK_FLAGS, 2)),
            Err(libc::EOPNOTSUPP)
        );
        assert_eq!(check(&attr(0, 0, 2)), Ok(()), "the mask leaves flags out");
        assert_eq!(check(&attr(0, 4, 0)), Err(libc::EOPNOTSUPP));
        assert_eq!(check(&attr(0, cq_attr::MASK_PD, 0)), Err(libc::EINVAL));
    }
}
