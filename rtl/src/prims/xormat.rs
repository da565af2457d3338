//! Constant XOR matrices (CRC trees) as leaf cells.

use num_bigint::BigUint;
use rust_hdl::prelude::*;

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

    /// Verilog expressions, one a row, over the vector `x`: 64-bit chunks, since that is what a simulator handles fastest.
    fn verilog(&self, inputs: usize) -> Vec<String> {
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
                if terms.is_empty() {
                    "1'b0".into()
                } else {
                    format!("^({})", terms.join(" ^ "))
                }
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
        let mut s = String::from("always @(*) begin\n");
        for (i, e) in self._m.verilog(I).iter().enumerate() {
            s += &format!("   y[{i}] = {e};\n");
        }
        Verilog::Custom(s + "end\n")
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
        let mut s = format!("initial y = {O}'h0;\nalways @(posedge clock) if (en) begin\n");
        for (i, e) in self._m.verilog(I).iter().enumerate() {
            s += &format!("   y[{i}] <= {e};\n");
        }
        Verilog::Custom(s + "end\n")
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
