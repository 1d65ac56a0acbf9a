// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The vendor's HBM core as ip/hbm.tcl makes it, for the linter and for simulation: the ports that are
// connected, and a small model of both stacks. Ports: corundum, 1ca0151,
// fpga/mqnic/Alveo/fpga_100g/rtl/fpga_hbm.v.

// verilator lint_off UNUSEDSIGNAL
module crosslane_hbm (
    input  logic         HBM_REF_CLK_0,
    input  logic         HBM_REF_CLK_1,
    input  logic [ 31:0] APB_0_PWDATA,
    input  logic [ 21:0] APB_0_PADDR,
    input  logic         APB_0_PCLK,
    input  logic         APB_0_PENABLE,
    input  logic         APB_0_PRESET_N,
    input  logic         APB_0_PSEL,
    input  logic         APB_0_PWRITE,
    output logic         apb_complete_0,
    output logic         DRAM_0_STAT_CATTRIP,
    input  logic [ 31:0] APB_1_PWDATA,
    input  logic [ 21:0] APB_1_PADDR,
    input  logic         APB_1_PCLK,
    input  logic         APB_1_PENABLE,
    input  logic         APB_1_PRESET_N,
    input  logic         APB_1_PSEL,
    input  logic         APB_1_PWRITE,
    output logic         apb_complete_1,
    output logic         DRAM_1_STAT_CATTRIP,
    input  logic         AXI_00_ACLK,
    input  logic         AXI_00_ARESET_N,
    input  logic [ 32:0] AXI_00_AWADDR,
    input  logic [  1:0] AXI_00_AWBURST,
    input  logic [  5:0] AXI_00_AWID,
    input  logic [  3:0] AXI_00_AWLEN,
    input  logic [  2:0] AXI_00_AWSIZE,
    input  logic         AXI_00_AWVALID,
    output logic         AXI_00_AWREADY,
    input  logic [ 32:0] AXI_00_ARADDR,
    input  logic [  1:0] AXI_00_ARBURST,
    input  logic [  5:0] AXI_00_ARID,
    input  logic [  3:0] AXI_00_ARLEN,
    input  logic [  2:0] AXI_00_ARSIZE,
    input  logic         AXI_00_ARVALID,
    output logic         AXI_00_ARREADY,
    input  logic [255:0] AXI_00_WDATA,
    input  logic [ 31:0] AXI_00_WDATA_PARITY,
    input  logic [ 31:0] AXI_00_WSTRB,
    input  logic         AXI_00_WLAST,
    input  logic         AXI_00_WVALID,
    output logic         AXI_00_WREADY,
    output logic [  1:0] AXI_00_BRESP,
    output logic         AXI_00_BVALID,
    input  logic         AXI_00_BREADY,
    output logic [255:0] AXI_00_RDATA,
    output logic [  1:0] AXI_00_RRESP,
    output logic         AXI_00_RLAST,
    output logic         AXI_00_RVALID,
    input  logic         AXI_00_RREADY,
    input  logic         AXI_16_ACLK,
    input  logic         AXI_16_ARESET_N,
    input  logic [ 32:0] AXI_16_AWADDR,
    input  logic [  1:0] AXI_16_AWBURST,
    input  logic [  5:0] AXI_16_AWID,
    input  logic [  3:0] AXI_16_AWLEN,
    input  logic [  2:0] AXI_16_AWSIZE,
    input  logic         AXI_16_AWVALID,
    output logic         AXI_16_AWREADY,
    input  logic [ 32:0] AXI_16_ARADDR,
    input  logic [  1:0] AXI_16_ARBURST,
    input  logic [  5:0] AXI_16_ARID,
    input  logic [  3:0] AXI_16_ARLEN,
    input  logic [  2:0] AXI_16_ARSIZE,
    input  logic         AXI_16_ARVALID,
    output logic         AXI_16_ARREADY,
    input  logic [255:0] AXI_16_WDATA,
    input  logic [ 31:0] AXI_16_WDATA_PARITY,
    input  logic [ 31:0] AXI_16_WSTRB,
    input  logic         AXI_16_WLAST,
    input  logic         AXI_16_WVALID,
    output logic         AXI_16_WREADY,
    output logic [  1:0] AXI_16_BRESP,
    output logic         AXI_16_BVALID,
    input  logic         AXI_16_BREADY,
    output logic [255:0] AXI_16_RDATA,
    output logic [  1:0] AXI_16_RRESP,
    output logic         AXI_16_RLAST,
    output logic         AXI_16_RVALID,
    input  logic         AXI_16_RREADY
);
  localparam logic [7:0] SET_UP = 8'd200;
  logic [7:0] time_on;
  always_ff @(posedge HBM_REF_CLK_0) if (time_on != SET_UP) time_on <= time_on + 1'b1;
  assign apb_complete_0 = time_on == SET_UP;
  assign apb_complete_1 = time_on == SET_UP;
  assign {DRAM_0_STAT_CATTRIP, DRAM_1_STAT_CATTRIP} = '0;

  memory_port_model port_00 (
      .clk(AXI_00_ACLK),
      .reset_n(AXI_00_ARESET_N),
      .is_complete(apb_complete_0),
      .awaddr(AXI_00_AWADDR),
      .awburst(AXI_00_AWBURST),
      .awlen(AXI_00_AWLEN),
      .awsize(AXI_00_AWSIZE),
      .awvalid(AXI_00_AWVALID),
      .awready(AXI_00_AWREADY),
      .araddr(AXI_00_ARADDR),
      .arburst(AXI_00_ARBURST),
      .arlen(AXI_00_ARLEN),
      .arsize(AXI_00_ARSIZE),
      .arvalid(AXI_00_ARVALID),
      .arready(AXI_00_ARREADY),
      .wdata(AXI_00_WDATA),
      .wstrb(AXI_00_WSTRB),
      .wlast(AXI_00_WLAST),
      .wvalid(AXI_00_WVALID),
      .wready(AXI_00_WREADY),
      .bresp(AXI_00_BRESP),
      .bvalid(AXI_00_BVALID),
      .bready(AXI_00_BREADY),
      .rdata(AXI_00_RDATA),
      .rresp(AXI_00_RRESP),
      .rlast(AXI_00_RLAST),
      .rvalid(AXI_00_RVALID),
      .rready(AXI_00_RREADY)
  );

  memory_port_model port_16 (
      .clk(AXI_16_ACLK),
      .reset_n(AXI_16_ARESET_N),
      .is_complete(apb_complete_1),
      .awaddr(AXI_16_AWADDR),
      .awburst(AXI_16_AWBURST),
      .awlen(AXI_16_AWLEN),
      .awsize(AXI_16_AWSIZE),
      .awvalid(AXI_16_AWVALID),
      .awready(AXI_16_AWREADY),
      .araddr(AXI_16_ARADDR),
      .arburst(AXI_16_ARBURST),
      .arlen(AXI_16_ARLEN),
      .arsize(AXI_16_ARSIZE),
      .arvalid(AXI_16_ARVALID),
      .arready(AXI_16_ARREADY),
      .wdata(AXI_16_WDATA),
      .wstrb(AXI_16_WSTRB),
      .wlast(AXI_16_WLAST),
      .wvalid(AXI_16_WVALID),
      .wready(AXI_16_WREADY),
      .bresp(AXI_16_BRESP),
      .bvalid(AXI_16_BVALID),
      .bready(AXI_16_BREADY),
      .rdata(AXI_16_RDATA),
      .rresp(AXI_16_RRESP),
      .rlast(AXI_16_RLAST),
      .rvalid(AXI_16_RVALID),
      .rready(AXI_16_RREADY)
  );

  // A port reaches its stack only: the upper bit of an address.
  always_ff @(posedge AXI_00_ACLK) begin
    assert (!(AXI_00_AWVALID && AXI_00_AWADDR[32]) && !(AXI_00_ARVALID && AXI_00_ARADDR[32]))
    else $error("an address of the other stack");
    assert (!(AXI_16_AWVALID && !AXI_16_AWADDR[32]) && !(AXI_16_ARVALID && !AXI_16_ARADDR[32]))
    else $error("an address of the other stack");
  end
endmodule
// verilator lint_on UNUSEDSIGNAL
