// The skid buffer is a queue of two words: nothing is lost, doubled or reordered, and a waiting word stays.
module w(input clk, input rst, input [7:0] sd, input sv, input mr);
  wire sr, mv;
  wire [7:0] md;
  f_skid dut(.clock(clk), .rst(rst), .s_data(sd), .s_valid(sv), .s_ready(sr), .m_data(md), .m_valid(mv), .m_ready(mr));

  // yosys: connect -set spare_q dut.spare.q
  (* keep *) wire [7:0] spare_q;

  // the queue
  reg [1:0] n = 0;
  reg [7:0] q0 = 0, q1 = 0;
  wire push = sv & sr;
  wire pop = mv & mr;
  always @(posedge clk) begin
    n <= rst ? 2'd0 : n + push - pop;
    if (pop) q0 <= q1;
    if (push) begin
      if (n == pop) q0 <= sd;
      else q1 <= sd;
    end
  end
  // the stream rule
  reg old = 0, wait_v = 0;
  reg [7:0] wait_d = 0;
  always @(posedge clk) begin
    wait_v <= mv & !mr & !rst;
    wait_d <= md;
  end

  always @(*) begin
    assert(n <= 2);
    assert(mv == (n != 0));
    assert(sr == (n != 2));
    if (n != 0) assert(md == q0);
    if (wait_v) assert(mv && md == wait_d);
    // strengthening for induction: where the second word lies
    if (n == 2) assert(spare_q == q1);
  end
endmodule
