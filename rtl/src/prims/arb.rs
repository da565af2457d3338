//! Arbiters that merge `N` valid/ready streams into one.

use array_init::array_init;
use rust_hdl::prelude::*;

/// Round-robin merge of `N` streams (2..=4), word by word.
///
/// * Inputs are arrays: `s_data[i]`, `s_valid[i]`, `s_ready[i]`. Output: `m_data`, `m_src` (index of the input it came from), `m_valid`, `m_ready`.
/// * The output is registered; `s_ready` is combinational from `m_ready` and from the valid bits. Latency 1, initiation interval 1.
/// * After input `i` was served, the search starts at `i + 1`, so no input waits for more than `N - 1` words of others.
/// * Words are not locked into packets: put whole items (commands, descriptors) into `D`.
#[derive(LogicBlock)]
pub struct Arb<D: Synth, const N: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub s_data: [Signal<In, D>; N],
    pub s_valid: [Signal<In, bool>; N],
    pub s_ready: [Signal<Out, bool>; N],
    pub m_data: Signal<Out, D>,
    pub m_src: Signal<Out, Bits<2>>,
    pub m_valid: Signal<Out, bool>,
    pub m_ready: Signal<In, bool>,
    data: DFF<D>,
    src: DFF<Bits<2>>,
    v: DFF<bool>,
    last: DFF<Bits<2>>,
    idx: [Constant<Bits<2>>; N],
    load: Signal<Local, bool>,
    hi: Signal<Local, bool>,
    hi_sel: Signal<Local, Bits<2>>,
    lo: Signal<Local, bool>,
    lo_sel: Signal<Local, Bits<2>>,
    sel: Signal<Local, Bits<2>>,
    hit: [Signal<Local, bool>; N],
}

/// Two inputs.
pub type Arb2<D> = Arb<D, 2>;
/// Three inputs.
pub type Arb3<D> = Arb<D, 3>;
/// Four inputs.
pub type Arb4<D> = Arb<D, 4>;

impl<D: Synth, const N: usize> Default for Arb<D, N> {
    fn default() -> Self {
        assert!((2..=4).contains(&N));
        Self {
            clock: Default::default(),
            rst: Default::default(),
            s_data: array_init(|_| Default::default()),
            s_valid: array_init(|_| Default::default()),
            s_ready: array_init(|_| Default::default()),
            m_data: Default::default(),
            m_src: Default::default(),
            m_valid: Default::default(),
            m_ready: Default::default(),
            data: Default::default(),
            src: Default::default(),
            v: Default::default(),
            last: Default::default(),
            idx: array_init(|i| Constant::new((i as u64).into())),
            load: Default::default(),
            hi: Default::default(),
            hi_sel: Default::default(),
            lo: Default::default(),
            lo_sel: Default::default(),
            sel: Default::default(),
            hit: array_init(|_| Default::default()),
        }
    }
}

impl<D: Synth, const N: usize> Logic for Arb<D, N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, data, src, v, last);
        self.load.next = !self.v.q.val() | self.m_ready.val();
        self.hi.next = false;
        self.hi_sel.next = 0.into();
        self.lo.next = false;
        self.lo_sel.next = 0.into();
        for i in 0..N {
            if self.s_valid[i].val() & !self.lo.val() {
                self.lo.next = true;
                self.lo_sel.next = self.idx[i].val();
            }
            if (self.s_valid[i].val() & !self.hi.val()) & (self.idx[i].val() > self.last.q.val()) {
                self.hi.next = true;
                self.hi_sel.next = self.idx[i].val();
            }
        }
        self.sel.next = self.lo_sel.val();
        if self.hi.val() {
            self.sel.next = self.hi_sel.val();
        }
        for i in 0..N {
            self.hit[i].next =
                (self.lo.val() & self.load.val()) & (self.sel.val() == self.idx[i].val());
            self.s_ready[i].next = self.hit[i].val();
            if self.hit[i].val() {
                self.data.d.next = self.s_data[i].val();
            }
        }
        if self.load.val() {
            self.v.d.next = self.lo.val();
            self.src.d.next = self.sel.val();
            if self.lo.val() {
                self.last.d.next = self.sel.val();
            }
        }
        self.m_data.next = self.data.q.val();
        self.m_src.next = self.src.q.val();
        self.m_valid.next = self.v.q.val();
        if self.rst.val() {
            self.v.d.next = false;
            self.last.d.next = 0.into();
        }
    }
}

/// As [`Arb`], with fixed priority: input 0 first. An input can starve those after it.
#[derive(LogicBlock)]
pub struct PrioArb<D: Synth, const N: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub s_data: [Signal<In, D>; N],
    pub s_valid: [Signal<In, bool>; N],
    pub s_ready: [Signal<Out, bool>; N],
    pub m_data: Signal<Out, D>,
    pub m_src: Signal<Out, Bits<2>>,
    pub m_valid: Signal<Out, bool>,
    pub m_ready: Signal<In, bool>,
    data: DFF<D>,
    src: DFF<Bits<2>>,
    v: DFF<bool>,
    idx: [Constant<Bits<2>>; N],
    load: Signal<Local, bool>,
    lo: Signal<Local, bool>,
}

impl<D: Synth, const N: usize> Default for PrioArb<D, N> {
    fn default() -> Self {
        assert!((2..=4).contains(&N));
        Self {
            clock: Default::default(),
            rst: Default::default(),
            s_data: array_init(|_| Default::default()),
            s_valid: array_init(|_| Default::default()),
            s_ready: array_init(|_| Default::default()),
            m_data: Default::default(),
            m_src: Default::default(),
            m_valid: Default::default(),
            m_ready: Default::default(),
            data: Default::default(),
            src: Default::default(),
            v: Default::default(),
            idx: array_init(|i| Constant::new((i as u64).into())),
            load: Default::default(),
            lo: Default::default(),
        }
    }
}

impl<D: Synth, const N: usize> Logic for PrioArb<D, N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, data, src, v);
        self.load.next = !self.v.q.val() | self.m_ready.val();
        self.lo.next = false;
        for i in 0..N {
            self.s_ready[i].next = false;
            if self.s_valid[i].val() & !self.lo.val() {
                self.lo.next = true;
                self.s_ready[i].next = self.load.val();
                if self.load.val() {
                    self.data.d.next = self.s_data[i].val();
                    self.src.d.next = self.idx[i].val();
                }
            }
        }
        if self.load.val() {
            self.v.d.next = self.lo.val();
        }
        self.m_data.next = self.data.q.val();
        self.m_src.next = self.src.q.val();
        self.m_valid.next = self.v.q.val();
        if self.rst.val() {
            self.v.d.next = false;
        }
    }
}
