//! Raw packet queues: whole frames between rings in host memory and the wire, for a transport that runs in software.

mod doors;
mod rx;
mod tx;

pub use doors::{RawDoors, RawMsg};
pub use rx::RawRx;
pub use tx::RawTx;

use crate::packed_struct;
use rust_hdl::prelude::*;

packed_struct! {
    /// A ring in host memory, as a process set it.
    pub struct RawQueue {
        /// log2 of slots.
        pub log: Bits<5>,
        /// Bus address in units of 4 KiB.
        pub base: Bits<36>,
    }
}
