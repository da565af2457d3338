//! Payload reads into the transmit buffer.
//!
//! * In: `cmd` (packets, further segments, fence tokens), `chunk` (answers of [`crate::translate`], in the order of `req`), host read completions (every
//!   one is taken at once), `free_*` of the egress.
//! * Out: `req` (segments to translate), `rd` (host reads, tags `0..2^LOG_TAGS`), `desc` (frames in the order of their commands,
//!   offered only when all their payload is in the buffer or a read has failed), the read port of the buffer (word address modulo `2^LOG_TX`, data
//!   one cycle later).
//! * A frame starts at byte 0 of a buffer word; its payload lies at the byte offset that it has in the frame, behind room for the headers. The
//!   rest of the first words is undefined. Frames without payload take no words.
//! * A segment that lies in the command (`inl`) takes a tag, but no translation and no host read: its words go into the buffer when no completion does.
//! * Tags are given out and retired in ring order; completions come in any order between tags.
//! * Initiation interval: 5 cycles a packet, 2 a further segment, 2 a chunk. A command waits while the buffer has no room or 64
//!   frames wait. Latency: 4 cycles from command to translation request, 2 from chunk to host read, 5 from the last completion word to
//!   the descriptor.
//! * The sum of the segment lengths of a packet must be its `len`. `T = 2^LOG_TAGS <= 128`, `L = W / 8`.

pub mod place;

use self::place::{Place, TagEnt};
use crate::egress::hdrlen::{HdrLen, WordGeo};
use crate::packed_struct;
use crate::prims::{Fifo, LaneRam};
use crate::types::{HostRd, HostRdMeta, TxCmd, XlChunk, XlReq};
use rust_hdl::prelude::*;

packed_struct! {
    /// A frame for the egress: the header fields of its `TxCmd`, and its words in the buffer.
    pub struct TxDesc {
        /// 0 packet, 1 fence token.
        pub kind: Bits<2>,
        pub qp: Bits<12>,
        pub opcode: Bits<8>,
        pub psn: Bits<24>,
        pub ackreq: bool,
        pub se: bool,
        pub ip6: bool,
        pub vlan: bool,
        pub len: Bits<13>,
        pub va: Bits<64>,
        pub rkey: Bits<32>,
        pub dlen: Bits<32>,
        pub imm: Bits<32>,
        pub aeth: Bits<32>,
        /// Swap or add operand of an atomic.
        pub swap: Bits<64>,
        pub resp: bool,
        pub resp_end: bool,
        pub stamp: Bits<48>,
        /// First word.
        pub base: Bits<16>,
        pub words: Bits<12>,
        /// A read failed: not to be sent.
        pub fault: bool,
    }
}

packed_struct! {
    /// A segment whose translation is under way.
    pub struct Seg {
        /// Byte address in the buffer.
        pub dst: Bits<20>,
        /// Last of its packet.
        pub last: bool,
        /// It is in the command: so many bytes, no translation.
        pub inl: bool,
        pub len: Bits<6>,
    }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum St {
    Idle,
    /// Header length.
    Len,
    /// Words.
    Words,
    /// Waits for room; gives the frame its place.
    Alloc,
    /// Asks for the translation of a segment.
    Seg,
}

/// See the module.
#[derive(LogicBlock, Default)]
pub struct TxDma<
    const W: usize,
    const L: usize,
    const LOG_TX: usize,
    const LOG_TAGS: usize,
    const T: usize,
> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub cmd_valid: Signal<In, bool>,
    pub cmd_data: Signal<In, TxCmd>,
    pub cmd_ready: Signal<Out, bool>,
    pub req_valid: Signal<Out, bool>,
    pub req_data: Signal<Out, XlReq>,
    pub req_ready: Signal<In, bool>,
    pub chunk_valid: Signal<In, bool>,
    pub chunk_data: Signal<In, XlChunk>,
    pub chunk_ready: Signal<Out, bool>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub rd_ready: Signal<In, bool>,
    pub cpl_valid: Signal<In, bool>,
    pub cpl_data: Signal<In, Bits<W>>,
    pub cpl_meta: Signal<In, HostRdMeta>,
    pub desc_valid: Signal<Out, bool>,
    pub desc_data: Signal<Out, TxDesc>,
    pub desc_ready: Signal<In, bool>,
    pub buf_raddr: Signal<In, Bits<16>>,
    pub buf_rdata: Signal<Out, Bits<W>>,
    pub free_valid: Signal<In, bool>,
    pub free_words: Signal<In, Bits<12>>,
    pub idle: Signal<Out, bool>,
    k: WordGeo<L>,
    hlen: HdrLen,
    place: Place<W, L, LOG_TX, LOG_TAGS, T>,
    mem: LaneRam<W, L, LOG_TX>,
    descs: Fifo<TxDesc, 6>,
    /// Of each of `descs`: it has payload. Apart, since what hangs on it is not to begin behind a block RAM.
    loads: Fifo<bool, 6>,
    segs: Fifo<Seg, 5>,
    inls: Fifo<Bits<256>, 2>,
    ready: Fifo<bool, 6>,
    // commands
    st: DFF<St>,
    c: DFF<TxCmd>,
    hl: DFF<Bits<8>>,
    words: DFF<Bits<12>>,
    head: DFF<Bits<LOG_TX>>,
    // free words
    space: DFF<Bits<16>>,
    dst: DFF<Bits<20>>,
    rem: DFF<Bits<13>>,
    kind: Signal<Local, Bits<2>>,
    clen: Signal<Local, Bits<13>>,
    seg_len: Signal<Local, Bits<13>>,
    new_len: Signal<Local, Bits<13>>,
    /// The segment of `c` has bytes.
    seg_any: DFF<bool>,
    stop: Signal<Local, Bits<13>>,
    stop_w: Signal<Local, Bits<13>>,
    head16: Signal<Local, Bits<16>>,
    depth: Signal<Local, Bits<16>>,
    all_tx: Signal<Local, Bits<LOG_TX>>,
    zero_tx: Signal<Local, Bits<LOG_TX>>,
    want: Signal<Local, Bits<16>>,
    back: Signal<Local, Bits<16>>,
    fits: Signal<Local, bool>,
    alloc: Signal<Local, bool>,
    ask: Signal<Local, bool>,
    asked: Signal<Local, bool>,
    space1: Signal<Local, Bits<16>>,
    space2: Signal<Local, Bits<16>>,
    nd: Signal<Local, TxDesc>,
    seg: Signal<Local, Seg>,
    rq: Signal<Local, XlReq>,
    inl: Signal<Local, bool>,
    // chunks
    busy: DFF<bool>,
    ch: DFF<XlChunk>,
    ch_dst: DFF<Bits<20>>,
    ch_last: DFF<bool>,
    acc: DFF<Bits<13>>,
    // the segment at hand is `inl`
    ch_inl: DFF<bool>,
    // its words, as they go to the buffer
    ij_v: DFF<bool>,
    ij_tag: DFF<Bits<LOG_TAGS>>,
    ij_data: DFF<Bits<256>>,
    ij_left: DFF<Bits<6>>,
    ij_go: Signal<Local, bool>,
    ij_last: Signal<Local, bool>,
    ij_meta: Signal<Local, HostRdMeta>,
    can: Signal<Local, bool>,
    ch_len: Signal<Local, Bits<13>>,
    zero_ck: Signal<Local, XlChunk>,
    tail: DFF<Bits<LOG_TAGS>>,
    inuse: DFF<Bits<8>>,
    all_used: DFF<bool>,
    lastf: DFF<Bits<T>>,
    sg: Signal<Local, Seg>,
    ck: Signal<Local, XlChunk>,
    cha: Signal<Local, Bits<64>>,
    a20: Signal<Local, Bits<20>>,
    low20: Signal<Local, Bits<20>>,
    first: Signal<Local, Bits<20>>,
    gap: Signal<Local, Bits<20>>,
    after: Signal<Local, Bits<20>>,
    ent: Signal<Local, TagEnt>,
    tag_free: Signal<Local, bool>,
    give: Signal<Local, bool>,
    give_inl: Signal<Local, bool>,
    zero_tag: Signal<Local, Bits<LOG_TAGS>>,
    all_tag: Signal<Local, Bits<LOG_TAGS>>,
    full: Signal<Local, Bits<8>>,
    one: Signal<Local, Bits<T>>,
    giveb: Signal<Local, Bits<T>>,
    ngive: Signal<Local, Bits<T>>,
    rdd: Signal<Local, HostRd>,
    // tags
    oldest: DFF<Bits<LOG_TAGS>>,
    done: DFF<Bits<T>>,
    bad: DFF<Bits<T>>,
    fbad: DFF<bool>,
    retire: Signal<Local, bool>,
    old_bad: Signal<Local, bool>,
    setb: Signal<Local, Bits<T>>,
    done_n: Signal<Local, Bits<T>>,
    bad_n: Signal<Local, Bits<T>>,
    more: Signal<Local, Bits<8>>,
    less: Signal<Local, Bits<8>>,
    // descriptors
    dd: Signal<Local, TxDesc>,
    has: Signal<Local, bool>,
    dv: Signal<Local, bool>,
}

/// For `sim-100g`.
pub type TxDma512 = TxDma<512, 64, 12, 6, 64>;
/// For `ecp5-1g`.
pub type TxDma64 = TxDma<64, 8, 12, 4, 16>;

impl<
        const W: usize,
        const L: usize,
        const LOG_TX: usize,
        const LOG_TAGS: usize,
        const T: usize,
    > Logic for TxDma<W, L, LOG_TX, LOG_TAGS, T>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, st, c, hl, words, head, space, dst, rem);
        dff_setup!(self, clock, busy, ch, ch_dst, ch_last, acc, tail, inuse, all_used, lastf);
        dff_setup!(self, clock, seg_any, ch_inl, ij_v, ij_tag, ij_data, ij_left);
        dff_setup!(self, clock, oldest, done, bad, fbad);
        clock!(self, clock, place, mem, descs, loads, segs, inls, ready);
        self.place.rst.next = self.rst.val();
        self.descs.rst.next = self.rst.val();
        self.loads.rst.next = self.rst.val();
        self.segs.rst.next = self.rst.val();
        self.inls.rst.next = self.rst.val();
        self.ready.rst.next = self.rst.val();
        self.one.next = 1.into();

        // commands
        self.kind.next = self.c.q.val().kind;
        self.clen.next = self.c.q.val().len;
        self.seg_len.next = self.c.q.val().seg_len;
        self.hlen.opcode.next = self.c.q.val().opcode;
        self.hlen.ip6.next = self.c.q.val().ip6;
        self.hlen.vlan.next = self.c.q.val().vlan;
        self.stop.next = (self.clen.val() + bit_cast::<13, 8>(self.hl.q.val())) + self.k.low.val();
        self.stop_w.next = self.stop.val() >> self.k.lb.val();
        self.zero_tx.next = 0.into();
        self.all_tx.next = !self.zero_tx.val();
        self.depth.next = bit_cast::<16, LOG_TX>(self.all_tx.val()) + 1;
        self.want.next = bit_cast::<16, 12>(self.words.q.val());
        self.fits.next = (self.want.val() <= self.space.q.val()) & self.descs.s_ready.val();
        self.alloc.next = (self.st.q.val() == St::Alloc) & self.fits.val();
        self.inl.next = self.c.q.val().inl;
        self.ask.next =
            ((self.st.q.val() == St::Seg) & self.seg_any.q.val()) & self.segs.s_ready.val();
        self.asked.next = self.ask.val() & self.req_ready.val();
        if self.inl.val() {
            self.asked.next = self.ask.val() & self.inls.s_ready.val();
        }
        self.inls.s_data.next = self.c.q.val().idata;
        self.inls.s_valid.next = self.asked.val() & self.inl.val();
        self.cmd_ready.next = self.st.q.val() == St::Idle;
        self.new_len.next = self.cmd_data.val().seg_len;
        self.head16.next = bit_cast::<16, LOG_TX>(self.head.q.val());
        match self.st.q.val() {
            St::Idle => {
                if self.cmd_valid.val() {
                    self.c.d.next = self.cmd_data.val();
                    self.seg_any.d.next = self.new_len.val().any();
                    if self.cmd_data.val().first {
                        self.st.d.next = St::Len;
                    } else {
                        self.st.d.next = St::Seg;
                    }
                }
            }
            St::Len => {
                self.hl.d.next = self.hlen.info.val().hl;
                self.st.d.next = St::Words;
            }
            St::Words => {
                self.words.d.next = bit_cast::<12, 13>(self.stop_w.val());
                if !self.clen.val().any() | self.kind.val().any() {
                    self.words.d.next = 0.into();
                }
                self.st.d.next = St::Alloc;
            }
            St::Alloc => {
                self.rem.d.next = self.clen.val();
                self.dst.d.next = (bit_cast::<20, 16>(self.head16.val()) << self.k.lb.val())
                    + bit_cast::<20, 8>(self.hl.q.val());
                if self.fits.val() {
                    self.head.d.next =
                        self.head.q.val() + bit_cast::<LOG_TX, 12>(self.words.q.val());
                    if self.seg_any.q.val() {
                        self.st.d.next = St::Seg;
                    } else {
                        self.st.d.next = St::Idle;
                    }
                }
            }
            St::Seg => {
                if self.asked.val() | !self.seg_any.q.val() {
                    self.st.d.next = St::Idle;
                    self.dst.d.next = self.dst.q.val() + bit_cast::<20, 13>(self.seg_len.val());
                    self.rem.d.next = self.rem.q.val() - self.seg_len.val();
                }
            }
        }
        self.req_valid.next = self.ask.val() & !self.inl.val();
        self.rq.next.mr = self.c.q.val().seg_mr;
        self.rq.next.va = self.c.q.val().seg_va;
        self.rq.next.len = self.seg_len.val();
        self.req_data.next = self.rq.val();
        self.seg.next.dst = self.dst.q.val();
        self.seg.next.last = self.rem.q.val() == self.seg_len.val();
        self.seg.next.inl = self.inl.val();
        self.seg.next.len = self.seg_len.val().get_bits::<6>(0);
        self.segs.s_data.next = self.seg.val();
        self.segs.s_valid.next = self.asked.val();
        self.nd.next.kind = self.kind.val();
        self.nd.next.qp = self.c.q.val().qp;
        self.nd.next.opcode = self.c.q.val().opcode;
        self.nd.next.psn = self.c.q.val().psn;
        self.nd.next.ackreq = self.c.q.val().ackreq;
        self.nd.next.se = self.c.q.val().se;
        self.nd.next.ip6 = self.c.q.val().ip6;
        self.nd.next.vlan = self.c.q.val().vlan;
        self.nd.next.len = self.clen.val();
        self.nd.next.va = self.c.q.val().va;
        self.nd.next.rkey = self.c.q.val().rkey;
        self.nd.next.dlen = self.c.q.val().dlen;
        self.nd.next.imm = self.c.q.val().imm;
        self.nd.next.swap = self.c.q.val().seg_va;
        self.nd.next.aeth = self.c.q.val().aeth;
        self.nd.next.resp = self.c.q.val().resp;
        self.nd.next.resp_end = self.c.q.val().resp_end;
        self.nd.next.stamp = self.c.q.val().stamp;
        self.nd.next.base = self.head16.val();
        self.nd.next.words = self.words.q.val();
        self.nd.next.fault = false;
        self.descs.s_data.next = self.nd.val();
        self.descs.s_valid.next = self.alloc.val();
        self.loads.s_data.next = self.clen.val().any() & !self.kind.val().any();
        self.loads.s_valid.next = self.alloc.val();
        self.back.next = 0.into();
        if self.free_valid.val() {
            self.back.next = bit_cast::<16, 12>(self.free_words.val());
        }
        // both sums are there before the decision is
        self.space1.next = self.space.q.val() + self.back.val();
        self.space2.next = (self.space.q.val() + self.back.val()) - self.want.val();
        self.space.d.next = self.space1.val();
        if self.alloc.val() {
            self.space.d.next = self.space2.val();
        }

        // chunks to reads
        self.sg.next = self.segs.m_data.val();
        self.ck.next = self.chunk_data.val();
        self.chunk_ready.next = !self.busy.q.val() & (self.segs.m_valid.val() & !self.sg.val().inl);
        self.segs.m_ready.next = false;
        self.zero_ck.next.pasid = 0.into();
        self.zero_ck.next.addr = 0.into();
        self.zero_ck.next.len = bit_cast::<13, 6>(self.sg.val().len);
        self.zero_ck.next.last = true;
        self.zero_ck.next.err = false;
        if (self.segs.m_valid.val() & self.sg.val().inl) & !self.busy.q.val() {
            self.busy.d.next = true;
            self.ch_inl.d.next = true;
            self.ch.d.next = self.zero_ck.val();
            self.ch_dst.d.next = self.sg.val().dst;
            self.ch_last.d.next = self.sg.val().last;
            self.segs.m_ready.next = true;
        } else if (self.chunk_valid.val() & self.segs.m_valid.val()) & !self.busy.q.val() {
            self.busy.d.next = true;
            self.ch_inl.d.next = false;
            self.ch.d.next = self.chunk_data.val();
            self.ch_dst.d.next = self.sg.val().dst + bit_cast::<20, 13>(self.acc.q.val());
            self.ch_last.d.next = self.ck.val().last & self.sg.val().last;
            self.segs.m_ready.next = self.ck.val().last;
            self.acc.d.next = self.acc.q.val() + self.ck.val().len;
            if self.ck.val().last {
                self.acc.d.next = 0.into();
            }
        }
        self.zero_tag.next = 0.into();
        self.all_tag.next = !self.zero_tag.val();
        self.full.next = bit_cast::<8, LOG_TAGS>(self.all_tag.val()) + 1;
        self.tag_free.next = !self.all_used.q.val();
        self.rd_valid.next = (self.busy.q.val() & self.tag_free.val())
            & (!self.ch.q.val().err & !self.ch_inl.q.val());
        self.can.next = (self.ch.q.val().err | self.rd_ready.val()) & !self.ch_inl.q.val();
        // apart, so that the host port's ready has no part in it
        self.give_inl.next =
            (self.busy.q.val() & self.tag_free.val()) & (self.ch_inl.q.val() & !self.ij_v.q.val());
        self.give.next =
            ((self.busy.q.val() & self.tag_free.val()) & self.can.val()) | self.give_inl.val();
        self.rdd.next.pasid = self.ch.q.val().pasid;
        self.rdd.next.addr = self.ch.q.val().addr;
        self.rdd.next.len = self.ch.q.val().len;
        self.rdd.next.tag = bit_cast::<8, LOG_TAGS>(self.tail.q.val());
        self.rd_data.next = self.rdd.val();
        self.cha.next = self.ch.q.val().addr;
        self.a20.next = self.cha.val().get_bits::<20>(0);
        self.low20.next = bit_cast::<20, 13>(self.k.low.val());
        self.first.next = self.a20.val() & self.low20.val();
        self.gap.next = self.ch_dst.q.val() - self.first.val();
        self.after.next = self.first.val() + bit_cast::<20, 13>(self.ch.q.val().len);
        self.ent.next.word = bit_cast::<16, 20>(self.gap.val() >> self.k.lb.val());
        self.ent.next.n = bit_cast::<6, 20>(self.gap.val() & self.low20.val());
        self.ent.next.first = bit_cast::<6, 20>(self.first.val());
        self.ent.next.tail = bit_cast::<6, 20>(self.after.val() & self.low20.val());
        self.place.set_valid.next = self.give.val();
        self.place.set_tag.next = self.tail.q.val();
        self.place.set_ent.next = self.ent.val();
        self.giveb.next = self.one.val() << self.tail.q.val();
        self.ngive.next = !self.giveb.val();

        // completions
        self.place.cpl_valid.next = self.cpl_valid.val() | self.ij_v.q.val();
        self.place.cpl_data.next = self.cpl_data.val();
        self.place.cpl_meta.next = self.cpl_meta.val();
        self.ij_go.next = self.ij_v.q.val() & !self.cpl_valid.val();
        self.ij_last.next = bit_cast::<8, 6>(self.ij_left.q.val()) <= self.k.bytes.val();
        self.ij_meta.next.tag = bit_cast::<8, LOG_TAGS>(self.ij_tag.q.val());
        self.ij_meta.next.last = self.ij_last.val();
        self.ij_meta.next.err = false;
        if self.ij_go.val() {
            self.place.cpl_data.next = bit_cast::<W, 256>(self.ij_data.q.val());
            self.place.cpl_meta.next = self.ij_meta.val();
            // a word of 512 bits has all of it at once, so only the 64-bit bus gets to the next
            self.ij_data.d.next = self.ij_data.q.val() >> 64;
            self.ij_left.d.next = self.ij_left.q.val() - 8;
            self.ij_v.d.next = !self.ij_last.val();
        }
        self.ch_len.next = self.ch.q.val().len;
        self.inls.m_ready.next = self.give_inl.val();
        if self.give_inl.val() {
            self.ij_v.d.next = true;
            self.ij_tag.d.next = self.tail.q.val();
            self.ij_data.d.next = self.inls.m_data.val();
            self.ij_left.d.next = self.ch_len.val().get_bits::<6>(0);
        }
        self.mem.we.next = self.place.we.val();
        self.mem.waddr.next = self.place.waddr.val();
        self.mem.wlane.next = self.place.wlane.val();
        self.mem.wsel.next = self.place.wsel.val();
        self.mem.wdata.next = self.place.wdata.val();
        self.mem.raddr.next = bit_cast::<LOG_TX, 16>(self.buf_raddr.val());
        self.mem.rsel.next = 0.into();
        self.buf_rdata.next = self.mem.rdata.val();
        self.setb.next = self.one.val() << self.place.done_tag.val();
        self.done_n.next = self.done.q.val();
        self.bad_n.next = self.bad.q.val();
        if self.place.done_valid.val() {
            self.done_n.next = self.done.q.val() | self.setb.val();
            if self.place.done_err.val() {
                self.bad_n.next = self.bad.q.val() | self.setb.val();
            }
        }
        self.done.d.next = self.done_n.val();
        self.bad.d.next = self.bad_n.val();

        // retire tags in order
        self.retire.next =
            self.inuse.q.val().any() & self.done.q.val().get_bit(self.oldest.q.val().index());
        self.old_bad.next =
            self.fbad.q.val() | self.bad.q.val().get_bit(self.oldest.q.val().index());
        self.ready.s_valid.next = false;
        self.ready.s_data.next = self.old_bad.val();
        self.more.next = self.inuse.q.val() + 1;
        self.less.next = self.inuse.q.val() - 1;
        if self.retire.val() {
            self.oldest.d.next = self.oldest.q.val() + 1;
            self.fbad.d.next = self.old_bad.val();
            if self.lastf.q.val().get_bit(self.oldest.q.val().index()) {
                self.ready.s_valid.next = true;
                self.fbad.d.next = false;
            }
        }
        if self.retire.val() & !self.give.val() {
            self.inuse.d.next = self.less.val();
            self.all_used.d.next = false;
        }
        if self.give.val() {
            if !self.retire.val() {
                self.inuse.d.next = self.more.val();
                self.all_used.d.next = self.more.val() == self.full.val();
            }
            self.busy.d.next = false;
            self.tail.d.next = self.tail.q.val() + 1;
            self.done.d.next = self.done_n.val() & self.ngive.val();
            self.bad.d.next = self.bad_n.val() & self.ngive.val();
            self.lastf.d.next = self.lastf.q.val() & self.ngive.val();
            if self.ch.q.val().err {
                self.done.d.next = self.done_n.val() | self.giveb.val();
                self.bad.d.next = self.bad_n.val() | self.giveb.val();
            }
            if self.ch_last.q.val() {
                self.lastf.d.next = self.lastf.q.val() | self.giveb.val();
            }
        }

        // descriptors
        self.dd.next = self.descs.m_data.val();
        self.has.next = self.loads.m_data.val();
        self.dv.next = self.descs.m_valid.val() & (!self.has.val() | self.ready.m_valid.val());
        self.desc_valid.next = self.dv.val();
        self.desc_data.next = self.dd.val();
        if self.has.val() {
            self.desc_data.next.fault = self.ready.m_data.val();
        }
        self.descs.m_ready.next = self.dv.val() & self.desc_ready.val();
        self.loads.m_ready.next = self.dv.val() & self.desc_ready.val();
        self.ready.m_ready.next = (self.dv.val() & self.desc_ready.val()) & self.has.val();

        self.idle.next = ((self.st.q.val() == St::Idle) & !self.cmd_valid.val())
            & (!self.busy.q.val() & (!self.descs.m_valid.val() & !self.inuse.q.val().any()));
        if self.rst.val() {
            self.st.d.next = St::Idle;
            self.head.d.next = 0.into();
            self.space.d.next = self.depth.val();
            self.busy.d.next = false;
            self.ij_v.d.next = false;
            self.acc.d.next = 0.into();
            self.tail.d.next = 0.into();
            self.oldest.d.next = 0.into();
            self.inuse.d.next = 0.into();
            self.all_used.d.next = false;
            self.done.d.next = 0.into();
            self.bad.d.next = 0.into();
            self.fbad.d.next = false;
        }
    }
}
