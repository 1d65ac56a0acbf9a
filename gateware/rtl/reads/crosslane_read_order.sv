// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Keeps the reads of one H2C channel in stream order, with the staging ring that is the stream's
// FIFO. A read reserves the next bytes of the ring; as the oldest read's answers become known its
// bytes are offered, even before it is complete. Reads that are given up are reported to the tag
// table one by one, and their bytes of the ring are free again. Data that come with their descriptor
// are written behind all reads, when these have ended.

module crosslane_read_order
  import crosslane_pkg::*;
  import crosslane_reads_pkg::*;
#(
    parameter  int unsigned DATA_BITS     = 256,
    parameter  int unsigned TAGS          = 64,
    parameter  int unsigned TAG_BITS      = 7,
    parameter  int unsigned USE_BITS      = 1,
    parameter  int unsigned MAX_READ      = 1024,
    parameter  int unsigned STAGING_BYTES = 65536,
    parameter  bit          PUSH          = 0,
    localparam int unsigned BYTES         = DATA_BITS / 8,
    localparam int unsigned POSITION_BITS = $clog2(STAGING_BYTES)
) (
    input  logic                         clk,
    input  logic                         rst,
    // A read begins; its bytes end at next_end.
    output logic                         has_room,
    input  logic                         begin_valid,
    input  logic    [              12:0] begin_bytes,
    input  logic    [      TAG_BITS-1:0] begin_tag,
    input  logic    [      USE_BITS-1:0] begin_use,
    output logic    [ POSITION_BITS-1:0] begin_end,
    // Data that come with their descriptor. Unused without such.
    // verilator lint_off UNUSEDSIGNAL
    input  logic                         inline_valid,
    output logic                         inline_taken,
    input  logic    [               5:0] inline_bytes,
    input  logic    [8*INLINE_BYTES-1:0] inline_data,
    // verilator lint_on UNUSEDSIGNAL
    // Progress of reads.
    input  logic                         known_valid,
    input  logic    [      TAG_BITS-1:0] known_tag,
    input  logic                         known_parity,
    input  answer_t                      known_answer,
    // To the channel. Reports made in the clock of `forget` still count.
    output logic                         arrived_valid,
    output logic    [              12:0] arrived_bytes,
    input  logic                         forget,
    input  logic                         clear,            // with what is offered
    output logic                         giving_up,
    // The oldest read has ended: its tag is free. Or it is no longer wanted.
    output logic                         done_valid,
    input  logic                         done_ready,
    output logic                         failed,
    output logic    [      TAG_BITS-1:0] oldest_tag,
    output logic    [      USE_BITS-1:0] oldest_use,
    output logic    [               2:0] failed_error,
    output logic    [              12:0] failed_good,
    output logic                         give_up_valid,
    input  logic                         give_up_ready,
    // Data.
    input  logic                         write_valid,
    input  logic    [ POSITION_BITS-1:0] write_position,
    input  logic    [     DATA_BITS-1:0] write_data,
    input  logic    [         BYTES-1:0] write_enable,
    output logic    [              15:0] feed_available,
    input  logic                         feed_move,
    input  logic                         feed_take,
    input  logic    [               5:0] feed_take_back,
    input  logic    [               6:0] feed_take_bytes,
    input  logic                         feed_goes_on,
    output logic    [     DATA_BITS-1:0] feed_data
);
  localparam int unsigned ENTRIES = 1 << TAG_BITS;
  localparam int unsigned DEPTH_BITS = (TAGS > 1) ? $clog2(TAGS) : 1;
  localparam int unsigned ANSWER_BITS = 1 + $bits(answer_t);
  localparam int unsigned ROOM_BITS = POSITION_BITS + 2;
  localparam logic signed [ROOM_BITS-1:0] ALL_ROOM = ROOM_BITS'(STAGING_BYTES - MAX_READ);
  // The longest TLP that a consumer may wait for.
  localparam int unsigned MAX_TLP = 1024;

  // --- Order -----------------------------------------------------------------------------------
  (* ram_style = "distributed" *) logic [USE_BITS+TAG_BITS-1:0] waiting[1 << DEPTH_BITS];
  (* ram_style = "distributed" *) logic [ANSWER_BITS-1:0] answers[ENTRIES];
  // A restart: bytes that the consumer has begun to take stay until all are taken, and no read
  // begins before that.
  logic clears, clearing;
  logic [DEPTH_BITS:0] head, tail;
  logic has_oldest, is_done, is_known, parity;
  logic [USE_BITS+TAG_BITS-1:0] oldest;
  answer_t answer;

  assign {oldest_use, oldest_tag} = oldest;
  assign {parity, answer} = answers[oldest_tag];
  assign is_known = has_oldest && parity == oldest_use[0] && !giving_up;
  assign done_valid = is_known && answer.whole;
  assign is_done = (done_valid && done_ready) || (give_up_valid && give_up_ready);
  assign failed = is_known && answer.error != '0;
  assign failed_error = answer.error;
  assign failed_good = answer.good;
  assign give_up_valid = giving_up && has_oldest;

  always_ff @(posedge clk) begin
    if (known_valid) answers[known_tag] <= {known_parity, known_answer};
    if (begin_valid) begin
      waiting[tail[DEPTH_BITS-1:0]] <= {begin_use, begin_tag};
      tail <= tail + 1'b1;
    end
    if (!has_oldest || is_done) begin
      has_oldest <= head != tail;
      oldest <= waiting[head[DEPTH_BITS-1:0]];
      if (head != tail) head <= head + 1'b1;
    end
    if (forget || clear) giving_up <= 1'b1;
    else if (!has_oldest && head == tail && !clearing) giving_up <= 1'b0;
    if (rst) begin
      has_oldest <= 1'b0;
      head <= '0;
      tail <= '0;
      giving_up <= 1'b0;
    end
  end

  // --- Arrived bytes, and positions in the ring ------------------------------------------------
  logic [12:0] told, news;  // bytes of the oldest read that the channel knows; that it does not
  logic [12:0] inline_news;  // and bytes that came with their descriptor
  logic ring_write_valid;
  logic [POSITION_BITS-1:0] ring_write_position;
  logic [DATA_BITS-1:0] ring_write_data;
  logic [BYTES-1:0] ring_write_enable;
  logic [POSITION_BITS-1:0] reserved, taken;
  logic [POSITION_BITS:0] available, next_available;  // bytes
  // Bytes that are free beside a longest read; below 0 there is no room for one.
  logic signed [POSITION_BITS+1:0] room, room_then;
  logic [6:0] take_bytes;

  assign news = (forget || clear) ? '0 : is_known ? answer.good - told : inline_news;
  assign take_bytes = (feed_move && feed_take) ? feed_take_bytes : '0;
  assign clears = (clear || clearing) && !feed_goes_on;
  // A take can come late in the clock: a sum with it is no part of another one.
  assign next_available = clears ? '0 :
      available + (POSITION_BITS + 1)'(news) - (POSITION_BITS + 1)'(take_bytes);
  // 16 bits cannot count all bytes of the largest ring.
  assign feed_available = available[POSITION_BITS] ? 16'(STAGING_BYTES - 1) : 16'(available);
  assign room_then = room + ROOM_BITS'(take_bytes);
  assign begin_end = reserved + POSITION_BITS'(begin_bytes);
  // For a next read of any length.
  assign has_room = !giving_up && !room[ROOM_BITS-1];

  always_ff @(posedge clk) begin
    // News of none are harmless, and a comparison of them comes late.
    arrived_valid <= !forget && !clear && (is_known || inline_news != '0);
    arrived_bytes <= news;
    if (is_done) told <= '0;
    else if (is_known) told <= answer.good;
    available <= next_available;
    clearing <= (clear || clearing) && feed_goes_on;
    taken <= taken + POSITION_BITS'(take_bytes);
    if (giving_up) begin
      reserved <= taken + POSITION_BITS'(available);
      // There are no news.
      room <= (clears ? ALL_ROOM : ALL_ROOM + ROOM_BITS'(take_bytes) - ROOM_BITS'(available));
    end else begin
      if (begin_valid) reserved <= begin_end;
      if (inline_taken) reserved <= reserved + POSITION_BITS'(inline_bytes);
      // Both are ready before it is known whether a read begins. Inline data are behind all reads.
      room <= begin_valid ? room_then - ROOM_BITS'(begin_bytes) :
              room_then - (inline_taken ? ROOM_BITS'(inline_bytes) : '0);
    end
    if (rst) begin
      arrived_valid <= 1'b0;
      told <= '0;
      clearing <= 1'b0;
      available <= '0;
      taken <= '0;
      reserved <= '0;
      room <= ALL_ROOM;
    end
  end

  // --- Data that come with their descriptor ----------------------------------------------------
  if (PUSH) begin : g_inline
    localparam int unsigned BEATS = (INLINE_BYTES + BYTES - 1) / BYTES;
    // Clocks from the last beat until the data can be read back, as of a completion's.
    localparam int unsigned KNOWN_CLOCKS = 2;
    logic [2:0] beat;
    logic writes;
    logic [8:0] at;  // bytes before the beat
    logic [KNOWN_CLOCKS-1:0] coming;
    logic [5:0] coming_bytes;

    assign at = 9'(beat) * 9'(BYTES);
    assign writes = inline_valid && has_room && !write_valid && !forget && !clear;
    assign inline_taken = writes && at + 9'(BYTES) >= 9'(inline_bytes);
    assign inline_news = coming[KNOWN_CLOCKS-1] ? 13'(coming_bytes) : '0;

    always_ff @(posedge clk) begin
      beat   <= writes ? beat + 1'b1 : (inline_valid ? beat : '0);
      coming <= {coming[KNOWN_CLOCKS-2:0], inline_taken};
      if (inline_taken) begin
        beat <= '0;
        coming_bytes <= inline_bytes;
      end
      if (rst || forget || clear) begin
        beat   <= '0;
        coming <= '0;
      end
    end

    assign ring_write_valid = write_valid || writes;
    always_comb begin
      ring_write_position = write_position;
      ring_write_data = write_data;
      ring_write_enable = write_enable;
      if (!write_valid) begin
        ring_write_position = reserved + POSITION_BITS'(at);
        ring_write_data = '0;
        for (int unsigned n = 0; n < BEATS; n++) begin
          if (beat == 3'(n)) ring_write_data |= DATA_BITS'(inline_data >> (8 * BYTES * n));
        end
        for (int unsigned lane = 0; lane < BYTES; lane++) begin
          ring_write_enable[lane] = at + 9'(lane) < 9'(inline_bytes);
        end
      end
    end
  end else begin : g_no_inline
    assign inline_taken = 1'b0;
    assign inline_news = '0;
    assign ring_write_valid = write_valid;
    assign ring_write_position = write_position;
    assign ring_write_data = write_data;
    assign ring_write_enable = write_enable;
  end

  crosslane_byte_ring #(
      .DATA_BITS (DATA_BITS),
      .SIZE_BYTES(STAGING_BYTES)
  ) ring (
      .clk,
      .rst,
      .write_valid(ring_write_valid),
      .write_position(ring_write_position),
      .write_data(ring_write_data),
      .write_enable(ring_write_enable),
      .read_enable(feed_move),
      .read_position(taken),
      .read_back(feed_take_back),
      .read_data(feed_data)
  );

`ifndef SYNTHESIS
  if (STAGING_BYTES > 65536 || STAGING_BYTES < 2 * MAX_READ + MAX_TLP) begin : g_staging
    $error("STAGING_BYTES: at most 65536, room for two reads and what a consumer waits for");
  end
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert ((POSITION_BITS + 1)'(take_bytes) <= available)
      else $error("more is taken off the feed than is there");
      assert (ALL_ROOM - room >= $signed({1'b0, available}))
      else $error("more is offered than is in use");
    end
  end
`endif
endmodule
