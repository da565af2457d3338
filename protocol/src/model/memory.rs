//! Memory regions as the responder sees them: rights and bounds, no bytes.

use alloc::vec::Vec;

/// Remote right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// RDMA WRITE.
    RemoteWrite,
    /// RDMA READ.
    RemoteRead,
    /// Atomics.
    RemoteAtomic,
}

/// Answers rkey checks.
pub trait Memory {
    /// May `[va, va + len)` be accessed through `rkey`? `len` is not 0.
    fn check(&self, rkey: u32, va: u64, len: u64, access: Access) -> bool;
}

/// One region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// Key.
    pub rkey: u32,
    /// First address.
    pub base: u64,
    /// Bytes.
    pub len: u64,
    /// Remote WRITE granted.
    pub remote_write: bool,
    /// Remote READ granted.
    pub remote_read: bool,
    /// Atomics granted.
    pub remote_atomic: bool,
}

/// The regions of one protection domain.
#[derive(Clone, Debug, Default)]
pub struct MrTable(pub Vec<MemoryRegion>);

impl Memory for MrTable {
    fn check(&self, rkey: u32, va: u64, len: u64, access: Access) -> bool {
        self.0.iter().any(|mr| {
            let right = match access {
                Access::RemoteWrite => mr.remote_write,
                Access::RemoteRead => mr.remote_read,
                Access::RemoteAtomic => mr.remote_atomic,
            };
            // Compared this way round nothing can wrap (field fault A1).
            mr.rkey == rkey
                && right
                && len <= mr.len
                && va >= mr.base
                && va - mr.base <= mr.len - len
        })
    }
}
