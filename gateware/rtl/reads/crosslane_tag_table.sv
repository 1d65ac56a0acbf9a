// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The state of each tag. A read writes one half of a tag's entry when it begins, events (one a
// clock, each visible to the next) write the other half. Both hold `use`, the number of times the
// tag was used; if the halves differ in it, the read has had no event yet. So a read may begin and
// an event be processed in every clock, even for the same tag.
//
// States: docs/engine.md, "Errors and restart". A free tag is `answered` as well: completions treat
// both alike.

module crosslane_tag_table
  import crosslane_pkg::*;
  import crosslane_reads_pkg::*;
#(
    parameter int unsigned FETCHERS = 3,
    parameter int unsigned H2C = 1,
    parameter int unsigned USED_TAGS = 76,  // the tags from 0 on; fetchers have the first
    parameter int unsigned TAG_BITS = 7,
    parameter int unsigned USE_BITS = 1,  // 8 - TAG_BITS, at least 1
    parameter int unsigned POSITION_BITS = 16,
    parameter int unsigned TICK_BITS = 10,
    parameter int unsigned TIMEOUT_TICKS = 200,
    localparam int unsigned REQUESTERS = H2C + FETCHERS,
    localparam int unsigned H2C_BITS = (H2C > 1) ? $clog2(H2C) : 1
) (
    input  logic                            clk,
    // Only extended_tags is used.
    // verilator lint_off UNUSEDSIGNAL
    input  function_t                       function_i,
    // verilator lint_on UNUSEDSIGNAL
    input  logic        [    TICK_BITS-1:0] tick,
    // A read begins; or, after reset, a tag is set up.
    input  logic                            begin_valid,
    input  logic        [     TAG_BITS-1:0] begin_tag,
    input  logic        [     USE_BITS-1:0] begin_use,
    input  logic        [POSITION_BITS-1:0] begin_end,         // position behind its last byte
    input  logic        [             12:0] begin_bytes,
    input  logic        [              6:0] begin_low,         // address, bits 6:0
    input  logic        [     H2C_BITS-1:0] begin_channel,
    // An event.
    input  logic                            event_valid,
    input  tag_event_e                      event_kind,
    input  logic        [              9:0] event_tag,
    input  completion_t                     event_completion,
    // The data of the last event, already reported, are to be discarded. No event in this clock.
    input  logic                            aborted,
    // Requesters that now give up all of their reads: H2C channels, then fetchers.
    input  logic        [   REQUESTERS-1:0] giving_up,
    // Result of the event, in the same clock.
    output logic        [     TAG_BITS-1:0] tag,
    output logic        [     USE_BITS-1:0] tag_use,
    output logic                            is_fetch,
    output logic        [     H2C_BITS-1:0] channel,           // if not is_fetch
    output logic                            placed,            // its data go to `place`
    output logic        [POSITION_BITS-1:0] place,             // of the first byte's double word
    output logic                            answer_valid,      // its requester is to be informed
    output logic        [              2:0] answer_error,
    output logic                            answer_whole,
    output logic        [             12:0] answer_missing,    // bytes that are still missing
    output logic        [             12:0] answer_bytes,      // of the read
    output logic                            no_longer_waits,   // one outstanding answer fewer
    output logic                            no_longer_open,    // the same, or of a read given up
    output logic                            freed,             // the tag is free from now on
    // The completions that are still to come are fewer: bytes of the read before and after.
    output logic                            less_to_come,
    output logic        [              5:0] to_come_low,       // address of the first of them
    output logic        [             12:0] to_come,
    output logic        [             12:0] still_to_come,     // from a multiple of 64 B on
    output logic                            unexpected,
    output logic                            timed_out,
    output logic                            refused
);
  localparam int unsigned ENTRIES = 1 << TAG_BITS;
  localparam int unsigned WIRE_USE_BITS = 8 - TAG_BITS;

  typedef enum logic [2:0] {
    ANSWERED,   // or free
    WAITING,
    ORPHAN,     // given up by its requester: completions are dropped
    RESTING,    // timed out: out of use
    RESTING_IN_LINE  // the same, and its requester has not reached it
  } tag_state_e;

  typedef struct packed {
    logic [USE_BITS-1:0]      number;
    logic [POSITION_BITS-1:0] place_end;
    logic [12:0]              bytes;
    logic [6:0]               low;
    logic [TICK_BITS-1:0]     begun;
    logic [H2C_BITS-1:0]      channel;
  } read_t;

  typedef struct packed {
    logic       parity;  // of the use
    tag_state_e state;
    logic       failed;
    logic       begun;   // there is progress
  } condition_t;

  typedef struct packed {
    logic [12:0] missing;
    logic [6:0]  low;      // of the next completion
  } progress_t;

  (* ram_style = "distributed" *) logic [$bits(read_t)-1:0] reads[ENTRIES];
  (* ram_style = "distributed" *) logic [$bits(condition_t)-1:0] conditions[ENTRIES];
  (* ram_style = "distributed" *) logic [$bits(progress_t)-1:0] progresses[ENTRIES];

  read_t read, begun;
  condition_t condition, next_condition;
  progress_t progress, next_progress;
  logic condition_write, progress_write;

  assign tag = event_tag[TAG_BITS-1:0];
  assign read = reads[tag];
  assign condition = conditions[tag];
  assign progress = progresses[tag];
  assign tag_use = read.number;
  assign channel = (H2C > 1) ? read.channel : '0;

  always_comb begin
    begun.number = begin_use;
    begun.place_end = begin_end;
    begun.bytes = begin_bytes;
    begun.low = begin_low;
    begun.begun = tick;
    begun.channel = begin_channel;
  end

  always_ff @(posedge clk) begin
    if (begin_valid) reads[begin_tag] <= begun;
    if (condition_write) conditions[tag] <= next_condition;
    if (progress_write) progresses[tag] <= next_progress;
  end

  // --- Owner of the tag ------------------------------------------------------------------------
  logic is_given_up, parity;
  logic [(1 << H2C_BITS)-1:0] channels_giving_up;
  assign parity = read.number[0];
  assign channels_giving_up = (1 << H2C_BITS)'(giving_up[H2C-1:0]);

  if (FETCHERS > 0) begin : g_fetchers
    localparam int unsigned FETCHER_BITS = TAG_BITS - 2;
    logic [(1 << FETCHER_BITS)-1:0] fetchers_giving_up;
    assign is_fetch = tag < TAG_BITS'(FETCHERS * FETCH_TAGS);
    assign fetchers_giving_up = (1 << FETCHER_BITS)'(giving_up[H2C+:FETCHERS]);
    assign is_given_up = is_fetch ? fetchers_giving_up[tag[TAG_BITS-1:2]] :
                                    channels_giving_up[channel];
  end else begin : g_no_fetchers
    assign is_fetch = 1'b0;
    assign is_given_up = channels_giving_up[channel];
  end

  // The completion belongs to the tag's present use.
  logic is_this_use;
  if (WIRE_USE_BITS > 0) begin : g_uses
    assign is_this_use = event_tag[9:TAG_BITS] ==
        (function_i.extended_tags ? {2'b00, read.number[WIRE_USE_BITS-1:0]} : '0);
  end else begin : g_no_uses
    assign is_this_use = event_tag[9:8] == '0;
  end

  // --- State of the tag, and its change ----------------------------------------------------------
  tag_state_e state;
  logic failed, has_progress, fits, is_hit, is_waiting, ends, has_expired, has_rested;
  logic [12:0] missing;
  logic [6:0] low;
  logic [TICK_BITS-1:0] age;
  error_e fault;

  assign state = (condition.parity == parity) ? condition.state : WAITING;
  assign failed = condition.parity == parity && condition.failed;
  assign has_progress = condition.parity == parity && condition.begun;
  assign missing = has_progress ? progress.missing : read.bytes;
  assign low = has_progress ? progress.low : read.low;
  assign age = tick - read.begun;
  assign has_expired = age > TICK_BITS'(TIMEOUT_TICKS);
  assign has_rested = age > TICK_BITS'(2 * TIMEOUT_TICKS);
  assign is_waiting = state == WAITING && !is_given_up;

  assign fits = event_completion.well_formed && event_completion.count == missing &&
                event_completion.low == low;
  assign is_hit = event_completion.ours && is_this_use;

  always_comb begin
    // The byte count is valid only with data.
    fault = event_completion.refusal;
    ends  = fault == ERROR_UNSUPPORTED_REQUEST || fault == ERROR_COMPLETER_ABORT;
    if (fault == ERROR_NONE) begin
      ends = fits && event_completion.ends;
      if (!fits) fault = ERROR_MALFORMED_COMPLETION;
      else if (event_completion.poisoned) fault = ERROR_POISONED;
    end
  end

  assign place = read.place_end - POSITION_BITS'(event_completion.back);
  assign answer_bytes = read.bytes;
  assign to_come_low = low[5:0];
  assign to_come = missing;

  always_comb begin
    next_condition = '{parity: parity, state: state, failed: failed, begun: has_progress};
    condition_write = 1'b0;
    next_progress = '{missing: event_completion.rest, low: event_completion.next_low};
    progress_write = 1'b0;
    placed = 1'b0;
    answer_valid = 1'b0;
    answer_error = 3'(fault);
    answer_whole = 1'b0;
    answer_missing = missing;
    no_longer_waits = 1'b0;
    no_longer_open = 1'b0;
    freed = 1'b0;
    less_to_come = 1'b0;
    still_to_come = '0;
    unexpected = 1'b0;
    timed_out = 1'b0;
    refused = 1'b0;
    unique case (event_kind)
      EVENT_COMPLETION: begin
        if (!is_hit || state == ANSWERED) begin
          unexpected = event_valid;
        end else if (state == WAITING || state == ORPHAN) begin
          condition_write = event_valid;
          if (ends) next_condition.state = ANSWERED;
          if (fault != ERROR_NONE) next_condition.failed = 1'b1;
          if (fits && event_completion.refusal == ERROR_NONE) begin
            next_condition.begun = 1'b1;
            progress_write = event_valid;
            less_to_come = event_valid;
            still_to_come = event_completion.rest;
          end
          if (ends) begin
            less_to_come  = event_valid;
            still_to_come = '0;
          end
          freed = event_valid && state == ORPHAN && ends;
          no_longer_waits = event_valid && is_waiting && ends;
          no_longer_open = event_valid && ends;
          // Data behind the first error are not reported.
          answer_valid = event_valid && is_waiting && !failed;
          refused = event_valid && is_waiting && (failed || fault != ERROR_NONE);
          placed = event_valid && is_waiting && !failed && fault == ERROR_NONE;
          answer_whole = event_completion.ends && fault == ERROR_NONE;
          if (fault == ERROR_NONE) answer_missing = event_completion.rest;
        end
      end
      EVENT_VISIT: begin
        answer_error = 3'(ERROR_COMPLETION_TIMEOUT);
        next_condition.failed = 1'b1;
        if (state == WAITING && has_expired && !is_given_up) begin
          condition_write = event_valid;
          next_condition.state = RESTING_IN_LINE;
          timed_out = event_valid;
          no_longer_waits = event_valid;
          no_longer_open = event_valid;
          answer_valid = event_valid && !failed;
        end else if (state == ORPHAN && has_expired) begin
          condition_write = event_valid;
          next_condition.state = RESTING;
          no_longer_open = event_valid;
        end else if (state == RESTING && has_rested) begin
          condition_write = event_valid;
          next_condition.state = ANSWERED;
          freed = event_valid;
          less_to_come = event_valid;
        end
      end
      EVENT_GIVE_UP: begin
        condition_write = event_valid;
        if (state == WAITING) next_condition.state = ORPHAN;
        if (state == RESTING_IN_LINE) next_condition.state = RESTING;
        freed = event_valid && state == ANSWERED;
        // Else an answer to the previous use could be mistaken for one to the next.
        answer_valid = event_valid;
        answer_error = 3'(ERROR_NONE);
      end
      EVENT_INITIALISE: begin
        condition_write = event_valid;
        next_condition.state = ANSWERED;
        answer_valid = event_valid;
        answer_error = 3'(ERROR_NONE);
        freed = event_valid && 32'(tag) < USED_TAGS;
      end
    endcase
    if (aborted) begin
      condition_write = 1'b1;
      next_condition = '{parity: parity, state: state, failed: 1'b1, begun: has_progress};
      refused = 1'b1;
    end
  end

`ifndef SYNTHESIS
  if (WIRE_USE_BITS > USE_BITS || USED_TAGS > ENTRIES || TAG_BITS > 8) begin : g_tags
    $error("USED_TAGS tags of at most eight bits");
  end
  if (3 * TIMEOUT_TICKS >= 1 << TICK_BITS) begin : g_ticks
    $error("TICK_BITS have to tell three time-outs apart");
  end
`endif
endmodule
