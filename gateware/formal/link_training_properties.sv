// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_link_training: whatever comes, the link is up only with an end that knows this one, never
// with another than the one before until it is disabled, and errors that go on end it.

module link_training_properties
  import crosslane_link_pkg::*;
(
    input logic                 clk,
    input logic                 rst,
    input logic          [15:0] first_session,
    input logic                 enable,
    input logic                 retrain,
    input logic                 stage_2_sent,
    input logic                 counts,
    input logic                 present,
    input logic                 whole,
    input logic                 broken,
    input logic          [ 2:0] what,           // 0: nothing, or one of the others
    input logic                 comma_whole,
    input training_set_t        set
);
  link_events_t events;
  // As crosslane_link_deframe has them: a column ends one thing, behind one that was broken off.
  assign events = '{
          broken: broken,
          damaged: what == 3'd1,
          frame: what == 3'd2,
          idle: what == 3'd3,
          comma: what == 3'd4,
          comma_whole: comma_whole,
          set_good: what == 3'd5,
          set_bad: what == 3'd6
      };
  logic restart, disables, lost;
  port_state_e state;
  logic [15:0] session, session_seen;
  logic [9:0] far_channel_datagrams;
  progress_t progress;

  crosslane_link_training #(
      .LANES(4),
      .CHANNEL_DATAGRAMS(16)
  ) training (
      .*
  );

  logic is_reset = 1'b0;
  logic was_disabled, was_lost_due, was_misfit, was_held;
  port_state_e was;
  logic [2:0] what_before;
  training_set_t set_before;
  logic [15:0] far, far_before, session_before;
  logic knew, knows;
  assign far = training.now.far_session;
  assign knows = progress.knowing_sets != '0
                 || (what == 3'd5 && set.stage == 8'd2 && set.seen == session);

  always_ff @(posedge clk) begin
    is_reset <= 1'b1;
    was <= state;
    knew <= knows;
    far_before <= far;
    session_before <= session;
    was_disabled <= disables || rst;
    // Its datagrams are long, and those of this end are not.
    was_misfit <= !rst && what == 3'd5 && set.is_long;
    was_lost_due <= state == PORT_UP && !rst && !disables
                    && (retrain || (progress.errors >= 7'd120 && counts && !(present && whole)));
    was_held <= training.now.was_lost && 12'(progress.columns_in_state) + 12'(counts) < 12'd512;
    what_before <= what;
    set_before <= set;
    if (!is_reset)
      assume (rst);
      else begin
        // Its columns have come before, and those of another had to.
        assume (what != 3'd5 || (set == set_before && what_before != 3'd5));
        assert (state inside {PORT_DISABLED, PORT_ALIGN, PORT_CONFIRM, PORT_UP, PORT_FAILED});
        // This end has a session; while up, the other one is known, and what its buffers hold.
        assert (session != '0);
        if (state == PORT_UP) assert (far != '0 && training.now.seen == far);
        if (training.now.seen != '0)
          assert (training.now.seen_datagrams != '0 && training.now.seen_datagrams <= 10'd512);
        if (far != '0 && training.now.seen != '0) assert (training.now.seen == far);
        if (far != '0) assert (far_channel_datagrams != '0 && far_channel_datagrams <= 10'd512);
        // Counts stop.
        assert (progress.good_sets <= 4'd8 && progress.knowing_sets <= 4'd8);
        assert (progress.knowing_sets <= progress.good_sets);
        assert (progress.sent_sets <= 5'd16 && progress.idle_in_a_row <= 3'd4);
        assert (progress.misfits < 2'd2);
        assert (training.state_ends == (progress.columns_in_state == 11'd2047));
        assert (training.round_ends == (progress.columns_since_good == 7'd127));
        // Those of another state are none, and none is at the end behind which the link comes up.
        if (state == PORT_DISABLED || state == PORT_FAILED) assert (progress == '0);
        if (state == PORT_DISABLED) assert (training.now.seen == '0 && far == '0);
        if (state inside {PORT_DISABLED, PORT_CONFIRM, PORT_UP}) assert (!training.now.was_lost);
        if (state == PORT_ALIGN) begin
          assert (progress.good_sets < 4'd8 || training.now.was_lost);
          assert (progress.knowing_sets == '0 && progress.sent_sets == '0);
        end
        if (state == PORT_CONFIRM) begin
          assert (training.now.seen != '0);
          assert (progress.knowing_sets < 4'd8 || progress.sent_sets < 5'd16);
          assert (progress.knowing_sets == '0 || progress.idle_in_a_row < 3'd4);
        end
        if (state == PORT_UP) begin
          assert (progress.good_sets == '0 && progress.knowing_sets == '0);
          assert (progress.sent_sets == '0 && progress.misfits == '0);
          assert (progress.columns_in_state == '0 && progress.columns_since_good == '0);
        end else begin
          assert (progress.errors == '0 && progress.skewed == '0);
          assert (progress.damaged_in_a_row == '0);
        end
        if (!was_disabled) begin
          // Up, from `confirm` only, and once the other end knows this one; until it is lost.
          if (state == PORT_UP && was != PORT_UP) assert (was == PORT_CONFIRM && knew);
          if (state != PORT_UP && was == PORT_UP) assert (lost);
          if (state == PORT_FAILED && was == PORT_UP) assert (lost);
          // It may come up and be lost within a clock.
          assert (!lost || was == PORT_UP || was == PORT_CONFIRM);
          assert (!was_lost_due || state != PORT_UP);
          // Behind a loss it confirms when the other end has seen it.
          assert (!was_held || state != PORT_CONFIRM);
          assert (!was_misfit || state != PORT_UP);
          // The other end stays the same, and a failure stays.
          if (far_before != '0) assert (far == far_before);
          if (was == PORT_FAILED) assert (state == PORT_FAILED);
          assert (session == session_before);
        end
      end
  end
endmodule
