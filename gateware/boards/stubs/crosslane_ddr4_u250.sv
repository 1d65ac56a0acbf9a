// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The vendor's DDR4 core as ip/ddr4.tcl makes it for this board, for the linter and for simulation: its
// ports, and a small model of the memory. Ports: corundum, 1ca0151,
// fpga/mqnic/Alveo/fpga_100g/rtl/fpga_au200.v.

// verilator lint_off UNUSEDSIGNAL
// verilator lint_off UNDRIVEN
module crosslane_ddr4_u250 (
    input  logic         c0_sys_clk_p,
    input  logic         c0_sys_clk_n,
    input  logic         sys_rst,
    output logic [ 16:0] c0_ddr4_adr,
    output logic [  1:0] c0_ddr4_ba,
    output logic [  1:0] c0_ddr4_bg,
    output logic         c0_ddr4_ck_t,
    output logic         c0_ddr4_ck_c,
    output logic         c0_ddr4_cke,
    output logic         c0_ddr4_cs_n,
    output logic         c0_ddr4_act_n,
    output logic         c0_ddr4_odt,
    output logic         c0_ddr4_parity,
    output logic         c0_ddr4_reset_n,
    inout  wire  [ 71:0] c0_ddr4_dq,
    inout  wire  [ 17:0] c0_ddr4_dqs_t,
    inout  wire  [ 17:0] c0_ddr4_dqs_c,
    output logic         c0_ddr4_ui_clk,
    output logic         c0_ddr4_ui_clk_sync_rst,
    output logic         c0_init_calib_complete,
    output logic         c0_ddr4_interrupt,
    output logic         dbg_clk,
    output logic [511:0] dbg_bus,
    input  logic         c0_ddr4_s_axi_ctrl_awvalid,
    output logic         c0_ddr4_s_axi_ctrl_awready,
    input  logic [ 31:0] c0_ddr4_s_axi_ctrl_awaddr,
    input  logic         c0_ddr4_s_axi_ctrl_wvalid,
    output logic         c0_ddr4_s_axi_ctrl_wready,
    input  logic [ 31:0] c0_ddr4_s_axi_ctrl_wdata,
    output logic         c0_ddr4_s_axi_ctrl_bvalid,
    input  logic         c0_ddr4_s_axi_ctrl_bready,
    output logic [  1:0] c0_ddr4_s_axi_ctrl_bresp,
    input  logic         c0_ddr4_s_axi_ctrl_arvalid,
    output logic         c0_ddr4_s_axi_ctrl_arready,
    input  logic [ 31:0] c0_ddr4_s_axi_ctrl_araddr,
    output logic         c0_ddr4_s_axi_ctrl_rvalid,
    input  logic         c0_ddr4_s_axi_ctrl_rready,
    output logic [ 31:0] c0_ddr4_s_axi_ctrl_rdata,
    output logic [  1:0] c0_ddr4_s_axi_ctrl_rresp,
    input  logic         c0_ddr4_aresetn,
    input  logic [  7:0] c0_ddr4_s_axi_awid,
    input  logic [ 33:0] c0_ddr4_s_axi_awaddr,
    input  logic [  7:0] c0_ddr4_s_axi_awlen,
    input  logic [  2:0] c0_ddr4_s_axi_awsize,
    input  logic [  1:0] c0_ddr4_s_axi_awburst,
    input  logic [  0:0] c0_ddr4_s_axi_awlock,
    input  logic [  3:0] c0_ddr4_s_axi_awcache,
    input  logic [  2:0] c0_ddr4_s_axi_awprot,
    input  logic [  3:0] c0_ddr4_s_axi_awqos,
    input  logic         c0_ddr4_s_axi_awvalid,
    output logic         c0_ddr4_s_axi_awready,
    input  logic [511:0] c0_ddr4_s_axi_wdata,
    input  logic [ 63:0] c0_ddr4_s_axi_wstrb,
    input  logic         c0_ddr4_s_axi_wlast,
    input  logic         c0_ddr4_s_axi_wvalid,
    output logic         c0_ddr4_s_axi_wready,
    input  logic         c0_ddr4_s_axi_bready,
    output logic [  7:0] c0_ddr4_s_axi_bid,
    output logic [  1:0] c0_ddr4_s_axi_bresp,
    output logic         c0_ddr4_s_axi_bvalid,
    input  logic [  7:0] c0_ddr4_s_axi_arid,
    input  logic [ 33:0] c0_ddr4_s_axi_araddr,
    input  logic [  7:0] c0_ddr4_s_axi_arlen,
    input  logic [  2:0] c0_ddr4_s_axi_arsize,
    input  logic [  1:0] c0_ddr4_s_axi_arburst,
    input  logic [  0:0] c0_ddr4_s_axi_arlock,
    input  logic [  3:0] c0_ddr4_s_axi_arcache,
    input  logic [  2:0] c0_ddr4_s_axi_arprot,
    input  logic [  3:0] c0_ddr4_s_axi_arqos,
    input  logic         c0_ddr4_s_axi_arvalid,
    output logic         c0_ddr4_s_axi_arready,
    input  logic         c0_ddr4_s_axi_rready,
    output logic         c0_ddr4_s_axi_rlast,
    output logic         c0_ddr4_s_axi_rvalid,
    output logic [  1:0] c0_ddr4_s_axi_rresp,
    output logic [  7:0] c0_ddr4_s_axi_rid,
    output logic [511:0] c0_ddr4_s_axi_rdata
);
  localparam logic [7:0] SET_UP = 8'd200, CALIBRATED = 8'd250;
  logic [7:0] time_on;
  always_ff @(posedge c0_sys_clk_p) begin
    if (time_on != CALIBRATED) time_on <= time_on + 1'b1;
    if (sys_rst) time_on <= '0;
  end
  assign c0_ddr4_ui_clk = c0_sys_clk_p;
  assign c0_ddr4_ui_clk_sync_rst = time_on < SET_UP;
  assign c0_init_calib_complete = time_on == CALIBRATED;

  memory_port_model #(
      .ADDRESS_BITS(34),
      .DATA_BITS(512),
      .LENGTH_BITS(8)
  ) port (
      .clk(c0_ddr4_ui_clk),
      .reset_n(c0_ddr4_aresetn),
      .is_complete(c0_init_calib_complete),
      .awaddr(c0_ddr4_s_axi_awaddr),
      .awburst(c0_ddr4_s_axi_awburst),
      .awlen(c0_ddr4_s_axi_awlen),
      .awsize(c0_ddr4_s_axi_awsize),
      .awvalid(c0_ddr4_s_axi_awvalid),
      .awready(c0_ddr4_s_axi_awready),
      .araddr(c0_ddr4_s_axi_araddr),
      .arburst(c0_ddr4_s_axi_arburst),
      .arlen(c0_ddr4_s_axi_arlen),
      .arsize(c0_ddr4_s_axi_arsize),
      .arvalid(c0_ddr4_s_axi_arvalid),
      .arready(c0_ddr4_s_axi_arready),
      .wdata(c0_ddr4_s_axi_wdata),
      .wstrb(c0_ddr4_s_axi_wstrb),
      .wlast(c0_ddr4_s_axi_wlast),
      .wvalid(c0_ddr4_s_axi_wvalid),
      .wready(c0_ddr4_s_axi_wready),
      .bresp(c0_ddr4_s_axi_bresp),
      .bvalid(c0_ddr4_s_axi_bvalid),
      .bready(c0_ddr4_s_axi_bready),
      .rdata(c0_ddr4_s_axi_rdata),
      .rresp(c0_ddr4_s_axi_rresp),
      .rlast(c0_ddr4_s_axi_rlast),
      .rvalid(c0_ddr4_s_axi_rvalid),
      .rready(c0_ddr4_s_axi_rready)
  );
endmodule
// verilator lint_on UNDRIVEN
// verilator lint_on UNUSEDSIGNAL
