// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Sequence numbers, the retry buffer's window and credits of the datagrams that are sent
// (docs/torus-link.md, Sequence and retry, Credits). Datagrams themselves are in
// crosslane_link_transmit.
//
// Within a clock a frame is chosen and taken first, then a command that has come takes effect.

module crosslane_link_sender
  import crosslane_link_pkg::*;
#(
    parameter int unsigned RETRY_DATAGRAMS = 32,   // sent and not acknowledged, 1 to 127
    parameter int unsigned RETRY_TIMEOUT   = 400,  // clocks
    parameter int unsigned TIME_BITS       = 12
) (
    input logic clk,
    input logic rst,
    input logic [TIME_BITS-1:0] now,
    // The link comes up: unacknowledged datagrams are sent again.
    input logic comes_up,
    input logic [9:0] far_channel_datagrams,  // to 512
    // Channels that have a datagram in their queue.
    input logic [CHANNELS-1:0] queued,
    // Frames that may be sent now. `choose`: a frame is chosen in this clock; `takes`: it is a
    // datagram, if there is one. `take_*`: it is this one.
    input logic choose,
    input logic take_restart,
    input logic takes,
    output logic restart_due,
    output logic take_repeat,
    output logic take_new,
    output logic [2:0] new_channel,
    output logic [CHANNELS-1:0] new_chosen,  // the same, a bit each
    output logic [7:0] oldest,
    output logic [7:0] number,  // of the datagram to send
    output logic [6:0] unacknowledged,
    output logic [2:0] timeouts_in_a_row,  // 7: or more
    output logic [CHANNELS-1:0][9:0] known_freed,
    output logic [CHANNELS-1:0][9:0] credit,
    // A command from the other end. `commands`: which one, if any, bit n for operation n.
    input logic [5:0] commands,
    input command_t command,
    output logic timed_out,  // counted
    output logic is_untrue,  // counted: a count beyond what was sent
    output logic is_unfit  // counted: so is a number
);
  logic [CHANNELS-1:0][9:0] sent, freed;
  // Credit of each channel, kept as such, and whether there is some. Negative if the other end's
  // buffers have become smaller.
  typedef logic [10:0] left_t;
  left_t [CHANNELS-1:0] left, left_up;
  logic [CHANNELS-1:0] has_credit;
  logic [9:0] far;
  logic [6:0] repeat_at;  // datagrams of the retry buffer before the next one to be sent again
  logic restart, armed, came;
  logic [TIME_BITS-1:0] deadline, beyond;

  assign known_freed = freed;
  logic unused;
  assign unused = &{1'b0, command.symbol, command.operation, beyond[TIME_BITS-2:0]};

  // --- Frames that may be sent ---------------------------------------------------------------
  logic is_late, repeat_due, new_possible;
  assign is_late = armed && came;
  assign take_repeat = takes && repeat_due;
  assign take_new = takes && !repeat_due && new_possible;
  assign timed_out = choose && is_late;
  assign restart_due = restart || is_late;
  assign repeat_due = repeat_at < unacknowledged;  // all of it, behind the RESTART of a time-out
  assign new_possible = (queued & has_credit) != '0 && unacknowledged < 7'(RETRY_DATAGRAMS);
  assign number = oldest + 8'(repeat_due ? repeat_at : unacknowledged);

  always_comb begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      credit[n]  = left[n][10] ? '0 : left[n][9:0];
      left_up[n] = left[n] + 11'(far_channel_datagrams) - 11'(far);
    end
  end

  crosslane_turn #(
      .COUNT(CHANNELS)
  ) turn (
      .clk,
      .rst,
      .valid (queued & has_credit),
      .taken (take_new ? new_chosen : '0),
      .chosen(new_chosen),
      .index (new_channel)
  );

  // --- Next state ----------------------------------------------------------------------------
  // A command that has come is looked at beside the frame that is taken, for both cases: that the
  // turn is that of datagrams, which is known late, and that it is not.
  typedef struct packed {
    logic                 advances;
    logic                 frees;
    logic                 is_untrue;
    logic                 is_unfit;
    logic                 restart;
    logic                 armed;
    logic                 arms;
    logic [2:0]           timeouts;
    logic [6:0]           unacknowledged;
    logic [6:0]           repeat_at;
    left_t [CHANNELS-1:0] left;
    logic [CHANNELS-1:0]  has_credit;
  } next_t;
  next_t [1:0] both;
  next_t next;
  logic [9:0] ahead, in_flight;
  left_t left_freed;
  logic [7:0] gone;
  logic acknowledges;

  function automatic logic [6:0] less(logic [6:0] from, logic [7:0] by);
    return (8'(from) > by) ? from - 7'(by) : '0;
  endfunction

  // Whether some credit is left, behind a datagram that is sent.
  function automatic logic has_some(left_t of_channel, logic is_taken);
    return !of_channel[10] && (of_channel[9:1] != '0 || (of_channel[0] && !is_taken));
  endfunction

  assign ahead = command.count - freed[command.channel];
  assign in_flight = sent[command.channel] - freed[command.channel];
  assign left_freed = left[command.channel] + 11'(ahead);
  assign acknowledges = commands != '0 && !commands[OPERATION_RESTART];
  assign gone = command.number - oldest;

  always_comb begin
    for (int unsigned c = 0; c < 2; c++) begin
      next_t it;
      logic is_new, is_repeat, is_sent, fits, is_all;
      logic [6:0] window, again;
      is_new = c == 1 && !repeat_due && new_possible;
      is_repeat = c == 1 && repeat_due;
      window = is_new ? unacknowledged + 1'b1 : unacknowledged;
      again = is_repeat ? repeat_at + 1'b1 : is_new ? window : repeat_at;

      is_sent = ahead <= in_flight
                || (ahead == in_flight + 1'b1 && is_new && new_chosen[command.channel]);
      fits = gone <= 8'(unacknowledged) || (gone == 8'(unacknowledged) + 1'b1 && is_new);
      is_all = gone == 8'(unacknowledged) + 8'(is_new);
      it.advances = acknowledges && fits && gone != '0;
      it.frees = commands != '0 && !commands[OPERATION_CONFIRM] && is_sent;
      it.is_untrue = commands != '0 && !commands[OPERATION_CONFIRM] && !is_sent;
      it.is_unfit = acknowledges && !fits;

      it.restart = (restart || timed_out) && !take_restart;
      it.arms = (take_restart && unacknowledged != '0) || (is_repeat && repeat_at == '0)
                || (is_new && unacknowledged == '0);
      it.armed = (armed && !timed_out) || it.arms;
      it.timeouts = timeouts_in_a_row;
      if (timed_out && timeouts_in_a_row != '1) it.timeouts = timeouts_in_a_row + 1'b1;
      it.unacknowledged = window;
      it.repeat_at = again;
      if (it.advances) begin
        it.unacknowledged = window - 7'(gone);
        it.repeat_at = less(again, gone);
        it.timeouts = '0;
        it.armed = !is_all && !it.restart;
        it.arms = it.armed;
      end
      if (timed_out) it.repeat_at = '0;
      if (commands[OPERATION_NACK] && fits) begin
        it.restart   = 1'b1;
        it.repeat_at = '0;
        it.armed     = 1'b0;
      end
      // Neither has a frame been sent or come in this clock.
      if (comes_up) begin
        it.restart = unacknowledged != '0;
        it.repeat_at = '0;
        it.armed = 1'b0;
        it.timeouts = '0;
      end

      for (int unsigned n = 0; n < CHANNELS; n++) begin
        logic is_taken;
        is_taken = is_new && new_chosen[n];
        it.left[n] = is_taken ? left[n] - 1'b1 : left[n];
        it.has_credit[n] = has_some(left[n], is_taken);
        if (it.frees && command.channel == 3'(n)) begin
          it.left[n] = is_taken ? left_freed - 1'b1 : left_freed;
          it.has_credit[n] = has_some(left_freed, is_taken);
        end
        if (comes_up) begin
          it.left[n] = left_up[n];
          it.has_credit[n] = has_some(left_up[n], 1'b0);
        end
      end
      both[c] = it;
    end
    next = both[takes];
  end
  assign is_untrue = next.is_untrue;
  assign is_unfit = next.is_unfit;

  // Whether the time has come is worked out a clock ahead.
  assign beyond = now + 1'b1 - deadline;
  always_ff @(posedge clk) begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      if (take_new && new_chosen[n]) sent[n] <= sent[n] + 1'b1;
      if (next.frees && command.channel == 3'(n)) freed[n] <= command.count;
    end
    left <= next.left;
    has_credit <= next.has_credit;
    if (next.advances) oldest <= command.number;
    unacknowledged <= next.unacknowledged;
    repeat_at <= next.repeat_at;
    restart <= next.restart;
    armed <= next.armed;
    timeouts_in_a_row <= next.timeouts;
    came <= next.arms ? RETRY_TIMEOUT == 1 : !beyond[TIME_BITS-1];
    if (next.arms) deadline <= now + TIME_BITS'(RETRY_TIMEOUT);
    if (comes_up) far <= far_channel_datagrams;
    if (rst) begin
      sent <= '0;
      freed <= '0;
      left <= '0;
      has_credit <= '0;
      oldest <= '0;
      unacknowledged <= '0;
      repeat_at <= '0;
      restart <= 1'b0;
      armed <= 1'b0;
      timeouts_in_a_row <= '0;
      far <= '0;
    end
  end

`ifndef SYNTHESIS
  if (RETRY_DATAGRAMS < 1 || RETRY_DATAGRAMS > 127) begin : g_retry
    $error("RETRY_DATAGRAMS is 1 to 127");
  end
`endif
endmodule
