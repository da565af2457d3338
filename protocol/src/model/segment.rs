//! One packet of a SEND or WRITE: which opcode and headers it has, what it carries, and whether its length is legal.

use super::types::{SendOp, SendWr, Source};
use crate::ext::Reth;
use crate::opcode::{OpcodeInfo, Place, Service};
use crate::{Mtu, Opcode, PacketRepr, Psn, MAX_MESSAGE};

/// Bytes of a message with this packet of `payload_len`, which has `offset` before it; `None` if that is not legal.
/// `dma_len`: what a WRITE has announced. The payload rule of the opcode is [`crate::roce::check_payload`]'s affair.
pub(super) fn message_bytes(
    info: &OpcodeInfo,
    dma_len: Option<u64>,
    offset: u64,
    payload_len: usize,
) -> Option<u64> {
    let total = offset + payload_len as u64;
    let fits = match dma_len {
        Some(all) if info.place.ends() => total == all,
        Some(all) => total < all,
        None => true,
    };
    let longest = dma_len.unwrap_or(total);
    (fits && longest <= MAX_MESSAGE).then_some(total)
}

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
    // UC has no such opcodes.
    let inv = match wr.op {
        SendOp::SendInv { rkey } if service == Service::Rc => Some(rkey),
        _ => None,
    };
    let opcode = if inv.is_some() {
        Opcode::send_inv(place)
    } else if write {
        Opcode::write(service, place, imm.is_some())
    } else {
        Opcode::send(service, place, imm.is_some())
    };
    let mut packet = PacketRepr::new(opcode, 0, Psn::new(0));
    packet.ext.imm = imm;
    packet.ext.ieth = inv.filter(|_| place.ends());
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
