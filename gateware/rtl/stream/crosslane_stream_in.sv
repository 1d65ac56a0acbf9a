// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// An AXI-Stream of bytes into a byte ring, offered as a feed: a user circuit's input to a writer.
// The bytes of a beat are in the lanes from 0 on that s_tkeep marks, at least one; beats are packed
// without holes. gateware/README.md, "Feed". With PACKETS s_tlast ends a packet, and a beat without
// bytes is ignored.

module crosslane_stream_in
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS  = 256,
    parameter  int unsigned SIZE_BYTES = 16384,         // of the ring: a power of two, to 65536
    parameter  bit          PACKETS    = 0,
    localparam int unsigned BYTES      = DATA_BITS / 8
) (
    input  logic                        clk,
    input  logic                        rst,              // empties the ring
    // AXI-Stream.
    input  logic        [DATA_BITS-1:0] s_tdata,
    input  logic        [    BYTES-1:0] s_tkeep,
    // verilator lint_off UNUSEDSIGNAL
    input  logic                        s_tlast,
    input  logic        [         15:0] s_tuser,          // beside s_tlast
    // verilator lint_on UNUSEDSIGNAL
    input  logic                        s_tvalid,
    output logic                        s_tready,
    // Feed.
    output logic        [         15:0] feed_available,
    input  logic                        feed_move,
    input  logic                        feed_take,
    input  logic        [          5:0] feed_take_back,
    input  logic        [          6:0] feed_take_bytes,
    output logic        [DATA_BITS-1:0] feed_data,
    output packet_end_t                 feed_end
);
  localparam int unsigned POSITION_BITS = $clog2(SIZE_BYTES);
  localparam int unsigned COUNT_BITS = $clog2(BYTES) + 1;

  // --- Into the ring -------------------------------------------------------------------------
  // Bytes of the beat. Kept lanes are those from 0 on: a bit of their number is set if they are at
  // least one of the numbers at which this bit becomes 1, and less than the next at which it is 0.
  logic [COUNT_BITS-1:0] kept;
  logic [2*BYTES-1:0] lanes;
  assign lanes = (2 * BYTES)'(s_tkeep);
  always_comb begin
    kept = '0;
    for (int unsigned n = 0; n < COUNT_BITS; n++) begin
      for (int unsigned from = 1 << n; from <= BYTES; from += 2 << n) begin
        kept[n] |= lanes[from-1] && !lanes[from+(1<<n)-1];
      end
    end
  end

  logic [POSITION_BITS-1:0] tail, head;
  // Bytes in the ring, or in its write pipeline, less the fewest that leave no room for a beat
  // beyond that of the next clock: the sign tells whether there is room, without a comparison.
  localparam logic [POSITION_BITS:0] NONE_FILLED = (POSITION_BITS + 1)'(2 * BYTES - SIZE_BYTES - 1);
  logic [POSITION_BITS:0] excess, next_excess;
  logic put;
  logic [6:0] put_bytes, taken_bytes;
  // Bytes put in that a read does not see yet.
  logic [COUNT_BITS-1:0] arriving[RING_WRITE_CLOCKS-1];

  assign put = s_tvalid && s_tready;
  assign put_bytes = put ? 7'(kept) : 7'd0;
  assign taken_bytes = (feed_move && feed_take) ? feed_take_bytes : 7'd0;
  assign next_excess = excess + (POSITION_BITS + 1)'(put_bytes) - (POSITION_BITS + 1)'(taken_bytes);

  logic has_room;
  if (PACKETS) begin : g_packets
    crosslane_packet_ends ends (
        .clk,
        .rst,
        .clear(1'b0),
        .enter_valid(put),
        .enter_bytes(13'(put_bytes)),
        .enter_ends(s_tlast && kept != '0),
        .enter_user(s_tuser),
        .has_room,
        .leave_bytes(taken_bytes),
        .packet_end(feed_end)
    );
  end else begin : g_no_packets
    assign has_room = 1'b1;
    assign feed_end = '0;
  end

  always_ff @(posedge clk) begin
    excess <= next_excess;
    s_tready <= next_excess[POSITION_BITS] && has_room;
    tail <= tail + POSITION_BITS'(put_bytes);
    arriving[0] <= put_bytes[COUNT_BITS-1:0];
    for (int unsigned n = 1; n < RING_WRITE_CLOCKS - 1; n++) arriving[n] <= arriving[n-1];
    if (rst) begin
      excess <= NONE_FILLED;
      s_tready <= 1'b0;
      tail <= '0;
      for (int unsigned n = 0; n < RING_WRITE_CLOCKS - 1; n++) arriving[n] <= '0;
    end
  end

  // --- Out of the ring -----------------------------------------------------------------------
  always_ff @(posedge clk) begin
    feed_available <= feed_available + 16'(arriving[RING_WRITE_CLOCKS-2]) - 16'(taken_bytes);
    head <= head + POSITION_BITS'(taken_bytes);
    if (rst) begin
      feed_available <= '0;
      head <= '0;
    end
  end

  crosslane_byte_ring #(
      .DATA_BITS (DATA_BITS),
      .SIZE_BYTES(SIZE_BYTES)
  ) ring (
      .clk,
      .rst,
      .write_valid(put),
      .write_position(tail),
      .write_data(s_tdata),
      .write_enable(s_tkeep),
      .read_enable(feed_move),
      .read_position(head),
      .read_back(feed_take_back),
      .read_data(feed_data)
  );

`ifndef SYNTHESIS
  if (SIZE_BYTES > 65536 || SIZE_BYTES < 4 * BYTES) begin : g_size
    $error("SIZE_BYTES is at least four beats, at most 65536");
  end
  always_ff @(posedge clk) begin
    if (!rst && put) begin
      assert ((PACKETS || s_tkeep != '0) && (s_tkeep & (s_tkeep + 1'b1)) == '0)
      else $error("s_tkeep names lanes from 0 on");
    end
    if (!rst) begin
      assert (excess - NONE_FILLED <= (POSITION_BITS + 1)'(SIZE_BYTES))
      else $error("more is in the ring than it holds");
    end
    if (!rst && feed_move && feed_take) begin
      assert (16'(feed_take_bytes) <= feed_available)
      else $error("more is taken than is there");
    end
  end
`endif
endmodule
