// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For area.py: the bare core, with a byte ring in front of its C2H channel, filled by an
// AXI-Stream.

module bare_on_ring
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS = 256,
    localparam int unsigned BYTES     = DATA_BITS / 8
) (
    input  logic                        clk,
    input  logic                        rst,
    input  function_t                   function_i,
    input  room_t                       room_i,
    input  logic        [         63:0] time_i,
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
    output logic        [         15:0] h2c_available,
    input  logic                        h2c_move,
    input  logic                        h2c_take,
    input  logic        [          5:0] h2c_take_back,
    input  logic        [          6:0] h2c_take_bytes,
    output logic        [DATA_BITS-1:0] h2c_data,
    input  logic        [DATA_BITS-1:0] s_tdata,
    input  logic        [    BYTES-1:0] s_tkeep,
    input  logic                        s_tvalid,
    output logic                        s_tready,
    output logic                        poisoned_write,
    output logic                        unexpected_completion,
    output logic                        completion_timeout
);
  logic [15:0] c2h_available;
  logic c2h_move, c2h_take;
  logic [5:0] c2h_take_back;
  logic [6:0] c2h_take_bytes;
  logic [DATA_BITS-1:0] c2h_data;

  crosslane_bare #(.DATA_BITS(DATA_BITS)) bare (.*);

  crosslane_stream_in #(
      .DATA_BITS (DATA_BITS),
      .SIZE_BYTES(16384)
  ) stream (
      .feed_available(c2h_available),
      .feed_move(c2h_move),
      .feed_take(c2h_take),
      .feed_take_back(c2h_take_back),
      .feed_take_bytes(c2h_take_bytes),
      .feed_data(c2h_data),
      .s_tlast(1'b0),
      .s_tuser('0),
      .feed_end(),
      .*
  );
endmodule
