//! Objects per process, so that one can't take a whole table.

use crate::prims::SdpRam;
use rust_hdl::prelude::*;

/// Counts the MRs, QPs, CQs and PDs of each process, and says whether it may have one more.
///
/// * `LS`: log2 of PASIDs. `kind`: 0..=3 as in `asm::kind`; others are not counted and never full.
/// * `limits`: 16 bits a kind, kind 0 lowest; all ones = none.
/// * `full`: the process `at` has its limit of `kind`, or more; two cycles after `at`, `kind`, or a pulse.
/// * `up`, `down`: one object more or less, one cycle each; `at` and `kind` have been there for a cycle.
/// * `clear`: the counts of `at` become zero (sweep after a reset).
#[derive(LogicBlock, Default)]
pub struct Quota<const LS: usize> {
    pub clock: Signal<In, Clock>,
    pub clear: Signal<In, bool>,
    pub at: Signal<In, Bits<LS>>,
    pub kind: Signal<In, Bits<3>>,
    pub limits: Signal<In, Bits<64>>,
    pub up: Signal<In, bool>,
    pub down: Signal<In, bool>,
    pub full: Signal<Out, bool>,
    mrs: SdpRam<Bits<16>, LS>,
    qps: SdpRam<Bits<16>, LS>,
    cqs: SdpRam<Bits<16>, LS>,
    pds: SdpRam<Bits<16>, LS>,
    over: DFF<bool>,
    n: Signal<Local, Bits<16>>,
    max: Signal<Local, Bits<16>>,
    delta: Signal<Local, Bits<16>>,
    w: Signal<Local, Bits<16>>,
    go: Signal<Local, bool>,
    all: Signal<Local, bool>,
}

impl<const LS: usize> Logic for Quota<LS> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, over);
        clock!(self, clock, mrs, qps, cqs, pds);
        self.mrs.raddr.next = self.at.val();
        self.qps.raddr.next = self.at.val();
        self.cqs.raddr.next = self.at.val();
        self.pds.raddr.next = self.at.val();
        self.mrs.waddr.next = self.at.val();
        self.qps.waddr.next = self.at.val();
        self.cqs.waddr.next = self.at.val();
        self.pds.waddr.next = self.at.val();
        self.all.next = self.clear.val();
        self.mrs.we.next = self.all.val();
        self.qps.we.next = self.all.val();
        self.cqs.we.next = self.all.val();
        self.pds.we.next = self.all.val();
        self.go.next = self.clear.val() | (self.up.val() | self.down.val());
        self.n.next = 0.into();
        self.max.next = 1.into();
        match self.kind.val().index() {
            0 => {
                self.n.next = self.mrs.rdata.val();
                self.max.next = self.limits.val().get_bits::<16>(0);
                self.mrs.we.next = self.go.val();
            }
            1 => {
                self.n.next = self.qps.rdata.val();
                self.max.next = self.limits.val().get_bits::<16>(16);
                self.qps.we.next = self.go.val();
            }
            2 => {
                self.n.next = self.cqs.rdata.val();
                self.max.next = self.limits.val().get_bits::<16>(32);
                self.cqs.we.next = self.go.val();
            }
            3 => {
                self.n.next = self.pds.rdata.val();
                self.max.next = self.limits.val().get_bits::<16>(48);
                self.pds.we.next = self.go.val();
            }
            _ => {}
        }
        self.delta.next = 1.into();
        if self.down.val() {
            self.delta.next = 0xFFFF.into();
        }
        self.w.next = self.n.val() + self.delta.val();
        if self.clear.val() {
            self.w.next = 0.into();
        }
        self.mrs.wdata.next = self.w.val();
        self.qps.wdata.next = self.w.val();
        self.cqs.wdata.next = self.w.val();
        self.pds.wdata.next = self.w.val();
        self.over.d.next = self.n.val() >= self.max.val();
        self.full.next = self.over.q.val();
    }
}
