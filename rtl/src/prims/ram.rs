//! Simple dual port block RAMs.
//!
//! Leaf cells with hand-written `Logic`: a plain `reg` array, so that Verilator runs it at the speed of an array access and synthesis infers block
//! RAM (or UltraRAM, or LUT RAM when small).

use rust_hdl::prelude::*;
use std::collections::HashMap;

/// One write port and one read port on one clock, `2^A` words of `D`.
///
/// * Read: the address presented in cycle t gives `rdata` in cycle t+1 (one registered output, no enable).
/// * Write and read of one address in the same cycle: `rdata` is the *old* word.
/// * Power-up: all zero. Initiation interval 1 on both ports.
///
/// Block RAM that has no old data to give for such a read costs three cells a bit around it. [`SdpRam::collision_free`] is for who never uses that word: it is
/// the same block, but synthesis may give any.
#[derive(LogicBlock, Default)]
pub struct SdpRam<D: Synth, const A: usize> {
    pub clock: Signal<In, Clock>,
    pub we: Signal<In, bool>,
    pub waddr: Signal<In, Bits<A>>,
    pub wdata: Signal<In, D>,
    pub raddr: Signal<In, Bits<A>>,
    pub rdata: Signal<Out, D>,
    _mem: Box<HashMap<usize, D>>,
    _collision_free: bool,
}

impl<D: Synth, const A: usize> SdpRam<D, A> {
    /// For a user that does not look at `rdata` after a write and a read of one address in the same cycle.
    pub fn collision_free() -> Self {
        Self {
            _collision_free: true,
            ..Default::default()
        }
    }
}

impl<D: Synth, const A: usize> Logic for SdpRam<D, A> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            self.rdata.next = word(&self._mem, self.raddr.val());
            if self.we.val() {
                self._mem.insert(self.waddr.val().index(), self.wdata.val());
            }
        }
    }
    fn connect(&mut self) {
        self.rdata.connect();
    }
    fn hdl(&self) -> Verilog {
        let any = if self._collision_free {
            "(* no_rw_check *)\n"
        } else {
            ""
        };
        Verilog::Custom(format!(
            "{any}{}always @(posedge clock) begin
   rdata <= mem[raddr];
   if (we) mem[waddr] <= wdata;
end
",
            array(D::BITS, A, &["rdata"])
        ))
    }
    fn timing(&self) -> Vec<TimingInfo> {
        ports(&["waddr", "wdata", "we", "raddr"], &["rdata"])
    }
}

/// As [`SdpRam`] with two independent read ports (synthesis duplicates the memory).
#[derive(LogicBlock, Default)]
pub struct SdpRam2R<D: Synth, const A: usize> {
    pub clock: Signal<In, Clock>,
    pub we: Signal<In, bool>,
    pub waddr: Signal<In, Bits<A>>,
    pub wdata: Signal<In, D>,
    pub raddr0: Signal<In, Bits<A>>,
    pub rdata0: Signal<Out, D>,
    pub raddr1: Signal<In, Bits<A>>,
    pub rdata1: Signal<Out, D>,
    _mem: Box<HashMap<usize, D>>,
}

impl<D: Synth, const A: usize> Logic for SdpRam2R<D, A> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            self.rdata0.next = word(&self._mem, self.raddr0.val());
            self.rdata1.next = word(&self._mem, self.raddr1.val());
            if self.we.val() {
                self._mem.insert(self.waddr.val().index(), self.wdata.val());
            }
        }
    }
    fn connect(&mut self) {
        self.rdata0.connect();
        self.rdata1.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(format!(
            "{}always @(posedge clock) begin
   rdata0 <= mem[raddr0];
   rdata1 <= mem[raddr1];
   if (we) mem[waddr] <= wdata;
end
",
            array(D::BITS, A, &["rdata0", "rdata1"])
        ))
    }
    fn timing(&self) -> Vec<TimingInfo> {
        ports(
            &["waddr", "wdata", "we", "raddr0", "raddr1"],
            &["rdata0", "rdata1"],
        )
    }
}

fn word<D: Synth, const A: usize>(mem: &HashMap<usize, D>, a: Bits<A>) -> D {
    mem.get(&a.index()).copied().unwrap_or_default()
}

/// The array, its zero fill, and (simulation only: block RAM output registers have no init value everywhere) zeroed outputs.
fn array(bits: usize, a: usize, outs: &[&str]) -> String {
    let mut s = format!(
        "reg [{}:0] mem [0:{}];\ninteger k;\ninitial for (k = 0; k < {}; k = k + 1) mem[k] = {bits}'h0;\n`ifndef SYNTHESIS\n",
        bits - 1,
        (1 << a) - 1,
        1 << a,
    );
    for o in outs {
        s += &format!("initial {o} = {bits}'h0;\n");
    }
    s + "`endif\n"
}

fn ports(i: &[&str], o: &[&str]) -> Vec<TimingInfo> {
    vec![TimingInfo {
        name: "ram".into(),
        clock: "clock".into(),
        inputs: i.iter().map(|s| s.to_string()).collect(),
        outputs: o.iter().map(|s| s.to_string()).collect(),
    }]
}
