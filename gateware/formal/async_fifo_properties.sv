// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_async_fifo: with any two clocks it never holds more than fits, and nothing is lost,
// doubled or out of order. One entry, chosen by the solver, is followed through it. Each step of
// the solver may have an edge of either clock, of both or of neither.

module async_fifo_properties #(
    parameter int unsigned WIDTH = 2,
    parameter int unsigned DEPTH = 4
) (
    input logic             s_clk,
    input logic             m_clk,
    input logic             s_valid,
    input logic [WIDTH-1:0] s_data,
    input logic             m_ready
);
  logic s_ready, m_valid;
  logic [WIDTH-1:0] m_data;
  // Each side's reset lasts until it has had its first edges.
  logic [2:0] s_edges = '0, m_edges = '0;
  logic s_rst, m_rst;
  assign s_rst = s_edges < 3'd3 || m_edges < 3'd3;
  assign m_rst = s_rst;

  crosslane_async_fifo #(
      .WIDTH(WIDTH),
      .DEPTH(DEPTH)
  ) fifo (
      .*
  );

  // Counted on each side, so that only a few bits are compared.
  logic [3:0] put = '0, taken = '0;
  logic [WIDTH-1:0] value;
  // Any number, constant.
  logic [3:0] followed;

  always_ff @(posedge s_clk) begin
    followed <= followed;
    if (s_edges != 3'd7) s_edges <= s_edges + 1'b1;
    if (s_valid && s_ready) begin
      put <= put + 1'b1;
      if (put == followed) value <= s_data;
    end
  end

  always_ff @(posedge m_clk) begin
    if (m_edges != 3'd7) m_edges <= m_edges + 1'b1;
    if (m_valid && m_ready && !m_rst) taken <= taken + 1'b1;
  end

  always_comb begin
    if (!s_rst) begin
      assume (put != 4'd15);
      assert (taken <= put);
      // The output register holds one more than the memory.
      assert (put - taken <= 4'(DEPTH + 1));
      if (m_valid && taken == followed) assert (m_data == value);
    end
  end
endmodule
