//! The card in rust-hdl.

/// Nothing in simulation; `#[hdl_gen]` turns it into a Verilog comment.
#[macro_export]
macro_rules! comment {
    ($s:literal) => {};
}

pub mod prims;
