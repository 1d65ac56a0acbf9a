// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Writes zeros to a memory before anything else goes there. One with ECC needs that: it reads a word
// of which a part is written, and before its first write a word has no valid check bits. Afterwards
// it passes everything on, with no clock in between.

module crosslane_memory_clear
  import crosslane_memory_pkg::*;
#(
    parameter int unsigned DATA_BITS = 512,
    parameter int unsigned CLEARED_BITS = 30,  // of the addresses from 0 on that are cleared
    parameter int unsigned OUTSTANDING = 16  // bursts without an answer
) (
    input  logic            clk,
    input  logic            rst,        // the memory cannot be used yet
    output logic            done,       // until then `s` is reset
    input  memory_request_t s_request,
    output memory_answer_t  s_answer,
    output memory_request_t m_request,
    input  memory_answer_t  m_answer
);
  localparam int unsigned BURST_BEATS = 16;
  localparam int unsigned BURST_BITS = $clog2(BURST_BEATS * DATA_BITS / 8);
  // One bit more than there are bursts: it is set behind the last one.
  localparam int unsigned COUNT_BITS = CLEARED_BITS - BURST_BITS;
  typedef logic [COUNT_BITS:0] count_t;

  count_t asked, written, answered;  // bursts
  logic [$clog2(BURST_BEATS)-1:0] beat;
  logic awvalid, wvalid, wlast;
  count_t open;

  assign open = asked - answered;
  assign awvalid = !rst && !asked[COUNT_BITS] && open != count_t'(OUTSTANDING);
  assign wvalid = written != asked;
  assign wlast = beat == '1;

  always_comb begin
    m_request = s_request;
    if (!done) begin
      m_request = '0;
      m_request.awvalid = awvalid;
      m_request.awaddr[CLEARED_BITS-1:BURST_BITS] = asked[COUNT_BITS-1:0];
      m_request.awlen = 8'(BURST_BEATS - 1);
      m_request.wvalid = wvalid;
      m_request.wstrb = '1;
      m_request.wlast = wlast;
      m_request.bready = 1'b1;
    end
  end
  assign s_answer = m_answer;

  always_ff @(posedge clk) begin
    if (!done) begin
      asked <= asked + count_t'(awvalid && m_answer.awready);
      if (wvalid && m_answer.wready) begin
        beat <= beat + 1'b1;
        written <= written + count_t'(wlast);
      end
      answered <= answered + count_t'(m_answer.bvalid);
    end
    done <= answered[COUNT_BITS];
    if (rst) begin
      asked <= '0;
      written <= '0;
      answered <= '0;
      beat <= '0;
      done <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  if (CLEARED_BITS < BURST_BITS || OUTSTANDING < 1 || COUNT_BITS < $clog2(
          OUTSTANDING
      )) begin : g_bits
    $error("fewer bursts than may be without an answer");
  end
`endif
endmodule
