// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Between a port of the torus link and the user side of a vendor's transceivers, for lanes with a
// line each: words, clocks, resets, signals. Read first: README.md beside this file. A transceiver
// takes and gives a word of 20 bits in each of its clocks, neither coded nor aligned, bit 0 first,
// as the port does; so what is between them are registers.
//
// `clk` has twice the rate of `tx_usrclk`, from the same source, so the tool times the paths
// between them. A word stays for two clocks of `clk`, and each edge of `tx_usrclk` takes one.
// `rx_clk` is `rx_usrclk` behind a buffer that `rx_runs` enables.

module crosslane_gt_lanes #(
    parameter int unsigned LANES = 4,
    parameter int unsigned SETTLE = 8192,  // these two as in crosslane_gt_reset
    parameter int unsigned PATIENCE = 1 << 25,
    localparam int unsigned WORD_BITS = 20
) (
    input  logic                            free_clk,       // runs always
    input  logic                            rst,            // in no clock: of all of it
    // Of the core: levels in no clock, and words.
    input  logic                            powered,
    input  logic                            tx_done,
    input  logic                            rx_done,
    output logic                            reset_all,
    output logic                            reset_rx,
    input  logic                            tx_usrclk,
    output logic                            tx_user_idle,
    output logic [LANES-1:0][WORD_BITS-1:0] tx_user_words,
    input  logic                            rx_usrclk,
    output logic                            rx_runs,
    input  logic [LANES-1:0][WORD_BITS-1:0] rx_user_words,
    // Of the port, as in crosslane_link_port. `port_rst` stays until words go out.
    input  logic                            clk,
    output logic                            port_rst,
    input  logic                            tx_enable,
    input  logic [LANES-1:0][WORD_BITS-1:0] tx_words,
    input  logic                            rx_clk,
    output logic                            rx_rst,
    output logic [LANES-1:0]                rx_detected,
    output logic [LANES-1:0][WORD_BITS-1:0] rx_words,
    input  logic                            link_up,
    // In `free_clk`, for lights.
    output logic                            tx_ready,
    output logic                            rx_ready
);
  // --- Resets --------------------------------------------------------------------------------
  logic is_up, free_rx_runs, has_tx, has_rx;
  logic [LANES-1:0] is_coded;
  always_ff @(posedge clk) is_up <= link_up;

  crosslane_gt_reset #(
      .LANES(LANES),
      .SETTLE(SETTLE),
      .PATIENCE(PATIENCE)
  ) order (
      .clk(free_clk),
      .link_up(is_up),
      .rx_runs(free_rx_runs),
      .*
  );
  crosslane_synchronizer tx_seen (
      .clk,
      .rst(1'b0),
      .s  (tx_ready),
      .m  (has_tx)
  );
  crosslane_synchronizer rx_seen (
      .clk(rx_clk),
      .rst(1'b0),
      .s  (rx_ready),
      .m  (has_rx)
  );
  crosslane_synchronizer runs_seen (
      .clk(rx_usrclk),
      .rst(1'b0),
      .s  (free_rx_runs),
      .m  (rx_runs)
  );
  crosslane_reset_pair resets (
      .a_clk  (clk),
      .a_rst  (!has_tx),
      .a_rst_o(port_rst),
      .b_clk  (rx_clk),
      .b_rst  (1'b0),
      .b_rst_o(rx_rst)
  );

  // --- Words ---------------------------------------------------------------------------------
  always_ff @(posedge tx_usrclk) begin
    tx_user_words <= tx_words;
    tx_user_idle  <= !tx_enable;
  end

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    crosslane_gt_signal #(
        .WORD_BITS(WORD_BITS)
    ) has_signal (
        .clk(rx_usrclk),
        .word(rx_user_words[lane]),
        .is_coded(is_coded[lane])
    );
  end

  always_ff @(posedge rx_clk) begin
    rx_words <= rx_user_words;
    rx_detected <= is_coded & {LANES{has_rx}};
  end
endmodule
