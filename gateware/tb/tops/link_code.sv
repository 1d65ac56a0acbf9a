// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_link_code.py: an encoder and a decoder of one lane.

module link_code (
    input  logic       clk,
    input  logic       rst,
    // A comma first, if positive disparity is wanted.
    input  logic       encode,
    input  logic [7:0] symbol,
    input  logic       control,
    output logic [9:0] encoded,
    output logic       encoded_positive,
    input  logic       aligns,
    input  logic       aligned,
    input  logic       decode,
    input  logic [9:0] code,
    output logic [7:0] decoded,
    output logic       decoded_control,
    output logic       code_error,
    output logic       turned_error,
    output logic       decoded_positive
);
  crosslane_link_encode encoder (
      .clk,
      .rst,
      .valid(encode),
      .symbol,
      .control,
      .code(encoded),
      .positive(encoded_positive)
  );

  crosslane_link_decode decoder (
      .clk,
      .rst,
      .aligns,
      .aligned,
      .valid(decode),
      .code,
      .symbol(decoded),
      .control(decoded_control),
      .code_error,
      .turned_error,
      .positive(decoded_positive)
  );
endmodule
