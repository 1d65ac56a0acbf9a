// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Long words, which change every second clock of `clk`, to words of 20 bits in each clock of
// `pclk`, from which `clk` is divided; for several lines in the same clocks. A long word is read
// SLOTS / 2 clocks of `pclk` behind its change at the earliest and one before the next change at
// the latest, its second half out of a copy: by so much the insertion delays of the two clocks may
// differ.

module crosslane_ecp5_tx_gear #(
    parameter int unsigned LINES = 2,
    parameter int unsigned SLOTS = 8   // words of 20 bits in a long one: 4 or 8
) (
    input  logic                           pclk,
    output logic                           clk,     // half of SLOTS times slower
    input  logic [LINES-1:0]               begins,  // `words` are new in this clock of `clk`
    input  logic [LINES-1:0][20*SLOTS-1:0] words,   // the first bit is the lowest
    output logic [LINES-1:0][        19:0] m_words
);
  localparam int unsigned HALF = SLOTS / 2;
  localparam int unsigned AT_BITS = $clog2(SLOTS);
  localparam int unsigned HALF_BITS = $clog2(HALF);
  // The first read is SLOTS / 2 clocks behind the edge of `clk`.
  localparam logic [AT_BITS-1:0] LATER = AT_BITS'(HALF + 1);

  logic [AT_BITS-1:0] at, from;
  // An edge of `clk` is behind clock 0 of `at`, and one behind clock HALF.
  assign from = at + LATER;
  always_ff @(posedge pclk) begin
    at  <= at + 1'b1;
    clk <= !at[HALF_BITS-1];
  end

  for (genvar n = 0; n < LINES; n++) begin : g_line
    logic [AT_BITS-1:0] now, now_1, now_next;
    logic is_second, copies;
    logic [HALF-1:0][19:0] first, second, late;
    logic [19:0] first_pick, late_pick;
    assign now_next = {from[AT_BITS-1] ^ is_second, from[AT_BITS-2:0]};
    assign {second, first} = words[n];

    always_ff @(posedge pclk) begin
      // Before the edge behind clock 0 `begins` belongs to the edge behind clock HALF.
      if (at == '0) is_second <= begins[n];
      now <= now_next;
      now_1 <= now;
      copies <= now_next == AT_BITS'(HALF - 1);
      if (copies) late <= second;
      first_pick <= first[now[HALF_BITS-1:0]];
      late_pick  <= late[now[HALF_BITS-1:0]];
      m_words[n] <= now_1[AT_BITS-1] ? late_pick : first_pick;
    end
  end

`ifndef SYNTHESIS
  if (SLOTS != 4 && SLOTS != 8) begin : g_slots
    $error("SLOTS is 4 or 8");
  end
`endif
endmodule
