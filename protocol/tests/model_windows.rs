//! Windows of type 2, SEND with invalidate and local operations: what is refused, what ends a window, and in which order.

mod common;

use common::sim::{region, Fate, Sim, BASE, RKEY, WINDOW};
use metaroce_protocol::model::*;
use metaroce_protocol::qp::QpState;
use metaroce_protocol::*;

const ME: u32 = 0x11;
const PEER: u32 = 0x12;

fn sim() -> Sim {
    let mut c = QpConfig::new(ME, PEER);
    c.mtu = Mtu::M256;
    c.timeout = 5;
    let mut s = Sim::new(c, 1 << 14, 1);
    s.hosts[1].post_recv(RecvWr {
        wr_id: 70,
        len: 2048,
    });
    s
}

fn post(s: &mut Sim, host: usize, id: u64, op: SendOp, len: usize) {
    let wr = SendWr::new(id, op, len as u64);
    s.hosts[host].post(wr, vec![id as u8; len]);
}

fn bind(key: u32, at: u64, len: u64) -> SendOp {
    SendOp::Bind {
        lkey: RKEY,
        window: region(key, at, len),
    }
}

fn write(at: u64, rkey: u32) -> SendOp {
    SendOp::Write {
        va: BASE + at,
        rkey,
    }
}

fn read(at: u64, rkey: u32) -> SendOp {
    SendOp::Read {
        va: BASE + at,
        rkey,
    }
}

/// Receive completions: (wr_id, status, invalidated key).
fn received(s: &Sim, host: usize) -> Vec<(u64, Status, Option<u32>)> {
    let log = s.hosts[host].log.iter();
    log.filter_map(|a| match *a {
        Action::RecvComplete {
            wr_id, status, inv, ..
        } => Some((wr_id, status, inv)),
        _ => None,
    })
    .collect()
}

fn ended(s: &Sim, host: usize) -> usize {
    let log = s.hosts[host].log.iter();
    log.filter(|a| matches!(a, Action::Invalidate { .. }))
        .count()
}

#[test]
fn the_table() {
    let mut w = Windows::new(MrTable(vec![region(RKEY, 0, 1000)]));
    let all = |at, len| region(WINDOW, at, len);
    // what does not lie in the region, and keys that are taken or unknown
    for (lkey, window) in [
        (RKEY, all(999, 2)),
        (RKEY, all(u64::MAX - BASE - 3, 8)),
        (RKEY, all(0, u64::MAX)),
        (RKEY + 1, all(0, 8)),
        (RKEY, region(RKEY, 0, 8)),
    ] {
        assert!(!w.bind(ME, lkey, window), "{lkey:x} {window:x?}");
    }
    assert!(!w.invalidate(ME, WINDOW));
    let read_only = MemoryRegion {
        remote_write: false,
        remote_atomic: false,
        ..all(100, 50)
    };
    assert!(w.bind(ME, RKEY, read_only));
    assert!(!w.bind(ME, RKEY, all(0, 8)), "bound already");
    assert!(!w.bind(PEER, RKEY, all(0, 0)), "of another QP");
    let check = |w: &Windows, q, at, len, a| w.seen_by(q).check(WINDOW, BASE + at, len, a);
    use Access::*;
    assert!(check(&w, ME, 100, 50, RemoteRead));
    assert!(!check(&w, ME, 99, 2, RemoteRead) && !check(&w, ME, 149, 2, RemoteRead));
    assert!(!check(&w, ME, 100, 8, RemoteWrite) && !check(&w, ME, 104, 8, RemoteAtomic));
    assert!(!check(&w, PEER, 100, 8, RemoteRead), "another QP");
    let may = |w: &Windows, q, key| w.seen_by(q).may_invalidate(key);
    assert!(may(&w, ME, WINDOW));
    assert!(!may(&w, PEER, WINDOW) && !may(&w, ME, WINDOW + 1) && !may(&w, ME, RKEY));
    assert!(!w.invalidate(PEER, WINDOW) && w.invalidate(ME, WINDOW));
    assert!(!check(&w, ME, 100, 8, RemoteRead) && !may(&w, ME, WINDOW));
    // a length of 0 ends the binding, or finds none
    assert!(w.bind(ME, RKEY, all(0, 8)) && w.bind(ME, RKEY, all(0, 0)));
    assert!(!may(&w, ME, WINDOW) && w.bind(PEER, RKEY, all(0, 0)));
}

/// The key is in the last packet alone; access before it is served, access behind it refused.
#[test]
fn a_send_ends_the_window() {
    for packets in 1..=8 {
        let mut s = sim();
        post(&mut s, 1, 0, bind(WINDOW, 64, 64), 0);
        post(&mut s, 0, 0, write(64, WINDOW), 64);
        let op = SendOp::SendInv { rkey: WINDOW };
        post(&mut s, 0, 1, op, packets * 256 - 256 + 9);
        post(&mut s, 0, 2, write(64, WINDOW), 64);
        post(&mut s, 0, 3, write(64, RKEY), 4);
        s.run();
        let want = [
            (0, Status::Success),
            (1, Status::Success),
            (2, Status::RemAccess),
            (3, Status::WrFlush),
        ];
        assert_eq!(s.hosts[0].sent(), want);
        let want = [(70, Status::Success, Some(WINDOW))];
        assert_eq!(received(&s, 1), want);
        assert_eq!(ended(&s, 1), 1);
        assert_eq!(s.hosts[1].memory[64..128], [0; 64], "number 0 wrote zeros");
        let keys: Vec<_> = s.trace.iter().filter(|t| t.1.ext.ieth.is_some()).collect();
        let last = match packets {
            1 => Opcode::RC_SEND_ONLY_INV,
            _ => Opcode::RC_SEND_LAST_INV,
        };
        assert_eq!(keys.len(), 1);
        let p = keys[0].1;
        assert_eq!((p.opcode, p.psn.get()), (last, packets as u32));
        assert_eq!(p.ext.ieth, Some(WINDOW));
    }
}

/// Anything but a window of this QP: NAK remote access, an error of both ends, and nothing is invalidated.
#[test]
fn what_a_send_may_not_end() {
    for len in [0, 300] {
        for rkey in [RKEY, WINDOW + 1, WINDOW + 2, 0] {
            let mut s = sim();
            // of another QP of the same host
            let other = region(WINDOW + 1, 0, 8);
            assert!(s.hosts[1].mrs.bind(0x99, RKEY, other));
            post(&mut s, 0, 0, SendOp::SendInv { rkey }, len);
            s.run();
            assert_eq!(s.hosts[0].sent(), [(0, Status::RemAccess)], "{rkey:x}");
            assert_eq!(received(&s, 1), [(70, Status::RemAccess, None)], "{rkey:x}");
            assert_eq!(ended(&s, 1), 0);
            assert!(s.hosts[1].mrs.invalidate(0x99, WINDOW + 1));
            assert!(s.hosts.iter().all(|h| h.qp.state() == QpState::Err));
        }
    }
    // without a receive: RNR first, and the window stays
    let mut s = sim();
    s.hosts[1].qp.responder.flush_receives(&mut vec![]);
    let mut c = *s.hosts[1].qp.config();
    c.min_rnr_timer = 1;
    s.hosts[1].qp = Qp::new(c);
    post(&mut s, 1, 0, bind(WINDOW, 0, 8), 0);
    post(&mut s, 0, 0, SendOp::SendInv { rkey: WINDOW }, 4);
    while s.now < 100_000 {
        s.step();
    }
    assert!(s.hosts[1].dropped(DropReason::Rnr) > 0);
    assert_eq!((s.hosts[0].sent(), ended(&s, 1)), (vec![], 0));
    s.hosts[1].post_recv(RecvWr { wr_id: 71, len: 4 });
    s.run();
    assert_eq!(received(&s, 1), [(71, Status::Success, Some(WINDOW))]);
}

/// A copy that comes when the window has been bound again under the same key does not end it.
#[test]
fn a_duplicate_ends_nothing() {
    let mut s = sim();
    s.hosts[1].rebind = true;
    s.fate = Box::new(|side, _, _| match side {
        0 => Fate::Twice(50_000),
        _ => Fate::Pass,
    });
    post(&mut s, 1, 0, bind(WINDOW, 0, 8), 0);
    post(&mut s, 0, 0, SendOp::SendInv { rkey: WINDOW }, 700);
    s.run();
    assert_eq!(s.hosts[1].dropped(DropReason::Duplicate), 3);
    assert_eq!((ended(&s, 1), received(&s, 1).len()), (1, 1));
    assert!(s.hosts[1].mrs.invalidate(PEER, WINDOW));
}

/// A local operation waits for all before it, READ data included, and what is behind it waits for it.
#[test]
fn local_operations_keep_their_place() {
    let mut s = sim();
    post(&mut s, 0, 0, read(0, RKEY), 700);
    post(&mut s, 0, 1, bind(WINDOW, 0, 8), 0);
    post(&mut s, 0, 2, SendOp::LocalInv { rkey: WINDOW }, 0);
    post(&mut s, 0, 3, write(0, RKEY), 600);
    post(&mut s, 0, 4, bind(WINDOW, 0, 8), 0);
    // Its packet is the last of a frame sequence without a hole.
    s.run();
    let want: Vec<_> = (0..5).map(|k| (k, Status::Success)).collect();
    assert_eq!(s.hosts[0].sent(), want);
    let data = s.trace.iter().position(|t| t.0 == 0 && t.1.psn.get() == 3);
    let read_end = s
        .trace
        .iter()
        .position(|t| t.1.opcode == Opcode::RC_READ_RESP_LAST);
    assert!(read_end.unwrap() < data.unwrap());
    assert!(s.hosts[0].mrs.invalidate(ME, WINDOW), "bound again");
    // Refused: what is behind it is flushed, receives too, and the peer does not notice.
    let mut s = sim();
    s.hosts[0].post_recv(RecvWr { wr_id: 7, len: 9 });
    post(&mut s, 0, 0, write(0, RKEY), 4);
    post(&mut s, 0, 1, SendOp::LocalInv { rkey: WINDOW }, 0);
    post(&mut s, 0, 2, write(0, RKEY), 4);
    s.run();
    let want = [
        (0, Status::Success),
        (1, Status::MwBind),
        (2, Status::WrFlush),
    ];
    assert_eq!(s.hosts[0].sent(), want);
    assert_eq!(received(&s, 0), [(7, Status::WrFlush, None)]);
    assert_eq!(s.hosts[1].qp.state(), QpState::Rts);
    assert_eq!(s.trace.len(), 2, "one WRITE and its ACK");
    // In SQD it does not begin; back in RTS it does.
    let mut s = sim();
    let h = &mut s.hosts[0];
    h.qp.requester.drain(&mut h.log);
    let mut out = vec![];
    let wr = SendWr::new(0, bind(WINDOW, 0, 8), 0);
    h.qp.post_send(wr, &mut out);
    assert_eq!(out, []);
    h.qp.requester.resume(&mut out);
    let op = wr.op;
    assert_eq!(out, [Action::Local { wqe: 0, op }]);
    // One outcome, once.
    h.qp.local_done(true, &mut out);
    h.qp.local_done(false, &mut out);
    assert_eq!(out.len(), 2);
    assert_eq!(h.qp.state(), QpState::Rts);
}
