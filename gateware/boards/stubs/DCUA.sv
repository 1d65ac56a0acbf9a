// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A DCU of an ECP5-5G by its ports, as far as crosslane_ecp5_dcu uses them, for the linter and for
// simulation: two channels of 20 bits without code or alignment. What a line carries is seen and
// set below by a bench: words, as many bits as a clock of `tx_pclk` has, in place of bits. Its
// parameters must be those of such words.

module DCUA #(
    parameter logic [63:0] D_MACROPDB = "DONTCARE",
    parameter logic [63:0] D_IB_PWDNB = "DONTCARE",
    parameter logic [63:0] D_TXPLL_PWDNB = "DONTCARE",
    parameter logic [63:0] D_REFCK_MODE = "DONTCARE",
    parameter logic [63:0] D_TX_MAX_RATE = "DONTCARE",
    parameter logic [2:0] D_TX_VCO_CK_DIV = 3'b000,
    parameter logic [63:0] D_BITCLK_LOCAL_EN = "DONTCARE",
    parameter logic [63:0] D_LOW_MARK = "DONTCARE",
    parameter logic [63:0] D_HIGH_MARK = "DONTCARE",
    parameter logic [63:0] D_CMUSETBIASI = "DONTCARE",
    parameter logic [63:0] D_CMUSETI4CPP = "DONTCARE",
    parameter logic [63:0] D_CMUSETI4CPZ = "DONTCARE",
    parameter logic [63:0] D_CMUSETI4VCO = "DONTCARE",
    parameter logic [63:0] D_CMUSETICP4P = "DONTCARE",
    parameter logic [63:0] D_CMUSETICP4Z = "DONTCARE",
    parameter logic [63:0] D_CMUSETINITVCT = "DONTCARE",
    parameter logic [63:0] D_CMUSETISCL4VCO = "DONTCARE",
    parameter logic [63:0] D_CMUSETP1GM = "DONTCARE",
    parameter logic [63:0] D_CMUSETP2AGM = "DONTCARE",
    parameter logic [63:0] D_CMUSETZGM = "DONTCARE",
    parameter logic [63:0] D_SETIRPOLY_AUX = "DONTCARE",
    parameter logic [63:0] D_SETICONST_AUX = "DONTCARE",
    parameter logic [63:0] D_SETIRPOLY_CH = "DONTCARE",
    parameter logic [63:0] D_SETICONST_CH = "DONTCARE",
    parameter logic [63:0] D_SETPLLRC = "DONTCARE",
    parameter logic [63:0] D_RG_EN = "DONTCARE",
    parameter logic [63:0] D_RG_SET = "DONTCARE",
    parameter logic [63:0] D_REQ_ISET = "DONTCARE",
    parameter logic [63:0] D_PD_ISET = "DONTCARE",
    parameter logic [63:0] CH0_PROTOCOL = "DONTCARE",
    parameter logic [63:0] CH0_UC_MODE = "DONTCARE",
    parameter logic [63:0] CH0_ENC_BYPASS = "DONTCARE",
    parameter logic [63:0] CH0_DEC_BYPASS = "DONTCARE",
    parameter logic [63:0] CH0_WA_BYPASS = "DONTCARE",
    parameter logic [63:0] CH0_LSM_DISABLE = "DONTCARE",
    parameter logic [63:0] CH0_ENABLE_CG_ALIGN = "DONTCARE",
    parameter logic [63:0] CH0_CTC_BYPASS = "DONTCARE",
    parameter logic [63:0] CH0_TX_GEAR_MODE = "DONTCARE",
    parameter logic [63:0] CH0_RX_GEAR_MODE = "DONTCARE",
    parameter logic [63:0] CH0_FF_TX_H_CLK_EN = "DONTCARE",
    parameter logic [63:0] CH0_FF_TX_F_CLK_DIS = "DONTCARE",
    parameter logic [63:0] CH0_FF_RX_H_CLK_EN = "DONTCARE",
    parameter logic [63:0] CH0_FF_RX_F_CLK_DIS = "DONTCARE",
    parameter logic [63:0] CH0_SEL_SD_RX_CLK = "DONTCARE",
    parameter logic [2:0] CH0_RX_DCO_CK_DIV = 3'b000,
    parameter logic [63:0] CH0_CDR_MAX_RATE = "DONTCARE",
    parameter logic [63:0] CH0_RPWDNB = "DONTCARE",
    parameter logic [63:0] CH0_TPWDNB = "DONTCARE",
    parameter logic [63:0] CH0_RTERM_RX = "DONTCARE",
    parameter logic [63:0] CH0_RTERM_TX = "DONTCARE",
    parameter logic [63:0] CH0_RXIN_CM = "DONTCARE",
    parameter logic [63:0] CH0_RXTERM_CM = "DONTCARE",
    parameter logic [63:0] CH0_REQ_EN = "DONTCARE",
    parameter logic [63:0] CH0_RX_RATE_SEL = "DONTCARE",
    parameter logic [63:0] CH0_TXAMPLITUDE = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE0_CUR = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE0_SEL = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE1_CUR = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE1_SEL = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE2_CUR = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE2_SEL = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE3_CUR = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE3_SEL = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE4_CUR = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE4_SEL = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE5_CUR = "DONTCARE",
    parameter logic [63:0] CH0_TDRV_SLICE5_SEL = "DONTCARE",
    parameter logic [63:0] CH0_RLOS_SEL = "DONTCARE",
    parameter logic [63:0] CH0_RX_LOS_EN = "DONTCARE",
    parameter logic [63:0] CH0_RX_LOS_LVL = "DONTCARE",
    parameter logic [63:0] CH0_RX_LOS_CEQ = "DONTCARE",
    parameter logic [63:0] CH0_PDEN_SEL = "DONTCARE",
    parameter logic [63:0] CH0_AUTO_FACQ_EN = "DONTCARE",
    parameter logic [63:0] CH0_AUTO_CALIB_EN = "DONTCARE",
    parameter logic [63:0] CH0_DCOATDCFG = "DONTCARE",
    parameter logic [63:0] CH0_DCOATDDLY = "DONTCARE",
    parameter logic [63:0] CH0_DCOBYPSATD = "DONTCARE",
    parameter logic [63:0] CH0_DCOCALDIV = "DONTCARE",
    parameter logic [63:0] CH0_DCOCTLGI = "DONTCARE",
    parameter logic [63:0] CH0_DCODISBDAVOID = "DONTCARE",
    parameter logic [63:0] CH0_DCOFLTDAC = "DONTCARE",
    parameter logic [63:0] CH0_DCOFTNRG = "DONTCARE",
    parameter logic [63:0] CH0_DCOIOSTUNE = "DONTCARE",
    parameter logic [63:0] CH0_DCOITUNE = "DONTCARE",
    parameter logic [63:0] CH0_DCOITUNE4LSB = "DONTCARE",
    parameter logic [63:0] CH0_DCOIUPDNX2 = "DONTCARE",
    parameter logic [63:0] CH0_DCONUOFLSB = "DONTCARE",
    parameter logic [63:0] CH0_DCOSCALEI = "DONTCARE",
    parameter logic [63:0] CH0_DCOSTARTVAL = "DONTCARE",
    parameter logic [63:0] CH0_DCOSTEP = "DONTCARE",
    parameter logic [63:0] CH1_PROTOCOL = "DONTCARE",
    parameter logic [63:0] CH1_UC_MODE = "DONTCARE",
    parameter logic [63:0] CH1_ENC_BYPASS = "DONTCARE",
    parameter logic [63:0] CH1_DEC_BYPASS = "DONTCARE",
    parameter logic [63:0] CH1_WA_BYPASS = "DONTCARE",
    parameter logic [63:0] CH1_LSM_DISABLE = "DONTCARE",
    parameter logic [63:0] CH1_ENABLE_CG_ALIGN = "DONTCARE",
    parameter logic [63:0] CH1_CTC_BYPASS = "DONTCARE",
    parameter logic [63:0] CH1_TX_GEAR_MODE = "DONTCARE",
    parameter logic [63:0] CH1_RX_GEAR_MODE = "DONTCARE",
    parameter logic [63:0] CH1_FF_TX_H_CLK_EN = "DONTCARE",
    parameter logic [63:0] CH1_FF_TX_F_CLK_DIS = "DONTCARE",
    parameter logic [63:0] CH1_FF_RX_H_CLK_EN = "DONTCARE",
    parameter logic [63:0] CH1_FF_RX_F_CLK_DIS = "DONTCARE",
    parameter logic [63:0] CH1_SEL_SD_RX_CLK = "DONTCARE",
    parameter logic [2:0] CH1_RX_DCO_CK_DIV = 3'b000,
    parameter logic [63:0] CH1_CDR_MAX_RATE = "DONTCARE",
    parameter logic [63:0] CH1_RPWDNB = "DONTCARE",
    parameter logic [63:0] CH1_TPWDNB = "DONTCARE",
    parameter logic [63:0] CH1_RTERM_RX = "DONTCARE",
    parameter logic [63:0] CH1_RTERM_TX = "DONTCARE",
    parameter logic [63:0] CH1_RXIN_CM = "DONTCARE",
    parameter logic [63:0] CH1_RXTERM_CM = "DONTCARE",
    parameter logic [63:0] CH1_REQ_EN = "DONTCARE",
    parameter logic [63:0] CH1_RX_RATE_SEL = "DONTCARE",
    parameter logic [63:0] CH1_TXAMPLITUDE = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE0_CUR = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE0_SEL = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE1_CUR = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE1_SEL = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE2_CUR = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE2_SEL = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE3_CUR = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE3_SEL = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE4_CUR = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE4_SEL = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE5_CUR = "DONTCARE",
    parameter logic [63:0] CH1_TDRV_SLICE5_SEL = "DONTCARE",
    parameter logic [63:0] CH1_RLOS_SEL = "DONTCARE",
    parameter logic [63:0] CH1_RX_LOS_EN = "DONTCARE",
    parameter logic [63:0] CH1_RX_LOS_LVL = "DONTCARE",
    parameter logic [63:0] CH1_RX_LOS_CEQ = "DONTCARE",
    parameter logic [63:0] CH1_PDEN_SEL = "DONTCARE",
    parameter logic [63:0] CH1_AUTO_FACQ_EN = "DONTCARE",
    parameter logic [63:0] CH1_AUTO_CALIB_EN = "DONTCARE",
    parameter logic [63:0] CH1_DCOATDCFG = "DONTCARE",
    parameter logic [63:0] CH1_DCOATDDLY = "DONTCARE",
    parameter logic [63:0] CH1_DCOBYPSATD = "DONTCARE",
    parameter logic [63:0] CH1_DCOCALDIV = "DONTCARE",
    parameter logic [63:0] CH1_DCOCTLGI = "DONTCARE",
    parameter logic [63:0] CH1_DCODISBDAVOID = "DONTCARE",
    parameter logic [63:0] CH1_DCOFLTDAC = "DONTCARE",
    parameter logic [63:0] CH1_DCOFTNRG = "DONTCARE",
    parameter logic [63:0] CH1_DCOIOSTUNE = "DONTCARE",
    parameter logic [63:0] CH1_DCOITUNE = "DONTCARE",
    parameter logic [63:0] CH1_DCOITUNE4LSB = "DONTCARE",
    parameter logic [63:0] CH1_DCOIUPDNX2 = "DONTCARE",
    parameter logic [63:0] CH1_DCONUOFLSB = "DONTCARE",
    parameter logic [63:0] CH1_DCOSCALEI = "DONTCARE",
    parameter logic [63:0] CH1_DCOSTARTVAL = "DONTCARE",
    parameter logic [63:0] CH1_DCOSTEP = "DONTCARE"
) (
    input  logic D_REFCLKI,
    input  logic D_FFC_MACROPDB,
    input  logic D_FFC_MACRO_RST,
    input  logic D_FFC_DUAL_RST,
    input  logic D_FFC_TRST,
    output logic D_FFS_PLOL,
    input  logic CH0_RX_REFCLK,
    input  logic CH0_FFC_TXPWDNB,
    input  logic CH0_FFC_RXPWDNB,
    input  logic CH0_FFC_LANE_TX_RST,
    input  logic CH0_FFC_RRST,
    input  logic CH0_FFC_LANE_RX_RST,
    input  logic CH0_FFC_EI_EN,
    output logic CH0_FFS_RLOS,
    output logic CH0_FFS_RLOL,
    output logic CH0_FF_TX_PCLK,
    input  logic CH0_FF_TXI_CLK,
    output logic CH0_FF_RX_PCLK,
    input  logic CH0_FF_RXI_CLK,
    input  logic CH0_FF_TX_D_0,
    input  logic CH0_FF_TX_D_1,
    input  logic CH0_FF_TX_D_2,
    input  logic CH0_FF_TX_D_3,
    input  logic CH0_FF_TX_D_4,
    input  logic CH0_FF_TX_D_5,
    input  logic CH0_FF_TX_D_6,
    input  logic CH0_FF_TX_D_7,
    input  logic CH0_FF_TX_D_8,
    input  logic CH0_FF_TX_D_9,
    input  logic CH0_FF_TX_D_10,
    input  logic CH0_FF_TX_D_11,
    input  logic CH0_FF_TX_D_12,
    input  logic CH0_FF_TX_D_13,
    input  logic CH0_FF_TX_D_14,
    input  logic CH0_FF_TX_D_15,
    input  logic CH0_FF_TX_D_16,
    input  logic CH0_FF_TX_D_17,
    input  logic CH0_FF_TX_D_18,
    input  logic CH0_FF_TX_D_19,
    input  logic CH0_FF_TX_D_20,
    input  logic CH0_FF_TX_D_21,
    input  logic CH0_FF_TX_D_22,
    input  logic CH0_FF_TX_D_23,
    output logic CH0_FF_RX_D_0,
    output logic CH0_FF_RX_D_1,
    output logic CH0_FF_RX_D_2,
    output logic CH0_FF_RX_D_3,
    output logic CH0_FF_RX_D_4,
    output logic CH0_FF_RX_D_5,
    output logic CH0_FF_RX_D_6,
    output logic CH0_FF_RX_D_7,
    output logic CH0_FF_RX_D_8,
    output logic CH0_FF_RX_D_9,
    output logic CH0_FF_RX_D_10,
    output logic CH0_FF_RX_D_11,
    output logic CH0_FF_RX_D_12,
    output logic CH0_FF_RX_D_13,
    output logic CH0_FF_RX_D_14,
    output logic CH0_FF_RX_D_15,
    output logic CH0_FF_RX_D_16,
    output logic CH0_FF_RX_D_17,
    output logic CH0_FF_RX_D_18,
    output logic CH0_FF_RX_D_19,
    output logic CH0_FF_RX_D_20,
    output logic CH0_FF_RX_D_21,
    output logic CH0_FF_RX_D_22,
    output logic CH0_FF_RX_D_23,
    input  logic CH1_RX_REFCLK,
    input  logic CH1_FFC_TXPWDNB,
    input  logic CH1_FFC_RXPWDNB,
    input  logic CH1_FFC_LANE_TX_RST,
    input  logic CH1_FFC_RRST,
    input  logic CH1_FFC_LANE_RX_RST,
    input  logic CH1_FFC_EI_EN,
    output logic CH1_FFS_RLOS,
    output logic CH1_FFS_RLOL,
    output logic CH1_FF_TX_PCLK,
    input  logic CH1_FF_TXI_CLK,
    output logic CH1_FF_RX_PCLK,
    input  logic CH1_FF_RXI_CLK,
    input  logic CH1_FF_TX_D_0,
    input  logic CH1_FF_TX_D_1,
    input  logic CH1_FF_TX_D_2,
    input  logic CH1_FF_TX_D_3,
    input  logic CH1_FF_TX_D_4,
    input  logic CH1_FF_TX_D_5,
    input  logic CH1_FF_TX_D_6,
    input  logic CH1_FF_TX_D_7,
    input  logic CH1_FF_TX_D_8,
    input  logic CH1_FF_TX_D_9,
    input  logic CH1_FF_TX_D_10,
    input  logic CH1_FF_TX_D_11,
    input  logic CH1_FF_TX_D_12,
    input  logic CH1_FF_TX_D_13,
    input  logic CH1_FF_TX_D_14,
    input  logic CH1_FF_TX_D_15,
    input  logic CH1_FF_TX_D_16,
    input  logic CH1_FF_TX_D_17,
    input  logic CH1_FF_TX_D_18,
    input  logic CH1_FF_TX_D_19,
    input  logic CH1_FF_TX_D_20,
    input  logic CH1_FF_TX_D_21,
    input  logic CH1_FF_TX_D_22,
    input  logic CH1_FF_TX_D_23,
    output logic CH1_FF_RX_D_0,
    output logic CH1_FF_RX_D_1,
    output logic CH1_FF_RX_D_2,
    output logic CH1_FF_RX_D_3,
    output logic CH1_FF_RX_D_4,
    output logic CH1_FF_RX_D_5,
    output logic CH1_FF_RX_D_6,
    output logic CH1_FF_RX_D_7,
    output logic CH1_FF_RX_D_8,
    output logic CH1_FF_RX_D_9,
    output logic CH1_FF_RX_D_10,
    output logic CH1_FF_RX_D_11,
    output logic CH1_FF_RX_D_12,
    output logic CH1_FF_RX_D_13,
    output logic CH1_FF_RX_D_14,
    output logic CH1_FF_RX_D_15,
    output logic CH1_FF_RX_D_16,
    output logic CH1_FF_RX_D_17,
    output logic CH1_FF_RX_D_18,
    output logic CH1_FF_RX_D_19,
    output logic CH1_FF_RX_D_20,
    output logic CH1_FF_RX_D_21,
    output logic CH1_FF_RX_D_22,
    output logic CH1_FF_RX_D_23
);
  // Read and written from above.
  /* verilator lint_off UNDRIVEN */
  /* verilator lint_off UNUSEDSIGNAL */
  // Of the bench: what comes on each line, in which clock, and whether it is a signal.
  logic [1:0][19:0] line_rx_words;
  logic [1:0] line_rx_clk, line_has_signal;
  // For the bench: what goes out on each line.
  logic [1:0][19:0] line_tx_words;
  logic [1:0] line_is_driven;
  logic line_tx_clk;
  /* verilator lint_on UNUSEDSIGNAL */
  /* verilator lint_on UNDRIVEN */

  // --- Clocks --------------------------------------------------------------------------------
  // A word is 20 bits: the reference of 250 MHz at 5 Gb/s, half of it at 2.5 Gb/s.
  localparam bit IS_HALVED = D_TX_VCO_CK_DIV == 3'b010;
  logic halved;
  always_ff @(posedge D_REFCLKI) halved <= !halved;
  assign line_tx_clk = IS_HALVED ? halved : D_REFCLKI;
  assign CH0_FF_TX_PCLK = line_tx_clk;
  assign CH1_FF_TX_PCLK = line_tx_clk;
  assign CH0_FF_RX_PCLK = line_rx_clk[0];
  assign CH1_FF_RX_PCLK = line_rx_clk[1];

  // --- Locks ---------------------------------------------------------------------------------
  // Words of the reference that a lock takes.
  localparam logic [7:0] LOCK_WORDS = 8'd200;
  logic [7:0] locking;
  logic [1:0][7:0] rx_locking;
  logic [1:0] rx_off, is_signal;
  assign rx_off = {CH1_FFC_RRST, CH0_FFC_RRST};
  assign is_signal = line_has_signal & {CH1_FFC_RXPWDNB, CH0_FFC_RXPWDNB};
  always_ff @(posedge D_REFCLKI) begin
    if (D_FFC_MACRO_RST || D_FFC_DUAL_RST || D_FFC_TRST || !D_FFC_MACROPDB) locking <= '0;
    else if (locking != LOCK_WORDS) locking <= locking + 1'b1;
    for (int unsigned n = 0; n < 2; n++) begin
      if (rx_off[n] || !is_signal[n]) rx_locking[n] <= '0;
      else if (rx_locking[n] != LOCK_WORDS) rx_locking[n] <= rx_locking[n] + 1'b1;
    end
  end
  assign D_FFS_PLOL = locking != LOCK_WORDS;
  assign {CH1_FFS_RLOS, CH0_FFS_RLOS} = ~is_signal;
  assign CH0_FFS_RLOL = rx_locking[0] != LOCK_WORDS;
  assign CH1_FFS_RLOL = rx_locking[1] != LOCK_WORDS;

  // --- Words ---------------------------------------------------------------------------------
  logic [1:0] tx_off, tx_idle, rx_pcs_off;
  assign tx_off = {CH1_FFC_LANE_TX_RST, CH0_FFC_LANE_TX_RST} | {2{D_FFS_PLOL}};
  assign tx_idle = {CH1_FFC_EI_EN, CH0_FFC_EI_EN} | ~{CH1_FFC_TXPWDNB, CH0_FFC_TXPWDNB};
  assign rx_pcs_off = {CH1_FFC_LANE_RX_RST, CH0_FFC_LANE_RX_RST};
  always_ff @(posedge CH0_FF_TXI_CLK) begin
    line_tx_words[0] <= {
      CH0_FF_TX_D_21,
      CH0_FF_TX_D_20,
      CH0_FF_TX_D_19,
      CH0_FF_TX_D_18,
      CH0_FF_TX_D_17,
      CH0_FF_TX_D_16,
      CH0_FF_TX_D_15,
      CH0_FF_TX_D_14,
      CH0_FF_TX_D_13,
      CH0_FF_TX_D_12,
      CH0_FF_TX_D_9,
      CH0_FF_TX_D_8,
      CH0_FF_TX_D_7,
      CH0_FF_TX_D_6,
      CH0_FF_TX_D_5,
      CH0_FF_TX_D_4,
      CH0_FF_TX_D_3,
      CH0_FF_TX_D_2,
      CH0_FF_TX_D_1,
      CH0_FF_TX_D_0
    };
    line_is_driven[0] <= !tx_off[0] && !tx_idle[0];
  end
  always_ff @(posedge CH1_FF_TXI_CLK) begin
    line_tx_words[1] <= {
      CH1_FF_TX_D_21,
      CH1_FF_TX_D_20,
      CH1_FF_TX_D_19,
      CH1_FF_TX_D_18,
      CH1_FF_TX_D_17,
      CH1_FF_TX_D_16,
      CH1_FF_TX_D_15,
      CH1_FF_TX_D_14,
      CH1_FF_TX_D_13,
      CH1_FF_TX_D_12,
      CH1_FF_TX_D_9,
      CH1_FF_TX_D_8,
      CH1_FF_TX_D_7,
      CH1_FF_TX_D_6,
      CH1_FF_TX_D_5,
      CH1_FF_TX_D_4,
      CH1_FF_TX_D_3,
      CH1_FF_TX_D_2,
      CH1_FF_TX_D_1,
      CH1_FF_TX_D_0
    };
    line_is_driven[1] <= !tx_off[1] && !tx_idle[1];
  end
  logic [19:0] rx_0, rx_1;
  always_ff @(posedge CH0_FF_RXI_CLK) rx_0 <= rx_pcs_off[0] ? '0 : line_rx_words[0];
  always_ff @(posedge CH1_FF_RXI_CLK) rx_1 <= rx_pcs_off[1] ? '0 : line_rx_words[1];
  assign {
    CH0_FF_RX_D_23, CH0_FF_RX_D_22, CH0_FF_RX_D_21, CH0_FF_RX_D_20, CH0_FF_RX_D_19,
    CH0_FF_RX_D_18, CH0_FF_RX_D_17, CH0_FF_RX_D_16, CH0_FF_RX_D_15, CH0_FF_RX_D_14,
    CH0_FF_RX_D_13, CH0_FF_RX_D_12, CH0_FF_RX_D_11, CH0_FF_RX_D_10, CH0_FF_RX_D_9,
    CH0_FF_RX_D_8, CH0_FF_RX_D_7, CH0_FF_RX_D_6, CH0_FF_RX_D_5, CH0_FF_RX_D_4,
    CH0_FF_RX_D_3, CH0_FF_RX_D_2, CH0_FF_RX_D_1, CH0_FF_RX_D_0
  } = {
    2'b0, rx_0[19:10], 2'b0, rx_0[9:0]
  };
  assign {
    CH1_FF_RX_D_23, CH1_FF_RX_D_22, CH1_FF_RX_D_21, CH1_FF_RX_D_20, CH1_FF_RX_D_19,
    CH1_FF_RX_D_18, CH1_FF_RX_D_17, CH1_FF_RX_D_16, CH1_FF_RX_D_15, CH1_FF_RX_D_14,
    CH1_FF_RX_D_13, CH1_FF_RX_D_12, CH1_FF_RX_D_11, CH1_FF_RX_D_10, CH1_FF_RX_D_9,
    CH1_FF_RX_D_8, CH1_FF_RX_D_7, CH1_FF_RX_D_6, CH1_FF_RX_D_5, CH1_FF_RX_D_4,
    CH1_FF_RX_D_3, CH1_FF_RX_D_2, CH1_FF_RX_D_1, CH1_FF_RX_D_0
  } = {
    2'b0, rx_1[19:10], 2'b0, rx_1[9:0]
  };
  logic unused;
  assign unused = &{
    1'b0, CH0_RX_REFCLK, CH0_FF_TX_D_10, CH0_FF_TX_D_11,
    CH0_FF_TX_D_22, CH0_FF_TX_D_23, CH1_RX_REFCLK, CH1_FF_TX_D_10,
    CH1_FF_TX_D_11, CH1_FF_TX_D_22, CH1_FF_TX_D_23
  };

  if (D_REFCK_MODE != "0b000") begin : g_times
    $error("the line is 20 times the reference, or half of that");
  end
  if (CH0_PROTOCOL != "10BSER" || CH0_ENC_BYPASS != "0b1" || CH0_DEC_BYPASS != "0b1"
      || CH0_WA_BYPASS != "0b1" || CH0_CTC_BYPASS != "0b1" || CH0_TX_GEAR_MODE != "0b1"
      || CH0_RX_GEAR_MODE != "0b1" || CH0_RX_DCO_CK_DIV != D_TX_VCO_CK_DIV) begin : g_channel_0
    $error("channel 0: not the words of this model");
  end
  if (CH1_PROTOCOL != "10BSER" || CH1_ENC_BYPASS != "0b1" || CH1_DEC_BYPASS != "0b1"
      || CH1_WA_BYPASS != "0b1" || CH1_CTC_BYPASS != "0b1" || CH1_TX_GEAR_MODE != "0b1"
      || CH1_RX_GEAR_MODE != "0b1" || CH1_RX_DCO_CK_DIV != D_TX_VCO_CK_DIV) begin : g_channel_1
    $error("channel 1: not the words of this model");
  end
endmodule
