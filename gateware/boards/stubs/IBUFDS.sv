// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The buffer of a differential clock, for the linter and for simulation.

module IBUFDS (
    input  logic I,
    input  logic IB,
    output logic O
);
  assign O = I && !IB;
endmodule
