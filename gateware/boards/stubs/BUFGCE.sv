// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The 7-series buffer of a global clock with an enable, which is taken between pulses, for the
// linter and for simulation.

module BUFGCE (
    input  logic CE,
    input  logic I,
    output logic O
);
  logic is_on;
  always_ff @(negedge I) is_on <= CE;
  assign O = I && is_on;
endmodule
