// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// An H2C channel with its descriptor supply and, if built with it, its path to the card's memory.
// All its reads of host memory, data and descriptors, go through crosslane_reads.

module crosslane_h2c_channel
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned MAX_READ = 1024,  // bytes
    parameter int unsigned TABLE_ENTRIES = 1024,  // 0: no table
    parameter int unsigned BATCH = 16,
    parameter bit MEMORY = 0,
    parameter int unsigned MEMORY_BITS = 40,
    parameter bit PACKETS = 0,
    parameter bit PUSH = 0,
    parameter int unsigned PACKET_ENDS = 256,  // from the reads to the consumer
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input logic [63:0] time_i,
    input logic reset_counters,
    input channel_settings_t settings,
    output channel_readings_t readings,
    output logic stopped,
    output logic working,  // it has work
    // Status blocks and interrupts.
    output due_t due,
    input logic status_taken,
    input logic interrupt_taken,
    // Table of descriptors.
    output logic table_take,
    output logic [9:0] table_index,
    input logic [127:0] table_entry,
    input logic table_whole,
    // crosslane_reads: descriptors.
    output logic fetch_asks,
    output logic fetch_valid,
    input logic fetch_ready,
    output logic [63:0] fetch_address,
    output logic [12:0] fetch_bytes,
    output logic fetch_forget,
    input logic fetched_valid,
    output logic fetched_ready,
    input logic [255:0] fetched_data,
    input logic fetch_failed,
    input error_e fetch_error,
    input logic [63:0] fetch_error_address,
    // Its line of the push aperture.
    input logic line_valid,
    input line_write_t line_write,
    // crosslane_reads: data.
    output logic read_valid,
    input logic read_ready,
    output logic [63:0] read_address,
    output logic [12:0] read_bytes,
    output logic read_relaxed,
    input logic read_blocked,
    output logic inline_valid,
    input logic inline_taken,
    output logic [5:0] inline_bytes,
    output logic [8*INLINE_BYTES-1:0] inline_data,
    input logic data_came,
    input logic arrived_valid,
    input logic [12:0] arrived_bytes,
    input logic failed_valid,
    input error_e failed_error,
    input logic [63:0] failed_address,
    output logic forget,
    output logic clear,
    input logic [15:0] in_flight,
    // The stream of read data: a feed from crosslane_reads to the user circuit. The data bypass
    // this module; it uses them only with a card memory.
    input logic [15:0] staged_available,
    output logic staged_move,
    output logic staged_take,
    output logic [5:0] staged_take_back,
    output logic [6:0] staged_take_bytes,
    output logic staged_goes_on,
    // verilator lint_off UNUSEDSIGNAL
    input logic [DATA_BITS-1:0] staged_data,
    // verilator lint_on UNUSEDSIGNAL
    output logic [15:0] feed_available,
    input logic feed_move,
    input logic feed_take,
    input logic [5:0] feed_take_back,
    input logic [6:0] feed_take_bytes,
    input logic feed_goes_on,
    output packet_end_t feed_end,
    input logic feed_drained,  // it has no consumer
    // The card's memory, AXI4.
    output logic memory_busy,
    output logic m_memory_awvalid,
    output logic [MEMORY_BITS-1:0] m_memory_awaddr,
    output logic [7:0] m_memory_awlen,
    output logic m_memory_wvalid,
    output logic [DATA_BITS-1:0] m_memory_wdata,
    output logic [BYTES-1:0] m_memory_wstrb,
    output logic m_memory_wlast,
    output logic m_memory_bready,
    // verilator lint_off UNUSEDSIGNAL
    input logic m_memory_awready,
    input logic m_memory_wready,
    input logic m_memory_bvalid,
    input logic [1:0] m_memory_bresp
    // verilator lint_on UNUSEDSIGNAL
);
  logic descriptor_valid, descriptor_ready, descriptor_inline, posted, line_taken;
  descriptor_t descriptor;
  logic [31:0] fetched, pushed, pushes_dropped;
  channel_readings_t channel_readings;

  crosslane_descriptors #(
      .HAS_TABLE(TABLE_ENTRIES > 0),
      .HAS_RING(1),
      .HAS_COMMAND(0),
      .TABLE_ENTRIES((TABLE_ENTRIES > 0) ? TABLE_ENTRIES : 1),
      .BATCH(BATCH),
      .HAS_PACKETS(PACKETS),
      .MAX_READ(MAX_READ),
      .HAS_PUSH(PUSH),
      .HAS_INLINE(PUSH)
  ) descriptors (
      .clk,
      .rst,
      .settings,
      .function_i,
      .completed(channel_readings.completed),
      .stopped,
      .reset_counters,
      .table_take,
      .table_index,
      .table_entry,
      .table_whole,
      .fetch_asks,
      .fetch_valid,
      .fetch_ready,
      .fetch_address,
      .fetch_bytes,
      .fetch_forget,
      .fetched_valid,
      .fetched_ready,
      .fetched_data,
      .line_valid,
      .line_write,
      .line_taken,
      .pushed,
      .pushes_dropped,
      .fetch_failed,
      .fetch_error,
      .fetch_error_address,
      .command_valid(1'b0),
      .command_ready(),
      .command_descriptor('0),
      .descriptor_valid,
      .descriptor_ready,
      .descriptor,
      .descriptor_to_card(),
      .descriptor_inline,
      .inline_data,
      .posted,
      .fetched
  );

  always_comb begin
    readings = channel_readings;
    readings.fetched = fetched;
    readings.line_taken = line_taken;
    readings.pushed = pushed;
    readings.pushes_dropped = pushes_dropped;
  end
  assign inline_bytes = descriptor.bytes[5:0];
  assign working = due != '0 || (settings.run && !stopped && (posted || descriptor_valid)) ||
      in_flight != '0;

  // Bytes as the channel sees them: written to the memory, or in the stream.
  logic own_descriptor_valid, own_descriptor_ready, moved_valid, halted_valid;
  logic [12:0] moved_bytes;
  error_e halted_error;
  logic [63:0] halted_address;

  if (MEMORY) begin : g_memory
    crosslane_memory_h2c #(
        .DATA_BITS(DATA_BITS),
        .ADDRESS_BITS(MEMORY_BITS)
    ) memory (
        .clk,
        .rst,
        .enable(settings.card_memory),
        .forget(forget || clear),
        .s_descriptor_valid(descriptor_valid),
        .s_descriptor_ready(descriptor_ready),
        .s_descriptor_card(descriptor.card),
        .s_descriptor_bytes(descriptor.bytes),
        .m_descriptor_valid(own_descriptor_valid),
        .m_descriptor_ready(own_descriptor_ready),
        .s_arrived_valid(arrived_valid),
        .s_arrived_bytes(arrived_bytes),
        .s_failed_valid(failed_valid),
        .s_failed_error(failed_error),
        .s_failed_address(failed_address),
        .m_arrived_valid(moved_valid),
        .m_arrived_bytes(moved_bytes),
        .m_failed_valid(halted_valid),
        .m_failed_error(halted_error),
        .m_failed_address(halted_address),
        .s_feed_available(staged_available),
        .s_feed_move(staged_move),
        .s_feed_take(staged_take),
        .s_feed_take_back(staged_take_back),
        .s_feed_take_bytes(staged_take_bytes),
        .s_feed_goes_on(staged_goes_on),
        .s_feed_data(staged_data),
        .m_feed_available(feed_available),
        .m_feed_move(feed_move),
        .m_feed_take(feed_take),
        .m_feed_take_back(feed_take_back),
        .m_feed_take_bytes(feed_take_bytes),
        .m_feed_goes_on(feed_goes_on),
        .busy(memory_busy),
        .m_axi_awvalid(m_memory_awvalid),
        .m_axi_awready(m_memory_awready),
        .m_axi_awaddr(m_memory_awaddr),
        .m_axi_awlen(m_memory_awlen),
        .m_axi_wvalid(m_memory_wvalid),
        .m_axi_wready(m_memory_wready),
        .m_axi_wdata(m_memory_wdata),
        .m_axi_wstrb(m_memory_wstrb),
        .m_axi_wlast(m_memory_wlast),
        .m_axi_bvalid(m_memory_bvalid),
        .m_axi_bready(m_memory_bready),
        .m_axi_bresp(m_memory_bresp)
    );
  end else begin : g_stream
    assign own_descriptor_valid = descriptor_valid;
    assign descriptor_ready = own_descriptor_ready;
    assign moved_valid = arrived_valid;
    assign moved_bytes = arrived_bytes;
    assign halted_valid = failed_valid;
    assign halted_error = failed_error;
    assign halted_address = failed_address;
    assign feed_available = staged_available;
    assign staged_move = feed_move;
    assign staged_take = feed_take;
    assign staged_take_back = feed_take_back;
    assign staged_take_bytes = feed_take_bytes;
    assign staged_goes_on = feed_goes_on;
    assign memory_busy = 1'b0;
    assign m_memory_awvalid = 1'b0;
    assign m_memory_awaddr = '0;
    assign m_memory_awlen = '0;
    assign m_memory_wvalid = 1'b0;
    assign m_memory_wdata = '0;
    assign m_memory_wstrb = '0;
    assign m_memory_wlast = 1'b0;
    assign m_memory_bready = 1'b0;
  end

  // A remainder of less than a word stays.
  logic draining;
  always_ff @(posedge clk) draining <= feed_drained && feed_available[15:2] != '0 && !rst;

  logic in_packets, ends_room, read_ends_packet;
  logic [15:0] read_user;
  assign in_packets = PACKETS && settings.packets && !(MEMORY && settings.card_memory);

  if (PACKETS) begin : g_packets
    packet_end_t packet_end;
    crosslane_packet_ends #(
        .DEPTH(PACKET_ENDS)
    ) ends (
        .clk,
        .rst,
        .clear,
        .enter_valid(read_valid && read_ready),
        .enter_bytes(read_bytes),
        .enter_ends(read_ends_packet),
        .enter_user(read_user),
        .has_room(ends_room),
        .leave_bytes((staged_move && staged_take) ? staged_take_bytes : '0),
        .packet_end
    );
    always_comb begin
      feed_end = packet_end;
      feed_end.has_ends = in_packets;
    end
  end else begin : g_no_packets
    assign ends_room = 1'b1;
    assign feed_end  = '0;
    logic unused;
    assign unused = &{read_ends_packet, read_user};
  end

  crosslane_h2c #(
      .MAX_READ(MAX_READ),
      .PACKETS (PACKETS),
      .PUSH    (PUSH)
  ) h2c (
      .clk,
      .rst,
      .settings,
      .function_i,
      .time_i,
      .reset_counters,
      .descriptor_valid(own_descriptor_valid),
      .descriptor_ready(own_descriptor_ready),
      .descriptor,
      .descriptor_inline,
      .inline_valid,
      .inline_taken,
      .status_taken,
      .interrupt_taken,
      .due,
      .readings(channel_readings),
      .stopped,
      .read_valid,
      .read_ready,
      .read_address,
      .read_bytes,
      .read_relaxed,
      .packets(in_packets),
      .ends_room,
      .read_ends_packet,
      .read_user,
      .arrived_valid(moved_valid),
      .arrived_bytes(moved_bytes),
      .failed_valid(halted_valid),
      .failed_error(halted_error),
      .failed_address(halted_address),
      .forget,
      .clear,
      .in_flight,
      .read_blocked,
      .data_came,
      .draining
  );
endmodule
