//! The codec against frames made by independent code and captured from hardware.

mod common;

use common::{unhex, vector, vectors, Rng, CAPTURES};
use metaroce_protocol::ext::{Aeth, AtomicEth, Deth, Ext, Feth, Reth};
use metaroce_protocol::opcode::{ExtSet, PayloadRule, TABLE};
use metaroce_protocol::roce::check_payload;
use metaroce_protocol::*;

fn reencode(bytes: &[u8]) -> Vec<u8> {
    let f = Frame::new_checked(bytes).expect("decodes");
    let repr = FrameRepr::parse(&f);
    let mut out = vec![0xa5; bytes.len() + 7];
    let n = repr.emit(f.payload(), &mut out).expect("encodes");
    out.truncate(n);
    out
}

#[test]
fn golden_frames_decode_and_reencode() {
    for v in vectors() {
        if v.name == "neg_opcode_ff_mcastqp" {
            continue; // refused; see below
        }
        let f = Frame::new_checked(&v.frame).unwrap_or_else(|e| panic!("{}: {e:?}", v.name));
        assert_eq!(f.roce.icrc().to_le_bytes()[..], v.icrc[..], "{}", v.name);
        assert_eq!(reencode(&v.frame), v.frame, "{}", v.name);
    }
}

#[test]
fn hardware_captures_decode_and_reencode() {
    for c in CAPTURES {
        assert_eq!(reencode(&unhex(c)), unhex(c));
    }
    let uc = unhex(CAPTURES[0]);
    let f = Frame::new_checked(&uc).unwrap();
    assert_eq!(f.roce.opcode(), Opcode(0x24));
    assert_eq!((f.payload().len(), f.roce.pad()), (18, 2));
    let cnp = unhex(CAPTURES[1]);
    let f = Frame::new_checked(&cnp).unwrap();
    let p = PacketRepr::parse(&f.roce);
    assert_eq!(p.opcode, Opcode::CNP);
    assert!(p.becn && !p.mig_req);
    assert_eq!(f.payload(), [0; 16]);
}

#[test]
fn negative_frames_are_refused_for_their_reason() {
    let ff = vector("neg_opcode_ff_mcastqp");
    assert_eq!(Frame::new_checked(&ff).err(), Some(DropReason::BadOpcode));
    // Well-formed, but no responder may execute it: the answer is NAK invalid request.
    let aw = vector("neg_atomic_write_len0");
    let f = Frame::new_checked(&aw).unwrap();
    assert_eq!(f.roce.opcode(), Opcode::RC_ATOMIC_WRITE);
    assert!(Mtu::ALL
        .iter()
        .all(|m| !check_payload(f.roce.info(), f.payload().len(), *m)));
}

#[test]
fn invariant_fields_do_not_change_the_icrc() {
    let base = Frame::new_checked(&vector("invariant_tos0")).map(|f| f.roce.icrc());
    for v in vectors()
        .iter()
        .filter(|v| v.name.starts_with("invariant_"))
    {
        assert_eq!(
            Frame::new_checked(&v.frame).map(|f| f.roce.icrc()),
            base,
            "{}",
            v.name
        );
    }
}

/// Every bit of a frame: masked ones leave the ICRC good, all others are noticed.
#[test]
fn icrc_covers_exactly_the_invariant_bits() {
    for (name, ip, masked) in [
        (
            "rc_send_only_len5",
            14,
            &[1usize, 8, 10, 11, 26, 27, 32][..],
        ),
        ("ipv6", 14, &[1, 2, 3, 7, 46, 47, 52][..]),
    ] {
        let good = vector(name);
        let end = good.len() - 4;
        for bit in 0..(end - ip) * 8 {
            let mut b = good[ip..end].to_vec();
            let (i, m) = (bit / 8, 1 << (bit % 8));
            b[i] ^= m;
            let Some(crc) = icrc::compute(&b) else {
                continue;
            };
            let same = crc.to_le_bytes() == good[end..];
            let expect = masked.contains(&i) || (name == "ipv6" && i == 0 && m < 16);
            assert_eq!(same, expect, "{name} byte {i} mask {m:#x}");
        }
    }
}

#[test]
fn every_single_bit_error_is_refused_or_masked() {
    let good = vector("rc_write_only_len5");
    for bit in 14 * 8..good.len() * 8 {
        let mut b = good.clone();
        b[bit / 8] ^= 1 << (bit % 8);
        if Frame::new_checked(&b).is_ok() {
            // UDP checksum and BTH byte 4 are the only unprotected bytes of IPv4 frames, since
            // the header checksum guards TOS and TTL.
            let udp_sum = 14 + 20 + 6..14 + 20 + 8;
            assert!(
                udp_sum.contains(&(bit / 8)) || bit / 8 == 14 + 28 + 4,
                "byte {}",
                bit / 8
            );
        }
    }
}

fn patch(name: &str, at: usize, bytes: &[u8]) -> Result<(), DropReason> {
    let mut b = vector(name);
    b[at..at + bytes.len()].copy_from_slice(bytes);
    // Keep the IPv4 checksum good, so that the reason under test is the first one met.
    if b[12] == 8 && b[14] == 0x45 && !(at..at + bytes.len()).contains(&24) {
        let h: [u8; 20] = b[14..34].try_into().unwrap();
        b[24..26].copy_from_slice(&ip::ipv4_checksum(&h).to_be_bytes());
    }
    Frame::new_checked(&b).map(|_| ())
}

#[test]
fn each_reason_is_hit() {
    use DropReason::*;
    let s = "rc_send_only_len4"; // 62 bytes: eth 14, ip 20, udp 8, bth 12, data 4, icrc 4
    assert_eq!(patch(s, 0, &[]), Ok(()));
    assert_eq!(Frame::new_checked(&[0; 13]).err(), Some(EthTruncated));
    assert_eq!(patch(s, 12, &[8, 6]), Err(NotIp));
    assert_eq!(patch(s, 14, &[0x46]), Err(IpMalformed));
    assert_eq!(patch(s, 14, &[0x65]), Err(IpMalformed));
    assert_eq!(patch(s, 20, &[0xc0]), Err(IpMalformed));
    assert_eq!(patch(s, 16, &[0, 49]), Err(IpLength));
    assert_eq!(patch(s, 16, &[0, 19]), Err(IpLength));
    assert_eq!(patch(s, 24, &[0, 0]), Err(IpChecksum));
    assert_eq!(patch(s, 20, &[0x20, 0]), Err(IpFragment));
    assert_eq!(patch(s, 20, &[0x40, 1]), Err(IpFragment));
    assert_eq!(patch("ipv6", 20, &[44]), Err(IpFragment));
    assert_eq!(patch("ipv6", 20, &[0]), Err(NotUdp));
    assert_eq!(patch("ipv6", 18, &[0, 33]), Err(IpLength));
    assert_eq!(patch("ipv6", 14, &[0x40]), Err(IpMalformed));
    assert_eq!(patch(s, 23, &[6]), Err(NotUdp));
    assert_eq!(patch(s, 38, &[0, 27]), Err(UdpLength));
    assert_eq!(patch(s, 36, &[0x12, 0xb6]), Err(NotRoce));
    assert_eq!(patch(s, 42, &[0x15]), Err(BadOpcode));
    assert_eq!(patch(s, 42, &[0x0a]), Err(BadLength));
    assert_eq!(patch(s, 43, &[0x41]), Err(BadTver));
    // Payload cannot be 4 - 1 bytes + pad 1 here, so a pad that fits is only caught by the ICRC.
    assert_eq!(patch(s, 43, &[0x50]), Err(BadIcrc));
    assert_eq!(patch(s, 61, &[0]), Err(BadIcrc));
    // Pad 3 with no payload: the subtraction must not be tried.
    assert_eq!(patch("rc_send_only_len0", 43, &[0x70]), Err(BadLength));
    // A payload behind a header-only opcode.
    assert_eq!(patch("rc_send_only_len5", 42, &[0x11]), Err(BadLength));
    assert_eq!(patch("cnp", 43, &[0x50]), Err(BadLength));
}

#[test]
fn unaligned_payload_is_bad_pad() {
    let good = vector("rc_send_only_len64");
    for cut in 1..4 {
        let mut b = good[..good.len() - cut].to_vec();
        let (ip, udp) = (108 - cut as u16, 88 - cut as u16);
        b[16..18].copy_from_slice(&ip.to_be_bytes());
        b[38..40].copy_from_slice(&udp.to_be_bytes());
        let h: [u8; 20] = b[14..34].try_into().unwrap();
        b[24..26].copy_from_slice(&ip::ipv4_checksum(&h).to_be_bytes());
        assert_eq!(Frame::new_checked(&b).err(), Some(DropReason::BadPad));
    }
}

#[test]
fn every_truncation_is_refused_and_padding_is_ignored() {
    for v in vectors() {
        for n in 0..v.frame.len() {
            assert!(
                Frame::new_checked(&v.frame[..n]).is_err(),
                "{} cut to {n}",
                v.name
            );
        }
        if let Ok(f) = Frame::new_checked(&v.frame) {
            let repr = FrameRepr::parse(&f);
            let mut long = v.frame.clone();
            long.resize(v.frame.len().max(60) + 4, 0x5a);
            let g = Frame::new_checked(&long).unwrap();
            assert_eq!((FrameRepr::parse(&g), g.payload()), (repr, f.payload()));
        }
    }
}

#[test]
fn opcode_table_is_total_and_matches_its_names() {
    let known: Vec<u8> = (0..=255u8)
        .filter(|o| Opcode(*o).info().is_some())
        .collect();
    let mut listed: Vec<u8> = Opcode::ALL.iter().map(|o| o.0).collect();
    listed.sort_unstable();
    assert_eq!(known, listed);
    assert_eq!(known.len(), 40);
    for (i, row) in TABLE.iter().enumerate() {
        if let Some(r) = row {
            assert_eq!(usize::from(r.opcode), i);
            assert_ne!(Opcode(r.opcode).name(), "?");
            assert!(r.header_len() <= 40);
        }
    }
    assert_eq!(Opcode(0x13).info().unwrap().header_len(), 12 + 28);
    assert_eq!(Opcode(0x65).info().unwrap().header_len(), 12 + 8 + 4);
    assert_eq!(Opcode(0x0b).info().unwrap().header_len(), 12 + 16 + 4);
    assert_eq!(Opcode(0x12).info().unwrap().header_len(), 12 + 4 + 8);
}

/// One frame of every opcode, IPv4, IPv6, tagged and untagged, there and back.
#[test]
fn every_opcode_round_trips() {
    let base = FrameRepr::parse(&Frame::new_checked(&vector("rc_ack")).unwrap());
    let six = FrameRepr::parse(&Frame::new_checked(&vector("ipv6")).unwrap());
    for op in Opcode::ALL {
        let info = op.info().unwrap();
        let has = |s| info.ext.has(s);
        let ext = Ext {
            deth: has(ExtSet::DETH).then_some(Deth {
                qkey: GSI_QKEY,
                src_qpn: 0x12_3456,
                resv: 0,
            }),
            feth: has(ExtSet::FETH).then_some(Feth(0x13)),
            reth: has(ExtSet::RETH).then_some(Reth {
                va: 0x0102_0304_0506_0708,
                rkey: 0x090a_0b0c,
                dma_len: 0x0d0e_0f10,
            }),
            atomic: has(ExtSet::ATOMIC).then_some(AtomicEth {
                va: 8,
                rkey: 9,
                swap_add: 10,
                compare: 11,
            }),
            aeth: has(ExtSet::AETH).then_some(Aeth {
                syndrome: Syndrome::Rnr { timer: 12 },
                msn: Msn::new(0xabcdef),
            }),
            atomic_ack: has(ExtSet::ATOMIC_ACK).then_some(u64::MAX - 5),
            imm: has(ExtSet::IMM).then_some([0x11, 0x22, 0x33, 0x44]),
            ieth: has(ExtSet::IETH).then_some(0x5566_7788),
        };
        let len = match info.payload {
            PayloadRule::None => 0,
            PayloadRule::Exact(n) => usize::from(n),
            _ => 253,
        };
        let payload: Vec<u8> = (0..len)
            .map(|i| if len == 16 { 0 } else { i as u8 })
            .collect();
        for (ip, vlan) in [(base.ip, false), (six.ip, true), (base.ip, true)] {
            let mut r = base;
            r.ip = ip;
            r.eth.vlan = vlan.then_some(eth::Vlan {
                tpid: 0x8100,
                tci: 0x6007,
            });
            r.packet = PacketRepr::new(*op, 0x00_beef, Psn::new(0xff_fffe));
            r.packet.ext = ext;
            let mut buf = vec![0; 400];
            let n = r.emit(&payload, &mut buf).unwrap();
            let f = Frame::new_checked(&buf[..n]).unwrap_or_else(|e| panic!("{op:?}: {e:?}"));
            assert_eq!(FrameRepr::parse(&f), r, "{op:?}");
            assert_eq!(f.payload(), payload);
            assert!(f.roce.pad_bytes().iter().all(|b| *b == 0));
            assert_eq!(
                r.emit(&payload, &mut buf[..n - 1]),
                Err(EmitError::BufferTooSmall)
            );
            // A header that the opcode does not have, or lacks, is refused.
            let mut wrong = r;
            wrong.packet.ext.ieth = match wrong.packet.ext.ieth {
                Some(_) => None,
                None => Some(1),
            };
            assert_eq!(
                wrong.emit(&payload, &mut buf),
                Err(EmitError::HeaderMismatch)
            );
        }
    }
}

/// Random bytes and mutated frames: nothing may panic, and what decodes must re-encode.
#[test]
fn mutated_frames_never_panic() {
    let seed = std::env::var("METAROCE_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0x5eed);
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let base: Vec<Vec<u8>> = vectors()
        .into_iter()
        .map(|v| v.frame)
        .chain(CAPTURES.map(unhex))
        .collect();
    let mut decoded = 0;
    for round in 0..60_000 {
        let mut b = base[rng.below(base.len() as u64) as usize].clone();
        match round % 4 {
            0 => b.truncate(rng.below(b.len() as u64 + 1) as usize),
            1 => b.extend((0..rng.below(70)).map(|i| i as u8)),
            _ => {}
        }
        for _ in 0..rng.below(6) {
            if !b.is_empty() {
                let i = rng.below(b.len() as u64) as usize;
                b[i] = rng.next() as u8;
            }
        }
        if round % 3 == 0 && b.len() >= 34 && b[14] == 0x45 {
            let h: [u8; 20] = b[14..34].try_into().unwrap();
            b[24..26].copy_from_slice(&ip::ipv4_checksum(&h).to_be_bytes());
        }
        if round % 7 == 0 {
            b = (0..rng.below(100)).map(|_| rng.next() as u8).collect();
        }
        if let Ok(f) = Frame::new_without_icrc(&b) {
            decoded += 1;
            let repr = FrameRepr::parse(&f);
            let mut out = vec![0; b.len()];
            let n = repr.emit(f.payload(), &mut out).unwrap();
            // Pad and ICRC are computed, all before them is the same.
            let same = n - 4 - f.roce.pad();
            assert_eq!(out[..same], b[..same]);
        }
        for m in Mtu::ALL {
            if let Ok(f) = Frame::new_checked(&b) {
                check_payload(f.roce.info(), f.payload().len(), m);
            }
        }
    }
    assert!(decoded > 10_000, "{decoded}");
}

#[test]
fn drop_reasons_are_dense() {
    for (i, r) in DropReason::ALL.iter().enumerate() {
        assert_eq!(*r as usize, i);
        assert!(r
            .name()
            .bytes()
            .all(|c| c.is_ascii_lowercase() || c == b'_'));
    }
}
