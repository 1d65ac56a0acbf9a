// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Merges two sources of completions, registers and window, TLP by TLP, in turn when both have one.
// An offered beat stays offered.

module crosslane_answers
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256
) (
    input logic clk,
    input logic rst,
    input logic [1:0] s_valid,
    output logic [1:0] s_ready,
    input tlp_header_t [1:0] s_header,
    input logic [1:0] s_first,
    input logic [1:0] s_last,
    input logic [1:0][DATA_BITS-1:0] s_data,
    output logic m_valid,
    input logic m_ready,
    output tlp_header_t m_header,
    output logic m_first,
    output logic m_last,
    output logic [DATA_BITS-1:0] m_data
);
  logic is_held, held, turn, choice;

  assign choice   = is_held ? held : s_valid[turn] ? turn : !turn;
  assign m_valid  = s_valid[choice];
  assign s_ready  = {choice && m_ready, !choice && m_ready};
  assign m_header = s_header[choice];
  assign m_first  = s_first[choice];
  assign m_last   = s_last[choice];
  assign m_data   = s_data[choice];

  always_ff @(posedge clk) begin
    held <= choice;
    if (m_valid) is_held <= !(m_ready && m_last);
    if (m_valid && m_ready && m_last) turn <= !choice;
    if (rst) begin
      is_held <= 1'b0;
      turn <= 1'b0;
    end
  end
endmodule
