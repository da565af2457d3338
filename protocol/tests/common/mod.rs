//! Shared by the integration tests.
#![allow(dead_code)]

pub mod sim;

/// Deterministic generator (xorshift64*), so that a failure repeats from its printed seed.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// 0..n
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n.max(1)
    }
    /// True in `ppm` of a million.
    pub fn chance(&mut self, ppm: u64) -> bool {
        self.below(1_000_000) < ppm
    }
}

pub fn unhex(s: &str) -> Vec<u8> {
    (0..s.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&s[i..i + 2], 16).unwrap())
        .collect()
}

pub struct Vector {
    pub name: String,
    pub frame: Vec<u8>,
    pub icrc: Vec<u8>,
}

/// The golden frames of `tests/data/rocev2_frames.json`.
pub fn vectors() -> Vec<Vector> {
    let v: serde_json::Value =
        serde_json::from_str(include_str!("../data/rocev2_frames.json")).unwrap();
    v.as_array()
        .unwrap()
        .iter()
        .map(|e| {
            let frame = unhex(e["frame"].as_str().unwrap());
            assert_eq!(frame.len() as u64, e["len"].as_u64().unwrap());
            Vector {
                name: e["name"].as_str().unwrap().into(),
                frame,
                icrc: unhex(e["icrc_wire"].as_str().unwrap()),
            }
        })
        .collect()
}

pub fn vector(name: &str) -> Vec<u8> {
    vectors()
        .into_iter()
        .find(|v| v.name == name)
        .expect(name)
        .frame
}

/// Two frames captured from hardware: a UC SEND Only and a CNP of a ConnectX-4 Lx.
pub const CAPTURES: [&str; 2] = [
    "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff000000d300cf17104630818be28935d90e9a95505401be885e50000078f353f3",
    "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118000000000000000000000000000000000000000082fd002a",
];
