//! Shared by the tests of responder, readresp and acks: streams and raw values of the differential harness.
#![allow(dead_code)]

pub mod bench;
pub mod model;

use metaroce_rtl::diff::Stim;
use metaroce_rtl::prims::packed::Unpack;
use num_bigint::BigUint;
use rust_hdl::prelude::*;
use std::collections::VecDeque;

/// Bits of a value.
pub fn raw<T: Synth>(x: T) -> BigUint {
    let text = format!("{:x}", x.verilog());
    let hex = text.split("'h").nth(1).unwrap_or("0");
    BigUint::parse_bytes(hex.as_bytes(), 16).unwrap()
}

/// A value from its bits.
pub fn un<T: Unpack>(v: &BigUint) -> T {
    T::unpack(&|i| v.bit(i as u64), 0)
}

pub fn v(b: impl Into<u64>) -> u64 {
    b.into()
}

pub fn num<const N: usize>(b: Bits<N>) -> u64 {
    (0..N.min(64)).fold(0, |a, i| a | ((b.get_bit(i) as u64) << i))
}

/// Feeds a stream into a block; valid comes with probability `p` and stays.
pub struct Feed<T> {
    pub name: &'static str,
    pub q: VecDeque<T>,
    pub p: f64,
    on: bool,
}

impl<T: Synth> Feed<T> {
    pub fn new(name: &'static str, p: f64) -> Self {
        Self {
            name,
            q: VecDeque::new(),
            p,
            on: false,
        }
    }
    /// Once a cycle. True when the word offered in the cycle before was taken.
    pub fn step(&mut self, s: &mut Stim) -> bool {
        let taken = self.on && s.out_u64(&format!("{}_ready", self.name)) == 1;
        if taken {
            self.q.pop_front();
            self.on = false;
        }
        self.on = !self.q.is_empty() && (self.on || s.rng.p(self.p));
        s.set(&format!("{}_valid", self.name), self.on as u8);
        if let Some(x) = self.q.front() {
            s.set(&format!("{}_data", self.name), raw(*x));
        }
        taken
    }
}

/// Takes a stream from a block, ready with probability `p`; checks that a waiting word does not change.
pub struct Sink {
    pub name: &'static str,
    pub p: f64,
    ready: bool,
    wait: Option<BigUint>,
}

impl Sink {
    pub fn new(name: &'static str, p: f64) -> Self {
        Self {
            name,
            p,
            ready: false,
            wait: None,
        }
    }
    /// Once a cycle: the word that was transferred in the cycle before.
    pub fn step<T: Unpack>(&mut self, s: &mut Stim) -> Option<T> {
        let valid = s.out_u64(&format!("{}_valid", self.name)) == 1;
        let data = s.out(&format!("{}_data", self.name));
        if let Some(w) = &self.wait {
            assert!(
                valid && *w == data,
                "{}: changed while it waited",
                self.name
            );
        }
        let got = (valid && self.ready).then(|| un::<T>(&data));
        self.wait = (valid && !self.ready).then_some(data);
        self.ready = s.rng.p(self.p);
        s.set(&format!("{}_ready", self.name), self.ready as u8);
        got
    }
}
