//! What a product needs of the model beyond the rules of the wire: payload that can't be placed, errors of its own side, attributes that
//! change, receives that come from elsewhere.
use metaroce_protocol::model::*;
use metaroce_protocol::qp::QpState;
use metaroce_protocol::{Mtu, NakCode, Syndrome};
use std::cell::RefCell;

/// Memory that says what it is told to, and remembers what it was asked.
struct Told {
    placed: Placed,
    permits: bool,
    asked: RefCell<Vec<(Target, u32)>>,
}

impl Told {
    fn new(placed: Placed) -> Told {
        Told {
            placed,
            permits: true,
            asked: RefCell::default(),
        }
    }
}

impl Memory for Told {
    fn check(&self, _: u32, _: u64, _: u64, _: Access) -> bool {
        true
    }
    fn permits(&self, _: Access) -> bool {
        self.permits
    }
    fn place(&self, target: Target, len: u32) -> Placed {
        self.asked.borrow_mut().push((target, len));
        self.placed
    }
}

fn pair() -> [Qp; 2] {
    let a = QpConfig {
        mtu: Mtu::M256,
        ..QpConfig::new(10, 20)
    };
    [Qp::new(a), Qp::new(a.mirrored())]
}

fn write(id: u64, len: u64) -> SendWr {
    SendWr::new(id, SendOp::Write { va: 0, rkey: 1 }, len)
}

fn statuses(out: &[Action]) -> Vec<(u64, Status)> {
    let one = |a: &Action| match a {
        Action::SendComplete { wr_id, status, .. } | Action::RecvComplete { wr_id, status, .. } => {
            Some((*wr_id, *status))
        }
        _ => None,
    };
    out.iter().filter_map(one).collect()
}

/// Gives `to` what `from` has to send at time 0.
fn pass(from: &mut Qp, to: &mut Qp, memory: &dyn Memory, out: &mut Vec<Action>) -> usize {
    let mut n = 0;
    while let Some(tx) = from.poll_transmit(0) {
        to.on_packet(0, &tx.packet, tx.payload.len() as usize, memory, out);
        n += 1;
    }
    n
}

#[test]
fn a_local_error_waits_for_what_is_before_it() {
    let [mut a, mut b] = pair();
    let (mut out, good) = (vec![], Told::new(Placed::Done));
    for id in 0..3 {
        a.post_send(write(id, 1000), &mut out);
    }
    // the first, and half of the second
    for _ in 0..6 {
        let tx = a.poll_transmit(0).unwrap();
        b.on_packet(0, &tx.packet, tx.payload.len() as usize, &good, &mut out);
    }
    out.clear();
    a.local_error(1, Status::LocProt, &mut out);
    assert!(out.is_empty() && a.state() == QpState::Rts);
    assert_eq!(
        a.poll_transmit(0),
        None,
        "nothing more of it, nothing behind it"
    );
    pass(&mut b, &mut a, &good, &mut out);
    let want = [
        (0, Status::Success),
        (1, Status::LocProt),
        (2, Status::WrFlush),
    ];
    assert_eq!(statuses(&out), want);
    assert_eq!(a.state(), QpState::Err);
    // one that is not there changes nothing
    let [mut a, _] = pair();
    out.clear();
    a.local_error(0, Status::LocProt, &mut out);
    a.post_send(write(5, 10), &mut out);
    a.local_error(1, Status::LocProt, &mut out);
    assert!(out.is_empty() && a.poll_transmit(0).is_some());
}

#[test]
fn what_cannot_be_placed_is_refused_and_never_acknowledged() {
    for (placed, send, nak, status) in [
        (
            Placed::Access,
            false,
            NakCode::RemoteAccess,
            Status::RemAccess,
        ),
        (
            Placed::Fault,
            false,
            NakCode::RemoteOperational,
            Status::RemOp,
        ),
        (
            Placed::Fault,
            true,
            NakCode::RemoteOperational,
            Status::RemOp,
        ),
        (
            Placed::Access,
            true,
            NakCode::RemoteOperational,
            Status::RemOp,
        ),
    ] {
        let [mut a, mut b] = pair();
        let (mut out, bad) = (vec![], Told::new(placed));
        b.post_recv(
            RecvWr {
                wr_id: 9,
                len: 1000,
            },
            &mut out,
        );
        let mut wr = write(1, 100);
        if send {
            wr.op = SendOp::Send;
        }
        a.post_send(wr, &mut out);
        let epsn = b.responder.epsn();
        assert_eq!(pass(&mut a, &mut b, &bad, &mut out), 1);
        assert_eq!((b.responder.epsn(), b.state()), (epsn, QpState::Err));
        assert_eq!(b.responder.refused(), Some(nak));
        assert!(!out.iter().any(|a| matches!(a, Action::Place { .. })));
        let local = if send {
            Status::LocProt
        } else {
            Status::WrFlush
        };
        assert_eq!(statuses(&out), [(9, local)]);
        assert_eq!(bad.asked.borrow().len(), 1);
        out.clear();
        let answer = b.poll_transmit(0).unwrap().packet;
        assert_eq!(answer.ext.aeth.unwrap().syndrome, Syndrome::Nak(nak));
        a.on_packet(0, &answer, 0, &bad, &mut out);
        assert_eq!(statuses(&out), [(1, status)]);
    }
}

#[test]
fn a_right_that_the_queue_pair_lacks_makes_an_invalid_request() {
    for op in [
        SendOp::Write { va: 0, rkey: 1 },
        SendOp::Read { va: 0, rkey: 1 },
        SendOp::FetchAdd {
            va: 0,
            rkey: 1,
            add: 1,
        },
    ] {
        let [mut a, mut b] = pair();
        let mut none = Told::new(Placed::Done);
        none.permits = false;
        let mut out = vec![];
        a.post_send(SendWr::new(1, op, 8), &mut out);
        pass(&mut a, &mut b, &none, &mut out);
        assert_eq!(
            b.responder.refused(),
            Some(NakCode::InvalidRequest),
            "{op:?}"
        );
        assert!(none.asked.borrow().is_empty());
    }
}

#[test]
fn a_read_whose_memory_is_gone_has_no_answer() {
    let [mut a, mut b] = pair();
    let (mut out, good) = (vec![], Told::new(Placed::Done));
    a.post_send(
        SendWr::new(1, SendOp::Read { va: 0, rkey: 1 }, 1000),
        &mut out,
    );
    b.post_recv(RecvWr { wr_id: 3, len: 1 }, &mut out);
    pass(&mut a, &mut b, &good, &mut out);
    assert!(b.poll_transmit(0).is_some());
    b.read_fault(&mut out);
    assert_eq!(b.poll_transmit(0), None);
    assert_eq!(
        (b.state(), statuses(&out)),
        (QpState::Err, vec![(3, Status::WrFlush)])
    );
}

#[test]
fn attributes_change_and_what_is_posted_stays() {
    let [mut a, mut b] = pair();
    let (mut out, good) = (vec![], Told::new(Placed::Done));
    b.post_recv(RecvWr { wr_id: 3, len: 100 }, &mut out);
    let later = QpConfig {
        rq_psn: a.config().sq_psn.add(77),
        ..*b.config()
    };
    b.start_responder(later);
    a.reconfigure(QpConfig {
        sq_psn: later.rq_psn,
        retry_cnt: 2,
        ..*a.config()
    });
    assert_eq!(a.requester.retries_left(), 2);
    let (wants, held) = (SendWr::new(1, SendOp::Send, 600), 0);
    a.post_send(wants, &mut out);
    let first = a.poll_transmit(0).unwrap().packet;
    assert_eq!(first.psn, later.rq_psn);
    let info = first.opcode.info().unwrap();
    assert!(b.responder.wants_receive(&first, info));
    assert_eq!(b.responder.held(), None);
    // too short for it: refused before anything is written
    b.on_packet(0, &first, 256, &good, &mut out);
    assert_eq!(b.responder.refused(), Some(NakCode::InvalidRequest));
    let [mut a, mut b] = pair();
    b.post_recv(
        RecvWr {
            wr_id: 3,
            len: 1000,
        },
        &mut out,
    );
    a.post_send(wants, &mut out);
    let first = a.poll_transmit(0).unwrap().packet;
    b.on_packet(0, &first, 256, &good, &mut out);
    assert_eq!(b.responder.held(), Some(held));
    let middle = a.poll_transmit(0).unwrap().packet;
    assert!(!b
        .responder
        .wants_receive(&middle, middle.opcode.info().unwrap()));
}
