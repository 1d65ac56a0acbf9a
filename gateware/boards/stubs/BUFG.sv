// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The 7-series buffer of a global clock, for the linter and for simulation.

module BUFG (
    input  logic I,
    output logic O
);
  assign O = I;
endmodule
