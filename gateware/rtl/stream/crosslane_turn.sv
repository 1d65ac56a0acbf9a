// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Round robin: chooses the first requester behind the one that had the last turn. The chosen one
// has had its turn when `taken` says so: in the same clock, or later if the choice runs a clock
// ahead of its use.

module crosslane_turn #(
    parameter  int unsigned COUNT      = 4,
    localparam int unsigned INDEX_BITS = (COUNT > 1) ? $clog2(COUNT) : 1
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [     COUNT-1:0] valid,
    input  logic [     COUNT-1:0] taken,   // the one that has its turn now, or none
    output logic [     COUNT-1:0] chosen,
    output logic [INDEX_BITS-1:0] index    // of chosen; 0 if there is none
);
  if (COUNT == 1) begin : g_one
    assign chosen = valid;
    assign index  = '0;
    logic unused;
    assign unused = &{1'b0, clk, rst, taken};
  end else begin : g_many
    // Requesters behind the one that had the last turn.
    logic [COUNT-1:0] behind, first;
    assign first = ((valid & behind) != '0) ? valid & behind : valid;
    // Gates: a carry chain takes longer for so few.
    always_comb begin
      for (int unsigned n = 0; n < COUNT; n++) begin
        chosen[n] = first[n] && (first & COUNT'((1 << n) - 1)) == '0;
      end
      index = '0;
      for (int unsigned n = 0; n < COUNT; n++) begin
        if (chosen[n]) index = index | INDEX_BITS'(n);
      end
    end
    always_ff @(posedge clk) begin
      if (taken != '0) begin
        for (int unsigned n = 0; n < COUNT; n++) behind[n] <= (taken & COUNT'((1 << n) - 1)) != '0;
      end
      if (rst) behind <= '0;
    end
  end
endmodule
