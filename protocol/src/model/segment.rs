//! One packet of a SEND or WRITE: which opcode and headers it has, and what it carries.

use super::types::{SendOp, SendWr, Source};
use crate::ext::Reth;
use crate::opcode::{Place, Service};
use crate::{Mtu, Opcode, PacketRepr, Psn};

/// Packet `index` of `packets` of the work request `wr`, the `wqe`-th posted. Only the fields that follow
/// from the message are set: the caller adds destination, P_Key, MigReq and AckReq.
pub(super) fn segment(
    service: Service,
    mtu: Mtu,
    wr: &SendWr,
    wqe: u64,
    (index, packets): (u32, u32),
) -> (PacketRepr, Source) {
    let place = Place::of(index, packets);
    let (reth, imm, write) = match wr.op {
        SendOp::Write { va, rkey } => (Some((va, rkey)), None, true),
        SendOp::WriteImm { va, rkey, imm } => (Some((va, rkey)), Some(imm), true),
        SendOp::SendImm(imm) => (None, Some(imm), false),
        _ => (None, None, false),
    };
    let imm = imm.filter(|_| place.ends());
    let opcode = if write {
        Opcode::write(service, place, imm.is_some())
    } else {
        Opcode::send(service, place, imm.is_some())
    };
    let mut packet = PacketRepr::new(opcode, 0, Psn::new(0));
    packet.ext.imm = imm;
    packet.ext.reth = reth.filter(|_| place.starts()).map(|(va, rkey)| Reth {
        va,
        rkey,
        dma_len: wr.len as u32,
    });
    packet.se = wr.solicited && place.ends() && (!write || imm.is_some());
    let offset = u64::from(index) * u64::from(mtu.bytes());
    let len = (wr.len - offset).min(u64::from(mtu.bytes())) as u32;
    let payload = if len == 0 {
        Source::None
    } else {
        Source::Wqe { wqe, offset, len }
    };
    (packet, payload)
}
