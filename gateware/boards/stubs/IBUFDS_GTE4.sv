// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The UltraScale+ buffer of a transceiver's reference clock, for the linter and for simulation.

module IBUFDS_GTE4 #(
    parameter logic [1:0] REFCLK_HROW_CK_SEL = 2'b00  // the same clock at both outputs
) (
    input  logic I,
    input  logic IB,
    input  logic CEB,
    output logic O,
    output logic ODIV2
);
  assign O = I && !IB && !CEB;
  assign ODIV2 = (REFCLK_HROW_CK_SEL == 2'b00) && O;
endmodule
