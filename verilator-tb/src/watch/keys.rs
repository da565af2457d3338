//! Keys of one end, as the models see them: those of regions are right in these runs, windows are what binds and
//! invalidations have made of them.

use metaroce_protocol::model::{Access, Memory, MemoryRegion, SeenBy, SendOp, Windows};
use std::collections::BTreeSet;

#[derive(Default)]
pub struct Keys {
    windows: Windows,
    /// Table indices that are windows.
    known: BTreeSet<u32>,
}

/// What one QP may do.
pub struct Seen<'a> {
    keys: &'a Keys,
    mine: SeenBy<'a>,
}

impl Keys {
    /// A local operation of QP `qpn`; false: refused.
    pub fn local(&mut self, qpn: u32, op: SendOp) -> bool {
        match op {
            SendOp::Bind { lkey, window } => {
                self.known.insert(window.rkey >> 8);
                let regions = &mut self.windows.regions.0;
                if !regions.iter().any(|r| r.rkey == lkey) {
                    regions.push(MemoryRegion {
                        rkey: lkey,
                        base: 0,
                        len: u64::MAX,
                        remote_write: false,
                        remote_read: false,
                        remote_atomic: false,
                    });
                }
                self.windows.bind(qpn, lkey, window)
            }
            SendOp::LocalInv { rkey } => self.invalidate(qpn, rkey),
            _ => false,
        }
    }

    pub fn invalidate(&mut self, qpn: u32, rkey: u32) -> bool {
        self.windows.invalidate(qpn, rkey)
    }

    pub fn seen_by(&self, qpn: u32) -> Seen<'_> {
        Seen {
            keys: self,
            mine: self.windows.seen_by(qpn),
        }
    }
}

impl Memory for Seen<'_> {
    fn check(&self, rkey: u32, va: u64, len: u64, access: Access) -> bool {
        !self.keys.known.contains(&(rkey >> 8)) || self.mine.check(rkey, va, len, access)
    }
    fn may_invalidate(&self, rkey: u32) -> bool {
        self.mine.may_invalidate(rkey)
    }
}
