// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Two memories of half the width behind crosslane_memory_crossing and crosslane_memory_halves.

module memory_crossing_halves #(
    parameter int unsigned DATA_BITS = 512,
    localparam int unsigned BITS = 20,
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned HALF = DATA_BITS / 2
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic                 s_axi_awvalid,
    output logic                 s_axi_awready,
    input  logic [     BITS-1:0] s_axi_awaddr,
    input  logic [          7:0] s_axi_awlen,
    input  logic                 s_axi_wvalid,
    output logic                 s_axi_wready,
    input  logic [DATA_BITS-1:0] s_axi_wdata,
    input  logic [    BYTES-1:0] s_axi_wstrb,
    output logic                 s_axi_bvalid,
    input  logic                 s_axi_bready,
    output logic [          1:0] s_axi_bresp,
    input  logic                 s_axi_arvalid,
    output logic                 s_axi_arready,
    input  logic [     BITS-1:0] s_axi_araddr,
    input  logic [          7:0] s_axi_arlen,
    output logic                 s_axi_rvalid,
    input  logic                 s_axi_rready,
    output logic [DATA_BITS-1:0] s_axi_rdata,
    output logic [          1:0] s_axi_rresp,
    output logic                 s_axi_rlast,
    input  logic                 memory_clk,
    input  logic                 memory_rst,
    output logic                 low_awvalid,
    input  logic                 low_awready,
    output logic [     BITS-2:0] low_awaddr,
    output logic [          7:0] low_awlen,
    output logic [          2:0] low_awsize,
    output logic [          1:0] low_awburst,
    output logic                 low_wvalid,
    input  logic                 low_wready,
    output logic [     HALF-1:0] low_wdata,
    output logic [  BYTES/2-1:0] low_wstrb,
    output logic                 low_wlast,
    input  logic                 low_bvalid,
    output logic                 low_bready,
    input  logic [          1:0] low_bresp,
    output logic                 low_arvalid,
    input  logic                 low_arready,
    output logic [     BITS-2:0] low_araddr,
    output logic [          7:0] low_arlen,
    output logic [          2:0] low_arsize,
    output logic [          1:0] low_arburst,
    input  logic                 low_rvalid,
    output logic                 low_rready,
    input  logic [     HALF-1:0] low_rdata,
    input  logic [          1:0] low_rresp,
    input  logic                 low_rlast,
    output logic                 high_awvalid,
    input  logic                 high_awready,
    output logic [     BITS-2:0] high_awaddr,
    output logic [          7:0] high_awlen,
    output logic [          2:0] high_awsize,
    output logic [          1:0] high_awburst,
    output logic                 high_wvalid,
    input  logic                 high_wready,
    output logic [     HALF-1:0] high_wdata,
    output logic [  BYTES/2-1:0] high_wstrb,
    output logic                 high_wlast,
    input  logic                 high_bvalid,
    output logic                 high_bready,
    input  logic [          1:0] high_bresp,
    output logic                 high_arvalid,
    input  logic                 high_arready,
    output logic [     BITS-2:0] high_araddr,
    output logic [          7:0] high_arlen,
    output logic [          2:0] high_arsize,
    output logic [          1:0] high_arburst,
    input  logic                 high_rvalid,
    output logic                 high_rready,
    input  logic [     HALF-1:0] high_rdata,
    input  logic [          1:0] high_rresp,
    input  logic                 high_rlast
);
  logic awvalid, awready, wvalid, wready, wlast, bvalid, bready;
  logic arvalid, arready, rvalid, rready, rlast;
  logic [BITS-1:0] awaddr, araddr;
  logic [7:0] awlen, arlen;
  logic [DATA_BITS-1:0] wdata, rdata;
  logic [BYTES-1:0] wstrb;
  logic [1:0] bresp, rresp;

  crosslane_memory_crossing #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(BITS)
  ) crossing (
      .m_axi_awvalid(awvalid),
      .m_axi_awready(awready),
      .m_axi_awaddr (awaddr),
      .m_axi_awlen  (awlen),
      .m_axi_wvalid (wvalid),
      .m_axi_wready (wready),
      .m_axi_wdata  (wdata),
      .m_axi_wstrb  (wstrb),
      .m_axi_wlast  (wlast),
      .m_axi_bvalid (bvalid),
      .m_axi_bready (bready),
      .m_axi_bresp  (bresp),
      .m_axi_arvalid(arvalid),
      .m_axi_arready(arready),
      .m_axi_araddr (araddr),
      .m_axi_arlen  (arlen),
      .m_axi_rvalid (rvalid),
      .m_axi_rready (rready),
      .m_axi_rdata  (rdata),
      .m_axi_rresp  (rresp),
      .m_axi_rlast  (rlast),
      .*
  );

  crosslane_memory_halves #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(BITS)
  ) halves (
      .clk(memory_clk),
      .rst(memory_rst),
      .s_axi_awvalid(awvalid),
      .s_axi_awready(awready),
      .s_axi_awaddr(awaddr),
      .s_axi_awlen(awlen),
      .s_axi_wvalid(wvalid),
      .s_axi_wready(wready),
      .s_axi_wdata(wdata),
      .s_axi_wstrb(wstrb),
      .s_axi_wlast(wlast),
      .s_axi_bvalid(bvalid),
      .s_axi_bready(bready),
      .s_axi_bresp(bresp),
      .s_axi_arvalid(arvalid),
      .s_axi_arready(arready),
      .s_axi_araddr(araddr),
      .s_axi_arlen(arlen),
      .s_axi_rvalid(rvalid),
      .s_axi_rready(rready),
      .s_axi_rdata(rdata),
      .s_axi_rresp(rresp),
      .s_axi_rlast(rlast),
      .m_axi_awvalid({high_awvalid, low_awvalid}),
      .m_axi_awready({high_awready, low_awready}),
      .m_axi_awaddr(low_awaddr),
      .m_axi_awlen(low_awlen),
      .m_axi_wvalid({high_wvalid, low_wvalid}),
      .m_axi_wready({high_wready, low_wready}),
      .m_axi_wdata({high_wdata, low_wdata}),
      .m_axi_wstrb({high_wstrb, low_wstrb}),
      .m_axi_wlast(low_wlast),
      .m_axi_bvalid({high_bvalid, low_bvalid}),
      .m_axi_bready({high_bready, low_bready}),
      .m_axi_bresp({high_bresp, low_bresp}),
      .m_axi_arvalid({high_arvalid, low_arvalid}),
      .m_axi_arready({high_arready, low_arready}),
      .m_axi_araddr(low_araddr),
      .m_axi_arlen(low_arlen),
      .m_axi_rvalid({high_rvalid, low_rvalid}),
      .m_axi_rready({high_rready, low_rready}),
      .m_axi_rdata({high_rdata, low_rdata}),
      .m_axi_rresp({high_rresp, low_rresp}),
      .m_axi_rlast({high_rlast, low_rlast})
  );

  assign {high_awaddr, high_awlen, high_wlast} = {low_awaddr, low_awlen, low_wlast};
  assign {high_araddr, high_arlen} = {low_araddr, low_arlen};
  assign low_awsize = 3'($clog2(BYTES / 2));
  assign {high_awsize, low_arsize, high_arsize} = {3{low_awsize}};
  assign {low_awburst, high_awburst, low_arburst, high_arburst} = {4{2'b01}};
endmodule
