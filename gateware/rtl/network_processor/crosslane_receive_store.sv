// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Receive buffers of a link, whose places are freed in any order. A payload is written into the
// next free place of its channel as it comes; once it is delivered it is told, in the order of
// delivery. Its bytes are read at any position.

module crosslane_receive_store
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned LANES = 8,  // of the link
    parameter int unsigned CHANNEL_DATAGRAMS = 64,  // power of two, 2 to 512
    parameter bit ROUTED = 1'b0,
    parameter bit LONG = 1'b0,  // datagrams carry 256 B, not 128 B
    localparam int unsigned BEAT_BITS = $clog2(payload_bytes(LONG) / LANES),
    localparam int unsigned SLOT_BITS = $clog2(CHANNEL_DATAGRAMS),
    localparam int unsigned PLACE_BITS = 3 + SLOT_BITS,
    localparam int unsigned THROUGH_BITS = 1 + SLOT_BITS + BEAT_BITS,
    localparam int unsigned POSITION_BITS = PLACE_BITS + $clog2(payload_bytes(LONG))
) (
    input  logic                              clk,
    input  logic                              rst,
    // From the link's end.
    // verilator lint_off UNUSEDSIGNAL
    input  header_t                           header,            // its sequence number is unused
    // verilator lint_on UNUSEDSIGNAL
    input  logic                              beat_valid,
    input  logic     [    BEAT_BITS-1:0]      beat_index,
    input  logic     [      8*LANES-1:0]      beat_data,
    output logic                              has_room,
    input  logic                              delivers,
    input  logic                              tells,             // this is told to `m_*`
    input  logic     [     CHANNELS-1:0][9:0] delivered,
    input  logic     [     CHANNELS-1:0][9:0] freed,
    output logic     [    SLOT_BITS-1:0]      slot,              // its place
    // Datagrams delivered.
    output logic                              m_valid,
    input  logic                              m_ready,
    output arrived_t                          m_arrived,
    // The routing word of the datagram that comes, and whether it is the one that has come now.
    output coming_t                           coming,
    output logic                              m_is_coming,
    // A place is free.
    input  logic                              frees,
    input  logic     [              2:0]      frees_channel,
    input  logic     [    SLOT_BITS-1:0]      frees_slot,
    // Bytes of payloads, RING_READ_CLOCKS moves later.
    input  logic                              read_enable,
    input  logic     [POSITION_BITS-1:0]      read_position,
    output logic     [    DATA_BITS-1:0]      read_data,
    // Beats of payloads of channels 6 and 7, a clock later.
    // verilator lint_off UNUSEDSIGNAL
    input  logic                              through_enable,
    input  logic     [ THROUGH_BITS-1:0]      through_position,
    // verilator lint_on UNUSEDSIGNAL
    output logic     [      8*LANES-1:0]      through_data
);
  localparam int unsigned PLACES = CHANNELS * CHANNEL_DATAGRAMS;

  // --- Free places: as they were freed, after all have been used once ------------------------
  (* ram_style = "distributed" *)logic [SLOT_BITS-1:0] free_slots[PLACES];
  logic [ CHANNELS-1:0] all_used;
  logic [SLOT_BITS-1:0] number;
  logic fits, fits_now;
  logic [9:0] held;

  assign number = SLOT_BITS'(delivered[header.channel]);
  assign slot = all_used[header.channel] ? free_slots[{header.channel, number}] : number;
  assign held = delivered[header.channel] - freed[header.channel];
  assign fits_now = held < 10'(CHANNEL_DATAGRAMS);
  assign has_room = (beat_valid && beat_index == '0) ? fits_now : fits;

  always_ff @(posedge clk) begin
    fits <= has_room && !rst;
    if (frees) free_slots[{frees_channel, SLOT_BITS'(freed[frees_channel])}] <= frees_slot;
    if (delivers && number == '1) all_used[header.channel] <= 1'b1;
    if (rst) all_used <= '0;
  end

  // --- Payloads ------------------------------------------------------------------------------
  localparam int unsigned BYTES = DATA_BITS / 8;
  logic [BYTES-1:0] enables;
  logic [POSITION_BITS-1:0] position;

  // A ring is as wide as what is read; with few bits it may take a beat of the link at a time.
  assign enables  = (LANES < BYTES) ? BYTES'((64'd1 << LANES) - 64'd1) : '1;
  assign position = {header.channel, slot, $clog2(payload_bytes(LONG))'(32'(beat_index) * LANES)};

  crosslane_byte_ring #(
      .DATA_BITS (DATA_BITS),
      .SIZE_BYTES(PLACES * payload_bytes(LONG))
  ) ring (
      .clk,
      .rst,
      .write_valid   (beat_valid && has_room),
      .write_position(position),
      .write_data    (DATA_BITS'(beat_data)),
      .write_enable  (enables),
      .read_enable,
      .read_position,
      .read_back     ('0),
      .read_data
  );

  // --- Those delivered, in their order -------------------------------------------------------
  localparam int unsigned WHAT_BITS = ROUTED ? UNMARKED_BITS : NEIGHBOUR_ARRIVED_BITS;
  localparam int unsigned ORDER_BITS = WHAT_BITS + 32'(LONG);  // the mark on top
  logic [ORDER_BITS-1:0] order[PLACES];
  // verilator lint_off UNUSEDSIGNAL
  arrived_t arrived, oldest;  // between neighbours not all of it
  label_t label;  // only its kind
  long_routing_word_t long_word;  // what differs
  // verilator lint_on UNUSEDSIGNAL
  routing_word_t word;
  logic [7:0] last_byte, last_now;
  logic [ORDER_BITS-1:0] order_read;
  logic ends, is_abort;
  logic [PLACE_BITS:0] head, tail, head_next;

  assign label = label_t'(header.label);
  always_comb begin
    arrived = '0;
    arrived.channel = header.channel;
    arrived.slot = 9'(slot);
    arrived.label = header.label;
    arrived.last_byte = last_now;
    arrived.mark = is_abort;
    if (ROUTED && label.kind == KIND_ROUTED) begin
      arrived.last_byte = LONG ? long_word.bytes : {word.is_last, word.bytes};
      arrived.mark = LONG && long_word.is_last;
      arrived.index = word.index[12:0];
      arrived.is_beyond = word.index[22:13] != '0 || (!LONG && word.index[23]);
      arrived.source = word.source;
      arrived.destination = word.destination;
    end
    oldest = $bits(arrived_t)'(WHAT_BITS'(order_read));
    oldest.mark = LONG && order_read[ORDER_BITS-1];
  end
  assign ends = beat_valid && beat_index == '1;
  assign last_now = ends ? beat_data[8*LANES-1-:8] : last_byte;
  assign long_word = word;
  assign order_read = order[head_next[PLACE_BITS-1:0]];

  // The byte before the last one, of a long datagram.
  if (LONG) begin : g_abort
    logic [7:0] before_last, before_now;
    if (LANES > 1) begin : g_same_beat
      assign before_now = ends ? beat_data[8*LANES-9-:8] : before_last;
    end else begin : g_beat_before
      assign before_now = (beat_valid && beat_index == BEAT_BITS'(payload_bytes(
          LONG
      ) - 2)) ? beat_data[7:0] : before_last;
    end
    always_ff @(posedge clk) before_last <= before_now;
    assign is_abort = last_now == '0 && before_now == ABORT;
  end else begin : g_no_abort
    assign is_abort = 1'b0;
  end
  assign head_next = head + (PLACE_BITS + 1)'(m_valid && m_ready);

  always_ff @(posedge clk) begin
    last_byte <= last_now;
    if (tells) begin
      order[tail[PLACE_BITS-1:0]] <= ORDER_BITS'({arrived.mark, WHAT_BITS'(arrived)});
      tail <= tail + 1'b1;
    end
    head <= head_next;
    // A datagram that finds none before it is told at once.
    m_valid <= head_next != tail || tells;
    m_is_coming <= ROUTED && head_next == tail && tells;
    m_arrived <= (head_next == tail) ? arrived : oldest;
    if (rst) begin
      head <= '0;
      tail <= '0;
      m_valid <= 1'b0;
    end
  end

  // --- What goes on to other links -----------------------------------------------------------
  if (ROUTED) begin : g_through
    logic [8*LANES-1:0] beats[1<<THROUGH_BITS];
    logic within_word, begins, is_routed;

    always_ff @(posedge clk) begin
      if (beat_valid && has_room && header.channel >= ROUTED_CHANNEL) begin
        beats[{header.channel[0], slot, beat_index}] <= beat_data;
      end
      if (through_enable) through_data <= beats[through_position];
      // The routing word is in front.
      begins <= within_word;
      if (within_word) begin
        word[8*LANES*beat_index+:8*LANES] <= beat_data;
        is_routed <= 32'(beat_index) == ROUTING_BYTES / LANES - 1 && has_room &&
            header.channel >= ROUTED_CHANNEL && label.kind == KIND_ROUTED;
      end
      if (rst) is_routed <= 1'b0;
    end
    assign within_word = beat_valid && 32'(beat_index) < ROUTING_BYTES / LANES;
    assign coming = '{
            begins: begins,
            is_routed: is_routed,
            source: word.source,
            destination: word.destination
        };
  end else begin : g_neighbours
    assign word = '0;
    assign coming = '0;
    assign through_data = '0;
  end

`ifndef SYNTHESIS
  if (CHANNEL_DATAGRAMS != 1 << SLOT_BITS || CHANNEL_DATAGRAMS < 2 ||
      CHANNEL_DATAGRAMS > MAX_CHANNEL_DATAGRAMS) begin : g_channel
    $error("CHANNEL_DATAGRAMS is a power of two, 2 to 512");
  end
`endif
endmodule
