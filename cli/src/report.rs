//! Tables in card time, and result.json.

use crate::output::say;
use crate::rundir::cant;
use anyhow::Result;
use metaroce_tb::server::Report;
use serde::Serialize;
use std::{fs, path::Path};

/// Figures of one direction of a run, in card time: of the time of the busiest queue pair; retransmits and drops of the whole run.
#[derive(Debug, Clone, Serialize)]
pub struct Flow {
    pub receiver: usize,
    pub payload_bytes: u64,
    pub goodput_gbps: f64,
    /// Share of what the wire can carry at this path MTU, percent.
    pub of_wire_limit: Option<f64>,
    pub messages_per_s: f64,
    pub p50_ns: Option<u32>,
    pub p99_ns: Option<u32>,
    pub retransmits: u64,
    pub drops: u64,
    /// Share of the transfer in which the card waited for host programs, percent.
    pub host_limited: f64,
}

fn counter(r: &Report, card: usize, name: &str) -> u64 {
    r.cards[card]
        .counters
        .iter()
        .find(|(n, _)| n == name)
        .map_or(0, |(_, v)| *v)
}

/// Without transport: what such a card moves are frames; what is a message, or payload, only the software above it knows.
fn frames_only(r: &Report, card: usize) -> bool {
    !r.config.minis.hw(card).transport
}

/// One flow per card that received payload.
///
/// `reads`: the tool issues READs or atomics, so the receiver is the one whose work requests count as messages.
pub fn flows(r: &Report, mtu: Option<u32>, reads: bool) -> Vec<Flow> {
    let mut v = vec![];
    for c in r.cards.iter().filter(|c| !frames_only(r, c.card)) {
        let h = &c.host;
        // What the programs exchange beside their test (perftest with -R) is not part of it.
        let window = h.busiest.totals();
        let ns = h.busiest.ps() as f64 / 1000.0;
        if window.payload_bytes == 0 || ns <= 0.0 {
            continue;
        }
        let rate = r.config.fabric.rate_mbps as f64 / 1000.0;
        let drops: u64 = c
            .counters
            .iter()
            .filter(|(n, _)| n.starts_with("rx_drop"))
            .map(|(_, v)| v)
            .sum();
        // A datagram that the card did not take was not placed.
        let placed = h.datagrams.saturating_sub(drops).min(window.datagrams);
        let grh = window.grh_bytes * placed / window.datagrams.max(1);
        let payload = window.payload_bytes.saturating_sub(grh);
        let goodput = payload as f64 * 8.0 / ns;
        let senders: Vec<usize> = if reads {
            vec![c.card]
        } else {
            (0..r.cards.len()).filter(|k| *k != c.card).collect()
        };
        v.push(Flow {
            receiver: c.card,
            payload_bytes: payload,
            goodput_gbps: goodput,
            of_wire_limit: mtu
                .map(|m| 100.0 * goodput / (rate * m as f64 / (m as f64 + h.overhead as f64))),
            messages_per_s: window.messages as f64 / ns * 1e9,
            p50_ns: c.latency_ns.map(|l| l.p50),
            p99_ns: c.latency_ns.map(|l| l.p99),
            retransmits: senders
                .iter()
                .map(|k| counter(r, *k, "tx_retransmits"))
                .sum(),
            drops,
            host_limited: 100.0 * window.quiet_ps as f64 / 1000.0 / ns,
        });
    }
    v
}

/// A time in a unit that keeps the column.
fn time(ns: u32) -> String {
    match ns {
        0..=999_999 => format!("{ns} ns"),
        _ => format!("{:.2} ms", ns as f64 / 1e6),
    }
}

/// READs and atomics: the one who asks is the one who receives.
pub fn pulls(tool: &str) -> bool {
    tool.contains("read") || tool.contains("atomic")
}

/// The table after a perftest run.
pub fn print(r: &Report, mtu: Option<u32>, reads: bool, card_time: bool) {
    let dash = || "-".to_string();
    let tool = if card_time {
        "card time, as the program sees it"
    } else {
        "wall time of this machine"
    };
    say!("\nCard time (simulated clock; the tool's own figures above are {tool}):");
    say!(
        "  {:<12}{:>12}{:>10}{:>14}{:>12}{:>12}{:>12}{:>8}{:>13}",
        "into",
        "goodput",
        "of limit",
        "messages/s",
        "p50",
        "p99",
        "resent",
        "drops",
        "host-limited"
    );
    for f in flows(r, mtu, reads) {
        say!(
            "  {:<12}{:>12}{:>10}{:>14}{:>12}{:>12}{:>12}{:>8}{:>13}",
            format!("metaroce{}", f.receiver),
            format!("{:.2} Gb/s", f.goodput_gbps),
            f.of_wire_limit.map_or_else(dash, |p| format!("{p:.1} %")),
            format!("{:.0}", f.messages_per_s),
            f.p50_ns.map_or_else(dash, time),
            f.p99_ns.map_or_else(dash, time),
            f.retransmits,
            f.drops,
            format!("{:.0} %", f.host_limited),
        );
    }
    for c in r.cards.iter().filter(|c| frames_only(r, c.card)) {
        let n = |name| counter(r, c.card, name);
        let drops = c.counters.iter().filter(|(n, _)| n.starts_with("rx_drop"));
        say!(
            "  metaroce{:<4}{} frames in, {} out, {} dropped (a card without transport knows nothing of messages)",
            c.card,
            n("rx_frames"),
            n("tx_frames"),
            drops.map(|(_, v)| v).sum::<u64>()
        );
    }
    let total: u64 = r.cards.iter().map(|c| c.cycles).sum();
    say!(
        "  {:.3} ms of card time; {} cycles of {} cards at {:.0} k cycles per wall second and card",
        r.card_time_ns as f64 / 1e6,
        total,
        r.cards.len(),
        total as f64 / r.cards.len() as f64 / r.busy_s.max(1e-9) / 1000.0
    );
}

#[derive(Serialize)]
struct Result_<'a> {
    command: &'a [String],
    mtu: Option<u32>,
    flows: Vec<Flow>,
    report: &'a Report,
}

/// Writes result.json into the run's folder.
pub fn write_json(dir: &Path, r: &Report, cmd: &[String], mtu: Option<u32>) -> Result<()> {
    write(
        dir,
        &Result_ {
            command: cmd,
            mtu,
            flows: flows(r, mtu, cmd.first().is_some_and(|c| pulls(c))),
            report: r,
        },
    )
}

/// Writes any result.
pub fn write(dir: &Path, result: &impl Serialize) -> Result<()> {
    let p = dir.join("result.json");
    let text = serde_json::to_string_pretty(result)?;
    fs::write(&p, text + "\n").map_err(|e| cant("write", &p, &e))
}
