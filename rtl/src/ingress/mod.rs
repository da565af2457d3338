//! Receive path: frames from the wire into the receive buffer, checked packets out.

mod icrc_feed;
mod opcode;
mod parse;
mod swap;

use crate::prims::{Fifo, LaneRam, SdpRam};
use crate::types::{RxPkt, WireMeta};
use array_init::array_init;
pub use icrc_feed::IcrcFeed;
pub use opcode::{ClassInfo, OpClass};
pub use parse::{HdrEnt, Parser};
use rust_hdl::prelude::*;
pub use swap::Swap;

/// Parses, checks and stores frames.
///
/// * Wire: one beat a cycle, no `ready`. A frame starts with `sop` at its Ethernet header and ends with `eop` before the FCS.
/// * Each frame that ends well gets a slot (127 can be in use) and stays in the buffer until `free_valid`/`free_slot`; slots are released in any
///   order, their words are used again in the order of arrival. Frames that are cut off, longer than the largest packet, or that find no room are
///   dropped while they arrive; the write pointer goes back to their start. There is no room (`ev_full`) when fewer than eight words or no slot are
///   left, and for no other reason: headers of frames that wait for the parser have queues as deep as there are slots.
/// * `req`: requests and CNP; `rsp`: ACK, READ response, ATOMIC ACK. A packet appears when the whole frame is stored and its ICRC is right. One that
///   is not taken blocks those behind it (four per stream are queued).
/// * `at_*`: a pulse for each frame that got a slot, with its first word, before anything else is known of it.
/// * `ev_*`: one pulse per dropped frame. `ev_malformed` is delayed when two would coincide.
/// * Buffer read port: address and lane select in cycle t, data in t+1 (see [`LaneRam`]).
/// * Latency from the `eop` beat to `RxPkt`: 14 cycles. Initiation interval: one beat a cycle; 8 cycles a frame on average, bursts of 127 frames
///   at one beat each.
/// * `port_mac`: the port's MAC, first wire byte lowest; frames to others are malformed.
/// * Padding behind the IP length is accepted in frames of up to 64 bytes only.
///
/// `P = W / 2`, `L = W / 8`, `A` = log2 of buffer words, `H` = words that hold the first 112 bytes, `N` = see [`IcrcFeed`].
#[derive(LogicBlock)]
pub struct Ingress<
    const W: usize,
    const P: usize,
    const L: usize,
    const A: usize,
    const H: usize,
    const N: usize,
> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub port_mac: Signal<In, Bits<48>>,
    pub rx_valid: Signal<In, bool>,
    pub rx_data: Signal<In, Bits<W>>,
    pub rx_meta: Signal<In, WireMeta>,
    pub req_valid: Signal<Out, bool>,
    pub req_data: Signal<Out, RxPkt>,
    pub req_ready: Signal<In, bool>,
    pub rsp_valid: Signal<Out, bool>,
    pub rsp_data: Signal<Out, RxPkt>,
    pub rsp_ready: Signal<In, bool>,
    pub free_valid: Signal<In, bool>,
    pub free_slot: Signal<In, Bits<7>>,
    pub buf_raddr: Signal<In, Bits<A>>,
    pub buf_rsel: Signal<In, Bits<L>>,
    pub buf_rdata: Signal<Out, Bits<W>>,
    pub at_valid: Signal<Out, bool>,
    pub at_slot: Signal<Out, Bits<7>>,
    pub at_word: Signal<Out, Bits<16>>,
    pub ev_malformed: Signal<Out, bool>,
    pub ev_icrc: Signal<Out, bool>,
    pub ev_opcode: Signal<Out, bool>,
    pub ev_full: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    store: LaneRam<W, L, A>,
    feed: IcrcFeed<W, P, N>,
    // as deep as there are slots, so that they are never full
    hdrs: Fifo<HdrEnt, 7>,
    oks: Fifo<Bits<1>, 7>,
    parser: Parser,
    ends: SdpRam<Bits<A>, 7>,
    d0: DFF<Bits<W>>,
    m0: DFF<WireMeta>,
    v0: DFF<bool>,
    busy: DFF<bool>,
    drop: DFF<Bits<2>>,
    idx: DFF<Bits<10>>,
    first: DFF<Bits<A>>,
    wp: DFF<Bits<A>>,
    tp: DFF<Bits<A>>,
    head: DFF<Bits<7>>,
    // `head + 1`
    beyond: DFF<Bits<7>>,
    tail: DFF<Bits<7>>,
    done: DFF<Bits<128>>,
    free_step: DFF<bool>,
    space: DFF<Bits<A>>,
    tight: DFF<bool>,
    h: [DFF<Bits<W>>; H],
    p1: DFF<bool>,
    p1_len: DFF<Bits<13>>,
    p1_word: DFF<Bits<A>>,
    p1_slot: DFF<Bits<7>>,
    stamp: DFF<Bits<48>>,
    waiting: DFF<Bits<4>>,
    evm: DFF<bool>,
    evf: DFF<bool>,
    m: Signal<Local, WireMeta>,
    start: Signal<Local, bool>,
    act: Signal<Local, bool>,
    last: Signal<Local, bool>,
    addr: Signal<Local, Bits<A>>,
    addr_n: Signal<Local, Bits<A>>,
    at: Signal<Local, Bits<10>>,
    at_n: Signal<Local, Bits<10>>,
    dr: Signal<Local, Bits<2>>,
    we: Signal<Local, bool>,
    room: Signal<Local, bool>,
    commit: Signal<Local, bool>,
    empty: Signal<Local, Bits<6>>,
    bytes: Signal<Local, Bits<13>>,
    cut: Signal<Local, bool>,
    long: Signal<Local, bool>,
    stray: Signal<Local, bool>,
    own: Signal<Local, bool>,
    up: Signal<Local, Bits<4>>,
    down: Signal<Local, Bits<4>>,
    hw: Signal<Local, Bits<W>>,
    hcat: [Signal<Local, Bits<896>>; H],
    hall: Signal<Local, Bits<896>>,
    ent: Signal<Local, HdrEnt>,
    dn: Signal<Local, Bits<128>>,
    hsh: [Constant<Bits<10>>; H],
    hidx: [Constant<Bits<10>>; H],
    lane_log: Constant<Bits<5>>,
    lmask: Constant<Bits<6>>,
    max_words: Constant<Bits<10>>,
    reserve: Constant<Bits<A>>,
    all: Constant<Bits<L>>,
}

/// `sim-100g`.
pub type Ingress100g = Ingress<512, 256, 64, 12, 2, 2>;
/// `ecp5-1g`.
pub type Ingress1g = Ingress<64, 32, 8, 12, 14, 9>;

impl<
        const W: usize,
        const P: usize,
        const L: usize,
        const A: usize,
        const H: usize,
        const N: usize,
    > Default for Ingress<W, P, L, A, H, N>
{
    fn default() -> Self {
        assert!(W == 8 * L && H == 112usize.div_ceil(L) && L.is_power_of_two());
        let log = L.trailing_zeros() as u64;
        // Ethernet 14, VLAN 4, IPv6 40, UDP 8, BTH 12, RETH 16, immediate 4, payload 4096, ICRC 4
        let max = 4198usize.div_ceil(L) as u64;
        assert!((1 << A) > 2 * max && A <= 16 && A + log as usize <= 20);
        Self {
            clock: Default::default(),
            rst: Default::default(),
            port_mac: Default::default(),
            rx_valid: Default::default(),
            rx_data: Default::default(),
            rx_meta: Default::default(),
            req_valid: Default::default(),
            req_data: Default::default(),
            req_ready: Default::default(),
            rsp_valid: Default::default(),
            rsp_data: Default::default(),
            rsp_ready: Default::default(),
            free_valid: Default::default(),
            free_slot: Default::default(),
            buf_raddr: Default::default(),
            buf_rsel: Default::default(),
            buf_rdata: Default::default(),
            at_valid: Default::default(),
            at_slot: Default::default(),
            at_word: Default::default(),
            ev_malformed: Default::default(),
            ev_icrc: Default::default(),
            ev_opcode: Default::default(),
            ev_full: Default::default(),
            idle: Default::default(),
            store: Default::default(),
            feed: Default::default(),
            hdrs: Default::default(),
            oks: Default::default(),
            parser: Parser::new(log),
            ends: Default::default(),
            d0: Default::default(),
            m0: Default::default(),
            v0: Default::default(),
            busy: Default::default(),
            drop: Default::default(),
            idx: Default::default(),
            first: Default::default(),
            wp: Default::default(),
            tp: Default::default(),
            head: Default::default(),
            beyond: Default::default(),
            tail: Default::default(),
            done: Default::default(),
            free_step: Default::default(),
            space: Default::default(),
            tight: Default::default(),
            h: array_init(|_| Default::default()),
            p1: Default::default(),
            p1_len: Default::default(),
            p1_word: Default::default(),
            p1_slot: Default::default(),
            stamp: Default::default(),
            waiting: Default::default(),
            evm: Default::default(),
            evf: Default::default(),
            m: Default::default(),
            start: Default::default(),
            act: Default::default(),
            last: Default::default(),
            addr: Default::default(),
            addr_n: Default::default(),
            at: Default::default(),
            at_n: Default::default(),
            dr: Default::default(),
            we: Default::default(),
            room: Default::default(),
            commit: Default::default(),
            empty: Default::default(),
            bytes: Default::default(),
            cut: Default::default(),
            long: Default::default(),
            stray: Default::default(),
            own: Default::default(),
            up: Default::default(),
            down: Default::default(),
            hw: Default::default(),
            hcat: array_init(|_| Default::default()),
            hall: Default::default(),
            ent: Default::default(),
            dn: Default::default(),
            hsh: array_init(|i| Constant::new(((i * W) as u64).into())),
            hidx: array_init(|i| Constant::new((i as u64).into())),
            lane_log: Constant::new(log.into()),
            lmask: Constant::new((L as u64 - 1).into()),
            max_words: Constant::new(max.into()),
            reserve: Constant::new(8u64.into()),
            all: Constant::new(Bits::<L>::mask()),
        }
    }
}

impl<
        const W: usize,
        const P: usize,
        const L: usize,
        const A: usize,
        const H: usize,
        const N: usize,
    > Logic for Ingress<W, P, L, A, H, N>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, d0, m0, v0, busy, drop, idx, first, wp, tp, head, tail, done);
        dff_setup!(self, clock, beyond);
        dff_setup!(self, clock, free_step, p1, p1_len, p1_word, p1_slot, stamp, waiting, evm, evf);
        dff_setup!(self, clock, space, tight);
        clock!(self, clock, store, feed, hdrs, oks, parser, ends);
        for i in 0..H {
            self.h[i].clock.next = self.clock.val();
            self.h[i].d.next = self.h[i].q.val();
        }
        self.v0.d.next = self.rx_valid.val();
        if self.rx_valid.val() {
            self.d0.d.next = self.rx_data.val();
            self.m0.d.next = self.rx_meta.val();
        }
        // what this beat is
        self.m.next = self.m0.q.val();
        self.start.next = self.v0.q.val() & self.m.val().sop;
        self.act.next = self.v0.q.val() & (self.m.val().sop | self.busy.q.val());
        self.last.next = self.act.val() & self.m.val().eop;
        self.addr.next = self.wp.q.val();
        self.at.next = self.idx.q.val();
        self.dr.next = self.drop.q.val();
        if self.m.val().sop {
            self.addr.next = self.first.q.val();
            self.at.next = 0.into();
            self.dr.next = 0.into();
        }
        self.addr_n.next = self.addr.val() + 1;
        self.at_n.next = self.at.val() + 1;
        if !self.dr.val().any() {
            if self.at.val() == self.max_words.val() {
                self.dr.next = bits::<2>(2);
            } else if self.tight.q.val() {
                self.dr.next = bits::<2>(1);
            }
        }
        self.we.next = self.act.val() & !self.dr.val().any();
        // words left, two cycles old; 0 is an empty buffer since the last words are never used
        self.space.d.next = self.tp.q.val() - self.addr.val();
        self.tight.d.next = self.space.q.val().any() & (self.space.q.val() < self.reserve.val());
        self.room.next = self.beyond.q.val() != self.tail.q.val();
        self.commit.next = (self.last.val() & !self.dr.val().any()) & self.room.val();
        self.store.we.next = self.we.val();
        self.store.waddr.next = self.addr.val();
        self.store.wlane.next = self.all.val();
        self.store.wsel.next = 0.into();
        self.store.wdata.next = self.d0.q.val();
        self.store.raddr.next = self.buf_raddr.val();
        self.store.rsel.next = self.buf_rsel.val();
        self.buf_rdata.next = self.store.rdata.val();
        if self.act.val() {
            self.busy.d.next = !self.m.val().eop;
            self.drop.d.next = self.dr.val();
            // it stands still while a frame is dropped: past the oldest word it would look empty
            self.wp.d.next = self.addr.val();
            if self.we.val() {
                self.wp.d.next = self.addr_n.val();
            }
            if self.last.val() & !self.commit.val() {
                self.wp.d.next = self.first.q.val();
            }
            if self.at.val() != self.max_words.val() {
                self.idx.d.next = self.at_n.val();
            }
            for i in 0..H {
                if self.at.val() == self.hidx[i].val() {
                    self.h[i].d.next = self.d0.q.val();
                }
            }
        }
        if self.start.val() {
            self.stamp.d.next = self.m.val().stamp;
        }
        // a frame that is kept: slot, and its header to the parser in the next cycle
        self.empty.next = self.m.val().empty & self.lmask.val();
        self.bytes.next = (bit_cast::<13, 10>(self.at_n.val()) << self.lane_log.val())
            - bit_cast::<13, 6>(self.empty.val());
        self.p1.d.next = self.commit.val();
        self.ends.we.next = self.commit.val();
        self.ends.waddr.next = self.head.q.val();
        self.ends.wdata.next = self.addr_n.val();
        if self.commit.val() {
            self.first.d.next = self.addr_n.val();
            self.head.d.next = self.beyond.q.val();
            self.beyond.d.next = self.beyond.q.val() + 1;
            self.p1_len.d.next = self.bytes.val();
            self.p1_word.d.next = self.addr.val() - bit_cast::<A, 10>(self.at.val());
            self.p1_slot.d.next = self.head.q.val();
        }
        self.at_valid.next = self.p1.q.val();
        self.at_slot.next = self.p1_slot.q.val();
        self.at_word.next = bit_cast::<16, A>(self.p1_word.q.val());
        self.feed.rst.next = self.rst.val();
        self.feed.v.next = self.act.val();
        self.feed.data.next = self.d0.q.val();
        self.feed.idx.next = self.at.val();
        self.feed.sop.next = self.m.val().sop;
        self.feed.eop.next = self.commit.val();
        self.oks.rst.next = self.rst.val();
        self.oks.s_valid.next = self.feed.ok_valid.val();
        self.oks.s_data.next = 0.into();
        if self.feed.ok.val() {
            self.oks.s_data.next = 1.into();
        }
        self.hall.next = 0.into();
        for i in 0..H {
            self.hw.next = self.h[i].q.val();
            self.hcat[i].next =
                self.hall.val() | (bit_cast::<896, W>(self.hw.val()) << self.hsh[i].val());
            self.hall.next = self.hcat[i].val();
        }
        self.ent.next.hdr = self.hall.val();
        self.ent.next.flen = self.p1_len.q.val();
        self.ent.next.word = bit_cast::<16, A>(self.p1_word.q.val());
        self.ent.next.slot = self.p1_slot.q.val();
        self.ent.next.stamp = self.stamp.q.val();
        self.hdrs.rst.next = self.rst.val();
        self.hdrs.s_data.next = self.ent.val();
        self.hdrs.s_valid.next = self.p1.q.val();
        self.parser.rst.next = self.rst.val();
        self.parser.port_mac.next = self.port_mac.val();
        self.parser.s_valid.next = self.hdrs.m_valid.val();
        self.parser.s_data.next = self.hdrs.m_data.val();
        self.hdrs.m_ready.next = self.parser.s_ready.val();
        self.parser.ok_valid.next = self.oks.m_valid.val();
        self.parser.ok.next = self.oks.m_data.val().any();
        self.oks.m_ready.next = self.parser.ok_ready.val();
        self.req_valid.next = self.parser.req_valid.val();
        self.req_data.next = self.parser.req_data.val();
        self.parser.req_ready.next = self.req_ready.val();
        self.rsp_valid.next = self.parser.rsp_valid.val();
        self.rsp_data.next = self.parser.rsp_data.val();
        self.parser.rsp_ready.next = self.rsp_ready.val();
        // release: two cycles a slot
        self.dn.next = self.done.q.val();
        self.ends.raddr.next = self.tail.q.val();
        self.free_step.d.next = false;
        if self.free_step.q.val() {
            self.tp.d.next = self.ends.rdata.val();
            self.tail.d.next = self.tail.q.val() + 1;
            self.dn.next = self.dn.val().replace_bit(self.tail.q.val().index(), false);
        } else {
            self.free_step.d.next = (self.tail.q.val() != self.head.q.val())
                & self.done.q.val().get_bit(self.tail.q.val().index());
        }
        if self.free_valid.val() {
            self.dn.next = self
                .dn
                .val()
                .replace_bit(self.free_slot.val().index(), true);
        }
        if self.parser.bad_valid.val() {
            self.dn.next = self
                .dn
                .val()
                .replace_bit(self.parser.bad_slot.val().index(), true);
        }
        self.done.d.next = self.dn.val();
        // events
        self.cut.next = self.start.val() & self.busy.q.val();
        self.long.next = self.last.val() & (self.dr.val() == 2);
        self.stray.next = (self.v0.q.val() & self.m.val().eop) & !self.act.val();
        self.own.next = (self.cut.val() | self.long.val()) | self.stray.val();
        self.up.next = self.waiting.q.val() + 1;
        self.down.next = self.waiting.q.val() - 1;
        if self.own.val() {
            if self.parser.ev_malformed.val() & !self.waiting.q.val().all() {
                self.waiting.d.next = self.up.val();
            }
        } else if (self.waiting.q.val().any() & !self.parser.ev_malformed.val())
            | self.waiting.q.val().all()
        {
            self.waiting.d.next = self.down.val();
        }
        self.evm.d.next =
            (self.own.val() | self.parser.ev_malformed.val()) | self.waiting.q.val().any();
        self.evf.d.next =
            self.last.val() & ((self.dr.val() == 1) | (!self.dr.val().any() & !self.room.val()));
        self.ev_malformed.next = self.evm.q.val();
        self.ev_full.next = self.evf.q.val();
        self.ev_icrc.next = self.parser.ev_icrc.val();
        self.ev_opcode.next = self.parser.ev_opcode.val();
        self.idle.next = (!self.v0.q.val() & !self.busy.q.val())
            & ((self.head.q.val() == self.tail.q.val())
                & (!self.p1.q.val() & !self.waiting.q.val().any()));
        if self.rst.val() {
            self.v0.d.next = false;
            self.busy.d.next = false;
            self.first.d.next = 0.into();
            self.wp.d.next = 0.into();
            self.tight.d.next = false;
            self.space.d.next = 0.into();
            self.tp.d.next = 0.into();
            self.head.d.next = 0.into();
            self.beyond.d.next = 1.into();
            self.tail.d.next = 0.into();
            self.done.d.next = 0.into();
            self.free_step.d.next = false;
            self.p1.d.next = false;
            self.waiting.d.next = 0.into();
            self.evm.d.next = false;
            self.evf.d.next = false;
        }
    }
}
