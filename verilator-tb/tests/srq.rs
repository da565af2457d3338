//! Whole cards: shared receive queues.
//!
//! Shows: `shared_receive_queues`.

mod common;

use common::{
    cover,
    log::{event, quiet, take},
};
use metaroce_hdl_spec::{
    cmd::{self, errno, op as command},
    cqe::event as kind,
    regs::{doorbell, Ctr, PAGE},
    table::qp_type,
    wqe::op,
};
use metaroce_tb::{
    fabric::Faults,
    node::MmioWrite,
    pair::Pair,
    rng::Rng,
    script::{mask, Conn, UdDest, Wr},
    sim::SimConfig,
    srq::Srq,
};
use std::collections::{HashMap, VecDeque};

const SUCCESS: u8 = 0;
const WR_FLUSH: u8 = 5;
const RNR_RETRY_EXC: u8 = 13;
const RESET: u64 = 0;
const ERR: u64 = 6;
const LEN: u64 = 1 << 20;

/// A pair whose end 1 has `qps` QPs on one SRQ of `2^log` units, `2^stride` an entry.
fn shared(cfg: &SimConfig, qps: usize, log: u32, stride: u32, conn: &Conn) -> (Pair, Srq) {
    let mut p = Pair::new(cfg, 0, LEN, conn);
    let end = &mut p.ends[1];
    let srq = end.host.create_srq(&mut p.sim, end.pd, log, stride);
    for k in 0..qps {
        add(&mut p, &srq, k, conn);
    }
    (p, srq)
}

fn add(p: &mut Pair, srq: &Srq, k: usize, conn: &Conn) {
    let Pair { sim, ends } = p;
    let [a, b] = ends;
    let qp = a.host.create_qp(sim, a.pd, &a.cq, &a.cq, 10, 8);
    a.qps.push(qp);
    let qp = b.host.create_qp_srq(sim, b.pd, &b.cq, srq);
    b.qps.push(qp);
    p.connect(k, conn);
}

/// Posts entries of one SGE of `len` bytes; entry `n` is at `n * len`.
fn post(p: &mut Pair, srq: &mut Srq, numbers: impl IntoIterator<Item = u16>, len: u32) {
    let end = &p.ends[1];
    for n in numbers {
        let sge = (end.buf + n as u64 * len as u64, len, end.key);
        end.host.post_srq(&mut p.sim, srq, n, &[sge]);
    }
    end.host.ring_srq(&mut p.sim, srq);
}

fn no_event(p: &mut Pair, e: usize) {
    p.run(3000);
    assert_eq!(p.ends[e].host.poll_event(&mut p.sim), None, "end {e}");
}

/// Numbers below `limit` that no entry has, in the order in which they became free, and what was posted under the others.
struct Numbers {
    free: VecDeque<u16>,
    posted: HashMap<u16, Vec<(u64, u32, u32)>>,
}

/// Four QPs, one SRQ, a wire that loses, doubles and reorders: every message arrives whole, in the order of its QP, in an entry of its own, and no
/// entry is used twice or lost.
fn under_faults(stride: u32, seed: u64) {
    let faults = Faults {
        loss_ppm: 20_000,
        duplicate_ppm: 20_000,
        reorder_ppm: 20_000,
        corrupt_ppm: 0,
    };
    let conn = Conn {
        mtu: 1,
        timeout: 6,
        min_rnr: 1,
        ..Conn::default()
    };
    let cfg = SimConfig::pair(faults, seed);
    const QPS: usize = 4;
    let (mut p, mut srq) = shared(&cfg, QPS, 4 + stride, stride, &conn);
    let mut rng = Rng::new(seed);
    println!("stride {stride}, seed {seed}");
    let most = 4usize << stride;
    // room for 2048 bytes behind each number; a number is far from an index of the ring
    let mut numbers = Numbers {
        free: (0..256).map(|n| n * 257).collect(),
        posted: HashMap::new(),
    };
    let place = |n: u16| 0x4_0000 + (n as u64 / 257) * 2048;
    let mut sent: Vec<VecDeque<(Vec<u8>, Option<u32>)>> = vec![VecDeque::new(); QPS];
    let (mut out, mut done, mut got) = (0, 0, 0);
    const MESSAGES: usize = 120;
    while got < MESSAGES || done < MESSAGES {
        while numbers.posted.len() < 16 && rng.below(3) != 0 {
            let n = numbers.free.pop_front().unwrap();
            let end = &p.ends[1];
            let mut at = end.buf + place(n);
            // 2048 bytes in up to 4 << stride pieces, some of them empty
            let pieces = 1 + rng.below(most as u64) as usize;
            let mut sges = vec![];
            let mut left = 2048u32;
            for k in 0..pieces {
                let len = if k + 1 == pieces {
                    left
                } else {
                    rng.below(left as u64 / 3 + 1) as u32
                };
                sges.push((at, len, end.key));
                at += len as u64;
                left -= len;
            }
            end.host.post_srq(&mut p.sim, &mut srq, n, &sges);
            numbers.posted.insert(n, sges);
            end.host.ring_srq(&mut p.sim, &srq);
        }
        let q = rng.below(QPS as u64) as usize;
        if out < MESSAGES && sent[q].len() < 4 {
            let len = [0, 1, 255, 256, 257, 1000, 2048][rng.below(7) as usize];
            let data = rng.bytes(len);
            // a buffer for each: it must stay until the message is acknowledged
            let lo = out as u64 * 2048;
            p.fill(0, lo, &data);
            let imm = (rng.below(2) == 0).then_some(out as u32);
            let wr = p.send(0, lo, len as u32, imm);
            p.post(0, q, &wr);
            sent[q].push_back((data, imm));
            out += 1;
        }
        p.run(40);
        while let Some(c) = p.poll(0) {
            assert_eq!(c.status, SUCCESS);
            done += 1;
        }
        while let Some(c) = p.poll(1) {
            assert_eq!((c.status, c.is_recv), (SUCCESS, true));
            let q = p.ends[1].qps.iter().position(|q| q.qpn == c.qpn).unwrap();
            let (data, imm) = sent[q].pop_front().expect("a message too many");
            assert_eq!((c.length as usize, c.imm), (data.len(), imm));
            let n = c.index;
            assert!(numbers.posted.remove(&n).is_some(), "entry {n} twice");
            assert!(p.read(1, place(n), data.len()) == data, "entry {n}");
            numbers.free.push_back(n);
            got += 1;
        }
    }
    assert_eq!((out, done, got), (MESSAGES, MESSAGES, MESSAGES));
    let end = &mut p.ends[1];
    assert_eq!(end.host.poll_event(&mut p.sim), None);
    // what is left is still there, and nothing else
    let left = numbers.posted.len() as u64;
    end.host.arm_srq(&mut p.sim, &srq, left);
    no_event(&mut p, 1);
    let end = &mut p.ends[1];
    assert_eq!(end.host.srq_limit(&mut p.sim, &srq), left);
    end.host.arm_srq(&mut p.sim, &srq, left + 1);
    assert_eq!(event(&mut p, 1), (kind::SRQ_LIMIT, srq.srqn));
    cover::finish("srq", &mut p);
}

#[test]
fn shared_under_loss_duplication_and_reordering() {
    under_faults(0, 1);
}

#[test]
fn shared_with_16_sges() {
    under_faults(2, 2);
}

/// An empty SRQ is RNR; what is posted later serves whoever asks first; WRITE with immediate takes an entry, a WRITE does not.
#[test]
fn empty() {
    let conn = Conn {
        min_rnr: 1,
        ..Conn::default()
    };
    let (mut p, mut srq) = shared(&SimConfig::default(), 2, 4, 0, &conn);
    p.fill(0, 0, b"first");
    let wr = p.send(0, 0, 5, None);
    let i = p.post(0, 1, &wr);
    p.run(20_000);
    assert_eq!((p.poll(0), p.poll(1)), (None, None));
    assert!(p.sim.nodes[0].counter(Ctr::rx_rnr_naks) > 1);
    post(&mut p, &mut srq, [0xBEEF], 4);
    let end = &p.ends[1];
    let sge = (end.buf + 0x8000, 64, end.key);
    end.host.post_srq(&mut p.sim, &mut srq, 7, &[sge]);
    end.host.ring_srq(&mut p.sim, &srq);
    // 4 bytes are too few: that entry is used up, and the QP is dead
    assert_eq!(take(&mut p, 1, 1), [(0xBEEF, 1, true)]);
    assert_eq!(take(&mut p, 0, 1), [(i, 9, false)]);
    let qpn = p.ends[1].qps[1].qpn;
    assert_eq!(event(&mut p, 1), (kind::LAST_WQE, qpn));
    assert_eq!(event(&mut p, 1), (kind::QP_REQ_ERR, qpn));
    let wr = p.rdma(0, op::WRITE, 0, 0x100, 5);
    let i = p.post(0, 0, &wr);
    assert_eq!(take(&mut p, 0, 1), [(i, SUCCESS, false)]);
    let wr = Wr {
        imm: 5,
        ..p.rdma(0, op::WRITE_IMM, 0, 0x200, 5)
    };
    let i = p.post(0, 0, &wr);
    assert_eq!(take(&mut p, 1, 1), [(7, SUCCESS, true)]);
    assert_eq!(take(&mut p, 0, 1), [(i, SUCCESS, false)]);
    assert_eq!(p.read(1, 0x200, 5), b"first");
    // and there is none left
    let conn = Conn {
        rnr_retry: 2,
        min_rnr: 1,
        ..Conn::default()
    };
    add(&mut p, &srq, 2, &conn);
    let wr = p.send(0, 0, 5, None);
    let i = p.post(0, 2, &wr);
    assert_eq!(take(&mut p, 0, 1), [(i, RNR_RETRY_EXC, false)]);
    quiet(&mut p);
    cover::finish("srq", &mut p);
}

/// D4: SRQ_LIMIT comes once, when fewer are posted than the limit, and never without a new MODIFY_SRQ.
#[test]
fn limit() {
    let (mut p, mut srq) = shared(&SimConfig::default(), 2, 5, 0, &Conn::default());
    let here = (kind::SRQ_LIMIT, srq.srqn);
    let limit = |p: &mut Pair, srq: &Srq| {
        let end = &mut p.ends[1];
        end.host.srq_limit(&mut p.sim, srq)
    };
    let arm = |p: &mut Pair, srq: &Srq, n: u64| {
        let end = &mut p.ends[1];
        end.host.arm_srq(&mut p.sim, srq, n);
    };
    let send = |p: &mut Pair, n: usize| {
        for k in 0..n {
            let wr = p.send(0, 0, 5, None);
            p.post(0, k % 2, &wr);
        }
        let c = take(p, 1, n);
        assert!(c.iter().all(|c| c.1 == SUCCESS && c.2));
        take(p, 0, n);
    };
    // not at creation, and not when the first are posted
    post(&mut p, &mut srq, 0..16, 64);
    no_event(&mut p, 1);
    assert_eq!(limit(&mut p, &srq), 0);
    arm(&mut p, &srq, 8);
    send(&mut p, 8);
    no_event(&mut p, 1);
    assert_eq!(limit(&mut p, &srq), 8);
    send(&mut p, 1);
    assert_eq!(event(&mut p, 1), here);
    assert_eq!(limit(&mut p, &srq), 0, "disarmed");
    send(&mut p, 3);
    no_event(&mut p, 1);
    // posting more, and falling below again, is nothing new
    post(&mut p, &mut srq, 0..10, 64);
    send(&mut p, 10);
    no_event(&mut p, 1);
    // armed below: at once, and once
    arm(&mut p, &srq, 5);
    assert_eq!(event(&mut p, 1), here);
    send(&mut p, 1);
    no_event(&mut p, 1);
    // exactly the limit is not below it; 0 takes it back
    arm(&mut p, &srq, 3);
    no_event(&mut p, 1);
    arm(&mut p, &srq, 0);
    send(&mut p, 2);
    no_event(&mut p, 1);
    quiet(&mut p);
    cover::finish("srq", &mut p);
}

/// Sends three packets of which only the first arrives: QP `q` of end 1 holds an entry.
fn hold(p: &mut Pair, q: usize) {
    let wr = p.send(0, 0, 3000, None);
    let mut n = 0;
    p.sim.fabric.drop_if = Some(Box::new(move |from, _| {
        n += (from == 0) as u32;
        from == 0 && n > 1
    }));
    p.post(0, q, &wr);
    p.run(4000);
}

/// A QP that ends in the middle of a message: in ERR its entry is flushed, and then comes LAST_WQE; in RESET and with the QP its number is the answer.
/// The other QP goes on. An SRQ that is in use stays.
#[test]
fn a_qp_that_holds_a_receive_goes() {
    let conn = Conn {
        mtu: 3,
        timeout: 0,
        ..Conn::default()
    };
    let (mut p, mut srq) = shared(&SimConfig::default(), 4, 5, 0, &conn);
    let held = |r: &[u8]| cmd::response::rq_psn.get(r);
    let other = |p: &mut Pair, n: u16| {
        p.sim.fabric.drop_if = None;
        let wr = p.send(0, 0, 3000, None);
        p.post(0, 3, &wr);
        assert_eq!(take(p, 1, 1), [(n, SUCCESS, true)]);
        take(p, 0, 1);
    };
    post(&mut p, &mut srq, 20..28, 4096);
    // ERR by order
    hold(&mut p, 0);
    p.to_state(1, 0, ERR);
    assert_eq!(take(&mut p, 1, 1), [(20, WR_FLUSH, true)]);
    let qpn = p.ends[1].qps[0].qpn;
    assert_eq!(event(&mut p, 1), (kind::LAST_WQE, qpn));
    other(&mut p, 21);
    // RESET
    hold(&mut p, 1);
    let end = &mut p.ends[1];
    let set = [(cmd::modify_qp::next_state, RESET)];
    let r = end
        .host
        .command(&mut p.sim, command::MODIFY_QP, end.qps[1].qpn, |c| {
            cmd::modify_qp::mask.put(c, mask::STATE);
            set[0].0.put(c, set[0].1);
        })
        .expect("to RESET");
    assert_eq!(held(&r), 1 << 16 | 22);
    other(&mut p, 23);
    // DESTROY_QP
    hold(&mut p, 2);
    let destroy = |p: &mut Pair, q: usize| {
        let end = &mut p.ends[1];
        end.host
            .command(&mut p.sim, command::DESTROY_QP, end.qps[q].qpn, |_| {})
    };
    let gone = |p: &mut Pair| {
        let end = &mut p.ends[1];
        end.host
            .command(&mut p.sim, command::DESTROY_SRQ, srq.srqn, |_| {})
            .map(|_| ())
    };
    let r = destroy(&mut p, 2).expect("DESTROY_QP");
    assert_eq!(held(&r), 1 << 16 | 24);
    other(&mut p, 25);
    assert_eq!(gone(&mut p), Err(errno::EBUSY));
    for q in [0, 1] {
        assert_eq!(held(&destroy(&mut p, q).expect("DESTROY_QP")), 0);
        assert_eq!(gone(&mut p), Err(errno::EBUSY));
    }
    other(&mut p, 26);
    assert_eq!(held(&destroy(&mut p, 3).expect("DESTROY_QP")), 0);
    // events of QPs that were not in ERR: none
    no_event(&mut p, 1);
    assert_eq!(gone(&mut p), Ok(()));
    assert_eq!(gone(&mut p), Err(errno::ENOENT));
    cover::finish("srq", &mut p);
}

/// Datagrams of two QPs in entries of one SRQ; none posted: dropped.
#[test]
fn datagrams() {
    let conn = Conn {
        qp_type: qp_type::UD,
        ..Conn::default()
    };
    let (mut p, mut srq) = shared(&SimConfig::default(), 2, 5, 1, &conn);
    let mut rng = Rng::new(3);
    let datagram = |p: &Pair, q: usize, len: u32| {
        let to = &p.sim.ids[1];
        Wr {
            ud: Some(UdDest {
                qpn: p.ends[1].qps[q].qpn,
                qkey: conn.qkey,
                mac: to.mac,
                gid: to.gids()[1],
                sgid: 1,
            }),
            ..p.send(0, 0, len, None)
        }
    };
    let w = datagram(&p, 0, 100);
    p.post(0, 0, &w);
    take(&mut p, 0, 1);
    p.run(3000);
    for k in 0..12u16 {
        let n = 0xFF00 | k;
        let len = [0, 1, 1000, 4096][rng.below(4) as usize];
        let q = rng.below(2) as usize;
        let data = rng.bytes(len);
        p.fill(0, 0, &data);
        p.fill(1, 0, &[0; 5000]);
        // the header area, then five pieces and the rest: two units
        let end = &p.ends[1];
        let mut sges = vec![(end.buf, 40, end.key)];
        sges.extend((0..5).map(|k| (end.buf + 40 + 100 * k, 100, end.key)));
        sges.push((end.buf + 540, 3596, end.key));
        end.host.post_srq(&mut p.sim, &mut srq, n, &sges);
        end.host.ring_srq(&mut p.sim, &srq);
        let w = datagram(&p, q, len as u32);
        p.post(0, 1 - q, &w);
        take(&mut p, 0, 1);
        let c = p.wait(1, 100_000);
        assert_eq!((c.status, c.index, c.length), (0, n, 40 + len as u32));
        assert_eq!(c.qpn, p.ends[1].qps[q].qpn);
        assert_eq!(c.grh, Some(p.ends[0].qps[1 - q].qpn));
        assert!(p.read(1, 40, len) == data, "{len} bytes");
    }
    quiet(&mut p);
    cover::finish("srq", &mut p);
}

/// A producer index beyond what the ring of an SRQ holds: SRQ_ERR, once; what was posted before it is used, and nothing else.
#[test]
fn wrong_producer_index() {
    let conn = Conn {
        rnr_retry: 1,
        min_rnr: 1,
        ..Conn::default()
    };
    let (mut p, mut srq) = shared(&SimConfig::default(), 1, 5, 0, &conn);
    post(&mut p, &mut srq, 0..2, 64);
    p.run(3000);
    let pasid = p.ends[1].host.pasid as u32;
    for index in [2 + 33u64, 65_000] {
        let v = srq.srqn as u64 | index << 32;
        p.sim.nodes[1]
            .mmio
            .push_back(MmioWrite::u64(pasid * PAGE + doorbell::RQ, v));
    }
    assert_eq!(event(&mut p, 1), (kind::SRQ_ERR, srq.srqn));
    let wr = p.send(0, 0, 5, None);
    for n in 0..2 {
        let i = p.post(0, 0, &wr);
        assert_eq!(take(&mut p, 1, 1), [(n, SUCCESS, true)]);
        assert_eq!(take(&mut p, 0, 1), [(i, SUCCESS, false)]);
    }
    post(&mut p, &mut srq, 2..4, 64);
    let i = p.post(0, 0, &wr);
    assert_eq!(take(&mut p, 0, 1), [(i, RNR_RETRY_EXC, false)]);
    no_event(&mut p, 1);
    quiet(&mut p);
    cover::finish("srq", &mut p);
}

/// A ring that can't be read: SRQ_ERR; its QPs find it empty, and the rest of the card goes on. Doorbells of the wrong queue are refused.
#[test]
fn rings_that_are_not_there() {
    let conn = Conn {
        rnr_retry: 1,
        min_rnr: 1,
        ..Conn::default()
    };
    let (mut p, mut srq) = shared(&SimConfig::default(), 1, 5, 0, &conn);
    p.add(&conn, 10, 8);
    let refused = p.sim.nodes[1].counter(Ctr::db_refused);
    let (qpn, pasid) = (p.ends[1].qps[0].qpn, p.ends[1].host.pasid as u32);
    for (at, id) in [(doorbell::SQ, srq.srqn), (doorbell::RQ, qpn)] {
        let v = id as u64 | 1 << 32;
        p.sim.nodes[1]
            .mmio
            .push_back(MmioWrite::u64(pasid * PAGE + at, v));
    }
    p.run(500);
    assert_eq!(p.sim.nodes[1].counter(Ctr::db_refused), refused + 2);
    p.sim.mem(1).holes = vec![(pasid as u16, srq.base, 4096)];
    post(&mut p, &mut srq, 0..3, 64);
    assert_eq!(event(&mut p, 1), (kind::SRQ_ERR, srq.srqn));
    p.sim.mem(1).holes = vec![];
    post(&mut p, &mut srq, 3..5, 64);
    let wr = p.send(0, 0, 5, None);
    let i = p.post(0, 0, &wr);
    assert_eq!(take(&mut p, 0, 1), [(i, RNR_RETRY_EXC, false)]);
    let end = &p.ends[1];
    let sge = (end.buf, 64, end.key);
    let n = p.recv(1, 1, &[sge]);
    let i = p.post(0, 1, &wr);
    assert_eq!(take(&mut p, 1, 1), [(n, SUCCESS, true)]);
    assert_eq!(take(&mut p, 0, 1), [(i, SUCCESS, false)]);
    no_event(&mut p, 1);
    quiet(&mut p);
    cover::finish("srq", &mut p);
}
