// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For tests: one H2C channel on its reads.

module h2c_reads
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS      = 256,
    parameter int unsigned TAGS           = 64,
    parameter int unsigned MAX_READ       = 1024,
    parameter int unsigned STAGING_BYTES  = 65536,
    parameter int unsigned TIMEOUT_CLOCKS = 1000,
    parameter int unsigned FETCHERS       = 0
) (
    input  logic                              clk,
    input  logic                              rst,
    input  channel_settings_t                 settings,
    input  function_t                         function_i,
    input  logic              [         63:0] time_i,
    input  logic                              reset_counters,
    input  logic                              descriptor_valid,
    output logic                              descriptor_ready,
    input  descriptor_t                       descriptor,
    input  logic                              status_taken,
    input  logic                              interrupt_taken,
    output due_t                              due,
    output channel_readings_t                 readings,
    output logic                              stopped,
    output logic              [         15:0] feed_available,
    input  logic                              feed_move,
    input  logic                              feed_take,
    input  logic              [          5:0] feed_take_back,
    input  logic              [          6:0] feed_take_bytes,
    input  logic                              feed_goes_on,
    output logic              [DATA_BITS-1:0] feed_data,
    input  logic                              draining,
    output logic                              m_h2c_valid,
    input  logic                              m_h2c_ready,
    output tlp_header_t                       m_h2c_header,
    input  logic                              s_completion_valid,
    output logic                              s_completion_ready,
    input  tlp_header_t                       s_completion_header,
    input  logic                              s_completion_first,
    input  logic                              s_completion_last,
    input  logic              [DATA_BITS-1:0] s_completion_data,
    input  logic                              s_completion_aborted,
    output logic                              unexpected,
    output logic                              timed_out,
    output logic                              refused
);
  localparam int unsigned FETCH_PLACES = (FETCHERS > 0) ? FETCHERS : 1;
  logic read_valid, read_ready, read_relaxed, read_blocked, data_came;
  logic arrived_valid, failed_valid, forget, clear;
  logic [63:0] read_address, failed_address;
  logic [12:0] read_bytes, arrived_bytes;
  logic [15:0] in_flight;
  error_e failed_error;
  error_e [0:0] failed_errors;
  tlp_header_t [0:0] headers;

  assign failed_error = failed_errors[0];
  assign m_h2c_header = headers[0];

  crosslane_h2c #(
      .MAX_READ(MAX_READ)
  ) h2c (
      .*,
      .packets(1'b0),
      .ends_room(1'b1),
      .read_ends_packet(),
      .read_user(),
      .descriptor_inline(1'b0),
      .inline_valid(),
      .inline_taken(1'b0)
  );

  crosslane_reads #(
      .DATA_BITS(DATA_BITS),
      .H2C(1),
      .FETCHERS(FETCHERS),
      .TAGS(TAGS),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS)
  ) reads (
      .inline_valid(1'b0),
      .inline_taken(),
      .inline_bytes('0),
      .inline_data('0),
      .failed_error(failed_errors),
      .m_h2c_header(headers),
      .fetch_asks(FETCH_PLACES'(0)),
      .fetch_valid(FETCH_PLACES'(0)),
      .fetch_ready(),
      .fetch_address('0),
      .fetch_bytes('0),
      .fetch_forget(FETCH_PLACES'(0)),
      .fetched_valid(),
      .fetched_ready(FETCH_PLACES'(0)),
      .fetched_data(),
      .fetches_waiting(),
      .fetches_open(),
      .fetch_failed(),
      .fetch_error(),
      .fetch_error_address(),
      .m_fetch_valid(),
      .m_fetch_ready(1'b0),
      .m_fetch_header(),
      .*
  );
endmodule
