//! One card with its host port and its end of the wire, stepped cycle by cycle.

use crate::{
    fabric::{Frame, WIRE_OVERHEAD},
    ffi::{Card, In, Out},
    hostport::{bits, HostPort, HostPortConfig},
    memory::Memory,
    stamps::Doorbells,
};
use metaroce_hdl_spec::{
    config::Config,
    regs::{self, Ctr},
};
use std::collections::VecDeque;

/// A BAR write on its way to the card.
#[derive(Debug, Clone)]
pub struct MmioWrite {
    pub addr: u32,
    pub len: u8,
    pub data: [u8; 64],
}

impl MmioWrite {
    pub fn u32(addr: u32, v: u32) -> MmioWrite {
        let mut data = [0; 64];
        data[..4].copy_from_slice(&v.to_le_bytes());
        MmioWrite { addr, len: 4, data }
    }
    pub fn u64(addr: u32, v: u64) -> MmioWrite {
        let mut data = [0; 64];
        data[..8].copy_from_slice(&v.to_le_bytes());
        MmioWrite { addr, len: 8, data }
    }
}

/// The card's `now` has 48 bits.
const NOW_MASK: u64 = (1 << 48) - 1;

/// A frame on its way in, beat by beat at line rate.
struct Arriving {
    frame: Frame,
    at_ps: u64,
    pos: usize,
}

/// Cycle counts of single events, for the latency tables.
#[derive(Debug, Default, Clone, Copy)]
pub struct Marks {
    /// Cycle in which the last doorbell that sends something was accepted.
    pub doorbell: u64,
    /// Cycle of the first wire word after that doorbell.
    pub first_tx: u64,
    /// Cycle of the last word of the last frame received.
    pub last_rx: u64,
    /// Cycle of the first payload write after that.
    pub first_write: u64,
    /// Cycles from doorbell to first wire word in which a host read was outstanding and nothing else could happen.
    pub host_wait: u64,
}

pub struct Node {
    card: Card,
    i: In,
    o: Out,
    pub host: HostPort,
    pub mem: Box<dyn Memory>,
    period_ps: u64,
    pub now_ps: u64,
    pub cycles: u64,
    rate_mbps: u64,
    pub mmio: VecDeque<MmioWrite>,
    doorbells: Doorbells,
    /// Frames sent since the last collection.
    pub sent: Vec<Frame>,
    /// Frames taken since the last collection, if anybody wants them.
    pub taken: Option<Vec<Frame>>,
    tx: Option<Frame>,
    /// When the transmitter has sent everything it took, ps.
    tx_busy_ps: u64,
    inbox: VecDeque<(u64, Frame)>,
    rx: Option<Arriving>,
    pub marks: Marks,
    pub tx_frames: u64,
    /// Cycles since the card last said that it is busy or was given something: `idle` is registered in places.
    settled: u32,
}

const ICRC: usize = 4;

/// Whether a RoCEv2 frame is a UD datagram, the bytes of its IP header, its destination QP, and the bytes of all headers that every packet
/// of such a message has.
fn headers(f: &[u8]) -> (bool, usize, u32, usize) {
    let vlan = if f[12..14] == [0x81, 0x00] { 4 } else { 0 };
    let ip = if f[12 + vlan] == 0x08 { 20 } else { 40 };
    // Ethernet, IP, UDP
    let bth = 14 + vlan + ip + 8;
    let ud = f.get(bth).is_some_and(|op| op >> 5 == 3);
    let qpn = f
        .get(bth + 4..bth + 8)
        .map_or(0, |b| u32::from_be_bytes([0, b[1], b[2], b[3]]));
    (ud, ip, qpn, bth + 12 + if ud { 8 } else { 0 })
}

/// Quiet cycles after which `idle` counts.
const SETTLE: u32 = 4;

impl Node {
    /// Resets a card.
    pub fn new(
        hw: &Config,
        rate_mbps: u64,
        host: HostPortConfig,
        seed: u64,
        mem: Box<dyn Memory>,
    ) -> Node {
        let mut n = Node {
            card: Card::new(hw),
            i: In::default(),
            o: Out::default(),
            host: HostPort::new(host, seed),
            mem,
            period_ps: 1_000_000_000 / hw.clock_khz as u64,
            now_ps: 0,
            cycles: 0,
            rate_mbps,
            mmio: VecDeque::new(),
            doorbells: Doorbells::default(),
            sent: vec![],
            taken: None,
            tx: None,
            tx_busy_ps: 0,
            inbox: VecDeque::new(),
            rx: None,
            marks: Marks::default(),
            tx_frames: 0,
            settled: 0,
        };
        n.i.rst = 1;
        for _ in 0..8 {
            n.step();
        }
        n.i.rst = 0;
        n
    }

    pub fn rate_mbps(&self) -> u64 {
        self.rate_mbps
    }
    pub fn period_ps(&self) -> u64 {
        self.period_ps
    }
    pub fn trace(&mut self, path: &str) -> bool {
        self.card.trace(path)
    }
    /// Hands over a frame that arrives (first bit) at `at_ps`.
    pub fn deliver(&mut self, at_ps: u64, f: Frame) {
        let k = self.inbox.partition_point(|(t, _)| *t <= at_ps);
        self.inbox.insert(k, (at_ps, f));
    }

    /// Nothing is going on: only a timer, a frame from the wire, or the host can wake the card.
    pub fn idle(&self) -> bool {
        self.settled >= SETTLE
            // The card looks through its timers after each change: until it knows the next deadline, time must not jump.
            && self.o.deadline_valid != 0
            && self.host.idle()
            && self.mmio.is_empty()
            && self.tx.is_none()
            && self.rx.is_none()
            && self.sent.is_empty()
    }
    /// Time of the next thing that will happen by itself, ps.
    pub fn next_event_ps(&self) -> Option<u64> {
        // All ones: no timer runs.
        let timer = (self.o.deadline_valid != 0 && self.o.deadline != NOW_MASK)
            .then(|| self.o.deadline * 1000);
        let frame = self.inbox.front().map(|(t, _)| *t);
        match (timer, frame) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
    /// Jumps over silence.
    pub fn skip_to(&mut self, ps: u64) {
        if ps > self.now_ps {
            self.host.silence(ps - self.now_ps);
            self.now_ps = ps;
        }
    }

    pub fn wire_ps(&self, len: usize) -> u64 {
        ((len.max(60) + WIRE_OVERHEAD) as u64 * 8 * 1_000_000).div_ceil(self.rate_mbps)
    }

    fn drive_rx(&mut self) {
        self.i.rx_valid = 0;
        if self.rx.is_none() {
            match self.inbox.front() {
                Some((t, _)) if *t <= self.now_ps => {
                    let (at_ps, frame) = self.inbox.pop_front().expect("just looked");
                    if frame.stamp != 0 {
                        let end = at_ps + self.wire_ps(frame.data.len());
                        let (ud, ip, qpn, headers) = headers(&frame.data);
                        self.host.stats.overhead = (headers + ICRC + WIRE_OVERHEAD) as u64;
                        let grh = ud.then_some(ip as u64);
                        self.host.frame(qpn, frame.stamp, grh, at_ps, end);
                    }
                    self.rx = Some(Arriving {
                        frame,
                        at_ps,
                        pos: 0,
                    });
                }
                _ => return,
            }
        }
        let a = self.rx.as_mut().expect("just set");
        let n = (a.frame.data.len() - a.pos).min(64);
        // The word is there when its last byte has arrived (8 bytes of preamble first).
        if a.at_ps + (a.pos + n + 8) as u64 * 8 * 1_000_000 / self.rate_mbps > self.now_ps {
            return;
        }
        let mut word = [0u8; 64];
        word[..n].copy_from_slice(&a.frame.data[a.pos..a.pos + n]);
        for (k, c) in word.chunks_exact(4).enumerate() {
            self.i.rx_data[k] = u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
        }
        let (sop, eop) = (a.pos == 0, a.pos + n == a.frame.data.len());
        let m = (64 - n) as u64 | (sop as u64) << 6 | (eop as u64) << 7 | a.frame.stamp << 8;
        self.i.rx_meta = [m as u32, (m >> 32) as u32];
        self.i.rx_valid = 1;
        a.pos += n;
        if eop {
            self.marks.last_rx = self.cycles;
            self.marks.first_write = 0;
            let done = self.rx.take().expect("it is arriving");
            if let Some(t) = &mut self.taken {
                t.push(done.frame);
            }
        }
    }

    fn sample_tx(&mut self) {
        if self.o.tx_valid == 0 || self.i.tx_ready == 0 {
            return;
        }
        let m = &self.o.tx_meta;
        let (empty, sop, eop, stamp) = (
            bits(m, 0, 6) as usize,
            bits(m, 6, 1) == 1,
            bits(m, 7, 1) == 1,
            bits(m, 8, 48),
        );
        assert_eq!(sop, self.tx.is_none(), "card bug: transmit framing");
        if sop {
            if self.marks.first_tx == 0 {
                self.marks.first_tx = self.cycles;
            }
            let start = self.now_ps.max(self.tx_busy_ps);
            self.tx = Some(Frame {
                data: Vec::with_capacity(4224),
                stamp: 0,
                start_ps: start,
            });
        }
        let f = self.tx.as_mut().expect("framing was checked");
        let n = if eop { 64 - empty } else { 64 };
        for k in 0..n.div_ceil(4) {
            f.data.extend_from_slice(&self.o.tx_data[k].to_le_bytes());
        }
        f.data.truncate(f.data.len() - (n.div_ceil(4) * 4 - n));
        if eop {
            let mut f = self.tx.take().expect("framing was checked");
            f.stamp = self.doorbells.mark(stamp, self.now_ps / 1000);
            self.tx_busy_ps = f.start_ps + self.wire_ps(f.data.len());
            self.tx_frames += 1;
            self.sent.push(f);
        }
    }

    /// One clock cycle.
    pub fn step(&mut self) {
        self.now_ps += self.period_ps;
        self.cycles += 1;
        self.i.now = (self.now_ps / 1000) & NOW_MASK;
        self.drive_rx();
        // The transmitter takes a frame while at most one maximum frame waits before it.
        self.i.tx_ready = (self.tx.is_some() || self.tx_busy_ps <= self.now_ps + 350_000) as u8;
        self.host.drive(self.now_ps, &mut self.i, self.mem.as_mut());
        self.i.mmio_wr_valid = 0;
        if let Some(w) = self.mmio.front() {
            self.i.mmio_wr_valid = 1;
            self.i.mmio_wr_addr = w.addr;
            self.i.mmio_wr_len = w.len;
            for (k, c) in w.data.chunks_exact(4).enumerate() {
                self.i.mmio_wr_data[k] = u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
            }
        }
        self.card.step(&self.i, &mut self.o);
        let given =
            self.i.mmio_wr_valid | self.i.rx_valid | self.i.hrd_valid | self.i.mmio_rd_valid;
        self.settled = if self.o.idle != 0 && given == 0 {
            self.settled + 1
        } else {
            0
        };
        if self.i.mmio_wr_valid != 0 && self.o.mmio_wr_ready != 0 {
            let w = self.mmio.pop_front().expect("it was offered");
            if w.addr == regs::admin::PCIE_LIMITS {
                let v = [w.data[0], w.data[1], w.data[2], w.data[3]];
                self.host.set_limits(u32::from_le_bytes(v));
            }
            let at = w.addr % regs::PAGE;
            let send = [
                regs::doorbell::SQ,
                regs::doorbell::DIRECT_WQE,
                regs::doorbell::RAW_TX,
            ]
            .contains(&at);
            if w.addr >= regs::PAGE && send {
                self.marks.doorbell = self.cycles;
                self.marks.first_tx = 0;
                self.doorbells.add(&w, self.now_ps / 1000);
            }
        }
        self.sample_tx();
        let before = self.host.stats.payload_bytes;
        self.host
            .sample(self.now_ps, &self.i, &self.o, self.mem.as_mut());
        if self.host.stats.payload_bytes != before && self.marks.first_write == 0 {
            self.marks.first_write = self.cycles;
        }
    }

    /// Reads a 32-bit register; clocks the card until the answer is there.
    pub fn mmio_read(&mut self, addr: u32) -> u32 {
        self.i.mmio_rd_valid = 1;
        self.i.mmio_rd_addr = addr;
        for _ in 0..64 {
            self.step();
            self.i.mmio_rd_valid = 0;
            if self.o.mmio_rd_done != 0 {
                return self.o.mmio_rd_data;
            }
        }
        panic!("card bug: no answer to a read of register {addr:#x}");
    }

    pub fn counter(&mut self, c: Ctr) -> u64 {
        let a = regs::admin::COUNTERS + 8 * c as u32;
        let lo = self.mmio_read(a) as u64;
        lo | (self.mmio_read(a + 4) as u64) << 32
    }

    /// All counters by name.
    pub fn counters(&mut self) -> Vec<(&'static str, u64)> {
        (0..regs::COUNTERS.len())
            .map(|k| {
                let a = regs::admin::COUNTERS + 8 * k as u32;
                let lo = self.mmio_read(a) as u64;
                (
                    regs::COUNTERS[k].name,
                    lo | (self.mmio_read(a + 4) as u64) << 32,
                )
            })
            .collect()
    }
}
