// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_link_sender: whatever commands come, at most RETRY_DATAGRAMS are unacknowledged, each
// new datagram has the next number, nothing that is unacknowledged is lost from the window, and a
// channel never has more in flight than the other end's buffer holds.

module link_sender_properties
  import crosslane_link_pkg::*;
#(
    parameter int unsigned RETRY_DATAGRAMS = 5,
    parameter int unsigned TIME_BITS       = 4
) (
    input logic                    clk,
    input logic                    rst,
    input logic                    comes_up,
    input logic     [         9:0] far_channel_datagrams,
    input logic     [CHANNELS-1:0] queued,
    input logic                    choose,
    input logic                    others,                 // another command goes first
    input logic                    comes,
    input command_t                command
);
  // Channels differ in nothing but their turns: one stands for all.
  localparam int unsigned FOLLOWED = 2;
  logic [TIME_BITS-1:0] now;
  logic take_restart, take_repeat, take_new, takes, restart_due, timed_out;
  logic [2:0] new_channel, timeouts_in_a_row;
  logic [CHANNELS-1:0] new_chosen;
  logic [7:0] oldest, number;
  logic [6:0] unacknowledged;
  logic [CHANNELS-1:0][9:0] known_freed, credit;
  logic [5:0] commands;
  logic is_untrue, is_unfit;

  // As crosslane_link_end takes them.
  assign take_restart = choose && !others && restart_due;
  assign takes        = choose && !others && !restart_due;
  assign commands     = comes ? 6'd1 << command.operation : '0;

  crosslane_link_sender #(
      .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
      .RETRY_TIMEOUT(6),
      .TIME_BITS(TIME_BITS)
  ) sender (
      .*
  );

  logic is_reset = 1'b0;
  logic was_new, was_reset;
  logic [7:0] next, next_before, oldest_before;
  logic [6:0] unacknowledged_before;
  logic [9:0] in_flight, freed_ahead, freed_before;
  assign next = oldest + 8'(unacknowledged);
  assign in_flight = sender.sent[FOLLOWED] - sender.freed[FOLLOWED];
  assign freed_ahead = sender.freed[FOLLOWED] - freed_before;

  always_ff @(posedge clk) begin
    is_reset <= 1'b1;
    was_reset <= rst;
    was_new <= take_new;
    next_before <= next;
    oldest_before <= oldest;
    unacknowledged_before <= unacknowledged;
    freed_before <= sender.freed[FOLLOWED];
    now <= now + 1'b1;
    if (rst) now <= '0;
  end

  always_comb begin
    if (!is_reset) begin
      assume (rst);
    end else begin
      assume (far_channel_datagrams <= 10'd512);
      // A link that comes up again has the same buffers at its other end.
      if (sender.far != '0) assume (!comes_up || far_channel_datagrams == sender.far);
      assume (!(comes_up && choose) && !(comes_up && comes));
      assume (command.operation >= OPERATION_ACK && command.operation <= OPERATION_CONFIRM);

      assert (sender.far <= 10'd512);
      assert (unacknowledged <= 7'(RETRY_DATAGRAMS));
      assert (sender.repeat_at <= unacknowledged);
      assert (in_flight <= sender.far);
      assert (sender.left[FOLLOWED] == 11'(sender.far) - 11'(in_flight));
      assert (in_flight + credit[FOLLOWED] == sender.far);
      assert (sender.has_credit[FOLLOWED] == (in_flight != sender.far));
      if (take_new) assert (number == next && unacknowledged < 7'(RETRY_DATAGRAMS));
      // A datagram that is sent again is in the window.
      if (take_repeat) assert (8'(number - oldest) < 8'(unacknowledged));
      if (take_restart) assert (!take_repeat && !take_new);
      if (!was_reset) begin
        // The next number moves by new datagrams only, the oldest within the window only.
        assert (next == next_before + 8'(was_new));
        assert (8'(oldest - oldest_before) <= 8'(unacknowledged_before) + 8'(was_new));
        // A count is never taken back; it is at most of what has been sent.
        assert (freed_ahead <= sender.far);
      end
      // Time runs only while something is unacknowledged and no RESTART waits.
      assert (!sender.armed || unacknowledged != '0);
    end
  end
endmodule
