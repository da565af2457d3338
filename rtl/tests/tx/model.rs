//! Memory regions, connections, and what a run is like.
use metaroce_protocol::{
    eth::{EthRepr, Vlan},
    frame::FrameRepr,
    ip::{IpRepr, Ipv4Repr, Ipv6Repr},
    roce::PacketRepr,
    udp::UdpRepr,
};
use metaroce_rtl::diff::Rng;
use metaroce_rtl::layouts::{Av, MrMap};
use metaroce_rtl::prims::packed::{bits_from_bytes, Unpack};
use metaroce_rtl::types::*;
use num_bigint::BigUint;
use rust_hdl::prelude::*;

pub fn pack<const N: usize>(b: Bits<N>) -> BigUint {
    b.into()
}
pub fn take<T: Unpack>(v: &BigUint) -> T {
    T::unpack(&|i| v.bit(i as u64), 0)
}
pub fn byte_at(pasid: u64, addr: u64) -> u8 {
    Rng(addr.wrapping_mul(31) ^ pasid << 50).next() as u8
}
pub fn wire48(b: [u8; 6]) -> u64 {
    b.iter().rev().fold(0, |a, x| a << 8 | *x as u64)
}

/// An MR of the model.
#[derive(Clone)]
pub struct Mr {
    pub pasid: u64,
    pub shift: u64,
    pub va: u64,
    pub list: u64,
    pub pages: Vec<u64>,
    /// Host refuses: page list, pages.
    pub no_list: bool,
    pub no_page: bool,
}

impl Mr {
    pub fn bus(&self, va: u64) -> u64 {
        let base = self.va >> self.shift << self.shift;
        let page = (va - base) >> self.shift;
        self.pages[page as usize] | (va & ((1 << self.shift) - 1))
    }
    pub fn entry(&self) -> MrMap {
        MrMap {
            page_shift: self.shift.into(),
            rsv0: 0.into(),
            list: (self.list >> 6).into(),
            va_page: (self.va >> self.shift << self.shift >> 12).into(),
            pasid: self.pasid.into(),
        }
    }
}

#[derive(Clone)]
pub struct Conn {
    pub av: Av,
    pub eth: EthRepr,
    pub ip: IpRepr,
    pub udp: UdpRepr,
    pub dqpn: u32,
}

pub fn conn(rng: &mut Rng, i: usize) -> Conn {
    let mac = |r: &mut Rng| {
        let x = r.next().to_le_bytes();
        [x[0] & 0xFE, x[1], x[2], x[3], x[4], x[5]]
    };
    let (dst, src) = (mac(rng), mac(rng));
    let ip6 = i % 2 == 1;
    let vlan = (i / 2 % 2 == 1).then(|| Vlan {
        tpid: 0x8100,
        tci: (rng.next() as u16) & 0xEFFF,
    });
    let mut sip = [0u8; 16];
    let mut dip = [0u8; 16];
    for k in 0..16 {
        sip[k] = rng.next() as u8;
        dip[k] = rng.next() as u8;
    }
    let (tc, hop, fl) = (
        rng.next() as u8,
        rng.next() as u8,
        (rng.next() as u32) & 0xFFFFF,
    );
    let ip = if ip6 {
        IpRepr::V6(Ipv6Repr {
            traffic_class: tc,
            flow_label: fl,
            hop_limit: hop,
            src: sip,
            dst: dip,
        })
    } else {
        IpRepr::V4(Ipv4Repr {
            tos: tc,
            id: 0,
            df: true,
            ttl: hop,
            src: sip[12..].try_into().unwrap(),
            dst: dip[12..].try_into().unwrap(),
        })
    };
    let udp = UdpRepr {
        src_port: rng.next() as u16,
        checksum: 0,
    };
    Conn::new(
        EthRepr { dst, src, vlan },
        ip,
        udp,
        (rng.next() as u32) & 0xFFFFFF,
    )
}

impl Conn {
    pub fn new(eth: EthRepr, ip: IpRepr, udp: UdpRepr, dqpn: u32) -> Self {
        let (mut sip, mut dip) = ([0u8; 16], [0u8; 16]);
        let (ip6, tc, hop, fl) = match &ip {
            IpRepr::V4(r) => {
                sip[12..].copy_from_slice(&r.src);
                dip[12..].copy_from_slice(&r.dst);
                (false, r.tos, r.ttl, 0x54321)
            }
            IpRepr::V6(r) => {
                (sip, dip) = (r.src, r.dst);
                (true, r.traffic_class, r.hop_limit, r.flow_label)
            }
        };
        let tci = eth.vlan.map_or(0, |v| v.tci) as u64;
        let av = Av {
            dqpn: (dqpn as u64).into(),
            ip6,
            has_vlan: eth.vlan.is_some(),
            pcp: (tci >> 13).into(),
            vlan: (tci & 0xFFF).into(),
            hop_limit: (hop as u64).into(),
            tclass: (tc as u64).into(),
            sport: (udp.src_port as u64).into(),
            dmac: wire48(eth.dst).into(),
            smac: wire48(eth.src).into(),
            flow_label: (fl as u64).into(),
            sip: bits_from_bytes(&sip),
            dip: bits_from_bytes(&dip),
            ..Default::default()
        };
        Conn {
            av,
            eth,
            ip,
            udp,
            dqpn,
        }
    }
    pub fn frame(&self, p: &PacketRepr, payload: &[u8]) -> Vec<u8> {
        let f = FrameRepr {
            eth: self.eth,
            ip: self.ip,
            udp: self.udp,
            packet: *p,
        };
        let mut b = vec![0; 5000];
        let n = f.emit(payload, &mut b).unwrap();
        b.truncate(n);
        b
    }
}

pub const OPCODES: &[u8] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 22, 23, 0x64, 0x65, 0x20,
    0x25, 0x26, 0x2B,
];
pub const ACKS: &[(u8, u32)] = &[
    (0x11, 0x1F),
    (0x11, 0x60),
    (0x11, 0x2C),
    (0x11, 0x62),
    (0x81, 0),
];

/// What a run is like.
#[derive(Clone, Copy)]
pub struct Plan {
    pub packets: usize,
    /// Chance of an offer per cycle: commands, acknowledgements.
    pub p_cmd: f64,
    pub p_ack: f64,
    /// Chance of ready per cycle on each of the outputs.
    pub p_ready: f64,
    /// Chance of a completion word per cycle.
    pub p_cpl: f64,
    /// Cycles before a read is answered: at least, and at most that many more.
    pub lat: (u64, u64),
    /// Fixed payload length.
    pub len: Option<usize>,
    pub faults: bool,
    pub fences: bool,
    pub flush: bool,
    /// Completions of one tag at a time (still not in the order of the reads).
    pub in_order: bool,
    pub limit: u64,
}

pub const PLAN: Plan = Plan {
    packets: 120,
    p_cmd: 0.8,
    p_ack: 0.03,
    p_ready: 0.8,
    p_cpl: 0.8,
    lat: (5, 60),
    len: None,
    faults: true,
    fences: true,
    flush: true,
    in_order: false,
    limit: 9,
};

pub struct Rd {
    pub at: u64,
    pub rd: HostRd,
    pub pos: u64,
    pub bad: bool,
}

pub enum Want {
    Frame {
        bytes: Vec<u8>,
        stamp: u64,
        done: Option<TxDone>,
    },
    Fault(TxDone),
    Fence,
}

/// Everything fast, no faults, every command at once.
pub const FAST: Plan = Plan {
    p_cmd: 1.0,
    p_ack: 0.0,
    p_ready: 1.0,
    p_cpl: 1.0,
    lat: (150, 100),
    faults: false,
    fences: false,
    flush: false,
    in_order: true,
    ..PLAN
};
