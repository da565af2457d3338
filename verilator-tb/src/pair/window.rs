//! Memory windows of type 2 for long benches: each spans the whole buffer of its end, with all rights.

use super::{Pair, ALL_ACCESS};
use crate::script::{Bind, Wr, MW_BIND};
use metaroce_hdl_spec::wqe::op;

/// A window and the key that it is bound under, or will be next.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub key: u32,
    lkey: u32,
    va: u64,
    len: u64,
}

/// Lets windows be bound to the buffer of end `e`: its key. One MR for all, so that there is one page list to be read.
pub fn region(p: &mut Pair, e: usize) -> u32 {
    let r = &mut p.ends[e];
    let (key, len, access) = (Some(r.key), r.len + 8192, ALL_ACCESS | MW_BIND);
    let key = r
        .host
        .set_mr(&mut p.sim, key, r.pd, r.buf, r.buf, len, access);
    key.expect("REREG_MR")
}

impl Window {
    /// A window of end `e` that is not bound.
    pub fn new(p: &mut Pair, e: usize, lkey: u32) -> Window {
        let r = &mut p.ends[e];
        Window {
            key: r.host.alloc_mw(&mut p.sim, r.pd, true),
            lkey,
            va: r.buf,
            len: r.len,
        }
    }

    /// Another key from the next bind on.
    pub fn turn(&mut self) {
        self.key = (self.key & !0xFF) | (self.key.wrapping_add(1) & 0xFF);
    }

    pub fn bind(&self) -> Wr {
        Wr {
            op: op::BIND_MW,
            signaled: true,
            bind: Some(Bind {
                key: self.key,
                lkey: self.lkey,
                va: self.va,
                len: self.len,
                access: ALL_ACCESS,
            }),
            ..Wr::default()
        }
    }

    /// LOCAL_INV.
    pub fn end(&self) -> Wr {
        Wr {
            op: op::LOCAL_INV,
            signaled: true,
            imm: self.key,
            ..Wr::default()
        }
    }

    /// Makes a SEND of the peer one that ends the binding.
    pub fn ended_by(&self, send: Wr) -> Wr {
        Wr {
            op: op::SEND_INV,
            imm: self.key.swap_bytes(),
            ..send
        }
    }
}
