//! Memory windows.
//!
//! A window has two numbers: `handle`, the key that the card gave it, names it in commands and stays; `rkey` is what its newest
//! bind made of it, the same but for the low byte. Windows of type 1 are bound by `ibv_bind_mw`, which chooses that byte, those of
//! type 2 by work requests, where the program does.
use super::qp::Qp;
use super::wqe::{head, Limits, KNOWN};
use super::{fail, mr, post};
use crate::abi::{access, mw_type, send_flag, wr_op, IbvMw, IbvMwBind, IbvPd, IbvQp, IbvSendWr};
use crate::card::Errno;
use crate::ctx::Ctx;
use core::ffi::c_int;
use metaroce_hdl_spec::cmd;
use metaroce_hdl_spec::wqe::{bind as layout, op, UNIT};

pub unsafe extern "C" fn alloc_mw(pd: *mut IbvPd, kind: c_int) -> *mut IbvMw {
    // SAFETY: a PD of ours.
    let (context, handle) = unsafe { ((*pd).context, (*pd).handle) };
    let ctx = unsafe { Ctx::of(context) };
    if !ctx.caps.windows {
        return fail(libc::EOPNOTSUPP);
    }
    if kind != mw_type::TYPE_1 && kind != mw_type::TYPE_2 {
        return fail(libc::EINVAL);
    }
    let made = ctx.command(cmd::op::ALLOC_MW, 0, |c| {
        cmd::alloc_mw::pd.put(c, handle as u64);
        cmd::alloc_mw::type2.put(c, (kind == mw_type::TYPE_2) as u64);
    });
    match made {
        Ok(r) => Box::into_raw(Box::new(IbvMw {
            context,
            pd,
            rkey: r.id(),
            handle: r.id(),
            kind,
        })),
        Err(e) => fail(e),
    }
}

pub unsafe extern "C" fn dealloc_mw(mw: *mut IbvMw) -> c_int {
    // SAFETY: made by `alloc_mw`.
    let (context, handle) = unsafe { ((*mw).context, (*mw).handle) };
    let ctx = unsafe { Ctx::of(context) };
    if ctx.usable() {
        // Returns when nothing goes through the window any more.
        if let Err(e) = ctx.command(cmd::op::DEALLOC_MW, handle, |_| {}) {
            if ctx.usable() {
                return e;
            }
        }
    }
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(mw) });
    0
}

/// A key with the next low byte (`ibv_inc_rkey`).
fn next(key: u32) -> u32 {
    (key & !0xff) | (key.wrapping_add(1) & 0xff)
}

/// Binds a window of type 1; its `rkey` is the new one from here on.
pub unsafe extern "C" fn bind_mw(qp: *mut IbvQp, mw: *mut IbvMw, bind: *mut IbvMwBind) -> c_int {
    // SAFETY: a QP and a window of ours; the program's bind.
    unsafe {
        let (qp, mw, bind) = (&*Qp::of(qp), &mut *mw, &*bind);
        let rkey = next(mw.rkey);
        let mut wr = IbvSendWr {
            wr_id: bind.wr_id,
            next: core::ptr::null_mut(),
            sg_list: core::ptr::null_mut(),
            num_sge: 0,
            opcode: wr_op::BIND_MW,
            send_flags: bind.send_flags,
            imm: 0,
            wr: [0; 4],
            qp_type: 0,
            bind_or_tso: [0; 6],
        };
        wr.set_bind(mw, rkey, &bind.info);
        match post::bind(qp, &wr) {
            Ok(()) => {
                mw.rkey = rkey;
                0
            }
            Err(e) => e,
        }
    }
}

/// The unit of a LOCAL_INV, or of a BIND_MW of a window of type `kind`.
///
/// # Safety
/// The window and the region of a bind are ours, or NULL.
pub unsafe fn unit(
    wr: &IbvSendWr,
    limits: &Limits,
    kind: c_int,
    index: u16,
    qpn: u32,
) -> Result<[u64; UNIT / 8], Errno> {
    if !limits.windows || wr.send_flags & !KNOWN != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    if limits.ud || wr.send_flags & send_flag::INLINE != 0 {
        return Err(libc::EINVAL);
    }
    let word0 = |op: u8, key: u32| {
        let first = head(op, wr, limits.sig_all, 0, 1);
        (first & u32::MAX as u64) | (key as u64) << 32
    };
    let mut b = [0u64; UNIT / 8];
    b[1] = (index as u64) << 32;
    b[3] = (qpn as u64) << 32;
    if wr.opcode == wr_op::LOCAL_INV {
        b[0] = word0(op::LOCAL_INV, wr.imm);
        return Ok(b);
    }
    let (mw, rkey, info) = wr.bind();
    // SAFETY: the contract above.
    let (mw, mr) = unsafe { (mw.as_ref(), info.mr.as_ref()) };
    let mw = mw.ok_or(libc::EINVAL)?;
    // Rights to write locally are the region's; a window grants none, and may be asked for it.
    if info.access & !mr::RIGHTS != 0 {
        return Err(match info.access & access::ZERO_BASED {
            0 => libc::EINVAL,
            _ => libc::EOPNOTSUPP,
        });
    }
    // Only the low byte of a key is the program's.
    if mw.kind != kind || (rkey ^ mw.handle) >> 8 != 0 || info.length > mr::MAX_MR {
        return Err(libc::EINVAL);
    }
    b[0] = word0(op::BIND_MW, rkey);
    if info.length != 0 {
        let mr = mr.ok_or(libc::EINVAL)?;
        b[2] = info.addr;
        b[4] = info.length;
        b[5] = (info.access & mr::RIGHTS & !access::LOCAL_WRITE) as u64 | (mr.lkey as u64) << 32;
    }
    Ok(b)
}

// The rights stand in the WQE as they do in a program.
const _: () = {
    const RIGHTS: u16 = 5 * 64;
    assert!(layout::write.lo == RIGHTS + access::REMOTE_WRITE.trailing_zeros() as u16);
    assert!(layout::read.lo == RIGHTS + access::REMOTE_READ.trailing_zeros() as u16);
    assert!(layout::atomic.lo == RIGHTS + access::REMOTE_ATOMIC.trailing_zeros() as u16);
};

#[cfg(test)]
mod tests {
    use super::super::wqe::one_sge;
    use super::*;
    use crate::abi::{IbvMr, IbvMwBindInfo};
    use metaroce_hdl_spec::wqe::sq;

    const CARD: Limits = Limits {
        max_sge: 4,
        max_inline: 288,
        ud: false,
        uc: false,
        atomics: true,
        windows: true,
        inline_unit: true,
        sig_all: false,
        one: one_sge(false, 4),
    };

    fn request(opcode: c_int, flags: u32) -> IbvSendWr {
        // SAFETY: numbers and pointers that may be NULL.
        let mut wr: IbvSendWr = unsafe { core::mem::zeroed() };
        (wr.opcode, wr.send_flags) = (opcode, flags);
        wr
    }

    fn bytes(u: [u64; UNIT / 8]) -> Vec<u8> {
        u.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    #[test]
    fn fields_are_those_of_the_layouts() {
        // SAFETY: numbers and pointers that are not followed.
        let mut mr: IbvMr = unsafe { core::mem::zeroed() };
        mr.lkey = 0x0004_5607;
        let mut mw = IbvMw {
            context: core::ptr::null_mut(),
            pd: core::ptr::null_mut(),
            rkey: 0x0001_2345,
            handle: 0x0001_2399,
            kind: mw_type::TYPE_2,
        };
        let info = IbvMwBindInfo {
            mr: &raw mut mr,
            addr: 0x1122_3344_5566_7788,
            length: 0x99_aabb_ccdd,
            access: 15,
        };
        let encode = |wr: &IbvSendWr, l: &Limits, kind| {
            // SAFETY: alive.
            unsafe { unit(wr, l, kind, 0xfedc, 0xabcdef) }.map(bytes)
        };
        let t2 = mw_type::TYPE_2;
        let mut wr = request(wr_op::BIND_MW, send_flag::SIGNALED | send_flag::FENCE);
        wr.set_bind(&raw mut mw, 0x0001_2346, &info);
        let b = encode(&wr, &CARD, t2).unwrap();
        for (f, v) in [
            (sq::opcode, op::BIND_MW as u64),
            (sq::signaled, 1),
            (sq::fence, 1),
            (sq::solicited, 0),
            (sq::inline, 0),
            (sq::num_sge, 0),
            (sq::units, 1),
            (sq::length, 0),
            (sq::index, 0xfedc),
            (sq::qpn, 0xabcdef),
            (layout::key, 0x0001_2346),
            (layout::va, info.addr),
            (layout::len, info.length),
            (layout::write, 1),
            (layout::read, 1),
            (layout::atomic, 1),
            (layout::lkey, 0x0004_5607),
        ] {
            assert_eq!(f.get(&b), v, "{}", f.name);
        }
        for (right, f) in [(2, layout::write), (4, layout::read), (8, layout::atomic)] {
            wr.set_bind(
                &raw mut mw,
                0x0001_2346,
                &IbvMwBindInfo {
                    access: 1 | right,
                    ..info
                },
            );
            let b = encode(&wr, &CARD, t2).unwrap();
            let got = [layout::write, layout::read, layout::atomic].map(|f| f.get(&b));
            assert_eq!(got.iter().sum::<u64>(), 1);
            assert_eq!(f.get(&b), 1);
        }
        // nothing to be bound to
        let nothing = IbvMwBindInfo {
            mr: core::ptr::null_mut(),
            length: 0,
            ..info
        };
        wr.set_bind(&raw mut mw, 0x0001_2346, &nothing);
        let b = encode(&wr, &CARD, t2).unwrap();
        assert_eq!((layout::len.get(&b), layout::key.get(&b)), (0, 0x0001_2346));
        // what is refused
        let mut bad = |f: &dyn Fn(&mut IbvSendWr, &mut IbvMwBindInfo, &mut u32)| {
            let (mut i, mut key) = (info, 0x0001_2346);
            let mut wr = request(wr_op::BIND_MW, 0);
            f(&mut wr, &mut i, &mut key);
            wr.set_bind(&raw mut mw, key, &i);
            encode(&wr, &CARD, t2).err()
        };
        assert_eq!(bad(&|_, _, _| {}), None);
        assert_eq!(bad(&|_, _, k| *k ^= 0x100), Some(libc::EINVAL), "index");
        assert_eq!(bad(&|_, i, _| i.length = (1 << 40) + 1), Some(libc::EINVAL));
        assert_eq!(
            bad(&|_, i, _| i.mr = core::ptr::null_mut()),
            Some(libc::EINVAL)
        );
        assert_eq!(bad(&|_, i, _| i.access = 16), Some(libc::EINVAL));
        assert_eq!(bad(&|_, i, _| i.access = 32 | 2), Some(libc::EOPNOTSUPP));
        assert_eq!(
            bad(&|w, _, _| w.send_flags = send_flag::INLINE),
            Some(libc::EINVAL)
        );
        assert_eq!(
            bad(&|w, _, _| w.send_flags = 1 << 4),
            Some(libc::EOPNOTSUPP)
        );
        wr.set_bind(&raw mut mw, 0x0001_2346, &info);
        assert_eq!(encode(&wr, &CARD, mw_type::TYPE_1), Err(libc::EINVAL));
        assert_eq!(
            encode(&wr, &Limits { ud: true, ..CARD }, t2),
            Err(libc::EINVAL)
        );
        let none = Limits {
            windows: false,
            ..CARD
        };
        assert_eq!(encode(&wr, &none, t2), Err(libc::EOPNOTSUPP));
        wr.set_bind(core::ptr::null_mut(), 0x0001_2346, &info);
        assert_eq!(encode(&wr, &CARD, t2), Err(libc::EINVAL));
        // LOCAL_INV
        let mut wr = request(wr_op::LOCAL_INV, send_flag::SIGNALED);
        wr.imm = 0x0001_2346;
        let b = encode(&wr, &CARD, t2).unwrap();
        let want = (op::LOCAL_INV as u64, 1, 0x0001_2346, 1, 0xfedc);
        let got = (
            sq::opcode.get(&b),
            sq::signaled.get(&b),
            sq::imm.get(&b),
            sq::units.get(&b),
            sq::index.get(&b),
        );
        assert_eq!(got, want);
        assert_eq!(encode(&wr, &none, t2), Err(libc::EOPNOTSUPP));
    }

    #[test]
    fn keys_count_in_their_low_byte() {
        assert_eq!(next(0x0001_23ff), 0x0001_2300);
        assert_eq!(next(0xffff_ff7f), 0xffff_ff80);
    }
}
