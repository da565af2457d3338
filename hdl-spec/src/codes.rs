//! Named numbers that are more than constants: a table beside them feeds the generated pages.

/// A named value and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    pub name: &'static str,
    pub value: u8,
    pub doc: &'static str,
}

/// Declares a module of `u8` constants plus `TABLE` (same order).
#[macro_export]
macro_rules! codes {
    ($(#[doc = $d:literal])* $name:ident { $($c:ident = $v:literal, $doc:literal;)* }) => {
        $(#[doc = $d])*
        pub mod $name {
            $(#[doc = $doc] pub const $c: u8 = $v;)*
            pub const TABLE: &[$crate::codes::Code] =
                &[$($crate::codes::Code { name: stringify!($c), value: $v, doc: $doc }),*];
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn tables_are_ascending() {
        for (name, t) in crate::CODES {
            assert!(t.windows(2).all(|w| w[0].value < w[1].value), "{name}");
        }
    }
    #[test]
    fn commands_are_indexed_by_opcode() {
        for (i, c) in crate::cmd::op::TABLE.iter().enumerate() {
            assert_eq!(c.value as usize, i);
        }
    }
}
