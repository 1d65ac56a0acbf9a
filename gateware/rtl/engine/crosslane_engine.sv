// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The DMA engine without a user circuit: TLP streams on one side, feeds on the other.
// docs/engine.md describes its behaviour, gateware/README.md its structure.

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
    parameter int unsigned COMPLETION_HEADER_CREDITS = 0,  // of the link's buffer; 0: any number
    parameter int unsigned COMPLETION_DATA_CREDITS = 0,  // of the link's buffer; 0: any number
    parameter int unsigned VECTORS = 8,  // of MSI-X
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,  // of completions: 50 ms
    parameter bit PACKETS = 0,  // the first H2C and C2H channels have a packet mode
    parameter bit PUSH = 0,  // BAR 4 has a line for each channel; not with card memory
    parameter bit MEMORY = 0,  // the first H2C and C2H channels reach the card's memory
    parameter int unsigned MEMORY_BITS = 40,  // of its addresses
    parameter bit COPY = 0,  // with MEMORY: the first C2H channel copies within it
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
    // Received TLPs.
    input logic s_rx_valid,
    output logic s_rx_ready,
    input tlp_header_t s_rx_header,
    input logic s_rx_first,
    input logic s_rx_last,
    input logic [DATA_BITS-1:0] s_rx_data,
    input logic s_rx_aborted,  // with a completion's last beat: discard its data
    // Sent TLPs.
    output logic m_tx_valid,
    input logic m_tx_ready,
    output tlp_header_t m_tx_header,
    output logic m_tx_first,
    output logic m_tx_last,
    output logic [DATA_BITS-1:0] m_tx_data,
    // User circuit: registers.
    output user_settings_t user_settings,
    input user_readings_t user_readings,
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
    // Feeds of the data that the C2H and peer channels write; this side consumes them.
    input logic [WRITERS-1:0][15:0] write_available,
    output logic [WRITERS-1:0] write_move,
    output logic [WRITERS-1:0] write_take,
    output logic [WRITERS-1:0][5:0] write_take_back,
    output logic [WRITERS-1:0][6:0] write_take_bytes,
    output logic [WRITERS-1:0] write_goes_on,
    input logic [WRITERS-1:0][DATA_BITS-1:0] write_data,
    input packet_end_t [WRITERS-1:0] write_end,
    output logic [WRITERS-1:0] write_generated,
    // Feed of the selected receive queue; this side provides it. Unused if the engine has no
    // receive queues.
    // verilator lint_off UNUSEDSIGNAL
    input logic [LANE_PLACES-1:0] lane_kept,
    input logic [3:0] lane_select,
    output logic [15:0] lane_available,
    input logic lane_move,
    input logic lane_take,
    input logic [5:0] lane_take_back,
    input logic [6:0] lane_take_bytes,
    input logic lane_goes_on,
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
    output logic peer_stopped,  // stopped or restarted: its commands are dropped
    // The card's memory, AXI4, one ID per direction: from H2C 0, for C2H 0, and for BAR 2. Unused
    // if the engine has no card memory.
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
    // Errors for the function's error registers; pulses.
    output logic poisoned_write,
    output logic unexpected_completion,
    output logic completion_timeout,
    output logic busy  // work is in progress, or would be if the link let it
);
  localparam logic [1:0] INCREMENTING = 2'b01;  // the AXI4 burst type
  assign {m_memory_awsize, m_memory_arsize}   = MEMORY ? {2{3'($clog2(BYTES))}} : '0;
  assign {m_memory_awburst, m_memory_arburst} = MEMORY ? {2{INCREMENTING}} : '0;

  // An internal stream has the name of the port that it leads to.
  // --- Received TLPs -------------------------------------------------------------------------
  logic s_request_valid, s_request_ready, s_request_first, s_request_last;
  tlp_header_t s_request_header;
  logic [DATA_BITS-1:0] s_request_data;
  // Unused without receive queues.
  // verilator lint_off UNUSEDSIGNAL
  logic s_lane_valid, s_lane_ready, s_lane_first, s_lane_last;
  tlp_header_t s_lane_header;
  logic [DATA_BITS-1:0] s_lane_data;
  lane_settings_t [LANE_PLACES-1:0] lane_settings;
  // verilator lint_on UNUSEDSIGNAL
  logic s_completion_valid, s_completion_ready, s_completion_first, s_completion_last;
  logic s_completion_aborted;
  tlp_header_t s_completion_header;
  logic [DATA_BITS-1:0] s_completion_data;
  logic s_window_valid, s_window_ready, s_window_first, s_window_last;
  tlp_header_t s_window_header;
  logic [DATA_BITS-1:0] s_window_data;
  line_write_t line_write;
  logic access_held, channels_busy, lanes_busy;

  crosslane_demux #(
      .DATA_BITS (DATA_BITS),
      .HAS_LANES (LANES > 0),
      .HAS_WINDOW(WINDOW),
      .HAS_PUSH  (PUSH)
  ) demux (
      .*,
      .m_request_valid(s_request_valid),
      .m_request_ready(s_request_ready),
      .m_request_header(s_request_header),
      .m_request_first(s_request_first),
      .m_request_last(s_request_last),
      .m_request_data(s_request_data),
      .m_lane_valid(s_lane_valid),
      .m_lane_ready(s_lane_ready),
      .m_lane_header(s_lane_header),
      .m_lane_first(s_lane_first),
      .m_lane_last(s_lane_last),
      .m_lane_data(s_lane_data),
      .m_window_valid(s_window_valid),
      .m_window_ready(s_window_ready),
      .m_window_header(s_window_header),
      .m_window_first(s_window_first),
      .m_window_last(s_window_last),
      .m_window_data(s_window_data),
      .m_completion_valid(s_completion_valid),
      .m_completion_ready(s_completion_ready),
      .m_completion_header(s_completion_header),
      .m_completion_first(s_completion_first),
      .m_completion_last(s_completion_last),
      .m_completion_data(s_completion_data),
      .m_completion_aborted(s_completion_aborted)
  );

  // --- Sent TLPs -----------------------------------------------------------------------------
  localparam int unsigned CREDITS = 0, STATUS = 1, FETCHES = 2, FIRST_READ = 3;
  localparam int unsigned FIRST_WRITE = FIRST_READ + H2C;
  localparam int unsigned SOURCES = FIRST_WRITE + WRITERS;

  logic s_answer_valid, s_answer_ready, s_answer_first, s_answer_last;
  tlp_header_t s_answer_header;
  logic [DATA_BITS-1:0] s_answer_data;
  logic [SOURCES-1:0] source_valid, source_ready, source_first, source_last;
  tlp_header_t [SOURCES-1:0] source_header;
  logic [SOURCES-1:0][DATA_BITS-1:0] source_data;

  crosslane_arbiter #(
      .DATA_BITS(DATA_BITS),
      .SOURCES  (SOURCES)
  ) arbiter (
      .*,
      .s_valid (source_valid),
      .s_ready (source_ready),
      .s_header(source_header),
      .s_first (source_first),
      .s_last  (source_last),
      .s_data  (source_data)
  );
  // A read request consists of its header only.
  assign source_first[FETCHES+:H2C+1] = '1;
  assign source_last[FETCHES+:H2C+1]  = '1;
  assign source_data[FETCHES+:H2C+1]  = '0;

  // --- Registers, status blocks, interrupts ------------------------------------------------------
  channel_settings_t [CHANNELS-1:0] settings;
  channel_readings_t [CHANNELS-1:0] readings;
  lane_readings_t [LANE_PLACES-1:0] lane_readings;
  due_t [CHANNELS-1:0] due;
  logic [CHANNELS-1:0] status_taken, interrupt_taken;
  logic reset_counters;
  logic [1:0] table_take, table_whole;
  logic [1:0][  9:0] table_index;
  logic [1:0][127:0] table_entry;
  logic s_register_valid, s_register_ready, s_register_first, s_register_last;
  tlp_header_t s_register_header;
  logic [DATA_BITS-1:0] s_register_data;

  crosslane_control #(
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
      .COPY(COPY),
      .PACKETS(PACKETS),
      .PUSH(PUSH),
      .VECTORS(VECTORS)
  ) control (
      .*,
      .m_answer_valid (s_register_valid),
      .m_answer_ready (s_register_ready),
      .m_answer_header(s_register_header),
      .m_answer_first (s_register_first),
      .m_answer_last  (s_register_last),
      .m_answer_data  (s_register_data),
      .m_status_valid (source_valid[STATUS]),
      .m_status_ready (source_ready[STATUS]),
      .m_status_header(source_header[STATUS]),
      .m_status_first (source_first[STATUS]),
      .m_status_last  (source_last[STATUS]),
      .m_status_data  (source_data[STATUS])
  );

  crosslane_window_answers #(
      .DATA_BITS(DATA_BITS),
      .WINDOW(WINDOW),
      .WINDOW_BITS(WINDOW_BITS)
  ) window (
      .*,
      .m_answer_valid (s_answer_valid),
      .m_answer_ready (s_answer_ready),
      .m_answer_header(s_answer_header),
      .m_answer_first (s_answer_first),
      .m_answer_last  (s_answer_last),
      .m_answer_data  (s_answer_data)
  );

  // --- Channels ----------------------------------------------------------------------------------
  crosslane_channels #(
      .DATA_BITS(DATA_BITS),
      .H2C(H2C),
      .C2H(C2H),
      .PEER(PEER),
      .TAGS(TAGS),
      .MAX_WRITE(MAX_WRITE),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .TABLE_ENTRIES(TABLE_ENTRIES),
      .BATCH(BATCH),
      .COMPLETION_HEADER_CREDITS(COMPLETION_HEADER_CREDITS),
      .COMPLETION_DATA_CREDITS(COMPLETION_DATA_CREDITS),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS),
      .MEMORY(MEMORY),
      .COPY(COPY),
      .MEMORY_BITS(MEMORY_BITS),
      .PACKETS(PACKETS),
      .PUSH(PUSH)
  ) channels (
      .*,
      .busy(channels_busy),
      .m_h2c_valid(source_valid[FIRST_READ+:H2C]),
      .m_h2c_ready(source_ready[FIRST_READ+:H2C]),
      .m_h2c_header(source_header[FIRST_READ+:H2C]),
      .m_fetch_valid(source_valid[FETCHES]),
      .m_fetch_ready(source_ready[FETCHES]),
      .m_fetch_header(source_header[FETCHES]),
      .m_write_valid(source_valid[FIRST_WRITE+:WRITERS]),
      .m_write_ready(source_ready[FIRST_WRITE+:WRITERS]),
      .m_write_header(source_header[FIRST_WRITE+:WRITERS]),
      .m_write_first(source_first[FIRST_WRITE+:WRITERS]),
      .m_write_last(source_last[FIRST_WRITE+:WRITERS]),
      .m_write_data(source_data[FIRST_WRITE+:WRITERS])
  );

  // --- Receive lanes -----------------------------------------------------------------------------
  if (LANES > 0) begin : g_lanes
    crosslane_lanes #(
        .DATA_BITS(DATA_BITS),
        .LANES(LANES),
        .LANE_FIFO(LANE_FIFO),
        .WINDOW_BYTES(LANE_WINDOW)
    ) lanes (
        .*,
        .kept(lane_kept),
        .feed_lane(lane_select),
        .feed_available(lane_available),
        .feed_move(lane_move),
        .feed_take(lane_take),
        .feed_take_back(lane_take_back),
        .feed_take_bytes(lane_take_bytes),
        .feed_goes_on(lane_goes_on),
        .feed_data(lane_data),
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
    assign s_lane_ready = 1'b1;
    assign {lane_available, lane_data} = '0;
    assign {received_valid, received_lane, received_bytes} = '0;
    assign lanes_busy = 1'b0;
    assign {source_valid[CREDITS], source_header[CREDITS], source_data[CREDITS]} = '0;
    assign {source_first[CREDITS], source_last[CREDITS]} = '0;
  end

  assign busy = s_rx_valid || m_tx_valid || s_answer_valid || source_valid != '0 || channels_busy ||
      lanes_busy;

`ifndef SYNTHESIS
  if (LANES > 0 && LANE_FIFO < 4 * MAX_WRITE) begin : g_parameters
    $error("LANE_FIFO: at least 4 times MAX_WRITE");
  end
  if (PUSH && (MEMORY || WINDOW)) begin : g_push
    $error("PUSH: not with MEMORY or WINDOW");
  end
`endif
endmodule
