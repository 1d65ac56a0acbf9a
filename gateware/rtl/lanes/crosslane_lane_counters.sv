// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Counters of the receive queues for their registers: bytes taken in, whether data were lost, times
// of the first and last TLP; and values that other modules count.

module crosslane_lane_counters
  import crosslane_pkg::*;
#(
    parameter  int unsigned LANES     = 8,
    parameter  int unsigned FILL_BITS = 15,
    localparam int unsigned LANE_BITS = (LANES == 1) ? 1 : $clog2(LANES)
) (
    input logic clk,
    input logic rst,
    input logic [LANES-1:0] restart,  // pulse: all but the times
    input logic reset_counters,  // pulse: the times
    input logic [63:0] time_i,  // clocks
    // A beat of a TLP taken into a lane; or data were lost.
    input logic [LANE_BITS-1:0] lane,
    input logic beat_valid,
    input logic [6:0] beat_bytes,
    input logic beat_last,
    input logic lost,
    // Counted elsewhere.
    input logic [LANES-1:0][FILL_BITS-1:0] fill,
    input logic [LANES-1:0][31:0] drained,
    input logic [LANES-1:0][31:0] errors,
    input logic [LANES-1:0][31:0] first_error,
    output lane_readings_t [LANES-1:0] lane_readings
);
  logic [LANES-1:0] overflow, has_first;
  logic [LANES-1:0][31:0] received;
  logic [LANES-1:0][63:0] first, last;
  logic [31:0] received_before;

  assign received_before = received[lane];

  always_ff @(posedge clk) begin
    if (lost) overflow[lane] <= 1'b1;
    if (beat_valid) received[lane] <= received_before + 32'(beat_bytes);
    if (beat_valid && beat_last) begin
      if (!has_first[lane]) first[lane] <= time_i;
      has_first[lane] <= 1'b1;
      last[lane] <= time_i;
    end
    for (int unsigned n = 0; n < LANES; n++) begin
      if (rst || restart[n]) begin
        overflow[n] <= 1'b0;
        received[n] <= '0;
      end
      if (rst || reset_counters) begin
        has_first[n] <= 1'b0;
        first[n] <= '0;
        last[n] <= '0;
      end
    end
  end

  always_comb begin
    for (int unsigned n = 0; n < LANES; n++) begin
      lane_readings[n].overflow = overflow[n];
      lane_readings[n].fill = 32'(fill[n]);
      lane_readings[n].received = received[n];
      lane_readings[n].drained = drained[n];
      lane_readings[n].check_errors = errors[n];
      lane_readings[n].check_first = first_error[n];
      lane_readings[n].first = first[n];
      lane_readings[n].last = last[n];
    end
  end
endmodule
