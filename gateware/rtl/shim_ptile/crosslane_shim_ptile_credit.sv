// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Counts one type of the link's credits. The limit is a total modulo 2^BITS, or modulo 2^FEW_BITS:
// without scaled flow control no more than half of that are free. A limit that was never other than
// 0, or whose top bit is set when it is first told, stands for infinite credits.
//
// The hard block uses credits as well (answers to configuration requests, messages) and does not
// tell: but no more can be free than there were at first, so what seems to be counts as used.

module crosslane_shim_ptile_credit #(
    parameter int unsigned BITS = 12,
    parameter int unsigned FEW_BITS = 8
) (
    input  logic            clk,
    input  logic            rst,       // the link is down
    input  logic            told,
    input  logic [BITS-1:0] limit,
    input  logic            tick,      // every eighth clock
    input  logic            takes,
    input  logic            returns,   // what was used last is not
    input  logic [BITS-1:0] used,
    input  logic [BITS-1:0] was_used,
    output logic [BITS-1:0] free,
    output logic            infinite
);
  logic [BITS-1:0] first, now, gone, left, hidden;
  logic known, is_few, too_many;

  assign is_few = first[BITS-1:FEW_BITS-1] == '0;
  always_comb begin
    left = now - gone;
    if (is_few) left[BITS-1:FEW_BITS] = '0;
  end
  assign too_many = left > first;
  assign infinite = !known || first[BITS-1];

  always_ff @(posedge clk) begin
    if (told) begin
      now <= limit;
      if (!known) first <= limit;
      known <= known || limit != '0;
    end
    free   <= too_many ? first : left;
    hidden <= '0;  // `left` shows it before the next tick
    if (tick && known && too_many) hidden <= left - first;
    gone <= gone + (takes ? used : '0) - (returns ? was_used : '0) + hidden;
    if (rst) begin
      known <= 1'b0;
      gone <= '0;
      now <= '0;
      hidden <= '0;
      free <= '0;
    end
  end

endmodule
