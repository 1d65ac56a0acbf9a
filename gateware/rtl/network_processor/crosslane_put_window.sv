// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Put aperture of a link: words of slots become datagrams, which go into the link's queues in the
// order of their slots: one that is complete waits for those before it. Counts the datagrams of each
// channel that have left, so the count says which slots are free.

module crosslane_put_window
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned LANES = 8,  // of the link
    parameter int unsigned SLOTS = 8,  // of a channel: 2 to 32
    parameter bit LONG = 1'b0,  // datagrams carry 256 B, not 128 B
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned STRIDE = put_stride(LONG) / BYTES,  // words of a slot
    localparam int unsigned WITHIN = $clog2(STRIDE),
    localparam int unsigned PLACE = $clog2(SLOTS),
    localparam int unsigned SLOT_BITS = 3 + PLACE
) (
    input  logic                         clk,
    input  logic                         rst,
    // Forgets datagrams; what has been forgotten has left. A datagram that is stored meanwhile is
    // refused, and a slot that is half-written waits for the rest.
    input  logic                         forget,
    input  logic                         takes,         // the link takes datagrams; else refused
    input  logic                         reserved,      // channels 6 and 7 are for routed messages
    input  logic                         word_valid,
    input  logic   [SLOT_BITS-1:0]       word_slot,     // channel, slot of the channel
    input  logic   [   WITHIN-1:0]       word_within,
    input  logic                         word_last,
    input  logic   [DATA_BITS-1:0]       word_data,
    input  logic   [    BYTES-1:0]       word_enables,
    // Pulses: a datagram is queued, or refused.
    output logic                         accepted,
    output logic                         refused,
    output logic   [ CHANNELS-1:0][31:0] counts,
    output logic   [ CHANNELS-1:0]       counted,       // pulse: the count has changed
    // To the link. `on_way`: the channel of a datagram that the link does not count yet.
    output logic   [ CHANNELS-1:0]       on_way,
    output logic                         may_begin,     // known early: a datagram, in this clock
    input  logic                         others_may,    // begin: then one that has just come waits
    input  logic   [ CHANNELS-1:0]       room,
    output logic                         m_valid,
    input  logic                         m_ready,
    output logic   [          2:0]       m_channel,
    output label_t                       m_label,
    output logic   [  8*LANES-1:0]       m_data
);
  localparam int unsigned ALL_SLOTS = CHANNELS * SLOTS;
  localparam int unsigned PAYLOAD = payload_bytes(LONG);
  localparam int unsigned PUT_BYTES = CONTROL_BYTES + PAYLOAD;
  localparam int unsigned LENGTH_BITS = $clog2(PAYLOAD) + 1;
  localparam logic [8:0] FULL = 9'(PAYLOAD);
  localparam int unsigned BEATS = PAYLOAD / LANES;
  localparam int unsigned BEAT_BITS = $clog2(BEATS);

  // Bytes 0 to 3 of put_control and its length, of which a datagram keeps less.
  typedef struct packed {
    logic [8:0]  bytes;
    logic [10:0] unused;
    logic [12:0] index;
    logic        valid;
    logic        last;
    logic [5:0]  tag;
  } control_t;

  // A datagram that waits for the link; its payload is in its slot.
  typedef struct packed {
    label_t                 label;
    logic [LENGTH_BITS-1:0] bytes;
  } put_t;

  logic [DATA_BITS-1:0] payloads[ALL_SLOTS*STRIDE];
  (* ram_style = "distributed" *) logic [PUT_BYTES-1:0] there[ALL_SLOTS];
  (* ram_style = "distributed" *) control_t controls[ALL_SLOTS];
  (* ram_style = "distributed" *) put_t puts[ALL_SLOTS];  // by slot

  // --- In: which bytes of the slot have come, and a clock later whether all have ---------------
  logic [ALL_SLOTS-1:0] touched;  // else no byte has
  logic [PUT_BYTES-1:0] mask, next_mask;
  logic [PAYLOAD-1:0] needed;
  // verilator lint_off UNUSEDSIGNAL
  control_t control;  // `unused` goes into the memory alone
  // verilator lint_on UNUSEDSIGNAL
  control_t next_control;
  logic has_word, part_ends, is_there, is_possible, ends;
  logic [SLOT_BITS-1:0] slot;
  logic [2:0] slot_channel;
  // Slots whose datagrams are complete and have not begun to leave, and those among them that do
  // not go into a queue: refused ones, and forgotten ones.
  logic [ALL_SLOTS-1:0] complete, is_dropped;
  put_t put;

  assign slot_channel = slot[SLOT_BITS-1:PLACE];

  always_comb begin
    next_mask = touched[word_slot] ? there[word_slot] : '0;
    // The word before was of the same slot.
    if (has_word && word_slot == slot) next_mask = ends ? '0 : mask;
    for (int unsigned n = 0; n < PUT_BYTES; n++) begin
      if (word_within == WITHIN'(n / BYTES)) next_mask[n] |= word_enables[n%BYTES];
    end
    next_control = controls[word_slot];
    if (word_within == '0) begin
      for (int unsigned n = 0; n < 4; n++) begin
        if (word_enables[n]) next_control[8*n+:8] = word_data[8*n+:8];
      end
      if (word_enables[4]) next_control.bytes[7:0] = word_data[39:32];
      if (word_enables[5]) next_control.bytes[8] = word_data[40];
    end
    for (int unsigned n = 0; n < PAYLOAD; n++) needed[n] = control.bytes > 9'(n);
  end

  assign is_there = mask[CONTROL_BYTES-1:0] == '1 && (!control.valid || control.bytes > FULL ||
      (needed & ~mask[PUT_BYTES-1:CONTROL_BYTES]) == '0);
  assign is_possible = control.valid && control.bytes != '0 && control.bytes <= FULL &&
      (control.last || control.bytes == FULL);
  assign ends = part_ends && is_there;
  // A slot that is stored anew before its datagram has begun to leave is refused.
  assign accepted = ends && is_possible && takes && !complete[slot] &&
      !(reserved && slot_channel >= ROUTED_CHANNEL);
  assign refused = ends && !accepted;

  always_comb begin
    put.bytes = LENGTH_BITS'(control.bytes);
    put.label.index = control.index;
    put.label.tag = control.tag;
    put.label.kind = KIND_MIDDLE;
    if (control.last) put.label.kind = (control.bytes == FULL) ? KIND_LAST : KIND_SHORT;
  end

  always_ff @(posedge clk) begin
    if (word_valid) begin
      for (int unsigned n = 0; n < BYTES; n++) begin
        if (word_enables[n]) payloads[{word_slot, word_within}][8*n+:8] <= word_data[8*n+:8];
      end
      there[word_slot] <= next_mask;
      controls[word_slot] <= next_control;
      slot <= word_slot;
      mask <= next_mask;
      control <= next_control;
    end
    has_word  <= word_valid && !rst;
    // A slot is looked at behind all words of a TLP in it.
    part_ends <= word_valid && !rst && (word_last || word_within == '1);
    if (has_word) touched[slot] <= !ends;
    if (accepted) puts[slot] <= put;
    if (rst) touched <= '0;
  end

  // --- Out: the next datagram of a channel with room, by turns ----------------------------------
  // Chosen a clock ahead, while the one before leaves. With none that was chosen, one that becomes
  // complete in this clock may begin.
  logic [CHANNELS-1:0][PLACE-1:0] next_slot;  // the next to leave
  logic [CHANNELS-1:0] has_next, drops_next, waiting, had_room, turn_chosen, chosen, next_chosen;
  logic [CHANNELS-1:0] taken, goes, drops, left;
  logic [2:0] turn_index, index, next_index, channel;
  logic has_choice, busy, moves, begins, leaves;
  logic [2:0] current_channel;
  logic [BEAT_BITS-1:0] at, at_1;
  put_t next, sent;
  logic [PLACE-1:0] begun_slot, sent_slot, current_slot;
  logic [$clog2(put_stride(LONG))-1:0] place;  // of the beat in its slot
  logic [$clog2(BYTES)-1:0] lane_1;
  logic [DATA_BITS-1:0] word_1;

  // A dropped one is counted when those before it have left.
  always_comb begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      waiting[n] = has_next[n] && !drops_next[n];
      drops[n] = has_next[n] && drops_next[n] && !(busy && channel == 3'(n));
      goes[n] = drops[n] || (begins && next_chosen[n]);
      left[n] = drops[n] || ((leaves || (busy && forget)) && channel == 3'(n));
    end
  end
  always_ff @(posedge clk) begin
    // In the clock in which one goes its slot is an old one.
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      has_next[n]   <= complete[{3'(n), next_slot[n]}] && !goes[n] && !rst;
      drops_next[n] <= is_dropped[{3'(n), next_slot[n]}] || forget;
      if (goes[n]) begin
        next_slot[n] <= next_slot[n] + 1'b1;
        complete[{3'(n), next_slot[n]}] <= 1'b0;
      end
    end
    if (ends && !complete[slot]) begin
      complete[slot]   <= !(begins && !has_choice);
      is_dropped[slot] <= !accepted;
    end
    if (forget) is_dropped <= '1;
    if (rst) begin
      complete  <= '0;
      next_slot <= '0;
    end
  end

  crosslane_turn #(
      .COUNT(CHANNELS)
  ) turn (
      .clk,
      .rst,
      .valid (waiting & had_room),
      .taken,
      .chosen(turn_chosen),
      .index (turn_index)
  );
  always_ff @(posedge clk) begin
    had_room <= room;
    chosen <= turn_chosen;
    has_choice <= turn_chosen != '0 && !rst;
    index <= turn_index;
    taken <= begins ? next_chosen : '0;
  end

  assign moves = !m_valid || m_ready;
  // A clock without a beat lies between two datagrams, so `room` counts the one before.
  // A slot's part that has come may be its last; words of slots that stay half-written hold no one.
  assign may_begin = !busy && !m_valid && (has_choice || (part_ends && !others_may));
  assign begins = may_begin && !forget && (has_choice ? (chosen & waiting & room) != '0
      : accepted && slot[PLACE-1:0] == next_slot[slot_channel] && room[slot_channel]);
  assign next_chosen = has_choice ? chosen : CHANNELS'(1) << slot_channel;
  assign next_index = has_choice ? index : slot_channel;
  assign begun_slot = has_choice ? next_slot[index] : slot[PLACE-1:0];
  assign next = has_choice ? puts[{index, begun_slot}] : put;
  assign current_slot = busy ? sent_slot : begun_slot;
  assign current_channel = busy ? channel : next_index;
  assign place = $bits(place)'(CONTROL_BYTES) + $bits(place)'(32'(at) * LANES);
  assign leaves = busy && moves && at == BEAT_BITS'(BEATS - 1);

  always_ff @(posedge clk) begin
    if (begins) begin
      busy <= 1'b1;
      channel <= next_index;
      sent <= next;
      sent_slot <= begun_slot;
      on_way <= next_chosen;
    end else if (!busy && moves) begin
      on_way <= '0;
    end
    if (moves) begin
      m_valid <= busy || begins;
      at_1 <= at;
      lane_1 <= place[$clog2(BYTES)-1:0];
      word_1 <= payloads[{current_channel, current_slot, place[$bits(place)-1:$clog2(BYTES)]}];
      if (busy || begins) at <= at + 1'b1;
      if (leaves) busy <= 1'b0;
    end
    if (rst || forget) begin
      at <= '0;
      busy <= 1'b0;
      on_way <= '0;
      m_valid <= 1'b0;
    end
  end

  assign m_channel = channel;
  assign m_label   = sent.label;
  always_comb begin
    m_data = (8 * LANES)'(word_1 >> {lane_1, 3'd0});
    for (int unsigned n = 0; n < LANES; n++) begin
      if (32'(at_1) * LANES + n >= 32'(sent.bytes)) m_data[8*n+:8] = '0;
    end
    if (at_1 == '1 && sent.label.kind == KIND_SHORT) m_data[8*LANES-1-:8] = sent.bytes[7:0];
  end

  // --- Counts --------------------------------------------------------------------------------
  assign counted = rst ? '0 : left;
  always_ff @(posedge clk) begin
    for (int unsigned n = 0; n < CHANNELS; n++) counts[n] <= counts[n] + 32'(left[n]);
    if (rst) counts <= '0;
  end

`ifndef SYNTHESIS
  if (SLOTS != 1 << PLACE || SLOTS < 2 || SLOTS > 32) begin : g_slots
    $error("SLOTS is a power of two, 2 to 32");
  end
`endif
endmodule
