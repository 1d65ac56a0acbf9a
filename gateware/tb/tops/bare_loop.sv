// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_bare.py: the bare core, with its read data going out again.

module bare_loop
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS      = 256,
    parameter int unsigned TIMEOUT_CLOCKS = 6000
) (
    input  logic                        clk,
    input  logic                        rst,
    input  function_t                   function_i,
    input  room_t                       room_i,
    // As crosslane_card has it.
    input  logic                        time_set_valid,
    input  logic        [         63:0] time_set_value,
    input  logic                        s_rx_valid,
    output logic                        s_rx_ready,
    input  tlp_header_t                 s_rx_header,
    input  logic                        s_rx_first,
    input  logic                        s_rx_last,
    input  logic        [DATA_BITS-1:0] s_rx_data,
    output logic                        m_tx_valid,
    input  logic                        m_tx_ready,
    output tlp_header_t                 m_tx_header,
    output logic                        m_tx_first,
    output logic                        m_tx_last,
    output logic        [DATA_BITS-1:0] m_tx_data,
    input  logic                        h2c_descriptor_valid,
    output logic                        h2c_descriptor_ready,
    input  descriptor_t                 h2c_descriptor,
    output logic        [         31:0] h2c_completed,
    output logic                        h2c_stopped,
    input  logic                        c2h_descriptor_valid,
    output logic                        c2h_descriptor_ready,
    input  descriptor_t                 c2h_descriptor,
    output logic        [         31:0] c2h_completed,
    output logic                        c2h_stopped,
    output logic                        poisoned_write,
    output logic                        unexpected_completion,
    output logic                        completion_timeout
);
  logic [63:0] time_i;
  logic [15:0] available;
  logic move, take;
  logic [5:0] take_back;
  logic [6:0] take_bytes;
  logic [DATA_BITS-1:0] data;

  always_ff @(posedge clk) begin
    time_i <= time_set_valid ? time_set_value : time_i + 1'b1;
    if (rst) time_i <= '0;
  end

  crosslane_bare #(
      .DATA_BITS(DATA_BITS),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS)
  ) bare (
      .h2c_available(available),
      .h2c_move(move),
      .h2c_take(take),
      .h2c_take_back(take_back),
      .h2c_take_bytes(take_bytes),
      .h2c_data(data),
      .c2h_available(available),
      .c2h_move(move),
      .c2h_take(take),
      .c2h_take_back(take_back),
      .c2h_take_bytes(take_bytes),
      .c2h_data(data),
      .*
  );
endmodule
