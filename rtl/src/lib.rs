//! The card in rust-hdl.

/// Nothing in simulation; `#[hdl_gen]` turns it into a Verilog comment.
#[macro_export]
macro_rules! comment {
    ($s:literal) => {};
}

pub mod acks;
pub mod atomic;
pub mod card;
pub mod catalog;
pub mod diff;
pub mod doorbell;
pub mod egress;
pub mod emit;
pub mod fetch;
pub mod glue;
pub mod hostport;
pub mod ingress;
/// Structs of every layout of `hdl-spec` (generated).
#[path = "gen/layouts.rs"]
pub mod layouts;
pub mod mini;
pub mod order;
pub mod placement;
pub mod prims;
pub mod raw;
pub mod readresp;
pub mod regs;
pub mod requester;
pub mod responder;
pub mod rqfetch;
pub mod sequencer;
pub mod sqfetch;
pub mod translate;
pub mod txdma;
pub mod types;
pub mod window;
