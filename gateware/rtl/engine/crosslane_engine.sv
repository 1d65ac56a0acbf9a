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
    // What the lanes hold: one feed for the lane that is named, this side provides.
    input logic [LANE_PLACES-1:0] lane_kept,
    input logic [3:0] lane_select,
    output logic [15:0] lane_available,
    input logic lane_move,
    input logic lane_take,
    input logic [5:0] lane_take_back,
    input logic [6:0] lane_take_bytes,
    output logic [DATA_BITS-1:0] lane_data,
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
    // Errors that the function's own registers tell of; pulses.
    output logic poisoned_write,
    output logic unexpected_completion,
    output logic completion_timeout,
    output logic busy  // something is under way, or would be if the link let it
);
  // --- Registers -----------------------------------------------------------------------------
  channel_settings_t [CHANNELS-1:0] settings;
  channel_readings_t [CHANNELS-1:0] readings;
  lane_settings_t [LANE_PLACES-1:0] lane_settings;
  lane_readings_t [LANE_PLACES-1:0] lane_readings;
  due_t [CHANNELS-1:0] due;
  logic [CHANNELS-1:0] status_taken, interrupt_taken, stopped;
  logic reset_counters;

  // --- What comes ----------------------------------------------------------------------------
  logic request_valid, request_ready, request_first, request_last;
  tlp_header_t request_header;
  logic [DATA_BITS-1:0] request_data;
  logic lane_write_valid, lane_write_ready, lane_write_first, lane_write_last;
  tlp_header_t lane_write_header;
  logic [DATA_BITS-1:0] lane_write_data;
  logic completion_valid, completion_ready, completion_first, completion_last;
  tlp_header_t completion_header;
  logic [DATA_BITS-1:0] completion_data;

  crosslane_demux #(
      .DATA_BITS (DATA_BITS),
      .HAS_LANES (LANES > 0),
      .HAS_WINDOW(0)
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
      .m_window_valid(),
      .m_window_ready(1'b1),
      .m_window_header(),
      .m_window_first(),
      .m_window_last(),
      .m_window_data(),
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
      .m_answer_valid(answer_valid),
      .m_answer_ready(answer_ready),
      .m_answer_header(answer_header),
      .m_answer_first(answer_first),
      .m_answer_last(answer_last),
      .m_answer_data(answer_data),
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
  logic              [CHANNELS-1:0]       takes_command;

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

  for (genvar n = 0; n < H2C; n++) begin : g_h2c
    crosslane_h2c #(
        .MAX_READ(MAX_READ)
    ) h2c (
        .clk,
        .rst,
        .settings(settings[n]),
        .function_i,
        .time_i,
        .reset_counters,
        .descriptor_valid(descriptor_valid[n]),
        .descriptor_ready(descriptor_ready[n]),
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
        .arrived_valid(arrived_valid[n]),
        .arrived_bytes(arrived_bytes[n]),
        .failed_valid(failed_valid[n]),
        .failed_error(failed_error[n]),
        .failed_address(failed_address[n]),
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
      .feed_available(h2c_available),
      .feed_move(h2c_move),
      .feed_take(h2c_take),
      .feed_take_back(h2c_take_back),
      .feed_take_bytes(h2c_take_bytes),
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

  for (genvar n = 0; n < WRITERS; n++) begin : g_writer
    localparam int unsigned CHANNEL = H2C + n;
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
        .descriptor_valid(descriptor_valid[CHANNEL]),
        .descriptor_ready(descriptor_ready[CHANNEL]),
        .descriptor(descriptor[CHANNEL]),
        .posted(posted[CHANNEL]),
        .status_taken(status_taken[CHANNEL]),
        .interrupt_taken(interrupt_taken[CHANNEL]),
        .due(due[CHANNEL]),
        .readings(channel_readings[CHANNEL]),
        .stopped(stopped[CHANNEL]),
        .feed_available(write_available[n]),
        .feed_move(write_move[n]),
        .feed_take(write_take[n]),
        .feed_take_back(write_take_back[n]),
        .feed_take_bytes(write_take_bytes[n]),
        .feed_data(write_data[n]),
        .feed_failed(1'b0),
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
    assign working[n] = due[n] != '0 || (settings[n].run && !stopped[n] &&
        (posted[n] || descriptor_valid[n])) || readings[n].in_flight != '0;
  end
  assign busy = s_rx_valid || m_tx_valid || answer_valid || source_valid != '0 || working != '0 ||
      lanes_busy;

endmodule
