//! A wide RAM that reads and writes any unaligned window in one cycle.

use rust_hdl::prelude::*;
use std::collections::HashMap;

/// `2^A` words of `W` bits, each word made of `L` byte lanes (`W == 8 * L`), one write and one read port on one clock.
///
/// A port is given one word address `a` and one select bit a lane: lane `i` works on word `a` when its select bit is 0 and on word `a + 1`
/// (modulo the depth) when it is 1. With the data rotated by the byte offset and the low lanes selected, any unaligned window moves in one cycle.
///
/// * Write: lane `i` is written when `we & wlane[i]`, from lane `i` of `wdata`.
/// * Read: address and `rsel` in cycle t, `rdata` in cycle t+1. Old data on a collision. Power-up zero. Initiation interval 1.
///
/// Organisation: words of even and odd address are two banks, so that both words of a window are reached in every cycle.
#[derive(LogicBlock, Default)]
pub struct LaneRam<const W: usize, const L: usize, const A: usize> {
    pub clock: Signal<In, Clock>,
    pub we: Signal<In, bool>,
    pub waddr: Signal<In, Bits<A>>,
    pub wlane: Signal<In, Bits<L>>,
    pub wsel: Signal<In, Bits<L>>,
    pub wdata: Signal<In, Bits<W>>,
    pub raddr: Signal<In, Bits<A>>,
    pub rsel: Signal<In, Bits<L>>,
    pub rdata: Signal<Out, Bits<W>>,
    _mem: Box<HashMap<usize, u8>>,
}

impl<const W: usize, const L: usize, const A: usize> LaneRam<W, L, A> {
    fn byte(lane: usize, base: usize, sel: bool) -> usize {
        ((base + sel as usize) % (1 << A)) * L + lane
    }
}

impl<const W: usize, const L: usize, const A: usize> Logic for LaneRam<W, L, A> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            let base = self.raddr.val().index();
            let mut bytes = vec![0u8; L];
            for (i, b) in bytes.iter_mut().enumerate() {
                let at = Self::byte(i, base, self.rsel.val().get_bit(i));
                *b = self._mem.get(&at).copied().unwrap_or(0);
            }
            self.rdata.next = super::packed::bits_from_bytes::<W>(&bytes);
            if self.we.val() {
                let base = self.waddr.val().index();
                let bytes = super::packed::bits_to_bytes(self.wdata.val());
                for (i, b) in bytes.iter().enumerate() {
                    if self.wlane.val().get_bit(i) {
                        let at = Self::byte(i, base, self.wsel.val().get_bit(i));
                        self._mem.insert(at, *b);
                    }
                }
            }
        }
    }
    fn connect(&mut self) {
        self.rdata.connect();
    }
    fn hdl(&self) -> Verilog {
        assert!(W == 8 * L && A >= 2, "LaneRam<{W},{L},{A}>");
        let half = 1usize << (A - 1);
        let (w, l, h) = (W - 1, L - 1, A - 2);
        // eight lane bits to eight byte masks: spread the bits, one a byte, and widen each to its byte
        let lanes = |name: &str| {
            (0..L)
                .step_by(8)
                .rev()
                .map(|i| match L - i {
                    1..=7 => (i..L)
                        .rev()
                        .map(|k| format!("{{8{{{name}[{k}]}}}}"))
                        .collect::<Vec<_>>()
                        .join(", "),
                    _ => format!("widen({name}[{}:{i}])", i + 7),
                })
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut s = format!(
            "function [63:0] widen(input [7:0] m);
   reg [63:0] t;
   begin
      t = {{8{{m}}}} & 64'h8040201008040201;
      t = ((t + 64'h7f7f7f7f7f7f7f7f) | t) & 64'h8080808080808080;
      widen = (t - (t >> 7)) | t;
   end
endfunction
reg [{w}:0] even [0:{n}];
reg [{w}:0] odd [0:{n}];
integer k;
initial for (k = 0; k < {half}; k = k + 1) begin even[k] = {W}'h0; odd[k] = {W}'h0; end
wire [{h}:0] we_a = waddr[{a}:1] + {{{{{h}{{1'b0}}}}, waddr[0]}};
wire [{h}:0] wo_a = waddr[{a}:1];
wire [{h}:0] re_a = raddr[{a}:1] + {{{{{h}{{1'b0}}}}, raddr[0]}};
wire [{h}:0] ro_a = raddr[{a}:1];
wire [{l}:0] wbank = wsel ^ {{{L}{{waddr[0]}}}};
wire [{l}:0] en_e = wlane & ~wbank;
wire [{l}:0] en_o = wlane & wbank;
reg [{w}:0] rd_e;
reg [{w}:0] rd_o;
reg [{l}:0] rbank;
`ifndef SYNTHESIS
initial begin rd_e = {W}'h0; rd_o = {W}'h0; rbank = {L}'h0; end
`endif
always @(posedge clock) begin
   rd_e <= even[re_a];
   rd_o <= odd[ro_a];
   rbank <= rsel ^ {{{L}{{raddr[0]}}}};
end
",
            n = half - 1,
            a = A - 1,
        );
        if h == 0 {
            // a zero replication is not legal Verilog
            s = s.replace("{{0{1'b0}}, ", "{");
        }
        // A simulator merges whole words under a mask; synthesis wants one write enable a lane.
        s += &format!(
            "`ifdef SYNTHESIS
always @(posedge clock) begin
   for (k = 0; k < {L}; k = k + 1) begin
      if (we & en_e[k]) even[we_a][k*8 +: 8] <= wdata[k*8 +: 8];
      if (we & en_o[k]) odd[wo_a][k*8 +: 8] <= wdata[k*8 +: 8];
   end
end
`else
reg [{w}:0] mask;
always @(posedge clock) if (we) begin
   mask = {{{me}}};
   if (|en_e) even[we_a] <= (even[we_a] & ~mask) | (wdata & mask);
   mask = {{{mo}}};
   if (|en_o) odd[wo_a] <= (odd[wo_a] & ~mask) | (wdata & mask);
end
`endif
`ifdef SYNTHESIS
wire [{w}:0] mask_r = {{{mp}}};
`else
wire [{w}:0] mask_r = {{{mr}}};
`endif
always @(*) rdata = (rd_e & ~mask_r) | (rd_o & mask_r);
",
            me = lanes("en_e"),
            mo = lanes("en_o"),
            mr = lanes("rbank"),
            mp = (0..L)
                .rev()
                .map(|i| format!("{{8{{rbank[{i}]}}}}"))
                .collect::<Vec<_>>()
                .join(", "),
        );
        Verilog::Custom(s)
    }
}
