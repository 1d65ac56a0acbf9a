// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Two users of one memory by crosslane_memory_share.

module memory_share
  import crosslane_memory_pkg::*;
#(
    parameter int unsigned DATA_BITS = 512,
    localparam int unsigned BITS = 20,
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input logic clk,
    input logic rst,
    input logic first_awvalid,
    output logic first_awready,
    input logic [BITS-1:0] first_awaddr,
    input logic [7:0] first_awlen,
    input logic first_wvalid,
    output logic first_wready,
    input logic [DATA_BITS-1:0] first_wdata,
    input logic [BYTES-1:0] first_wstrb,
    input logic first_wlast,
    output logic first_bvalid,
    input logic first_bready,
    output logic [1:0] first_bresp,
    input logic first_arvalid,
    output logic first_arready,
    input logic [BITS-1:0] first_araddr,
    input logic [7:0] first_arlen,
    output logic first_rvalid,
    input logic first_rready,
    output logic [DATA_BITS-1:0] first_rdata,
    output logic [1:0] first_rresp,
    output logic first_rlast,
    input logic second_awvalid,
    output logic second_awready,
    input logic [BITS-1:0] second_awaddr,
    input logic [7:0] second_awlen,
    input logic second_wvalid,
    output logic second_wready,
    input logic [DATA_BITS-1:0] second_wdata,
    input logic [BYTES-1:0] second_wstrb,
    input logic second_wlast,
    output logic second_bvalid,
    input logic second_bready,
    output logic [1:0] second_bresp,
    input logic second_arvalid,
    output logic second_arready,
    input logic [BITS-1:0] second_araddr,
    input logic [7:0] second_arlen,
    output logic second_rvalid,
    input logic second_rready,
    output logic [DATA_BITS-1:0] second_rdata,
    output logic [1:0] second_rresp,
    output logic second_rlast,
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [BITS-1:0] m_axi_awaddr,
    output logic [7:0] m_axi_awlen,
    output logic [2:0] m_axi_awsize,
    output logic [1:0] m_axi_awburst,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    output logic [DATA_BITS-1:0] m_axi_wdata,
    output logic [BYTES-1:0] m_axi_wstrb,
    output logic m_axi_wlast,
    input logic m_axi_bvalid,
    output logic m_axi_bready,
    input logic [1:0] m_axi_bresp,
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    output logic [BITS-1:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    output logic [2:0] m_axi_arsize,
    output logic [1:0] m_axi_arburst,
    input logic m_axi_rvalid,
    output logic m_axi_rready,
    input logic [DATA_BITS-1:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast
);
  // The upper bits of a narrower datapath.
  // verilator lint_off UNUSEDSIGNAL
  memory_request_t [1:0] requests;
  memory_answer_t [1:0] answers;
  memory_request_t request;
  // verilator lint_on UNUSEDSIGNAL
  memory_answer_t answer;

  crosslane_memory_share #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(BITS)
  ) share (
      .clk,
      .rst,
      .s_request(requests),
      .s_answer (answers),
      .m_request(request),
      .m_answer (answer)
  );

  assign requests[0] = '{
          awvalid: first_awvalid,
          awaddr: MEMORY_ADDRESS_BITS'(first_awaddr),
          awlen: first_awlen,
          wvalid: first_wvalid,
          wdata: MEMORY_DATA_BITS'(first_wdata),
          wstrb: (MEMORY_DATA_BITS / 8)'(first_wstrb),
          wlast: first_wlast,
          bready: first_bready,
          arvalid: first_arvalid,
          araddr: MEMORY_ADDRESS_BITS'(first_araddr),
          arlen: first_arlen,
          rready: first_rready
      };
  assign first_awready = answers[0].awready;
  assign first_wready = answers[0].wready;
  assign first_bvalid = answers[0].bvalid;
  assign first_bresp = answers[0].bresp;
  assign first_arready = answers[0].arready;
  assign first_rvalid = answers[0].rvalid;
  assign first_rdata = answers[0].rdata[DATA_BITS-1:0];
  assign first_rresp = answers[0].rresp;
  assign first_rlast = answers[0].rlast;
  assign requests[1] = '{
          awvalid: second_awvalid,
          awaddr: MEMORY_ADDRESS_BITS'(second_awaddr),
          awlen: second_awlen,
          wvalid: second_wvalid,
          wdata: MEMORY_DATA_BITS'(second_wdata),
          wstrb: (MEMORY_DATA_BITS / 8)'(second_wstrb),
          wlast: second_wlast,
          bready: second_bready,
          arvalid: second_arvalid,
          araddr: MEMORY_ADDRESS_BITS'(second_araddr),
          arlen: second_arlen,
          rready: second_rready
      };
  assign second_awready = answers[1].awready;
  assign second_wready = answers[1].wready;
  assign second_bvalid = answers[1].bvalid;
  assign second_bresp = answers[1].bresp;
  assign second_arready = answers[1].arready;
  assign second_rvalid = answers[1].rvalid;
  assign second_rdata = answers[1].rdata[DATA_BITS-1:0];
  assign second_rresp = answers[1].rresp;
  assign second_rlast = answers[1].rlast;
  assign m_axi_awvalid = request.awvalid;
  assign m_axi_awaddr = request.awaddr[BITS-1:0];
  assign m_axi_awlen = request.awlen;
  assign m_axi_wvalid = request.wvalid;
  assign m_axi_wdata = request.wdata[DATA_BITS-1:0];
  assign m_axi_wstrb = request.wstrb[BYTES-1:0];
  assign m_axi_wlast = request.wlast;
  assign m_axi_bready = request.bready;
  assign m_axi_arvalid = request.arvalid;
  assign m_axi_araddr = request.araddr[BITS-1:0];
  assign m_axi_arlen = request.arlen;
  assign m_axi_rready = request.rready;
  assign answer = '{
          awready: m_axi_awready,
          wready: m_axi_wready,
          bvalid: m_axi_bvalid,
          bresp: m_axi_bresp,
          arready: m_axi_arready,
          rvalid: m_axi_rvalid,
          rdata: MEMORY_DATA_BITS'(m_axi_rdata),
          rresp: m_axi_rresp,
          rlast: m_axi_rlast
      };
  assign m_axi_awsize = 3'($clog2(BYTES));
  assign m_axi_arsize = 3'($clog2(BYTES));
  assign m_axi_awburst = 2'b01;
  assign m_axi_arburst = 2'b01;
endmodule
