//! Frames from the rings of processes to the wire.

use super::{RawMsg, RawQueue};
use crate::egress::build::FrameMeta;
use crate::packed_struct;
use crate::prims::{Fifo, SdpRam};
use crate::types::{HostRd, HostRdMeta, HostWrMeta};
use metaroce_hdl_spec::regs::{RAW_TX_MAX, RAW_TX_MIN};
use rust_hdl::prelude::*;

packed_struct! {
    /// A frame that is being read, or whose turn it is not yet.
    pub struct RawFrame {
        /// Nothing is read, nothing is sent.
        pub bad: bool,
        pub pasid: Bits<12>,
        /// Words in the transmit buffer, and bytes without ICRC.
        pub base: Bits<16>,
        pub words: Bits<12>,
        pub len: Bits<13>,
        /// Where the first 128 bytes are kept.
        pub slot: Bits<6>,
        /// Block that says what has been read, and what it says then.
        pub addr: Bits<64>,
        pub upto: Bits<16>,
    }
}
packed_struct! {
    /// A block that says how far a ring has been read.
    pub struct RawDone { pub pasid: Bits<12>, pub addr: Bits<64>, pub upto: Bits<16> }
}
packed_struct! {
    /// A frame that is whole.
    pub struct RawOut {
        pub skip: bool,
        pub base: Bits<16>,
        pub words: Bits<12>,
        pub len: Bits<13>,
        pub slot: Bits<6>,
    }
}
packed_struct! {
    /// Where the words of a read go.
    pub struct RawTag {
        pub word: Bits<16>,
        pub slot: Bits<6>,
        /// The first of its frame.
        pub first: bool,
        /// Bytes of the last word, 0 for all.
        pub tail: Bits<6>,
    }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum St {
    Idle,
    /// The ring is there.
    Look,
    /// Addresses.
    Sum,
    /// Waits for room.
    Alloc,
    /// Asks for the frame, piece by piece.
    Read,
}

/// Reads frames from host memory into the transmit buffer and offers them to the stream of the egress when they are whole, in the order of their doorbells.
///
/// * `LP`: log2 of PASIDs; `LT`: log2 of buffer words of 64 bytes; `LG`: log2 of read tags (`0..2^LG`), `T = 2^LG`.
/// * `msg`: rings and frames to send ([`RawMsg`]). A ring whose log2 is not 2..=10 is off. A frame for a ring that is off is dropped; one whose length is
///   not 54..=4206 or not 2 modulo 4 (what a RoCEv2 frame always is), or that can't be read, is dropped in its turn and counts as read. Each gives a
///   pulse of `ev_refused`.
/// * `wr`: when all frames up to an index have been read, in order, 64 bytes with the next index behind the last slot of the ring.
/// * `f`, `buf`, `free`: to [`crate::egress::stream::Stream`]. The first 128 bytes of a frame are its header there; they are kept apart as they come in.
/// * Reads are as long as `mrrs_log` allows; they are aligned to their length, so none crosses 4 KiB. Completions come in any order between tags.
/// * Initiation interval: 6 cycles a frame, one cycle a read. Latency: 6 cycles from doorbell to read, 8 from the last completion word to `f`. Up to 64 frames wait.
#[derive(LogicBlock)]
pub struct RawTx<const LP: usize, const LT: usize, const LG: usize, const T: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    /// log2 of the longest host read.
    pub mrrs_log: Signal<In, Bits<4>>,
    pub msg_valid: Signal<In, bool>,
    pub msg_data: Signal<In, RawMsg>,
    pub msg_ready: Signal<Out, bool>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub rd_ready: Signal<In, bool>,
    pub cpl_valid: Signal<In, bool>,
    pub cpl_data: Signal<In, Bits<512>>,
    pub cpl_meta: Signal<In, HostRdMeta>,
    pub wr_valid: Signal<Out, bool>,
    pub wr_data: Signal<Out, Bits<512>>,
    pub wr_meta: Signal<Out, HostWrMeta>,
    pub wr_ready: Signal<In, bool>,
    pub f_valid: Signal<Out, bool>,
    pub f_meta: Signal<Out, FrameMeta>,
    pub f_hdr: Signal<Out, Bits<1024>>,
    pub f_ready: Signal<In, bool>,
    pub buf_raddr: Signal<In, Bits<16>>,
    pub buf_rdata: Signal<Out, Bits<512>>,
    pub free_valid: Signal<In, bool>,
    pub free_words: Signal<In, Bits<12>>,
    pub ev_refused: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    rings: SdpRam<RawQueue, LP>,
    // rings that are on
    on: DFF<Bits<64>>,
    frames: Fifo<RawFrame, 6>,
    ready: Fifo<bool, 6>,
    dones: Fifo<RawDone, 4>,
    outs: Fifo<RawOut, 6>,
    mem: SdpRam<Bits<512>, LT>,
    ents: SdpRam<RawTag, LG>,
    counts: SdpRam<Bits<7>, LG>,
    // the first 128 bytes of each frame, by `slot`
    hdr_lo: SdpRam<Bits<512>, 6>,
    hdr_hi: SdpRam<Bits<512>, 6>,
    // doorbells
    st: DFF<St>,
    m: DFF<RawMsg>,
    base: DFF<Bits<36>>,
    off: DFF<Bits<24>>,
    past: DFF<Bits<24>>,
    addr: DFF<Bits<64>>,
    done_addr: DFF<Bits<64>>,
    len: DFF<Bits<13>>,
    words: DFF<Bits<12>>,
    bad: DFF<bool>,
    rem: DFF<Bits<13>>,
    dst: DFF<Bits<LT>>,
    first: DFF<bool>,
    slot: DFF<Bits<6>>,
    live: DFF<Bits<7>>,
    head: DFF<Bits<LT>>,
    enough: DFF<bool>,
    space: DFF<Bits<16>>,
    mr: Signal<Local, RawMsg>,
    mq: Signal<Local, RawMsg>,
    pasid: Signal<Local, Bits<12>>,
    p6: Signal<Local, Bits<6>>,
    is_on: Signal<Local, bool>,
    on_n: Signal<Local, bool>,
    data: Signal<Local, Bits<64>>,
    q: Signal<Local, RawQueue>,
    nq: Signal<Local, RawQueue>,
    log: Signal<Local, Bits<5>>,
    nlog: Signal<Local, Bits<5>>,
    one11: Signal<Local, Bits<11>>,
    slots: Signal<Local, Bits<11>>,
    mask: Signal<Local, Bits<11>>,
    idx: Signal<Local, Bits<11>>,
    blen: Signal<Local, Bits<16>>,
    blen2: Signal<Local, Bits<2>>,
    up: Signal<Local, Bits<13>>,
    want: Signal<Local, Bits<16>>,
    fits: Signal<Local, bool>,
    alloc: Signal<Local, bool>,
    nf: Signal<Local, RawFrame>,
    page64: Signal<Local, Bits<64>>,
    mrrs: Signal<Local, Bits<13>>,
    one13: Signal<Local, Bits<13>>,
    short: Signal<Local, bool>,
    chunk: Signal<Local, Bits<13>>,
    chunk_words: Signal<Local, Bits<13>>,
    ask: Signal<Local, bool>,
    asked: Signal<Local, bool>,
    rdd: Signal<Local, HostRd>,
    ent: Signal<Local, RawTag>,
    // tags
    tail: DFF<Bits<LG>>,
    oldest: DFF<Bits<LG>>,
    inuse: DFF<Bits<8>>,
    done: DFF<Bits<T>>,
    bads: DFF<Bits<T>>,
    lastf: DFF<Bits<T>>,
    fresh: DFF<Bits<T>>,
    fbad: DFF<bool>,
    full: Constant<Bits<8>>,
    one: Signal<Local, Bits<T>>,
    giveb: Signal<Local, Bits<T>>,
    ngive: Signal<Local, Bits<T>>,
    cameb: Signal<Local, Bits<T>>,
    badb: Signal<Local, Bits<T>>,
    ncame: Signal<Local, Bits<T>>,
    old_last: Signal<Local, bool>,
    old_bad: Signal<Local, bool>,
    retire: Signal<Local, bool>,
    // completions
    v1: DFF<bool>,
    d1: DFF<Bits<512>>,
    m1: DFF<HostRdMeta>,
    fv: DFF<bool>,
    ft: DFF<Bits<LG>>,
    fc: DFF<Bits<7>>,
    v2: DFF<bool>,
    d2: DFF<Bits<512>>,
    a2: DFF<Bits<LT>>,
    s2: DFF<Bits<6>>,
    lo2: DFF<bool>,
    hi2: DFF<bool>,
    last2: DFF<bool>,
    err2: DFF<bool>,
    t2: DFF<Bits<LG>>,
    tag8: Signal<Local, Bits<8>>,
    tag: Signal<Local, Bits<LG>>,
    tag1: Signal<Local, Bits<LG>>,
    e1: Signal<Local, RawTag>,
    cnt: Signal<Local, Bits<7>>,
    cnt1: Signal<Local, Bits<7>>,
    zero: Signal<Local, Bits<512>>,
    all: Signal<Local, Bits<512>>,
    over: Signal<Local, Bits<512>>,
    keep: Signal<Local, Bits<512>>,
    sh: Signal<Local, Bits<12>>,
    tailb: Signal<Local, Bits<6>>,
    // whole frames
    f: Signal<Local, RawFrame>,
    fault: Signal<Local, bool>,
    whole: Signal<Local, bool>,
    nd: Signal<Local, RawDone>,
    no: Signal<Local, RawOut>,
    refused: DFF<bool>,
    d: Signal<Local, RawDone>,
    // to the wire
    look: DFF<bool>,
    ov: DFF<bool>,
    om: DFF<FrameMeta>,
    oh: DFF<Bits<1024>>,
    o: Signal<Local, RawOut>,
    olen: Signal<Local, Bits<13>>,
    or6: Signal<Local, Bits<6>>,
    oe6: Signal<Local, Bits<6>>,
    oc6: Signal<Local, Bits<6>>,
    ow: Signal<Local, Bits<7>>,
    et: Signal<Local, Bits<16>>,
    et2: Signal<Local, Bits<16>>,
    h0: Signal<Local, Bits<512>>,
    h1: Signal<Local, Bits<512>>,
    vlan: Signal<Local, bool>,
    ip6: Signal<Local, bool>,
    give: Signal<Local, bool>,
    sp1: Signal<Local, Bits<16>>,
    sp2: Signal<Local, Bits<16>>,
    lv1: Signal<Local, Bits<7>>,
    in1: Signal<Local, Bits<8>>,
    c_vlan: Constant<Bits<16>>,
    c_v6: Constant<Bits<16>>,
    c_min: Constant<Bits<16>>,
    c_max: Constant<Bits<16>>,
    depth: Constant<Bits<16>>,
}

impl<const LP: usize, const LT: usize, const LG: usize, const T: usize> Default
    for RawTx<LP, LT, LG, T>
{
    fn default() -> Self {
        assert!(T == 1 << LG && LG <= 7 && LT < 16 && LP <= 6);
        Self {
            clock: Default::default(),
            rst: Default::default(),
            mrrs_log: Default::default(),
            msg_valid: Default::default(),
            msg_data: Default::default(),
            msg_ready: Default::default(),
            rd_valid: Default::default(),
            rd_data: Default::default(),
            rd_ready: Default::default(),
            cpl_valid: Default::default(),
            cpl_data: Default::default(),
            cpl_meta: Default::default(),
            wr_valid: Default::default(),
            wr_data: Default::default(),
            wr_meta: Default::default(),
            wr_ready: Default::default(),
            f_valid: Default::default(),
            f_meta: Default::default(),
            f_hdr: Default::default(),
            f_ready: Default::default(),
            buf_raddr: Default::default(),
            buf_rdata: Default::default(),
            free_valid: Default::default(),
            free_words: Default::default(),
            ev_refused: Default::default(),
            idle: Default::default(),
            rings: Default::default(),
            on: Default::default(),
            p6: Default::default(),
            is_on: Default::default(),
            on_n: Default::default(),
            frames: Default::default(),
            ready: Default::default(),
            dones: Default::default(),
            outs: Default::default(),
            mem: Default::default(),
            ents: Default::default(),
            counts: Default::default(),
            hdr_lo: Default::default(),
            hdr_hi: Default::default(),
            st: Default::default(),
            m: Default::default(),
            base: Default::default(),
            off: Default::default(),
            past: Default::default(),
            addr: Default::default(),
            done_addr: Default::default(),
            len: Default::default(),
            words: Default::default(),
            bad: Default::default(),
            rem: Default::default(),
            dst: Default::default(),
            first: Default::default(),
            slot: Default::default(),
            live: Default::default(),
            head: Default::default(),
            enough: Default::default(),
            space: Default::default(),
            mr: Default::default(),
            mq: Default::default(),
            pasid: Default::default(),
            data: Default::default(),
            q: Default::default(),
            nq: Default::default(),
            log: Default::default(),
            nlog: Default::default(),
            one11: Default::default(),
            slots: Default::default(),
            mask: Default::default(),
            idx: Default::default(),
            blen: Default::default(),
            blen2: Default::default(),
            up: Default::default(),
            want: Default::default(),
            fits: Default::default(),
            alloc: Default::default(),
            nf: Default::default(),
            page64: Default::default(),
            mrrs: Default::default(),
            one13: Default::default(),
            short: Default::default(),
            chunk: Default::default(),
            chunk_words: Default::default(),
            ask: Default::default(),
            asked: Default::default(),
            rdd: Default::default(),
            ent: Default::default(),
            tail: Default::default(),
            oldest: Default::default(),
            inuse: Default::default(),
            done: Default::default(),
            bads: Default::default(),
            lastf: Default::default(),
            fresh: Default::default(),
            fbad: Default::default(),
            full: Constant::new((1u64 << LG).into()),
            one: Default::default(),
            giveb: Default::default(),
            ngive: Default::default(),
            cameb: Default::default(),
            badb: Default::default(),
            ncame: Default::default(),
            old_last: Default::default(),
            old_bad: Default::default(),
            retire: Default::default(),
            v1: Default::default(),
            d1: Default::default(),
            m1: Default::default(),
            fv: Default::default(),
            ft: Default::default(),
            fc: Default::default(),
            v2: Default::default(),
            d2: Default::default(),
            a2: Default::default(),
            s2: Default::default(),
            lo2: Default::default(),
            hi2: Default::default(),
            last2: Default::default(),
            err2: Default::default(),
            t2: Default::default(),
            tag8: Default::default(),
            tag: Default::default(),
            tag1: Default::default(),
            e1: Default::default(),
            cnt: Default::default(),
            cnt1: Default::default(),
            zero: Default::default(),
            all: Default::default(),
            over: Default::default(),
            keep: Default::default(),
            sh: Default::default(),
            tailb: Default::default(),
            f: Default::default(),
            fault: Default::default(),
            whole: Default::default(),
            nd: Default::default(),
            no: Default::default(),
            refused: Default::default(),
            d: Default::default(),
            look: Default::default(),
            ov: Default::default(),
            om: Default::default(),
            oh: Default::default(),
            o: Default::default(),
            olen: Default::default(),
            or6: Default::default(),
            oe6: Default::default(),
            oc6: Default::default(),
            ow: Default::default(),
            et: Default::default(),
            et2: Default::default(),
            h0: Default::default(),
            h1: Default::default(),
            vlan: Default::default(),
            ip6: Default::default(),
            give: Default::default(),
            sp1: Default::default(),
            sp2: Default::default(),
            lv1: Default::default(),
            in1: Default::default(),
            c_vlan: Constant::new(0x0081u64.into()),
            c_v6: Constant::new(0xDD86u64.into()),
            c_min: Constant::new((RAW_TX_MIN as u64).into()),
            c_max: Constant::new((RAW_TX_MAX as u64).into()),
            depth: Constant::new((1u64 << LT).into()),
        }
    }
}

impl<const LP: usize, const LT: usize, const LG: usize, const T: usize> Logic
    for RawTx<LP, LT, LG, T>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, st, m, base, off, past, addr, done_addr, len, words, bad, rem, dst, first
        );
        dff_setup!(
            self, clock, slot, live, head, space, tail, oldest, inuse, done, bads, lastf, fresh
        );
        dff_setup!(
            self, clock, fbad, v1, d1, m1, fv, ft, fc, v2, d2, a2, s2, lo2, hi2, last2, err2, t2
        );
        dff_setup!(self, clock, on, enough, refused, look, ov, om, oh);
        clock!(self, clock, rings, frames, ready, dones, outs, mem, ents, counts, hdr_lo, hdr_hi);
        self.frames.rst.next = self.rst.val();
        self.ready.rst.next = self.rst.val();
        self.dones.rst.next = self.rst.val();
        self.outs.rst.next = self.rst.val();
        self.one.next = 1.into();
        self.one11.next = 1.into();
        self.one13.next = 1.into();

        // doorbells
        self.mr.next = self.msg_data.val();
        self.mq.next = self.m.q.val();
        self.pasid.next = self.mq.val().pasid;
        if self.st.q.val() == St::Idle {
            self.pasid.next = self.mr.val().pasid;
        }
        self.rings.raddr.next = self.pasid.val().get_bits::<LP>(0);
        self.rings.waddr.next = self.pasid.val().get_bits::<LP>(0);
        self.data.next = self.mq.val().data;
        self.nlog.next = self.data.val().get_bits::<5>(0);
        self.nq.next.log = self.nlog.val();
        self.nq.next.base = self.data.val().get_bits::<36>(12);
        self.on_n.next =
            self.data.val().get_bit(5) & ((self.nlog.val() >= 2) & (self.nlog.val() <= 10));
        self.rings.wdata.next = self.nq.val();
        self.p6.next = self.pasid.val().get_bits::<6>(0);
        self.is_on.next = self.on.q.val().get_bit(self.p6.val().index());
        if (self.st.q.val() == St::Look) & self.mq.val().ring {
            self.on.d.next = self
                .on
                .q
                .val()
                .replace_bit(self.p6.val().index(), self.on_n.val());
        }
        self.rings.we.next = (self.st.q.val() == St::Look) & self.mq.val().ring;
        self.msg_ready.next = self.st.q.val() == St::Idle;
        self.q.next = self.rings.rdata.val();
        self.log.next = self.q.val().log;
        self.slots.next = self.one11.val() << self.log.val();
        self.mask.next = self.slots.val() - 1;
        self.idx.next = self.data.val().get_bits::<11>(0) & self.mask.val();
        self.blen.next = self.data.val().get_bits::<16>(16);
        self.blen2.next = self.blen.val().get_bits::<2>(0);
        self.up.next = self.len.q.val() + bits::<13>(63);
        self.want.next = bit_cast::<16, 12>(self.words.q.val());
        // room only grows until it is taken
        self.enough.d.next =
            (self.st.q.val() == St::Alloc) & (self.want.val() <= self.space.q.val());
        self.fits.next = self.frames.s_ready.val()
            & (self.bad.q.val() | (self.enough.q.val() & !self.live.q.val().get_bit(6)));
        self.alloc.next = (self.st.q.val() == St::Alloc) & self.fits.val();
        self.refused.d.next = false;
        self.page64.next = bit_cast::<64, 36>(self.base.q.val()) << 12;
        // pieces
        self.mrrs.next = self.one13.val() << self.mrrs_log.val();
        self.short.next = self.rem.q.val() <= self.mrrs.val();
        self.chunk.next = self.mrrs.val();
        if self.short.val() {
            self.chunk.next = self.rem.q.val();
        }
        self.chunk_words.next = self.mrrs.val() >> 6;
        self.ask.next = (self.st.q.val() == St::Read) & (self.inuse.q.val() != self.full.val());
        self.asked.next = self.ask.val() & self.rd_ready.val();
        match self.st.q.val() {
            St::Idle => {
                if self.msg_valid.val() {
                    self.m.d.next = self.mr.val();
                    self.st.d.next = St::Look;
                }
            }
            St::Look => {
                self.base.d.next = self.q.val().base;
                self.off.d.next = bit_cast::<24, 11>(self.idx.val()) << 13;
                self.past.d.next = bit_cast::<24, 11>(self.slots.val()) << 13;
                self.len.d.next = self.blen.val().get_bits::<13>(0);
                self.bad.d.next = ((self.blen.val() < self.c_min.val())
                    | (self.blen.val() > self.c_max.val()))
                    | (self.blen2.val() != 2);
                self.st.d.next = St::Idle;
                if !self.mq.val().ring {
                    if self.is_on.val() {
                        self.st.d.next = St::Sum;
                    } else {
                        self.refused.d.next = true;
                    }
                }
            }
            St::Sum => {
                self.addr.d.next = self.page64.val() + bit_cast::<64, 24>(self.off.q.val());
                self.done_addr.d.next = self.page64.val() + bit_cast::<64, 24>(self.past.q.val());
                self.words.d.next = bit_cast::<12, 7>(self.up.val().get_bits::<7>(6));
                if self.bad.q.val() {
                    self.words.d.next = 0.into();
                }
                self.rem.d.next = self.len.q.val();
                self.st.d.next = St::Alloc;
            }
            St::Alloc => {
                self.dst.d.next = self.head.q.val();
                self.first.d.next = true;
                if self.fits.val() {
                    self.enough.d.next = false;
                    self.head.d.next = self.head.q.val() + bit_cast::<LT, 12>(self.words.q.val());
                    self.st.d.next = St::Read;
                    if self.bad.q.val() {
                        self.st.d.next = St::Idle;
                    }
                }
            }
            St::Read => {
                if self.asked.val() {
                    self.addr.d.next = self.addr.q.val() + bit_cast::<64, 13>(self.mrrs.val());
                    self.rem.d.next = self.rem.q.val() - self.chunk.val();
                    self.dst.d.next = self.dst.q.val() + bit_cast::<LT, 13>(self.chunk_words.val());
                    self.first.d.next = false;
                    if self.short.val() {
                        self.st.d.next = St::Idle;
                        self.slot.d.next = self.slot.q.val() + 1;
                    }
                }
            }
        }
        self.nf.next.bad = self.bad.q.val();
        self.nf.next.pasid = self.mq.val().pasid;
        self.nf.next.base = bit_cast::<16, LT>(self.head.q.val());
        self.nf.next.words = self.words.q.val();
        self.nf.next.len = self.len.q.val();
        self.nf.next.slot = self.slot.q.val();
        self.nf.next.addr = self.done_addr.q.val();
        self.nf.next.upto = self.data.val().get_bits::<16>(0) + 1;
        self.frames.s_valid.next = self.alloc.val();
        self.frames.s_data.next = self.nf.val();
        self.rdd.next.pasid = self.mq.val().pasid;
        self.rdd.next.addr = self.addr.q.val();
        self.rdd.next.len = self.chunk.val();
        self.rdd.next.tag = bit_cast::<8, LG>(self.tail.q.val());
        self.rd_valid.next = self.ask.val();
        self.rd_data.next = self.rdd.val();
        self.ent.next.word = bit_cast::<16, LT>(self.dst.q.val());
        self.ent.next.slot = self.slot.q.val();
        self.ent.next.first = self.first.q.val();
        self.ent.next.tail = self.chunk.val().get_bits::<6>(0);
        self.ents.we.next = self.asked.val();
        self.ents.waddr.next = self.tail.q.val();
        self.ents.wdata.next = self.ent.val();

        // completions: look up the tag
        self.tag8.next = self.cpl_meta.val().tag;
        self.tag.next = bit_cast::<LG, 8>(self.tag8.val());
        self.ents.raddr.next = self.tag.val();
        self.counts.raddr.next = self.tag.val();
        self.v1.d.next = self.cpl_valid.val();
        self.d1.d.next = self.cpl_data.val();
        self.m1.d.next = self.cpl_meta.val();
        // word of the tag, bytes that are valid
        self.tag8.next = self.m1.q.val().tag;
        self.tag1.next = bit_cast::<LG, 8>(self.tag8.val());
        self.e1.next = self.ents.rdata.val();
        self.cnt.next = self.counts.rdata.val();
        if self.fv.q.val() & (self.ft.q.val() == self.tag1.val()) {
            self.cnt.next = self.fc.q.val();
        }
        if self.fresh.q.val().get_bit(self.tag1.val().index()) {
            self.cnt.next = 0.into();
        }
        self.cnt1.next = self.cnt.val() + 1;
        self.fv.d.next = self.v1.q.val();
        self.ft.d.next = self.tag1.val();
        self.fc.d.next = self.cnt1.val();
        self.counts.we.next = self.v1.q.val();
        self.counts.waddr.next = self.tag1.val();
        self.counts.wdata.next = self.cnt1.val();
        self.zero.next = 0.into();
        self.all.next = !self.zero.val();
        self.tailb.next = self.e1.val().tail;
        self.sh.next = bit_cast::<12, 6>(self.tailb.val()) << 3;
        self.over.next = self.all.val() << self.sh.val();
        self.keep.next = self.all.val();
        if self.m1.q.val().last & self.tailb.val().any() {
            self.keep.next = !self.over.val();
        }
        self.v2.d.next = self.v1.q.val();
        self.d2.d.next = self.d1.q.val() & self.keep.val();
        self.a2.d.next = bit_cast::<LT, 16>(self.e1.val().word) + bit_cast::<LT, 7>(self.cnt.val());
        self.s2.d.next = self.e1.val().slot;
        self.lo2.d.next = self.e1.val().first & (self.cnt.val() == 0);
        self.hi2.d.next = self.e1.val().first & (self.cnt.val() == 1);
        self.last2.d.next = self.m1.q.val().last;
        self.err2.d.next = self.m1.q.val().err;
        self.t2.d.next = self.tag1.val();
        self.mem.we.next = self.v2.q.val() & !self.err2.q.val();
        self.mem.waddr.next = self.a2.q.val();
        self.mem.wdata.next = self.d2.q.val();
        self.mem.raddr.next = bit_cast::<LT, 16>(self.buf_raddr.val());
        self.buf_rdata.next = self.mem.rdata.val();
        self.hdr_lo.we.next = self.v2.q.val() & self.lo2.q.val();
        self.hdr_lo.waddr.next = self.s2.q.val();
        self.hdr_lo.wdata.next = self.d2.q.val();
        self.hdr_hi.we.next = self.v2.q.val() & self.hi2.q.val();
        self.hdr_hi.waddr.next = self.s2.q.val();
        self.hdr_hi.wdata.next = self.d2.q.val();

        // tags are retired in the order in which they were given out
        self.giveb.next = 0.into();
        if self.asked.val() {
            self.giveb.next = self.one.val() << self.tail.q.val();
            self.tail.d.next = self.tail.q.val() + 1;
        }
        self.ngive.next = !self.giveb.val();
        self.cameb.next = 0.into();
        self.badb.next = 0.into();
        if self.v2.q.val() & self.last2.q.val() {
            self.cameb.next = self.one.val() << self.t2.q.val();
            if self.err2.q.val() {
                self.badb.next = self.cameb.val();
            }
        }
        self.done.d.next = (self.done.q.val() | self.cameb.val()) & self.ngive.val();
        self.bads.d.next = (self.bads.q.val() | self.badb.val()) & self.ngive.val();
        self.lastf.d.next = self.lastf.q.val() & self.ngive.val();
        if self.short.val() {
            self.lastf.d.next = self.lastf.q.val() | self.giveb.val();
        }
        self.cameb.next = 0.into();
        if self.v1.q.val() {
            self.cameb.next = self.one.val() << self.tag1.val();
        }
        self.ncame.next = !self.cameb.val();
        self.fresh.d.next = (self.fresh.q.val() & self.ncame.val()) | self.giveb.val();
        self.old_last.next = self.lastf.q.val().get_bit(self.oldest.q.val().index());
        self.old_bad.next =
            self.bads.q.val().get_bit(self.oldest.q.val().index()) | self.fbad.q.val();
        self.retire.next = (self.inuse.q.val().any()
            & self.done.q.val().get_bit(self.oldest.q.val().index()))
            & self.ready.s_ready.val();
        self.ready.s_valid.next = self.retire.val() & self.old_last.val();
        self.ready.s_data.next = self.old_bad.val();
        if self.retire.val() {
            self.oldest.d.next = self.oldest.q.val() + 1;
            self.fbad.d.next = self.old_bad.val() & !self.old_last.val();
        }
        self.in1.next = self.inuse.q.val();
        if self.asked.val() & !self.retire.val() {
            self.in1.next = self.inuse.q.val() + 1;
        }
        if self.retire.val() & !self.asked.val() {
            self.in1.next = self.inuse.q.val() - 1;
        }
        self.inuse.d.next = self.in1.val();

        // whole frames
        self.f.next = self.frames.m_data.val();
        self.fault.next = self.ready.m_data.val() & !self.f.val().bad;
        self.whole.next = (self.frames.m_valid.val()
            & (self.f.val().bad | self.ready.m_valid.val()))
            & (self.dones.s_ready.val() & self.outs.s_ready.val());
        self.frames.m_ready.next = self.whole.val();
        self.ready.m_ready.next = self.whole.val() & !self.f.val().bad;
        self.nd.next.pasid = self.f.val().pasid;
        self.nd.next.addr = self.f.val().addr;
        self.nd.next.upto = self.f.val().upto;
        self.dones.s_valid.next = self.whole.val();
        self.dones.s_data.next = self.nd.val();
        self.no.next.skip = self.fault.val();
        self.no.next.base = self.f.val().base;
        self.no.next.words = self.f.val().words;
        self.no.next.len = self.f.val().len;
        self.no.next.slot = self.f.val().slot;
        self.outs.s_valid.next = self.whole.val() & !self.f.val().bad;
        self.outs.s_data.next = self.no.val();
        self.ev_refused.next =
            self.refused.q.val() | (self.whole.val() & (self.f.val().bad | self.fault.val()));
        self.d.next = self.dones.m_data.val();
        self.wr_valid.next = self.dones.m_valid.val();
        self.dones.m_ready.next = self.wr_ready.val();
        self.wr_data.next = bit_cast::<512, 16>(self.d.val().upto);
        self.wr_meta.next.pasid = self.d.val().pasid;
        self.wr_meta.next.addr = self.d.val().addr;
        self.wr_meta.next.len = bits::<13>(64);
        self.wr_meta.next.sop = true;
        self.wr_meta.next.eop = true;
        self.wr_meta.next.stamp = 0.into();

        // geometry and header
        self.o.next = self.outs.m_data.val();
        self.hdr_lo.raddr.next = self.o.val().slot;
        self.hdr_hi.raddr.next = self.o.val().slot;
        self.olen.next = self.o.val().len;
        self.or6.next = self.olen.val().get_bits::<6>(0);
        self.ow.next = self.olen.val().get_bits::<7>(6);
        self.oe6.next = bits::<6>(60) - self.or6.val();
        self.oc6.next = bits::<6>(0) - self.or6.val();
        self.h0.next = self.hdr_lo.rdata.val();
        self.h1.next = self.hdr_hi.rdata.val();
        if !self.ow.val().any() {
            self.h1.next = 0.into();
        }
        self.et.next = self.h0.val().get_bits::<16>(96);
        self.et2.next = self.h0.val().get_bits::<16>(128);
        self.vlan.next = self.et.val() == self.c_vlan.val();
        self.ip6.next = (self.et.val() == self.c_v6.val())
            | (self.vlan.val() & (self.et2.val() == self.c_v6.val()));
        self.give.next = self.look.q.val() & (!self.ov.q.val() | self.f_ready.val());
        self.outs.m_ready.next = self.give.val();
        self.look.d.next = self.outs.m_valid.val() & !self.give.val();
        if self.f_ready.val() {
            self.ov.d.next = false;
        }
        if self.give.val() {
            self.ov.d.next = true;
            self.oh.d.next = bit_cast::<1024, 512>(self.h0.val())
                | (bit_cast::<1024, 512>(self.h1.val()) << 512);
            self.om.d.next.skip = self.o.val().skip;
            self.om.d.next.ip6 = self.ip6.val();
            self.om.d.next.vlan = self.vlan.val();
            self.om.d.next.straddle = self.or6.val() == 62;
            self.om.d.next.base = self.o.val().base;
            self.om.d.next.words = self.o.val().words;
            self.om.d.next.eb = bit_cast::<10, 7>(self.ow.val());
            self.om.d.next.last = bit_cast::<10, 7>(self.ow.val());
            self.om.d.next.empty = self.oe6.val();
            if self.or6.val() == 62 {
                self.om.d.next.last = bit_cast::<10, 7>(self.ow.val()) + 1;
                self.om.d.next.empty = bits::<6>(62);
            }
            self.om.d.next.r = self.or6.val();
            self.om.d.next.cempty = self.oc6.val();
            self.om.d.next.hl = bits::<8>(128);
            self.om.d.next.stop = self.olen.val();
            self.om.d.next.total = self.olen.val() + 4;
            self.om.d.next.cls = 0.into();
            self.om.d.next.stamp = 0.into();
        }
        self.f_valid.next = self.ov.q.val();
        self.f_meta.next = self.om.q.val();
        self.f_hdr.next = self.oh.q.val();

        // room
        self.sp1.next = self.space.q.val();
        if self.alloc.val() {
            self.sp1.next = self.space.q.val() - self.want.val();
        }
        self.sp2.next = self.sp1.val();
        if self.free_valid.val() {
            self.sp2.next = self.sp1.val() + bit_cast::<16, 12>(self.free_words.val());
        }
        self.space.d.next = self.sp2.val();
        self.lv1.next = self.live.q.val();
        if (self.alloc.val() & !self.bad.q.val()) & !self.give.val() {
            self.lv1.next = self.live.q.val() + 1;
        }
        if self.give.val() & !(self.alloc.val() & !self.bad.q.val()) {
            self.lv1.next = self.live.q.val() - 1;
        }
        self.live.d.next = self.lv1.val();
        self.idle.next = ((self.st.q.val() == St::Idle) & !self.msg_valid.val())
            & ((!self.frames.m_valid.val() & !self.dones.m_valid.val())
                & (!self.outs.m_valid.val() & (!self.ov.q.val() & !self.refused.q.val())));
        if self.rst.val() {
            self.st.d.next = St::Idle;
            self.on.d.next = 0.into();
            self.enough.d.next = false;
            self.slot.d.next = 0.into();
            self.live.d.next = 0.into();
            self.head.d.next = 0.into();
            self.space.d.next = self.depth.val();
            self.tail.d.next = 0.into();
            self.oldest.d.next = 0.into();
            self.inuse.d.next = 0.into();
            self.done.d.next = 0.into();
            self.fresh.d.next = 0.into();
            self.fbad.d.next = false;
            self.v1.d.next = false;
            self.fv.d.next = false;
            self.v2.d.next = false;
            self.refused.d.next = false;
            self.look.d.next = false;
            self.ov.d.next = false;
        }
    }
}
