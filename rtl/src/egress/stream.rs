//! Frame reader: buffer words under a header, ICRC, wire.

use super::build::FrameMeta;
use super::hdrlen::{IcrcView, WordGeo};
use crate::packed_struct;
use crate::prims::{Fifo, Icrc, SdpRam};
use crate::types::WireMeta;
use rust_hdl::prelude::*;

packed_struct! {
    /// Beside a word on its way to the wire.
    pub struct BeatMeta {
        pub sop: bool,
        pub eop: bool,
        /// The ICRC starts at bit `at` of this word.
        pub crc_lo: bool,
        /// The last two bytes of the ICRC are the first of this word.
        pub crc_hi: bool,
        pub at: Bits<10>,
        pub empty: Bits<6>,
        pub total: Bits<13>,
        pub cls: Bits<2>,
        pub stamp: Bits<48>,
    }
}

/// One word a cycle; no idle cycle between frames that are waiting.
///
/// Pipeline: issue (buffer address) | word arrives, header on top, pad cut | store and ICRC | seven cycles later the word may leave, which is
/// when the ICRC of a frame that ends in it is there | output register. The store holds 32 words and the reader never reads ahead of
/// the room in it, so back-pressure on the wire stops nothing in the middle. Three cycles from taking a frame to the store, ten
/// more to the wire.
#[derive(LogicBlock, Default)]
pub struct Stream<const W: usize, const L: usize, const P: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub f_valid: Signal<In, bool>,
    pub f_meta: Signal<In, FrameMeta>,
    pub f_hdr: Signal<In, Bits<1024>>,
    pub f_ready: Signal<Out, bool>,
    pub buf_raddr: Signal<Out, Bits<16>>,
    pub buf_rdata: Signal<In, Bits<W>>,
    pub free_valid: Signal<Out, bool>,
    pub free_words: Signal<Out, Bits<12>>,
    pub tx_valid: Signal<Out, bool>,
    pub tx_data: Signal<Out, Bits<W>>,
    pub tx_meta: Signal<Out, WireMeta>,
    pub tx_ready: Signal<In, bool>,
    pub ev_frame: Signal<Out, bool>,
    pub ev_bytes: Signal<Out, Bits<13>>,
    pub ev_ack: Signal<Out, bool>,
    pub ev_nak: Signal<Out, bool>,
    pub ev_rnr: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    k: WordGeo<L>,
    view: IcrcView,
    // issue
    active: DFF<bool>,
    cur: DFF<FrameMeta>,
    used: DFF<Bits<6>>,
    free_v: DFF<bool>,
    free_n: DFF<Bits<12>>,
    src: Signal<Local, FrameMeta>,
    room: Signal<Local, bool>,
    skip: Signal<Local, bool>,
    start: Signal<Local, bool>,
    issue: Signal<Local, bool>,
    is_last: Signal<Local, bool>,
    is_eb: Signal<Local, bool>,
    s_last: Signal<Local, Bits<10>>,
    s_eb: Signal<Local, Bits<10>>,
    s_hl: Signal<Local, Bits<8>>,
    s_stop: Signal<Local, Bits<13>>,
    s_base: Signal<Local, Bits<16>>,
    bytes13: Signal<Local, Bits<13>>,
    // word arrives
    v1: DFF<bool>,
    sop1: DFF<bool>,
    last1: DFF<bool>,
    eb1: DFF<bool>,
    lo1: DFF<Bits<8>>,
    hi1: DFF<Bits<8>>,
    h1: DFF<Bits<1024>>,
    c1: DFF<Bits<1024>>,
    lo_bits: Signal<Local, Bits<12>>,
    hi_bits: Signal<Local, Bits<12>>,
    m_lo: Signal<Local, Bits<W>>,
    m_hi: Signal<Local, Bits<W>>,
    m_hin: Signal<Local, Bits<W>>,
    all: Signal<Local, Bits<W>>,
    body: Signal<Local, Bits<W>>,
    // store and ICRC
    v2: DFF<bool>,
    w2: DFF<Bits<W>>,
    c2: DFF<Bits<W>>,
    b2: DFF<BeatMeta>,
    eb2: DFF<bool>,
    past2: DFF<bool>,
    ce2: DFF<Bits<6>>,
    icrc: Icrc<W, P>,
    crcs: Fifo<Bits<32>, 5>,
    words: SdpRam<Bits<W>, 5>,
    metas: SdpRam<BeatMeta, 5>,
    wp: DFF<Bits<5>>,
    vis: [DFF<bool>; 7],
    lvl: DFF<Bits<6>>,
    // wire
    rp: DFF<Bits<5>>,
    rp_n: Signal<Local, Bits<5>>,
    pop: Signal<Local, bool>,
    need: Signal<Local, bool>,
    b: Signal<Local, BeatMeta>,
    cls: Signal<Local, Bits<2>>,
    crc_w: Signal<Local, Bits<W>>,
    ov: DFF<bool>,
    od: DFF<Bits<W>>,
    om: DFF<WireMeta>,
    e_frame: DFF<bool>,
    e_bytes: DFF<Bits<13>>,
    e_cls: DFF<Bits<2>>,
    u1: Signal<Local, Bits<6>>,
    l1: Signal<Local, Bits<6>>,
}

impl<const W: usize, const L: usize, const P: usize> Logic for Stream<W, L, P> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, active, cur, used, free_v, free_n, v1, sop1, last1, eb1, lo1, hi1);
        dff_setup!(self, clock, h1, c1, v2, w2, c2, b2, eb2, past2, ce2, wp, lvl, rp, ov, od, om);
        dff_setup!(self, clock, e_frame, e_bytes, e_cls);
        clock!(self, clock, icrc, crcs, words, metas);
        self.icrc.rst.next = self.rst.val();
        self.crcs.rst.next = self.rst.val();
        for i in 0..7 {
            self.vis[i].clock.next = self.clock.val();
        }

        // issue
        self.room.next = !self.used.q.val().get_bit(5);
        self.skip.next = (self.f_valid.val() & self.f_meta.val().skip) & !self.active.q.val();
        self.start.next = (self.f_valid.val() & !self.f_meta.val().skip)
            & (!self.active.q.val() & self.room.val());
        self.issue.next = self.start.val() | (self.active.q.val() & self.room.val());
        self.f_ready.next = self.start.val() | self.skip.val();
        self.src.next = self.f_meta.val();
        if self.active.q.val() {
            self.src.next = self.cur.q.val();
        }
        self.s_last.next = self.src.val().last;
        self.s_eb.next = self.src.val().eb;
        self.s_hl.next = self.src.val().hl;
        self.s_stop.next = self.src.val().stop;
        self.s_base.next = self.src.val().base;
        self.bytes13.next = bit_cast::<13, 8>(self.k.bytes.val());
        self.is_last.next = !self.s_last.val().any();
        self.is_eb.next = !self.s_eb.val().any();
        self.buf_raddr.next = self.s_base.val();
        self.view.ip6.next = self.f_meta.val().ip6;
        self.view.vlan.next = self.f_meta.val().vlan;
        self.view.hdr.next = self.f_hdr.val();
        self.v1.d.next = self.issue.val();
        self.free_v.d.next = self.skip.val() | (self.issue.val() & self.is_last.val());
        self.free_n.d.next = self.src.val().words;
        if self.issue.val() {
            self.active.d.next = !self.is_last.val();
            self.cur.d.next = self.src.val();
            self.cur.d.next.base = self.s_base.val() + 1;
            self.cur.d.next.last = self.s_last.val() - 1;
            self.cur.d.next.eb = self.s_eb.val() - 1;
            self.sop1.d.next = self.start.val();
            self.last1.d.next = self.is_last.val();
            self.eb1.d.next = self.is_eb.val();
            // bytes of this word that are header, and that are header or payload
            if self.s_hl.val() >= self.k.bytes.val() {
                self.lo1.d.next = self.k.bytes.val();
                self.cur.d.next.hl = self.s_hl.val() - self.k.bytes.val();
            } else {
                self.lo1.d.next = self.s_hl.val();
                self.cur.d.next.hl = bits::<8>(0);
            }
            if self.s_stop.val() >= self.bytes13.val() {
                self.hi1.d.next = self.k.bytes.val();
                self.cur.d.next.stop = self.s_stop.val() - self.bytes13.val();
            } else {
                self.hi1.d.next = bit_cast::<8, 13>(self.s_stop.val());
                self.cur.d.next.stop = bits::<13>(0);
            }
            if self.start.val() {
                self.h1.d.next = self.f_hdr.val();
                self.c1.d.next = self.view.y.val();
            } else {
                self.h1.d.next = self.h1.q.val() >> self.k.width.val();
                self.c1.d.next = self.c1.q.val() >> self.k.width.val();
            }
        }
        self.free_valid.next = self.free_v.q.val();
        self.free_words.next = self.free_n.q.val();

        // word arrives
        self.lo_bits.next = bit_cast::<12, 8>(self.lo1.q.val()) << 3;
        self.hi_bits.next = bit_cast::<12, 8>(self.hi1.q.val()) << 3;
        self.m_lo.next = 0.into();
        self.all.next = !self.m_lo.val();
        self.m_lo.next = self.all.val() << self.lo_bits.val();
        self.m_hin.next = self.all.val() << self.hi_bits.val();
        self.m_hi.next = !self.m_hin.val();
        self.body.next = (self.buf_rdata.val() & self.m_lo.val()) & self.m_hi.val();
        self.v2.d.next = self.v1.q.val();
        if self.v1.q.val() {
            self.w2.d.next = self.body.val() | self.h1.q.val().get_bits::<W>(0);
            self.c2.d.next = self.body.val() | self.c1.q.val().get_bits::<W>(0);
            self.eb2.d.next = self.eb1.q.val();
            self.past2.d.next =
                (self.cur.q.val().straddle & self.last1.q.val()) & !self.eb1.q.val();
            self.ce2.d.next = self.cur.q.val().cempty;
            self.b2.d.next.sop = self.sop1.q.val();
            self.b2.d.next.eop = self.last1.q.val();
            self.b2.d.next.crc_lo = self.eb1.q.val();
            self.b2.d.next.crc_hi = self.cur.q.val().straddle & self.last1.q.val();
            self.b2.d.next.at = bit_cast::<10, 6>(self.cur.q.val().r) << 3;
            self.b2.d.next.empty = self.cur.q.val().empty;
            self.b2.d.next.total = self.cur.q.val().total;
            self.b2.d.next.cls = self.cur.q.val().cls;
            self.b2.d.next.stamp = self.cur.q.val().stamp;
        }

        // store and ICRC
        self.words.we.next = self.v2.q.val();
        self.words.waddr.next = self.wp.q.val();
        self.words.wdata.next = self.w2.q.val();
        self.metas.we.next = self.v2.q.val();
        self.metas.waddr.next = self.wp.q.val();
        self.metas.wdata.next = self.b2.q.val();
        if self.v2.q.val() {
            self.wp.d.next = self.wp.q.val() + 1;
        }
        self.icrc.s_data.next = self.c2.q.val();
        self.icrc.s_sop.next = self.b2.q.val().sop;
        self.icrc.s_eop.next = self.eb2.q.val();
        self.icrc.s_empty.next = self.ce2.q.val();
        self.icrc.s_valid.next = self.v2.q.val() & !self.past2.q.val();
        self.crcs.s_data.next = self.icrc.m_crc.val();
        self.crcs.s_valid.next = self.icrc.m_valid.val();
        self.vis[0].d.next = self.v2.q.val();
        for i in 0..6 {
            self.vis[i + 1].d.next = self.vis[i].q.val();
        }

        // wire
        self.b.next = self.metas.rdata.val();
        self.cls.next = self.b.val().cls;
        self.need.next = self.b.val().crc_lo | self.b.val().crc_hi;
        self.pop.next = (self.lvl.q.val().any() & (!self.ov.q.val() | self.tx_ready.val()))
            & (!self.need.val() | self.crcs.m_valid.val());
        self.crcs.m_ready.next = self.pop.val() & self.b.val().eop;
        self.rp_n.next = self.rp.q.val();
        if self.pop.val() {
            self.rp_n.next = self.rp.q.val() + 1;
        }
        self.rp.d.next = self.rp_n.val();
        self.words.raddr.next = self.rp_n.val();
        self.metas.raddr.next = self.rp_n.val();
        self.crc_w.next = 0.into();
        if self.b.val().crc_lo {
            self.crc_w.next = bit_cast::<W, 32>(self.crcs.m_data.val()) << self.b.val().at;
        } else if self.b.val().crc_hi {
            self.crc_w.next = bit_cast::<W, 32>(self.crcs.m_data.val()) >> 16;
        }
        self.e_frame.d.next = self.pop.val() & self.b.val().eop;
        self.e_bytes.d.next = bits::<13>(0);
        self.e_cls.d.next = bits::<2>(0);
        if self.pop.val() & self.b.val().eop {
            self.e_bytes.d.next = self.b.val().total;
            self.e_cls.d.next = self.cls.val();
        }
        if self.ov.q.val() & self.tx_ready.val() {
            self.ov.d.next = false;
        }
        if self.pop.val() {
            self.ov.d.next = true;
            self.od.d.next = self.words.rdata.val() | self.crc_w.val();
            self.om.d.next.sop = self.b.val().sop;
            self.om.d.next.eop = self.b.val().eop;
            self.om.d.next.stamp = self.b.val().stamp;
            self.om.d.next.empty = bits::<6>(0);
            if self.b.val().eop {
                self.om.d.next.empty = self.b.val().empty;
            }
        }
        self.tx_valid.next = self.ov.q.val();
        self.tx_data.next = self.od.q.val();
        self.tx_meta.next = self.om.q.val();
        self.ev_frame.next = self.e_frame.q.val();
        self.ev_bytes.next = self.e_bytes.q.val();
        self.ev_ack.next = self.e_cls.q.val() == 1;
        self.ev_nak.next = self.e_cls.q.val() == 2;
        self.ev_rnr.next = self.e_cls.q.val() == 3;

        // up and down beside each other, not one after the other
        self.u1.next = self.used.q.val() - 1;
        if self.issue.val() {
            self.u1.next = self.used.q.val() + 1;
        }
        if self.issue.val() != self.pop.val() {
            self.used.d.next = self.u1.val();
        }
        self.l1.next = self.lvl.q.val() - 1;
        if self.vis[6].q.val() {
            self.l1.next = self.lvl.q.val() + 1;
        }
        if self.vis[6].q.val() != self.pop.val() {
            self.lvl.d.next = self.l1.val();
        }
        self.idle.next = !self.active.q.val() & (!self.used.q.val().any() & !self.ov.q.val());
        if self.rst.val() {
            self.active.d.next = false;
            self.used.d.next = 0.into();
            self.free_v.d.next = false;
            self.v1.d.next = false;
            self.v2.d.next = false;
            self.wp.d.next = 0.into();
            self.rp.d.next = 0.into();
            self.lvl.d.next = 0.into();
            self.ov.d.next = false;
            self.e_frame.d.next = false;
            self.e_bytes.d.next = 0.into();
            self.e_cls.d.next = 0.into();
            for i in 0..7 {
                self.vis[i].d.next = false;
            }
        }
    }
}
