// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// An end of a torus link without its receive buffers: all of crosslane_link_end but the memory of
// what has come. Whoever keeps the datagrams gets their beats as they come, and is told which are
// delivered. Read first: docs/torus-link.md. Times are in clocks, a clock for each column.

module crosslane_link_core
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES = 8,  // 1, 4 or 8
    parameter int unsigned CHANNEL_DATAGRAMS = 64,  // receive buffers: power of two, 2 to 512
    parameter int unsigned QUEUE_DATAGRAMS = 2,  // of each channel: a power of two, from 2
    parameter int unsigned RETRY_DATAGRAMS = 32,  // sent and not acknowledged, 1 to 127
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 8,  // that one ACK covers at most
    parameter int unsigned ACKNOWLEDGE_WITHIN = 204,  // longest wait of an ACK or a count
    parameter int unsigned RETRY_TIMEOUT = 918,  // until datagrams are sent again
    parameter int unsigned REFRESH = 1598,  // until COUNT and, at most, NACK are repeated
    parameter bit STEADY = 1'b0,  // as in crosslane_link_transmit
    parameter bit LONG = 1'b0,  // datagrams carry 256 B, not 128 B
    localparam int unsigned BEAT_BITS = $clog2(payload_bytes(LONG) / LANES)
) (
    input logic clk,
    input logic rst,  // forgets everything
    input logic counters_rst,
    // Of the lanes: trained, with receive buffers there of this number of datagrams.
    input logic link_up,
    input logic [9:0] far_channel_datagrams,
    // Datagrams to send: 128 B each, or 256 B; their label beside the first beat.
    input logic s_valid,
    output logic s_ready,
    input logic [2:0] s_channel,
    input label_t s_label,
    input logic [8*LANES-1:0] s_data,
    output logic [CHANNELS-1:0] room,  // channels that take one
    output logic [CHANNELS-1:0] room_more,  // that take two
    // Datagrams as they come: beats of the payload beside their header. `has_room`: its channel has
    // a place for the datagram of the last beats. `delivers`, a pulse: it is in order, and counts.
    output header_t header,
    output logic beat_valid,
    output logic [BEAT_BITS-1:0] beat_index,
    output logic [8*LANES-1:0] beat_data,
    input logic has_room,
    output logic delivers,
    output logic [CHANNELS-1:0][9:0] delivered,  // of each channel, modulo 1,024
    output logic [CHANNELS-1:0][9:0] freed,
    input logic frees,  // a place of this channel is free
    input logic [2:0] frees_channel,
    // Columns to send; `tx_begins` at the first of a frame and if idle.
    input logic tx_ready,
    output logic [LANES-1:0][7:0] tx_symbols,
    output logic [LANES-1:0] tx_control,
    output logic tx_begins,
    // Columns received, and what they ended, a clock later.
    input logic rx_restart,  // hunts for the next frame
    input logic rx_valid,
    input logic [LANES-1:0][7:0] rx_symbols,
    input logic [LANES-1:0] rx_control,
    input logic [LANES-1:0] rx_error,
    output link_events_t rx_events,
    output training_set_t rx_set,
    // State and counters.
    output logic in_error,  // waits for a RESTART
    output logic is_settled,  // nothing to send, ever
    output logic [6:0] unacknowledged,
    output logic [7:0] expected,
    output logic [2:0] timeouts_in_a_row,  // 7: or more
    output logic [CHANNELS-1:0][9:0] credit,
    output link_counters_t counters
);
  function automatic int unsigned largest(int unsigned a, int unsigned b);
    return (a > b) ? a : b;
  endfunction
  // Times are compared by the sign of their difference; a frame may make one late.
  localparam int unsigned LONGEST = largest(
      largest(RETRY_TIMEOUT, REFRESH), largest(ACKNOWLEDGE_WITHIN, 4096)
  );
  localparam int unsigned TIME_BITS = $clog2(LONGEST + 1) + 1;

  // The number of one channel, which has a bit.
  function automatic logic [9:0] of_channel(logic [CHANNELS-1:0][9:0] numbers,
                                            logic [CHANNELS-1:0] which);
    logic [9:0] number_of;
    number_of = '0;
    for (int unsigned n = 0; n < CHANNELS; n++) if (which[n]) number_of |= numbers[n];
    return number_of;
  endfunction

  logic [TIME_BITS-1:0] now;
  logic is_up, comes_up;
  assign comes_up = link_up && !is_up;
  always_ff @(posedge clk) begin
    now   <= now + 1'b1;
    is_up <= link_up;
    if (rst) begin
      now   <= '0;
      is_up <= 1'b0;
    end
  end

  // --- Arrivals ------------------------------------------------------------------------------
  arrival_t found, arrival;
  command_t come;
  logic [5:0] commands;

  crosslane_link_deframe #(
      .LANES(LANES),
      .LONG (LONG)
  ) deframe (
      .clk,
      .rst,
      .restart(rx_restart),
      .valid  (rx_valid),
      .symbols(rx_symbols),
      .control(rx_control),
      .error  (rx_error),
      .arrival(found),
      .events (rx_events),
      .set    (rx_set),
      .beat_valid,
      .beat_index,
      .beat_data
  );

  // Frames that come while the link is down are ignored. A bad training set may have been a frame.
  always_comb begin
    arrival = found;
    arrival.damaged |= rx_events.set_bad;
    arrival.broken &= is_up;
    arrival.damaged &= is_up;
    arrival.command &= is_up;
    arrival.datagram &= is_up;
  end
  assign header = arrival.word;
  assign come = arrival.word;
  assign commands = arrival.command ? 6'd1 << come.operation : '0;

  // --- The next frame ------------------------------------------------------------------------
  logic boundary, choose, restart_due, command_due, takes, submits, timed_out;
  logic take_command, take_restart, take_repeat, take_new;
  operation_e operation;
  logic restart_first;
  logic [CHANNELS-1:0] channel, to_confirm;  // a bit each
  logic [2:0] new_channel;
  logic [CHANNELS-1:0] new_chosen;
  logic [7:0] oldest, number;
  logic [CHANNELS-1:0] queued;
  logic [CHANNELS-1:0][9:0] known_freed, told;
  command_t command;

  assign choose = boundary && is_up;
  assign take_command = choose && command_due;
  assign take_restart = choose && restart_first;
  assign takes = choose && !command_due;

  // A command that is sent has the count that is then told, or that was known for a CONFIRM: it is
  // looked up a clock later.
  operation_e sent_operation;
  logic [CHANNELS-1:0] sent_channel;
  logic [7:0] sent_number;
  logic [9:0] confirmed;
  always_ff @(posedge clk) begin
    if (take_command) begin
      sent_operation <= operation;
      sent_channel <= channel;
      sent_number <= (operation == OPERATION_RESTART) ? oldest : expected;
      confirmed <= of_channel(known_freed, to_confirm);
    end
  end
  always_comb begin
    command = '{
        symbol: K_COMMAND,
        operation: sent_operation,
        number: sent_number,
        channel: '0,
        count: (sent_operation == OPERATION_CONFIRM) ? confirmed : of_channel(told, sent_channel)
    };
    for (int unsigned n = 0; n < CHANNELS; n++) if (sent_channel[n]) command.channel |= 3'(n);
  end

  crosslane_link_transmit #(
      .LANES(LANES),
      .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
      .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
      .STEADY(STEADY),
      .LONG(LONG)
  ) transmit (
      .send_command(take_command),
      .send_repeat (take_repeat),
      .send_new    (take_new),
      .*
  );

  logic unused;
  assign unused = submits;

  // --- State ---------------------------------------------------------------------------------
  logic is_double, is_discarded, is_overrun, is_stale, is_receiver_settled;
  logic is_untrue, is_unfit;

  crosslane_link_sender #(
      .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
      .RETRY_TIMEOUT(RETRY_TIMEOUT),
      .TIME_BITS(TIME_BITS)
  ) sender (
      .command(come),
      .*
  );

  crosslane_link_receiver #(
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
      .ACKNOWLEDGE_WITHIN(ACKNOWLEDGE_WITHIN),
      .REFRESH(REFRESH),
      .TIME_BITS(TIME_BITS)
  ) receiver (
      .is_settled(is_receiver_settled),
      .*
  );
  assign is_settled = is_receiver_settled && unacknowledged == '0 && queued == '0 && !restart_due;

  // --- Counters ------------------------------------------------------------------------------
  // A count behind two events that may come in one clock: both sums are made beside them.
  function automatic logic [31:0] counted(logic [31:0] count, logic a, logic b);
    logic [31:0] one_more, two_more;
    one_more = count + 1'b1;
    two_more = {count[31:1] + 1'b1, count[0]};
    if (a && b) return two_more;
    return (a || b) ? one_more : count;
  endfunction

  always_ff @(posedge clk) begin
    counters.sent <= counters.sent + 32'(take_new);
    counters.delivered <= counters.delivered + 32'(delivers);
    counters.repeated <= counters.repeated + 32'(take_repeat);
    counters.damaged <= counted(counters.damaged, arrival.broken, arrival.damaged);
    counters.nacks <= counters.nacks + 32'(take_command && operation == OPERATION_NACK);
    counters.restarts <= counters.restarts + 32'(take_restart);
    counters.timeouts <= counters.timeouts + 32'(timed_out);
    counters.trainings <= counters.trainings + 32'(comes_up);
    counters.commands <= counters.commands + 32'(take_command);
    counters.doubles <= counters.doubles + 32'(is_double);
    counters.discarded <= counters.discarded + 32'(is_discarded);
    counters.stale <= counted(counters.stale, is_untrue, is_unfit || is_stale);
    counters.overruns <= counters.overruns + 32'(is_overrun);
    if (counters_rst) counters <= '0;
  end

`ifndef SYNTHESIS
  if (RETRY_TIMEOUT <= ACKNOWLEDGE_WITHIN) begin : g_timeout
    $error("RETRY_TIMEOUT is more than ACKNOWLEDGE_WITHIN, for which an ACK may wait");
  end
  if (REFRESH < 4) begin : g_refresh
    $error("REFRESH is at least 4: NACK is repeated after a quarter of it");
  end
`endif
endmodule
