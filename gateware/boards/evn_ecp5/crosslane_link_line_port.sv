// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A port whose lanes take turns on one line (docs/torus-link.md, Lanes that share a line), and in
// its place, where asked for, the test of that line.

module crosslane_link_line_port
  import crosslane_link_pkg::*;
#(
    parameter  int unsigned LANES                 = 8,          // 4 or 8
    parameter  int unsigned CHANNEL_DATAGRAMS     = 16,         // these as in crosslane_link_end
    parameter  int unsigned QUEUE_DATAGRAMS       = 2,
    parameter  int unsigned RETRY_DATAGRAMS       = 32,
    parameter  int unsigned ACKNOWLEDGE_DATAGRAMS = 8,
    parameter  int unsigned ACKNOWLEDGE_WITHIN    = 204,
    parameter  int unsigned RETRY_TIMEOUT         = 918,
    parameter  int unsigned REFRESH               = 1598,
    // Clocks without a link, a power of two, behind which columns are looked for anew: more than
    // any training takes.
    parameter  int unsigned SEARCH                = 8192,
    localparam int unsigned BITS                  = 20 * LANES  // of a word of the line
) (
    input logic clk,
    input logic rst,
    input logic enable,
    input logic tests_line,  // PRBS-31 in place of the link
    input logic [15:0] first_session,  // another in each reset
    // Of the transceiver: `tx_line` is new in each clock with `tx_begins_word`.
    output logic tx_enable,
    output logic tx_begins_word,
    output logic [BITS-1:0] tx_line,
    input logic rx_clk,
    input logic rx_detected,  // in no clock
    input logic [BITS-1:0] rx_line,
    // Datagrams, as in crosslane_link_end.
    input logic s_valid,
    output logic s_ready,
    input logic [2:0] s_channel,
    input label_t s_label,
    input logic [8*LANES-1:0] s_data,
    output logic m_valid,
    input logic [CHANNELS-1:0] m_ready,
    output logic [2:0] m_channel,
    output label_t m_label,
    output logic m_first,
    output logic m_last,
    output logic [8*LANES-1:0] m_data,
    // State and counters.
    output port_state_e state,
    output lane_counters_t lane_counters,
    output logic [LANES-1:0][31:0] lane_errors,
    output link_counters_t counters,
    output logic line_in_step,
    output logic [31:0] line_wrong_bits,
    output logic [31:0] line_steps_lost
);
  logic port_rst, rx_rst;
  crosslane_reset_pair resets (
      .a_clk  (clk),
      .a_rst  (rst),
      .a_rst_o(port_rst),
      .b_clk  (rx_clk),
      .b_rst  (1'b0),
      .b_rst_o(rx_rst)
  );

  // --- Turns ---------------------------------------------------------------------------------
  logic port_enable;
  logic [LANES-1:0][19:0] tx_words, rx_words;
  logic [BITS-1:0] tx_turns, tx_pattern;
  assign tx_line = tests_line ? tx_pattern : tx_turns;
  always_comb begin
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      for (int unsigned s = 0; s < 2; s++) begin
        tx_turns[10*(LANES*s+lane)+:10] = tx_words[lane][10*s+:10];
      end
    end
  end

  logic detected, found, again;
  crosslane_synchronizer signal (
      .clk(rx_clk),
      .rst(rx_rst),
      .s  (rx_detected),
      .m  (detected)
  );
  crosslane_link_turns #(
      .LANES(LANES)
  ) turns (
      .clk(rx_clk),
      .rst(rx_rst),
      .detected,
      .again,
      .s_word(rx_line),
      .found,
      .words(rx_words)
  );

  // A column that was taken for one by chance, or bits that were lost: no link comes up with it.
  logic [$clog2(SEARCH)-1:0] searched;
  logic asks;
  always_ff @(posedge clk) begin
    searched <= searched + 1'b1;
    asks <= &searched;
    if (state == PORT_UP || port_rst) searched <= '0;
  end
  crosslane_async_fifo #(
      .WIDTH(1),
      .DEPTH(4)
  ) requests (
      .s_clk  (clk),
      .s_rst  (port_rst),
      .s_valid(asks),
      .s_ready(),
      .s_data (1'b0),
      .m_clk  (rx_clk),
      .m_rst  (rx_rst),
      .m_valid(again),
      .m_ready(1'b1),
      .m_data ()
  );

  // --- The port ------------------------------------------------------------------------------
  logic port_tx_enable;
  assign port_enable = enable && !tests_line;
  assign tx_enable   = port_tx_enable || tests_line;
  crosslane_link_port #(
      .LANES(LANES),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
      .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
      .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
      .ACKNOWLEDGE_WITHIN(ACKNOWLEDGE_WITHIN),
      .RETRY_TIMEOUT(RETRY_TIMEOUT),
      .REFRESH(REFRESH)
  ) link_port (
      .rst(port_rst),
      .enable(port_enable),
      .retrain(1'b0),
      .tx_enable(port_tx_enable),
      .rx_detected({LANES{found}}),
      .room(),
      .session(),
      .session_seen(),
      .progress(),
      .lane_turned(),
      .in_error(),
      .is_settled(),
      .unacknowledged(),
      .expected(),
      .timeouts_in_a_row(),
      .credit(),
      .*
  );

  // --- The test of the line ------------------------------------------------------------------
  // PRBS-31 on the line, in bits by turns: each eighth bit of it is the same sequence elsewhere. So
  // each turn is tested by itself, and it does not matter where a word begins.
  typedef logic [LANES-1:0][30:0] seeds_t;
  function automatic seeds_t seeds();
    logic [31*LANES-1:0] bits;
    bits = '1;
    for (int unsigned n = 31; n < 31 * LANES; n++) bits[n] = bits[n-28] ^ bits[n-31];
    for (int unsigned n = 0; n < 31 * LANES; n++) seeds[n%LANES][n/LANES] = bits[n];
  endfunction

  // Its words change behind a pulse; those of the port, with one.
  logic is_second;
  always_ff @(posedge clk) is_second <= tx_begins_word;
  logic [LANES-1:0][19:0] tx_streams, rx_streams;
  always_comb begin
    for (int unsigned n = 0; n < BITS; n++) begin
      tx_pattern[n] = tx_streams[n%LANES][n/LANES];
      rx_streams[n%LANES][n/LANES] = rx_line[n];
    end
  end

  logic [LANES-1:0] in_step;
  logic [LANES-1:0][31:0] wrong_bits, steps_lost;
  crosslane_link_line_test #(
      .LANES(LANES),
      .SEEDS(seeds())
  ) line_test (
      .clk,
      .rst(port_rst),
      .tx_begins_word(is_second),
      .tx_words(tx_streams),
      .rx_clk,
      .rx_rst,
      .rx_words(rx_streams),
      .in_step,
      .wrong_bits,
      .steps_lost
  );
  logic [31:0] wrong_sum, rx_wrong_bits;
  always_comb begin
    wrong_sum = '0;
    for (int unsigned n = 0; n < LANES; n++) wrong_sum += wrong_bits[n];
  end
  always_ff @(posedge rx_clk) rx_wrong_bits <= wrong_sum;

  logic counts_valid;
  logic [64:0] counts;
  crosslane_async_fifo #(
      .WIDTH(65),
      .DEPTH(4)
  ) line_counts (
      .s_clk  (rx_clk),
      .s_rst  (rx_rst),
      .s_valid(1'b1),
      .s_ready(),
      .s_data ({&in_step, rx_wrong_bits, steps_lost[0]}),
      .m_clk  (clk),
      .m_rst  (port_rst),
      .m_valid(counts_valid),
      .m_ready(1'b1),
      .m_data (counts)
  );
  always_ff @(posedge clk) begin
    if (counts_valid) {line_in_step, line_wrong_bits, line_steps_lost} <= counts;
    if (port_rst) {line_in_step, line_wrong_bits, line_steps_lost} <= '0;
  end

  logic unused;
  assign unused = &{1'b0, steps_lost};

`ifndef SYNTHESIS
  if (LANES != 4 && LANES != 8) begin : g_lanes
    $error("LANES is 4 or 8");
  end
`endif
endmodule
