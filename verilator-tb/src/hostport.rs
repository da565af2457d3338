//! Model of the bus between a card and its host: read latency with reordered completions, bandwidth,
//! posted writes. Works on the card's own signals, cycle by cycle.

use crate::{
    ffi::{In, Out},
    memory::{Memory, Ticket},
    rng::Rng,
    stamps::Latencies,
    window::{Window, Windows},
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Host port parameters.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct HostPortConfig {
    /// Time from a read request to its first data, ns.
    pub read_ns: u64,
    /// Completions are delayed by a further 0..=`spread_ns`, so that they come out of order.
    pub spread_ns: u64,
    /// Limit of each direction, Mb/s; 0 = one bus word per cycle.
    pub mbps: u64,
    /// Cycles in which the bus takes no request though it could, in parts per million of each kind.
    #[serde(default)]
    pub stall_ppm: u32,
}

impl Default for HostPortConfig {
    fn default() -> Self {
        HostPortConfig {
            read_ns: 600,
            spread_ns: 150,
            mbps: 0,
            stall_ppm: 0,
        }
    }
}

struct Pending {
    ready_ps: u64,
    tag: u8,
    addr: u64,
    len: usize,
    ticket: Ticket,
}

struct Sending {
    tag: u8,
    /// Lane of the first byte, and data; None = fault.
    data: Option<Vec<u8>>,
    lane: usize,
    at: usize,
}

/// Totals for the tables.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct HostPortStats {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    /// Payload bytes written (requests with a stamp).
    pub payload_bytes: u64,
    pub first_payload_ps: u64,
    pub last_payload_ps: u64,
    /// Messages of which something was written.
    pub messages: u64,
    /// The transfer of the queue pair that got most payload.
    pub busiest: Window,
    /// Received frames with a stamp that are UD datagrams, and the bytes of GRH area that are written with them: the IP header.
    pub datagrams: u64,
    pub grh_bytes: u64,
    /// Bytes that a full packet of the run takes on the wire beside its payload.
    pub overhead: u64,
    /// Time between the first and the last payload write in which the cards had nothing to do.
    pub quiet_ps: u64,
    /// Most reads in flight.
    pub max_reads: usize,
}

pub struct HostPort {
    cfg: HostPortConfig,
    /// Largest write and read request: as the administrator has set PCIE_LIMITS.
    limits: (usize, usize),
    rng: Rng,
    pending: VecDeque<Pending>,
    sending: Option<Sending>,
    wr: Vec<u8>,
    read_budget_ps: u64,
    write_budget_ps: u64,
    pub stats: HostPortStats,
    latency: Latencies,
    windows: Windows,
    /// Silence since the last payload write, ps.
    silent_ps: u64,
}

/// Bit field of a little-endian word array.
pub fn bits(w: &[u32], lo: usize, n: usize) -> u64 {
    let mut v = 0u64;
    for i in 0..n {
        let b = lo + i;
        v |= (((w[b / 32] >> (b % 32)) & 1) as u64) << i;
    }
    v
}

fn words_to_bytes(w: &[u32; 16]) -> [u8; 64] {
    let mut b = [0u8; 64];
    for (i, x) in w.iter().enumerate() {
        b[4 * i..4 * i + 4].copy_from_slice(&x.to_le_bytes());
    }
    b
}

impl HostPort {
    /// Changes latency and bandwidth, for requests from now on.
    pub fn set_config(&mut self, cfg: HostPortConfig) {
        self.cfg = cfg;
    }

    pub fn new(cfg: HostPortConfig, seed: u64) -> HostPort {
        HostPort {
            cfg,
            // Power-up values.
            limits: (256, 512),
            rng: Rng::new(seed),
            pending: VecDeque::new(),
            sending: None,
            wr: Vec::with_capacity(4096),
            read_budget_ps: 0,
            write_budget_ps: 0,
            stats: HostPortStats::default(),
            latency: Latencies::default(),
            windows: Windows::default(),
            silent_ps: 0,
        }
    }

    /// PCIE_LIMITS was written.
    pub fn set_limits(&mut self, v: u32) {
        self.limits = (128 << (v & 7).min(2), 128 << (v >> 4 & 7).min(5));
    }

    /// Silence of the whole card that was jumped over.
    pub fn silence(&mut self, ps: u64) {
        self.silent_ps += ps;
    }

    /// True when no transaction is under way.
    pub fn idle(&self) -> bool {
        self.pending.is_empty() && self.sending.is_none() && self.wr.is_empty()
    }

    /// ns from doorbell to remote memory, one per message with payload.
    pub fn take_latencies(&mut self) -> Vec<u32> {
        self.latency.take()
    }

    /// A frame with a stamp comes in for a queue pair, `grh` bytes of whose GRH area it will fill; its bits are on the wire from `first_ps` to `last_ps`.
    pub fn frame(&mut self, qpn: u32, stamp: u64, grh: Option<u64>, first_ps: u64, last_ps: u64) {
        let mut now = self.stats;
        if now.payload_bytes > 0 {
            // The next payload write adds it, and it was before.
            now.quiet_ps += self.silent_ps;
        }
        self.windows.frame(qpn, stamp, first_ps, last_ps, &now);
        if let Some(bytes) = grh {
            self.stats.datagrams += 1;
            self.stats.grh_bytes += bytes;
        }
    }

    fn cost_ps(&self, bytes: usize) -> u64 {
        if self.cfg.mbps == 0 {
            0
        } else {
            bytes as u64 * 8 * 1_000_000 / self.cfg.mbps
        }
    }

    /// Drives the card's inputs for this cycle.
    pub fn drive(&mut self, now_ps: u64, i: &mut In, mem: &mut dyn Memory) {
        let stall = self.cfg.stall_ppm;
        let mut go = |yes: bool| (yes && !self.rng.chance(stall)) as u8;
        i.rd_ready = go(self.pending.len() < 256);
        i.wr_ready = go(self.write_budget_ps <= now_ps);
        i.hrd_valid = 0;
        if self.sending.is_none() {
            // The earliest completion whose time has come; random extra delays reorder them.
            let next = self
                .pending
                .iter()
                .enumerate()
                .filter(|(_, p)| p.ready_ps <= now_ps)
                .min_by_key(|(_, p)| p.ready_ps)
                .map(|(k, _)| k);
            if let Some(k) = next {
                let p = self.pending.remove(k).expect("index from the same queue");
                let data = mem.finish_read(p.ticket);
                self.sending = Some(Sending {
                    tag: p.tag,
                    data,
                    lane: (p.addr % 64) as usize,
                    at: 0,
                });
                debug_assert!(p.len > 0);
            }
        }
        if self.read_budget_ps > now_ps {
            return;
        }
        let Some(s) = &mut self.sending else { return };
        let mut word = [0u8; 64];
        let (last, err, n) = match &s.data {
            None => (true, true, 0),
            Some(d) => {
                let lane = if s.at == 0 { s.lane } else { 0 };
                let n = (64 - lane).min(d.len() - s.at);
                word[lane..lane + n].copy_from_slice(&d[s.at..s.at + n]);
                s.at += n;
                (s.at == d.len(), false, n)
            }
        };
        for (k, c) in word.chunks_exact(4).enumerate() {
            i.hrd_data[k] = u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
        }
        i.hrd_meta = s.tag as u32 | (last as u32) << 8 | (err as u32) << 9;
        i.hrd_valid = 1;
        if last {
            self.sending = None;
        }
        self.read_budget_ps =
            self.read_budget_ps.max(now_ps.saturating_sub(100_000)) + self.cost_ps(n);
    }

    /// Takes what the card put out in this cycle (with the ready inputs of `i`).
    pub fn sample(&mut self, now_ps: u64, i: &In, o: &Out, mem: &mut dyn Memory) {
        if o.rd_valid != 0 && i.rd_ready != 0 {
            let pasid = bits(&o.rd_data, 0, 12) as u16;
            let addr = bits(&o.rd_data, 12, 64);
            let len = bits(&o.rd_data, 76, 13) as usize;
            let tag = bits(&o.rd_data, 89, 8) as u8;
            assert!(
                len > 0 && len <= 4096 && (addr % 4096) as usize + len <= 4096,
                "card bug: read of {len} bytes at {addr:#x} (tag {tag:#x}) crosses 4 KiB"
            );
            assert!(
                len <= self.limits.1,
                "card bug: read of {len} bytes at {addr:#x} (tag {tag:#x}), the limit is {}",
                self.limits.1
            );
            self.stats.reads += 1;
            self.stats.read_bytes += len as u64;
            let ticket = mem.start_read(pasid, addr, len);
            let extra = if self.cfg.spread_ns == 0 {
                0
            } else {
                self.rng.below(self.cfg.spread_ns + 1)
            };
            let ready_ps = now_ps + (self.cfg.read_ns + extra) * 1000;
            self.pending.push_back(Pending {
                ready_ps,
                tag,
                addr,
                len,
                ticket,
            });
            self.stats.max_reads = self.stats.max_reads.max(self.pending.len());
        }
        if o.wr_valid != 0 && i.wr_ready != 0 {
            let m = &o.wr_meta;
            let (pasid, addr, len) = (
                bits(m, 0, 12) as u16,
                bits(m, 12, 64),
                bits(m, 76, 13) as usize,
            );
            let (sop, eop, stamp) = (bits(m, 89, 1) == 1, bits(m, 90, 1) == 1, bits(m, 91, 48));
            assert_eq!(
                sop,
                self.wr.is_empty(),
                "card bug: write framing at {addr:#x}"
            );
            assert!(
                len > 0 && (addr % 4096) as usize + len <= 4096,
                "card bug: write of {len} bytes at {addr:#x} crosses 4 KiB"
            );
            assert!(
                len <= self.limits.0,
                "card bug: write of {len} bytes at {addr:#x}, the limit is {}",
                self.limits.0
            );
            let word = words_to_bytes(&o.wr_data);
            let lane = if sop { (addr % 64) as usize } else { 0 };
            let n = (64 - lane).min(len - self.wr.len());
            self.wr.extend_from_slice(&word[lane..lane + n]);
            assert_eq!(
                eop,
                self.wr.len() == len,
                "card bug: write of {len} bytes at {addr:#x} ends at {}",
                self.wr.len()
            );
            self.write_budget_ps =
                self.write_budget_ps.max(now_ps.saturating_sub(100_000)) + self.cost_ps(n);
            if eop {
                self.stats.writes += 1;
                self.stats.write_bytes += len as u64;
                if stamp != 0 {
                    self.stats.messages += u64::from(self.latency.add(stamp, now_ps / 1000));
                    if self.stats.payload_bytes == 0 {
                        self.stats.first_payload_ps = now_ps;
                    } else {
                        self.stats.quiet_ps += self.silent_ps;
                    }
                    self.silent_ps = 0;
                    self.stats.payload_bytes += len as u64;
                    self.stats.last_payload_ps = now_ps;
                    self.windows.payload(stamp, len as u64, &mut self.stats);
                }
                mem.write(pasid, addr, &self.wr);
                self.wr.clear();
            }
        }
        if o.msi_valid != 0 {
            mem.interrupt(o.msi_pasid as u16);
        }
    }
}
