//! Virtual address to bus address, with a cache of page-list lines.
//!
//! * In: `req` (MR, address, 1..=4096 bytes; the caller has checked them against the MR), the port of the MR map table (`mrm_raddr` is an MR
//!   index, data one cycle later), `limit_log` (log2 of the largest piece, 7..=12), `fill` (page-list lines; other tags are ignored), `flush`.
//! * Out: `chunk` in the order of the requests: pieces that lie in one page, do not cross a multiple of the limit (so never 4 KiB), the last
//!   of a request marked; if the page list can't be read, one piece of what is left of the request with `err` and `last`. `rd`: reads of
//!   64-byte lines (tags `base..base + 8`). `ev_miss` per line read.
//! * Page list entry: bus address of the page; bits below the page size are ignored.
//! * Up to 8 lines are read at a time, also for up to 8 requests that wait behind the head, so that one miss does not add to the next.
//! * Initiation interval: 6 cycles a request, more if it has more pieces (one a cycle, and 4 cycles more where it crosses 4 KiB).
//!   Latency with a cached line: 10 cycles.
//! * Tag and data of a line that is being replaced by a later request are read again when the head needs them: a queued request prefetches once
//!   only, so this ends.

pub mod cache;
pub mod walk;

use self::cache::{Cache, Line, LineData};
use self::walk::{Walk, Walker};
use crate::layouts::MrMap;
use crate::prims::Fifo;
use crate::types::{CtlFill, HostRd, XlChunk, XlReq};
use rust_hdl::prelude::*;

/// Head of the queue.
#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum St {
    Idle,
    /// Splits off the part before a 4 KiB boundary; looks the line up.
    Look,
    /// The answer of the cache.
    Check,
    /// Page address and first piece.
    Piece,
    /// Gives pieces.
    Emit,
    /// Gives the error.
    Fail,
}

/// Prefetcher.
#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum Pf {
    Idle,
    Look,
    Check,
    Start,
}

/// See the module. `NL = 2^LL` lines.
#[derive(LogicBlock)]
pub struct Translate<const LL: usize, const NL: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub req_valid: Signal<In, bool>,
    pub req_data: Signal<In, XlReq>,
    pub req_ready: Signal<Out, bool>,
    pub chunk_valid: Signal<Out, bool>,
    pub chunk_data: Signal<Out, XlChunk>,
    pub chunk_ready: Signal<In, bool>,
    pub limit_log: Signal<In, Bits<4>>,
    pub mrm_raddr: Signal<Out, Bits<16>>,
    pub mrm_rdata: Signal<In, MrMap>,
    pub rd_valid: Signal<Out, bool>,
    pub rd_data: Signal<Out, HostRd>,
    pub rd_ready: Signal<In, bool>,
    pub fill_valid: Signal<In, bool>,
    pub fill_data: Signal<In, CtlFill>,
    pub flush: Signal<In, bool>,
    pub ev_miss: Signal<Out, bool>,
    pub idle: Signal<Out, bool>,
    walker: Walker,
    cache: Cache<LL, NL>,
    queue: Fifo<Walk, 3>,
    ahead: Fifo<Walk, 3>,
    limit: DFF<Bits<13>>,
    st: DFF<St>,
    c: DFF<Walk>,
    second: DFF<bool>,
    part: DFF<Bits<13>>,
    rest: DFF<Bits<13>>,
    pte: DFF<Bits<64>>,
    addr: DFF<Bits<64>>,
    // bytes behind this piece, unless it is the last of the part (`fin`)
    left: DFF<Bits<13>>,
    piece: DFF<Bits<13>>,
    fin: DFF<bool>,
    to_lim: DFF<Bits<13>>,
    q: Signal<Local, Walk>,
    va: Signal<Local, Bits<64>>,
    low12: Signal<Local, Bits<13>>,
    to4k: Signal<Local, Bits<13>>,
    clen: Signal<Local, Bits<13>>,
    vnext: Signal<Local, Bits<64>>,
    hline: Signal<Local, Line>,
    ent: Signal<Local, Bits<3>>,
    ld: Signal<Local, LineData>,
    raw: Signal<Local, Bits<512>>,
    eoff: Signal<Local, Bits<9>>,
    ones: Signal<Local, Bits<64>>,
    zero: Signal<Local, Bits<64>>,
    high: Signal<Local, Bits<64>>,
    low: Signal<Local, Bits<64>>,
    page: Signal<Local, Bits<64>>,
    in_lim: Signal<Local, Bits<13>>,
    lim1: Signal<Local, Bits<13>>,
    ends: Signal<Local, Bits<13>>,
    more: Signal<Local, bool>,
    set: Signal<Local, Bits<12>>,
    pset: Signal<Local, Bits<12>>,
    above: Signal<Local, Bits<64>>,
    alow: Signal<Local, Bits<12>>,
    ck: Signal<Local, XlChunk>,
    pf: DFF<Pf>,
    pc: DFF<Walk>,
    p2: DFF<bool>,
    pline: Signal<Local, Line>,
}

/// For `sim-100g`.
pub type Translate512 = Translate<9, 512>;
/// For `ecp5-1g`.
pub type Translate64 = Translate<4, 16>;

impl<const LL: usize, const NL: usize> Translate<LL, NL> {
    /// `base`: first of eight host read tags (a multiple of 8).
    pub fn new(base: u8) -> Self {
        Self {
            clock: Default::default(),
            rst: Default::default(),
            req_valid: Default::default(),
            req_data: Default::default(),
            req_ready: Default::default(),
            chunk_valid: Default::default(),
            chunk_data: Default::default(),
            chunk_ready: Default::default(),
            limit_log: Default::default(),
            mrm_raddr: Default::default(),
            mrm_rdata: Default::default(),
            rd_valid: Default::default(),
            rd_data: Default::default(),
            rd_ready: Default::default(),
            fill_valid: Default::default(),
            fill_data: Default::default(),
            flush: Default::default(),
            ev_miss: Default::default(),
            idle: Default::default(),
            walker: Walker::new(LL),
            cache: Cache::new(base),
            queue: Default::default(),
            ahead: Default::default(),
            limit: Default::default(),
            st: Default::default(),
            c: Default::default(),
            second: Default::default(),
            part: Default::default(),
            rest: Default::default(),
            pte: Default::default(),
            addr: Default::default(),
            left: Default::default(),
            piece: Default::default(),
            fin: Default::default(),
            to_lim: Default::default(),
            q: Default::default(),
            va: Default::default(),
            low12: Default::default(),
            to4k: Default::default(),
            clen: Default::default(),
            vnext: Default::default(),
            hline: Default::default(),
            ent: Default::default(),
            ld: Default::default(),
            raw: Default::default(),
            eoff: Default::default(),
            ones: Default::default(),
            zero: Default::default(),
            high: Default::default(),
            low: Default::default(),
            page: Default::default(),
            in_lim: Default::default(),
            lim1: Default::default(),
            ends: Default::default(),
            more: Default::default(),
            set: Default::default(),
            pset: Default::default(),
            above: Default::default(),
            alow: Default::default(),
            ck: Default::default(),
            pf: Default::default(),
            pc: Default::default(),
            p2: Default::default(),
            pline: Default::default(),
        }
    }
}

impl<const LL: usize, const NL: usize> Logic for Translate<LL, NL> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, limit, st, c, second, part, rest, pte, addr, left, piece);
        dff_setup!(self, clock, fin, to_lim);
        dff_setup!(self, clock, pf, pc, p2);
        clock!(self, clock, walker, cache, queue, ahead);
        self.walker.rst.next = self.rst.val();
        self.cache.rst.next = self.rst.val();
        self.queue.rst.next = self.rst.val();
        self.ahead.rst.next = self.rst.val();
        self.limit.d.next = bits::<13>(1) << self.limit_log.val();

        // front
        self.walker.req_valid.next = self.req_valid.val();
        self.walker.req_data.next = self.req_data.val();
        self.req_ready.next = self.walker.req_ready.val();
        self.mrm_raddr.next = self.walker.mrm_raddr.val();
        self.walker.mrm_rdata.next = self.mrm_rdata.val();
        self.walker.w_ready.next = self.queue.s_ready.val() & self.ahead.s_ready.val();
        self.queue.s_valid.next = self.walker.w_valid.val() & self.ahead.s_ready.val();
        self.queue.s_data.next = self.walker.w_data.val();
        self.ahead.s_valid.next = self.walker.w_valid.val() & self.queue.s_ready.val();
        self.ahead.s_data.next = self.walker.w_data.val();

        // cache
        self.cache.flush.next = self.flush.val();
        self.cache.fill_valid.next = self.fill_valid.val();
        self.cache.fill_data.next = self.fill_data.val();
        self.rd_valid.next = self.cache.rd_valid.val();
        self.rd_data.next = self.cache.rd_data.val();
        self.cache.rd_ready.next = self.rd_ready.val();
        self.ev_miss.next = self.cache.ev_miss.val();

        // head
        self.q.next = self.queue.m_data.val();
        self.queue.m_ready.next = self.st.q.val() == St::Idle;
        self.va.next = self.c.q.val().va;
        self.clen.next = self.c.q.val().len;
        self.low12.next = bit_cast::<13, 12>(self.va.val().get_bits::<12>(0));
        self.to4k.next = bits::<13>(4096) - self.low12.val();
        self.vnext.next = self.va.val() + bit_cast::<64, 13>(self.part.q.val());
        self.hline.next.pasid = self.c.q.val().pasid;
        self.hline.next.addr = self.c.q.val().line0;
        self.set.next = self.c.q.val().set0;
        self.ent.next = self.c.q.val().ent0;
        if self.second.q.val() {
            self.hline.next.addr = self.c.q.val().line1;
            self.set.next = self.c.q.val().set1;
            self.ent.next = self.c.q.val().ent1;
        }
        self.cache.h_line.next = self.hline.val();
        self.cache.h_set.next = bit_cast::<LL, 12>(self.set.val());
        self.cache.h_miss.next =
            ((self.st.q.val() == St::Check) & !self.cache.h_hit.val()) & !self.cache.h_wait.val();
        self.cache.h_drop.next = (self.st.q.val() == St::Fail) & self.chunk_ready.val();
        self.ld.next = self.cache.h_data.val();
        self.raw.next = self.ld.val().data;
        self.eoff.next = bit_cast::<9, 3>(self.ent.val()) << 6;
        self.zero.next = 0.into();
        self.ones.next = !self.zero.val();
        self.high.next = self.ones.val() << self.c.q.val().shift;
        self.low.next = !self.high.val();
        self.page.next = (self.pte.q.val() & self.high.val()) | (self.va.val() & self.low.val());
        self.lim1.next = self.limit.q.val() - 1;
        self.in_lim.next = self.low12.val() & self.lim1.val();
        self.to_lim.d.next = self.limit.q.val() - self.in_lim.val();
        // behind the second 4 KiB block: the low bits of the end
        self.ends.next = self.clen.val() + self.low12.val();
        self.more.next = self.c.q.val().two & !self.second.q.val();
        self.above.next = bits::<64>(0xFFFF_FFFF_FFFF_F000_u64);
        self.alow.next = self.addr.q.val().get_bits::<12>(0) + self.piece.q.val().get_bits::<12>(0);
        match self.st.q.val() {
            St::Idle => {
                if self.queue.m_valid.val() {
                    self.c.d.next = self.q.val();
                    self.second.d.next = false;
                    self.st.d.next = St::Look;
                }
            }
            St::Look => {
                self.part.d.next = self.clen.val();
                if self.more.val() {
                    self.part.d.next = self.to4k.val();
                }
                self.rest.d.next = self.ends.val() & bits::<13>(4095);
                self.st.d.next = St::Check;
            }
            St::Check => {
                self.pte.d.next = self.raw.val().get_bits::<64>(self.eoff.val().index());
                if self.cache.h_hit.val() {
                    if self.ld.val().err {
                        self.st.d.next = St::Fail;
                    } else {
                        self.st.d.next = St::Piece;
                    }
                } else {
                    self.st.d.next = St::Look;
                }
            }
            St::Piece => {
                self.addr.d.next = self.page.val();
                self.left.d.next = self.part.q.val() - self.to_lim.q.val();
                self.piece.d.next = self.to_lim.q.val();
                self.fin.d.next = self.part.q.val() <= self.to_lim.q.val();
                if self.part.q.val() <= self.to_lim.q.val() {
                    self.piece.d.next = self.part.q.val();
                }
                self.st.d.next = St::Emit;
            }
            St::Emit => {
                if self.chunk_ready.val() {
                    // the part lies in one 4 KiB block, so only the low bits move
                    self.addr.d.next = (self.addr.q.val() & self.above.val())
                        | bit_cast::<64, 12>(self.alow.val());
                    self.left.d.next = self.left.q.val() - self.limit.q.val();
                    self.piece.d.next = self.limit.q.val();
                    self.fin.d.next = self.left.q.val() <= self.limit.q.val();
                    if self.left.q.val() <= self.limit.q.val() {
                        self.piece.d.next = self.left.q.val();
                    }
                    if self.fin.q.val() {
                        self.st.d.next = St::Idle;
                        if self.more.val() {
                            self.c.d.next.va = self.vnext.val();
                            self.c.d.next.len = self.rest.q.val();
                            self.second.d.next = true;
                            self.st.d.next = St::Look;
                        }
                    }
                }
            }
            St::Fail => {
                if self.chunk_ready.val() {
                    self.st.d.next = St::Idle;
                }
            }
        }
        self.chunk_valid.next = (self.st.q.val() == St::Emit) | (self.st.q.val() == St::Fail);
        self.ck.next.pasid = self.c.q.val().pasid;
        self.ck.next.addr = self.addr.q.val();
        self.ck.next.len = self.piece.q.val();
        self.ck.next.last = self.fin.q.val() & !self.more.val();
        self.ck.next.err = false;
        if self.st.q.val() == St::Fail {
            self.ck.next.len = self.clen.val();
            self.ck.next.last = true;
            self.ck.next.err = true;
        }
        self.chunk_data.next = self.ck.val();

        // prefetch
        self.ahead.m_ready.next = self.pf.q.val() == Pf::Idle;
        self.pline.next.pasid = self.pc.q.val().pasid;
        self.pline.next.addr = self.pc.q.val().line0;
        self.pset.next = self.pc.q.val().set0;
        if self.p2.q.val() {
            self.pline.next.addr = self.pc.q.val().line1;
            self.pset.next = self.pc.q.val().set1;
        }
        self.cache.p_line.next = self.pline.val();
        self.cache.p_set.next = bit_cast::<LL, 12>(self.pset.val());
        self.cache.p_miss.next = self.pf.q.val() == Pf::Start;
        match self.pf.q.val() {
            Pf::Idle => {
                if self.ahead.m_valid.val() {
                    self.pc.d.next = self.ahead.m_data.val();
                    self.p2.d.next = false;
                    self.pf.d.next = Pf::Look;
                }
            }
            Pf::Look => {
                self.pf.d.next = Pf::Check;
            }
            Pf::Check => {
                if self.cache.p_hit.val() | self.cache.p_wait.val() {
                    self.pf.d.next = Pf::Idle;
                    if self.pc.q.val().two & !self.p2.q.val() {
                        self.p2.d.next = true;
                        self.pf.d.next = Pf::Look;
                    }
                } else {
                    self.pf.d.next = Pf::Start;
                }
            }
            Pf::Start => {
                // whatever the answer: if it could not start, the head does it when it comes to that
                self.pf.d.next = Pf::Idle;
                if self.pc.q.val().two & !self.p2.q.val() {
                    self.p2.d.next = true;
                    self.pf.d.next = Pf::Look;
                }
            }
        }
        self.idle.next = ((self.walker.idle.val() & !self.queue.m_valid.val())
            & ((self.st.q.val() == St::Idle) & (self.pf.q.val() == Pf::Idle)))
            & (self.cache.idle.val() & !self.ahead.m_valid.val());
        if self.rst.val() {
            self.st.d.next = St::Idle;
            self.pf.d.next = Pf::Idle;
        }
    }
}
