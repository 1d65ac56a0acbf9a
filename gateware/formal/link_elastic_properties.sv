// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_link_elastic: whatever words come, and at whatever pace, it never holds more columns than
// it has places, never gives what has not come, and leaves out or repeats only columns of K28.0, one
// of a skip set, and such as are not deskewed.

module link_elastic_properties
  import crosslane_link_pkg::*;
(
    input logic               clk,
    input logic               rst,
    input logic               word_valid,
    input logic         [1:0] word_present,
    input lane_symbol_t [1:0] word_columns
);
  localparam int unsigned PLACES = 16;
  logic present, dropped, doubled, slipped;
  lane_symbol_t column;

  crosslane_link_elastic #(
      .LANES  (1),
      .SYMBOLS(2)
  ) elastic (
      .word_columns(word_columns),
      .column      (column),
      .*
  );

  // --- Columns in their order ----------------------------------------------------------------
  // Any one column that has been put into place `place` is followed until it is left behind.
  logic [3:0] place;
  logic is_kept;
  logic [10:0] kept;
  logic is_reset = 1'b0;
  always_ff @(posedge clk) place <= place;

  logic [3:0] held;
  logic is_within;
  assign held = place - elastic.get_at;
  assign is_within = 5'(held) < elastic.count;

  always_ff @(posedge clk) begin
    is_reset <= 1'b1;
    if (elastic.puts && place[3:1] == elastic.put_at[3:1]) begin
      is_kept <= 1'b1;
      kept <= {word_present[place[0]], word_columns[place[0]]};
    end else if (5'(held) < 5'(elastic.steps) && is_within) is_kept <= 1'b0;
    if (rst) is_kept <= 1'b0;
  end

  logic was_changed, was_present_skip;
  assign was_present_skip = elastic.first.present
      && !elastic.first.column[0].error && elastic.first.column[0].control
      && elastic.first.column[0].value == K_SKIP;

  always_ff @(posedge clk) begin
    if (!is_reset) assume (rst);
    was_changed <= (elastic.drops || elastic.doubles) && elastic.first.present && !rst;
    if (is_reset) begin
      // Places and pointers agree.
      assert (elastic.count <= 5'(PLACES));
      assert (4'(elastic.count) == elastic.put_at - elastic.get_at);
      assert (!elastic.put_at[0]);
      assert (5'(elastic.steps) <= elastic.count);
      assert (!elastic.is_running || elastic.count <= 5'(PLACES));
      // A column stays as it came until it goes out.
      assert (is_kept == is_within);
      if (is_kept) assert (elastic.memory[place[3:1]][place[0]] == kept);
      // Columns that are left out or repeated.
      assert (!(elastic.drops && elastic.doubles));
      if (elastic.drops) assert (!elastic.first.present || was_present_skip);
      if (elastic.is_running && !elastic.is_empty && elastic.steps == 2'd0)
        assert (!elastic.first.present || was_present_skip);
      if (elastic.steps == 2'd2) assert (elastic.drops);
      // One of a skip set: the next column of it passes.
      if (was_changed && elastic.first.present && !elastic.is_empty)
        assert (!elastic.drops && !elastic.doubles || elastic.has_changed == 1'b0);
      assert (!was_changed || elastic.has_changed);
    end
  end
endmodule
