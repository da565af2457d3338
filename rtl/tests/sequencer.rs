//! The sequencer through its ports: objects, ownership, limits, every QP transition, errors, teardown; and rust-hdl = Verilator.
//!
//! Shows: `qp_state_offload`, `reserved_qpns`.
#[macro_use]
mod seq;

use metaroce_hdl_spec::cmd::{self, errno, op};
use metaroce_hdl_spec::table::{av, cq as cqf, mr_check, mr_map, qp_cfg, qp_state};
use metaroce_hdl_spec::{cqe::event, field::Field};
use metaroce_rtl::diff::{Diff, Stim};
use metaroce_rtl::inputs;
use metaroce_rtl::sequencer::{Ecp51g, Sequencer};
use metaroce_rtl::types::ctl;
use num_bigint::BigUint;
use seq::*;
use std::collections::HashSet;

const GID4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 0, 0, 7];
const GID6: [u8; 16] = [0xFE, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
const MAC: [u8; 6] = [2, 0x4D, 0x52, 1, 2, 3];

#[test]
fn objects_and_owners() {
    let mut b = Bench::new(1, 0.6);
    // what is not a command, and pages beyond the PASIDs
    assert_eq!(b.simple(1, op::NOP, 0), Ok(0));
    let unused = op::TABLE.iter().map(|c| c.value).max().unwrap() + 1;
    assert!(unused < 31);
    for bad in [unused, 31, 32, 33, 34, 46, 200, 255] {
        assert_eq!(b.simple(1, bad, 0), Err(errno::EOPNOTSUPP));
    }
    assert_eq!(b.pd(8), Err(errno::EPERM));
    // event queues
    assert_eq!(b.eq(2, 0x1234_5000, 3), Err(errno::EINVAL));
    assert_eq!(b.eq(2, 0x1234_5000, 17), Err(errno::EINVAL));
    assert_eq!(b.eq(2, 0x1234_5800, 4), Err(errno::EINVAL));
    assert_eq!(b.eq(2, 0x1000_0000_1234_5000, 4), Err(errno::EINVAL));
    b.take();
    assert_eq!(b.eq(2, 0xFED_CBA9_8765_4000, 16), Ok(0));
    assert!(b.take().contains(&Did::EqCtl(2, 0xFEDC_BA98_7654, 16)));
    assert_eq!(b.eq(2, 0x1000, 4), Err(errno::EBUSY));
    assert_eq!(b.eq(3, 0x1000, 4), Ok(0));
    assert!(b.take().contains(&Did::EqCtl(3, 1, 4)));
    // PDs: all of them, each once
    let pds: Vec<u64> = (0..PDS).map(|i| b.pd(1 + i as u64 % 2).unwrap()).collect();
    assert_eq!(pds.iter().collect::<HashSet<_>>().len(), PDS);
    assert_eq!(b.pd(1), Err(errno::ENOMEM));
    assert_eq!(b.simple(2, op::DEALLOC_PD, pds[0]), Err(errno::ENOENT));
    assert_eq!(
        b.simple(1, op::DEALLOC_PD, pds[0] + PDS as u64),
        Err(errno::ENOENT)
    );
    assert_eq!(
        b.simple(1, op::DEALLOC_PD, pds[0] | 1 << 31),
        Err(errno::ENOENT)
    );
    assert_eq!(b.simple(1, op::DEALLOC_PD, pds[0]), Ok(0));
    assert_eq!(b.simple(1, op::DEALLOC_PD, pds[0]), Err(errno::ENOENT));
    assert_eq!(b.pd(3), Ok(pds[0]));
    // CQs
    assert_eq!(b.cq(1, 0x7000, 3), Err(errno::EINVAL));
    assert_eq!(b.cq(1, 0x7000, 17), Err(errno::EINVAL));
    assert_eq!(b.cq(1, 0x7040, 5), Err(errno::EINVAL));
    assert_eq!(b.cq(1, 1 << 60, 5), Err(errno::EINVAL));
    b.take();
    let mut cqs = vec![];
    for i in 0..CQS as u64 {
        let base = b.rng.below(1 << 48);
        let n = b.cq(1 + i % 2, base << 12, 4 + i).unwrap();
        assert!(b.take().contains(&Did::CqCtl(n)));
        let e = b.cqt[n as usize];
        let got = [cqf::valid, cqf::log, cqf::pasid, cqf::base].map(|f: Field| f.get(&e));
        assert_eq!(got, [1, 4 + i, 1 + i % 2, base]);
        cqs.push(n);
    }
    assert_eq!(cqs.iter().collect::<HashSet<_>>().len(), CQS);
    assert_eq!(b.cq(1, 0x7000, 4), Err(errno::ENOMEM));
    assert_eq!(b.simple(2, op::DESTROY_CQ, cqs[0]), Err(errno::ENOENT));
    assert_eq!(b.simple(1, op::DESTROY_CQ, cqs[0] + 8), Err(errno::ENOENT));
    // QPs
    let (pd1, pd2) = (pds[2], pds[1]);
    let q = b.qp_block(pd1, cqs[0], cqs[2]);
    for (f, v, e) in [
        (cmd::create_qp::qp_type, 3, errno::EOPNOTSUPP),
        (cmd::create_qp::sq_log, 3, errno::EINVAL),
        (cmd::create_qp::rq_stride, 3, errno::EINVAL),
        (cmd::create_qp::sq_base, 0x1001, errno::EINVAL),
        (cmd::create_qp::rq_base, 0x1800, errno::EINVAL),
        (cmd::create_qp::rq_base, 1 << 63, errno::EINVAL),
        (cmd::create_qp::pd, pd2, errno::ENOENT),
        (cmd::create_qp::pd, 0xFFF, errno::ENOENT),
        (cmd::create_qp::scq, cqs[1], errno::ENOENT),
        (cmd::create_qp::rcq, cqs[1], errno::ENOENT),
        (cmd::create_qp::rcq, 8, errno::ENOENT),
    ] {
        let mut c = q;
        f.put(&mut c, v);
        let before = b.tables();
        assert_eq!(b.run(1, &c), Err(e), "{} = {v:x}", f.name);
        assert!(before == b.tables());
    }
    let mut qpns = vec![];
    for _ in 0..QPS {
        let c = b.qp_block(pd1, cqs[0], cqs[2]);
        let r = b.run(1, &c).unwrap();
        let qpn = cmd::response::id.get(&r);
        let i = qpn as usize % QPS;
        // QPN 0, 1 and 0xFFFFFF are nobody's
        assert!(qpn >= QPS as u64 && qpn < 0xFF_FFFF);
        use cmd::create_qp as s;
        let mut e = [0u8; 32];
        for (from, to) in [
            (s::sq_log, qp_cfg::sq_log),
            (s::rq_log, qp_cfg::rq_log),
            (s::rq_stride, qp_cfg::rq_stride),
            (s::pd, qp_cfg::pd),
            (s::scq, qp_cfg::scq),
            (s::rcq, qp_cfg::rcq),
        ] {
            to.put(&mut e, from.get(&c));
        }
        qp_cfg::sq_base.put(&mut e, s::sq_base.get(&c) >> 12);
        qp_cfg::rq_base.put(&mut e, s::rq_base.get(&c) >> 12);
        qp_cfg::tag.put(&mut e, qpn >> 4);
        qp_cfg::pasid.put(&mut e, 1);
        assert_eq!(b.cfg[i], e);
        assert_eq!(b.av[i], [0; 64]);
        qpns.push(qpn);
    }
    let indices: HashSet<u64> = qpns.iter().map(|q| q % 16).collect();
    assert_eq!(indices.len(), QPS);
    let tags: HashSet<u64> = qpns.iter().map(|q| q >> 4).collect();
    assert_eq!(tags.len(), QPS);
    assert_eq!(b.qp(1, pd1, cqs[0], cqs[2]), Err(errno::ENOMEM));
    // in use
    assert_eq!(b.simple(1, op::DEALLOC_PD, pd1), Err(errno::EBUSY));
    assert_eq!(b.simple(1, op::DESTROY_CQ, cqs[0]), Err(errno::EBUSY));
    assert_eq!(b.simple(1, op::DESTROY_CQ, cqs[2]), Err(errno::EBUSY));
    // only the owner, and only the whole QPN
    let q0 = qpns[0];
    for (pasid, id) in [
        (2, q0),
        (1, q0 ^ 1 << 4),
        (1, q0 ^ 1 << 19),
        (1, q0 | 1 << 28),
        (1, q0 ^ 1 << 23),
    ] {
        for o in [op::QUERY_QP, op::DESTROY_QP, op::MODIFY_QP] {
            assert_eq!(b.simple(pasid, o, id), Err(errno::ENOENT));
        }
    }
    // destroy: state, fence, reset, free
    b.take();
    assert_eq!(b.simple(1, op::DESTROY_QP, q0), Ok(0));
    let i = q0 % 16;
    let d = b.take();
    let at = |x: &dyn Fn(&Did) -> bool| d.iter().position(x).unwrap_or_else(|| panic!("{d:?}"));
    let order = |blk: usize, o: u64| {
        at(
            &|x| matches!(x, Did::Ctl(b, p, q, _, _) if *b == blk && *p == o && (o == ctl::FENCE || *q == i)),
        )
    };
    let first = at(&|x| *x == Did::Cfg(i as usize));
    let fenced = at(&|x| *x == Did::Fenced);
    for k in [RQR, RSP, RDR] {
        assert!(first < order(k, ctl::FENCE));
        assert!(fenced < order(k, ctl::RESET) && order(k, ctl::FENCE) < order(k, ctl::RESET));
    }
    for k in [SQF, RQF] {
        assert!(order(RSP, ctl::RESET) < order(k, ctl::RESET));
    }
    assert_eq!(b.cfg[i as usize], [0; 32]);
    assert_eq!(b.simple(1, op::DESTROY_QP, q0), Err(errno::ENOENT));
    for q in &qpns[1..] {
        assert_eq!(b.simple(1, op::DESTROY_QP, *q), Ok(0));
    }
    assert_eq!(b.simple(1, op::DESTROY_CQ, cqs[2]), Ok(0));
    assert_eq!(b.cqt[cqs[2] as usize], [0; 16]);
    assert_eq!(b.simple(1, op::DESTROY_CQ, cqs[0]), Ok(0));
    assert_eq!(b.simple(1, op::DEALLOC_PD, pd1), Ok(0));
}

#[test]
fn memory_regions() {
    let mut b = Bench::new(2, 0.7);
    let (pd, other) = (b.pd(4).unwrap(), b.pd(5).unwrap());
    let top = 1u64 << 40;
    for (pd, va, len, shift, list, e) in [
        (pd, 0x1000, 0, 12, 0x40, errno::EINVAL),
        (pd, 0x1000, top + 1, 12, 0x40, errno::EINVAL),
        (pd, 0x1000, u64::MAX, 12, 0x40, errno::EINVAL),
        (pd, 0x1000, 1 << 63, 12, 0x40, errno::EINVAL),
        (pd, u64::MAX, 2, 12, 0x40, errno::EINVAL),
        (pd, u64::MAX - 0xFFFF, 0x10001, 12, 0x40, errno::EINVAL),
        (
            pd,
            0xFFFF_FFFF_0000_0000,
            0x1_0000_0001,
            12,
            0x40,
            errno::EINVAL,
        ),
        (pd, 0x1000, 1, 11, 0x40, errno::EINVAL),
        (pd, 0x1000, 1, 31, 0x40, errno::EINVAL),
        (pd, 0x1000, 1, 63, 0x40, errno::EINVAL),
        (pd, 0x1000, 1, 12, 0x48, errno::EINVAL),
        (pd, 0x1000, 1, 12, 1 << 58, errno::EINVAL),
        (other, 0x1000, 1, 12, 0x40, errno::ENOENT),
        (pd + 8, 0x1000, 1, 12, 0x40, errno::ENOENT),
    ] {
        let before = b.tables();
        assert_eq!(
            b.mr(4, pd, va, len, shift, list, 7),
            Err(e),
            "{va:x} {len:x} {shift} {list:x}"
        );
        assert!(before == b.tables());
    }
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd), Ok(0));
    let pd = b.pd(4).unwrap();
    let mut keys = vec![];
    for k in 0..MRS - 1 {
        let (va, len) = match k {
            0 => (u64::MAX, 1),
            1 => (u64::MAX - 0xFFFF, 0x10000),
            2 => (0, top),
            3 => (u64::MAX - top + 1, top),
            _ => (
                b.rng.next() >> b.rng.below(30) & !0 >> 1,
                1 + b.rng.below(top),
            ),
        };
        let shift = if k < 4 {
            [12, 30, 21, 13][k]
        } else {
            12 + b.rng.below(19)
        };
        let list = b.rng.below(1 << 52) << 6;
        let access = b.rng.below(16);
        b.take();
        let key = b.mr(4, pd, va, len, shift, list, access).unwrap();
        let i = (key >> 8) as usize;
        assert!((1..MRS).contains(&i));
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
        let want = [1, r(0), r(1), r(2), r(3), key & 0xFF, pd, 0, va, len];
        assert_eq!(got.map(|f| f.get(&b.mrc[i])), want);
        use mr_map as m;
        let got = [m::page_shift, m::list, m::va_page, m::pasid].map(|f| f.get(&b.mrm[i]));
        assert_eq!(got, [shift, list >> 6, (va >> shift << shift) >> 12, 4]);
        keys.push(key);
    }
    assert_eq!(
        keys.iter().map(|k| k >> 8).collect::<HashSet<_>>().len(),
        MRS - 1
    );
    assert_eq!(b.mr(4, pd, 0, 1, 12, 0, 0), Err(errno::ENOMEM));
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd), Err(errno::EBUSY));
    let k0 = keys[0];
    for (pasid, key) in [
        (5, k0),
        (4, k0 ^ 1),
        (4, k0 ^ 0x80),
        (4, k0 | 1 << 12),
        (4, k0 | 1 << 31),
        (4, k0 & 0xFF),
        (4, 0),
    ] {
        assert_eq!(
            b.simple(pasid, op::DEREG_MR, key),
            Err(errno::ENOENT),
            "{key:x}"
        );
    }
    b.take();
    let i = (k0 >> 8) as usize;
    assert_eq!(b.simple(4, op::DEREG_MR, k0), Ok(0));
    let d = b.take();
    let at = |x: &dyn Fn(&Did) -> bool| d.iter().position(x).unwrap_or_else(|| panic!("{d:?}"));
    let fence = at(&|x| matches!(x, Did::Ctl(_, ctl::FENCE, ..)));
    let (fenced, flush) = (at(&|x| *x == Did::Fenced), at(&|x| *x == Did::Flush));
    assert!(at(&|x| *x == Did::Mrc(i)) < fence && fence < flush && fenced < flush);
    assert_eq!((b.mrc[i], b.mrm[i]), ([0; 24], [0; 16]));
    for k in &keys[1..] {
        assert_eq!(b.simple(4, op::DEREG_MR, *k), Ok(0));
    }
    assert_eq!(b.simple(4, op::DEALLOC_PD, pd), Ok(0));
    // variants are spread: 60 keys, nearly as many different low bytes
    let pd = b.pd(4).unwrap();
    let mut seen = HashSet::new();
    for _ in 0..60 {
        let key = b.mr(4, pd, 0, 1, 12, 0, 0).unwrap();
        assert_eq!(b.simple(4, op::DEREG_MR, key), Ok(0));
        seen.insert(key & 0xFF);
    }
    println!("{} variants in 60 keys", seen.len());
    assert!(seen.len() > 40);
    // another seed, other keys
    let mut b2 = Bench::new(3, 0.7);
    let pd = b2.pd(4).unwrap();
    let others: Vec<_> = (0..8)
        .map(|_| b2.mr(4, pd, 0, 1, 12, 0, 0).unwrap() & 0xFF)
        .collect();
    assert_ne!(
        others,
        keys[..8].iter().map(|k| k & 0xFF).collect::<Vec<_>>()
    );
}

#[test]
fn blocks_that_cannot_be_read() {
    let mut b = Bench::new(4, 0.5);
    for addr in [0x1001, 0x1020, 0x103F, 0x7000, 0x7FC0] {
        b.dbs.push_back((1, addr));
        b.settle();
        assert_eq!(b.take(), [Did::Refused], "{addr:x}");
    }
    // the second half is not there
    b.mem.insert((1, 0x7FC0), [0; 64]);
    b.dbs.push_back((1, 0x7FC0));
    b.settle();
    assert_eq!(b.take(), [Did::Refused]);
    // the block may cross a page, and commands of many pages wait in order
    let c = b.block(op::NOP, 0);
    assert!(b.run_at(1, 0xFFC0, &c).is_ok());
    let from = b.did.len();
    for pasid in 1..8u64 {
        let c = b.block(op::ALLOC_PD, 0);
        b.mem.insert((pasid, 0x4000), c[..64].try_into().unwrap());
        b.mem.insert((pasid, 0x4040), c[64..].try_into().unwrap());
        b.dbs.push_back((pasid, 0x4000));
    }
    b.settle();
    let order: Vec<_> = b.did[from..]
        .iter()
        .filter(|d| matches!(d, Did::Answer(..)))
        .cloned()
        .collect();
    assert_eq!(
        order,
        (1..8).map(|p| Did::Answer(p, 0x4080)).collect::<Vec<_>>()
    );
}

/// A PASID with PD, CQ, GIDs 0 (IPv6), 1 (IPv4).
fn ready(b: &mut Bench) -> (u64, u64) {
    assert_eq!(b.gid(1, 0, true, MAC, GID6), Err(errno::EPERM));
    b.gid(0, 0, true, MAC, GID6).unwrap();
    b.gid(0, 1, false, MAC, GID4).unwrap();
    (b.pd(1).unwrap(), b.cq(1, 0x8000, 8).unwrap())
}

/// A MODIFY_QP block with legal values in every field.
fn modify_block(b: &mut Bench, qpn: u64, next: u64, cur: u64, mask: u32) -> [u8; 128] {
    use cmd::modify_qp as f;
    let mut c = b.block(op::MODIFY_QP, qpn);
    f::mask.put(&mut c, mask as u64);
    f::next_state.put(&mut c, next);
    f::cur_state.put(&mut c, cur);
    f::mtu.put(&mut c, 1 + b.rng.below(5));
    f::max_rd.put(&mut c, b.rng.below(MAX_RD + 1));
    f::max_dest_rd.put(&mut c, b.rng.below(MAX_RD + 1));
    f::port.put(&mut c, 1);
    f::pkey_index.put(&mut c, 0);
    let six = b.rng.below(2);
    f::sgid_index.put(&mut c, 1 - six);
    f::qkey.put(&mut c, b.rng.below(1 << 32));
    f::ip6.put(&mut c, six);
    c
}

/// What a MODIFY_QP makes of the entries, written down apart from the card's move list.
fn apply(cfg: &mut [u8; 32], a: &mut [u8; 64], c: &[u8; 128]) {
    use cmd::modify_qp as f;
    let mask = f::mask.get(c);
    let has = |bit: u32| mask >> bit & 1 == 1;
    if has(0) {
        qp_cfg::state.put(cfg, f::next_state.get(c));
    }
    if has(3) {
        qp_cfg::acc_write.put(cfg, f::acc_write.get(c));
        qp_cfg::acc_read.put(cfg, f::acc_read.get(c));
        qp_cfg::acc_atomic.put(cfg, f::acc_atomic.get(c));
    }
    for (bit, s, d) in [
        (8, f::mtu, qp_cfg::mtu),
        (9, f::timeout, qp_cfg::timeout),
        (10, f::retry_cnt, qp_cfg::retry_cnt),
        (11, f::rnr_retry, qp_cfg::rnr_retry),
        (13, f::max_rd, qp_cfg::max_rd),
        (15, f::min_rnr, qp_cfg::min_rnr),
        (17, f::max_dest_rd, qp_cfg::max_dest_rd),
        (20, f::dqpn, qp_cfg::dqpn),
    ] {
        if has(bit) {
            d.put(cfg, s.get(c));
        }
    }
    if has(6) {
        av::qkey.put(a, f::qkey.get(c));
    }
    if has(20) {
        av::dqpn.put(a, f::dqpn.get(c));
    }
    if has(7) {
        qp_cfg::ip6.put(cfg, f::ip6.get(c));
        qp_cfg::vlan.put(cfg, f::has_vlan.get(c));
        for (s, d) in [
            (f::ip6, av::ip6),
            (f::has_vlan, av::has_vlan),
            (f::pcp, av::pcp),
            (f::hop_limit, av::hop_limit),
            (f::tclass, av::tclass),
            (f::vlan, av::vlan),
            (f::sport, av::sport),
            (f::dmac, av::dmac),
            (f::flow_label, av::flow_label),
        ] {
            d.put(a, s.get(c));
        }
        av::smac.put_bytes(a, &MAC);
        av::sip.put_bytes(a, if f::ip6.get(c) == 1 { &GID6 } else { &GID4 });
        let at = f::dip.byte();
        av::dip.put_bytes(a, &c[at..at + 16]);
    }
}

const TO_INIT: u32 = 0x39;
const TO_RTR: u32 = 0x129181;
const TO_RTS: u32 = 0x12E01;

fn go(b: &mut Bench, qpn: u64, next: u8, mask: u32) {
    let c = modify_block(b, qpn, next as u64, 0, mask);
    b.run(1, &c).unwrap();
}

/// Brings a QP in RESET to `state`.
fn bring(b: &mut Bench, qpn: u64, state: u8) {
    if state == qp_state::ERR {
        go(b, qpn, qp_state::INIT, TO_INIT);
        return go(b, qpn, qp_state::ERR, 1);
    }
    if state >= qp_state::INIT {
        go(b, qpn, qp_state::INIT, TO_INIT);
    }
    if state >= qp_state::RTR {
        go(b, qpn, qp_state::RTR, TO_RTR);
    }
    if state >= qp_state::RTS {
        go(b, qpn, qp_state::RTS, TO_RTS);
    }
    if state == qp_state::SQD {
        go(b, qpn, qp_state::SQD, 1);
    }
}

/// Every (current, next) pair, with its required mask and every single bit more or less, against `check_modify`.
fn transitions(state: u8) {
    use metaroce_protocol::qp::{check_modify, transition, QpState, QpType};
    let mut b = Bench::new(50 + state as u64, 0.9);
    let (pd, cq) = ready(&mut b);
    let qpn = b.qp(1, pd, cq, cq).unwrap();
    let i = qpn as usize % QPS;
    let from = QpState::from_code(state).unwrap();
    bring(&mut b, qpn, state);
    let (mut legal, mut illegal) = (0, 0);
    for next in 0..8u8 {
        let to = QpState::from_code(next);
        let row = to.and_then(|to| transition(from, to, QpType::Rc));
        let base = row.map_or(1, |r| r.required | 1);
        let mut masks: Vec<u32> = (0..21).map(|k| base ^ 1 << k).collect();
        masks.push(base);
        masks.push(base | row.map_or(0, |r| r.optional));
        for mask in masks {
            // the right and a wrong assumed state
            for wrong in [false, true] {
                if wrong && mask & 2 == 0 {
                    continue;
                }
                let cur = if wrong { (state + 1) % 8 } else { state };
                let c = modify_block(&mut b, qpn, next as u64, cur as u64, mask);
                let goal = if mask & 1 == 1 { to } else { Some(from) };
                let ok =
                    goal.is_some_and(|g| check_modify(from, g, QpType::Rc, mask).is_ok()) && !wrong;
                let before = b.tables();
                b.take();
                let got = b.run(1, &c).map(|_| ());
                let d = b.take();
                let what = format!("{from:?} to {next}, mask {mask:x}, wrong {wrong}");
                if !ok || mask & (1 << 14 | 1 << 18) != 0 {
                    let e = if ok { errno::EOPNOTSUPP } else { errno::EINVAL };
                    assert_eq!(got, Err(e), "{what}");
                    assert!(before == b.tables(), "{what}");
                    assert!(
                        !d.iter()
                            .any(|x| matches!(x, Did::Ctl(..) | Did::Cfg(_) | Did::Av(_))),
                        "{what}"
                    );
                    illegal += 1;
                    continue;
                }
                assert_eq!(got, Ok(()), "{what}");
                legal += 1;
                let (mut cfg, mut a) = (before.0[i], before.1[i]);
                apply(&mut cfg, &mut a, &c);
                assert_eq!(b.cfg[i], cfg, "{what}");
                assert_eq!(b.av[i], a, "{what}");
                check_orders(&d, i as u64, state, goal.unwrap() as u8, &c, &what);
                if cfg[0] & 7 != state {
                    let c = modify_block(&mut b, qpn, 0, 0, 1);
                    b.run(1, &c).unwrap();
                    bring(&mut b, qpn, state);
                }
            }
        }
    }
    println!("{from:?}: {legal} legal, {illegal} illegal");
    assert!(legal > 0 && illegal > 100);
}

fn check_orders(d: &[Did], qp: u64, from: u8, to: u8, c: &[u8; 128], what: &str) {
    use cmd::modify_qp as f;
    let orders: Vec<(usize, u64, u64)> = d
        .iter()
        .filter_map(|x| match x {
            Did::Ctl(b, o, q, p, s) => {
                assert!((*q == qp || *o == ctl::FENCE) && *s == 0, "{what}");
                Some((*b, *o, if *o == ctl::START { *p } else { 0 }))
            }
            _ => None,
        })
        .collect();
    let set: HashSet<_> = orders.iter().cloned().collect();
    assert_eq!(set.len(), orders.len(), "{what}");
    let want: Vec<(usize, u64, u64)> = match (from, to) {
        (_, qp_state::RESET) => [RQR, RSP, RDR]
            .iter()
            .flat_map(|b| [(*b, ctl::FENCE, 0), (*b, ctl::RESET, 0)])
            .chain([(SQF, ctl::RESET, 0), (RQF, ctl::RESET, 0)])
            .collect(),
        (qp_state::ERR, qp_state::ERR) => vec![],
        (_, qp_state::ERR) => vec![(RQR, ctl::FLUSH, 0), (RSP, ctl::FLUSH, 0)],
        (qp_state::INIT, qp_state::RTR) => vec![(RSP, ctl::START, f::rq_psn.get(c))],
        (qp_state::RTR, qp_state::RTS) => vec![(RQR, ctl::START, f::sq_psn.get(c))],
        (qp_state::RTS | qp_state::SQD, qp_state::RTS) => vec![(RQR, ctl::KICK, 0)],
        _ => vec![],
    };
    assert_eq!(set, want.into_iter().collect(), "{what}");
    // the entry is written before any order
    let cfg = d.iter().position(|x| matches!(x, Did::Cfg(_))).unwrap();
    let first = d.iter().position(|x| matches!(x, Did::Ctl(..)));
    assert!(first.is_none_or(|f| cfg < f), "{what}");
    let fenced = d.iter().position(|x| *x == Did::Fenced);
    let reset = d
        .iter()
        .position(|x| matches!(x, Did::Ctl(_, ctl::RESET, ..)));
    assert_eq!(fenced.is_some(), reset.is_some());
    assert!(fenced <= reset, "{what}");
}

#[test]
fn transitions_of_reset() {
    transitions(qp_state::RESET);
}
#[test]
fn transitions_of_init() {
    transitions(qp_state::INIT);
}
#[test]
fn transitions_of_rtr() {
    transitions(qp_state::RTR);
}
#[test]
fn transitions_of_rts() {
    transitions(qp_state::RTS);
}
#[test]
fn transitions_of_sqd() {
    transitions(qp_state::SQD);
}
#[test]
fn transitions_of_err() {
    transitions(qp_state::ERR);
}

#[test]
fn values_and_query() {
    use cmd::modify_qp as f;
    let mut b = Bench::new(6, 0.8);
    let (pd, cq) = ready(&mut b);
    let qpn = b.qp(1, pd, cq, cq).unwrap();
    let i = qpn as usize % QPS;
    let bad = |b: &mut Bench, next: u8, mask: u32, list: &[(Field, u64)]| {
        for (field, v) in list {
            let mut c = modify_block(b, qpn, next as u64, 0, mask);
            field.put(&mut c, *v);
            let before = b.tables();
            b.take();
            assert_eq!(b.run(1, &c), Err(errno::EINVAL), "{} = {v}", field.name);
            assert!(before == b.tables());
            assert!(!b.take().iter().any(|x| matches!(x, Did::Ctl(..))));
        }
    };
    bad(
        &mut b,
        1,
        TO_INIT,
        &[
            (f::port, 0),
            (f::port, 2),
            (f::port, 255),
            (f::pkey_index, 1),
            (f::pkey_index, 128),
        ],
    );
    go(&mut b, qpn, 1, TO_INIT);
    let list = [
        (f::mtu, 0),
        (f::mtu, 6),
        (f::mtu, 7),
        (f::max_dest_rd, MAX_RD + 1),
        (f::max_dest_rd, 31),
        (f::sgid_index, 2),
        (f::sgid_index, 15),
    ];
    bad(&mut b, 2, TO_RTR, &list);
    // families differ
    for six in 0..2 {
        let mut c = modify_block(&mut b, qpn, 2, 0, TO_RTR);
        f::sgid_index.put(&mut c, six);
        f::ip6.put(&mut c, six);
        assert_eq!(b.run(1, &c), Err(errno::EINVAL));
    }
    // limits that are legal
    let mut c = modify_block(&mut b, qpn, 2, 0, TO_RTR);
    f::max_dest_rd.put(&mut c, MAX_RD);
    let t = b.t;
    b.run(1, &c).unwrap();
    println!("MODIFY_QP to RTR: {} cycles, doorbell to answer", b.t - t);
    bad(
        &mut b,
        3,
        TO_RTS,
        &[(f::max_rd, MAX_RD + 1), (f::max_rd, 31)],
    );
    go(&mut b, qpn, 3, TO_RTS);
    // a GID that is set again is used from then on
    b.gid(0, 1, false, [9; 6], GID4).unwrap();
    go(&mut b, qpn, 4, 1);
    let mut c = modify_block(&mut b, qpn, 4, 0, 1 << 7);
    f::sgid_index.put(&mut c, 1);
    f::ip6.put(&mut c, 0);
    b.run(1, &c).unwrap();
    assert_eq!(&b.av[i][av::smac.byte()..av::smac.byte() + 6], &[9; 6]);
    let c = b.block(op::QUERY_QP, qpn);
    let r = b.run(1, &c).unwrap();
    use cmd::response as a;
    let got = [a::id, a::state, a::sq_psn, a::rq_psn, a::sq_head].map(|x| x.get(&r));
    assert_eq!(got, [qpn, 4, b.rqr.0, b.rsp, b.rqr.1]);
    // the next answer has none of that
    let c = b.block(op::NOP, 0);
    let r = b.run(1, &c).unwrap();
    assert!(r[..56].iter().all(|x| *x == 0) && r[57..60].iter().all(|x| *x == 0));
}

#[test]
fn failed_qps() {
    let mut b = Bench::new(7, 0.7);
    let (pd, cq) = ready(&mut b);
    for kind in 0..7u64 {
        for state in [0, 1, 2, 3, 4, 6] {
            let qpn = b.qp(1, pd, cq, cq).unwrap();
            let i = qpn % 16;
            bring(&mut b, qpn, state);
            let mut cfg = b.cfg[i as usize];
            b.take();
            b.errs.push_back((i, kind));
            b.settle();
            b.step();
            let d = b.take();
            if state == 0 || state == 6 {
                assert_eq!(d, [], "kind {kind}, state {state}");
            } else {
                qp_cfg::state.put(&mut cfg, 6);
                assert_eq!(b.cfg[i as usize], cfg);
                let status = if kind == 3 || kind == 6 { 4 } else { 0 };
                let mut want = vec![Did::Cfg(i as usize)];
                let flush = |k: usize, s: u64| move |x: &Did| matches!(x, Did::Ctl(b, ctl::FLUSH, q, _, t) if *b == k && *q == i && *t == s);
                assert_eq!(d.iter().filter(|x| flush(RQR, status)(x)).count(), 1);
                assert_eq!(d.iter().filter(|x| flush(RSP, 0)(x)).count(), 1);
                let e = match kind {
                    1 => Some(event::QP_REQ_ERR),
                    2 => Some(event::QP_ACCESS_ERR),
                    5 | 6 => Some(event::QP_FATAL),
                    _ => None,
                };
                want.extend(e.map(|e| Did::Event(1, e as u64, qpn)));
                want.push(Did::QpError);
                let rest: Vec<Did> = d
                    .into_iter()
                    .filter(|x| !matches!(x, Did::Ctl(..)))
                    .collect();
                assert_eq!(rest, want);
                // after RESET the next error counts again, and FLUSH by command has no status
            }
            assert_eq!(b.simple(1, op::DESTROY_QP, qpn), Ok(0));
        }
    }
    // while the blocks hold an order, errors are taken all the same, one per QP is kept
    let qpns: Vec<u64> = (0..6).map(|_| b.qp(1, pd, cq, cq).unwrap()).collect();
    for q in &qpns {
        bring(&mut b, *q, 3);
    }
    b.take();
    b.stall = true;
    for round in 0..40 {
        b.errs.push_back((qpns[round % 6] % 16, 1));
    }
    b.err_longest = 0;
    for _ in 0..1000 {
        b.step();
    }
    assert!(b.errs.is_empty() && b.err_longest <= 4, "{}", b.err_longest);
    let c = b.block(op::NOP, 0);
    b.stall = false;
    b.run(1, &c).unwrap();
    let d = b.take();
    assert_eq!(d.iter().filter(|x| matches!(x, Did::Event(..))).count(), 6);
    assert_eq!(d.iter().filter(|x| **x == Did::QpError).count(), 6);
    assert!(
        d.iter().rposition(|x| *x == Did::QpError)
            < d.iter().position(|x| matches!(x, Did::Answer(..)))
    );
    // an error of a QP that does not exist
    b.errs.push_back((0, 1));
    b.errs.push_back((15, 5));
    b.settle();
    assert!(!b.take().contains(&Did::Cfg(0)));
}

#[test]
fn teardown() {
    let mut b = Bench::new(8, 0.8);
    let (pd, cq) = ready(&mut b);
    b.eq(1, 0x1000, 4).unwrap();
    b.eq(3, 0x2000, 5).unwrap();
    let (pd3, cq3) = (b.pd(3).unwrap(), b.cq(3, 0x9000, 4).unwrap());
    let mut mine = vec![];
    let (mut q3, mut k3) = (vec![], vec![]);
    for n in 0..4 {
        let q = b.qp(1, pd, cq, cq).unwrap();
        bring(&mut b, q, [0, 1, 3, 6][n]);
        mine.push(q % 16);
        q3.push(b.qp(3, pd3, cq3, cq3).unwrap());
        b.mr(1, pd, 0, 5, 12, 0, 15).unwrap();
        k3.push(b.mr(3, pd3, 0, 5, 12, 0, 15).unwrap());
    }
    assert_eq!(b.simple(1, op::TEARDOWN, 1), Err(errno::EPERM));
    assert_eq!(b.simple(1, op::TEARDOWN, 3), Err(errno::EPERM));
    assert_eq!(b.simple(0, op::TEARDOWN, 1 | 1 << 12), Err(errno::ENOENT));
    let before = b.tables();
    b.take();
    assert_eq!(b.simple(0, op::TEARDOWN, 1), Ok(0));
    let d = b.take();
    let fence = d
        .iter()
        .position(|x| matches!(x, Did::Ctl(_, ctl::FENCE, ..)))
        .unwrap();
    let fenced = d.iter().position(|x| *x == Did::Fenced).unwrap();
    let reset = d
        .iter()
        .position(|x| matches!(x, Did::Ctl(_, ctl::RESET, ..)))
        .unwrap();
    assert_eq!(d.iter().filter(|x| **x == Did::Fenced).count(), 1);
    assert!(fenced < reset);
    assert_eq!(
        d[..fence]
            .iter()
            .filter(|x| matches!(x, Did::Mrc(_)))
            .count(),
        4
    );
    for q in &mine {
        assert!(d[..fence].contains(&Did::Cfg(*q as usize)));
        for k in [RQR, RSP, RDR, SQF, RQF] {
            assert_eq!(
                d.iter()
                    .filter(|x| matches!(x, Did::Ctl(b, ctl::RESET, i, ..) if *b == k && i == q))
                    .count(),
                1
            );
        }
    }
    assert!(d.contains(&Did::EqCtl(1, 0, 0)) && d.contains(&Did::Flush));
    assert!(!d.iter().any(|x| matches!(x, Did::EqCtl(3, ..))));
    // everything of 1 is zero, everything of 3 is as it was
    let after = b.tables();
    for i in 0..QPS {
        let gone = mine.contains(&(i as u64));
        assert_eq!(after.0[i], if gone { [0; 32] } else { before.0[i] });
        assert_eq!(after.1[i], if gone { [0; 64] } else { before.1[i] });
    }
    for i in 0..MRS {
        let gone = mr_map::pasid.get(&before.3[i]) == 1;
        assert_eq!(after.2[i], if gone { [0; 24] } else { before.2[i] });
        assert_eq!(after.3[i], if gone { [0; 16] } else { before.3[i] });
    }
    assert_eq!(after.4[cq as usize], [0; 16]);
    assert_eq!(after.4[cq3 as usize], before.4[cq3 as usize]);
    assert_eq!(b.simple(1, op::DEALLOC_PD, pd), Err(errno::ENOENT));
    assert_eq!(b.eq(1, 0x1000, 4), Ok(0));
    assert_eq!(b.eq(3, 0x1000, 4), Err(errno::EBUSY));
    // nothing is left to tear down, and 3's objects still come apart in order
    assert_eq!(b.simple(0, op::TEARDOWN, 5), Ok(0));
    assert_eq!(b.simple(3, op::DEALLOC_PD, pd3), Err(errno::EBUSY));
    for q in q3 {
        assert_eq!(b.simple(3, op::DESTROY_QP, q), Ok(0));
    }
    assert_eq!(b.simple(3, op::DEALLOC_PD, pd3), Err(errno::EBUSY));
    for k in k3 {
        assert_eq!(b.simple(3, op::DEREG_MR, k), Ok(0));
    }
    assert_eq!(b.simple(3, op::DEALLOC_PD, pd3), Ok(0));
    assert_eq!(b.simple(3, op::DESTROY_CQ, cq3), Ok(0));
}

/// A process gets no more of a kind than its limit, others are not touched by that, and what goes, also by TEARDOWN, may come again.
#[test]
fn limits_of_a_process() {
    let mut b = Bench::new(9, 0.9);
    b.limits = 3 | 2 << 16 | 2 << 32 | 1 << 48;
    let mut keys = vec![];
    for round in 0..2 {
        for p in [1, 3] {
            b.eq(p, 0x1000, 4).unwrap();
            let pd = b.pd(p).unwrap();
            assert_eq!(b.pd(p), Err(errno::ENOMEM));
            let cq = b.cq(p, 0x9000, 4).unwrap();
            let other = b.cq(p, 0xA000, 4).unwrap();
            assert_eq!(b.cq(p, 0xB000, 4), Err(errno::ENOMEM));
            let q = b.qp(p, pd, cq, cq).unwrap();
            b.qp(p, pd, cq, other).unwrap();
            let before = b.tables();
            assert_eq!(b.qp(p, pd, cq, cq), Err(errno::ENOMEM));
            assert!(before == b.tables());
            for _ in 0..3 {
                keys.push(b.mr(p, pd, 0, 5, 12, 0, 15).unwrap());
            }
            assert_eq!(b.mr(p, pd, 0, 5, 12, 0, 15), Err(errno::ENOMEM));
            // a changed MR is no new one
            let c = b.rereg_block(keys[0], pd, 0x7000, 1 << 20, 12, 0x80, 5);
            if round == 0 && p == 1 {
                b.run(p, &c).unwrap();
            }
            // one goes, one may come
            assert_eq!(b.simple(p, op::DEREG_MR, keys[keys.len() - 1]), Ok(0));
            b.mr(p, pd, 0, 5, 12, 0, 15).unwrap();
            assert_eq!(b.mr(p, pd, 0, 5, 12, 0, 15), Err(errno::ENOMEM));
            assert_eq!(b.simple(p, op::DESTROY_QP, q), Ok(0));
            b.qp(p, pd, cq, cq).unwrap();
            assert_eq!(b.qp(p, pd, cq, cq), Err(errno::ENOMEM));
        }
        for p in [1, 3] {
            assert_eq!(b.simple(0, op::TEARDOWN, p), Ok(0));
        }
    }
}

/// The bench's inputs, once more through rust-hdl and Verilator.
fn replay(name: &str, trace: Vec<Vec<(&'static str, BigUint)>>) {
    let n = trace.len();
    Diff::new(name, S::default, all_inputs!(inputs))
        .cycles(n)
        .stim(move |s| {
            for (k, v) in &trace[s.cycle] {
                s.set(k, v.clone());
            }
        })
        .run();
}

/// A life of a few objects, with errors and a teardown.
#[test]
fn diff_life() {
    let mut b = Bench::with(9, 0.6, true);
    let (pd, cq) = ready(&mut b);
    let qpn = b.qp(1, pd, cq, cq).unwrap();
    bring(&mut b, qpn, 4);
    go(&mut b, qpn, 3, 1);
    let key = b.mr(1, pd, 0x12345, 99, 13, 0x40, 15).unwrap();
    b.simple(1, op::QUERY_QP, qpn).unwrap();
    b.link = Some(true);
    b.settle();
    b.busy = true;
    go(
        &mut b,
        qpn,
        4,
        metaroce_protocol::qp::attr::STATE | metaroce_protocol::qp::attr::EN_SQD_ASYNC_NOTIFY,
    );
    b.settle();
    b.busy = false;
    b.freed = Some(qpn % 16);
    b.settle();
    b.errs.push_back((qpn % 16, 2));
    b.settle();
    let c = b.rereg_block(key, pd, 0x7000, 1 << 20, 12, 0x80, 5);
    b.run(1, &c).unwrap();
    b.resize(1, cq, 0x7_0000, 9).unwrap();
    b.simple(1, op::DEREG_MR, key).unwrap();
    let srqn = b.srq(1, pd).unwrap();
    let shared = b.qp_of_srq(1, pd, cq, srqn).unwrap();
    b.limit = Some(srqn % 16);
    b.settle();
    bring(&mut b, shared, 6);
    b.simple(1, op::DESTROY_QP, shared).unwrap();
    b.errs.push_back((srqn % 16, 1));
    b.settle();
    b.eq(1, 0x1000, 4).unwrap();
    b.mr(1, pd, 0x12345, 99, 13, 0x40, 15).unwrap();
    b.simple(0, op::TEARDOWN, 1).unwrap();
    let trace = b.trace.take().unwrap();
    replay("sequencer_life", trace);
}

/// Random commands of a few pages, answers remembered, with loose neighbours.
#[test]
fn diff_random() {
    let mut b = Bench::with(10, 0.7, true);
    b.gid(0, 0, true, MAC, GID6).unwrap();
    b.gid(0, 1, false, MAC, GID4).unwrap();
    let mut ids = vec![];
    let (mut ok, mut refused) = (0, 0);
    while b.t < 12_000 {
        let c = cmds::random(&mut b.rng, &ids);
        let pasid = b.rng.below(3);
        match b.run(pasid, &c) {
            Ok(r) => {
                ids.push(cmd::response::id.get(&r));
                ok += 1;
            }
            Err(_) => refused += 1,
        }
        if b.rng.p(0.1) {
            let e = (b.rng.below(16), b.rng.below(6));
            b.errs.push_back(e);
        }
        if b.rng.p(0.1) {
            b.limit = Some(b.rng.below(16));
        }
    }
    println!("{ok} commands done, {refused} refused");
    assert!(ok > 10);
    let trace = b.trace.take().unwrap();
    replay("sequencer_random", trace);
}

/// Loose stimulus for other parameters: blocks come when they are asked for, orders and tokens are answered at random.
fn loose(s: &mut Stim, due: &mut u32) {
    let boot = s.cycle < 2;
    s.set("rst", boot as u8);
    for x in [
        "rd_ready",
        "wr_ready",
        "ev_ready",
        "rqr_ctl_ready",
        "rsp_ctl_ready",
        "rdr_ctl_ready",
        "sqf_ctl_ready",
        "rqf_ctl_ready",
        "win_done",
    ] {
        s.set(x, 1u8);
    }
    let page = s.rng.below(3) | (s.rng.p(0.02) as u64) << 11;
    let addr = s.rng.below(1 << 20) << 6;
    s.set(
        "cmddb_data",
        BigUint::from(page) | BigUint::from(addr) << 12,
    );
    if !boot && s.out_u64("rd_valid") == 1 {
        let len = s.out("rd_data") >> (12 + 64u32) & BigUint::from(0x1FFFu32);
        *due = if len == BigUint::from(128u32) { 2 } else { 1 };
    }
    let go = *due > 0;
    s.set("fill_valid", go as u8);
    let c = cmds::random(s.rng, &[1, 2, 3, 4]);
    let half = if *due == 2 { &c[..64] } else { &c[64..] };
    s.set(
        "fill_data",
        BigUint::from_bytes_le(half) | BigUint::from(0xE0u32) << 512,
    );
    *due = due.saturating_sub(1);
}

/// `sim-100g` with half of its MRs: the sweep after a reset takes as long as the largest table. Commands come in `diff_life` and `diff_random`; in the
/// cycles behind the sweep here none has been seen to be read.
#[test]
fn diff_sim_100g() {
    type S = Sequencer<512, 11, 12, 10, 8, 6, 12, 16>;
    let mut due = 0;
    Diff::new("sequencer_sim_100g", S::default, all_inputs!(inputs))
        .cycles(6500)
        .p("tx_fence", 0.2)
        .p("pl_fence", 0.3)
        .p("err_valid", 0.02)
        .stim(move |s| loose(s, &mut due))
        .run();
}

#[test]
fn diff_ecp5_1g() {
    let mut due = 0;
    Diff::new("sequencer_ecp5_1g", Ecp51g::default, all_inputs!(inputs))
        .cycles(4000)
        .p("tx_fence", 0.2)
        .p("pl_fence", 0.3)
        .p("err_valid", 0.02)
        .stim(move |s| loose(s, &mut due))
        .run();
}
