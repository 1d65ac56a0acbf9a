// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Keeps the protocol of a memory's port while what uses it is reset: a memory controller that misses
// a beat of a burst stays out of step until it is reset itself, and its data are lost then. With
// `stop`, bursts whose address has been taken end with all byte enables off, and answers are taken
// and dropped. Nothing new is taken before the last of them has come.
//
// Data go to the memory behind their address. One ID each way; a clock each way for addresses and
// data, none for answers.

module crosslane_memory_guard
  import crosslane_memory_pkg::*;
#(
    parameter int unsigned OUTSTANDING = 32  // bursts each way, a power of two
) (
    input  logic            clk,
    input  logic            rst,        // of the memory
    input  logic            stop,       // what uses it is reset
    // verilator lint_off UNUSEDSIGNAL
    input  memory_request_t s_request,  // its wlast is not looked at
    // verilator lint_on UNUSEDSIGNAL
    output memory_answer_t  s_answer,
    output memory_request_t m_request,
    input  memory_answer_t  m_answer
);
  localparam int unsigned COUNT_BITS = $clog2(OUTSTANDING);
  typedef logic [COUNT_BITS:0] count_t;

  // --- What the memory owes an answer to -------------------------------------------------------
  count_t writes, reads;
  logic is_ending, is_closed;
  logic aw_take, ar_take, b_take, r_take_last;

  assign is_closed   = stop || is_ending;
  assign aw_take     = s_request.awvalid && s_answer.awready;
  assign ar_take     = s_request.arvalid && s_answer.arready;
  assign b_take      = m_answer.bvalid && m_request.bready;
  assign r_take_last = m_answer.rvalid && m_request.rready && m_answer.rlast;

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
  logic lengths_ready, length_valid, can_write, can_read;
  logic [7:0] length;

  assign can_write = !writes[COUNT_BITS] && lengths_ready && !is_closed;
  assign can_read = !reads[COUNT_BITS] && !is_closed;
  assign s_answer.awready = (!m_request.awvalid || m_answer.awready) && can_write;
  assign s_answer.arready = (!m_request.arvalid || m_answer.arready) && can_read;

  always_ff @(posedge clk) begin
    if (!m_request.awvalid || m_answer.awready) begin
      m_request.awvalid <= aw_take;
      m_request.awaddr  <= s_request.awaddr;
      m_request.awlen   <= s_request.awlen;
    end
    if (!m_request.arvalid || m_answer.arready) begin
      m_request.arvalid <= ar_take;
      m_request.araddr  <= s_request.araddr;
      m_request.arlen   <= s_request.arlen;
    end
    if (rst) begin
      m_request.awvalid <= 1'b0;
      m_request.arvalid <= 1'b0;
    end
  end

  // --- Data, of the bursts whose address has been taken ----------------------------------------
  logic moves, w_take, is_last;
  logic [7:0] beat;

  assign moves = !m_request.wvalid || m_answer.wready;
  assign s_answer.wready = moves && length_valid && !is_closed;
  assign w_take = moves && length_valid && (s_request.wvalid || is_closed);
  assign is_last = beat == length;

  crosslane_fifo #(
      .WIDTH(8),
      .DEPTH(OUTSTANDING)
  ) lengths (
      .clk,
      .rst,
      .s_valid(aw_take),
      .s_ready(lengths_ready),
      .s_data (s_request.awlen),
      .m_valid(length_valid),
      .m_ready(w_take && is_last),
      .m_data (length),
      .count  ()
  );

  always_ff @(posedge clk) begin
    if (moves) begin
      m_request.wvalid <= w_take;
      m_request.wdata  <= s_request.wdata;
      m_request.wstrb  <= is_closed ? '0 : s_request.wstrb;
      m_request.wlast  <= is_last;
    end
    if (w_take) beat <= is_last ? '0 : beat + 1'b1;
    if (rst) begin
      m_request.wvalid <= 1'b0;
      beat <= '0;
    end
  end

  // --- Answers ---------------------------------------------------------------------------------
  assign s_answer.bvalid  = m_answer.bvalid && !is_closed;
  assign m_request.bready = s_request.bready || is_closed;
  assign s_answer.bresp   = m_answer.bresp;
  assign s_answer.rvalid  = m_answer.rvalid && !is_closed;
  assign m_request.rready = s_request.rready || is_closed;
  assign s_answer.rdata   = m_answer.rdata;
  assign s_answer.rresp   = m_answer.rresp;
  assign s_answer.rlast   = m_answer.rlast;
endmodule
