//! Everything that can be wrong with a frame, and every QP state that it can meet: each frame is one count of the
//! counter that the codec and the reference model say, and nothing else.
//!
//! Shows: `opcodes`.

mod common;

use common::log::Log;
use metaroce_hdl_spec::table::qp_type;
use metaroce_protocol::{
    eth::Vlan,
    ext::{Aeth, AtomicEth, Deth, Ext, Feth, Reth},
    ip::{IpRepr, Ipv6Repr},
    model::{
        unreliable::{UcReceiver, UdReceiver},
        Access, Action, Memory, QpConfig, RecvWr, Responder,
    },
    opcode::{Class, ExtSet, PayloadRule, Service},
    DropReason, Frame as View, FrameRepr, Mtu, Opcode, PacketRepr, Psn, Syndrome,
};
use metaroce_tb::{
    craft::{emit, grown, inject, put, raw, repr, settle},
    pair::Pair,
    script::Conn,
    sim::SimConfig,
};

const MTU: usize = 256;
const LEN: u64 = 1 << 16;
/// What requests may touch: the first half of the buffer.
const HALF: u64 = LEN / 2;

fn conn(qp_type: u8) -> Conn {
    Conn {
        mtu: 1,
        timeout: 8,
        qp_type,
        ..Conn::default()
    }
}

fn cards() -> Pair {
    let mut p = Pair::new(&SimConfig::default(), 0, LEN, &conn(qp_type::RC));
    let mark = vec![0xEE; LEN as usize + 8192];
    p.fill(1, 0, &mark);
    p
}

/// Extension headers of an opcode, with a target that end 1 grants.
fn ext(p: &Pair, o: Opcode, len: usize) -> Ext {
    let info = o.info().expect("in the table");
    let has = |s| info.ext.has(s);
    let (va, rkey) = (p.ends[1].buf, p.ends[1].key);
    Ext {
        deth: has(ExtSet::DETH).then_some(Deth {
            qkey: Conn::default().qkey,
            src_qpn: 7,
            resv: 0,
        }),
        feth: has(ExtSet::FETH).then_some(Feth(1)),
        reth: has(ExtSet::RETH).then_some(Reth {
            va,
            rkey,
            // A First has more behind it.
            dma_len: (len + if info.place.ends() { 0 } else { MTU }) as u32,
        }),
        atomic: has(ExtSet::ATOMIC).then_some(AtomicEth {
            va,
            rkey,
            swap_add: 1,
            compare: 2,
        }),
        aeth: has(ExtSet::AETH).then_some(Aeth {
            syndrome: Syndrome::ACK,
            msn: metaroce_protocol::Msn::new(0),
        }),
        atomic_ack: has(ExtSet::ATOMIC_ACK).then_some(5),
        imm: has(ExtSet::IMM).then_some([1, 2, 3, 4]),
        ieth: has(ExtSet::IETH).then_some(9),
    }
}

/// A legal frame of this opcode to QPN `qpn` of card 1, and the bytes of its payload.
fn legal(p: &Pair, o: Opcode, qpn: u32, psn: u32) -> (FrameRepr, usize) {
    let len = match o.info().expect("in the table").payload {
        PayloadRule::None => 0,
        PayloadRule::Exact(n) => n as usize,
        PayloadRule::Full => MTU,
        _ => 29,
    };
    let mut r = PacketRepr::new(o, qpn, Psn::new(psn));
    r.ack_req = true;
    r.ext = ext(
        p,
        o,
        if o == Opcode::RC_READ_REQUEST {
            300
        } else {
            len
        },
    );
    (repr(&p.sim, 0, r), len)
}

/// Counter that the codec says.
fn counter(r: DropReason) -> &'static str {
    match r {
        DropReason::BadIcrc => "rx_drop_icrc",
        DropReason::BadOpcode => "rx_drop_opcode",
        _ => "rx_drop_malformed",
    }
}

/// Puts all frames that the codec refuses; the counters must be as many, and nothing else may have happened.
fn all_refused(p: &mut Pair, frames: Vec<Vec<u8>>, what: &str) {
    let mut want = std::collections::BTreeMap::<&str, u64>::new();
    let frames: Vec<_> = frames
        .into_iter()
        .filter(|f| match View::new_checked(f) {
            Ok(_) => false,
            Err(r) => {
                *want.entry(counter(r)).or_default() += 1;
                true
            }
        })
        .collect();
    let n = frames.len();
    let g = grown(p, 1, |p| {
        put(p, 1, frames);
        settle(p);
    });
    let got: std::collections::BTreeMap<_, _> = g.into_iter().collect();
    assert_eq!(got, want, "{what}: {n} frames");
    println!("{what}: {n} frames, {want:?}");
}

/// Every legal frame over IPv4, IPv6 and with a VLAN tag, cut off after every byte: as it is, and with lengths and ICRC
/// made to fit.
#[test]
fn every_truncation_of_every_frame() {
    let mut p = cards();
    for e in &mut p.ends {
        e.host.qp_type = qp_type::RC;
    }
    p.add(&conn(qp_type::RC), 4, 4);
    let log = Log::new(&mut p);
    let qpn = p.ends[1].qps[0].qpn;
    for o in Opcode::ALL {
        // Out of sequence, so that even a whole one would do nothing.
        let (v4, len) = legal(&p, *o, qpn, 0x40_0000);
        let payload = vec![3; len];
        let mut v6 = v4;
        v6.ip = IpRepr::V6(Ipv6Repr {
            traffic_class: 2,
            flow_label: 0,
            hop_limit: 64,
            src: p.sim.ids[0].gids()[0],
            dst: p.sim.ids[1].gids()[0],
        });
        let mut tagged = v4;
        tagged.eth.vlan = Some(Vlan {
            tpid: 0x8100,
            tci: 0x2003,
        });
        let mut cut = vec![];
        for r in [v4, v6, tagged] {
            let f = emit(&r, &payload);
            cut.extend((1..f.len()).map(|n| f[..n].to_vec()));
        }
        let f = emit(&v4, &payload);
        // From no BTH at all up to a payload that is not cut to a multiple of four.
        cut.extend((42..f.len() - 4).map(|n| raw(&p.sim, 0, &f[42..n])));
        all_refused(&mut p, cut, o.name());
    }
    assert_eq!(log.all().len(), 0, "an answer");
    assert_eq!(p.state(1, 0), 3);
    assert!(p.read(1, 0, LEN as usize).iter().all(|b| *b == 0xEE));
}

/// Every pad with every number of bytes behind the headers: refused unless it makes a multiple of four; else the
/// payload without the pad is written, and not a byte more.
#[test]
fn every_pad_with_every_length() {
    let mut p = cards();
    p.add(&conn(qp_type::RC), 4, 4);
    let qpn = p.ends[1].qps[0].qpn;
    let mut psn = 0;
    let mut bad = vec![];
    for n in (0..=72usize).chain(252..=256) {
        for pad in 0..4usize {
            let taken = n % 4 == 0 && pad <= n;
            let len = n.saturating_sub(pad);
            let (mut r, _) = legal(&p, Opcode::RC_WRITE_ONLY, qpn, psn);
            r.packet.ext.reth.as_mut().expect("RETH").dma_len = len as u32;
            let f = emit(&r, &[]);
            let mut roce = f[42..f.len() - 4].to_vec();
            roce[1] |= (pad as u8) << 4;
            roce.extend((0..n).map(|k| k as u8 + 1));
            let f = raw(&p.sim, 0, &roce);
            assert_eq!(View::new_checked(&f).is_ok(), taken, "{n} bytes, pad {pad}");
            if !taken {
                bad.push(f);
                continue;
            }
            inject(&mut p, 1, f);
            let mut want: Vec<u8> = (0..len).map(|k| k as u8 + 1).collect();
            want.resize(300, 0xEE);
            assert_eq!(p.read(1, 0, 300), want, "{n} bytes, pad {pad}");
            p.fill(1, 0, &[0xEE; 300]);
            psn += 1;
        }
    }
    all_refused(&mut p, bad, "pads");
    assert_eq!(p.state(1, 0), 3);
}

struct Open;
impl Memory for Open {
    fn check(&self, _: u32, _: u64, _: u64, _: Access) -> bool {
        true
    }
}

/// QP `q` of end 1 from RESET to a state.
fn bring(p: &mut Pair, q: usize, t: u8, state: u8) {
    p.to_state(1, q, 0);
    while p.poll(1).is_some() {}
    let (qp, peer) = (p.ends[1].qps[q].clone(), p.ends[0].qps[q].qpn);
    let up = match state {
        4 | 6 => 3,
        s => s,
    };
    if up > 0 {
        p.ends[1]
            .host
            .connect_up_to(&mut p.sim, &qp, 0, peer, &conn(t), up);
    }
    if up > 0 && state != 6 {
        let (at, key) = (p.ends[1].buf + 0x1000, p.ends[1].key);
        for _ in 0..2 {
            p.recv(1, q, &[(at, 4096, key)]);
        }
    }
    match state {
        4 => p.to_state(1, q, 4),
        6 => p.to_state(1, q, 6),
        _ => {}
    }
}

/// What a QP in RTR, RTS or SQD does with a frame that is the next one, by the models: counters, and whether it is in
/// ERR afterwards.
fn expected(t: u8, state: u8, o: Opcode, p: &PacketRepr, len: usize) -> (Vec<&'static str>, bool) {
    let info = o.info().expect("in the table");
    if info.class == Class::Cnp {
        // It has no Q_Key, which is what a UD QP looks at first.
        let c = if t == qp_type::UD {
            "rx_drop_qp"
        } else {
            "rx_cnp"
        };
        return (vec![c], false);
    }
    let service = [Service::Rc, Service::Uc, Service::Ud][t as usize];
    if info.service != service {
        // A response that is no RC QP's: the requester says so.
        return (vec!["rx_drop_qp"], false);
    }
    if info.is_response() {
        // RTR has no requester yet; in the others nothing is outstanding.
        let c = if state == 2 {
            "rx_drop_qp"
        } else {
            "rx_drop_response"
        };
        return (vec![c], false);
    }
    let cfg = QpConfig {
        mtu: Mtu::M256,
        ..QpConfig::new(1, 2)
    };
    let mut out = vec![];
    let recv = RecvWr {
        wr_id: 0,
        len: 4096,
    };
    match t {
        qp_type::UC => {
            let mut m = UcReceiver::new(cfg);
            m.post(recv);
            m.on_packet(p, info, len, &Open, &mut out);
        }
        qp_type::UD => {
            let mut m = UdReceiver::new(Conn::default().qkey);
            m.post(recv);
            m.on_packet(p, len, &mut out);
        }
        _ => {
            let mut m = Responder::new(cfg);
            m.post(recv, &mut out);
            m.on_packet(p, info, len, &Open, &mut out);
            m.atomic_done(0);
            let failed = out.iter().any(|a| matches!(a, Action::ToError));
            let mut c = vec![];
            while let Some(tx) = m.poll_transmit() {
                match tx.packet.ext.aeth.map(|a| a.syndrome) {
                    Some(Syndrome::Nak(_)) => c.push("tx_naks"),
                    Some(Syndrome::Ack { .. }) if tx.packet.opcode == Opcode::RC_ACK => {
                        c.push("tx_acks")
                    }
                    _ => {}
                }
            }
            if failed {
                c.insert(0, "qp_errors");
            }
            c.sort_unstable();
            return (c, failed);
        }
    }
    let dropped = out.iter().any(|a| matches!(a, Action::Drop(_)));
    let c = if dropped {
        vec!["rx_drop_sequence"]
    } else {
        vec![]
    };
    (c, false)
}

fn every_opcode(t: u8) {
    let mut p = cards();
    for e in &mut p.ends {
        e.host.qp_type = t;
    }
    let q = p.add(&conn(t), 4, 4);
    let qpn = p.ends[1].qps[q].qpn;
    // RESET, INIT, RTR, RTS, SQD, ERR
    for state in [0u8, 1, 2, 3, 4, 6] {
        bring(&mut p, q, t, state);
        for op in 0..=255u8 {
            let o = Opcode(op);
            let (f, want) = match o.info() {
                None => {
                    let mut roce = vec![op, 0x40, 0xFF, 0xFF];
                    roce.extend_from_slice(&qpn.to_be_bytes());
                    roce.extend_from_slice(&[0; 44]);
                    (raw(&p.sim, 0, &roce), (vec!["rx_drop_opcode"], false))
                }
                Some(_) => {
                    let (r, len) = legal(&p, o, qpn, 0);
                    let want = match state {
                        2..=4 => expected(t, state, o, &r.packet, len),
                        _ => (vec!["rx_drop_qp"], false),
                    };
                    (emit(&r, &vec![7; len]), want)
                }
            };
            let fresh = o.info().is_some() && (2..=4).contains(&state);
            let g = grown(&mut p, 1, |p| inject(p, 1, f));
            let mut names: Vec<_> = g.iter().map(|c| c.0).collect();
            names.sort_unstable();
            let what = format!("type {t}, state {state}, {o:?}");
            assert_eq!(names, want.0, "{what}: {g:?}");
            if fresh {
                let s = p.state(1, q);
                assert_eq!(s, if want.1 { 6 } else { state }, "{what}");
                // Only what moved the QP makes a new one necessary.
                if want.1 || !want.0.iter().any(|c| c.starts_with("rx_")) {
                    bring(&mut p, q, t, state);
                }
            }
        }
    }
    assert!(p.read(1, HALF, HALF as usize).iter().all(|b| *b == 0xEE));
    assert_eq!(p.poll(0), None);
}

#[test]
fn every_opcode_in_every_state_rc() {
    every_opcode(qp_type::RC);
}

#[test]
fn every_opcode_in_every_state_uc() {
    every_opcode(qp_type::UC);
}

#[test]
fn every_opcode_in_every_state_ud() {
    every_opcode(qp_type::UD);
}
