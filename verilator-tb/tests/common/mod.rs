//! What the whole-card tests share: the log of the wire, and the record of what was hit.
#![allow(dead_code)] // each test binary uses its own part

pub mod cover;
pub mod log;
