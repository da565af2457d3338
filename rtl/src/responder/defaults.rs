//! `Default` of a block that has constants.

/// Implements `Default` for a block: the fields before `;` are default, the others have an initial value; the condition is checked when the block is made.
#[macro_export]
macro_rules! block_default {
    ($t:ident < $($g:ident),+ > { $($f:ident),+ ; assert $ok:expr ; $($c:ident : $e:expr),+ $(,)? }) => {
        impl<$(const $g: usize),+> Default for $t<$($g),+> {
            fn default() -> Self {
                assert!($ok, "{}: illegal parameters", stringify!($t));
                Self { $($f: Default::default(),)+ $($c: $e),+ }
            }
        }
    };
}
