// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_streams.py: a stream into a ring and out of it.

module stream_loop
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS  = 256,
    parameter  int unsigned SIZE_BYTES = 2048,
    parameter  bit          PACKETS    = 0,
    localparam int unsigned BYTES      = DATA_BITS / 8
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic [DATA_BITS-1:0] s_tdata,
    input  logic [    BYTES-1:0] s_tkeep,
    input  logic                 s_tlast,
    input  logic [         15:0] s_tuser,
    input  logic                 s_tvalid,
    output logic                 s_tready,
    input  logic                 flush,
    output logic [         15:0] feed_available,
    output logic [DATA_BITS-1:0] m_tdata,
    output logic [    BYTES-1:0] m_tkeep,
    output logic                 m_tlast,
    output logic [         15:0] m_tuser,
    output logic                 m_tvalid,
    input  logic                 m_tready
);
  logic feed_move, feed_take;
  logic [5:0] feed_take_back;
  logic [6:0] feed_take_bytes;
  logic [DATA_BITS-1:0] feed_data;
  packet_end_t feed_end;

  crosslane_stream_in #(
      .DATA_BITS (DATA_BITS),
      .SIZE_BYTES(SIZE_BYTES),
      .PACKETS   (PACKETS)
  ) in (
      .*
  );

  crosslane_stream_out #(
      .DATA_BITS(DATA_BITS),
      .PACKETS  (PACKETS)
  ) out (
      .*
  );

endmodule
