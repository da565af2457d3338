//! Memory regions and windows as the responder sees them: rights and bounds, no bytes.

use super::types::Target;
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

/// What became of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It is there, or will be.
    Done,
    /// The key does not allow it any more.
    Access,
    /// There is no memory.
    Fault,
}

/// Answers rkey checks.
pub trait Memory {
    /// May `[va, va + len)` be accessed through `rkey`? `len` is not 0.
    fn check(&self, rkey: u32, va: u64, len: u64, access: Access) -> bool;
    /// Does the QP itself grant `access`, whatever the key says? Without it the request is invalid.
    fn permits(&self, _access: Access) -> bool {
        true
    }
    /// May a SEND end the binding of the window `rkey`? Only of a window of type 2 that is bound by the QP asked for.
    fn may_invalidate(&self, _rkey: u32) -> bool {
        false
    }
    /// The payload of the packet, `len` bytes, is to go to `target`; asked when all other checks have passed. Who moves bytes does it here, so that
    /// memory that is not there refuses the packet, and leaves out the [`super::Action::Place`] that follows; the model alone has no bytes.
    fn place(&self, _target: Target, _len: u32) -> Placed {
        Placed::Done
    }
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

impl MemoryRegion {
    /// `[va, va + len)` lies in it. Compared this way round nothing can wrap (field fault A1).
    fn spans(&self, va: u64, len: u64) -> bool {
        len <= self.len && va >= self.base && va - self.base <= self.len - len
    }
    fn allows(&self, rkey: u32, va: u64, len: u64, access: Access) -> bool {
        let right = match access {
            Access::RemoteWrite => self.remote_write,
            Access::RemoteRead => self.remote_read,
            Access::RemoteAtomic => self.remote_atomic,
        };
        self.rkey == rkey && right && self.spans(va, len)
    }
}

impl Memory for MrTable {
    fn check(&self, rkey: u32, va: u64, len: u64, access: Access) -> bool {
        self.0.iter().any(|mr| mr.allows(rkey, va, len, access))
    }
}

/// Regions and the windows of type 2 that are bound to them.
///
/// Which local rights a region gives to binds, and the protection domains, are not modelled.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    /// The regions.
    pub regions: MrTable,
    /// QPN that has bound it, and the window.
    bound: Vec<(u32, MemoryRegion)>,
}

impl Windows {
    /// Nothing is bound.
    pub fn new(regions: MrTable) -> Self {
        Windows {
            regions,
            bound: Vec::new(),
        }
    }

    /// BIND_MW of QP `qpn`; false: refused, and nothing changes. A window of length 0 ends the binding, if any.
    pub fn bind(&mut self, qpn: u32, lkey: u32, window: MemoryRegion) -> bool {
        let owner = self.owner(window.rkey);
        if window.len == 0 {
            return owner.is_none() || self.invalidate(qpn, window.rkey);
        }
        let regions = &self.regions.0;
        let inside = |mr: &MemoryRegion| mr.rkey == lkey && mr.spans(window.base, window.len);
        let taken = owner.is_some() || regions.iter().any(|mr| mr.rkey == window.rkey);
        if taken || !regions.iter().any(inside) {
            return false;
        }
        self.bound.push((qpn, window));
        true
    }

    /// LOCAL_INV or SEND with invalidate of QP `qpn`; false: refused, and nothing changes.
    pub fn invalidate(&mut self, qpn: u32, rkey: u32) -> bool {
        let mine = |(q, w): &(u32, MemoryRegion)| *q == qpn && w.rkey == rkey;
        let at = self.bound.iter().position(mine);
        if let Some(at) = at {
            self.bound.swap_remove(at);
        }
        at.is_some()
    }

    /// Memory for requests that come to QP `qpn`.
    pub fn seen_by(&self, qpn: u32) -> SeenBy<'_> {
        SeenBy { all: self, qpn }
    }

    fn owner(&self, rkey: u32) -> Option<u32> {
        let same = |(_, w): &&(u32, MemoryRegion)| w.rkey == rkey;
        self.bound.iter().find(same).map(|(q, _)| *q)
    }
}

/// The view of one QP of [`Windows`]: all regions, and its own windows.
#[derive(Clone, Copy, Debug)]
pub struct SeenBy<'a> {
    all: &'a Windows,
    qpn: u32,
}

impl Memory for SeenBy<'_> {
    fn check(&self, rkey: u32, va: u64, len: u64, access: Access) -> bool {
        let mine = self.all.bound.iter().filter(|(q, _)| *q == self.qpn);
        self.all.regions.check(rkey, va, len, access)
            || mine
                .into_iter()
                .any(|(_, w)| w.allows(rkey, va, len, access))
    }
    fn may_invalidate(&self, rkey: u32) -> bool {
        self.all.owner(rkey) == Some(self.qpn)
    }
}
