// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Packet mode of a C2H channel: shortens a planned TLP to the end of the packet, ends its
// descriptor there, and puts the descriptor's completion record behind its data. Drops packets for
// which no descriptor is posted. docs/engine.md, "Packets".
//
//   write_chunks -> plan -> head (data, shortened; or a record) -> beats of crosslane_writer

module crosslane_write_packets
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256
) (
    input logic clk,
    input logic rst,
    input logic enable,  // packet mode
    // Only some fields are used here.
    // verilator lint_off UNUSEDSIGNAL
    input channel_settings_t settings,
    input packet_end_t feed_end,
    input logic [15:0] feed_available,
    // verilator lint_on UNUSEDSIGNAL
    input logic reset_counters,
    input logic running,
    input logic abandon,  // TLPs begun before a restart are finished
    input logic fault_valid,
    input logic posted,  // descriptors are posted that are not taken up
    // The next TLP of the descriptor, as planned.
    input logic plan_valid,
    input write_chunk_t plan,
    output logic plan_taken,
    output logic plan_cut,  // with plan_taken: the descriptor ends here
    // The next TLP as it is built.
    output logic head_valid,
    output write_chunk_t head,
    output logic is_record,
    output logic [31:0] record,  // the record's second word
    input logic started,  // its first beat has been made
    input logic go,  // a beat is made
    input logic last_beat,
    input logic refused,  // with go: a fault in its place
    // Bytes are taken off the feed and thrown away.
    input logic move,
    output logic discard,
    output logic [6:0] discard_bytes,
    output logic [2:0][31:0] packet_counts  // truncated, dropped, moved
);
  localparam int unsigned BYTES = DATA_BITS / 8;
  localparam logic [11:0] RECORD_REST = 12'd7;  // bytes of a record less 1
  localparam int unsigned RECORD_PLACE = 24;  // of a record in its descriptor
  localparam int unsigned PLACE_BITS = 5;  // of the length of a descriptor in a ring

  // --- Data ------------------------------------------------------------------------------------
  // The oldest packet: its first part has been taken; the rest of it is being dropped.
  logic is_begun, is_dropped;
  // The stream was emptied: to be settled between two TLPs.
  logic is_cut, settles_cut;
  logic lacks, ends_dropped;
  logic [31:0] moved, dropped, truncated;
  logic ends, held_ends, held_over, over;
  logic [15:0] held_user;
  write_chunk_t data_head, record_head, held;

  assign ends = feed_end.known && feed_end.bytes <= 17'(plan.rest) + 17'd1;

  always_comb begin
    data_head = plan;
    if (ends) begin
      data_head.rest   = 12'(feed_end.bytes - 17'd1);
      data_head.extent = data_head.rest + 12'(plan.address[1:0]);
    end
    if (!plan.fault) data_head.ends = 1'b0;
    data_head.write_status   = 1'b0;
    data_head.send_interrupt = 1'b0;
  end

  // --- The descriptor, and its record ----------------------------------------------------------
  logic record_due, record_ends, record_cut, record_begins, record_status, record_interrupt;
  logic is_filled;  // data of the descriptor have been taken
  logic [31:0] filled;  // bytes
  logic [15:0] record_user, index;
  logic [31:0] place;

  assign place = 32'(index) << PLACE_BITS | RECORD_PLACE;
  always_comb begin
    record_head = '0;
    record_head.sent = filled;
    record_head.ends = 1'b1;
    record_head.write_status = record_status;
    record_head.send_interrupt = record_interrupt;
    record_head.address = {settings.ring[63:6], 6'd0} + 64'(place);
    record_head.rest = RECORD_REST;
    record_head.extent = RECORD_REST;
  end

  assign is_record = record_due && !started;
  assign head = started ? held : record_due ? record_head : data_head;
  assign head_valid = started || record_due ||
      (plan_valid && (plan.fault || !(is_dropped || is_cut)));
  assign record = {record_user, 12'd0, record_cut, record_ends, record_begins, 1'b1};

  assign settles_cut = is_cut && !started;
  assign over = started ? held_over : plan.ends || ends;
  // Data are begun, and their last beat is made.
  logic sends, sent;
  assign sends = go && !refused && !is_record;
  assign sent = sends && last_beat && !abandon;
  assign plan_taken = (go && last_beat && !is_record) || (settles_cut && is_filled && !record_due);
  assign plan_cut = settles_cut || over;

  always_ff @(posedge clk) begin
    if (sends && !started) begin
      held <= data_head;
      held_ends <= ends;
      held_user <= ends ? feed_end.user : '0;
      held_over <= plan.ends || ends;
      is_begun <= !ends;
      if (!is_filled) record_begins <= !is_begun;
      record_status <= plan.write_status;
      record_interrupt <= plan.send_interrupt;
    end
    if (sent) begin
      is_filled <= 1'b1;
      filled <= filled + 32'(head.rest) + 32'd1;
      record_due <= over;
      record_ends <= started ? held_ends : ends;
      record_user <= started ? held_user : ends ? feed_end.user : '0;
    end
    if (go && is_record && !refused) begin
      record_due <= 1'b0;
      record_cut <= 1'b0;
      is_filled <= 1'b0;
      filled <= '0;
      index <= (index + 1'b1) & 16'(settings.ring_entries - 1'b1);
    end
    if (settles_cut) begin
      is_cut <= 1'b0;
      is_begun <= 1'b0;
      is_dropped <= 1'b0;
      if (is_filled && !record_due) begin
        record_due  <= 1'b1;
        record_cut  <= 1'b1;
        record_ends <= 1'b0;
        record_user <= '0;
      end
    end
    if (discard) begin
      is_dropped <= !ends_dropped;
      is_begun   <= !ends_dropped;
    end
    if (feed_end.cut && enable) is_cut <= 1'b1;
    if (rst || settings.restart || fault_valid) begin
      record_due <= 1'b0;
      record_cut <= 1'b0;
      is_filled <= 1'b0;
      filled <= '0;
    end
    if (rst || settings.restart) index <= '0;
    if (rst) begin
      is_begun <= 1'b0;
      is_dropped <= 1'b0;
      is_cut <= 1'b0;
    end
  end

  assign packet_counts = {truncated, dropped, moved};

  // --- Drops -----------------------------------------------------------------------------------
  logic [16:0] most;

  assign lacks = settings.drop_packets && feed_end.has_ends && !head_valid && !plan_valid &&
      !posted;
  assign discard = enable && running && !abandon && !started && !is_cut && move &&
      feed_available != '0 && (is_dropped || lacks);
  assign most = (feed_available < 16'(BYTES)) ? 17'(feed_available) : 17'(BYTES);
  assign ends_dropped = feed_end.known && feed_end.bytes <= most;
  assign discard_bytes = 7'(ends_dropped ? feed_end.bytes : most);

  always_ff @(posedge clk) begin
    if (go && is_record && !refused && record_ends) moved <= moved + 1'b1;
    if (discard && !is_dropped && !is_begun) dropped <= dropped + 1'b1;
    if ((discard || settles_cut) && is_begun && !is_dropped) begin
      truncated <= truncated + 1'b1;
    end
    if (rst || reset_counters) begin
      moved <= '0;
      dropped <= '0;
      truncated <= '0;
    end
  end
endmodule
