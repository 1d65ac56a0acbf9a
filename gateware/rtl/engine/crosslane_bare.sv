// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The core alone: one channel of reads, one of writes, and registers. For a user circuit that
// supplies its own descriptors through one H2C and one C2H port. No rings, tables, status blocks,
// interrupts, counters, receive queues or peer channels. The registers are those of
// registers/engine.rdl that such a channel has: `control`, `status`, `payload`, `completed`,
// `stopped_at`, `error`.
//
// The user circuit takes the read data from a feed and provides the data to be written as a feed
// (gateware/README.md). Descriptors complete in order; `completed` counts them.

module crosslane_bare
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned TAGS = 64,  // reads in flight, to 256
    parameter int unsigned COMPLETION_HEADER_CREDITS = 0,  // of the link's buffer; 0: any number
    parameter int unsigned COMPLETION_DATA_CREDITS = 0,  // of the link's buffer; 0: any number
    parameter int unsigned MAX_WRITE = 512,  // longest payload that it builds, bytes, to 1024
    parameter int unsigned MAX_READ = 1024,  // longest read that it asks for, bytes, to 4096
    parameter int unsigned STAGING_BYTES = 65536,  // ring behind the H2C channel
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000  // of completions: 50 ms
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
    // Sent TLPs.
    output logic m_tx_valid,
    input logic m_tx_ready,
    output tlp_header_t m_tx_header,
    output logic m_tx_first,
    output logic m_tx_last,
    output logic [DATA_BITS-1:0] m_tx_data,
    // Descriptors. An offered one is taken while the channel runs.
    input logic h2c_descriptor_valid,
    output logic h2c_descriptor_ready,
    input descriptor_t h2c_descriptor,
    output logic [31:0] h2c_completed,
    output logic h2c_stopped,  // by an error, until it is restarted
    input logic c2h_descriptor_valid,
    output logic c2h_descriptor_ready,
    input descriptor_t c2h_descriptor,
    output logic [31:0] c2h_completed,
    output logic c2h_stopped,
    // Feed of the data that the H2C channel has read; this side provides it.
    output logic [15:0] h2c_available,
    input logic h2c_move,
    input logic h2c_take,
    input logic [5:0] h2c_take_back,
    input logic [6:0] h2c_take_bytes,
    output logic [DATA_BITS-1:0] h2c_data,
    // Feed of the data that the C2H channel writes; this side consumes it.
    input logic [15:0] c2h_available,
    output logic c2h_move,
    output logic c2h_take,
    output logic [5:0] c2h_take_back,
    output logic [6:0] c2h_take_bytes,
    input logic [DATA_BITS-1:0] c2h_data,
    // Errors for the function's error registers; pulses.
    output logic poisoned_write,
    output logic unexpected_completion,
    output logic completion_timeout
);
  localparam int unsigned H2C = 0;
  localparam int unsigned C2H = 1;

  // --- Received TLPs -------------------------------------------------------------------------
  logic request_valid, request_ready, request_first, request_last;
  tlp_header_t request_header;
  logic [DATA_BITS-1:0] request_data;
  logic completion_valid, completion_ready, completion_first, completion_last;
  tlp_header_t completion_header;
  logic [DATA_BITS-1:0] completion_data;

  crosslane_demux #(
      .DATA_BITS (DATA_BITS),
      .HAS_LANES (0),
      .HAS_WINDOW(0)
  ) demux (
      .*,
      .s_rx_aborted(1'b0),
      .m_request_valid(request_valid),
      .m_request_ready(request_ready),
      .m_request_header(request_header),
      .m_request_first(request_first),
      .m_request_last(request_last),
      .m_request_data(request_data),
      .m_lane_valid(),
      .m_lane_ready(1'b1),
      .m_lane_header(),
      .m_lane_first(),
      .m_lane_last(),
      .m_lane_data(),
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
      .m_completion_aborted(),
      .line_write(),
      .access_held(1'b0)
  );

  // --- Registers -----------------------------------------------------------------------------
  channel_settings_t [1:0] settings;
  channel_readings_t [1:0] readings;
  logic reset_counters;
  logic answer_valid, answer_ready, answer_first, answer_last;
  tlp_header_t answer_header;
  logic [DATA_BITS-1:0] answer_data;

  crosslane_registers #(
      .DATA_BITS(DATA_BITS),
      .H2C(1),
      .C2H(1),
      .PEER(0),
      .LANES(0),
      .TAGS(TAGS),
      .MAX_WRITE(MAX_WRITE),
      .MAX_READ(MAX_READ),
      .CLOCK_PS(CLOCK_PS),
      .TABLE_ENTRIES(0),
      .FETCH_BATCH(0),
      .VECTORS(0),
      .BARE(1)
  ) registers (
      .*,
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
      .access_held(),
      .lane_settings(),
      .lane_readings('0),
      .user_settings(),
      .user_readings('0),
      .table_take('0),
      .table_index('0),
      .table_entry(),
      .table_whole(),
      .msix_vector('0),
      .msix_ready(),
      .msix_address(),
      .msix_data(),
      .msix_masked(),
      .msix_pending('0)
  );

  // One without bytes is refused, as crosslane_descriptors does it.
  function automatic descriptor_t checked(input descriptor_t descriptor);
    checked = descriptor;
    if (descriptor.error == ERROR_NONE && descriptor.bytes == '0) begin
      checked.error = ERROR_BAD_DESCRIPTOR;
    end
  endfunction

  // --- Reads ---------------------------------------------------------------------------------
  logic read_valid, read_ready, read_relaxed, read_blocked, data_came;
  logic arrived_valid, failed_valid, forget, clear;
  logic [63:0] read_address, failed_address;
  logic [12:0] read_bytes, arrived_bytes;
  logic   [15:0] in_flight;
  error_e [ 0:0] failed_error;
  logic h2c_valid, h2c_ready;
  tlp_header_t [0:0] h2c_header;

  crosslane_h2c #(
      .MAX_READ(MAX_READ)
  ) h2c (
      .*,
      .settings(settings[H2C]),
      .descriptor_valid(h2c_descriptor_valid),
      .descriptor_ready(h2c_descriptor_ready),
      .descriptor(checked(h2c_descriptor)),
      .status_taken(1'b0),
      .interrupt_taken(1'b0),
      .due(),
      .readings(readings[H2C]),
      .packets(1'b0),
      .ends_room(1'b1),
      .read_ends_packet(),
      .read_user(),
      .descriptor_inline(1'b0),
      .inline_valid(),
      .inline_taken(1'b0),
      .stopped(h2c_stopped),
      .failed_error(failed_error[0]),
      .draining(1'b0)
  );
  assign h2c_completed = readings[H2C].completed;

  crosslane_reads #(
      .DATA_BITS(DATA_BITS),
      .H2C(1),
      .FETCHERS(0),
      .TAGS(TAGS),
      .COMPLETION_HEADER_CREDITS(COMPLETION_HEADER_CREDITS),
      .COMPLETION_DATA_CREDITS(COMPLETION_DATA_CREDITS),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS)
  ) reads (
      .*,
      .inline_valid(1'b0),
      .inline_taken(),
      .inline_bytes('0),
      .inline_data('0),
      .feed_available(h2c_available),
      .feed_move(h2c_move),
      .feed_take(h2c_take),
      .feed_take_back(h2c_take_back),
      .feed_take_bytes(h2c_take_bytes),
      .feed_goes_on(1'b0),
      .feed_data(h2c_data),
      .fetch_asks(1'b0),
      .fetch_valid(1'b0),
      .fetch_ready(),
      .fetch_address('0),
      .fetch_bytes('0),
      .fetch_forget(1'b0),
      .fetched_valid(),
      .fetched_ready(1'b0),
      .fetched_data(),
      .fetches_waiting(),
      .fetches_open(),
      .fetch_failed(),
      .fetch_error(),
      .fetch_error_address(),
      .m_h2c_valid(h2c_valid),
      .m_h2c_ready(h2c_ready),
      .m_h2c_header(h2c_header),
      .m_fetch_valid(),
      .m_fetch_ready(1'b0),
      .m_fetch_header(),
      .s_completion_valid(completion_valid),
      .s_completion_ready(completion_ready),
      .s_completion_header(completion_header),
      .s_completion_first(completion_first),
      .s_completion_last(completion_last),
      .s_completion_data(completion_data),
      .s_completion_aborted(1'b0),
      .unexpected(unexpected_completion),
      .timed_out(completion_timeout),
      .refused()
  );

  // --- Writes --------------------------------------------------------------------------------
  logic c2h_valid, c2h_ready, c2h_first, c2h_last;
  tlp_header_t c2h_header;
  logic [DATA_BITS-1:0] c2h_tlp_data;

  crosslane_writer #(
      .KIND(KIND_C2H),
      .DATA_BITS(DATA_BITS),
      .MAX_WRITE(MAX_WRITE)
  ) writer (
      .*,
      .settings(settings[C2H]),
      .descriptor_valid(c2h_descriptor_valid),
      .descriptor_ready(c2h_descriptor_ready),
      .descriptor(checked(c2h_descriptor)),
      .feed_available(c2h_available),
      .feed_move(c2h_move),
      .feed_take(c2h_take),
      .feed_take_back(c2h_take_back),
      .feed_take_bytes(c2h_take_bytes),
      .feed_goes_on(),
      .feed_data(c2h_data),
      .packets(1'b0),
      .feed_end('0),
      .posted(1'b0),
      .feed_failed(1'b0),
      .feed_generated(),
      .waits_for_work(),
      .copies('0),
      .command_done(),
      .message_begun(),
      .m_write_valid(c2h_valid),
      .m_write_ready(c2h_ready),
      .m_write_header(c2h_header),
      .m_write_first(c2h_first),
      .m_write_last(c2h_last),
      .m_write_data(c2h_tlp_data),
      .status_taken(1'b0),
      .interrupt_taken(1'b0),
      .due(),
      .readings(readings[C2H]),
      .stopped(c2h_stopped)
  );
  assign c2h_completed = readings[C2H].completed;

  // --- Sent TLPs -----------------------------------------------------------------------------
  crosslane_arbiter #(
      .DATA_BITS(DATA_BITS),
      .SOURCES  (2)
  ) arbiter (
      .*,
      .s_answer_valid(answer_valid),
      .s_answer_ready(answer_ready),
      .s_answer_header(answer_header),
      .s_answer_first(answer_first),
      .s_answer_last(answer_last),
      .s_answer_data(answer_data),
      .s_valid({c2h_valid, h2c_valid}),
      .s_ready({c2h_ready, h2c_ready}),
      .s_header({c2h_header, h2c_header[0]}),
      .s_first({c2h_first, 1'b1}),
      .s_last({c2h_last, 1'b1}),
      .s_data({c2h_tlp_data, DATA_BITS'(0)})
  );
endmodule
