// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_skid: holds two entries at most, takes one whenever it holds fewer, and nothing is
// lost, doubled or out of order. One entry, chosen by the solver, is followed through it.

module skid_properties #(
    parameter int unsigned WIDTH = 4
) (
    input logic             clk,
    input logic             rst,
    input logic             s_valid,
    input logic [WIDTH-1:0] s_data,
    input logic             m_ready,
    input logic [      7:0] followed
);
  logic s_ready, m_valid;
  logic [WIDTH-1:0] m_data;

  crosslane_skid #(.WIDTH(WIDTH)) skid (.*);

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
      assert (put - taken == 8'(m_valid) + 8'(skid.is_full));
      assert (!skid.is_full || m_valid);
      assert (s_ready == (put - taken < 8'd2));
      if (m_valid && taken == followed) assert (m_data == value);
      if (skid.is_full && taken + 8'd1 == followed) begin
        assert ((skid.oldest ? skid.entries[0] : skid.entries[1]) == value);
      end
    end
  end
endmodule
