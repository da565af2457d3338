//! Frames from the receive buffer to the rings of processes.

use super::{RawMsg, RawQueue};
use crate::packed_struct;
use crate::prims::{Fifo, SdpRam};
use crate::types::{HostWrMeta, RxPkt};
use rust_hdl::prelude::*;

packed_struct! {
    /// Next slot to write, and first slot that may not be written.
    pub struct RawPlace { pub pi: Bits<16>, pub ci: Bits<16> }
}
packed_struct! {
    /// A frame for the writer, or less.
    pub struct RawJob {
        /// 0 a frame, 1 only its buffer slot is freed, 2 only an interrupt.
        pub kind: Bits<2>,
        /// An interrupt follows.
        pub msi: bool,
        pub ce: bool,
        pub phase: bool,
        pub pasid: Bits<12>,
        pub slot: Bits<7>,
        pub word: Bits<16>,
        pub len: Bits<13>,
        pub addr: Bits<64>,
        pub stamp: Bits<48>,
    }
}
packed_struct! {
    /// Beside a word to the host; `only`: there is no word, but an interrupt.
    pub struct RawWrite {
        pub only: bool,
        pub msi: bool,
        pub pasid: Bits<12>,
        pub addr: Bits<64>,
        pub len: Bits<13>,
        pub sop: bool,
        pub eop: bool,
        pub stamp: Bits<48>,
    }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum St {
    Idle,
    /// The ring is being read.
    Find,
    /// A doorbell: its ring is there.
    Door,
    /// A frame: its ring is there.
    Look,
    /// Room in the ring.
    Judge,
    /// The address is there.
    Give,
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum Mv {
    Idle,
    /// Settles what is left behind the first write.
    Prep,
    Words,
    Head,
}

/// Takes good frames of [`crate::ingress`] in the order of the wire and writes each to the next slot of its process.
///
/// * `LP`: log2 of PASIDs. The PASID of a frame is in bits 23:18 of its destination QPN.
/// * `msg`: rings, and how far they have been consumed ([`RawMsg`]). A ring whose log2 is not 2..=10 is off. Frames for a ring that is off give `ev_qp`, for
///   a full one `ev_full`; both are dropped.
/// * `at`: where the frames of the buffer begin (a pulse of the ingress for each); `req`, `rsp`: its packets. Of two packets the one whose slot was given
///   out first is the first of the wire.
/// * `wr`: the frame from byte 64 of the slot on, in pieces of at most `mps_log` that end where that size does, so that none crosses 4 KiB; then the head
///   (`raw_head`), 64 bytes. `msi` follows the head when the process wanted an interrupt, when `wr_ready` has taken it.
/// * Initiation interval: 6 cycles a frame or its words and 4, whichever is more. Latency: 9 cycles from packet to first word.
#[derive(LogicBlock)]
pub struct RawRx<const LP: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    /// log2 of the longest host write.
    pub mps_log: Signal<In, Bits<4>>,
    pub msg_valid: Signal<In, bool>,
    pub msg_data: Signal<In, RawMsg>,
    pub msg_ready: Signal<Out, bool>,
    pub at_valid: Signal<In, bool>,
    pub at_slot: Signal<In, Bits<7>>,
    pub at_word: Signal<In, Bits<16>>,
    pub req_valid: Signal<In, bool>,
    pub req_data: Signal<In, RxPkt>,
    pub req_ready: Signal<Out, bool>,
    pub rsp_valid: Signal<In, bool>,
    pub rsp_data: Signal<In, RxPkt>,
    pub rsp_ready: Signal<Out, bool>,
    pub buf_raddr: Signal<Out, Bits<16>>,
    pub buf_rdata: Signal<In, Bits<512>>,
    pub free_valid: Signal<Out, bool>,
    pub free_slot: Signal<Out, Bits<7>>,
    pub wr_valid: Signal<Out, bool>,
    pub wr_data: Signal<Out, Bits<512>>,
    pub wr_meta: Signal<Out, HostWrMeta>,
    pub wr_ready: Signal<In, bool>,
    pub msi_valid: Signal<Out, bool>,
    pub msi_pasid: Signal<Out, Bits<12>>,
    pub ev_qp: Signal<Out, bool>,
    pub ev_full: Signal<Out, bool>,
    pub ev_ecn: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    rings: SdpRam<RawQueue, LP>,
    places: SdpRam<RawPlace, LP>,
    // rings that are on; those whose process wants an interrupt
    on: DFF<Bits<64>>,
    arm: DFF<Bits<64>>,
    starts: SdpRam<Bits<16>, 7>,
    jobs: Fifo<RawJob, 3>,
    data: Fifo<Bits<512>, 4>,
    metas: Fifo<RawWrite, 4>,
    // doorbells and frames
    st: DFF<St>,
    m: DFF<RawMsg>,
    pk: DFF<RxPkt>,
    is_door: DFF<bool>,
    prev: DFF<Bits<7>>,
    used: DFF<Bits<16>>,
    cap: DFF<Bits<16>>,
    idx: DFF<Bits<16>>,
    base: DFF<Bits<36>>,
    off: DFF<Bits<24>>,
    // header bytes, payload and pad bytes, both
    hlen: DFF<Bits<13>>,
    rlen: DFF<Bits<13>>,
    len: DFF<Bits<13>>,
    phase: DFF<bool>,
    mr: Signal<Local, RawMsg>,
    mq: Signal<Local, RawMsg>,
    mdata: Signal<Local, Bits<64>>,
    rq: Signal<Local, RxPkt>,
    rs: Signal<Local, RxPkt>,
    p: Signal<Local, RxPkt>,
    np: Signal<Local, RxPkt>,
    da: Signal<Local, Bits<7>>,
    db: Signal<Local, Bits<7>>,
    pick_rsp: Signal<Local, bool>,
    some: Signal<Local, bool>,
    take: Signal<Local, bool>,
    qpn: Signal<Local, Bits<24>>,
    pasid: Signal<Local, Bits<6>>,
    ring: Signal<Local, RawQueue>,
    nring: Signal<Local, RawQueue>,
    nlog: Signal<Local, Bits<5>>,
    place: Signal<Local, RawPlace>,
    nplace: Signal<Local, RawPlace>,
    place_we: Signal<Local, bool>,
    on_n: Signal<Local, bool>,
    is_on: Signal<Local, bool>,
    is_arm: Signal<Local, bool>,
    arm_n: Signal<Local, bool>,
    ci_n: Signal<Local, Bits<16>>,
    one16: Signal<Local, Bits<16>>,
    lap: Signal<Local, Bits<16>>,
    rlog: Signal<Local, Bits<5>>,
    mask: Signal<Local, Bits<16>>,
    pos: Signal<Local, Bits<16>>,
    at_lap: Signal<Local, Bits<16>>,
    is_full: Signal<Local, bool>,
    at20: Signal<Local, Bits<20>>,
    head20: Signal<Local, Bits<20>>,
    plen: Signal<Local, Bits<13>>,
    pad: Signal<Local, Bits<2>>,
    page64: Signal<Local, Bits<64>>,
    nj: Signal<Local, RawJob>,
    push: Signal<Local, bool>,
    last_lap: Signal<Local, bool>,
    e_qp: DFF<bool>,
    e_full: DFF<bool>,
    e_ecn: DFF<bool>,
    // words to host memory
    mv: DFF<Mv>,
    word: DFF<Bits<16>>,
    waddr: DFF<Bits<64>>,
    left: DFF<Bits<13>>,
    rest: DFF<Bits<13>>,
    clen: DFF<Bits<13>>,
    sop: DFF<bool>,
    more: DFF<bool>,
    v1: DFF<bool>,
    w1: DFF<RawWrite>,
    head1: DFF<bool>,
    hd1: DFF<Bits<512>>,
    j: Signal<Local, RawJob>,
    jlen: Signal<Local, Bits<13>>,
    mps: Signal<Local, Bits<13>>,
    one13: Signal<Local, Bits<13>>,
    first: Signal<Local, Bits<13>>,
    room: Signal<Local, bool>,
    last_word: Signal<Local, bool>,
    c64: Constant<Bits<13>>,
    lvl: Signal<Local, Bits<16>>,
    nw: Signal<Local, RawWrite>,
    hw: Signal<Local, Bits<512>>,
    out_w: Signal<Local, Bits<512>>,
    o: Signal<Local, RawWrite>,
    om: Signal<Local, HostWrMeta>,
    gone: Signal<Local, bool>,
}

impl<const LP: usize> Default for RawRx<LP> {
    fn default() -> Self {
        assert!(LP <= 6);
        Self {
            clock: Default::default(),
            rst: Default::default(),
            mps_log: Default::default(),
            msg_valid: Default::default(),
            msg_data: Default::default(),
            msg_ready: Default::default(),
            at_valid: Default::default(),
            at_slot: Default::default(),
            at_word: Default::default(),
            req_valid: Default::default(),
            req_data: Default::default(),
            req_ready: Default::default(),
            rsp_valid: Default::default(),
            rsp_data: Default::default(),
            rsp_ready: Default::default(),
            buf_raddr: Default::default(),
            buf_rdata: Default::default(),
            free_valid: Default::default(),
            free_slot: Default::default(),
            wr_valid: Default::default(),
            wr_data: Default::default(),
            wr_meta: Default::default(),
            wr_ready: Default::default(),
            msi_valid: Default::default(),
            msi_pasid: Default::default(),
            ev_qp: Default::default(),
            ev_full: Default::default(),
            ev_ecn: Default::default(),
            idle: Default::default(),
            rings: Default::default(),
            places: Default::default(),
            on: Default::default(),
            arm: Default::default(),
            starts: Default::default(),
            jobs: Default::default(),
            data: Default::default(),
            metas: Default::default(),
            st: Default::default(),
            m: Default::default(),
            pk: Default::default(),
            is_door: Default::default(),
            prev: Default::default(),
            used: Default::default(),
            cap: Default::default(),
            idx: Default::default(),
            base: Default::default(),
            off: Default::default(),
            hlen: Default::default(),
            rlen: Default::default(),
            len: Default::default(),
            phase: Default::default(),
            mr: Default::default(),
            mq: Default::default(),
            mdata: Default::default(),
            rq: Default::default(),
            rs: Default::default(),
            p: Default::default(),
            np: Default::default(),
            da: Default::default(),
            db: Default::default(),
            pick_rsp: Default::default(),
            some: Default::default(),
            take: Default::default(),
            qpn: Default::default(),
            pasid: Default::default(),
            ring: Default::default(),
            nring: Default::default(),
            nlog: Default::default(),
            place: Default::default(),
            nplace: Default::default(),
            place_we: Default::default(),
            on_n: Default::default(),
            is_on: Default::default(),
            is_arm: Default::default(),
            arm_n: Default::default(),
            ci_n: Default::default(),
            one16: Default::default(),
            lap: Default::default(),
            rlog: Default::default(),
            mask: Default::default(),
            pos: Default::default(),
            at_lap: Default::default(),
            is_full: Default::default(),
            at20: Default::default(),
            head20: Default::default(),
            plen: Default::default(),
            pad: Default::default(),
            page64: Default::default(),
            nj: Default::default(),
            push: Default::default(),
            last_lap: Default::default(),
            e_qp: Default::default(),
            e_full: Default::default(),
            e_ecn: Default::default(),
            mv: Default::default(),
            word: Default::default(),
            waddr: Default::default(),
            left: Default::default(),
            rest: Default::default(),
            clen: Default::default(),
            sop: Default::default(),
            more: Default::default(),
            v1: Default::default(),
            w1: Default::default(),
            head1: Default::default(),
            hd1: Default::default(),
            j: Default::default(),
            jlen: Default::default(),
            mps: Default::default(),
            one13: Default::default(),
            first: Default::default(),
            room: Default::default(),
            last_word: Default::default(),
            c64: Constant::new(64u64.into()),
            lvl: Default::default(),
            nw: Default::default(),
            hw: Default::default(),
            out_w: Default::default(),
            o: Default::default(),
            om: Default::default(),
            gone: Default::default(),
        }
    }
}

impl<const LP: usize> Logic for RawRx<LP> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, on, arm, st, m, pk, is_door, prev, used, cap, idx, base, off, hlen, rlen,
            len
        );
        dff_setup!(self, clock, phase, e_qp, e_full, e_ecn, mv, word, waddr, left, rest, clen, sop);
        dff_setup!(self, clock, more, v1, w1, head1, hd1);
        clock!(self, clock, rings, places, starts, jobs, data, metas);
        self.jobs.rst.next = self.rst.val();
        self.data.rst.next = self.rst.val();
        self.metas.rst.next = self.rst.val();
        self.starts.we.next = self.at_valid.val();
        self.starts.waddr.next = self.at_slot.val();
        self.starts.wdata.next = self.at_word.val();

        // doorbells first, else the older of the two packets
        self.mr.next = self.msg_data.val();
        self.mq.next = self.m.q.val();
        self.rq.next = self.req_data.val();
        self.rs.next = self.rsp_data.val();
        self.p.next = self.pk.q.val();
        self.da.next = self.rq.val().slot - self.prev.q.val();
        self.db.next = self.rs.val().slot - self.prev.q.val();
        self.pick_rsp.next =
            self.rsp_valid.val() & (!self.req_valid.val() | (self.db.val() < self.da.val()));
        self.np.next = self.rq.val();
        if self.pick_rsp.val() {
            self.np.next = self.rs.val();
        }
        self.some.next = self.req_valid.val() | self.rsp_valid.val();
        self.msg_ready.next = self.st.q.val() == St::Idle;
        self.take.next = ((self.st.q.val() == St::Idle) & !self.msg_valid.val()) & self.some.val();
        self.req_ready.next = self.take.val() & !self.pick_rsp.val();
        self.rsp_ready.next = self.take.val() & self.pick_rsp.val();
        self.qpn.next = self.p.val().qpn;
        self.pasid.next = self.qpn.val().get_bits::<6>(18);
        if self.is_door.q.val() {
            self.pasid.next = bit_cast::<6, 12>(self.mq.val().pasid);
        }
        self.rings.raddr.next = self.pasid.val().get_bits::<LP>(0);
        self.rings.waddr.next = self.pasid.val().get_bits::<LP>(0);
        self.places.raddr.next = self.pasid.val().get_bits::<LP>(0);
        self.places.waddr.next = self.pasid.val().get_bits::<LP>(0);
        self.starts.raddr.next = self.p.val().slot;
        self.ring.next = self.rings.rdata.val();
        self.place.next = self.places.rdata.val();
        self.mdata.next = self.mq.val().data;
        self.nlog.next = self.mdata.val().get_bits::<5>(0);
        self.nring.next.log = self.nlog.val();
        self.nring.next.base = self.mdata.val().get_bits::<36>(12);
        self.on_n.next =
            self.mdata.val().get_bit(5) & ((self.nlog.val() >= 2) & (self.nlog.val() <= 10));
        self.rings.wdata.next = self.nring.val();
        self.rings.we.next = false;
        self.is_on.next = self.on.q.val().get_bit(self.pasid.val().index());
        self.is_arm.next = self.arm.q.val().get_bit(self.pasid.val().index());
        self.arm_n.next = self.mdata.val().get_bit(16);
        self.ci_n.next = self.mdata.val().get_bits::<16>(0);
        self.nplace.next = self.place.val();
        self.place_we.next = false;
        self.push.next = false;
        // what a frame is to the writer
        self.one16.next = 1.into();
        self.rlog.next = self.ring.val().log;
        self.lap.next = self.one16.val() << self.rlog.val();
        self.mask.next = self.cap.q.val() - 1;
        self.pos.next = self.idx.q.val() & self.mask.val();
        self.at_lap.next = self.idx.q.val() & self.cap.q.val();
        self.last_lap.next = !self.at_lap.val().any();
        self.is_full.next = self.used.q.val() >= self.cap.q.val();
        self.at20.next = bit_cast::<20, 16>(self.starts.rdata.val()) << 6;
        self.head20.next = self.p.val().src - self.at20.val();
        self.plen.next = self.p.val().len;
        self.pad.next = bits::<2>(0) - self.plen.val().get_bits::<2>(0);
        self.page64.next = bit_cast::<64, 36>(self.base.q.val()) << 12;
        self.nj.next.kind = 0.into();
        self.nj.next.msi = self.is_arm.val();
        self.nj.next.ce = self.p.val().ce;
        self.nj.next.phase = self.phase.q.val();
        self.nj.next.pasid = bit_cast::<12, 6>(self.pasid.val());
        self.nj.next.slot = self.p.val().slot;
        self.nj.next.word = self.starts.rdata.val();
        self.nj.next.len = self.len.q.val();
        self.nj.next.stamp = self.p.val().stamp;
        self.e_qp.d.next = false;
        self.e_full.d.next = false;
        self.e_ecn.d.next = false;
        match self.st.q.val() {
            St::Idle => {
                self.is_door.d.next = self.msg_valid.val();
                self.m.d.next = self.mr.val();
                if self.take.val() {
                    self.pk.d.next = self.np.val();
                    self.prev.d.next = self.np.val().slot;
                }
                if self.msg_valid.val() | self.some.val() {
                    self.st.d.next = St::Find;
                }
            }
            St::Find => {
                self.st.d.next = St::Look;
                if self.is_door.q.val() {
                    self.st.d.next = St::Door;
                }
            }
            St::Door => {
                self.nj.next.kind = 2.into();
                self.nj.next.msi = true;
                if self.mq.val().ring {
                    self.rings.we.next = true;
                    self.place_we.next = true;
                    self.nplace.next.pi = 0.into();
                    self.nplace.next.ci = 0.into();
                    self.on.d.next = self
                        .on
                        .q
                        .val()
                        .replace_bit(self.pasid.val().index(), self.on_n.val());
                    self.arm.d.next = self
                        .arm
                        .q
                        .val()
                        .replace_bit(self.pasid.val().index(), false);
                    self.st.d.next = St::Idle;
                } else if !self.is_on.val() {
                    self.st.d.next = St::Idle;
                } else if self.arm_n.val() & (self.place.val().pi != self.ci_n.val()) {
                    // there is one already
                    self.push.next = true;
                    if self.jobs.s_ready.val() {
                        self.place_we.next = true;
                        self.nplace.next.ci = self.ci_n.val();
                        self.arm.d.next = self
                            .arm
                            .q
                            .val()
                            .replace_bit(self.pasid.val().index(), false);
                        self.st.d.next = St::Idle;
                    }
                } else {
                    self.place_we.next = true;
                    self.nplace.next.ci = self.ci_n.val();
                    self.arm.d.next = self
                        .arm
                        .q
                        .val()
                        .replace_bit(self.pasid.val().index(), self.arm_n.val());
                    self.st.d.next = St::Idle;
                }
            }
            St::Look => {
                self.base.d.next = self.ring.val().base;
                self.used.d.next = self.place.val().pi - self.place.val().ci;
                self.idx.d.next = self.place.val().pi;
                self.hlen.d.next = bit_cast::<13, 20>(self.head20.val());
                self.rlen.d.next = self.plen.val() + bit_cast::<13, 2>(self.pad.val());
                self.st.d.next = St::Judge;
                self.cap.d.next = self.lap.val();
            }
            St::Judge => {
                self.len.d.next = self.hlen.q.val() + self.rlen.q.val();
                self.off.d.next = bit_cast::<24, 16>(self.pos.val()) << 13;
                self.phase.d.next = self.last_lap.val();
                self.nj.next.kind = 1.into();
                self.nj.next.msi = false;
                if self.is_on.val() & !self.is_full.val() {
                    self.st.d.next = St::Give;
                    self.e_ecn.d.next = self.p.val().ce;
                } else {
                    self.push.next = true;
                    if self.jobs.s_ready.val() {
                        self.e_qp.d.next = !self.is_on.val();
                        self.e_full.d.next = self.is_on.val();
                        self.st.d.next = St::Idle;
                    }
                }
            }
            St::Give => {
                // one cycle for the sum
                self.push.next = true;
                if self.jobs.s_ready.val() {
                    self.place_we.next = true;
                    self.nplace.next.pi = self.idx.q.val() + 1;
                    self.arm.d.next = self
                        .arm
                        .q
                        .val()
                        .replace_bit(self.pasid.val().index(), false);
                    self.st.d.next = St::Idle;
                }
            }
        }
        self.nj.next.addr = self.page64.val() + bit_cast::<64, 24>(self.off.q.val());
        self.places.wdata.next = self.nplace.val();
        self.places.we.next = self.place_we.val();
        self.jobs.s_valid.next = self.push.val();
        self.jobs.s_data.next = self.nj.val();
        self.ev_qp.next = self.e_qp.q.val();
        self.ev_full.next = self.e_full.q.val();
        self.ev_ecn.next = self.e_ecn.q.val();

        // the writer: words of the frame, then the head
        self.j.next = self.jobs.m_data.val();
        self.jlen.next = self.j.val().len;
        self.one13.next = 1.into();
        self.mps.next = self.one13.val() << self.mps_log.val();
        self.first.next = self.mps.val() - self.c64.val();
        self.lvl.next = self.metas.level.val();
        self.room.next = !self.lvl.val().get_bit(3) & !self.lvl.val().get_bit(4);
        self.last_word.next = self.left.q.val() <= self.c64.val();
        self.more.d.next = self.rest.q.val() > self.mps.val();
        self.jobs.m_ready.next = false;
        self.free_valid.next = false;
        self.free_slot.next = self.j.val().slot;
        self.buf_raddr.next = self.word.q.val();
        self.nw.next.only = false;
        self.nw.next.msi = false;
        self.nw.next.pasid = self.j.val().pasid;
        self.nw.next.addr = self.waddr.q.val();
        self.nw.next.len = self.clen.q.val();
        self.nw.next.sop = self.sop.q.val();
        self.nw.next.eop = self.last_word.val();
        self.nw.next.stamp = self.j.val().stamp;
        self.hw.next = bit_cast::<512, 13>(self.jlen.val());
        self.hw.next = self.hw.val().replace_bit(16, self.j.val().ce);
        self.hw.next = self.hw.val().replace_bit(63, self.j.val().phase);
        self.v1.d.next = false;
        self.head1.d.next = false;
        match self.mv.q.val() {
            Mv::Idle => {
                self.word.d.next = self.j.val().word;
                self.waddr.d.next = self.j.val().addr + bits::<64>(64);
                self.sop.d.next = true;
                self.clen.d.next = self.first.val();
                self.rest.d.next = self.jlen.val() - self.first.val();
                if self.jlen.val() <= self.first.val() {
                    self.clen.d.next = self.jlen.val();
                    self.rest.d.next = 0.into();
                }
                if self.jobs.m_valid.val() {
                    if self.j.val().kind == 0 {
                        self.mv.d.next = Mv::Prep;
                    } else if self.j.val().kind == 1 {
                        self.free_valid.next = true;
                        self.jobs.m_ready.next = true;
                    } else if self.room.val() {
                        self.nw.next.only = true;
                        self.nw.next.msi = true;
                        self.v1.d.next = true;
                        self.jobs.m_ready.next = true;
                    }
                }
            }
            Mv::Prep => {
                self.left.d.next = self.clen.q.val();
                self.mv.d.next = Mv::Words;
            }
            Mv::Words => {
                if self.room.val() {
                    self.v1.d.next = true;
                    self.word.d.next = self.word.q.val() + 1;
                    self.left.d.next = self.left.q.val() - self.c64.val();
                    self.sop.d.next = false;
                    if self.last_word.val() {
                        self.sop.d.next = true;
                        self.waddr.d.next =
                            self.waddr.q.val() + bit_cast::<64, 13>(self.clen.q.val());
                        self.clen.d.next = self.rest.q.val();
                        self.left.d.next = self.rest.q.val();
                        self.rest.d.next = 0.into();
                        if self.more.q.val() {
                            self.clen.d.next = self.mps.val();
                            self.left.d.next = self.mps.val();
                            self.rest.d.next = self.rest.q.val() - self.mps.val();
                        }
                        if !self.rest.q.val().any() {
                            self.mv.d.next = Mv::Head;
                        }
                    }
                }
            }
            Mv::Head => {
                self.nw.next.addr = self.j.val().addr;
                self.nw.next.len = bits::<13>(64);
                self.nw.next.sop = true;
                self.nw.next.eop = true;
                self.nw.next.msi = self.j.val().msi;
                if self.room.val() {
                    self.v1.d.next = true;
                    self.head1.d.next = true;
                    self.free_valid.next = true;
                    self.jobs.m_ready.next = true;
                    self.mv.d.next = Mv::Idle;
                }
            }
        }
        self.w1.d.next = self.nw.val();
        self.hd1.d.next = self.hw.val();
        self.out_w.next = self.buf_rdata.val();
        if self.head1.q.val() {
            self.out_w.next = self.hd1.q.val();
        }
        self.data.s_valid.next = self.v1.q.val();
        self.data.s_data.next = self.out_w.val();
        self.metas.s_valid.next = self.v1.q.val();
        self.metas.s_data.next = self.w1.q.val();
        self.o.next = self.metas.m_data.val();
        self.om.next.pasid = self.o.val().pasid;
        self.om.next.addr = self.o.val().addr;
        self.om.next.len = self.o.val().len;
        self.om.next.sop = self.o.val().sop;
        self.om.next.eop = self.o.val().eop;
        self.om.next.stamp = self.o.val().stamp;
        self.wr_valid.next = self.metas.m_valid.val() & !self.o.val().only;
        self.wr_data.next = self.data.m_data.val();
        self.wr_meta.next = self.om.val();
        self.gone.next = self.metas.m_valid.val() & (self.wr_ready.val() | self.o.val().only);
        self.metas.m_ready.next = self.gone.val();
        self.data.m_ready.next = self.gone.val();
        self.msi_valid.next = self.gone.val() & self.o.val().msi;
        self.msi_pasid.next = self.o.val().pasid;
        self.idle.next = ((self.st.q.val() == St::Idle) & !self.msg_valid.val())
            & ((!self.some.val() & !self.jobs.m_valid.val())
                & ((!self.v1.q.val() & !self.metas.m_valid.val())
                    & ((!self.e_qp.q.val() & !self.e_full.q.val()) & !self.e_ecn.q.val())));
        if self.rst.val() {
            self.st.d.next = St::Idle;
            self.on.d.next = 0.into();
            self.arm.d.next = 0.into();
            self.prev.d.next = 0.into();
            self.mv.d.next = Mv::Idle;
            self.v1.d.next = false;
            self.e_qp.d.next = false;
            self.e_full.d.next = false;
            self.e_ecn.d.next = false;
        }
    }
}
