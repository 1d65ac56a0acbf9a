// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Registers in which a level from another clock settles. A vector is safe only if at most one bit
// changes at a time (Gray code), and with a constraint: from the register that drives `s` to the
// first one here the delay and its skew over the bits are less than one period of the faster clock
// (Vivado: set_max_delay -datapath_only and set_bus_skew; Quartus: set_max_skew, set_net_delay).
// All of these registers are in cells named `settling_reg`.

module crosslane_synchronizer #(
    parameter int unsigned WIDTH  = 1,
    parameter int unsigned STAGES = 2   // from 2
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] s,    // a register of the other clock
    output logic [WIDTH-1:0] m
);
  // Placed close together, not merged into shift registers, not optimised away.
  (* ASYNC_REG = "TRUE", shreg_extract = "no", keep = "true",
     altera_attribute = "-name SYNCHRONIZER_IDENTIFICATION FORCED_IF_ASYNCHRONOUS" *)
  logic [STAGES-1:0][WIDTH-1:0] settling;

  always_ff @(posedge clk) begin
    settling <= {settling[STAGES-2:0], s};
    if (rst) settling <= '0;
  end

  assign m = settling[STAGES-1];

`ifndef SYNTHESIS
  if (STAGES < 2) begin : g_stages
    $error("STAGES is 2 or more");
  end
`endif
endmodule
