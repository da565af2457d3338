//! Objects that change under their number: REREG_MR, RESIZE_CQ.

use super::*;
use metaroce_hdl_spec::cmd::{errno, op};
use metaroce_hdl_spec::table::{cq as cqf, mr_check, mr_map};

/// Place of the first thing done that is like that.
fn at(d: &[Did], x: impl Fn(&Did) -> bool) -> usize {
    d.iter().position(x).unwrap_or_else(|| panic!("{d:?}"))
}

#[test]
fn regions_change() {
    let mut b = Bench::new(12, 0.7);
    let (pd, pd2, other) = (b.pd(4).unwrap(), b.pd(4).unwrap(), b.pd(5).unwrap());
    let key = b.mr(4, pd, 0x1000, 0x2000, 12, 0x40, 15).unwrap();
    let neighbour = b.mr(4, pd, 0x9000, 1, 12, 0x80, 1).unwrap();
    let i = (key >> 8) as usize;
    // refused: nothing changes, and nothing is disturbed
    let top = 1u64 << 40;
    let wrong = |k: u64| (4, k, pd2, 0x1000, 1, 12, 0x40, errno::ENOENT);
    let bad = |pd, va, len, shift, list, e| (4, key, pd, va, len, shift, list, e);
    for (pasid, k, new_pd, va, len, shift, list, e) in [
        bad(pd2, 0x1000, 0, 12, 0x40, errno::EINVAL),
        bad(pd2, 0x1000, top + 1, 12, 0x40, errno::EINVAL),
        bad(pd2, 0x1000, 1 << 63, 12, 0x40, errno::EINVAL),
        bad(pd2, u64::MAX, 2, 12, 0x40, errno::EINVAL),
        bad(pd2, u64::MAX - 0xFFFF, 0x10001, 12, 0x40, errno::EINVAL),
        bad(pd2, 0x1000, 1, 11, 0x40, errno::EINVAL),
        bad(pd2, 0x1000, 1, 31, 0x40, errno::EINVAL),
        bad(pd2, 0x1000, 1, 12, 0x48, errno::EINVAL),
        bad(pd2, 0x1000, 1, 12, 1 << 58, errno::EINVAL),
        bad(other, 0x1000, 1, 12, 0x40, errno::ENOENT),
        bad(pd2 + 8, 0x1000, 1, 12, 0x40, errno::ENOENT),
        wrong(key ^ 1),
        wrong(key ^ 0x80),
        wrong(key | 1 << 12),
        wrong(key | 1 << 31),
        wrong(key & 0xFF),
        wrong(0),
        // another's region
        (5, key, other, 0x1000, 1, 12, 0x40, errno::ENOENT),
    ] {
        let before = b.tables();
        b.take();
        let c = b.rereg_block(k, new_pd, va, len, shift, list, 15);
        let what = format!("{k:x} {new_pd} {va:x} {len:x} {shift} {list:x}");
        assert_eq!(b.run(pasid, &c), Err(e), "{what}");
        assert!(before == b.tables(), "{what}");
        let d = b.take();
        assert!(
            matches!(
                d[..],
                [Did::Answer(..), Did::Refused] | [Did::Refused, Did::Answer(..)]
            ),
            "{d:?}"
        );
    }
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd2), Ok(0), "no user is left");
    let pd2 = b.pd(4).unwrap();

    // any fields; the order is that of DEREG_MR, then come both new entries
    let mut now = pd;
    for k in 0..14 {
        let (va, len) = match k {
            0 => (u64::MAX, 1),
            1 => (u64::MAX - 0xFFFF, 0x10000),
            2 => (0, top),
            3 => (u64::MAX - top + 1, top),
            _ => (b.rng.next() >> 1, 1 + b.rng.below(top)),
        };
        let shift = 12 + b.rng.below(19);
        let list = b.rng.below(1 << 52) << 6;
        let access = b.rng.below(16);
        now = if b.rng.p(0.5) { pd } else { pd2 };
        let before = b.tables();
        b.take();
        let c = b.rereg_block(key, now, va, len, shift, list, access);
        let r = b.run(4, &c).unwrap();
        assert_eq!(cmd::response::id.get(&r), key);
        use mr_check as c;
        let got = [
            c::valid,
            c::local_write,
            c::remote_write,
            c::remote_read,
            c::remote_atomic,
            c::variant,
            c::pd,
            c::window,
            c::va,
            c::len,
        ];
        let r = |n: u64| access >> n & 1;
        let want = [1, r(0), r(1), r(2), r(3), key & 0xFF, now, 0, va, len];
        assert_eq!(got.map(|f| f.get(&b.mrc[i])), want);
        use mr_map as m;
        let got = [m::page_shift, m::list, m::va_page, m::pasid].map(|f| f.get(&b.mrm[i]));
        assert_eq!(got, [shift, list >> 6, (va >> shift << shift) >> 12, 4]);
        // nothing else of the tables
        let mut after = b.tables();
        after.2[i] = before.2[i];
        after.3[i] = before.3[i];
        assert!(before == after);
        let d = b.take();
        let writes: Vec<usize> = (0..d.len()).filter(|k| d[*k] == Did::Mrc(i)).collect();
        let (fenced, flush) = (at(&d, |x| *x == Did::Fenced), at(&d, |x| *x == Did::Flush));
        for blk in [RQR, RSP, RDR] {
            let f = at(
                &d,
                |x| matches!(x, Did::Ctl(b, ctl::FENCE, ..) if *b == blk),
            );
            assert!(writes[0] < f && f < flush);
        }
        assert_eq!(writes.len(), 2);
        assert!(fenced < flush && flush < writes[1]);
        assert!(flush < at(&d, |x| *x == Did::Mrm(i)));
        assert_eq!(d.iter().filter(|x| matches!(x, Did::Mrm(_))).count(), 1);
        assert!(writes[1] < at(&d, |x| matches!(x, Did::Answer(..))));
    }
    // users of the PDs: `neighbour` in `pd`, `key` in `now`
    let c = b.rereg_block(key, pd2, 0, 1, 12, 0, 0);
    b.run(4, &c).unwrap();
    println!("last random PD: {now}");
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd), Err(errno::EBUSY));
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd2), Err(errno::EBUSY));
    assert_eq!(b.simple(4, op::DEREG_MR, neighbour), Ok(0));
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd), Ok(0));
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd2), Err(errno::EBUSY));
    // it goes like any other, and with its process
    assert_eq!(b.simple(4, op::DEREG_MR, key), Ok(0));
    assert_eq!((b.mrc[i], b.mrm[i]), ([0; 24], [0; 16]));
    let c = b.rereg_block(key, pd2, 0, 1, 12, 0, 0);
    assert_eq!(b.run(4, &c), Err(errno::ENOENT));
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd2), Ok(0));
}

#[test]
fn completion_queues_change() {
    let mut b = Bench::new(13, 0.7);
    let pd = b.pd(4).unwrap();
    let cq = b.cq(4, 0x7000, 5).unwrap();
    let other = b.cq(4, 0x9000, 4).unwrap();
    let qpn = b.qp(4, pd, cq, other).unwrap();
    let wide = CQS as u64;
    for (pasid, id, base, log, e) in [
        (4, cq, 0x7000, 3, errno::EINVAL),
        (4, cq, 0x7000, 17, errno::EINVAL),
        (4, cq, 0x7040, 5, errno::EINVAL),
        (4, cq, 1 << 60, 5, errno::EINVAL),
        (5, cq, 0x8000, 5, errno::ENOENT),
        (4, cq + wide, 0x8000, 5, errno::ENOENT),
        (4, cq | 1 << 31, 0x8000, 5, errno::ENOENT),
        (4, (cq.max(other) + 1) % wide, 0x8000, 5, errno::ENOENT),
    ] {
        if id == other {
            continue;
        }
        let before = b.tables();
        b.take();
        assert_eq!(
            b.resize(pasid, id, base, log),
            Err(e),
            "{id:x} {base:x} {log}"
        );
        assert!(before == b.tables());
        let d = b.take();
        assert!(
            !d.iter()
                .any(|x| matches!(x, Did::CqResize(_) | Did::Ctl(..))),
            "{d:?}"
        );
    }
    for log in [16, 4, 9] {
        let base = b.rng.below(1 << 48);
        let before = b.tables();
        b.take();
        assert_eq!(b.resize(4, cq, base << 12, log), Ok(cq));
        let e = b.cqt[cq as usize];
        let got = [cqf::valid, cqf::log, cqf::pasid, cqf::base].map(|f| f.get(&e));
        assert_eq!(got, [1, log, 4, base]);
        let mut after = b.tables();
        after.4[cq as usize] = before.4[cq as usize];
        assert!(before == after);
        // the pulse is in the cycle of the write, the fence comes after it and before the answer
        let d = b.take();
        let w = at(&d, |x| *x == Did::Cqt(cq as usize));
        assert_eq!(d[w + 1], Did::CqResize(cq));
        assert!(w < at(&d, |x| matches!(x, Did::Ctl(_, ctl::FENCE, ..))));
        let fenced = at(&d, |x| *x == Did::Fenced);
        assert!(w < fenced && fenced < at(&d, |x| matches!(x, Did::Answer(..))));
        assert!(!d.contains(&Did::CqCtl(cq)));
    }
    // its users are still known
    assert_eq!(b.simple(4, op::DESTROY_CQ, cq), Err(errno::EBUSY));
    assert_eq!(b.simple(4, op::DESTROY_QP, qpn), Ok(0));
    b.take();
    assert_eq!(b.simple(4, op::DESTROY_CQ, cq), Ok(0));
    assert!(b.take().contains(&Did::CqCtl(cq)));
    assert_eq!(b.resize(4, cq, 0x7000, 5), Err(errno::ENOENT));
}
