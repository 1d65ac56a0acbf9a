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
    input  logic                          clk,
    input  logic                          rst,
    input  logic     [TIME_BITS-1:0]      now,
    // The link comes up: unacknowledged datagrams are sent again.
    input  logic                          comes_up,
    input  logic     [          9:0]      far_channel_datagrams,  // to 512
    // Channels that have a datagram in their queue.
    input  logic     [ CHANNELS-1:0]      queued,
    // Frames that may be sent now. `choose`: a frame is chosen in this clock, `take_*`: it is this one.
    input  logic                          choose,
    input  logic                          take_restart,
    input  logic                          take_repeat,
    input  logic                          take_new,
    output logic                          restart_due,
    output logic                          repeat_due,
    output logic                          new_possible,
    output logic     [          2:0]      new_channel,
    output logic     [ CHANNELS-1:0]      new_chosen,             // the same, a bit each
    output logic     [          7:0]      oldest,
    output logic     [          7:0]      number,                 // of the datagram to send
    output logic     [          6:0]      unacknowledged,
    output logic     [          2:0]      timeouts_in_a_row,      // 7: or more
    output logic     [ CHANNELS-1:0][9:0] known_freed,
    output logic     [ CHANNELS-1:0][9:0] credit,
    // A command from the other end. `commands`: which one, if any, bit n for operation n.
    input  logic     [          5:0]      commands,
    input  command_t                      command,
    output logic                          timed_out,              // counted
    output logic     [          1:0]      stale                   // counted
);
  logic [CHANNELS-1:0][9:0] sent, freed;
  // Credit of each channel, kept as such. Negative if the other end's buffers have become smaller.
  logic [CHANNELS-1:0][10:0] left;
  logic [9:0] far;
  logic [6:0] repeat_at;  // datagrams of the retry buffer before the next one to be sent again
  logic restart, armed, came;
  logic [TIME_BITS-1:0] deadline, beyond;

  assign known_freed = freed;
  logic unused;
  assign unused = &{1'b0, command.symbol, command.operation, beyond[TIME_BITS-2:0]};

  // --- Frames that may be sent ---------------------------------------------------------------
  logic is_late;
  logic [CHANNELS-1:0] has_credit;
  assign is_late = armed && came;
  assign timed_out = choose && is_late;
  assign restart_due = restart || is_late;
  assign repeat_due = repeat_at < unacknowledged;  // all of it, behind the RESTART of a time-out
  assign new_possible = (queued & has_credit) != '0 && unacknowledged < 7'(RETRY_DATAGRAMS);
  assign number = oldest + 8'(repeat_due ? repeat_at : unacknowledged);

  always_comb begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      credit[n] = left[n][10] ? '0 : left[n][9:0];
      has_credit[n] = !left[n][10] && left[n][9:0] != '0;
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
  // A command is looked at beside the frame that is taken, for both cases: that it is a new datagram,
  // and that it is not.
  logic [9:0] ahead, in_flight;
  logic [7:0] gone;
  logic [6:0] unacknowledged_next, repeat_next;
  logic restart_next, armed_next, arms, fits, fits_new, is_all, is_sent, acknowledges, advances;
  logic [2:0] timeouts_next;

  function automatic logic [6:0] less(logic [6:0] from, logic [7:0] by);
    return (8'(from) > by) ? from - 7'(by) : '0;
  endfunction

  assign ahead = command.count - freed[command.channel];
  assign in_flight = sent[command.channel] - freed[command.channel];
  assign is_sent = ahead <= in_flight
                   || (ahead == in_flight + 1'b1 && take_new && new_chosen[command.channel]);
  assign acknowledges = commands != '0 && !commands[OPERATION_RESTART];
  assign gone = command.number - oldest;
  assign fits_new = gone == 8'(unacknowledged) + 1'b1;
  assign fits = gone <= 8'(unacknowledged) || (fits_new && take_new);
  assign is_all = take_new ? fits_new : gone == 8'(unacknowledged);
  assign advances = acknowledges && fits && gone != '0;

  always_comb begin
    stale = '0;
    if (commands != '0 && !commands[OPERATION_CONFIRM] && !is_sent) stale = 2'd1;
    if (acknowledges && !fits) stale = stale + 1'b1;

    restart_next = (restart || timed_out) && !take_restart;
    arms = (take_restart && unacknowledged != '0) || (take_repeat && repeat_at == '0)
           || (take_new && unacknowledged == '0);
    armed_next = (armed && !timed_out) || arms;
    timeouts_next = timeouts_in_a_row;
    if (timed_out && timeouts_in_a_row != '1) timeouts_next = timeouts_in_a_row + 1'b1;
    unacknowledged_next = take_new ? unacknowledged + 1'b1 : unacknowledged;
    repeat_next = repeat_at;
    if (take_repeat) repeat_next = repeat_at + 1'b1;
    if (take_new) repeat_next = unacknowledged + 1'b1;

    if (advances) begin
      unacknowledged_next = take_new ? unacknowledged + 1'b1 - 7'(gone) : unacknowledged - 7'(gone);
      repeat_next = less(repeat_at, gone);
      if (take_repeat) repeat_next = less(repeat_at + 1'b1, gone);
      if (take_new) repeat_next = unacknowledged + 1'b1 - 7'(gone);
      timeouts_next = '0;
      armed_next = !is_all && !restart_next;
      arms = armed_next;
    end
    if (timed_out) repeat_next = '0;
    if (commands[OPERATION_NACK] && fits) begin
      restart_next = 1'b1;
      repeat_next  = '0;
      armed_next   = 1'b0;
    end
    // Neither has a frame been sent or come in this clock.
    if (comes_up) begin
      restart_next = unacknowledged != '0;
      repeat_next = '0;
      armed_next = 1'b0;
      timeouts_next = '0;
    end
  end

  // Credit of the command's channel behind it, for both cases.
  logic [10:0] left_freed;
  logic frees_some;
  assign left_freed = left[command.channel] + 11'(ahead);
  assign frees_some = commands != '0 && !commands[OPERATION_CONFIRM] && is_sent;

  // Whether the time has come is worked out a clock ahead.
  assign beyond = now + 1'b1 - deadline;
  always_ff @(posedge clk) begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      if (take_new && new_chosen[n]) sent[n] <= sent[n] + 1'b1;
      if (take_new && new_chosen[n]) left[n] <= left[n] - 1'b1;
      if (frees_some && command.channel == 3'(n)) begin
        freed[n] <= command.count;
        left[n]  <= (take_new && new_chosen[n]) ? left_freed - 1'b1 : left_freed;
      end
      // Neither has a frame been sent or come in this clock.
      if (comes_up) left[n] <= left[n] + 11'(far_channel_datagrams) - 11'(far);
    end
    if (advances) oldest <= command.number;
    unacknowledged <= unacknowledged_next;
    repeat_at <= repeat_next;
    restart <= restart_next;
    armed <= armed_next;
    timeouts_in_a_row <= timeouts_next;
    came <= arms ? RETRY_TIMEOUT == 1 : !beyond[TIME_BITS-1];
    if (arms) deadline <= now + TIME_BITS'(RETRY_TIMEOUT);
    if (comes_up) far <= far_channel_datagrams;
    if (rst) begin
      sent <= '0;
      freed <= '0;
      left <= '0;
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
