// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A card for AWS F2: what lies behind the ports of the shell that it uses, under the shell's names.
// cl_crosslane joins it with the shell.

module crosslane_aws_f2 (
    input logic clk_main_a0,
    input logic rst_main_n,
    input logic sh_cl_flr_assert,
    output logic cl_sh_flr_done,
    input logic [1:0] cfg_max_payload,
    input logic [2:0] cfg_max_read_req,
    // Host memory.
    output logic [15:0] cl_sh_pcim_awid,
    output logic [63:0] cl_sh_pcim_awaddr,
    output logic [7:0] cl_sh_pcim_awlen,
    output logic [2:0] cl_sh_pcim_awsize,
    output logic [1:0] cl_sh_pcim_awburst,
    output logic [3:0] cl_sh_pcim_awcache,
    output logic cl_sh_pcim_awlock,
    output logic [2:0] cl_sh_pcim_awprot,
    output logic [3:0] cl_sh_pcim_awqos,
    output logic [54:0] cl_sh_pcim_awuser,
    output logic cl_sh_pcim_awvalid,
    input logic sh_cl_pcim_awready,
    output logic [15:0] cl_sh_pcim_wid,
    output logic [511:0] cl_sh_pcim_wdata,
    output logic [63:0] cl_sh_pcim_wstrb,
    output logic cl_sh_pcim_wlast,
    output logic [63:0] cl_sh_pcim_wuser,
    output logic cl_sh_pcim_wvalid,
    input logic sh_cl_pcim_wready,
    input logic [1:0] sh_cl_pcim_bresp,
    input logic sh_cl_pcim_bvalid,
    output logic cl_sh_pcim_bready,
    output logic [15:0] cl_sh_pcim_arid,
    output logic [63:0] cl_sh_pcim_araddr,
    output logic [7:0] cl_sh_pcim_arlen,
    output logic [2:0] cl_sh_pcim_arsize,
    output logic [1:0] cl_sh_pcim_arburst,
    output logic [3:0] cl_sh_pcim_arcache,
    output logic cl_sh_pcim_arlock,
    output logic [2:0] cl_sh_pcim_arprot,
    output logic [3:0] cl_sh_pcim_arqos,
    output logic [54:0] cl_sh_pcim_aruser,
    output logic cl_sh_pcim_arvalid,
    input logic sh_cl_pcim_arready,
    input logic [511:0] sh_cl_pcim_rdata,
    input logic [1:0] sh_cl_pcim_rresp,
    input logic sh_cl_pcim_rlast,
    input logic sh_cl_pcim_rvalid,
    output logic cl_sh_pcim_rready,
    // BAR 4: nothing is there.
    input logic [15:0] sh_cl_dma_pcis_awid,
    input logic sh_cl_dma_pcis_awvalid,
    output logic cl_sh_dma_pcis_awready,
    input logic sh_cl_dma_pcis_wlast,
    input logic sh_cl_dma_pcis_wvalid,
    output logic cl_sh_dma_pcis_wready,
    output logic [15:0] cl_sh_dma_pcis_bid,
    output logic [1:0] cl_sh_dma_pcis_bresp,
    output logic cl_sh_dma_pcis_bvalid,
    input logic sh_cl_dma_pcis_bready,
    input logic [15:0] sh_cl_dma_pcis_arid,
    input logic [7:0] sh_cl_dma_pcis_arlen,
    input logic sh_cl_dma_pcis_arvalid,
    output logic cl_sh_dma_pcis_arready,
    output logic [15:0] cl_sh_dma_pcis_rid,
    output logic [511:0] cl_sh_dma_pcis_rdata,
    output logic [1:0] cl_sh_dma_pcis_rresp,
    output logic cl_sh_dma_pcis_rlast,
    output logic [63:0] cl_sh_dma_pcis_ruser,
    output logic cl_sh_dma_pcis_rvalid,
    input logic sh_cl_dma_pcis_rready,
    // BAR 0.
    input logic [31:0] ocl_cl_awaddr,
    input logic ocl_cl_awvalid,
    output logic cl_ocl_awready,
    input logic [31:0] ocl_cl_wdata,
    input logic [3:0] ocl_cl_wstrb,
    input logic ocl_cl_wvalid,
    output logic cl_ocl_wready,
    output logic [1:0] cl_ocl_bresp,
    output logic cl_ocl_bvalid,
    input logic ocl_cl_bready,
    input logic [31:0] ocl_cl_araddr,
    input logic ocl_cl_arvalid,
    output logic cl_ocl_arready,
    output logic [31:0] cl_ocl_rdata,
    output logic [1:0] cl_ocl_rresp,
    output logic cl_ocl_rvalid,
    input logic ocl_cl_rready,
    // BAR 4 of the management function: nothing is there.
    input logic sda_cl_awvalid,
    output logic cl_sda_awready,
    input logic sda_cl_wvalid,
    output logic cl_sda_wready,
    output logic [1:0] cl_sda_bresp,
    output logic cl_sda_bvalid,
    input logic sda_cl_bready,
    input logic sda_cl_arvalid,
    output logic cl_sda_arready,
    output logic [31:0] cl_sda_rdata,
    output logic [1:0] cl_sda_rresp,
    output logic cl_sda_rvalid,
    input logic sda_cl_rready,
    // Interrupts.
    output logic [15:0] cl_sh_apppf_irq_req,
    input logic [15:0] sh_cl_apppf_irq_ack
);
  logic rst;
  always_ff @(posedge clk_main_a0) rst <= !rst_main_n;

  crosslane_card_f2 #(
      .TAGS(64),
      .MAX_WRITE(512),
      .MAX_READ(512),
      .VECTORS(16)
  ) card (
      .clk(clk_main_a0),
      .rst,
      .flr_assert(sh_cl_flr_assert),
      .flr_done(cl_sh_flr_done),
      .cfg_max_payload,
      .cfg_max_read_req,
      .pcim_awaddr(cl_sh_pcim_awaddr),
      .pcim_awlen(cl_sh_pcim_awlen),
      .pcim_awsize(cl_sh_pcim_awsize),
      .pcim_awburst(cl_sh_pcim_awburst),
      .pcim_awvalid(cl_sh_pcim_awvalid),
      .pcim_awready(sh_cl_pcim_awready),
      .pcim_wdata(cl_sh_pcim_wdata),
      .pcim_wstrb(cl_sh_pcim_wstrb),
      .pcim_wlast(cl_sh_pcim_wlast),
      .pcim_wvalid(cl_sh_pcim_wvalid),
      .pcim_wready(sh_cl_pcim_wready),
      .pcim_bresp(sh_cl_pcim_bresp),
      .pcim_bvalid(sh_cl_pcim_bvalid),
      .pcim_bready(cl_sh_pcim_bready),
      .pcim_araddr(cl_sh_pcim_araddr),
      .pcim_arlen(cl_sh_pcim_arlen),
      .pcim_arsize(cl_sh_pcim_arsize),
      .pcim_arburst(cl_sh_pcim_arburst),
      .pcim_arvalid(cl_sh_pcim_arvalid),
      .pcim_arready(sh_cl_pcim_arready),
      .pcim_rdata(sh_cl_pcim_rdata),
      .pcim_rresp(sh_cl_pcim_rresp),
      .pcim_rlast(sh_cl_pcim_rlast),
      .pcim_rvalid(sh_cl_pcim_rvalid),
      .pcim_rready(cl_sh_pcim_rready),
      .ocl_awaddr(ocl_cl_awaddr),
      .ocl_awvalid(ocl_cl_awvalid),
      .ocl_awready(cl_ocl_awready),
      .ocl_wdata(ocl_cl_wdata),
      .ocl_wstrb(ocl_cl_wstrb),
      .ocl_wvalid(ocl_cl_wvalid),
      .ocl_wready(cl_ocl_wready),
      .ocl_bresp(cl_ocl_bresp),
      .ocl_bvalid(cl_ocl_bvalid),
      .ocl_bready(ocl_cl_bready),
      .ocl_araddr(ocl_cl_araddr),
      .ocl_arvalid(ocl_cl_arvalid),
      .ocl_arready(cl_ocl_arready),
      .ocl_rdata(cl_ocl_rdata),
      .ocl_rresp(cl_ocl_rresp),
      .ocl_rvalid(cl_ocl_rvalid),
      .ocl_rready(ocl_cl_rready),
      .apppf_irq_req(cl_sh_apppf_irq_req),
      .apppf_irq_ack(sh_cl_apppf_irq_ack)
  );

  // All bursts of PCIM have one identifier, so their answers come in order.
  assign cl_sh_pcim_awid = '0;
  assign cl_sh_pcim_awcache = '0;
  assign cl_sh_pcim_awlock = '0;
  assign cl_sh_pcim_awprot = '0;
  assign cl_sh_pcim_awqos = '0;
  assign cl_sh_pcim_awuser = '0;
  assign cl_sh_pcim_wid = '0;
  assign cl_sh_pcim_wuser = '0;
  assign cl_sh_pcim_arid = '0;
  assign cl_sh_pcim_arcache = '0;
  assign cl_sh_pcim_arlock = '0;
  assign cl_sh_pcim_arprot = '0;
  assign cl_sh_pcim_arqos = '0;
  assign cl_sh_pcim_aruser = '0;

  crosslane_nothing_there pcis (
      .clk(clk_main_a0),
      .rst,
      .awid(sh_cl_dma_pcis_awid),
      .awvalid(sh_cl_dma_pcis_awvalid),
      .awready(cl_sh_dma_pcis_awready),
      .wlast(sh_cl_dma_pcis_wlast),
      .wvalid(sh_cl_dma_pcis_wvalid),
      .wready(cl_sh_dma_pcis_wready),
      .bid(cl_sh_dma_pcis_bid),
      .bvalid(cl_sh_dma_pcis_bvalid),
      .bready(sh_cl_dma_pcis_bready),
      .arid(sh_cl_dma_pcis_arid),
      .arlen(sh_cl_dma_pcis_arlen),
      .arvalid(sh_cl_dma_pcis_arvalid),
      .arready(cl_sh_dma_pcis_arready),
      .rid(cl_sh_dma_pcis_rid),
      .rlast(cl_sh_dma_pcis_rlast),
      .rvalid(cl_sh_dma_pcis_rvalid),
      .rready(sh_cl_dma_pcis_rready)
  );
  assign {cl_sh_dma_pcis_bresp, cl_sh_dma_pcis_rresp} = '0;
  assign cl_sh_dma_pcis_rdata = '0;
  assign cl_sh_dma_pcis_ruser = '0;

  crosslane_nothing_there sda (
      .clk(clk_main_a0),
      .rst,
      .awid('0),
      .awvalid(sda_cl_awvalid),
      .awready(cl_sda_awready),
      .wlast(1'b1),
      .wvalid(sda_cl_wvalid),
      .wready(cl_sda_wready),
      .bid(),
      .bvalid(cl_sda_bvalid),
      .bready(sda_cl_bready),
      .arid('0),
      .arlen('0),
      .arvalid(sda_cl_arvalid),
      .arready(cl_sda_arready),
      .rid(),
      .rlast(),
      .rvalid(cl_sda_rvalid),
      .rready(sda_cl_rready)
  );
  assign {cl_sda_bresp, cl_sda_rresp} = '0;
  assign cl_sda_rdata = '0;
endmodule
