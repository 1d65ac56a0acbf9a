// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Lanes that take turns on one line (docs/torus-link.md, Lanes that share a line): finds the column
// in the bits of a line, and gives each lane its word. A column begins where there are as many commas
// in a row as there are lanes, neither more nor fewer. Two of these elsewhere, and none where columns
// were thought to begin, and the column is looked for anew: bits were lost, or whole symbols, behind
// which the lanes would be right but for their order.

module crosslane_link_turns #(
    parameter int unsigned LANES   = 8,  // from 4
    parameter int unsigned SYMBOLS = 2   // of a word of a lane
) (
    input logic clk,
    input logic rst,
    input logic detected,  // the line has a signal
    input logic again,  // pulse: the column is looked for anew
    input logic [LANES*SYMBOLS*10-1:0] s_word,  // bit 0 came first
    output logic found,
    output logic [LANES-1:0][10*SYMBOLS-1:0] words
);
  localparam int unsigned BITS = 10 * LANES * SYMBOLS;
  localparam int unsigned COLUMN_BITS = 10 * LANES;
  localparam int unsigned AT_BITS = $clog2(COLUMN_BITS);
  localparam logic [6:0] COMMA = 7'b1111100;  // as sent: 0011111

  // --- Commas --------------------------------------------------------------------------------
  logic [  BITS-1:0] last;
  logic [2*BITS-1:0] both;
  logic [BITS-1:0] commas, commas_last;
  assign both = {s_word, last};
  always_ff @(posedge clk) begin
    last <= s_word;
    for (int unsigned n = 0; n < BITS; n++) begin
      commas[n] <= both[n+:7] == COMMA || both[n+:7] == ~COMMA;
    end
    commas_last <= commas;
  end

  // --- Where a column begins -----------------------------------------------------------------
  logic [2*BITS-1:0] seen;
  logic [COLUMN_BITS-1:0] begins, begins_next;
  assign seen = {commas, commas_last};
  always_comb begin
    logic is_run;
    begins_next = '0;
    for (int unsigned n = 10; n < BITS + 10; n++) begin
      is_run = !seen[n-10] && !seen[n+COLUMN_BITS];
      for (int unsigned lane = 0; lane < LANES; lane++) is_run &= seen[n+10*lane];
      if (is_run) begins_next[n%COLUMN_BITS] = 1'b1;
    end
  end

  logic [AT_BITS-1:0] at, at_next;
  logic found_1, is_here, is_elsewhere, is_suspect;
  assign is_here = begins[at];
  assign is_elsewhere = (begins & ~(COLUMN_BITS'(1) << at)) != '0;
  always_comb begin
    at_next = '0;
    for (int unsigned n = COLUMN_BITS; n > 0; n--) if (begins[n-1]) at_next = AT_BITS'(n - 1);
  end

  logic [BITS-1:0] turned;
  always_ff @(posedge clk) begin
    begins <= begins_next;
    if (!found_1 && begins != '0) begin
      found_1 <= 1'b1;
      at <= at_next;
    end
    if (is_here) is_suspect <= 1'b0;
    else if (is_elsewhere) is_suspect <= found_1;
    if (again || !detected || (is_elsewhere && !is_here && is_suspect)) begin
      found_1 <= 1'b0;
      is_suspect <= 1'b0;
      begins <= '0;
    end
    turned <= BITS'(both >> at);
    found  <= found_1;
    if (rst) begin
      found_1 <= 1'b0;
      found   <= 1'b0;
      begins  <= '0;
    end
  end

  always_comb begin
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      for (int unsigned s = 0; s < SYMBOLS; s++) begin
        words[lane][10*s+:10] = turned[10*(LANES*s+lane)+:10];
      end
    end
  end
endmodule
