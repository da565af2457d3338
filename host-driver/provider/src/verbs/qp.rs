//! Queue pairs: creation, state, destruction. Posting is in `post`.
use super::ah::{self, Path};
use super::cq::{clean_both, Cq};
use super::event::{purge, wait};
use super::fail;
use super::mr::{dereg_mr, reg_mr};
use super::qp_ex::Build;
use super::queue::Queue;
use super::size::sizes;
use super::srq::Srq;
use super::wqe::{one_sge, Keep, Limits};
use crate::abi::ex::{IbvQpEx, VerbsQpTail};
use crate::abi::*;
use crate::card::{Dma, Errno};
use crate::ctx::Ctx;
use crate::sync::Spin;
use core::ffi::c_int;
use metaroce_hdl_spec::{cmd, table};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

#[repr(C)]
pub struct Qp {
    /// `struct verbs_qp`: these two. Its functions are there if the program asked for them.
    pub ex: IbvQpEx,
    pub tail: VerbsQpTail,
    pub ctx: Arc<Ctx>,
    /// State as this side last set it. The card may be in ERR already; it flushes what is posted then.
    pub state: AtomicI32,
    pub qkey: AtomicU32,
    pub sq: Queue<Spin<SqState>>,
    pub rq: Queue<Spin<RqState>>,
    pub limits: Limits,
    /// Data of inline requests, `max_inline` bytes per slot of the send ring, and its region.
    inline: Option<(Dma, *mut IbvMr)>,
    pub max_recv_sge: usize,
    pub rq_stride: u32,
    /// Where receives come from, if not from `rq`; outlives the QP.
    pub srq: *const Srq,
    attr: Mutex<IbvQpAttr>,
    cap: IbvQpCap,
    pub events: AtomicU32,
}

#[derive(Default)]
pub struct SqState {
    pub pi: u16,
    /// The batch that the `ibv_wr_*` functions are building.
    pub build: Build,
}
#[derive(Default)]
pub struct RqState {
    pub pi: u16,
}

impl Qp {
    pub fn of(qp: *mut IbvQp) -> *mut Qp {
        qp as *mut Qp
    }
    #[inline]
    pub fn ibv(&self) -> &IbvQp {
        &self.ex.base
    }
    /// Books a completion; returns the wr_id.
    #[inline]
    pub fn complete(&self, is_recv: bool, index: u16) -> u64 {
        if is_recv {
            // SAFETY: NULL, or an SRQ that outlives its QPs.
            match unsafe { self.srq.as_ref() } {
                None => self.rq.complete(index),
                Some(srq) => srq.complete(index),
            }
        } else {
            self.sq.complete(index)
        }
    }
    /// Where inline data of the request at ring index `pi` goes.
    #[inline]
    pub fn keep(&self, pi: u16) -> Keep {
        match &self.inline {
            // SAFETY: one stretch per slot of the ring; the region lives as long as the QP.
            Some((m, mr)) => unsafe {
                let slot = pi as usize & (self.sq.slots() - 1);
                Keep {
                    ptr: m.ptr.add(slot * self.limits.max_inline),
                    lkey: (**mr).lkey,
                }
            },
            None => Keep {
                ptr: core::ptr::null_mut(),
                lkey: 0,
            },
        }
    }
    /// Completions that the send queue owes its CQ, or that are there and not polled. The CQ is locked.
    pub fn send_debt(&self) -> u32 {
        self.sq.signaled()
    }
    pub fn flush_send(&self) -> Option<u64> {
        self.sq.flush()
    }
    pub fn flush_recv(&self) -> Option<u64> {
        self.rq.flush()
    }
}

pub unsafe extern "C" fn create_qp(pd: *mut IbvPd, init: *mut IbvQpInitAttr) -> *mut IbvQp {
    // SAFETY: libibverbs passes a PD of ours and the program's attributes.
    match unsafe { make(pd, &mut *init) } {
        Ok(qp) => qp as *mut IbvQp,
        Err(e) => fail(e),
    }
}

/// A new QP without extended functions; `init.cap` becomes what it really has.
///
/// # Safety
/// `pd` must be a PD of ours, and the CQs and the SRQ, too, unless they are NULL.
pub unsafe fn make(pd: *mut IbvPd, init: &mut IbvQpInitAttr) -> Result<*mut Qp, Errno> {
    // SAFETY: the contract above.
    let pd_ref = unsafe { &*pd };
    let ctx = unsafe { Ctx::share(pd_ref.context) };
    let kind = match init.qp_type {
        qp_type::RC => table::qp_type::RC,
        qp_type::UC => table::qp_type::UC,
        qp_type::UD => table::qp_type::UD,
        _ => return Err(libc::EOPNOTSUPP),
    };
    // SAFETY: the contract above: an SRQ of ours, or NULL.
    let srq = unsafe { (init.srq as *const Srq).as_ref() };
    if let Some(s) = srq {
        if kind == table::qp_type::UC {
            return Err(libc::EOPNOTSUPP);
        }
        // SAFETY: an SRQ's PD outlives it.
        if unsafe { (*s.ibv.pd).handle } != pd_ref.handle || s.ibv.context != pd_ref.context {
            return Err(libc::EINVAL);
        }
        // What is asked for the receive queue is not looked at.
        (init.cap.max_recv_wr, init.cap.max_recv_sge) = (0, 0);
    }
    if init.send_cq.is_null() || init.recv_cq.is_null() {
        return Err(libc::EINVAL);
    }
    let ud = kind == table::qp_type::UD;
    let s = sizes(&init.cap, ud, ctx.caps.max_sge)?;
    let Some(sq_ring) = ctx.card.alloc((64usize << s.sq_log).max(4096)) else {
        return Err(libc::ENOMEM);
    };
    let Some(rq_ring) = ctx
        .card
        .alloc((64usize << (s.rq_log + s.rq_stride)).max(4096))
    else {
        ctx.card.free(sq_ring);
        return Err(libc::ENOMEM);
    };
    // SAFETY: the program's PD.
    let inline = match unsafe { make_inline(&ctx, pd, s.max_inline << s.sq_log) } {
        Ok(i) => i,
        Err(e) => {
            ctx.card.free(sq_ring);
            ctx.card.free(rq_ring);
            return Err(e);
        }
    };
    // SAFETY: CQs of ours.
    let (scq, rcq) = unsafe {
        (
            (*Cq::of(init.send_cq)).number(),
            (*Cq::of(init.recv_cq)).number(),
        )
    };
    let made = ctx.command(cmd::op::CREATE_QP, 0, |c| {
        use cmd::create_qp as f;
        f::qp_type.put(c, kind as u64);
        f::sq_log.put(c, s.sq_log as u64);
        f::rq_log.put(c, (s.rq_log + s.rq_stride) as u64);
        f::rq_stride.put(c, s.rq_stride as u64);
        f::pd.put(c, pd_ref.handle as u64);
        f::sq_base.put(c, sq_ring.bus);
        f::rq_base.put(c, rq_ring.bus);
        f::scq.put(c, scq as u64);
        f::rcq.put(c, rcq as u64);
        if let Some(s) = srq {
            f::srq.put(c, 1);
            f::srqn.put(c, s.srqn as u64);
        }
    });
    let qpn = match made {
        Ok(r) => r.id(),
        Err(e) => {
            // SAFETY: made above; no QP uses it.
            unsafe { free_inline(&ctx, inline) };
            ctx.card.free(sq_ring);
            ctx.card.free(rq_ring);
            return Err(e);
        }
    };
    let cap = IbvQpCap {
        max_send_wr: s.cap[0],
        max_recv_wr: s.cap[1],
        max_send_sge: s.cap[2],
        max_recv_sge: s.cap[3],
        max_inline_data: s.max_inline as u32,
    };
    // SAFETY: an all-zero C structure, filled below.
    let mut ex = unsafe { core::mem::zeroed::<IbvQpEx>() };
    let ibv = &mut ex.base;
    ibv.context = pd_ref.context;
    ibv.qp_context = init.qp_context;
    ibv.pd = pd;
    ibv.send_cq = init.send_cq;
    ibv.recv_cq = init.recv_cq;
    ibv.srq = init.srq;
    ibv.handle = qpn;
    ibv.qp_num = qpn;
    ibv.state = state::RESET;
    ibv.qp_type = init.qp_type;
    let qp = Box::into_raw(Box::new(Qp {
        ex,
        tail: VerbsQpTail { words: [0; 3] },
        ctx: ctx.clone(),
        state: AtomicI32::new(state::RESET),
        qkey: AtomicU32::new(0),
        sq: Queue::new(sq_ring, s.sq_log, Spin::default()),
        rq: Queue::new(rq_ring, s.rq_log + s.rq_stride, Spin::default()),
        limits: Limits {
            max_sge: cap.max_send_sge as usize,
            max_inline: s.max_inline,
            ud,
            uc: kind == table::qp_type::UC,
            atomics: ctx.caps.atomics,
            windows: ctx.caps.windows,
            inline_unit: ctx.caps.direct,
            sig_all: init.sq_sig_all != 0,
            one: one_sge(ud, cap.max_send_sge as usize),
        },
        inline,
        max_recv_sge: cap.max_recv_sge as usize,
        rq_stride: s.rq_stride,
        srq: init.srq as *const Srq,
        attr: Mutex::new(IbvQpAttr {
            cap,
            ..IbvQpAttr::default()
        }),
        cap,
        events: AtomicU32::new(0),
    }));
    // SAFETY: just made. The mutex must not move once it is initialised, and it does not any more.
    unsafe {
        libc::pthread_mutex_init(&mut (*qp).ex.base.mutex, core::ptr::null());
        libc::pthread_cond_init(&mut (*qp).ex.base.cond, core::ptr::null());
    }
    init.cap = cap;
    ctx.qp_slot(qpn).store(qp, Ordering::Release);
    Ok(qp)
}

/// Memory for the data of inline requests, and its region.
///
/// # Safety
/// `pd` must be a PD of ours.
unsafe fn make_inline(
    ctx: &Ctx,
    pd: *mut IbvPd,
    len: usize,
) -> Result<Option<(Dma, *mut IbvMr)>, Errno> {
    if len == 0 {
        return Ok(None);
    }
    let m = ctx.card.alloc(len).ok_or(libc::ENOMEM)?;
    // SAFETY: memory of ours. The card only reads it, so it has no rights.
    let mr = unsafe { reg_mr(pd, m.ptr as *mut _, len, m.ptr as u64, 0) };
    if mr.is_null() {
        let e = std::io::Error::last_os_error().raw_os_error();
        ctx.card.free(m);
        return Err(e.unwrap_or(libc::ENOMEM));
    }
    Ok(Some((m, mr)))
}

/// # Safety
/// No QP may use it any more.
unsafe fn free_inline(ctx: &Ctx, inline: Option<(Dma, *mut IbvMr)>) {
    if let Some((m, mr)) = inline {
        // SAFETY: made by `reg_mr`; fails only on a card that is dead or in use, and then the memory stays.
        if unsafe { dereg_mr(mr as *mut VerbsMr) } == 0 && !ctx.forked() {
            ctx.card.free(m);
        }
    }
}

/// Attributes whose values this side checks; combinations and states are the card's to check.
fn check(attr: &IbvQpAttr, mask: u32, ctx: &Ctx) -> Result<(), Errno> {
    let has = |bit| mask & bit != 0;
    if has(attr::ALT_PATH) || has(attr::PATH_MIG) || has(attr::CAP) || mask >> 21 != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let bad = (has(attr::STATE) && !(0..=state::ERR).contains(&attr.qp_state))
        || (has(attr::CUR_STATE) && !(0..=state::ERR).contains(&attr.cur_qp_state))
        || (has(attr::PORT) && attr.port_num != 1)
        || (has(attr::PKEY) && attr.pkey_index != 0)
        || (has(attr::PATH_MTU)
            && !(1..=super::device::active_mtu(ctx.link_mtu)).contains(&attr.path_mtu))
        || (has(attr::DEST_QPN) && attr.dest_qp_num >> 24 != 0)
        || (has(attr::TIMEOUT) && attr.timeout > 31)
        || (has(attr::RETRY_CNT) && attr.retry_cnt > 7)
        || (has(attr::RNR_RETRY) && attr.rnr_retry > 7)
        || (has(attr::MIN_RNR) && attr.min_rnr_timer > 31)
        || (has(attr::MAX_RD) && attr.max_rd_atomic as u32 > ctx.caps.max_rd)
        || (has(attr::MAX_DEST_RD) && attr.max_dest_rd_atomic as u32 > ctx.caps.max_rd)
        || (has(attr::ACCESS)
            && attr.qp_access_flags
                & !(access::LOCAL_WRITE
                    | access::REMOTE_WRITE
                    | access::REMOTE_READ
                    | access::REMOTE_ATOMIC
                    | access::FLUSH
                    | access::OPTIONAL)
                != 0);
    if bad {
        Err(libc::EINVAL)
    } else {
        Ok(())
    }
}

fn put_path(c: &mut [u8], path: &Path, sport: u16) {
    use cmd::modify_qp as f;
    f::sgid_index.put(c, path.sgid_index as u64);
    f::sport.put(c, sport as u64);
    f::dmac.put_bytes(c, &path.mac);
    f::dip.put_bytes(c, &path.gid);
    f::hop_limit.put(c, path.hop_limit as u64);
    f::tclass.put(c, path.tclass as u64);
    f::pcp.put(c, path.sl as u64);
    f::flow_label.put(c, path.flow_label as u64);
    f::ip6.put(c, path.ip6 as u64);
}

pub unsafe extern "C" fn modify_qp(qp: *mut IbvQp, attr: *mut IbvQpAttr, mask: c_int) -> c_int {
    // SAFETY: a QP of ours and the program's attributes.
    let (qp, attr, mask) = unsafe { (&*Qp::of(qp), &*attr, mask as u32) };
    match modify(qp, attr, mask) {
        Ok(()) => 0,
        Err(e) => e,
    }
}

fn modify(qp: &Qp, attr: &IbvQpAttr, mask: u32) -> Result<(), Errno> {
    let ctx = &qp.ctx;
    check(attr, mask, ctx)?;
    let path = if mask & attr::AV != 0 {
        Some(ah::resolve(ctx, &attr.ah_attr)?)
    } else {
        None
    };
    let mut kept = qp.attr.lock().unwrap();
    let dest = if mask & attr::DEST_QPN != 0 {
        attr.dest_qp_num
    } else {
        kept.dest_qp_num
    };
    let answer = ctx.command(cmd::op::MODIFY_QP, qp.ibv().qp_num, |c| {
        use cmd::modify_qp as f;
        // The bit alone is the wish.
        let told = attr.en_sqd_async_notify != 0;
        let wish = if told { mask } else { mask & !attr::EN_SQD };
        f::mask.put(c, wish as u64);
        f::next_state.put(c, attr.qp_state as u64);
        f::cur_state.put(c, attr.cur_qp_state as u64);
        f::acc_write.put(c, (attr.qp_access_flags & access::REMOTE_WRITE != 0) as u64);
        f::acc_read.put(c, (attr.qp_access_flags & access::REMOTE_READ != 0) as u64);
        f::acc_atomic.put(
            c,
            (attr.qp_access_flags & access::REMOTE_ATOMIC != 0) as u64,
        );
        f::mtu.put(c, attr.path_mtu as u64);
        f::timeout.put(c, attr.timeout as u64);
        f::retry_cnt.put(c, attr.retry_cnt as u64);
        f::rnr_retry.put(c, attr.rnr_retry as u64);
        f::min_rnr.put(c, attr.min_rnr_timer as u64);
        f::max_rd.put(c, attr.max_rd_atomic as u64);
        f::max_dest_rd.put(c, attr.max_dest_rd_atomic as u64);
        f::port.put(c, attr.port_num as u64);
        f::pkey_index.put(c, attr.pkey_index as u64);
        f::dqpn.put(c, attr.dest_qp_num as u64);
        f::sq_psn.put(c, attr.sq_psn as u64);
        f::rq_psn.put(c, attr.rq_psn as u64);
        f::qkey.put(c, attr.qkey as u64);
        if let Some(p) = &path {
            put_path(c, p, ah::sport(p.flow_label, qp.ibv().qp_num, dest));
        }
    })?;
    keep(&mut kept, attr, mask);
    if mask & attr::QKEY != 0 {
        qp.qkey.store(attr.qkey, Ordering::Relaxed);
    }
    if mask & attr::STATE != 0 {
        if attr.qp_state == state::RESET {
            // SAFETY: a QP's CQs and SRQ outlive it.
            unsafe {
                clean_both(qp);
                if let Some(s) = qp.srq.as_ref() {
                    s.release(&answer.0);
                }
            }
            qp.sq.state.lock().pi = 0;
            qp.rq.state.lock().pi = 0;
            qp.sq.reset();
            qp.rq.reset();
            *kept = IbvQpAttr {
                cap: qp.cap,
                ..IbvQpAttr::default()
            };
        }
        qp.state.store(attr.qp_state, Ordering::Release);
    }
    Ok(())
}

/// What `ibv_query_qp` gives back of the attributes that were set.
fn keep(kept: &mut IbvQpAttr, new: &IbvQpAttr, mask: u32) {
    macro_rules! take {
        ($($bit:expr => $($field:ident),+;)*) => { $(if mask & $bit != 0 { $(kept.$field = new.$field;)+ })* };
    }
    take! {
        attr::STATE => qp_state;
        attr::ACCESS => qp_access_flags;
        attr::PKEY => pkey_index;
        attr::PORT => port_num;
        attr::QKEY => qkey;
        attr::AV => ah_attr;
        attr::PATH_MTU => path_mtu;
        attr::TIMEOUT => timeout;
        attr::RETRY_CNT => retry_cnt;
        attr::RNR_RETRY => rnr_retry;
        attr::RQ_PSN => rq_psn;
        attr::MAX_RD => max_rd_atomic;
        attr::MIN_RNR => min_rnr_timer;
        attr::SQ_PSN => sq_psn;
        attr::MAX_DEST_RD => max_dest_rd_atomic;
        attr::DEST_QPN => dest_qp_num;
        attr::EN_SQD => en_sqd_async_notify;
    }
}

pub unsafe extern "C" fn query_qp(
    qp: *mut IbvQp,
    attr: *mut IbvQpAttr,
    _mask: c_int,
    init: *mut IbvQpInitAttr,
) -> c_int {
    // SAFETY: a QP of ours and room for the answers.
    let q = unsafe { &*Qp::of(qp) };
    let answer = match q.ctx.command(cmd::op::QUERY_QP, q.ibv().qp_num, |_| {}) {
        Ok(r) => r.0,
        Err(e) => return e,
    };
    let mut a = *q.attr.lock().unwrap();
    a.qp_state = cmd::response::state.get(&answer) as c_int;
    a.cur_qp_state = a.qp_state;
    if a.qp_state != state::RESET && a.qp_state != state::INIT {
        a.rq_psn = cmd::response::rq_psn.get(&answer) as u32;
        a.sq_psn = cmd::response::sq_psn.get(&answer) as u32;
    }
    // SAFETY: as above.
    unsafe {
        *attr = a;
        *init = IbvQpInitAttr {
            qp_context: q.ibv().qp_context,
            send_cq: q.ibv().send_cq,
            recv_cq: q.ibv().recv_cq,
            srq: q.ibv().srq,
            cap: q.cap,
            qp_type: q.ibv().qp_type,
            sq_sig_all: q.limits.sig_all as c_int,
        };
        // The card may have moved the QP to ERR by itself.
        (*qp).state = a.qp_state;
    }
    0
}

pub unsafe extern "C" fn destroy_qp(qp: *mut IbvQp) -> c_int {
    let qp = Qp::of(qp);
    // SAFETY: the caller gives the QP back; it is alive until the end of this function.
    let q = unsafe { &mut *qp };
    let ctx = q.ctx.clone();
    let qpn = q.ibv().qp_num;
    if ctx.usable() {
        // Returns after the card's pipelines have drained: no DMA and no CQE of this QP from here on.
        match ctx.command(cmd::op::DESTROY_QP, qpn, |_| {}) {
            Err(e) if ctx.usable() => return e,
            Err(_) => {}
            // SAFETY: NULL, or an SRQ that outlives its QPs.
            Ok(r) => {
                if let Some(s) = unsafe { q.srq.as_ref() } {
                    s.release(&r.0);
                }
            }
        }
    }
    if !ctx.forked() {
        {
            let mut tables = ctx.tables.lock().unwrap();
            tables.drain(&ctx);
            // SAFETY: a QP's CQs outlive it.
            unsafe { clean_both(q) };
            ctx.qp_slot(qpn)
                .store(core::ptr::null_mut(), Ordering::Release);
        }
        purge(&ctx.async_write, 16, qp as u64);
        let (mutex, cond) = (&raw mut q.ex.base.mutex, &raw mut q.ex.base.cond);
        // SAFETY: initialised at creation; other threads change the counters.
        unsafe {
            wait(mutex, cond, || {
                let done = (&raw const (*qp).ex.base.events_completed).read_volatile();
                done == (*qp).events.load(Ordering::Relaxed)
            });
        }
    }
    // SAFETY: made by Box::into_raw, and no table holds it any more.
    let boxed = unsafe { Box::from_raw(qp) };
    let Qp { sq, rq, inline, .. } = *boxed;
    // SAFETY: the QP is gone from the card.
    unsafe { free_inline(&ctx, inline) };
    if !ctx.forked() {
        ctx.card.free(sq.ring);
        ctx.card.free(rq.ring);
    }
    0
}
