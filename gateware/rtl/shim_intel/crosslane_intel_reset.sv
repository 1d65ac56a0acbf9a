// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Function-level reset behind Intel's hard blocks. The engine is reset at once, the shim finishes
// the TLPs in progress; then the hard block is told.

module crosslane_intel_reset (
    input  logic clk,
    input  logic rst,
    input  logic requested,   // a level, until `completed`; a pulse would do, too
    output logic completed,   // pulse
    input  logic rx_between,  // no TLP is in progress
    input  logic tx_between,
    output logic discard,     // the shim discards its input, and abandons TLPs in progress
    output logic engine_rst
);

  // At least: what the receive FIFO and the hard block's ready latency hold has come out by then.
  localparam logic [6:0] RESET_CLOCKS = 7'd127;

  // `seen` waits for the hard block to withdraw its request.
  logic seen;
  logic [6:0] clocks;
  always_ff @(posedge clk) begin
    completed  <= 1'b0;
    engine_rst <= discard;
    if (!requested) seen <= 1'b0;
    if (discard) begin
      if (clocks != RESET_CLOCKS) clocks <= clocks + 1'b1;
      else if (rx_between && tx_between) begin
        discard   <= 1'b0;
        completed <= 1'b1;
      end
    end else if (requested && !seen) begin
      discard <= 1'b1;
      seen <= 1'b1;
      clocks <= '0;
    end
    if (rst) begin
      discard <= 1'b0;
      seen <= 1'b0;
      engine_rst <= 1'b1;
      completed <= 1'b0;
    end
  end

endmodule
