// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The state of a card for a board's lights: link up, bus master, and a clock that runs.

module crosslane_board_lights #(
    parameter int unsigned CLOCK_PS = 4000
) (
    input  logic clk,
    input  logic rst,
    input  logic link_up_i,
    input  logic bus_master_i,
    output logic link_up,
    output logic bus_master,
    output logic heartbeat      // changes about twice a second
);
  // Half a second in clocks, as a power of two.
  localparam int unsigned BITS = $clog2(500_000_000 / CLOCK_PS * 1000);
  logic [BITS-1:0] count;

  always_ff @(posedge clk) begin
    count <= count + 1'b1;
    link_up <= link_up_i;
    bus_master <= bus_master_i;
    if (rst) begin
      count <= '0;
      link_up <= 1'b0;
      bus_master <= 1'b0;
    end
  end
  assign heartbeat = count[BITS-1];

endmodule
