// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A torus link of one lane on a GTX or GTH, 7-series: a line of ten times the reference, by the
// vendor's core `crosslane_gtx` or `crosslane_gth` (ip/gtwizard.tcl). Read first: README.md beside
// this file.

module crosslane_link_gtx #(
    parameter bit IS_GTH = 1'b0,
    parameter int unsigned SETTLE = 8192,  // these two as in crosslane_gt_reset
    parameter int unsigned PATIENCE = 1 << 25,
    // Of the reference: its period, and the times that the MMCM's oscillator runs faster, 600 to
    // 1,200 MHz.
    parameter real REFCLK_NS = 8.0,
    parameter int unsigned TIMES = 8,
    localparam int unsigned LANES = 1,
    localparam int unsigned WORD_BITS = 20
) (
    input  logic                            free_clk,     // 100 MHz, runs always
    input  logic                            rst,          // in no clock: of all of it
    input  logic                            refclk,       // of IBUFDS_GTE2
    // In no clock: the reference does not run yet, or is being set.
    input  logic                            no_refclk,
    input  logic [LANES-1:0]                line_rx_p,
    input  logic [LANES-1:0]                line_rx_n,
    output logic [LANES-1:0]                line_tx_p,
    output logic [LANES-1:0]                line_tx_n,
    // Of the port, as in crosslane_gt_lanes.
    output logic                            clk,          // that of the reference
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
  logic tx_usrclk, rx_usrclk, rx_outclk, has_clocks;
  logic [LANES-1:0][WORD_BITS-1:0] tx_user_words, rx_user_words;

  crosslane_gt_lanes #(
      .LANES(LANES),
      .SETTLE(SETTLE),
      .PATIENCE(PATIENCE)
  ) lanes (
      .powered(has_clocks),
      .*
  );

  // The order of resets is ours: the core does not look at the data.
  if (IS_GTH) begin : g_core
    crosslane_gth transceivers (
        .sysclk_in(free_clk),
        .soft_reset_tx_in(reset_all),
        .soft_reset_rx_in(reset_all || reset_rx),
        .dont_reset_on_data_error_in(1'b1),
        .gt0_data_valid_in(1'b1),
        .gt0_tx_fsm_reset_done_out(tx_done),
        .gt0_rx_fsm_reset_done_out(rx_done),
        .gt0_cpllfbclklost_out(),
        .gt0_cplllock_out(),
        .gt0_cplllockdetclk_in(free_clk),
        .gt0_cpllreset_in(1'b0),
        .gt0_gtrefclk0_in(refclk),
        .gt0_gtrefclk1_in(1'b0),
        .gt0_drpaddr_in('0),
        .gt0_drpclk_in(free_clk),
        .gt0_drpdi_in('0),
        .gt0_drpdo_out(),
        .gt0_drpen_in(1'b0),
        .gt0_drprdy_out(),
        .gt0_drpwe_in(1'b0),
        .gt0_dmonitorout_out(),
        .gt0_eyescanreset_in(1'b0),
        .gt0_rxuserrdy_in(1'b1),
        .gt0_eyescandataerror_out(),
        .gt0_eyescantrigger_in(1'b0),
        .gt0_rxusrclk_in(rx_usrclk),
        .gt0_rxusrclk2_in(rx_usrclk),
        .gt0_rxdata_out(rx_user_words),
        .gt0_gthrxp_in(line_rx_p[0]),
        .gt0_gthrxn_in(line_rx_n[0]),
        .gt0_rxmonitorout_out(),
        .gt0_rxmonitorsel_in('0),
        .gt0_rxoutclk_out(rx_outclk),
        .gt0_rxoutclkfabric_out(),
        .gt0_gtrxreset_in(1'b0),
        .gt0_rxresetdone_out(),
        .gt0_gttxreset_in(1'b0),
        .gt0_txuserrdy_in(1'b1),
        .gt0_txusrclk_in(tx_usrclk),
        .gt0_txusrclk2_in(tx_usrclk),
        .gt0_txelecidle_in(tx_user_idle),
        .gt0_txdata_in(tx_user_words),
        .gt0_gthtxn_out(line_tx_n[0]),
        .gt0_gthtxp_out(line_tx_p[0]),
        .gt0_txoutclk_out(),
        .gt0_txoutclkfabric_out(),
        .gt0_txoutclkpcs_out(),
        .gt0_txresetdone_out(),
        .gt0_qplloutclk_in(1'b0),
        .gt0_qplloutrefclk_in(1'b0)
    );
  end else begin : g_core
    crosslane_gtx transceivers (
        .sysclk_in(free_clk),
        .soft_reset_tx_in(reset_all),
        .soft_reset_rx_in(reset_all || reset_rx),
        .dont_reset_on_data_error_in(1'b1),
        .gt0_data_valid_in(1'b1),
        .gt0_tx_fsm_reset_done_out(tx_done),
        .gt0_rx_fsm_reset_done_out(rx_done),
        .gt0_cpllfbclklost_out(),
        .gt0_cplllock_out(),
        .gt0_cplllockdetclk_in(free_clk),
        .gt0_cpllreset_in(1'b0),
        .gt0_gtrefclk0_in(refclk),
        .gt0_gtrefclk1_in(1'b0),
        .gt0_drpaddr_in('0),
        .gt0_drpclk_in(free_clk),
        .gt0_drpdi_in('0),
        .gt0_drpdo_out(),
        .gt0_drpen_in(1'b0),
        .gt0_drprdy_out(),
        .gt0_drpwe_in(1'b0),
        .gt0_dmonitorout_out(),
        .gt0_eyescanreset_in(1'b0),
        .gt0_rxuserrdy_in(1'b1),
        .gt0_eyescandataerror_out(),
        .gt0_eyescantrigger_in(1'b0),
        .gt0_rxusrclk_in(rx_usrclk),
        .gt0_rxusrclk2_in(rx_usrclk),
        .gt0_rxdata_out(rx_user_words),
        .gt0_gtxrxp_in(line_rx_p[0]),
        .gt0_gtxrxn_in(line_rx_n[0]),
        .gt0_rxdfelpmreset_in(1'b0),
        .gt0_rxmonitorout_out(),
        .gt0_rxmonitorsel_in('0),
        .gt0_rxoutclk_out(rx_outclk),
        .gt0_rxoutclkfabric_out(),
        .gt0_gtrxreset_in(1'b0),
        .gt0_rxpmareset_in(1'b0),
        .gt0_rxresetdone_out(),
        .gt0_gttxreset_in(1'b0),
        .gt0_txuserrdy_in(1'b1),
        .gt0_txusrclk_in(tx_usrclk),
        .gt0_txusrclk2_in(tx_usrclk),
        .gt0_txelecidle_in(tx_user_idle),
        .gt0_txdata_in(tx_user_words),
        .gt0_gtxtxn_out(line_tx_n[0]),
        .gt0_gtxtxp_out(line_tx_p[0]),
        .gt0_txoutclk_out(),
        .gt0_txoutclkfabric_out(),
        .gt0_txoutclkpcs_out(),
        .gt0_txresetdone_out(),
        .gt0_qplloutclk_in(1'b0),
        .gt0_qplloutrefclk_in(1'b0)
    );
  end

  // --- Clocks --------------------------------------------------------------------------------
  // The port has the reference, the sender half of it; both do not know of the sender's resets.
  logic reference, feedback, full, half;
  BUFG reference_clock (
      .I(refclk),
      .O(reference)
  );
  MMCME2_BASE #(
      .CLKIN1_PERIOD(REFCLK_NS),
      .CLKFBOUT_MULT_F(TIMES),
      .CLKOUT0_DIVIDE_F(TIMES),
      .CLKOUT1_DIVIDE(2 * TIMES)
  ) clocks (
      .CLKIN1(reference),
      .CLKFBIN(feedback),
      .RST(no_refclk),
      .PWRDWN(1'b0),
      .CLKFBOUT(feedback),
      .CLKOUT0(full),
      .CLKOUT1(half),
      .LOCKED(has_clocks)
  );
  BUFG port_clock (
      .I(full),
      .O(clk)
  );
  BUFG tx_clock (
      .I(half),
      .O(tx_usrclk)
  );
  BUFG rx_clock (
      .I(rx_outclk),
      .O(rx_usrclk)
  );
  BUFGCE rx_port_clock (
      .CE(rx_runs),
      .I (rx_outclk),
      .O (rx_clk)
  );
endmodule
