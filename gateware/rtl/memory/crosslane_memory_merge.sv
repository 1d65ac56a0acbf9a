// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Two sources of AXI4 writes on one port, burst by burst in turn. The sources have one ID, so data
// and answers are in the order of addresses. Data may go before their address is taken. Sources
// take answers at any time.

module crosslane_memory_merge #(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned ADDRESS_BITS = 40,
    parameter int unsigned OUTSTANDING = 32,  // bursts of both
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input logic clk,
    input logic rst,
    input logic [1:0] s_axi_awvalid,
    output logic [1:0] s_axi_awready,
    input logic [1:0][ADDRESS_BITS-1:0] s_axi_awaddr,
    input logic [1:0][7:0] s_axi_awlen,
    input logic [1:0] s_axi_wvalid,
    output logic [1:0] s_axi_wready,
    input logic [1:0][DATA_BITS-1:0] s_axi_wdata,
    input logic [1:0][BYTES-1:0] s_axi_wstrb,
    input logic [1:0] s_axi_wlast,
    output logic [1:0] s_axi_bvalid,
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [ADDRESS_BITS-1:0] m_axi_awaddr,
    output logic [7:0] m_axi_awlen,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    output logic [DATA_BITS-1:0] m_axi_wdata,
    output logic [BYTES-1:0] m_axi_wstrb,
    output logic m_axi_wlast,
    input logic m_axi_bvalid,
    output logic m_axi_bready
);
  // --- Addresses -------------------------------------------------------------------------------
  logic chosen, begins, has_room;

  crosslane_memory_turn #(
      .WIDTH(ADDRESS_BITS + 8)
  ) turn (
      .clk,
      .rst,
      .has_room,
      .s_valid(s_axi_awvalid),
      .s_ready(s_axi_awready),
      .s_data ({s_axi_awaddr[1], s_axi_awlen[1], s_axi_awaddr[0], s_axi_awlen[0]}),
      .m_valid(m_axi_awvalid),
      .m_ready(m_axi_awready),
      .m_data ({m_axi_awaddr, m_axi_awlen}),
      .chosen,
      .begins
  );

  // --- Sources of the bursts that are on offer or begun: for their data, and for their answers --
  logic [1:0] room;
  logic data_valid, data_source, answer_valid, answer_source;
  assign has_room = &room;

  crosslane_fifo #(
      .WIDTH(1),
      .DEPTH(OUTSTANDING)
  ) for_data (
      .clk,
      .rst,
      .s_valid(begins),
      .s_ready(room[0]),
      .s_data (chosen),
      .m_valid(data_valid),
      .m_ready(m_axi_wvalid && m_axi_wready && m_axi_wlast),
      .m_data (data_source),
      .count  ()
  );

  crosslane_fifo #(
      .WIDTH(1),
      .DEPTH(OUTSTANDING)
  ) for_answers (
      .clk,
      .rst,
      .s_valid(begins),
      .s_ready(room[1]),
      .s_data (chosen),
      .m_valid(answer_valid),
      .m_ready(m_axi_bvalid),
      .m_data (answer_source),
      .count  ()
  );

  assign m_axi_wvalid = data_valid && s_axi_wvalid[data_source];
  assign m_axi_wdata  = s_axi_wdata[data_source];
  assign m_axi_wstrb  = s_axi_wstrb[data_source];
  assign m_axi_wlast  = s_axi_wlast[data_source];
  assign m_axi_bready = 1'b1;
  always_comb begin
    s_axi_wready = '0;
    s_axi_wready[data_source] = data_valid && m_axi_wready;
    s_axi_bvalid = '0;
    s_axi_bvalid[answer_source] = m_axi_bvalid && answer_valid;
  end
endmodule
