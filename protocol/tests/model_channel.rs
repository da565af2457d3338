//! Model against model over a bad channel: every byte right, every completion exactly once, every
//! frame legal.

mod common;

use common::sim::{region, Faults, Sim, BASE, RKEY, WINDOW};
use common::Rng;
use metaroce_protocol::model::*;
use metaroce_protocol::*;

fn bytes(rng: &mut Rng, n: usize) -> Vec<u8> {
    (0..n).map(|_| rng.next() as u8).collect()
}

/// What a random run expects in the end.
#[derive(Default)]
struct Expect {
    sends: Vec<u64>,
    receives: Vec<(u64, u64, Option<[u8; 4]>, Option<u32>)>,
    writes: Vec<(usize, Vec<u8>)>,
    /// (ordinal of the send work request, offset in the peer's memory, length)
    reads: Vec<(usize, usize, usize)>,
    /// (ordinal of the receive, data)
    arrivals: Vec<(usize, Vec<u8>)>,
}

const HALF: usize = 1 << 20;
/// Bytes at the start of the lower half that READs come from.
const SOURCE: usize = 1 << 16;

/// Posts `ops` random work requests on `from`; its WRITEs go to fresh memory in the upper half of
/// the peer, its READs come from the lower half, which nobody writes.
fn post_random(sim: &mut Sim, from: usize, ops: usize, late_receives: bool) -> Expect {
    let mut e = Expect::default();
    let mtu = sim.hosts[from].qp.config().mtu.bytes() as usize;
    let mut fresh = HALF;
    let mut ordinal = 0;
    let mut bound = None;
    for n in 0..ops {
        let edge = [0, 1, 3, 4, 5, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + 7];
        let len = match sim.rng.below(3) {
            0 => edge[sim.rng.below(edge.len() as u64) as usize],
            1 => sim.rng.below(200) as usize,
            _ => sim.rng.below(6 * mtu as u64) as usize,
        };
        let data = bytes(&mut sim.rng, len);
        let imm = (sim.rng.next() as u32).to_be_bytes();
        // 5: SEND with invalidate; 6, 7: local operations.
        let mut kind = sim.rng.below(8);
        if kind == 7 && bound.is_none() {
            kind = 6;
        }
        let key = WINDOW + n as u32;
        if kind == 5 {
            let peer = &mut sim.hosts[1 - from];
            let qpn = peer.qp.config().qpn;
            assert!(peer.mrs.bind(qpn, RKEY, region(key + 0x80, 0, 64)));
        }
        let va = BASE + fresh as u64;
        let op = match kind {
            0 => SendOp::Send,
            1 => SendOp::SendImm(imm),
            2 => SendOp::Write { va, rkey: RKEY },
            3 => SendOp::WriteImm {
                va,
                rkey: RKEY,
                imm,
            },
            5 => SendOp::SendInv { rkey: key + 0x80 },
            6 => {
                bound = Some(key);
                SendOp::Bind {
                    lkey: RKEY,
                    window: region(key, 0, 64),
                }
            }
            7 => SendOp::LocalInv {
                rkey: bound.take().expect("bound"),
            },
            _ => {
                let at = sim.rng.below((SOURCE - len) as u64) as usize;
                e.reads.push((n, at, len));
                SendOp::Read {
                    va: BASE + at as u64,
                    rkey: RKEY,
                }
            }
        };
        if matches!(kind, 2 | 3) {
            e.writes.push((fresh, data.clone()));
            fresh += len;
        }
        if matches!(kind, 0 | 1 | 3 | 5) {
            if kind != 3 {
                e.arrivals.push((ordinal, data.clone()));
            }
            let id = 5000 + ordinal as u64;
            let with_imm = matches!(kind, 1 | 3).then_some(imm);
            let inv = (kind == 5).then_some(key + 0x80);
            e.receives.push((id, len as u64, with_imm, inv));
            ordinal += 1;
            if !late_receives {
                sim.hosts[1 - from].post_recv(RecvWr {
                    wr_id: id,
                    len: len as u64 + sim.rng.below(9),
                });
            }
        }
        let mut wr = SendWr::new(n as u64, op, len as u64);
        wr.signaled = sim.rng.below(3) != 0 || n + 1 == ops;
        wr.fence = sim.rng.below(8) == 0;
        wr.solicited = sim.rng.below(4) == 0;
        if wr.signaled {
            e.sends.push(n as u64);
        }
        let local = if kind == 4 { vec![0; len] } else { data };
        sim.hosts[from].post(wr, local);
    }
    e
}

fn verify(sim: &Sim, from: usize, e: &Expect) {
    let (me, peer) = (&sim.hosts[from], &sim.hosts[1 - from]);
    let want: Vec<_> = e.sends.iter().map(|w| (*w, Status::Success)).collect();
    assert_eq!(me.sent(), want);
    let got: Vec<_> = peer
        .log
        .iter()
        .filter_map(|a| match *a {
            Action::RecvComplete {
                wr_id,
                status,
                byte_len,
                imm,
                inv,
                ..
            } => {
                assert_eq!(status, Status::Success);
                Some((wr_id, byte_len, imm, inv))
            }
            _ => None,
        })
        .collect();
    assert_eq!(got, e.receives);
    for (at, data) in &e.writes {
        assert_eq!(&peer.memory[*at..at + data.len()], &data[..]);
    }
    for (wqe, at, len) in &e.reads {
        assert_eq!(me.local[*wqe][..], peer.memory[*at..at + len]);
    }
    for (n, data) in &e.arrivals {
        assert_eq!(&peer.receive[*n][..data.len()], &data[..]);
    }
    assert_eq!(me.qp.requester.pending(), 0);
}

fn config(rng: &mut Rng) -> QpConfig {
    let mut cfg = QpConfig::new(0x11, 0x12);
    cfg.mtu = Mtu::ALL[rng.below(5) as usize];
    // Often close to the wrap.
    cfg.sq_psn = Psn::new((0xff_fff0u32).wrapping_add(rng.below(40) as u32));
    cfg.rq_psn = Psn::new(rng.next() as u32);
    cfg.timeout = 5; // 131 us
    cfg.min_rnr_timer = 1;
    cfg.max_rd_atomic = 1 + rng.below(8) as u8;
    cfg.max_dest_rd_atomic = cfg.max_rd_atomic;
    cfg.ack_interval = [0, 1, 4, 64][rng.below(4) as usize];
    cfg.window = [1, 2, 16, 1 << 10, 1 << 23][rng.below(5) as usize];
    cfg
}

fn lossy_run(seed: u64, faults: Faults) -> usize {
    println!("seed {seed} {faults:?}");
    let mut rng = Rng::new(seed);
    let mut cfg = config(&mut rng);
    if faults.loss + faults.corrupt + faults.reorder > 100_000 {
        // Eight losses in a row do happen at these rates; the retry limit has its own tests.
        cfg.retry_cnt = 200;
    }
    let mut sim = Sim::new(cfg, 2 * HALF, seed ^ 0xabcd);
    sim.faults = faults;
    for h in &mut sim.hosts {
        let source = bytes(&mut rng, SOURCE);
        h.memory[..SOURCE].copy_from_slice(&source);
    }
    let a = post_random(&mut sim, 0, 60, false);
    let b = post_random(&mut sim, 1, 60, false);
    sim.run();
    verify(&sim, 0, &a);
    verify(&sim, 1, &b);
    sim.trace.len()
}

#[test]
fn clean_channel_sends_nothing_twice() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut cfg = config(&mut rng);
        cfg.timeout = 20;
        let mut sim = Sim::new(cfg, 2 * HALF, seed);
        let a = post_random(&mut sim, 0, 60, false);
        let b = post_random(&mut sim, 1, 60, false);
        sim.run();
        verify(&sim, 0, &a);
        verify(&sim, 1, &b);
        for i in 0..2 {
            let mut psn: Vec<_> = sim
                .trace
                .iter()
                .filter(|(s, p, _)| *s == i && p.opcode.info().unwrap().is_request())
                .map(|(_, p, _)| p.psn.get())
                .collect();
            let all = psn.len();
            psn.sort_unstable();
            psn.dedup();
            assert_eq!(psn.len(), all, "seed {seed}");
        }
    }
}

#[test]
fn loss() {
    for seed in 0..25 {
        for loss in [10_000, 100_000, 250_000] {
            lossy_run(
                seed,
                Faults {
                    loss,
                    ..Faults::default()
                },
            );
        }
    }
}

#[test]
fn duplication_reordering_corruption() {
    for seed in 100..125 {
        for f in [
            Faults {
                duplicate: 200_000,
                ..Faults::default()
            },
            Faults {
                reorder: 100_000,
                ..Faults::default()
            },
            Faults {
                corrupt: 50_000,
                ..Faults::default()
            },
        ] {
            lossy_run(seed, f);
        }
    }
}

#[test]
fn everything_at_once() {
    for seed in 200..260 {
        lossy_run(
            seed,
            Faults {
                loss: 50_000,
                duplicate: 50_000,
                reorder: 50_000,
                corrupt: 20_000,
            },
        );
    }
}

/// Receives are posted late and one by one: RNR, never a lost or repeated message.
#[test]
fn receiver_not_ready() {
    for seed in 300..320 {
        let mut rng = Rng::new(seed);
        let mut sim = Sim::new(config(&mut rng), 2 * HALF, seed);
        sim.faults.loss = 30_000;
        for h in &mut sim.hosts {
            let source = bytes(&mut rng, SOURCE);
            h.memory[..SOURCE].copy_from_slice(&source);
        }
        let e = post_random(&mut sim, 0, 40, true);
        let mut next = 0;
        loop {
            let more = sim.step();
            if next < e.receives.len() && (!more || sim.rng.below(200) == 0) {
                let (wr_id, len, ..) = e.receives[next];
                sim.hosts[1].post_recv(RecvWr { wr_id, len });
                next += 1;
            } else if !more {
                break;
            }
        }
        verify(&sim, 0, &e);
        assert!(sim.hosts[1].dropped(DropReason::Rnr) > 0, "seed {seed}");
    }
}

#[test]
fn same_seed_same_run() {
    let f = Faults {
        loss: 50_000,
        duplicate: 50_000,
        reorder: 50_000,
        corrupt: 20_000,
    };
    assert_eq!(lossy_run(7, f), lossy_run(7, f));
}
