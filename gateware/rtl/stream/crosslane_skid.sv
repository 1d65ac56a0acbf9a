// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Two registers, so that `s_ready` is a register and depends on nothing in this clock. One clock
// from input to output, and an entry in each clock. Both are written by what the input side knows,
// and `m_ready` only chooses between them: it may come late in the clock.

module crosslane_skid #(
    parameter int unsigned WIDTH = 32
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             s_valid,
    output logic             s_ready,
    input  logic [WIDTH-1:0] s_data,
    output logic             m_valid,
    input  logic             m_ready,
    output logic [WIDTH-1:0] m_data
);
  logic is_full, oldest, put;
  logic [1:0][WIDTH-1:0] entries;

  assign s_ready = !is_full;
  assign put = s_valid && s_ready;
  assign m_data = oldest ? entries[1] : entries[0];

  always_ff @(posedge clk) begin
    if (!is_full && oldest == m_valid) entries[0] <= s_data;
    if (!is_full && oldest != m_valid) entries[1] <= s_data;
    m_valid <= put || is_full || (m_valid && !m_ready);
    is_full <= m_valid && !m_ready && (is_full || put);
    if (m_valid && m_ready) oldest <= !oldest;
    if (rst) begin
      m_valid <= 1'b0;
      is_full <= 1'b0;
      oldest  <= 1'b0;
    end
  end
endmodule
