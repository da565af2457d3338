//! The card in rust-hdl.

/// Nothing in simulation; `#[hdl_gen]` turns it into a Verilog comment.
#[macro_export]
macro_rules! comment {
    ($s:literal) => {};
}

pub mod catalog;
pub mod diff;
pub mod emit;
pub mod acks;
pub mod prims;
pub mod requester;
pub mod readresp;
pub mod responder;
/// Structs of every layout of `hdl-spec` (generated).
#[path = "gen/layouts.rs"]
pub mod layouts;
pub mod types;
pub mod hostport;
pub mod ingress;
pub mod egress;
pub mod translate;
pub mod txdma;
pub mod doorbell;
pub mod sequencer;
pub mod fetch;
pub mod sqfetch;
pub mod rqfetch;
pub mod placement;
pub mod regs;
pub mod glue;
pub mod card;
