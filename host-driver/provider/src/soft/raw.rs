//! The raw queue pair of this process: frames to and from the wire.
use crate::card::{Card, Dma};
use metaroce_hdl_spec::regs::{self, doorbell, raw_done, raw_head, raw_ring, raw_rx, raw_tx};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// log2 of slots.
const TX_LOG: u32 = 8;
const RX_LOG: u32 = 9;
/// Frames taken before the card is told.
const TELL: u16 = 64;
const RAW_SLOT: usize = regs::RAW_SLOT as usize;
const FRAME_AT: usize = regs::RAW_RX_FRAME as usize;
/// Bytes of ICRC, which the card adds and takes away.
pub const ICRC: usize = 4;

pub struct Rings {
    raw: Arc<dyn Card>,
    tx: Dma,
    rx: Dma,
    /// Next slot to be sent from.
    tx_next: u16,
    /// What `done` was when last looked at.
    tx_done: u16,
    /// Next slot to be looked at, and what the card knows of it.
    rx_next: u16,
    rx_told: u16,
    /// An interrupt has been asked for and has not come.
    armed: bool,
}

/// A frame in the receive ring.
#[derive(Clone, Copy)]
pub struct Received {
    at: *const u8,
    len: usize,
}

impl Received {
    /// From the Ethernet header on, and four bytes of any value in place of the ICRC.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: inside a slot that the card does not write again before `Rings::taken` has told it.
        unsafe { core::slice::from_raw_parts(self.at, self.len + ICRC) }
    }
}

fn value(f: impl FnOnce(&mut [u8])) -> u64 {
    let mut v = [0; 8];
    f(&mut v);
    u64::from_le_bytes(v)
}

impl Rings {
    /// None = no memory.
    pub fn new(raw: Arc<dyn Card>) -> Option<Rings> {
        // behind the last slot the card says how far it is
        let tx = raw.alloc((RAW_SLOT << TX_LOG) + raw_done::BYTES)?;
        let Some(rx) = raw.alloc(RAW_SLOT << RX_LOG) else {
            raw.free(tx);
            return None;
        };
        Some(Rings {
            raw,
            tx,
            rx,
            tx_next: 0,
            tx_done: 0,
            rx_next: 0,
            rx_told: 0,
            armed: false,
        })
    }

    /// Turns the queues on.
    pub fn enable(&self) {
        for (reg, ring, log) in [
            (doorbell::RAW_TX_RING, &self.tx, TX_LOG),
            (doorbell::RAW_RX_RING, &self.rx, RX_LOG),
        ] {
            let v = value(|v| {
                raw_ring::base.put(v, ring.bus >> 12);
                raw_ring::log.put(v, log as u64);
                raw_ring::enable.put(v, 1);
            });
            self.raw.doorbell(reg, v);
        }
    }

    /// Turns them off.
    pub fn disable(&self) {
        self.raw.try_doorbell(doorbell::RAW_TX_RING, 0);
        self.raw.try_doorbell(doorbell::RAW_RX_RING, 0);
    }

    /// A slot is free to send from.
    pub fn room(&mut self) -> bool {
        let full = |s: &Self| s.tx_next.wrapping_sub(s.tx_done) >= 1 << TX_LOG;
        if full(self) {
            self.look();
        }
        !full(self)
    }

    /// All frames have been read by the card.
    pub fn drained(&mut self) -> bool {
        self.look();
        self.tx_done == self.tx_next
    }

    /// Frames sent so far, modulo 2^16.
    pub fn sent(&self) -> u16 {
        self.tx_next
    }

    /// The card has read the first `sent` frames, which were all that there were when [`Rings::sent`] said so.
    pub fn read(&mut self, sent: u16) -> bool {
        let ahead = |s: &Self| (sent.wrapping_sub(s.tx_done) as i16) > 0;
        if ahead(self) {
            self.look();
        }
        !ahead(self)
    }

    /// How far is the card?
    fn look(&mut self) {
        // SAFETY: an aligned word behind the slots, which the card writes.
        let done = unsafe { &*(self.tx.ptr.add(RAW_SLOT << TX_LOG) as *const AtomicU64) };
        let word = done.load(Ordering::Acquire).to_le_bytes();
        self.tx_done = raw_done::done.get(&word) as u16;
    }

    /// The slot for the next frame; there must be room.
    pub fn slot(&mut self) -> &mut [u8] {
        let at = self.tx_next as usize & ((1 << TX_LOG) - 1);
        // SAFETY: inside the ring; the card has done with it.
        unsafe { core::slice::from_raw_parts_mut(self.tx.ptr.add(at * RAW_SLOT), RAW_SLOT) }
    }

    /// Sends the frame of `len` bytes in [`Rings::slot`].
    pub fn send(&mut self, len: usize) {
        let v = value(|v| {
            raw_tx::index.put(v, self.tx_next as u64);
            raw_tx::len.put(v, len as u64);
        });
        self.tx_next = self.tx_next.wrapping_add(1);
        self.raw.doorbell(doorbell::RAW_TX, v);
    }

    /// The next frame that has come. It stays until [`Rings::taken`].
    pub fn receive(&self) -> Option<Received> {
        let at = self.rx_next as usize & ((1 << RX_LOG) - 1);
        // SAFETY: inside the ring.
        let slot = unsafe { self.rx.ptr.add(at * RAW_SLOT) };
        // SAFETY: aligned; the card writes the head last.
        let word = unsafe { &*(slot as *const AtomicU64) }.load(Ordering::Acquire);
        let head = word.to_le_bytes();
        let phase = !(self.rx_next >> RX_LOG) & 1;
        if raw_head::phase.get(&head) as u16 != phase {
            return None;
        }
        let len = (raw_head::len.get(&head) as usize).min(RAW_SLOT - FRAME_AT - ICRC);
        Some(Received {
            // SAFETY: inside the slot.
            at: unsafe { slot.add(FRAME_AT) },
            len,
        })
    }

    /// The frame has been used.
    pub fn taken(&mut self) {
        self.rx_next = self.rx_next.wrapping_add(1);
        if self.rx_next.wrapping_sub(self.rx_told) >= TELL {
            self.tell();
        }
    }

    fn tell(&mut self) {
        self.rx_told = self.rx_next;
        let v = value(|v| {
            raw_rx::ci.put(v, self.rx_next as u64);
            // one that has been asked for stays asked for
            raw_rx::arm.put(v, self.armed as u64);
        });
        self.raw.doorbell(doorbell::RAW_RX, v);
    }

    /// Asks for an interrupt at the next frame.
    pub fn arm(&mut self) {
        if !self.armed {
            self.armed = true;
            self.tell();
        }
    }

    /// The interrupt has come.
    pub fn fired(&mut self) {
        self.armed = false;
    }
}
