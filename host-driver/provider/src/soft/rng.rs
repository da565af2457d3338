//! Numbers that nobody can guess from outside: QPNs and keys.

/// xorshift64*, seeded by the kernel.
pub struct Rng(u64);

impl Rng {
    pub fn new() -> Rng {
        let mut seed = [0u8; 8];
        // SAFETY: eight bytes of ours.
        let n = unsafe { libc::getrandom(seed.as_mut_ptr().cast(), 8, libc::GRND_NONBLOCK) };
        let mut v = u64::from_ne_bytes(seed);
        if n != 8 {
            // before the kernel has entropy: addresses and time
            let t = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            v = t.map_or(0, |t| t.as_nanos() as u64) ^ (&v as *const u64 as u64);
        }
        Rng::from(v)
    }
    pub fn from(seed: u64) -> Rng {
        Rng(seed | 1)
    }
    pub fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}
