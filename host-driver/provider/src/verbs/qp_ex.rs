//! Extended QPs: work requests built by functions (`ibv_wr_*`).
//!
//! From `wr_start` to `wr_complete` or `wr_abort` the send queue's lock is held. The ring is written as the requests
//! come, behind the producer index, which only a successful `wr_complete` moves: until then the card does not look.
use super::post::{ring_send, send_one, Posted};
use super::qp::{make, Qp, SqState};
use super::{fail, wqe::max_sges};
use crate::abi::ex::*;
use crate::abi::{
    qp_type, send_flag, wr_op, IbvAh, IbvContext, IbvMw, IbvMwBindInfo, IbvQp, IbvQpInitAttr,
    IbvSendWr, IbvSge,
};
use crate::card::Errno;
use crate::ctx::{Caps, Ctx};
use crate::register::library;
use core::ffi::{c_int, c_void};

const RC_OPS: u64 = UC_OPS | send_ops::READ;
const UC_OPS: u64 = UD_OPS | send_ops::WRITE | send_ops::WRITE_IMM;
const UD_OPS: u64 = send_ops::SEND | send_ops::SEND_IMM;

/// Operations that QPs of a type can be asked for.
fn ops_of(kind: c_int, caps: &Caps) -> u64 {
    let when = |has, ops| if has { ops } else { 0 };
    let local = when(caps.windows, send_ops::LOCAL_INV | send_ops::BIND_MW);
    match kind {
        qp_type::RC => {
            RC_OPS
                | when(caps.atomics, send_ops::CMP_SWAP | send_ops::FETCH_ADD)
                | when(caps.windows, send_ops::SEND_INV)
                | local
        }
        qp_type::UC => UC_OPS | local,
        qp_type::UD => UD_OPS,
        _ => 0,
    }
}

fn check(a: &IbvQpInitAttrEx, caps: &Caps) -> Result<(), Errno> {
    use qp_init::*;
    let has = |bit| a.comp_mask & bit != 0;
    if a.comp_mask & !(PD | CREATE_FLAGS | MAX_TSO_HEADER | SEND_OPS) != 0
        || (has(CREATE_FLAGS) && a.create_flags != 0)
        || (has(MAX_TSO_HEADER) && a.max_tso_header != 0)
        || (has(SEND_OPS) && a.send_ops_flags & !ops_of(a.qp_type, caps) != 0)
    {
        return Err(libc::EOPNOTSUPP);
    }
    if !has(PD) || a.pd.is_null() {
        return Err(libc::EINVAL);
    }
    Ok(())
}

pub unsafe extern "C" fn create_qp_ex(
    context: *mut IbvContext,
    init: *mut IbvQpInitAttrEx,
) -> *mut IbvQp {
    // SAFETY: the program's attributes, and a context of ours.
    let (a, ctx) = unsafe { (&mut *init, Ctx::of(context)) };
    if let Err(e) = check(a, &ctx.caps) {
        return fail(e);
    }
    let mut plain = IbvQpInitAttr {
        qp_context: a.qp_context,
        send_cq: a.send_cq,
        recv_cq: a.recv_cq,
        srq: a.srq,
        cap: a.cap,
        qp_type: a.qp_type,
        sq_sig_all: a.sq_sig_all,
    };
    // SAFETY: the program's PD and CQs.
    let qp = match unsafe { make(a.pd, &mut plain) } {
        Ok(qp) => qp,
        Err(e) => return fail(e),
    };
    a.cap = plain.cap;
    if a.comp_mask & qp_init::SEND_OPS != 0 {
        // SAFETY: just made, and the program does not have it yet.
        let q = unsafe { &mut *qp };
        q.ex.functions = FUNCTIONS;
        *match library().release {
            Some(r) if r < ATOMIC_WRITE_SINCE => &mut q.ex.functions.last,
            Some(r) if r < FLUSH_SINCE => &mut q.tail.words[0],
            _ => &mut q.tail.words[1],
        } = VERBS_QP_EX as usize;
    }
    qp as *mut IbvQp
}

const FUNCTIONS: QpFunctions = QpFunctions {
    wr_atomic_cmp_swp: Some(wr_atomic_cmp_swp),
    wr_atomic_fetch_add: Some(wr_atomic_fetch_add),
    wr_bind_mw: Some(wr_bind_mw),
    wr_local_inv: Some(wr_local_inv),
    wr_rdma_read: Some(wr_rdma_read),
    wr_rdma_write: Some(wr_rdma_write),
    wr_rdma_write_imm: Some(wr_rdma_write_imm),
    wr_send: Some(wr_send),
    wr_send_imm: Some(wr_send_imm),
    wr_send_inv: Some(wr_send_inv),
    wr_send_tso: Some(wr_send_tso),
    wr_set_ud_addr: Some(wr_set_ud_addr),
    wr_set_xrc_srqn: Some(wr_set_xrc_srqn),
    wr_set_inline_data: Some(wr_set_inline_data),
    wr_set_inline_data_list: Some(wr_set_inline_data_list),
    wr_set_sge: Some(wr_set_sge),
    wr_set_sge_list: Some(wr_set_sge_list),
    wr_start: Some(wr_start),
    wr_complete: Some(wr_complete),
    wr_abort: Some(wr_abort),
    last: 0,
};

/// A batch of work requests, of which the last is not in the ring yet.
pub struct Build {
    error: Errno,
    /// Ring index behind what is in the ring.
    pi: u16,
    /// What that is.
    all: Posted,
    /// Whether `wr` is a request; before the first one it is not.
    open: bool,
    wr: IbvSendWr,
    sges: [IbvSge; max_sges(false)],
}
// SAFETY: the pointers are the program's; used in the critical section of the thread that gave them.
unsafe impl Send for Build {}

impl Default for Build {
    fn default() -> Self {
        let none = IbvSge {
            addr: 0,
            length: 0,
            lkey: 0,
        };
        Build {
            error: 0,
            pi: 0,
            all: Posted::default(),
            open: false,
            wr: IbvSendWr {
                wr_id: 0,
                next: core::ptr::null_mut(),
                sg_list: core::ptr::null_mut(),
                num_sge: 0,
                opcode: 0,
                send_flags: 0,
                imm: 0,
                wr: [0; 4],
                qp_type: 0,
                bind_or_tso: [0; 6],
            },
            sges: [none; max_sges(false)],
        }
    }
}

/// The QP, and its send queue, whose lock is held since `wr_start`.
///
/// # Safety
/// A QP of ours between `wr_start` and its end, and no other reference to its state.
unsafe fn parts<'a>(ex: *mut IbvQpEx) -> (&'a Qp, &'a mut SqState) {
    // SAFETY: the contract above; the extended part begins the object.
    unsafe {
        let qp = &*(ex as *const Qp);
        (qp, qp.sq.state.held())
    }
}

/// Puts the open request into the ring.
#[inline(always)]
fn finish(qp: &Qp, b: &mut Build) {
    if !core::mem::take(&mut b.open) || b.error != 0 {
        return;
    }
    b.wr.sg_list = b.sges.as_mut_ptr();
    // SAFETY: the request and its list are ours; an address handle is the program's.
    match unsafe { send_one(qp, &b.wr, b.pi) } {
        Ok(p) => {
            b.pi = b.pi.wrapping_add(p.units());
            b.all.add(p);
        }
        Err(e) => b.error = e,
    }
}

/// [`begin`] behind another request of the batch. It has the arguments of `begin`, so that going there costs nothing.
#[inline(never)]
unsafe fn begin_late(ex: *mut IbvQpEx, opcode: c_int, imm: u32, va: u64, rkey: u64) {
    // SAFETY: between start and end.
    unsafe {
        let (qp, s) = parts(ex);
        finish(qp, &mut s.build);
        begin(ex, opcode, imm, va, rkey);
    }
}

/// Begins a request. `va` and `rkey` are the first words of the part that depends on the operation.
#[inline(always)]
unsafe fn begin(ex: *mut IbvQpEx, opcode: c_int, imm: u32, va: u64, rkey: u64) {
    // SAFETY: between start and end.
    let b = &mut unsafe { parts(ex) }.1.build;
    if b.open {
        // SAFETY: as here.
        return unsafe { begin_late(ex, opcode, imm, va, rkey) };
    }
    b.open = true;
    b.wr.opcode = opcode;
    b.wr.imm = imm;
    b.wr.wr[0] = va;
    b.wr.wr[1] = rkey;
    b.wr.num_sge = 0;
    // Inline data is asked for by its setters, whatever the flag says.
    // SAFETY: the program's members; it is in its critical section.
    unsafe {
        b.wr.wr_id = (*ex).wr_id;
        b.wr.send_flags = (*ex).wr_flags & !send_flag::INLINE;
    }
}

/// Refuses the batch: `wr_complete` says so.
unsafe fn refuse(ex: *mut IbvQpEx, e: Errno) {
    // SAFETY: between start and end.
    let b = &mut unsafe { parts(ex) }.1.build;
    if b.error == 0 {
        b.error = e;
    }
}

unsafe extern "C" fn wr_start(ex: *mut IbvQpEx) {
    // SAFETY: a QP of ours; the lock is taken here.
    unsafe {
        (*(ex as *const Qp)).sq.state.hold();
        let (_, s) = parts(ex);
        s.build.error = 0;
        s.build.pi = s.pi;
        s.build.all = Posted::default();
    }
}

unsafe extern "C" fn wr_complete(ex: *mut IbvQpEx) -> c_int {
    // SAFETY: between start and end; the lock is released last.
    unsafe {
        let (qp, s) = parts(ex);
        finish(qp, &mut s.build);
        let e = s.build.error;
        if e == 0 && s.build.all != Posted::default() {
            s.pi = s.build.pi;
            ring_send(qp, s.build.all, s.pi);
        }
        qp.sq.state.release();
        e
    }
}

unsafe extern "C" fn wr_abort(ex: *mut IbvQpEx) {
    // SAFETY: between start and end.
    unsafe {
        let (qp, s) = parts(ex);
        s.build.open = false;
        qp.sq.state.release()
    }
}

unsafe extern "C" fn wr_send(ex: *mut IbvQpEx) {
    // SAFETY: between start and end.
    unsafe { begin(ex, wr_op::SEND, 0, 0, 0) }
}
unsafe extern "C" fn wr_send_imm(ex: *mut IbvQpEx, imm: u32) {
    // SAFETY: between start and end.
    unsafe { begin(ex, wr_op::SEND_IMM, imm, 0, 0) }
}
unsafe extern "C" fn wr_rdma_write(ex: *mut IbvQpEx, rkey: u32, va: u64) {
    // SAFETY: between start and end.
    unsafe { begin(ex, wr_op::WRITE, 0, va, rkey as u64) }
}
unsafe extern "C" fn wr_rdma_write_imm(ex: *mut IbvQpEx, rkey: u32, va: u64, imm: u32) {
    // SAFETY: between start and end.
    unsafe { begin(ex, wr_op::WRITE_IMM, imm, va, rkey as u64) }
}
unsafe extern "C" fn wr_rdma_read(ex: *mut IbvQpEx, rkey: u32, va: u64) {
    // SAFETY: between start and end.
    unsafe { begin(ex, wr_op::READ, 0, va, rkey as u64) }
}
unsafe extern "C" fn wr_atomic_cmp_swp(ex: *mut IbvQpEx, rkey: u32, va: u64, cmp: u64, swap: u64) {
    // SAFETY: between start and end.
    unsafe {
        begin(ex, wr_op::CMP_SWAP, 0, va, cmp);
        parts(ex).1.build.wr.wr[2..].copy_from_slice(&[swap, rkey as u64]);
    }
}
unsafe extern "C" fn wr_atomic_fetch_add(ex: *mut IbvQpEx, rkey: u32, va: u64, add: u64) {
    // SAFETY: between start and end.
    unsafe {
        begin(ex, wr_op::FETCH_ADD, 0, va, add);
        parts(ex).1.build.wr.wr[2..].copy_from_slice(&[0, rkey as u64]);
    }
}

unsafe extern "C" fn wr_send_inv(ex: *mut IbvQpEx, key: u32) {
    // SAFETY: between start and end.
    unsafe { begin(ex, wr_op::SEND_INV, key, 0, 0) }
}
unsafe extern "C" fn wr_local_inv(ex: *mut IbvQpEx, key: u32) {
    // SAFETY: between start and end.
    unsafe { begin(ex, wr_op::LOCAL_INV, key, 0, 0) }
}
unsafe extern "C" fn wr_bind_mw(
    ex: *mut IbvQpEx,
    mw: *mut IbvMw,
    rkey: u32,
    info: *const IbvMwBindInfo,
) {
    // SAFETY: between start and end; the program's bind information.
    unsafe {
        begin(ex, wr_op::BIND_MW, 0, 0, 0);
        parts(ex).1.build.wr.set_bind(mw, rkey, &*info);
    }
}

// What the card does not do. A QP that asks for it is not made; a program that calls it all the same gets an errno, not
// a jump to address 0.
unsafe extern "C" fn wr_set_xrc_srqn(ex: *mut IbvQpEx, _: u32) {
    // SAFETY: between start and end.
    unsafe { refuse(ex, libc::EOPNOTSUPP) }
}
unsafe extern "C" fn wr_send_tso(ex: *mut IbvQpEx, _: *mut c_void, _: u16, _: u16) {
    // SAFETY: between start and end.
    unsafe { refuse(ex, libc::EOPNOTSUPP) }
}

unsafe extern "C" fn wr_set_ud_addr(ex: *mut IbvQpEx, ah: *mut IbvAh, qpn: u32, qkey: u32) {
    // SAFETY: between start and end.
    let (qp, s) = unsafe { parts(ex) };
    if !qp.limits.ud {
        // SAFETY: between start and end.
        return unsafe { refuse(ex, libc::EINVAL) };
    }
    s.build.wr.wr[0] = ah as usize as u64;
    s.build.wr.wr[1] = qpn as u64 | (qkey as u64) << 32;
}

unsafe extern "C" fn wr_set_sge(ex: *mut IbvQpEx, lkey: u32, addr: u64, length: u32) {
    // SAFETY: between start and end.
    let b = &mut unsafe { parts(ex) }.1.build;
    b.sges[0] = IbvSge { addr, length, lkey };
    b.wr.num_sge = 1;
}

unsafe extern "C" fn wr_set_sge_list(ex: *mut IbvQpEx, n: usize, list: *const IbvSge) {
    // SAFETY: between start and end.
    let (qp, s) = unsafe { parts(ex) };
    if n > qp.limits.max_sge {
        // SAFETY: between start and end.
        return unsafe { refuse(ex, libc::EINVAL) };
    }
    // SAFETY: the program's list, of which `n` entries fit.
    unsafe { core::ptr::copy_nonoverlapping(list, s.build.sges.as_mut_ptr(), n) };
    s.build.wr.num_sge = n as c_int;
}

unsafe extern "C" fn wr_set_inline_data(ex: *mut IbvQpEx, addr: *mut c_void, length: usize) {
    let one = IbvDataBuf { addr, length };
    // SAFETY: between start and end; the program's data.
    unsafe { wr_set_inline_data_list(ex, 1, &one) }
}

/// The data is copied at once, to where `post_send` has it: the request has one SGE.
unsafe extern "C" fn wr_set_inline_data_list(ex: *mut IbvQpEx, n: usize, list: *const IbvDataBuf) {
    // SAFETY: between start and end.
    let (qp, s) = unsafe { parts(ex) };
    let b = &mut s.build;
    if b.error != 0 {
        return;
    }
    // SAFETY: the program's list.
    let list = match n {
        0 => &[],
        _ => unsafe { core::slice::from_raw_parts(list, n) },
    };
    let total = list
        .iter()
        .try_fold(0usize, |sum, d| sum.checked_add(d.length));
    match total {
        Some(t)
            if t <= qp.limits.max_inline
                && (b.wr.opcode < wr_op::READ || b.wr.opcode == wr_op::SEND_INV) => {}
        // SAFETY: between start and end.
        _ => return unsafe { refuse(ex, libc::EINVAL) },
    }
    // The slot's earlier data may still be read while it is in use.
    if qp.sq.free(b.pi) == 0 {
        // SAFETY: between start and end.
        return unsafe { refuse(ex, libc::ENOMEM) };
    }
    let keep = qp.keep(b.pi);
    let mut at = 0;
    for d in list {
        // SAFETY: the program's data; the place has room for `max_inline` bytes.
        unsafe { core::ptr::copy_nonoverlapping(d.addr as *const u8, keep.ptr.add(at), d.length) };
        at += d.length;
    }
    b.sges[0] = IbvSge {
        addr: keep.ptr as u64,
        length: at as u32,
        lkey: keep.lkey,
    };
    b.wr.num_sge = (at != 0) as c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_qp_cannot_do_is_refused_when_it_is_made() {
        // SAFETY: plain numbers and pointers that `check` does not follow.
        let mut a: IbvQpInitAttrEx = unsafe { core::mem::zeroed() };
        a.qp_type = qp_type::RC;
        let none = Caps {
            log_qp: 8,
            log_mr: 8,
            log_cq: 8,
            log_pd: 8,
            limits: [0xFFFF; 4],
            max_sge: 4,
            max_rd: 4,
            atomics: false,
            windows: false,
            direct: false,
            srq: false,
        };
        let check = |a: &IbvQpInitAttrEx, atomics, windows| {
            let caps = Caps {
                atomics,
                windows,
                ..none
            };
            super::check(a, &caps)
        };
        assert_eq!(check(&a, false, false), Err(libc::EINVAL), "no PD");
        a.comp_mask = qp_init::PD;
        assert_eq!(check(&a, false, false), Err(libc::EINVAL), "NULL");
        let mut word = 0u64;
        a.pd = &raw mut word as *mut crate::abi::IbvPd;
        assert_eq!(check(&a, false, false), Ok(()));
        a.comp_mask |= qp_init::SEND_OPS | qp_init::CREATE_FLAGS | qp_init::MAX_TSO_HEADER;
        for (kind, plain, with) in [
            (qp_type::RC, 5, 8),
            (qp_type::UC, 4, 6),
            (qp_type::UD, 2, 2),
            (8, 0, 0),
        ] {
            a.qp_type = kind;
            for (windows, n) in [(false, plain), (true, with)] {
                let good = (0..16).filter(|bit| {
                    a.send_ops_flags = 1 << bit;
                    check(&a, false, windows) == Ok(())
                });
                assert_eq!(good.count(), n, "type {kind}");
            }
        }
        (a.qp_type, a.send_ops_flags) = (qp_type::RC, send_ops::CMP_SWAP | send_ops::FETCH_ADD);
        assert_eq!(check(&a, false, false), Err(libc::EOPNOTSUPP));
        assert_eq!(check(&a, true, false), Ok(()));
        a.send_ops_flags = 0;
        a.create_flags = 2;
        assert_eq!(check(&a, false, false), Err(libc::EOPNOTSUPP));
        (a.create_flags, a.max_tso_header) = (0, 1);
        assert_eq!(check(&a, false, false), Err(libc::EOPNOTSUPP));
        a.max_tso_header = 0;
        for bit in [1, 4, 5, 7] {
            a.comp_mask = qp_init::PD | 1 << bit;
            assert_eq!(check(&a, false, false), Err(libc::EOPNOTSUPP), "mask {bit}");
        }
    }
}
