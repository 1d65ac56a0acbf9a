// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_streams.py: a stream into a ring and out of it.

module stream_loop #(
    parameter  int unsigned DATA_BITS  = 256,
    parameter  int unsigned SIZE_BYTES = 2048,
    localparam int unsigned BYTES      = DATA_BITS / 8
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic [DATA_BITS-1:0] s_tdata,
    input  logic [    BYTES-1:0] s_tkeep,
    input  logic                 s_tvalid,
    output logic                 s_tready,
    input  logic                 flush,
    output logic [         15:0] feed_available,
    output logic [DATA_BITS-1:0] m_tdata,
    output logic [    BYTES-1:0] m_tkeep,
    output logic                 m_tvalid,
    input  logic                 m_tready
);
  logic feed_move, feed_take;
  logic [5:0] feed_take_back;
  logic [6:0] feed_take_bytes;
  logic [DATA_BITS-1:0] feed_data;

  crosslane_stream_in #(
      .DATA_BITS (DATA_BITS),
      .SIZE_BYTES(SIZE_BYTES)
  ) in (
      .*
  );

  crosslane_stream_out #(.DATA_BITS(DATA_BITS)) out (.*);

endmodule
