//! One test a rule: who answers what, with which status, and when.

mod common;

use common::sim::{Sim, BASE, RKEY};
use metaroce_protocol::ext::{Aeth, Reth};
use metaroce_protocol::model::*;
use metaroce_protocol::opcode::Place;
use metaroce_protocol::qp::QpState;
use metaroce_protocol::*;

fn cfg() -> QpConfig {
    let mut c = QpConfig::new(0x11, 0x12);
    c.mtu = Mtu::M256;
    c.timeout = 5;
    c.min_rnr_timer = 1;
    c
}

fn sim(c: QpConfig) -> Sim {
    Sim::new(c, 1 << 16, 1)
}

fn write(id: u64, at: u64, len: u64) -> SendWr {
    SendWr::new(
        id,
        SendOp::Write {
            va: BASE + at,
            rkey: RKEY,
        },
        len,
    )
}

fn read(id: u64, at: u64, len: u64) -> SendWr {
    SendWr::new(
        id,
        SendOp::Read {
            va: BASE + at,
            rkey: RKEY,
        },
        len,
    )
}

fn send(id: u64, len: u64) -> SendWr {
    SendWr::new(id, SendOp::Send, len)
}

fn post(s: &mut Sim, wr: SendWr) {
    s.hosts[0].post(wr, vec![wr.wr_id as u8; wr.len.min(1 << 16) as usize]);
}

/// A request as a foreign peer might send it, straight to host 1.
fn forge(s: &mut Sim, opcode: Opcode, psn: u32, reth: Option<Reth>, len: usize) {
    let mut p = PacketRepr::new(opcode, 0x12, Psn::new(psn));
    p.ack_req = true;
    p.ext.reth = reth;
    s.hosts[1].packet(0, &p, &vec![0x5a; len]);
}

/// A response as a foreign peer might send it, straight to host 0.
fn answer(s: &mut Sim, opcode: Opcode, psn: u32, syndrome: Option<Syndrome>, len: usize) {
    let mut p = PacketRepr::new(opcode, 0x11, Psn::new(psn));
    p.ext.aeth = syndrome.map(|syndrome| Aeth {
        syndrome,
        msn: Msn::new(0),
    });
    let now = s.now;
    s.hosts[0].packet(now, &p, &vec![0xa5; len]);
}

fn reth(va: u64, dma_len: u32) -> Option<Reth> {
    Some(Reth {
        va,
        rkey: RKEY,
        dma_len,
    })
}

/// (PSN, syndrome) of the only response that host 1 sends.
fn only_answer(s: &mut Sim) -> (u32, Syndrome) {
    let tx = s.hosts[1].qp.poll_transmit(0).expect("an answer");
    assert_eq!(s.hosts[1].qp.poll_transmit(0), None);
    (tx.packet.psn.get(), tx.packet.ext.aeth.unwrap().syndrome)
}

const INVALID: Syndrome = Syndrome::Nak(NakCode::InvalidRequest);
const ACCESS: Syndrome = Syndrome::Nak(NakCode::RemoteAccess);

#[test]
fn error_rows_of_the_completion_table() {
    // (request, receive length posted, requester status, held receive's status)
    let bad_key = SendOp::Write {
        va: BASE,
        rkey: RKEY + 1,
    };
    let bad_imm = SendOp::WriteImm {
        va: BASE,
        rkey: RKEY + 1,
        imm: [1; 4],
    };
    for (wr, requester, receiver) in [
        (
            write(1, (1 << 16) - 4, 5),
            Status::RemAccess,
            Status::WrFlush,
        ),
        (
            read(1, (1 << 16) - 4, 5),
            Status::RemAccess,
            Status::WrFlush,
        ),
        (
            SendWr::new(1, bad_key, 8),
            Status::RemAccess,
            Status::WrFlush,
        ),
        (
            SendWr::new(1, bad_imm, 8),
            Status::RemAccess,
            Status::WrFlush,
        ),
        (send(1, 601), Status::RemInvReq, Status::LocLen),
    ] {
        let mut s = sim(cfg());
        s.hosts[1].post_recv(RecvWr {
            wr_id: 70,
            len: 600,
        });
        s.hosts[1].post_recv(RecvWr {
            wr_id: 71,
            len: 600,
        });
        let mut unsignaled = wr;
        unsignaled.signaled = false;
        post(&mut s, write(0, 0, 700));
        post(&mut s, unsignaled);
        post(&mut s, write(2, 0, 4));
        post(&mut s, write(3, 0, 4));
        s.run();
        assert_eq!(
            s.hosts[0].sent(),
            [
                (0, Status::Success),
                (1, requester),
                (2, Status::WrFlush),
                (3, Status::WrFlush)
            ],
            "{wr:?}"
        );
        assert_eq!(
            s.hosts[1].received(),
            [(70, receiver, 0), (71, Status::WrFlush, 0)]
        );
        for h in &mut s.hosts {
            assert_eq!(h.qp.state(), QpState::Err);
            h.log.clear();
            h.post(send(9, 1), vec![0]);
            h.post_recv(RecvWr { wr_id: 10, len: 1 });
            assert_eq!(h.sent(), [(9, Status::WrFlush)]);
            assert_eq!(h.received(), [(10, Status::WrFlush, 0)]);
        }
        // The first 256 or 512 bytes of the SEND were placed, nothing of the refused WRITEs.
        assert!(s.hosts[1].memory[700..].iter().all(|b| *b == 0));
    }
}

#[test]
fn bounds_do_not_wrap() {
    for va in [0xffff_ffff_ffff_fc00, BASE - 1, BASE + (1 << 16) - 255] {
        let mut s = sim(cfg());
        forge(&mut s, Opcode::RC_WRITE_ONLY, 0, reth(va, 256), 256);
        assert_eq!(only_answer(&mut s), (0, ACCESS), "{va:x}");
        let mut s = sim(cfg());
        forge(&mut s, Opcode::RC_READ_REQUEST, 0, reth(va, 1024), 0);
        assert_eq!(only_answer(&mut s), (0, ACCESS), "{va:x}");
    }
    // Zero bytes need no key.
    let mut s = sim(cfg());
    forge(&mut s, Opcode::RC_WRITE_ONLY, 0, reth(1, 0), 0);
    assert_eq!(only_answer(&mut s), (0, Syndrome::ACK));
}

#[test]
fn rights_are_checked_separately() {
    for (w, r) in [(true, false), (false, true)] {
        let mut s = sim(cfg());
        s.hosts[1].mrs.regions.0[0].remote_write = w;
        s.hosts[1].mrs.regions.0[0].remote_read = r;
        forge(&mut s, Opcode::RC_WRITE_ONLY, 0, reth(BASE, 4), 4);
        assert_eq!(only_answer(&mut s).1 == ACCESS, !w);
        let mut s2 = sim(cfg());
        s2.hosts[1].mrs = s.hosts[1].mrs.clone();
        forge(&mut s2, Opcode::RC_READ_REQUEST, 0, reth(BASE, 4), 0);
        assert_eq!(only_answer(&mut s2).1 == ACCESS, !r);
    }
}

#[test]
fn opcode_sequence_and_length_errors_are_invalid_requests() {
    use Opcode as O;
    type Step = (Opcode, Option<Reth>, usize);
    let first_write: Step = (O::RC_WRITE_FIRST, reth(BASE, 600), 256);
    let first_send: Step = (O::RC_SEND_FIRST, None, 256);
    let cases: &[&[Step]] = &[
        &[(O::RC_SEND_MIDDLE, None, 256)],
        &[(O::RC_WRITE_LAST, None, 4)],
        &[first_send, first_send],
        &[first_send, (O::RC_WRITE_MIDDLE, None, 256)],
        &[first_send, (O::RC_READ_REQUEST, reth(BASE, 4), 0)],
        &[first_send, (O::RC_SEND_ONLY, None, 4)],
        &[first_write, (O::RC_SEND_LAST, None, 4)],
        &[first_write, (O::RC_WRITE_ONLY, reth(BASE, 4), 4)],
        &[(O::RC_SEND_FIRST, None, 255)],
        &[(O::RC_SEND_ONLY, None, 257)],
        &[first_send, (O::RC_SEND_LAST, None, 0)],
        &[first_send, (O::RC_SEND_MIDDLE, None, 12)],
        // DMALen: too short, too long, running over in the middle.
        &[(O::RC_WRITE_ONLY, reth(BASE, 5), 4)],
        &[(O::RC_WRITE_ONLY, reth(BASE, 3), 4)],
        &[(O::RC_WRITE_FIRST, reth(BASE, 256), 256)],
        &[first_write, (O::RC_WRITE_LAST, None, 256)],
        &[
            first_write,
            (O::RC_WRITE_MIDDLE, None, 256),
            (O::RC_WRITE_MIDDLE, None, 256),
        ],
        &[(O::RC_WRITE_FIRST, reth(BASE, (1 << 31) + 1), 256)],
        &[(O::RC_READ_REQUEST, reth(BASE, (1 << 31) + 1), 0)],
        // Not supported here, or of the wrong size.
        &[(O::RC_CMP_SWAP, None, 0)],
        &[(O::RC_FETCH_ADD, None, 0)],
        &[(O::RC_ATOMIC_WRITE, reth(BASE, 8), 8)],
        &[(O::RC_ATOMIC_WRITE, reth(BASE, 8), 0)],
        &[(O::RC_FLUSH, reth(BASE, 8), 0)],
    ];
    for steps in cases {
        let mut s = sim(cfg());
        s.hosts[1].post_recv(RecvWr {
            wr_id: 1,
            len: 4096,
        });
        for (psn, (op, r, len)) in steps.iter().enumerate() {
            forge(&mut s, *op, psn as u32, *r, *len);
        }
        let mut last = None;
        while let Some(tx) = s.hosts[1].qp.poll_transmit(0) {
            last = Some((tx.packet.psn.get(), tx.packet.ext.aeth.unwrap().syndrome));
        }
        assert_eq!(last, Some((steps.len() as u32 - 1, INVALID)), "{steps:?}");
        assert_eq!(s.hosts[1].qp.state(), QpState::Err);
        let held = steps[0].0 == O::RC_SEND_FIRST && steps.len() > 1;
        let status = s.hosts[1].received()[0].1;
        assert_eq!(status == Status::RemInvReq, held, "{steps:?}");
        // In ERR nothing more is answered.
        forge(&mut s, O::RC_SEND_ONLY, steps.len() as u32 - 1, None, 4);
        assert_eq!(s.hosts[1].qp.poll_transmit(0), None);
    }
}

#[test]
fn wrong_addressee_has_no_effect() {
    let mut s = sim(cfg());
    let mut p = PacketRepr::new(Opcode::RC_SEND_ONLY, 0x13, Psn::new(0));
    s.hosts[1].packet(0, &p, &[]);
    p.dest_qpn = 0x12;
    p.pkey = 0x8001;
    s.hosts[1].packet(0, &p, &[]);
    p.pkey = 0xffff;
    p.opcode = Opcode::UC_SEND_FIRST;
    s.hosts[1].packet(0, &p, &[]);
    p.opcode = Opcode::CNP;
    s.hosts[1].packet(0, &p, &[0; 16]);
    p.opcode = Opcode(0xff);
    s.hosts[1].packet(0, &p, &[]);
    assert_eq!(
        s.hosts[1].log,
        [
            Action::Drop(DropReason::BadQpn),
            Action::Drop(DropReason::BadPkey),
            Action::Drop(DropReason::WrongService),
            Action::Cnp,
            Action::Drop(DropReason::BadOpcode),
        ]
    );
    assert_eq!(s.hosts[1].qp.poll_transmit(0), None);
}

#[test]
fn one_sequence_nak_is_outstanding() {
    let mut s = sim(cfg());
    for psn in [1, 2, 3, 0x7f_ffff] {
        forge(&mut s, Opcode::RC_WRITE_ONLY, psn, reth(BASE, 4), 4);
    }
    let nak = Syndrome::Nak(NakCode::PsnSequence);
    assert_eq!(only_answer(&mut s), (0, nak));
    assert_eq!(s.hosts[1].dropped(DropReason::OutOfSequence), 4);
    // The expected one arrives, the next gap is told again.
    forge(&mut s, Opcode::RC_WRITE_ONLY, 0, reth(BASE, 4), 4);
    assert_eq!(only_answer(&mut s), (0, Syndrome::ACK));
    forge(&mut s, Opcode::RC_WRITE_ONLY, 2, reth(BASE, 4), 4);
    assert_eq!(only_answer(&mut s), (1, nak));
    // 2^23 behind is old, not new.
    forge(&mut s, Opcode::RC_WRITE_ONLY, 0x80_0001, reth(BASE, 4), 4);
    assert_eq!(only_answer(&mut s), (0, Syndrome::ACK));
}

#[test]
fn acknowledgements_are_coalesced_and_duplicates_get_the_newest() {
    let mut s = sim(cfg());
    for psn in 0..5 {
        forge(&mut s, Opcode::RC_WRITE_ONLY, psn, reth(BASE, 4), 4);
    }
    assert_eq!(only_answer(&mut s), (4, Syndrome::ACK));
    s.hosts[1].memory.fill(0);
    forge(&mut s, Opcode::RC_WRITE_ONLY, 1, reth(BASE, 4), 4);
    assert_eq!(only_answer(&mut s), (4, Syndrome::ACK));
    assert_eq!(s.hosts[1].memory[0], 0, "a duplicate has no effect");
    assert_eq!(s.hosts[1].qp.responder.msn(), Msn::new(5));
    // Without AckReq there is nothing to say.
    let mut p = PacketRepr::new(Opcode::RC_WRITE_ONLY, 0x12, Psn::new(5));
    p.ext.reth = reth(BASE, 4);
    s.hosts[1].packet(0, &p, &[1; 4]);
    assert_eq!(s.hosts[1].qp.poll_transmit(0), None);
}

#[test]
fn duplicate_read_is_replayed_only_if_it_was_one() {
    let mut s = sim(cfg());
    forge(&mut s, Opcode::RC_READ_REQUEST, 0, reth(BASE, 1000), 0);
    let all = |s: &mut Sim| -> Vec<(Opcode, u32)> {
        std::iter::from_fn(|| s.hosts[1].qp.poll_transmit(0))
            .map(|t| (t.packet.opcode, t.packet.psn.get()))
            .collect()
    };
    let r = Opcode::read_response;
    let full = [
        (r(Place::First), 0),
        (r(Place::Middle), 1),
        (r(Place::Middle), 2),
        (r(Place::Last), 3),
    ];
    // While its responses are still to come, a duplicate adds nothing.
    forge(&mut s, Opcode::RC_READ_REQUEST, 0, reth(BASE, 1000), 0);
    assert_eq!(all(&mut s), full);
    forge(&mut s, Opcode::RC_READ_REQUEST, 2, reth(BASE + 512, 488), 0);
    assert_eq!(all(&mut s), [(r(Place::First), 2), (r(Place::Last), 3)]);
    forge(&mut s, Opcode::RC_READ_REQUEST, 3, reth(BASE + 768, 232), 0);
    assert_eq!(all(&mut s), [(r(Place::Only), 3)]);
    // Another address, more bytes, another key, a PSN that was no READ's.
    forge(&mut s, Opcode::RC_READ_REQUEST, 2, reth(BASE + 516, 480), 0);
    forge(&mut s, Opcode::RC_READ_REQUEST, 2, reth(BASE + 512, 489), 0);
    let other_key = Reth {
        va: BASE,
        rkey: RKEY + 1,
        dma_len: 1000,
    };
    forge(&mut s, Opcode::RC_READ_REQUEST, 0, Some(other_key), 0);
    forge(&mut s, Opcode::RC_READ_REQUEST, 0xff_ffff, reth(BASE, 4), 0);
    assert_eq!(all(&mut s), []);
    assert_eq!(s.hosts[1].dropped(DropReason::DuplicateUnmatched), 4);
    // Bounds are checked again: the region may be gone.
    s.hosts[1].mrs.regions.0.clear();
    forge(&mut s, Opcode::RC_READ_REQUEST, 0, reth(BASE, 1000), 0);
    assert_eq!(all(&mut s), []);
    assert_eq!(s.hosts[1].qp.state(), QpState::Rts);
    assert_eq!(s.hosts[1].qp.responder.epsn(), Psn::new(4));
}

#[test]
fn too_many_reads_are_an_invalid_request() {
    let mut c = cfg();
    c.max_rd_atomic = 2; // host 1 as responder: max_dest_rd_atomic
    let mut s = sim(c);
    for psn in 0..3 {
        forge(&mut s, Opcode::RC_READ_REQUEST, psn, reth(BASE, 4), 0);
    }
    let answers: Vec<_> = std::iter::from_fn(|| s.hosts[1].qp.poll_transmit(0)).collect();
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[2].packet.ext.aeth.unwrap().syndrome, INVALID);
}

/// Field fault A12: an ACK beyond a READ does not complete it.
#[test]
fn ack_beyond_a_read_is_an_implied_nak() {
    let mut s = sim(cfg());
    post(&mut s, write(0, 0, 4));
    post(&mut s, read(1, 0, 700));
    post(&mut s, write(2, 8, 4));
    let mut lost = 0;
    s.lose = Box::new(move |side, _, p| {
        let drop = side == 1 && p.opcode == Opcode::RC_READ_RESP_MIDDLE && lost == 0;
        lost += u32::from(drop);
        drop
    });
    s.run();
    let ok = |id| (id, Status::Success);
    assert_eq!(s.hosts[0].sent(), [ok(0), ok(1), ok(2)]);
    let reissue: Vec<_> = s
        .trace
        .iter()
        .filter(|(_, p, _)| p.opcode == Opcode::RC_READ_REQUEST)
        .map(|(_, p, _)| (p.psn.get(), p.ext.reth.unwrap()))
        .collect();
    assert_eq!(reissue.len(), 2);
    assert_eq!(reissue[1].0, 2, "from the first missing PSN");
    assert_eq!(reissue[1].1, reth(BASE + 256, 444).unwrap());
    assert!(s.now < 100_000, "found without a timeout");
}

#[test]
fn read_responses_must_answer_what_was_asked() {
    use Opcode as O;
    let ack = Some(Syndrome::ACK);
    for (op, psn, syndrome, len) in [
        (O::RC_READ_RESP_MIDDLE, 0, None, 256),
        (O::RC_READ_RESP_LAST, 0, ack, 88),
        (O::RC_READ_RESP_ONLY, 0, ack, 256),
        (O::RC_READ_RESP_FIRST, 0, ack, 255),
        (O::RC_READ_RESP_FIRST, 0, ack, 257),
        (O::RC_READ_RESP_FIRST, 0, Some(INVALID), 256),
        (O::RC_READ_RESP_FIRST, 2, ack, 4), // PSN of the WRITE behind
        (O::RC_ATOMIC_ACK, 0, ack, 0),
    ] {
        let mut s = sim(cfg());
        post(&mut s, read(0, 0, 344));
        post(&mut s, write(1, 0, 4));
        while s.hosts[0].qp.poll_transmit(0).is_some() {}
        if psn == 2 {
            answer(&mut s, O::RC_READ_RESP_FIRST, 0, ack, 256);
            answer(&mut s, O::RC_READ_RESP_LAST, 1, ack, 88);
            s.hosts[0].log.clear();
        }
        answer(&mut s, op, psn, syndrome, len);
        assert_eq!(s.hosts[0].sent()[0].1, Status::BadResp, "{op:?} {len}");
        assert_eq!(s.hosts[0].qp.state(), QpState::Err);
    }
    // Nothing outstanding, or a PSN never sent: no effect.
    let mut s = sim(cfg());
    answer(&mut s, O::RC_ACK, 0, ack, 0);
    post(&mut s, write(0, 0, 4));
    while s.hosts[0].qp.poll_transmit(0).is_some() {}
    answer(&mut s, O::RC_ACK, 1, ack, 0);
    answer(&mut s, O::RC_ACK, 0xff_ffff, Some(INVALID), 0);
    assert_eq!(s.hosts[0].dropped(DropReason::StaleResponse), 3);
    assert_eq!(s.hosts[0].qp.requester.pending(), 1);
}

#[test]
fn retry_count_means_that_many_more_tries() {
    for retry_cnt in [0u8, 1, 3, 7] {
        let mut c = cfg();
        c.retry_cnt = retry_cnt;
        let mut s = sim(c);
        s.lose = Box::new(|side, _, _| side == 0);
        post(&mut s, write(0, 0, 4));
        post(&mut s, write(1, 0, 4));
        s.run();
        assert_eq!(
            s.hosts[0].sent(),
            [(0, Status::RetryExc), (1, Status::WrFlush)]
        );
        let tries = s.trace.iter().filter(|(_, p, _)| p.psn.get() == 0).count();
        assert_eq!(tries, usize::from(retry_cnt) + 1);
        let t = timing::ack_timeout_ns(c.timeout).unwrap();
        let want = t * (u64::from(retry_cnt) + 1);
        assert!((want..want + 1000 * 8).contains(&s.now), "{} {want}", s.now);
    }
    // Timeout 0: never.
    let mut c = cfg();
    c.timeout = 0;
    let mut s = sim(c);
    s.lose = Box::new(|side, _, _| side == 0);
    post(&mut s, write(0, 0, 4));
    s.run();
    assert_eq!(s.hosts[0].sent(), []);
    assert_eq!(s.hosts[0].qp.requester.pending(), 1);
}

#[test]
fn progress_restores_the_retries() {
    let mut c = cfg();
    c.retry_cnt = 1;
    c.window = 1;
    let mut s = sim(c);
    // Every packet is lost once.
    let mut seen = std::collections::HashSet::new();
    s.lose = Box::new(move |side, _, p| side == 0 && seen.insert(p.psn.get()));
    post(&mut s, write(0, 0, 2048));
    s.run();
    assert_eq!(s.hosts[0].sent(), [(0, Status::Success)]);
}

#[test]
fn lost_retransmission_waits_for_the_timer() {
    let mut s = sim(cfg());
    let mut n = 0;
    s.lose = Box::new(move |side, _, p| {
        let hit = side == 0 && p.psn.get() == 1 && n < 2;
        n += u32::from(hit);
        hit
    });
    post(&mut s, write(0, 0, 1024));
    s.run();
    assert_eq!(s.hosts[0].sent(), [(0, Status::Success)]);
    let naks = s
        .trace
        .iter()
        .filter(|(_, p, _)| {
            p.ext
                .aeth
                .is_some_and(|a| a.syndrome == Syndrome::Nak(NakCode::PsnSequence))
        })
        .count();
    assert_eq!(naks, 1);
    assert!(s.now > timing::ack_timeout_ns(5).unwrap());
}

#[test]
fn rnr_retry_counts_and_seven_is_for_ever() {
    for rnr_retry in [0u8, 2, 6] {
        let mut c = cfg();
        c.rnr_retry = rnr_retry;
        let mut s = sim(c);
        post(&mut s, send(0, 4));
        post(&mut s, send(1, 4));
        s.run();
        assert_eq!(
            s.hosts[0].sent(),
            [(0, Status::RnrRetryExc), (1, Status::WrFlush)]
        );
        let tries = s.trace.iter().filter(|(_, p, _)| p.psn.get() == 0).count();
        // Requests and RNR NAKs carry the same PSN.
        assert_eq!(tries, 2 * (usize::from(rnr_retry) + 1));
        assert!(s.now >= u64::from(rnr_retry) * 10_000);
        assert_eq!(s.hosts[1].qp.state(), QpState::Rts);
    }
    let mut c = cfg();
    c.min_rnr_timer = 31;
    let mut s = sim(c);
    post(&mut s, send(0, 4));
    // 30 s without a receive, at 491.52 ms a try.
    while s.now < 30_000_000_000 {
        s.step();
    }
    assert_eq!(s.hosts[0].sent(), []);
    let tries = s.count(0, Opcode::RC_SEND_ONLY);
    assert!((55..=62).contains(&tries), "{tries}");
    s.hosts[1].post_recv(RecvWr { wr_id: 5, len: 4 });
    s.run();
    assert_eq!(s.hosts[0].sent(), [(0, Status::Success)]);
    assert_eq!(s.hosts[1].received(), [(5, Status::Success, 4)]);
}

#[test]
fn rnr_holds_only_from_its_packet_on() {
    let mut s = sim(cfg());
    s.hosts[1].post_recv(RecvWr { wr_id: 5, len: 600 });
    post(&mut s, send(0, 600));
    post(&mut s, send(1, 600));
    while s.now < 8_000 {
        s.step();
    }
    assert_eq!(s.hosts[0].sent(), [(0, Status::Success)]);
    assert_eq!(s.hosts[0].qp.requester.next_psn(), Psn::new(3));
    s.hosts[1].post_recv(RecvWr { wr_id: 6, len: 600 });
    s.run();
    assert_eq!(s.hosts[0].sent().len(), 2);
    assert_eq!(s.hosts[1].received().len(), 2);
}

#[test]
fn fence_waits_for_reads_only() {
    let mut s = sim(cfg());
    post(&mut s, read(0, 0, 1024));
    post(&mut s, write(1, 8, 4));
    let mut fenced = write(2, 16, 4);
    fenced.fence = true;
    post(&mut s, fenced);
    post(&mut s, write(3, 24, 4));
    s.run();
    let order: Vec<_> = s.trace.iter().map(|(i, p, _)| (*i, p.psn.get())).collect();
    let last_response = order.iter().position(|x| *x == (1, 3)).unwrap();
    let at = |psn| order.iter().position(|x| *x == (0, psn)).unwrap();
    assert!(at(4) < last_response, "an unfenced WRITE does not wait");
    assert!(at(5) > last_response);
    assert!(at(6) > at(5));
    assert_eq!(s.hosts[0].sent().len(), 4);
}

#[test]
fn outstanding_reads_are_limited() {
    let mut c = cfg();
    c.max_rd_atomic = 2;
    c.max_dest_rd_atomic = 2;
    let mut s = sim(c);
    for i in 0..9 {
        post(&mut s, read(i, i * 300, 300));
    }
    s.run(); // the checker counts them
    assert_eq!(s.hosts[0].sent().len(), 9);
}

#[test]
fn drain_ends_what_has_begun() {
    let mut s = sim(cfg());
    post(&mut s, write(0, 0, 700));
    post(&mut s, write(1, 0, 4));
    s.step();
    let h = &mut s.hosts[0];
    h.qp.requester.drain(&mut h.log);
    s.run();
    assert_eq!(s.hosts[0].sent(), [(0, Status::Success)]);
    assert_eq!(s.hosts[0].log.last(), Some(&Action::Drained));
    post(&mut s, write(2, 0, 4));
    s.run();
    assert_eq!(s.hosts[0].sent().len(), 1);
    let h = &mut s.hosts[0];
    h.qp.requester.resume(&mut h.log);
    s.run();
    assert_eq!(s.hosts[0].sent().len(), 3);
    let drained = s.hosts[0].log.iter().filter(|a| **a == Action::Drained);
    assert_eq!(drained.count(), 1);
}

#[test]
fn too_long_a_message_fails_in_its_turn() {
    let mut s = sim(cfg());
    post(&mut s, write(0, 0, 700));
    post(&mut s, write(1, 0, (1 << 31) + 1));
    post(&mut s, write(2, 0, 4));
    s.run();
    assert_eq!(
        s.hosts[0].sent(),
        [
            (0, Status::Success),
            (1, Status::LocLen),
            (2, Status::WrFlush)
        ]
    );
}

#[test]
fn error_flushes_in_order_and_is_silent() {
    let mut s = sim(cfg());
    for i in 0..4 {
        post(&mut s, read(i, 0, 1024));
        s.hosts[1].post_recv(RecvWr { wr_id: i, len: 9 });
    }
    for _ in 0..24 {
        s.step();
    }
    for h in &mut s.hosts {
        h.log.clear();
        h.qp.to_error(&mut h.log);
    }
    let left = s.hosts[0].sent();
    assert!(!left.is_empty() && left.iter().all(|x| x.1 == Status::WrFlush));
    assert!(left.windows(2).all(|w| w[0].0 + 1 == w[1].0));
    let flushed: Vec<_> = (0..4).map(|i| (i, Status::WrFlush, 0)).collect();
    assert_eq!(s.hosts[1].received(), flushed);
    let sent = s.trace.len();
    s.run();
    assert_eq!(s.trace.len(), sent);
    assert_eq!(s.hosts[0].sent(), left, "late responses complete nothing");
}

/// 2^31 bytes at the smallest MTU take exactly half of the PSN space.
#[test]
fn greatest_messages() {
    let mut c = cfg();
    c.sq_psn = Psn::new(0xff_fff0);
    let mut q = Requester::new(c);
    let mut out = Vec::new();
    let op = SendOp::Read { va: 0, rkey: 1 };
    q.post(SendWr::new(0, op, 1 << 31), &mut out);
    q.post(SendWr::new(1, op, 1 << 31), &mut out);
    let tx = q.poll_transmit(0).unwrap();
    assert_eq!(tx.packet.ext.reth.unwrap().dma_len, 1 << 31);
    assert_eq!(q.next_psn(), Psn::new(0x7f_fff0));
    assert_eq!(q.poll_transmit(0), None, "no more than half the space");

    let mut c = cfg();
    c.mtu = Mtu::M4096;
    let mut q = Requester::new(c);
    let op = SendOp::Write { va: 0, rkey: 1 };
    q.post(SendWr::new(0, op, (1 << 31) - 1), &mut out);
    let mut at = 0;
    let mut packets = 0;
    while let Some(tx) = q.poll_transmit(0) {
        let Source::Wqe { offset, len, .. } = tx.payload else {
            panic!("no payload");
        };
        assert_eq!(offset, at);
        at += u64::from(len);
        packets += 1;
        assert_eq!(tx.packet.psn.get() + 1, packets);
    }
    assert_eq!((at, packets), ((1 << 31) - 1, 1 << 19));
    assert!(out.is_empty());
}
