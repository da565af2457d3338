//! Host port: read arbitration, completions by tag, write arbitration.

use crate::prims::{Arb2, Arb3, Half, SdpRam};
use crate::types::*;
use array_init::array_init;
use rust_hdl::prelude::*;

/// Merges the card's read requests and writes, and splits read completions.
///
/// * `W` bus bits, `U` = 512 / `W` words per 64-byte unit.
/// * Reads: `rd0`..`rd5` (payload DMA, send fetch, receive fetch, two translations, commands) merge round robin into `rd`;
///   latency 3, one request a cycle, of each requester one in two. Two groups of three share the port evenly, so no requester waits for more than five others.
/// * Completions (no back-pressure): tags below 0x80 leave on `pay` one cycle later; others are collected per tag into whole
///   units and leave on `fill` three cycles after the last word of the unit. Words of different tags may interleave freely; one
///   word a cycle. A refused read gives one unit with `last` and `err`, whatever had arrived before.
/// * Writes: whole requests (`sop`..`eop`) from `wr0` (placement) and `wr1` (commands) in turn; combinational, one word a cycle. Whose turn it is
///   is a register, so that no ready of one hangs on the valid of the other: `wr1` waits a cycle for its turn, which ends with its request.
///   A write that was taken is at the host before any read that is asked for later.
/// * `ev_*` pulse once per accepted request; `*_len` is its length in that cycle, else zero.
#[derive(LogicBlock)]
pub struct HostPort<const W: usize, const U: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub rd0_valid: Signal<In, bool>,
    pub rd0_data: Signal<In, HostRd>,
    pub rd0_ready: Signal<Out, bool>,
    pub rd1_valid: Signal<In, bool>,
    pub rd1_data: Signal<In, HostRd>,
    pub rd1_ready: Signal<Out, bool>,
    pub rd2_valid: Signal<In, bool>,
    pub rd2_data: Signal<In, HostRd>,
    pub rd2_ready: Signal<Out, bool>,
    pub rd3_valid: Signal<In, bool>,
    pub rd3_data: Signal<In, HostRd>,
    pub rd3_ready: Signal<Out, bool>,
    pub rd4_valid: Signal<In, bool>,
    pub rd4_data: Signal<In, HostRd>,
    pub rd4_ready: Signal<Out, bool>,
    pub rd5_valid: Signal<In, bool>,
    pub rd5_data: Signal<In, HostRd>,
    pub rd5_ready: Signal<Out, bool>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub rd_ready: Signal<In, bool>,
    pub hrd_valid: Signal<In, bool>,
    pub hrd_data: Signal<In, Bits<W>>,
    pub hrd_meta: Signal<In, HostRdMeta>,
    pub pay_valid: Signal<Out, bool>,
    pub pay_data: Signal<Out, Bits<W>>,
    pub pay_meta: Signal<Out, HostRdMeta>,
    pub fill_valid: Signal<Out, bool>,
    pub fill_data: Signal<Out, CtlFill>,
    pub wr0_valid: Signal<In, bool>,
    pub wr0_data: Signal<In, Bits<W>>,
    pub wr0_meta: Signal<In, HostWrMeta>,
    pub wr0_ready: Signal<Out, bool>,
    pub wr1_valid: Signal<In, bool>,
    pub wr1_data: Signal<In, Bits<W>>,
    pub wr1_meta: Signal<In, HostWrMeta>,
    pub wr1_ready: Signal<Out, bool>,
    pub wr_valid: Signal<Out, bool>,
    pub wr_data: Signal<Out, Bits<W>>,
    pub wr_meta: Signal<Out, HostWrMeta>,
    pub wr_ready: Signal<In, bool>,
    pub ev_host_reads: Signal<Out, bool>,
    pub ev_host_reads_len: Signal<Out, Bits<13>>,
    pub ev_host_writes: Signal<Out, bool>,
    pub ev_host_writes_len: Signal<Out, Bits<13>>,
    pub idle: Signal<Out, bool>,
    /// Requests as they come: no ready of a requester hangs on the valid of another.
    cut: [Half<HostRd>; 6],
    grp_a: Arb3<HostRd>,
    grp_b: Arb3<HostRd>,
    both: Arb2<HostRd>,
    // completions, stage 1: the word as it came
    s1_v: DFF<bool>,
    s1_d: DFF<Bits<W>>,
    s1_m: DFF<HostRdMeta>,
    // words of each tag that wait for the rest of their unit
    cnt: SdpRam<Bits<3>, 7>,
    fwd_v: DFF<bool>,
    fwd_tag: DFF<Bits<7>>,
    fwd_n: DFF<Bits<3>>,
    part: [SdpRam<Bits<W>, 7>; U],
    // stage 2: unit complete, being read; stage 3: out
    s2_v: DFF<bool>,
    s2_m: DFF<HostRdMeta>,
    s3_v: DFF<bool>,
    s3_m: DFF<HostRdMeta>,
    // writes
    w_lock: DFF<bool>,
    w_sel: DFF<bool>,
    idx: [Constant<Bits<3>>; U],
    shift: [Constant<Bits<16>>; U],
    last_word: Constant<Bits<3>>,
    in_m: Signal<Local, HostRdMeta>,
    in_tag: Signal<Local, Bits<8>>,
    m1: Signal<Local, HostRdMeta>,
    tag1: Signal<Local, Bits<8>>,
    ctl1: Signal<Local, bool>,
    n: Signal<Local, Bits<3>>,
    n_inc: Signal<Local, Bits<3>>,
    n_next: Signal<Local, Bits<3>>,
    done: Signal<Local, bool>,
    m2: Signal<Local, HostRdMeta>,
    tag2: Signal<Local, Bits<8>>,
    m3: Signal<Local, HostRdMeta>,
    word: Signal<Local, Bits<W>>,
    acc: Signal<Local, Bits<512>>,
    fill: Signal<Local, CtlFill>,
    rd_m: Signal<Local, HostRd>,
    any_cut: Signal<Local, bool>,
    w_end: Signal<Local, bool>,
    w_have: Signal<Local, bool>,
    w_m: Signal<Local, HostWrMeta>,
}

impl<const W: usize, const U: usize> Default for HostPort<W, U> {
    fn default() -> Self {
        assert!(W * U == 512 && U <= 8, "HostPort<{W},{U}>: U is 512 / W");
        Self {
            clock: Default::default(),
            rst: Default::default(),
            rd0_valid: Default::default(),
            rd0_data: Default::default(),
            rd0_ready: Default::default(),
            rd1_valid: Default::default(),
            rd1_data: Default::default(),
            rd1_ready: Default::default(),
            rd2_valid: Default::default(),
            rd2_data: Default::default(),
            rd2_ready: Default::default(),
            rd3_valid: Default::default(),
            rd3_data: Default::default(),
            rd3_ready: Default::default(),
            rd4_valid: Default::default(),
            rd4_data: Default::default(),
            rd4_ready: Default::default(),
            rd5_valid: Default::default(),
            rd5_data: Default::default(),
            rd5_ready: Default::default(),
            rd_valid: Default::default(),
            rd_data: Default::default(),
            rd_ready: Default::default(),
            hrd_valid: Default::default(),
            hrd_data: Default::default(),
            hrd_meta: Default::default(),
            pay_valid: Default::default(),
            pay_data: Default::default(),
            pay_meta: Default::default(),
            fill_valid: Default::default(),
            fill_data: Default::default(),
            wr0_valid: Default::default(),
            wr0_data: Default::default(),
            wr0_meta: Default::default(),
            wr0_ready: Default::default(),
            wr1_valid: Default::default(),
            wr1_data: Default::default(),
            wr1_meta: Default::default(),
            wr1_ready: Default::default(),
            wr_valid: Default::default(),
            wr_data: Default::default(),
            wr_meta: Default::default(),
            wr_ready: Default::default(),
            ev_host_reads: Default::default(),
            ev_host_reads_len: Default::default(),
            ev_host_writes: Default::default(),
            ev_host_writes_len: Default::default(),
            idle: Default::default(),
            cut: array_init(|_| Default::default()),
            grp_a: Default::default(),
            grp_b: Default::default(),
            both: Default::default(),
            s1_v: Default::default(),
            s1_d: Default::default(),
            s1_m: Default::default(),
            cnt: Default::default(),
            fwd_v: Default::default(),
            fwd_tag: Default::default(),
            fwd_n: Default::default(),
            part: array_init(|_| Default::default()),
            s2_v: Default::default(),
            s2_m: Default::default(),
            s3_v: Default::default(),
            s3_m: Default::default(),
            w_lock: Default::default(),
            w_sel: Default::default(),
            idx: array_init(|i| Constant::new((i as u64).into())),
            shift: array_init(|i| Constant::new(((i * W) as u64).into())),
            last_word: Constant::new((U as u64 - 1).into()),
            in_m: Default::default(),
            in_tag: Default::default(),
            m1: Default::default(),
            tag1: Default::default(),
            ctl1: Default::default(),
            n: Default::default(),
            n_inc: Default::default(),
            n_next: Default::default(),
            done: Default::default(),
            m2: Default::default(),
            tag2: Default::default(),
            m3: Default::default(),
            word: Default::default(),
            acc: Default::default(),
            fill: Default::default(),
            rd_m: Default::default(),
            any_cut: Default::default(),
            w_end: Default::default(),
            w_have: Default::default(),
            w_m: Default::default(),
        }
    }
}

impl<const W: usize, const U: usize> Logic for HostPort<W, U> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, s1_v, s1_d, s1_m, fwd_v, fwd_tag, fwd_n, s2_v, s2_m, s3_v, s3_m);
        dff_setup!(self, clock, w_lock, w_sel);
        clock!(self, clock, grp_a, grp_b, both, cnt);

        // reads
        self.any_cut.next = false;
        for i in 0..6 {
            self.cut[i].clock.next = self.clock.val();
            self.cut[i].rst.next = self.rst.val();
            if self.cut[i].m_valid.val() {
                self.any_cut.next = true;
            }
        }
        self.grp_a.rst.next = self.rst.val();
        self.grp_b.rst.next = self.rst.val();
        self.both.rst.next = self.rst.val();
        self.cut[0].s_valid.next = self.rd0_valid.val();
        self.cut[0].s_data.next = self.rd0_data.val();
        self.rd0_ready.next = self.cut[0].s_ready.val();
        self.grp_a.s_valid[0].next = self.cut[0].m_valid.val();
        self.grp_a.s_data[0].next = self.cut[0].m_data.val();
        self.cut[0].m_ready.next = self.grp_a.s_ready[0].val();
        self.cut[3].s_valid.next = self.rd3_valid.val();
        self.cut[3].s_data.next = self.rd3_data.val();
        self.rd3_ready.next = self.cut[3].s_ready.val();
        self.grp_a.s_valid[1].next = self.cut[3].m_valid.val();
        self.grp_a.s_data[1].next = self.cut[3].m_data.val();
        self.cut[3].m_ready.next = self.grp_a.s_ready[1].val();
        self.cut[5].s_valid.next = self.rd5_valid.val();
        self.cut[5].s_data.next = self.rd5_data.val();
        self.rd5_ready.next = self.cut[5].s_ready.val();
        self.grp_a.s_valid[2].next = self.cut[5].m_valid.val();
        self.grp_a.s_data[2].next = self.cut[5].m_data.val();
        self.cut[5].m_ready.next = self.grp_a.s_ready[2].val();
        self.cut[1].s_valid.next = self.rd1_valid.val();
        self.cut[1].s_data.next = self.rd1_data.val();
        self.rd1_ready.next = self.cut[1].s_ready.val();
        self.grp_b.s_valid[0].next = self.cut[1].m_valid.val();
        self.grp_b.s_data[0].next = self.cut[1].m_data.val();
        self.cut[1].m_ready.next = self.grp_b.s_ready[0].val();
        self.cut[2].s_valid.next = self.rd2_valid.val();
        self.cut[2].s_data.next = self.rd2_data.val();
        self.rd2_ready.next = self.cut[2].s_ready.val();
        self.grp_b.s_valid[1].next = self.cut[2].m_valid.val();
        self.grp_b.s_data[1].next = self.cut[2].m_data.val();
        self.cut[2].m_ready.next = self.grp_b.s_ready[1].val();
        self.cut[4].s_valid.next = self.rd4_valid.val();
        self.cut[4].s_data.next = self.rd4_data.val();
        self.rd4_ready.next = self.cut[4].s_ready.val();
        self.grp_b.s_valid[2].next = self.cut[4].m_valid.val();
        self.grp_b.s_data[2].next = self.cut[4].m_data.val();
        self.cut[4].m_ready.next = self.grp_b.s_ready[2].val();
        self.both.s_valid[0].next = self.grp_a.m_valid.val();
        self.both.s_data[0].next = self.grp_a.m_data.val();
        self.grp_a.m_ready.next = self.both.s_ready[0].val();
        self.both.s_valid[1].next = self.grp_b.m_valid.val();
        self.both.s_data[1].next = self.grp_b.m_data.val();
        self.grp_b.m_ready.next = self.both.s_ready[1].val();
        self.both.m_ready.next = self.rd_ready.val();
        self.rd_m.next = self.both.m_data.val();
        self.rd_valid.next = self.both.m_valid.val();
        self.rd_data.next = self.rd_m.val();
        self.ev_host_reads.next = self.both.m_valid.val() & self.rd_ready.val();
        self.ev_host_reads_len.next = 0.into();
        if self.both.m_valid.val() & self.rd_ready.val() {
            self.ev_host_reads_len.next = self.rd_m.val().len;
        }

        // completions
        self.in_m.next = self.hrd_meta.val();
        self.in_tag.next = self.in_m.val().tag;
        self.s1_v.d.next = self.hrd_valid.val();
        self.s1_d.d.next = self.hrd_data.val();
        self.s1_m.d.next = self.hrd_meta.val();
        self.cnt.raddr.next = self.in_tag.val().get_bits::<7>(0);
        self.m1.next = self.s1_m.q.val();
        self.tag1.next = self.m1.val().tag;
        self.pay_valid.next = self.s1_v.q.val() & !self.tag1.val().get_bit(7);
        self.pay_data.next = self.s1_d.q.val();
        self.pay_meta.next = self.m1.val();
        self.ctl1.next = self.s1_v.q.val() & self.tag1.val().get_bit(7);
        self.n.next = self.cnt.rdata.val();
        if self.fwd_v.q.val() & (self.fwd_tag.q.val() == self.tag1.val().get_bits::<7>(0)) {
            self.n.next = self.fwd_n.q.val();
        }
        self.done.next = (self.n.val() == self.last_word.val()) | self.m1.val().last;
        self.n_inc.next = self.n.val() + 1;
        self.n_next.next = self.n_inc.val();
        if self.done.val() {
            self.n_next.next = 0.into();
        }
        self.cnt.we.next = self.ctl1.val();
        self.cnt.waddr.next = self.tag1.val().get_bits::<7>(0);
        self.cnt.wdata.next = self.n_next.val();
        self.fwd_v.d.next = self.ctl1.val();
        self.fwd_tag.d.next = self.tag1.val().get_bits::<7>(0);
        self.fwd_n.d.next = self.n_next.val();
        self.s2_v.d.next = self.ctl1.val() & self.done.val();
        self.s2_m.d.next = self.m1.val();
        self.m2.next = self.s2_m.q.val();
        self.tag2.next = self.m2.val().tag;
        self.acc.next = 0.into();
        for i in 0..U {
            self.part[i].clock.next = self.clock.val();
            self.part[i].we.next = self.ctl1.val() & (self.n.val() == self.idx[i].val());
            self.part[i].waddr.next = self.tag1.val().get_bits::<7>(0);
            self.part[i].wdata.next = self.s1_d.q.val();
            self.part[i].raddr.next = self.tag2.val().get_bits::<7>(0);
            self.word.next = self.part[i].rdata.val();
            self.acc.next =
                self.acc.val() | (bit_cast::<512, W>(self.word.val()) << self.shift[i].val());
        }
        self.s3_v.d.next = self.s2_v.q.val();
        self.s3_m.d.next = self.m2.val();
        self.m3.next = self.s3_m.q.val();
        self.fill.next.data = self.acc.val();
        self.fill.next.tag = self.m3.val().tag;
        self.fill.next.last = self.m3.val().last;
        self.fill.next.err = self.m3.val().err;
        self.fill_valid.next = self.s3_v.q.val();
        self.fill_data.next = self.fill.val();

        // writes: straight through, so that what was taken from the placement is with the host
        self.w_have.next = self.wr0_valid.val();
        self.w_m.next = self.wr0_meta.val();
        self.wr_data.next = self.wr0_data.val();
        if self.w_sel.q.val() {
            self.w_have.next = self.wr1_valid.val();
            self.w_m.next = self.wr1_meta.val();
            self.wr_data.next = self.wr1_data.val();
        }
        self.wr0_ready.next = self.wr_ready.val() & !self.w_sel.q.val();
        self.wr1_ready.next = self.wr_ready.val() & self.w_sel.q.val();
        self.wr_valid.next = self.w_have.val();
        self.wr_meta.next = self.w_m.val();
        // a word that was offered stays, and its request goes on to the end
        self.w_end.next = !self.w_lock.q.val();
        if self.w_have.val() {
            self.w_end.next = self.wr_ready.val() & self.w_m.val().eop;
            self.w_lock.d.next = !self.w_end.val();
        }
        if self.w_end.val() {
            self.w_sel.d.next = self.wr1_valid.val() & !self.w_sel.q.val();
        }
        self.ev_host_writes.next = (self.wr_ready.val() & self.w_have.val()) & self.w_m.val().sop;
        self.ev_host_writes_len.next = 0.into();
        if (self.wr_ready.val() & self.w_have.val()) & self.w_m.val().sop {
            self.ev_host_writes_len.next = self.w_m.val().len;
        }

        self.idle.next = !self.any_cut.val()
            & !self.grp_a.m_valid.val()
            & !self.grp_b.m_valid.val()
            & !self.both.m_valid.val()
            & !self.s1_v.q.val()
            & !self.s2_v.q.val()
            & !self.s3_v.q.val()
            & !self.w_lock.q.val();
        if self.rst.val() {
            self.s1_v.d.next = false;
            self.fwd_v.d.next = false;
            self.s2_v.d.next = false;
            self.s3_v.d.next = false;
            self.w_lock.d.next = false;
            self.w_sel.d.next = false;
        }
    }
}
