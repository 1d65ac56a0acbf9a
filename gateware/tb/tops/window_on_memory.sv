// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_window with the additional AXI4 signals that a memory model needs: identifiers.

module window_on_memory
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS    = 256,
    parameter  int unsigned ADDRESS_BITS = 16,
    localparam int unsigned BYTES        = DATA_BITS / 8
) (
    input  logic                           clk,
    input  logic                           rst,
    input  function_t                      function_i,
    input  logic                           s_window_valid,
    output logic                           s_window_ready,
    input  tlp_header_t                    s_window_header,
    input  logic                           s_window_first,
    input  logic                           s_window_last,
    input  logic        [   DATA_BITS-1:0] s_window_data,
    output logic                           m_answer_valid,
    input  logic                           m_answer_ready,
    output tlp_header_t                    m_answer_header,
    output logic                           m_answer_first,
    output logic                           m_answer_last,
    output logic        [   DATA_BITS-1:0] m_answer_data,
    output logic                           write_failed,
    output logic        [             7:0] m_axi_awid,
    output logic        [ADDRESS_BITS-1:0] m_axi_awaddr,
    output logic        [             7:0] m_axi_awlen,
    output logic        [             2:0] m_axi_awsize,
    output logic        [             1:0] m_axi_awburst,
    output logic                           m_axi_awvalid,
    input  logic                           m_axi_awready,
    output logic        [   DATA_BITS-1:0] m_axi_wdata,
    output logic        [       BYTES-1:0] m_axi_wstrb,
    output logic                           m_axi_wlast,
    output logic                           m_axi_wvalid,
    input  logic                           m_axi_wready,
    // verilator lint_off UNUSEDSIGNAL
    input  logic        [             7:0] m_axi_bid,
    // verilator lint_on UNUSEDSIGNAL
    input  logic        [             1:0] m_axi_bresp,
    input  logic                           m_axi_bvalid,
    output logic                           m_axi_bready,
    output logic        [             7:0] m_axi_arid,
    output logic        [ADDRESS_BITS-1:0] m_axi_araddr,
    output logic        [             7:0] m_axi_arlen,
    output logic        [             2:0] m_axi_arsize,
    output logic        [             1:0] m_axi_arburst,
    output logic                           m_axi_arvalid,
    input  logic                           m_axi_arready,
    // verilator lint_off UNUSEDSIGNAL
    input  logic        [             7:0] m_axi_rid,
    // verilator lint_on UNUSEDSIGNAL
    input  logic        [   DATA_BITS-1:0] m_axi_rdata,
    input  logic        [             1:0] m_axi_rresp,
    input  logic                           m_axi_rlast,
    input  logic                           m_axi_rvalid,
    output logic                           m_axi_rready
);
  assign m_axi_awid = '0;
  assign m_axi_arid = '0;

  crosslane_window #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) window (
      .*
  );
endmodule
