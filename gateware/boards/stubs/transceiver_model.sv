// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Transceivers by what their cores show of them, for crosslane_gty.sv, crosslane_gtx.sv and
// crosslane_gth.sv: order of resets, clocks that stop or run wild in them, words of 20 bits. A
// receiver locks to a signal in its time, and has noise before, or zeros in odd lanes. A buffer
// whose lane was long without a lock has slipped: it repeats a word now and then, until the
// receivers are reset.

module transceiver_model #(
    parameter int unsigned LANES = 4
) (
    input  logic                   free_clk,
    input  logic                   double_clk,   // twice the clock of words
    input  logic                   reset_all,
    input  logic                   reset_tx,
    input  logic                   reset_rx,
    input  logic                   tx_active,    // `tx_usrclk` runs
    input  logic                   rx_active,
    output logic                   tx_pma_done,
    output logic                   rx_pma_done,
    output logic                   cdr_stable,
    output logic                   tx_done,
    output logic                   rx_done,
    output logic                   tx_outclk,    // twice the clock of words
    input  logic                   tx_usrclk,
    input  logic [LANES-1:0]       tx_idle,
    input  logic [LANES-1:0][19:0] tx_words,
    output logic                   rx_outclk,
    input  logic                   rx_usrclk,
    output logic [LANES-1:0][19:0] rx_words
);
  // Read and written from above.
  /* verilator lint_off UNDRIVEN */
  /* verilator lint_off UNUSEDSIGNAL */
  // Of the bench: what comes on each line, in which clock, and whether it is a signal.
  logic [LANES-1:0][19:0] line_rx_words;
  logic line_rx_clk;
  logic [LANES-1:0] line_has_signal;
  // For the bench: what goes out on each line.
  logic line_tx_clk;
  logic [LANES-1:0][19:0] line_tx_words;
  logic [LANES-1:0] line_is_driven;
  /* verilator lint_on UNUSEDSIGNAL */
  /* verilator lint_on UNDRIVEN */

  // --- Resets --------------------------------------------------------------------------------
  // Clocks of `free_clk`, each behind the one before.
  localparam logic [9:0] PLL_LOCK = 10'd100;
  localparam logic [9:0] PMA = 10'd20;
  localparam logic [9:0] REST = 10'd60;
  localparam logic [9:0] CDR_LOCK = 10'd40;
  localparam logic [9:0] CDR_PATIENCE = 10'd400;
  logic [9:0] pll_time, tx_time, rx_time;
  logic [LANES-1:0][9:0] cdr_time;
  localparam logic [9:0] SLIP = 10'd300;
  logic [LANES-1:0][9:0] lost_time;
  logic [LANES-1:0] is_locked, has_slipped;
  logic pll_locked;
  assign pll_locked = pll_time == PLL_LOCK;
  assign tx_pma_done = tx_time >= PMA;
  assign rx_pma_done = rx_time >= PMA;
  assign tx_done = tx_time == REST;
  assign rx_done = rx_time == CDR_PATIENCE;
  assign cdr_stable = rx_time > REST;
  always_ff @(posedge free_clk) begin
    if (!pll_locked) pll_time <= pll_time + 1'b1;
    if (tx_time < PMA || (tx_time < REST && tx_active)) tx_time <= tx_time + 1'b1;
    if (rx_time < PMA || (rx_time < CDR_PATIENCE && rx_active)) rx_time <= rx_time + 1'b1;
    // The end waits for the locks, but not for ever.
    if (rx_time >= REST && is_locked == '1) rx_time <= CDR_PATIENCE;
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      if (!rx_pma_done || !line_has_signal[lane]) cdr_time[lane] <= '0;
      else if (cdr_time[lane] != CDR_LOCK) cdr_time[lane] <= cdr_time[lane] + 1'b1;
      is_locked[lane] <= cdr_time[lane] == CDR_LOCK;
      if (!rx_done || is_locked[lane]) lost_time[lane] <= '0;
      else if (lost_time[lane] != SLIP) lost_time[lane] <= lost_time[lane] + 1'b1;
      if (lost_time[lane] == SLIP) has_slipped[lane] <= 1'b1;
      if (!rx_pma_done) has_slipped[lane] <= 1'b0;
    end
    if (reset_tx || !pll_locked) tx_time <= '0;
    if (reset_rx || !pll_locked) rx_time <= '0;
    if (reset_all) pll_time <= '0;
  end

  // --- Clocks --------------------------------------------------------------------------------
  // A reset of the receiver makes its clock run wild.
  assign tx_outclk = double_clk && tx_pma_done;
  assign rx_outclk = rx_pma_done ? line_rx_clk : free_clk;
  always_ff @(negedge double_clk) line_tx_clk <= !line_tx_clk;

  // --- Words ---------------------------------------------------------------------------------
  function automatic logic [63:0] next(logic [63:0] x);
    logic [63:0] y;
    y = x ^ (x << 13);
    y = y ^ (y >> 7);
    return y ^ (y << 17);
  endfunction
  logic [63:0] noise;
  logic [4:0] counted;
  // The sender's buffer begins half full, and bears no other rate than that of the line.
  logic [7:0][LANES-1:0][19:0] buffered;
  logic [2:0] put_at, take_at;
  always_ff @(posedge tx_usrclk) begin
    put_at <= put_at + 1'b1;
    buffered[put_at] <= tx_words;
  end
  always_ff @(posedge line_tx_clk) begin
    line_tx_words <= buffered[take_at];
    take_at <= tx_done ? take_at + 1'b1 : put_at + 3'd4;
  end
  assign line_is_driven = tx_done ? ~tx_idle : '0;
  always_ff @(posedge rx_usrclk) begin
    noise   <= (noise == '0) ? 64'h9e37_79b9_7f4a_7c15 : next(noise);
    counted <= counted + 1'b1;
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      if (!rx_done || !is_locked[lane])
        rx_words[lane] <= lane % 2 == 1 ? '0 : 20'(noise >> (11 * lane));
      else if (!has_slipped[lane] || counted != '0) rx_words[lane] <= line_rx_words[lane];
    end
  end
endmodule
