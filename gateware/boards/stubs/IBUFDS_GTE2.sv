// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The 7-series buffer of a transceiver's reference clock, for the linter and for simulation.

module IBUFDS_GTE2 (
    input  logic I,
    input  logic IB,
    input  logic CEB,
    output logic O,
    output logic ODIV2
);
  assign O = I && !IB && !CEB;
  assign ODIV2 = 1'b0;  // not used
endmodule
