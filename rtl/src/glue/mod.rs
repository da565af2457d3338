//! Small blocks between the large ones.

mod done_split;
mod tx_arb;

pub use done_split::DoneSplit;
pub use tx_arb::TxArb;
