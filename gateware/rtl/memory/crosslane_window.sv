// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// BAR 2: an aperture onto the card's memory, as an AXI4 master. A read is begun when all writes
// before it are in the memory; a write may overtake the reads before it, as the ordering rules
// allow. Reads are answered in order. Addresses are those of the requests, with as many bits as the
// memory has: the aperture is aligned to its size.

module crosslane_window
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS    = 256,
    parameter  int unsigned ADDRESS_BITS = 20,            // of the visible memory
    localparam int unsigned BYTES        = DATA_BITS / 8
) (
    input  logic                           clk,
    input  logic                           rst,
    input  function_t                      function_i,
    // Requests that hit BAR 2.
    input  logic                           s_window_valid,
    output logic                           s_window_ready,
    input  tlp_header_t                    s_window_header,
    input  logic                           s_window_first,
    input  logic                           s_window_last,
    input  logic        [   DATA_BITS-1:0] s_window_data,
    // Completions.
    output logic                           m_answer_valid,
    input  logic                           m_answer_ready,
    output tlp_header_t                    m_answer_header,
    output logic                           m_answer_first,
    output logic                           m_answer_last,
    output logic        [   DATA_BITS-1:0] m_answer_data,
    output logic                           write_failed,     // pulse: the memory refused a write
    // AXI4. One ID each way.
    output logic                           m_axi_awvalid,
    input  logic                           m_axi_awready,
    output logic        [ADDRESS_BITS-1:0] m_axi_awaddr,
    output logic        [             7:0] m_axi_awlen,
    output logic        [             2:0] m_axi_awsize,
    output logic        [             1:0] m_axi_awburst,
    output logic                           m_axi_wvalid,
    input  logic                           m_axi_wready,
    output logic        [   DATA_BITS-1:0] m_axi_wdata,
    output logic        [       BYTES-1:0] m_axi_wstrb,
    output logic                           m_axi_wlast,
    input  logic                           m_axi_bvalid,
    output logic                           m_axi_bready,
    input  logic        [             1:0] m_axi_bresp,
    output logic                           m_axi_arvalid,
    input  logic                           m_axi_arready,
    output logic        [ADDRESS_BITS-1:0] m_axi_araddr,
    output logic        [             7:0] m_axi_arlen,
    output logic        [             2:0] m_axi_arsize,
    output logic        [             1:0] m_axi_arburst,
    input  logic                           m_axi_rvalid,
    output logic                           m_axi_rready,
    input  logic        [   DATA_BITS-1:0] m_axi_rdata,
    input  logic        [             1:0] m_axi_rresp,
    input  logic                           m_axi_rlast
);
  localparam logic [1:0] INCREMENTING = 2'b01;

  logic in_write, is_read, write_ready, read_ready, writes_idle;

  assign m_axi_awsize = 3'($clog2(BYTES));
  assign m_axi_arsize = 3'($clog2(BYTES));
  assign m_axi_awburst = INCREMENTING;
  assign m_axi_arburst = INCREMENTING;

  assign is_read = !in_write && s_window_header.kind == MEMORY_READ;
  assign s_window_ready = is_read ? read_ready && writes_idle : write_ready;

  always_ff @(posedge clk) begin
    if (s_window_valid && s_window_ready && !is_read) in_write <= !s_window_last;
    if (rst) in_write <= 1'b0;
  end

  crosslane_window_write #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) write (
      .*,
      .s_valid (s_window_valid && !is_read),
      .s_ready (write_ready),
      .s_header(s_window_header),
      .s_first (s_window_first),
      .s_last  (s_window_last),
      .s_data  (s_window_data),
      .idle    (writes_idle),
      .failed  (write_failed)
  );

  crosslane_window_read #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) read (
      .*,
      .s_valid (s_window_valid && is_read && writes_idle),
      .s_ready (read_ready),
      .s_header(s_window_header)
  );
endmodule
