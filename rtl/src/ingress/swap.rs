//! Byte order.

use array_init::array_init;
use rust_hdl::prelude::*;

/// Reverses the `B` bytes of a word of `N = 8 * B` bits: wiring only.
#[derive(LogicBlock)]
pub struct Swap<const N: usize, const B: usize> {
    pub x: Signal<In, Bits<N>>,
    pub y: Signal<Out, Bits<N>>,
    one: Signal<Local, Bits<8>>,
    t: [Signal<Local, Bits<N>>; B],
    last: Signal<Local, Bits<N>>,
}

impl<const N: usize, const B: usize> Default for Swap<N, B> {
    fn default() -> Self {
        assert_eq!(N, 8 * B);
        Self {
            x: Default::default(),
            y: Default::default(),
            t: array_init(|_| Default::default()),
            last: Default::default(),
            one: Default::default(),
        }
    }
}

impl<const N: usize, const B: usize> Logic for Swap<N, B> {
    #[hdl_gen]
    fn update(&mut self) {
        self.last.next = 0.into();
        for i in 0..B {
            self.one.next = self.x.val().get_bits::<8>(i * 8);
            self.t[i].next = (self.last.val() << 8) | bit_cast::<N, 8>(self.one.val());
            self.last.next = self.t[i].val();
        }
        self.y.next = self.last.val();
    }
}
