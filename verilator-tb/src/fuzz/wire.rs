//! Random bytes into the codec, and random frames into the card.

use super::{
    world::{World, MR},
    Fuzz,
};
use crate::{craft::seal, fabric::Frame, rng::Rng, script::Wr};
use metaroce_hdl_spec::wqe::op;
use metaroce_protocol::{
    eth::{EthRepr, Vlan},
    ext::{Aeth, AtomicEth, Deth, Ext, Feth, Reth},
    ip::{IpRepr, Ipv4Repr},
    opcode::{ExtSet, PayloadRule},
    udp::UdpRepr,
    Frame as View, FrameRepr, Msn, Opcode, PacketRepr, Psn, Syndrome,
};

pub struct Wire {
    w: World,
    frames: u64,
    steps: u64,
    renewed: u64,
}

impl Wire {
    pub fn new(seed: u64) -> Wire {
        Wire {
            w: World::new(seed, true),
            frames: 0,
            steps: 0,
            renewed: 0,
        }
    }

    /// A frame for QP `q` of card `to` that could be one of its peer's next ones.
    fn forge(&mut self, to: usize, q: usize, psns: (u32, u32)) -> (FrameRepr, Vec<u8>) {
        let w = &mut self.w;
        let rng = &mut w.rng;
        let of_type: Vec<Opcode> = Opcode::ALL
            .iter()
            .copied()
            .filter(|o| o.0 >> 5 == [0, 1, 3][q])
            .collect();
        let from = if rng.below(8) == 0 {
            Opcode::ALL
        } else {
            &of_type[..]
        };
        let o = from[rng.below(from.len() as u64) as usize];
        let info = o.info().expect("in the table");
        let base = if info.is_response() { psns.0 } else { psns.1 };
        let psn = match rng.below(8) {
            0 => rng.next() as u32,
            1 | 2 => base.wrapping_add(rng.below(9) as u32).wrapping_sub(4),
            _ => base,
        };
        let len = match info.payload {
            PayloadRule::None => 0,
            PayloadRule::Exact(n) => n as usize,
            PayloadRule::Full if rng.below(8) != 0 => 256,
            _ => rng.below(300) as usize,
        };
        let g = &w.guests[to];
        let va = match rng.below(8) {
            0 => rng.next(),
            1 => g.buf.wrapping_sub(rng.below(600)),
            2 => g.buf + MR - rng.below(600),
            _ => g.buf + rng.below(MR - 4096),
        };
        let va = if rng.below(2) == 0 { va & !7 } else { va };
        let rkey = if rng.below(8) == 0 {
            rng.next() as u32
        } else {
            g.key
        };
        let dma_len = match rng.below(4) {
            0 => rng.next() as u32,
            1 => rng.below(2000) as u32,
            _ => len as u32,
        };
        let has = |s| info.ext.has(s);
        let mut packet = PacketRepr::new(o, g.qps[q].qpn, Psn::new(psn));
        packet.ack_req = rng.below(2) == 0;
        packet.se = rng.below(4) == 0;
        packet.ext = Ext {
            deth: has(ExtSet::DETH).then(|| Deth {
                qkey: crate::script::Conn::default().qkey ^ (rng.below(8) == 0) as u32,
                src_qpn: rng.next() as u32 & 0xFF_FFFF,
                resv: 0,
            }),
            feth: has(ExtSet::FETH).then(|| Feth(rng.next() as u32)),
            reth: has(ExtSet::RETH).then_some(Reth { va, rkey, dma_len }),
            atomic: has(ExtSet::ATOMIC).then(|| AtomicEth {
                va,
                rkey,
                swap_add: rng.next(),
                compare: rng.next(),
            }),
            aeth: has(ExtSet::AETH).then(|| Aeth {
                syndrome: Syndrome::from_byte(match rng.below(3) {
                    0 => rng.next() as u8,
                    1 => 0x60 + rng.below(4) as u8,
                    _ => 0x1F,
                }),
                msn: Msn::new(rng.next() as u32),
            }),
            atomic_ack: has(ExtSet::ATOMIC_ACK).then(|| rng.next()),
            imm: has(ExtSet::IMM).then(|| (rng.next() as u32).to_le_bytes()),
            ieth: has(ExtSet::IETH).then(|| rng.next() as u32),
        };
        let (me, peer) = (&w.p.sim.ids[1 - to], &w.p.sim.ids[to]);
        let r = FrameRepr {
            eth: EthRepr {
                dst: peer.mac,
                src: me.mac,
                vlan: (rng.below(8) == 0).then_some(Vlan {
                    tpid: 0x8100,
                    tci: 5,
                }),
            },
            ip: IpRepr::V4(Ipv4Repr {
                tos: rng.next() as u8,
                id: 0,
                df: true,
                ttl: 64,
                src: me.ipv4,
                dst: peer.ipv4,
            }),
            udp: UdpRepr {
                src_port: rng.next() as u16,
                checksum: 0,
            },
            packet,
        };
        (r, rng.bytes(len))
    }

    /// The guests' QPs as they are, and new ones for those that are broken.
    fn renew(&mut self, e: usize, q: usize) -> (u32, u32) {
        let (state, sq, rq) = self.w.query(e, q);
        if state == 3 {
            return (sq, rq);
        }
        self.w.connect(q);
        self.renewed += 1;
        (0, 0)
    }
}

/// Bytes of a frame, changed at random; most of them with the right lengths and ICRC again.
fn mutate(rng: &mut Rng, f: &mut Vec<u8>) {
    match rng.below(6) {
        0 => f.truncate(1 + rng.below(f.len() as u64) as usize),
        1 => {
            let more = rng.below(40) as usize;
            let more = rng.bytes(more);
            f.extend(more);
        }
        2 => {
            let at = rng.below(f.len() as u64) as usize;
            let n = rng.below(8) as usize;
            f.drain(at..(at + n).min(f.len()));
            if f.is_empty() {
                f.push(0);
            }
        }
        _ => {
            for _ in 0..1 + rng.below(6) {
                // Mostly behind the UDP header.
                let from = if rng.below(4) == 0 {
                    0
                } else {
                    42.min(f.len() - 1)
                };
                let at = from + rng.below((f.len() - from) as u64) as usize;
                f[at] = match rng.below(3) {
                    0 => rng.next() as u8,
                    1 => [0, 0xFF, 0x7F, 0x80][rng.below(4) as usize],
                    _ => f[at] ^ 1 << rng.below(8),
                };
            }
        }
    }
    if rng.below(4) != 0 && f.len() > 58 && f[12..14] == [8, 0] {
        seal(f);
    }
}

/// The codec must take any bytes, and what it accepts it must be able to write again to the bit.
fn codec(f: &[u8]) -> Result<(), String> {
    let Ok(v) = View::new_checked(f) else {
        return Ok(());
    };
    let r = FrameRepr::parse(&v);
    let mut b = vec![0; f.len() + 64];
    let n = r
        .emit(v.payload(), &mut b)
        .map_err(|e| format!("the codec accepts a frame that it can't write ({e:?}): {f:x?}"))?;
    let again = View::new_checked(&b[..n]).map_err(|e| format!("{e:?} in {:x?}", &b[..n]))?;
    if FrameRepr::parse(&again) != r || again.payload() != v.payload() {
        return Err(format!("not the same when written again: {f:x?}"));
    }
    Ok(())
}

impl Fuzz for Wire {
    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        // Bytes to the codec alone cost nothing.
        for _ in 0..20 {
            let n = self.w.rng.below(200) as usize;
            let b = self.w.rng.bytes(n);
            codec(&b)?;
        }
        let to = self.w.rng.below(2) as usize;
        let q = self.w.rng.below(3) as usize;
        let mut psns = self.renew(to, q);
        // Something for answers to answer, and receives.
        let (guest, peer) = (&self.w.guests[to], &self.w.guests[1 - to]);
        let (buf, key) = (guest.buf, guest.key);
        let wr = Wr {
            op: [op::WRITE, op::READ][self.w.rng.below(2) as usize],
            remote_va: peer.buf,
            rkey: peer.key,
            sges: vec![(buf, 700, key)],
            ..Wr::default()
        };
        let post = q == 0 && self.w.rng.below(3) == 0;
        let room = self.w.rng.below(600) as u32;
        let g = &mut self.w.guests[to];
        if post {
            g.host.post_send(&mut self.w.p.sim, &mut g.qps[q], &wr);
            g.host.ring_sq(&mut self.w.p.sim, &g.qps[q]);
        }
        g.host
            .post_recv(&mut self.w.p.sim, &mut g.qps[q], &[(buf, room, key)]);
        g.host.ring_rq(&mut self.w.p.sim, &g.qps[q]);
        let clean = self.w.p.ends[to].qps[0].qpn;
        let mut t = self.w.p.sim.nodes[to].now_ps + self.w.rng.below(3_000_000);
        for _ in 0..1 + self.w.rng.below(40) {
            let (r, payload) = self.forge(to, q, psns);
            psns.1 = psns.1.wrapping_add(1);
            let mut data = vec![0; payload.len() + 200];
            let n = r.emit(&payload, &mut data).map_err(|e| format!("{e:?}"))?;
            data.truncate(n);
            if self.w.rng.below(2) == 0 {
                mutate(&mut self.w.rng, &mut data);
            }
            codec(&data)?;
            // A right frame of the clean connection's own peer may do what it likes.
            if View::new_checked(&data).is_ok_and(|v| v.roce.dest_qpn() == clean) {
                continue;
            }
            let wire = self.w.p.sim.nodes[to].wire_ps(data.len());
            let f = Frame {
                data,
                stamp: 0,
                start_ps: t,
            };
            self.w.p.sim.nodes[to].deliver(t, f);
            t += wire + self.w.rng.below(30_000);
            self.frames += 1;
        }
        self.w.clean()?;
        self.w.settle()?;
        self.w.drain();
        self.w.strays()?;
        Ok(())
    }

    fn done(&self) -> String {
        format!(
            "{} frames, {} connections broken and made again, {} clean transfers",
            self.frames, self.renewed, self.w.transfers
        )
    }
}
