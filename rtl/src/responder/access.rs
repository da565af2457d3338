//! The memory access of a packet: which MR, how many bytes, and whether it is allowed.

use super::ctx::RspCtx;
use super::decode::OpFlags;
use super::mr_gate::MrGate;
use crate::layouts::{MrCheck, QpCfg, Rq};
use crate::types::RxPkt;
use rust_hdl::prelude::*;

/// SEND: the part of the packet that fits SGE `sg` from offset `so` on. WRITE: the packet, checked for all that is left of the message. READ: the range.
///
/// `load` takes the operands (in the same cycle `mr_addr` goes to the MR table, whose answer is expected one cycle later); three cycles
/// after it the outputs are valid while the other inputs stay.
#[derive(LogicBlock, Default)]
pub struct Access<const LOG_MR: usize> {
    pub clock: Signal<In, Clock>,
    pub load: Signal<In, bool>,
    pub o: Signal<In, OpFlags>,
    pub p: Signal<In, RxPkt>,
    pub c: Signal<In, RspCtx>,
    pub cfg: Signal<In, QpCfg>,
    pub slot: Signal<In, Rq>,
    pub mr: Signal<In, MrCheck>,
    pub sg: Signal<In, Bits<2>>,
    pub so: Signal<In, Bits<32>>,
    /// SEND: bytes of the message so far.
    pub ml: Signal<In, Bits<32>>,
    /// Bytes of the packet that are still to be placed.
    pub left: Signal<In, Bits<13>>,
    pub mr_addr: Signal<Out, Bits<16>>,
    /// Refused as invalid request: class right, DMALen, message length.
    pub inv: Signal<Out, bool>,
    /// Refused by the MR.
    pub deny: Signal<Out, bool>,
    pub key: Signal<Out, Bits<32>>,
    /// The MR that holds the bytes: that of `key`, or the one that it is a window of.
    pub at: Signal<Out, Bits<16>>,
    pub va: Signal<Out, Bits<64>>,
    pub n: Signal<Out, Bits<13>>,
    /// UD: the first SGE ends before the IPv4 header.
    pub tiny: Signal<Out, bool>,
    /// The SGE ends before the packet.
    pub more: Signal<Out, bool>,
    /// WRITE: left of the message after this packet.
    pub rest: Signal<Out, Bits<32>>,
    /// SEND: bytes with this packet; WRITE: DMALen.
    pub total: Signal<Out, Bits<32>>,
    gate: MrGate<LOG_MR>,
    xkey: DFF<Bits<32>>,
    xva: DFF<Bits<64>>,
    xlen: DFF<Bits<32>>,
    sge_left: DFF<Bits<32>>,
    jva: DFF<Bits<64>>,
    rdiff: DFF<Bits<33>>,
    ttl: DFF<Bits<32>>,
    cut: DFF<Bits<13>>,
    short: DFF<bool>,
    misfit: DFF<bool>,
    big: DFF<bool>,
    some: DFF<bool>,
    f: Signal<Local, OpFlags>,
    pk: Signal<Local, RxPkt>,
    len: Signal<Local, Bits<13>>,
    ctx: Signal<Local, RspCtx>,
    cf: Signal<Local, QpCfg>,
    sl: Signal<Local, Rq>,
    m: Signal<Local, MrCheck>,
    k: Signal<Local, Bits<32>>,
    a: Signal<Local, Bits<64>>,
    low: Signal<Local, Bits<3>>,
    l: Signal<Local, Bits<32>>,
}

impl<const LOG_MR: usize> Logic for Access<LOG_MR> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, xkey, xva, xlen, sge_left, jva, rdiff, ttl, cut, short);
        dff_setup!(self, clock, misfit, big, some);
        clock!(self, clock, gate);
        self.f.next = self.o.val();
        self.pk.next = self.p.val();
        self.len.next = self.pk.val().len;
        self.ctx.next = self.c.val();
        self.cf.next = self.cfg.val();
        self.sl.next = self.slot.val();
        self.m.next = self.mr.val();

        // operands
        self.k.next = self.ctx.val().rkey;
        self.a.next = self.ctx.val().va;
        self.l.next = self.ctx.val().rem;
        if self.f.val().first {
            self.k.next = self.pk.val().rkey;
            self.a.next = self.pk.val().va;
            self.l.next = self.pk.val().dlen;
        }
        if self.f.val().atomic {
            self.l.next = 8.into();
        }
        if self.f.val().send {
            match self.sg.val().index() {
                1 => {
                    self.k.next = self.sl.val().key1;
                    self.a.next = self.sl.val().va1;
                    self.l.next = self.sl.val().len1;
                }
                2 => {
                    self.k.next = self.sl.val().key2;
                    self.a.next = self.sl.val().va2;
                    self.l.next = self.sl.val().len2;
                }
                3 => {
                    self.k.next = self.sl.val().key3;
                    self.a.next = self.sl.val().va3;
                    self.l.next = self.sl.val().len3;
                }
                _ => {
                    self.k.next = self.sl.val().key0;
                    self.a.next = self.sl.val().va0;
                    self.l.next = self.sl.val().len0;
                }
            }
        }
        if self.load.val() {
            self.xkey.d.next = self.k.val();
            self.xva.d.next = self.a.val();
            self.xlen.d.next = self.l.val();
        } else {
            self.k.next = self.xkey.q.val();
        }
        self.mr_addr.next = self.k.val().get_bits::<16>(8);

        // first stage, beside the first half of the gate
        self.gate.mr.next = self.m.val();
        self.gate.pd.next = self.cf.val().pd;
        self.gate.qpn.next = self.pk.val().qpn;
        self.gate.key.next = self.xkey.q.val();
        self.gate.va.next = self.xva.q.val();
        self.gate.len.next = self.xlen.q.val();
        self.gate.right.next = self.m.val().remote_write;
        self.jva.d.next = self.xva.q.val();
        self.ttl.d.next = self.ctx.val().len;
        if self.f.val().send {
            self.gate.right.next = self.m.val().local_write;
            self.jva.d.next = self.xva.q.val() + bit_cast::<64, 32>(self.so.val());
            self.ttl.d.next = self.ml.val() + bit_cast::<32, 13>(self.len.val());
        } else if self.f.val().read {
            self.gate.right.next = self.m.val().remote_read;
            if self.f.val().atomic {
                self.gate.right.next = self.m.val().remote_atomic;
            }
        } else if self.f.val().first {
            self.ttl.d.next = self.pk.val().dlen;
        }
        self.sge_left.d.next = self.xlen.q.val() - self.so.val();
        self.rdiff.d.next =
            bit_cast::<33, 32>(self.xlen.q.val()) - bit_cast::<33, 13>(self.len.val());

        // second stage
        self.short.d.next = false;
        self.cut.d.next = self.left.val();
        if self.f.val().send & (self.sge_left.q.val() < bit_cast::<32, 13>(self.left.val())) {
            self.short.d.next = true;
            self.cut.d.next = self.sge_left.q.val().get_bits::<13>(0);
        }
        self.misfit.d.next = self.rdiff.q.val().any();
        if !self.f.val().last {
            self.misfit.d.next = self.rdiff.q.val().get_bit(32) | !self.rdiff.q.val().any();
        }
        self.big.d.next = self.xlen.q.val().get_bit(31) & self.xlen.q.val().get_bits::<31>(0).any();
        self.some.d.next = self.xlen.q.val().any();

        self.low.next = self.xva.q.val().get_bits::<3>(0);

        // verdicts; nothing is checked for no bytes
        if self.f.val().send {
            // more than 2^31 bytes
            self.inv.next = self.ml.val().get_bit(31) & self.len.val().any();
            self.deny.next = !self.gate.ok.val() & self.cut.q.val().any();
        } else {
            self.deny.next = !self.gate.ok.val() & self.some.q.val();
            if self.f.val().read {
                self.inv.next = !self.cf.val().acc_read | self.big.q.val();
                if self.f.val().atomic {
                    self.inv.next = !self.cf.val().acc_atomic | self.low.val().any();
                }
            } else {
                self.inv.next = !self.cf.val().acc_write | (self.misfit.q.val() | self.big.q.val());
            }
        }
        self.key.next = self.xkey.q.val();
        self.at.next = self.gate.at.val();
        self.va.next = self.jva.q.val();
        self.n.next = self.cut.q.val();
        self.more.next = self.short.q.val();
        self.tiny.next = self.sge_left.q.val().get_bit(31);
        self.rest.next = self.rdiff.q.val().get_bits::<32>(0);
        self.total.next = self.ttl.q.val();
    }
}
