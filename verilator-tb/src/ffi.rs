//! The Verilated cards behind a plain struct interface (`shim.cpp`).

use metaroce_hdl_spec::config::Config;
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
    fn mini_new() -> *mut Handle;
    fn mini_trace(c: *mut Handle, path: *const c_char) -> c_int;
    fn mini_step(c: *mut Handle, i: *const In, o: *mut Out);
    fn mini_free(c: *mut Handle);
}

/// Functions of a kind of card.
struct Calls {
    new: unsafe extern "C" fn() -> *mut Handle,
    trace: unsafe extern "C" fn(*mut Handle, *const c_char) -> c_int,
    step: unsafe extern "C" fn(*mut Handle, *const In, *mut Out),
    free: unsafe extern "C" fn(*mut Handle),
}

const CARD: Calls = Calls {
    new: card_new,
    trace: card_trace,
    step: card_step,
    free: card_free,
};
const MINI: Calls = Calls {
    new: mini_new,
    trace: mini_trace,
    step: mini_step,
    free: mini_free,
};

/// One Verilated card.
pub struct Card(*mut Handle, &'static Calls);

// SAFETY: a Verilated model with its own context is used by one thread at a time; it may move between threads.
unsafe impl Send for Card {}

impl Card {
    /// `sim-100g` or, without transport, `mini`.
    pub fn new(hw: &Config) -> Card {
        let calls = if hw.transport { &CARD } else { &MINI };
        // SAFETY: no arguments; never null (C++ new throws).
        Card(unsafe { (calls.new)() }, calls)
    }

    /// Starts an FST dump of all signals. False when built without the `trace` feature or the file can't be made.
    pub fn trace(&mut self, path: &str) -> bool {
        let p = CString::new(path).expect("a path without NUL");
        // SAFETY: the handle is live and the string outlives the call.
        unsafe { (self.1.trace)(self.0, p.as_ptr()) == 0 }
    }

    /// One clock cycle.
    #[inline]
    pub fn step(&mut self, i: &In, o: &mut Out) {
        // SAFETY: both structs have the layout of shim.cpp (repr(C), checked below).
        unsafe { (self.1.step)(self.0, i, o) }
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed once.
        unsafe { (self.1.free)(self.0) }
    }
}

const _: () = assert!(std::mem::size_of::<In>() == 8 + 64 + 8 + 64 + 64 + 12 + 16 + 4);
const _: () = assert!(std::mem::size_of::<Out>() == 8 + 64 + 8 + 16 + 64 + 20 + 8 + 12);
