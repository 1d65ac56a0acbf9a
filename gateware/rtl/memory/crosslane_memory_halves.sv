// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Two memories as one of twice their width: the lower half of each beat lies in the first, the upper
// half in the second, at half the address. Both get the same bursts, and are waited for.

module crosslane_memory_halves #(
    parameter int unsigned DATA_BITS = 512,  // of both
    parameter int unsigned ADDRESS_BITS = 33,
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned HALF = DATA_BITS / 2
) (
    input  logic                                 clk,
    input  logic                                 rst,
    input  logic                                 s_axi_awvalid,
    output logic                                 s_axi_awready,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [ADDRESS_BITS-1:0]              s_axi_awaddr,
    // verilator lint_on UNUSEDSIGNAL
    input  logic [             7:0]              s_axi_awlen,
    input  logic                                 s_axi_wvalid,
    output logic                                 s_axi_wready,
    input  logic [   DATA_BITS-1:0]              s_axi_wdata,
    input  logic [       BYTES-1:0]              s_axi_wstrb,
    input  logic                                 s_axi_wlast,
    output logic                                 s_axi_bvalid,
    input  logic                                 s_axi_bready,
    output logic [             1:0]              s_axi_bresp,
    input  logic                                 s_axi_arvalid,
    output logic                                 s_axi_arready,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [ADDRESS_BITS-1:0]              s_axi_araddr,
    // verilator lint_on UNUSEDSIGNAL
    input  logic [             7:0]              s_axi_arlen,
    output logic                                 s_axi_rvalid,
    input  logic                                 s_axi_rready,
    output logic [   DATA_BITS-1:0]              s_axi_rdata,
    output logic [             1:0]              s_axi_rresp,
    output logic                                 s_axi_rlast,
    output logic [             1:0]              m_axi_awvalid,
    input  logic [             1:0]              m_axi_awready,
    output logic [ADDRESS_BITS-2:0]              m_axi_awaddr,   // these two of both
    output logic [             7:0]              m_axi_awlen,
    output logic [             1:0]              m_axi_wvalid,
    input  logic [             1:0]              m_axi_wready,
    output logic [             1:0][   HALF-1:0] m_axi_wdata,
    output logic [             1:0][BYTES/2-1:0] m_axi_wstrb,
    output logic                                 m_axi_wlast,    // of both
    input  logic [             1:0]              m_axi_bvalid,
    output logic [             1:0]              m_axi_bready,
    input  logic [             1:0][        1:0] m_axi_bresp,
    output logic [             1:0]              m_axi_arvalid,
    input  logic [             1:0]              m_axi_arready,
    output logic [ADDRESS_BITS-2:0]              m_axi_araddr,   // these two of both
    output logic [             7:0]              m_axi_arlen,
    input  logic [             1:0]              m_axi_rvalid,
    output logic [             1:0]              m_axi_rready,
    input  logic [             1:0][   HALF-1:0] m_axi_rdata,
    input  logic [             1:0][        1:0] m_axi_rresp,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [             1:0]              m_axi_rlast     // they are alike
    // verilator lint_on UNUSEDSIGNAL
);
  localparam int unsigned LANE_BITS = $clog2(BYTES);

  // The one that has taken what the other has not.
  logic [1:0] has_address, has_data, has_read;

  assign m_axi_awvalid = {2{s_axi_awvalid}} & ~has_address;
  assign s_axi_awready = &(has_address | m_axi_awready);
  assign m_axi_awaddr  = {s_axi_awaddr[ADDRESS_BITS-1:LANE_BITS], (LANE_BITS - 1)'(0)};
  assign m_axi_awlen   = s_axi_awlen;

  assign m_axi_wvalid  = {2{s_axi_wvalid}} & ~has_data;
  assign s_axi_wready  = &(has_data | m_axi_wready);
  assign m_axi_wdata   = s_axi_wdata;
  assign m_axi_wstrb   = s_axi_wstrb;
  assign m_axi_wlast   = s_axi_wlast;

  assign m_axi_arvalid = {2{s_axi_arvalid}} & ~has_read;
  assign s_axi_arready = &(has_read | m_axi_arready);
  assign m_axi_araddr  = {s_axi_araddr[ADDRESS_BITS-1:LANE_BITS], (LANE_BITS - 1)'(0)};
  assign m_axi_arlen   = s_axi_arlen;

  always_ff @(posedge clk) begin
    has_address <= s_axi_awready ? '0 : has_address | (m_axi_awvalid & m_axi_awready);
    has_data <= s_axi_wready ? '0 : has_data | (m_axi_wvalid & m_axi_wready);
    has_read <= s_axi_arready ? '0 : has_read | (m_axi_arvalid & m_axi_arready);
    if (rst) begin
      has_address <= '0;
      has_data <= '0;
      has_read <= '0;
    end
  end

  // The worse of two answers: no error is 0, those of a memory are 2 and 3.
  assign s_axi_bvalid = &m_axi_bvalid;
  assign m_axi_bready = {2{s_axi_bvalid && s_axi_bready}};
  assign s_axi_bresp  = m_axi_bresp[0] | m_axi_bresp[1];

  assign s_axi_rvalid = &m_axi_rvalid;
  assign m_axi_rready = {2{s_axi_rvalid && s_axi_rready}};
  assign s_axi_rdata  = m_axi_rdata;
  assign s_axi_rresp  = m_axi_rresp[0] | m_axi_rresp[1];
  assign s_axi_rlast  = m_axi_rlast[0];
endmodule
