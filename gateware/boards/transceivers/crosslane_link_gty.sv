// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The lanes of a torus link on a quad of GTY, UltraScale+: four lines of 2.5 Gb/s, by the vendor's
// core `crosslane_gty` (ip/gtwizard_ultrascale.tcl). Read first: README.md beside this file.

module crosslane_link_gty #(
    parameter int unsigned SETTLE = 8192,  // these two as in crosslane_gt_reset
    parameter int unsigned PATIENCE = 1 << 25,
    localparam int unsigned LANES = 4,
    localparam int unsigned WORD_BITS = 20
) (
    input  logic                            free_clk,     // 100 MHz, runs always
    input  logic                            rst,          // in no clock: of all of it
    input  logic                            refclk,       // of IBUFDS_GTE4
    input  logic [LANES-1:0]                line_rx_p,
    input  logic [LANES-1:0]                line_rx_n,
    output logic [LANES-1:0]                line_tx_p,
    output logic [LANES-1:0]                line_tx_n,
    // Of the port, as in crosslane_gt_lanes.
    output logic                            clk,          // 250 MHz
    output logic                            port_rst,
    input  logic                            tx_enable,
    input  logic [LANES-1:0][WORD_BITS-1:0] tx_words,
    output logic                            rx_clk,
    output logic                            rx_rst,
    output logic [LANES-1:0]                rx_detected,
    output logic [LANES-1:0][WORD_BITS-1:0] rx_words,
    input  logic                            link_up,
    output logic                            tx_ready,
    output logic                            rx_ready
);
  logic reset_all, reset_rx, tx_done, rx_done, rx_runs, tx_user_idle;
  logic tx_usrclk, rx_usrclk, tx_clocked, rx_clocked;
  logic [LANES-1:0] power_good, tx_outclk, rx_outclk, tx_pma_done, tx_divider_done, rx_pma_done;
  logic [LANES-1:0][WORD_BITS-1:0] tx_user_words, rx_user_words;
  assign tx_clocked = &tx_pma_done && &tx_divider_done;
  assign rx_clocked = &rx_pma_done;

  crosslane_gt_lanes #(
      .LANES(LANES),
      .SETTLE(SETTLE),
      .PATIENCE(PATIENCE)
  ) lanes (
      .powered(&power_good),
      .*
  );

  crosslane_gty transceivers (
      .gtwiz_userclk_tx_active_in(tx_clocked),
      .gtwiz_userclk_rx_active_in(rx_clocked),
      .gtwiz_reset_clk_freerun_in(free_clk),
      .gtwiz_reset_all_in(reset_all),
      .gtwiz_reset_tx_pll_and_datapath_in(1'b0),
      .gtwiz_reset_tx_datapath_in(1'b0),
      .gtwiz_reset_rx_pll_and_datapath_in(1'b0),
      .gtwiz_reset_rx_datapath_in(reset_rx),
      .gtwiz_reset_rx_cdr_stable_out(),
      .gtwiz_reset_tx_done_out(tx_done),
      .gtwiz_reset_rx_done_out(rx_done),
      .gtwiz_userdata_tx_in(tx_user_words),
      .gtwiz_userdata_rx_out(rx_user_words),
      .gtrefclk00_in(refclk),
      .qpll0outclk_out(),
      .qpll0outrefclk_out(),
      .gtyrxn_in(line_rx_n),
      .gtyrxp_in(line_rx_p),
      .rxusrclk_in({LANES{rx_usrclk}}),
      .rxusrclk2_in({LANES{rx_usrclk}}),
      .txelecidle_in({LANES{tx_user_idle}}),
      .txusrclk_in({LANES{tx_usrclk}}),
      .txusrclk2_in({LANES{tx_usrclk}}),
      .gtpowergood_out(power_good),
      .gtytxn_out(line_tx_n),
      .gtytxp_out(line_tx_p),
      .rxoutclk_out(rx_outclk),
      .rxpmaresetdone_out(rx_pma_done),
      .txoutclk_out(tx_outclk),
      .txpmaresetdone_out(tx_pma_done),
      .txprgdivresetdone_out(tx_divider_done)
  );

  // --- Clocks --------------------------------------------------------------------------------
  // The programmable divider gives a tenth of the rate: the port has that, the senders half of it.
  BUFG_GT port_clock (
      .CE(1'b1),
      .CEMASK(1'b0),
      .CLR(!tx_clocked),
      .CLRMASK(1'b0),
      .DIV(3'd0),
      .I(tx_outclk[0]),
      .O(clk)
  );
  BUFG_GT tx_clock (
      .CE(1'b1),
      .CEMASK(1'b0),
      .CLR(!tx_clocked),
      .CLRMASK(1'b0),
      .DIV(3'd1),
      .I(tx_outclk[0]),
      .O(tx_usrclk)
  );
  // All receivers take the clock that lane 0 has recovered, and their buffers the phase.
  BUFG_GT rx_clock (
      .CE(1'b1),
      .CEMASK(1'b0),
      .CLR(!rx_clocked),
      .CLRMASK(1'b0),
      .DIV(3'd0),
      .I(rx_outclk[0]),
      .O(rx_usrclk)
  );
  BUFG_GT rx_port_clock (
      .CE(rx_runs),
      .CEMASK(1'b0),
      .CLR(1'b0),
      .CLRMASK(1'b0),
      .DIV(3'd0),
      .I(rx_outclk[0]),
      .O(rx_clk)
  );

  logic unused;
  assign unused = &{1'b0, tx_outclk, rx_outclk};
endmodule
