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
  logic [9:0] far;
  logic [6:0] repeat_at;  // datagrams of the retry buffer before the next one to be sent again
  logic restart, armed;
  logic [TIME_BITS-1:0] deadline;

  assign known_freed = freed;
  logic unused;
  assign unused = &{1'b0, command.symbol, command.operation};

  // --- Frames that may be sent ---------------------------------------------------------------
  logic [TIME_BITS-1:0] beyond;
  logic [6:0] repeat_now;
  logic [CHANNELS-1:0] has_credit, chosen;
  assign beyond = now - deadline;
  assign timed_out = choose && armed && !beyond[TIME_BITS-1];
  assign repeat_now = timed_out ? '0 : repeat_at;
  assign restart_due = restart || timed_out;
  assign repeat_due = repeat_now < unacknowledged;
  assign new_possible = chosen != '0 && unacknowledged < 7'(RETRY_DATAGRAMS);
  assign number = oldest + 8'(repeat_due ? repeat_now : unacknowledged);

  always_comb begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      logic [9:0] held;
      held = sent[n] - freed[n];
      credit[n] = (far > held) ? far - held : '0;
      has_credit[n] = far > held;
    end
  end

  crosslane_turn #(
      .COUNT(CHANNELS)
  ) turn (
      .clk,
      .rst,
      .valid(queued & has_credit),
      .taken(take_new ? chosen : '0),
      .chosen,
      .index(new_channel)
  );

  // --- Next state ----------------------------------------------------------------------------
  logic [CHANNELS-1:0][9:0] sent_next, freed_next;
  logic [9:0] ahead, in_flight;
  logic [7:0] oldest_next, gone;
  logic [6:0] unacknowledged_next, repeat_next;
  logic restart_next, armed_next, arms, fits, acknowledges;
  logic [2:0] timeouts_next;

  always_comb begin
    sent_next = sent;
    freed_next = freed;
    oldest_next = oldest;
    unacknowledged_next = unacknowledged;
    repeat_next = repeat_now;
    restart_next = restart_due;
    armed_next = armed && !timed_out;
    arms = 1'b0;
    timeouts_next = timeouts_in_a_row;
    stale = '0;
    if (timed_out && timeouts_in_a_row != '1) timeouts_next = timeouts_in_a_row + 1'b1;

    if (take_restart) begin
      restart_next = 1'b0;
      arms = unacknowledged != '0;
    end
    if (take_repeat) begin
      arms = repeat_now == '0;
      repeat_next = repeat_now + 1'b1;
    end
    if (take_new) begin
      arms = unacknowledged == '0;
      sent_next[new_channel] = sent[new_channel] + 1'b1;
      unacknowledged_next = unacknowledged + 1'b1;
      repeat_next = unacknowledged_next;
    end
    armed_next |= arms;

    ahead = command.count - freed[command.channel];
    in_flight = sent_next[command.channel] - freed[command.channel];
    if (commands != '0 && !commands[OPERATION_CONFIRM]) begin
      if (ahead <= in_flight) freed_next[command.channel] = command.count;
      else stale = 2'd1;
    end
    acknowledges = commands != '0 && !commands[OPERATION_RESTART];
    gone = command.number - oldest;
    fits = gone <= 8'(unacknowledged_next);
    if (acknowledges && !fits) stale = stale + 1'b1;
    if (acknowledges && fits && gone != '0) begin
      oldest_next = command.number;
      unacknowledged_next = unacknowledged_next - 7'(gone);
      repeat_next = (8'(repeat_next) > gone) ? repeat_next - 7'(gone) : '0;
      timeouts_next = '0;
      armed_next = unacknowledged_next != '0 && !restart_next;
      arms = armed_next;
    end
    if ((commands[OPERATION_NACK] && fits) || comes_up) begin
      restart_next = commands[OPERATION_NACK] || unacknowledged_next != '0;
      repeat_next  = '0;
      armed_next   = 1'b0;
    end
    if (comes_up) timeouts_next = '0;
  end

  always_ff @(posedge clk) begin
    sent <= sent_next;
    freed <= freed_next;
    oldest <= oldest_next;
    unacknowledged <= unacknowledged_next;
    repeat_at <= repeat_next;
    restart <= restart_next;
    armed <= armed_next;
    timeouts_in_a_row <= timeouts_next;
    if (arms) deadline <= now + TIME_BITS'(RETRY_TIMEOUT);
    if (comes_up) far <= far_channel_datagrams;
    if (rst) begin
      sent <= '0;
      freed <= '0;
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
