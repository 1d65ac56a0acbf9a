// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Queues of the eight channels, the retry buffer's memory, and frames as columns. A datagram is
// read from its queue while it is sent for the first time, and written to the retry buffer beside.

module crosslane_link_transmit
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES = 8,  // 1, 4 or 8
    parameter int unsigned QUEUE_DATAGRAMS = 2,  // power of two, from 2
    parameter int unsigned RETRY_DATAGRAMS = 32,  // 1 to 127
    // The beats of a datagram come without a pause: it may be sent while it comes.
    parameter bit STEADY = 1'b0,
    parameter bit LONG = 1'b0,  // datagrams carry 256 B, not 128 B
    localparam int unsigned SLOT_BITS = $clog2(QUEUE_DATAGRAMS),
    localparam int unsigned RETRY_BITS = (RETRY_DATAGRAMS > 1) ? $clog2(RETRY_DATAGRAMS) : 1
) (
    input  logic                         clk,
    input  logic                         rst,
    // Datagrams: the label beside the first beat; the channel does not change within a datagram.
    input  logic                         s_valid,
    output logic                         s_ready,
    input  logic     [         2:0]      s_channel,
    input  label_t                       s_label,
    input  logic     [ 8*LANES-1:0]      s_data,
    output logic                         submits,       // pulse: a datagram may be sent
    output logic     [CHANNELS-1:0]      room,          // channels that take a datagram
    output logic     [CHANNELS-1:0]      room_more,     // that take two
    output logic     [CHANNELS-1:0]      queued,        // channels that have one
    // The frame to send: asked for when a column may be a frame's first; idle without one.
    output logic                         boundary,
    input  logic                         send_command,
    input  command_t                     command,       // stands from the clock behind on
    input  logic                         send_repeat,
    input  logic                         send_new,
    input  logic     [         2:0]      new_channel,
    input  logic     [CHANNELS-1:0]      new_chosen,    // the same, a bit each
    input  logic     [         7:0]      number,        // of the datagram
    // Columns.
    input  logic                         tx_ready,
    output logic     [   LANES-1:0][7:0] tx_symbols,
    output logic     [   LANES-1:0]      tx_control,
    output logic                         tx_begins      // the first of a frame, or idle
);
  localparam int unsigned WIDTH = 8 * LANES;
  localparam int unsigned BEATS = payload_bytes(LONG) / LANES;
  localparam int unsigned BEAT_BITS = $clog2(BEATS);
  localparam int unsigned AT_BITS = LONG ? 9 : 8;
  localparam int unsigned DATAGRAM_COLUMNS = (payload_bytes(LONG) + OVERHEAD_BYTES) / LANES;
  localparam int unsigned COMMAND_COLUMNS = COMMAND_BYTES / LANES;
  // Columns of the header word before the first of the payload.
  localparam int unsigned WORD_COLUMNS = (LANES == 8) ? 0 : 4 / LANES;

  logic [WIDTH-1:0] queue_memory[CHANNELS*QUEUE_DATAGRAMS*BEATS];
  logic [WIDTH-1:0] retry_memory[(1<<RETRY_BITS)*BEATS];
  (* ram_style = "distributed" *) label_t queue_labels[CHANNELS*QUEUE_DATAGRAMS];
  typedef struct packed {
    label_t     label;
    logic [2:0] channel;
  } kept_t;
  (* ram_style = "distributed" *) kept_t retry_labels[1<<RETRY_BITS];

  // --- Queues --------------------------------------------------------------------------------
  // A datagram's place is free again when it has been read.
  logic [CHANNELS-1:0][SLOT_BITS:0] put, sent, left;
  logic [BEAT_BITS-1:0] s_at;
  logic [SLOT_BITS-1:0] s_slot;
  logic takes_beat, has_read, is_counted;
  logic [2:0] channel_1;  // of the datagram that is read

  always_comb begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      logic [SLOT_BITS:0] held;
      held = put[n] - left[n];
      room[n] = !held[SLOT_BITS];
      room_more[n] = held <= (SLOT_BITS + 1)'(QUEUE_DATAGRAMS - 2);
      queued[n] = put[n] != sent[n];
    end
  end

  // A steady datagram counts from its first beat on: what is read is at least two beats behind.
  localparam logic [BEAT_BITS-1:0] COUNTED_AT = STEADY ? '0 : BEAT_BITS'(BEATS - 1);
  assign is_counted = STEADY && s_at != '0;
  assign s_slot = SLOT_BITS'(put[s_channel]) - SLOT_BITS'(is_counted);
  assign s_ready = is_counted || room[s_channel];
  assign takes_beat = s_valid && s_ready;
  assign submits = takes_beat && s_at == COUNTED_AT;

  always_ff @(posedge clk) begin
    if (takes_beat) begin
      queue_memory[{s_channel, s_slot, s_at}] <= s_data;
      if (s_at == '0) queue_labels[{s_channel, s_slot}] <= s_label;
      s_at <= s_at + 1'b1;
    end
    if (submits) put[s_channel] <= put[s_channel] + 1'b1;
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      if (send_new && new_chosen[n]) sent[n] <= sent[n] + 1'b1;
    end
    if (has_read) left[channel_1] <= left[channel_1] + 1'b1;
    if (rst) begin
      s_at <= '0;
      put  <= '0;
      sent <= '0;
      left <= '0;
    end
  end

  // --- First stage: the column's number, reads of the memories -------------------------------
  logic active_1, is_command_1, is_new_1;
  logic [AT_BITS-1:0] at_1, beat_1;
  logic [7:0] number_1;
  logic [SLOT_BITS-1:0] queue_1, new_slot;
  logic [RETRY_BITS-1:0] retry_1;
  logic is_last_1, has_beat_1;
  kept_t   kept_1;
  header_t header_1;

  assign boundary = tx_ready && (!active_1 || is_last_1);
  always_comb begin
    new_slot = '0;
    for (int unsigned n = 0; n < CHANNELS; n++) if (new_chosen[n]) new_slot |= SLOT_BITS'(sent[n]);
  end
  assign retry_1 = RETRY_BITS'(number_1);
  assign beat_1 = at_1 - AT_BITS'(WORD_COLUMNS);
  assign has_beat_1 = active_1 && !is_command_1 && beat_1 < AT_BITS'(BEATS);
  assign has_read = tx_ready && has_beat_1 && is_new_1 && beat_1 == AT_BITS'(BEATS - 1);
  assign kept_1 = is_new_1 ?
      '{label: queue_labels[{channel_1, queue_1}], channel: channel_1}
      : retry_labels[retry_1];
  assign header_1 = '{label: kept_1.label, channel: kept_1.channel, number: number_1};

  always_ff @(posedge clk) begin
    if (tx_ready) begin
      at_1 <= at_1 + 1'b1;
      is_last_1 <= at_1 == (is_command_1 ? AT_BITS'(COMMAND_COLUMNS - 2)
                                         : AT_BITS'(DATAGRAM_COLUMNS - 2));
      if (boundary) begin
        active_1 <= send_command || send_repeat || send_new;
        is_command_1 <= send_command;
        is_new_1 <= send_new;
        at_1 <= '0;
        is_last_1 <= COMMAND_COLUMNS == 1 && send_command;
        number_1 <= number;
        channel_1 <= new_channel;
        queue_1 <= new_slot;
      end
      if (active_1 && !is_command_1 && is_new_1 && at_1 == '0) retry_labels[retry_1] <= kept_1;
    end
    if (rst) active_1 <= 1'b0;
  end

  // --- Second stage: the memories' words -----------------------------------------------------
  logic active_2, is_command_2, is_new_2, is_last_2, has_beat_2;
  logic [AT_BITS-1:0] at_2;
  logic [31:0] word_2;
  logic [WIDTH-1:0] from_queue, from_retry, payload;
  logic [RETRY_BITS+BEAT_BITS-1:0] place_2;

  always_ff @(posedge clk) begin
    if (tx_ready) begin
      active_2 <= active_1;
      is_command_2 <= is_command_1;
      is_new_2 <= is_new_1;
      is_last_2 <= is_last_1;
      has_beat_2 <= has_beat_1;
      at_2 <= at_1;
      if (at_1 == '0) word_2 <= is_command_1 ? command : header_1;
      from_queue <= queue_memory[{channel_1, queue_1, BEAT_BITS'(beat_1)}];
      from_retry <= retry_memory[{retry_1, BEAT_BITS'(beat_1)}];
      place_2 <= {retry_1, BEAT_BITS'(beat_1)};
      if (has_beat_2 && is_new_2) retry_memory[place_2] <= payload;
    end
    if (rst) active_2 <= 1'b0;
  end
  assign payload = is_new_2 ? from_queue : from_retry;

  // --- Third stage: the column ---------------------------------------------------------------
  logic [WIDTH-1:0] column;
  logic [31:0] crc, crc_begin, crc_next;
  assign crc_begin = (at_2 == '0) ? '1 : crc;

  if (LANES == 8) begin : g_column_across
    logic [31:0] held, low, crc_low;
    assign low = (at_2 == '0) ? word_2 : held;
    crosslane_link_crc #(
        .BYTES(4)
    ) of_low (
        .crc(crc_begin),
        .data(low),
        .behind(crc_low)
    );
    crosslane_link_crc #(
        .BYTES(8)
    ) of_column (
        .crc(crc_begin),
        .data({payload[31:0], low}),
        .behind(crc_next)
    );
    assign column = {is_last_2 ? ~crc_low : payload[31:0], low};
    always_ff @(posedge clk) if (tx_ready) held <= payload[63:32];
  end else begin : g_column
    logic [AT_BITS-1:0] crc_at;
    logic [WIDTH-1:0] content;
    logic [31:0] crc_of_content;
    logic [4:0] shift;
    logic is_content;
    assign crc_at = is_command_2 ? AT_BITS'(COMMAND_COLUMNS - WORD_COLUMNS)
                                 : AT_BITS'(DATAGRAM_COLUMNS - WORD_COLUMNS);
    assign shift = (LANES == 1) ? {at_2[1:0], 3'd0} : '0;
    assign is_content = at_2 < crc_at;
    assign content = (at_2 < AT_BITS'(WORD_COLUMNS)) ? WIDTH'(word_2 >> shift) : payload;
    crosslane_link_crc #(
        .BYTES(LANES)
    ) of_content (
        .crc(crc_begin),
        .data(content),
        .behind(crc_of_content)
    );
    assign column   = is_content ? content : WIDTH'(~crc >> shift);
    assign crc_next = is_content ? crc_of_content : crc;
    logic unused;
    assign unused = is_last_2;
  end

  always_ff @(posedge clk) begin
    if (tx_ready) begin
      crc <= crc_next;
      tx_symbols <= active_2 ? column : {LANES{K_IDLE}};
      tx_control <= active_2 ? LANES'(is_command_2 && at_2 == '0) : '1;
      tx_begins <= !active_2 || at_2 == '0;
    end
    if (rst) begin
      tx_symbols <= {LANES{K_IDLE}};
      tx_control <= '1;
      tx_begins  <= 1'b1;
    end
  end

`ifndef SYNTHESIS
  if (LANES != 1 && LANES != 4 && LANES != 8) begin : g_lanes
    $error("LANES is 1, 4 or 8");
  end
  if (QUEUE_DATAGRAMS != 1 << SLOT_BITS || QUEUE_DATAGRAMS < 2) begin : g_queue
    $error("QUEUE_DATAGRAMS is a power of two, from 2");
  end
  always_ff @(posedge clk) begin
    if (is_counted && !rst) begin
      assert (s_valid)
      else $error("a steady datagram pauses");
    end
  end
`endif
endmodule
