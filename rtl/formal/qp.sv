// The rule of MODIFY_QP, from the chapter on QP states (IBTA volume 1, 10.3), not from the table in the ROM: which transitions there are, what each
// needs and takes, for every type, state and mask; and what a QP that lives by the rule has been through when it reaches a state.
module w(input clk, input [1:0] new_type, input [2:0] other, input own, input [2:0] as, input [2:0] wnt, input [20:0] msk, input create, input hit);
  localparam RESET = 0, INIT = 1, RTR = 2, RTS = 3, SQD = 4, SQE = 5, ERR = 6;
  localparam RC = 0, UC = 1, UD = 2;
  localparam [20:0] STATE = 1 << 0, CUR_STATE = 1 << 1, EN_SQD = 1 << 2, ACCESS = 1 << 3, PKEY = 1 << 4, PORT = 1 << 5, QKEY = 1 << 6, AV = 1 << 7,
                    PATH_MTU = 1 << 8, TIMEOUT = 1 << 9, RETRY_CNT = 1 << 10, RNR_RETRY = 1 << 11, RQ_PSN = 1 << 12, MAX_RD = 1 << 13,
                    ALT_PATH = 1 << 14, MIN_RNR = 1 << 15, SQ_PSN = 1 << 16, MAX_DEST_RD = 1 << 17, PATH_MIG = 1 << 18, CAP = 1 << 19,
                    DEST_QPN = 1 << 20;

  // A QP and the command at hand, four cycles a command. The state moves when a command for it is accepted (own; the others ask for any state and
  // change nothing), when a new QP is created, and to ERR by itself.
  reg [1:0] t = 0;
  reg [2:0] st = RESET;
  reg [1:0] ty = RC;
  reg [2:0] cur = 0, assumed = 0, want = 0;
  reg [20:0] mask = 0;
  reg mine = 0;
  wire [2:0] to;
  wire refuse;
  f_qp dut(.clock(clk), .qp_type(ty), .cur(cur), .assumed(assumed), .want(want), .mask(mask), .to(to), .refuse(refuse));
  wire ok = t == 3 && !refuse;
  wire moves = ok && mine;
  // what the QP has been given and where it has been since it was in RESET
  reg [20:0] given = 0;
  reg been_init = 0, been_rtr = 0;
  always @(posedge clk) begin
    t <= t + 2'd1;
    if (t == 3) begin
      if (moves) begin
        st <= to;
        given <= to == RESET ? 21'd0 : given | mask;
        been_init <= to != RESET && (been_init || to == INIT);
        been_rtr <= to != RESET && (been_rtr || to == RTR);
      end else if (create) begin
        st <= RESET;
        ty <= new_type;
        given <= 0;
        been_init <= 0;
        been_rtr <= 0;
      end else if (hit && st != RESET) st <= ERR;
      // the next command: for the QP as it will be
      mine <= own;
      cur <= !own ? other : moves ? to : create ? RESET : hit && st != RESET ? ERR : st;
      assumed <= as;
      want <= wnt;
      mask <= msk;
    end
  end

  wire conn = ty == RC || ty == UC;
  wire [20:0] init_set = PKEY | PORT | (ty == UD ? QKEY : ACCESS);
  wire [20:0] rtr_set = ty == RC ? AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD | MIN_RNR : ty == UC ? AV | PATH_MTU | DEST_QPN | RQ_PSN : 0;
  wire [20:0] rts_set = ty == RC ? SQ_PSN | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_RD : SQ_PSN;
  wire to_reset = to == RESET, to_err = to == ERR && cur != RESET, to_init = cur == RESET && to == INIT, to_rtr = cur == INIT && to == RTR,
       to_rts = cur == RTR && to == RTS;
  wire stays = to == cur && (cur == INIT || cur == RTS || cur == SQD);
  wire drains = cur == RTS && to == SQD, resumes = cur == SQD && to == RTS, repaired = cur == SQE && to == RTS && ty != RC;
  wire lawful = to_reset || to_err || to_init || to_rtr || to_rts || stays || drains || resumes || repaired;
  wire [20:0] needed = to_init ? init_set : to_rtr ? rtr_set : to_rts ? rts_set : 0;
  always @(*) begin
    // a command that names no state asks for the one there is
    assert(to == ((mask & STATE) ? want : cur));
    if (ok) begin
      assert(ty <= UD && cur <= ERR && to <= ERR);
      // transitions, by where they lead
      if (to == INIT) assert(cur == RESET || cur == INIT);
      if (to == RTR) assert(cur == INIT);
      if (to == RTS) assert(cur == RTR || cur == RTS || cur == SQD || (cur == SQE && ty != RC));
      if (to == SQD) assert(cur == RTS || cur == SQD);
      if (to == ERR) assert(cur != RESET);
      assert(to != SQE);
      // and by where they begin
      if (cur == RESET) assert(to == RESET || to == INIT);
      if (cur == ERR) assert(to == RESET || to == ERR);
      assert(lawful);
      // what must be given
      if (to_init) assert((init_set & ~mask) == 0);
      if (to_rtr) assert((rtr_set & ~mask) == 0);
      if (to_rts) assert((rts_set & ~mask) == 0);
      // what may be given
      if (mask & CUR_STATE) assert(cur >= RTR && cur <= SQE && to == RTS && assumed == cur);
      if (mask & EN_SQD) assert(drains);
      if (mask & (PATH_MTU | RQ_PSN | DEST_QPN)) assert(to_rtr && conn);
      if (mask & SQ_PSN) assert(to_rts);
      if (mask & AV) assert(conn && (to_rtr || (cur == SQD && to == SQD)));
      if (mask & (TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_RD)) assert(ty == RC && (to_rts || (cur == SQD && to == SQD)));
      if (mask & (MAX_DEST_RD | MIN_RNR)) assert(ty == RC && cur != RESET);
      if (mask & MAX_DEST_RD) assert(to_rtr || (cur == SQD && to == SQD));
      if (mask & PORT) assert(to_init || (cur == to && (cur == INIT || (cur == SQD && ty == RC))));
      if (mask & PKEY) assert(to != RTS && !drains);
      if (mask & ACCESS) assert(conn);
      if (mask & QKEY) assert(ty == UD);
      if (mask & (ALT_PATH | PATH_MIG)) assert(conn && cur != RESET && to != INIT);
      if (to_reset || to_err) assert((mask & ~STATE) == 0);
      assert((mask & CAP) == 0);
    end
    // a lawful command with just what it needs, and with STATE or without when it stays, is accepted
    if (t == 3 && ty <= UD && cur <= ERR && lawful && (mask & ~STATE) == needed) assert(!refuse);
    if (t == 3 && ty <= UD && cur >= RTR && to == RTS && lawful && mask == (STATE | CUR_STATE | needed) && assumed == cur) assert(!refuse);

    // the life of a QP
    assert(st <= ERR && st != SQE);
    if (st == RESET) assert(given == 0 && !been_init && !been_rtr);
    if (st != RESET) assert(been_init);
    if (st == RTR || st == RTS || st == SQD) assert(been_rtr);
    if (st != RESET && st != ERR) assert((init_set & ~given) == 0);
    if (st == RTR || st == RTS || st == SQD) assert((rtr_set & ~given) == 0);
    if (st == RTS || st == SQD) assert((rts_set & ~given) == 0);
    // strengthening for induction: a command of the QP's own knows its state
    if (mine) assert(cur == st);
  end
endmodule
