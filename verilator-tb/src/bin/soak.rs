//! Long random run: all operations, random sizes and addresses, faults on the wire; payload and completions checked.
//! `soak [MESSAGES] [SEED]`; `cargo xtask soak` runs it.

use metaroce_hdl_spec::wqe::op;
use metaroce_tb::{
    fabric::{FabricConfig, Faults},
    pair::Pair,
    rng::Rng,
    script::{Conn, Wr},
    sim::SimConfig,
};
use std::time::Instant;

const QPS: usize = 4;
/// Bytes of the region of one QP in each buffer.
const SPAN: u64 = 128 << 10;
const OPS: [u8; 5] = [op::WRITE, op::READ, op::SEND, op::WRITE_IMM, op::SEND_IMM];

struct Job {
    src: usize,
    soff: u64,
    dst: usize,
    doff: u64,
    data: Vec<u8>,
}

fn main() {
    let mut args = std::env::args()
        .skip(1)
        .map(|a| a.parse::<u64>().expect("soak [MESSAGES] [SEED]"));
    let messages = args.next().unwrap_or(20_000);
    let seed = args.next().unwrap_or(1);
    println!("soak: {messages} messages, seed {seed}; replay: cargo xtask soak {messages} {seed}");
    let mut rng = Rng::new(seed);
    let began = Instant::now();
    let mut done = 0u64;
    while done < messages {
        // A new pair of cards now and then: other MTU, other faults, other PSN.
        let round = (messages - done).min(2_000);
        let ppm = |r: &mut Rng| [0, 1_000, 10_000, 30_000][r.below(4) as usize];
        let faults = Faults {
            loss_ppm: ppm(&mut rng),
            duplicate_ppm: ppm(&mut rng),
            reorder_ppm: ppm(&mut rng),
            corrupt_ppm: ppm(&mut rng),
        };
        let mtu = 1 + rng.below(5) as u8;
        let psn = if rng.below(2) == 0 {
            0xFF_FFF0
        } else {
            rng.below(1 << 24) as u32
        };
        let conn = Conn {
            mtu,
            psn,
            timeout: 4,
            ..Conn::default()
        };
        let cfg = SimConfig {
            cards: 2,
            fabric: FabricConfig {
                faults,
                seed: rng.next(),
                ..FabricConfig::default()
            },
            ..SimConfig::default()
        };
        println!(
            "soak: {done}/{messages}, MTU {}, {faults:?}, {:.0} s",
            128 << mtu,
            began.elapsed().as_secs_f64()
        );
        let mut p = Pair::new(&cfg, QPS, 2 * SPAN * QPS as u64, &conn);
        let mut in_round = 0;
        while in_round < round {
            let jobs: Vec<Job> = (0..2 * QPS)
                .map(|k| start(&mut p, k / QPS, k % QPS, mtu, &mut rng))
                .collect();
            finish(&mut p, jobs, &mut rng);
            in_round += 2 * QPS as u64;
        }
        done += in_round;
    }
    println!(
        "soak: {done} messages, 0 mismatches, {:.0} s",
        began.elapsed().as_secs_f64()
    );
}

/// Posts one random message from end `e` on QP `q`.
fn start(p: &mut Pair, e: usize, q: usize, mtu: u8, rng: &mut Rng) -> Job {
    let max = (8u64 * (128 << mtu)).min(SPAN / 2 - 8192);
    let len = match rng.below(4) {
        0 => rng.below(70),
        1 => (128u64 << mtu) * rng.below(3) + rng.below(3),
        _ => rng.below(max),
    } as u32;
    // Each end and QP has its own region for what it starts, so that jobs don't overlap.
    let base = SPAN * (2 * q + e) as u64;
    let (lo, ro) = (base + rng.below(4096), base + rng.below(4096) + SPAN / 2);
    let o = OPS[rng.below(5) as usize];
    let data = rng.bytes(len as usize);
    let (src, soff, dst, doff) = if o == op::READ {
        (1 - e, ro, e, lo)
    } else {
        (e, lo, 1 - e, ro)
    };
    p.fill(src, soff, &data);
    if matches!(o, op::SEND | op::SEND_IMM | op::WRITE_IMM) {
        let r = &p.ends[1 - e];
        let sge = if o == op::WRITE_IMM || len == 0 {
            vec![]
        } else {
            vec![(r.buf + ro, len, r.key)]
        };
        p.recv(1 - e, q, &sge);
    }
    let wr = match o {
        op::SEND => p.send(e, lo, len, None),
        op::SEND_IMM => p.send(e, lo, len, Some(7)),
        _ => Wr {
            imm: 7,
            ..p.rdma(e, o, lo, ro, len)
        },
    };
    p.post(e, q, &wr);
    Job {
        src,
        soff,
        dst,
        doff,
        data,
    }
}

/// Waits for every send completion, then compares.
fn finish(p: &mut Pair, jobs: Vec<Job>, rng: &mut Rng) {
    let mut left = jobs.len();
    let t0 = p.sim.nodes[0].cycles;
    while left > 0 {
        p.sim.step_or_skip();
        assert!(
            p.sim.nodes[0].cycles - t0 < 80_000_000,
            "hang; counters {:?}",
            p.counters()
        );
        for e in 0..2 {
            while let Some(c) = p.poll(e) {
                assert_eq!(c.status, 0, "completion error on card {e}: {c:?}");
                left -= usize::from(!c.is_recv);
            }
        }
    }
    for _ in 0..500 + rng.below(500) {
        p.sim.step();
        for e in 0..2 {
            while let Some(c) = p.poll(e) {
                assert!(
                    c.is_recv && c.status == 0,
                    "unexpected completion on card {e}: {c:?}"
                );
            }
        }
    }
    for j in jobs {
        let got = p.read(j.dst, j.doff, j.data.len());
        assert!(
            got == j.data,
            "payload of {} bytes from card {} at {} differs at card {} at {}",
            j.data.len(),
            j.src,
            j.soff,
            j.dst,
            j.doff
        );
    }
}
