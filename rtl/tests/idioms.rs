//! Every construct that `prims` recommends, through both simulations: if one of these fails, the advice is wrong.
use metaroce_rtl::diff::Diff;
use metaroce_rtl::{inputs, packed_struct};
use rust_hdl::prelude::*;

packed_struct! { pub struct Inner { pub p: Bits<5>, pub q: bool } }
packed_struct! { pub struct Outer { pub n: Inner, pub w: Bits<40>, pub f: bool } }

#[derive(LogicState, Copy, Clone, Debug, PartialEq)]
pub enum St {
    Idle,
    Run,
    Done,
}

#[derive(LogicBlock)]
pub struct Control<const N: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub a: Signal<In, Bits<8>>,
    pub b: Signal<In, Bits<8>>,
    pub v: [Signal<In, bool>; N],
    pub o_if: Signal<Out, Bits<8>>,
    pub o_match: Signal<Out, Bits<8>>,
    pub o_st: Signal<Out, Bits<2>>,
    pub o_first: Signal<Out, Bits<4>>,
    pub o_any: Signal<Out, bool>,
    pub o_eq: Signal<Out, bool>,
    pub o_lit: Signal<Out, bool>,
    pub o_onehot: Signal<Out, Bits<N>>,
    st: DFF<St>,
    idx: [Constant<Bits<4>>; N],
    found: Signal<Local, bool>,
    mat: [Signal<Local, Bits<N>>; 2],
}

impl<const N: usize> Default for Control<N> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            rst: Default::default(),
            a: Default::default(),
            b: Default::default(),
            v: array_init::array_init(|_| Default::default()),
            o_if: Default::default(),
            o_match: Default::default(),
            o_st: Default::default(),
            o_first: Default::default(),
            o_any: Default::default(),
            o_eq: Default::default(),
            o_lit: Default::default(),
            o_onehot: Default::default(),
            st: Default::default(),
            idx: array_init::array_init(|i| Constant::new((i as u64).into())),
            found: Default::default(),
            mat: Default::default(),
        }
    }
}

impl<const N: usize> Logic for Control<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, st);
        if self.v[0].val() {
            self.o_if.next = self.a.val();
        } else if self.v[1].val() & (self.a.val() != self.b.val()) {
            self.o_if.next = self.b.val();
        } else if !self.v[2].val() {
            self.o_if.next = 7.into();
        } else {
            self.o_if.next = bits::<8>(0xA5);
        }
        self.o_match.next = 0.into();
        match self.a.val().index() {
            0 => self.o_match.next = 1.into(),
            1 => {
                if self.v[0].val() {
                    self.o_match.next = 2.into();
                }
            }
            200 => {
                self.o_match.next = self.b.val();
            }
            _ => {
                self.o_match.next = 9.into();
            }
        }
        self.o_st.next = 0.into();
        match self.st.q.val() {
            St::Idle => {
                if self.v[0].val() {
                    self.st.d.next = St::Run;
                }
            }
            St::Run => {
                self.o_st.next = 1.into();
                if self.v[1].val() {
                    self.st.d.next = St::Done;
                }
            }
            St::Done => {
                self.o_st.next = 2.into();
                self.st.d.next = St::Idle;
            }
        }
        if self.st.q.val() == St::Done {
            self.o_st.next = 3.into();
        }
        self.found.next = false;
        self.o_first.next = 15.into();
        for i in 0..N {
            if self.v[i].val() & !self.found.val() {
                self.found.next = true;
                self.o_first.next = self.idx[i].val();
            }
        }
        self.o_any.next = self.a.val().any() & !self.b.val().all();
        self.o_eq.next = (self.a.val() == self.b.val()) | (self.v[0].val() == self.v[1].val());
        self.o_lit.next = (self.a.val() == 5) | (self.b.val() >= 250);
        self.mat[0].next = 0.into();
        for i in 0..N {
            self.mat[0].next = self.mat[0].val().replace_bit(i, self.v[i].val());
        }
        self.mat[1].next = !self.mat[0].val();
        self.o_onehot.next = self.mat[0].val() ^ (self.mat[1].val() << 1);
        if self.rst.val() {
            self.st.d.next = St::Idle;
        }
    }
}

#[test]
fn control() {
    Diff::new(
        "idiom_control",
        Control::<6>::default,
        inputs!(rst, a, b, v),
    )
    .pick("a", &[0, 1, 200, 5, 77])
    .pick("b", &[0, 1, 5, 77, 250, 255])
    .run();
}

#[derive(LogicBlock)]
pub struct Arith<const K: usize> {
    pub a: Signal<In, Bits<24>>,
    pub b: Signal<In, Bits<24>>,
    pub n: Signal<In, Bits<5>>,
    pub w: Signal<In, Bits<300>>,
    pub o_carry: Signal<Out, bool>,
    pub o_sum: Signal<Out, Bits<24>>,
    pub o_before: Signal<Out, bool>,
    pub o_dyn: Signal<Out, bool>,
    pub o_shl: Signal<Out, Bits<24>>,
    pub o_shr: Signal<Out, Bits<300>>,
    pub o_cat: Signal<Out, Bits<48>>,
    pub o_get: Signal<Out, Bits<K>>,
    pub o_wide: Signal<Out, Bits<300>>,
    pub o_byte: Signal<Out, Bits<8>>,
    pub o_mul: Signal<Out, Bits<32>>,
    pub o_min: Signal<Out, Bits<24>>,
    pub o_inc: Signal<Out, Bits<24>>,
    pub o_64: Signal<Out, Bits<64>>,
    pub o_narrow: Signal<Out, Bits<4>>,
    pub o_dynb: Signal<Out, Bits<8>>,
    pub o_xor: Signal<Out, bool>,
    s: Signal<Local, Bits<25>>,
    d: Signal<Local, Bits<24>>,
    t: Signal<Local, Bits<24>>,
    x: Signal<Local, Bits<16>>,
    y: Signal<Local, Bits<16>>,
    off: Signal<Local, Bits<9>>,
    big: Constant<Bits<300>>,
    lane: [Signal<Local, Bits<8>>; 3],
}

impl<const K: usize> Default for Arith<K> {
    fn default() -> Self {
        Self {
            a: Default::default(),
            b: Default::default(),
            n: Default::default(),
            w: Default::default(),
            o_carry: Default::default(),
            o_sum: Default::default(),
            o_before: Default::default(),
            o_dyn: Default::default(),
            o_shl: Default::default(),
            o_shr: Default::default(),
            o_cat: Default::default(),
            o_get: Default::default(),
            o_wide: Default::default(),
            o_byte: Default::default(),
            o_mul: Default::default(),
            o_min: Default::default(),
            o_inc: Default::default(),
            o_64: Default::default(),
            o_narrow: Default::default(),
            o_dynb: Default::default(),
            o_xor: Default::default(),
            s: Default::default(),
            d: Default::default(),
            t: Default::default(),
            x: Default::default(),
            y: Default::default(),
            off: Default::default(),
            big: Constant::new(Bits::<300>::mask() ^ (bits::<300>(0x1234_5678_9ABC) << 250)),
            lane: Default::default(),
        }
    }
}

impl<const K: usize> Logic for Arith<K> {
    #[hdl_gen]
    fn update(&mut self) {
        self.s.next = bit_cast::<25, 24>(self.a.val()) + bit_cast::<25, 24>(self.b.val());
        self.o_carry.next = self.s.val().get_bit(24);
        self.o_sum.next = self.s.val().get_bits::<24>(0);
        self.d.next = self.a.val() - self.b.val();
        self.o_before.next = self.d.val().get_bit(23);
        self.o_dyn.next = self.a.val().get_bit(self.n.val().index());
        self.o_shl.next = self.a.val() << self.n.val();
        self.o_shr.next = self.w.val() >> self.n.val();
        self.o_cat.next =
            (bit_cast::<48, 24>(self.a.val()) << 24) | bit_cast::<48, 24>(self.b.val());
        self.o_get.next = self.w.val().get_bits::<K>(3);
        self.o_wide.next = self.w.val() ^ self.big.val();
        for i in 0..3 {
            self.lane[i].next = self.w.val().get_bits::<8>(i * 8 + 1);
        }
        self.o_byte.next = self.lane[2].val() ^ self.lane[0].val();
        self.x.next = self.a.val().get_bits::<16>(0);
        self.y.next = self.b.val().get_bits::<16>(8);
        self.o_mul.next = self.x.val() * self.y.val();
        self.o_min.next = self.a.val();
        if self.b.val() < self.a.val() {
            self.o_min.next = self.b.val();
        }
        self.o_inc.next = self.a.val() + 1;
        self.o_64.next = bits::<64>(0xDEAD_BEEF_0123_4567_u64) ^ bit_cast::<64, 24>(self.a.val());
        self.o_narrow.next = bit_cast::<4, 24>(self.a.val());
        self.off.next = bit_cast::<9, 5>(self.n.val()) << 3;
        self.o_dynb.next = self.w.val().get_bits::<8>(self.off.val().index());
        self.t.next = self.a.val() & self.b.val();
        self.o_xor.next = self.t.val().xor();
    }
}

#[test]
fn arithmetic() {
    Diff::new("idiom_arith", Arith::<11>::default, inputs!(a, b, n, w))
        .pick("a", &[0, 1, 0xFFFFFF, 0x7FFFFF, 0x800000, 0x123456])
        .max("n", 23)
        .run();
}

#[derive(LogicBlock, Default)]
pub struct Structs {
    pub clock: Signal<In, Clock>,
    pub i: Signal<In, Outer>,
    pub raw: Signal<In, Bits<47>>,
    pub k: Signal<In, Bits<5>>,
    pub o: Signal<Out, Outer>,
    pub o_raw: Signal<Out, Bits<47>>,
    pub o_p: Signal<Out, Bits<5>>,
    pub o_same: Signal<Out, bool>,
    pub o_sum: Signal<Out, Bits<5>>,
    r: DFF<Outer>,
    x: Signal<Local, Outer>,
    n: Signal<Local, Inner>,
    m: Signal<Local, Inner>,
}

impl Logic for Structs {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, r);
        // Bits -> struct and back
        self.x.next = self.raw.val().into();
        self.o_raw.next = self.i.val().into();
        // nested: one level at a time
        self.n.next = self.i.val().n;
        self.o_p.next = self.n.val().p;
        // change a field of a register, the rest follows from dff_setup
        self.r.d.next.w = self.x.val().w;
        self.m.next = self.r.q.val().n;
        self.m.next.p = self.k.val();
        if self.x.val().f {
            self.r.d.next.n = self.m.val();
            self.r.d.next.f = self.n.val().q & !self.x.val().f;
        }
        self.o.next = self.r.q.val();
        self.o.next.f = self.n.val().q;
        self.o_same.next = (self.i.val() == self.x.val()) | (self.n.val().p == self.k.val());
        self.o_sum.next = self.n.val().p + self.k.val();
    }
}

#[test]
fn structs() {
    Diff::new("idiom_structs", Structs::default, inputs!(i, raw, k)).run();
}

/// In a loop, casts and struct fields of an indexed signal go through a plain Local.
#[derive(LogicBlock)]
pub struct Loops {
    pub x: [Signal<In, Bits<8>>; 4],
    pub s: [Signal<In, Inner>; 4],
    pub o: Signal<Out, Bits<32>>,
    pub ps: Signal<Out, Bits<8>>,
    sh: [Constant<Bits<8>>; 4],
    t: Signal<Local, Bits<8>>,
    u: Signal<Local, Inner>,
    acc: Signal<Local, Bits<32>>,
    pacc: Signal<Local, Bits<8>>,
}

impl Default for Loops {
    fn default() -> Self {
        Self {
            x: Default::default(),
            s: Default::default(),
            o: Default::default(),
            ps: Default::default(),
            sh: array_init::array_init(|i| Constant::new((8 * i as u64).into())),
            t: Default::default(),
            u: Default::default(),
            acc: Default::default(),
            pacc: Default::default(),
        }
    }
}

impl Logic for Loops {
    #[hdl_gen]
    fn update(&mut self) {
        self.acc.next = 0.into();
        self.pacc.next = 0.into();
        for i in 0..4 {
            self.t.next = self.x[i].val();
            self.acc.next = self.acc.val() | (bit_cast::<32, 8>(self.t.val()) << self.sh[i].val());
            self.u.next = self.s[i].val();
            self.pacc.next = self.pacc.val() ^ bit_cast::<8, 5>(self.u.val().p);
        }
        self.o.next = self.acc.val();
        self.ps.next = self.pacc.val();
    }
}

#[test]
fn loops() {
    Diff::new("idiom_loops", Loops::default, inputs!(x, s)).run();
}
