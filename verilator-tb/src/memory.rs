//! Host memory behind a card's host port.

use std::collections::HashMap;

/// A read that has been asked for; [`Memory::finish_read`] collects it.
pub type Ticket = u64;

/// What the host port reads, writes and interrupts. Calls come in the order of the card's requests.
pub trait Memory: Send {
    /// Starts reading `len` bytes (at most 4096, inside one 4 KiB page).
    fn start_read(&mut self, pasid: u16, addr: u64, len: usize) -> Ticket;
    /// The bytes, or None when the memory is not there. May block on a slow client.
    fn finish_read(&mut self, t: Ticket) -> Option<Vec<u8>>;
    /// Writes; a later write is never visible before an earlier one of the same PASID.
    fn write(&mut self, pasid: u16, addr: u64, data: &[u8]);
    /// The card raised the interrupt of a PASID.
    fn interrupt(&mut self, pasid: u16);
    /// As `Any`, so that a bench can reach its own kind of memory.
    fn any(&mut self) -> &mut dyn std::any::Any;
}

const PAGE: u64 = 4096;

/// Sparse flat memory per PASID, for scripted hosts and the administrator (PASID 0).
#[derive(Default)]
pub struct FlatMemory {
    pages: HashMap<(u16, u64), Box<[u8; PAGE as usize]>>,
    reads: HashMap<Ticket, Option<Vec<u8>>>,
    next: Ticket,
    /// Interrupts not yet taken, per PASID.
    pub interrupts: HashMap<u16, u64>,
    /// PASID -> address ranges that fault (a test takes memory away).
    pub holes: Vec<(u16, u64, u64)>,
    /// PASIDs and what of their memory is the card's to touch (start, end); others may be touched anywhere.
    pub guard: HashMap<u16, Vec<(u64, u64)>>,
    /// Touches beside the guarded ranges.
    pub strays: Vec<String>,
    /// Addresses from, below, and whether a read began there since this was set.
    pub watch: Option<(u64, u64, bool)>,
}

impl FlatMemory {
    /// Reads any range; never written memory is zero.
    pub fn peek(&self, pasid: u16, addr: u64, out: &mut [u8]) {
        let mut at = 0;
        while at < out.len() {
            let a = addr + at as u64;
            let off = (a % PAGE) as usize;
            let n = (PAGE as usize - off).min(out.len() - at);
            match self.pages.get(&(pasid, a / PAGE)) {
                Some(p) => out[at..at + n].copy_from_slice(&p[off..off + n]),
                None => out[at..at + n].fill(0),
            }
            at += n;
        }
    }
    pub fn peek_vec(&self, pasid: u16, addr: u64, len: usize) -> Vec<u8> {
        let mut v = vec![0; len];
        self.peek(pasid, addr, &mut v);
        v
    }
    /// The memory of a process that has ended.
    pub fn forget(&mut self, pasid: u16) {
        self.pages.retain(|k, _| k.0 != pasid);
    }
    pub fn poke(&mut self, pasid: u16, addr: u64, data: &[u8]) {
        let mut at = 0;
        while at < data.len() {
            let a = addr + at as u64;
            let off = (a % PAGE) as usize;
            let n = (PAGE as usize - off).min(data.len() - at);
            let p = self
                .pages
                .entry((pasid, a / PAGE))
                .or_insert_with(|| Box::new([0; PAGE as usize]));
            p[off..off + n].copy_from_slice(&data[at..at + n]);
            at += n;
        }
    }
    fn look(&mut self, what: &str, pasid: u16, addr: u64, len: usize) {
        let end = addr + len as u64;
        let Some(v) = self.guard.get(&pasid) else {
            return;
        };
        if !v.iter().any(|(a, b)| *a <= addr && end <= *b) && self.strays.len() < 10 {
            self.strays.push(format!(
                "{what} of {len} bytes at {addr:#x} of PASID {pasid}"
            ));
        }
    }
    fn hole(&self, pasid: u16, addr: u64, len: u64) -> bool {
        self.holes
            .iter()
            .any(|(p, a, l)| *p == pasid && addr < a + l && *a < addr + len)
    }
}

impl Memory for FlatMemory {
    fn start_read(&mut self, pasid: u16, addr: u64, len: usize) -> Ticket {
        if let Some((from, below, hit)) = &mut self.watch {
            *hit |= addr < *below && addr + len as u64 > *from;
        }
        self.next += 1;
        self.look("read", pasid, addr, len);
        let data = (!self.hole(pasid, addr, len as u64)).then(|| self.peek_vec(pasid, addr, len));
        self.reads.insert(self.next, data);
        self.next
    }
    fn finish_read(&mut self, t: Ticket) -> Option<Vec<u8>> {
        self.reads.remove(&t).flatten()
    }
    fn write(&mut self, pasid: u16, addr: u64, data: &[u8]) {
        self.look("write", pasid, addr, data.len());
        if !self.hole(pasid, addr, data.len() as u64) {
            self.poke(pasid, addr, data);
        }
    }
    fn interrupt(&mut self, pasid: u16) {
        *self.interrupts.entry(pasid).or_default() += 1;
    }
    fn any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
