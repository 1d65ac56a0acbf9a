// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// States of training: from alignment to a link that is up, and back when it is lost, as `BringUp` of
// crate `torus-link` has them (docs/torus-link.md, Bring-up and loss).
//
// Within a clock: software and time-outs first, then a set that has been sent, the column that has
// come, and what it ended. All are looked at side by side; where two of them meet, the earlier one is
// part of the later one's condition.

module crosslane_link_training
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES             = 8,
    parameter int unsigned CHANNEL_DATAGRAMS = 64,    // told to the other end
    parameter bit          LONG              = 1'b0,  // as the datagrams of the other end must be
    parameter int unsigned STEP              = 1      // columns that are counted at once: 1 or 8
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic          [15:0] first_session,          // of the end, taken while it is reset
    input  logic                 enable,
    input  logic                 retrain,                // pulse: software or time-outs
    input  logic                 stage_2_sent,           // pulse: a training set of stage 2
    input  logic                 counts,                 // a column, or a row, of the other end
    input  logic                 present,                // the column that has come is deskewed
    input  logic                 whole,                  // and without error
    input  link_events_t         events,
    input  training_set_t        set,
    output logic                 restart,                // alignment and framing begin anew
    output logic                 disables,               // the end forgets everything
    output logic                 lost,                   // pulse
    output port_state_e          state,
    output logic          [15:0] session,
    output logic          [15:0] session_seen,           // of the other end; 0: none yet
    output logic          [ 9:0] far_channel_datagrams,
    output progress_t            progress
);
  localparam int unsigned GOOD_SETS = 8;
  localparam int unsigned SENT_SETS = 16;
  localparam int unsigned FOLLOWING_IDLE_COLUMNS = 4;
  localparam int unsigned ALIGN_COLUMNS = 128;
  localparam int unsigned CONFIRM_COLUMNS = 2048;
  localparam int unsigned HOLD_COLUMNS = 512;  // in ALIGN behind a loss
  localparam logic [10:0] COLUMNS_END = 11'(CONFIRM_COLUMNS - STEP);
  localparam int unsigned HOLD_BIT = $clog2(HOLD_COLUMNS);
  localparam logic [HOLD_BIT-1:0] HOLD_END = HOLD_BIT'(HOLD_COLUMNS - STEP);
  localparam int unsigned MISFITS = 2;
  localparam int unsigned ERROR_WEIGHT = 8;
  localparam int unsigned ERROR_LIMIT = 128;
  localparam int unsigned SKEWED_SETS = 4;
  localparam int unsigned DAMAGED_FRAMES = 32;
  localparam logic [15:0] MAX_CHANNEL_DATAGRAMS = 16'd512;

  typedef struct packed {
    port_state_e state;
    progress_t   progress;
    logic        lost;
    logic        was_lost;        // and has not confirmed since
    logic [15:0] session;
    logic [15:0] seen;            // session of the last good set, 0: none
    logic [9:0]  seen_datagrams;
    logic [15:0] far_session;     // that the link has been up with, 0: none
    logic [9:0]  far_datagrams;
  } training_t;
  training_t now, next;
  progress_t count, count_next;
  port_state_e state_next;
  assign count = now.progress;

  // --- Software, and a set that has been sent ------------------------------------------------
  // A disabled port has no counts, so it aligns from its first clock on like any other.
  logic is_up, is_aligning, is_confirming, is_sent_by_now, knows_all, up_by_sent, stays_up;
  assign disables = now.state != PORT_DISABLED && !enable;
  assign is_up = now.state == PORT_UP;
  assign is_aligning = now.state == PORT_ALIGN || now.state == PORT_DISABLED;
  assign is_confirming = now.state == PORT_CONFIRM;
  // Counts stop at a power of two, which is their highest bit.
  assign knows_all = count.knowing_sets[$clog2(GOOD_SETS)];
  assign is_sent_by_now = count.sent_sets[$clog2(
      SENT_SETS
  )] || (stage_2_sent && count.sent_sets == 5'(SENT_SETS - 1));
  assign up_by_sent = is_confirming && stage_2_sent && knows_all && is_sent_by_now;

  // --- The column, before what it ended ------------------------------------------------------
  logic is_wrong, may_expire, expires, is_last_of_round, comes_round, counts_columns;
  // Worked out a clock ahead: no more columns may follow in this state, or without a good set.
  logic state_ends, round_ends;
  assign is_wrong = counts && !(present && whole);
  assign may_expire = is_confirming && counts && state_ends;
  assign expires = may_expire && !up_by_sent;
  assign is_last_of_round = counts && round_ends;
  // Alignment begins anew, and the link cannot come up without it.
  assign comes_round = is_last_of_round && (is_aligning || (is_confirming && !state_ends))
                       && !up_by_sent;
  assign restart = comes_round && enable;
  assign counts_columns = counts
                          && (is_aligning || (is_confirming && !up_by_sent) || (is_up && retrain));

  // --- A good set ----------------------------------------------------------------------------
  logic is_fit, is_far, is_seen, knows_me, does_fit, is_stranger, may_fail, fails, fits, switches;
  logic takes;
  // It stands for some clocks before it counts, so it is looked at a clock ahead. Of the sessions none
  // that counts here changes between: a port that is up or confirms has seen one, and one that is
  // disabled knows none.
  always_ff @(posedge clk) begin
    is_fit <= set.version == LINK_VERSION && set.lanes == 8'(LANES)
                  && set.is_in_order && set.is_long == LONG && set.channel_datagrams != '0
                  && set.channel_datagrams <= MAX_CHANNEL_DATAGRAMS && set.session != '0;
    is_far <= now.far_session == '0 || now.far_session == set.session;
    is_seen <= now.seen == set.session;
    knows_me <= set.stage == 8'd2 && set.seen == now.session;
  end
  // The far end of a link that is up, or comes up in this clock, is the one that was seen.
  assign does_fit = is_fit && ((is_up || up_by_sent) ? is_seen
                               : is_far || now.state == PORT_DISABLED);
  assign is_stranger = events.set_good && !(does_fit && knows_me);
  assign fits = events.set_good && does_fit;
  assign takes = fits && !stays_up;
  assign switches = fits && now.seen != '0 && !is_seen && (is_aligning || is_confirming);
  assign may_fail = events.set_good && count.misfits == 2'(MISFITS - 1);
  assign fails = may_fail && !does_fit && !up_by_sent && !expires;

  // --- Loss ----------------------------------------------------------------------------------
  logic is_damaged_once, is_damaged_twice, drops;
  assign is_damaged_once = events.broken || events.damaged;
  assign is_damaged_twice = events.broken && events.damaged;
  // A link that comes up in this clock has counted nothing, so only a set can end it.
  assign drops = (is_up && retrain)
                 || (is_up && is_wrong && count.errors >= 7'(ERROR_LIMIT - ERROR_WEIGHT))
                 || (is_up && is_damaged_once
                     && count.damaged_in_a_row == 5'(DAMAGED_FRAMES - 1))
                 || (is_up && is_damaged_twice
                     && count.damaged_in_a_row == 5'(DAMAGED_FRAMES - 2))
                 || (is_up && events.comma && !events.comma_whole
                     && count.skewed == 2'(SKEWED_SETS - 1))
                 || ((is_up || up_by_sent) && is_stranger);
  assign stays_up = (is_up || up_by_sent) && !drops;

  // --- Coming up -----------------------------------------------------------------------------
  // The count of idle columns is short of its end, or the link would have come up with the last.
  logic may_by_idle, may_by_set, up_by_idle, up_by_set, confirms, clears;
  logic is_held;  // the other end may not have seen yet that this one has begun anew
  assign is_held = now.was_lost && count.columns_in_state[10:HOLD_BIT] == '0
                   && !(counts && count.columns_in_state[HOLD_BIT-1:0] == HOLD_END);
  assign may_by_idle = is_confirming && events.idle && !events.broken && count.knowing_sets != '0
                       && count.idle_in_a_row >= 3'(FOLLOWING_IDLE_COLUMNS - 1)
                       && !is_last_of_round;
  assign may_by_set = is_confirming && events.set_good && is_fit && is_far && is_seen && knows_me
                      && is_sent_by_now && count.knowing_sets >= 4'(GOOD_SETS - 1)
                      && !is_last_of_round;
  assign up_by_idle = may_by_idle && !up_by_sent && !expires;
  assign up_by_set = may_by_set && !up_by_sent && !expires;
  assign confirms = is_aligning && fits && !switches && !is_last_of_round && !is_held
                    && count.good_sets >= 4'(GOOD_SETS - 1);
  // Counts begin anew, whichever of these comes first.
  assign clears = up_by_sent || may_expire || may_by_idle || may_by_set || confirms || switches
                  || (may_fail && !(is_fit && (is_up ? is_seen
                                               : is_far || now.state == PORT_DISABLED)));

  // --- Counts --------------------------------------------------------------------------------
  function automatic logic [3:0] one_more(logic [3:0] sets);
    return (sets == 4'(GOOD_SETS)) ? sets : sets + 1'b1;
  endfunction

  logic [3:0] good_sets, knowing_sets;
  logic [2:0] idle_in_a_row;
  // Before the set, or the idle column, that has come.
  assign good_sets = (clears || comes_round) ? '0 : count.good_sets;
  assign knowing_sets = (clears || comes_round) ? '0 : count.knowing_sets;
  assign idle_in_a_row = (clears || drops || events.broken) ? '0 : count.idle_in_a_row;

  always_comb begin
    count_next = count;

    count_next.good_sets = good_sets;
    if (takes && !confirms && !up_by_set) count_next.good_sets = one_more(good_sets);
    count_next.knowing_sets = knowing_sets;
    if (is_confirming && fits && !clears)
      count_next.knowing_sets = knows_me ? one_more(knowing_sets) : '0;
    if (is_confirming && stage_2_sent && count.sent_sets != 5'(SENT_SETS))
      count_next.sent_sets = count.sent_sets + 1'b1;
    if (clears) count_next.sent_sets = '0;

    count_next.idle_in_a_row = idle_in_a_row;
    if (events.idle) begin
      if (idle_in_a_row != 3'(FOLLOWING_IDLE_COLUMNS))
        count_next.idle_in_a_row = idle_in_a_row + 1'b1;
      if (up_by_idle) count_next.idle_in_a_row = '0;
    end
    if (events.frame || events.damaged || events.comma || events.set_bad || events.set_good)
      count_next.idle_in_a_row = '0;

    if (events.set_good) count_next.misfits = 2'(!does_fit && !fails);
    else if (clears) count_next.misfits = '0;

    if (counts_columns && !state_ends)
      count_next.columns_in_state = count.columns_in_state + 11'(STEP);
    if (counts_columns) count_next.columns_since_good = count.columns_since_good + 7'(STEP);
    if (clears) count_next.columns_in_state = '0;
    if (clears || events.set_good) count_next.columns_since_good = '0;

    // While up.
    if (is_wrong) count_next.errors = count.errors + 7'(ERROR_WEIGHT);
    else if (counts && count.errors != '0) count_next.errors = count.errors - 1'b1;
    if (events.comma) count_next.skewed = events.comma_whole ? '0 : count.skewed + 1'b1;
    if (events.frame) count_next.damaged_in_a_row = '0;
    else if (is_damaged_twice) count_next.damaged_in_a_row = count.damaged_in_a_row + 5'd2;
    else if (is_damaged_once) count_next.damaged_in_a_row = count.damaged_in_a_row + 1'b1;
    if (!stays_up) begin
      count_next.errors = '0;
      count_next.skewed = '0;
      count_next.damaged_in_a_row = '0;
    end

    if (!enable || now.state == PORT_FAILED) count_next = '0;
  end

  // --- State ---------------------------------------------------------------------------------
  always_comb begin
    state_next = now.state;
    unique case (now.state)
      PORT_DISABLED: state_next = PORT_ALIGN;
      PORT_ALIGN: begin
        if (fails) state_next = PORT_FAILED;
        else if (confirms) state_next = PORT_CONFIRM;
      end
      PORT_CONFIRM: begin
        if (fails) state_next = PORT_FAILED;
        else if (drops || expires || switches) state_next = PORT_ALIGN;
        else if (up_by_sent || up_by_idle || up_by_set) state_next = PORT_UP;
      end
      PORT_UP: if (drops) state_next = PORT_ALIGN;
      default: state_next = now.state;  // FAILED
    endcase
    if (!enable) state_next = PORT_DISABLED;
  end

  always_comb begin
    next.state = state_next;
    next.progress = count_next;
    next.lost = drops && enable;
    next.was_lost = (now.was_lost || drops) && !confirms && enable;
    next.session = now.session;
    next.seen = now.seen;
    next.seen_datagrams = now.seen_datagrams;
    next.far_session = now.far_session;
    next.far_datagrams = now.far_datagrams;
    if (up_by_sent || up_by_idle || up_by_set) begin
      next.far_session   = now.seen;
      next.far_datagrams = up_by_set ? 10'(set.channel_datagrams) : now.seen_datagrams;
    end
    if (drops) next.seen = '0;
    if (takes && now.state != PORT_FAILED) begin
      next.seen = set.session;
      next.seen_datagrams = 10'(set.channel_datagrams);
    end
    if (!enable) begin
      if (disables) next.session = (now.session == '1) ? 16'd1 : now.session + 1'b1;
      next.seen = '0;
      next.seen_datagrams = now.seen_datagrams;
      next.far_session = '0;
      next.far_datagrams = now.far_datagrams;
    end
  end

  localparam logic [6:0] ROUND_END = 7'(ALIGN_COLUMNS - STEP);
  always_ff @(posedge clk) begin
    now <= next;
    if (clears || !enable) state_ends <= 1'b0;
    else if (counts_columns && !state_ends)
      state_ends <= count.columns_in_state == COLUMNS_END - 11'(STEP);
    if (clears || events.set_good || !enable) round_ends <= 1'b0;
    else if (counts_columns) round_ends <= count.columns_since_good == ROUND_END - 7'(STEP);
    if (rst) begin
      state_ends <= 1'b0;
      round_ends <= 1'b0;
      now <= '0;
      now.session <= (first_session == '0) ? 16'd1 : first_session;
    end
  end

  assign lost = now.lost;
  assign state = now.state;
  assign session = now.session;
  assign session_seen = (now.state == PORT_FAILED) ? '0 : now.seen;
  assign far_channel_datagrams = now.far_datagrams;
  assign progress = now.progress;
endmodule
