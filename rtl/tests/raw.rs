//! Raw packet queues: rust-hdl = Verilator for each block and for the card `mini`, under doorbells, frames and completions that make them work. What they do
//! is checked on the Verilated card (`cargo test --release -p metaroce-tb --test raw`).

use metaroce_hdl_spec::config::MINI;
use metaroce_hdl_spec::regs::{admin, doorbell, COUNTERS};
use metaroce_rtl::diff::{Diff, Rng, Stim};
use metaroce_rtl::inputs;
use metaroce_rtl::mini::Mini;
use metaroce_rtl::prims::packed::bits_from_bytes;
use metaroce_rtl::raw::{RawDoors, RawMsg, RawRx, RawTx};
use metaroce_rtl::types::{HostRd, RxPkt, WireMeta};
use num_bigint::BigUint;
use rust_hdl::prelude::*;
use rx::*;
use std::collections::VecDeque;

mod rx;

fn ring(rng: &mut Rng) -> u64 {
    let log = [2, 2, 3, 3, 4, 0, 11][rng.below(7) as usize];
    let on = (rng.below(5) != 0) as u64;
    log | on << 5 | (0x1234_5000 + rng.below(1 << 20) * 4096)
}

fn msg(pasid: u64, ring: bool, data: u64) -> BigUint {
    let m = RawMsg {
        pasid: pasid.into(),
        ring,
        data: data.into(),
    };
    let m: Bits<77> = m.into();
    m.into()
}

/// A host that answers reads in any order, words of several of them in turn.
#[derive(Default)]
struct Answers {
    open: Vec<(u64, usize, u64)>,
    rd_r: bool,
}

impl Answers {
    /// With the outputs of the cycle before.
    fn step(&mut self, s: &mut Stim, valid: &str, data: &str, meta: &str) {
        if self.rd_r && s.out_u64("rd_valid") != 0 {
            let v = s.out("rd_data");
            let d: HostRd = bits_from_bytes::<97>(&v.to_bytes_le()).into();
            let lane = d.addr.to_u64() % 64;
            let words = (lane + d.len.to_u64()).div_ceil(64) as usize;
            let at = s.cycle as u64 + s.rng.below(60);
            self.open.push((d.tag.to_u64(), words, at));
        }
        self.rd_r = s.rng.p(0.7);
        s.set("rd_ready", self.rd_r as u8);
        let due: Vec<usize> = (0..self.open.len())
            .filter(|k| self.open[*k].2 <= s.cycle as u64)
            .collect();
        let go = !due.is_empty() && s.rng.p(0.8);
        s.set(valid, go as u8);
        if go {
            let k = due[s.rng.below(due.len() as u64) as usize];
            let err = s.rng.p(0.01);
            self.open[k].1 -= 1;
            let (tag, left, _) = self.open[k];
            let last = err || left == 0;
            if last {
                self.open.swap_remove(k);
            }
            s.set(meta, tag | (last as u64) << 8 | (err as u64) << 9);
            let d: Vec<u32> = (0..16).map(|_| s.rng.next() as u32).collect();
            s.set(data, BigUint::new(d));
        }
    }
}

#[test]
fn doors() {
    Diff::new(
        "raw_doors",
        RawDoors::<6>::default,
        inputs!(
            rst,
            mmio_wr_valid,
            mmio_wr_addr,
            mmio_wr_len,
            mmio_wr_data,
            tx_ready,
            rx_ready
        ),
    )
    .cycles(2000)
    .pick("mmio_wr_len", &[8, 8, 8, 4, 64])
    .stim(|s| {
        let off = [0x40u32, 0x48, 0x50, 0x58, 0x20, 0x44, 0][s.rng.below(7) as usize];
        let page = [0, 1, 2, 63, 64, 4095][s.rng.below(6) as usize];
        s.set("mmio_wr_addr", page << 12 | off);
    })
    .hold(
        "mmio_wr_valid",
        "mmio_wr_ready",
        &["mmio_wr_addr", "mmio_wr_len", "mmio_wr_data"],
    )
    .run();
}

#[test]
fn tx() {
    for (name, log) in [("raw_tx_128", 7), ("raw_tx_512", 9), ("raw_tx_4096", 12)] {
        let mut host = Answers::default();
        let mut m = None;
        let mut f_r = false;
        let mut free: VecDeque<u64> = VecDeque::new();
        Diff::new(
            name,
            RawTx::<6, 8, 3, 8>::default,
            inputs!(
                rst, mrrs_log, msg_valid, msg_data, rd_ready, cpl_valid, cpl_data, cpl_meta,
                wr_ready, f_ready, buf_raddr, free_valid, free_words
            ),
        )
        .cycles(4000)
        .max("buf_raddr", 255)
        .stim(move |s| {
            let rst = s.cycle < 2;
            s.set("rst", rst as u8);
            s.set("mrrs_log", log as u64);
            host.step(s, "cpl_valid", "cpl_data", "cpl_meta");
            if m.is_some() && s.out_u64("msg_ready") != 0 {
                m = None;
            }
            if m.is_none() && !rst && s.rng.p(0.3) {
                let pasid = 1 + s.rng.below(3);
                let len = [
                    62 + 4 * s.rng.below(30),
                    4206,
                    54 + 4 * s.rng.below(1000),
                    s.rng.below(5000),
                ][s.rng.below(4) as usize];
                let index = s.rng.below(1 << 16);
                m = Some(if s.rng.p(0.1) || s.cycle < 200 {
                    msg(pasid, true, ring(s.rng))
                } else {
                    msg(pasid, false, index | len << 16)
                });
            }
            s.set("msg_valid", m.is_some() as u8);
            if let Some(m) = &m {
                s.set("msg_data", m.clone());
            }
            // the stream of the egress frees the words of each frame
            if f_r && s.out_u64("f_valid") != 0 {
                let meta = s.out("f_meta");
                free.push_back(low(&(meta >> 20u8)) & 0xFFF);
            }
            f_r = s.rng.p(0.2);
            s.set("f_ready", f_r as u8);
            let go = s.rng.p(0.2) && !free.is_empty();
            s.set("free_valid", go as u8);
            if go {
                s.set("free_words", free.pop_front().unwrap());
            }
        })
        .run();
    }
}

fn low(v: &BigUint) -> u64 {
    v.to_u64_digits().first().copied().unwrap_or(0)
}

#[test]
fn rx() {
    for (name, log) in [("raw_rx_128", 7), ("raw_rx_256", 8), ("raw_rx_512", 9)] {
        let mut m = None;
        let (mut slot, mut word) = (0u64, 0u64);
        let mut req: VecDeque<BigUint> = VecDeque::new();
        let mut rsp: VecDeque<BigUint> = VecDeque::new();
        let (mut req_v, mut rsp_v) = (false, false);
        Diff::new(
            name,
            RawRx::<6>::default,
            inputs!(
                rst, mps_log, msg_valid, msg_data, at_valid, at_slot, at_word, req_valid, req_data,
                rsp_valid, rsp_data, buf_rdata, wr_ready
            ),
        )
        .cycles(5000)
        .p("wr_ready", 0.8)
        .stim(move |s| {
            let rst = s.cycle < 2;
            s.set("rst", rst as u8);
            s.set("mps_log", log as u64);
            if m.is_some() && s.out_u64("msg_ready") != 0 {
                m = None;
            }
            if m.is_none() && !rst && s.rng.p(0.1) {
                let pasid = 1 + s.rng.below(3);
                m = Some(if s.rng.p(0.1) || s.cycle < 200 {
                    msg(pasid, true, ring(s.rng))
                } else {
                    // near what has been written
                    msg(pasid, false, s.rng.below(24) | s.rng.below(2) << 16)
                });
            }
            s.set("msg_valid", m.is_some() as u8);
            if let Some(m) = &m {
                s.set("msg_data", m.clone());
            }
            if req_v && s.out_u64("req_ready") != 0 {
                req.pop_front();
                req_v = false;
            }
            if rsp_v && s.out_u64("rsp_ready") != 0 {
                rsp.pop_front();
                rsp_v = false;
            }
            let new = s.rng.p(0.1) && req.len() + rsp.len() < 8;
            s.set("at_valid", new as u8);
            s.set("at_slot", slot);
            s.set("at_word", word);
            if new {
                let len = [0, s.rng.below(200), s.rng.below(4097)][s.rng.below(3) as usize];
                let hdr = 54 + 4 * s.rng.below(12);
                let p = RxPkt {
                    qpn: (s.rng.below(5) << 18 | s.rng.below(1 << 18)).into(),
                    ce: s.rng.p(0.3),
                    src: (word * 64 + hdr).into(),
                    len: len.into(),
                    slot: slot.into(),
                    stamp: s.rng.below(1 << 40).into(),
                    ..Default::default()
                };
                let raw: Bits<{ <RxPkt as Synth>::BITS }> = p.into();
                if s.rng.p(0.5) {
                    req.push_back(raw.into());
                } else {
                    rsp.push_back(raw.into());
                }
                slot = (slot + 1 + s.rng.below(2)) % 128;
                word = (word + (hdr + len + 7).div_ceil(64)) % 4096;
            } else {
                // a packet comes later than its place
                req_v = !req.is_empty();
                rsp_v = !rsp.is_empty();
            }
            s.set("req_valid", req_v as u8);
            if let Some(p) = req.front() {
                s.set("req_data", p.clone());
            }
            s.set("rsp_valid", rsp_v as u8);
            if let Some(p) = rsp.front() {
                s.set("rsp_data", p.clone());
            }
        })
        .run();
    }
}

/// The whole card: rings of some processes, frames both ways, good and bad ones.
fn card() {
    let it = items(9, 200, 64, 64);
    let mut rng = Rng(9);
    let mut wire: VecDeque<(Vec<u8>, WireMeta)> = VecDeque::new();
    for x in &it {
        let n = x.bytes.len().div_ceil(64);
        for k in 0..n {
            let mut b = x.bytes[k * 64..x.bytes.len().min((k + 1) * 64)].to_vec();
            let empty = 64 - b.len() as u64;
            b.resize_with(64, || rng.next() as u8);
            let eop = x.eop && k + 1 == n;
            let m = WireMeta {
                empty: if eop { empty } else { 0 }.into(),
                sop: k == 0,
                eop,
                stamp: 0.into(),
            };
            wire.push_back((b, m));
        }
    }
    let mac = low(&BigUint::from_bytes_le(&MAC));
    let mut mmio: VecDeque<(u64, u64, u64)> = VecDeque::from([
        (admin::MAC_LO as u64, 4, mac & 0xFFFF_FFFF),
        (admin::MAC_HI as u64, 4, mac >> 32),
        (admin::LINK as u64, 4, 1),
    ]);
    for p in 0..32 {
        let mut on = |off: u32| mmio.push_back((2 * p << 12 | off as u64, 8, 3 | 1 << 5 | p << 20));
        on(doorbell::RAW_RX_RING);
        if p < 4 {
            on(doorbell::RAW_TX_RING);
        }
    }
    let mut host = Answers::default();
    let mut busy = false;
    Diff::new(
        "raw_mini",
        || Mini::new(&MINI),
        inputs!(
            rst,
            now,
            rx_valid,
            rx_data,
            rx_meta,
            tx_ready,
            rd_ready,
            hrd_valid,
            hrd_data,
            hrd_meta,
            wr_ready,
            mmio_wr_valid,
            mmio_wr_addr,
            mmio_wr_len,
            mmio_wr_data,
            mmio_rd_valid,
            mmio_rd_addr
        ),
    )
    .cycles(600)
    .p("tx_ready", 0.8)
    .p("wr_ready", 0.9)
    .p("mmio_rd_valid", 0.1)
    .stim(move |s| {
        let rst = s.cycle < 2;
        s.set("rst", rst as u8);
        let a = admin::COUNTERS as u64 + 4 * s.rng.below(2 * COUNTERS.len() as u64);
        s.set("mmio_rd_addr", a);
        host.step(s, "hrd_valid", "hrd_data", "hrd_meta");
        if busy && s.out_u64("mmio_wr_ready") != 0 {
            mmio.pop_front();
            busy = false;
        }
        if mmio.is_empty() && s.rng.p(0.1) {
            let (p, index) = (2 * s.rng.below(4), s.rng.below(1 << 16));
            mmio.push_back(match s.rng.below(4) {
                0 => (p << 12 | 0x58, 8, s.rng.below(9) | s.rng.below(2) << 16),
                _ => {
                    let len = [62, 62 + 4 * s.rng.below(40), 54 + 4 * s.rng.below(1040)];
                    let len = len[s.rng.below(3) as usize];
                    (p << 12 | 0x50, 8, index | len << 16)
                }
            });
        }
        busy |= !mmio.is_empty() && !rst;
        s.set("mmio_wr_valid", busy as u8);
        if let Some((a, l, d)) = mmio.front() {
            s.set("mmio_wr_addr", *a);
            s.set("mmio_wr_len", *l);
            s.set("mmio_wr_data", *d);
        }
        let go = s.cycle > 100 && !s.rng.p(0.3) && !wire.is_empty();
        s.set("rx_valid", go as u8);
        if go {
            let (d, m) = wire.pop_front().unwrap();
            s.set("rx_data", BigUint::from_bytes_le(&d));
            let m: Bits<56> = m.into();
            s.set("rx_meta", m.to_u64());
        }
    })
    .run();
}

#[test]
fn whole_card() {
    // room for a whole card on the stack
    std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(card)
        .unwrap()
        .join()
        .unwrap();
}
