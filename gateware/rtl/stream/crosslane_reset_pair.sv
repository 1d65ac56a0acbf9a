// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Resets two clock domains together: a reset of either side, of a clock or more, resets both, and
// they overlap by at least STAGES + 1 clocks of the slower one, as crosslane_async_fifo requires.
// Both clocks must run for a reset to end.

module crosslane_reset_pair #(
    parameter int unsigned STAGES = 2  // of the synchronisers
) (
    input  logic a_clk,
    input  logic a_rst,
    output logic a_rst_o,
    input  logic b_clk,
    input  logic b_rst,
    output logic b_rst_o
);
  logic a_asks, a_holds, b_asks, b_holds;

  crosslane_reset_side #(
      .STAGES(STAGES)
  ) a_side (
      .clk(a_clk),
      .rst(a_rst),
      .rst_o(a_rst_o),
      .asks(a_asks),
      .holds(a_holds),
      .was_asked(b_asks),
      .is_held(b_holds)
  );

  crosslane_reset_side #(
      .STAGES(STAGES)
  ) b_side (
      .clk(b_clk),
      .rst(b_rst),
      .rst_o(b_rst_o),
      .asks(b_asks),
      .holds(b_holds),
      .was_asked(a_asks),
      .is_held(a_holds)
  );
endmodule
