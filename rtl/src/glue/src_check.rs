//! Source check of responses: who is not the peer of a connection does not acknowledge for it.

use crate::layouts::Av;
use crate::prims::SdpRam;
use crate::types::RxPkt;
use rust_hdl::prelude::*;

/// Between ingress and requester, with a copy of the address vectors of its own. A response whose source is not the address that the QP's packets go to
/// gets QPN 0xFFFFFF, which no QP has (no tag is all ones), so the requester drops it as it drops any packet of a QP that is not there: counted, and its
/// buffer slot is freed. The source port is not looked at.
///
/// Latency 3, initiation interval 4: `s_ready` is a register. `idle`: no packet is inside.
#[derive(LogicBlock, Default)]
pub struct SrcCheck<const LQ: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub s_valid: Signal<In, bool>,
    pub s_data: Signal<In, RxPkt>,
    pub s_ready: Signal<Out, bool>,
    pub m_valid: Signal<Out, bool>,
    pub m_data: Signal<Out, RxPkt>,
    pub m_ready: Signal<In, bool>,
    pub av_we: Signal<In, bool>,
    pub av_waddr: Signal<In, Bits<LQ>>,
    pub av_wdata: Signal<In, Av>,
    pub idle: Signal<Out, bool>,
    av: SdpRam<Av, LQ>,
    pkt: DFF<RxPkt>,
    /// The packet is there; its address vector is; it is judged.
    v: DFF<bool>,
    read: DFF<bool>,
    judged: DFF<bool>,
    lo: DFF<bool>,
    hi: DFF<bool>,
    s: Signal<Local, RxPkt>,
    p: Signal<Local, RxPkt>,
    out: Signal<Local, RxPkt>,
    a: Signal<Local, Av>,
    sip: Signal<Local, Bits<128>>,
    dip: Signal<Local, Bits<128>>,
    take: Signal<Local, bool>,
    give: Signal<Local, bool>,
    qpn: Signal<Local, Bits<24>>,
}

impl<const LQ: usize> Logic for SrcCheck<LQ> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, pkt, v, read, judged, lo, hi);
        clock!(self, clock, av);
        self.av.we.next = self.av_we.val();
        self.av.waddr.next = self.av_waddr.val();
        self.av.wdata.next = self.av_wdata.val();
        self.s.next = self.s_data.val();
        self.p.next = self.pkt.q.val();
        self.give.next = self.judged.q.val() & self.m_ready.val();
        // no path from the requester's ready into the ingress
        self.take.next = self.s_valid.val() & !self.v.q.val();
        self.s_ready.next = !self.v.q.val();
        self.qpn.next = self.p.val().qpn;
        if self.take.val() {
            self.qpn.next = self.s.val().qpn;
        }
        self.av.raddr.next = self.qpn.val().get_bits::<LQ>(0);
        if self.give.val() {
            self.v.d.next = false;
            self.read.d.next = false;
            self.judged.d.next = false;
        } else {
            self.judged.d.next = self.read.q.val();
        }
        if self.take.val() {
            self.pkt.d.next = self.s.val();
            self.v.d.next = true;
            self.read.d.next = true;
            self.judged.d.next = false;
        }
        self.a.next = self.av.rdata.val();
        self.sip.next = self.p.val().sip;
        self.dip.next = self.a.val().dip;
        if !self.judged.q.val() {
            self.lo.d.next = self.sip.val().get_bits::<64>(0) == self.dip.val().get_bits::<64>(0);
            self.hi.d.next = self.sip.val().get_bits::<64>(64) == self.dip.val().get_bits::<64>(64);
        }
        self.out.next = self.p.val();
        if !self.lo.q.val() | !self.hi.q.val() {
            self.out.next.qpn = bits::<24>(0xFF_FFFF);
        }
        self.m_data.next = self.out.val();
        self.m_valid.next = self.judged.q.val();
        self.idle.next = !self.v.q.val();
        if self.rst.val() {
            self.v.d.next = false;
            self.read.d.next = false;
            self.judged.d.next = false;
        }
    }
}
