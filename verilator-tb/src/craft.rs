//! Frames that no card sends, put on the wire of a card.

use crate::{fabric::Frame, pair::Pair, sim::Sim};
use metaroce_protocol::{
    eth::EthRepr,
    icrc,
    ip::{IpRepr, Ipv4Repr},
    udp::UdpRepr,
    FrameRepr, PacketRepr,
};

/// `packet` from card `from` to the other one.
pub fn repr(sim: &Sim, from: usize, packet: PacketRepr) -> FrameRepr {
    let (me, to) = (&sim.ids[from], &sim.ids[1 - from]);
    FrameRepr {
        eth: EthRepr {
            dst: to.mac,
            src: me.mac,
            vlan: None,
        },
        ip: IpRepr::V4(Ipv4Repr {
            tos: 2,
            id: 0,
            df: true,
            ttl: 64,
            src: me.ipv4,
            dst: to.ipv4,
        }),
        udp: UdpRepr {
            src_port: 0xC123,
            checksum: 0,
        },
        packet,
    }
}

pub fn emit(r: &FrameRepr, payload: &[u8]) -> Vec<u8> {
    let mut b = vec![0; payload.len() + 200];
    let n = r.emit(payload, &mut b).expect("frame");
    b.truncate(n);
    b
}

/// A frame from `from` with any bytes between the UDP header and the ICRC, which is right, as are all lengths.
pub fn raw(sim: &Sim, from: usize, roce: &[u8]) -> Vec<u8> {
    let p = PacketRepr::new(
        metaroce_protocol::Opcode::RC_SEND_ONLY,
        0,
        metaroce_protocol::Psn::new(0),
    );
    let mut f = emit(&repr(sim, from, p), &[]);
    f.truncate(42);
    f.extend_from_slice(roce);
    f.extend_from_slice(&[0; 4]);
    seal(&mut f);
    f
}

/// Makes header length, lengths, IPv4 checksum and ICRC of an IPv4 frame without VLAN tag fit its bytes.
pub fn seal(f: &mut [u8]) {
    let n = f.len();
    f[14] = 0x45;
    f[16..18].copy_from_slice(&((n - 14) as u16).to_be_bytes());
    f[38..40].copy_from_slice(&((n - 34) as u16).to_be_bytes());
    f[24..26].fill(0);
    let sum: u32 = f[14..34]
        .chunks(2)
        .map(|c| u16::from_be_bytes([c[0], c[1]]) as u32)
        .sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    f[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    // One that is too short to have an ICRC stays as it is.
    if let Some(crc) = icrc::compute(&f[14..n - 4]) {
        f[n - 4..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Lets frames arrive at card `to`, one behind the other.
pub fn put(p: &mut Pair, to: usize, frames: impl IntoIterator<Item = Vec<u8>>) {
    // Its own time: a card whose registers are read runs ahead of the others.
    let mut t = p.sim.nodes[to].now_ps + 20_000;
    for data in frames {
        let wire = p.sim.nodes[to].wire_ps(data.len());
        let f = Frame {
            data,
            stamp: 0,
            start_ps: t,
        };
        p.sim.nodes[to].deliver(t, f);
        t += wire + 20_000;
    }
}

/// Until nothing moves any more.
pub fn settle(p: &mut Pair) {
    let t0 = p.sim.nodes[0].cycles;
    while p.sim.step_or_skip() {
        assert!(p.sim.nodes[0].cycles - t0 < 4_000_000, "no silence");
    }
    // An increment of a counter shows up in at most 66 cycles.
    p.run(70);
}

/// Lets one frame arrive at `to`, and waits for silence.
pub fn inject(p: &mut Pair, to: usize, data: Vec<u8>) {
    put(p, to, [data]);
    settle(p);
}

/// Counters of card `e` that `f` makes grow, of those that say what became of frames.
pub fn grown(p: &mut Pair, e: usize, f: impl FnOnce(&mut Pair)) -> Vec<(&'static str, u64)> {
    let before = p.sim.nodes[e].counters();
    f(p);
    let after = p.sim.nodes[e].counters();
    let told = |n: &str| {
        n.starts_with("rx_drop")
            || n.contains("nak")
            || ["tx_acks", "rx_cnp", "qp_errors", "tx_retransmits"].contains(&n)
    };
    after
        .iter()
        .zip(before)
        .filter(|(a, b)| a.1 != b.1 && told(a.0))
        .map(|(a, b)| (a.0, a.1 - b.1))
        .collect()
}
