//! The Verilated card behind a plain struct interface (`shim.cpp`).

use std::ffi::{c_char, c_int, CString};

/// Inputs of one cycle. Layout equals `struct In` of `shim.cpp`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct In {
    pub now: u64,
    pub rx_data: [u32; 16],
    pub rx_meta: [u32; 2],
    pub hrd_data: [u32; 16],
    pub mmio_wr_data: [u32; 16],
    pub mmio_wr_addr: u32,
    pub mmio_rd_addr: u32,
    pub hrd_meta: u32,
    pub rst: u8,
    pub rx_valid: u8,
    pub tx_ready: u8,
    pub hrd_valid: u8,
    pub rd_ready: u8,
    pub wr_ready: u8,
    pub mmio_wr_valid: u8,
    pub mmio_wr_len: u8,
    pub mmio_rd_valid: u8,
    pub pad: [u8; 7],
}

/// Outputs of one cycle, sampled before the clock edge.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Out {
    pub deadline: u64,
    pub tx_data: [u32; 16],
    pub tx_meta: [u32; 2],
    pub rd_data: [u32; 4],
    pub wr_data: [u32; 16],
    pub wr_meta: [u32; 5],
    pub mmio_rd_data: u32,
    pub msi_pasid: u32,
    pub tx_valid: u8,
    pub rd_valid: u8,
    pub wr_valid: u8,
    pub msi_valid: u8,
    pub mmio_rd_done: u8,
    pub mmio_wr_ready: u8,
    pub idle: u8,
    pub deadline_valid: u8,
    pub pad: [u8; 4],
}

enum Handle {}

extern "C" {
    fn card_new() -> *mut Handle;
    fn card_trace(c: *mut Handle, path: *const c_char) -> c_int;
    fn card_step(c: *mut Handle, i: *const In, o: *mut Out);
    fn card_free(c: *mut Handle);
}

/// One Verilated `sim-100g` card.
pub struct Card(*mut Handle);

// SAFETY: a Verilated model with its own context is used by one thread at a time; it may move between threads.
unsafe impl Send for Card {}

impl Card {
    pub fn new() -> Card {
        // SAFETY: no arguments; never null (C++ new throws).
        Card(unsafe { card_new() })
    }

    /// Starts an FST dump of all signals. False when built without the `trace` feature or the file can't be made.
    pub fn trace(&mut self, path: &str) -> bool {
        let p = CString::new(path).expect("a path without NUL");
        // SAFETY: the handle is live and the string outlives the call.
        unsafe { card_trace(self.0, p.as_ptr()) == 0 }
    }

    /// One clock cycle.
    #[inline]
    pub fn step(&mut self, i: &In, o: &mut Out) {
        // SAFETY: both structs have the layout of shim.cpp (repr(C), checked below).
        unsafe { card_step(self.0, i, o) }
    }
}

impl Default for Card {
    fn default() -> Self {
        Card::new()
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // SAFETY: made by card_new, freed once.
        unsafe { card_free(self.0) }
    }
}

const _: () = assert!(std::mem::size_of::<In>() == 8 + 64 + 8 + 64 + 64 + 12 + 16 + 4);
const _: () = assert!(std::mem::size_of::<Out>() == 8 + 64 + 8 + 16 + 64 + 20 + 8 + 12);
