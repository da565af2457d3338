//! Differential test of a block: the same seeded stimulus through rust-hdl's simulation and through Verilator, compared cycle by cycle on all outputs.
//!
//! ```no_run
//! # use metaroce_rtl::{diff::Diff, inputs, prims::Fifo};
//! # use rust_hdl::prelude::*;
//! // every top-level input except `clock` is listed; outputs are found by themselves, structs count as their bits
//! Diff::new("fifo_8_2", Fifo::<Bits<8>, 2>::default, inputs!(rst, s_data, s_valid, m_ready))
//!     .cycles(600)                // default 500
//!     .p("s_valid", 0.7)          // a bool is true with this probability (default 0.5; `rst` 1/100 and the first two cycles)
//!     // .max("s_n", 63)          // uniform in 0..=63
//!     // .pick("op", &[1, 4, 9])  // one of these
//!     // .hold("s_valid", "s_ready", &["s_data"])  // a valid word stays until it is taken
//!     // .stim(|s| if s.cycle > 10 { s.set("s_data", 5u32) })  // last word on the inputs of a cycle; reads s.get(..), s.out(..), s.rng
//!     .run();
//! ```
//! Array inputs are listed by their array name, interface inputs as `rx.data`. Environment: `DIFF_SEED`, `DIFF_CYCLES`, `VERILATOR`.

use crate::emit::emit_verilog;
use crate::prims::packed::Unpack;
use num_bigint::BigUint;
use rust_hdl::prelude::*;
use std::collections::HashMap;
use std::fmt::Write as _;

mod verilate;
use verilate::verilate;
pub use verilate::{verilator, LINT};

/// Small seeded generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// True with probability `p`.
    pub fn p(&mut self, p: f64) -> bool {
        ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64
    }
    /// Uniform in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }
    fn bits(&mut self, n: usize) -> BigUint {
        match self.below(20) {
            0 => BigUint::default(),
            1 => (BigUint::from(1u8) << n) - 1u8,
            _ => {
                let d: Vec<u32> = (0..n.div_ceil(32)).map(|_| self.next() as u32).collect();
                BigUint::new(d) % (BigUint::from(1u8) << n)
            }
        }
    }
}

/// A top-level input that the harness can set from raw bits.
pub trait InPort: Atom {
    fn put(&mut self, v: &BigUint);
}

impl<T: Synth + Unpack> InPort for Signal<In, T> {
    fn put(&mut self, v: &BigUint) {
        self.next = T::unpack(&|i| v.bit(i as u64), 0);
    }
}

/// One input or an array of inputs.
pub trait InPorts {
    fn list<'a>(&'a mut self, to: &mut Vec<&'a mut dyn InPort>);
}

impl<T: Synth + Unpack> InPorts for Signal<In, T> {
    fn list<'a>(&'a mut self, to: &mut Vec<&'a mut dyn InPort>) {
        to.push(self);
    }
}

impl<P: InPorts, const N: usize> InPorts for [P; N] {
    fn list<'a>(&'a mut self, to: &mut Vec<&'a mut dyn InPort>) {
        for p in self {
            p.list(to);
        }
    }
}

/// The inputs of a block, for [`Diff::new`].
#[macro_export]
macro_rules! inputs {
    ($($($f:ident).+),* $(,)?) => {
        |u| {
            #[allow(unused_mut)]
            let mut v: Vec<&mut dyn $crate::diff::InPort> = vec![];
            $( $crate::diff::InPorts::list(&mut u.$($f).+, &mut v); )*
            v
        }
    };
}

#[derive(Clone, Debug)]
struct Port {
    name: String,
    bits: usize,
    id: usize,
    input: bool,
    clock: bool,
}

/// Collects the ports of the top block, or their values.
#[derive(Default)]
struct Top {
    depth: usize,
    space: Vec<String>,
    ports: Vec<Port>,
    values: Option<HashMap<usize, BigUint>>,
}

impl Probe for Top {
    fn visit_start_scope(&mut self, _: &str, _: &dyn Block) {
        self.depth += 1;
    }
    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        self.depth -= 1;
    }
    fn visit_start_namespace(&mut self, name: &str, _: &dyn Block) {
        self.space.push(name.into());
    }
    fn visit_end_namespace(&mut self, _: &str, _: &dyn Block) {
        self.space.pop();
    }
    fn visit_atom(&mut self, name: &str, a: &dyn Atom) {
        if self.depth != 1 || !a.kind().is_parameter() {
            return;
        }
        if let Some(v) = &mut self.values {
            if a.kind() != AtomKind::InputParameter {
                let text = format!("{:x}", a.verilog());
                let hex = text.split("'h").nth(1).unwrap_or("0");
                v.insert(a.id(), BigUint::parse_bytes(hex.as_bytes(), 16).unwrap());
            }
            return;
        }
        let mut path = self.space.clone();
        path.push(name.into());
        self.ports.push(Port {
            name: path.join("$"),
            bits: a.bits(),
            id: a.id(),
            input: a.kind() == AtomKind::InputParameter,
            clock: a.descriptor().name == "clock",
        });
    }
}

#[derive(Clone)]
enum Rule {
    P(f64),
    Max(u64),
    Pick(Vec<u64>),
}

/// What a `stim` closure sees: the inputs of this cycle, which it may change, and the outputs of the cycle before.
pub struct Stim<'a> {
    pub cycle: usize,
    pub rng: &'a mut Rng,
    names: &'a HashMap<String, usize>,
    ins: &'a mut Vec<BigUint>,
    outs: &'a HashMap<String, BigUint>,
}

impl Stim<'_> {
    fn at(&self, name: &str) -> usize {
        *self
            .names
            .get(name)
            .unwrap_or_else(|| panic!("no input {name}"))
    }
    pub fn set(&mut self, name: &str, v: impl Into<BigUint>) {
        let i = self.at(name);
        self.ins[i] = v.into();
    }
    pub fn get(&self, name: &str) -> BigUint {
        self.ins[self.at(name)].clone()
    }
    pub fn get_u64(&self, name: &str) -> u64 {
        low64(&self.get(name))
    }
    /// An output as it was at the end of the cycle before (zero in the first).
    pub fn out(&self, name: &str) -> BigUint {
        self.outs.get(name).cloned().unwrap_or_default()
    }
    pub fn out_u64(&self, name: &str) -> u64 {
        low64(&self.out(name))
    }
}

fn low64(v: &BigUint) -> u64 {
    v.to_u64_digits().first().copied().unwrap_or(0)
}

type StimFn<'f> = Box<dyn FnMut(&mut Stim) + 'f>;

/// One differential test.
pub struct Diff<'f, U, M, I> {
    name: String,
    make: M,
    inputs: I,
    cycles: usize,
    seed: u64,
    rules: HashMap<String, Rule>,
    holds: Vec<(String, String, Vec<String>)>,
    stim: Vec<StimFn<'f>>,
    edit: Option<Box<dyn Fn(String) -> String + 'f>>,
    defines: Vec<String>,
    _u: std::marker::PhantomData<U>,
}

impl<'f, U, M, I> Diff<'f, U, M, I>
where
    U: Block,
    M: Fn() -> U,
    I: for<'a> Fn(&'a mut U) -> Vec<&'a mut dyn InPort>,
{
    /// `name` must be unique among the tests (it names the module and the build folder) and an identifier.
    pub fn new(name: &str, make: M, inputs: I) -> Self {
        Self {
            name: name.into(),
            make,
            inputs,
            cycles: 500,
            seed: name.bytes().fold(1, |a, b| (a * 31 + b as u64) % 1_000_003),
            rules: HashMap::new(),
            holds: vec![],
            stim: vec![],
            edit: None,
            defines: vec![],
            _u: Default::default(),
        }
    }
    pub fn cycles(mut self, n: usize) -> Self {
        self.cycles = n;
        self
    }
    pub fn seed(mut self, s: u64) -> Self {
        self.seed = s;
        self
    }
    /// A `bool` input is true with probability `p`.
    pub fn p(mut self, name: &str, p: f64) -> Self {
        self.rules.insert(name.into(), Rule::P(p));
        self
    }
    /// Uniform in `0..=max`.
    pub fn max(mut self, name: &str, max: u64) -> Self {
        self.rules.insert(name.into(), Rule::Max(max));
        self
    }
    /// One of these values.
    pub fn pick(mut self, name: &str, v: &[u64]) -> Self {
        self.rules.insert(name.into(), Rule::Pick(v.into()));
        self
    }
    /// Stream rule: once `valid` was up without `ready`, `valid` and the data stay as they are.
    pub fn hold(mut self, valid: &str, ready: &str, data: &[&str]) -> Self {
        self.holds.push((
            valid.into(),
            ready.into(),
            data.iter().map(|s| s.to_string()).collect(),
        ));
        self
    }
    /// Called every cycle after the random values were drawn.
    pub fn stim(mut self, f: impl FnMut(&mut Stim) + 'f) -> Self {
        self.stim.push(Box::new(f));
        self
    }
    /// Define a Verilog macro, such as `SYNTHESIS` to test what synthesis sees of a leaf cell.
    pub fn define(mut self, d: &str) -> Self {
        self.defines.push(d.into());
        self
    }
    /// Change the Verilog before it is compiled: shows that the test catches a broken copy.
    pub fn edit_verilog(mut self, f: impl Fn(String) -> String + 'f) -> Self {
        self.edit = Some(Box::new(f));
        self
    }

    /// Panics with cycle, signal, both values, seed and the command to repeat it.
    pub fn run(self) {
        if let Err(e) = self.try_run() {
            panic!("{e}");
        }
    }

    /// As [`Diff::run`]; a mismatch is returned.
    pub fn try_run(mut self) -> Result<(), String> {
        let env = |k: &str| std::env::var(k).ok().and_then(|s| parse_u64(&s));
        self.seed = env("DIFF_SEED").unwrap_or(self.seed);
        self.cycles = env("DIFF_CYCLES").map_or(self.cycles, |c| c as usize);
        let mut u = (self.make)();
        let mut text = emit_verilog(&self.name, &mut u);
        if let Some(f) = &self.edit {
            let t = f(text.clone());
            assert!(t != text, "{}: edit_verilog changed nothing", self.name);
            text = t;
        }
        for d in &self.defines {
            text = format!("`define {d}\n{text}");
        }
        let mut top = Top::default();
        u.accept(&self.name, &mut top);
        let ports = top.ports;
        let ins: Vec<Port> = (self.inputs)(&mut u)
            .iter()
            .map(|p| {
                let id = p.id();
                ports.iter().find(|q| q.id == id).cloned().unwrap()
            })
            .collect();
        for p in ports.iter().filter(|p| p.input && !p.clock) {
            assert!(
                ins.iter().any(|i| i.id == p.id),
                "{}: input {} is not in the list of inputs",
                self.name,
                p.name
            );
        }
        let outs: Vec<Port> = ports.iter().filter(|p| !p.input).cloned().collect();
        let clock = ports.iter().find(|p| p.clock).map(|p| p.name.clone());
        let (stim, want) = self.simulate(&mut u, &ins, &outs, clock.is_some());
        let got = verilate(&self.name, &text, &ins, &outs, clock.as_deref(), &stim);
        self.compare(&ins, &outs, &stim, &want, &got)
    }

    /// The rust-hdl side: draws the stimulus and records inputs and outputs of every cycle, sampled just before the rising edge.
    fn simulate(
        &mut self,
        u: &mut U,
        ins: &[Port],
        outs: &[Port],
        clocked: bool,
    ) -> (Vec<Vec<BigUint>>, Vec<Vec<BigUint>>) {
        let names: HashMap<String, usize> = ins
            .iter()
            .enumerate()
            .map(|(i, p)| (p.name.clone(), i))
            .collect();
        for n in self.rules.keys() {
            assert!(names.contains_key(n), "{}: no input {n}", self.name);
        }
        let mut rng = Rng(self.seed);
        let mut prev_in: Vec<BigUint> = vec![];
        let mut prev_out: HashMap<String, BigUint> = HashMap::new();
        let (mut all_in, mut all_out) = (vec![], vec![]);
        for cycle in 0..self.cycles {
            let mut v: Vec<BigUint> = ins
                .iter()
                .map(|p| draw(&mut rng, cycle, p, self.rules.get(&p.name)))
                .collect();
            for (valid, ready, data) in &self.holds {
                let i = names[valid];
                let waiting = prev_in.get(i).is_some_and(|x| *x == BigUint::from(1u8));
                if waiting && prev_out.get(ready).is_some_and(|x| x.bits() == 0) {
                    v[i] = 1u8.into();
                    for d in data {
                        v[names[d]] = prev_in[names[d]].clone();
                    }
                }
            }
            for f in &mut self.stim {
                f(&mut Stim {
                    cycle,
                    rng: &mut rng,
                    names: &names,
                    ins: &mut v,
                    outs: &prev_out,
                });
            }
            set_clock(u, false, clocked);
            for (p, x) in (self.inputs)(u).into_iter().zip(&v) {
                p.put(x);
            }
            assert!(simulate(u, 500), "{}: no fixed point", self.name);
            let mut probe = Top {
                values: Some(HashMap::new()),
                ..Default::default()
            };
            u.accept(&self.name, &mut probe);
            let values = probe.values.unwrap();
            let o: Vec<BigUint> = outs.iter().map(|p| values[&p.id].clone()).collect();
            prev_out = outs
                .iter()
                .map(|p| p.name.clone())
                .zip(o.iter().cloned())
                .collect();
            prev_in = v.clone();
            all_in.push(v);
            all_out.push(o);
            set_clock(u, true, clocked);
            assert!(simulate(u, 500), "{}: no fixed point", self.name);
        }
        (all_in, all_out)
    }

    fn compare(
        &self,
        ins: &[Port],
        outs: &[Port],
        stim: &[Vec<BigUint>],
        want: &[Vec<BigUint>],
        got: &[Vec<BigUint>],
    ) -> Result<(), String> {
        for c in 0..want.len() {
            for (i, p) in outs.iter().enumerate() {
                if want[c][i] == got[c][i] {
                    continue;
                }
                let mut s = format!(
                    "{}: cycle {c}, output {}: rust-hdl {:x}, Verilator {:x}\n",
                    self.name, p.name, want[c][i], got[c][i]
                );
                for k in c.saturating_sub(3)..=c {
                    let _ = write!(s, "  cycle {k}:");
                    for (p, v) in ins.iter().zip(&stim[k]) {
                        let _ = write!(s, " {}={v:x}", p.name);
                    }
                    for (j, p) in outs.iter().enumerate() {
                        let _ = write!(s, " -> {}={:x}/{:x}", p.name, want[k][j], got[k][j]);
                    }
                    s.push('\n');
                }
                let t = std::thread::current();
                let _ = write!(
                    s,
                    "again: DIFF_SEED={} DIFF_CYCLES={} cargo test -p metaroce-rtl {}",
                    self.seed,
                    c + 1,
                    t.name().unwrap_or("")
                );
                return Err(s);
            }
        }
        println!(
            "{}: {} cycles equal, {} outputs, seed {}",
            self.name,
            want.len(),
            outs.len(),
            self.seed
        );
        Ok(())
    }
}

/// The clock is the one input that every block calls `clock`; it is set through its address since a probe sees it read-only.
fn set_clock<U: Block>(u: &mut U, level: bool, clocked: bool) {
    struct Find(Option<*const ()>, usize);
    impl Probe for Find {
        fn visit_start_scope(&mut self, _: &str, _: &dyn Block) {
            self.1 += 1;
        }
        fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
            self.1 -= 1;
        }
        fn visit_atom(&mut self, _: &str, a: &dyn Atom) {
            let is = a.descriptor().name == "clock" && a.kind() == AtomKind::InputParameter;
            if self.1 == 1 && is && self.0.is_none() {
                self.0 = Some(a as *const dyn Atom as *const ());
            }
        }
    }
    if !clocked {
        return;
    }
    let mut f = Find(None, 0);
    u.accept("top", &mut f);
    let p = f.0.expect("clock") as *mut Signal<In, Clock>;
    // The atom is a field of `u`, which is borrowed mutably here, and only `Signal<In, Clock>` has this descriptor and kind.
    unsafe { (*p).next = Clock { clk: level } };
}

fn draw(rng: &mut Rng, cycle: usize, p: &Port, rule: Option<&Rule>) -> BigUint {
    match rule {
        Some(Rule::P(x)) => (rng.p(*x) as u8).into(),
        Some(Rule::Max(m)) => rng.below(m.saturating_add(1)).into(),
        Some(Rule::Pick(v)) => v[rng.below(v.len() as u64) as usize].into(),
        None if p.name == "rst" => ((cycle < 2 || rng.p(0.01)) as u8).into(),
        None if p.bits == 1 => ((rng.next() & 1) as u8).into(),
        None => rng.bits(p.bits),
    }
}

fn parse_u64(s: &str) -> Option<u64> {
    match s.strip_prefix("0x") {
        Some(h) => u64::from_str_radix(h, 16).ok(),
        None => s.parse().ok(),
    }
}
