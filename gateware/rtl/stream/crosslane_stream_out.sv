// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A feed as an AXI-Stream: a user circuit's output from a stream of the engine. All beats are full,
// except that with `flush` a beat may be partial: m_tkeep marks its lanes, from 0 on.
// gateware/README.md, "Feed". With PACKETS, from a feed with ends, the beats of a packet are full
// but for the last one, which has m_tlast and the packet's m_tuser.

module crosslane_stream_out
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS = 256,
    parameter  bit          PACKETS   = 0,
    localparam int unsigned BYTES     = DATA_BITS / 8
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic                        flush,            // level: beats may be partial
    // Feed.
    input  logic        [         15:0] feed_available,
    output logic                        feed_move,
    output logic                        feed_take,
    output logic        [          5:0] feed_take_back,
    output logic        [          6:0] feed_take_bytes,
    input  logic        [DATA_BITS-1:0] feed_data,
    // verilator lint_off UNUSEDSIGNAL
    input  packet_end_t                 feed_end,
    // verilator lint_on UNUSEDSIGNAL
    // AXI-Stream.
    output logic        [DATA_BITS-1:0] m_tdata,
    output logic        [    BYTES-1:0] m_tkeep,
    output logic                        m_tlast,
    output logic        [         15:0] m_tuser,          // beside m_tlast
    output logic                        m_tvalid,
    input  logic                        m_tready
);
  localparam int unsigned LANE_BITS = $clog2(BYTES);

  logic                        full;  // a full beat is available
  // Beside the feed's read pipeline: whether a stage has a beat, and its bytes less 1.
  logic [RING_READ_CLOCKS-1:0] valid;
  logic [       LANE_BITS-1:0] lanes                             [RING_READ_CLOCKS];

  // A beat that ends a packet is there, and ends before a full one would.
  logic packets, ends, is_short;
  logic [LANE_BITS-1:0] rest;  // bytes of a partial beat, modulo BYTES
  assign packets = PACKETS && feed_end.has_ends;
  assign is_short = packets && feed_end.known && feed_end.bytes < 17'(BYTES);
  assign ends = packets && feed_end.known && feed_end.bytes <= 17'(BYTES)
             && feed_end.bytes <= 17'(feed_available);
  assign rest = is_short ? feed_end.bytes[LANE_BITS-1:0] : feed_available[LANE_BITS-1:0];

  assign full = feed_available[15:LANE_BITS] != '0 && !is_short;
  assign feed_move = !m_tvalid || m_tready;
  // Nothing is taken during a reset: it would be lost.
  assign feed_take = !rst && feed_move &&
      (full || ends || (flush && !packets && feed_available != '0));
  assign feed_take_back = 6'd0;
  assign feed_take_bytes = full ? 7'(BYTES) : 7'(rest);

  always_ff @(posedge clk) begin
    if (feed_move) begin
      valid <= {valid[RING_READ_CLOCKS-2:0], feed_take};
      lanes[0] <= full ? '1 : rest - 1'b1;
      for (int unsigned n = 1; n < RING_READ_CLOCKS; n++) lanes[n] <= lanes[n-1];
    end
    if (rst) begin
      valid <= '0;
      // Registers: a shift register in memory has its output late in the clock.
      lanes[1] <= '0;
    end
  end

  if (PACKETS) begin : g_packets
    logic [RING_READ_CLOCKS-1:0] lasts;
    logic [RING_READ_CLOCKS-1:0][15:0] users;
    always_ff @(posedge clk) begin
      if (feed_move) begin
        lasts <= {lasts[RING_READ_CLOCKS-2:0], ends};
        users <= {users[RING_READ_CLOCKS-2:0], feed_end.user};
      end
    end
    assign m_tlast = lasts[RING_READ_CLOCKS-1];
    assign m_tuser = users[RING_READ_CLOCKS-1];
  end else begin : g_no_packets
    assign m_tlast = 1'b0;
    assign m_tuser = '0;
  end

  assign m_tvalid = valid[RING_READ_CLOCKS-1];
  assign m_tdata  = feed_data;
  always_comb begin
    for (int unsigned lane = 0; lane < BYTES; lane++) begin
      m_tkeep[lane] = LANE_BITS'(lane) <= lanes[RING_READ_CLOCKS-1];
    end
  end

endmodule
