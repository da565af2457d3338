//! Verilated MetaRoCE cards, the fabric between them, their hosts, and benches.
//!
//! The card is the RTL, translated by Verilator at build time; nothing here implements transport.
//! [`sim::Sim`] steps N cards with scripted hosts (repeats to the bit); [`server`] lets real
//! processes with the rdma-core provider be the hosts.

mod barrier;
pub mod bench;
mod capture;
pub mod client;
pub mod craft;
pub mod door;
pub mod fabric;
pub mod faults;
pub mod ffi;
pub mod fuzz;
pub mod hostport;
pub mod memory;
pub mod msn;
pub mod node;
pub mod pair;
pub mod raw;
pub mod raw_bench;
pub mod recovery;
pub mod rng;
pub mod scale;
pub mod script;
pub mod server;
pub mod sim;
pub mod soak;
pub mod srq;
pub mod stamps;
pub mod watch;
pub mod window;
