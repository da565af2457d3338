// The PSN compare agrees with the definition by distance, for all pairs.
module w(input [23:0] a, input [23:0] b, input [23:0] k);
  wire [23:0] diff, diff2;
  wire older, newer, older2, newer2;
  f_psn dut(.a(a), .b(b), .diff(diff), .older(older), .newer(newer));
  f_psn moved(.a(a + k), .b(b + k), .diff(diff2), .older(older2), .newer(newer2));
  // how far a lies ahead of b on the circle, with room for the carry
  wire [24:0] dist = a >= b ? {1'b0, a} - {1'b0, b} : {1'b0, a} + 25'h1000000 - {1'b0, b};
  always @(*) begin
    assert(newer == (dist != 0 && dist < 25'h800000));
    assert(older == (dist >= 25'h800000));
    assert({1'b0, diff} == dist);
    // the order does not depend on where the circle is cut
    assert(older == older2 && newer == newer2 && diff == diff2);
  end
endmodule
