// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A feed as an AXI-Stream: a user circuit's output from a stream of the engine. All beats are full,
// except that with `flush` a beat may be partial: m_tkeep marks its lanes, from 0 on.
// gateware/README.md, "Feed".

module crosslane_stream_out
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS = 256,
    localparam int unsigned BYTES     = DATA_BITS / 8
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic                 flush,            // level: beats may be partial
    // Feed.
    input  logic [         15:0] feed_available,
    output logic                 feed_move,
    output logic                 feed_take,
    output logic [          5:0] feed_take_back,
    output logic [          6:0] feed_take_bytes,
    input  logic [DATA_BITS-1:0] feed_data,
    // AXI-Stream.
    output logic [DATA_BITS-1:0] m_tdata,
    output logic [    BYTES-1:0] m_tkeep,
    output logic                 m_tvalid,
    input  logic                 m_tready
);
  localparam int unsigned LANE_BITS = $clog2(BYTES);

  logic                        full;  // a full beat is available
  // Beside the feed's read pipeline: whether a stage has a beat, and its bytes less 1.
  logic [RING_READ_CLOCKS-1:0] valid;
  logic [       LANE_BITS-1:0] lanes                             [RING_READ_CLOCKS];

  assign full = feed_available[15:LANE_BITS] != '0;
  assign feed_move = !m_tvalid || m_tready;
  assign feed_take = feed_move && (full || (flush && feed_available != '0));
  assign feed_take_back = 6'd0;
  assign feed_take_bytes = full ? 7'(BYTES) : 7'(feed_available[LANE_BITS-1:0]);

  always_ff @(posedge clk) begin
    if (feed_move) begin
      valid <= {valid[RING_READ_CLOCKS-2:0], feed_take};
      lanes[0] <= full ? '1 : feed_available[LANE_BITS-1:0] - 1'b1;
      for (int unsigned n = 1; n < RING_READ_CLOCKS; n++) lanes[n] <= lanes[n-1];
    end
    if (rst) begin
      valid <= '0;
      // Registers: a shift register in memory has its output late in the clock.
      lanes[1] <= '0;
    end
  end

  assign m_tvalid = valid[RING_READ_CLOCKS-1];
  assign m_tdata  = feed_data;
  always_comb begin
    for (int unsigned lane = 0; lane < BYTES; lane++) begin
      m_tkeep[lane] = LANE_BITS'(lane) <= lanes[RING_READ_CLOCKS-1];
    end
  end

endmodule
