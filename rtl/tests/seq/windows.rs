//! Memory windows: ALLOC_MW, DEALLOC_MW, and MRs that have windows.

use super::*;
use metaroce_hdl_spec::cmd::{alloc_mw, errno, op, reg_mr};
use metaroce_hdl_spec::table::mr_check;

fn alloc(b: &mut Bench, pasid: u64, pd: u64, type2: bool) -> Result<u64, u8> {
    let mut c = b.block(op::ALLOC_MW, 0);
    alloc_mw::pd.put(&mut c, pd);
    alloc_mw::type2.put(&mut c, type2 as u64);
    Ok(cmd::response::id.get(&b.run(pasid, &c)?))
}

fn at(d: &[Did], x: Did) -> usize {
    d.iter()
        .position(|y| *y == x)
        .unwrap_or_else(|| panic!("{x:?} in {d:?}"))
}

#[test]
fn windows() {
    let mut b = Bench::new(14, 0.7);
    let (pd, other) = (b.pd(4).unwrap(), b.pd(5).unwrap());
    for bad in [other, pd + 8] {
        assert_eq!(alloc(&mut b, 4, bad, true), Err(errno::ENOENT));
    }
    let key = b.mr(4, pd, 0x1000, 0x2000, 12, 0x40, 15).unwrap();
    let mr = (key >> 8) as usize;
    let mut keys = vec![];
    for k in 0..MRS - 2 {
        let w = alloc(&mut b, 4, pd, k % 3 == 0).unwrap();
        use mr_check as c;
        let got = [c::valid, c::window, c::type2, c::variant, c::pd]
            .map(|f| f.get(&b.mrc[(w >> 8) as usize]));
        assert_eq!(got, [0, 1, (k % 3 == 0) as u64, w & 0xFF, pd]);
        // all else is zero
        let mut e = [0; 24];
        for (f, v) in [c::window, c::type2, c::variant, c::pd]
            .into_iter()
            .zip(&got[1..])
        {
            f.put(&mut e, *v);
        }
        assert_eq!(b.mrc[(w >> 8) as usize], e);
        keys.push(w);
    }
    assert_eq!(alloc(&mut b, 4, pd, false), Err(errno::ENOMEM));
    let w = keys[0];
    // each kind has its own commands, and its owner
    let before = b.tables();
    for (pasid, o, id, e) in [
        (5, op::DEALLOC_MW, w, errno::ENOENT),
        (4, op::DEALLOC_MW, w ^ 1, errno::ENOENT),
        (4, op::DEALLOC_MW, w | 1 << 31, errno::ENOENT),
        (4, op::DEALLOC_MW, key, errno::EINVAL),
        (4, op::DEREG_MR, w, errno::EINVAL),
    ] {
        b.take();
        assert_eq!(b.simple(pasid, o, id), Err(e), "{id:x}");
        assert!(!b
            .take()
            .iter()
            .any(|d| matches!(d, Did::Win(..) | Did::Ctl(..))));
    }
    let c = b.rereg_block(w, pd, 0, 1, 12, 0, 0);
    assert_eq!(b.run(4, &c), Err(errno::EINVAL));
    // an MR with windows stays, and nothing is disturbed
    b.bound.insert(mr);
    let c = b.rereg_block(key, pd, 0, 1, 12, 0, 0);
    for _ in 0..3 {
        b.take();
        assert_eq!(b.simple(4, op::DEREG_MR, key), Err(errno::EBUSY));
        assert_eq!(b.run(4, &c), Err(errno::EBUSY));
        let d = b.take();
        assert!(d.contains(&Did::Win(1, mr)));
        assert!(!d
            .iter()
            .any(|d| matches!(d, Did::Ctl(..) | Did::Mrc(_) | Did::Mrm(_))));
    }
    assert!(before == b.tables());
    // a window goes with a fence, after its entry
    for (n, w) in keys.iter().enumerate() {
        let i = (w >> 8) as usize;
        b.take();
        assert_eq!(b.simple(4, op::DEALLOC_MW, *w), Ok(0));
        let d = b.take();
        let answer = d.iter().position(|x| matches!(x, Did::Answer(..))).unwrap();
        let fence = d
            .iter()
            .position(|x| matches!(x, Did::Ctl(_, ctl::FENCE, ..)))
            .unwrap();
        assert!(
            at(&d, Did::Win(2, i)) < fence && at(&d, Did::Fenced) < answer,
            "{d:?}"
        );
        assert_eq!(b.mrc[i], [0; 24]);
        assert_eq!(b.simple(4, op::DEALLOC_MW, *w), Err(errno::ENOENT));
        let pds = b.simple(4, op::DEALLOC_PD, pd);
        assert_eq!(pds, Err(errno::EBUSY), "after {n}");
    }
    b.bound.clear();
    b.take();
    assert_eq!(b.simple(4, op::DEREG_MR, key), Ok(0));
    assert!(b.take().contains(&Did::Win(1, mr)));
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd), Ok(0));
    // a PD with a window alone; a new MR begins without windows
    let pd = b.pd(4).unwrap();
    let w = alloc(&mut b, 4, pd, true).unwrap();
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd), Err(errno::EBUSY));
    assert_eq!(b.simple(4, op::DEALLOC_MW, w), Ok(0));
    b.bound.extend(0..MRS);
    b.take();
    let key = b.mr(4, pd, 0x1000, 0x2000, 12, 0x40, 15).unwrap();
    assert!(b.take().contains(&Did::Win(3, (key >> 8) as usize)));
    assert_eq!(b.simple(4, op::DEREG_MR, key), Ok(0));
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd), Ok(0));
    // MW_BIND of an MR
    let pd = b.pd(4).unwrap();
    for may in [0, 1] {
        let mut c = b.rereg_block(0, pd, 0x1000, 9, 12, 0, 1);
        cmd::head::opcode.put(&mut c, op::REG_MR as u64);
        reg_mr::mw_bind.put(&mut c, may);
        let k = cmd::response::id.get(&b.run(4, &c).unwrap());
        assert_eq!(mr_check::mw_bind.get(&b.mrc[(k >> 8) as usize]), may);
    }
    // windows go with their process
    let w = alloc(&mut b, 4, pd, true).unwrap();
    assert_eq!(b.simple(0, op::TEARDOWN, 4), Ok(0));
    assert_eq!(b.mrc[(w >> 8) as usize], [0; 24]);
    assert_eq!(b.simple(4, op::DEALLOC_MW, w), Err(errno::ENOENT));
}
