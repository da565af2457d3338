//! The checker accepts a legal trace and names every kind of illegal frame.

mod common;

use common::sim::{frame, side, Sim, BASE, RKEY};
use common::{unhex, CAPTURES};
use metaroce_protocol::ext::{Aeth, Reth};
use metaroce_protocol::model::WireErrorKind as K;
use metaroce_protocol::model::*;
use metaroce_protocol::*;

fn cfg() -> QpConfig {
    let mut c = QpConfig::new(0x11, 0x12);
    c.mtu = Mtu::M256;
    c.max_rd_atomic = 2;
    c.max_dest_rd_atomic = 2;
    c
}

/// A packet and its payload length.
type Step = (PacketRepr, usize);

struct Wire(WireChecker);

impl Wire {
    fn new() -> Self {
        Wire(WireChecker::new(&cfg(), &cfg().mirrored()))
    }
    fn put(&mut self, i: usize, p: PacketRepr, len: usize) -> Result<(), K> {
        let b = frame(i, p, &vec![7; len]);
        self.0.observe(side(i), &b).map_err(|e| e.kind)
    }
    fn lost(&mut self, p: PacketRepr, len: usize) -> Result<(), K> {
        let b = frame(0, p, &vec![7; len]);
        self.0.sent(Side::A, &b).map_err(|e| e.kind)
    }
}

fn req(op: Opcode, psn: u32) -> PacketRepr {
    PacketRepr::new(op, 0x12, Psn::new(psn))
}

fn rdma(op: Opcode, psn: u32, at: u64, dma_len: u32) -> PacketRepr {
    let mut p = req(op, psn);
    p.ext.reth = Some(Reth {
        va: BASE + at,
        rkey: RKEY,
        dma_len,
    });
    p
}

fn write(psn: u32) -> PacketRepr {
    rdma(Opcode::RC_WRITE_ONLY, psn, 0, 8)
}

fn read(psn: u32, len: u32) -> PacketRepr {
    rdma(Opcode::RC_READ_REQUEST, psn, 0, len)
}

fn resp(op: Opcode, psn: u32, syndrome: Option<u8>, msn: u32) -> PacketRepr {
    let mut p = PacketRepr::new(op, 0x11, Psn::new(psn));
    p.ext.aeth = syndrome.map(|s| Aeth {
        syndrome: Syndrome::from_byte(s),
        msn: Msn::new(msn),
    });
    p
}

fn ack(psn: u32, syndrome: u8, msn: u32) -> PacketRepr {
    resp(Opcode::RC_ACK, psn, Some(syndrome), msn)
}

const ACK: u8 = 0x1f;

#[test]
fn a_legal_trace_passes_and_any_damage_is_named() {
    let mut s = Sim::new(cfg(), 1 << 16, 3);
    s.raw = Some(Vec::new());
    for i in 0..6 {
        let op = match i % 3 {
            0 => SendOp::Send,
            1 => SendOp::Write {
                va: BASE,
                rkey: RKEY,
            },
            _ => SendOp::Read {
                va: BASE,
                rkey: RKEY,
            },
        };
        s.hosts[1].post_recv(RecvWr {
            wr_id: i,
            len: 4096,
        });
        s.hosts[0].post(SendWr::new(i, op, 600 + i), vec![i as u8; 700]);
    }
    s.run();
    let raw = s.raw.take().unwrap();
    assert_eq!(s.checker.frames(), raw.len() as u64);
    // Flip one bit of each frame in turn: the checker must stop at that frame with a codec error,
    // except in the few bytes that nothing covers.
    for n in 0..raw.len() {
        let mut w = WireChecker::new(&cfg(), &cfg().mirrored());
        for (i, (from, b)) in raw.iter().enumerate() {
            let mut b = b.clone();
            if i == n {
                let at = 14 + (n * 7) % (b.len() - 14);
                b[at] ^= 0x10;
                match w.sent(side(*from), &b) {
                    Err(e) => {
                        assert_eq!((e.frame, e.side), (n as u64, side(*from)));
                        let named = matches!(e.kind, K::Codec(_) | K::ReservedBits);
                        assert!(named, "{e:?}");
                    }
                    Ok(()) => assert!(matches!(at, 40 | 41 | 46), "byte {at}"),
                }
                break;
            }
            w.sent(side(*from), &b).map_err(|e| e.kind).unwrap();
            w.delivered(side(*from), &b);
        }
    }
}

#[test]
fn frame_level_errors() {
    let mut w = Wire::new();
    assert_eq!(
        w.0.sent(Side::A, &[0; 10]).unwrap_err().kind,
        K::Codec(DropReason::EthTruncated)
    );
    // Pad byte not zero, ICRC good.
    let mut b = frame(0, req(Opcode::RC_SEND_ONLY, 0), &[1, 2, 3]);
    let n = b.len();
    b[n - 5] = 1;
    let crc = icrc::compute(&b[14..n - 4]).unwrap();
    b[n - 4..].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(w.0.sent(Side::A, &b).unwrap_err().kind, K::PadNotZero);
    let mut p = req(Opcode::RC_SEND_ONLY, 0);
    p.resv7 = 1;
    assert_eq!(w.put(0, p, 0), Err(K::ReservedBits));
    p.resv7 = 0;
    p.resv6 = 1;
    assert_eq!(w.put(0, p, 0), Err(K::ReservedBits));
    p.resv6 = 0;
    p.pkey = 0x7fff;
    assert_eq!(w.put(0, p, 0), Err(K::WrongPkey));
    p.pkey = 0xffff;
    p.dest_qpn = 0x11;
    assert_eq!(w.put(0, p, 0), Err(K::WrongQpn));
    assert_eq!(
        w.put(0, req(Opcode::UC_SEND_ONLY, 0), 0),
        Err(K::UnexpectedOpcode)
    );
    assert_eq!(w.put(0, req(Opcode::CNP, 0), 16), Ok(()));
    let other = WireChecker::new(&cfg(), &cfg().mirrored()).sent(Side::A, &unhex(CAPTURES[0]));
    assert_eq!(other.unwrap_err().kind, K::WrongQpn);
}

#[test]
fn request_errors() {
    use Opcode as O;
    let first = || rdma(O::RC_WRITE_FIRST, 0, 0, 600);
    let cases: &[(&[Step], K)] = &[
        (&[(write(1), 8)], K::PsnSkipped),
        (&[(write(0xff_ffff), 8)], K::PsnSkipped),
        (&[(write(0), 8), (write(2), 8)], K::PsnSkipped),
        (&[(req(O::RC_SEND_MIDDLE, 0), 256)], K::OpcodeSequence),
        (&[(first(), 256), (write(1), 8)], K::OpcodeSequence),
        (
            &[(first(), 256), (req(O::RC_SEND_LAST, 1), 8)],
            K::OpcodeSequence,
        ),
        (&[(first(), 255)], K::PayloadLength),
        (&[(req(O::RC_SEND_ONLY, 0), 257)], K::PayloadLength),
        (&[(write(0), 7)], K::PayloadLength),
        (
            &[(first(), 256), (req(O::RC_WRITE_LAST, 1), 256)],
            K::PayloadLength,
        ),
        (
            &[(rdma(O::RC_WRITE_FIRST, 0, 0, 256), 256)],
            K::PayloadLength,
        ),
        (&[(read(0, 0x8000_0001), 0)], K::MessageTooLong),
        (
            &[(read(0, 1), 0), (read(1, 1), 0), (read(2, 1), 0)],
            K::TooManyReads,
        ),
        (
            &[(write(0), 8), (rdma(O::RC_WRITE_ONLY, 0, 4, 8), 8)],
            K::RetransmissionDiffers,
        ),
        (
            &[(write(0), 8), (req(O::RC_SEND_ONLY, 0), 8)],
            K::RetransmissionDiffers,
        ),
        (&[(read(0, 600), 0), (write(1), 8)], K::PsnTooOld),
        (
            &[(read(0, 600), 0), (rdma(O::RC_READ_REQUEST, 1, 0, 344), 0)],
            K::ReadReissueDiffers,
        ),
        (
            &[
                (read(0, 600), 0),
                (rdma(O::RC_READ_REQUEST, 1, 256, 345), 0),
            ],
            K::ReadReissueDiffers,
        ),
        (
            &[(write(0), 8), (rdma(O::RC_READ_REQUEST, 0, 0, 8), 0)],
            K::RetransmissionDiffers,
        ),
    ];
    for (steps, want) in cases {
        let mut w = Wire::new();
        let (last, before) = steps.split_last().unwrap();
        for (p, len) in before {
            assert_eq!(w.put(0, *p, *len), Ok(()), "{steps:?}");
        }
        assert_eq!(w.put(0, last.0, last.1), Err(*want), "{steps:?}");
    }
    let mut w = Wire::new();
    let mut p = write(0);
    p.se = true;
    assert_eq!(w.put(0, p, 8), Err(K::SolicitedBit));
    // Going back is legal, skipping what comes after is not.
    for psn in 0..4 {
        assert_eq!(w.put(0, write(psn), 8), Ok(()));
    }
    assert_eq!(w.put(0, write(1), 8), Ok(()));
    assert_eq!(w.put(0, write(3), 8), Err(K::PsnSkipped));
    assert_eq!(w.put(0, write(4), 8), Err(K::PsnSkipped));
    // Unless an acknowledgement has moved the window.
    assert_eq!(w.put(1, ack(2, ACK, 3), 0), Ok(()));
    assert_eq!(w.put(0, write(3), 8), Ok(()));
    // A legal reissue of the rest of a READ.
    assert_eq!(w.put(0, read(4, 600), 0), Ok(()));
    assert_eq!(w.put(0, rdma(O::RC_READ_REQUEST, 5, 256, 344), 0), Ok(()));
    assert_eq!(w.put(0, write(7), 8), Ok(()));
}

#[test]
fn response_errors() {
    use Opcode as O;
    let (first, mid, last, only) = (
        O::RC_READ_RESP_FIRST,
        O::RC_READ_RESP_MIDDLE,
        O::RC_READ_RESP_LAST,
        O::RC_READ_RESP_ONLY,
    );
    // Two WRITEs (0, 1), a READ of 600 bytes (2..5), a WRITE (5); all delivered.
    let start = || {
        let mut w = Wire::new();
        w.put(0, write(0), 8).unwrap();
        w.put(0, write(1), 8).unwrap();
        w.put(0, read(2, 600), 0).unwrap();
        w.put(0, write(5), 8).unwrap();
        w
    };
    let rr = |op, psn, s: Option<u8>| resp(op, psn, s, 3);
    let ok = Some(ACK);
    let cases: &[(&[Step], Option<K>)] = &[
        (&[(ack(1, ACK, 2), 0), (rr(first, 2, ok), 256)], None),
        (
            &[
                (rr(first, 2, ok), 256),
                (rr(mid, 3, None), 256),
                (rr(last, 4, ok), 88),
                (ack(5, ACK, 4), 0),
            ],
            None,
        ),
        (&[(ack(6, ACK, 4), 0)], Some(K::ResponseBeyondSent)),
        (&[(ack(0xff_ffff, ACK, 0), 0)], Some(K::ResponseBeyondSent)),
        (&[(ack(5, ACK, 4), 0)], Some(K::AckBeforeReadResponse)),
        (&[(ack(2, ACK, 3), 0)], Some(K::AckBeforeReadResponse)),
        (&[(ack(5, 0x62, 3), 0)], Some(K::AckBeforeReadResponse)),
        (
            &[(ack(1, ACK, 2), 0), (ack(0, ACK, 2), 0)],
            Some(K::AckWentBack),
        ),
        (
            &[(ack(1, ACK, 2), 0), (ack(1, ACK, 1), 0)],
            Some(K::MsnWentBack),
        ),
        (&[(ack(1, ACK, 5), 0)], Some(K::MsnBeyondReceived)),
        (&[(ack(1, 0x7f, 2), 0)], Some(K::ReservedSyndrome)),
        (&[(ack(1, 0x60, 2), 0), (ack(1, 0x60, 2), 0)], None),
        (
            &[
                (ack(1, 0x60, 2), 0),
                (ack(1, 0x60, 2), 0),
                (ack(1, 0x60, 2), 0),
            ],
            Some(K::NakRepeated),
        ),
        (
            &[(ack(1, 0x61, 1), 0), (ack(1, ACK, 2), 0)],
            Some(K::ResponseAfterFatalNak),
        ),
        (&[(rr(only, 1, ok), 8)], Some(K::NotARead)),
        (&[(rr(mid, 2, None), 256)], Some(K::ReadResponseSequence)),
        (&[(rr(first, 3, ok), 256)], Some(K::ReadResponseSequence)),
        (&[(rr(only, 2, ok), 256)], Some(K::ReadResponseSequence)),
        (
            &[(rr(first, 2, ok), 256), (rr(last, 3, ok), 256)],
            Some(K::ReadResponseSequence),
        ),
        (
            &[(rr(first, 2, ok), 256), (rr(last, 4, ok), 88)],
            Some(K::ReadResponseSequence),
        ),
        (&[(rr(first, 2, ok), 255)], Some(K::PayloadLength)),
        (
            &[
                (rr(first, 2, ok), 256),
                (rr(mid, 3, None), 256),
                (rr(last, 4, ok), 87),
            ],
            Some(K::PayloadLength),
        ),
        (
            &[(rr(first, 2, Some(0x62)), 256)],
            Some(K::ReservedSyndrome),
        ),
    ];
    for (steps, want) in cases {
        let mut w = start();
        let (end, before) = steps.split_last().unwrap();
        for (p, len) in before {
            assert_eq!(w.put(1, *p, *len), Ok(()), "{steps:?}");
        }
        assert_eq!(w.put(1, end.0, end.1).err(), *want, "{steps:?}");
    }
    let mut p = ack(0, ACK, 1);
    p.ack_req = true;
    assert_eq!(start().put(1, p, 0), Err(K::AckReqInResponse));
    let mut p = resp(O::RC_ATOMIC_ACK, 0, Some(ACK), 0);
    p.ext.atomic_ack = Some(1);
    assert_eq!(start().put(1, p, 0), Err(K::NotAnAtomic));
}

/// An atomic goes out again with the same operands and gets the same answer again, none before it has come.
#[test]
fn atomics() {
    let request = |psn: u32, swap_add: u64, va: u64| {
        let mut p = PacketRepr::new(Opcode::RC_FETCH_ADD, 0x12, Psn::new(psn));
        p.ack_req = true;
        p.ext.atomic = Some(ext::AtomicEth {
            va,
            swap_add,
            ..Default::default()
        });
        p
    };
    let answer = |psn: u32, value: u64| {
        let mut p = resp(Opcode::RC_ATOMIC_ACK, psn, Some(ACK), 1);
        p.ext.atomic_ack = Some(value);
        p
    };
    let mut w = Wire::new();
    assert_eq!(w.put(0, request(0, 1, 12), 0), Err(K::AtomicUnaligned));
    w.put(0, request(0, 1, 8), 0).unwrap();
    assert_eq!(w.put(1, ack(0, ACK, 1), 0), Err(K::AckBeforeReadResponse));
    let early = w.put(1, resp(Opcode::RC_READ_RESP_ONLY, 0, Some(ACK), 1), 8);
    assert_eq!(early, Err(K::NotARead));
    w.put(1, answer(0, 5), 0).unwrap();
    let other = w.put(0, request(0, 2, 8), 0);
    assert_eq!(other, Err(K::RetransmissionDiffers));
    w.put(0, request(0, 1, 8), 0).unwrap();
    assert_eq!(w.put(1, answer(0, 6), 0), Err(K::AtomicAnswerDiffers));
    w.put(1, answer(0, 5), 0).unwrap();
}

#[test]
fn responses_never_run_ahead_of_deliveries() {
    let mut w = Wire::new();
    w.put(0, write(0), 8).unwrap();
    w.lost(write(1), 8).unwrap();
    let early = w.put(1, ack(1, ACK, 1), 0);
    assert_eq!(early, Err(K::ResponseBeyondReceived));
    let no_gap = w.put(1, ack(1, 0x60, 1), 0);
    assert_eq!(no_gap, Err(K::NakWithoutGap));
    w.put(0, write(2), 8).unwrap();
    w.put(1, ack(1, 0x60, 1), 0).unwrap();
    assert_eq!(w.put(1, ack(1, 0x60, 1), 0), Err(K::NakRepeated));
    assert_eq!(w.put(1, ack(2, ACK, 1), 0), Err(K::ResponseBeyondReceived));
    assert_eq!(w.put(1, ack(1, 0x22, 1), 0), Err(K::ResponseBeyondReceived));
    w.put(0, write(1), 8).unwrap();
    w.put(0, write(2), 8).unwrap();
    assert_eq!(w.put(1, ack(2, ACK, 4), 0), Err(K::MsnBeyondReceived));
    w.put(1, ack(2, ACK, 3), 0).unwrap();
    w.lost(read(3, 10), 0).unwrap();
    let unasked = w.put(1, resp(Opcode::RC_READ_RESP_ONLY, 3, Some(ACK), 4), 10);
    assert_eq!(unasked, Err(K::ResponseBeyondReceived));
}
