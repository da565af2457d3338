//! Front of the translation: MR entry and page-list lines of a request.

use crate::layouts::MrMap;
use crate::packed_struct;
use crate::types::XlReq;
use rust_hdl::prelude::*;

packed_struct! {
    /// A request with the lines of the page list that it needs. It covers at most two 4 KiB pieces of memory, so at most two lines.
    pub struct Walk {
        pub pasid: Bits<12>,
        pub shift: Bits<6>,
        pub va: Bits<64>,
        pub len: Bits<13>,
        /// Crosses a 4 KiB boundary.
        pub two: bool,
        /// Page-list line (bus address / 64) and entry in it, of the first and of the last byte.
        pub line0: Bits<52>,
        pub ent0: Bits<3>,
        pub line1: Bits<52>,
        pub ent1: Bits<3>,
        /// Sets of the cache for the two lines: low bits.
        pub set0: Bits<12>,
        pub set1: Bits<12>,
    }
}

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum St {
    Idle,
    /// The MR entry arrives.
    Entry,
    /// Distance from the MR in 4 KiB units.
    Dist,
    /// Page numbers.
    Page,
    /// Lines.
    Line,
    /// Sets; waits for the queues.
    Push,
}

/// Initiation interval 6 cycles, latency 5.
///
/// The set of a line is a hash of its address and owner, since lists tend to lie at round addresses.
#[derive(LogicBlock)]
pub struct Walker {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub req_valid: Signal<In, bool>,
    pub req_data: Signal<In, XlReq>,
    pub req_ready: Signal<Out, bool>,
    pub mrm_raddr: Signal<Out, Bits<16>>,
    pub mrm_rdata: Signal<In, MrMap>,
    pub w_valid: Signal<Out, bool>,
    pub w_data: Signal<Out, Walk>,
    pub w_ready: Signal<In, bool>,
    pub idle: Signal<Out, bool>,
    st: DFF<St>,
    r: DFF<XlReq>,
    m: DFF<MrMap>,
    sh: DFF<Bits<6>>,
    last: DFF<Bits<64>>,
    d0: DFF<Bits<52>>,
    d1: DFF<Bits<52>>,
    line0: DFF<Bits<52>>,
    line1: DFF<Bits<52>>,
    ent0: DFF<Bits<3>>,
    ent1: DFF<Bits<3>>,
    two: DFF<bool>,
    va: Signal<Local, Bits<64>>,
    len1: Signal<Local, Bits<13>>,
    p0: Signal<Local, Bits<52>>,
    p1: Signal<Local, Bits<52>>,
    h0: Signal<Local, Bits<52>>,
    h1: Signal<Local, Bits<52>>,
    o: Signal<Local, Walk>,
    fold: Constant<Bits<6>>,
    fold2: Constant<Bits<6>>,
}

impl Walker {
    /// `ll`: log2 of the lines of the cache.
    pub fn new(ll: usize) -> Self {
        Self {
            clock: Default::default(),
            rst: Default::default(),
            req_valid: Default::default(),
            req_data: Default::default(),
            req_ready: Default::default(),
            mrm_raddr: Default::default(),
            mrm_rdata: Default::default(),
            w_valid: Default::default(),
            w_data: Default::default(),
            w_ready: Default::default(),
            idle: Default::default(),
            st: Default::default(),
            r: Default::default(),
            m: Default::default(),
            sh: Default::default(),
            last: Default::default(),
            d0: Default::default(),
            d1: Default::default(),
            line0: Default::default(),
            line1: Default::default(),
            ent0: Default::default(),
            ent1: Default::default(),
            two: Default::default(),
            va: Default::default(),
            len1: Default::default(),
            p0: Default::default(),
            p1: Default::default(),
            h0: Default::default(),
            h1: Default::default(),
            o: Default::default(),
            fold: Constant::new((ll as u64).into()),
            fold2: Constant::new((2 * ll as u64).into()),
        }
    }
}

impl Logic for Walker {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, st, r, m, sh, last, d0, d1, line0, line1, ent0, ent1, two);
        self.mrm_raddr.next = self.req_data.val().mr;
        self.req_ready.next = self.st.q.val() == St::Idle;
        self.va.next = self.r.q.val().va;
        self.len1.next = self.r.q.val().len - 1;
        self.p0.next = self.va.val().get_bits::<52>(12);
        self.p1.next = self.last.q.val().get_bits::<52>(12);
        match self.st.q.val() {
            St::Idle => {
                if self.req_valid.val() {
                    self.r.d.next = self.req_data.val();
                    self.st.d.next = St::Entry;
                }
            }
            St::Entry => {
                self.m.d.next = self.mrm_rdata.val();
                self.last.d.next = self.va.val() + bit_cast::<64, 13>(self.len1.val());
                self.st.d.next = St::Dist;
            }
            St::Dist => {
                self.d0.d.next = self.p0.val() - self.m.q.val().va_page;
                self.d1.d.next = self.p1.val() - self.m.q.val().va_page;
                self.sh.d.next = self.m.q.val().page_shift - 12;
                self.two.d.next = self.p0.val() != self.p1.val();
                self.st.d.next = St::Page;
            }
            St::Page => {
                self.d0.d.next = self.d0.q.val() >> self.sh.q.val();
                self.d1.d.next = self.d1.q.val() >> self.sh.q.val();
                self.st.d.next = St::Line;
            }
            St::Line => {
                self.line0.d.next = self.m.q.val().list + (self.d0.q.val() >> 3);
                self.line1.d.next = self.m.q.val().list + (self.d1.q.val() >> 3);
                self.ent0.d.next = self.d0.q.val().get_bits::<3>(0);
                self.ent1.d.next = self.d1.q.val().get_bits::<3>(0);
                self.st.d.next = St::Push;
            }
            St::Push => {
                if self.w_ready.val() {
                    self.st.d.next = St::Idle;
                }
            }
        }
        self.h0.next = ((self.line0.q.val() ^ (self.line0.q.val() >> self.fold.val()))
            ^ (self.line0.q.val() >> self.fold2.val()))
            ^ bit_cast::<52, 12>(self.m.q.val().pasid);
        self.h1.next = ((self.line1.q.val() ^ (self.line1.q.val() >> self.fold.val()))
            ^ (self.line1.q.val() >> self.fold2.val()))
            ^ bit_cast::<52, 12>(self.m.q.val().pasid);
        self.o.next.set0 = bit_cast::<12, 52>(self.h0.val());
        self.o.next.set1 = bit_cast::<12, 52>(self.h1.val());
        self.o.next.pasid = self.m.q.val().pasid;
        self.o.next.shift = self.m.q.val().page_shift;
        self.o.next.va = self.va.val();
        self.o.next.len = self.r.q.val().len;
        self.o.next.two = self.two.q.val();
        self.o.next.line0 = self.line0.q.val();
        self.o.next.ent0 = self.ent0.q.val();
        self.o.next.line1 = self.line1.q.val();
        self.o.next.ent1 = self.ent1.q.val();
        self.w_data.next = self.o.val();
        self.w_valid.next = self.st.q.val() == St::Push;
        self.idle.next = (self.st.q.val() == St::Idle) & !self.req_valid.val();
        if self.rst.val() {
            self.st.d.next = St::Idle;
        }
    }
}
