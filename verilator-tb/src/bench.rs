//! Scripted benches in card time. Every figure repeats to the bit on any machine.

use crate::{
    fabric::FabricConfig,
    hostport::HostPortConfig,
    pair::Pair,
    script::{Conn, Cqe, Wr},
    sim::SimConfig,
};
use metaroce_hdl_spec::wqe::op;
use std::collections::HashMap;

/// What moves in a throughput case.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    pub op: u8,
    pub bytes: u32,
    pub qps: usize,
    /// Work requests in flight per QP.
    pub depth: usize,
    /// Path MTU code (5 = 4096).
    pub mtu: u8,
    pub both_ways: bool,
    pub messages: usize,
}

/// Result of a throughput case, per direction.
#[derive(Debug, Clone, Copy)]
pub struct Throughput {
    pub gbps: f64,
    /// Percent of what the wire carries at this MTU and message size.
    pub of_limit: f64,
    pub limit_gbps: f64,
    pub messages_per_s: f64,
    pub retransmits: u64,
}

impl Flow {
    /// Bytes of buffer that each QP uses.
    pub fn span(&self) -> u64 {
        (self.bytes as u64).max(64).next_multiple_of(4096) * self.depth as u64
    }
}

pub fn mtu_bytes(code: u8) -> u32 {
    128 << code
}

/// Wire bytes of a WRITE message (or of READ responses) over IPv4: per packet Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4, preamble
/// and gap 20, and the extension headers.
fn wire_bytes(f: &Flow) -> u64 {
    let mtu = mtu_bytes(f.mtu);
    let packets = f.bytes.div_ceil(mtu).max(1) as u64;
    let ext = match f.op {
        // AETH on first and last.
        op::READ => 4 * packets.min(2),
        op::SEND => 0,
        _ => 16,
    };
    f.bytes.next_multiple_of(4) as u64 + 82 * packets + ext
}

/// What else happens on the cards while a flow runs.
pub trait Beside {
    /// Between two cycles.
    fn tick(&mut self, _: &mut Pair) {}
    /// A completion on end `e` of a QP that the flow does not use.
    fn completion(&mut self, _: &mut Pair, e: usize, c: Cqe) {
        panic!("completion of a foreign QP on card {e}: {c:?}");
    }
}

/// Nothing.
pub struct Alone;
impl Beside for Alone {}

/// Runs a flow on two fresh cards.
pub fn throughput(f: &Flow, host: HostPortConfig, seed: u64) -> Throughput {
    let cfg = SimConfig {
        cards: 2,
        host,
        fabric: FabricConfig {
            seed,
            ..FabricConfig::default()
        },
        ..SimConfig::default()
    };
    let conn = Conn {
        mtu: f.mtu,
        ..Conn::default()
    };
    let mut p = Pair::new(&cfg, f.qps, f.span() * f.qps as u64, &conn);
    flow(&mut p, f, &mut Alone)
}

/// Runs a flow on the first `f.qps` QPs of `p` and measures the middle part of it (the first and the last eighth are warm-up and drain). The
/// buffers have `f.span()` bytes for each.
pub fn flow(p: &mut Pair, f: &Flow, beside: &mut dyn Beside) -> Throughput {
    let span = f.span();
    let ends = if f.both_ways { 2 } else { 1 };
    let mut posted = [0usize; 2];
    let mut done = [0usize; 2];
    let mut times: [Vec<u64>; 2] = [vec![], vec![]];
    let index = [0, 1].map(|e: usize| {
        let qps = p.ends[e].qps.iter().take(f.qps);
        qps.enumerate()
            .map(|(k, q)| (q.qpn, k))
            .collect::<HashMap<_, _>>()
    });
    let resent = retransmits(p);
    for e in 0..ends {
        for q in 0..f.qps {
            for _ in 0..f.depth.min(f.messages.div_ceil(f.qps)) {
                stage(p, f, e, q, posted[e], span);
                posted[e] += 1;
            }
            let end = &p.ends[e];
            end.host.ring_sq(&mut p.sim, &end.qps[q]);
        }
    }
    let limit = 60_000_000u64;
    let t0 = p.sim.nodes[0].cycles;
    // what was posted at first completes, too
    while (0..ends).any(|e| done[e] < posted[e].max(f.messages)) {
        p.sim.step_or_skip();
        beside.tick(p);
        let now = p.sim.nodes[0].cycles;
        assert!(
            now - t0 < limit,
            "{f:?} does not finish; counters {:?}",
            p.counters()
        );
        for e in 0..2 {
            while let Some(c) = p.poll(e) {
                let Some(q) = index[e].get(&c.qpn).filter(|_| e < ends).copied() else {
                    beside.completion(p, e, c);
                    continue;
                };
                assert_eq!(c.status, 0, "completion error in a bench");
                done[e] += 1;
                times[e].push(p.sim.now_ps());
                if posted[e] < f.messages {
                    stage(p, f, e, q, posted[e], span);
                    posted[e] += 1;
                    let end = &p.ends[e];
                    end.host.ring_sq(&mut p.sim, &end.qps[q]);
                }
            }
        }
    }
    let (mut gbps, mut rate) = (f64::MAX, f64::MAX);
    for t in &times[..ends] {
        let (a, b) = (t.len() / 8, t.len() - 1 - t.len() / 8);
        let ns = (t[b] - t[a]) as f64 / 1000.0;
        let n = (b - a) as f64;
        rate = rate.min(n / ns * 1e9);
        gbps = gbps.min(n * f.bytes as f64 * 8.0 / ns);
    }
    let line = FabricConfig::default().rate_mbps as f64 / 1000.0;
    let limit_gbps = line * f.bytes as f64 / wire_bytes(f) as f64;
    Throughput {
        gbps,
        of_limit: 100.0 * gbps / limit_gbps,
        limit_gbps,
        messages_per_s: rate,
        retransmits: retransmits(p) - resent,
    }
}

/// Packets that both cards sent again.
fn retransmits(p: &mut Pair) -> u64 {
    p.counters()
        .iter()
        .flatten()
        .filter(|(n, _)| *n == "tx_retransmits")
        .map(|(_, v)| v)
        .sum()
}

fn stage(p: &mut Pair, f: &Flow, e: usize, q: usize, n: usize, span: u64) {
    let slot = (n / f.qps % f.depth) as u64;
    let off = span * q as u64 + slot * (f.bytes as u64).max(64).next_multiple_of(4096);
    let wr: Wr = p.rdma(e, f.op, off, off, f.bytes);
    let end = &mut p.ends[e];
    end.host.post_send(&mut p.sim, &mut end.qps[q], &wr);
}

/// Cycles of one WRITE of `bytes` with a host port of zero latency.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    /// SQ doorbell accepted -> first wire word.
    pub doorbell_to_wire: u64,
    /// Last wire word in -> payload write at the host port.
    pub wire_to_memory: u64,
}

/// A host port that answers at once.
pub const AT_ONCE: HostPortConfig = HostPortConfig {
    read_ns: 0,
    spread_ns: 0,
    mbps: 0,
    stall_ppm: 0,
};

/// `direct`: inline data in a direct WQE.
pub fn write_latency(bytes: u32, host: HostPortConfig, direct: bool) -> Latency {
    let cfg = SimConfig {
        cards: 2,
        host,
        fabric: FabricConfig::default(),
        ..SimConfig::default()
    };
    let mut p = Pair::new(&cfg, 1, 1 << 20, &Conn::default());
    let mut wr = p.rdma(0, op::WRITE, 0, 0, bytes);
    if direct {
        wr.sges.clear();
        wr.inline = Some(vec![0x5A; bytes as usize]);
    }
    // The first fills the translation caches.
    for _ in 0..3 {
        for _ in 0..3000 {
            p.sim.step();
        }
        if direct {
            p.post_direct(0, 0, &wr);
        } else {
            p.post(0, 0, &wr);
        }
        p.wait(0, 100_000);
    }
    let (a, b) = (p.sim.nodes[0].marks, p.sim.nodes[1].marks);
    Latency {
        doorbell_to_wire: a.first_tx - a.doorbell,
        wire_to_memory: b.first_write - b.last_rx,
    }
}

/// Steps two cards under full load and measures this machine: (cycles of both cards in step, wall seconds).
pub fn speed(cycles: u64) -> (u64, f64) {
    let f = Flow {
        op: op::WRITE,
        bytes: 65_536,
        qps: 1,
        depth: 8,
        mtu: 5,
        both_ways: true,
        messages: usize::MAX,
    };
    let cfg = SimConfig {
        cards: 2,
        ..SimConfig::default()
    };
    let span = f.bytes as u64 * f.depth as u64;
    let mut p = Pair::new(&cfg, 1, span, &Conn::default());
    let mut n = [0usize; 2];
    for e in 0..2 {
        for _ in 0..f.depth {
            stage(&mut p, &f, e, 0, n[e], span);
            n[e] += 1;
        }
        let end = &p.ends[e];
        end.host.ring_sq(&mut p.sim, &end.qps[0]);
    }
    let t = std::time::Instant::now();
    let c0 = p.sim.nodes[0].cycles;
    while p.sim.nodes[0].cycles - c0 < cycles {
        for _ in 0..32 {
            p.sim.step();
        }
        for e in 0..2 {
            while p.poll(e).is_some() {
                stage(&mut p, &f, e, 0, n[e], span);
                n[e] += 1;
                let end = &p.ends[e];
                end.host.ring_sq(&mut p.sim, &end.qps[0]);
            }
        }
    }
    (p.sim.nodes[0].cycles - c0, t.elapsed().as_secs_f64())
}
