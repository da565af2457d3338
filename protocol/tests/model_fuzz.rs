//! Any packets, in any order, against the model and the checker: nothing panics, nothing is
//! completed twice, and work requests complete in order.

mod common;

use common::sim::{frame, region, side, BASE, RKEY, WINDOW};
use common::Rng;
use metaroce_protocol::ext::*;
use metaroce_protocol::model::*;
use metaroce_protocol::opcode::{ExtSet, PayloadRule};
use metaroce_protocol::*;

fn random_packet(rng: &mut Rng, dest: u32) -> (PacketRepr, usize) {
    let pick = rng.below(Opcode::ALL.len() as u64 + 25) as usize;
    // RC opcodes come first in the list and are preferred.
    let op = Opcode::ALL[if pick < 40 { pick } else { pick - 40 }];
    let info = op.info().unwrap();
    let has = |s| info.ext.has(s);
    let near = rng.below(12) as u32;
    let psn = if rng.below(20) == 0 {
        rng.next() as u32
    } else {
        near.wrapping_sub(3)
    };
    let syndromes = [0x1f, 0, 0x20, 0x21, 0x60, 0x61, 0x62, 0x63, 0x40, 0xff];
    let mut p = PacketRepr::new(op, dest, Psn::new(psn));
    p.ack_req = rng.below(2) == 0 && info.is_request();
    p.ext = Ext {
        deth: has(ExtSet::DETH).then_some(Deth::default()),
        feth: has(ExtSet::FETH).then_some(Feth(1)),
        reth: has(ExtSet::RETH).then_some(Reth {
            va: BASE - 256 + rng.below(4) * 256,
            rkey: RKEY + u32::from(rng.below(10) == 0),
            dma_len: [0, 1, 256, 300, 600, u32::MAX, 1 << 31][rng.below(7) as usize],
        }),
        atomic: has(ExtSet::ATOMIC).then_some(AtomicEth::default()),
        aeth: has(ExtSet::AETH).then_some(Aeth {
            // Mostly not fatal, so that the run goes on.
            syndrome: Syndrome::from_byte(match rng.below(4) {
                0 => syndromes[rng.below(10) as usize],
                _ => 0x1f,
            }),
            msn: Msn::new(near),
        }),
        atomic_ack: has(ExtSet::ATOMIC_ACK).then_some(1),
        imm: has(ExtSet::IMM).then_some([1, 2, 3, 4]),
        ieth: has(ExtSet::IETH).then_some(WINDOW + u32::from(rng.below(10) == 0)),
    };
    let len = match info.payload {
        PayloadRule::None => 0,
        PayloadRule::Exact(n) => usize::from(n),
        PayloadRule::Full => 256,
        _ => [0, 1, 44, 88, 256, 257][rng.below(6) as usize],
    };
    (p, len)
}

#[test]
fn any_packets_against_model_and_checker() {
    let seed = std::env::var("METAROCE_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0xf00d);
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut windows = Windows::new(MrTable(vec![region(RKEY, 0, 4096)]));
    assert!(windows.bind(0x11, RKEY, region(WINDOW, 0, 64)));
    let mrs = windows.seen_by(0x11);
    for round in 0..3000 {
        let mut cfg = QpConfig::new(0x11, 0x12);
        cfg.mtu = Mtu::M256;
        cfg.timeout = rng.below(32) as u8;
        cfg.max_rd_atomic = rng.below(4) as u8;
        cfg.max_dest_rd_atomic = rng.below(4) as u8;
        cfg.window = rng.next() as u32;
        let mut qp = Qp::new(cfg);
        let mut checker = WireChecker::new(&cfg, &cfg.mirrored());
        let mut out = Vec::new();
        let mut posted = 0;
        let mut now = 0u64;
        for _ in 0..30 {
            now += 1 << rng.below(40);
            match rng.below(6) {
                0 => {
                    let op = match rng.below(6) {
                        0 => SendOp::Send,
                        1 => SendOp::Write { va: 0, rkey: 1 },
                        2 => SendOp::SendInv { rkey: 1 },
                        3 => SendOp::LocalInv { rkey: 1 },
                        4 => SendOp::Bind {
                            lkey: RKEY,
                            window: region(WINDOW, 0, 1),
                        },
                        _ => SendOp::Read { va: 0, rkey: 1 },
                    };
                    let len = [0, 1, 300, 600, 1 << 31, u64::MAX][rng.below(6) as usize];
                    qp.post_send(SendWr::new(posted, op, len), &mut out);
                    posted += 1;
                }
                1 => qp.post_recv(RecvWr { wr_id: 0, len: 500 }, &mut out),
                2 => qp.on_timer(now, &mut out),
                4 if rng.below(2) == 0 => qp.local_done(rng.below(8) != 0, &mut out),
                3 => {
                    for _ in 0..rng.below(8) {
                        let _ = qp.poll_transmit(now);
                    }
                }
                _ => {
                    let (p, len) = random_packet(&mut rng, 0x11);
                    qp.on_packet(now, &p, len, &mrs, &mut out);
                    let from = rng.below(2) as usize;
                    let (mut p, len) = random_packet(&mut rng, 0);
                    p.dest_qpn = 0x12 - from as u32;
                    let b = frame(from, p, &vec![0; len]);
                    let _ = checker.sent(side(from), &b);
                    if rng.below(2) == 0 {
                        checker.delivered(side(from), &b);
                    }
                }
            }
        }
        qp.to_error(&mut out);
        let ids: Vec<u64> = out
            .iter()
            .filter_map(|a| match a {
                Action::SendComplete { wr_id, .. } => Some(*wr_id),
                _ => None,
            })
            .collect();
        assert_eq!(ids, (0..posted).collect::<Vec<_>>(), "round {round}");
    }
}
