//! The completion table at the whole card: what each fault gives, at both ends, in order.
//!
//! Shows: `local_ack_timeout`, `rnr_timer`.

mod common;

use common::{
    cover,
    log::{event, pair, quiet, take, Log},
};
use metaroce_hdl_spec::{
    cmd,
    regs::{doorbell, PAGE},
    wqe::{op, sq},
};
use metaroce_protocol::{
    timing::{ack_timeout_ns, rnr_timer_ns},
    NakCode, Syndrome,
};
use metaroce_tb::{
    node::MmioWrite,
    pair::{Pair, ALL_ACCESS},
    script::{Conn, Wr},
};
use std::time::Instant;

const SUCCESS: u8 = 0;
const LOC_LEN: u8 = 1;
const LOC_QP_OP: u8 = 2;
const LOC_PROT: u8 = 4;
const FLUSH: u8 = 5;
const REM_INV_REQ: u8 = 9;
const REM_ACCESS: u8 = 10;
const REM_OP: u8 = 11;
const RETRY_EXC: u8 = 12;
const RNR_EXC: u8 = 13;
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

/// Posts a good WRITE, the bad one, and another good one; three receives wait at each end.
/// Both QPs must end in ERR and everything after the bad one is flushed, in order.
fn refused(p: &mut Pair, log: &Log, q: usize, bad: &Wr, status: u8, code: NakCode, what: &str) {
    println!("{what}");
    log.clear();
    let good = p.rdma(0, op::WRITE, 0, 0, 100);
    for e in 0..2 {
        for _ in 0..3 {
            p.recv(e, q, &[]);
        }
    }
    let before = p.read(1, 0, LEN as usize);
    let i: Vec<u16> = [&good, bad, &good]
        .iter()
        .map(|w| p.post(0, q, w))
        .collect();
    let s = take(p, 0, 6);
    let sends: Vec<_> = s.iter().filter(|x| !x.2).copied().collect();
    let want = [(i[0], SUCCESS), (i[1], status), (i[2], FLUSH)].map(|(a, b)| (a, b, false));
    assert_eq!(sends, want, "{what}");
    let flushed: Vec<_> = (0..3).map(|k| (k, FLUSH, true)).collect();
    let recvs: Vec<_> = s.iter().filter(|x| x.2).copied().collect();
    assert_eq!(recvs, flushed, "{what}: receives of the requester");
    assert_eq!(take(p, 1, 3), flushed, "{what}: receives of the responder");
    assert_eq!((p.state(0, q), p.state(1, q)), (ERR, ERR), "{what}");
    assert_eq!(log.refusals(1), [Syndrome::Nak(code)], "{what}");
    quiet(p);
    let after = p.read(1, 0, LEN as usize);
    assert_eq!(before[100..], after[100..], "{what}: memory changed");
    let kind = if code == NakCode::RemoteAccess { 5 } else { 4 };
    assert_eq!(event(p, 1), (kind, p.ends[1].qps[q].qpn), "{what}: event");
}

#[test]
fn remote_access_refused() {
    let (mut p, log) = pair(0, LEN, &fast());
    let (rbuf, rend) = (p.ends[1].buf, p.ends[1].buf + LEN + 8192);
    let r = &mut p.ends[1];
    let pd2 = r.host.alloc_pd(&mut p.sim);
    let mut mr = |pd, access| {
        r.host
            .reg_mr(&mut p.sim, pd, rbuf, LEN, access)
            .expect("REG_MR")
    };
    let (read_only, write_only) = (mr(r.pd, 4 | 1), mr(r.pd, 2 | 1));
    let other_pd = mr(pd2, ALL_ACCESS);
    let gone = mr(r.pd, ALL_ACCESS);
    r.host
        .command(&mut p.sim, cmd::op::DEREG_MR, gone, |_| {})
        .expect("DEREG_MR");
    let key = r.key;
    // An MR whose end is the last byte but one of the address space would let a sum wrap.
    for (what, o, va, len, k) in [
        (
            "WRITE, variant of the rkey wrong",
            op::WRITE,
            rbuf,
            8,
            key ^ 1,
        ),
        (
            "READ, variant of the rkey wrong",
            op::READ,
            rbuf,
            8,
            key ^ 1,
        ),
        ("WRITE, no such MR", op::WRITE, rbuf, 8, 0xFFF << 8),
        (
            "READ, MR index beyond the table",
            op::READ,
            rbuf,
            8,
            0xFFFF_FF00,
        ),
        ("WRITE, deregistered", op::WRITE, rbuf, 8, gone),
        ("WRITE, other PD", op::WRITE, rbuf, 8, other_pd),
        ("READ, other PD", op::READ, rbuf, 8, other_pd),
        (
            "WRITE, MR without remote write",
            op::WRITE,
            rbuf,
            8,
            read_only,
        ),
        (
            "READ, MR without remote read",
            op::READ,
            rbuf,
            8,
            write_only,
        ),
        (
            "WRITE, one byte beyond the end",
            op::WRITE,
            rend - 7,
            8,
            key,
        ),
        ("READ, one byte beyond the end", op::READ, rend - 7, 8, key),
        (
            "WRITE, one byte before the start",
            op::WRITE,
            rbuf - 1,
            8,
            key,
        ),
        (
            "WRITE of several packets, end beyond",
            op::WRITE,
            rend - 4999,
            5000,
            key,
        ),
        (
            "READ of several packets, end beyond",
            op::READ,
            rend - 4999,
            5000,
            key,
        ),
        ("WRITE, sum wraps", op::WRITE, u64::MAX - 3, 8, key),
        ("READ, sum wraps", op::READ, u64::MAX - 3, 8, key),
        (
            "WRITE, sum wraps to the MR",
            op::WRITE,
            u64::MAX - 99,
            1000,
            key,
        ),
        (
            "WRITE+Imm, variant wrong",
            op::WRITE_IMM,
            rbuf,
            8,
            key ^ 0x80,
        ),
    ] {
        let q = p.add(&fast(), 4, 4);
        let bad = Wr {
            remote_va: va,
            rkey: k,
            ..p.rdma(0, o, 4096, 4096, len)
        };
        refused(
            &mut p,
            &log,
            q,
            &bad,
            REM_ACCESS,
            NakCode::RemoteAccess,
            what,
        );
    }
    // Up to the last byte it is allowed.
    let q = p.add(&fast(), 4, 4);
    for o in [op::WRITE, op::READ] {
        let ok = Wr {
            remote_va: rend - 5000,
            ..p.rdma(0, o, 0, 0, 5000)
        };
        let i = p.post(0, q, &ok);
        assert_eq!(take(&mut p, 0, 1), [(i, SUCCESS, false)]);
    }
    cover::finish("errors", &mut p);
}

/// What the QP, not the MR, refuses: rights of the QP.
#[test]
fn invalid_requests_refused() {
    let (mut p, log) = pair(0, LEN, &fast());
    for (what, o, w, r) in [
        ("WRITE, QP without remote write", op::WRITE, 0, 1),
        ("READ, QP without remote read", op::READ, 1, 0),
    ] {
        let q = p.add(&fast(), 4, 4);
        use cmd::modify_qp as m;
        let set = [(m::next_state, 3), (m::acc_write, 1), (m::acc_read, r)];
        let set = [set[0], (m::acc_write, w), set[2]];
        let end = &mut p.ends[1];
        // The good WRITE before needs the right to write: take it away after that one.
        let qpn = end.qps[q].qpn;
        end.host
            .modify(&mut p.sim, qpn, 9, &set)
            .expect("ACCESS_FLAGS");
        let bad = p.rdma(0, o, 4096, 4096, 8);
        log.clear();
        let i = p.post(0, q, &bad);
        assert_eq!(take(&mut p, 0, 1), [(i, REM_INV_REQ, false)], "{what}");
        assert_eq!(
            log.refusals(1),
            [Syndrome::Nak(NakCode::InvalidRequest)],
            "{what}"
        );
        assert_eq!((p.state(0, q), p.state(1, q)), (ERR, ERR), "{what}");
        assert_eq!(event(&mut p, 1), (4, p.ends[1].qps[q].qpn), "{what}");
    }
    cover::finish("errors", &mut p);
}

/// Faults of the requester's own work request: it alone goes to ERR, the peer sees nothing.
#[test]
fn local_faults() {
    let (mut p, log) = pair(0, LEN, &fast());
    let l = &mut p.ends[0];
    let (buf, key, end) = (l.buf, l.key, l.buf + LEN + 8192);
    let pd2 = l.host.alloc_pd(&mut p.sim);
    let mut mr = |pd, access| {
        l.host
            .reg_mr(&mut p.sim, pd, buf, LEN, access)
            .expect("REG_MR")
    };
    let other_pd = mr(pd2, ALL_ACCESS);
    let no_write = mr(l.pd, 0);
    let s = |va, n, k| vec![(va, n, k)];
    for (what, o, sges, status) in [
        (
            "variant of the lkey wrong",
            op::WRITE,
            s(buf, 8, key ^ 1),
            LOC_PROT,
        ),
        (
            "SEND, variant of the lkey wrong",
            op::SEND,
            s(buf, 8, key ^ 1),
            LOC_PROT,
        ),
        (
            "READ, variant of the lkey wrong",
            op::READ,
            s(buf, 8, key ^ 1),
            LOC_PROT,
        ),
        ("other PD", op::WRITE, s(buf, 8, other_pd), LOC_PROT),
        (
            "READ into an MR without local write",
            op::READ,
            s(buf, 8, no_write),
            LOC_PROT,
        ),
        (
            "one byte beyond the end",
            op::WRITE,
            s(end - 7, 8, key),
            LOC_PROT,
        ),
        (
            "one byte before the start",
            op::WRITE,
            s(buf - 1, 8, key),
            LOC_PROT,
        ),
        ("sum wraps", op::WRITE, s(u64::MAX - 3, 8, key), LOC_PROT),
        (
            "third SGE wrong",
            op::WRITE,
            vec![
                (buf, 2000, key),
                (buf, 10, key),
                (buf, 10, key ^ 2),
                (buf, 10, key),
            ],
            LOC_PROT,
        ),
        (
            "BIND_MW with an SGE",
            op::BIND_MW,
            s(buf, 8, key),
            LOC_QP_OP,
        ),
        ("atomic of 16 bytes", op::CMP_SWAP, s(buf, 16, key), LOC_LEN),
        ("opcode without a meaning", 77, s(buf, 8, key), LOC_QP_OP),
    ] {
        println!("{what}");
        let q = p.add(&fast(), 6, 4);
        log.clear();
        let good = p.rdma(0, op::WRITE, 0, 0, 100);
        let bad = Wr {
            sges,
            ..p.rdma(0, o, 0, 4096, 8)
        };
        let i: Vec<u16> = [&good, &bad, &good]
            .iter()
            .map(|w| p.post(0, q, w))
            .collect();
        let want = [(i[0], SUCCESS), (i[1], status), (i[2], FLUSH)].map(|(a, b)| (a, b, false));
        assert_eq!(take(&mut p, 0, 3), want, "{what}");
        assert_eq!((p.state(0, q), p.state(1, q)), (ERR, RTS), "{what}");
        assert_eq!(
            log.requests(0).len(),
            1,
            "{what}: only the good one is sent"
        );
    }
    // The message is longer than 2^31.
    let q = p.add(&fast(), 6, 4);
    let long = Wr {
        sges: vec![(buf, 1 << 31, key), (buf, 1, key)],
        ..p.rdma(0, op::WRITE, 0, 0, 8)
    };
    let i = p.post(0, q, &long);
    let c = take(&mut p, 0, 1);
    assert!(
        c == [(i, LOC_LEN, false)] || c == [(i, LOC_PROT, false)],
        "{c:?}"
    );
    quiet(&mut p);
    cover::finish("errors", &mut p);
}

#[test]
fn receive_faults() {
    let (mut p, log) = pair(0, LEN, &fast());
    let (buf, key) = (p.ends[1].buf, p.ends[1].key);
    for (what, room, status, at_peer, code) in [
        (
            "receive too small",
            vec![(buf, 99, key)],
            REM_INV_REQ,
            LOC_LEN,
            NakCode::InvalidRequest,
        ),
        (
            "four SGEs, one byte too small",
            vec![
                (buf, 25, key),
                (buf, 25, key),
                (buf, 25, key),
                (buf, 24, key),
            ],
            REM_INV_REQ,
            LOC_LEN,
            NakCode::InvalidRequest,
        ),
        (
            "bad lkey in a receive",
            vec![(buf, 200, key ^ 1)],
            REM_OP,
            LOC_PROT,
            NakCode::RemoteOperational,
        ),
    ] {
        println!("{what}");
        let q = p.add(&fast(), 4, 4);
        log.clear();
        p.recv(1, q, &room);
        p.recv(1, q, &[]);
        p.run(3000);
        let wr = p.send(0, 0, 100, None);
        let i = p.post(0, q, &wr);
        assert_eq!(take(&mut p, 0, 1), [(i, status, false)], "{what}");
        assert_eq!(
            take(&mut p, 1, 2),
            [(0, at_peer, true), (1, FLUSH, true)],
            "{what}"
        );
        assert_eq!(log.refusals(1), [Syndrome::Nak(code)], "{what}");
        assert_eq!((p.state(0, q), p.state(1, q)), (ERR, ERR), "{what}");
    }
    quiet(&mut p);
    cover::finish("errors", &mut p);
}

/// No receive WQE: `1 + rnr_retry` tries, then RNR_RETRY_EXC; 7 goes on until there is one.
#[test]
fn rnr_retries() {
    let (mut p, log) = pair(0, LEN, &fast());
    for n in 0..=7u8 {
        let c = Conn {
            rnr_retry: n,
            min_rnr: 1,
            ..fast()
        };
        let q = p.add(&c, 4, 4);
        log.clear();
        let wr = p.send(0, 0, 100, Some(9));
        let i = p.post(0, q, &wr);
        if n < 7 {
            assert_eq!(take(&mut p, 0, 1), [(i, RNR_EXC, false)], "rnr_retry {n}");
            assert_eq!(
                log.requests(0).len(),
                1 + n as usize,
                "rnr_retry {n}: tries"
            );
            assert_eq!((p.state(0, q), p.state(1, q)), (ERR, RTS), "rnr_retry {n}");
        } else {
            while log.requests(0).len() < 20 {
                p.sim.step_or_skip();
            }
            assert_eq!(p.poll(0), None);
            let (b, k) = (p.ends[1].buf, p.ends[1].key);
            p.recv(1, q, &[(b, 100, k)]);
            assert_eq!(take(&mut p, 0, 1), [(i, SUCCESS, false)]);
            assert_eq!(take(&mut p, 1, 1), [(0, SUCCESS, true)]);
        }
        let rnr = Syndrome::Rnr { timer: 1 };
        assert!(log.refusals(1).iter().all(|s| *s == rnr));
    }
    cover::finish("errors", &mut p);
}

/// The 32 codes of the RNR timer: the second try comes after that time, and not much later.
#[test]
fn rnr_timer_codes() {
    let (mut p, log) = pair(0, LEN, &fast());
    let t0 = Instant::now();
    for code in 0..32u8 {
        let c = Conn {
            rnr_retry: 1,
            min_rnr: code,
            ..fast()
        };
        let q = p.add(&c, 4, 4);
        log.clear();
        let wr = p.send(0, 0, 0, None);
        let i = p.post(0, q, &wr);
        assert_eq!(take(&mut p, 0, 1), [(i, RNR_EXC, false)], "code {code}");
        assert_eq!(
            log.refusals(1),
            [Syndrome::Rnr { timer: code }; 2],
            "code {code}"
        );
        let r = log.requests(0);
        let gap = (r[1].at_ps - r[0].at_ps) / 1000;
        let want = rnr_timer_ns(code);
        assert!(
            gap >= want && gap <= want + want / 4 + 5000,
            "code {code}: {gap} ns, not {want}"
        );
    }
    println!("{:?} for 32 codes", t0.elapsed());
    cover::finish("errors", &mut p);
}

/// A peer that never answers: `1 + retry_cnt` tries, T to 4 T apart, then RETRY_EXC.
#[test]
fn silent_peer() {
    let (mut p, log) = pair(0, LEN, &fast());
    p.sim.fabric.drop_if = Some(Box::new(|_, _| true));
    for (timeout, n, o) in [
        (14, 0, op::WRITE),
        (14, 1, op::SEND),
        (14, 7, op::WRITE),
        (14, 3, op::READ),
        (4, 7, op::WRITE),
        (1, 7, op::WRITE),
        (18, 2, op::WRITE_IMM),
    ] {
        let c = Conn {
            timeout,
            retry_cnt: n,
            ..fast()
        };
        let q = p.add(&c, 4, 4);
        log.clear();
        let wr = p.rdma(0, o, 0, 0, 64);
        let t0 = Instant::now();
        let i = p.post(0, q, &wr);
        assert_eq!(
            take(&mut p, 0, 1),
            [(i, RETRY_EXC, false)],
            "timeout {timeout}"
        );
        let wall = t0.elapsed();
        assert!(wall.as_millis() < 1000 * (1 + n as u128), "{wall:?}");
        let r = log.requests(0);
        assert_eq!(r.len(), 1 + n as usize, "timeout {timeout}, retry_cnt {n}");
        let t = ack_timeout_ns(timeout).expect("not off");
        for w in r.windows(2) {
            let gap = (w[1].at_ps - w[0].at_ps) / 1000;
            assert!(
                gap >= t && gap <= 4 * t,
                "timeout {timeout}: {gap} ns, not {t}.."
            );
        }
        let end = (p.sim.now_ps() - r[r.len() - 1].at_ps) / 1000;
        // The timer starts when the packet is made, about 1 us of payload reads before it is on the wire.
        assert!(
            end + 2000 >= t && end <= 4 * t,
            "timeout {timeout}: gave up after {end} ns"
        );
        assert_eq!(p.state(0, q), ERR);
    }
    cover::finish("errors", &mut p);
}

/// Host memory that is not there.
#[test]
fn memory_holes() {
    let c = Conn {
        retry_cnt: 1,
        ..fast()
    };
    let (mut p, log) = pair(0, LEN, &c);
    let hole = |p: &mut Pair, e: usize, a: u64, n: u64| {
        p.sim.mem(e).holes = if n == 0 { vec![] } else { vec![(1, a, n)] };
    };
    // Payload of a WRITE.
    let q = p.add(&c, 4, 4);
    let a = p.ends[0].buf + 4096;
    hole(&mut p, 0, a, 4096);
    let wr = p.rdma(0, op::WRITE, 4000, 0, 5000);
    let i = p.post(0, q, &wr);
    let got = take(&mut p, 0, 1);
    assert_eq!(got, [(i, LOC_PROT, false)], "payload not there");
    assert_eq!(p.state(0, q), ERR);
    // Source of a READ at the responder.
    let q = p.add(&c, 4, 4);
    hole(&mut p, 0, 0, 0);
    let a = p.ends[1].buf + 4096;
    hole(&mut p, 1, a, 4096);
    log.clear();
    let wr = p.rdma(0, op::READ, 0, 4000, 5000);
    let i = p.post(0, q, &wr);
    let got = take(&mut p, 0, 1);
    // The responder gives up without a word (a READ response cannot be taken back); its process hears of it.
    assert_eq!(got, [(i, RETRY_EXC, false)], "source of a READ not there");
    assert_eq!(log.refusals(1), []);
    assert_eq!(event(&mut p, 1), (3, p.ends[1].qps[q].qpn), "QP_FATAL");
    assert_eq!((p.state(0, q), p.state(1, q)), (ERR, ERR));
    // The send ring.
    hole(&mut p, 1, 0, 0);
    let q = p.add(&c, 4, 4);
    let a = p.ends[0].qps[q].sq;
    while p.ends[0].host.poll_event(&mut p.sim).is_some() {}
    hole(&mut p, 0, a, 64);
    let wr = p.rdma(0, op::WRITE, 0, 0, 8);
    p.post(0, q, &wr);
    // The card cannot read what it would complete: the QP is in ERR, and its process hears of it.
    assert_eq!(event(&mut p, 0), (3, p.ends[0].qps[q].qpn), "QP_FATAL");
    p.run(5000);
    assert_eq!(
        (p.state(0, q), p.poll(0)),
        (ERR, None),
        "send ring not there"
    );
    assert_eq!(p.ends[0].host.poll_event(&mut p.sim), None, "told once");
    // The receive ring.
    let q = p.add(&c, 4, 4);
    let a = p.ends[0].qps[q].rq;
    hole(&mut p, 0, a, 64);
    p.recv(0, q, &[]);
    assert_eq!(event(&mut p, 0), (4, p.ends[0].qps[q].qpn), "QP_REQ_ERR");
    assert_eq!(p.state(0, q), ERR);
    assert_eq!(take(&mut p, 0, 1), [(0, FLUSH, true)]);
    hole(&mut p, 0, 0, 0);
    // The card works on.
    let q = p.add(&c, 4, 4);
    let wr = p.rdma(0, op::READ, 0, 4000, 5000);
    let i = p.post(0, q, &wr);
    assert_eq!(take(&mut p, 0, 1), [(i, SUCCESS, false)]);
    cover::finish("errors", &mut p);
}

/// A producer index that leaves more in a ring than it holds: as if the ring could not be read. Nothing old is done once more.
#[test]
fn wrong_producer_indices() {
    let c = fast();
    let (mut p, log) = pair(0, LEN, &c);
    let wr = p.rdma(0, op::WRITE, 0, 0, 8);
    // Three of 16 units are posted and freed of the send ring, two are posted in the receive ring.
    for (door, index) in [
        (doorbell::SQ, 3 + 17),
        (doorbell::SQ, 2),
        (doorbell::SQ, 40_000),
        (doorbell::RQ, 17),
        (doorbell::RQ, 1),
        (doorbell::RQ, 65_535),
    ] {
        let q = p.add(&c, 4, 4);
        let qpn = p.ends[0].qps[q].qpn;
        for _ in 0..3 {
            let i = p.post(0, q, &wr);
            assert_eq!(take(&mut p, 0, 1), [(i, SUCCESS, false)]);
        }
        for _ in 0..2 {
            p.recv(0, q, &[]);
        }
        p.run(2000);
        log.clear();
        let v = qpn as u64 | index << 32;
        p.sim.nodes[0]
            .mmio
            .push_back(MmioWrite::u64(PAGE * p.ends[0].host.pasid as u32 + door, v));
        let kind = if door == doorbell::SQ { 3 } else { 4 };
        let what = format!("doorbell {door:#x}, index {index}");
        assert_eq!(event(&mut p, 0), (kind, qpn), "{what}");
        assert_eq!(
            take(&mut p, 0, 2),
            [(0, FLUSH, true), (1, FLUSH, true)],
            "{what}"
        );
        p.run(5000);
        assert_eq!((p.state(0, q), p.poll(0)), (ERR, None), "{what}");
        assert_eq!(log.requests(0).len(), 0, "{what}");
        assert_eq!(p.ends[0].host.poll_event(&mut p.sim), None, "{what}");
        // From RESET it is as good as new.
        let set = [(cmd::modify_qp::next_state, 0)];
        for end in &mut p.ends {
            let qp = &mut end.qps[q];
            end.host
                .modify(&mut p.sim, qp.qpn, 1, &set)
                .expect("to RESET");
            (qp.pi, qp.rpi) = (0, 0);
        }
        p.connect(q, &c);
        let i = p.post(0, q, &wr);
        assert_eq!(take(&mut p, 0, 1), [(i, SUCCESS, false)], "{what}");
    }
    cover::finish("errors", &mut p);
}

/// A bad WQE that says it has more units than were posted: its own error and nothing more. (The card went around the ring behind it,
/// and filled the CQ.)
#[test]
fn more_units_than_posted() {
    let c = fast();
    let (mut p, log) = pair(0, LEN, &c);
    let wr = p.rdma(0, op::WRITE, 0, 0, 8);
    for before in 0..3 {
        let q = p.add(&c, 4, 4);
        for _ in 0..before {
            p.post(0, q, &wr);
        }
        let got = take(&mut p, 0, before);
        assert!(got.iter().all(|c| c.1 == SUCCESS), "{got:?}");
        p.run(2000);
        log.clear();
        let end = &mut p.ends[0];
        let i = end.host.post_send(&mut p.sim, &mut end.qps[q], &wr);
        let qp = end.qps[q].clone();
        let mut unit = p.sim.mem(0).peek_vec(1, qp.sq + i as u64 * 64, 64);
        sq::units.put(&mut unit, 5);
        sq::opcode.put(&mut unit, 0x3E);
        p.sim.mem(0).poke(1, qp.sq + i as u64 * 64, &unit);
        p.ends[0].host.ring_sq(&mut p.sim, &qp);
        assert_eq!(take(&mut p, 0, 1), [(i, LOC_QP_OP, false)]);
        p.run(20_000);
        assert_eq!((p.state(0, q), p.poll(0)), (ERR, None), "after {before}");
        assert_eq!(log.requests(0).len(), 0);
    }
    cover::finish("errors", &mut p);
}
