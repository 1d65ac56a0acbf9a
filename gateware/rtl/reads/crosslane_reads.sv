// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Memory reads for all H2C channels and all fetchers of descriptors: tags, requests, and
// completions in any order, at the full rate of the data path.
//
//   read, fetch --> next free tag --> request, one register
//                    |         \---> order of the requester's reads, and their place in its memory
//                    v                                |               ^
//   completions --> intake --> tag table --> placement --> data       | progress of each read
//                    ^  events, one a clock     \---------------------/
//   time-outs, reads that are given up
//
// Whatever happens to a tag is an event; events pass intake, table and placement in order, so
// nothing can overtake anything. A completion's bytes go to the end of the read less the byte
// count, in the ring that is the stream's FIFO or in the memory of the fetched descriptors. After
// reset all tags are initialised, one a clock; meanwhile nothing is taken.

module crosslane_reads
  import crosslane_pkg::*;
  import crosslane_reads_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned H2C = 1,
    parameter int unsigned FETCHERS = 3,  // 0: none
    parameter int unsigned TAGS = 64,  // for data; with the fetchers' at most 256
    parameter int unsigned MAX_READ = 1024,  // bytes, to 4096
    parameter int unsigned STAGING_BYTES = 65536,  // ring behind each H2C channel
    parameter int unsigned BATCH = 16,  // descriptors of a fetch
    parameter bit PUSH = 0,  // descriptors may have their data with them
    // Receive buffer of the link's block: completions, and their data in units of 16 B; 0: no limit.
    parameter int unsigned COMPLETION_HEADER_CREDITS = 0,
    parameter int unsigned COMPLETION_DATA_CREDITS = 0,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    localparam int unsigned FETCH_PLACES = (FETCHERS > 0) ? FETCHERS : 1
) (
    input logic clk,
    input logic rst,
    // Only some bits of function_i and time_i are used here.
    // verilator lint_off UNUSEDSIGNAL
    input function_t function_i,
    input logic [63:0] time_i,  // clocks
    // verilator lint_on UNUSEDSIGNAL
    // H2C channels.
    input logic [H2C-1:0] read_valid,
    output logic [H2C-1:0] read_ready,
    input logic [H2C-1:0][63:0] read_address,
    input logic [H2C-1:0][12:0] read_bytes,  // none across 4 KiB
    input logic [H2C-1:0] read_relaxed,
    output logic [H2C-1:0] read_blocked,  // by tags, room, or the receive buffer
    input logic [H2C-1:0] inline_valid,  // data with their descriptor, behind all reads
    output logic [H2C-1:0] inline_taken,
    input logic [H2C-1:0][5:0] inline_bytes,
    input logic [H2C-1:0][8*INLINE_BYTES-1:0] inline_data,
    output logic [H2C-1:0] data_came,  // pulse: good data
    output logic [H2C-1:0] arrived_valid,  // in order
    output logic [H2C-1:0][12:0] arrived_bytes,
    output logic [H2C-1:0] failed_valid,  // until `forget`
    output error_e [H2C-1:0] failed_error,
    output logic [H2C-1:0][63:0] failed_address,
    input logic [H2C-1:0] forget,  // pulse
    input logic [H2C-1:0] clear,  // pulse
    output logic [H2C-1:0][15:0] in_flight,  // from `forget` to `clear` with those given up
    // Their streams.
    output logic [H2C-1:0][15:0] feed_available,
    input logic [H2C-1:0] feed_move,
    input logic [H2C-1:0] feed_take,
    input logic [H2C-1:0][5:0] feed_take_back,
    input logic [H2C-1:0][6:0] feed_take_bytes,
    input logic [H2C-1:0] feed_goes_on,
    output logic [H2C-1:0][DATA_BITS-1:0] feed_data,
    // Fetchers. Without any, these ports have a width of one and stay idle.
    // verilator lint_off UNUSEDSIGNAL
    input logic [FETCH_PLACES-1:0] fetch_asks,  // registers: fetch_valid, or it has just stopped
    input logic [FETCH_PLACES-1:0] fetch_valid,
    output logic [FETCH_PLACES-1:0] fetch_ready,
    input logic [FETCH_PLACES-1:0][63:0] fetch_address,
    input logic [FETCH_PLACES-1:0][12:0] fetch_bytes,
    input logic [FETCH_PLACES-1:0] fetch_forget,  // pulse
    output logic [FETCH_PLACES-1:0] fetched_valid,
    input logic [FETCH_PLACES-1:0] fetched_ready,
    output logic [FETCH_PLACES-1:0][255:0] fetched_data,
    output logic [FETCH_PLACES-1:0][FETCH_COUNT_BITS-1:0] fetches_waiting,
    output logic [FETCH_PLACES-1:0][FETCH_COUNT_BITS-1:0] fetches_open,  // with those given up
    output logic [FETCH_PLACES-1:0] fetch_failed,  // pulse
    output error_e [FETCH_PLACES-1:0] fetch_error,
    // verilator lint_on UNUSEDSIGNAL
    output logic [FETCH_PLACES-1:0][63:0] fetch_error_address,
    // Requests.
    output logic [H2C-1:0] m_h2c_valid,
    input logic [H2C-1:0] m_h2c_ready,
    output tlp_header_t [H2C-1:0] m_h2c_header,
    output logic m_fetch_valid,
    input logic m_fetch_ready,
    output tlp_header_t m_fetch_header,
    // Completions.
    input logic s_completion_valid,
    output logic s_completion_ready,
    input tlp_header_t s_completion_header,
    input logic s_completion_first,
    input logic s_completion_last,
    input logic [DATA_BITS-1:0] s_completion_data,
    input logic s_completion_aborted,  // at its end
    output logic unexpected,  // pulses
    output logic timed_out,
    output logic refused
);
  localparam int unsigned BYTES = DATA_BITS / 8;
  localparam int unsigned REQUESTERS = H2C + FETCHERS;
  localparam int unsigned USED_TAGS = TAGS + FETCH_TAGS * FETCHERS;
  localparam int unsigned TAG_BITS = (USED_TAGS > 8) ? $clog2(USED_TAGS) : 3;
  localparam int unsigned USE_BITS = (TAG_BITS < 8) ? 8 - TAG_BITS : 1;
  localparam int unsigned H2C_BITS = (H2C > 1) ? $clog2(H2C) : 1;
  localparam int unsigned FETCHER_BITS = (FETCHERS > 1) ? $clog2(FETCHERS) : 1;
  localparam int unsigned RING_BITS = $clog2(STAGING_BYTES);
  localparam int unsigned FETCH_BYTES = (FETCHERS > 0) ? 32 * BATCH : 0;
  localparam int unsigned LONGEST_BYTES = (FETCH_BYTES > MAX_READ) ? FETCH_BYTES : MAX_READ;
  localparam int unsigned FETCH_MEMORY_BITS = $clog2(2 * BATCH) + 5;
  localparam int unsigned POSITION_BITS =
      (RING_BITS > FETCH_MEMORY_BITS) ? RING_BITS : FETCH_MEMORY_BITS;

  // --- Requests ----------------------------------------------------------------------------------
  logic initialising, fetch_begins, fetch_has_turn, data_begins, data_tag_valid, completions_fit;
  logic [TAG_BITS-1:0] data_tag, fetch_tag, begin_tag;
  logic [USE_BITS-1:0] data_use, fetch_use, begin_use;
  logic [FETCH_PLACES-1:0] fetch_tag_valid, fetch_room;
  logic [H2C-1:0] has_room;
  logic [FETCHER_BITS-1:0] fetcher;
  logic [H2C_BITS-1:0] channel;
  logic [63:0] begin_address;
  logic [12:0] begin_bytes;

  crosslane_read_requests #(
      .H2C     (H2C),
      .FETCHERS(FETCHERS),
      .TAG_BITS(TAG_BITS),
      .USE_BITS(USE_BITS)
  ) requests (
      .*
  );

  // --- Completions -------------------------------------------------------------------------------
  logic give_up_valid, give_up_ready, is_fetch, no_longer_waits, no_longer_open, freed;
  logic [TAG_BITS-1:0] give_up_tag, tag;
  logic [  USE_BITS-1:0] tag_use;
  logic [  H2C_BITS-1:0] tag_channel;
  logic [REQUESTERS-1:0] giving_up;
  logic write_valid, write_is_fetch, write_last, known_valid, known_parity;
  logic [H2C_BITS-1:0] write_channel;
  logic [TAG_BITS-1:0] write_tag, known_tag;
  logic [POSITION_BITS-1:0] write_position, fetch_end;
  logic [DATA_BITS-1:0] write_data;
  logic [BYTES-1:0] write_enable;
  logic [H2C-1:0][RING_BITS-1:0] ring_end;
  answer_t known_answer;

  // The read that has begun, a clock later, for those that need it only when it is answered.
  logic begun;
  logic [TAG_BITS-1:0] begun_tag;
  logic [USE_BITS-1:0] begun_use;
  logic [POSITION_BITS-1:0] begun_end;
  logic [63:0] begun_address;
  logic [12:0] begun_bytes;
  logic [H2C_BITS-1:0] begun_channel;

  always_ff @(posedge clk) begin
    begun <= (fetch_begins || data_begins) && !rst;
    begun_tag <= begin_tag;
    begun_use <= begin_use;
    begun_end <= fetch_has_turn ? fetch_end : POSITION_BITS'(ring_end[channel]);
    begun_address <= begin_address;
    begun_bytes <= begin_bytes;
    begun_channel <= channel;
  end

  // Of the receive buffer; unused without a limit.
  // verilator lint_off UNUSEDSIGNAL
  logic less_to_come, event_ends;
  logic [5:0] to_come_low;
  logic [12:0] to_come, still_to_come;
  // verilator lint_on UNUSEDSIGNAL

  crosslane_read_answers #(
      .DATA_BITS     (DATA_BITS),
      .H2C           (H2C),
      .FETCHERS      (FETCHERS),
      .USED_TAGS     (USED_TAGS),
      .TAG_BITS      (TAG_BITS),
      .USE_BITS      (USE_BITS),
      .POSITION_BITS (POSITION_BITS),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS)
  ) answers (
      .*,
      .begin_valid(begun),
      .begin_tag(begun_tag),
      .begin_use(begun_use),
      .begin_end(begun_end),
      .begin_bytes(begun_bytes),
      .begin_low(begun_address[6:0]),
      .begin_channel(begun_channel)
  );

  // --- Receive buffer of the link's block ----------------------------------------------------------
  logic headers_fit, data_fit;
  // No header stands for more than 64 B: data are counted where they can be the limit.
  localparam int unsigned DATA_LIMIT =
      (COMPLETION_HEADER_CREDITS > 0 &&
       COMPLETION_DATA_CREDITS >= 4 * COMPLETION_HEADER_CREDITS) ? 0 : COMPLETION_DATA_CREDITS;

  crosslane_completion_space #(
      .UNIT_BYTES   (64),
      .UNITS        (COMPLETION_HEADER_CREDITS),
      .LONGEST_BYTES(LONGEST_BYTES)
  ) header_space (
      .*,
      .begin_valid(fetch_begins || data_begins),
      .begin_low(begin_address[5:0]),
      .fits(headers_fit)
  );
  crosslane_completion_space #(
      .UNIT_BYTES   (16),
      .UNITS        (DATA_LIMIT),
      .LONGEST_BYTES(LONGEST_BYTES)
  ) data_space (
      .*,
      .begin_valid(fetch_begins || data_begins),
      .begin_low(begin_address[5:0]),
      .fits(data_fit)
  );
  assign completions_fit = headers_fit && data_fit;

  // --- Requesters --------------------------------------------------------------------------------
  logic [H2C-1:0] done, done_chosen, done_ready;
  logic [H2C-1:0][TAG_BITS-1:0] oldest_tag;
  logic [H2C-1:0][USE_BITS-1:0] oldest_use;
  logic fetch_done, freed_before;
  logic [TAG_BITS-1:0] fetch_oldest_tag;
  logic [USE_BITS-1:0] fetch_oldest_use;

  crosslane_read_requesters #(
      .DATA_BITS    (DATA_BITS),
      .H2C          (H2C),
      .FETCHERS     (FETCHERS),
      .TAGS         (TAGS),
      .MAX_READ     (MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .BATCH        (BATCH),
      .PUSH         (PUSH),
      .TAG_BITS     (TAG_BITS),
      .USE_BITS     (USE_BITS),
      .POSITION_BITS(POSITION_BITS)
  ) requesters (
      .*,
      .fetch_done_ready(!freed_before)
  );

  // --- Freed tags --------------------------------------------------------------------------------
  // By an event, a clock later; else by a channel that has received all of its read. A fetcher's own
  // come beside them: whether there is one is known late in the clock, and no channel waits for it.
  logic fetch_freed, free_valid, done_free;
  logic [TAG_BITS-1:0] freed_tag, fetch_freed_tag, free_tag;
  logic [USE_BITS-1:0] freed_use, fetch_freed_use, free_use;
  logic [H2C_BITS-1:0] done_channel;

  always_ff @(posedge clk) begin
    freed_before <= freed && !rst;
    freed_tag <= tag;
    freed_use <= tag_use + 1'b1;
    fetch_freed <= fetch_done && !rst;
    {fetch_freed_tag, fetch_freed_use} <= {fetch_oldest_tag, fetch_oldest_use};
  end

  assign done_free = !freed_before && done != '0;
  crosslane_turn #(
      .COUNT(H2C)
  ) done_turn (
      .clk,
      .rst,
      .valid (done),
      .taken (done_ready),
      .chosen(done_chosen),
      .index (done_channel)
  );
  assign done_ready = done_free ? done_chosen : '0;

  always_ff @(posedge clk) begin
    free_valid <= (freed_before || done_free) && !rst;
    if (freed_before) {free_tag, free_use} <= {freed_tag, freed_use};
    else {free_tag, free_use} <= {oldest_tag[done_channel], oldest_use[done_channel] + 1'b1};
  end

  crosslane_tag_lists #(
      .FETCHERS(FETCHERS),
      .TAGS    (TAGS),
      .TAG_BITS(TAG_BITS),
      .USE_BITS(USE_BITS)
  ) lists (
      .clk,
      .rst,
      .extended_tags(function_i.extended_tags),
      .free_valid,
      .free_tag,
      .free_use,
      .fetched_valid(fetch_freed),
      .fetched_tag  (fetch_freed_tag),
      .fetched_use  (fetch_freed_use + 1'b1),
      .data_valid   (data_tag_valid),
      .data_take    (data_begins),
      .data_tag,
      .data_use,
      .fetch_valid  (fetch_tag_valid),
      .fetch_take   (fetch_begins),
      .fetcher,
      .fetch_tag,
      .fetch_use
  );

`ifndef SYNTHESIS
  if (MAX_READ > 4096 || MAX_READ < 128 || USED_TAGS > 256) begin : g_sizes
    $error("reads of 128 to 4096 bytes, and 256 tags at most");
  end
  always_ff @(posedge clk) begin
    if (!rst) begin
      for (int unsigned h = 0; h < H2C; h++) begin
        assert (!read_valid[h] || (read_bytes[h] != '0 && 32'(read_bytes[h]) <= MAX_READ &&
                                   32'(read_address[h][11:0]) + 32'(read_bytes[h]) <= 4096))
        else $error("a read of no bytes, of too many, or across 4 KiB");
      end
    end
  end
`endif
endmodule
