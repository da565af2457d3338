//! Read-only memory.

use rust_hdl::prelude::*;

/// `2^A` words of `D` bits (at most 128). The address presented in cycle t gives `data` in cycle t+1; words that were not given are zero.
///
/// A leaf cell with hand-written Verilog, so that synthesis sees a memory with initial contents.
#[derive(LogicBlock)]
pub struct Rom<const D: usize, const A: usize> {
    pub clock: Signal<In, Clock>,
    pub addr: Signal<In, Bits<A>>,
    pub data: Signal<Out, Bits<D>>,
    _words: Vec<u128>,
}

impl<const D: usize, const A: usize> Rom<D, A> {
    pub fn new(words: Vec<u128>) -> Self {
        assert!(
            words.len() <= 1 << A,
            "{} words in a ROM of 2^{A}",
            words.len()
        );
        assert!(D == 128 || words.iter().all(|w| w >> D == 0));
        Self {
            clock: Default::default(),
            addr: Default::default(),
            data: Default::default(),
            _words: words,
        }
    }
}

impl<const D: usize, const A: usize> Logic for Rom<D, A> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            let w = self._words.get(self.addr.val().index()).copied();
            let w = w.unwrap_or(0);
            self.data.next = crate::prims::packed::bits_from_bytes(&w.to_le_bytes());
        }
    }
    fn connect(&mut self) {
        self.data.connect();
    }
    fn hdl(&self) -> Verilog {
        let mut s = format!(
            "reg [{}:0] mem [0:{}];\ninitial begin\n",
            D - 1,
            (1 << A) - 1
        );
        for i in 0..1 << A {
            let w = self._words.get(i).copied().unwrap_or(0);
            s += &format!("   mem[{i}] = {D}'h{w:x};\n");
        }
        s += &format!("end\n`ifndef SYNTHESIS\ninitial data = {D}'h0;\n`endif\n");
        s += "always @(posedge clock) data <= mem[addr];\n";
        Verilog::Custom(s)
    }
    fn timing(&self) -> Vec<TimingInfo> {
        vec![TimingInfo {
            name: "rom".into(),
            clock: "clock".into(),
            inputs: vec!["addr".into()],
            outputs: vec!["data".into()],
        }]
    }
}
