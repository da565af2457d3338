// The FIFO is a queue of four words: order, content, level, ready and valid, and a waiting word stays.
// yosys: connect -set wp dut.wp.q
// yosys: connect -set rp dut.rp.q
// yosys: rename dut.ram.mem[0] mem_0
// yosys: connect -set m0 mem_0
// yosys: rename dut.ram.mem[1] mem_1
// yosys: connect -set m1 mem_1
// yosys: rename dut.ram.mem[2] mem_2
// yosys: connect -set m2 mem_2
// yosys: rename dut.ram.mem[3] mem_3
// yosys: connect -set m3 mem_3
module w(input clk, input rst, input [3:0] sd, input sv, input mr);
  wire sr, mv;
  wire [3:0] md;
  wire [15:0] level;
  f_fifo dut(.clock(clk), .rst(rst), .s_data(sd), .s_valid(sv), .s_ready(sr), .m_data(md), .m_valid(mv), .m_ready(mr), .level(level));
  (* keep *) wire [1:0] wp, rp;
  (* keep *) wire [3:0] m0, m1, m2, m3;

  // the queue: word i from the head in bits 4i+3..4i
  reg [2:0] n = 0;
  reg [15:0] q = 0;
  wire push = sv & sr;
  wire pop = mv & mr;
  wire [15:0] q1 = pop ? q >> 4 : q;
  wire [2:0] n1 = n - pop;
  always @(posedge clk) begin
    n <= rst ? 3'd0 : n1 + push;
    if (push) q <= (q1 & ~(16'hf << (4 * n1))) | ({12'h0, sd} << (4 * n1));
    else q <= q1;
  end
  reg wait_v = 0;
  reg [3:0] wait_d = 0;
  always @(posedge clk) begin
    wait_v <= mv & !mr & !rst;
    wait_d <= md;
  end

  // what the RAM holds at slot rp + i
  wire [15:0] mem = {m3, m2, m1, m0};
  wire [31:0] turned = {mem, mem} >> (4 * rp);
  always @(*) begin
    assert(n <= 4);
    assert(level == {13'h0, n});
    assert(mv == (n != 0));
    assert(sr == (n != 4));
    if (n != 0) assert(md == q[3:0]);
    if (wait_v) assert(mv && md == wait_d);
    // strengthening for induction
    assert(wp == rp + n[1:0]);
    if (n > 0) assert(turned[3:0] == q[3:0]);
    if (n > 1) assert(turned[7:4] == q[7:4]);
    if (n > 2) assert(turned[11:8] == q[11:8]);
    if (n > 3) assert(turned[15:12] == q[15:12]);
  end
endmodule
