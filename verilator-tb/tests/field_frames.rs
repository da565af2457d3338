//! Faults that users of other cards met, as frames (docs/field-faults.md): named after their rows.

mod common;

use common::log::{event, take, Log};
use metaroce_hdl_spec::{table::qp_type, wqe::op};
use metaroce_protocol::{
    ext::{Deth, Reth},
    ip::IpRepr,
    Frame as View, NakCode, Opcode, PacketRepr, Psn, Syndrome,
};
use metaroce_tb::{
    craft::{emit, grown, inject, raw, repr, settle},
    fabric::{Fate, Seen},
    pair::Pair,
    script::{Conn, UdDest, Wr},
    sim::SimConfig,
};
use std::sync::{Arc, Mutex};

const ERR: u8 = 6;
const RTS: u8 = 3;

fn conn(qp_type: u8) -> Conn {
    Conn {
        mtu: 3,
        timeout: 8,
        qp_type,
        ..Conn::default()
    }
}

/// An RC, a UC and a UD QP at each end, and the log of the wire.
fn cards() -> (Pair, Log) {
    let mut p = Pair::new(&SimConfig::default(), 0, 1 << 16, &conn(qp_type::RC));
    for t in [qp_type::RC, qp_type::UC, qp_type::UD] {
        for e in &mut p.ends {
            e.host.qp_type = t;
        }
        p.add(&conn(t), 6, 4);
    }
    let log = Log::new(&mut p);
    (p, log)
}

/// A new request to QP `q` of end 1.
fn request(p: &Pair, q: usize, o: Opcode, psn: u32) -> PacketRepr {
    let mut r = PacketRepr::new(o, p.ends[1].qps[q].qpn, Psn::new(psn));
    r.ack_req = q == 0;
    r
}

fn write(p: &Pair, q: usize, psn: u32, at: u64, len: u32) -> PacketRepr {
    let o = [Opcode::RC_WRITE_ONLY, Opcode::UC_WRITE_ONLY][q];
    let mut r = request(p, q, o, psn);
    r.ext.reth = Some(Reth {
        va: p.ends[1].buf + at,
        rkey: p.ends[1].key,
        dma_len: len,
    });
    r
}

/// An address near the end of the address space, at which the sum with the length is zero or small.
#[test]
fn a01_rkey_range_wrap() {
    let (mut p, log) = cards();
    let mark = vec![0xEE; 1 << 16];
    p.fill(1, 0, &mark);
    for (o, len) in [
        (Opcode::RC_WRITE_ONLY, 0x400),
        (Opcode::RC_READ_REQUEST, 0x400),
        (Opcode::RC_READ_REQUEST, 0x7FFF_FFFF),
    ] {
        let q = p.ends[1].qps.len();
        for e in &mut p.ends {
            e.host.qp_type = qp_type::RC;
        }
        p.add(&conn(qp_type::RC), 4, 2);
        log.clear();
        let mut r = request(&p, q, o, 0);
        r.ext.reth = Some(Reth {
            va: 0xFFFF_FFFF_FFFF_FC00,
            rkey: p.ends[1].key,
            dma_len: len,
        });
        let payload = vec![1; if o == Opcode::RC_WRITE_ONLY { 0x400 } else { 0 }];
        let f = emit(&repr(&p.sim, 0, r), &payload);
        inject(&mut p, 1, f);
        assert_eq!(
            log.refusals(1),
            [Syndrome::Nak(NakCode::RemoteAccess)],
            "{o:?}"
        );
        assert_eq!(p.state(1, q), ERR, "{o:?}");
        assert_eq!(event(&mut p, 1), (5, p.ends[1].qps[q].qpn));
    }
    // The same as a duplicate: a READ that was executed, asked for again from elsewhere.
    let mut r = request(&p, 0, Opcode::RC_READ_REQUEST, 0);
    let good = Reth {
        va: p.ends[1].buf,
        rkey: p.ends[1].key,
        dma_len: 64,
    };
    r.ext.reth = Some(good);
    let f = emit(&repr(&p.sim, 0, r), &[]);
    inject(&mut p, 1, f);
    log.clear();
    r.ext.reth = Some(Reth {
        va: 0xFFFF_FFFF_FFFF_FFF0,
        ..good
    });
    let f = emit(&repr(&p.sim, 0, r), &[]);
    let g = grown(&mut p, 1, |p| inject(p, 1, f));
    assert_eq!(g, [("rx_drop_duplicate", 1)]);
    assert_eq!((log.all().len(), p.state(1, 0)), (0, RTS));
    assert!(p.read(1, 0, 1 << 16) == mark);
}

/// An opcode without a meaning to the multicast QPN in a 48-byte datagram, and to QPs that are there.
#[test]
fn a02_unknown_opcode_multicast_qpn() {
    let (mut p, log) = cards();
    for op in [0xFFu8, 0x3F, 0x7F, 0xE0, 0xC0] {
        for qpn in [0xFF_FFFF, p.ends[1].qps[0].qpn, p.ends[1].qps[2].qpn, 0, 1] {
            let mut roce = vec![op, 0x40, 0xFF, 0xFF];
            roce.extend_from_slice(&qpn.to_be_bytes());
            roce.extend_from_slice(&[0; 28]);
            let f = raw(&p.sim, 0, &roce);
            assert_eq!(f.len(), 42 + 40);
            let g = grown(&mut p, 1, |p| inject(p, 1, f));
            assert_eq!(g, [("rx_drop_opcode", 1)], "{op:#x} to {qpn:#x}");
        }
    }
    // A datagram to the multicast QPN: nobody has joined.
    let mut r = PacketRepr::new(Opcode::UD_SEND_ONLY, 0xFF_FFFF, Psn::new(0));
    r.ext.deth = Some(Deth {
        qkey: Conn::default().qkey,
        src_qpn: 9,
        resv: 0,
    });
    let f = emit(&repr(&p.sim, 0, r), &[1; 16]);
    let g = grown(&mut p, 1, |p| inject(p, 1, f));
    assert_eq!(g, [("rx_drop_qp", 1)]);
    assert_eq!(log.all().len(), 0);
}

/// A pad that is longer than the payload: for every request that has one.
#[test]
fn a03_length_underflow() {
    let (mut p, log) = cards();
    for o in Opcode::ALL {
        let info = o.info().expect("in the table");
        for missing in [0, 1, info.header_len() - 12] {
            for pad in 1..4u8 {
                let mut roce = vec![o.0, 0x40 | pad << 4, 0xFF, 0xFF, 0];
                roce.extend_from_slice(&p.ends[1].qps[0].qpn.to_be_bytes()[1..]);
                roce.extend_from_slice(&[0; 60]);
                roce.truncate(info.header_len() - missing);
                let f = raw(&p.sim, 0, &roce);
                assert!(View::new_checked(&f).is_err());
                let g = grown(&mut p, 1, |p| inject(p, 1, f));
                assert_eq!(g, [("rx_drop_malformed", 1)], "{o:?}, pad {pad}");
            }
        }
    }
    assert_eq!(log.all().len(), 0);
    assert_eq!(p.state(1, 0), RTS);
}

/// ATOMIC WRITE, which the card does not execute, with any payload: NAK, and not a byte is read or written.
#[test]
fn a04_atomic_write_without_payload() {
    for len in [0usize, 4, 8, 12] {
        let (mut p, log) = cards();
        let mut r = request(&p, 0, Opcode::RC_ATOMIC_WRITE, 0);
        r.ext.reth = Some(Reth {
            va: p.ends[1].buf,
            rkey: p.ends[1].key,
            dma_len: 8,
        });
        p.fill(1, 0, &[0xEE; 16]);
        let f = emit(&repr(&p.sim, 0, r), &vec![1; len]);
        inject(&mut p, 1, f);
        let want = [Syndrome::Nak(NakCode::InvalidRequest)];
        assert_eq!(
            (log.refusals(1), p.state(1, 0)),
            (want.into(), ERR),
            "{len}"
        );
        assert_eq!(p.read(1, 0, 16), [0xEE; 16]);
    }
}

/// WRITE, READ, WRITE; all responses of the READ are lost, the last acknowledgement is not: it does not complete the READ.
#[test]
fn a12_ack_beyond_a_read() {
    let (mut p, log) = cards();
    let data: Vec<u8> = (0..4000u32).map(|k| (k * 7) as u8).collect();
    p.fill(1, 0x4000, &data);
    let lost = Arc::new(Mutex::new(0));
    let n = lost.clone();
    p.sim.fabric.fate = Some(Box::new(move |from, f| {
        let is_response = (0x0D..=0x10).contains(&f.data[42]);
        let mut n = n.lock().expect("count");
        if from == 1 && is_response && *n < 4 {
            *n += 1;
            return Fate::Lose;
        }
        Fate::Pass
    }));
    let wrs = [
        p.rdma(0, op::WRITE, 0, 0, 100),
        p.rdma(0, op::READ, 0x8000, 0x4000, 4000),
        p.rdma(0, op::WRITE, 0, 0x1000, 100),
    ];
    let posted: Vec<_> = wrs.iter().map(|w| (p.post(0, 0, w), 0, false)).collect();
    assert_eq!(take(&mut p, 0, 3), posted);
    assert_eq!(*lost.lock().expect("count"), 4);
    assert!(p.read(0, 0x8000, 4000) == data);
    let reads = log.requests(0).iter().filter(|e| e.opcode == 0x0C).count();
    assert_eq!(reads, 2, "asked for again");
    assert_eq!(
        p.sim.nodes[0].counter(metaroce_hdl_spec::regs::Ctr::timeouts),
        0
    );
}

/// What routers may change is not covered by the ICRC, and reserved bits are not looked at: all of it is executed.
fn is_taken(name: &str, change: impl Fn(&mut metaroce_protocol::FrameRepr, u8)) {
    let (mut p, _) = cards();
    for k in 0..16u8 {
        let data = vec![k + 1; 64];
        let mut r = repr(&p.sim, 0, write(&p, 0, k as u32, 64 * k as u64, 64));
        change(&mut r, k);
        let f = emit(&r, &data);
        inject(&mut p, 1, f);
        assert_eq!(p.read(1, 64 * k as u64, 64), data, "{name} {k}");
    }
    assert_eq!(p.state(1, 0), RTS);
}

#[test]
fn c05_masked_fields() {
    is_taken("type of service, TTL", |r, k| {
        if let IpRepr::V4(ip) = &mut r.ip {
            ip.tos = k * 16 + 2;
            ip.ttl = 1 + 15 * k;
        }
    });
    is_taken("UDP checksum", |r, k| r.udp.checksum = 0x1111 * k as u16);
    is_taken("FECN, BECN", |r, k| {
        (r.packet.fecn, r.packet.becn) = (k & 1 != 0, k & 2 != 0)
    });
}

#[test]
fn c07_reserved_bits() {
    is_taken("reserved bits", |r, k| {
        (r.packet.resv6, r.packet.resv7) = (k * 4 + 3, k * 8 + 7)
    });
}

/// Both are taken; what the card sends has 1.
#[test]
fn c08_migreq() {
    is_taken("MigReq", |r, k| r.packet.mig_req = k % 2 == 0);
    let (_, _, frames) = one_of_each();
    assert!(frames.iter().all(|f| f[43] & 0x40 != 0));
}

/// AckReq on what is never acknowledged: executed, no answer; the card sends none.
#[test]
fn c09_ackreq_on_uc_and_ud() {
    let (mut p, log) = cards();
    let mut r = write(&p, 1, 0, 0, 64);
    r.ack_req = true;
    let f = emit(&repr(&p.sim, 0, r), &[7; 64]);
    inject(&mut p, 1, f);
    assert_eq!(p.read(1, 0, 64), [7; 64]);
    let (buf, key) = (p.ends[1].buf, p.ends[1].key);
    p.recv(1, 2, &[(buf, 200, key)]);
    let mut r = request(&p, 2, Opcode::UD_SEND_ONLY, 0);
    r.ack_req = true;
    r.ext.deth = Some(Deth {
        qkey: Conn::default().qkey,
        src_qpn: 5,
        resv: 0,
    });
    let f = emit(&repr(&p.sim, 0, r), &[8; 100]);
    inject(&mut p, 1, f);
    assert_eq!(take(&mut p, 1, 1), [(0, 0, true)]);
    assert_eq!(p.read(1, 40, 100), [8; 100]);
    assert_eq!(log.all().len(), 0, "no answer");
    let (_, _, frames) = one_of_each();
    let unreliable = frames.iter().filter(|f| f[42] >> 5 != 0);
    assert!(unreliable.clone().count() > 3 && unreliable.clone().all(|f| f[50] & 0x80 == 0));
}

/// Cards after one message of each kind, and all frames with payload or operands that card 0 sent.
fn one_of_each() -> (Pair, Log, Vec<Vec<u8>>) {
    let (mut p, log) = cards();
    let kept: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let k = kept.clone();
    p.sim.fabric.tap = Some(Box::new(move |what, port, f| {
        if what == Seen::Sent && port == 0 {
            k.lock().expect("kept").push(f.data.clone());
        }
    }));
    let to = p.sim.ids[1].clone();
    let ud = UdDest {
        qpn: p.ends[1].qps[2].qpn,
        qkey: Conn::default().qkey,
        mac: to.mac,
        gid: to.gids()[1],
        sgid: 1,
    };
    let imm = u32::from_le_bytes([0x11, 0x22, 0x33, 0x44]);
    let (buf, key) = (p.ends[1].buf, p.ends[1].key);
    for q in 0..3 {
        for o in [
            op::SEND,
            op::SEND_IMM,
            op::WRITE,
            op::WRITE_IMM,
            op::CMP_SWAP,
            op::FETCH_ADD,
        ] {
            let send = o == op::SEND || o == op::SEND_IMM;
            if (q == 1 && o >= op::CMP_SWAP) || (q == 2 && !send) {
                continue;
            }
            if send || o == op::WRITE_IMM {
                p.recv(1, q, &[(buf + 0x8000, 4096, key)]);
            }
            let mut wr = match o {
                op::SEND | op::SEND_IMM => p.send(0, 0, 64, (o == op::SEND_IMM).then_some(imm)),
                o => Wr {
                    imm,
                    swap: 0x0102_0304_0506_0708,
                    compare: 0x1112_1314_1516_1718,
                    ..p.rdma(0, o, 0, 0, if o >= op::CMP_SWAP { 8 } else { 64 })
                },
            };
            wr.ud = (q == 2).then_some(ud);
            p.post(0, q, &wr);
            assert_eq!(p.wait(0, 100_000).status, 0);
        }
    }
    settle(&mut p);
    let frames = kept.lock().expect("kept").clone();
    (p, log, frames)
}

/// Source ports are dynamic ones; any is accepted.
#[test]
fn c18_source_ports() {
    let (_, _, frames) = one_of_each();
    for f in &frames {
        assert!(u16::from_be_bytes([f[34], f[35]]) >= 0xC000);
    }
    is_taken("source port", |r, k| r.udp.src_port = 69 + 4096 * k as u16);
}

/// The immediate is passed on byte for byte, operands of atomics are big-endian on the wire.
#[test]
fn c19_byte_order() {
    let (_, _, frames) = one_of_each();
    let (mut imms, mut atomics) = (0, 0);
    for f in &frames {
        let v = View::new_checked(f).expect("frame");
        let at = 42 + 12;
        match v.roce.opcode().0 {
            0x05 | 0x25 => {
                assert_eq!(f[at..at + 4], [0x11, 0x22, 0x33, 0x44]);
                imms += 1;
            }
            0x13 | 0x14 => {
                assert_eq!(f[at + 12..at + 20], [1, 2, 3, 4, 5, 6, 7, 8]);
                let compare = 0x1112_1314_1516_1718u64.to_be_bytes();
                assert_eq!(f[at + 20..at + 28], compare);
                atomics += 1;
            }
            _ => {}
        }
    }
    assert_eq!((imms, atomics), (2, 2));
}

/// Every packet says that ECN works for it.
#[test]
fn e03_ect0_by_default() {
    let (_, _, frames) = one_of_each();
    assert!(frames.len() >= 12);
    for f in &frames {
        assert_eq!(f[15] & 3, 2, "{:#x}", f[42]);
    }
}
