// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Keeps the protocol of a memory's port while what uses it is reset: a memory controller that misses
// a beat of a burst stays out of step until it is reset itself, and its data are lost then. With
// `stop`, bursts whose address has been taken end with all byte enables off, and answers are taken
// and dropped. Nothing new is taken before the last of them has come.
//
// Data go to the memory behind their address. One ID each way; a clock each way for addresses and
// data, none for answers.

module crosslane_memory_guard #(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned ADDRESS_BITS = 40,
    parameter int unsigned OUTSTANDING = 32,  // bursts each way, a power of two
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input  logic                    clk,
    input  logic                    rst,            // of the memory
    input  logic                    stop,           // what uses it is reset
    input  logic                    s_axi_awvalid,
    output logic                    s_axi_awready,
    input  logic [ADDRESS_BITS-1:0] s_axi_awaddr,
    input  logic [             7:0] s_axi_awlen,
    input  logic                    s_axi_wvalid,
    output logic                    s_axi_wready,
    input  logic [   DATA_BITS-1:0] s_axi_wdata,
    input  logic [       BYTES-1:0] s_axi_wstrb,
    output logic                    s_axi_bvalid,
    input  logic                    s_axi_bready,
    output logic [             1:0] s_axi_bresp,
    input  logic                    s_axi_arvalid,
    output logic                    s_axi_arready,
    input  logic [ADDRESS_BITS-1:0] s_axi_araddr,
    input  logic [             7:0] s_axi_arlen,
    output logic                    s_axi_rvalid,
    input  logic                    s_axi_rready,
    output logic [   DATA_BITS-1:0] s_axi_rdata,
    output logic [             1:0] s_axi_rresp,
    output logic                    s_axi_rlast,
    output logic                    m_axi_awvalid,
    input  logic                    m_axi_awready,
    output logic [ADDRESS_BITS-1:0] m_axi_awaddr,
    output logic [             7:0] m_axi_awlen,
    output logic                    m_axi_wvalid,
    input  logic                    m_axi_wready,
    output logic [   DATA_BITS-1:0] m_axi_wdata,
    output logic [       BYTES-1:0] m_axi_wstrb,
    output logic                    m_axi_wlast,
    input  logic                    m_axi_bvalid,
    output logic                    m_axi_bready,
    input  logic [             1:0] m_axi_bresp,
    output logic                    m_axi_arvalid,
    input  logic                    m_axi_arready,
    output logic [ADDRESS_BITS-1:0] m_axi_araddr,
    output logic [             7:0] m_axi_arlen,
    input  logic                    m_axi_rvalid,
    output logic                    m_axi_rready,
    input  logic [   DATA_BITS-1:0] m_axi_rdata,
    input  logic [             1:0] m_axi_rresp,
    input  logic                    m_axi_rlast
);
  localparam int unsigned COUNT_BITS = $clog2(OUTSTANDING);
  typedef logic [COUNT_BITS:0] count_t;

  // --- What the memory owes an answer to -------------------------------------------------------
  count_t writes, reads;
  logic is_ending, is_closed;
  logic aw_take, ar_take, b_take, r_take_last;

  assign is_closed   = stop || is_ending;
  assign aw_take     = s_axi_awvalid && s_axi_awready;
  assign ar_take     = s_axi_arvalid && s_axi_arready;
  assign b_take      = m_axi_bvalid && m_axi_bready;
  assign r_take_last = m_axi_rvalid && m_axi_rready && m_axi_rlast;

  always_ff @(posedge clk) begin
    writes <= writes + count_t'(aw_take) - count_t'(b_take);
    reads  <= reads + count_t'(ar_take) - count_t'(r_take_last);
    if (stop) is_ending <= 1'b1;
    else if (writes == '0 && reads == '0) is_ending <= 1'b0;
    if (rst) begin
      writes <= '0;
      reads <= '0;
      is_ending <= 1'b0;
    end
  end

  // --- Addresses -------------------------------------------------------------------------------
  logic lengths_ready, length_valid, has_write_room, has_read_room;
  logic [7:0] length;

  assign has_write_room = !writes[COUNT_BITS] && lengths_ready;
  assign has_read_room  = !reads[COUNT_BITS];
  assign s_axi_awready  = (!m_axi_awvalid || m_axi_awready) && has_write_room && !is_closed;
  assign s_axi_arready  = (!m_axi_arvalid || m_axi_arready) && has_read_room && !is_closed;

  always_ff @(posedge clk) begin
    if (!m_axi_awvalid || m_axi_awready) begin
      m_axi_awvalid <= aw_take;
      m_axi_awaddr  <= s_axi_awaddr;
      m_axi_awlen   <= s_axi_awlen;
    end
    if (!m_axi_arvalid || m_axi_arready) begin
      m_axi_arvalid <= ar_take;
      m_axi_araddr  <= s_axi_araddr;
      m_axi_arlen   <= s_axi_arlen;
    end
    if (rst) begin
      m_axi_awvalid <= 1'b0;
      m_axi_arvalid <= 1'b0;
    end
  end

  // --- Data, of the bursts whose address has been taken ----------------------------------------
  logic moves, w_take, is_last;
  logic [7:0] beat;

  assign moves = !m_axi_wvalid || m_axi_wready;
  assign s_axi_wready = moves && length_valid && !is_closed;
  assign w_take = moves && length_valid && (s_axi_wvalid || is_closed);
  assign is_last = beat == length;

  crosslane_fifo #(
      .WIDTH(8),
      .DEPTH(OUTSTANDING)
  ) lengths (
      .clk,
      .rst,
      .s_valid(aw_take),
      .s_ready(lengths_ready),
      .s_data (s_axi_awlen),
      .m_valid(length_valid),
      .m_ready(w_take && is_last),
      .m_data (length),
      .count  ()
  );

  always_ff @(posedge clk) begin
    if (moves) begin
      m_axi_wvalid <= w_take;
      m_axi_wdata  <= s_axi_wdata;
      m_axi_wstrb  <= is_closed ? '0 : s_axi_wstrb;
      m_axi_wlast  <= is_last;
    end
    if (w_take) beat <= is_last ? '0 : beat + 1'b1;
    if (rst) begin
      m_axi_wvalid <= 1'b0;
      beat <= '0;
    end
  end

  // --- Answers ---------------------------------------------------------------------------------
  assign s_axi_bvalid = m_axi_bvalid && !is_closed;
  assign m_axi_bready = s_axi_bready || is_closed;
  assign s_axi_bresp  = m_axi_bresp;
  assign s_axi_rvalid = m_axi_rvalid && !is_closed;
  assign m_axi_rready = s_axi_rready || is_closed;
  assign s_axi_rdata  = m_axi_rdata;
  assign s_axi_rresp  = m_axi_rresp;
  assign s_axi_rlast  = m_axi_rlast;
endmodule
