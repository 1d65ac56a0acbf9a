// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The DMA engine without a user circuit: TLP streams on one side, feeds on the other. What it does
// is in docs/engine.md, how its parts work together in gateware/README.md.

module crosslane_engine
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned H2C = 1,  // channels, 1 to 4 of each
    parameter int unsigned C2H = 1,
    parameter int unsigned PEER = 1,  // 0 to 4
    parameter int unsigned LANES = 8,  // 0 to 16
    parameter int unsigned TAGS = 64,  // reads of data in flight
    parameter int unsigned MAX_WRITE = 512,  // longest payload that it builds, bytes, to 1024
    parameter int unsigned MAX_READ = 1024,  // longest read that it asks for, bytes, to 4096
    parameter int unsigned STAGING_BYTES = 65536,  // ring behind each H2C channel
    parameter int unsigned LANE_FIFO = 16384,  // bytes of each lane's ring
    parameter int unsigned LANE_WINDOW = 524288,  // bytes of BAR 1 that each lane has
    parameter int unsigned TABLE_ENTRIES = 1024,  // of H2C 0 and of C2H 0; 0: none
    parameter int unsigned BATCH = 16,  // descriptors of a fetch from a ring
    parameter int unsigned VECTORS = 8,  // of MSI-X
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,  // of completions: 50 ms
    parameter bit MEMORY = 0,  // the first H2C and C2H channels reach the card's memory
    parameter int unsigned MEMORY_BITS = 40,  // of its addresses
    parameter bit WINDOW = 0,  // BAR 2 is a window into the card's memory
    parameter int unsigned WINDOW_BITS = 20,  // of its addresses
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned CHANNELS = H2C + C2H + PEER,
    localparam int unsigned WRITERS = C2H + PEER,
    localparam int unsigned LANE_PLACES = (LANES > 0) ? LANES : 1,
    localparam int unsigned PEER_PLACES = (PEER > 0) ? PEER : 1
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input room_t room_i,
    input logic [63:0] time_i,  // clocks
    // TLPs that come.
    input logic s_rx_valid,
    output logic s_rx_ready,
    input tlp_header_t s_rx_header,
    input logic s_rx_first,
    input logic s_rx_last,
    input logic [DATA_BITS-1:0] s_rx_data,
    // TLPs that leave.
    output logic m_tx_valid,
    input logic m_tx_ready,
    output tlp_header_t m_tx_header,
    output logic m_tx_first,
    output logic m_tx_last,
    output logic [DATA_BITS-1:0] m_tx_data,
    // User circuit: registers.
    output user_settings_t user_settings,
    input user_readings_t user_readings,
    // What the H2C channels have read: feeds, this side provides.
    output logic [H2C-1:0][15:0] h2c_available,
    input logic [H2C-1:0] h2c_move,
    input logic [H2C-1:0] h2c_take,
    input logic [H2C-1:0][5:0] h2c_take_back,
    input logic [H2C-1:0][6:0] h2c_take_bytes,
    output logic [H2C-1:0][DATA_BITS-1:0] h2c_data,
    // What the C2H and peer channels write: feeds, this side consumes.
    input logic [WRITERS-1:0][15:0] write_available,
    output logic [WRITERS-1:0] write_move,
    output logic [WRITERS-1:0] write_take,
    output logic [WRITERS-1:0][5:0] write_take_back,
    output logic [WRITERS-1:0][6:0] write_take_bytes,
    input logic [WRITERS-1:0][DATA_BITS-1:0] write_data,
    output logic [WRITERS-1:0] write_generated,
    // What the lanes hold: one feed for the lane that is named, this side provides. An engine that
    // has none looks at nothing here.
    // verilator lint_off UNUSEDSIGNAL
    input logic [LANE_PLACES-1:0] lane_kept,
    input logic [3:0] lane_select,
    output logic [15:0] lane_available,
    input logic lane_move,
    input logic lane_take,
    input logic [5:0] lane_take_back,
    input logic [6:0] lane_take_bytes,
    output logic [DATA_BITS-1:0] lane_data,
    // verilator lint_on UNUSEDSIGNAL
    output logic received_valid,  // a TLP has come into a lane
    output logic [3:0] received_lane,
    output logic [12:0] received_bytes,
    // Command port of peer channel 0.
    input logic command_valid,
    output logic command_ready,
    input descriptor_t command_descriptor,
    output logic command_done,
    output logic message_begun,
    output logic peer_stopped,  // stopped or restarted: its commands are forgotten
    // The card's memory, AXI4 with one ID each way: from H2C 0 and for C2H 0, and for BAR 2. An
    // engine that has none of it looks at nothing here.
    // verilator lint_off UNUSEDSIGNAL
    output logic m_memory_awvalid,
    input logic m_memory_awready,
    output logic [MEMORY_BITS-1:0] m_memory_awaddr,
    output logic [7:0] m_memory_awlen,
    output logic [2:0] m_memory_awsize,
    output logic [1:0] m_memory_awburst,
    output logic m_memory_wvalid,
    input logic m_memory_wready,
    output logic [DATA_BITS-1:0] m_memory_wdata,
    output logic [BYTES-1:0] m_memory_wstrb,
    output logic m_memory_wlast,
    input logic m_memory_bvalid,
    output logic m_memory_bready,
    input logic [1:0] m_memory_bresp,
    output logic m_memory_arvalid,
    input logic m_memory_arready,
    output logic [MEMORY_BITS-1:0] m_memory_araddr,
    output logic [7:0] m_memory_arlen,
    output logic [2:0] m_memory_arsize,
    output logic [1:0] m_memory_arburst,
    input logic m_memory_rvalid,
    output logic m_memory_rready,
    input logic [DATA_BITS-1:0] m_memory_rdata,
    input logic [1:0] m_memory_rresp,
    input logic m_memory_rlast,
    output logic m_window_awvalid,
    input logic m_window_awready,
    output logic [WINDOW_BITS-1:0] m_window_awaddr,
    output logic [7:0] m_window_awlen,
    output logic [2:0] m_window_awsize,
    output logic [1:0] m_window_awburst,
    output logic m_window_wvalid,
    input logic m_window_wready,
    output logic [DATA_BITS-1:0] m_window_wdata,
    output logic [BYTES-1:0] m_window_wstrb,
    output logic m_window_wlast,
    input logic m_window_bvalid,
    output logic m_window_bready,
    input logic [1:0] m_window_bresp,
    output logic m_window_arvalid,
    input logic m_window_arready,
    output logic [WINDOW_BITS-1:0] m_window_araddr,
    output logic [7:0] m_window_arlen,
    output logic [2:0] m_window_arsize,
    output logic [1:0] m_window_arburst,
    input logic m_window_rvalid,
    output logic m_window_rready,
    input logic [DATA_BITS-1:0] m_window_rdata,
    input logic [1:0] m_window_rresp,
    input logic m_window_rlast,
    // verilator lint_on UNUSEDSIGNAL
    output logic window_failed,  // pulse: the memory refused a write of BAR 2
    // Errors that the function's own registers tell of; pulses.
    output logic poisoned_write,
    output logic unexpected_completion,
    output logic completion_timeout,
    output logic busy  // something is under way, or would be if the link let it
);
  localparam logic [1:0] INCREMENTING = 2'b01;  // AXI4's kind of burst

  // --- Registers -----------------------------------------------------------------------------
  channel_settings_t [CHANNELS-1:0] settings;
  channel_readings_t [CHANNELS-1:0] readings;
  // Without lanes nobody looks at theirs.
  // verilator lint_off UNUSEDSIGNAL
  lane_settings_t [LANE_PLACES-1:0] lane_settings;
  // verilator lint_on UNUSEDSIGNAL
  lane_readings_t [LANE_PLACES-1:0] lane_readings;
  due_t [CHANNELS-1:0] due;
  logic [CHANNELS-1:0] status_taken, interrupt_taken, stopped;
  logic reset_counters;

  // --- What comes ----------------------------------------------------------------------------
  logic request_valid, request_ready, request_first, request_last;
  tlp_header_t request_header;
  logic [DATA_BITS-1:0] request_data;
  // Without lanes nothing looks at what would go there.
  // verilator lint_off UNUSEDSIGNAL
  logic lane_write_valid, lane_write_ready, lane_write_first, lane_write_last;
  tlp_header_t lane_write_header;
  logic [DATA_BITS-1:0] lane_write_data;
  // verilator lint_on UNUSEDSIGNAL
  logic completion_valid, completion_ready, completion_first, completion_last;
  tlp_header_t completion_header;
  logic [DATA_BITS-1:0] completion_data;
  // Without a window nothing looks at what would go there.
  // verilator lint_off UNUSEDSIGNAL
  logic window_valid, window_ready, window_first, window_last;
  tlp_header_t window_header;
  logic [DATA_BITS-1:0] window_data;
  // verilator lint_on UNUSEDSIGNAL

  crosslane_demux #(
      .DATA_BITS (DATA_BITS),
      .HAS_LANES (LANES > 0),
      .HAS_WINDOW(WINDOW)
  ) demux (
      .clk,
      .rst,
      .s_rx_valid,
      .s_rx_ready,
      .s_rx_header,
      .s_rx_first,
      .s_rx_last,
      .s_rx_data,
      .m_request_valid(request_valid),
      .m_request_ready(request_ready),
      .m_request_header(request_header),
      .m_request_first(request_first),
      .m_request_last(request_last),
      .m_request_data(request_data),
      .m_lane_valid(lane_write_valid),
      .m_lane_ready(lane_write_ready),
      .m_lane_header(lane_write_header),
      .m_lane_first(lane_write_first),
      .m_lane_last(lane_write_last),
      .m_lane_data(lane_write_data),
      .m_window_valid(window_valid),
      .m_window_ready(window_ready),
      .m_window_header(window_header),
      .m_window_first(window_first),
      .m_window_last(window_last),
      .m_window_data(window_data),
      .m_completion_valid(completion_valid),
      .m_completion_ready(completion_ready),
      .m_completion_header(completion_header),
      .m_completion_first(completion_first),
      .m_completion_last(completion_last),
      .m_completion_data(completion_data),
      .poisoned_write
  );

  // --- What leaves ---------------------------------------------------------------------------
  localparam int unsigned CREDITS = 0;
  localparam int unsigned STATUS = 1;
  localparam int unsigned FETCHES = 2;
  localparam int unsigned FIRST_CHANNEL = 3;
  localparam int unsigned SOURCES = FIRST_CHANNEL + CHANNELS;

  logic answer_valid, answer_ready, answer_first, answer_last;
  tlp_header_t answer_header;
  logic [DATA_BITS-1:0] answer_data;
  logic [SOURCES-1:0] source_valid, source_ready, source_first, source_last;
  tlp_header_t [SOURCES-1:0] source_header;
  logic [SOURCES-1:0][DATA_BITS-1:0] source_data;

  crosslane_arbiter #(
      .DATA_BITS(DATA_BITS),
      .SOURCES  (SOURCES)
  ) arbiter (
      .clk,
      .rst,
      .room_i,
      .s_answer_valid(answer_valid),
      .s_answer_ready(answer_ready),
      .s_answer_header(answer_header),
      .s_answer_first(answer_first),
      .s_answer_last(answer_last),
      .s_answer_data(answer_data),
      .s_valid(source_valid),
      .s_ready(source_ready),
      .s_header(source_header),
      .s_first(source_first),
      .s_last(source_last),
      .s_data(source_data),
      .m_tx_valid,
      .m_tx_ready,
      .m_tx_header,
      .m_tx_first,
      .m_tx_last,
      .m_tx_data
  );

  // --- Window into the card's memory -------------------------------------------------------------
  logic register_valid, register_ready, register_first, register_last;
  tlp_header_t register_header;
  logic [DATA_BITS-1:0] register_data;

  if (WINDOW) begin : g_window
    logic read_valid, read_ready, read_first, read_last;
    tlp_header_t read_header;
    logic [DATA_BITS-1:0] read_data;

    crosslane_window #(
        .DATA_BITS(DATA_BITS),
        .ADDRESS_BITS(WINDOW_BITS)
    ) window (
        .clk,
        .rst,
        .function_i,
        .s_window_valid(window_valid),
        .s_window_ready(window_ready),
        .s_window_header(window_header),
        .s_window_first(window_first),
        .s_window_last(window_last),
        .s_window_data(window_data),
        .m_answer_valid(read_valid),
        .m_answer_ready(read_ready),
        .m_answer_header(read_header),
        .m_answer_first(read_first),
        .m_answer_last(read_last),
        .m_answer_data(read_data),
        .write_failed(window_failed),
        .m_axi_awvalid(m_window_awvalid),
        .m_axi_awready(m_window_awready),
        .m_axi_awaddr(m_window_awaddr),
        .m_axi_awlen(m_window_awlen),
        .m_axi_awsize(m_window_awsize),
        .m_axi_awburst(m_window_awburst),
        .m_axi_wvalid(m_window_wvalid),
        .m_axi_wready(m_window_wready),
        .m_axi_wdata(m_window_wdata),
        .m_axi_wstrb(m_window_wstrb),
        .m_axi_wlast(m_window_wlast),
        .m_axi_bvalid(m_window_bvalid),
        .m_axi_bready(m_window_bready),
        .m_axi_bresp(m_window_bresp),
        .m_axi_arvalid(m_window_arvalid),
        .m_axi_arready(m_window_arready),
        .m_axi_araddr(m_window_araddr),
        .m_axi_arlen(m_window_arlen),
        .m_axi_arsize(m_window_arsize),
        .m_axi_arburst(m_window_arburst),
        .m_axi_rvalid(m_window_rvalid),
        .m_axi_rready(m_window_rready),
        .m_axi_rdata(m_window_rdata),
        .m_axi_rresp(m_window_rresp),
        .m_axi_rlast(m_window_rlast)
    );

    crosslane_answers #(
        .DATA_BITS(DATA_BITS)
    ) answers (
        .clk,
        .rst,
        .s_valid ({read_valid, register_valid}),
        .s_ready ({read_ready, register_ready}),
        .s_header({read_header, register_header}),
        .s_first ({read_first, register_first}),
        .s_last  ({read_last, register_last}),
        .s_data  ({read_data, register_data}),
        .m_valid (answer_valid),
        .m_ready (answer_ready),
        .m_header(answer_header),
        .m_first (answer_first),
        .m_last  (answer_last),
        .m_data  (answer_data)
    );
  end else begin : g_no_window
    assign answer_valid = register_valid;
    assign register_ready = answer_ready;
    assign answer_header = register_header;
    assign answer_first = register_first;
    assign answer_last = register_last;
    assign answer_data = register_data;
    assign window_ready = 1'b1;
    assign window_failed = 1'b0;
    assign m_window_awvalid = '0;
    assign m_window_awaddr = '0;
    assign m_window_awlen = '0;
    assign m_window_awsize = '0;
    assign m_window_awburst = '0;
    assign m_window_wvalid = '0;
    assign m_window_wdata = '0;
    assign m_window_wstrb = '0;
    assign m_window_wlast = '0;
    assign m_window_bready = '0;
    assign m_window_arvalid = '0;
    assign m_window_araddr = '0;
    assign m_window_arlen = '0;
    assign m_window_arsize = '0;
    assign m_window_arburst = '0;
    assign m_window_rready = '0;
  end

  // --- Registers, status blocks and interrupts -------------------------------------------------
  logic [1:0] table_take;
  logic [1:0][9:0] table_index;
  logic [1:0][127:0] table_entry;
  logic [1:0] table_whole;
  logic [4:0] msix_vector;
  logic [63:0] msix_address;
  logic [31:0] msix_data, msix_masked, msix_pending;
  logic msix_ready;

  crosslane_registers #(
      .DATA_BITS(DATA_BITS),
      .H2C(H2C),
      .C2H(C2H),
      .PEER(PEER),
      .LANES(LANES),
      .TAGS(TAGS),
      .MAX_WRITE(MAX_WRITE),
      .MAX_READ(MAX_READ),
      .LANE_FIFO(LANE_FIFO),
      .LANE_WINDOW(LANE_WINDOW),
      .CLOCK_PS(CLOCK_PS),
      .TABLE_ENTRIES(TABLE_ENTRIES),
      .FETCH_BATCH(BATCH),
      .MEMORY(MEMORY),
      .VECTORS(VECTORS)
  ) registers (
      .clk,
      .rst,
      .function_i,
      .time_i,
      .s_request_valid(request_valid),
      .s_request_ready(request_ready),
      .s_request_header(request_header),
      .s_request_first(request_first),
      .s_request_last(request_last),
      .s_request_data(request_data),
      .m_answer_valid(register_valid),
      .m_answer_ready(register_ready),
      .m_answer_header(register_header),
      .m_answer_first(register_first),
      .m_answer_last(register_last),
      .m_answer_data(register_data),
      .settings,
      .readings,
      .lane_settings,
      .lane_readings,
      .user_settings,
      .user_readings,
      .reset_counters,
      .table_take,
      .table_index,
      .table_entry,
      .table_whole,
      .msix_vector,
      .msix_ready,
      .msix_address,
      .msix_data,
      .msix_masked,
      .msix_pending
  );

  crosslane_status #(
      .DATA_BITS(DATA_BITS),
      .CHANNELS (CHANNELS),
      .VECTORS  (VECTORS)
  ) status (
      .clk,
      .rst,
      .function_i,
      .time_i,
      .settings,
      .readings,
      .due,
      .status_taken,
      .interrupt_taken,
      .msix_vector,
      .msix_ready,
      .msix_address,
      .msix_data,
      .msix_masked,
      .msix_pending,
      .m_status_valid (source_valid[STATUS]),
      .m_status_ready (source_ready[STATUS]),
      .m_status_header(source_header[STATUS]),
      .m_status_first (source_first[STATUS]),
      .m_status_last  (source_last[STATUS]),
      .m_status_data  (source_data[STATUS])
  );

  // --- Descriptors of each channel -------------------------------------------------------------
  logic [CHANNELS-1:0] fetch_valid, fetch_ready, fetch_forget;
  logic [CHANNELS-1:0][63:0] fetch_address;
  logic [CHANNELS-1:0][12:0] fetch_bytes;
  logic [CHANNELS-1:0] fetched_valid, fetched_ready, fetch_failed;
  logic   [CHANNELS-1:0][255:0] fetched_data;
  error_e [CHANNELS-1:0]        fetch_error;
  logic   [CHANNELS-1:0][ 63:0] fetch_error_address;
  logic [CHANNELS-1:0] descriptor_valid, descriptor_ready, posted;
  descriptor_t       [CHANNELS-1:0]       descriptor;
  logic              [CHANNELS-1:0][31:0] fetched;
  channel_readings_t [CHANNELS-1:0]       channel_readings;
  // Only the first peer channel has commands.
  // verilator lint_off UNUSEDSIGNAL
  logic              [CHANNELS-1:0]       takes_command;
  // verilator lint_on UNUSEDSIGNAL

  for (genvar n = 0; n < CHANNELS; n++) begin : g_descriptors
    // Tables belong to the first channels of H2C and of C2H.
    localparam bit HAS_TABLE = TABLE_ENTRIES > 0 && (n == 0 || n == H2C);
    localparam bit IS_FIRST_PEER = PEER > 0 && n == H2C + C2H;
    // Channels that have no table leave these open.
    // verilator lint_off UNUSEDSIGNAL
    logic own_table_take;
    logic [9:0] own_table_index;
    // verilator lint_on UNUSEDSIGNAL
    logic [127:0] own_table_entry;
    logic own_table_whole;

    if (n == 0 || n == H2C) begin : g_table
      assign table_take[n!=0]  = own_table_take;
      assign table_index[n!=0] = own_table_index;
      assign own_table_entry   = table_entry[n!=0];
      assign own_table_whole   = table_whole[n!=0];
    end else begin : g_no_table
      assign own_table_entry = '0;
      assign own_table_whole = 1'b0;
    end

    crosslane_descriptors #(
        .HAS_TABLE(HAS_TABLE),
        .HAS_RING(1),
        .HAS_COMMAND(IS_FIRST_PEER),
        .TABLE_ENTRIES((TABLE_ENTRIES > 0) ? TABLE_ENTRIES : 1),
        .BATCH(BATCH),
        .MAX_READ(MAX_READ)
    ) descriptors (
        .clk,
        .rst,
        .settings(settings[n]),
        .function_i,
        .completed(channel_readings[n].completed),
        .stopped(stopped[n]),
        .reset_counters,
        .table_take(own_table_take),
        .table_index(own_table_index),
        .table_entry(own_table_entry),
        .table_whole(own_table_whole),
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
        .command_valid(IS_FIRST_PEER && command_valid),
        .command_ready(takes_command[n]),
        .command_descriptor,
        .descriptor_valid(descriptor_valid[n]),
        .descriptor_ready(descriptor_ready[n]),
        .descriptor(descriptor[n]),
        .posted(posted[n]),
        .fetched(fetched[n])
    );

    always_comb begin
      readings[n] = channel_readings[n];
      readings[n].fetched = fetched[n];
    end
  end

  if (PEER > 0) begin : g_command
    assign command_ready = takes_command[H2C+C2H];
    logic was_stopped;
    always_ff @(posedge clk) was_stopped <= !rst && stopped[H2C+C2H];
    assign peer_stopped = settings[H2C+C2H].restart || (stopped[H2C+C2H] && !was_stopped);
  end else begin : g_no_command
    assign command_ready = 1'b0;
    assign peer_stopped  = 1'b0;
  end

  // --- Reads -----------------------------------------------------------------------------------
  logic [H2C-1:0] read_valid, read_ready, read_relaxed, arrived_valid, failed_valid, forget, clear;
  logic [H2C-1:0] read_blocked, data_came;
  logic [H2C-1:0][63:0] read_address, failed_address;
  logic [H2C-1:0][12:0] read_bytes, arrived_bytes;
  error_e [H2C-1:0] failed_error;
  logic [H2C-1:0][15:0] in_flight;

  // The same as the channels see it, and the feeds of the reads: with the card's memory between.
  logic [H2C-1:0] h2c_descriptor_valid, h2c_descriptor_ready, moved_valid, halted_valid;
  logic   [H2C-1:0][12:0] moved_bytes;
  error_e [H2C-1:0]       halted_error;
  logic   [H2C-1:0][63:0] halted_address;
  logic   [H2C-1:0][15:0] staged_available;
  logic [H2C-1:0] staged_move, staged_take;
  logic [H2C-1:0][5:0] staged_take_back;
  logic [H2C-1:0][6:0] staged_take_bytes;
  logic memory_busy;

  for (genvar n = 0; n < H2C; n++) begin : g_h2c
    if (MEMORY && n == 0) begin : g_memory
      crosslane_memory_h2c #(
          .DATA_BITS(DATA_BITS),
          .ADDRESS_BITS(MEMORY_BITS)
      ) memory (
          .clk,
          .rst,
          .enable(settings[n].card_memory),
          .forget(forget[n] || clear[n]),
          .s_descriptor_valid(descriptor_valid[n]),
          .s_descriptor_ready(descriptor_ready[n]),
          .s_descriptor_card(descriptor[n].card),
          .s_descriptor_bytes(descriptor[n].bytes),
          .m_descriptor_valid(h2c_descriptor_valid[n]),
          .m_descriptor_ready(h2c_descriptor_ready[n]),
          .s_arrived_valid(arrived_valid[n]),
          .s_arrived_bytes(arrived_bytes[n]),
          .s_failed_valid(failed_valid[n]),
          .s_failed_error(failed_error[n]),
          .s_failed_address(failed_address[n]),
          .m_arrived_valid(moved_valid[n]),
          .m_arrived_bytes(moved_bytes[n]),
          .m_failed_valid(halted_valid[n]),
          .m_failed_error(halted_error[n]),
          .m_failed_address(halted_address[n]),
          .s_feed_available(staged_available[n]),
          .s_feed_move(staged_move[n]),
          .s_feed_take(staged_take[n]),
          .s_feed_take_back(staged_take_back[n]),
          .s_feed_take_bytes(staged_take_bytes[n]),
          .s_feed_data(h2c_data[n]),
          .m_feed_available(h2c_available[n]),
          .m_feed_move(h2c_move[n]),
          .m_feed_take(h2c_take[n]),
          .m_feed_take_back(h2c_take_back[n]),
          .m_feed_take_bytes(h2c_take_bytes[n]),
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
      assign m_memory_awsize  = 3'($clog2(BYTES));
      assign m_memory_awburst = INCREMENTING;
    end else begin : g_stream
      assign h2c_descriptor_valid[n] = descriptor_valid[n];
      assign descriptor_ready[n] = h2c_descriptor_ready[n];
      assign moved_valid[n] = arrived_valid[n];
      assign moved_bytes[n] = arrived_bytes[n];
      assign halted_valid[n] = failed_valid[n];
      assign halted_error[n] = failed_error[n];
      assign halted_address[n] = failed_address[n];
      assign h2c_available[n] = staged_available[n];
      assign staged_move[n] = h2c_move[n];
      assign staged_take[n] = h2c_take[n];
      assign staged_take_back[n] = h2c_take_back[n];
      assign staged_take_bytes[n] = h2c_take_bytes[n];
    end

    crosslane_h2c #(
        .MAX_READ(MAX_READ)
    ) h2c (
        .clk,
        .rst,
        .settings(settings[n]),
        .function_i,
        .time_i,
        .reset_counters,
        .descriptor_valid(h2c_descriptor_valid[n]),
        .descriptor_ready(h2c_descriptor_ready[n]),
        .descriptor(descriptor[n]),
        .posted(posted[n]),
        .status_taken(status_taken[n]),
        .interrupt_taken(interrupt_taken[n]),
        .due(due[n]),
        .readings(channel_readings[n]),
        .stopped(stopped[n]),
        .read_valid(read_valid[n]),
        .read_ready(read_ready[n]),
        .read_address(read_address[n]),
        .read_bytes(read_bytes[n]),
        .read_relaxed(read_relaxed[n]),
        .arrived_valid(moved_valid[n]),
        .arrived_bytes(moved_bytes[n]),
        .failed_valid(halted_valid[n]),
        .failed_error(halted_error[n]),
        .failed_address(halted_address[n]),
        .forget(forget[n]),
        .clear(clear[n]),
        .in_flight(in_flight[n]),
        .read_blocked(read_blocked[n]),
        .data_came(data_came[n])
    );
    assign source_first[FIRST_CHANNEL+n] = 1'b1;
    assign source_last[FIRST_CHANNEL+n]  = 1'b1;
    assign source_data[FIRST_CHANNEL+n]  = '0;
  end
  if (!MEMORY) begin : g_no_memory_write
    assign memory_busy = 1'b0;
    assign m_memory_awvalid = '0;
    assign m_memory_awaddr = '0;
    assign m_memory_awlen = '0;
    assign m_memory_awsize = '0;
    assign m_memory_awburst = '0;
    assign m_memory_wvalid = '0;
    assign m_memory_wdata = '0;
    assign m_memory_wstrb = '0;
    assign m_memory_wlast = '0;
    assign m_memory_bready = '0;
  end
  assign source_first[FETCHES] = 1'b1;
  assign source_last[FETCHES]  = 1'b1;
  assign source_data[FETCHES]  = '0;

  crosslane_reads #(
      .DATA_BITS(DATA_BITS),
      .H2C(H2C),
      .FETCHERS(CHANNELS),
      .TAGS(TAGS),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .BATCH(BATCH),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS)
  ) reads (
      .clk,
      .rst,
      .function_i,
      .time_i,
      .read_valid,
      .read_ready,
      .read_address,
      .read_bytes,
      .read_relaxed,
      .arrived_valid,
      .arrived_bytes,
      .failed_valid,
      .failed_error,
      .failed_address,
      .forget,
      .clear,
      .in_flight,
      .read_blocked,
      .data_came,
      .feed_available(staged_available),
      .feed_move(staged_move),
      .feed_take(staged_take),
      .feed_take_back(staged_take_back),
      .feed_take_bytes(staged_take_bytes),
      .feed_data(h2c_data),
      .fetch_valid,
      .fetch_ready,
      .fetch_address,
      .fetch_bytes,
      .fetch_forget,
      .fetched_valid,
      .fetched_ready,
      .fetched_data,
      .fetch_failed,
      .fetch_error,
      .fetch_error_address,
      .m_h2c_valid(source_valid[FIRST_CHANNEL+:H2C]),
      .m_h2c_ready(source_ready[FIRST_CHANNEL+:H2C]),
      .m_h2c_header(source_header[FIRST_CHANNEL+:H2C]),
      .m_fetch_valid(source_valid[FETCHES]),
      .m_fetch_ready(source_ready[FETCHES]),
      .m_fetch_header(source_header[FETCHES]),
      .s_completion_valid(completion_valid),
      .s_completion_ready(completion_ready),
      .s_completion_header(completion_header),
      .s_completion_first(completion_first),
      .s_completion_last(completion_last),
      .s_completion_data(completion_data),
      .unexpected(unexpected_completion),
      .timed_out(completion_timeout),
      .refused()
  );

  // --- Writes ----------------------------------------------------------------------------------
  logic [WRITERS-1:0] done, begun;
  // Descriptors and feeds as the channels see them: with the card's memory between.
  logic [WRITERS-1:0] writer_descriptor_valid, writer_descriptor_ready, writer_posted;
  descriptor_t [WRITERS-1:0] writer_descriptor;
  logic [WRITERS-1:0][15:0] writer_available;
  logic [WRITERS-1:0] writer_take, writer_failed;
  logic [WRITERS-1:0][DATA_BITS-1:0] writer_data;

  for (genvar n = 0; n < WRITERS; n++) begin : g_writer
    localparam int unsigned CHANNEL = H2C + n;
    if (MEMORY && n == 0) begin : g_memory
      crosslane_memory_c2h #(
          .DATA_BITS(DATA_BITS),
          .ADDRESS_BITS(MEMORY_BITS)
      ) memory (
          .clk,
          .rst,
          .enable(settings[CHANNEL].card_memory),
          .forget(settings[CHANNEL].restart || stopped[CHANNEL]),
          .s_descriptor_valid(descriptor_valid[CHANNEL]),
          .s_descriptor_ready(descriptor_ready[CHANNEL]),
          .s_descriptor(descriptor[CHANNEL]),
          .m_descriptor_valid(writer_descriptor_valid[n]),
          .m_descriptor_ready(writer_descriptor_ready[n]),
          .m_descriptor(writer_descriptor[n]),
          .s_feed_available(write_available[n]),
          .s_feed_take(write_take[n]),
          .s_feed_data(write_data[n]),
          .m_feed_available(writer_available[n]),
          .m_feed_move(write_move[n]),
          .m_feed_take(writer_take[n]),
          .m_feed_take_back(write_take_back[n]),
          .m_feed_take_bytes(write_take_bytes[n]),
          .m_feed_data(writer_data[n]),
          .m_feed_failed(writer_failed[n]),
          .m_axi_arvalid(m_memory_arvalid),
          .m_axi_arready(m_memory_arready),
          .m_axi_araddr(m_memory_araddr),
          .m_axi_arlen(m_memory_arlen),
          .m_axi_rvalid(m_memory_rvalid),
          .m_axi_rready(m_memory_rready),
          .m_axi_rdata(m_memory_rdata),
          .m_axi_rresp(m_memory_rresp),
          .m_axi_rlast(m_memory_rlast)
      );
      assign m_memory_arsize  = 3'($clog2(BYTES));
      assign m_memory_arburst = INCREMENTING;
      // What is on its way to the channel through the memory's queue is posted still.
      assign writer_posted[n] = posted[CHANNEL] || writer_descriptor_valid[n];
    end else begin : g_stream
      assign writer_descriptor_valid[n] = descriptor_valid[CHANNEL];
      assign descriptor_ready[CHANNEL] = writer_descriptor_ready[n];
      assign writer_descriptor[n] = descriptor[CHANNEL];
      assign writer_posted[n] = posted[CHANNEL];
      assign writer_available[n] = write_available[n];
      assign write_take[n] = writer_take[n];
      assign writer_data[n] = write_data[n];
      assign writer_failed[n] = 1'b0;
    end

    crosslane_writer #(
        .KIND(n < C2H ? KIND_C2H : KIND_PEER),
        .DATA_BITS(DATA_BITS),
        .MAX_WRITE(MAX_WRITE)
    ) writer (
        .clk,
        .rst,
        .settings(settings[CHANNEL]),
        .function_i,
        .time_i,
        .reset_counters,
        .descriptor_valid(writer_descriptor_valid[n]),
        .descriptor_ready(writer_descriptor_ready[n]),
        .descriptor(writer_descriptor[n]),
        .posted(writer_posted[n]),
        .status_taken(status_taken[CHANNEL]),
        .interrupt_taken(interrupt_taken[CHANNEL]),
        .due(due[CHANNEL]),
        .readings(channel_readings[CHANNEL]),
        .stopped(stopped[CHANNEL]),
        .feed_available(writer_available[n]),
        .feed_move(write_move[n]),
        .feed_take(writer_take[n]),
        .feed_take_back(write_take_back[n]),
        .feed_take_bytes(write_take_bytes[n]),
        .feed_data(writer_data[n]),
        .feed_failed(writer_failed[n]),
        .feed_generated(write_generated[n]),
        .command_done(done[n]),
        .message_begun(begun[n]),
        .m_write_valid(source_valid[FIRST_CHANNEL+CHANNEL]),
        .m_write_ready(source_ready[FIRST_CHANNEL+CHANNEL]),
        .m_write_header(source_header[FIRST_CHANNEL+CHANNEL]),
        .m_write_first(source_first[FIRST_CHANNEL+CHANNEL]),
        .m_write_last(source_last[FIRST_CHANNEL+CHANNEL]),
        .m_write_data(source_data[FIRST_CHANNEL+CHANNEL])
    );
  end
  if (!MEMORY) begin : g_no_memory_read
    assign m_memory_arvalid = '0;
    assign m_memory_araddr  = '0;
    assign m_memory_arlen   = '0;
    assign m_memory_arsize  = '0;
    assign m_memory_arburst = '0;
    assign m_memory_rready  = '0;
  end
  assign command_done  = PEER > 0 && done[WRITERS-PEER_PLACES];
  assign message_begun = PEER > 0 && begun[WRITERS-PEER_PLACES];

  // --- Receive lanes -----------------------------------------------------------------------------
  logic lanes_busy;
  if (LANES > 0) begin : g_lanes
    crosslane_lanes #(
        .DATA_BITS(DATA_BITS),
        .LANES(LANES),
        .LANE_FIFO(LANE_FIFO),
        .WINDOW_BYTES(LANE_WINDOW)
    ) lanes (
        .clk,
        .rst,
        .function_i,
        .time_i,
        .reset_counters,
        .lane_settings,
        .lane_readings,
        .kept(lane_kept),
        .s_lane_valid(lane_write_valid),
        .s_lane_ready(lane_write_ready),
        .s_lane_header(lane_write_header),
        .s_lane_first(lane_write_first),
        .s_lane_last(lane_write_last),
        .s_lane_data(lane_write_data),
        .feed_lane(lane_select),
        .feed_available(lane_available),
        .feed_move(lane_move),
        .feed_take(lane_take),
        .feed_take_back(lane_take_back),
        .feed_take_bytes(lane_take_bytes),
        .feed_data(lane_data),
        .received_valid,
        .received_lane,
        .received_bytes,
        .busy(lanes_busy),
        .m_credit_valid(source_valid[CREDITS]),
        .m_credit_ready(source_ready[CREDITS]),
        .m_credit_header(source_header[CREDITS]),
        .m_credit_first(source_first[CREDITS]),
        .m_credit_last(source_last[CREDITS]),
        .m_credit_data(source_data[CREDITS])
    );
  end else begin : g_no_lanes
    assign lane_readings = '0;
    assign lane_write_ready = 1'b1;
    assign lane_available = '0;
    assign lane_data = '0;
    assign received_valid = 1'b0;
    assign received_lane = '0;
    assign received_bytes = '0;
    assign lanes_busy = 1'b0;
    assign source_valid[CREDITS] = 1'b0;
    assign source_header[CREDITS] = '0;
    assign source_first[CREDITS] = 1'b0;
    assign source_last[CREDITS] = 1'b0;
    assign source_data[CREDITS] = '0;
  end

  // --- Whether anything goes on --------------------------------------------------------------------
  logic [CHANNELS-1:0] working;
  for (genvar n = 0; n < CHANNELS; n++) begin : g_working
    // What stands before a writer is posted still.
    logic is_posted;
    if (n < H2C) begin : g_h2c
      assign is_posted = posted[n];
    end else begin : g_writer
      assign is_posted = writer_posted[n-H2C];
    end
    assign working[n] = due[n] != '0 || (settings[n].run && !stopped[n] &&
        (is_posted || descriptor_valid[n])) || readings[n].in_flight != '0;
  end
  assign busy = s_rx_valid || m_tx_valid || answer_valid || source_valid != '0 || working != '0 ||
      lanes_busy || memory_busy;

endmodule
