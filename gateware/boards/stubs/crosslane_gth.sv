// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The core that ip/gtwizard.tcl makes, a GTH with raw words of 20 bits, for the linter and for
// simulation: a model by its ports (boards/transceivers/README.md).

module crosslane_gth (
    input  logic        sysclk_in,
    input  logic        soft_reset_tx_in,
    input  logic        soft_reset_rx_in,
    input  logic        dont_reset_on_data_error_in,
    input  logic        gt0_data_valid_in,
    output logic        gt0_tx_fsm_reset_done_out,
    output logic        gt0_rx_fsm_reset_done_out,
    output logic        gt0_cpllfbclklost_out,
    output logic        gt0_cplllock_out,
    input  logic        gt0_cplllockdetclk_in,
    input  logic        gt0_cpllreset_in,
    input  logic        gt0_gtrefclk0_in,
    input  logic        gt0_gtrefclk1_in,
    input  logic [ 8:0] gt0_drpaddr_in,
    input  logic        gt0_drpclk_in,
    input  logic [15:0] gt0_drpdi_in,
    output logic [15:0] gt0_drpdo_out,
    input  logic        gt0_drpen_in,
    output logic        gt0_drprdy_out,
    input  logic        gt0_drpwe_in,
    output logic [14:0] gt0_dmonitorout_out,
    input  logic        gt0_eyescanreset_in,
    input  logic        gt0_rxuserrdy_in,
    output logic        gt0_eyescandataerror_out,
    input  logic        gt0_eyescantrigger_in,
    input  logic        gt0_rxusrclk_in,
    input  logic        gt0_rxusrclk2_in,
    output logic [19:0] gt0_rxdata_out,
    input  logic        gt0_gthrxp_in,
    input  logic        gt0_gthrxn_in,
    output logic [ 6:0] gt0_rxmonitorout_out,
    input  logic [ 1:0] gt0_rxmonitorsel_in,
    output logic        gt0_rxoutclk_out,
    output logic        gt0_rxoutclkfabric_out,
    input  logic        gt0_gtrxreset_in,
    output logic        gt0_rxresetdone_out,
    input  logic        gt0_gttxreset_in,
    input  logic        gt0_txuserrdy_in,
    input  logic        gt0_txusrclk_in,
    input  logic        gt0_txusrclk2_in,
    input  logic        gt0_txelecidle_in,
    input  logic [19:0] gt0_txdata_in,
    output logic        gt0_gthtxn_out,
    output logic        gt0_gthtxp_out,
    output logic        gt0_txoutclk_out,
    output logic        gt0_txoutclkfabric_out,
    output logic        gt0_txoutclkpcs_out,
    output logic        gt0_txresetdone_out,
    input  logic        gt0_qplloutclk_in,
    input  logic        gt0_qplloutrefclk_in
);
  transceiver_model #(
      .LANES(1)
  ) model (
      .free_clk(sysclk_in),
      .double_clk(gt0_gtrefclk0_in),
      .reset_all(soft_reset_tx_in || gt0_cpllreset_in),
      .reset_tx(gt0_gttxreset_in),
      .reset_rx(soft_reset_rx_in || gt0_gtrxreset_in),
      .tx_active(gt0_txuserrdy_in),
      .rx_active(gt0_rxuserrdy_in),
      .tx_pma_done(gt0_txresetdone_out),
      .rx_pma_done(gt0_rxresetdone_out),
      .cdr_stable(),
      .tx_done(gt0_tx_fsm_reset_done_out),
      .rx_done(gt0_rx_fsm_reset_done_out),
      .tx_outclk(gt0_txoutclk_out),
      .tx_usrclk(gt0_txusrclk2_in),
      .tx_idle(gt0_txelecidle_in),
      .tx_words(gt0_txdata_in),
      .rx_outclk(gt0_rxoutclk_out),
      .rx_usrclk(gt0_rxusrclk2_in),
      .rx_words(gt0_rxdata_out)
  );

  // Lines are those of the model; what is else not used.
  assign {gt0_gthtxn_out, gt0_gthtxp_out, gt0_cpllfbclklost_out} = '0;
  assign gt0_cplllock_out = 1'b1;
  assign {gt0_drpdo_out, gt0_drprdy_out, gt0_dmonitorout_out, gt0_eyescandataerror_out} = '0;
  assign {gt0_rxmonitorout_out, gt0_rxoutclkfabric_out} = '0;
  assign {gt0_txoutclkfabric_out, gt0_txoutclkpcs_out} = '0;
  logic unused;
  assign unused = &{
    1'b0, dont_reset_on_data_error_in, gt0_data_valid_in, gt0_cplllockdetclk_in, gt0_gtrefclk1_in,
    gt0_drpaddr_in, gt0_drpclk_in, gt0_drpdi_in, gt0_drpen_in, gt0_drpwe_in, gt0_eyescanreset_in,
    gt0_eyescantrigger_in, gt0_rxusrclk_in, gt0_gthrxp_in, gt0_gthrxn_in,
    gt0_rxmonitorsel_in, gt0_txusrclk_in, gt0_qplloutclk_in, gt0_qplloutrefclk_in
  };
endmodule
