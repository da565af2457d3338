//! Figures of the card `mini`: what a frame costs between a ring and the wire, and how many of them the card moves.

use crate::{
    bench::AT_ONCE,
    craft,
    fabric::Seen,
    hostport::HostPortConfig,
    raw::RawHost,
    sim::{Minis, Sim, SimConfig},
};
use metaroce_protocol::{Opcode, PacketRepr, Psn};
use std::{
    fmt::Write,
    sync::{Arc, Mutex},
};

const PASID: u16 = 1;

fn pair(host: HostPortConfig) -> (Sim, [RawHost; 2]) {
    let mut sim = Sim::scripted(&SimConfig {
        cards: 2,
        minis: Minis::ALL,
        host,
        ..SimConfig::default()
    });
    let ends = [0, 1].map(|c| RawHost::open(&mut sim, c, PASID, 8, 8));
    for _ in 0..100 {
        sim.step();
    }
    (sim, ends)
}

/// A frame with so many bytes behind the BTH, without ICRC.
fn frame(sim: &Sim, from: usize, payload: usize) -> Vec<u8> {
    let p = PacketRepr::new(
        Opcode::RC_SEND_MIDDLE,
        (PASID as u32) << 18 | 5,
        Psn::new(7),
    );
    let mut f = craft::emit(&craft::repr(sim, from, p), &vec![0x5A; payload]);
    f.truncate(f.len() - 4);
    f
}

pub struct Latency {
    pub doorbell_to_wire: u64,
    pub wire_to_head: u64,
}

pub fn latency(payload: usize, host: HostPortConfig) -> Latency {
    let (mut sim, [mut a, mut b]) = pair(host);
    let f = frame(&sim, 0, payload);
    assert!(a.send(&mut sim, &f));
    let t0 = sim.nodes[0].cycles;
    while b.poll(&mut sim).is_none() {
        sim.step();
        assert!(sim.nodes[0].cycles - t0 < 100_000, "no frame");
    }
    let (s, r) = (sim.nodes[0].marks, sim.nodes[1].marks);
    Latency {
        doorbell_to_wire: s.first_tx - s.doorbell,
        wire_to_head: sim.nodes[1].cycles - r.last_rx,
    }
}

pub struct Rate {
    pub frames_per_s: f64,
    /// What card 0 puts on the wire.
    pub sent_per_s: f64,
    /// What the wire carries.
    pub limit: f64,
    pub payload_gbps: f64,
    pub dropped: u64,
}

/// `n` frames as fast as they go, one way or both; of both ways the slower one. Counted is what arrives.
pub fn rate(payload: usize, n: usize, both: bool) -> Rate {
    let (mut sim, mut ends) = pair(HostPortConfig::default());
    let frames = [0, 1].map(|c| frame(&sim, c, payload));
    let mut left = [n, if both { n } else { 0 }];
    let starts = Arc::new(Mutex::new(vec![]));
    let log = starts.clone();
    sim.fabric.tap = Some(Box::new(move |what, port, f| {
        if (what, port) == (Seen::Sent, 0) {
            log.lock().expect("one thread").push(f.start_ps);
        }
    }));
    // frames got, and when: the first ones are not counted
    let mut got: [Vec<u64>; 2] = Default::default();
    let mut quiet = 0;
    while quiet < 200 {
        quiet += 1;
        for e in 0..2 {
            while left[e] > 0 && ends[e].send(&mut sim, &frames[e]) {
                left[e] -= 1;
                quiet = 0;
            }
            let was = got[e].len();
            while ends[e].poll(&mut sim).is_some() {
                let now = sim.nodes[e].now_ps;
                got[e].push(now);
                quiet = 0;
            }
            if got[e].len() != was {
                ends[e].consume(&mut sim, false);
            }
        }
        for _ in 0..16 {
            sim.step();
        }
    }
    let per_s = |e: usize| {
        let g = &got[e];
        let from = g.len() / 4;
        let (first, last) = (g[from], g[g.len() - 1]);
        // of those that were found at the same time the first is no frame later
        let k = g.iter().filter(|t| **t > first).count();
        k as f64 / ((last - first) as f64 * 1e-12)
    };
    let frames_per_s = if both {
        per_s(0).min(per_s(1))
    } else {
        per_s(1)
    };
    let s = starts.lock().expect("one thread");
    let from = s.len() / 4;
    Rate {
        frames_per_s,
        sent_per_s: (s.len() - 1 - from) as f64 / ((s[s.len() - 1] - s[from]) as f64 * 1e-12),
        limit: 1e12 / sim.fabric.wire_ps(frames[0].len() + 4) as f64,
        payload_gbps: frames_per_s * payload as f64 * 8.0 / 1e9,
        dropped: [0, 1]
            .map(|e| sim.nodes[e].counter(metaroce_hdl_spec::regs::Ctr::rx_drop_full))
            .iter()
            .sum(),
    }
}

/// docs/results/mini.md
pub fn page() -> String {
    let mut t = String::from(
        "# The card without transport, measured\n\nCard clock, scripted hosts, 100 Gb/s wire, configuration `mini`. What a driver adds is not in these figures.\n\
         Reproduce: `cargo xtask bench -- --raw`; `cargo test --release -p metaroce-tb --test raw` compares.\n\n\
         Latency in cycles of 3.103 ns, host port latency not counted (a host port that answers at once):\n\n\
         | bytes behind the BTH | doorbell -> first wire word | last wire word -> head written |\n|---|---|---|\n",
    );
    for payload in [0, 64, 1024, 4096] {
        let l = latency(payload, AT_ONCE);
        writeln!(
            t,
            "| {payload} | {} | {} |",
            l.doorbell_to_wire, l.wire_to_head
        )
        .unwrap();
    }
    t.push_str("\nRates, host port of 600 ns reads with reordered completions; of both ways the slower one. The limit is what the wire carries (with preamble, FCS and gap). What comes faster than the card takes it is dropped (`rx_drop_full`).\n\n| bytes behind the BTH | ways | M frames/s sent | M frames/s received | Gb/s behind the BTH | % of limit | dropped |\n|---|---|---|---|---|---|---|\n");
    for (payload, n) in [(4096, 600), (1024, 1500), (256, 3000), (8, 3000)] {
        for both in [false, true] {
            let r = rate(payload, n, both);
            writeln!(
                t,
                "| {payload} | {} | {:.3} | {:.3} | {:.2} | {:.1} | {} |",
                if both { 2 } else { 1 },
                r.sent_per_s / 1e6,
                r.frames_per_s / 1e6,
                r.payload_gbps,
                100.0 * r.frames_per_s / r.limit,
                r.dropped
            )
            .unwrap();
        }
    }
    t
}
