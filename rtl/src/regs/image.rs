//! The ROM with the capability manifest.

use rust_hdl::prelude::*;

/// Up to 16,384 words of 32 bits, as many as the image has. The address presented in cycle t gives `data` in cycle t+1; what is read behind the
/// image means nothing (the register block masks it).
///
/// A leaf cell with hand-written Verilog, so that synthesis sees a memory with initial contents of just that size.
#[derive(LogicBlock)]
pub struct ImageRom {
    pub clock: Signal<In, Clock>,
    pub addr: Signal<In, Bits<14>>,
    pub data: Signal<Out, Bits<32>>,
    _words: Vec<u32>,
}

impl ImageRom {
    /// `image`: bytes, the first is the lowest of word 0; zeros fill up the last word.
    pub fn new(image: &[u8]) -> Self {
        let words = image.chunks(4).map(|c| {
            let mut w = [0; 4];
            w[..c.len()].copy_from_slice(c);
            u32::from_le_bytes(w)
        });
        let mut words: Vec<u32> = words.collect();
        if words.is_empty() {
            words.push(0);
        }
        assert!(words.len() <= 1 << 14, "{} words of 32 bits", words.len());
        Self {
            clock: Default::default(),
            addr: Default::default(),
            data: Default::default(),
            _words: words,
        }
    }
}

impl Logic for ImageRom {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            let w = self._words.get(self.addr.val().index());
            self.data.next = (w.copied().unwrap_or(0) as u64).into();
        }
    }
    fn connect(&mut self) {
        self.data.connect();
    }
    fn hdl(&self) -> Verilog {
        let n = self._words.len();
        let mut s = format!("reg [31:0] mem [0:{}];\ninitial begin\n", n - 1);
        for (i, w) in self._words.iter().enumerate() {
            s += &format!("   mem[{i}] = 32'h{w:x};\n");
        }
        s += "end\n`ifndef SYNTHESIS\ninitial data = 32'h0;\n`endif\n";
        s += &format!(
            "always @(posedge clock) data <= {{1'b0, addr}} < 15'd{n} ? mem[addr] : 32'h0;\n"
        );
        Verilog::Custom(s)
    }
    fn timing(&self) -> Vec<TimingInfo> {
        vec![TimingInfo {
            name: "image".into(),
            clock: "clock".into(),
            inputs: vec!["addr".into()],
            outputs: vec!["data".into()],
        }]
    }
}
