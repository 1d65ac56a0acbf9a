// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// C2H from the card's memory: reads the data of descriptors with AXI4 from their card addresses,
// ahead of the channel that writes them to the host, and offers them as a feed. Stands in front of
// crosslane_writer: descriptors pass through in order. Room for a burst is reserved before it is
// requested, so the memory is never stalled. After an error of the memory nothing more is offered:
// `failed` tells the writer that the data it waits for will not come.

module crosslane_memory_read
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned ADDRESS_BITS = 40,
    parameter int unsigned BURST_BEATS = 16,  // longest burst, a power of two, to 256
    parameter int unsigned RING_BYTES = 8192,  // bytes read ahead, a power of two
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input logic clk,
    input logic rst,
    input logic forget,  // the channel stops or restarts: data read ahead are discarded
    // Descriptors, from their supply and to the channel.
    input logic s_descriptor_valid,
    output logic s_descriptor_ready,
    input descriptor_t s_descriptor,
    output logic m_descriptor_valid,
    input logic m_descriptor_ready,
    output descriptor_t m_descriptor,
    // Feed, provider's side.
    output logic [15:0] feed_available,
    input logic feed_move,
    input logic feed_take,
    input logic [5:0] feed_take_back,
    input logic [6:0] feed_take_bytes,
    output logic [DATA_BITS-1:0] feed_data,
    output logic failed,  // until `forget`: no data beyond those offered
    // AXI4. All reads have one ID, so data come in order.
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    output logic [ADDRESS_BITS-1:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    input logic m_axi_rvalid,
    output logic m_axi_rready,
    input logic [DATA_BITS-1:0] m_axi_rdata,
    // verilator lint_off UNUSEDSIGNAL
    input logic [1:0] m_axi_rresp,  // bit 0 tells two kinds of error apart
    // verilator lint_on UNUSEDSIGNAL
    input logic m_axi_rlast
);
  localparam int unsigned LANE_BITS = $clog2(BYTES);
  localparam int unsigned BURST_BYTES = BURST_BEATS * BYTES;
  localparam int unsigned BURST_BITS = $clog2(BURST_BYTES) + 1;
  localparam int unsigned POSITION_BITS = $clog2(RING_BYTES);
  localparam int unsigned OUTSTANDING = 16;

  typedef logic [BURST_BITS-1:0] burst_t;
  typedef logic [POSITION_BITS:0] count_t;

  // --- Descriptors: passed on at once, and processed here ahead of the channel ------------------
  logic takes, queue_ready;
  logic draining;  // data requested before a `forget` are discarded on arrival
  logic [ADDRESS_BITS-1:0] card;
  logic [31:0] left;

  assign takes = s_descriptor_valid && s_descriptor_ready;
  assign s_descriptor_ready = left == '0 && queue_ready && !draining && !forget;

  crosslane_fifo #(
      .WIDTH($bits(descriptor_t)),
      .DEPTH(8)
  ) queue (
      .clk,
      .rst(rst || forget),
      .s_valid(takes),
      .s_ready(queue_ready),
      .s_data(s_descriptor),
      .m_valid(m_descriptor_valid),
      .m_ready(m_descriptor_ready),
      .m_data(m_descriptor),
      .count()
  );

  // --- Bursts: up to an aligned block of BURST_BYTES, when there is room for all of it ----------
  burst_t until_block, burst_bytes, span;
  logic begins, address_ready, places_ready, has_failed;
  count_t room;  // unreserved bytes of the ring

  assign until_block = burst_t'(BURST_BYTES) - burst_t'(card[$clog2(BURST_BYTES)-1:0]);
  assign burst_bytes = (left < 32'(until_block)) ? burst_t'(left) : until_block;
  assign span = burst_bytes + burst_t'(card[LANE_BITS-1:0]) - 1'b1;
  assign begins = left != '0 && count_t'(burst_bytes) <= room && address_ready && places_ready &&
      !draining && !forget && !has_failed;

  always_ff @(posedge clk) begin
    if (takes && s_descriptor.error == ERROR_NONE) begin
      card <= s_descriptor.card[ADDRESS_BITS-1:0];
      left <= s_descriptor.bytes;
    end else if (begins) begin
      card <= card + ADDRESS_BITS'(burst_bytes);
      left <= left - 32'(burst_bytes);
    end
    if (rst || forget) left <= '0;
  end

  crosslane_fifo #(
      .WIDTH(ADDRESS_BITS + 8),
      .DEPTH(2)
  ) addresses (
      .clk,
      .rst,
      .s_valid(begins),
      .s_ready(address_ready),
      .s_data ({card, 8'(span >> LANE_BITS)}),
      .m_valid(m_axi_arvalid),
      .m_ready(m_axi_arready),
      .m_data ({m_axi_araddr, m_axi_arlen}),
      .count  ()
  );

  // --- Data -------------------------------------------------------------------------------------
  logic place_valid, is_first, writes;
  logic [LANE_BITS-1:0] place_offset, beat_offset;
  burst_t place_bytes, beat_left, beat_bytes, beat_room;
  logic [$clog2(OUTSTANDING):0] open_count;
  logic [POSITION_BITS-1:0] write_position;
  logic [BYTES-1:0] beat_enable;

  crosslane_fifo #(
      .WIDTH(LANE_BITS + BURST_BITS),
      .DEPTH(OUTSTANDING)
  ) places (
      .clk,
      .rst,
      .s_valid(begins),
      .s_ready(places_ready),
      .s_data ({card[LANE_BITS-1:0], burst_bytes}),
      .m_valid(place_valid),
      .m_ready(m_axi_rvalid && m_axi_rlast),
      .m_data ({place_offset, place_bytes}),
      .count  (open_count)
  );
  assign m_axi_rready = 1'b1;

  // Bytes of the burst in this beat.
  burst_t later_left;  // of the burst, behind its first beat
  assign beat_left = is_first ? place_bytes : later_left;
  assign beat_offset = is_first ? place_offset : '0;
  assign beat_room = burst_t'(BYTES) - burst_t'(beat_offset);
  assign beat_bytes = (beat_left < beat_room) ? beat_left : beat_room;
  assign beat_enable = ~({BYTES{1'b1}} << beat_bytes) << beat_offset;
  assign writes = m_axi_rvalid && place_valid && !draining && !has_failed && !m_axi_rresp[1];

  // Bytes are offered once a read of the ring sees them.
  logic [RING_WRITE_CLOCKS-2:0][LANE_BITS:0] arriving;
  count_t offered;
  assign failed = has_failed && arriving == '0;

  always_ff @(posedge clk) begin
    if (m_axi_rvalid) begin
      is_first   <= m_axi_rlast;
      later_left <= beat_left - beat_bytes;
    end
    if (writes) write_position <= write_position + POSITION_BITS'(beat_bytes);
    arriving <= {
      arriving[RING_WRITE_CLOCKS-3:0], writes ? (LANE_BITS + 1)'(beat_bytes) : (LANE_BITS + 1)'(0)
    };
    if (m_axi_rvalid && m_axi_rresp[1] && !draining) has_failed <= 1'b1;
    if (rst) is_first <= 1'b1;
    if (rst || forget) begin
      write_position <= '0;
      arriving <= '0;
      has_failed <= 1'b0;
    end
  end

  // --- Feed -------------------------------------------------------------------------------------
  logic [POSITION_BITS-1:0] read_position;
  logic takes_bytes;
  assign takes_bytes = feed_move && feed_take;
  assign feed_available = 16'(offered);

  always_ff @(posedge clk) begin
    offered <= offered + count_t'(arriving[RING_WRITE_CLOCKS-2]) -
        (takes_bytes ? count_t'(feed_take_bytes) : '0);
    room <= room - (begins ? count_t'(burst_bytes) : '0) +
        (takes_bytes ? count_t'(feed_take_bytes) : '0);
    if (takes_bytes) read_position <= read_position + POSITION_BITS'(feed_take_bytes);
    if (rst || forget) begin
      offered <= '0;
      // A beat may start before the first byte of the ring, so a little is kept free.
      room <= count_t'(RING_BYTES - BYTES);
      read_position <= '0;
    end
    draining <= !rst && (forget || draining) && open_count != '0;
  end

  crosslane_byte_ring #(
      .DATA_BITS (DATA_BITS),
      .SIZE_BYTES(RING_BYTES)
  ) ring (
      .clk,
      .rst,
      .write_valid(writes),
      .write_position(write_position - POSITION_BITS'(beat_offset)),
      .write_data(m_axi_rdata),
      .write_enable(beat_enable),
      .read_enable(feed_move),
      .read_position,
      .read_back(feed_take_back),
      .read_data(feed_data)
  );

`ifndef SYNTHESIS
  if (BURST_BYTES > 4096 || BURST_BEATS > 256 || RING_BYTES < 2 * BURST_BYTES) begin : g_burst
    $error("a burst does not cross 4 KiB, has at most 256 beats, and fits the ring twice");
  end
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert (!takes_bytes || offered >= count_t'(feed_take_bytes))
      else $error("more is taken than there is");
    end
  end
`endif
endmodule
