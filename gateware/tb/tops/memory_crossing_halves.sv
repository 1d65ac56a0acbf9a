// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Two memories of half the width behind crosslane_memory_crossing and crosslane_memory_halves, with
// crosslane_memory_clear in between or without.

module memory_crossing_halves
  import crosslane_memory_pkg::*;
#(
    parameter int unsigned DATA_BITS = 512,
    parameter int unsigned CLEARED_BITS = 0,  // 0: without
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
  memory_request_t engine_request, crossed_request, request;
  memory_answer_t engine_answer, crossed_answer, answer;
  logic is_clear;
  memory_request_t [1:0] requests;
  memory_answer_t [1:0] answers;

  assign engine_request = '{
          awvalid: s_axi_awvalid,
          awaddr: MEMORY_ADDRESS_BITS'(s_axi_awaddr),
          awlen: s_axi_awlen,
          wvalid: s_axi_wvalid,
          wdata: MEMORY_DATA_BITS'(s_axi_wdata),
          wstrb: (MEMORY_DATA_BITS / 8)'(s_axi_wstrb),
          wlast: 1'b0,
          bready: s_axi_bready,
          arvalid: s_axi_arvalid,
          araddr: MEMORY_ADDRESS_BITS'(s_axi_araddr),
          arlen: s_axi_arlen,
          rready: s_axi_rready
      };
  assign s_axi_awready = engine_answer.awready;
  assign s_axi_wready = engine_answer.wready;
  assign s_axi_bvalid = engine_answer.bvalid;
  assign s_axi_bresp = engine_answer.bresp;
  assign s_axi_arready = engine_answer.arready;
  assign s_axi_rvalid = engine_answer.rvalid;
  assign s_axi_rresp = engine_answer.rresp;
  assign s_axi_rlast = engine_answer.rlast;
  assign s_axi_rdata = engine_answer.rdata[DATA_BITS-1:0];

  crosslane_memory_crossing #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(BITS)
  ) crossing (
      .clk,
      .rst,
      .s_request (engine_request),
      .s_answer  (engine_answer),
      .memory_clk,
      .memory_rst(!is_clear),
      .m_request (crossed_request),
      .m_answer  (crossed_answer)
  );

  if (CLEARED_BITS == 0) begin : g_kept
    assign is_clear = !memory_rst;
    assign request = crossed_request;
    assign crossed_answer = answer;
  end else begin : g_cleared
    crosslane_memory_clear #(
        .DATA_BITS(DATA_BITS),
        .CLEARED_BITS(CLEARED_BITS)
    ) clear (
        .clk(memory_clk),
        .rst(memory_rst),
        .done(is_clear),
        .s_request(crossed_request),
        .s_answer(crossed_answer),
        .m_request(request),
        .m_answer(answer)
    );
  end

  crosslane_memory_halves #(
      .DATA_BITS(DATA_BITS)
  ) halves (
      .clk(memory_clk),
      .rst(memory_rst),
      .s_request(request),
      .s_answer(answer),
      .m_request(requests),
      .m_answer(answers)
  );

  assign low_awvalid = requests[0].awvalid;
  assign low_awaddr = requests[0].awaddr[BITS-2:0];
  assign low_awlen = requests[0].awlen;
  assign low_wvalid = requests[0].wvalid;
  assign low_wdata = requests[0].wdata[HALF-1:0];
  assign low_wstrb = requests[0].wstrb[BYTES/2-1:0];
  assign low_wlast = requests[0].wlast;
  assign low_bready = requests[0].bready;
  assign low_arvalid = requests[0].arvalid;
  assign low_araddr = requests[0].araddr[BITS-2:0];
  assign low_arlen = requests[0].arlen;
  assign low_rready = requests[0].rready;
  assign answers[0] = '{
          awready: low_awready,
          wready: low_wready,
          bvalid: low_bvalid,
          bresp: low_bresp,
          arready: low_arready,
          rvalid: low_rvalid,
          rdata: MEMORY_DATA_BITS'(low_rdata),
          rresp: low_rresp,
          rlast: low_rlast
      };
  assign high_awvalid = requests[1].awvalid;
  assign high_awaddr = requests[1].awaddr[BITS-2:0];
  assign high_awlen = requests[1].awlen;
  assign high_wvalid = requests[1].wvalid;
  assign high_wdata = requests[1].wdata[HALF-1:0];
  assign high_wstrb = requests[1].wstrb[BYTES/2-1:0];
  assign high_wlast = requests[1].wlast;
  assign high_bready = requests[1].bready;
  assign high_arvalid = requests[1].arvalid;
  assign high_araddr = requests[1].araddr[BITS-2:0];
  assign high_arlen = requests[1].arlen;
  assign high_rready = requests[1].rready;
  assign answers[1] = '{
          awready: high_awready,
          wready: high_wready,
          bvalid: high_bvalid,
          bresp: high_bresp,
          arready: high_arready,
          rvalid: high_rvalid,
          rdata: MEMORY_DATA_BITS'(high_rdata),
          rresp: high_rresp,
          rlast: high_rlast
      };
  assign low_awsize = 3'($clog2(BYTES / 2));
  assign {high_awsize, low_arsize, high_arsize} = {3{low_awsize}};
  assign {low_awburst, high_awburst, low_arburst, high_arburst} = {4{2'b01}};
endmodule
