// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Addresses of two sources on one AXI4 channel, in turn. An offer stays until it is taken.

module crosslane_memory_turn #(
    parameter int unsigned WIDTH = 48
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic                        has_room,  // another burst may begin
    input  logic [      1:0]            s_valid,
    output logic [      1:0]            s_ready,
    input  logic [      1:0][WIDTH-1:0] s_data,
    output logic                        m_valid,
    input  logic                        m_ready,
    output logic [WIDTH-1:0]            m_data,
    output logic                        chosen,    // whose it is
    output logic                        begins     // its first clock
);
  logic is_offered, kept, preferred;

  assign chosen  = is_offered ? kept : s_valid[preferred] ? preferred : !preferred;
  assign begins  = !is_offered && s_valid != '0 && has_room;
  assign m_valid = is_offered || begins;
  assign m_data  = s_data[chosen];
  always_comb begin
    s_ready = '0;
    s_ready[chosen] = m_valid && m_ready;
  end

  always_ff @(posedge clk) begin
    is_offered <= m_valid && !m_ready && !rst;
    kept <= chosen;
    if (begins) preferred <= !chosen;
    if (rst) preferred <= 1'b0;
  end
endmodule
