//! Frames and doorbells that no card and no driver makes: each changes one counter and nothing else,
//! or gives the completion that it must.
//!
//! Shows: `ecn_count`.

mod common;

use common::{
    cover,
    log::{quiet, take},
};
use metaroce_hdl_spec::{
    regs::{self, Ctr},
    wqe::op,
};
use metaroce_protocol::{ext::Aeth, ip::IpRepr, Frame as View, FrameRepr, Opcode, PacketRepr, Psn};
use metaroce_tb::{
    fabric::{Frame, Seen},
    node::MmioWrite,
    pair::Pair,
    script::Conn,
    sim::SimConfig,
};
use std::sync::{Arc, Mutex};

type Kept = Arc<Mutex<Vec<(usize, Vec<u8>)>>>;

fn pair() -> (Pair, Kept) {
    let cfg = SimConfig {
        cards: 2,
        ..SimConfig::default()
    };
    let conn = Conn {
        mtu: 3,
        timeout: 12,
        ..Conn::default()
    };
    let mut p = Pair::new(&cfg, 1, 1 << 16, &conn);
    let kept = Kept::default();
    let k = kept.clone();
    p.sim.fabric.tap = Some(Box::new(move |what, port, f| {
        if what == Seen::Sent {
            k.lock().expect("kept").push((port, f.data.clone()));
        }
    }));
    (p, kept)
}

/// Lets `data` arrive at card `to`.
fn inject(p: &mut Pair, to: usize, data: Vec<u8>) {
    let t = p.sim.now_ps() + 1_000_000;
    let f = Frame {
        data,
        stamp: 0,
        start_ps: t,
    };
    p.sim.nodes[to].deliver(t, f);
    p.run(2000);
}

/// `pair` after a WRITE from card 0, and its 64 bytes.
fn written() -> (Pair, Kept, Vec<u8>) {
    let (mut p, kept) = pair();
    let data: Vec<u8> = (0..64).collect();
    p.fill(0, 0, &data);
    let wr = p.rdma(0, op::WRITE, 0, 0, 64);
    p.post(0, 0, &wr);
    assert_eq!(take(&mut p, 0, 1)[0].1, 0);
    p.run(1000);
    (p, kept, data)
}

fn emit(r: &FrameRepr, payload: &[u8]) -> Vec<u8> {
    let mut b = vec![0; 2000];
    let n = r.emit(payload, &mut b).expect("frame");
    b.truncate(n);
    b
}

#[test]
fn frames() {
    let (mut p, kept, data) = written();
    let sent = kept.lock().expect("kept")[0].clone();
    assert_eq!(sent.0, 0);
    let view = View::new_checked(&sent.1).expect("frame");
    let (write, payload) = (FrameRepr::parse(&view), view.payload().to_vec());
    let next = write.packet.psn.add(1);
    // Each is a new WRITE that would change memory if it were taken.
    let new = FrameRepr {
        packet: PacketRepr {
            psn: next,
            ..write.packet
        },
        ..write
    };
    let mark = vec![0xEE; 4096];
    p.fill(1, 0, &mark);
    let mut cases: Vec<(&str, Ctr, Vec<u8>)> = vec![];
    let mut b = emit(&new, &payload);
    // 14 Ethernet, 20 IP, 8 UDP: the opcode. 0x3F has no meaning; the opcode is looked at before the ICRC.
    b[42] = 0x3F;
    cases.push(("opcode without a meaning", Ctr::rx_drop_opcode, b));
    let mut b = emit(&new, &payload);
    let n = b.len() - 1;
    b[n] ^= 1;
    cases.push(("ICRC", Ctr::rx_drop_icrc, b));
    let mut b = emit(&new, &payload);
    b.truncate(60);
    cases.push(("cut off", Ctr::rx_drop_malformed, b));
    let mut r = new;
    r.packet.dest_qpn ^= 0x10_0000;
    cases.push(("QPN with another tag", Ctr::rx_drop_qp, emit(&r, &payload)));
    let mut r = new;
    if let IpRepr::V4(ip) = &mut r.ip {
        ip.src[3] = 99;
    }
    cases.push(("source address", Ctr::rx_drop_qp, emit(&r, &payload)));
    let mut r = new;
    r.packet.opcode = Opcode::UC_WRITE_ONLY;
    cases.push((
        "UC packet for an RC QP",
        Ctr::rx_drop_qp,
        emit(&r, &payload),
    ));
    let mut r = new;
    r.packet.psn = next.add(5);
    cases.push(("PSN ahead", Ctr::rx_drop_sequence, emit(&r, &payload)));
    let old = emit(&write, &payload);
    cases.push(("PSN behind", Ctr::rx_drop_duplicate, old));
    let mut r = new;
    r.packet = PacketRepr::new(Opcode::RC_ACK, write.packet.dest_qpn, Psn::new(77));
    r.packet.ext.aeth = Some(Aeth {
        syndrome: metaroce_protocol::Syndrome::ACK,
        msn: metaroce_protocol::Msn::new(0),
    });
    cases.push(("ACK for nothing", Ctr::rx_drop_response, emit(&r, &[])));
    let mut r = new;
    r.packet = PacketRepr::new(Opcode::CNP, write.packet.dest_qpn, Psn::new(0));
    r.packet.becn = true;
    cases.push(("CNP", Ctr::rx_cnp, emit(&r, &[0; 16])));
    let drops: Vec<usize> = (0..regs::COUNTERS.len())
        .filter(|k| {
            let n = regs::COUNTERS[*k].name;
            n.starts_with("rx_drop") || n == "rx_cnp" || n == "rx_ecn_marked"
        })
        .collect();
    for (what, counter, frame) in cases {
        let before = p.sim.nodes[1].counters();
        inject(&mut p, 1, frame);
        let after = p.sim.nodes[1].counters();
        let grew: Vec<_> = drops
            .iter()
            .filter(|k| before[**k].1 != after[**k].1)
            .map(|k| (after[*k].0, after[*k].1 - before[*k].1))
            .collect();
        assert_eq!(grew, [(regs::COUNTERS[counter as usize].name, 1)], "{what}");
        assert!(p.read(1, 0, 4096) == mark, "{what}: memory changed");
        assert_eq!(p.state(1, 0), 3, "{what}");
    }
    // Taken like any other, and counted.
    let mut r = new;
    if let IpRepr::V4(ip) = &mut r.ip {
        ip.tos |= 3;
    }
    inject(&mut p, 1, emit(&r, &payload));
    assert_eq!(p.sim.nodes[1].counter(Ctr::rx_ecn_marked), 1);
    assert_eq!(p.read(1, 0, 64), data);
    quiet(&mut p);
    cover::finish("foreign", &mut p);
}

/// PSNs and send queue head of QP 0 of end `e`, as the card says.
fn numbers(p: &mut Pair, e: usize) -> Vec<u8> {
    let end = &mut p.ends[e];
    let qpn = end.qps[0].qpn;
    let r = end
        .host
        .command(
            &mut p.sim,
            metaroce_hdl_spec::cmd::op::QUERY_QP,
            qpn,
            |_| {},
        )
        .expect("QUERY_QP");
    r[..32].to_vec()
}

/// From a third address, with all else right (QPN, PSN, key): nothing of the QP moves, neither as responder nor as requester,
/// and no memory. The peer may change its source port.
#[test]
fn a_third_address() {
    let (mut p, kept, _) = written();
    let sent: Vec<_> = kept.lock().expect("kept").clone();
    let parse = |f: &[u8]| {
        let v = View::new_checked(f).expect("frame");
        (FrameRepr::parse(&v), v.payload().to_vec())
    };
    let (write, payload) = parse(&sent.iter().find(|f| f.0 == 0).expect("a WRITE").1);
    let (ack, _) = parse(&sent.iter().find(|f| f.0 == 1).expect("an ACK").1);
    let mark = vec![0xEE; 4096];
    p.fill(1, 0, &mark);
    p.fill(0, 4096, &mark);

    // Requests to the responder.
    let next = |op: Opcode| {
        let mut r = write;
        r.packet.opcode = op;
        r.packet.psn = write.packet.psn.add(1);
        r
    };
    let mut send = next(Opcode::RC_SEND_ONLY);
    send.packet.ext.reth = None;
    let mut requests = vec![
        emit(&next(Opcode::RC_WRITE_ONLY), &payload),
        emit(&next(Opcode::RC_READ_REQUEST), &[]),
        emit(&send, &payload),
        // known already: would be acknowledged again
        emit(&write, &payload),
    ];
    for f in &mut requests {
        *f = from_elsewhere(f);
    }
    // A peer with an outstanding READ and a WRITE whose answers never come.
    p.sim.fabric.drop_if = Some(Box::new(|_, _| true));
    let wr = p.rdma(0, op::WRITE, 0, 0, 64);
    p.post(0, 0, &wr);
    let wr = p.rdma(0, op::READ, 4096, 0, 64);
    p.post(0, 0, &wr);
    p.run(3000);
    let qpn = p.ends[0].qps[0].qpn;
    let answer = |op: Opcode, psn: u32, syndrome: u8| {
        let mut r = ack;
        r.packet = PacketRepr::new(op, qpn, write.packet.psn.add(psn));
        r.packet.ext.aeth = Some(Aeth {
            syndrome: metaroce_protocol::Syndrome::from_byte(syndrome),
            msn: metaroce_protocol::Msn::new(2),
        });
        r
    };
    let good = emit(&answer(Opcode::RC_ACK, 1, 0x1F), &[]);
    let answers = [
        from_elsewhere(&good),
        // sequence, access and RNR NAK
        from_elsewhere(&emit(&answer(Opcode::RC_ACK, 1, 0x60), &[])),
        from_elsewhere(&emit(&answer(Opcode::RC_ACK, 1, 0x62), &[])),
        from_elsewhere(&emit(&answer(Opcode::RC_ACK, 1, 0x21), &[])),
        from_elsewhere(&emit(&answer(Opcode::RC_READ_RESP_ONLY, 2, 0x1F), &[7; 64])),
    ];
    for (to, frames) in [(1, &requests[..]), (0, &answers)] {
        for (k, f) in frames.iter().enumerate() {
            let what = format!("frame {k} to card {to}");
            let (before, counts) = (numbers(&mut p, to), p.sim.nodes[to].counters());
            let sent = p.sim.nodes[to].counter(Ctr::tx_acks);
            inject(&mut p, to, f.clone());
            assert_eq!(numbers(&mut p, to), before, "{what}");
            for (a, b) in counts.iter().zip(p.sim.nodes[to].counters()) {
                let other = ["rx_frames", "rx_bytes", "rx_drop_qp", "cmds"].contains(&a.0)
                    || a.0.starts_with("host_");
                let grew = b.1 - a.1;
                assert!(other || grew == 0, "{what}: {} grew by {grew}", a.0);
                assert!(a.0 != "rx_drop_qp" || grew == 1, "{what}: {grew} drops");
            }
            assert_eq!(
                p.sim.nodes[to].counter(Ctr::tx_acks),
                sent,
                "{what}: an answer"
            );
            assert_eq!((p.poll(0), p.poll(1)), (None, None), "{what}");
        }
    }
    assert!(p.read(1, 0, 4096) == mark && p.read(0, 4096, 4096) == mark);
    // The peer's own ACK counts, from another source port, too.
    let (mut r, _) = parse(&good);
    r.udp.src_port ^= 0x155;
    inject(&mut p, 0, emit(&r, &[]));
    assert_eq!(take(&mut p, 0, 1)[0].1, 0);
    cover::finish("foreign", &mut p);
}

/// The same frame, sent by 10.0.0.99.
fn from_elsewhere(frame: &[u8]) -> Vec<u8> {
    let v = View::new_checked(frame).expect("frame");
    let mut r = FrameRepr::parse(&v);
    let IpRepr::V4(ip) = &mut r.ip else {
        panic!("IPv4 is what the pair speaks")
    };
    ip.src[3] = 99;
    emit(&r, v.payload())
}

/// A READ response that is shorter than what was asked for.
#[test]
fn bad_response() {
    let (mut p, kept) = pair();
    p.sim.fabric.drop_if = Some(Box::new(|_, _| true));
    let wr = p.rdma(0, op::READ, 0, 0, 64);
    let i = p.post(0, 0, &wr);
    p.run(3000);
    let sent = kept.lock().expect("kept")[0].1.clone();
    let view = View::new_checked(&sent).expect("frame");
    let mut r = FrameRepr::parse(&view);
    std::mem::swap(&mut r.eth.src, &mut r.eth.dst);
    if let IpRepr::V4(ip) = &mut r.ip {
        std::mem::swap(&mut ip.src, &mut ip.dst);
    }
    r.packet = PacketRepr::new(
        Opcode::RC_READ_RESP_ONLY,
        p.ends[0].qps[0].qpn,
        r.packet.psn,
    );
    r.packet.ext.aeth = Some(Aeth {
        syndrome: metaroce_protocol::Syndrome::ACK,
        msn: metaroce_protocol::Msn::new(1),
    });
    inject(&mut p, 0, emit(&r, &[7; 32]));
    assert_eq!(take(&mut p, 0, 1), [(i, 7, false)], "BAD_RESP");
    assert_eq!(p.state(0, 0), 6);
    quiet(&mut p);
    cover::finish("foreign", &mut p);
}

/// Doorbells on the page of another process, and for objects that are not there; the link.
#[test]
fn doorbells_and_link() {
    let (mut p, _) = pair();
    let wr = p.rdma(0, op::WRITE, 0, 0, 64);
    let e = &mut p.ends[0];
    e.host.post_send(&mut p.sim, &mut e.qps[0], &wr);
    let v = e.qps[0].qpn as u64 | 1 << 32;
    let d = regs::doorbell::SQ;
    for (page, v) in [(2, v), (1, v ^ 0x10_0000), (63, v)] {
        let w = MmioWrite::u64(page * regs::PAGE + d, v);
        p.sim.nodes[0].mmio.push_back(w);
    }
    let w = MmioWrite::u64(2 * regs::PAGE + regs::doorbell::CQ, p.ends[0].cq.id as u64);
    p.sim.nodes[0].mmio.push_back(w);
    quiet(&mut p);
    assert_eq!(p.sim.nodes[0].counter(Ctr::db_refused), 4);
    let e = &p.ends[0];
    e.host.ring_sq(&mut p.sim, &e.qps[0]);
    assert_eq!(take(&mut p, 0, 1)[0].1, 0);
    // The host reads the link's state back; what a change does is in `events`.
    for up in [0, 1] {
        let w = MmioWrite::u32(regs::admin::LINK, up);
        p.sim.nodes[0].mmio.push_back(w);
        p.run(100);
        assert_eq!(p.sim.nodes[0].mmio_read(regs::admin::LINK), up);
    }
    cover::finish("foreign", &mut p);
}
