//! Memory regions: keys, rights, page lists.
use super::link::Link;
use metaroce_hdl_spec::wqe::{op, sq};

pub const LOCAL_WRITE: u64 = 1;
pub const REMOTE_WRITE: u64 = 2;
pub const REMOTE_READ: u64 = 4;
pub const REMOTE_ATOMIC: u64 = 8;

#[derive(Clone)]
pub struct Mr {
    pub client: usize,
    pub pd: u64,
    pub access: u64,
    pub list: u64,
    pub va: u64,
    pub len: u64,
}

impl Mr {
    pub fn allows(&self, client: usize, pd: u64, va: u64, len: u64, need: u64) -> bool {
        self.client == client
            && self.pd == pd
            && self.access & need == need
            && len <= self.len
            && va.wrapping_sub(self.va) <= self.len - len
    }

    /// (bus address, bytes) of each page's share of the range.
    fn parts(&self, link: &mut Link, va: u64, len: u64) -> Option<Vec<(u64, usize)>> {
        let first = self.va & !0xfff;
        let (mut at, end) = (va, va + len);
        let mut parts = Vec::new();
        while at < end {
            let entry = link.read(self.list + (at - first) / 4096 * 8, 8)?;
            let page = u64::from_le_bytes(entry.try_into().unwrap());
            let n = (4096 - at % 4096).min(end - at);
            parts.push((page + at % 4096, n as usize));
            at += n;
        }
        Some(parts)
    }

    pub fn read(&self, link: &mut Link, va: u64, len: u64) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for (bus, n) in self.parts(link, va, len)? {
            out.extend(link.read(bus, n)?);
        }
        Some(out)
    }

    pub fn write(&self, link: &mut Link, va: u64, data: &[u8]) -> Option<()> {
        let mut at = 0;
        for (bus, n) in self.parts(link, va, data.len() as u64)? {
            if !link.write(bus, &data[at..at + n]) {
                return None;
            }
            at += n;
        }
        Some(())
    }
    /// Runs the atomic of a send WQE; what was there before.
    pub fn atomic(&self, link: &mut Link, va: u64, wqe: &[u8]) -> Option<Vec<u8>> {
        let old = self.read(link, va, 8)?;
        let was = u64::from_le_bytes(old[..].try_into().unwrap());
        let operand = sq::sge1_va.get(wqe);
        let compare = sq::sge1_len.get(wqe) | sq::sge1_key.get(wqe) << 32;
        let new = match sq::opcode.get(wqe) as u8 {
            op::FETCH_ADD => was.wrapping_add(operand),
            _ if was == compare => operand,
            _ => was,
        };
        self.write(link, va, &new.to_le_bytes())?;
        Some(old)
    }
}
