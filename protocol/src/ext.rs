//! Extension headers as values (wire facts §3).

use crate::bytes::{put, put_u24, u24_at, u32_at, u64_at, u8_at};
use crate::opcode::ExtSet;
use crate::psn::Msn;
use crate::syndrome::Syndrome;

/// RDMA extended header, 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Remote virtual address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Length of the whole message in bytes, without pad.
    pub dma_len: u32,
}

/// ACK extended header, 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// ACK, NAK or RNR.
    pub syndrome: Syndrome,
    /// Messages completed by the responder.
    pub msn: Msn,
}

/// Atomic request header, 28 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Remote virtual address, a multiple of 8.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Value to swap in, or to add.
    pub swap_add: u64,
    /// Value to compare with (CMP_SWAP).
    pub compare: u64,
}

/// Datagram header, 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// Source QPN, 24 bits.
    pub src_qpn: u32,
    /// Reserved byte between them; send 0.
    pub resv: u8,
}

/// FLUSH header, 4 bytes: raw, PLT in bits 3:0 and SEL in bits 5:4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feth(pub u32);

impl Feth {
    /// Placement type, bits 3:0.
    pub const fn plt(self) -> u8 {
        (self.0 & 15) as u8
    }
    /// Selectivity level, bits 5:4.
    pub const fn sel(self) -> u8 {
        (self.0 >> 4 & 3) as u8
    }
}

/// The extension headers of one packet. Which ones are `Some` follows from the opcode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ext {
    /// UD only.
    pub deth: Option<Deth>,
    /// FLUSH only.
    pub feth: Option<Feth>,
    /// WRITE First/Only, READ Request, FLUSH, ATOMIC WRITE.
    pub reth: Option<Reth>,
    /// CMP_SWAP, FETCH_ADD.
    pub atomic: Option<AtomicEth>,
    /// ACK, ATOMIC ACK, READ Response First/Last/Only.
    pub aeth: Option<Aeth>,
    /// ATOMIC ACK: the original value.
    pub atomic_ack: Option<u64>,
    /// Immediate, the four bytes as on the wire (network order to the application).
    pub imm: Option<[u8; 4]>,
    /// SEND with invalidate: the rkey.
    pub ieth: Option<u32>,
}

impl Ext {
    /// Which headers are present.
    pub const fn set(&self) -> ExtSet {
        let mut s = 0;
        if self.deth.is_some() {
            s |= ExtSet::DETH.0;
        }
        if self.feth.is_some() {
            s |= ExtSet::FETH.0;
        }
        if self.reth.is_some() {
            s |= ExtSet::RETH.0;
        }
        if self.atomic.is_some() {
            s |= ExtSet::ATOMIC.0;
        }
        if self.aeth.is_some() {
            s |= ExtSet::AETH.0;
        }
        if self.atomic_ack.is_some() {
            s |= ExtSet::ATOMIC_ACK.0;
        }
        if self.imm.is_some() {
            s |= ExtSet::IMM.0;
        }
        if self.ieth.is_some() {
            s |= ExtSet::IETH.0;
        }
        ExtSet(s)
    }

    /// Read the headers `set` from the bytes behind the BTH.
    pub fn parse(set: ExtSet, b: &[u8]) -> Ext {
        let at = |one| set.offset(one);
        Ext {
            deth: at(ExtSet::DETH).map(|o| Deth {
                qkey: u32_at(b, o),
                resv: u8_at(b, o + 4),
                src_qpn: u24_at(b, o + 5),
            }),
            feth: at(ExtSet::FETH).map(|o| Feth(u32_at(b, o))),
            reth: at(ExtSet::RETH).map(|o| Reth {
                va: u64_at(b, o),
                rkey: u32_at(b, o + 8),
                dma_len: u32_at(b, o + 12),
            }),
            atomic: at(ExtSet::ATOMIC).map(|o| AtomicEth {
                va: u64_at(b, o),
                rkey: u32_at(b, o + 8),
                swap_add: u64_at(b, o + 12),
                compare: u64_at(b, o + 20),
            }),
            aeth: at(ExtSet::AETH).map(|o| Aeth {
                syndrome: Syndrome::from_byte(u8_at(b, o)),
                msn: Msn::new(u24_at(b, o + 1)),
            }),
            atomic_ack: at(ExtSet::ATOMIC_ACK).map(|o| u64_at(b, o)),
            imm: at(ExtSet::IMM).map(|o| u32_at(b, o).to_be_bytes()),
            ieth: at(ExtSet::IETH).map(|o| u32_at(b, o)),
        }
    }

    /// Write the headers that are present, in wire order, from the start of `b`.
    pub fn emit(&self, b: &mut [u8]) {
        let set = self.set();
        let at = |one| set.offset(one).unwrap_or(0);
        if let Some(h) = self.deth {
            let o = at(ExtSet::DETH);
            put(b, o, &h.qkey.to_be_bytes());
            put(b, o + 4, &[h.resv]);
            put_u24(b, o + 5, h.src_qpn);
        }
        if let Some(h) = self.feth {
            put(b, at(ExtSet::FETH), &h.0.to_be_bytes());
        }
        if let Some(h) = self.reth {
            let o = at(ExtSet::RETH);
            put(b, o, &h.va.to_be_bytes());
            put(b, o + 8, &h.rkey.to_be_bytes());
            put(b, o + 12, &h.dma_len.to_be_bytes());
        }
        if let Some(h) = self.atomic {
            let o = at(ExtSet::ATOMIC);
            put(b, o, &h.va.to_be_bytes());
            put(b, o + 8, &h.rkey.to_be_bytes());
            put(b, o + 12, &h.swap_add.to_be_bytes());
            put(b, o + 20, &h.compare.to_be_bytes());
        }
        if let Some(h) = self.aeth {
            let o = at(ExtSet::AETH);
            put(b, o, &[h.syndrome.to_byte()]);
            put_u24(b, o + 1, h.msn.get());
        }
        if let Some(v) = self.atomic_ack {
            put(b, at(ExtSet::ATOMIC_ACK), &v.to_be_bytes());
        }
        if let Some(v) = self.imm {
            put(b, at(ExtSet::IMM), &v);
        }
        if let Some(v) = self.ieth {
            put(b, at(ExtSet::IETH), &v.to_be_bytes());
        }
    }
}
