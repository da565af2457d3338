//! Cards in software, behind the simulator's socket, against which the provider is tested without an RTL simulator. [`Server`] has queue
//! pairs: commands, queues and completions of the host interface, and a perfect network between all of them; it knows
//! nothing of packets, time or loss. [`RawServer`] has raw packet queues, and a network that loses, doubles and reorders.
#![allow(dead_code)] // not every test needs both
mod card;
mod command;
mod link;
mod mem;
mod raw;

#[allow(unused_imports)]
pub use card::Server;
#[allow(unused_imports)]
pub use raw::{Net, RawServer};
