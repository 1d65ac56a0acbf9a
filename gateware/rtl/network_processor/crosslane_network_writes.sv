// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Writes to host memory: data of datagrams out of the receive buffers, notifications, counts of
// puts. Data and notifications leave in the order in which they are given. A datagram's place is
// free behind its last beat.

module crosslane_network_writes
  import crosslane_pkg::*;
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned LINKS = 1,
    parameter int unsigned CHANNEL_DATAGRAMS = 64,
    parameter int unsigned MAX_WRITE = 256,  // bytes: 128 to 4096
    parameter bit LONG = 1'b0,  // datagrams carry 256 B, not 128 B
    localparam int unsigned COUNTS = 8 * LINKS,
    localparam int unsigned SLOT_BITS = $clog2(CHANNEL_DATAGRAMS),
    localparam int unsigned PAYLOAD_BITS = $clog2(payload_bytes(LONG)),
    localparam int unsigned POSITION_BITS = 3 + SLOT_BITS + PAYLOAD_BITS
) (
    input logic clk,
    input logic rst,
    // verilator lint_off UNUSEDSIGNAL
    input function_t function_i,  // only some fields are used
    // verilator lint_on UNUSEDSIGNAL
    input logic s_valid,
    output logic s_ready,
    input write_t s_write,
    // Counts of puts, by link and channel, and where they are written.
    input logic [63:0] counts_address,
    input logic [COUNTS-1:0] counts_due,
    input logic [COUNTS-1:0][31:0] counts,
    output logic [COUNTS-1:0] count_taken,
    // Receive buffers of the links.
    output logic read_enable,
    output logic [POSITION_BITS-1:0] read_position,
    input logic [LINKS-1:0][DATA_BITS-1:0] read_data,
    output logic [LINKS-1:0] frees,
    output logic [2:0] frees_channel,
    output logic [SLOT_BITS-1:0] frees_slot,
    output logic idle,  // nothing is on its way
    output logic m_valid,
    input logic m_ready,
    output tlp_header_t m_header,
    output logic m_first,
    output logic m_last,
    output logic [DATA_BITS-1:0] m_data
);
  localparam int unsigned BYTES = DATA_BITS / 8;
  localparam int unsigned COUNT_BITS = $clog2(COUNTS);
  localparam int unsigned LINK_BITS = (LINKS > 1) ? $clog2(LINKS) : 1;

  // A beat on its way through the memory's pipeline.
  typedef struct packed {
    logic        is_tlp;   // else a place is freed, and nothing else
    logic        first;
    logic        last;
    tlp_header_t header;
    logic        has_own;  // the data are these
    logic [63:0] own;
    logic        frees;
    logic [2:0]  link;
    logic [2:0]  channel;
    logic [8:0]  slot;
  } beat_t;

  // --- The write in progress -----------------------------------------------------------------
  logic busy, ends, is_free, moves, takes_write, takes_count, counts_first;
  // The next count: of a link, and a clock later of a channel of it.
  logic [LINKS-1:0][CHANNELS-1:0] due;
  logic [LINKS-1:0] has_due;
  logic [LINK_BITS-1:0] turn_link, due_link, count_link;
  logic [CHANNELS-1:0] turn_count, next_count;
  logic [2:0] turn_channel, count_channel;
  logic has_count, chooses;
  logic [COUNT_BITS-1:0] count_index;
  write_kind_e kind;
  logic [63:0] address, own;
  logic [  PAYLOAD_BITS:0] left;  // bytes
  logic [PAYLOAD_BITS-1:0] from;  // the next byte of the payload
  logic [2:0] link, channel;
  logic [8:0] slot;
  write_of_data_t s_data_work;
  write_of_notification_t s_notification;

  assign due = counts_due;
  crosslane_turn #(
      .COUNT(LINKS)
  ) link_turn (
      .clk,
      .rst,
      .valid (has_due),
      .taken (chooses ? LINKS'(1) << due_link : '0),
      .chosen(),
      .index (turn_link)
  );
  crosslane_turn #(
      .COUNT(CHANNELS)
  ) channel_turn (
      .clk,
      .rst,
      .valid (due[due_link]),
      .taken (chooses ? turn_count : '0),
      .chosen(turn_count),
      .index (turn_channel)
  );
  // In the clock in which a count is taken it is still due.
  assign chooses = !has_count && turn_count != '0;
  assign count_index = COUNT_BITS'({count_link, count_channel});
  always_ff @(posedge clk) begin
    for (int unsigned n = 0; n < LINKS; n++) has_due[n] <= due[n] != '0;
    due_link  <= turn_link;
    has_count <= (chooses || (has_count && !takes_count)) && counts_due != '0 && !rst;
    if (chooses) begin
      next_count <= turn_count;
      count_link <= due_link;
      count_channel <= turn_channel;
    end
  end
  always_comb begin
    count_taken = '0;
    if (takes_count) count_taken[8*count_link+:8] = next_count;
  end

  // The next one begins behind the last beat of the one before. Counts and others take turns.
  assign is_free = !busy || (moves && ends);
  assign takes_count = is_free && function_i.bus_master && has_count && counts_address != '0 &&
      (counts_first || !s_valid);
  assign takes_write = is_free && function_i.bus_master && s_valid && !takes_count;
  assign s_ready = is_free && function_i.bus_master && !takes_count;
  assign s_data_work = write_of_data_t'(s_write.what);
  assign s_notification = write_of_notification_t'(s_write.what);

  // --- Its next TLP: up to a multiple of the payload size -------------------------------------
  logic [12:0] most;
  logic [12:0] room;  // of a write that is taken, in its first TLP
  logic [PAYLOAD_BITS:0] s_bytes, bytes, left_behind;  // of that write, of the TLP, behind it
  logic is_final;  // the TLP ends the write
  logic is_short;  // so does the first of a write that is taken
  logic [7:0] beat;  // number of the next beat in it
  logic [10:0] offset;  // of the beat's lane 0, from the first double word
  logic last;
  beat_t next;

  always_ff @(posedge clk) begin
    most <= (size_bytes(function_i.max_payload) < 13'(MAX_WRITE)) ?
        size_bytes(function_i.max_payload) : 13'(MAX_WRITE);
  end
  assign s_bytes = (PAYLOAD_BITS + 1)'((s_write.kind == WRITE_NOTIFY) ? 9'd8 : s_data_work.bytes);
  assign room = most - (13'(s_write.address[11:0]) & (most - 1'b1));
  // The notification and a count are within a TLP wherever they are.
  assign is_short = s_write.kind == WRITE_NOTIFY || 13'(s_bytes) <= room;
  assign left_behind = left - bytes;
  assign offset = 11'(32'(beat) * BYTES);
  assign last = beat == 8'((11'(address[1:0]) + 11'(bytes) - 1'b1) >> $clog2(BYTES));
  assign ends = kind == WRITE_DROP || (last && is_final);
  assign read_enable = moves;
  assign read_position = {channel, SLOT_BITS'(slot), from} +
      POSITION_BITS'(offset) - POSITION_BITS'(address[1:0]);

  always_comb begin
    next = '0;
    next.is_tlp = kind != WRITE_DROP;
    next.first = beat == '0;
    next.last = last;
    next.header.kind = MEMORY_WRITE;
    next.header.address = {address[63:2], 2'b00};
    next.header.length_dw = length_dw(address[1:0], 13'(bytes));
    next.header.first_be = first_enables(address[1:0], 13'(bytes));
    next.header.last_be = (next.header.length_dw == 11'd1) ? '0 :
        last_enables(address[1:0], 13'(bytes));
    next.header.requester = function_i.routing_id;
    next.has_own = kind == WRITE_NOTIFY || kind == WRITE_COUNT;
    next.own = own;
    next.frees = (kind == WRITE_DATA || kind == WRITE_DROP) && ends;
    next.link = link;
    next.channel = channel;
    next.slot = slot;
  end

  always_ff @(posedge clk) begin
    if (busy && moves) begin
      beat <= last ? '0 : beat + 1'b1;
      if (last) begin
        address <= address + 64'(bytes);
        from <= from + PAYLOAD_BITS'(bytes);
        left <= left_behind;
        bytes <= (13'(left_behind) <= most) ? left_behind : (PAYLOAD_BITS + 1)'(most);
        is_final <= 13'(left_behind) <= most;
      end
      if (ends) busy <= 1'b0;
    end
    if (takes_write) begin
      busy <= 1'b1;
      kind <= s_write.kind;
      address <= s_write.address;
      link <= s_data_work.link;
      channel <= s_data_work.channel;
      slot <= s_data_work.slot;
      left <= s_bytes;
      is_final <= is_short;
      bytes <= is_short ? s_bytes : (PAYLOAD_BITS + 1)'(room);
      own <= {s_notification.bytes, 12'd0, s_notification.outcome, s_notification.token};
      counts_first <= 1'b1;
    end
    if (takes_count) begin
      busy <= 1'b1;
      kind <= WRITE_COUNT;
      address <= counts_address + 64'({count_index, 2'b00});
      left <= (PAYLOAD_BITS + 1)'(4);
      bytes <= (PAYLOAD_BITS + 1)'(4);
      is_final <= 1'b1;
      own <= 64'(counts[count_index]);
      counts_first <= 1'b0;
    end
    if (takes_write || takes_count) begin
      from <= '0;
      if (takes_write && s_write.kind == WRITE_DATA && s_data_work.is_routed) begin
        from <= PAYLOAD_BITS'(ROUTING_BYTES);
      end
      beat <= '0;
    end
    if (rst) begin
      busy <= 1'b0;
      counts_first <= 1'b0;
    end
  end

  // --- Through the pipeline of the receive buffers' memory ------------------------------------
  logic [RING_READ_CLOCKS-1:0] valid;
  beat_t [RING_READ_CLOCKS-1:0] beats;
  beat_t out;

  assign out = beats[RING_READ_CLOCKS-1];
  assign m_valid = valid[RING_READ_CLOCKS-1] && out.is_tlp;
  assign moves = !m_valid || m_ready;
  assign m_header = out.header;
  assign m_first = out.first;
  assign m_last = out.last;
  assign idle = !busy && valid == '0;

  always_comb begin
    m_data = out.has_own ? DATA_BITS'(out.own) : '0;
    for (int unsigned n = 0; n < LINKS; n++) begin
      if (!out.has_own && out.link == 3'(n)) m_data |= read_data[n];
    end
  end

  always_ff @(posedge clk) begin
    frees <= '0;
    if (moves) begin
      valid <= {valid[RING_READ_CLOCKS-2:0], busy};
      beats <= {beats[RING_READ_CLOCKS-2:0], next};
      for (int unsigned n = 0; n < LINKS; n++) begin
        frees[n] <= valid[RING_READ_CLOCKS-1] && out.frees && out.link == 3'(n);
      end
      frees_channel <= out.channel;
      frees_slot <= SLOT_BITS'(out.slot);
    end
    if (rst) begin
      valid <= '0;
      frees <= '0;
    end
  end

`ifndef SYNTHESIS
  if (MAX_WRITE != 1 << $clog2(MAX_WRITE) || MAX_WRITE < 128 || MAX_WRITE > 4096) begin : g_write
    $error("MAX_WRITE is a power of two, 128 to 4096");
  end
`endif
endmodule
