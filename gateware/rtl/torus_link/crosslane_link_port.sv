// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A whole port of a torus link: datagrams on one side, words of transceivers on the other. Read
// first: docs/torus-link.md. Times are in clocks, a clock for each column.

module crosslane_link_port
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES = 8,  // 1, 4 or 8
    parameter int unsigned SYMBOLS = 2,  // of a word of a transceiver: 2 or 4
    parameter int unsigned CHANNEL_DATAGRAMS = 64,  // these as in crosslane_link_end
    parameter int unsigned QUEUE_DATAGRAMS = 2,
    parameter int unsigned RETRY_DATAGRAMS = 32,
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 8,
    parameter int unsigned ACKNOWLEDGE_WITHIN = 204,
    parameter int unsigned RETRY_TIMEOUT = 918,
    parameter int unsigned REFRESH = 1598,
    parameter bit LONG = 1'b0,
    parameter bit BLOCKS = 1'b0,  // these two as in crosslane_link_lanes
    localparam int unsigned WORD_BITS = word_bits(BLOCKS, SYMBOLS)
) (
    input logic clk,
    input logic rst,
    input logic enable,  // falls: forgets everything
    input logic retrain,  // pulse
    input logic [15:0] first_session,  // another in each reset
    // Of the transceivers, as in crosslane_link_lanes.
    output logic tx_enable,
    output logic tx_begins_word,
    output logic [LANES-1:0][WORD_BITS-1:0] tx_words,
    input logic rx_clk,
    input logic rx_rst,
    input logic [LANES-1:0] rx_detected,
    input logic [LANES-1:0][WORD_BITS-1:0] rx_words,
    // Datagrams, as in crosslane_link_end.
    input logic s_valid,
    output logic s_ready,
    input logic [2:0] s_channel,
    input label_t s_label,
    input logic [8*LANES-1:0] s_data,
    output logic [CHANNELS-1:0] room,
    output logic m_valid,
    input logic [CHANNELS-1:0] m_ready,
    output logic [2:0] m_channel,
    output label_t m_label,
    output logic m_first,
    output logic m_last,
    output logic [8*LANES-1:0] m_data,
    // State and counters.
    output port_state_e state,
    output logic [15:0] session,
    output logic [15:0] session_seen,
    output progress_t progress,
    output lane_counters_t lane_counters,
    output logic [LANES-1:0][31:0] lane_errors,
    output logic [LANES-1:0][31:0] lane_turned,
    output logic in_error,
    output logic is_settled,
    output logic [6:0] unacknowledged,
    output logic [7:0] expected,
    output logic [2:0] timeouts_in_a_row,
    output logic [CHANNELS-1:0][9:0] credit,
    output link_counters_t counters
);
  logic end_rst, link_up, end_ready, end_begins, column_restart, column_valid;
  logic [9:0] far_channel_datagrams;
  logic [LANES-1:0][7:0] end_symbols, column_symbols;
  logic [LANES-1:0] end_control, column_control, column_error;
  link_events_t  column_events;
  training_set_t column_set;

  crosslane_link_lanes #(
      .LANES(LANES),
      .SYMBOLS(SYMBOLS),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .LONG(LONG),
      .BLOCKS(BLOCKS)
  ) lanes (
      .counters_rst(rst),
      .counters(lane_counters),
      .errors(lane_errors),
      .turned(lane_turned),
      .*
  );

  crosslane_link_end #(
      .LANES(LANES),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
      .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
      .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
      .ACKNOWLEDGE_WITHIN(ACKNOWLEDGE_WITHIN),
      .RETRY_TIMEOUT(RETRY_TIMEOUT),
      .REFRESH(REFRESH),
      .LONG(LONG)
  ) link_end (
      .rst       (end_rst),
      .tx_ready  (end_ready),
      .tx_symbols(end_symbols),
      .tx_control(end_control),
      .tx_begins (end_begins),
      .rx_restart(column_restart),
      .rx_valid  (column_valid),
      .rx_symbols(column_symbols),
      .rx_control(column_control),
      .rx_error  (column_error),
      .rx_events (column_events),
      .rx_set    (column_set),
      .*
  );
endmodule
