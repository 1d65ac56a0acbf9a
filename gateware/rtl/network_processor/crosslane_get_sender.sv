// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// From the staging memory to the link: the reads of each channel, in their order, become the bytes
// of its messages, and these datagrams. What belongs to a void message is dropped; an abort ends it
// at the far end if a datagram of it has been sent.

module crosslane_get_sender
  import crosslane_pkg::*;
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
  import crosslane_nget_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned LANES = 8,  // of the link
    parameter int unsigned MAX_READ = 512,
    parameter int unsigned STAGING_BYTES = 4096,  // of a channel
    parameter int unsigned RECORDS = 32,  // of a channel: power of two
    parameter bit ROUTED = 1'b0,
    parameter bit LONG = 1'b0,  // datagrams carry 256 B, not 128 B
    localparam int unsigned PLACE_BITS = $clog2(STAGING_BYTES),
    localparam int unsigned POSITION_BITS = 3 + PLACE_BITS
) (
    input logic clk,
    input logic rst,
    input logic forget,  // drops everything, without aborts
    output logic empty,
    // A read is sent, or needs none (`push_done`): its bytes are reserved.
    input logic push,
    input logic [2:0] push_channel,
    input logic push_done,
    input get_record_t push_record,
    output logic [7:0] push_place,
    output logic [15:0] push_position,
    output logic [CHANNELS-1:0] has_space,  // for a read, a clock ago
    // More of a read has come, not all, in the clock in which the last of it goes into the memory.
    input logic come_valid,
    // verilator lint_off UNUSEDSIGNAL
    input get_come_t come_read,
    // verilator lint_on UNUSEDSIGNAL
    // A read has ended.
    input logic done,
    input logic [2:0] done_channel,
    // verilator lint_off UNUSEDSIGNAL
    input logic [7:0] done_place,
    // verilator lint_on UNUSEDSIGNAL
    input get_void_t void_i,
    // The staging memory, RING_READ_CLOCKS moves later.
    output logic read_enable,
    output logic [POSITION_BITS-1:0] read_position,
    // verilator lint_off UNUSEDSIGNAL
    input logic [DATA_BITS-1:0] read_data,  // more than a beat
    // verilator lint_on UNUSEDSIGNAL
    // To the link. `room_more`: channels that take two datagrams.
    input logic [CHANNELS-1:0] room,
    input logic [CHANNELS-1:0] room_more,
    output logic [CHANNELS-1:0] on_way,  // channels of those it does not count yet, and of two such
    output logic [CHANNELS-1:0] on_way_more,
    output logic [CHANNELS-1:0] waits,  // channels of those that would take room
    output logic may_begin,  // known early: a datagram, in this clock
    input logic others_may,  // begin: then none does here
    input logic [15:0] own_node,
    output logic m_valid,
    input logic m_ready,
    output logic [2:0] m_channel,
    output label_t m_label,
    output logic [8*LANES-1:0] m_data
);
  localparam int unsigned RECORD_BITS = $clog2(RECORDS);
  localparam int unsigned PAYLOAD = payload_bytes(LONG);
  localparam int unsigned LENGTH_BITS = $clog2(PAYLOAD) + 1;
  localparam int unsigned BEATS = PAYLOAD / LANES;
  localparam int unsigned BEAT_BITS = $clog2(BEATS);
  typedef logic [PLACE_BITS:0] count_t;

  (* ram_style = "distributed" *) get_record_t records[CHANNELS*RECORDS];
  (* ram_style = "distributed" *) logic [12:0] come[CHANNELS*RECORDS];  // bytes of a read
  (* ram_style = "block" *) logic voids[CHANNELS<<SEQUENCE_BITS];
  logic [CHANNELS*RECORDS-1:0] is_done;
  logic [CHANNELS-1:0][RECORD_BITS:0] head, tail;
  count_t [CHANNELS-1:0] used_from, used_to;  // of the staging memory
  // The message whose bytes are sent.
  logic [CHANNELS-1:0] is_current, has_end, is_begun, abort_due;
  logic [CHANNELS-1:0][7:0] current;
  logic [CHANNELS-1:0][5:0] tags, abort_tags;
  logic [CHANNELS-1:0] are_routed, abort_routed;
  logic [CHANNELS-1:0][15:0] nodes, abort_nodes;
  logic [CHANNELS-1:0][12:0] indices;
  count_t [CHANNELS-1:0] available;
  get_void_t void_1;
  logic [CHANNELS-1:0][12:0] counted;  // bytes of the next read that were available at some time

  // --- Space ---------------------------------------------------------------------------------
  assign push_place = 8'(tail[push_channel][RECORD_BITS-1:0]);
  assign push_position = 16'(used_to[push_channel][PLACE_BITS-1:0]);
  logic [CHANNELS-1:0][RECORD_BITS:0] kept;
  always_comb for (int unsigned n = 0; n < CHANNELS; n++) kept[n] = tail[n] - head[n];
  always_ff @(posedge clk) begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      has_space[n] <= !kept[n][RECORD_BITS] && !rst &&
          count_t'(used_to[n] - used_from[n]) <= count_t'(STAGING_BYTES - MAX_READ);
    end
  end

  // --- What has come of reads -----------------------------------------------------------------
  logic come_waits;
  logic [CHANNELS-1:0] has_news;
  get_come_t come_1;

  // A pushed read has nothing yet. What is overtaken meanwhile is in the next one, or in the end.
  always_ff @(posedge clk) begin
    if (push) come[{push_channel, tail[push_channel][RECORD_BITS-1:0]}] <= '0;
    else if (come_waits) come[{come_1.channel, RECORD_BITS'(come_1.record_)}] <= come_1.bytes;
    if (come_valid || !push) come_waits <= come_valid;
    if (come_valid) come_1 <= come_read;
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      if (head[n] == tail[n]) has_news[n] <= 1'b0;
      else if (come_waits && come_1.channel == 3'(n)) has_news[n] <= 1'b1;
    end
    if (rst) come_waits <= 1'b0;
  end

  // --- The next read of a channel, by turns: looked up in one clock, dealt with in the next ----
  logic [2:0] scan, next_scan, visit, channel, index;
  logic [CHANNELS-1:0] head_done, may_have;  // its next read has ended; it has something to do
  logic [RECORD_BITS-1:0] place;
  // verilator lint_off UNUSEDSIGNAL
  get_record_t found, record_;  // of `record_` the bytes are in `come_now`
  // verilator lint_on UNUSEDSIGNAL
  logic is_seen, has_record, has_come, has_more, is_same, record_is_void, current_is_void;
  logic was_current, had_end, had_abort;
  logic is_there, record_void, current_void, drops_current, pops, drops, starts, adds, acts;
  logic busy, is_chosen, begins;
  logic [12:0] found_come, come_now;
  count_t added;

  always_ff @(posedge clk) begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      head_done[n] <= head[n] != tail[n] && !(pops && visit == 3'(n)) &&
          (is_done[{3'(n), head[n][RECORD_BITS-1:0]}] ||
           (done && done_channel == 3'(n) && RECORD_BITS'(done_place) == head[n][RECORD_BITS-1:0]));
    end
    if (rst) head_done <= '0;
  end

  // A channel without a message, and without anything of a read, has nothing to do.
  assign may_have = is_current | head_done | has_news;
  always_comb begin
    next_scan = scan + 1'b1;
    for (int n = CHANNELS; n > 0; n--) begin
      logic [2:0] here;
      here = scan + 3'(n);
      if (may_have[here]) next_scan = here;
    end
  end

  assign place = head[scan][RECORD_BITS-1:0];
  assign found = records[{scan, place}];
  assign found_come = head_done[scan] ? found.bytes : come[{scan, place}];

  // A channel that is dealt with now would be found as it was, as would that of a datagram.
  always_ff @(posedge clk) begin
    is_seen <= !(acts && visit == scan) && !(may_begin && index == scan) && !rst;
    visit <= scan;
    has_record <= head[scan] != tail[scan];
    has_come <= head_done[scan];
    record_ <= found;
    come_now <= found_come;
    added <= count_t'(found_come) - count_t'(counted[scan]);
    has_more <= found_come != counted[scan];
    was_current <= is_current[scan];
    had_end <= has_end[scan];
    had_abort <= abort_due[scan];
    is_same <= found.sequence_ == current[scan];
    record_is_void <= voids[{scan, found.sequence_}];
    current_is_void <= voids[{scan, current[scan]}];
  end

  // While a datagram leaves the next one's bytes are found, so none waits for them.
  assign is_chosen = may_begin && index == visit;
  assign is_there = is_seen && has_record && (has_come || has_more) && !is_chosen;
  assign record_void = forget || record_is_void;
  assign current_void = was_current && (forget || current_is_void);
  assign drops_current = is_seen && current_void && !had_abort && !is_chosen &&
      !(busy && channel == visit);
  assign drops = is_there && has_come && !was_current && record_void && !(busy && channel == visit);
  assign starts = is_there && !was_current && !record_void;
  assign adds = is_there && was_current && !current_void && !had_end && is_same;
  assign acts = drops || starts || adds || drops_current;
  assign pops = has_come && (drops || starts || adds);

  // --- A datagram of a channel, by turns ------------------------------------------------------
  // Chosen a clock ahead, while the one before leaves.
  logic [CHANNELS-1:0] has_room, had_room, turn_chosen, chosen, taken;
  logic [2:0] turn_index;
  logic has_choice;
  logic [CHANNELS-1:0][1:0] sent;  // datagrams that the link does not count yet
  logic moves, issues_last, leaves, is_last;
  logic [BEAT_BITS-1:0] at;
  count_t base, read_from, rest, rest_behind;  // available, and what of it is behind a full one
  logic is_full;
  logic [LENGTH_BITS-1:0] count, next_count;
  logic [7:0] final_byte;
  label_t label, next_label;
  logic next_routed, is_routed, is_abort;
  routing_word_t next_word, word;
  logic [CHANNELS-1:0][LENGTH_BITS-1:0] full;  // bytes of the message in a datagram
  logic [RING_READ_CLOCKS-1:0] valid;  // in the memory's pipeline

  always_comb begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      waits[n] = abort_due[n] || (is_current[n] && !forget &&
                                  (has_end[n] || available[n] >= count_t'(full[n])));
      has_room[n] = (sent[n] == 2'd0) ? room[n] : (sent[n] == 2'd1) && room_more[n];
    end
  end

  crosslane_turn #(
      .COUNT(CHANNELS)
  ) turn (
      .clk,
      .rst,
      .valid (waits & had_room),
      .taken,
      .chosen(turn_chosen),
      .index (turn_index)
  );
  always_ff @(posedge clk) begin
    had_room <= has_room;
    // With no other, a channel of which more has come is next.
    chosen <= turn_chosen;
    index <= turn_index;
    if (turn_chosen == '0) begin
      chosen <= acts ? CHANNELS'(1) << visit : '0;
      index  <= visit;
    end
    has_choice <= turn_chosen != '0 || acts;
    taken <= begins ? chosen : '0;
    if (rst) begin
      chosen <= '0;
      has_choice <= 1'b0;
    end
  end

  assign may_begin = !busy && has_choice;
  assign begins = !busy && !others_may && (chosen & waits & has_room) != '0;
  assign rest = available[index];
  assign is_last = has_end[index] && rest <= count_t'(full[index]);
  assign is_full = rest >= count_t'(full[index]);
  assign rest_behind = is_full ? rest - count_t'(full[index]) : '0;
  assign next_count = is_full ? full[index] : LENGTH_BITS'(rest);
  assign next_routed = ROUTED && (abort_due[index] ? abort_routed[index] : are_routed[index]);
  always_comb begin
    next_word = '{
        is_last: abort_due[index] || is_last,
        bytes: abort_due[index] ? '0 : 7'(next_count),
        index: abort_due[index] ? '0 : 24'(indices[index]),
        source: own_node,
        destination: abort_due[index] ? abort_nodes[index] : nodes[index]
    };
    if (LONG) begin
      {next_word.bytes, next_word.index} =
          abort_due[index] ? '0 : {8'(next_count), 23'(indices[index])};
    end
  end
  always_comb begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      full[n] = LENGTH_BITS'(PAYLOAD);
      if (ROUTED && are_routed[n]) full[n] = LENGTH_BITS'(PAYLOAD - ROUTING_BYTES);
    end
    next_label.index = indices[index];
    next_label.tag   = tags[index];
    next_label.kind  = KIND_MIDDLE;
    if (is_last) next_label.kind = (next_count == LENGTH_BITS'(PAYLOAD)) ? KIND_LAST : KIND_SHORT;
    if (abort_due[index]) next_label = '{index: '0, tag: abort_tags[index], kind: KIND_SHORT};
    if (next_routed) begin
      next_label.index = '0;
      next_label.kind  = KIND_ROUTED;
    end
  end

  assign issues_last   = busy && moves && at == '1;
  assign read_enable   = moves;
  // The routing word comes before the data.
  assign read_from     = (ROUTED && is_routed) ? base - count_t'(ROUTING_BYTES) : base;
  assign read_position = {channel, PLACE_BITS'(read_from + count_t'(32'(at) * LANES))};

  always_ff @(posedge clk) begin
    scan <= next_scan;
    if (push) begin
      records[{push_channel, tail[push_channel][RECORD_BITS-1:0]}] <= push_record;
      is_done[{push_channel, tail[push_channel][RECORD_BITS-1:0]}] <= push_done;
      tail[push_channel] <= tail[push_channel] + 1'b1;
      used_to[push_channel] <= used_to[push_channel] + count_t'(push_record.bytes);
    end
    if (done) is_done[{done_channel, RECORD_BITS'(done_place)}] <= 1'b1;
    void_1 <= void_i;
    if (void_1.write) voids[{void_1.channel, void_1.sequence_}] <= void_1.is_void;

    if (drops_current) begin
      is_current[visit] <= 1'b0;
      is_begun[visit] <= 1'b0;
      abort_due[visit] <= is_begun[visit] && !forget;
      abort_tags[visit] <= tags[visit];
      abort_routed[visit] <= are_routed[visit];
      abort_nodes[visit] <= nodes[visit];
      used_from[visit] <= used_from[visit] + available[visit];
    end
    if (pops) head[visit] <= head[visit] + 1'b1;
    if (drops) used_from[visit] <= used_from[visit] + added;
    if (starts || adds || pops) counted[visit] <= pops ? '0 : come_now;
    if (starts) begin
      is_current[visit] <= 1'b1;
      is_begun[visit] <= 1'b0;
      has_end[visit] <= has_come && record_.ends;
      current[visit] <= record_.sequence_;
      tags[visit] <= record_.tag;
      are_routed[visit] <= record_.is_routed;
      nodes[visit] <= record_.node;
      indices[visit] <= '0;
      available[visit] <= added;
    end
    if (adds) begin
      available[visit] <= available[visit] + added;
      has_end[visit]   <= has_come && record_.ends;
    end

    if (begins) begin
      busy <= 1'b1;
      at <= '0;
      channel <= index;
      base <= used_from[index];
      label <= next_label;
      is_routed <= next_routed;
      word <= next_word;
      count <= next_count;
      final_byte <= 8'(next_count);
      is_abort <= LONG && abort_due[index];
      if (abort_due[index]) begin
        count <= '0;
        final_byte <= LONG ? '0 : ABORT;
        abort_due[index] <= 1'b0;
      end else begin
        available[index] <= rest_behind;
        indices[index]   <= indices[index] + 1'b1;
        is_begun[index]  <= 1'b1;
        if (is_last) is_current[index] <= 1'b0;
      end
    end
    if (busy && moves) at <= at + 1'b1;
    if (issues_last) begin
      busy <= 1'b0;
      used_from[channel] <= used_from[channel] + count_t'(count);
    end
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      sent[n] <= sent[n] + 2'(begins && chosen[n]) - 2'(leaves && m_channel == 3'(n));
      if (forget) abort_due[n] <= 1'b0;
    end
    if (!ROUTED) begin
      are_routed <= '0;
      abort_routed <= '0;
      nodes <= '0;
      abort_nodes <= '0;
      is_routed <= 1'b0;
      word <= '0;
    end
    if (rst) begin
      scan <= '0;
      head <= '0;
      tail <= '0;
      used_from <= '0;
      used_to <= '0;
      counted <= '0;
      is_current <= '0;
      is_begun <= '0;
      abort_due <= '0;
      sent <= '0;
      busy <= 1'b0;
      at <= '0;
    end
  end
  always_comb begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      on_way[n] = sent[n] != '0;
      on_way_more[n] = sent[n] > 2'd1;
    end
  end
  assign empty = head == tail && is_current == '0 && abort_due == '0 && !busy && valid == '0;

  // --- Through the memory's pipeline ----------------------------------------------------------
  typedef struct packed {
    logic [BEAT_BITS-1:0]   at;
    logic [2:0]             channel;
    logic [LENGTH_BITS-1:0] count;
    logic [7:0]             final_byte;
    logic                   is_abort;
    label_t                 label;
    logic                   is_routed;
    routing_word_t          word;
  } beat_t;
  beat_t [RING_READ_CLOCKS-1:0] beats;
  beat_t out;

  assign out = beats[RING_READ_CLOCKS-1];
  logic [31:0] end_at;  // of the data
  assign end_at = 32'(out.count) + ((ROUTED && out.is_routed) ? ROUTING_BYTES : '0);
  assign m_valid = valid[RING_READ_CLOCKS-1];
  assign m_channel = out.channel;
  assign m_label = out.label;
  assign moves = !m_valid || m_ready;
  assign leaves = m_valid && m_ready && out.at == '0;

  always_comb begin
    m_data = (8 * LANES)'(read_data);
    for (int unsigned n = 0; n < LANES; n++) begin
      if (32'(out.at) * LANES + n >= end_at) m_data[8*n+:8] = '0;
      if (LONG && out.is_abort && 32'(out.at) * LANES + n == PAYLOAD - 2) m_data[8*n+:8] = ABORT;
    end
    if (ROUTED && out.is_routed && 32'(out.at) < ROUTING_BYTES / LANES) begin
      m_data = out.word[8*LANES*out.at+:8*LANES];
    end
    if (out.at == '1 && out.label.kind == KIND_SHORT) m_data[8*LANES-1-:8] = out.final_byte;
  end

  always_ff @(posedge clk) begin
    if (moves) begin
      valid <= {valid[RING_READ_CLOCKS-2:0], busy};
      beats <= {
        beats[RING_READ_CLOCKS-2:0],
        beat_t
'{
            at: at,
            channel: channel,
            count: count,
            final_byte: final_byte,
            is_abort: is_abort,
            label: label,
            is_routed: is_routed,
            word: word
        }
      };
    end
    if (rst) valid <= '0;
  end
endmodule
