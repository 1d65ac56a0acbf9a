// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The next TLP of a write channel: from a short queue of planned ones or, in packet mode, straight
// from the plan, which the end of a packet changes.

module crosslane_write_heads
  import crosslane_pkg::*;
#(
    parameter kind_e       KIND       = KIND_C2H,
    parameter int unsigned DATA_BITS  = 256,
    parameter bit          PACKETS    = 0,
    parameter bit          REGISTERED = 0          // the queue's oldest, for short paths
) (
    input logic clk,
    input logic rst,
    // All but the first four of this group: of packet mode only.
    // verilator lint_off UNUSEDSIGNAL
    input logic started,  // the head's first beat has been made
    input logic abandon,  // TLPs begun before a restart are finished, or withdrawn
    input logic drop,  // the TLP at the output is withdrawn
    input logic fault_valid,
    input logic packets,  // packet mode
    input channel_settings_t settings,
    input packet_end_t feed_end,
    input logic [15:0] feed_available,
    input logic reset_counters,
    input logic running,
    input logic posted,
    input logic go,  // a beat of the head is made
    input logic last_beat,
    input logic refused,  // with go: a fault in its place
    input logic move,
    // Planned TLPs. C2H does not use the peer fields.
    input write_chunk_t chunk,
    // verilator lint_on UNUSEDSIGNAL
    input logic chunk_valid,
    output logic chunk_ready,
    output logic chunk_cut,  // with chunk_ready: its descriptor ends here
    output logic head_valid,
    input logic head_taken,
    output write_chunk_t head,
    output logic is_record,
    output logic [31:0] record,  // its second word; the first one is head.sent
    output logic discard,  // bytes are taken off the feed and thrown away
    output logic [6:0] discard_bytes,
    output logic [2:0][31:0] packet_counts  // truncated, dropped, moved
);
  localparam bit IS_PEER = KIND == KIND_PEER;
  localparam int unsigned CHUNK_BITS = $bits(write_chunk_t) - (IS_PEER ? 0 : WRITE_CHUNK_PEER_BITS);

  logic passes_by, queue_valid, queue_ready;
  logic [CHUNK_BITS-1:0] queue_bits;
  assign passes_by = PACKETS && packets;

  crosslane_fifo #(
      .WIDTH(CHUNK_BITS),
      .DEPTH(4),
      .REGISTERED(REGISTERED)
  ) queue (
      .clk,
      .rst(rst || fault_valid || (abandon && (drop || !started))),
      .s_valid(chunk_valid && !passes_by),
      .s_ready(queue_ready),
      .s_data(chunk[CHUNK_BITS-1:0]),
      .m_valid(queue_valid),
      .m_ready(head_taken),
      .m_data(queue_bits),
      .count()
  );

  if (PACKETS) begin : g_packets
    logic plan_taken, packet_valid, is_packet_record;
    write_chunk_t packet_head;
    assign chunk_ready = passes_by ? plan_taken : queue_ready;
    assign head_valid = passes_by ? packet_valid : queue_valid;
    assign head = passes_by ? packet_head : write_chunk_t'(queue_bits);
    assign is_record = passes_by && is_packet_record;

    crosslane_write_packets #(
        .DATA_BITS(DATA_BITS)
    ) packet_mode (
        .*,
        .enable(passes_by),
        .plan_valid(chunk_valid && passes_by),
        .plan(chunk),
        .plan_cut(chunk_cut),
        .head_valid(packet_valid),
        .head(packet_head),
        .is_record(is_packet_record),
        .go(go && passes_by)
    );
  end else begin : g_no_packets
    assign chunk_ready = queue_ready;
    assign head_valid = queue_valid;
    assign head = write_chunk_t'(queue_bits);
    assign {chunk_cut, is_record, discard} = '0;
    assign {record, discard_bytes, packet_counts} = '0;
  end
endmodule
