//! What the whole-card tests share: the tap on the wire with the reference models behind it, and
//! the record of what was hit.
#![allow(dead_code)] // each test binary uses its own part

pub mod cover;
pub mod log;
pub mod tap;
