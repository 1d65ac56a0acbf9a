// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The custom logic of an AFI: the card, and what the shell asks of every design. `cl_ports.vh`, which
// has the shell's ports, and `sh_ddr` are the HDK's.

`include "cl_id_defines.vh"

module cl_crosslane (
    `include "cl_ports.vh"
);
  crosslane_aws_f2 card (.*);

  assign cl_sh_id0 = `CL_SH_ID0;
  assign cl_sh_id1 = `CL_SH_ID1;
  // A light that a user sees blink: the clock runs.
  logic [27:0] clocks;
  always_ff @(posedge clk_main_a0) begin
    clocks <= clocks + 1'b1;
    if (!rst_main_n) clocks <= '0;
  end
  assign cl_sh_status_vled = {15'd0, clocks[27]};

  // Ports without use: the management port of the memory module, JTAG, HBM, the cables between cards.
  assign cl_sh_status0 = '0;
  assign cl_sh_status1 = '0;
  assign cl_sh_status2 = '0;
  assign cl_sh_dma_wr_full = '0;
  assign cl_sh_dma_rd_full = '0;
  assign cl_sh_ddr_stat_ack = '0;
  assign cl_sh_ddr_stat_rdata = '0;
  assign cl_sh_ddr_stat_int = '0;
  assign tdo = '0;
  assign hbm_apb_paddr_1 = '0;
  assign hbm_apb_pprot_1 = '0;
  assign hbm_apb_psel_1 = '0;
  assign hbm_apb_penable_1 = '0;
  assign hbm_apb_pwrite_1 = '0;
  assign hbm_apb_pwdata_1 = '0;
  assign hbm_apb_pstrb_1 = '0;
  assign hbm_apb_pready_1 = '0;
  assign hbm_apb_prdata_1 = '0;
  assign hbm_apb_pslverr_1 = '0;
  assign hbm_apb_paddr_0 = '0;
  assign hbm_apb_pprot_0 = '0;
  assign hbm_apb_psel_0 = '0;
  assign hbm_apb_penable_0 = '0;
  assign hbm_apb_pwrite_0 = '0;
  assign hbm_apb_pwdata_0 = '0;
  assign hbm_apb_pstrb_0 = '0;
  assign hbm_apb_pready_0 = '0;
  assign hbm_apb_prdata_0 = '0;
  assign hbm_apb_pslverr_0 = '0;
  assign PCIE_EP_TXP = '0;
  assign PCIE_EP_TXN = '0;
  assign PCIE_RP_PERSTN = '0;
  assign PCIE_RP_TXP = '0;
  assign PCIE_RP_TXN = '0;

  // The pins of the memory module need it even without a controller.
  sh_ddr #(
      .DDR_PRESENT(0)
  ) ddr (
      .clk(clk_main_a0),
      .rst_n(rst_main_n),
      .stat_clk(clk_main_a0),
      .stat_rst_n(rst_main_n),
      .CLK_DIMM_DP,
      .CLK_DIMM_DN,
      .M_ACT_N,
      .M_MA,
      .M_BA,
      .M_BG,
      .M_CKE,
      .M_ODT,
      .M_CS_N,
      .M_CLK_DN,
      .M_CLK_DP,
      .M_PAR,
      .M_DQ,
      .M_ECC,
      .M_DQS_DP,
      .M_DQS_DN,
      .cl_RST_DIMM_N(RST_DIMM_N),
      .cl_sh_ddr_axi_awid('0),
      .cl_sh_ddr_axi_awaddr('0),
      .cl_sh_ddr_axi_awlen('0),
      .cl_sh_ddr_axi_awsize('0),
      .cl_sh_ddr_axi_awvalid(1'b0),
      .cl_sh_ddr_axi_awburst('0),
      .cl_sh_ddr_axi_awuser('0),
      .cl_sh_ddr_axi_awready(),
      .cl_sh_ddr_axi_wdata('0),
      .cl_sh_ddr_axi_wstrb('0),
      .cl_sh_ddr_axi_wlast(1'b0),
      .cl_sh_ddr_axi_wvalid(1'b0),
      .cl_sh_ddr_axi_wready(),
      .cl_sh_ddr_axi_bid(),
      .cl_sh_ddr_axi_bresp(),
      .cl_sh_ddr_axi_bvalid(),
      .cl_sh_ddr_axi_bready(1'b0),
      .cl_sh_ddr_axi_arid('0),
      .cl_sh_ddr_axi_araddr('0),
      .cl_sh_ddr_axi_arlen('0),
      .cl_sh_ddr_axi_arsize('0),
      .cl_sh_ddr_axi_arvalid(1'b0),
      .cl_sh_ddr_axi_arburst('0),
      .cl_sh_ddr_axi_aruser('0),
      .cl_sh_ddr_axi_arready(),
      .cl_sh_ddr_axi_rid(),
      .cl_sh_ddr_axi_rdata(),
      .cl_sh_ddr_axi_rresp(),
      .cl_sh_ddr_axi_rlast(),
      .cl_sh_ddr_axi_rvalid(),
      .cl_sh_ddr_axi_rready(1'b0),
      .sh_ddr_stat_bus_addr('0),
      .sh_ddr_stat_bus_wdata('0),
      .sh_ddr_stat_bus_wr(1'b0),
      .sh_ddr_stat_bus_rd(1'b0),
      .sh_ddr_stat_bus_ack(),
      .sh_ddr_stat_bus_rdata(),
      .ddr_sh_stat_int(),
      .sh_cl_ddr_is_ready()
  );
endmodule
