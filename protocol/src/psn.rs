//! 24-bit sequence numbers.

/// Mask of a 24-bit field.
pub const MASK24: u32 = 0xff_ffff;
/// Half of the sequence space: 2^23. A PSN this far behind is a duplicate, not the future.
pub const HALF24: u32 = 1 << 23;

macro_rules! seq24 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name(u32);

        impl $name {
            /// From the low 24 bits of `v`.
            pub const fn new(v: u32) -> Self {
                Self(v & MASK24)
            }
            /// Value, below 2^24.
            pub const fn get(self) -> u32 {
                self.0
            }
            /// `self + n` modulo 2^24.
            #[must_use]
            pub const fn add(self, n: u32) -> Self {
                Self::new(self.0.wrapping_add(n))
            }
            /// `self - n` modulo 2^24.
            #[must_use]
            pub const fn sub(self, n: u32) -> Self {
                Self::new(self.0.wrapping_sub(n))
            }
            /// Steps forward from `base` to `self`, 0..2^24.
            pub const fn since(self, base: Self) -> u32 {
                self.0.wrapping_sub(base.0) & MASK24
            }
            /// Signed distance from `other` to `self`, -2^23..2^23 (wire facts §5).
            pub const fn diff(self, other: Self) -> i32 {
                (self.0.wrapping_sub(other.0) << 8) as i32 >> 8
            }
            /// `self` is later than `other` (by less than 2^23).
            pub const fn after(self, other: Self) -> bool {
                self.diff(other) > 0
            }
            /// `self` is earlier than `other` (by at most 2^23).
            pub const fn before(self, other: Self) -> bool {
                self.diff(other) < 0
            }
        }

        impl From<u32> for $name {
            fn from(v: u32) -> Self {
                Self::new(v)
            }
        }
    };
}

seq24! {
    /// Packet sequence number: 24 bits, modulo arithmetic. Deliberately not `Ord`.
    Psn
}
seq24! {
    /// Message sequence number: 24-bit count of messages the responder has completed.
    Msn
}
