//! A card in software, behind the simulator's socket: commands, queues and completions of the host interface, and a
//! perfect network between all QPs. It is what the provider is tested against without an RTL simulator; it knows
//! nothing of packets, time or loss.
mod card;
mod command;
mod link;
mod mem;

pub use card::Server;
