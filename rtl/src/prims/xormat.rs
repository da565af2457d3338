//! Constant XOR matrices (CRC trees) as leaf cells.

use num_bigint::BigUint;
use rust_hdl::prelude::*;
use std::collections::BTreeMap;

/// Rows of a matrix over GF(2): `y[i] = ^(x & rows[i])`. Row bit `j` belongs to input bit `j`. The one source of `update` and of the Verilog.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    words: usize,
    rows: Vec<Vec<u64>>,
}

impl Rows {
    /// Build from the images of the unit vectors: `f(j)` is the output for input bit `j` alone, as bit indices that are set.
    pub fn from_columns(inputs: usize, outputs: usize, f: impl Fn(usize) -> Vec<usize>) -> Self {
        let words = inputs.div_ceil(64);
        let mut rows = vec![vec![0u64; words]; outputs];
        for j in 0..inputs {
            for i in f(j) {
                rows[i][j / 64] ^= 1 << (j % 64);
            }
        }
        Self { words, rows }
    }

    fn apply(&self, x: &BigUint) -> BigUint {
        let d = x.to_u64_digits();
        let mut y = BigUint::default();
        for (i, r) in self.rows.iter().enumerate() {
            let p = r
                .iter()
                .zip(&d)
                .fold(0u64, |a, (m, v)| a ^ (m & v))
                .count_ones();
            y.set_bit(i as u64, p % 2 == 1);
        }
        y
    }

    /// The trees for synthesis, and for simulation a table of 256 words for each input byte, which is several times faster. `head` and `assign`
    /// say how a result is stored, such as `always @(*)` and `=`.
    fn verilog(&self, inputs: usize, head: &str, assign: &str) -> String {
        let mut s = format!("`ifdef SYNTHESIS\n{head} begin\n");
        for (i, e) in self.trees(inputs).iter().enumerate() {
            s += &format!("   y[{i}] {assign} {e};\n");
        }
        s += "end\n`else\n";
        let mut sums: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (j, run) in self.runs(inputs).into_iter().enumerate() {
            sums.entry(run).or_default().push(j);
        }
        s += "integer k;\n";
        for ((lo, hi), bytes) in &sums {
            for j in bytes {
                let bits: Vec<String> = (*lo..=*hi)
                    .rev()
                    .map(|i| format!("^(k[7:0] & 8'h{:x})", self.byte(i, *j)))
                    .collect();
                s += &format!(
                    "reg [{}:0] t{j} [0:255];\ninitial for (k = 0; k < 256; k = k + 1) t{j}[k] = {{{}}};\n",
                    hi - lo,
                    bits.join(", ")
                );
            }
        }
        s += &format!("{head} begin\n");
        for ((lo, hi), bytes) in &sums {
            let terms: Vec<String> = bytes
                .iter()
                .map(|j| format!("t{j}[x[{}:{}]]", 8 * j + 7, 8 * j))
                .collect();
            s += &format!("   y[{hi}:{lo}] {assign} {};\n", terms.join(" ^ "));
        }
        s + "end\n`endif\n"
    }

    fn byte(&self, row: usize, j: usize) -> u8 {
        (self.rows[row][j / 8] >> (8 * (j % 8))) as u8
    }

    /// For each input byte the run of rows (first, last) that it acts on; runs that overlap are one, so that each row has one sum of tables.
    fn runs(&self, inputs: usize) -> Vec<(usize, usize)> {
        let mut hit: Vec<(usize, usize)> = (0..inputs / 8)
            .map(|j| {
                let on = |i: &usize| self.byte(*i, j) != 0;
                let n = self.rows.len();
                let lo = (0..n).find(on).expect("an input byte without effect");
                (lo, (0..n).rev().find(on).expect("found above"))
            })
            .collect();
        let mut all = hit.clone();
        all.sort();
        let mut runs: Vec<(usize, usize)> = vec![];
        for (lo, hi) in all {
            match runs.last_mut() {
                Some(r) if lo <= r.1 => r.1 = r.1.max(hi),
                _ => runs.push((lo, hi)),
            }
        }
        for h in &mut hit {
            *h = *runs
                .iter()
                .find(|r| r.0 <= h.0 && h.1 <= r.1)
                .expect("merged above");
        }
        let rows: usize = runs.iter().map(|r| r.1 - r.0 + 1).sum();
        assert!(rows == self.rows.len(), "a row is always zero");
        hit
    }

    /// Verilog expressions, one a row, over the vector `x`.
    fn trees(&self, inputs: usize) -> Vec<String> {
        self.rows
            .iter()
            .map(|r| {
                let terms: Vec<String> = r
                    .iter()
                    .enumerate()
                    .filter(|(_, m)| **m != 0)
                    .map(|(w, m)| {
                        let n = (inputs - 64 * w).min(64);
                        format!("(x[{}:{}] & {n}'h{m:x})", 64 * w + n - 1, 64 * w)
                    })
                    .collect();
                format!("^({})", terms.join(" ^ "))
            })
            .collect()
    }
}

/// Combinational `y = M x`.
#[derive(LogicBlock)]
pub struct XorMat<const I: usize, const O: usize> {
    pub x: Signal<In, Bits<I>>,
    pub y: Signal<Out, Bits<O>>,
    _m: Box<Rows>,
    _last: Option<Bits<I>>,
}

impl<const I: usize, const O: usize> XorMat<I, O> {
    pub fn new(m: Rows) -> Self {
        assert!(m.rows.len() == O && m.words == I.div_ceil(64));
        assert!(I % 8 == 0);
        Self {
            x: Default::default(),
            y: Default::default(),
            _m: Box::new(m),
            _last: None,
        }
    }
}

impl<const I: usize, const O: usize> Logic for XorMat<I, O> {
    fn update(&mut self) {
        let x = self.x.val();
        if self._last != Some(x) {
            self._last = Some(x);
            self.y.next = self._m.apply(&x.into()).into();
        }
    }
    fn connect(&mut self) {
        self.y.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(self._m.verilog(I, "always @(*)", "="))
    }
}

/// Registered `y <= M x` when `en`: y changes in the cycle after. Power-up zero.
#[derive(LogicBlock)]
pub struct XorMatReg<const I: usize, const O: usize> {
    pub clock: Signal<In, Clock>,
    pub en: Signal<In, bool>,
    pub x: Signal<In, Bits<I>>,
    pub y: Signal<Out, Bits<O>>,
    _m: Box<Rows>,
}

impl<const I: usize, const O: usize> XorMatReg<I, O> {
    pub fn new(m: Rows) -> Self {
        assert!(m.rows.len() == O && m.words == I.div_ceil(64));
        assert!(I % 8 == 0);
        Self {
            clock: Default::default(),
            en: Default::default(),
            x: Default::default(),
            y: Default::default(),
            _m: Box::new(m),
        }
    }
}

impl<const I: usize, const O: usize> Logic for XorMatReg<I, O> {
    fn update(&mut self) {
        if self.clock.pos_edge() && self.en.val() {
            self.y.next = self._m.apply(&self.x.val().into()).into();
        }
    }
    fn connect(&mut self) {
        self.y.connect();
    }
    fn hdl(&self) -> Verilog {
        let body = self._m.verilog(I, "always @(posedge clock) if (en)", "<=");
        Verilog::Custom(format!("initial y = {O}'h0;\n{body}"))
    }
    fn timing(&self) -> Vec<TimingInfo> {
        vec![TimingInfo {
            name: "xor".into(),
            clock: "clock".into(),
            inputs: vec!["x".into(), "en".into()],
            outputs: vec!["y".into()],
        }]
    }
}
