// The half-rate slice is a queue of one word: nothing is lost, doubled or reordered, and a waiting word stays.
module w(input clk, input rst, input [7:0] sd, input sv, input mr);
  wire sr, mv;
  wire [7:0] md;
  f_half dut(.clock(clk), .rst(rst), .s_data(sd), .s_valid(sv), .s_ready(sr), .m_data(md), .m_valid(mv), .m_ready(mr));

  reg n = 0;
  reg [7:0] q0 = 0;
  wire push = sv & sr;
  wire pop = mv & mr;
  always @(posedge clk) begin
    n <= rst ? 1'b0 : n + push - pop;
    if (push) q0 <= sd;
  end
  // the stream rule
  reg wait_v = 0;
  reg [7:0] wait_d = 0;
  always @(posedge clk) begin
    wait_v <= mv & !mr & !rst;
    wait_d <= md;
  end

  always @(*) begin
    assert(mv == n);
    assert(sr == !n);
    if (n) assert(md == q0);
    if (wait_v) assert(mv && md == wait_d);
  end
endmodule
