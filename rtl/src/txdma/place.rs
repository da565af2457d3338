//! Read completions to their bytes in the frame.

use crate::egress::hdrlen::WordGeo;
use crate::packed_struct;
use crate::prims::{ByteRot, SdpRam};
use crate::types::HostRdMeta;
use rust_hdl::prelude::*;

packed_struct! {
    /// Where the bytes of a tag go. Byte lane `i` of its k-th word goes to lane `(i + n) mod B` of word `word + k`, or of the word after that
    /// when the lane number wrapped.
    pub struct TagEnt {
        pub word: Bits<16>,
        pub n: Bits<6>,
        /// First valid lane of the first word.
        pub first: Bits<6>,
        /// Valid lanes of the last word, counted from lane 0; 0 = all.
        pub tail: Bits<6>,
    }
}

packed_struct! {
    /// Goes through the rotator beside the data.
    pub struct RotTag {
        pub word: Bits<16>,
        pub mask: Bits<64>,
        pub sel: Bits<64>,
    }
}

/// Takes a completion word every cycle. Four cycles from the word to the write into the buffer; `done_*` comes one cycle before that write.
#[derive(LogicBlock, Default)]
pub struct Place<
    const W: usize,
    const L: usize,
    const LOG_TX: usize,
    const LOG_TAGS: usize,
    const T: usize,
> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub set_valid: Signal<In, bool>,
    pub set_tag: Signal<In, Bits<LOG_TAGS>>,
    pub set_ent: Signal<In, TagEnt>,
    pub cpl_valid: Signal<In, bool>,
    pub cpl_data: Signal<In, Bits<W>>,
    pub cpl_meta: Signal<In, HostRdMeta>,
    pub we: Signal<Out, bool>,
    pub waddr: Signal<Out, Bits<LOG_TX>>,
    pub wlane: Signal<Out, Bits<L>>,
    pub wsel: Signal<Out, Bits<L>>,
    pub wdata: Signal<Out, Bits<W>>,
    pub done_valid: Signal<Out, bool>,
    pub done_tag: Signal<Out, Bits<LOG_TAGS>>,
    pub done_err: Signal<Out, bool>,
    k: WordGeo<L>,
    ents: SdpRam<TagEnt, LOG_TAGS>,
    counts: SdpRam<Bits<10>, LOG_TAGS>,
    fresh: DFF<Bits<T>>,
    v1: DFF<bool>,
    d1: DFF<Bits<W>>,
    t1: DFF<Bits<LOG_TAGS>>,
    last1: DFF<bool>,
    err1: DFF<bool>,
    fv: DFF<bool>,
    ft: DFF<Bits<LOG_TAGS>>,
    fc: DFF<Bits<10>>,
    v2: DFF<bool>,
    d2: DFF<Bits<W>>,
    n2: DFF<Bits<6>>,
    // lanes from the rotation to the end of the word
    down2: DFF<Bits<8>>,
    word2: DFF<Bits<16>>,
    mask2: DFF<Bits<L>>,
    dv2: DFF<bool>,
    t2: DFF<Bits<LOG_TAGS>>,
    err2: DFF<bool>,
    rot: ByteRot<RotTag, W, L>,
    tag: Signal<Local, Bits<LOG_TAGS>>,
    tag8: Signal<Local, Bits<8>>,
    ent: Signal<Local, TagEnt>,
    cnt: Signal<Local, Bits<10>>,
    cnt1: Signal<Local, Bits<10>>,
    word1: Signal<Local, Bits<16>>,
    is_first: Signal<Local, bool>,
    one: Signal<Local, Bits<T>>,
    clr: Signal<Local, Bits<T>>,
    nclr: Signal<Local, Bits<T>>,
    set: Signal<Local, Bits<T>>,
    zero: Signal<Local, Bits<L>>,
    ones: Signal<Local, Bits<L>>,
    m_first: Signal<Local, Bits<L>>,
    m_last: Signal<Local, Bits<L>>,
    tail: Signal<Local, Bits<6>>,
    up: Signal<Local, Bits<8>>,
    down: Signal<Local, Bits<8>>,
    cut: Signal<Local, Bits<8>>,
    m_rot: Signal<Local, Bits<L>>,
    sel: Signal<Local, Bits<L>>,
    rt: Signal<Local, RotTag>,
}

impl<
        const W: usize,
        const L: usize,
        const LOG_TX: usize,
        const LOG_TAGS: usize,
        const T: usize,
    > Logic for Place<W, L, LOG_TX, LOG_TAGS, T>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, fresh, v1, d1, t1, last1, err1, fv, ft, fc);
        dff_setup!(self, clock, v2, d2, n2, down2, word2, mask2, dv2, t2, err2);
        clock!(self, clock, ents, counts, rot);
        self.rot.rst.next = self.rst.val();
        self.rot.ce.next = true;
        self.zero.next = 0.into();
        self.ones.next = !self.zero.val();
        self.one.next = 1.into();

        // look up the tag
        self.tag8.next = self.cpl_meta.val().tag;
        self.tag.next = bit_cast::<LOG_TAGS, 8>(self.tag8.val());
        self.ents.raddr.next = self.tag.val();
        self.ents.we.next = self.set_valid.val();
        self.ents.waddr.next = self.set_tag.val();
        self.ents.wdata.next = self.set_ent.val();
        self.counts.raddr.next = self.tag.val();
        self.v1.d.next = self.cpl_valid.val();
        if self.cpl_valid.val() {
            self.d1.d.next = self.cpl_data.val();
            self.t1.d.next = self.tag.val();
            self.last1.d.next = self.cpl_meta.val().last;
            self.err1.d.next = self.cpl_meta.val().err;
        }

        // word number within the tag, valid lanes
        self.ent.next = self.ents.rdata.val();
        self.is_first.next = self.fresh.q.val().get_bit(self.t1.q.val().index());
        self.cnt.next = self.counts.rdata.val();
        if self.fv.q.val() & (self.ft.q.val() == self.t1.q.val()) {
            self.cnt.next = self.fc.q.val();
        }
        self.fv.d.next = self.v1.q.val();
        self.ft.d.next = self.t1.q.val();
        self.word1.next = self.ent.val().word + bit_cast::<16, 10>(self.cnt.val());
        self.cnt1.next = self.cnt.val() + 1;
        if self.is_first.val() {
            self.word1.next = self.ent.val().word;
            self.cnt1.next = 1.into();
        }
        self.fc.d.next = self.cnt1.val();
        self.counts.we.next = self.v1.q.val();
        self.counts.waddr.next = self.t1.q.val();
        self.counts.wdata.next = self.cnt1.val();
        self.m_first.next = self.ones.val();
        if self.is_first.val() {
            self.m_first.next = self.ones.val() << self.ent.val().first;
        }
        self.tail.next = self.ent.val().tail;
        self.cut.next = self.k.bytes.val() - bit_cast::<8, 6>(self.tail.val());
        self.m_last.next = self.ones.val();
        if self.last1.q.val() & self.tail.val().any() {
            self.m_last.next = self.ones.val() >> self.cut.val();
        }
        self.v2.d.next = self.v1.q.val() & !self.err1.q.val();
        self.dv2.d.next = self.v1.q.val() & self.last1.q.val();
        if self.v1.q.val() {
            self.d2.d.next = self.d1.q.val();
            self.n2.d.next = self.ent.val().n;
            self.word2.d.next = self.word1.val();
            self.down2.d.next = self.k.bytes.val() - bit_cast::<8, 6>(self.ent.val().n);
            self.mask2.d.next = self.m_first.val() & self.m_last.val();
            self.t2.d.next = self.t1.q.val();
            self.err2.d.next = self.err1.q.val();
        }
        self.clr.next = 0.into();
        if self.v1.q.val() {
            self.clr.next = self.one.val() << self.t1.q.val();
        }
        self.nclr.next = !self.clr.val();
        self.set.next = 0.into();
        if self.set_valid.val() {
            self.set.next = self.one.val() << self.set_tag.val();
        }
        self.fresh.d.next = (self.fresh.q.val() & self.nclr.val()) | self.set.val();

        // rotate
        self.up.next = bit_cast::<8, 6>(self.n2.q.val());
        self.down.next = self.down2.q.val();
        self.m_rot.next =
            (self.mask2.q.val() << self.up.val()) | (self.mask2.q.val() >> self.down.val());
        self.sel.next = self.ones.val() >> self.down.val();
        self.rt.next.word = self.word2.q.val();
        self.rt.next.mask = bit_cast::<64, L>(self.m_rot.val());
        self.rt.next.sel = bit_cast::<64, L>(self.sel.val());
        self.rot.s_data.next = self.d2.q.val();
        self.rot.s_n.next = self.n2.q.val();
        self.rot.s_tag.next = self.rt.val();
        self.rot.s_valid.next = self.v2.q.val();
        self.done_valid.next = self.dv2.q.val();
        self.done_tag.next = self.t2.q.val();
        self.done_err.next = self.err2.q.val();

        // write
        self.we.next = self.rot.m_valid.val();
        self.wdata.next = self.rot.m_data.val();
        self.waddr.next = bit_cast::<LOG_TX, 16>(self.rot.m_tag.val().word);
        self.wlane.next = bit_cast::<L, 64>(self.rot.m_tag.val().mask);
        self.wsel.next = bit_cast::<L, 64>(self.rot.m_tag.val().sel);
        if self.rst.val() {
            self.v1.d.next = false;
            self.fv.d.next = false;
            self.v2.d.next = false;
            self.dv2.d.next = false;
            self.fresh.d.next = 0.into();
        }
    }
}
