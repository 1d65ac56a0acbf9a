// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Processes completions and all else that happens to a tag: a sequence of events, one a clock, that
// pass intake, table and placement in order. Events are completions and, between them, visits,
// reads that are given up, and the initialisation after reset. Outputs are bytes for their
// positions and, behind them, the progress of a read.

module crosslane_read_answers
  import crosslane_pkg::*;
  import crosslane_reads_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned H2C = 1,
    parameter int unsigned FETCHERS = 3,
    parameter int unsigned USED_TAGS = 76,
    parameter int unsigned TAG_BITS = 7,
    parameter int unsigned USE_BITS = 1,
    parameter int unsigned POSITION_BITS = 16,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned H2C_BITS = (H2C > 1) ? $clog2(H2C) : 1
) (
    input logic clk,
    input logic rst,
    // Only some bits of function_i and time_i are used here.
    // verilator lint_off UNUSEDSIGNAL
    input function_t function_i,
    input logic [63:0] time_i,  // clocks
    // verilator lint_on UNUSEDSIGNAL
    output logic initialising,  // tags are being initialised: no read begins
    // Reads that begin; their end in the requester's memory.
    input logic begin_valid,
    input logic [TAG_BITS-1:0] begin_tag,
    input logic [USE_BITS-1:0] begin_use,
    input logic [POSITION_BITS-1:0] begin_end,
    input logic [12:0] begin_bytes,
    input logic [6:0] begin_low,
    input logic [H2C_BITS-1:0] begin_channel,
    // Reads to give up, of requesters that give up all of theirs.
    input logic give_up_valid,
    output logic give_up_ready,
    input logic [TAG_BITS-1:0] give_up_tag,
    input logic [H2C+FETCHERS-1:0] giving_up,
    // Completions.
    input logic s_completion_valid,
    output logic s_completion_ready,
    input tlp_header_t s_completion_header,
    input logic s_completion_first,
    input logic s_completion_last,
    input logic [DATA_BITS-1:0] s_completion_data,
    input logic s_completion_aborted,  // beside the last beat: its data are not good
    // The tag of an event, and its new state.
    output logic [TAG_BITS-1:0] tag,
    output logic [USE_BITS-1:0] tag_use,
    output logic is_fetch,
    output logic [H2C_BITS-1:0] tag_channel,
    output logic no_longer_waits,
    output logic no_longer_open,
    output logic freed,
    output logic less_to_come,
    output logic [5:0] to_come_low,
    output logic [12:0] to_come,
    output logic [12:0] still_to_come,
    output logic event_ends,  // its last beat
    output logic unexpected,  // pulses
    output logic timed_out,
    output logic refused,
    // Bytes to their positions.
    output logic write_valid,
    output logic write_is_fetch,
    output logic [H2C_BITS-1:0] write_channel,
    output logic [TAG_BITS-1:0] write_tag,
    output logic [POSITION_BITS-1:0] write_position,
    output logic [DATA_BITS-1:0] write_data,
    output logic [BYTES-1:0] write_enable,
    output logic write_last,
    // Progress of a read, behind its bytes.
    output logic known_valid,
    output logic [TAG_BITS-1:0] known_tag,
    output logic known_parity,
    output answer_t known_answer
);
  // A time-out is exact to a 128th, never too short.
  localparam int unsigned TICK_BITS = 10;
  localparam int unsigned TICK_SHIFT = (TIMEOUT_CLOCKS > 256) ? $clog2(TIMEOUT_CLOCKS) - 8 : 0;
  localparam int unsigned TIMEOUT_TICKS = (TIMEOUT_CLOCKS + (1 << TICK_SHIFT) - 1) >> TICK_SHIFT;

  logic hold, inject_ready, inject_valid;
  logic [TAG_BITS-1:0] inject_tag;
  tag_event_e inject_event, event_kind;
  logic event_valid;
  logic [9:0] event_tag;
  // verilator lint_off UNUSEDSIGNAL
  logic [TAG_BITS-1:0] next_tag;
  logic inject_is_same, next_is_same;
  // verilator lint_on UNUSEDSIGNAL
  completion_t event_completion;
  logic beat_valid, beat_first, beat_last, beat_aborted, is_told;
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
      .inject_tag,
      .event_tag(event_tag[TAG_BITS-1:0]),
      .inject_is_same
  );

  crosslane_completion_intake #(
      .DATA_BITS(DATA_BITS),
      .TAG_BITS (TAG_BITS)
  ) intake (
      .clk,
      .rst,
      .function_i,
      .s_valid(s_completion_valid),
      .s_ready(s_completion_ready),
      .s_header(s_completion_header),
      .s_first(s_completion_first),
      .s_last(s_completion_last),
      .s_data(s_completion_data),
      .s_aborted(s_completion_aborted),
      .hold,
      .inject_ready,
      .inject_valid,
      .inject_event,
      .inject_tag,
      .inject_is_same,
      .next_tag,
      .next_is_same,
      .event_valid,
      .event_kind,
      .event_tag,
      .event_completion,
      .beat_valid,
      .beat_first,
      .beat_last,
      .beat_data,
      .beat_skip,
      .beat_end,
      .beat_aborted
  );

  assign event_ends = beat_valid && beat_last;

  logic answer_valid, answer_good;
  logic [POSITION_BITS-1:0] place;
  logic [2:0] answer_error;
  logic [12:0] answer_missing, answer_bytes;

  crosslane_tag_table #(
      .FETCHERS     (FETCHERS),
      .H2C          (H2C),
      .USED_TAGS    (USED_TAGS),
      .TAG_BITS     (TAG_BITS),
      .USE_BITS     (USE_BITS),
      .POSITION_BITS(POSITION_BITS),
      .TICK_BITS    (TICK_BITS),
      .TIMEOUT_TICKS(TIMEOUT_TICKS),
      .AHEAD        (FETCHERS > 0)
  ) table_i (
      .clk,
      .function_i,
      .tick(time_i[TICK_SHIFT+:TICK_BITS]),
      .initialising,
      .begin_valid(begin_valid || initialising),
      .begin_tag(initialising ? inject_tag : begin_tag),
      .begin_use(initialising ? '1 : begin_use),
      .begin_end,
      .begin_bytes,
      .begin_low,
      .begin_channel,
      .next_tag,
      .next_is_same,
      .event_valid,
      .event_kind,
      .event_tag,
      .event_completion,
      .aborted(beat_aborted && is_told),
      .giving_up,
      .tag,
      .tag_use,
      .is_fetch,
      .channel(tag_channel),
      .placed(),
      .place,
      .answer_valid,
      .answer_error,
      .answer_good,
      .answer_missing,
      .answer_bytes,
      .no_longer_waits,
      .no_longer_open,
      .freed,
      .less_to_come,
      .to_come_low,
      .to_come,
      .still_to_come,
      .unexpected,
      .timed_out,
      .refused
  );

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
      .place,
      .answer_valid,
      .answer_error,
      .answer_good,
      .answer_missing,
      .answer_rest(event_completion.rest),
      .answer_ends(event_completion.ends),
      .answer_bytes,
      .beat_aborted,
      .aborted_missing(event_completion.count),
      .is_told,
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
endmodule
