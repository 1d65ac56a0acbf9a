// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// 8b/10b encoder of one lane (Widmer and Franaszek 1983). Bit 9 of a code is `a`, which is sent
// first. The code is there in the clock behind its symbol.

module crosslane_link_encode
  import crosslane_link_code_pkg::*;
(
    input  logic       clk,
    input  logic       rst,      // negative disparity
    input  logic       valid,    // a symbol
    input  logic [7:0] symbol,
    input  logic       control,  // one of the twelve control symbols
    output logic [9:0] code,
    output logic       positive  // disparity behind it
);
  coded_t coded;
  assign coded = encoded(symbol, control, positive);

  always_ff @(posedge clk) begin
    if (valid) begin
      code <= coded.code;
      positive <= coded.positive;
    end
    if (rst) positive <= 1'b0;
  end
endmodule
