// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Counts one type of the link's credits. The hard block tells how many are free; what it has taken
// from the shim and not yet consumed counts as used. A number that was never other than 0 stands
// for infinite credits; so do all ones, of which more are left than can be under way.

module crosslane_shim_s10_credit #(
    parameter int unsigned BITS = 8
) (
    input  logic            clk,
    input  logic            rst,       // the link is down
    input  logic [BITS-1:0] told,
    input  logic [     8:0] used,      // by a TLP that is taken now
    input  logic [     8:0] returned,  // was used by one that does not arrive
    input  logic [     2:0] consumed,
    input  logic            forget,    // nothing can be under way
    output logic            none,      // is under way
    output logic [BITS-1:0] free,
    output logic            infinite
);
  localparam int unsigned SUM_BITS = BITS + 3;

  logic [BITS-1:0] now, under_way;
  logic [SUM_BITS-1:0] more, fewer;
  logic known;

  assign more = SUM_BITS'(under_way) + SUM_BITS'(used);
  assign fewer = SUM_BITS'(returned) + SUM_BITS'(consumed);
  assign none = under_way == '0;
  assign infinite = !known;

  always_ff @(posedge clk) begin
    now <= told;
    known <= known || told != '0;
    free <= now > under_way ? now - under_way : '0;
    under_way <= more > fewer ? BITS'(more - fewer) : '0;
    if (rst || forget) under_way <= '0;
    if (rst) begin
      known <= 1'b0;
      now   <= '0;
      free  <= '0;
    end
  end

endmodule
