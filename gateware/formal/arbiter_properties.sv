// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_arbiter: TLPs leave whole and one at a time, and begin only if their class has room;
// answers first; and no source that may send waits for more TLPs than there are other sources.

module arbiter_properties
  import crosslane_pkg::*;
#(
    parameter int unsigned SOURCES = 3
) (
    input logic                    clk,
    input logic                    rst,
    input room_t                   room_i,
    input logic                    s_answer_valid,
    input logic                    s_answer_last,
    input logic      [SOURCES-1:0] s_valid,
    input logic      [SOURCES-1:0] s_last,
    input tlp_kind_e [SOURCES-1:0] kind,
    input logic                    m_tx_ready
);
  localparam int unsigned COUNT_BITS = 4;

  logic s_answer_ready, m_tx_valid, m_tx_first, m_tx_last;
  logic [SOURCES-1:0] s_ready, s_first;
  tlp_header_t [SOURCES-1:0] s_header;
  tlp_header_t m_tx_header, answer_header;
  logic [7:0] m_tx_data;
  logic is_reset = 1'b0;

  // Sources in the middle of a TLP; index SOURCES is the answers.
  logic [SOURCES:0] partway, taken, lasts;
  assign taken = {s_answer_valid && s_answer_ready, s_valid & s_ready};
  assign lasts = {s_answer_last, s_last};

  always_comb begin
    answer_header = '0;
    answer_header.kind = COMPLETION_DATA;
    for (int unsigned n = 0; n < SOURCES; n++) begin
      s_header[n] = '0;
      s_header[n].kind = kind[n];
      s_first[n] = !partway[n];
    end
  end

  crosslane_arbiter #(
      .DATA_BITS(8),
      .SOURCES  (SOURCES)
  ) arbiter (
      .clk,
      .rst,
      .room_i,
      .s_answer_valid,
      .s_answer_ready,
      .s_answer_header(answer_header),
      .s_answer_first(!partway[SOURCES]),
      .s_answer_last,
      .s_answer_data(8'h0),
      .s_valid,
      .s_ready,
      .s_header,
      .s_first,
      .s_last,
      .s_data('0),
      .m_tx_valid,
      .m_tx_ready,
      .m_tx_header,
      .m_tx_first,
      .m_tx_last,
      .m_tx_data
  );

  // TLPs of other sources that began while this one could have; sources behind the last in turn.
  logic [SOURCES-1:0] can, begins, behind;
  logic [SOURCES-1:0][COUNT_BITS-1:0] passed, ahead;
  logic [SOURCES-1:0][SOURCES-1:0] goes_before;
  assign begins = s_valid & s_ready & ~partway[SOURCES-1:0];

  always_comb begin
    for (int unsigned n = 0; n < SOURCES; n++) begin
      can[n] = s_valid[n] && (kind[n] == MEMORY_READ ? room_i.nonposted :
                              kind[n] == MEMORY_WRITE ? room_i.posted : room_i.completion);
      // TLPs that may still go before it: of the sources ahead in the turn.
      ahead[n] = '0;
      for (int unsigned m = 0; m < SOURCES; m++) begin
        goes_before[n][m] = (behind[m] == behind[n]) ? m < n : behind[m];
        if (goes_before[n][m]) ahead[n] = ahead[n] + 1'b1;
      end
    end
  end

  always_ff @(posedge clk) begin
    is_reset <= 1'b1;
    for (int unsigned n = 0; n <= SOURCES; n++) begin
      if (taken[n]) partway[n] <= !lasts[n];
    end
    for (int unsigned n = 0; n < SOURCES; n++) begin
      if (!can[n] || begins[n] || partway[n]) passed[n] <= '0;
      else if (begins != '0) passed[n] <= passed[n] + 1'b1;
    end
    if (begins != '0) behind <= ~(begins | (begins - 1'b1));
    if (rst) begin
      partway <= '0;
      passed  <= '0;
      behind  <= '0;
    end
  end

  always_comb begin
    if (!is_reset) begin
      assume (rst);
    end else if (!rst) begin
      // No source pauses in the middle of a TLP.
      assume ((partway & ~{s_answer_valid, s_valid}) == '0);

      assert ((taken & (taken - 1'b1)) == '0);
      assert ((partway & (partway - 1'b1)) == '0);
      assert (arbiter.is_within == (partway != '0));
      if (partway != '0) begin
        assert (arbiter.holder == {partway[SOURCES-1:0], partway[SOURCES]});
        assert ((taken & ~partway) == '0);
      end
      // A TLP that begins has room.
      assert ((begins & ~can) == '0);
      if (s_answer_valid && s_answer_ready && !partway[SOURCES]) assert (room_i.completion);
      // An answer that may be sent is passed by no TLP.
      if (s_answer_valid && room_i.completion && !partway[SOURCES]) assert (begins == '0);
      // The turn always has the form: all from an index on.
      assert ((~behind & (~behind + 1'b1)) == '0);
      assert (arbiter.goes_before == goes_before);
      for (int unsigned n = 0; n < SOURCES; n++) begin
        if (can[n] && !partway[n]) assert (8'(passed[n]) + 8'(ahead[n]) <= 8'(SOURCES - 1));
      end
      // No idle clock while a source may send.
      if ((can & ~partway[SOURCES-1:0]) != '0 && partway == '0 && (!m_tx_valid || m_tx_ready)) begin
        assert (taken != '0);
      end
    end
  end
endmodule
