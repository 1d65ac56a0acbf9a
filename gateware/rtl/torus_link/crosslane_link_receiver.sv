// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Order of what is received, acknowledgements and counts of freed buffers (docs/torus-link.md,
// Sequence and retry, Credits). Payloads are in crosslane_link_buffers.
//
// Within a clock a command is chosen and taken first, then arrivals take effect, then a buffer is
// freed.

module crosslane_link_receiver
  import crosslane_link_pkg::*;
#(
    parameter int unsigned CHANNEL_DATAGRAMS     = 64,    // 1 to 512
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 8,     // that one ACK covers at most
    parameter int unsigned ACKNOWLEDGE_WITHIN    = 204,   // clocks
    parameter int unsigned REFRESH               = 1500,  // clocks
    parameter int unsigned TIME_BITS             = 13
) (
    input  logic                          clk,
    input  logic                          rst,
    input  logic     [TIME_BITS-1:0]      now,
    input  logic                          comes_up,
    // Commands that are due. `choose`: a frame is chosen in this clock, `take_*`: it is this one.
    input  logic                          choose,
    input  logic                          take_nack,
    input  logic                          take_restart,
    input  logic                          take_confirm,
    input  logic                          take_count,
    input  logic                          take_ack,
    output logic                          nack_due,
    output logic                          confirm_due,
    output logic                          count_due,
    output logic                          ack_due,
    output logic     [          2:0]      confirm_channel,
    output logic     [          2:0]      count_channel,
    output logic     [          2:0]      tell_channel,     // of any other command
    output logic     [          7:0]      expected,
    output logic                          in_error,
    output logic                          is_settled,
    output logic     [ CHANNELS-1:0][9:0] freed,
    output logic     [ CHANNELS-1:0][9:0] delivered,
    // Arrivals, while the link is up.
    input  arrival_t                      arrival,
    input  logic                          has_room,         // for the datagram that has come
    output logic                          delivers,         // it is in order
    output logic                          is_double,        // counted
    output logic                          is_discarded,     // counted
    output logic                          is_overrun,       // counted
    output logic                          is_stale,         // counted
    // A buffer is freed.
    input  logic                          frees,
    input  logic     [          2:0]      frees_channel
);
  localparam int unsigned URGENT = (CHANNEL_DATAGRAMS >= 4) ? CHANNEL_DATAGRAMS / 4 : 1;
  localparam int unsigned OWED_BITS = $clog2(ACKNOWLEDGE_DATAGRAMS + 1);

  typedef logic [CHANNELS-1:0] set_t;
  set_t untold, urgent, unconfirmed, ask, confirm, ask_armed;
  logic [CHANNELS-1:0][9:0] told;
  logic [CHANNELS-1:0][TIME_BITS-1:0] ask_at;
  logic [TIME_BITS-1:0] nack_at, due_at;
  logic [OWED_BITS-1:0] owed;  // stays at the largest value
  logic nack_pending, nack_armed, at_once, flush, due_armed;
  logic [2:0] turn;

  // The first channel of a set from this one on, by turns; this one if the set is empty.
  function automatic logic [2:0] first_from(set_t members, logic [2:0] from);
    logic [2:0] first;
    first = from;
    for (int n = CHANNELS - 1; n >= 0; n--) begin
      logic [2:0] here;
      here = from + 3'(n);
      if (members[here]) first = here;
    end
    return first;
  endfunction

  // Whether a time has come.
  function automatic logic has_come(logic [TIME_BITS-1:0] at, logic [TIME_BITS-1:0] clock);
    logic [TIME_BITS-1:0] since;
    since = clock - at;
    return !since[TIME_BITS-1];
  endfunction

  // --- Commands that are due -----------------------------------------------------------------
  localparam logic [TIME_BITS-1:0] WITHIN = TIME_BITS'(ACKNOWLEDGE_WITHIN);
  logic pending, due_begins, due_comes, flush_now;
  set_t asked, ask_now;

  assign nack_due = nack_pending || (nack_armed && has_come(nack_at, now));
  assign confirm_due = confirm != '0;
  assign confirm_channel = first_from(confirm, '0);
  assign pending = owed != '0 || untold != '0;
  assign due_begins = pending && !due_armed && !flush;
  assign due_comes = pending && (due_armed ? has_come(due_at, now) : due_begins && WITHIN == '0);
  assign flush_now = flush || due_comes;
  assign ack_due = at_once || flush_now || owed >= OWED_BITS'(ACKNOWLEDGE_DATAGRAMS)
                   || urgent != '0;
  always_comb begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      asked[n] = ask_armed[n] && has_come(ask_at[n], now);
    end
  end
  assign ask_now = ask | asked;
  assign count_due = ask_now != '0;
  assign count_channel = first_from(ask_now, '0);
  assign tell_channel = first_from((urgent != '0) ? urgent : untold, turn);

  // --- Next state ----------------------------------------------------------------------------
  logic [CHANNELS-1:0][9:0] freed_next, delivered_next, told_next;
  set_t untold_next, urgent_next, unconfirmed_next, ask_next, confirm_next, ask_armed_next;
  set_t ask_arms;
  logic [7:0] expected_next, distance, beyond;
  logic [9:0] held, fresh;
  logic [OWED_BITS-1:0] owed_next;
  logic in_error_next, nack_pending_next, nack_armed_next, at_once_next, flush_next;
  logic due_armed_next, due_arms, tells, acknowledges, is_new, is_asked, enters, leaves, owes;
  logic [2:0] turn_next, channel;
  command_t command;
  header_t  header;
  assign command = arrival.word;
  assign header  = arrival.word;
  logic unused;
  assign unused = &{1'b0, command.symbol, header.label};

  always_comb begin
    freed_next = freed;
    delivered_next = delivered;
    told_next = told;
    untold_next = untold;
    urgent_next = urgent;
    unconfirmed_next = unconfirmed;
    confirm_next = confirm;
    ask_next = ask;
    ask_armed_next = ask_armed;
    ask_arms = '0;
    expected_next = expected;
    owed_next = owed;
    in_error_next = in_error;
    nack_pending_next = nack_pending;
    nack_armed_next = nack_armed;
    at_once_next = at_once;
    flush_next = flush;
    due_armed_next = due_armed;
    due_arms = 1'b0;
    turn_next = turn;

    // Time.
    if (choose) begin
      nack_pending_next = nack_due;
      flush_next = flush_now;
      due_armed_next = pending && (due_armed || due_begins) && !due_comes;
      due_arms = due_begins;
      ask_next = ask_now;
      ask_armed_next = ask_armed & ~asked;
    end

    // The command that is sent.
    if (take_nack) begin
      nack_pending_next = 1'b0;
      nack_armed_next   = 1'b1;
    end
    channel = take_count ? count_channel : tell_channel;
    tells = take_nack || take_restart || take_count || take_ack;
    acknowledges = take_nack || take_confirm || take_count || take_ack;
    if (take_confirm) confirm_next[confirm_channel] = 1'b0;
    if (take_count) ask_next[channel] = 1'b0;
    is_new   = untold[channel];
    is_asked = 1'b0;
    if (tells) begin
      if (is_new) begin
        unconfirmed_next[channel] = 1'b1;
        ask_next[channel] = 1'b0;
        turn_next = channel + 1'b1;
      end
      told_next[channel] = freed[channel];
      untold_next[channel] = 1'b0;
      urgent_next[channel] = 1'b0;
      is_asked = !ask_armed_next[channel] && !ask_next[channel];
      if (unconfirmed_next[channel] && (is_new || is_asked)) begin
        ask_arms[channel] = 1'b1;
        ask_armed_next[channel] = 1'b1;
      end
    end
    if (acknowledges) begin
      owed_next = '0;
      at_once_next = 1'b0;
    end
    if (tells || acknowledges) begin
      if (owed_next == '0 && untold_next == '0) begin
        flush_next = 1'b0;
        due_armed_next = 1'b0;
      end else if (!flush_next) begin
        due_armed_next = 1'b1;
        due_arms = 1'b1;
      end
    end

    // Arrivals.
    enters = arrival.broken || arrival.damaged;
    leaves = 1'b0;
    owes = 1'b0;
    delivers = 1'b0;
    is_double = 1'b0;
    is_discarded = 1'b0;
    is_overrun = 1'b0;
    is_stale = 1'b0;
    beyond = command.number - expected;
    distance = header.number - expected;
    if (arrival.datagram) begin
      if (in_error || enters) is_discarded = 1'b1;
      else if (distance[7]) is_double = 1'b1;
      else if (distance != '0) is_discarded = 1'b1;
      else if (!has_room) is_overrun = 1'b1;
      else delivers = 1'b1;
      enters |= (is_discarded || is_overrun);
      owes = is_double || delivers;
    end
    if (delivers) begin
      delivered_next[header.channel] = delivered[header.channel] + 1'b1;
      expected_next = expected + 1'b1;
    end
    if (owes && owed_next != '1) owed_next = owed_next + 1'b1;
    if (arrival.command) begin
      if (command.operation == OPERATION_RESTART) begin
        // Ahead by 1 to 127.
        is_stale = beyond != '0 && !beyond[7];
        leaves   = !is_stale;
      end
      if (command.operation == OPERATION_COUNT) confirm_next[command.channel] = 1'b1;
      if (command.operation == OPERATION_CONFIRM
          && command.count == freed[command.channel] && !untold_next[command.channel]) begin
        unconfirmed_next[command.channel] = 1'b0;
        ask_next[command.channel] = 1'b0;
        ask_armed_next[command.channel] = 1'b0;
      end
    end
    if (enters && !in_error) begin
      in_error_next = 1'b1;
      nack_pending_next = 1'b1;
    end
    if (leaves) at_once_next = 1'b1;
    if (leaves || comes_up) begin
      in_error_next = 1'b0;
      nack_pending_next = 1'b0;
      nack_armed_next = 1'b0;
    end

    // A buffer is freed.
    held  = freed[frees_channel] + 1'b1;
    fresh = held - told_next[frees_channel];
    if (frees) begin
      freed_next[frees_channel]  = held;
      untold_next[frees_channel] = 1'b1;
      if (fresh >= 10'(URGENT)) urgent_next[frees_channel] = 1'b1;
    end

    if (comes_up) begin
      at_once_next = 1'b0;
      untold_next |= unconfirmed;
      flush_next = untold_next != '0;
      due_armed_next = 1'b0;
      ask_next = '0;
      ask_armed_next = '0;
      confirm_next = '0;
    end
  end

  assign is_settled = !in_error && owed == '0 && !at_once && untold == '0 && unconfirmed == '0
                      && confirm == '0;

  always_ff @(posedge clk) begin
    freed <= freed_next;
    delivered <= delivered_next;
    told <= told_next;
    untold <= untold_next;
    urgent <= urgent_next;
    unconfirmed <= unconfirmed_next;
    confirm <= confirm_next;
    ask <= ask_next;
    ask_armed <= ask_armed_next;
    expected <= expected_next;
    owed <= owed_next;
    in_error <= in_error_next;
    nack_pending <= nack_pending_next;
    nack_armed <= nack_armed_next;
    at_once <= at_once_next;
    flush <= flush_next;
    due_armed <= due_armed_next;
    turn <= turn_next;
    if (take_nack) nack_at <= now + TIME_BITS'(REFRESH);
    if (due_arms) due_at <= now + WITHIN;
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      if (ask_arms[n]) ask_at[n] <= now + TIME_BITS'(REFRESH);
    end
    if (rst) begin
      freed <= '0;
      delivered <= '0;
      told <= '0;
      untold <= '0;
      urgent <= '0;
      unconfirmed <= '0;
      confirm <= '0;
      ask <= '0;
      ask_armed <= '0;
      expected <= '0;
      owed <= '0;
      in_error <= 1'b0;
      nack_pending <= 1'b0;
      nack_armed <= 1'b0;
      at_once <= 1'b0;
      flush <= 1'b0;
      due_armed <= 1'b0;
      turn <= '0;
    end
  end

`ifndef SYNTHESIS
  if (CHANNEL_DATAGRAMS < 1 || CHANNEL_DATAGRAMS > 512) begin : g_channel
    $error("CHANNEL_DATAGRAMS is 1 to 512");
  end
  if (ACKNOWLEDGE_DATAGRAMS < 1) begin : g_acknowledge
    $error("ACKNOWLEDGE_DATAGRAMS is at least 1");
  end
`endif
endmodule
