// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// 8b/10b decoder of one lane: the code's symbol, or an error, in the clock behind it. Behind an
// error the disparity follows the bits themselves.

module crosslane_link_decode
  import crosslane_link_code_pkg::*;
(
    input  logic       clk,
    input  logic       rst,
    input  logic       aligns,        // the disparity is set, to `aligned` (with the first comma)
    input  logic       aligned,
    input  logic       valid,         // a code
    input  logic [9:0] code,
    output logic [7:0] symbol,
    output logic       control,
    output logic       code_error,    // no symbol has this code
    output logic       turned_error,  // one has, but at the other disparity
    output logic       positive
);
  decoded_t found;
  assign found = decoded(code, aligns ? aligned : positive);

  always_ff @(posedge clk) begin
    if (valid) begin
      symbol <= found.symbol;
      control <= found.control;
      code_error <= found.code_error;
      turned_error <= found.turned_error;
      positive <= found.positive;
    end else if (aligns) positive <= aligned;
    if (rst) positive <= 1'b0;
  end
endmodule
