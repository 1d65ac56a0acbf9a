// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The core that ip/gtwizard_ultrascale.tcl makes, a quad of GTY with raw words of 20 bits, for the
// linter and for simulation: a model by its ports (boards/transceivers/README.md).

module crosslane_gty (
    input  logic        gtwiz_userclk_tx_active_in,
    input  logic        gtwiz_userclk_rx_active_in,
    input  logic        gtwiz_reset_clk_freerun_in,
    input  logic        gtwiz_reset_all_in,
    input  logic        gtwiz_reset_tx_pll_and_datapath_in,
    input  logic        gtwiz_reset_tx_datapath_in,
    input  logic        gtwiz_reset_rx_pll_and_datapath_in,
    input  logic        gtwiz_reset_rx_datapath_in,
    output logic        gtwiz_reset_rx_cdr_stable_out,
    output logic        gtwiz_reset_tx_done_out,
    output logic        gtwiz_reset_rx_done_out,
    input  logic [79:0] gtwiz_userdata_tx_in,
    output logic [79:0] gtwiz_userdata_rx_out,
    input  logic        gtrefclk00_in,
    output logic        qpll0outclk_out,
    output logic        qpll0outrefclk_out,
    input  logic [ 3:0] gtyrxn_in,
    input  logic [ 3:0] gtyrxp_in,
    input  logic [ 3:0] rxusrclk_in,
    input  logic [ 3:0] rxusrclk2_in,
    input  logic [ 3:0] txelecidle_in,
    input  logic [ 3:0] txusrclk_in,
    input  logic [ 3:0] txusrclk2_in,
    output logic [ 3:0] gtpowergood_out,
    output logic [ 3:0] gtytxn_out,
    output logic [ 3:0] gtytxp_out,
    output logic [ 3:0] rxoutclk_out,
    output logic [ 3:0] rxpmaresetdone_out,
    output logic [ 3:0] txoutclk_out,
    output logic [ 3:0] txpmaresetdone_out,
    output logic [ 3:0] txprgdivresetdone_out
);
  // The programmable divider gives twice the clock of words: the bench has the reference run so.
  logic all_reset;
  assign all_reset = gtwiz_reset_all_in || gtwiz_reset_tx_pll_and_datapath_in
                     || gtwiz_reset_rx_pll_and_datapath_in;
  logic tx_pma_done, rx_pma_done, tx_outclk, rx_outclk, cdr_stable;
  assign gtpowergood_out = '1;
  assign rxpmaresetdone_out = {4{rx_pma_done}};
  assign txpmaresetdone_out = {4{tx_pma_done}};
  assign txprgdivresetdone_out = {4{tx_pma_done}};
  assign txoutclk_out = {4{tx_outclk}};
  assign rxoutclk_out = {4{rx_outclk}};
  assign gtwiz_reset_rx_cdr_stable_out = cdr_stable;

  transceiver_model #(
      .LANES(4)
  ) model (
      .free_clk(gtwiz_reset_clk_freerun_in),
      .double_clk(gtrefclk00_in),
      .reset_all(all_reset),
      .reset_tx(gtwiz_reset_tx_datapath_in),
      .reset_rx(gtwiz_reset_rx_datapath_in),
      .tx_active(gtwiz_userclk_tx_active_in),
      .rx_active(gtwiz_userclk_rx_active_in),
      .tx_pma_done,
      .rx_pma_done,
      .cdr_stable,
      .tx_done(gtwiz_reset_tx_done_out),
      .rx_done(gtwiz_reset_rx_done_out),
      .tx_outclk,
      .tx_usrclk(txusrclk2_in[0]),
      .tx_idle(txelecidle_in),
      .tx_words(gtwiz_userdata_tx_in),
      .rx_outclk,
      .rx_usrclk(rxusrclk2_in[0]),
      .rx_words(gtwiz_userdata_rx_out)
  );

  // Lines are those of the model.
  assign {gtytxp_out, gtytxn_out} = '0;
  assign {qpll0outclk_out, qpll0outrefclk_out} = '0;
  logic unused;
  assign unused = &{
    1'b0, gtyrxn_in, gtyrxp_in, rxusrclk_in, txusrclk_in, rxusrclk2_in, txusrclk2_in
  };
endmodule
