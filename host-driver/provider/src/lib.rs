//! rdma-core provider for the MetaRoCE card.
//!
//! libibverbs loads `libmetaroce-rdmavNN.so`, which registers itself from `.init_array` ([`register`]) after it has
//! proved which table layout the running library has ([`layout`]). Verbs ([`verbs`]) work on a [`card::Card`]; the
//! simulator behind a unix socket is one ([`card::sim`]). [`tree`] builds the directory that makes cards visible.
#![deny(unsafe_op_in_unsafe_fn)]
// Verbs operations are C functions: their contract is that of the verbs call of the same name.
#![allow(clippy::missing_safety_doc)]

pub mod abi;
pub mod card;
mod ctx;
pub mod hce;
pub mod layout;
pub mod ops;
mod register;
mod rom;
pub mod soft;
mod sync;
pub mod tree;
mod verbs;

pub use verbs::device::active_mtu;

/// One line on stderr. The only way a provider can tell its user why.
pub(crate) fn say(text: &str) {
    // One write call, so that lines of several processes do not mix; a closed stderr is not our problem.
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("metaroce: {text}\n").as_bytes());
}
