// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// All lanes of 64b/66b: line bits to rows of blocks. First halves of training sets mark a beginning
// in each aligned lane; when all lanes have had one within a row, the earlier ones are delayed by a
// row. A row comes two clocks behind its bits.

module crosslane_link_block_deskew
  import crosslane_link_block_pkg::*;
#(
    parameter int unsigned LANES = 8
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               realign,     // pulse: it begins anew, with the words beside it
    input  logic   [LANES-1:0] detected,
    input  line_t  [LANES-1:0] words,
    output logic               is_aligned,  // all lanes
    output logic               present,     // the row is deskewed
    output block_t [LANES-1:0] blocks,
    output logic               turn,        // inverted by each `realign`
    input  logic               row_ready,   // the row is taken
    output logic               has_lost     // the one before it was not
);
  // Rows since the last beginning of a lane: 0, 1, or more.
  typedef logic [1:0] age_t;
  localparam age_t MAX_SKEW = 2'd1;
  localparam age_t LONG_AGO = MAX_SKEW + 2'd1;

  logic [LANES-1:0] aligned, beginning;
  block_t [LANES-1:0] last, was;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    crosslane_link_block_align align (
        .clk,
        .rst,
        .realign,
        .detected(detected[lane]),
        .word(words[lane]),
        .is_aligned(aligned[lane]),
        .block(last[lane]),
        .beginning(beginning[lane])
    );
  end

  always_ff @(posedge clk) has_lost <= !rst && !row_ready;

  // --- Delays --------------------------------------------------------------------------------
  // A clock behind the lanes: what `realign` ends is then in `last`.
  logic realign_1, is_deskewed, deskewed_now, are_near;
  age_t [LANES-1:0] age, age_next;
  logic [LANES-1:0] delay, delay_next;

  always_comb begin
    are_near = 1'b1;
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      age_next[lane] = realign_1 ? LONG_AGO : age[lane];
      if (beginning[lane]) age_next[lane] = '0;
      else if (age_next[lane] != LONG_AGO) age_next[lane] = age_next[lane] + 1'b1;
      are_near &= age_next[lane] != LONG_AGO;
    end
    deskewed_now = is_deskewed && !realign_1;
    delay_next   = delay;
    if (!deskewed_now && are_near && beginning != '0) begin
      deskewed_now = 1'b1;
      for (int unsigned lane = 0; lane < LANES; lane++) delay_next[lane] = age_next[lane] != '0;
    end
  end

  always_ff @(posedge clk) begin
    realign_1 <= realign;
    age <= age_next;
    delay <= delay_next;
    is_deskewed <= deskewed_now;
    was <= last;
    is_aligned <= aligned == '1;
    present <= deskewed_now;
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      blocks[lane] <= delay_next[lane] ? was[lane] : last[lane];
    end
    if (realign_1) turn <= !turn;
    if (rst) begin
      realign_1 <= 1'b0;
      age <= {LANES{LONG_AGO}};
      is_deskewed <= 1'b0;
      is_aligned <= 1'b0;
      present <= 1'b0;
      turn <= 1'b0;
    end
  end
endmodule
