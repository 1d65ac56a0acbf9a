// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// States of training: from alignment to a link that is up, and back when it is lost. Line by line as
// `BringUp` of crate `torus-link` (docs/torus-link.md, Bring-up and loss).
//
// Within a clock: software and time-outs first, then a set that has been sent, the column that has
// come, and what it ended.

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
  localparam logic [10:0] COLUMNS_END = 11'(CONFIRM_COLUMNS - STEP);
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
    logic [15:0] session;
    logic [15:0] seen;            // session of the last good set, 0: none
    logic [9:0]  seen_datagrams;
    logic [15:0] far_session;     // that the link has been up with, 0: none
    logic [9:0]  far_datagrams;
  } training_t;

  function automatic training_t entered(training_t was, port_state_e next);
    training_t t;
    t = was;
    t.state = next;
    t.progress = '0;
    return t;
  endfunction

  function automatic training_t retrained(training_t was);
    training_t t;
    t = was;
    if (t.state == PORT_UP) begin
      t = entered(t, PORT_ALIGN);
      t.lost = 1'b1;
      t.seen = '0;
    end
    return t;
  endfunction

  // Up, once the other end is known to be ready or to follow.
  function automatic training_t up_if_known(training_t was);
    training_t t;
    logic is_known, is_up_there;
    t = was;
    is_known = t.progress.knowing_sets == 4'(GOOD_SETS) && t.progress.sent_sets == 5'(SENT_SETS);
    is_up_there = t.progress.knowing_sets != '0
                  && t.progress.idle_in_a_row == 3'(FOLLOWING_IDLE_COLUMNS);
    if (t.state == PORT_CONFIRM && t.seen != '0 && (is_known || is_up_there)) begin
      t = entered(t, PORT_UP);
      t.far_session = t.seen;
      t.far_datagrams = t.seen_datagrams;
    end
    return t;
  endfunction

  // --- A column, before what it ended --------------------------------------------------------
  function automatic training_t column_counted(training_t was, logic is_whole);
    training_t t;
    t = was;
    if (t.state == PORT_UP) begin
      if (is_whole) t.progress.errors = t.progress.errors - 7'(t.progress.errors != '0);
      else if (t.progress.errors >= 7'(ERROR_LIMIT - ERROR_WEIGHT)) t = retrained(t);
      else t.progress.errors = t.progress.errors + 7'(ERROR_WEIGHT);
    end else if (t.state == PORT_ALIGN || t.state == PORT_CONFIRM) begin
      if (t.state == PORT_CONFIRM && t.progress.columns_in_state == COLUMNS_END)
        t = entered(t, PORT_ALIGN);
      else begin
        if (t.progress.columns_in_state != COLUMNS_END)
          t.progress.columns_in_state = t.progress.columns_in_state + 11'(STEP);
        t.progress.columns_since_good = t.progress.columns_since_good + 7'(STEP);
        // It has come round: alignment begins anew, and the link cannot come up without it.
        if (t.progress.columns_since_good == '0) begin
          t.progress.good_sets = '0;
          t.progress.knowing_sets = '0;
        end
      end
    end
    return t;
  endfunction

  // --- A good set ----------------------------------------------------------------------------
  function automatic logic fits(training_set_t s, logic [15:0] far_session);
    logic unused;
    unused = &{1'b0, s.seen, s.stage};
    return s.version == LINK_VERSION && s.lanes == 8'(LANES) && s.is_in_order && s.is_long == LONG
        && s.channel_datagrams != '0 && s.channel_datagrams <= MAX_CHANNEL_DATAGRAMS
        && s.session != '0 && (far_session == '0 || far_session == s.session);
  endfunction

  function automatic training_t set_taken(training_t was, training_set_t s);
    training_t t;
    logic knows_me, does_fit;
    t = was;
    knows_me = s.stage == 8'd2 && s.seen == t.session;
    does_fit = fits(s, t.far_session);
    t.progress.columns_since_good = '0;
    if (t.state == PORT_UP && knows_me && does_fit) return t;
    t = retrained(t);
    if (!does_fit) begin
      t.progress.misfits++;
      if (t.progress.misfits == 2'(MISFITS)) t = entered(t, PORT_FAILED);
      return t;
    end
    t.progress.misfits = '0;
    if (t.seen != '0 && t.seen != s.session) t = entered(t, PORT_ALIGN);
    t.seen = s.session;
    t.seen_datagrams = 10'(s.channel_datagrams);
    if (t.progress.good_sets != 4'(GOOD_SETS)) t.progress.good_sets++;
    if (t.state == PORT_ALIGN && t.progress.good_sets == 4'(GOOD_SETS))
      t = entered(t, PORT_CONFIRM);
    else if (t.state == PORT_CONFIRM && knows_me) begin
      if (t.progress.knowing_sets != 4'(GOOD_SETS)) t.progress.knowing_sets++;
      t = up_if_known(t);
    end
    return t;
  endfunction

  // --- What a column ended -------------------------------------------------------------------
  function automatic training_t frame_taken(training_t was, logic is_good);
    training_t t;
    t = was;
    t.progress.idle_in_a_row = '0;
    if (t.state == PORT_UP) begin
      if (is_good) t.progress.damaged_in_a_row = '0;
      else if (t.progress.damaged_in_a_row == 5'(DAMAGED_FRAMES - 1)) t = retrained(t);
      else t.progress.damaged_in_a_row++;
    end
    return t;
  endfunction

  function automatic training_t comma_taken(training_t was, logic is_whole);
    training_t t;
    t = was;
    t.progress.idle_in_a_row = '0;
    if (t.state == PORT_UP) begin
      if (is_whole) t.progress.skewed = '0;
      else if (t.progress.skewed == 2'(SKEWED_SETS - 1)) t = retrained(t);
      else t.progress.skewed++;
    end
    return t;
  endfunction

  // --- A clock -------------------------------------------------------------------------------
  training_t now, next;
  logic is_training;

  always_comb begin
    next = now;
    next.lost = 1'b0;
    disables = now.state != PORT_DISABLED && !enable;
    if (disables) begin
      next = entered(next, PORT_DISABLED);
      next.session = (now.session == '1) ? 16'd1 : now.session + 1'b1;
      next.far_session = '0;
      next.seen = '0;
    end else if (now.state == PORT_DISABLED && enable) next = entered(next, PORT_ALIGN);
    if (retrain) next = retrained(next);
    if (stage_2_sent && next.state == PORT_CONFIRM) begin
      if (next.progress.sent_sets != 5'(SENT_SETS)) next.progress.sent_sets++;
      next = up_if_known(next);
    end
    is_training = next.state == PORT_ALIGN || next.state == PORT_CONFIRM;
    restart = is_training && counts
              && next.progress.columns_since_good == 7'(ALIGN_COLUMNS - STEP)
              && !(next.state == PORT_CONFIRM
                   && next.progress.columns_in_state == COLUMNS_END);
    if (next.state != PORT_DISABLED && next.state != PORT_FAILED) begin
      if (counts) next = column_counted(next, present && whole);
      if (events.broken) next = frame_taken(next, 1'b0);
      if (events.idle) begin
        if (next.progress.idle_in_a_row != 3'(FOLLOWING_IDLE_COLUMNS))
          next.progress.idle_in_a_row++;
        next = up_if_known(next);
      end
      if (events.frame || events.damaged) next = frame_taken(next, events.frame);
      if (events.comma) next = comma_taken(next, events.comma_whole);
      if (events.set_bad) next.progress.idle_in_a_row = '0;
      if (events.set_good) begin
        next.progress.idle_in_a_row = '0;
        next = set_taken(next, set);
      end
    end
  end

  always_ff @(posedge clk) begin
    now <= next;
    if (rst) begin
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
