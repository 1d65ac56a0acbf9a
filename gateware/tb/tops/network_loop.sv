// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_network_card.py: a card with two links, which a cable joins.

module network_loop
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS         = 256,
    parameter int unsigned PUT_SLOTS         = 4,
    parameter int unsigned CREDIT_SLOTS      = 16,
    parameter int unsigned GET_SLOTS         = 16,
    parameter int unsigned MAX_READ          = 256,
    parameter int unsigned MAX_WRITE         = 128,
    parameter int unsigned LANES             = 8,
    parameter int unsigned CHANNEL_DATAGRAMS = 8,
    parameter bit          LONG              = 1'b0
) (
    input  logic                        clk,
    input  logic                        rst,
    input  function_t                   function_i,
    input  room_t                       room_i,
    input  logic                        rx_valid,
    output logic                        rx_ready,
    input  tlp_header_t                 rx_header,
    input  logic                        rx_first,
    input  logic                        rx_last,
    input  logic        [DATA_BITS-1:0] rx_data,
    output logic                        tx_valid,
    input  logic                        tx_ready,
    output tlp_header_t                 tx_header,
    output logic                        tx_first,
    output logic                        tx_last,
    output logic        [DATA_BITS-1:0] tx_data
);
  localparam int unsigned SYMBOLS = 2;
  logic [1:0] tx_enable, tx_begins_word, rx_clk, rx_rst;
  logic [1:0][LANES-1:0][10*SYMBOLS-1:0] tx_words, rx_words;
  logic [1:0][LANES-1:0] rx_detected;

  link_cable #(
      .LANES  (LANES),
      .SYMBOLS(SYMBOLS)
  ) cable (
      .*
  );

  crosslane_network_card #(
      .DATA_BITS(DATA_BITS),
      .LINKS(2),
      .PUT_SLOTS(PUT_SLOTS),
      .CREDIT_SLOTS(CREDIT_SLOTS),
      .GET_SLOTS(GET_SLOTS),
      .TAGS(16),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(1024),
      .MAX_WRITE(MAX_WRITE),
      .LANES(LANES),
      .SYMBOLS(SYMBOLS),
      .ACKNOWLEDGE_WITHIN(LONG ? 396 : 204),
      .RETRY_TIMEOUT(LONG ? 1590 : 918),
      .REFRESH(LONG ? 2910 : 1598),
      .LONG(LONG),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS)
  ) card (
      .clk,
      .rst,
      .function_i,
      .room_i,
      .first_session(16'd1),
      .busy_o(),
      .settled_o(),
      .s_rx_valid(rx_valid),
      .s_rx_ready(rx_ready),
      .s_rx_header(rx_header),
      .s_rx_first(rx_first),
      .s_rx_last(rx_last),
      .s_rx_data(rx_data),
      .s_rx_aborted(1'b0),
      .m_tx_valid(tx_valid),
      .m_tx_ready(tx_ready),
      .m_tx_header(tx_header),
      .m_tx_first(tx_first),
      .m_tx_last(tx_last),
      .m_tx_data(tx_data),
      .tx_enable,
      .tx_begins_word,
      .tx_words,
      .rx_clk,
      .rx_rst,
      .rx_detected,
      .rx_words
  );
endmodule
