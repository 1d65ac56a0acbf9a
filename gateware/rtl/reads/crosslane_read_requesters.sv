// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The requesters of reads: for each H2C channel the order of its reads and its staging ring, for
// the fetchers theirs, and the address at which a read of any of them failed. Each reports arrived
// data, in order, and tags that are done.

module crosslane_read_requesters
  import crosslane_pkg::*;
  import crosslane_reads_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned H2C = 1,
    parameter int unsigned FETCHERS = 3,  // 0: none
    parameter int unsigned TAGS = 64,
    parameter int unsigned MAX_READ = 1024,
    parameter int unsigned STAGING_BYTES = 65536,
    parameter int unsigned BATCH = 16,
    parameter bit PUSH = 0,
    parameter int unsigned TAG_BITS = 7,
    parameter int unsigned USE_BITS = 1,
    parameter int unsigned POSITION_BITS = 16,
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned REQUESTERS = H2C + FETCHERS,
    localparam int unsigned FETCH_PLACES = (FETCHERS > 0) ? FETCHERS : 1,
    localparam int unsigned H2C_BITS = (H2C > 1) ? $clog2(H2C) : 1,
    localparam int unsigned FETCHER_BITS = (FETCHERS > 1) ? $clog2(FETCHERS) : 1,
    localparam int unsigned RING_BITS = $clog2(STAGING_BYTES)
) (
    input logic clk,
    input logic rst,
    // Reads that begin: room for them, and where they end in the ring or memory.
    output logic [H2C-1:0] has_room,
    input logic [H2C-1:0] read_ready,
    input logic [H2C-1:0][12:0] read_bytes,
    input logic [TAG_BITS-1:0] data_tag,
    input logic [USE_BITS-1:0] data_use,
    output logic [H2C-1:0][RING_BITS-1:0] ring_end,
    // Unused without fetchers.
    // verilator lint_off UNUSEDSIGNAL
    output logic [FETCH_PLACES-1:0] fetch_room,
    input logic fetch_begins,
    input logic [FETCHER_BITS-1:0] fetcher,
    input logic [FETCH_PLACES-1:0][12:0] fetch_bytes,
    input logic [TAG_BITS-1:0] fetch_tag,
    input logic [USE_BITS-1:0] fetch_use,
    output logic [POSITION_BITS-1:0] fetch_end,
    // verilator lint_on UNUSEDSIGNAL
    // Data with descriptors.
    input logic [H2C-1:0] inline_valid,
    output logic [H2C-1:0] inline_taken,
    input logic [H2C-1:0][5:0] inline_bytes,
    input logic [H2C-1:0][8*INLINE_BYTES-1:0] inline_data,
    // A clock later: any read that has begun.
    input logic begun,
    input logic [TAG_BITS-1:0] begun_tag,
    input logic [63:0] begun_address,
    // crosslane_read_answers.
    input logic is_fetch,
    // verilator lint_off UNUSEDSIGNAL
    input logic [TAG_BITS-1:0] tag,  // used with fetchers only
    // verilator lint_on UNUSEDSIGNAL
    input logic [H2C_BITS-1:0] tag_channel,
    input logic no_longer_waits,
    input logic no_longer_open,
    input logic write_valid,
    input logic write_is_fetch,
    input logic [H2C_BITS-1:0] write_channel,
    // verilator lint_off UNUSEDSIGNAL
    input logic [TAG_BITS-1:0] write_tag,  // used by fetches only
    // verilator lint_on UNUSEDSIGNAL
    input logic [POSITION_BITS-1:0] write_position,
    input logic [DATA_BITS-1:0] write_data,
    input logic [BYTES-1:0] write_enable,
    input logic write_last,
    input logic known_valid,
    input logic [TAG_BITS-1:0] known_tag,
    input logic known_parity,
    input answer_t known_answer,
    output logic give_up_valid,
    input logic give_up_ready,
    output logic [TAG_BITS-1:0] give_up_tag,
    output logic [REQUESTERS-1:0] giving_up,
    // Tags of reads that have ended: of channels, of a fetcher.
    output logic [H2C-1:0] done,
    input logic [H2C-1:0] done_ready,
    output logic [H2C-1:0][TAG_BITS-1:0] oldest_tag,
    output logic [H2C-1:0][USE_BITS-1:0] oldest_use,
    output logic fetch_done,
    // verilator lint_off UNUSEDSIGNAL
    input logic fetch_done_ready,
    // verilator lint_on UNUSEDSIGNAL
    output logic [TAG_BITS-1:0] fetch_oldest_tag,
    output logic [USE_BITS-1:0] fetch_oldest_use,
    // H2C channels and their streams.
    output logic [H2C-1:0] data_came,
    output logic [H2C-1:0] arrived_valid,
    output logic [H2C-1:0][12:0] arrived_bytes,
    output logic [H2C-1:0] failed_valid,
    output error_e [H2C-1:0] failed_error,
    output logic [H2C-1:0][63:0] failed_address,
    input logic [H2C-1:0] forget,
    input logic [H2C-1:0] clear,
    output logic [H2C-1:0][15:0] in_flight,
    output logic [H2C-1:0][15:0] feed_available,
    input logic [H2C-1:0] feed_move,
    input logic [H2C-1:0] feed_take,
    input logic [H2C-1:0][5:0] feed_take_back,
    input logic [H2C-1:0][6:0] feed_take_bytes,
    input logic [H2C-1:0] feed_goes_on,
    output logic [H2C-1:0][DATA_BITS-1:0] feed_data,
    // Fetchers.
    // verilator lint_off UNUSEDSIGNAL
    input logic [FETCH_PLACES-1:0] fetch_forget,
    output logic [FETCH_PLACES-1:0] fetched_valid,
    input logic [FETCH_PLACES-1:0] fetched_ready,
    // verilator lint_on UNUSEDSIGNAL
    output logic [FETCH_PLACES-1:0][255:0] fetched_data,
    output logic [FETCH_PLACES-1:0][FETCH_COUNT_BITS-1:0] fetches_waiting,
    output logic [FETCH_PLACES-1:0][FETCH_COUNT_BITS-1:0] fetches_open,
    output logic [FETCH_PLACES-1:0] fetch_failed,
    output error_e [FETCH_PLACES-1:0] fetch_error,
    output logic [FETCH_PLACES-1:0][63:0] fetch_error_address
);
  // --- Reads that have ended ---------------------------------------------------------------------
  // Counted a clock later: the tag table's results come late in the clock.
  logic has_answer, has_left, left_is_fetch;
  // verilator lint_off UNUSEDSIGNAL
  logic [TAG_BITS-1:0] left_tag;  // used with fetchers only
  // verilator lint_on UNUSEDSIGNAL
  logic [H2C_BITS-1:0] left_channel;

  always_ff @(posedge clk) begin
    has_answer <= no_longer_waits && !rst;
    has_left <= no_longer_open && !rst;
    left_is_fetch <= is_fetch;
    left_tag <= tag;
    left_channel <= tag_channel;
  end

  // --- H2C channels ------------------------------------------------------------------------------
  logic [REQUESTERS-1:0] failed, failed_ready, all_forget, fault_valid;
  error_e fault_error;
  logic [63:0] fault_address;
  logic [H2C-1:0][2:0] h2c_error;
  logic [H2C-1:0][12:0] h2c_good;
  logic [H2C-1:0] h2c_give_up, h2c_give_up_ready;

  for (genvar h = 0; h < H2C; h++) begin : g_h2c
    logic is_written, begins_here, is_its_read, ends_here, leaves_here, has_stopped;
    logic [$clog2(TAGS+1)-1:0] waiting, open;
    assign is_written = write_valid && !write_is_fetch && (H2C == 1 || 32'(write_channel) == h);
    assign begins_here = read_ready[h];
    assign is_its_read = !left_is_fetch && (H2C == 1 || 32'(left_channel) == h);
    assign ends_here = has_answer && is_its_read;
    assign leaves_here = has_left && is_its_read;
    assign data_came[h] = write_last && !write_is_fetch && (H2C == 1 || 32'(write_channel) == h);

    crosslane_read_order #(
        .DATA_BITS    (DATA_BITS),
        .TAGS         (TAGS),
        .TAG_BITS     (TAG_BITS),
        .USE_BITS     (USE_BITS),
        .MAX_READ     (MAX_READ),
        .STAGING_BYTES(STAGING_BYTES),
        .PUSH         (PUSH)
    ) order (
        .clk,
        .rst,
        .has_room       (has_room[h]),
        .begin_valid    (begins_here),
        .begin_bytes    (read_bytes[h]),
        .begin_tag      (data_tag),
        .begin_use      (data_use),
        .begin_end      (ring_end[h]),
        .inline_valid   (inline_valid[h]),
        .inline_taken   (inline_taken[h]),
        .inline_bytes   (inline_bytes[h]),
        .inline_data    (inline_data[h]),
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
        .feed_goes_on   (feed_goes_on[h]),
        .feed_data      (feed_data[h])
    );

    always_ff @(posedge clk) begin
      if (begins_here && !ends_here) waiting <= waiting + 1'b1;
      if (!begins_here && ends_here) waiting <= waiting - 1'b1;
      if (rst || giving_up[h]) waiting <= '0;
    end

    // Reads given up still reach memory: a channel that has stopped counts all that are open, also
    // those from before its last restart.
    always_ff @(posedge clk) begin
      if (begins_here && !leaves_here) open <= open + 1'b1;
      if (!begins_here && leaves_here) open <= open - 1'b1;
      if (forget[h]) has_stopped <= 1'b1;
      if (clear[h]) has_stopped <= 1'b0;
      if (rst) begin
        open <= '0;
        has_stopped <= 1'b0;
      end
    end
    assign in_flight[h] = 16'(has_stopped ? open : waiting);
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
        .done_ready   (fetch_done_ready),
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
    assign fetch_done = fetch_done_valid && fetch_done_ready;

    // As of reads of data: those that wait for an answer, and all that still reach memory.
    for (genvar f = 0; f < FETCHERS; f++) begin : g_in_flight
      logic begins, is_its_read, ends, leaves;
      assign begins = fetch_begins && 32'(fetcher) == f;
      assign is_its_read = left_is_fetch && 32'(left_tag) / FETCH_TAGS == f;
      assign ends = has_answer && is_its_read;
      assign leaves = has_left && is_its_read;
      always_ff @(posedge clk) begin
        if (begins && !ends) fetches_waiting[f] <= fetches_waiting[f] + 1'b1;
        if (!begins && ends) fetches_waiting[f] <= fetches_waiting[f] - 1'b1;
        if (rst || giving_up[H2C+f]) fetches_waiting[f] <= '0;
        if (begins && !leaves) fetches_open[f] <= fetches_open[f] + 1'b1;
        if (!begins && leaves) fetches_open[f] <= fetches_open[f] - 1'b1;
        if (rst) fetches_open[f] <= '0;
      end
    end

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
    assign fetches_waiting = '0;
    assign fetches_open = '0;
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

  // --- Reads that are given up, and failed reads -----------------------------------------------
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
      .begin_valid(begun),
      .begin_tag(begun_tag),
      .begin_address(begun_address),
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
endmodule
