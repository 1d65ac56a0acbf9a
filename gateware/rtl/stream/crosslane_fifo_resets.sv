// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Resets of the FIFOs between two clocks (crosslane_async_fifo) by a reset of either side. `rst_o`
// is for what is around the FIFOs: a side takes and gives nothing from its beginning on. `clear_o`
// is for the FIFOs' side: it begins when the other side's `rst_o` has begun. A pointer that goes
// back before that would have the other side take old words for new ones.

module crosslane_fifo_resets #(
    parameter int unsigned STAGES = 2  // of the synchronisers
) (
    input  logic a_clk,
    input  logic a_rst,
    output logic a_rst_o,
    output logic a_clear_o,
    input  logic b_clk,
    input  logic b_rst,
    output logic b_rst_o,
    output logic b_clear_o
);
  logic a_is_reset, b_is_reset, a_seen, b_seen;

  crosslane_reset_pair #(.STAGES(STAGES)) resets (.*);

  always_ff @(posedge a_clk) a_is_reset <= a_rst_o;
  always_ff @(posedge b_clk) b_is_reset <= b_rst_o;

  crosslane_synchronizer #(
      .STAGES(STAGES)
  ) a_to_b (
      .clk(b_clk),
      .rst(1'b0),
      .s  (a_is_reset),
      .m  (a_seen)
  );
  crosslane_synchronizer #(
      .STAGES(STAGES)
  ) b_to_a (
      .clk(a_clk),
      .rst(1'b0),
      .s  (b_is_reset),
      .m  (b_seen)
  );

  assign a_clear_o = a_rst_o && b_seen;
  assign b_clear_o = b_rst_o && a_seen;
endmodule
