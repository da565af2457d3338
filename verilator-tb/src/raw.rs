//! A scripted process on a card with raw packet queues: it sends and receives whole frames.

use crate::{node::MmioWrite, rng::Rng, sim::Sim};
use metaroce_hdl_spec::regs::{
    self, doorbell, raw_done, raw_head, raw_ring, raw_rx, raw_tx, RAW_RX_FRAME, RAW_SLOT,
};
use metaroce_protocol::{
    eth::{EthRepr, Vlan},
    icrc,
    ip::{IpRepr, Ipv4Repr, Ipv6Repr},
    opcode::{Class, PayloadRule},
    udp::UdpRepr,
    FrameRepr, Opcode, PacketRepr, Psn,
};

/// One process and its two rings.
pub struct RawHost {
    pub card: usize,
    pub pasid: u16,
    pub tx: u64,
    pub tx_log: u32,
    pub rx: u64,
    pub rx_log: u32,
    /// Next slot to send from; frames that the card has read.
    pub pi: u16,
    pub done: u16,
    /// Next slot to look at.
    pub ci: u16,
}

const TX: u64 = 0x7_0000_0000;
const RX: u64 = 0x9_0000_3000;

fn bell(sim: &mut Sim, h: &RawHost, at: u32, v: [u8; 8]) {
    let page = h.pasid as u32 * regs::PAGE;
    let w = MmioWrite::u64(page + at, u64::from_le_bytes(v));
    sim.nodes[h.card].mmio.push_back(w);
}

/// A `raw_ring` doorbell.
pub fn ring(base: u64, log: u32, enable: bool) -> [u8; 8] {
    let mut b = [0; 8];
    raw_ring::base.put(&mut b, base >> 12);
    raw_ring::log.put(&mut b, log as u64);
    raw_ring::enable.put(&mut b, enable as u64);
    b
}

impl RawHost {
    /// Turns both rings on.
    pub fn open(sim: &mut Sim, card: usize, pasid: u16, tx_log: u32, rx_log: u32) -> RawHost {
        let mut h = RawHost {
            card,
            pasid,
            tx: TX,
            tx_log,
            rx: RX,
            rx_log,
            pi: 0,
            done: 0,
            ci: 0,
        };
        h.start(sim);
        h
    }

    /// Turns both rings on, from index 0; what the last life left in memory is wiped, as a driver has to.
    pub fn start(&mut self, sim: &mut Sim) {
        (self.pi, self.done, self.ci) = (0, 0, 0);
        let end = self.tx + ((RAW_SLOT as u64) << self.tx_log);
        sim.mem(self.card).poke(self.pasid, end, &[0; 64]);
        for k in 0..1u64 << self.rx_log {
            let a = self.rx + k * RAW_SLOT as u64;
            sim.mem(self.card).poke(self.pasid, a, &[0; 64]);
        }
        let (t, r) = (
            ring(self.tx, self.tx_log, true),
            ring(self.rx, self.rx_log, true),
        );
        bell(sim, self, doorbell::RAW_TX_RING, t);
        bell(sim, self, doorbell::RAW_RX_RING, r);
    }

    /// Turns both rings off.
    pub fn stop(&self, sim: &mut Sim) {
        bell(sim, self, doorbell::RAW_TX_RING, [0; 8]);
        bell(sim, self, doorbell::RAW_RX_RING, [0; 8]);
    }

    pub fn tx_slot(&self, index: u16) -> u64 {
        self.tx + (index as u64 & ((1 << self.tx_log) - 1)) * RAW_SLOT as u64
    }

    /// Slots that may be written.
    pub fn room(&mut self, sim: &mut Sim) -> u16 {
        let end = self.tx + ((RAW_SLOT as u64) << self.tx_log);
        let b = sim.mem(self.card).peek_vec(self.pasid, end, 64);
        self.done = raw_done::done.get(&b) as u16;
        (1 << self.tx_log) - self.pi.wrapping_sub(self.done)
    }

    /// Puts a frame (without ICRC) into the next slot and rings; false: no slot is free.
    pub fn send(&mut self, sim: &mut Sim, frame: &[u8]) -> bool {
        if self.room(sim) == 0 {
            return false;
        }
        let a = self.tx_slot(self.pi);
        sim.mem(self.card).poke(self.pasid, a, frame);
        self.ring_tx(sim, frame.len() as u16);
        true
    }

    /// The doorbell of the next slot.
    pub fn ring_tx(&mut self, sim: &mut Sim, len: u16) {
        let mut b = [0; 8];
        raw_tx::index.put(&mut b, self.pi as u64);
        raw_tx::len.put(&mut b, len as u64);
        bell(sim, self, doorbell::RAW_TX, b);
        self.pi = self.pi.wrapping_add(1);
    }

    /// The next frame, and whether it was marked; its slot is not given back before [`RawHost::consume`].
    pub fn poll(&mut self, sim: &mut Sim) -> Option<(Vec<u8>, bool)> {
        let mask = (1u64 << self.rx_log) - 1;
        let a = self.rx + (self.ci as u64 & mask) * RAW_SLOT as u64;
        let mem = sim.mem(self.card);
        let head = mem.peek_vec(self.pasid, a, 64);
        let phase = !(self.ci as u64 >> self.rx_log) & 1;
        if raw_head::phase.get(&head) != phase {
            return None;
        }
        let len = raw_head::len.get(&head) as usize;
        let frame = mem.peek_vec(self.pasid, a + RAW_RX_FRAME as u64, len);
        self.ci = self.ci.wrapping_add(1);
        Some((frame, raw_head::ce.get(&head) == 1))
    }

    /// Gives back all slots that were looked at.
    pub fn consume(&self, sim: &mut Sim, arm: bool) {
        let mut b = [0; 8];
        raw_rx::ci.put(&mut b, self.ci as u64);
        raw_rx::arm.put(&mut b, arm as u64);
        bell(sim, self, doorbell::RAW_RX, b);
    }
}

/// A destination QPN of a process.
pub fn qpn(pasid: u16, rng: &mut Rng) -> u32 {
    (pasid as u32) << 18 | rng.below(1 << 18) as u32
}

/// A random good frame from one card to another, without ICRC: any opcode, IPv4 or IPv6, with or without VLAN tag, at most `most` bytes behind the BTH.
pub fn frame(sim: &Sim, from: usize, to: usize, dest: u32, most: usize, rng: &mut Rng) -> Vec<u8> {
    let (a, b) = (&sim.ids[from], &sim.ids[to]);
    let op = loop {
        let op = Opcode::ALL[rng.below(Opcode::ALL.len() as u64) as usize];
        let info = op.info().expect("a known opcode");
        // what the ingress knows
        if !matches!(info.class, Class::Flush | Class::AtomicWrite) {
            break op;
        }
    };
    let info = op.info().expect("a known opcode");
    let ext = info.header_len() - 12;
    let len = match info.payload {
        PayloadRule::None => ext,
        PayloadRule::Exact(n) => ext + n as usize,
        _ => ext + rng.below((most.max(ext) - ext) as u64 + 1) as usize,
    };
    let tos = rng.below(256) as u8;
    let ip = if rng.below(2) == 0 {
        IpRepr::V4(Ipv4Repr {
            tos,
            id: rng.next() as u16,
            df: true,
            ttl: rng.next() as u8,
            src: a.ipv4,
            dst: b.ipv4,
        })
    } else {
        IpRepr::V6(Ipv6Repr {
            traffic_class: tos,
            flow_label: rng.below(1 << 20) as u32,
            hop_limit: rng.next() as u8,
            src: a.gids()[0],
            dst: b.gids()[0],
        })
    };
    let mut packet = PacketRepr::new(
        Opcode::RC_SEND_ONLY,
        dest,
        Psn::new(rng.below(1 << 24) as u32),
    );
    packet.ack_req = rng.below(2) == 0;
    packet.fecn = rng.below(2) == 0;
    let r = FrameRepr {
        eth: EthRepr {
            dst: b.mac,
            src: a.mac,
            vlan: (rng.below(3) == 0).then(|| Vlan {
                tpid: 0x8100,
                tci: rng.next() as u16,
            }),
        },
        ip,
        udp: UdpRepr {
            src_port: rng.next() as u16,
            checksum: rng.next() as u16,
        },
        packet,
    };
    let mut f = vec![0; len + 200];
    let n = r.emit(&rng.bytes(len), &mut f).expect("a frame");
    f.truncate(n - 4);
    let bth = r.eth.len() + r.ip.header_len() + 8;
    f[bth] = op.0;
    f
}

/// The frame as it is on the wire.
pub fn sealed(f: &[u8]) -> Vec<u8> {
    let l2 = if f[12..14] == [0x81, 0] { 18 } else { 14 };
    let crc = icrc::compute(&f[l2..]).expect("a RoCE frame");
    [f, &crc.to_le_bytes()].concat()
}

/// ECN of a frame says "congestion experienced".
pub fn marked(f: &[u8]) -> bool {
    let l2 = if f[12..14] == [0x81, 0] { 18 } else { 14 };
    if f[l2] >> 4 == 6 {
        f[l2 + 1] >> 4 & 3 == 3
    } else {
        f[l2 + 1] & 3 == 3
    }
}
