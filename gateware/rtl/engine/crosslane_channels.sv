// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// All channels, and the reads of host memory that they share. Channels are numbered H2C first, then
// C2H, then peer; C2H and peer channels together are the writers.

module crosslane_channels
  import crosslane_pkg::*;
  import crosslane_reads_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned H2C = 1,
    parameter int unsigned C2H = 1,
    parameter int unsigned PEER = 1,
    parameter int unsigned TAGS = 64,
    parameter int unsigned MAX_WRITE = 512,
    parameter int unsigned MAX_READ = 1024,
    parameter int unsigned STAGING_BYTES = 65536,
    parameter int unsigned TABLE_ENTRIES = 1024,
    parameter int unsigned BATCH = 16,
    parameter int unsigned COMPLETION_HEADER_CREDITS = 0,
    parameter int unsigned COMPLETION_DATA_CREDITS = 0,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter bit MEMORY = 0,  // of the first H2C and C2H channels
    parameter int unsigned MEMORY_BITS = 40,
    parameter bit COPY = 0,  // within the card's memory
    parameter bit PACKETS = 0,  // of the first H2C and C2H channels
    parameter bit PUSH = 0,
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned WRITERS = C2H + PEER,
    localparam int unsigned CHANNELS = H2C + WRITERS
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input logic [63:0] time_i,
    input logic reset_counters,
    input channel_settings_t [CHANNELS-1:0] settings,
    output channel_readings_t [CHANNELS-1:0] readings,
    output logic busy,  // a channel has work
    // Status blocks and interrupts.
    output due_t [CHANNELS-1:0] due,
    input logic [CHANNELS-1:0] status_taken,
    input logic [CHANNELS-1:0] interrupt_taken,
    // Tables of H2C 0 and of C2H 0.
    output logic [1:0] table_take,
    output logic [1:0][9:0] table_index,
    input logic [1:0][127:0] table_entry,
    input logic [1:0] table_whole,
    // Push aperture. Unused without one.
    // verilator lint_off UNUSEDSIGNAL
    input line_write_t line_write,
    // verilator lint_on UNUSEDSIGNAL
    // Feeds of the data that the H2C channels have read; this side provides them.
    output logic [H2C-1:0][15:0] h2c_available,
    input logic [H2C-1:0] h2c_move,
    input logic [H2C-1:0] h2c_take,
    input logic [H2C-1:0][5:0] h2c_take_back,
    input logic [H2C-1:0][6:0] h2c_take_bytes,
    input logic [H2C-1:0] h2c_goes_on,
    output logic [H2C-1:0][DATA_BITS-1:0] h2c_data,
    output packet_end_t [H2C-1:0] h2c_end,
    input logic [H2C-1:0] h2c_drained,  // the stream has no consumer: data are discarded on arrival
    // Feeds of the data that the writers write; this side consumes them.
    input logic [WRITERS-1:0][15:0] write_available,
    output logic [WRITERS-1:0] write_move,
    output logic [WRITERS-1:0] write_take,
    output logic [WRITERS-1:0][5:0] write_take_back,
    output logic [WRITERS-1:0][6:0] write_take_bytes,
    output logic [WRITERS-1:0] write_goes_on,
    input logic [WRITERS-1:0][DATA_BITS-1:0] write_data,
    input packet_end_t [WRITERS-1:0] write_end,
    output logic [WRITERS-1:0] write_generated,
    // Command port of peer channel 0.
    input logic command_valid,
    output logic command_ready,
    input descriptor_t command_descriptor,
    output logic command_done,
    output logic message_begun,
    output logic peer_stopped,  // stopped or restarted: its commands are dropped
    // TLPs: requests of data, requests of descriptors, writes.
    output logic [H2C-1:0] m_h2c_valid,
    input logic [H2C-1:0] m_h2c_ready,
    output tlp_header_t [H2C-1:0] m_h2c_header,
    output logic m_fetch_valid,
    input logic m_fetch_ready,
    output tlp_header_t m_fetch_header,
    output logic [WRITERS-1:0] m_write_valid,
    input logic [WRITERS-1:0] m_write_ready,
    output tlp_header_t [WRITERS-1:0] m_write_header,
    output logic [WRITERS-1:0] m_write_first,
    output logic [WRITERS-1:0] m_write_last,
    output logic [WRITERS-1:0][DATA_BITS-1:0] m_write_data,
    // Completions.
    input logic s_completion_valid,
    output logic s_completion_ready,
    input tlp_header_t s_completion_header,
    input logic s_completion_first,
    input logic s_completion_last,
    input logic [DATA_BITS-1:0] s_completion_data,
    input logic s_completion_aborted,  // beside the last beat
    output logic unexpected_completion,
    output logic completion_timeout,
    // The card's memory, AXI4.
    // verilator lint_off UNUSEDSIGNAL
    output logic m_memory_awvalid,
    input logic m_memory_awready,
    output logic [MEMORY_BITS-1:0] m_memory_awaddr,
    output logic [7:0] m_memory_awlen,
    output logic m_memory_wvalid,
    input logic m_memory_wready,
    output logic [DATA_BITS-1:0] m_memory_wdata,
    output logic [BYTES-1:0] m_memory_wstrb,
    output logic m_memory_wlast,
    input logic m_memory_bvalid,
    output logic m_memory_bready,
    input logic [1:0] m_memory_bresp,
    // verilator lint_on UNUSEDSIGNAL
    output logic m_memory_arvalid,
    input logic m_memory_arready,
    output logic [MEMORY_BITS-1:0] m_memory_araddr,
    output logic [7:0] m_memory_arlen,
    input logic m_memory_rvalid,
    output logic m_memory_rready,
    input logic [DATA_BITS-1:0] m_memory_rdata,
    input logic [1:0] m_memory_rresp,
    input logic m_memory_rlast
);
  logic [CHANNELS-1:0] working, stopped;

  // --- Fetches of descriptors --------------------------------------------------------------------
  logic [CHANNELS-1:0] fetch_asks, fetch_valid, fetch_ready, fetch_forget;
  logic [CHANNELS-1:0][63:0] fetch_address;
  logic [CHANNELS-1:0][12:0] fetch_bytes;
  logic [CHANNELS-1:0] fetched_valid, fetched_ready, fetch_failed;
  logic   [CHANNELS-1:0][255:0] fetched_data;
  error_e [CHANNELS-1:0]        fetch_error;
  logic   [CHANNELS-1:0][ 63:0] fetch_error_address;
  logic [CHANNELS-1:0][FETCH_COUNT_BITS-1:0] fetches_waiting, fetches_open;

  // A channel counts its reads of data; to the host its fetches are reads as well. One that has
  // stopped counts also those that were given up, as they still reach memory.
  channel_readings_t [CHANNELS-1:0] counted;
  always_comb begin
    readings = counted;
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      readings[n].in_flight = counted[n].in_flight +
          16'(stopped[n] ? fetches_open[n] : fetches_waiting[n]);
      if (counted[n].state == STATE_IDLE && fetches_waiting[n] != '0) begin
        readings[n].state = STATE_RUNNING;
      end
    end
  end

  // --- Lines of the push aperture: in the order of the registers -----------------------------------
  localparam int unsigned KIND_PLACES = 4;
  logic [CHANNELS-1:0] line_valid;
  for (genvar n = 0; n < CHANNELS; n++) begin : g_line
    localparam int unsigned LINE = (n < H2C) ? n :
        (n < H2C + C2H) ? n - H2C + KIND_PLACES : n - H2C - C2H + 2 * KIND_PLACES;
    assign line_valid[n] = PUSH && line_write.valid && line_write.number == 6'(LINE);
  end

  // --- H2C ---------------------------------------------------------------------------------------
  logic [H2C-1:0] read_valid, read_ready, read_relaxed, arrived_valid, failed_valid, forget, clear;
  logic [H2C-1:0] read_blocked, data_came, inline_valid, inline_taken;
  logic [H2C-1:0][5:0] inline_bytes;
  logic [H2C-1:0][8*INLINE_BYTES-1:0] inline_data;
  logic [H2C-1:0][63:0] read_address, failed_address;
  logic [H2C-1:0][12:0] read_bytes, arrived_bytes;
  error_e [H2C-1:0] failed_error;
  logic [H2C-1:0][15:0] in_flight, staged_available;
  logic [H2C-1:0] staged_move, staged_take, staged_goes_on;
  logic [H2C-1:0][5:0] staged_take_back;
  logic [H2C-1:0][6:0] staged_take_bytes;

  // Only the first H2C channel has a table and memory, only the first peer channel has commands.
  // verilator lint_off UNUSEDSIGNAL
  logic [H2C-1:0] h2c_table_take, h2c_memory_busy, awvalid, awready, wvalid, wready, wlast;
  logic [H2C-1:0] bvalid, bready;
  logic [H2C-1:0][9:0] h2c_table_index;
  logic [H2C-1:0][MEMORY_BITS-1:0] awaddr;
  logic [H2C-1:0][7:0] awlen;
  logic [H2C-1:0][DATA_BITS-1:0] wdata;
  logic [H2C-1:0][BYTES-1:0] wstrb;
  logic [WRITERS-1:0] write_table_take, takes_command, done, begun, arvalid, rready;
  logic [WRITERS-1:0] copies_open, copy_awvalid, copy_wvalid, copy_wlast, copy_bready;
  logic [WRITERS-1:0][MEMORY_BITS-1:0] copy_awaddr;
  logic [WRITERS-1:0][7:0] copy_awlen;
  logic [WRITERS-1:0][DATA_BITS-1:0] copy_wdata;
  logic [WRITERS-1:0][BYTES-1:0] copy_wstrb;
  logic copy_awready, copy_wready, copy_bvalid;
  logic [WRITERS-1:0][9:0] write_table_index;
  logic [WRITERS-1:0][MEMORY_BITS-1:0] araddr;
  logic [WRITERS-1:0][7:0] arlen;
  // verilator lint_on UNUSEDSIGNAL
  assign table_take = {write_table_take[0], h2c_table_take[0]};
  assign table_index = {write_table_index[0], h2c_table_index[0]};
  assign {m_memory_arvalid, m_memory_araddr, m_memory_arlen} = {arvalid[0], araddr[0], arlen[0]};
  assign m_memory_rready = rready[0];

  for (genvar n = 0; n < H2C; n++) begin : g_h2c
    crosslane_h2c_channel #(
        .DATA_BITS(DATA_BITS),
        .MAX_READ(MAX_READ),
        .TABLE_ENTRIES((n == 0) ? TABLE_ENTRIES : 0),
        .BATCH(BATCH),
        .MEMORY(MEMORY && n == 0),
        .MEMORY_BITS(MEMORY_BITS),
        .PACKETS(PACKETS && n == 0),
        .PUSH(PUSH)
    ) channel (
        .*,
        .settings(settings[n]),
        .readings(counted[n]),
        .stopped(stopped[n]),
        .working(working[n]),
        .due(due[n]),
        .status_taken(status_taken[n]),
        .interrupt_taken(interrupt_taken[n]),
        .table_take(h2c_table_take[n]),
        .table_index(h2c_table_index[n]),
        .table_entry(table_entry[0]),
        .table_whole(table_whole[0]),
        .fetch_asks(fetch_asks[n]),
        .fetch_valid(fetch_valid[n]),
        .fetch_ready(fetch_ready[n]),
        .fetch_address(fetch_address[n]),
        .fetch_bytes(fetch_bytes[n]),
        .fetch_forget(fetch_forget[n]),
        .fetched_valid(fetched_valid[n]),
        .fetched_ready(fetched_ready[n]),
        .fetched_data(fetched_data[n]),
        .fetch_failed(fetch_failed[n]),
        .fetch_error(fetch_error[n]),
        .fetch_error_address(fetch_error_address[n]),
        .line_valid(line_valid[n]),
        .inline_valid(inline_valid[n]),
        .inline_taken(inline_taken[n]),
        .inline_bytes(inline_bytes[n]),
        .inline_data(inline_data[n]),
        .read_valid(read_valid[n]),
        .read_ready(read_ready[n]),
        .read_address(read_address[n]),
        .read_bytes(read_bytes[n]),
        .read_relaxed(read_relaxed[n]),
        .read_blocked(read_blocked[n]),
        .data_came(data_came[n]),
        .arrived_valid(arrived_valid[n]),
        .arrived_bytes(arrived_bytes[n]),
        .failed_valid(failed_valid[n]),
        .failed_error(failed_error[n]),
        .failed_address(failed_address[n]),
        .forget(forget[n]),
        .clear(clear[n]),
        .in_flight(in_flight[n]),
        .staged_available(staged_available[n]),
        .staged_move(staged_move[n]),
        .staged_take(staged_take[n]),
        .staged_take_back(staged_take_back[n]),
        .staged_take_bytes(staged_take_bytes[n]),
        .staged_goes_on(staged_goes_on[n]),
        .staged_data(h2c_data[n]),
        .feed_available(h2c_available[n]),
        .feed_move(h2c_move[n]),
        .feed_take(h2c_take[n]),
        .feed_take_back(h2c_take_back[n]),
        .feed_take_bytes(h2c_take_bytes[n]),
        .feed_goes_on(h2c_goes_on[n]),
        .feed_end(h2c_end[n]),
        .feed_drained(h2c_drained[n]),
        .memory_busy(h2c_memory_busy[n]),
        .m_memory_awready(awready[n]),
        .m_memory_wready(wready[n]),
        .m_memory_bvalid(bvalid[n]),
        .m_memory_awvalid(awvalid[n]),
        .m_memory_awaddr(awaddr[n]),
        .m_memory_awlen(awlen[n]),
        .m_memory_wvalid(wvalid[n]),
        .m_memory_wdata(wdata[n]),
        .m_memory_wstrb(wstrb[n]),
        .m_memory_wlast(wlast[n]),
        .m_memory_bready(bready[n])
    );
  end

  // --- C2H and peer ------------------------------------------------------------------------------
  for (genvar n = 0; n < WRITERS; n++) begin : g_write
    localparam int unsigned CHANNEL = H2C + n;
    crosslane_write_channel #(
        .KIND(n < C2H ? KIND_C2H : KIND_PEER),
        .DATA_BITS(DATA_BITS),
        .MAX_WRITE(MAX_WRITE),
        .MAX_READ(MAX_READ),
        .TABLE_ENTRIES((n == 0) ? TABLE_ENTRIES : 0),
        .COMMANDS(n == C2H),
        .BATCH(BATCH),
        .MEMORY(MEMORY && n == 0),
        .MEMORY_BITS(MEMORY_BITS),
        .COPY(COPY),
        .PACKETS(PACKETS && n == 0),
        .PUSH(PUSH)
    ) channel (
        .*,
        .settings(settings[CHANNEL]),
        .readings(counted[CHANNEL]),
        .stopped(stopped[CHANNEL]),
        .working(working[CHANNEL]),
        .due(due[CHANNEL]),
        .status_taken(status_taken[CHANNEL]),
        .interrupt_taken(interrupt_taken[CHANNEL]),
        .table_take(write_table_take[n]),
        .table_index(write_table_index[n]),
        .table_entry(table_entry[1]),
        .table_whole(table_whole[1]),
        .fetch_asks(fetch_asks[CHANNEL]),
        .fetch_valid(fetch_valid[CHANNEL]),
        .fetch_ready(fetch_ready[CHANNEL]),
        .fetch_address(fetch_address[CHANNEL]),
        .fetch_bytes(fetch_bytes[CHANNEL]),
        .fetch_forget(fetch_forget[CHANNEL]),
        .fetched_valid(fetched_valid[CHANNEL]),
        .fetched_ready(fetched_ready[CHANNEL]),
        .fetched_data(fetched_data[CHANNEL]),
        .fetch_failed(fetch_failed[CHANNEL]),
        .fetch_error(fetch_error[CHANNEL]),
        .fetch_error_address(fetch_error_address[CHANNEL]),
        .line_valid(line_valid[CHANNEL]),
        .command_ready(takes_command[n]),
        .command_done(done[n]),
        .message_begun(begun[n]),
        .feed_available(write_available[n]),
        .feed_move(write_move[n]),
        .feed_take(write_take[n]),
        .feed_take_back(write_take_back[n]),
        .feed_take_bytes(write_take_bytes[n]),
        .feed_goes_on(write_goes_on[n]),
        .feed_data(write_data[n]),
        .feed_end(write_end[n]),
        .feed_generated(write_generated[n]),
        .m_write_valid(m_write_valid[n]),
        .m_write_ready(m_write_ready[n]),
        .m_write_header(m_write_header[n]),
        .m_write_first(m_write_first[n]),
        .m_write_last(m_write_last[n]),
        .m_write_data(m_write_data[n]),
        .m_memory_arvalid(arvalid[n]),
        .m_memory_araddr(araddr[n]),
        .m_memory_arlen(arlen[n]),
        .m_memory_rready(rready[n]),
        .m_memory_awready(copy_awready),
        .m_memory_wready(copy_wready),
        .m_memory_bvalid(copy_bvalid),
        .m_memory_awvalid(copy_awvalid[n]),
        .m_memory_awaddr(copy_awaddr[n]),
        .m_memory_awlen(copy_awlen[n]),
        .m_memory_wvalid(copy_wvalid[n]),
        .m_memory_wdata(copy_wdata[n]),
        .m_memory_wstrb(copy_wstrb[n]),
        .m_memory_wlast(copy_wlast[n]),
        .m_memory_bready(copy_bready[n]),
        .copies_open(copies_open[n])
    );
  end

  // --- The card's memory: of H2C 0, and of copies ------------------------------------------------
  if (MEMORY && COPY) begin : g_copy
    crosslane_memory_merge #(
        .DATA_BITS(DATA_BITS),
        .ADDRESS_BITS(MEMORY_BITS)
    ) merge (
        .clk,
        .rst,
        .s_axi_awvalid({copy_awvalid[0], awvalid[0]}),
        .s_axi_awready({copy_awready, awready[0]}),
        .s_axi_awaddr ({copy_awaddr[0], awaddr[0]}),
        .s_axi_awlen  ({copy_awlen[0], awlen[0]}),
        .s_axi_wvalid ({copy_wvalid[0], wvalid[0]}),
        .s_axi_wready ({copy_wready, wready[0]}),
        .s_axi_wdata  ({copy_wdata[0], wdata[0]}),
        .s_axi_wstrb  ({copy_wstrb[0], wstrb[0]}),
        .s_axi_wlast  ({copy_wlast[0], wlast[0]}),
        .s_axi_bvalid ({copy_bvalid, bvalid[0]}),
        .m_axi_awvalid(m_memory_awvalid),
        .m_axi_awready(m_memory_awready),
        .m_axi_awaddr (m_memory_awaddr),
        .m_axi_awlen  (m_memory_awlen),
        .m_axi_wvalid (m_memory_wvalid),
        .m_axi_wready (m_memory_wready),
        .m_axi_wdata  (m_memory_wdata),
        .m_axi_wstrb  (m_memory_wstrb),
        .m_axi_wlast  (m_memory_wlast),
        .m_axi_bvalid (m_memory_bvalid),
        .m_axi_bready (m_memory_bready)
    );
  end else begin : g_no_copy
    assign {m_memory_awvalid, m_memory_awaddr, m_memory_awlen} = {awvalid[0], awaddr[0], awlen[0]};
    assign {m_memory_wvalid, m_memory_wdata, m_memory_wstrb} = {wvalid[0], wdata[0], wstrb[0]};
    assign {m_memory_wlast, m_memory_bready} = {wlast[0], bready[0]};
    assign {copy_awready, copy_wready, copy_bvalid} = '0;
    assign {awready[0], wready[0], bvalid[0]} = {
      m_memory_awready, m_memory_wready, m_memory_bvalid
    };
  end
  for (genvar n = 1; n < H2C; n++) begin : g_other_h2c
    assign {awready[n], wready[n], bvalid[n]} = '0;
  end

  if (PEER > 0) begin : g_command
    logic was_stopped;
    always_ff @(posedge clk) was_stopped <= !rst && stopped[H2C+C2H];
    assign peer_stopped  = settings[H2C+C2H].restart || (stopped[H2C+C2H] && !was_stopped);
    assign command_ready = takes_command[C2H];
    assign command_done  = done[C2H];
    assign message_begun = begun[C2H];
  end else begin : g_no_command
    assign peer_stopped  = 1'b0;
    assign command_ready = 1'b0;
    assign command_done  = 1'b0;
    assign message_begun = 1'b0;
  end

  assign busy = working != '0 || h2c_memory_busy[0] || copies_open[0];

  // --- Reads -------------------------------------------------------------------------------------
  crosslane_reads #(
      .DATA_BITS(DATA_BITS),
      .H2C(H2C),
      .FETCHERS(CHANNELS),
      .TAGS(TAGS),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .BATCH(BATCH),
      .PUSH(PUSH),
      .COMPLETION_HEADER_CREDITS(COMPLETION_HEADER_CREDITS),
      .COMPLETION_DATA_CREDITS(COMPLETION_DATA_CREDITS),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS)
  ) reads (
      .*,
      .feed_available(staged_available),
      .feed_move(staged_move),
      .feed_take(staged_take),
      .feed_take_back(staged_take_back),
      .feed_take_bytes(staged_take_bytes),
      .feed_goes_on(staged_goes_on),
      .feed_data(h2c_data),
      .unexpected(unexpected_completion),
      .timed_out(completion_timeout),
      .refused()
  );
endmodule
