// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A channel that writes, C2H or peer, with its descriptor supply and, if built with it, its path to
// the card's memory. It fetches descriptors through crosslane_reads.

module crosslane_write_channel
  import crosslane_pkg::*;
#(
    parameter kind_e KIND = KIND_C2H,
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned MAX_WRITE = 512,  // bytes
    parameter int unsigned MAX_READ = 1024,  // bytes
    parameter int unsigned TABLE_ENTRIES = 1024,  // 0: no table
    parameter bit COMMANDS = 0,  // it has the user circuit's command port
    parameter int unsigned BATCH = 16,
    parameter bit MEMORY = 0,
    parameter int unsigned MEMORY_BITS = 40,
    parameter bit COPY = 0,  // C2H with MEMORY: it copies within the memory
    parameter bit PACKETS = 0,
    parameter bit PUSH = 0,
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
    // Command port of the user circuit.
    input logic command_valid,
    output logic command_ready,
    input descriptor_t command_descriptor,
    output logic command_done,
    output logic message_begun,
    // Feed of the data to be written.
    input logic [15:0] feed_available,
    output logic feed_move,
    output logic feed_take,
    output logic [5:0] feed_take_back,
    output logic [6:0] feed_take_bytes,
    output logic feed_goes_on,
    input logic [DATA_BITS-1:0] feed_data,
    input packet_end_t feed_end,
    output logic feed_generated,
    // TLPs.
    output logic m_write_valid,
    input logic m_write_ready,
    output tlp_header_t m_write_header,
    output logic m_write_first,
    output logic m_write_last,
    output logic [DATA_BITS-1:0] m_write_data,
    // The card's memory, AXI4.
    output logic m_memory_arvalid,
    output logic [MEMORY_BITS-1:0] m_memory_araddr,
    output logic [7:0] m_memory_arlen,
    output logic m_memory_rready,
    // verilator lint_off UNUSEDSIGNAL
    input logic m_memory_arready,
    input logic m_memory_rvalid,
    input logic [DATA_BITS-1:0] m_memory_rdata,
    input logic [1:0] m_memory_rresp,
    input logic m_memory_rlast,
    input logic m_memory_awready,
    input logic m_memory_wready,
    input logic m_memory_bvalid,
    input logic [1:0] m_memory_bresp,
    // verilator lint_on UNUSEDSIGNAL
    output logic m_memory_awvalid,
    output logic [MEMORY_BITS-1:0] m_memory_awaddr,
    output logic [7:0] m_memory_awlen,
    output logic m_memory_wvalid,
    output logic [DATA_BITS-1:0] m_memory_wdata,
    output logic [BYTES-1:0] m_memory_wstrb,
    output logic m_memory_wlast,
    output logic m_memory_bready,
    output logic copies_open
);
  localparam bit COPIES = MEMORY && COPY && KIND == KIND_C2H;
  logic descriptor_valid, descriptor_ready, posted, line_taken;
  // verilator lint_off UNUSEDSIGNAL
  logic descriptor_to_card;
  // verilator lint_on UNUSEDSIGNAL
  descriptor_t descriptor;
  logic [31:0] fetched, pushed, pushes_dropped;
  channel_readings_t channel_readings;

  crosslane_descriptors #(
      .HAS_TABLE(TABLE_ENTRIES > 0),
      .HAS_RING(1),
      .HAS_COMMAND(COMMANDS),
      .TABLE_ENTRIES((TABLE_ENTRIES > 0) ? TABLE_ENTRIES : 1),
      .BATCH(BATCH),
      .MAX_READ(MAX_READ),
      .HAS_PACKETS(PACKETS),
      .HAS_COPY(COPIES),
      .HAS_PUSH(PUSH)
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
      .command_valid(COMMANDS && command_valid),
      .command_ready,
      .command_descriptor,
      .descriptor_valid,
      .descriptor_ready,
      .descriptor,
      .descriptor_to_card,
      .descriptor_inline(),
      .inline_data(),
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

  // Descriptors and feed as the channel sees them.
  logic own_descriptor_valid, own_descriptor_ready, own_take, own_failed;
  descriptor_t own_descriptor;
  logic [15:0] own_available;
  logic [DATA_BITS-1:0] own_data;
  // verilator lint_off UNUSEDSIGNAL
  logic waits_for_work;
  copies_t copies;
  // verilator lint_on UNUSEDSIGNAL
  assign copies_open = copies.open;

  if (MEMORY) begin : g_memory
    crosslane_memory_c2h #(
        .DATA_BITS(DATA_BITS),
        .ADDRESS_BITS(MEMORY_BITS),
        .COPIES(COPIES)
    ) memory (
        .clk,
        .rst,
        .enable(settings.card_memory),
        .forget(settings.restart || stopped),
        .s_descriptor_valid(descriptor_valid),
        .s_descriptor_ready(descriptor_ready),
        .s_descriptor(descriptor),
        .s_to_card(descriptor_to_card),
        .m_descriptor_valid(own_descriptor_valid),
        .m_descriptor_ready(own_descriptor_ready),
        .m_descriptor(own_descriptor),
        .channel_waits(waits_for_work),
        .bus_master(function_i.bus_master),
        .run(settings.run),
        .copies,
        .s_feed_available(feed_available),
        .s_feed_take(feed_take),
        .s_feed_data(feed_data),
        .m_feed_available(own_available),
        .m_feed_move(feed_move),
        .m_feed_take(own_take),
        .m_feed_take_back(feed_take_back),
        .m_feed_take_bytes(feed_take_bytes),
        .m_feed_data(own_data),
        .m_feed_failed(own_failed),
        .m_axi_arvalid(m_memory_arvalid),
        .m_axi_arready(m_memory_arready),
        .m_axi_araddr(m_memory_araddr),
        .m_axi_arlen(m_memory_arlen),
        .m_axi_rvalid(m_memory_rvalid),
        .m_axi_rready(m_memory_rready),
        .m_axi_rdata(m_memory_rdata),
        .m_axi_rresp(m_memory_rresp),
        .m_axi_rlast(m_memory_rlast),
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
    assign own_descriptor = descriptor;
    assign own_available = feed_available;
    assign feed_take = own_take;
    assign own_data = feed_data;
    assign own_failed = 1'b0;
    assign m_memory_arvalid = 1'b0;
    assign m_memory_araddr = '0;
    assign m_memory_arlen = '0;
    assign m_memory_rready = 1'b0;
    assign copies = '0;
    assign {m_memory_awvalid, m_memory_awaddr, m_memory_awlen} = '0;
    assign {m_memory_wvalid, m_memory_wdata, m_memory_wstrb} = '0;
    assign {m_memory_wlast, m_memory_bready} = '0;
  end

  // Descriptors may be passing through the memory's queue.
  assign working = due != '0 || readings.in_flight != '0 ||
      (settings.run && !stopped && (posted || descriptor_valid || own_descriptor_valid));

  crosslane_writer #(
      .KIND(KIND),
      .DATA_BITS(DATA_BITS),
      .MAX_WRITE(MAX_WRITE),
      .PACKETS(PACKETS),
      .COPIES(COPIES),
      .SHORT_PATHS(1)
  ) writer (
      .clk,
      .rst,
      .settings,
      .function_i,
      .time_i,
      .reset_counters,
      .descriptor_valid(own_descriptor_valid),
      .descriptor_ready(own_descriptor_ready),
      .descriptor(own_descriptor),
      .status_taken,
      .interrupt_taken,
      .due,
      .readings(channel_readings),
      .stopped,
      .feed_available(own_available),
      .feed_move,
      .feed_take(own_take),
      .feed_take_back,
      .feed_take_bytes,
      .feed_goes_on,
      .feed_data(own_data),
      .packets(PACKETS && settings.packets && !(MEMORY && settings.card_memory)),
      .feed_end,
      .posted,
      .feed_failed(own_failed),
      .feed_generated,
      .waits_for_work,
      .copies,
      .command_done,
      .message_begun,
      .m_write_valid,
      .m_write_ready,
      .m_write_header,
      .m_write_first,
      .m_write_last,
      .m_write_data
  );
endmodule
