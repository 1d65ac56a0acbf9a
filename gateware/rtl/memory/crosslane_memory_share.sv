// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Two users of one memory, burst by burst in turn: the engine and its aperture. Both take data and
// answers at any time, and a burst's data come whatever the other one does: neither can stop the
// other.

module crosslane_memory_share
  import crosslane_memory_pkg::*;
#(
    parameter int unsigned DATA_BITS = 512,
    parameter int unsigned ADDRESS_BITS = 40,
    parameter int unsigned OUTSTANDING = 32,  // bursts of both, each way
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input  logic                  clk,
    input  logic                  rst,
    // verilator lint_off UNUSEDSIGNAL
    input  memory_request_t [1:0] s_request,
    // verilator lint_on UNUSEDSIGNAL
    output memory_answer_t  [1:0] s_answer,
    output memory_request_t       m_request,
    input  memory_answer_t        m_answer
);
  // --- Writes ------------------------------------------------------------------------------------
  logic [1:0] s_awvalid, s_awready, s_wvalid, s_wready, s_wlast, s_bvalid;
  logic [1:0][ADDRESS_BITS-1:0] s_awaddr;
  logic [1:0][7:0] s_awlen;
  logic [1:0][DATA_BITS-1:0] s_wdata;
  logic [1:0][BYTES-1:0] s_wstrb;
  logic [ADDRESS_BITS-1:0] awaddr;
  logic [DATA_BITS-1:0] wdata;
  logic [BYTES-1:0] wstrb;

  crosslane_memory_merge #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(ADDRESS_BITS),
      .OUTSTANDING(OUTSTANDING)
  ) writes (
      .clk,
      .rst,
      .s_axi_awvalid(s_awvalid),
      .s_axi_awready(s_awready),
      .s_axi_awaddr (s_awaddr),
      .s_axi_awlen  (s_awlen),
      .s_axi_wvalid (s_wvalid),
      .s_axi_wready (s_wready),
      .s_axi_wdata  (s_wdata),
      .s_axi_wstrb  (s_wstrb),
      .s_axi_wlast  (s_wlast),
      .s_axi_bvalid (s_bvalid),
      .m_axi_awvalid(m_request.awvalid),
      .m_axi_awready(m_answer.awready),
      .m_axi_awaddr (awaddr),
      .m_axi_awlen  (m_request.awlen),
      .m_axi_wvalid (m_request.wvalid),
      .m_axi_wready (m_answer.wready),
      .m_axi_wdata  (wdata),
      .m_axi_wstrb  (wstrb),
      .m_axi_wlast  (m_request.wlast),
      .m_axi_bvalid (m_answer.bvalid),
      .m_axi_bready (m_request.bready)
  );
  assign m_request.awaddr = MEMORY_ADDRESS_BITS'(awaddr);
  assign m_request.wdata  = MEMORY_DATA_BITS'(wdata);
  assign m_request.wstrb  = (MEMORY_DATA_BITS / 8)'(wstrb);

  // --- Reads -------------------------------------------------------------------------------------
  logic [1:0] s_arvalid, s_arready;
  logic [1:0][ADDRESS_BITS+7:0] s_ar;
  logic [ADDRESS_BITS-1:0] araddr;
  logic has_room, begins, chosen, source, source_valid;

  crosslane_memory_turn #(
      .WIDTH(ADDRESS_BITS + 8)
  ) reads (
      .clk,
      .rst,
      .has_room,
      .s_valid(s_arvalid),
      .s_ready(s_arready),
      .s_data (s_ar),
      .m_valid(m_request.arvalid),
      .m_ready(m_answer.arready),
      .m_data ({araddr, m_request.arlen}),
      .chosen,
      .begins
  );
  assign m_request.araddr = MEMORY_ADDRESS_BITS'(araddr);
  assign m_request.rready = 1'b1;

  crosslane_fifo #(
      .WIDTH(1),
      .DEPTH(OUTSTANDING)
  ) for_data (
      .clk,
      .rst,
      .s_valid(begins),
      .s_ready(has_room),
      .s_data (chosen),
      .m_valid(source_valid),
      .m_ready(m_answer.rvalid && m_answer.rlast),
      .m_data (source),
      .count  ()
  );

  for (genvar n = 0; n < 2; n++) begin : g_user
    assign s_awvalid[n] = s_request[n].awvalid;
    assign s_awaddr[n] = s_request[n].awaddr[ADDRESS_BITS-1:0];
    assign s_awlen[n] = s_request[n].awlen;
    assign s_wvalid[n] = s_request[n].wvalid;
    assign s_wdata[n] = s_request[n].wdata[DATA_BITS-1:0];
    assign s_wstrb[n] = s_request[n].wstrb[BYTES-1:0];
    assign s_wlast[n] = s_request[n].wlast;
    assign s_arvalid[n] = s_request[n].arvalid;
    assign s_ar[n] = {s_request[n].araddr[ADDRESS_BITS-1:0], s_request[n].arlen};

    assign s_answer[n].awready = s_awready[n];
    assign s_answer[n].wready = s_wready[n];
    assign s_answer[n].bvalid = s_bvalid[n];
    assign s_answer[n].bresp = m_answer.bresp;
    assign s_answer[n].arready = s_arready[n];
    assign s_answer[n].rvalid = m_answer.rvalid && source_valid && source == n[0];
    assign s_answer[n].rdata = m_answer.rdata;
    assign s_answer[n].rresp = m_answer.rresp;
    assign s_answer[n].rlast = m_answer.rlast;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert (!m_answer.rvalid || source_valid)
      else $error("data that nobody has asked for");
      for (int n = 0; n < 2; n++) begin
        assert (!s_answer[n].rvalid || s_request[n].rready)
        else $error("a user that does not take its data");
      end
    end
  end
`endif
endmodule
