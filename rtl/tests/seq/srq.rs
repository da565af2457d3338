//! Shared receive queues: objects, users, limit, and the events of SRQs and of QPs that have one.

use super::{Bench, Did, QPS, RDR, RQF, RQR, RSP, SQF};
use crate::{bring, go, ready};
use metaroce_hdl_spec::cmd::{self, errno, op};
use metaroce_hdl_spec::cqe::event;
use metaroce_hdl_spec::table::qp_cfg as d;
use metaroce_rtl::types::ctl;

fn orders(did: &[Did]) -> Vec<(usize, u64, u64)> {
    did.iter()
        .filter_map(|x| match x {
            Did::Ctl(b, o, q, ..) => Some((*b, *o, *q)),
            _ => None,
        })
        .collect()
}

fn events(did: &[Did]) -> Vec<(u64, u64, u64)> {
    did.iter()
        .filter_map(|x| match x {
            Did::Event(p, k, id) => Some((*p, *k, *id)),
            _ => None,
        })
        .collect()
}

#[test]
fn shared_receive_queues() {
    let mut b = Bench::new(21, 0.7);
    let (pd, cq) = ready(&mut b);
    let other = b.pd(2).unwrap();
    // what is refused changes nothing
    for (f, v, e) in [
        (cmd::create_srq::stride, 3, errno::EINVAL),
        (cmd::create_srq::base, 0x1800, errno::EINVAL),
        (cmd::create_srq::base, 1 << 63, errno::EINVAL),
        (cmd::create_srq::pd, other, errno::ENOENT),
    ] {
        let mut c = b.srq_block(pd);
        f.put(&mut c, v);
        let before = b.tables();
        assert_eq!(b.run(1, &c), Err(e), "{} = {v:x}", f.name);
        assert!(before == b.tables());
    }
    let c = b.srq_block(pd);
    let srqn = cmd::response::id.get(&b.run(1, &c).unwrap());
    let i = srqn as usize % QPS;
    use cmd::create_srq as f;
    let mut e = [0u8; 32];
    for (field, v) in [
        (d::state, 1),
        (d::qp_type, 3),
        (d::tag, srqn >> 4),
        (d::pasid, 1),
        (d::pd, pd),
        (d::rq_log, f::log.get(&c)),
        (d::rq_stride, f::stride.get(&c)),
        (d::rq_base, f::base.get(&c) >> 12),
    ] {
        field.put(&mut e, v);
    }
    assert_eq!((b.cfg[i], b.av[i]), (e, [0; 64]));

    // a QP with it: PD and stride are the SRQ's
    let pd2 = b.pd(1).unwrap();
    use cmd::create_qp as q;
    let plain = b.qp(1, pd, cq, cq).unwrap();
    for (field, v, e) in [
        (q::srqn, srqn ^ 1 << 4, errno::ENOENT),
        (q::srqn, plain, errno::ENOENT),
        (q::qp_type, 1, errno::EOPNOTSUPP),
    ] {
        let mut c = b.qp_block(pd, cq, cq);
        q::srq.put(&mut c, 1);
        q::srqn.put(&mut c, srqn);
        field.put(&mut c, v);
        let before = b.tables();
        assert_eq!(b.run(1, &c), Err(e), "{} = {v:x}", field.name);
        assert!(before == b.tables());
    }
    let qpn = b.qp_of_srq(1, pd2, cq, srqn).unwrap();
    let j = qpn as usize % QPS;
    let get = |b: &Bench, f: metaroce_hdl_spec::Field| f.get(&b.cfg[j]);
    assert_eq!((get(&b, d::srq), get(&b, d::srqn)), (1, i as u64));
    assert_eq!(
        (get(&b, d::pd), get(&b, d::rq_stride)),
        (pd, f::stride.get(&c))
    );
    assert_eq!(b.simple(1, op::DEALLOC_PD, pd2), Ok(0));
    let cq2 = b.cq(2, 0x7000, 4).unwrap();
    assert_eq!(
        b.qp_of_srq(2, other, cq2, srqn),
        Err(errno::ENOENT),
        "another's"
    );

    // an SRQ is no QP, and a QP no SRQ
    let before = b.tables();
    for (o, id) in [
        (op::QUERY_QP, srqn),
        (op::DESTROY_QP, srqn),
        (op::MODIFY_SRQ, plain),
        (op::QUERY_SRQ, plain),
        (op::DESTROY_SRQ, plain),
        (op::MODIFY_SRQ, srqn ^ 1 << 4),
        (op::QUERY_SRQ, srqn | 1 << 28),
    ] {
        b.take();
        assert_eq!(b.simple(1, o, id), Err(errno::ENOENT), "{o}");
        assert_eq!(orders(&b.take()), []);
    }
    let mut c = b.block(op::MODIFY_QP, srqn);
    cmd::modify_qp::mask.put(&mut c, 1);
    cmd::modify_qp::next_state.put(&mut c, 6);
    assert_eq!(b.run(1, &c), Err(errno::EINVAL));
    assert!(before == b.tables());

    // limit, and its query
    b.take();
    let mut c = b.block(op::MODIFY_SRQ, srqn);
    cmd::modify_srq::limit.put(&mut c, 0x8123);
    b.run(1, &c).unwrap();
    let want = Did::Ctl(RSP, ctl::LIMIT, i as u64, 0x8123, 0);
    assert!(b.take().contains(&want));
    b.rsp = 0x8123;
    let c = b.block(op::QUERY_SRQ, srqn);
    let r = b.run(1, &c).unwrap();
    assert_eq!(cmd::response::rq_psn.get(&r), 0x8123);
    b.take();
    b.limit = Some(i as u64);
    b.settle();
    let limit = (1, event::SRQ_LIMIT as u64, srqn);
    assert_eq!(events(&b.take()), [limit]);
    // errors do not swallow it
    b.errs.push_back((i as u64, 0));
    b.limit = Some(j as u64);
    b.settle();
    assert_eq!(events(&b.take()), [], "not of a QP");

    // the last receive of a QP that goes to ERR, by order and by error
    assert_eq!(b.cfg[i], {
        d::state.put(&mut e, 6);
        e
    });
    let last = |q: u64| (1, event::LAST_WQE as u64, q);
    bring(&mut b, qpn, 3);
    b.take();
    b.errs.push_back((j as u64, 2));
    b.settle();
    let did = b.take();
    assert_eq!(
        events(&did),
        [last(qpn), (1, event::QP_ACCESS_ERR as u64, qpn)]
    );
    let at = |did: &[Did], x: &dyn Fn(&Did) -> bool| did.iter().position(x).unwrap();
    let fenced = at(&did, &|x| *x == Did::Fenced);
    let flush = at(&did, &|x| matches!(x, Did::Ctl(RSP, ctl::FLUSH, ..)));
    assert!(flush < fenced && fenced < at(&did, &|x| matches!(x, Did::Event(..))));
    let second = b.qp_of_srq(1, pd, cq, srqn).unwrap();
    bring(&mut b, second, 3);
    b.take();
    go(&mut b, second, 6, 1);
    let did = b.take();
    assert_eq!(events(&did), [last(second)]);
    assert!(at(&did, &|x| *x == Did::Fenced) < at(&did, &|x| matches!(x, Did::Event(..))));
    bring(&mut b, plain, 6);
    assert_eq!(events(&b.take()), [], "a QP without one");

    // the held entry is the answer of RESET
    b.rsp = 0x1_4321;
    let mut c = b.block(op::MODIFY_QP, second);
    cmd::modify_qp::mask.put(&mut c, 1);
    cmd::modify_qp::next_state.put(&mut c, 0);
    let r = b.run(1, &c).unwrap();
    assert_eq!(cmd::response::rq_psn.get(&r), 0x1_4321);

    // in use, free, gone
    assert_eq!(b.simple(1, op::DESTROY_SRQ, srqn), Err(errno::EBUSY));
    assert_eq!(b.simple(1, op::DEALLOC_PD, pd), Err(errno::EBUSY));
    let c = b.block(op::DESTROY_QP, second);
    let r = b.run(1, &c).unwrap();
    assert_eq!(cmd::response::rq_psn.get(&r), 0x1_4321);
    assert_eq!(b.simple(1, op::DESTROY_SRQ, srqn), Err(errno::EBUSY));
    assert_eq!(b.simple(1, op::DESTROY_QP, qpn), Ok(0));
    b.take();
    assert_eq!(b.simple(1, op::DESTROY_SRQ, srqn), Ok(0));
    let (rst, i64) = (ctl::RESET, i as u64);
    assert_eq!(orders(&b.take()), [(RSP, rst, i64), (RQF, rst, i64)]);
    assert_eq!((b.cfg[i], b.av[i]), ([0; 32], [0; 64]));
    assert_eq!(b.simple(1, op::QUERY_SRQ, srqn), Err(errno::ENOENT));
    b.take();
    b.limit = Some(i64);
    b.settle();
    assert_eq!(b.take(), []);

    // a ring that can't be read
    let srqn = b.srq(1, pd).unwrap();
    b.take();
    b.errs.push_back((srqn % 16, 1));
    b.settle();
    let did = b.take();
    assert_eq!(events(&did), [(1, event::SRQ_ERR as u64, srqn)]);
    // its owner goes
    b.take();
    assert_eq!(b.simple(0, op::TEARDOWN, 1), Ok(0));
    let did = b.take();
    for k in [RQR, RSP, RDR, SQF, RQF] {
        assert!(orders(&did).contains(&(k, rst, srqn % 16)));
    }
    assert!(b.cfg.iter().all(|c| d::pasid.get(c) != 1));
}
