// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The aperture onto the card's memory, if built, and its answers merged with the registers'.

module crosslane_window_answers
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter bit WINDOW = 0,
    parameter int unsigned WINDOW_BITS = 20,
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    // Unused without an aperture.
    // verilator lint_off UNUSEDSIGNAL
    input logic clk,
    input logic rst,
    input function_t function_i,
    // Requests of BAR 2.
    input logic s_window_valid,
    output logic s_window_ready,
    input tlp_header_t s_window_header,
    input logic s_window_first,
    input logic s_window_last,
    input logic [DATA_BITS-1:0] s_window_data,
    // Answers of the registers, and the merged stream.
    input logic s_register_valid,
    output logic s_register_ready,
    input tlp_header_t s_register_header,
    input logic s_register_first,
    input logic s_register_last,
    input logic [DATA_BITS-1:0] s_register_data,
    output logic m_answer_valid,
    input logic m_answer_ready,
    output tlp_header_t m_answer_header,
    output logic m_answer_first,
    output logic m_answer_last,
    output logic [DATA_BITS-1:0] m_answer_data,
    output logic window_failed,  // pulse: the memory refused a write
    // AXI4.
    output logic m_window_awvalid,
    input logic m_window_awready,
    output logic [WINDOW_BITS-1:0] m_window_awaddr,
    output logic [7:0] m_window_awlen,
    output logic [2:0] m_window_awsize,
    output logic [1:0] m_window_awburst,
    output logic m_window_wvalid,
    input logic m_window_wready,
    output logic [DATA_BITS-1:0] m_window_wdata,
    output logic [BYTES-1:0] m_window_wstrb,
    output logic m_window_wlast,
    input logic m_window_bvalid,
    output logic m_window_bready,
    input logic [1:0] m_window_bresp,
    output logic m_window_arvalid,
    input logic m_window_arready,
    output logic [WINDOW_BITS-1:0] m_window_araddr,
    output logic [7:0] m_window_arlen,
    output logic [2:0] m_window_arsize,
    output logic [1:0] m_window_arburst,
    input logic m_window_rvalid,
    output logic m_window_rready,
    input logic [DATA_BITS-1:0] m_window_rdata,
    input logic [1:0] m_window_rresp,
    input logic m_window_rlast
    // verilator lint_on UNUSEDSIGNAL
);
  if (WINDOW) begin : g_window
    logic read_valid, read_ready, read_first, read_last;
    tlp_header_t read_header;
    logic [DATA_BITS-1:0] read_data;

    crosslane_window #(
        .DATA_BITS(DATA_BITS),
        .ADDRESS_BITS(WINDOW_BITS)
    ) window (
        .*,
        .m_answer_valid(read_valid),
        .m_answer_ready(read_ready),
        .m_answer_header(read_header),
        .m_answer_first(read_first),
        .m_answer_last(read_last),
        .m_answer_data(read_data),
        .write_failed(window_failed),
        .m_axi_awvalid(m_window_awvalid),
        .m_axi_awready(m_window_awready),
        .m_axi_awaddr(m_window_awaddr),
        .m_axi_awlen(m_window_awlen),
        .m_axi_awsize(m_window_awsize),
        .m_axi_awburst(m_window_awburst),
        .m_axi_wvalid(m_window_wvalid),
        .m_axi_wready(m_window_wready),
        .m_axi_wdata(m_window_wdata),
        .m_axi_wstrb(m_window_wstrb),
        .m_axi_wlast(m_window_wlast),
        .m_axi_bvalid(m_window_bvalid),
        .m_axi_bready(m_window_bready),
        .m_axi_bresp(m_window_bresp),
        .m_axi_arvalid(m_window_arvalid),
        .m_axi_arready(m_window_arready),
        .m_axi_araddr(m_window_araddr),
        .m_axi_arlen(m_window_arlen),
        .m_axi_arsize(m_window_arsize),
        .m_axi_arburst(m_window_arburst),
        .m_axi_rvalid(m_window_rvalid),
        .m_axi_rready(m_window_rready),
        .m_axi_rdata(m_window_rdata),
        .m_axi_rresp(m_window_rresp),
        .m_axi_rlast(m_window_rlast)
    );

    crosslane_answers #(
        .DATA_BITS(DATA_BITS)
    ) answers (
        .clk,
        .rst,
        .s_valid ({read_valid, s_register_valid}),
        .s_ready ({read_ready, s_register_ready}),
        .s_header({read_header, s_register_header}),
        .s_first ({read_first, s_register_first}),
        .s_last  ({read_last, s_register_last}),
        .s_data  ({read_data, s_register_data}),
        .m_valid (m_answer_valid),
        .m_ready (m_answer_ready),
        .m_header(m_answer_header),
        .m_first (m_answer_first),
        .m_last  (m_answer_last),
        .m_data  (m_answer_data)
    );
  end else begin : g_no_window
    assign m_answer_valid = s_register_valid;
    assign s_register_ready = m_answer_ready;
    assign m_answer_header = s_register_header;
    assign m_answer_first = s_register_first;
    assign m_answer_last = s_register_last;
    assign m_answer_data = s_register_data;
    assign s_window_ready = 1'b1;
    assign window_failed = 1'b0;
    assign m_window_awvalid = '0;
    assign m_window_awaddr = '0;
    assign m_window_awlen = '0;
    assign m_window_awsize = '0;
    assign m_window_awburst = '0;
    assign m_window_wvalid = '0;
    assign m_window_wdata = '0;
    assign m_window_wstrb = '0;
    assign m_window_wlast = '0;
    assign m_window_bready = '0;
    assign m_window_arvalid = '0;
    assign m_window_araddr = '0;
    assign m_window_arlen = '0;
    assign m_window_arsize = '0;
    assign m_window_arburst = '0;
    assign m_window_rready = '0;
  end
endmodule
