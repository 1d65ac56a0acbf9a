// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// All lanes: line bits to columns. In each aligned lane data behind a comma mark a beginning; when
// all lanes have had one within MAX_SKEW columns, the earlier ones are delayed to match the latest.
// A word has several columns, element 0 first; it comes four clocks behind its bits.

module crosslane_link_deskew
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES   = 8,
    parameter int unsigned SYMBOLS = 2   // of a word of a lane
) (
    input  logic                                         clk,
    input  logic                                         rst,
    input  logic                                         realign,   // pulse: it begins anew
    input  logic         [  LANES-1:0]                   detected,
    input  logic         [  LANES-1:0][SYMBOLS-1:0][9:0] words,
    output logic         [SYMBOLS-1:0]                   present,   // deskewed columns
    output lane_symbol_t [SYMBOLS-1:0][  LANES-1:0]      columns,
    output logic                                         turn       // inverted by each `realign`
);
  localparam int unsigned MAX_SKEW = 7;
  localparam int unsigned KEPT = MAX_SKEW + SYMBOLS;
  typedef logic [3:0] age_t;
  localparam age_t LONG_AGO = age_t'(MAX_SKEW + 1);

  lane_symbol_t [LANES-1:0][SYMBOLS-1:0] symbols;
  logic [LANES-1:0][SYMBOLS-1:0] beginning;
  logic restart;
  assign restart = rst || realign;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    crosslane_link_align #(
        .SYMBOLS(SYMBOLS)
    ) align (
        .clk,
        .rst(restart),
        .detected(detected[lane]),
        .word(words[lane]),
        .symbols(symbols[lane]),
        .beginning(beginning[lane])
    );
  end

  // --- Delays --------------------------------------------------------------------------------
  // Columns since the last beginning of each lane, and how far each is delayed once that is known.
  age_t [LANES-1:0] age, age_next;
  logic [LANES-1:0][2:0] delay, delay_next;
  logic is_deskewed, deskewed_next;
  logic [SYMBOLS-1:0] present_next;
  lane_symbol_t [LANES-1:0][KEPT-1:0] stream, stream_next;
  lane_symbol_t [SYMBOLS-1:0][LANES-1:0] columns_next;

  always_comb begin
    logic are_near, is_one_new;
    age_next = age;
    delay_next = delay;
    deskewed_next = is_deskewed;
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      // The newest symbols last.
      stream_next[lane] = {symbols[lane], stream[lane][KEPT-1:SYMBOLS]};
    end
    for (int unsigned s = 0; s < SYMBOLS; s++) begin
      are_near   = 1'b1;
      is_one_new = 1'b0;
      for (int unsigned lane = 0; lane < LANES; lane++) begin
        if (beginning[lane][s]) age_next[lane] = '0;
        else if (age_next[lane] != LONG_AGO) age_next[lane] = age_next[lane] + 1'b1;
        are_near &= age_next[lane] != LONG_AGO;
        is_one_new |= beginning[lane][s];
      end
      if (!deskewed_next && are_near && is_one_new) begin
        deskewed_next = 1'b1;
        for (int unsigned lane = 0; lane < LANES; lane++) delay_next[lane] = 3'(age_next[lane]);
      end
      present_next[s] = deskewed_next;
    end
  end

  // A clock later, so that delays are registers.
  logic [SYMBOLS-1:0] present_1;
  always_comb begin
    for (int unsigned s = 0; s < SYMBOLS; s++) begin
      for (int unsigned lane = 0; lane < LANES; lane++) begin
        columns_next[s][lane] = stream[lane][4'(MAX_SKEW+s)-4'(delay[lane])];
      end
    end
  end

  always_ff @(posedge clk) begin
    age <= age_next;
    delay <= delay_next;
    is_deskewed <= deskewed_next;
    stream <= stream_next;
    present_1 <= present_next;
    columns <= columns_next;
    present <= present_1;
    if (realign) turn <= !turn;
    if (restart) begin
      age <= {LANES{LONG_AGO}};
      is_deskewed <= 1'b0;
      present_1 <= '0;
      present <= '0;
    end
    if (rst) turn <= 1'b0;
  end

`ifndef SYNTHESIS
  if (SYMBOLS != 2 && SYMBOLS != 4) begin : g_symbols
    $error("SYMBOLS is 2 or 4");
  end
`endif
endmodule
