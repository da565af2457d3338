//! Queue pairs, regions and processes that come and go, at rest and under traffic; rings, events.

mod common;

use common::{
    cover,
    log::{event, pair, quiet, take},
};
use metaroce_hdl_spec::{cmd, wqe::op};
use metaroce_protocol::qp::{check_modify, QpState, QpType};
use metaroce_tb::{
    pair::{Pair, ALL_ACCESS},
    rng::Rng,
    script::{mask, Conn, Host, Wr},
    sim::admin_command,
};

const SUCCESS: u8 = 0;
const FLUSH: u8 = 5;
const REM_ACCESS: u8 = 10;
const RTS: u8 = 3;
const ERR: u8 = 6;
const LEN: u64 = 1 << 16;

fn fast() -> Conn {
    Conn {
        mtu: 3,
        timeout: 8,
        ..Conn::default()
    }
}

/// One WRITE of `len` random bytes over QP `q`, checked.
fn one_write(p: &mut Pair, rng: &mut Rng, q: usize, len: u32) {
    let data = rng.bytes(len as usize);
    p.fill(0, 100, &data);
    let wr = p.rdma(0, op::WRITE, 100, 3000, len);
    let i = p.post(0, q, &wr);
    assert_eq!(take(p, 0, 1), [(i, SUCCESS, false)]);
    p.run(400);
    assert!(p.read(1, 3000, len as usize) == data, "QP {q}");
}

#[test]
fn flush_in_order() {
    let (mut p, _) = pair(0, LEN, &fast());
    let q = p.add(&fast(), 6, 4);
    p.sim.fabric.drop_if = Some(Box::new(|_, _| true));
    for k in 0..16 {
        let wr = p.rdma(0, if k % 3 == 0 { op::READ } else { op::WRITE }, 0, 0, 2000);
        assert_eq!(p.post(0, q, &wr), k);
        assert_eq!(p.recv(0, q, &[]), k);
    }
    p.run(1000);
    p.to_state(0, q, ERR as u64);
    let all = take(&mut p, 0, 32);
    for recv in [false, true] {
        let got: Vec<_> = all.iter().filter(|c| c.2 == recv).copied().collect();
        let want: Vec<_> = (0..16).map(|k| (k, FLUSH, recv)).collect();
        assert_eq!(got, want);
    }
    // What is posted in ERR is flushed as well, signaled or not.
    let wr = Wr {
        signaled: false,
        ..p.rdma(0, op::WRITE, 0, 0, 8)
    };
    assert_eq!(p.post(0, q, &wr), 16);
    assert_eq!(take(&mut p, 0, 1), [(16, FLUSH, false)]);
    assert_eq!(p.recv(0, q, &[]), 16);
    assert_eq!(take(&mut p, 0, 1), [(16, FLUSH, true)]);
    quiet(&mut p);
    cover::finish("lifecycle", &mut p);
}

/// RESET with work in flight, and the same QPs again with other PSNs.
#[test]
fn reset_and_reuse() {
    let (mut p, _) = pair(0, LEN, &fast());
    let mut rng = Rng::new(5);
    let q = p.add(&fast(), 6, 4);
    for round in 0..6u32 {
        one_write(&mut p, &mut rng, q, 5000);
        for e in 0..2 {
            for _ in 0..8 {
                let wr = p.rdma(
                    e,
                    if e == 0 { op::WRITE } else { op::READ },
                    0,
                    20_000,
                    9000,
                );
                p.post(e, q, &wr);
                p.recv(e, q, &[]);
            }
        }
        p.run(300 * round);
        if round % 2 == 1 {
            p.to_state(1, q, ERR as u64);
        }
        for e in 0..2 {
            p.to_state(e, q, 0);
            assert_eq!(p.state(e, q), 0);
        }
        // Completions from before the RESET answered may be there, none comes after it.
        while p.poll(0).is_some() || p.poll(1).is_some() {}
        quiet(&mut p);
        let c = Conn {
            psn: rng.below(1 << 24) as u32,
            ..fast()
        };
        p.connect(q, &c);
    }
    one_write(&mut p, &mut rng, q, 1000);
    cover::finish("lifecycle", &mut p);
}

/// Keeps `n` WRITEs of 4 KiB from end 0 in flight on QP `q`.
fn flood(p: &mut Pair, q: usize, n: usize, rkey: u32) {
    for _ in 0..n {
        let wr = Wr {
            rkey,
            ..p.rdma(0, op::WRITE, 0, 0, 16_384)
        };
        p.post(0, q, &wr);
    }
    p.run(4000);
}

/// Fills both buffers, and checks that nothing writes to `e` any more.
fn nobody_writes(p: &mut Pair, e: usize) {
    let mark = vec![0xA5; LEN as usize];
    p.fill(e, 0, &mark);
    let writes = p.sim.nodes[e].host.stats.payload_bytes;
    p.run(30_000);
    assert!(p.read(e, 0, LEN as usize) == mark, "DMA after the answer");
    assert_eq!(p.sim.nodes[e].host.stats.payload_bytes, writes);
}

#[test]
fn dereg_mr_under_traffic() {
    let (mut p, _) = pair(0, LEN, &fast());
    let r = &mut p.ends[1];
    let key = r
        .host
        .reg_mr(&mut p.sim, r.pd, r.buf, LEN, ALL_ACCESS)
        .expect("REG_MR");
    let q = p.add(&fast(), 8, 4);
    flood(&mut p, q, 40, key);
    assert!(p.sim.nodes[1].host.stats.payload_bytes > 10_000);
    let r = &mut p.ends[1];
    r.host
        .command(&mut p.sim, cmd::op::DEREG_MR, key, |_| {})
        .expect("DEREG_MR");
    nobody_writes(&mut p, 1);
    let all = take(&mut p, 0, 40);
    let bad = all
        .iter()
        .position(|c| c.1 != SUCCESS)
        .expect("one is refused");
    assert_eq!(all[bad].1, REM_ACCESS);
    assert!(all[bad + 1..].iter().all(|c| c.1 == FLUSH));
    assert_eq!(p.state(1, q), ERR);
    cover::finish("lifecycle", &mut p);
}

#[test]
fn dereg_source_mr_under_traffic() {
    let (mut p, _) = pair(0, LEN, &fast());
    let l = &mut p.ends[0];
    let key = l
        .host
        .reg_mr(&mut p.sim, l.pd, l.buf, LEN, ALL_ACCESS)
        .expect("REG_MR");
    let q = p.add(&fast(), 8, 4);
    for _ in 0..40 {
        let mut wr = p.rdma(0, op::WRITE, 0, 0, 16_384);
        wr.sges[0].2 = key;
        p.post(0, q, &wr);
    }
    p.run(4000);
    let l = &mut p.ends[0];
    l.host
        .command(&mut p.sim, cmd::op::DEREG_MR, key, |_| {})
        .expect("DEREG_MR");
    let all = take(&mut p, 0, 40);
    let bad = all
        .iter()
        .position(|c| c.1 != SUCCESS)
        .expect("one is refused");
    assert_eq!(all[bad].1, 4, "LOC_PROT");
    assert!(all[bad + 1..].iter().all(|c| c.1 == FLUSH));
    cover::finish("lifecycle", &mut p);
}

#[test]
fn destroy_qp_under_traffic() {
    let (mut p, _) = pair(0, LEN, &fast());
    let mut rng = Rng::new(7);
    for e in [1, 0] {
        // The responder's QP is destroyed, then (another one) the requester's.
        let q = p.add(&fast(), 8, 4);
        let key = p.ends[1].key;
        flood(&mut p, q, 40, key);
        let end = &mut p.ends[e];
        let qpn = end.qps[q].qpn;
        end.host
            .command(&mut p.sim, cmd::op::DESTROY_QP, qpn, |_| {})
            .expect("DESTROY_QP");
        if e == 0 {
            // Nothing completes after the answer, and what is on the wire still arrives.
            while p.poll(0).is_some() {}
            quiet(&mut p);
        }
        nobody_writes(&mut p, 1);
        let end = &mut p.ends[e];
        let r = end.host.command(&mut p.sim, cmd::op::QUERY_QP, qpn, |_| {});
        assert_eq!(r.map(|_| ()), Err(2), "ENOENT");
        if e == 1 {
            let all = take(&mut p, 0, 40);
            let bad = all.iter().position(|c| c.1 != SUCCESS).expect("no answer");
            assert_eq!(all[bad].1, 12, "RETRY_EXC");
        }
        // Another pair of QPs works.
        let q = p.add(&fast(), 4, 4);
        one_write(&mut p, &mut rng, q, 3000);
    }
    cover::finish("lifecycle", &mut p);
}

/// READ responses under way when the requester's QP, then the responder's, goes.
#[test]
fn destroy_under_reads() {
    let (mut p, _) = pair(0, LEN, &fast());
    for e in [0, 1] {
        let q = p.add(&fast(), 8, 4);
        for _ in 0..12 {
            let wr = p.rdma(0, op::READ, 0, 0, 65_000);
            p.post(0, q, &wr);
        }
        p.run(4000);
        let end = &mut p.ends[e];
        let qpn = end.qps[q].qpn;
        end.host
            .command(&mut p.sim, cmd::op::DESTROY_QP, qpn, |_| {})
            .expect("DESTROY_QP");
        if e == 0 {
            while p.poll(0).is_some() {}
            quiet(&mut p);
            nobody_writes(&mut p, 0);
        } else {
            let all = take(&mut p, 0, 12);
            assert!(all.iter().any(|c| c.1 == 12), "RETRY_EXC: {all:?}");
        }
    }
    cover::finish("lifecycle", &mut p);
}

/// Every pair of states with required, missing, and forbidden attributes; a refused modify changes nothing.
#[test]
fn every_transition() {
    let (mut p, _) = pair(0, LEN, &fast());
    // Ways into each state from RESET.
    let ways: [(QpState, &[u8]); 6] = [
        (QpState::Reset, &[]),
        (QpState::Init, &[1]),
        (QpState::Rtr, &[1, 2]),
        (QpState::Rts, &[1, 2, 3]),
        (QpState::Sqd, &[1, 2, 3, 4]),
        (QpState::Err, &[1, 6]),
    ];
    let e = &mut p.ends[0];
    let sim = &mut p.sim;
    let qpn = e.host.create_qp(sim, e.pd, &e.cq, &e.cq, 4, 4).qpn;
    fn modify(
        h: &mut Host,
        sim: &mut metaroce_tb::sim::Sim,
        qpn: u32,
        to: u8,
        m: u64,
    ) -> Result<(), u8> {
        use cmd::modify_qp as f;
        let set = [
            (f::next_state, to as u64),
            (f::port, 1),
            (f::mtu, 3),
            (f::dqpn, 77),
            (f::max_dest_rd, 16),
            (f::max_rd, 16),
            (f::min_rnr, 12),
            (f::sgid_index, 1),
            (f::timeout, 14),
            (f::hop_limit, 64),
            (f::sport, 0xC000),
        ];
        h.modify(sim, qpn, m, &set)
    }
    let full = |s: u8| match s {
        1 => mask::TO_INIT,
        2 => mask::TO_RTR,
        3 => mask::TO_RTS,
        _ => mask::STATE,
    };
    let query = |h: &mut Host, sim: &mut metaroce_tb::sim::Sim| {
        h.command(sim, cmd::op::QUERY_QP, qpn, |_| {})
            .expect("QUERY_QP")[..32]
            .to_vec()
    };
    let (mut legal, mut refused) = (0, 0);
    for (from, way) in ways {
        let mut at = None;
        for to in QpState::ALL {
            let t = metaroce_protocol::qp::transition(from, to, QpType::Rc);
            let req = t.map_or(full(to as u8) as u32 & !1, |t| t.required);
            let mut masks = vec![req];
            // Each required attribute missing, and each other attribute added.
            for bit in 1..21 {
                masks.push(req ^ (1 << bit));
            }
            for m in masks {
                // CUR_STATE needs a field of its own; the card does not do alternate paths or resizing.
                if m & (1 << 1 | 1 << 14 | 1 << 18 | 1 << 19) != 0 {
                    continue;
                }
                let m = m | 1;
                // After a refused modify the QP is where it was, so the next follows at once.
                let before = match at.take() {
                    Some(b) => b,
                    None => {
                        modify(&mut e.host, sim, qpn, 0, 1).expect("to RESET");
                        for s in way {
                            modify(&mut e.host, sim, qpn, *s, full(*s)).expect("way");
                        }
                        query(&mut e.host, sim)
                    }
                };
                assert_eq!(before[4], from as u8);
                let want = check_modify(from, to, QpType::Rc, m);
                let got = modify(&mut e.host, sim, qpn, to as u8, m as u64);
                let what = format!("{from:?} to {to:?}, mask {m:#x}: model {want:?}, card {got:?}");
                let after = query(&mut e.host, sim);
                match want {
                    Ok(()) => {
                        assert_eq!(got, Ok(()), "{what}");
                        assert_eq!(after[4], to as u8, "{what}");
                        legal += 1;
                        cover::add("transition", &format!("{from:?} -> {to:?}"), 1);
                    }
                    Err(_) => {
                        assert_eq!(got, Err(22), "{what}");
                        assert_eq!(after, before, "{what}");
                        at = Some(after);
                        refused += 1;
                        cover::add("refused transition", &format!("{from:?} -> {to:?}"), 1);
                    }
                }
            }
        }
    }
    println!("{legal} modifies taken, {refused} refused");
    cover::finish("lifecycle", &mut p);
}

/// A process dies in the middle of traffic: all that it owned goes, others are not disturbed.
#[test]
fn teardown_under_traffic() {
    let (mut p, _) = pair(0, LEN, &fast());
    let mut rng = Rng::new(9);
    let mine = p.add(&fast(), 8, 4);
    // A second process on card 1, and a QP of card 0 connected to it.
    let mut other = Host::new(&mut p.sim, 1, 2);
    let pd = other.alloc_pd(&mut p.sim);
    let cq = other.create_cq(&mut p.sim, 6);
    let buf = other.alloc(LEN, 4096);
    let key = other
        .reg_mr(&mut p.sim, pd, buf, LEN, ALL_ACCESS)
        .expect("REG_MR");
    let oqp = other.create_qp(&mut p.sim, pd, &cq, &cq, 4, 4);
    let l = &mut p.ends[0];
    let lqp = l.host.create_qp(&mut p.sim, l.pd, &l.cq, &l.cq, 8, 4);
    l.host.connect(&mut p.sim, &lqp, 1, oqp.qpn, &fast());
    other.connect(&mut p.sim, &oqp, 0, lqp.qpn, &fast());
    l.qps.push(lqp);
    let theirs = l.qps.len() - 1;
    for _ in 0..40 {
        let mut wr = p.rdma(0, op::WRITE, 0, 0, 16_384);
        (wr.remote_va, wr.rkey) = (buf, key);
        p.post(0, theirs, &wr);
    }
    p.run(5000);
    let refuse = other.command(&mut p.sim, cmd::op::TEARDOWN, 1, |_| {});
    assert_eq!(
        refuse.map(|_| ()),
        Err(1),
        "EPERM: the administrator's command"
    );
    let mut c = [0u8; cmd::CMD_BYTES];
    let r = admin_command(&mut p.sim.nodes[1], cmd::op::TEARDOWN, 2, &mut c);
    assert_eq!(r, 0);
    // Card 1 ran alone: let the other catch up.
    let t = p.sim.nodes[1].now_ps;
    while p.sim.nodes[0].now_ps < t {
        p.sim.nodes[0].step();
    }
    let mark = vec![0x5A; LEN as usize];
    p.sim.mem(1).poke(2, buf, &mark);
    p.run(30_000);
    assert!(
        p.sim.mem(1).peek_vec(2, buf, LEN as usize) == mark,
        "DMA after the answer"
    );
    let all = take(&mut p, 0, 40);
    let bad = all.iter().position(|c| c.1 != SUCCESS).expect("no answer");
    assert_eq!(all[bad].1, 12, "RETRY_EXC");
    // The first process works on, and the PASID can be used again.
    one_write(&mut p, &mut rng, mine, 4000);
    let mut again = Host::new(&mut p.sim, 1, 2);
    again.alloc_pd(&mut p.sim);
    cover::finish("lifecycle", &mut p);
}

/// The smallest send ring, 16 units, many times around, with work requests of one and two units; the
/// PSN wraps on the way.
#[test]
fn rings_and_psn_wrap() {
    let c = Conn {
        psn: 0xFF_FFF0,
        ..fast()
    };
    let (mut p, _) = pair(0, LEN, &c);
    let q = p.add(&c, 4, 2);
    let mut rng = Rng::new(3);
    let (buf, key) = (p.ends[1].buf, p.ends[1].key);
    for round in 0..40u64 {
        let data = rng.bytes(1500);
        p.fill(0, 0, &data);
        let mut posted = vec![];
        for k in 0..3u64 {
            p.recv(1, q, &[(buf + 2000 * k, 1500, key)]);
            let mut wr = p.send(0, 0, 1500, Some(round as u32));
            if (round + k) % 2 == 0 {
                // Four SGEs: two units.
                let (b, lk) = (p.ends[0].buf, p.ends[0].key);
                wr.sges = vec![
                    (b, 1, lk),
                    (b + 1, 1000, lk),
                    (b + 1001, 3, lk),
                    (b + 1004, 496, lk),
                ];
            }
            p.run(2000);
            posted.push((p.post(0, q, &wr), SUCCESS, false));
        }
        assert_eq!(take(&mut p, 0, 3), posted);
        let first = (round * 3) as u16;
        let want: Vec<_> = (first..first + 3).map(|k| (k, SUCCESS, true)).collect();
        assert_eq!(take(&mut p, 1, 3), want);
        for k in 0..3 {
            assert!(p.read(1, 2000 * k, 1500) == data, "round {round}");
        }
    }
    cover::finish("lifecycle", &mut p);
}

/// A CQ of 16 entries that nobody polls: CQ_ERR, and nothing is overwritten.
#[test]
fn cq_overflow() {
    let (mut p, _) = pair(0, LEN, &fast());
    let l = &mut p.ends[0];
    let cq = l.host.create_cq(&mut p.sim, 4);
    let big = std::mem::replace(&mut l.cq, cq);
    let q = p.add(&fast(), 8, 4);
    for _ in 0..40 {
        let wr = p.rdma(0, op::WRITE, 0, 0, 8);
        p.post(0, q, &wr);
    }
    let id = p.ends[0].cq.id;
    assert_eq!(event(&mut p, 0), (2, id), "CQ_ERR");
    let before = {
        let a = p.ends[0].cq.base;
        p.sim.mem(0).peek_vec(1, a, 16 * 64)
    };
    p.run(20_000);
    let a = p.ends[0].cq.base;
    assert!(p.sim.mem(0).peek_vec(1, a, 16 * 64) == before);
    println!("QP in state {} after the overflow", p.state(0, q));
    // The first 16 completions are there, in order.
    for k in 0..16u16 {
        let c = p.poll(0).expect("completion");
        assert_eq!((c.index, c.status), (k, SUCCESS));
    }
    assert_eq!(p.poll(0), None);
    p.ends[0].cq = big;
    cover::finish("lifecycle", &mut p);
}

/// Completion events: next, solicited, at once when one is there already; one interrupt each.
#[test]
fn completion_events() {
    let (mut p, _) = pair(0, LEN, &fast());
    let q = p.add(&fast(), 6, 6);
    let id = p.ends[1].cq.id;
    let (buf, key) = (p.ends[1].buf, p.ends[1].key);
    let arm = |p: &mut Pair, how: u64| {
        let e = &p.ends[1];
        e.host.cq_doorbell(&mut p.sim, &e.cq, how);
        p.run(200);
    };
    let send = |p: &mut Pair, solicited: bool| {
        p.recv(1, q, &[(buf, 64, key)]);
        p.run(3000);
        let wr = Wr {
            solicited,
            ..p.send(0, 0, 64, None)
        };
        p.post(0, q, &wr);
        assert_eq!(take(p, 0, 1)[0].1, SUCCESS);
        p.run(2000);
    };
    let none = |p: &mut Pair| {
        p.run(2000);
        assert_eq!(p.ends[1].host.poll_event(&mut p.sim), None);
    };
    let msi = |p: &mut Pair| p.sim.mem(1).interrupts.get(&1).copied().unwrap_or(0);
    // Not armed.
    send(&mut p, true);
    none(&mut p);
    assert_eq!(msi(&mut p), 0);
    assert_eq!(take(&mut p, 1, 1)[0].1, SUCCESS);
    // Armed for the next.
    arm(&mut p, 1);
    none(&mut p);
    send(&mut p, false);
    assert_eq!(event(&mut p, 1), (1, id));
    assert_eq!(msi(&mut p), 1);
    // One arming, one event.
    send(&mut p, false);
    none(&mut p);
    // Armed with completions that were not taken: at once.
    arm(&mut p, 1);
    assert_eq!(event(&mut p, 1), (1, id));
    take(&mut p, 1, 2);
    // Armed for solicited: others do not count.
    arm(&mut p, 2);
    send(&mut p, false);
    none(&mut p);
    send(&mut p, true);
    assert_eq!(event(&mut p, 1), (1, id));
    take(&mut p, 1, 2);
    assert_eq!(msi(&mut p), 3);
    // An error counts as solicited.
    arm(&mut p, 2);
    p.recv(1, q, &[]);
    p.to_state(1, q, ERR as u64);
    assert_eq!(event(&mut p, 1), (1, id));
    assert_eq!(take(&mut p, 1, 1)[0].1, FLUSH);
    // the interrupt follows the entry by some cycles
    p.run(200);
    assert_eq!(msi(&mut p), 4);
    assert_eq!(p.state(0, q), RTS);
    cover::finish("lifecycle", &mut p);
}
