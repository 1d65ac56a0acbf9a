// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A cable between two ports of links, with words of `SYMBOLS` symbols: bits come 20 later. Each end
// has the other's clock, and a reset with its port's.

module link_cable #(
    parameter int unsigned LANES   = 8,
    parameter int unsigned SYMBOLS = 2
) (
    input  logic                                  clk,
    input  logic                                  rst,
    input  logic [1:0]                            tx_enable,
    input  logic [1:0]                            tx_begins_word,
    input  logic [1:0][LANES-1:0][10*SYMBOLS-1:0] tx_words,
    output logic [1:0]                            rx_clk,
    output logic [1:0]                            rx_rst,
    output logic [1:0][LANES-1:0]                 rx_detected,
    output logic [1:0][LANES-1:0][10*SYMBOLS-1:0] rx_words
);
  for (genvar link = 0; link < 2; link++) begin : g_cable
    for (genvar lane = 0; lane < LANES; lane++) begin : g_line
      link_line #(
          .SYMBOLS(SYMBOLS),
          .SEED(2 * lane + link)
      ) lane_line (
          .clk,
          .rst,
          .begins(tx_begins_word[link]),
          .is_sent(tx_enable[link]),
          .word(tx_words[link][lane]),
          .delay(8'd20),
          .error_odds('0),
          .is_cut(1'b0),
          .is_noisy(1'b0),
          .detected(rx_detected[1-link][lane]),
          .received(rx_words[1-link][lane])
      );
    end
    logic phase;
    always_ff @(posedge clk) phase <= tx_begins_word[link] ? '0 : phase + 1'b1;
    assign rx_clk[1-link] = phase;

    crosslane_reset_pair resets (
        .a_clk  (clk),
        .a_rst  (rst),
        .a_rst_o(),
        .b_clk  (rx_clk[link]),
        .b_rst  (1'b0),
        .b_rst_o(rx_rst[link])
    );
  end
endmodule
