//! Pipelined byte rotator.

use array_init::array_init;
use rust_hdl::prelude::*;

/// Rotates a word of `L` bytes (`W == 8 * L`, `L` a power of two up to 64) left by `n mod L` bytes: byte `i` moves to lane `(i + n) mod L`.
/// To rotate right by `n`, rotate left by `L - n`.
///
/// * `s_*` in cycle t gives `m_*` in cycle t+2: two register stages of at most three 2:1 levels each. Initiation interval 1.
/// * `m_data` means something only with `m_valid` (an idle pipe does not rotate: that costs a simulator nothing).
/// * `tag` travels with the word. No back-pressure: `ce` low freezes the whole pipe. `rst` clears the valid bits.
#[derive(LogicBlock)]
pub struct ByteRot<D: Synth, const W: usize, const L: usize> {
    pub clock: Signal<In, Clock>,
    pub rst: Signal<In, bool>,
    pub ce: Signal<In, bool>,
    pub s_data: Signal<In, Bits<W>>,
    pub s_n: Signal<In, Bits<6>>,
    pub s_tag: Signal<In, D>,
    pub s_valid: Signal<In, bool>,
    pub m_data: Signal<Out, Bits<W>>,
    pub m_tag: Signal<Out, D>,
    pub m_valid: Signal<Out, bool>,
    up: [Constant<Bits<16>>; 6],
    down: [Constant<Bits<16>>; 6],
    x: [Signal<Local, Bits<W>>; 8],
    d1: DFF<Bits<W>>,
    n1: DFF<Bits<6>>,
    t1: DFF<D>,
    v1: DFF<bool>,
    d2: DFF<Bits<W>>,
    t2: DFF<D>,
    v2: DFF<bool>,
}

impl<D: Synth, const W: usize, const L: usize> Default for ByteRot<D, W, L> {
    fn default() -> Self {
        assert!(W == 8 * L && L.is_power_of_two() && L <= 64);
        let step = |k: usize| ((8usize << k) % W) as u64;
        Self {
            clock: Default::default(),
            rst: Default::default(),
            ce: Default::default(),
            s_data: Default::default(),
            s_n: Default::default(),
            s_tag: Default::default(),
            s_valid: Default::default(),
            m_data: Default::default(),
            m_tag: Default::default(),
            m_valid: Default::default(),
            // a step of a whole word (when L < 64) becomes x << 0 | x >> W, which is x
            up: array_init(|k| Constant::new(step(k).into())),
            down: array_init(|k| Constant::new((W as u64 - step(k)).into())),
            x: array_init(|_| Default::default()),
            d1: Default::default(),
            n1: Default::default(),
            t1: Default::default(),
            v1: Default::default(),
            d2: Default::default(),
            t2: Default::default(),
            v2: Default::default(),
        }
    }
}

impl<D: Synth, const W: usize, const L: usize> Logic for ByteRot<D, W, L> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, d1, n1, t1, v1, d2, t2, v2);
        self.x[0].next = self.s_data.val();
        for k in 0..3 {
            self.x[k + 1].next = self.x[k].val();
            if self.s_valid.val() & self.s_n.val().get_bit(k) {
                self.x[k + 1].next =
                    (self.x[k].val() << self.up[k].val()) | (self.x[k].val() >> self.down[k].val());
            }
        }
        self.x[4].next = self.d1.q.val();
        for k in 3..6 {
            self.x[k + 2].next = self.x[k + 1].val();
            if self.v1.q.val() & self.n1.q.val().get_bit(k) {
                self.x[k + 2].next = (self.x[k + 1].val() << self.up[k].val())
                    | (self.x[k + 1].val() >> self.down[k].val());
            }
        }
        if self.ce.val() {
            self.d1.d.next = self.x[3].val();
            self.n1.d.next = self.s_n.val();
            self.t1.d.next = self.s_tag.val();
            self.v1.d.next = self.s_valid.val();
            self.d2.d.next = self.x[7].val();
            self.t2.d.next = self.t1.q.val();
            self.v2.d.next = self.v1.q.val();
        }
        self.m_data.next = self.d2.q.val();
        self.m_tag.next = self.t2.q.val();
        self.m_valid.next = self.v2.q.val();
        if self.rst.val() {
            self.v1.d.next = false;
            self.v2.d.next = false;
        }
    }
}
