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
    parameter bit AHEAD = 0,
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
    // verilator lint_off UNUSEDSIGNAL
    input  logic                            initialising,      // used with AHEAD only
    // verilator lint_on UNUSEDSIGNAL
    input  logic                            begin_valid,
    input  logic        [     TAG_BITS-1:0] begin_tag,
    input  logic        [     USE_BITS-1:0] begin_use,
    input  logic        [POSITION_BITS-1:0] begin_end,         // position behind its last byte
    input  logic        [             12:0] begin_bytes,
    input  logic        [              6:0] begin_low,         // address, bits 6:0
    input  logic        [     H2C_BITS-1:0] begin_channel,
    // An event. Its tag stands in next_tag a clock before, and stays for `aborted`.
    // verilator lint_off UNUSEDSIGNAL
    input  logic        [     TAG_BITS-1:0] next_tag,          // used with AHEAD only
    input  logic                            next_is_same,      // as event_tag
    // verilator lint_on UNUSEDSIGNAL
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
    output logic                            answer_good,       // the completion has what it should
    output logic        [             12:0] answer_missing,    // bytes that were missing before it
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
  condition_t next_condition;
  progress_t progress, next_progress;
  logic condition_write, progress_write;

  assign tag = event_tag[TAG_BITS-1:0];
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

  // --- Entry of the tag ------------------------------------------------------------------------
  condition_t condition;
  // A completion's claim, and whether it is of the bytes that come next: compared before it is known
  // which entry counts, a shorter path. (As written here: yosys maps comparisons with `==` to a
  // deeper tree.)
  progress_t claimed;
  logic fits_progress;
  assign claimed = '{missing: event_completion.count, low: event_completion.low};

  if (AHEAD) begin : g_ahead
    condition_t seen_condition, own_condition;
    progress_t seen_progress, own_progress;
    logic condition_follows, progress_follows;

    always_ff @(posedge clk) begin
      read <= reads[next_tag];
      // The table is written in this clock, and in no other one is a tag without a use read.
      if (initialising) read.number <= '1;
      seen_condition <= conditions[next_tag];
      seen_progress <= progresses[next_tag];
      // The change comes late in the clock: it is chosen behind the registers.
      own_condition <= next_condition;
      own_progress <= next_progress;
      condition_follows <= condition_write && next_is_same;
      progress_follows <= progress_write && next_is_same;
    end
    assign condition = condition_follows ? own_condition : seen_condition;
    assign progress = progress_follows ? own_progress : seen_progress;
    assign fits_progress = progress_follows ? !(|(claimed ^ own_progress)) :
                                              !(|(claimed ^ seen_progress));
  end else begin : g_at_once
    assign read = reads[tag];
    assign condition = conditions[tag];
    assign progress = progresses[tag];
    assign fits_progress = !(|(claimed ^ progress));
  end

  // --- State of the tag, and its change ----------------------------------------------------------
  tag_state_e state;
  logic failed, has_progress, fits, is_hit, is_waiting, ends, has_expired, has_rested;
  logic [12:0] missing;
  logic [TICK_BITS-1:0] age;
  logic [2:0] fault;

  assign state = (condition.parity == parity) ? condition.state : WAITING;
  assign failed = condition.parity == parity && condition.failed;
  assign has_progress = condition.parity == parity && condition.begun;
  assign missing = has_progress ? progress.missing : read.bytes;
  assign age = tick - read.begun;
  assign has_expired = age > TICK_BITS'(TIMEOUT_TICKS);
  assign has_rested = age > TICK_BITS'(2 * TIMEOUT_TICKS);
  assign is_waiting = state == WAITING && !is_given_up;

  progress_t whole;
  logic fits_read;
  assign whole = '{missing: read.bytes, low: read.low};
  assign fits_read = !(|(claimed ^ whole));
  assign fits = event_completion.well_formed &&
                ((has_progress && fits_progress) || (!has_progress && fits_read));
  assign is_hit = event_completion.ours && is_this_use;

  logic has_data, is_refused, goes_on, is_good;
  assign has_data = event_completion.refusal == ERROR_NONE;
  assign is_refused = event_completion.refused;
  assign goes_on = fits;
  assign is_good = goes_on && !event_completion.poisoned;
  assign ends = is_refused || (goes_on && event_completion.ends);

  always_comb begin
    fault = 3'(event_completion.refusal);
    if (has_data && event_completion.poisoned) fault = 3'(ERROR_POISONED);
    if (has_data && !fits) fault = 3'(ERROR_MALFORMED_COMPLETION);
  end

  assign place = read.place_end - POSITION_BITS'(event_completion.back);
  assign answer_bytes = read.bytes;
  assign to_come_low = has_progress ? progress.low[5:0] : read.low[5:0];
  assign to_come = missing;

  // Events by what becomes of the tag. `fits` is known last: everything else is worked out beside it.
  logic completes, visits, completes_open, completes_waiting, completes_told;
  logic times_out, orphan_rests, rest_ends, gives_up, initialises;
  assign completes = event_kind == EVENT_COMPLETION;
  assign visits = event_kind == EVENT_VISIT;
  assign completes_open = event_valid && completes && is_hit &&
                          (state == WAITING || state == ORPHAN);
  assign completes_waiting = completes_open && is_waiting;
  // Data behind the first error are not reported.
  assign completes_told = completes_waiting && !failed;
  assign times_out = event_valid && visits && is_waiting && has_expired;
  assign orphan_rests = event_valid && visits && state == ORPHAN && has_expired;
  assign rest_ends = event_valid && visits && state == RESTING && has_rested;
  assign gives_up = event_valid && event_kind == EVENT_GIVE_UP;
  assign initialises = event_valid && event_kind == EVENT_INITIALISE;

  assign unexpected = event_valid && completes && (!is_hit || state == ANSWERED);
  assign timed_out = times_out;
  assign refused = (completes_waiting && (failed || !is_good)) || aborted;
  assign placed = completes_told && is_good;
  assign progress_write = completes_open && goes_on;
  assign less_to_come = (completes_open && (goes_on || is_refused)) || rest_ends;
  assign still_to_come = (completes && !event_completion.ends && goes_on) ?
      event_completion.rest : '0;
  assign no_longer_waits = (completes_waiting && ends) || times_out;
  assign no_longer_open = (completes_open && ends) || times_out || orphan_rests;
  assign freed = (completes_open && state == ORPHAN && ends) || rest_ends ||
                 (gives_up && state == ANSWERED) || (initialises && 32'(tag) < USED_TAGS);
  // A tag given up answers too: else an answer to the previous use could be mistaken for one to the
  // next.
  assign answer_valid = completes_told || (times_out && !failed) || gives_up || initialises;
  assign answer_good = completes && is_good;
  assign answer_missing = missing;
  always_comb begin
    answer_error = 3'(ERROR_NONE);
    if (completes) answer_error = fault;
    if (visits) answer_error = 3'(ERROR_COMPLETION_TIMEOUT);
  end

  assign condition_write = completes_open || times_out || orphan_rests || rest_ends || gives_up ||
                           initialises || aborted;
  assign next_progress = '{missing: event_completion.rest, low: event_completion.next_low};

  // The change is worked out for both results of the comparison, and chosen at the end.
  function automatic condition_t condition_after(input logic fitting);
    condition_t after;
    after.parity = parity;
    after.failed = failed || visits || aborted ||
                   (completes && !(fitting && !event_completion.poisoned));
    after.begun = has_progress || (completes && fitting && !aborted);
    after.state = state;
    unique case (event_kind)
      EVENT_COMPLETION: begin
        if (is_refused || (fitting && event_completion.ends)) after.state = ANSWERED;
      end
      EVENT_VISIT: begin
        if (state == WAITING) after.state = RESTING_IN_LINE;
        else if (state == ORPHAN) after.state = RESTING;
        else after.state = ANSWERED;
      end
      EVENT_GIVE_UP: begin
        if (state == WAITING) after.state = ORPHAN;
        if (state == RESTING_IN_LINE) after.state = RESTING;
      end
      default: after.state = ANSWERED;
    endcase
    if (aborted) after.state = state;
    return after;
  endfunction
  assign next_condition = fits ? condition_after(1'b1) : condition_after(1'b0);

`ifndef SYNTHESIS
  if (WIRE_USE_BITS > USE_BITS || USED_TAGS > ENTRIES || TAG_BITS > 8) begin : g_tags
    $error("USED_TAGS tags of at most eight bits");
  end
  if (3 * TIMEOUT_TICKS >= 1 << TICK_BITS) begin : g_ticks
    $error("TICK_BITS have to tell three time-outs apart");
  end
`endif
endmodule
