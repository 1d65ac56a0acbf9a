// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_fifo: never holds more than fits, and nothing is lost, doubled or out of order. One
// entry, chosen by the solver, is followed through it.

module fifo_properties #(
    parameter int unsigned WIDTH = 4,
    parameter int unsigned DEPTH = 4,
    parameter bit REGISTERED = 0
) (
    input logic             clk,
    input logic             rst,
    input logic             s_valid,
    input logic [WIDTH-1:0] s_data,
    input logic             m_ready,
    input logic [      7:0] followed
);
  localparam int unsigned INDEX_BITS = $clog2(DEPTH);

  logic s_ready, m_valid;
  logic [WIDTH-1:0] m_data;
  logic [INDEX_BITS:0] count;

  crosslane_fifo #(
      .WIDTH(WIDTH),
      .DEPTH(DEPTH),
      .REGISTERED(REGISTERED)
  ) fifo (
      .*
  );

  // Entries put in and taken out since the reset, and the followed one.
  logic [7:0] put, taken;
  logic [WIDTH-1:0] value;
  logic [7:0] followed_before;
  logic is_reset = 1'b0;

  always_ff @(posedge clk) begin
    is_reset <= 1'b1;
    followed_before <= followed;
    if (rst) begin
      put   <= '0;
      taken <= '0;
    end else begin
      if (s_valid && s_ready) begin
        put <= put + 1'b1;
        if (put == followed) value <= s_data;
      end
      if (m_valid && m_ready) taken <= taken + 1'b1;
    end
  end

  always_comb begin
    if (!is_reset) begin
      assume (rst);
    end else begin
      // Limit of the solver's counters.
      assume (put < 8'd255);
      assume (followed == followed_before);
      assert (taken <= put);
      assert (8'(count) == put - taken);
      assert (count <= (INDEX_BITS + 1)'(DEPTH));
      assert (s_ready == (count < (INDEX_BITS + 1)'(DEPTH)));
      assert (m_valid == (count != '0));
      if (m_valid && taken == followed) assert (m_data == value);
      // Position of the followed entry in the memory.
      if (taken <= followed && followed < put) begin
        assert (fifo.memory[INDEX_BITS'(followed)] == value);
      end
      assert (fifo.head == taken[INDEX_BITS:0]);
      assert (fifo.tail == put[INDEX_BITS:0]);
    end
  end
endmodule
