// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A FIFO from one clock to another: pointers in Gray code, registered output. With 16 entries or
// more it passes one word per clock of the slower side. Latency from s to m: one clock of s_clk,
// then STAGES + 1 to STAGES + 2 of m_clk.
//
// s_rst and m_rst are one event in two clock domains: they overlap by STAGES + 1 clocks of the
// slower one, and empty the FIFO. They may end in either order.

module crosslane_async_fifo #(
    parameter int unsigned WIDTH  = 32,
    parameter int unsigned DEPTH  = 16,         // a power of two, from 4
    parameter int unsigned STAGES = 2,          // of the synchronisers
    parameter bit          BLOCK  = DEPTH > 64  // in block memory; else in distributed memory
) (
    input  logic             s_clk,
    input  logic             s_rst,
    input  logic             s_valid,
    output logic             s_ready,
    input  logic [WIDTH-1:0] s_data,
    input  logic             m_clk,
    input  logic             m_rst,
    output logic             m_valid,
    input  logic             m_ready,
    output logic [WIDTH-1:0] m_data
);
  localparam int unsigned INDEX_BITS = $clog2(DEPTH);
  // One bit more than an index: full and empty differ.
  typedef logic [INDEX_BITS:0] pointer_t;

  function automatic pointer_t gray(input pointer_t count);
    return count ^ (count >> 1);
  endfunction

  pointer_t tail, tail_gray, tail_seen, head, head_gray, head_seen;
  logic put, get;

  // --- In: s_clk -----------------------------------------------------------------------------
  crosslane_synchronizer #(
      .WIDTH (INDEX_BITS + 1),
      .STAGES(STAGES)
  ) head_to_s (
      .clk(s_clk),
      .rst(s_rst),
      .s  (head_gray),
      .m  (head_seen)
  );

  // Full: DEPTH apart, which in Gray code inverts the two highest bits.
  logic full;
  assign full = tail_gray == {~head_seen[INDEX_BITS:INDEX_BITS-1], head_seen[INDEX_BITS-2:0]};
  assign s_ready = !full && !s_rst;
  assign put = s_valid && s_ready;

  always_ff @(posedge s_clk) begin
    if (put) begin
      tail <= tail + 1'b1;
      tail_gray <= gray(tail + 1'b1);
    end
    if (s_rst) begin
      tail <= '0;
      tail_gray <= '0;
    end
  end

  // --- Out: m_clk ----------------------------------------------------------------------------
  crosslane_synchronizer #(
      .WIDTH (INDEX_BITS + 1),
      .STAGES(STAGES)
  ) tail_to_m (
      .clk(m_clk),
      .rst(m_rst),
      .s  (tail_gray),
      .m  (tail_seen)
  );

  assign get = head_gray != tail_seen && (!m_valid || m_ready);

  always_ff @(posedge m_clk) begin
    if (get) begin
      head <= head + 1'b1;
      head_gray <= gray(head + 1'b1);
      m_valid <= 1'b1;
    end else if (m_ready) begin
      m_valid <= 1'b0;
    end
    if (m_rst) begin
      head <= '0;
      head_gray <= '0;
      m_valid <= 1'b0;
    end
  end

  // --- Memory --------------------------------------------------------------------------------
  if (BLOCK) begin : g_block
    (* ram_style = "block" *) logic [WIDTH-1:0] memory[DEPTH];
    always_ff @(posedge s_clk) if (put) memory[tail[INDEX_BITS-1:0]] <= s_data;
    always_ff @(posedge m_clk) if (get) m_data <= memory[head[INDEX_BITS-1:0]];
  end else begin : g_distributed
    (* ram_style = "distributed" *) logic [WIDTH-1:0] memory[DEPTH];
    always_ff @(posedge s_clk) if (put) memory[tail[INDEX_BITS-1:0]] <= s_data;
    always_ff @(posedge m_clk) if (get) m_data <= memory[head[INDEX_BITS-1:0]];
  end

`ifndef SYNTHESIS
  if (DEPTH != 1 << INDEX_BITS || DEPTH < 4) begin : g_depth
    $error("DEPTH is a power of two, from 4");
  end
`endif
endmodule
