// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// H2C into the card's memory: takes read data off the stream and writes them with AXI4 to the card
// addresses of the descriptors. Stands between crosslane_reads and crosslane_h2c: arrived bytes
// count for the channel only once the memory has confirmed them, so a descriptor is complete when
// its data are in the memory. An error of the memory stops the channel at the first byte of the
// burst that failed.

module crosslane_memory_write
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned ADDRESS_BITS = 40,
    parameter int unsigned BURST_BEATS = 16,  // longest burst, a power of two, to 256
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input  logic                      clk,
    input  logic                      rst,
    input  logic                      forget,            // the channel stops: nothing more begins
    // Descriptors that the channel takes up.
    input  logic                      descriptor_valid,
    output logic                      descriptor_ready,
    // verilator lint_off UNUSEDSIGNAL
    input  logic   [            63:0] descriptor_card,
    // verilator lint_on UNUSEDSIGNAL
    input  logic   [            31:0] descriptor_bytes,
    // From the reads.
    input  logic                      arrived_valid,
    input  logic   [            12:0] arrived_bytes,
    input  logic                      failed_valid,
    input  error_e                    failed_error,
    input  logic   [            63:0] failed_address,
    // To the channel.
    output logic                      written_valid,
    output logic   [            12:0] written_bytes,
    output logic                      stop_valid,        // until `forget`
    output error_e                    stop_error,
    output logic   [            63:0] stop_address,
    output logic                      busy,              // bursts are in flight
    // The next burst waits for its data, and all before it are confirmed; where it goes to.
    output logic                      starved,
    output logic   [ADDRESS_BITS-1:0] next_address,
    // Feed, consumer's side.
    input  logic   [            15:0] feed_available,
    output logic                      feed_move,
    output logic                      feed_take,
    output logic   [             5:0] feed_take_back,
    output logic   [             6:0] feed_take_bytes,
    input  logic   [   DATA_BITS-1:0] feed_data,
    // AXI4. All writes have one ID, so answers come in order.
    output logic                      m_axi_awvalid,
    input  logic                      m_axi_awready,
    output logic   [ADDRESS_BITS-1:0] m_axi_awaddr,
    output logic   [             7:0] m_axi_awlen,
    output logic                      m_axi_wvalid,
    input  logic                      m_axi_wready,
    output logic   [   DATA_BITS-1:0] m_axi_wdata,
    output logic   [       BYTES-1:0] m_axi_wstrb,
    output logic                      m_axi_wlast,
    input  logic                      m_axi_bvalid,
    output logic                      m_axi_bready,
    // verilator lint_off UNUSEDSIGNAL
    input  logic   [             1:0] m_axi_bresp        // bit 0 tells two kinds of error apart
    // verilator lint_on UNUSEDSIGNAL
);
  localparam int unsigned LANE_BITS = $clog2(BYTES);
  localparam int unsigned BURST_BYTES = BURST_BEATS * BYTES;
  localparam int unsigned BURST_BITS = $clog2(BURST_BYTES) + 1;
  localparam int unsigned OUTSTANDING = 16;
  localparam int unsigned STAGES = RING_READ_CLOCKS;

  typedef logic [BURST_BITS-1:0] burst_t;

  // --- Descriptors -----------------------------------------------------------------------------
  logic job_valid, job_ready;
  logic [ADDRESS_BITS-1:0] job_card;
  logic [31:0] job_bytes;

  crosslane_fifo #(
      .WIDTH(ADDRESS_BITS + 32),
      .DEPTH(16)
  ) jobs (
      .clk,
      .rst(rst || forget),
      .s_valid(descriptor_valid),
      .s_ready(descriptor_ready),
      .s_data({descriptor_card[ADDRESS_BITS-1:0], descriptor_bytes}),
      .m_valid(job_valid),
      .m_ready(job_ready),
      .m_data({job_card, job_bytes}),
      .count()
  );

  // --- Bursts: up to an aligned block of BURST_BYTES, begun when all of its bytes are available --
  logic [ADDRESS_BITS-1:0] card;
  logic [31:0] left;
  burst_t until_block, whole_bytes, burst_bytes;
  logic [15:0] spoken_for;  // bytes needed for bursts begun, this one included
  logic begins, fits, cut_short;
  logic fault_waits;  // a read has failed: reported once all earlier data are confirmed
  logic is_stopping;  // no answer counts, and nothing begins, until all that has begun is answered
  logic dropping;  // a burst that the channel gave up ends with all byte enables off
  logic [$clog2(OUTSTANDING):0] open_count;
  logic address_ready, sizes_ready;

  burst_t beat_left;  // bytes of the burst that are not taken yet
  logic [LANE_BITS-1:0] beat_offset;
  logic move, beat_valid, beat_last;
  logic [LANE_BITS:0] beat_room, beat_bytes;

  assign job_ready = left == '0;
  assign until_block = burst_t'(BURST_BYTES) - burst_t'(card[$clog2(BURST_BYTES)-1:0]);
  assign whole_bytes = (left < 32'(until_block)) ? burst_t'(left) : until_block;
  // Nothing follows a failed read: the remaining bytes go as a short burst.
  assign cut_short = fault_waits && !beat_valid && 16'(whole_bytes) > feed_available;
  assign burst_bytes = cut_short ? burst_t'(feed_available) : whole_bytes;
  assign spoken_for = 16'(burst_bytes) + 16'(beat_left);

  // --- Beats -------------------------------------------------------------------------------------
  assign move = !m_axi_wvalid || m_axi_wready;
  assign beat_valid = beat_left != '0;
  assign beat_room = (LANE_BITS + 1)'(BYTES) - (LANE_BITS + 1)'(beat_offset);
  assign beat_last = beat_left <= burst_t'(beat_room);
  assign beat_bytes = beat_last ? (LANE_BITS + 1)'(beat_left) : beat_room;
  assign fits = spoken_for <= feed_available && burst_bytes != '0;
  // The next burst begins behind the last beat of the one before, without an idle clock.
  assign begins = fits && address_ready && sizes_ready && !forget && !dropping && !is_stopping &&
      (!beat_valid || (beat_last && move));

  assign feed_move = move;
  assign feed_take = beat_valid && !dropping;
  assign feed_take_back = 6'(beat_offset);
  assign feed_take_bytes = 7'(beat_bytes);

  always_ff @(posedge clk) begin
    if (job_valid && job_ready) begin
      card <= job_card;
      left <= job_bytes;
    end
    if (begins) begin
      card <= card + ADDRESS_BITS'(burst_bytes);
      left <= left - 32'(burst_bytes);
      beat_left <= burst_bytes;
      beat_offset <= card[LANE_BITS-1:0];
    end else if (beat_valid && move) begin
      beat_left   <= beat_left - burst_t'(beat_bytes);
      beat_offset <= '0;
    end
    if (rst || forget) left <= '0;
    if (forget) dropping <= beat_valid && !(beat_last && move);
    else if (beat_last && move) dropping <= 1'b0;
    if (rst) begin
      beat_left <= '0;
      dropping  <= 1'b0;
    end
  end

  // Fields that accompany the data through the feed.
  logic [STAGES-1:0] stage_valid, stage_last;
  logic [STAGES-1:0][BYTES-1:0] stage_strobe;
  logic [BYTES-1:0] strobe;
  assign strobe = dropping ? '0 : ~({BYTES{1'b1}} << beat_bytes) << beat_offset;

  always_ff @(posedge clk) begin
    if (move) begin
      stage_valid  <= {stage_valid[STAGES-2:0], beat_valid};
      stage_last   <= {stage_last[STAGES-2:0], beat_last};
      stage_strobe <= {stage_strobe[STAGES-2:0], strobe};
    end
    if (rst) stage_valid <= '0;
  end
  assign m_axi_wvalid = stage_valid[STAGES-1];
  assign m_axi_wlast  = stage_last[STAGES-1];
  assign m_axi_wstrb  = stage_strobe[STAGES-1];
  assign m_axi_wdata  = feed_data;

  // --- Addresses ---------------------------------------------------------------------------------
  logic [7:0] burst_len;
  burst_t span;
  assign span = burst_bytes + burst_t'(card[LANE_BITS-1:0]) - 1'b1;
  assign burst_len = 8'(span >> LANE_BITS);

  crosslane_fifo #(
      .WIDTH(ADDRESS_BITS + 8),
      .DEPTH(2)
  ) addresses (
      .clk,
      .rst,
      .s_valid(begins),
      .s_ready(address_ready),
      .s_data ({card, burst_len}),
      .m_valid(m_axi_awvalid),
      .m_ready(m_axi_awready),
      .m_data ({m_axi_awaddr, m_axi_awlen}),
      .count  ()
  );

  // --- Answers -----------------------------------------------------------------------------------
  logic size_valid;
  burst_t size_bytes_open;
  logic [ADDRESS_BITS-1:0] size_address;
  logic is_bad;

  crosslane_fifo #(
      .WIDTH(BURST_BITS + ADDRESS_BITS),
      .DEPTH(OUTSTANDING)
  ) sizes (
      .clk,
      .rst,
      .s_valid(begins),
      .s_ready(sizes_ready),
      .s_data ({burst_bytes, card}),
      .m_valid(size_valid),
      .m_ready(m_axi_bvalid),
      .m_data ({size_bytes_open, size_address}),
      .count  (open_count)
  );
  assign m_axi_bready = 1'b1;
  assign is_bad = m_axi_bvalid && m_axi_bresp[1];
  assign busy = open_count != '0;
  assign starved = left != '0 && !fits && !beat_valid && !busy;
  assign next_address = card;

  // Bytes that have arrived and are not confirmed.
  logic [31:0] unconfirmed;
  error_e fault_error;
  logic [63:0] fault_address;

  assign written_valid = m_axi_bvalid && !is_bad && size_valid && !is_stopping;
  assign written_bytes = 13'(size_bytes_open);

  always_ff @(posedge clk) begin
    unconfirmed <= unconfirmed + (arrived_valid ? 32'(arrived_bytes) : '0) -
        (written_valid ? 32'(written_bytes) : '0);
    if (failed_valid && !fault_waits) begin
      fault_waits   <= 1'b1;
      fault_error   <= failed_error;
      fault_address <= failed_address;
    end
    if (is_bad && !is_stopping) begin
      is_stopping  <= 1'b1;
      stop_valid   <= 1'b1;
      stop_error   <= ERROR_CARD_MEMORY;
      stop_address <= 64'(size_address);
    end else if (fault_waits && unconfirmed == '0 && !is_stopping) begin
      is_stopping  <= 1'b1;
      stop_valid   <= 1'b1;
      stop_error   <= fault_error;
      stop_address <= fault_address;
    end
    if (rst || forget) begin
      unconfirmed <= '0;
      fault_waits <= 1'b0;
      stop_valid  <= 1'b0;
    end
    // Bursts begun before a stop are answered without effect.
    if (forget) is_stopping <= busy;
    else if (is_stopping && !busy && !stop_valid) is_stopping <= 1'b0;
    if (rst) is_stopping <= 1'b0;
  end

`ifndef SYNTHESIS
  if (BURST_BYTES > 4096 || BURST_BEATS > 256) begin : g_burst
    $error("a burst does not cross 4 KiB and has at most 256 beats");
  end
`endif
endmodule
