// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Line bits of all lanes, in the recovered clock, to columns in the clock of the end: alignment,
// deskew, crossing, elastic buffer. Columns that were aligned before a `realign` are not shown
// behind it.

module crosslane_link_receive_lanes
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES   = 8,
    parameter int unsigned SYMBOLS = 2   // of a word of a lane: 2 or 4
) (
    // The recovered clock: a word in each of its clocks. Its reset and `rst` are one event:
    // crosslane_reset_pair.
    input  logic                                       rx_clk,
    input  logic                                       rx_rst,
    input  logic         [LANES-1:0]                   rx_detected,
    input  logic         [LANES-1:0][SYMBOLS-1:0][9:0] rx_words,
    input  logic                                       clk,
    input  logic                                       rst,
    input  logic                                       realign,      // pulse: it begins anew
    output logic                                       present,
    output lane_symbol_t [LANES-1:0]                   column,
    output logic                                       dropped,      // pulses
    output logic                                       doubled,
    output logic                                       slipped
);
  typedef struct packed {
    logic                                  turn;
    logic [SYMBOLS-1:0]                    present;
    lane_symbol_t [SYMBOLS-1:0][LANES-1:0] columns;
  } word_t;

  // Each request passes the crossing once; 128 columns lie between two.
  logic rx_realign, may_ask;
  crosslane_async_fifo #(
      .WIDTH(1),
      .DEPTH(4)
  ) requests (
      .s_clk  (clk),
      .s_rst  (rst),
      .s_valid(realign),
      .s_ready(may_ask),
      .s_data (1'b0),
      .m_clk  (rx_clk),
      .m_rst  (rx_rst),
      .m_valid(rx_realign),
      .m_ready(1'b1),
      .m_data ()
  );

  word_t rx_word, word;
  logic word_valid, may_put, turn;

  crosslane_link_deskew #(
      .LANES  (LANES),
      .SYMBOLS(SYMBOLS)
  ) deskew (
      .clk     (rx_clk),
      .rst     (rx_rst),
      .realign (rx_realign),
      .detected(rx_detected),
      .words   (rx_words),
      .present (rx_word.present),
      .columns (rx_word.columns),
      .turn    (rx_word.turn)
  );

  crosslane_async_fifo #(
      .WIDTH($bits(word_t)),
      .DEPTH(16)
  ) crossing (
      .s_clk  (rx_clk),
      .s_rst  (rx_rst),
      .s_valid(1'b1),
      .s_ready(may_put),
      .s_data (rx_word),
      .m_clk  (clk),
      .m_rst  (rst),
      .m_valid(word_valid),
      .m_ready(1'b1),
      .m_data (word)
  );

  always_ff @(posedge clk) begin
    if (realign && may_ask) turn <= !turn;
    if (rst) turn <= 1'b0;
  end

  logic [SYMBOLS-1:0] word_present;
  logic present_any;
  assign word_present = (word.turn == turn) ? word.present : '0;

  crosslane_link_elastic #(
      .LANES  (LANES),
      .SYMBOLS(SYMBOLS)
  ) elastic (
      .word_columns(word.columns),
      .present     (present_any),
      .*
  );

  // Columns put before a request are not shown behind it, either: the buffer is short of 128 columns.
  logic [4:0] old;
  always_ff @(posedge clk) begin
    if (realign) old <= '1;
    else if (old != '0) old <= old - 1'b1;
    if (rst) old <= '0;
  end
  assign present = present_any && old == '0;

  logic unused;
  assign unused = &{1'b0, may_put};
endmodule
