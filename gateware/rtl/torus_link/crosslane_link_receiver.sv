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
    parameter int unsigned REFRESH               = 1500,  // clocks, at least 4
    parameter int unsigned TIME_BITS             = 13
) (
    input  logic                            clk,
    input  logic                            rst,
    input  logic       [TIME_BITS-1:0]      now,
    input  logic                            comes_up,
    // `choose`: a frame is chosen in this clock, a command if one is due: the first of NACK, RESTART
    // (`restart_due`, of the sender), CONFIRM, COUNT and ACK.
    input  logic                            choose,
    input  logic                            restart_due,
    output logic                            command_due,
    output logic                            restart_first,  // a command is due, and it is RESTART
    output operation_e                      operation,
    output logic       [ CHANNELS-1:0]      channel,        // that it is about, a bit each
    output logic       [ CHANNELS-1:0]      to_confirm,     // the same of a CONFIRM
    output logic       [ CHANNELS-1:0][9:0] told,           // count that each channel was told
    output logic       [          7:0]      expected,
    output logic                            in_error,
    output logic                            is_settled,
    output logic       [ CHANNELS-1:0][9:0] freed,
    output logic       [ CHANNELS-1:0][9:0] delivered,
    // Arrivals, while the link is up.
    input  arrival_t                        arrival,
    input  logic                            has_room,       // for the datagram that has come
    output logic                            delivers,       // it is in order
    output logic                            is_double,      // counted
    output logic                            is_discarded,   // counted
    output logic                            is_overrun,     // counted
    output logic                            is_stale,       // counted
    // A buffer is freed.
    input  logic                            frees,
    input  logic       [          2:0]      frees_channel
);
  localparam int unsigned URGENT = (CHANNEL_DATAGRAMS >= 4) ? CHANNEL_DATAGRAMS / 4 : 1;
  localparam int unsigned OWED_BITS = $clog2(ACKNOWLEDGE_DATAGRAMS + 1);

  typedef logic [CHANNELS-1:0] set_t;
  set_t untold, urgent, unconfirmed, ask, confirm, ask_armed, ask_came;
  logic [CHANNELS-1:0][TIME_BITS-1:0] ask_at;
  logic [TIME_BITS-1:0] nack_at, due_at, soon, nack_wait;
  logic [1:0] nacks;  // since the other end answered with RESTART, 2 or more
  logic [OWED_BITS-1:0] owed;  // stays at the largest value
  logic nack_pending, nack_armed, nack_came, at_once, flush, due_armed, due_came;
  set_t turns;  // the channel whose turn it is, and those behind it; none of them: channel 0

  // The first channel of a set, if any.
  function automatic set_t lowest(set_t members);
    set_t first;
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      first[n] = members[n] && (members & set_t'((1 << n) - 1)) == '0;
    end
    return first;
  endfunction

  // Of a set those whose turn comes first, or all.
  function automatic set_t in_turn(set_t members, set_t now_on);
    return ((members & now_on) != '0) ? members & now_on : members;
  endfunction

  // Channels behind one of a set, or more.
  function automatic set_t behind(set_t members);
    set_t some;
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      some[n] = (members & set_t'((1 << n) - 1)) != '0;
    end
    return some;
  endfunction

  // Whether a time has come.
  function automatic logic has_come(logic [TIME_BITS-1:0] at, logic [TIME_BITS-1:0] clock);
    logic [TIME_BITS-1:0] since;
    since = clock - at;
    return !since[TIME_BITS-1];
  endfunction

  // A NACK is repeated after a quarter of REFRESH, then half of it, then REFRESH.
  always_comb begin
    nack_wait = TIME_BITS'(REFRESH / 4);
    if (nacks[0]) nack_wait = TIME_BITS'(REFRESH / 2);
    if (nacks[1]) nack_wait = TIME_BITS'(REFRESH);
  end

  // --- Commands that are due -----------------------------------------------------------------
  localparam logic [TIME_BITS-1:0] WITHIN = TIME_BITS'(ACKNOWLEDGE_WITHIN);
  logic nack_due, ack_due, due_begins, due_comes, flush_now;
  logic is_nack, is_restart, is_confirm, is_count;
  set_t asked, ask_now, first_asked, next_told, whose_turn, tell_channel, told_channel;

  assign nack_due = nack_pending || (nack_armed && nack_came);
  // While it is armed something is owed or untold.
  assign due_begins = (owed != '0 || untold != '0) && !due_armed && !flush;
  assign due_comes = due_armed ? due_came : due_begins && WITHIN == '0;
  assign flush_now = flush || due_comes;
  assign ack_due = at_once || flush_now || owed >= OWED_BITS'(ACKNOWLEDGE_DATAGRAMS)
                   || urgent != '0;
  assign asked = ask_armed & ask_came;
  assign ask_now = ask | asked;

  assign is_nack = nack_due;
  assign is_restart = restart_due && !nack_due;
  assign restart_first = is_restart;
  assign is_confirm = confirm != '0 && !nack_due && !restart_due;
  assign is_count = ask_now != '0 && confirm == '0 && !nack_due && !restart_due;
  assign command_due = nack_due || restart_due || confirm != '0 || ask_now != '0 || ack_due;
  always_comb begin
    operation = OPERATION_ACK;
    if (is_nack) operation = OPERATION_NACK;
    if (is_restart) operation = OPERATION_RESTART;
    if (is_confirm) operation = OPERATION_CONFIRM;
    if (is_count) operation = OPERATION_COUNT;
  end

  // Those that are urgent are untold, too. If there is none, the one whose turn it is.
  assign next_told   = (urgent != '0) ? in_turn(urgent, turns) : in_turn(untold, turns);
  assign first_asked = lowest(ask_now);
  assign whose_turn  = turns & ~(turns << 1) | set_t'(!turns[CHANNELS-1]);
  // The lowest of each set is found beside the choice of the set.
  always_comb begin
    tell_channel = whose_turn;
    if (untold != '0) tell_channel = lowest(untold);
    if ((untold & turns) != '0) tell_channel = lowest(untold & turns);
    if (urgent != '0) tell_channel = lowest(urgent);
    if ((urgent & turns) != '0) tell_channel = lowest(urgent & turns);
  end
  assign told_channel = is_count ? first_asked : tell_channel;
  assign to_confirm = lowest(confirm);
  assign channel = is_confirm ? to_confirm : told_channel;

  // --- Next state ----------------------------------------------------------------------------
  logic [7:0] distance, beyond;
  logic in_error_next, nack_pending_next, nack_armed_next, at_once_next, flush_next;
  logic due_armed_next, due_arms, takes, tells, tells_new, acknowledges, is_silent, enters, leaves;
  logic owes, has_asked, has_confirmed, is_right, is_urgent;
  logic [9:0] fresh;
  set_t telling, arms, unconfirmed_next, ask_next, ask_armed_next, settles, frees_now;
  set_t arrives;
  command_t command;
  header_t header;
  assign command = arrival.word;
  assign header  = arrival.word;
  logic unused;
  assign unused = &{1'b0, command.symbol, header.label};

  // The command that is sent. A channel is told if it has something new, or nothing has.
  assign takes = choose && command_due;
  assign tells = takes && !is_confirm;
  assign acknowledges = takes && !is_restart;
  assign telling = tells ? told_channel : '0;
  assign tells_new = tells && (is_count ? (untold & first_asked) != '0 : untold != '0);
  // The other end is asked about a count that is new or was told again.
  assign arms = telling & (untold | (unconfirmed & ~(ask_armed & ~ask_came)
                                     & (is_count ? '1 : ~ask_now)));
  always_comb begin
    set_t left;
    left = untold & ~(is_count ? first_asked : lowest(untold));
    // Nothing is left to be told.
    is_silent = (owed == '0 || !is_restart) && (is_confirm ? untold : left) == '0;
  end

  // Arrivals.
  assign has_asked = arrival.command && command.operation == OPERATION_COUNT;
  assign has_confirmed = arrival.command && command.operation == OPERATION_CONFIRM;
  assign is_right = command.count == freed[command.channel];
  assign arrives = set_t'(1) << command.channel;
  assign settles = (has_confirmed && is_right) ? arrives & ~(untold & ~telling) : '0;
  always_comb begin
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
    if (arrival.command && command.operation == OPERATION_RESTART) begin
      // Ahead by 1 to 127.
      is_stale = beyond != '0 && !beyond[7];
      leaves   = !is_stale;
    end
  end

  // A buffer is freed.
  assign frees_now = frees ? set_t'(1) << frees_channel : '0;
  assign fresh = freed[frees_channel] + 1'b1 - told[frees_channel];
  assign is_urgent = fresh >= 10'(URGENT);

  always_comb begin
    nack_pending_next = nack_pending;
    nack_armed_next = nack_armed;
    at_once_next = at_once && !acknowledges;
    flush_next = flush;
    due_armed_next = due_armed;
    due_arms = 1'b0;
    ask_next = ask;
    ask_armed_next = ask_armed;
    in_error_next = in_error;

    // Time.
    if (choose) begin
      nack_pending_next = nack_due;
      flush_next = flush_now;
      due_armed_next = (due_armed || due_begins) && !due_comes;
      due_arms = due_begins;
      ask_next = ask_now;
      ask_armed_next = ask_armed & ~asked;
    end

    // The command that is sent.
    if (choose && is_nack) begin
      nack_pending_next = 1'b0;
      nack_armed_next   = 1'b1;
    end
    if (takes && is_silent) begin
      flush_next = 1'b0;
      due_armed_next = 1'b0;
    end else if (takes && !flush_now) begin
      due_armed_next = 1'b1;
      due_arms = 1'b1;
    end
    unconfirmed_next = unconfirmed | (telling & untold);
    ask_next &= ~(telling & (is_count ? '1 : untold));
    ask_armed_next |= arms;

    // Arrivals.
    unconfirmed_next &= ~settles;
    ask_next &= ~settles;
    ask_armed_next &= ~settles;
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

    // Neither has a frame been sent or come in this clock.
    if (comes_up) begin
      at_once_next = 1'b0;
      flush_next = (untold | unconfirmed | frees_now) != '0;
      due_armed_next = 1'b0;
      ask_next = '0;
      ask_armed_next = '0;
    end
  end

  assign is_settled = !in_error && owed == '0 && !at_once && untold == '0 && unconfirmed == '0
                      && confirm == '0;

  // Whether a time has come is worked out a clock ahead.
  assign soon = now + 1'b1;
  always_ff @(posedge clk) begin
    nack_came <= choose && is_nack ? nack_wait == TIME_BITS'(1) : has_come(nack_at, soon);
    due_came  <= due_arms ? ACKNOWLEDGE_WITHIN <= 1 : has_come(due_at, soon);
    if (choose && is_nack) begin
      nack_at <= now + nack_wait;
      nacks   <= {nacks[1] || nacks[0], !nacks[1] && !nacks[0]};
    end
    if (leaves || comes_up) nacks <= '0;
    if (due_arms) due_at <= now + WITHIN;
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      ask_came[n] <= arms[n] ? 1'b0 : has_come(ask_at[n], soon);
      if (arms[n]) ask_at[n] <= now + TIME_BITS'(REFRESH);
      if (telling[n]) told[n] <= freed[n];
      if (frees_now[n]) freed[n] <= freed[n] + 1'b1;
      if (delivers && header.channel == 3'(n)) delivered[n] <= delivered[n] + 1'b1;
    end
    // Those behind the channel that is told have the next turns.
    if (tells_new) turns <= behind(is_count ? ask_now : next_told);
    untold <= (untold & ~telling) | frees_now | (comes_up ? unconfirmed : '0);
    urgent <= ((urgent | (is_urgent ? frees_now : '0)) & ~telling)
              | ((URGENT == 1) ? frees_now : '0);
    unconfirmed <= unconfirmed_next;
    confirm <= (confirm & ~(choose && is_confirm ? to_confirm : '0)) | (has_asked ? arrives : '0);
    if (comes_up) confirm <= '0;
    ask <= ask_next;
    ask_armed <= ask_armed_next;
    expected <= expected + 8'(delivers);
    if (acknowledges) owed <= OWED_BITS'(owes);
    else if (owes && owed != '1) owed <= owed + 1'b1;
    in_error <= in_error_next;
    nack_pending <= nack_pending_next;
    nack_armed <= nack_armed_next;
    at_once <= at_once_next;
    flush <= flush_next;
    due_armed <= due_armed_next;
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
      nacks <= '0;
      at_once <= 1'b0;
      flush <= 1'b0;
      due_armed <= 1'b0;
      turns <= '0;
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
