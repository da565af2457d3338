//! Conversion between `Bits<N>`, structs and bytes.

use rust_hdl::prelude::*;

/// A value that can be cut out of a bit vector; implemented for everything a [`crate::packed_struct!`] field can be.
pub trait Unpack: Sized {
    /// Read `Self` from bit `off` on; `bit(i)` is bit `i` of the source, bit 0 least significant.
    fn unpack(bit: &dyn Fn(usize) -> bool, off: usize) -> Self;
}

impl<const N: usize> Unpack for Bits<N> {
    fn unpack(bit: &dyn Fn(usize) -> bool, off: usize) -> Self {
        let mut v = [false; N];
        for (i, b) in v.iter_mut().enumerate() {
            *b = bit(off + i);
        }
        bits_from_bools(v)
    }
}

impl Unpack for bool {
    fn unpack(bit: &dyn Fn(usize) -> bool, off: usize) -> Self {
        bit(off)
    }
}

fn bits_from_bools<const N: usize>(v: [bool; N]) -> Bits<N> {
    if N <= 32 {
        let x = v
            .iter()
            .enumerate()
            .fold(0u64, |a, (i, b)| a | ((*b as u64) << i));
        x.into()
    } else {
        Bits::Long(v.into())
    }
}

/// Bytes to bits, byte 0 in the least significant lane (the order of a stream beat).
pub fn bits_from_bytes<const N: usize>(b: &[u8]) -> Bits<N> {
    let mut v = [false; N];
    for (i, x) in v.iter_mut().enumerate() {
        *x = (b.get(i / 8).copied().unwrap_or(0) >> (i % 8)) & 1 == 1;
    }
    bits_from_bools(v)
}

/// Bits to bytes, byte 0 from the least significant lane; the last byte is zero-filled.
pub fn bits_to_bytes<const N: usize>(x: Bits<N>) -> Vec<u8> {
    let mut v = vec![0u8; N.div_ceil(8)];
    for i in 0..N {
        v[i / 8] |= (x.get_bit(i) as u8) << (i % 8);
    }
    v
}

/// Declare a `LogicStruct` that also converts *from* bits.
///
/// rust-hdl derives struct -> `Bits` only. With this macro `.into()` works both ways in a kernel (in Verilog a struct is its bits, so `.into()`
/// generates nothing). The first field is the least significant. The user imports `rust_hdl::prelude::*`.
///
/// ```
/// use metaroce_rtl::packed_struct;
/// use rust_hdl::prelude::*;
/// packed_struct! {
///     /// What a beat says.
///     pub struct Beat { pub data: Bits<64>, pub empty: Bits<3>, pub eop: bool }
/// }
/// let b = Beat { data: 5.into(), empty: 2.into(), eop: true };
/// let raw: Bits<68> = b.into();
/// assert_eq!(Beat::from(raw), b);
/// ```
#[macro_export]
macro_rules! packed_struct {
    ($(#[$m:meta])* $v:vis struct $n:ident { $($(#[$fm:meta])* $fv:vis $f:ident : $t:ty),* $(,)? }) => {
        $(#[$m])*
        #[derive(LogicStruct, Copy, Clone, Debug, PartialEq, Default)]
        $v struct $n { $($(#[$fm])* $fv $f: $t),* }
        impl $crate::prims::packed::Unpack for $n {
            #[allow(unused_assignments)]
            fn unpack(bit: &dyn Fn(usize) -> bool, off: usize) -> Self {
                let mut at = off;
                $(
                    let $f = <$t as $crate::prims::packed::Unpack>::unpack(bit, at);
                    at += <$t as Synth>::BITS;
                )*
                Self { $($f),* }
            }
        }
        impl From<Bits<{ <$n as Synth>::BITS }>> for $n {
            fn from(x: Bits<{ <$n as Synth>::BITS }>) -> Self {
                <$n as $crate::prims::packed::Unpack>::unpack(&|i| x.get_bit(i), 0)
            }
        }
    };
}
