// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A user circuit: takes grey-scale pixels, a byte each, and gives them brighter by a constant, white
// at most. One beat a clock. A beat may have any number of bytes, so tkeep goes along unchanged.

module brighten #(
    parameter int unsigned BYTES = 8,
    parameter logic [7:0] ADDED = 8'd40
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [BYTES-1:0][7:0] s_axis_tdata,
    input  logic [BYTES-1:0]      s_axis_tkeep,
    input  logic                  s_axis_tvalid,
    output logic                  s_axis_tready,
    output logic [BYTES-1:0][7:0] m_axis_tdata,
    output logic [BYTES-1:0]      m_axis_tkeep,
    output logic                  m_axis_tvalid,
    input  logic                  m_axis_tready
);
  assign s_axis_tready = !m_axis_tvalid || m_axis_tready;

  function automatic logic [7:0] brighter(logic [7:0] pixel);
    logic [8:0] sum;
    sum = pixel + 9'(ADDED);
    return sum[8] ? 8'hFF : sum[7:0];
  endfunction

  always_ff @(posedge clk) begin
    if (s_axis_tready) begin
      for (int i = 0; i < BYTES; i++) m_axis_tdata[i] <= brighter(s_axis_tdata[i]);
      m_axis_tkeep  <= s_axis_tkeep;
      m_axis_tvalid <= s_axis_tvalid;
    end
    if (rst) m_axis_tvalid <= 1'b0;
  end
endmodule
