//! Cache of page-list lines, with up to eight reads in flight.

use crate::packed_struct;
use crate::prims::{Fifo, SdpRam, SdpRam2R};
use crate::types::{CtlFill, HostRd};
use array_init::array_init;
use rust_hdl::prelude::*;

packed_struct! {
    /// Name of a line: bus address in units of 64 bytes, and whose.
    pub struct Line { pub addr: Bits<52>, pub pasid: Bits<12> }
}

packed_struct! {
    /// Eight entries, or the note that they could not be read.
    pub struct LineData { pub data: Bits<512>, pub err: bool }
}

/// Direct mapped, `NL = 2^LL` lines. The set comes with the line ([`super::walk`] computes it).
///
/// Two look-up ports, 0 for the head of the queue (with data) and 1 for the prefetcher: `x_line`, `x_set` in cycle t; `x_hit`, `x_wait` (its read is
/// under way) and, port 0, `h_data` in cycle t+1.
/// `x_miss` in a later cycle, with the same line in that cycle and the one before, starts the read unless `p_stay` (set under way, or no read free, or
/// the other port goes first); port 0 has priority. `h_drop` (same rule) forgets the line, after an error was reported. `flush` forgets all lines; data
/// of reads in flight is then thrown away when it comes.
#[derive(LogicBlock)]
pub struct Cache<const LL: usize, const NL: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub flush: Signal<In, bool>,
    pub h_line: Signal<In, Line>,
    pub h_set: Signal<In, Bits<LL>>,
    pub h_miss: Signal<In, bool>,
    pub h_drop: Signal<In, bool>,
    pub h_hit: Signal<Out, bool>,
    pub h_wait: Signal<Out, bool>,
    pub h_data: Signal<Out, LineData>,
    pub p_line: Signal<In, Line>,
    pub p_set: Signal<In, Bits<LL>>,
    pub p_miss: Signal<In, bool>,
    pub p_hit: Signal<Out, bool>,
    pub p_wait: Signal<Out, bool>,
    pub p_stay: Signal<Out, bool>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub rd_ready: Signal<In, bool>,
    pub fill_valid: Signal<In, bool>,
    pub fill_data: Signal<In, CtlFill>,
    pub ev_miss: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    base: Constant<Bits<8>>,
    slot: [Constant<Bits<3>>; 8],
    tags: SdpRam2R<Line, LL>,
    data: SdpRam<LineData, LL>,
    rds: Fifo<HostRd, 3>,
    valid: DFF<Bits<NL>>,
    hs: DFF<Bits<LL>>,
    ps: DFF<Bits<LL>>,
    hl: DFF<Line>,
    hv: DFF<bool>,
    hp: DFF<bool>,
    pl: DFF<Line>,
    pv: DFF<bool>,
    pp: DFF<bool>,
    act: [DFF<bool>; 8],
    stale: [DFF<bool>; 8],
    set: [DFF<Bits<LL>>; 8],
    h_pend: Signal<Local, bool>,
    p_pend: Signal<Local, bool>,
    h_set_pend: Signal<Local, bool>,
    p_set_pend: Signal<Local, bool>,
    hx: Signal<Local, Bits<LL>>,
    px: Signal<Local, Bits<LL>>,
    h_eq: Signal<Local, bool>,
    p_eq: Signal<Local, bool>,
    free: Signal<Local, bool>,
    which: Signal<Local, Bits<3>>,
    go: Signal<Local, bool>,
    go_h: Signal<Local, bool>,
    gx: Signal<Local, Bits<LL>>,
    gl: Signal<Local, Line>,
    ga: Signal<Local, Bits<52>>,
    gr: Signal<Local, HostRd>,
    ft: Signal<Local, Bits<8>>,
    off: Signal<Local, Bits<8>>,
    mine: Signal<Local, bool>,
    fslot: Signal<Local, Bits<3>>,
    fbank: Signal<Local, Bits<5>>,
    fx: Signal<Local, Bits<LL>>,
    fstale: Signal<Local, bool>,
    fd: Signal<Local, LineData>,
    one: Signal<Local, Bits<NL>>,
    hot: Signal<Local, Bits<NL>>,
    nhot: Signal<Local, Bits<NL>>,
    fhot: Signal<Local, Bits<NL>>,
    nfhot: Signal<Local, Bits<NL>>,
    v1: Signal<Local, Bits<NL>>,
    any_act: Signal<Local, bool>,
}

impl<const LL: usize, const NL: usize> Cache<LL, NL> {
    /// `base`: first of eight host read tags.
    pub fn new(base: u8) -> Self {
        assert!((2..=12).contains(&LL) && NL == 1 << LL && base % 8 == 0);
        Self {
            clock: Default::default(),
            rst: Default::default(),
            flush: Default::default(),
            h_line: Default::default(),
            h_set: Default::default(),
            h_miss: Default::default(),
            h_drop: Default::default(),
            h_hit: Default::default(),
            h_wait: Default::default(),
            h_data: Default::default(),
            p_line: Default::default(),
            p_set: Default::default(),
            p_miss: Default::default(),
            p_hit: Default::default(),
            p_wait: Default::default(),
            p_stay: Default::default(),
            rd_valid: Default::default(),
            rd_data: Default::default(),
            rd_ready: Default::default(),
            fill_valid: Default::default(),
            fill_data: Default::default(),
            ev_miss: Default::default(),
            idle: Default::default(),
            base: Constant::new((base as u64).into()),
            slot: array_init(|i| Constant::new((i as u64).into())),
            tags: Default::default(),
            data: Default::default(),
            rds: Default::default(),
            valid: Default::default(),
            hs: Default::default(),
            ps: Default::default(),
            hl: Default::default(),
            hv: Default::default(),
            hp: Default::default(),
            pl: Default::default(),
            pv: Default::default(),
            pp: Default::default(),
            act: Default::default(),
            stale: Default::default(),
            set: Default::default(),
            h_pend: Default::default(),
            p_pend: Default::default(),
            h_set_pend: Default::default(),
            p_set_pend: Default::default(),
            hx: Default::default(),
            px: Default::default(),
            h_eq: Default::default(),
            p_eq: Default::default(),
            free: Default::default(),
            which: Default::default(),
            go: Default::default(),
            go_h: Default::default(),
            gx: Default::default(),
            gl: Default::default(),
            ga: Default::default(),
            gr: Default::default(),
            ft: Default::default(),
            off: Default::default(),
            mine: Default::default(),
            fslot: Default::default(),
            fbank: Default::default(),
            fx: Default::default(),
            fstale: Default::default(),
            fd: Default::default(),
            one: Default::default(),
            hot: Default::default(),
            nhot: Default::default(),
            fhot: Default::default(),
            nfhot: Default::default(),
            v1: Default::default(),
            any_act: Default::default(),
        }
    }
}

impl<const LL: usize, const NL: usize> Logic for Cache<LL, NL> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, valid, hs, ps, hl, hv, hp, pl, pv, pp);
        clock!(self, clock, tags, data, rds);
        self.rds.rst.next = self.rst.val();
        for i in 0..8 {
            self.act[i].clock.next = self.clock.val();
            self.act[i].d.next = self.act[i].q.val();
            self.stale[i].clock.next = self.clock.val();
            self.stale[i].d.next = self.stale[i].q.val() | self.flush.val();
            self.set[i].clock.next = self.clock.val();
            self.set[i].d.next = self.set[i].q.val();
        }
        self.one.next = 1.into();

        // look up: tag and the state bits of the set as they were in the cycle of the address
        // (a set is under way if one of the reads is for it)
        self.hx.next = self.h_set.val();
        self.px.next = self.p_set.val();
        self.h_set_pend.next = false;
        self.p_set_pend.next = false;
        self.h_pend.next = false;
        self.p_pend.next = false;
        for i in 0..8 {
            if self.act[i].q.val() & (self.set[i].q.val() == self.hx.val()) {
                self.h_set_pend.next = true;
            }
            if self.act[i].q.val() & (self.set[i].q.val() == self.px.val()) {
                self.p_set_pend.next = true;
            }
            if self.act[i].q.val() & (self.set[i].q.val() == self.hs.q.val()) {
                self.h_pend.next = true;
            }
            if self.act[i].q.val() & (self.set[i].q.val() == self.ps.q.val()) {
                self.p_pend.next = true;
            }
        }
        self.tags.raddr0.next = self.hx.val();
        self.tags.raddr1.next = self.px.val();
        self.data.raddr.next = self.hx.val();
        self.hs.d.next = self.hx.val();
        self.ps.d.next = self.px.val();
        self.hl.d.next = self.h_line.val();
        self.pl.d.next = self.p_line.val();
        self.hv.d.next = self.valid.q.val().get_bit(self.hx.val().index());
        self.hp.d.next = self.h_set_pend.val();
        self.pv.d.next = self.valid.q.val().get_bit(self.px.val().index());
        self.pp.d.next = self.p_set_pend.val();
        self.h_eq.next = self.tags.rdata0.val() == self.hl.q.val();
        self.p_eq.next = self.tags.rdata1.val() == self.pl.q.val();
        self.h_hit.next = self.h_eq.val() & self.hv.q.val();
        self.h_wait.next = self.h_eq.val() & self.hp.q.val();
        self.h_data.next = self.data.rdata.val();
        self.p_hit.next = self.p_eq.val() & self.pv.q.val();
        self.p_wait.next = self.p_eq.val() & self.pp.q.val();

        // start a read
        self.free.next = false;
        self.which.next = 0.into();
        self.any_act.next = false;
        for i in 0..8 {
            if self.act[i].q.val() {
                self.any_act.next = true;
            } else {
                self.free.next = true;
                self.which.next = self.slot[i].val();
            }
        }
        self.go_h.next = (self.h_miss.val() & self.free.val()) & !self.h_pend.val();
        self.p_stay.next = (self.h_miss.val() | !self.free.val()) | self.p_pend.val();
        self.go.next = self.go_h.val() | (self.p_miss.val() & !self.p_stay.val());
        self.gx.next = self.ps.q.val();
        self.gl.next = self.pl.q.val();
        if self.h_miss.val() {
            self.gx.next = self.hs.q.val();
            self.gl.next = self.hl.q.val();
        }
        self.ga.next = self.gl.val().addr;
        self.tags.we.next = self.go.val();
        self.tags.waddr.next = self.gx.val();
        self.tags.wdata.next = self.gl.val();
        self.gr.next.pasid = self.gl.val().pasid;
        self.gr.next.addr = bit_cast::<64, 52>(self.ga.val()) << 6;
        self.gr.next.len = bits::<13>(64);
        self.gr.next.tag = self.base.val() | bit_cast::<8, 3>(self.which.val());
        self.rds.s_data.next = self.gr.val();
        self.rds.s_valid.next = self.go.val();
        self.rd_valid.next = self.rds.m_valid.val();
        self.rd_data.next = self.rds.m_data.val();
        self.rds.m_ready.next = self.rd_ready.val();
        self.ev_miss.next = self.go.val();

        // fill
        self.ft.next = self.fill_data.val().tag;
        self.off.next = self.ft.val() ^ self.base.val();
        self.fslot.next = self.off.val().get_bits::<3>(0);
        self.fbank.next = self.off.val().get_bits::<5>(3);
        self.mine.next = false;
        self.fx.next = 0.into();
        self.fstale.next = self.flush.val();
        for i in 0..8 {
            if self.fslot.val() == self.slot[i].val() {
                self.fx.next = self.set[i].q.val();
                if self.stale[i].q.val() {
                    self.fstale.next = true;
                }
                self.mine.next =
                    (self.fill_valid.val() & !self.fbank.val().any()) & self.act[i].q.val();
                if self.mine.val() {
                    self.act[i].d.next = false;
                }
            }
            if self.go.val() & (self.which.val() == self.slot[i].val()) {
                self.act[i].d.next = true;
                self.stale[i].d.next = false;
                self.set[i].d.next = self.gx.val();
            }
        }
        self.fd.next.data = self.fill_data.val().data;
        self.fd.next.err = self.fill_data.val().err;
        self.data.we.next = self.mine.val();
        self.data.waddr.next = self.fx.val();
        self.data.wdata.next = self.fd.val();

        // state bits of the sets
        self.v1.next = self.valid.q.val();
        self.fhot.next = 0.into();
        self.nfhot.next = 0.into();
        self.hot.next = 0.into();
        self.nhot.next = 0.into();
        if self.mine.val() {
            self.fhot.next = self.one.val() << self.fx.val();
            self.nfhot.next = !self.fhot.val();
            self.v1.next = self.v1.val() | self.fhot.val();
            if self.fstale.val() {
                self.v1.next = self.v1.val() & self.nfhot.val();
            }
        }
        if self.h_drop.val() {
            self.hot.next = self.one.val() << self.hs.q.val();
            self.nhot.next = !self.hot.val();
            self.v1.next = self.v1.val() & self.nhot.val();
        }
        if self.go.val() {
            self.hot.next = self.one.val() << self.gx.val();
            self.nhot.next = !self.hot.val();
            self.v1.next = self.v1.val() & self.nhot.val();
        }
        if self.flush.val() | self.rst.val() {
            self.v1.next = 0.into();
        }
        self.valid.d.next = self.v1.val();
        self.idle.next = !self.any_act.val();
        if self.rst.val() {
            for i in 0..8 {
                self.act[i].d.next = false;
            }
        }
    }
}
