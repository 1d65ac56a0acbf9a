// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Datagrams on their way through this node: for channels 6 and 7 of each link a list of places in
// the receive buffers of the others, in the order in which they came. A datagram whose queue has no
// room waits for that alone: each list has a head of its own, and each link takes from its two.

module crosslane_through
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned LINKS = 2,
    parameter int unsigned LANES = 8,  // of a link
    parameter int unsigned CHANNEL_DATAGRAMS = 64,
    parameter bit LONG = 1'b0,  // datagrams carry 256 B, not 128 B
    localparam int unsigned SLOT_BITS = $clog2(CHANNEL_DATAGRAMS),
    localparam int unsigned BEAT_BITS = $clog2(payload_bytes(LONG) / LANES),
    localparam int unsigned POSITION_BITS = 1 + SLOT_BITS + BEAT_BITS
) (
    input  logic                                  clk,
    input  logic                                  rst,
    // A datagram comes to the end of a list.
    input  logic                                  push,
    output logic                                  push_ready,
    input  logic   [      2:0]                    push_link,
    input  logic                                  push_behind_edge,
    // verilator lint_off UNUSEDSIGNAL
    input  place_t                                push_place,        // of channel 6 or 7
    // verilator lint_on UNUSEDSIGNAL
    input  label_t                                push_label,
    // Level: all of the link goes. `clear`: none of its datagrams is here, and none for it.
    input  logic   [LINKS-1:0]                    forgetting,
    output logic   [LINKS-1:0]                    clear,
    // Payloads in the receive buffers of a link, a clock later.
    output logic   [LINKS-1:0]                    read_enable,
    output logic   [LINKS-1:0][POSITION_BITS-1:0] read_position,
    input  logic   [LINKS-1:0][      8*LANES-1:0] read_data,
    // A place of a link is free. `frees_channel`: 7, else 6.
    output logic   [LINKS-1:0]                    frees,
    input  logic   [LINKS-1:0]                    frees_ready,
    output logic   [LINKS-1:0]                    frees_channel,
    output logic   [LINKS-1:0][    SLOT_BITS-1:0] frees_slot,
    // To the queues of each link, channel 6 and 7: room for a datagram beside those that are on
    // their way; one of these is from here; one waits for room. `may_begin`: known early, one may.
    input  logic   [LINKS-1:0][              1:0] room,
    output logic   [LINKS-1:0][              1:0] on_way,
    output logic   [LINKS-1:0][              1:0] waits,
    output logic   [LINKS-1:0]                    may_begin,
    output logic   [LINKS-1:0]                    m_valid,
    input  logic   [LINKS-1:0]                    m_ready,
    output logic   [LINKS-1:0][              2:0] m_channel,
    output label_t [LINKS-1:0]                    m_label,
    output logic   [LINKS-1:0][      8*LANES-1:0] m_data,
    output logic   [LINKS-1:0]                    forwarded          // pulses
);
  localparam int unsigned LISTS = 2 * LINKS;
  localparam int unsigned LIST_BITS = $clog2(LISTS);
  localparam int unsigned LINK_BITS = (LINKS > 1) ? $clog2(LINKS) : 1;
  localparam int unsigned PLACES = LISTS * CHANNEL_DATAGRAMS;
  localparam int unsigned PLACE_BITS = $clog2(PLACES);
  localparam logic [BEAT_BITS-1:0] LAST_BEAT = '1;

  // Places of channels 6 and 7.
  typedef struct packed {
    logic [LINK_BITS-1:0] link;
    logic                 is_behind_edge;
    logic [SLOT_BITS-1:0] slot;
  } kept_t;

  (* ram_style = "distributed" *) kept_t behind[1<<$bits(kept_t)];
  (* ram_style = "distributed" *) label_t labels[1<<$bits(kept_t)];
  // The head of each list, and the places behind it.
  logic [LISTS-1:0] has_head;
  kept_t [LISTS-1:0] heads;
  label_t [LISTS-1:0] head_labels;
  kept_t [LISTS-1:0] first, last;
  logic [LISTS-1:0][PLACE_BITS:0] count;

  // --- Lists: one is looked at in a clock, or all are gone through ------------------------------
  logic [LISTS-1:0] lacks_head, turn_refilled, refilled, head_goes;  // `refilled`: a clock ahead
  logic [LIST_BITS-1:0] turn_list, refill_list, push_list, list, sweep_list;
  kept_t pushed, moved, moved_next;
  label_t moved_label;
  logic sweeps, refills, takes_push, is_swept, head_looked;
  logic [LINKS-1:0] swept, to_sweep;
  logic [LINK_BITS-1:0] sweep_link;
  logic [ PLACE_BITS:0] left;

  always_comb begin
    for (int unsigned n = 0; n < LISTS; n++) lacks_head[n] = !has_head[n] && count[n] != '0;
  end

  crosslane_turn #(
      .COUNT(LISTS)
  ) refill_turn (
      .clk,
      .rst,
      .valid (lacks_head),
      .taken (refills ? refilled : '0),
      .chosen(turn_refilled),
      .index (turn_list)
  );
  always_ff @(posedge clk) begin
    refilled <= rst ? '0 : turn_refilled;
    refill_list <= turn_list;
  end

  assign push_list = LIST_BITS'({push_link, push_behind_edge});
  assign pushed = '{
          link: LINK_BITS'(push_place.link),
          is_behind_edge: push_place.channel[0],
          slot: SLOT_BITS'(push_place.slot)
      };
  assign refills = !sweeps && (lacks_head & refilled) != '0;
  assign push_ready = !sweeps && to_sweep == '0 && !(refills && refill_list == push_list);
  assign takes_push = push && push_ready;
  assign list = sweeps ? sweep_list : refill_list;
  assign moved = first[list];
  assign moved_next = behind[moved];
  assign moved_label = labels[moved];
  assign is_swept = moved.link == sweep_link;

  always_ff @(posedge clk) begin
    has_head <= has_head & ~head_goes;
    if (refills) begin
      has_head[refill_list] <= 1'b1;
      heads[refill_list] <= moved;
      head_labels[refill_list] <= moved_label;
      first[refill_list] <= moved_next;
      count[refill_list] <= count[refill_list] - 1'b1;
    end
    if (takes_push) begin
      labels[pushed] <= push_label;
      if (!has_head[push_list] && count[push_list] == '0) begin
        has_head[push_list] <= 1'b1;
        heads[push_list] <= pushed;
        head_labels[push_list] <= push_label;
      end else begin
        if (count[push_list] == '0) first[push_list] <= pushed;
        else behind[last[push_list]] <= pushed;
        last[push_list]  <= pushed;
        count[push_list] <= count[push_list] + 1'b1;
      end
    end

    // Those that a link which is forgotten has delivered leave all lists.
    swept <= swept & forgetting;
    if (!sweeps) begin
      sweeps <= to_sweep != '0;
      sweep_list <= '0;
      head_looked <= 1'b0;
      for (int n = LINKS - 1; n >= 0; n--) if (to_sweep[n]) sweep_link <= LINK_BITS'(n);
    end else if (!head_looked) begin
      head_looked <= 1'b1;
      left <= count[list];
      if (has_head[list] && heads[list].link == sweep_link) has_head[list] <= 1'b0;
    end else if (left != '0) begin
      left <= left - 1'b1;
      first[list] <= moved_next;
      if (is_swept) begin
        count[list] <= count[list] - 1'b1;
      end else if (count[list] != (PLACE_BITS + 1)'(1)) begin
        behind[last[list]] <= moved;
        last[list] <= moved;
      end else begin
        first[list] <= moved;
      end
    end else begin
      head_looked <= 1'b0;
      sweep_list  <= sweep_list + 1'b1;
      if (sweep_list == LIST_BITS'(LISTS - 1)) begin
        sweeps <= 1'b0;
        swept[sweep_link] <= 1'b1;
      end
    end
    if (rst) begin
      has_head <= '0;
      count <= '0;
      sweeps <= 1'b0;
      swept <= '0;
    end
  end
  assign to_sweep = forgetting & ~swept;

  // --- To each link: a datagram of channel 6 or 7, by turns -------------------------------------
  logic [LINKS-1:0] busy, moves, issues, begins, ends, prefers_7, is_blocked, is_counted, has_room;
  logic [LINKS-1:0] uses, holds;  // buffers that are read, and whose last beat has not left
  logic [LINKS-1:0][1:0] can;
  kept_t [LINKS-1:0] sent;
  logic [LINKS-1:0] turn_7, next_7, sent_7, out_7;
  label_t [LINKS-1:0] sent_label;
  logic [LINKS-1:0][BEAT_BITS-1:0] at, at_1;
  logic [LINKS-1:0][LINK_BITS-1:0] out_link;
  // By the link of the buffers: who reads them, and who may next, chosen a clock ahead.
  logic [LINKS-1:0][LINKS-1:0] reads, wants, turn_granted, granted;
  logic [LINKS-1:0] is_near_end, may_give, gives;
  // A second place that is free, and the one that becomes so now.
  logic [LINKS-1:0] frees_more, more_channel, frees_now, frees_7;
  logic [LINKS-1:0][SLOT_BITS-1:0] more_slot, frees_place;
  logic [LIST_BITS-1:0] scan;
  kept_t dropped;
  logic drops_now;

  // A beat that has been read stays until it leaves: so long no other link's is read.
  always_comb begin
    for (int unsigned o = 0; o < LINKS; o++) begin
      moves[o] = !m_valid[o] || m_ready[o];
      is_blocked[o] = 1'b0;
      for (int unsigned p = 0; p < LINKS; p++) begin
        is_blocked[o] |= p != o && m_valid[p] && !m_ready[p] && out_link[p] == sent[o].link;
      end
      issues[o] = busy[o] && moves[o] && !is_blocked[o];
      ends[o]   = issues[o] && at[o] == LAST_BEAT;
    end
  end

  always_comb begin
    for (int unsigned i = 0; i < LINKS; i++) begin
      read_enable[i] = 1'b0;
      read_position[i] = '0;
      uses[i] = reads[i] != '0;
      holds[i] = 1'b0;
      frees_now[i] = 1'b0;
      frees_7[i] = dropped.is_behind_edge;
      frees_place[i] = dropped.slot;
      for (int unsigned o = 0; o < LINKS; o++) begin
        if (reads[i][o]) begin
          read_enable[i]   = issues[o];
          read_position[i] = {sent[o].is_behind_edge, sent[o].slot, at[o]};
          if (ends[o]) begin
            frees_now[i] = 1'b1;
            frees_7[i] = sent[o].is_behind_edge;
            frees_place[i] = sent[o].slot;
          end
        end
        if (m_valid[o] && out_link[o] == LINK_BITS'(i)) holds[i] = 1'b1;
      end
    end
  end

  // The next one follows without a gap: it is chosen before the last beat.
  always_comb begin
    for (int unsigned o = 0; o < LINKS; o++) is_near_end[o] = at[o] >= LAST_BEAT - 1'b1;
    for (int unsigned i = 0; i < LINKS; i++) begin
      may_give[i] = !forgetting[i] && !frees_more[i] &&
          (!uses[i] || (reads[i] & is_near_end) != '0);
      // Its beats do not pause: it can tell that its place is free, whenever it ends.
      gives[i] = !forgetting[i] && !frees_more[i] && (!uses[i] || (frees_now[i] && !frees[i]));
    end
    for (int unsigned o = 0; o < LINKS; o++) begin
      for (int unsigned c = 0; c < 2; c++) begin
        can[o][c] = has_head[2*o+c] && room[o][c] && may_give[heads[2*o+c].link];
      end
      turn_7[o] = can[o][1] && (prefers_7[o] || !can[o][0]);
      for (int unsigned i = 0; i < LINKS; i++) begin
        wants[i][o] = can[o] != '0 && (!busy[o] || is_near_end[o]) && !forgetting[o] &&
            heads[{LINK_BITS'(o), turn_7[o]}].link == LINK_BITS'(i);
      end
    end
    for (int unsigned o = 0; o < LINKS; o++) begin
      has_room[o] = has_head[{LINK_BITS'(o), next_7[o]}] && room[o][next_7[o]] && !forgetting[o];
      begins[o] = 1'b0;
      may_begin[o] = 1'b0;
      for (int unsigned i = 0; i < LINKS; i++) begin
        may_begin[o] |= granted[i][o];
        begins[o] |= granted[i][o] && gives[i] && has_room[o] && (!busy[o] || ends[o]);
      end
    end
  end

  for (genvar i = 0; i < LINKS; i++) begin : g_buffer
    crosslane_turn #(
        .COUNT(LINKS)
    ) turn (
        .clk,
        .rst,
        .valid (wants[i]),
        .taken (granted[i] & begins),
        .chosen(turn_granted[i]),
        .index ()
    );
  end

  // Datagrams for a link that is forgotten are dropped, one at a time.
  assign dropped = heads[scan];
  assign drops_now = has_head[scan] && forgetting[LINK_BITS'(scan >> 1)] && !sweeps &&
      (forgetting[dropped.link] || (!frees[dropped.link] && !frees_now[dropped.link]));

  always_comb begin
    head_goes = '0;
    for (int unsigned o = 0; o < LINKS; o++) begin
      if (begins[o]) head_goes[2*o+32'(next_7[o])] = 1'b1;
    end
    if (drops_now) head_goes[scan] = 1'b1;
    for (int unsigned n = 0; n < LINKS; n++) begin
      clear[n] = swept[n] && !uses[n] && !holds[n] && !busy[n] && !m_valid[n] && !frees[n];
      for (int unsigned c = 0; c < 2; c++) clear[n] &= !has_head[2*n+c] && count[2*n+c] == '0;
    end
  end

  always_ff @(posedge clk) begin
    scan <= (scan == LIST_BITS'(LISTS - 1)) ? '0 : scan + 1'b1;
    for (int unsigned i = 0; i < LINKS; i++) begin
      if (frees_ready[i]) begin
        frees[i] <= frees_more[i];
        frees_channel[i] <= more_channel[i];
        frees_slot[i] <= more_slot[i];
        frees_more[i] <= 1'b0;
      end
      if (frees_now[i] || (drops_now && dropped.link == LINK_BITS'(i))) begin
        if (frees[i] && (frees_more[i] || !frees_ready[i])) begin
          frees_more[i] <= 1'b1;
          more_channel[i] <= frees_7[i];
          more_slot[i] <= frees_place[i];
        end else begin
          frees[i] <= 1'b1;
          frees_channel[i] <= frees_7[i];
          frees_slot[i] <= frees_place[i];
        end
      end
      if (forgetting[i]) begin
        frees[i] <= 1'b0;
        frees_more[i] <= 1'b0;
      end
    end
    granted <= turn_granted;
    next_7  <= turn_7;
    for (int unsigned o = 0; o < LINKS; o++) begin
      forwarded[o] <= ends[o];
      if (moves[o]) begin
        m_valid[o] <= issues[o];
        at_1[o] <= at[o];
        out_link[o] <= sent[o].link;
        out_7[o] <= sent_7[o];
        m_label[o] <= sent_label[o];
        if (issues[o]) at[o] <= at[o] + 1'b1;
        if (ends[o]) busy[o] <= 1'b0;
      end
      for (int unsigned i = 0; i < LINKS; i++) begin
        if (begins[o] || ends[o]) reads[i][o] <= begins[o] && granted[i][o];
      end
      if (m_valid[o] && m_ready[o] && at_1[o] == '0) is_counted[o] <= 1'b1;
      if (begins[o]) begin
        busy[o] <= 1'b1;
        is_counted[o] <= 1'b0;
        sent[o] <= heads[{LINK_BITS'(o), next_7[o]}];
        sent_7[o] <= next_7[o];
        sent_label[o] <= head_labels[{LINK_BITS'(o), next_7[o]}];
        prefers_7[o] <= !next_7[o];
      end
    end
    if (rst) begin
      scan <= '0;
      frees <= '0;
      frees_more <= '0;
      busy <= '0;
      reads <= '0;
      granted <= '0;
      m_valid <= '0;
      at <= '0;
      prefers_7 <= '0;
      is_counted <= '1;
      forwarded <= '0;
    end
  end

  always_comb begin
    for (int unsigned o = 0; o < LINKS; o++) begin
      m_channel[o] = {2'b11, out_7[o]};
      m_data[o] = read_data[out_link[o]];
      waits[o] = {has_head[2*o+1], has_head[2*o]};
      on_way[o] = '0;
      on_way[o][sent_7[o]] = !is_counted[o];
    end
  end
endmodule
