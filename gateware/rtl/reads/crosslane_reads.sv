// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Memory reads for all H2C channels and all fetchers of descriptors: tags, requests, and what comes
// for them, in any order, at the full rate of the data path.
//
//   read, fetch --> next free tag --> request, one register
//                    |         \---> order of the requester's reads, and their place in its memory
//                    v                                |               ^
//   completions --> intake --> tag table --> placement --> data       | what is known of each read
//                    ^  events, one a clock     \---------------------/
//   time-outs, reads that are given up
//
// What happens to a tag is one of a sequence of events, that go through intake, table and placement
// in order; so nothing can overtake anything. A completion's bytes go to the end of the read less
// the byte count, in the ring that is the stream's FIFO or the memory of the fetched descriptors.
// After reset every tag is set up, a clock each; nothing is taken meanwhile.

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
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    localparam int unsigned FETCH_PLACES = (FETCHERS > 0) ? FETCHERS : 1
) (
    input  logic                                          clk,
    input  logic                                          rst,
    // Only parts of what all know of the function and of time are needed here.
    // verilator lint_off UNUSEDSIGNAL
    input  function_t                                     function_i,
    input  logic        [            63:0]                time_i,               // clocks
    // verilator lint_on UNUSEDSIGNAL
    // H2C channels.
    input  logic        [         H2C-1:0]                read_valid,
    output logic        [         H2C-1:0]                read_ready,
    input  logic        [         H2C-1:0][         63:0] read_address,
    input  logic        [         H2C-1:0][         12:0] read_bytes,           // none across 4 KiB
    input  logic        [         H2C-1:0]                read_relaxed,
    output logic        [         H2C-1:0]                read_blocked,         // by tags, or room
    output logic        [         H2C-1:0]                data_came,            // pulse: good data
    output logic        [         H2C-1:0]                arrived_valid,        // in order
    output logic        [         H2C-1:0][         12:0] arrived_bytes,
    output logic        [         H2C-1:0]                failed_valid,         // until `forget`
    output error_e      [         H2C-1:0]                failed_error,
    output logic        [         H2C-1:0][         63:0] failed_address,
    input  logic        [         H2C-1:0]                forget,               // pulse
    input  logic        [         H2C-1:0]                clear,                // pulse
    output logic        [         H2C-1:0][         15:0] in_flight,
    // Their streams.
    output logic        [         H2C-1:0][         15:0] feed_available,
    input  logic        [         H2C-1:0]                feed_move,
    input  logic        [         H2C-1:0]                feed_take,
    input  logic        [         H2C-1:0][          5:0] feed_take_back,
    input  logic        [         H2C-1:0][          6:0] feed_take_bytes,
    output logic        [         H2C-1:0][DATA_BITS-1:0] feed_data,
    // Fetchers. Without any these ports are of one, and idle.
    // verilator lint_off UNUSEDSIGNAL
    input  logic        [FETCH_PLACES-1:0]                fetch_valid,
    output logic        [FETCH_PLACES-1:0]                fetch_ready,
    input  logic        [FETCH_PLACES-1:0][         63:0] fetch_address,
    input  logic        [FETCH_PLACES-1:0][         12:0] fetch_bytes,
    input  logic        [FETCH_PLACES-1:0]                fetch_forget,         // pulse
    output logic        [FETCH_PLACES-1:0]                fetched_valid,
    input  logic        [FETCH_PLACES-1:0]                fetched_ready,
    output logic        [FETCH_PLACES-1:0][        255:0] fetched_data,
    output logic        [FETCH_PLACES-1:0]                fetch_failed,         // pulse
    output error_e      [FETCH_PLACES-1:0]                fetch_error,
    // verilator lint_on UNUSEDSIGNAL
    output logic        [FETCH_PLACES-1:0][         63:0] fetch_error_address,
    // Requests.
    output logic        [         H2C-1:0]                m_h2c_valid,
    input  logic        [         H2C-1:0]                m_h2c_ready,
    output tlp_header_t [         H2C-1:0]                m_h2c_header,
    output logic                                          m_fetch_valid,
    input  logic                                          m_fetch_ready,
    output tlp_header_t                                   m_fetch_header,
    // Completions.
    input  logic                                          s_completion_valid,
    output logic                                          s_completion_ready,
    input  tlp_header_t                                   s_completion_header,
    input  logic                                          s_completion_first,
    input  logic                                          s_completion_last,
    input  logic        [   DATA_BITS-1:0]                s_completion_data,
    output logic                                          unexpected,           // pulses
    output logic                                          timed_out,
    output logic                                          refused
);
  localparam int unsigned BYTES = DATA_BITS / 8;
  localparam int unsigned REQUESTERS = H2C + FETCHERS;
  localparam int unsigned USED_TAGS = TAGS + FETCH_TAGS * FETCHERS;
  localparam int unsigned TAG_BITS = (USED_TAGS > 8) ? $clog2(USED_TAGS) : 3;
  localparam int unsigned USE_BITS = (TAG_BITS < 8) ? 8 - TAG_BITS : 1;
  localparam int unsigned H2C_BITS = (H2C > 1) ? $clog2(H2C) : 1;
  localparam int unsigned FETCHER_BITS = (FETCHERS > 1) ? $clog2(FETCHERS) : 1;
  localparam int unsigned RING_BITS = $clog2(STAGING_BYTES);
  localparam int unsigned FETCH_MEMORY_BITS = $clog2(2 * BATCH) + 5;
  localparam int unsigned POSITION_BITS =
      (RING_BITS > FETCH_MEMORY_BITS) ? RING_BITS : FETCH_MEMORY_BITS;
  // A time-out is told to within a 128th, never too short.
  localparam int unsigned TICK_BITS = 10;
  localparam int unsigned TICK_SHIFT = (TIMEOUT_CLOCKS > 256) ? $clog2(TIMEOUT_CLOCKS) - 8 : 0;
  localparam int unsigned TIMEOUT_TICKS = (TIMEOUT_CLOCKS + (1 << TICK_SHIFT) - 1) >> TICK_SHIFT;

  logic initialising;

  // --- Who begins a read -----------------------------------------------------------------------
  logic data_tag_valid, fetch_begins, data_begins, begins;
  logic [TAG_BITS-1:0] data_tag, fetch_tag, begin_tag;
  logic [USE_BITS-1:0] data_use, fetch_use, begin_use;
  logic [FETCH_PLACES-1:0] fetch_tag_valid, fetch_room, fetch_can;
  logic [H2C-1:0] has_room, can, chosen;
  logic [H2C-1:0][RING_BITS-1:0] ring_end;
  logic [POSITION_BITS-1:0] fetch_end, begin_end;
  logic [FETCHER_BITS-1:0] fetcher;
  logic [H2C_BITS-1:0] channel;
  logic [63:0] begin_address;
  logic [12:0] begin_bytes;
  logic begin_relaxed;

  // Fetches are few and go first.
  always_comb begin
    for (int unsigned f = 0; f < FETCH_PLACES; f++) begin
      fetch_can[f] = FETCHERS > 0 && fetch_valid[f] && fetch_room[f] && fetch_tag_valid[f] &&
                     (!m_fetch_valid || m_fetch_ready) && !initialising;
    end
  end
  assign fetch_begins = fetch_can != '0;

  crosslane_turn #(
      .COUNT(FETCH_PLACES)
  ) fetch_turn (
      .clk,
      .rst,
      .valid (fetch_can),
      .taken (fetch_ready),
      .chosen(fetch_ready),
      .index (fetcher)
  );

  always_comb begin
    for (int unsigned h = 0; h < H2C; h++) begin
      can[h] = read_valid[h] && has_room[h] && (!m_h2c_valid[h] || m_h2c_ready[h]);
    end
  end
  assign data_begins = can != '0 && data_tag_valid && !initialising && !fetch_begins;

  crosslane_turn #(
      .COUNT(H2C)
  ) data_turn (
      .clk,
      .rst,
      .valid (can),
      .taken (read_ready),
      .chosen(chosen),
      .index (channel)
  );

  assign read_ready = data_begins ? chosen : '0;
  assign read_blocked = (data_tag_valid && !initialising) ? ~has_room : '1;

  assign begins = fetch_begins || data_begins;
  assign begin_tag = fetch_begins ? fetch_tag : data_tag;
  assign begin_use = fetch_begins ? fetch_use : data_use;
  assign begin_address = fetch_begins ? fetch_address[fetcher] : read_address[channel];
  assign begin_bytes = fetch_begins ? fetch_bytes[fetcher] : read_bytes[channel];
  assign begin_end = fetch_begins ? fetch_end : POSITION_BITS'(ring_end[channel]);
  assign begin_relaxed = !fetch_begins && read_relaxed[channel] && function_i.relaxed_ordering;

  tlp_header_t header;
  logic [7:0] wire_tag;
  // Without extended tags the number of the use is not sent: nothing above the tag.
  assign wire_tag = (TAG_BITS < 8 && function_i.extended_tags) ?
                    8'({begin_use, begin_tag}) : 8'(begin_tag);

  always_comb begin
    header = '0;
    header.kind = MEMORY_READ;
    header.address = {begin_address[63:2], 2'b00};
    header.length_dw = length_dw(begin_address[1:0], begin_bytes);
    header.first_be = first_enables(begin_address[1:0], begin_bytes);
    header.last_be = (header.length_dw == 11'd1) ? 4'd0 :
        last_enables(begin_address[1:0], begin_bytes);
    header.requester = function_i.routing_id;
    header.tag = {2'b00, wire_tag};
    header.attributes[RELAXED_ORDERING] = begin_relaxed;
    header.bar = NO_BAR;
  end

  always_ff @(posedge clk) begin
    for (int unsigned h = 0; h < H2C; h++) begin
      if (m_h2c_ready[h]) m_h2c_valid[h] <= 1'b0;
      if (read_ready[h]) begin
        m_h2c_valid[h]  <= 1'b1;
        m_h2c_header[h] <= header;
      end
    end
    if (m_fetch_ready) m_fetch_valid <= 1'b0;
    if (fetch_begins) begin
      m_fetch_valid  <= 1'b1;
      m_fetch_header <= header;
    end
    if (rst) begin
      m_h2c_valid   <= '0;
      m_fetch_valid <= 1'b0;
    end
  end

  // --- Events ----------------------------------------------------------------------------------
  logic give_up_valid, give_up_ready, hold, inject_ready, inject_valid;
  logic [TAG_BITS-1:0] give_up_tag, inject_tag;
  tag_event_e inject_event, event_kind;
  logic event_valid;
  logic [9:0] event_tag;
  completion_t event_completion;
  logic beat_valid, beat_first, beat_last;
  logic [DATA_BITS-1:0] beat_data;
  logic [1:0] beat_skip;
  logic [$clog2(BYTES)-1:0] beat_end;

  crosslane_tag_visits #(
      .TAG_BITS(TAG_BITS)
  ) visits (
      .clk,
      .rst,
      .initialising,
      .give_up_valid,
      .give_up_ready,
      .give_up_tag,
      .hold,
      .inject_ready,
      .inject_valid,
      .inject_event,
      .inject_tag
  );

  crosslane_completion_intake #(
      .DATA_BITS(DATA_BITS),
      .TAG_BITS (TAG_BITS)
  ) intake (
      .clk,
      .rst,
      .function_i,
      .s_valid (s_completion_valid),
      .s_ready (s_completion_ready),
      .s_header(s_completion_header),
      .s_first (s_completion_first),
      .s_last  (s_completion_last),
      .s_data  (s_completion_data),
      .hold,
      .inject_ready,
      .inject_valid,
      .inject_event,
      .inject_tag,
      .event_valid,
      .event_kind,
      .event_tag,
      .event_completion,
      .beat_valid,
      .beat_first,
      .beat_last,
      .beat_data,
      .beat_skip,
      .beat_end
  );

  logic [TAG_BITS-1:0] tag;
  logic [USE_BITS-1:0] tag_use;
  logic is_fetch, placed, answer_valid, answer_whole, no_longer_waits, freed;
  logic [H2C_BITS-1:0] tag_channel;
  logic [POSITION_BITS-1:0] place;
  logic [2:0] answer_error;
  logic [12:0] answer_missing, answer_bytes;
  logic [REQUESTERS-1:0] giving_up;

  crosslane_tag_table #(
      .FETCHERS     (FETCHERS),
      .H2C          (H2C),
      .USED_TAGS    (USED_TAGS),
      .TAG_BITS     (TAG_BITS),
      .USE_BITS     (USE_BITS),
      .POSITION_BITS(POSITION_BITS),
      .TICK_BITS    (TICK_BITS),
      .TIMEOUT_TICKS(TIMEOUT_TICKS)
  ) table_i (
      .clk,
      .function_i,
      .tick(time_i[TICK_SHIFT+:TICK_BITS]),
      .begin_valid(begins || initialising),
      .begin_tag(initialising ? inject_tag : begin_tag),
      .begin_use(initialising ? '1 : begin_use),
      .begin_end,
      .begin_bytes,
      .begin_low(begin_address[6:0]),
      .begin_channel(channel),
      .event_valid,
      .event_kind,
      .event_tag,
      .event_completion,
      .giving_up,
      .tag,
      .tag_use,
      .is_fetch,
      .channel(tag_channel),
      .placed,
      .place,
      .answer_valid,
      .answer_error,
      .answer_whole,
      .answer_missing,
      .answer_bytes,
      .no_longer_waits,
      .freed,
      .unexpected,
      .timed_out,
      .refused
  );

  logic write_valid, write_is_fetch, write_last, known_valid, known_parity;
  logic [H2C_BITS-1:0] write_channel;
  logic [TAG_BITS-1:0] known_tag;
  // Of use to fetches alone.
  // verilator lint_off UNUSEDSIGNAL
  logic [TAG_BITS-1:0] write_tag;
  // verilator lint_on UNUSEDSIGNAL
  logic [POSITION_BITS-1:0] write_position;
  logic [DATA_BITS-1:0] write_data;
  logic [BYTES-1:0] write_enable;
  answer_t known_answer;

  crosslane_placement #(
      .DATA_BITS    (DATA_BITS),
      .TAG_BITS     (TAG_BITS),
      .H2C_BITS     (H2C_BITS),
      .POSITION_BITS(POSITION_BITS)
  ) placement (
      .clk,
      .rst,
      .beat_valid,
      .beat_first,
      .beat_last,
      .beat_data,
      .beat_skip,
      .beat_end,
      .tag,
      .tag_parity(tag_use[0]),
      .is_fetch,
      .channel(tag_channel),
      .placed,
      .place,
      .answer_valid,
      .answer_error,
      .answer_whole,
      .answer_missing,
      .answer_bytes,
      .write_valid,
      .write_is_fetch,
      .write_channel,
      .write_tag,
      .write_position,
      .write_data,
      .write_enable,
      .write_last,
      .known_valid,
      .known_tag,
      .known_parity,
      .known_answer
  );

  // --- Tags that are free again ----------------------------------------------------------------
  // Of an event, a clock later; else of a requester that has got all of its read.
  logic freed_before, free_valid, fetch_done, done_free;
  logic [TAG_BITS-1:0] freed_tag, free_tag, fetch_oldest_tag;
  logic [USE_BITS-1:0] freed_use, free_use, fetch_oldest_use;
  logic [H2C-1:0] done, done_chosen, done_ready;
  logic [H2C-1:0][TAG_BITS-1:0] oldest_tag;
  logic [H2C-1:0][USE_BITS-1:0] oldest_use;
  logic [H2C_BITS-1:0] done_channel;

  always_ff @(posedge clk) begin
    freed_before <= freed && !rst;
    freed_tag <= tag;
    freed_use <= tag_use;
  end

  assign done_free = !freed_before && !fetch_done && done != '0;
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

  assign free_valid = freed_before || fetch_done || done_free;
  always_comb begin
    if (freed_before) {free_tag, free_use} = {freed_tag, freed_use};
    else if (fetch_done) {free_tag, free_use} = {fetch_oldest_tag, fetch_oldest_use};
    else {free_tag, free_use} = {oldest_tag[done_channel], oldest_use[done_channel]};
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
      .free_use     (free_use + 1'b1),
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

  // --- H2C channels ----------------------------------------------------------------------------
  logic [REQUESTERS-1:0] failed, failed_ready, all_forget, fault_valid;
  error_e fault_error;
  logic [63:0] fault_address;
  logic [H2C-1:0][2:0] h2c_error;
  logic [H2C-1:0][12:0] h2c_good;
  logic [H2C-1:0] h2c_give_up, h2c_give_up_ready;

  for (genvar h = 0; h < H2C; h++) begin : g_h2c
    logic is_written, begins_here, ends_here;
    logic [$clog2(TAGS+1)-1:0] waiting;
    assign is_written = write_valid && !write_is_fetch && (H2C == 1 || 32'(write_channel) == h);
    assign begins_here = read_ready[h];
    assign ends_here = no_longer_waits && !is_fetch && (H2C == 1 || 32'(tag_channel) == h);
    assign data_came[h] = write_last && !write_is_fetch && (H2C == 1 || 32'(write_channel) == h);

    crosslane_read_order #(
        .DATA_BITS    (DATA_BITS),
        .TAGS         (TAGS),
        .TAG_BITS     (TAG_BITS),
        .USE_BITS     (USE_BITS),
        .MAX_READ     (MAX_READ),
        .STAGING_BYTES(STAGING_BYTES)
    ) order (
        .clk,
        .rst,
        .has_room       (has_room[h]),
        .begin_valid    (begins_here),
        .begin_bytes    (read_bytes[h]),
        .begin_tag      (data_tag),
        .begin_use      (data_use),
        .begin_end      (ring_end[h]),
        .known_valid,
        .known_tag,
        .known_parity,
        .known_answer,
        .arrived_valid  (arrived_valid[h]),
        .arrived_bytes  (arrived_bytes[h]),
        .forget         (forget[h]),
        .clear          (clear[h]),
        .giving_up      (giving_up[h]),
        .done_valid     (done[h]),
        .done_ready     (done_ready[h]),
        .failed         (failed[h]),
        .oldest_tag     (oldest_tag[h]),
        .oldest_use     (oldest_use[h]),
        .failed_error   (h2c_error[h]),
        .failed_good    (h2c_good[h]),
        .give_up_valid  (h2c_give_up[h]),
        .give_up_ready  (h2c_give_up_ready[h]),
        .write_valid    (is_written),
        .write_position (write_position[RING_BITS-1:0]),
        .write_data,
        .write_enable,
        .feed_available (feed_available[h]),
        .feed_move      (feed_move[h]),
        .feed_take      (feed_take[h]),
        .feed_take_back (feed_take_back[h]),
        .feed_take_bytes(feed_take_bytes[h]),
        .feed_data      (feed_data[h])
    );

    always_ff @(posedge clk) begin
      if (begins_here && !ends_here) waiting <= waiting + 1'b1;
      if (!begins_here && ends_here) waiting <= waiting - 1'b1;
      if (rst || giving_up[h]) waiting <= '0;
    end
    assign in_flight[h] = 16'(waiting);
    assign all_forget[h] = forget[h] || clear[h];
    assign failed_valid[h] = fault_valid[h];
    assign failed_error[h] = fault_error;
    assign failed_address[h] = fault_address;
  end

  // --- Fetchers --------------------------------------------------------------------------------
  logic fetch_give_up;
  logic [2:0] fetch_failed_error;
  logic [12:0] fetch_failed_good;

  if (FETCHERS > 0) begin : g_fetchers
    logic looked_failed, looked_failed_ready, fetch_done_valid;
    logic [FETCHER_BITS-1:0] looked_at;

    crosslane_fetch_staging #(
        .DATA_BITS    (DATA_BITS),
        .FETCHERS     (FETCHERS),
        .TAG_BITS     (TAG_BITS),
        .USE_BITS     (USE_BITS),
        .BATCH        (BATCH),
        .POSITION_BITS(POSITION_BITS)
    ) fetch_staging (
        .clk,
        .rst,
        .has_room     (fetch_room),
        .begin_valid  (fetch_begins),
        .begin_fetcher(fetcher),
        .begin_bytes  (fetch_bytes[fetcher]),
        .begin_tag    (fetch_tag),
        .begin_use    (fetch_use),
        .begin_end    (fetch_end),
        .known_valid,
        .known_tag,
        .known_parity,
        .known_answer,
        .fetched_valid,
        .fetched_ready,
        .fetched_data,
        .forget       (fetch_forget),
        .giving_up    (giving_up[H2C+:FETCHERS]),
        .looked_at,
        .done_valid   (fetch_done_valid),
        .done_ready   (!freed_before),
        .failed       (looked_failed),
        .failed_ready (looked_failed_ready),
        .oldest_tag   (fetch_oldest_tag),
        .oldest_use   (fetch_oldest_use),
        .failed_error (fetch_failed_error),
        .failed_good  (fetch_failed_good),
        .give_up_valid(fetch_give_up),
        .give_up_ready(give_up_ready && h2c_give_up == '0),
        .write_valid  (write_valid && write_is_fetch),
        .write_tag,
        .write_position,
        .write_enable,
        .write_data
    );
    assign fetch_done = fetch_done_valid && !freed_before;
    always_comb begin
      for (int unsigned f = 0; f < FETCHERS; f++) begin
        failed[H2C+f] = looked_failed && 32'(looked_at) == f;
        all_forget[H2C+f] = fetch_forget[f];
        fetch_failed[f] = fault_valid[H2C+f];
        fetch_error[f] = fault_error;
        fetch_error_address[f] = fault_address;
      end
    end
    assign looked_failed_ready = failed_ready[H2C+:FETCHERS] != '0;
  end else begin : g_no_fetchers
    assign fetch_room = '0;
    assign fetch_end = '0;
    assign fetched_valid = '0;
    assign fetched_data = '0;
    assign fetch_done = 1'b0;
    assign fetch_give_up = 1'b0;
    assign fetch_oldest_tag = '0;
    assign fetch_oldest_use = '0;
    assign fetch_failed_error = '0;
    assign fetch_failed_good = '0;
    assign fetch_failed = '0;
    assign fetch_error[0] = ERROR_NONE;
    assign fetch_error_address = '0;
  end

  // --- Reads that are given up, and those that have failed -------------------------------------
  logic [TAG_BITS-1:0] fault_tag;
  logic [2:0] fault_code;
  logic [12:0] fault_good;

  assign give_up_valid = h2c_give_up != '0 || fetch_give_up;

  always_comb begin
    give_up_tag = fetch_oldest_tag;
    h2c_give_up_ready = '0;
    for (int unsigned h = 0; h < H2C; h++) begin
      if (h2c_give_up[h] && h2c_give_up_ready == '0) begin
        give_up_tag = oldest_tag[h];
        h2c_give_up_ready[h] = give_up_ready;
      end
    end
    {fault_tag, fault_code, fault_good} = {fetch_oldest_tag, fetch_failed_error, fetch_failed_good};
    for (int unsigned h = 0; h < H2C; h++) begin
      if (failed_ready[h]) begin
        {fault_tag, fault_code, fault_good} = {oldest_tag[h], h2c_error[h], h2c_good[h]};
      end
    end
  end

  crosslane_read_faults #(
      .H2C     (H2C),
      .FETCHERS(FETCHERS),
      .TAG_BITS(TAG_BITS)
  ) faults (
      .clk,
      .rst,
      .begin_valid(begins),
      .begin_tag,
      .begin_address,
      .failed,
      .failed_ready,
      .failed_tag(fault_tag),
      .failed_error(fault_code),
      .failed_good(fault_good),
      .forget(all_forget),
      .fault_valid,
      .fault_error,
      .fault_address
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
