// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// An endless stream of the pattern as a feed: word n is seed + n x PATTERN_STEP, from any byte on.
// The value of the next word is kept and advances with the bytes taken.

module crosslane_generator
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic                 restart,          // pulse: begins at word 0
    input  logic [         31:0] seed,             // with restart, or in the next clock
    input  logic                 feed_move,
    input  logic                 feed_take,
    input  logic [          5:0] feed_take_back,
    input  logic [          6:0] feed_take_bytes,
    output logic [DATA_BITS-1:0] feed_data
);
  localparam int unsigned WORDS = DATA_BITS / 32;

  logic restarted;  // in the clock before
  always_ff @(posedge clk) restarted <= restart;

  // --- 1: bytes of the next word that are gone; words that the beat takes, and looks back ------
  logic [1:0] gone, gone_1;
  logic [7:0] reach;
  logic [6:0] ahead;
  logic [4:0] words_1, back_1;

  assign reach = 8'(feed_take_bytes) + 8'(gone);
  // Whole words from the beat's first byte to the next word, rounded up.
  assign ahead = (7'(feed_take_back) > 7'(gone)) ? 7'(feed_take_back) - 7'(gone) + 7'd3 : 7'd0;

  always_ff @(posedge clk) begin
    if (feed_move) begin
      words_1 <= feed_take ? 5'(reach >> 2) : 5'd0;
      back_1  <= 5'(ahead >> 2);
      gone_1  <= gone - feed_take_back[1:0];
      if (feed_take) gone <= reach[1:0];
    end
    if (rst || restart || restarted) begin
      gone <= '0;
      words_1 <= '0;
    end
  end

  // --- 2: the word in which the beat begins --------------------------------------------------
  logic [31:0] next, start_2;
  logic [1:0] gone_2;

  always_ff @(posedge clk) begin
    if (feed_move) begin
      next <= next + pattern_steps(words_1);
      start_2 <= next - pattern_steps(back_1);
      gone_2 <= gone_1;
    end
    if (restart || restarted) next <= seed;
    if (rst) next <= '0;
  end

  // --- 3: the beat ---------------------------------------------------------------------------
  logic [DATA_BITS+31:0] words;

  for (genvar n = 0; n <= WORDS; n++) begin : g_word
    assign words[32*n+:32] = start_2 + 32'(n) * PATTERN_STEP;
  end

  always_ff @(posedge clk) begin
    if (feed_move) feed_data <= DATA_BITS'(words >> (8 * gone_2));
  end
endmodule
