//! More messages on one connection than the 24 bits of an MSN can count: WRITEs of no bytes, made here and put on the wire of
//! one card at line rate. Each ACK must carry the number of messages up to its PSN; both numbers wrap.

use crate::{
    craft::{emit, repr},
    fabric::Frame,
    pair::Pair,
    script::Conn,
    sim::SimConfig,
};
use metaroce_hdl_spec::regs::Ctr;
use metaroce_protocol::{
    ext::{Ext, Reth},
    Frame as View, Opcode, PacketRepr, Psn, Syndrome,
};

const M24: u64 = (1 << 24) - 1;
/// Every so many messages an ACK is asked for.
const ASK: u64 = 16;
/// Messages without an ACK: no more than headers that the card can hold, for the wire is faster than it is.
const OPEN: u64 = 96;

/// `messages` messages from PSN `first` on; the number of ACKs. `tell` gets the number of messages now and then.
///
/// # Errors
/// The first ACK that is wrong, or what the card did not take.
pub fn count(messages: u64, first: u32, mut tell: impl FnMut(u64)) -> Result<u64, String> {
    let conn = Conn {
        mtu: 3,
        psn: first,
        ..Conn::default()
    };
    let mut p = Pair::new(&SimConfig::default(), 1, 1 << 16, &conn);
    let (qpn, key, va) = (p.ends[1].qps[0].qpn, p.ends[1].key, p.ends[1].buf);
    let before = [Ctr::rx_frames, Ctr::tx_acks].map(|c| p.sim.nodes[1].counter(c));
    let (mut sent, mut acked, mut acks) = (0u64, 0u64, 0u64);
    let mut at = p.sim.nodes[1].now_ps + 100_000;
    let mut quiet = 0;
    while acked < messages {
        while sent < messages && sent < acked + OPEN {
            let ask = sent % ASK == ASK - 1 || sent == messages - 1;
            let r = PacketRepr {
                dest_qpn: qpn,
                ack_req: ask,
                ext: Ext {
                    reth: Some(Reth {
                        va,
                        rkey: key,
                        dma_len: 0,
                    }),
                    ..Ext::default()
                },
                ..PacketRepr::new(
                    Opcode::RC_WRITE_ONLY,
                    qpn,
                    Psn::new((first as u64 + sent) as u32 & M24 as u32),
                )
            };
            let data = emit(&repr(&p.sim, 0, r), &[]);
            let n = &mut p.sim.nodes[1];
            at = at.max(n.now_ps + 20_000);
            let wire = n.wire_ps(data.len());
            n.deliver(
                at,
                Frame {
                    data,
                    stamp: 0,
                    start_ps: at,
                },
            );
            at += wire;
            sent += 1;
        }
        let n = &mut p.sim.nodes[1];
        n.step();
        quiet += 1;
        for f in std::mem::take(&mut n.sent) {
            quiet = 0;
            let v = View::new_checked(&f.data).map_err(|e| format!("{e:?}"))?;
            let aeth = v.roce.ext().aeth.ok_or("not an ACK")?;
            let psn = v.roce.psn().get() as u64;
            // The number of messages up to its PSN, near what is known.
            let up_to = acked + (psn.wrapping_sub(first as u64 + acked) + 1 & M24);
            let good = matches!(aeth.syndrome, Syndrome::Ack { .. });
            if !good || up_to > sent || aeth.msn.get() as u64 != up_to & M24 {
                return Err(format!("{aeth:?} for PSN {psn:#x}, message {up_to}"));
            }
            acked = up_to;
            acks += 1;
            if acks.is_multiple_of(4096) {
                tell(acked);
            }
        }
        if quiet > 20_000 {
            return Err(format!("no ACK behind message {acked}"));
        }
    }
    p.run(70);
    let after = [Ctr::rx_frames, Ctr::tx_acks].map(|c| p.sim.nodes[1].counter(c));
    let grown = [after[0] - before[0], after[1] - before[1]];
    if grown != [messages, acks] {
        return Err(format!(
            "rx_frames and tx_acks have grown by {grown:?}, {acks} ACKs were seen"
        ));
    }
    Ok(acks)
}
