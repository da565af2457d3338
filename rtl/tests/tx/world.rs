//! Models of everything round the path, and the checks.
use super::model::*;
use metaroce_rtl::diff::Stim;
use metaroce_rtl::layouts::UdAv;
use metaroce_rtl::prims::packed::bits_from_bytes;
use metaroce_rtl::sequencer::GidEntry;
use metaroce_rtl::types::*;
use num_bigint::BigUint;
use rust_hdl::prelude::*;
use std::collections::{HashMap, VecDeque};

/// Models of everything round the path; `step` is called once a cycle with the outputs of the cycle before.
pub struct World {
    pub plan: Plan,
    pub lanes: u64,
    pub log_tags: u64,
    pub seed: u64,
    /// Bytes that are not `byte_at`.
    pub mem: HashMap<(u64, u64), u8>,
    pub mrs: Vec<Mr>,
    pub conns: Vec<Conn>,
    pub cmds: VecDeque<TxCmd>,
    pub want: VecDeque<Want>,
    pub acks: VecDeque<(AckCmd, Vec<u8>)>,
    pub ack_sent: VecDeque<Vec<u8>>,
    pub dones: VecDeque<TxDone>,
    pub fences: usize,
    pub reads: Vec<Rd>,
    pub fills: Vec<Rd>,
    pub tags: HashMap<u64, ()>,
    pub cur: Vec<u8>,
    pub open: bool,
    pub now: u64,
    // inputs of the cycle before
    pub cmd_v: bool,
    pub ack_v: bool,
    /// Address vectors of the datagrams among the commands, in their order.
    pub uas: VecDeque<UdAv>,
    pub ua_v: bool,
    pub rd_r: bool,
    pub xrd_r: bool,
    pub tx_r: bool,
    pub done_r: bool,
    // tallies
    pub frames: usize,
    pub words: usize,
    pub bytes: u64,
    pub ev: [u64; 5],
    pub kinds: [u64; 3],
    pub gaps: usize,
    pub first_word: Option<u64>,
    pub last_word: u64,
    pub desc_at: Option<u64>,
    pub latency: Vec<u64>,
    pub misses: usize,
    pub idle_end: bool,
}

impl World {
    /// Fences and faults at the head of the line of what is expected make no frame.
    pub fn settle(&mut self) {
        loop {
            match self.want.front() {
                Some(Want::Fault(d)) => {
                    self.dones.push_back(*d);
                    self.want.pop_front();
                }
                Some(Want::Fence) => {
                    self.fences += 1;
                    self.want.pop_front();
                }
                _ => break,
            }
        }
    }

    pub fn frame(&mut self, b: Vec<u8>, stamp: u64) {
        self.frames += 1;
        self.bytes += b.len() as u64;
        if stamp == 0 {
            let w = self
                .ack_sent
                .pop_front()
                .expect("an acknowledgement that nobody asked for");
            assert_eq!(hex(&b), hex(&w), "acknowledgement, cycle {}", self.now);
            return;
        }
        self.settle();
        match self.want.pop_front() {
            Some(Want::Frame {
                bytes,
                stamp: s,
                done,
            }) => {
                assert_eq!(
                    hex(&b),
                    hex(&bytes),
                    "frame {} cycle {}",
                    self.frames,
                    self.now
                );
                assert_eq!(stamp, s);
                self.dones.extend(done);
                self.settle();
            }
            _ => panic!("a frame too many in cycle {}: {}", self.now, hex(&b)),
        }
    }

    /// First look at what the path did in the cycle before, then new inputs.
    pub fn step(&mut self, s: &mut Stim) {
        self.now += 1;
        let plan = self.plan;
        let rst = s.cycle < 2;
        s.set("rst", rst as u8);
        let out = |s: &Stim, n: &str| s.out_u64(n) != 0;
        // commands and acknowledgements
        if self.cmd_v && out(s, "cmd_ready") {
            self.cmds.pop_front();
            self.cmd_v = false;
        }
        if self.ack_v && out(s, "ack_ready") {
            let (_, b) = self.acks.pop_front().unwrap();
            self.ack_sent.push_back(b);
            self.ack_v = false;
        }
        // reads
        if self.rd_r && out(s, "rd_valid") {
            let rd: HostRd = take(&s.out("rd_data"));
            self.read(s, rd, false);
        }
        if self.xrd_r && out(s, "xrd_valid") {
            let rd: HostRd = take(&s.out("xrd_data"));
            self.read(s, rd, true);
        }
        // wire
        let tv = out(s, "tx_valid");
        if self.tx_r {
            if self.open {
                assert!(tv, "a gap inside a frame in cycle {}", self.now);
            }
            if tv {
                let m: WireMeta = take(&s.out("tx_meta"));
                let w = s.out("tx_data");
                let bytes: Vec<u8> = (0..self.lanes)
                    .map(|i| (0..8).fold(0, |a, k| a | (w.bit(8 * i + k) as u8) << k))
                    .collect();
                assert_eq!(m.sop, !self.open);
                if m.sop {
                    self.cur.clear();
                    if let Some(t) = self.desc_at.take() {
                        self.latency.push(self.now - 1 - t);
                    }
                }
                let used = self.lanes as usize - m.empty.index();
                assert!(m.eop || used == self.lanes as usize);
                self.cur.extend(&bytes[..used]);
                assert!(
                    bytes[used..].iter().all(|x| *x == 0),
                    "unused bytes are zero"
                );
                self.open = !m.eop;
                self.words += 1;
                self.first_word.get_or_insert(self.now);
                self.last_word = self.now;
                if m.eop {
                    let f = std::mem::take(&mut self.cur);
                    self.frame(f, m.stamp.to_u64());
                }
            } else {
                self.gaps += 1;
            }
        }
        if out(s, "desc_v") && out(s, "desc_r") && self.plan.len.is_some() {
            self.desc_at.get_or_insert(self.now - 1);
        }
        if self.done_r && out(s, "done_valid") {
            let d: TxDone = take(&s.out("done_data"));
            self.settle();
            // reported when the frame is accepted, which is before its last word
            if let Some(i) = self.dones.front() {
                assert_eq!(*i, d);
                self.dones.pop_front();
            } else {
                let i = self
                    .want
                    .iter()
                    .position(|w| matches!(w, Want::Frame { done: Some(_), .. } | Want::Fault(_)));
                let i = i.expect("a report that nobody waits for");
                let first = match &mut self.want[i] {
                    Want::Frame { done, .. } => done.take(),
                    Want::Fault(f) => Some(*f),
                    Want::Fence => None,
                };
                if matches!(self.want[i], Want::Fault(_)) {
                    self.want.remove(i);
                }
                assert_eq!(first, Some(d));
            }
        }
        if out(s, "fence_done") {
            assert!(self.fences > 0 || self.want.iter().any(|w| matches!(w, Want::Fence)));
            self.settle();
            if self.fences > 0 {
                self.fences -= 1;
            } else {
                let i = self
                    .want
                    .iter()
                    .position(|w| matches!(w, Want::Fence))
                    .unwrap();
                self.want.remove(i);
            }
        }
        for (i, n) in ["ev_frame", "ev_ack", "ev_nak", "ev_rnr"]
            .iter()
            .enumerate()
        {
            self.ev[i] += out(s, n) as u64;
        }
        self.ev[4] += s.out_u64("ev_bytes");
        self.misses += out(s, "ev_miss") as usize;
        self.idle_end = out(s, "idle");

        // new inputs
        let late = self.now < 4;
        self.cmd_v |= !late && !self.cmds.is_empty() && s.rng.p(plan.p_cmd);
        self.ack_v |= !late && !self.acks.is_empty() && s.rng.p(plan.p_ack);
        s.set("cmd_valid", self.cmd_v as u8);
        let c = self.cmds.front().copied().unwrap_or_default();
        s.set("cmd_data", pack::<{ TxCmd::BITS }>(c.into()));
        s.set("ack_valid", self.ack_v as u8);
        let a = self.acks.front().map(|x| x.0).unwrap_or_default();
        s.set("ack_data", pack::<{ AckCmd::BITS }>(a.into()));
        let a = s.out_u64("av_raddr") as usize % self.conns.len();
        s.set("av_rdata", pack::<512>(self.conns[a].av.into()));
        // address vectors of datagrams; their source address is that of connection `sgid_index`
        if self.ua_v && out(s, "ua_ready") {
            self.uas.pop_front();
        }
        self.ua_v = !self.uas.is_empty();
        s.set("ua_valid", self.ua_v as u8);
        let u = self.uas.front().copied().unwrap_or_default();
        s.set(
            "ua_data",
            pack::<309>(Bits::<512>::from(u).get_bits::<309>(0)),
        );
        let g = s.out_u64("gid_raddr") as usize % self.conns.len();
        let av = self.conns[g].av;
        let gid = GidEntry {
            mac: av.smac,
            gid: av.sip,
            valid: true,
            ip6: av.ip6,
            ..Default::default()
        };
        s.set("gid_rdata", pack::<{ GidEntry::BITS }>(gid.into()));
        let m = s.out_u64("mrm_raddr") as usize % self.mrs.len();
        s.set("mrm_rdata", pack::<128>(self.mrs[m].entry().into()));
        s.set("limit_log", plan.limit);
        let fl = plan.flush && s.rng.p(0.003);
        s.set("flush", fl as u8);
        self.rd_r = s.rng.p(plan.p_ready);
        self.xrd_r = s.rng.p(plan.p_ready);
        self.tx_r = s.rng.p(plan.p_ready);
        self.done_r = s.rng.p(plan.p_ready);
        s.set("rd_ready", self.rd_r as u8);
        s.set("xrd_ready", self.xrd_r as u8);
        s.set("tx_ready", self.tx_r as u8);
        s.set("done_ready", self.done_r as u8);
        self.complete(s);
    }

    pub fn read(&mut self, s: &mut Stim, rd: HostRd, list: bool) {
        let (addr, len, pasid) = (rd.addr.to_u64(), rd.len.to_u64(), rd.pasid.to_u64());
        assert!(len > 0 && len <= 1 << self.plan.limit);
        assert_eq!(addr >> 12, (addr + len - 1) >> 12, "crosses 4 KiB");
        let at = self.now + self.plan.lat.0 + s.rng.below(self.plan.lat.1 + 1);
        assert!(
            self.tags.insert(rd.tag.to_u64(), ()).is_none(),
            "tag in use"
        );
        let r = |bad| Rd {
            at,
            rd,
            pos: 0,
            bad,
        };
        if list {
            assert!((0xA0..0xA8).contains(&rd.tag.to_u64()) && len == 64 && addr % 64 == 0);
            let m = self
                .mrs
                .iter()
                .find(|m| (m.list..m.list + 0x1_0000).contains(&addr))
                .expect("a list");
            assert_eq!(m.pasid, pasid);
            let bad = m.no_list;
            self.fills.push(r(bad));
        } else {
            assert!(rd.tag.to_u64() < 1 << self.log_tags);
            let m = self.mrs.iter().find(|m| {
                m.pasid == pasid
                    && m.pages
                        .iter()
                        .any(|p| (*p..*p + (1 << m.shift)).contains(&addr))
            });
            let bad = m.expect("a page of an MR").no_page;
            self.reads.push(r(bad));
        }
    }

    pub fn complete(&mut self, s: &mut Stim) {
        s.set("cpl_valid", 0u8);
        s.set("fill_valid", 0u8);
        let ready: Vec<usize> = (0..self.reads.len())
            .filter(|i| self.reads[*i].at <= self.now)
            .collect();
        if !ready.is_empty() && s.rng.p(self.plan.p_cpl) {
            let i = if self.plan.in_order {
                ready[0]
            } else {
                ready[s.rng.below(ready.len() as u64) as usize]
            };
            let r = &mut self.reads[i];
            let (addr, len, pasid) = (r.rd.addr.to_u64(), r.rd.len.to_u64(), r.rd.pasid.to_u64());
            let word = addr / self.lanes * self.lanes + r.pos * self.lanes;
            let last = word + self.lanes >= addr + len || r.bad;
            let bytes: Vec<u8> = (0..self.lanes)
                .map(|k| match word + k {
                    a if (addr..addr + len).contains(&a) => self
                        .mem
                        .get(&(pasid, a))
                        .copied()
                        .unwrap_or_else(|| byte_at(pasid, a)),
                    _ => s.rng.next() as u8,
                })
                .collect();
            r.pos += 1;
            let m = HostRdMeta {
                tag: r.rd.tag,
                last,
                err: r.bad,
            };
            s.set("cpl_valid", 1u8);
            s.set("cpl_data", BigUint::from_bytes_le(&bytes));
            s.set("cpl_meta", pack::<10>(m.into()));
            if last {
                self.tags.remove(&m.tag.to_u64());
                self.reads.remove(i);
            }
        }
        let ready: Vec<usize> = (0..self.fills.len())
            .filter(|i| self.fills[*i].at <= self.now)
            .collect();
        if !ready.is_empty() && s.rng.p(0.5) {
            let i = ready[s.rng.below(ready.len() as u64) as usize];
            let r = self.fills.remove(i);
            let addr = r.rd.addr.to_u64();
            let m = self
                .mrs
                .iter()
                .find(|m| (m.list..m.list + 0x1_0000).contains(&addr))
                .unwrap();
            let k = (addr - m.list) / 8;
            // bits below the page size are ignored
            let data: Vec<u8> = (k..k + 8)
                .flat_map(|k| (m.pages.get(k as usize).copied().unwrap_or(0) | 0x5A5).to_le_bytes())
                .collect();
            let f = CtlFill {
                data: bits_from_bytes(&data),
                tag: r.rd.tag,
                last: true,
                err: r.bad,
            };
            self.tags.remove(&r.rd.tag.to_u64());
            s.set("fill_valid", 1u8);
            s.set("fill_data", pack::<{ CtlFill::BITS }>(f.into()));
        } else if s.rng.p(0.2) {
            // a fill of somebody else
            let f = CtlFill {
                data: 0.into(),
                tag: 0x83.into(),
                last: true,
                err: false,
            };
            s.set("fill_valid", 1u8);
            s.set("fill_data", pack::<{ CtlFill::BITS }>(f.into()));
        }
    }

    pub fn finish(&self, name: &str) {
        let n = self.last_word - self.first_word.unwrap_or(0) + 1;
        println!(
            "{name}: {} frames, {} words in {n} cycles, {} line reads, descriptor to wire {:?}",
            self.frames,
            self.words,
            self.misses,
            self.latency.first()
        );
        assert!(
            self.cmds.is_empty()
                && self.want.is_empty()
                && self.acks.is_empty()
                && self.ack_sent.is_empty(),
            "{name}: {} commands, {} frames left",
            self.cmds.len(),
            self.want.len()
        );
        assert!(
            self.dones.is_empty()
                && self.fences == 0
                && self.reads.is_empty()
                && self.fills.is_empty()
        );
        assert!(self.idle_end, "{name}: idle at the end");
        assert_eq!(self.ev[0], self.frames as u64);
        assert_eq!(self.ev[4], self.bytes);
        assert_eq!(self.ev[1..4], self.kinds);
    }
}

pub fn hex(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}
