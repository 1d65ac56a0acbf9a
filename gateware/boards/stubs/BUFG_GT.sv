// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The UltraScale+ buffer of a transceiver's clock, for the linter and for simulation: a division by
// 1 or 2, and an enable that is taken between pulses, as BUFG_GT_SYNC sees to.

module BUFG_GT (
    input  logic       CE,
    input  logic       CEMASK,
    input  logic       CLR,
    input  logic       CLRMASK,
    input  logic [2:0] DIV,
    input  logic       I,
    output logic       O
);
  logic is_on, half;
  always_ff @(negedge I) is_on <= CE || CEMASK;
  always_ff @(posedge I) half <= is_on && !half;
  assign O = !(CLR && !CLRMASK) && (DIV == '0 ? I && is_on : half);
  always_comb assert (DIV < 3'd2);
endmodule
