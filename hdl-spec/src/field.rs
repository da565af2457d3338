//! Bit fields of little-endian memory layouts.

/// A field of `width` (1..=64, or 128 for addresses that are only copied) bits from bit `lo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    pub lo: u16,
    pub width: u16,
    pub doc: &'static str,
}

/// A named layout of `bits` bits; fields are in ascending order and don't overlap.
#[derive(Debug)]
pub struct Layout {
    pub name: &'static str,
    pub doc: &'static str,
    pub bits: u16,
    pub fields: &'static [Field],
}

impl Field {
    #[inline(always)]
    pub const fn byte(self) -> usize {
        (self.lo / 8) as usize
    }
    /// Reads the field. `b` must hold the whole layout; wider than 64 bits reads the low 64.
    #[inline(always)]
    pub fn get(self, b: &[u8]) -> u64 {
        let w = if self.width > 64 { 64 } else { self.width } as u32;
        let first = self.byte();
        let shift = (self.lo % 8) as u32;
        let n = ((shift + w) as usize).div_ceil(8);
        let mut v: u128 = 0;
        let mut i = 0;
        while i < n {
            v |= (b[first + i] as u128) << (8 * i);
            i += 1;
        }
        let v = (v >> shift) as u64;
        if w == 64 {
            v
        } else {
            v & ((1 << w) - 1)
        }
    }
    /// Writes the field; bits of `v` above the width are dropped.
    #[inline(always)]
    pub fn put(self, b: &mut [u8], v: u64) {
        let w = if self.width > 64 { 64 } else { self.width } as u32;
        let first = self.byte();
        if self.lo.is_multiple_of(8) && w.is_multiple_of(8) {
            let n = (w / 8) as usize;
            b[first..first + n].copy_from_slice(&v.to_le_bytes()[..n]);
            return;
        }
        let shift = (self.lo % 8) as u32;
        let n = ((shift + w) as usize).div_ceil(8);
        let mask = (if w == 64 {
            u64::MAX as u128
        } else {
            (1u128 << w) - 1
        }) << shift;
        let val = ((v as u128) << shift) & mask;
        let mut i = 0;
        while i < n {
            let m = (mask >> (8 * i)) as u8;
            b[first + i] = (b[first + i] & !m) | (val >> (8 * i)) as u8;
            i += 1;
        }
    }
    /// Copies raw bytes into a byte-aligned field (for 48- and 128-bit addresses).
    #[inline(always)]
    pub fn put_bytes(self, b: &mut [u8], v: &[u8]) {
        let first = self.byte();
        b[first..first + v.len()].copy_from_slice(v);
    }
}

/// Declares a layout as a module of [`Field`] constants plus `LAYOUT`.
#[macro_export]
macro_rules! layout {
    ($(#[doc = $d:literal])* $name:ident : $bits:literal { $($f:ident : $lo:expr, $w:literal, $doc:literal;)* }) => {
        $(#[doc = $d])*
        #[allow(non_upper_case_globals)]
        pub mod $name {
            use $crate::field::{Field, Layout};
            $(#[doc = $doc] pub const $f: Field = Field { name: stringify!($f), lo: $lo, width: $w, doc: $doc };)*
            pub const BYTES: usize = $bits / 8;
            pub const LAYOUT: Layout = Layout {
                name: stringify!($name),
                doc: concat!($($d, "\n"),*),
                bits: $bits,
                fields: &[$($f),*],
            };
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn layouts_are_ordered_and_fit() {
        for l in crate::LAYOUTS {
            let mut end = 0;
            for f in l.fields {
                assert!(
                    f.lo >= end,
                    "{}.{} overlaps its predecessor",
                    l.name,
                    f.name
                );
                end = f.lo + f.width;
            }
            assert!(end <= l.bits, "{} is longer than {} bits", l.name, l.bits);
        }
    }

    #[test]
    fn put_get_round_trip_leaves_neighbours_alone() {
        for l in crate::LAYOUTS {
            for f in l.fields {
                let w = f.width.min(64) as u32;
                let v = 0xA5C3_96E1_5A3C_691Eu64 & if w == 64 { u64::MAX } else { (1 << w) - 1 };
                let mut b = vec![0xFFu8; l.bits as usize / 8];
                f.put(&mut b, v);
                assert_eq!(f.get(&b), v, "{}.{}", l.name, f.name);
                f.put(&mut b, u64::MAX);
                assert!(
                    b.iter().all(|x| *x == 0xFF),
                    "{}.{} touched a neighbour",
                    l.name,
                    f.name
                );
            }
        }
    }
}
