//! Model against model, one fault at a time: every operation of 1 to 8 packets, at every frame of both
//! directions each kind of fault, alone and with another message behind it. Every byte is right, every
//! completion comes once, every atomic is executed once, every window is invalidated once.

mod common;

use common::sim::{region, Fate, Sim, BASE, RKEY, WINDOW};
use common::Rng;
use metaroce_protocol::model::unreliable::*;
use metaroce_protocol::model::*;
use metaroce_protocol::*;
use std::cell::Cell;
use std::rc::Rc;

const FATES: [Fate; 7] = [
    Fate::Lose,
    Fate::Twice(0),
    Fate::Twice(3_000),
    Fate::Late(250),
    Fate::Late(5_000),
    // Beyond the timeout: it comes when its copy has long been there.
    Fate::Late(200_000),
    Fate::Hurt(0),
];

const OPS: usize = 8;
const ATOMICS: [usize; 2] = [5, 6];
const SEND_INV: usize = 7;

fn op(kind: usize, at: u64, window: u32) -> SendOp {
    let (va, rkey, imm) = (BASE + at, RKEY, [1, 2, 3, 4]);
    match kind {
        0 => SendOp::Send,
        1 => SendOp::SendImm(imm),
        2 => SendOp::Write { va, rkey },
        3 => SendOp::WriteImm { va, rkey, imm },
        4 => SendOp::Read { va, rkey },
        5 => SendOp::FetchAdd { va, rkey, add: 3 },
        SEND_INV => SendOp::SendInv { rkey: window },
        _ => SendOp::CmpSwap {
            va,
            rkey,
            compare: u64::from_le_bytes([0x77; 8]),
            swap: 9,
        },
    }
}

/// Runs `messages` of one operation, the first of `packets`; frame `hit` (side, number) meets `fate`.
/// Returns how many frames each side sent.
fn case(
    kind: usize,
    packets: u64,
    messages: u64,
    hit: Option<(usize, u64)>,
    fate: Fate,
) -> [u64; 2] {
    let mut c = QpConfig::new(0x11, 0x12);
    c.mtu = Mtu::M256;
    c.timeout = 5;
    c.sq_psn = Psn::new(0xff_fffd);
    let mut s = Sim::new(c, 1 << 16, 1);
    let counts = Rc::new(Cell::new([0u64; 2]));
    let n = counts.clone();
    s.fate = Box::new(move |side, number, _| {
        let mut v = n.get();
        v[side] = v[side].max(number + 1);
        n.set(v);
        if hit == Some((side, number)) {
            fate
        } else {
            Fate::Pass
        }
    });
    let mut rng = Rng::new(packets * 8 + kind as u64);
    s.hosts[1].memory.fill(0x77);
    let atomic = ATOMICS.contains(&kind);
    let mut want = s.hosts[1].memory.clone();
    let mut local = vec![];
    for m in 0..messages {
        let len = match (atomic, m) {
            (true, _) => 8,
            (false, 0) => packets * 256 - 3,
            _ => 100,
        } as usize;
        let at = if atomic { 64 } else { 0x1000 * (m + 1) };
        let data: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
        match kind {
            2 | 3 => want[at as usize..][..len].copy_from_slice(&data),
            4 => {
                s.hosts[1].memory[at as usize..][..len].copy_from_slice(&data);
                want[at as usize..][..len].copy_from_slice(&data);
            }
            _ => {}
        }
        let window = WINDOW + m as u32;
        if kind == SEND_INV {
            // Bound again under the same key as soon as it is free, which late copies must not notice.
            let h = &mut s.hosts[1];
            h.rebind = true;
            assert!(h.mrs.bind(0x12, RKEY, region(window, 64 * m, 64)));
        }
        if matches!(kind, 0 | 1 | 3 | SEND_INV) {
            s.hosts[1].post_recv(RecvWr {
                wr_id: m,
                len: 4096,
            });
        }
        let wr = SendWr::new(m, op(kind, at, window), len as u64);
        let answered = wr.op.is_answered();
        s.hosts[0].post(wr, if answered { vec![0; len] } else { data.clone() });
        local.push(data);
    }
    s.run();
    let what = format!("op {kind}, {packets} packets, {messages} messages, {hit:?} {fate:?}");
    let done: Vec<_> = (0..messages).map(|m| (m, Status::Success)).collect();
    assert_eq!(s.hosts[0].sent(), done, "{what}");
    if atomic {
        let executed = s.hosts[1]
            .log
            .iter()
            .filter(|a| matches!(a, Action::Atomic(_)));
        assert_eq!(executed.count() as u64, messages, "{what}");
        let mut word = u64::from_le_bytes([0x77; 8]);
        for got in &s.hosts[0].local {
            assert_eq!(got[..], word.to_le_bytes(), "{what}");
            word = if kind == 5 { word + 3 } else { 9 };
        }
        want[64..72].copy_from_slice(&word.to_le_bytes());
    } else if kind == 4 {
        assert!(s.hosts[0].local == local, "{what}");
    } else if kind != 2 {
        let r = s.hosts[1].received();
        let sizes: Vec<_> = local.iter().map(|d| d.len() as u64).collect();
        let want: Vec<_> = (0..messages)
            .map(|m| (m, Status::Success, sizes[m as usize]))
            .collect();
        assert_eq!(r, want, "{what}");
        if kind == SEND_INV {
            let ended = |a: &Action| match *a {
                Action::Invalidate { rkey } => Some(rkey),
                _ => None,
            };
            let ended: Vec<_> = s.hosts[1].log.iter().filter_map(ended).collect();
            let keys: Vec<_> = (0..messages as u32).map(|m| WINDOW + m).collect();
            assert_eq!(ended, keys, "{what}");
        }
        for (m, d) in local.iter().enumerate().filter(|_| kind != 3) {
            assert!(s.hosts[1].receive[m][..d.len()] == d[..], "{what}");
        }
    }
    assert!(s.hosts[1].memory == want, "{what}: memory");
    counts.get()
}

#[test]
fn one_fault_at_every_frame() {
    let mut cases = 0;
    for kind in 0..OPS {
        for packets in 1..=if ATOMICS.contains(&kind) { 1 } else { 8 } {
            for messages in 1..=2 {
                let frames = case(kind, packets, messages, None, Fate::Pass);
                for (side, n) in frames.into_iter().enumerate() {
                    for number in 0..n {
                        for (k, fate) in FATES.into_iter().enumerate() {
                            let fate = match fate {
                                Fate::Hurt(_) => Fate::Hurt(97 * number as usize + 31 * k),
                                f => f,
                            };
                            case(kind, packets, messages, Some((side, number)), fate);
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    println!("{cases} cases");
    assert!(cases > 4000, "{cases}");
}

/// UC: what is dropped, repeated or out of order takes its message and nothing else.
#[test]
fn unreliable_connection() {
    let mut cfg = QpConfig::new(0x11, 0x12);
    cfg.mtu = Mtu::M256;
    cfg.sq_psn = Psn::new(0xff_fffe);
    cfg.rq_psn = Psn::new(0xff_fffe);
    for packets in 1..=8u64 {
        let wr = |id, len| SendWr::new(id, SendOp::SendImm([id as u8; 4]), len);
        let mut tx = UcSender::new(cfg);
        tx.post(wr(0, packets * 256 - 3));
        tx.post(wr(1, 10));
        let mut done = vec![];
        let sent: Vec<Tx> = std::iter::from_fn(|| tx.poll_transmit(&mut done)).collect();
        assert_eq!((sent.len() as u64, done.len()), (packets + 1, 2));
        assert!(sent.iter().all(|t| !t.packet.ack_req), "field fault C9");
        for hit in 0..packets as usize {
            for twice in [false, true] {
                let mut rx = UcReceiver::new(cfg.mirrored());
                for wr_id in 0..3 {
                    rx.post(RecvWr { wr_id, len: 4096 });
                }
                let mut out = vec![];
                for (k, t) in sent.iter().enumerate() {
                    let times = if k == hit { 2 * usize::from(twice) } else { 1 };
                    for _ in 0..times {
                        let info = t.packet.opcode.info().unwrap();
                        let len = t.payload.len() as usize;
                        rx.on_packet(&t.packet, info, len, &MrTable::default(), &mut out);
                    }
                }
                let got: Vec<_> = out
                    .iter()
                    .filter_map(|a| match a {
                        Action::RecvComplete { wr_id, imm, .. } => Some((*wr_id, imm.unwrap()[0])),
                        _ => None,
                    })
                    .collect();
                // A repeated Only is a second message, a repeated First or Last does no harm.
                let last = hit + 1 == packets as usize;
                let want: &[_] = match (twice, packets == 1) {
                    (true, true) => &[(0, 0), (1, 0), (2, 1)],
                    (true, false) if hit == 0 || last => &[(0, 0), (1, 1)],
                    _ => &[(0, 1)],
                };
                assert_eq!(got, want, "{packets} packets, {hit}, twice {twice}");
            }
        }
    }
}

#[test]
fn datagrams() {
    let cfg = QpConfig::new(0x11, 0);
    let mut tx = UdSender::new(cfg);
    let to = |qkey| UdAddress { qpn: 0x12, qkey };
    for (id, len, qkey) in [
        (0, 0, 7),
        (1, 4096, 7),
        (2, 10, 8),
        (3, 101, 7),
        (4, 100, 7),
    ] {
        tx.post(SendWr::new(id, SendOp::Send, len), to(qkey));
    }
    let mut rx = UdReceiver::new(7);
    for wr_id in 0..3 {
        let len = [40, 4136, 140][wr_id as usize];
        rx.post(RecvWr { wr_id, len });
    }
    let (mut done, mut out) = (vec![], vec![]);
    while let Some(t) = tx.poll_transmit(&mut done) {
        assert_eq!(t.packet.ext.deth.unwrap().src_qpn, 0x11);
        rx.on_packet(&t.packet, t.payload.len() as usize, &mut out);
    }
    rx.on_packet(
        &PacketRepr::new(Opcode::UD_SEND_ONLY, 0x12, Psn::new(0)),
        0,
        &mut out,
    );
    let got: Vec<_> = out
        .iter()
        .filter_map(|a| match a {
            Action::RecvComplete { byte_len, .. } => Some(Ok(*byte_len)),
            Action::Drop(r) => Some(Err(*r)),
            _ => None,
        })
        .collect();
    let (key, long) = (DropReason::BadQkey, DropReason::UdLength);
    assert_eq!(
        got,
        [Ok(40), Ok(4136), Err(key), Err(long), Ok(140), Err(key)]
    );
    assert_eq!(done.len(), 5);
}
