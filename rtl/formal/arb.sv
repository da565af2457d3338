// Round-robin of three: one grant at a time and only to who asks, every word comes out once with its source, nobody is passed over more than twice.
// yosys: connect -set last dut.last.q
module w(input clk, input rst, input [3:0] d0, input [3:0] d1, input [3:0] d2, input [2:0] v_in, input mr);
  wire [2:0] r;
  wire mv;
  wire [3:0] md;
  wire [1:0] src;
  // the stream rule for the inputs: who waits keeps asking
  reg [2:0] wait_v = 0;
  wire [2:0] v = v_in | wait_v;
  f_arb dut(.clock(clk), .rst(rst), .s_data$0(d0), .s_data$1(d1), .s_data$2(d2), .s_valid$0(v[0]), .s_valid$1(v[1]), .s_valid$2(v[2]),
            .s_ready$0(r[0]), .s_ready$1(r[1]), .s_ready$2(r[2]), .m_data(md), .m_src(src), .m_valid(mv), .m_ready(mr));
  (* keep *) wire [1:0] last;

  wire [2:0] take = v & r;
  reg full = 0;
  reg [3:0] held = 0;
  reg [1:0] held_src = 0;
  // grants to others while input i waits
  reg [1:0] c0 = 0, c1 = 0, c2 = 0;
  always @(posedge clk) begin
    wait_v <= rst ? 3'd0 : v & ~r;
    full <= rst ? 1'b0 : (|take) | (full & ~mr);
    if (take[0]) begin held <= d0; held_src <= 0; end
    if (take[1]) begin held <= d1; held_src <= 1; end
    if (take[2]) begin held <= d2; held_src <= 2; end
    c0 <= (rst | ~v[0] | r[0]) ? 2'd0 : c0 + (|take);
    c1 <= (rst | ~v[1] | r[1]) ? 2'd0 : c1 + (|take);
    c2 <= (rst | ~v[2] | r[2]) ? 2'd0 : c2 + (|take);
  end
  // turns until input i is first in line
  wire [1:0] t0 = last == 0 ? 3 : 3 - last;
  wire [1:0] t1 = last == 0 ? 1 : last == 1 ? 3 : 2;
  wire [1:0] t2 = last == 2 ? 3 : 2 - last;
  always @(*) begin
    assert((r & ~v) == 0);
    assert((r & (r - 3'd1)) == 0);
    assert((r != 0) == ((v != 0) & (~mv | mr)));
    assert(mv == full);
    if (full) assert(md == held && src == held_src);
    assert(c0 <= 2 && c1 <= 2 && c2 <= 2);
    // strengthening for induction
    assert(last <= 2);
    assert({1'b0, c0} + t0 <= 3 && {1'b0, c1} + t1 <= 3 && {1'b0, c2} + t2 <= 3);
  end
endmodule
