// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A FIFO in distributed memory whose oldest entry is always visible. REGISTERED: it is in a register
// too, for paths that begin with it; else nothing differs.

module crosslane_fifo #(
    parameter int unsigned WIDTH = 32,
    parameter int unsigned DEPTH = 16,  // a power of two, from 2
    parameter bit REGISTERED = 0,
    localparam int unsigned INDEX_BITS = $clog2(DEPTH)
) (
    input  logic                clk,
    input  logic                rst,      // empties it
    input  logic                s_valid,
    output logic                s_ready,
    input  logic [   WIDTH-1:0] s_data,
    output logic                m_valid,
    input  logic                m_ready,
    output logic [   WIDTH-1:0] m_data,
    output logic [INDEX_BITS:0] count
);
  (* ram_style = "distributed" *) logic [WIDTH-1:0] memory[DEPTH];
  logic [INDEX_BITS:0] head, tail;

  assign count   = tail - head;
  assign s_ready = !count[INDEX_BITS];

  always_ff @(posedge clk) begin
    if (s_valid && s_ready) begin
      memory[tail[INDEX_BITS-1:0]] <= s_data;
      tail <= tail + 1'b1;
    end
    if (m_valid && m_ready) head <= head + 1'b1;
    if (rst) begin
      head <= '0;
      tail <= '0;
    end
  end

  if (REGISTERED) begin : g_register
    logic [INDEX_BITS-1:0] next;
    logic has_next;
    assign next = head[INDEX_BITS-1:0] + 1'b1;
    assign has_next = count[INDEX_BITS:1] != '0;
    always_ff @(posedge clk) begin
      m_valid <= (s_valid && s_ready) || has_next || (m_valid && !m_ready);
      // Gates: of a multiplexer with a 0 yosys makes a register's reset, which takes longer.
      if (m_ready || !m_valid) begin
        m_data <= ({WIDTH{has_next}} & memory[next]) | ({WIDTH{!has_next}} & s_data);
      end
      if (rst) m_valid <= 1'b0;
    end
  end else begin : g_memory
    assign m_valid = tail != head;
    assign m_data  = memory[head[INDEX_BITS-1:0]];
  end

`ifndef SYNTHESIS
  if (DEPTH != 1 << INDEX_BITS || DEPTH < 2) begin : g_depth
    $error("DEPTH is a power of two, from 2");
  end
`endif
endmodule
