//! Small blocks between the large ones.

mod done_split;
mod link_gate;
mod src_check;
mod tx_arb;

pub use done_split::DoneSplit;
pub use link_gate::LinkGate;
pub use src_check::SrcCheck;
pub use tx_arb::TxArb;
