// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Whether a lane's words are 8b/10b: it has at most five equal bits in a row. A receiver without a
// signal gives one bit for ever, or noise, in which three of ten words of 20 bits have a
// longer run. So this needs nothing of the transceiver but its words.

module crosslane_gt_signal #(
    parameter int unsigned WORD_BITS = 20
) (
    input  logic                 clk,
    input  logic [WORD_BITS-1:0] word,     // bit 0 came first
    output logic                 is_coded
);
  localparam int unsigned RUN = 6;
  // Of 64 words: too many with a long run, and so few that a signal is back. Bit errors of 1 in
  // 10,000 make one word in thousands.
  localparam logic [3:0] MOST = 4'd8;
  localparam logic [3:0] FEW = 4'd1;

  logic [RUN-2:0] last;
  logic [WORD_BITS+RUN-2:0] bits;
  logic has_run, is_long;
  assign bits = {word, last};
  always_comb begin
    has_run = 1'b0;
    for (int unsigned n = 0; n < WORD_BITS; n++) begin
      has_run |= bits[n+:RUN] == '0 || bits[n+:RUN] == '1;
    end
  end

  logic [5:0] at;
  logic [3:0] runs;
  always_ff @(posedge clk) begin
    last <= word[WORD_BITS-1-:RUN-1];
    is_long <= has_run;
    at <= at + 1'b1;
    if (at == '0) runs <= 4'(is_long);
    else if (runs < MOST) runs <= runs + 4'(is_long);
    if (runs >= MOST) is_coded <= 1'b0;
    else if (at == '0 && runs <= FEW) is_coded <= 1'b1;
  end
endmodule
