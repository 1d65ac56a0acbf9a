// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// 64b/66b: line bits of all lanes, in the recovered clock, to columns in the clock of the end:
// alignment, deskew, crossing. Rows that were aligned before a `realign` are not shown behind it.

module crosslane_link_receive_rows
  import crosslane_link_block_pkg::*;
#(
    parameter int unsigned LANES = 8
) (
    // The recovered clock: a word in each of its clocks. Its reset and `rst` are one event:
    // crosslane_reset_pair.
    input  logic                   rx_clk,
    input  logic                   rx_rst,
    input  logic  [LANES-1:0]      rx_detected,
    input  line_t [LANES-1:0]      rx_words,
    input  logic                   clk,
    input  logic                   rst,
    input  logic                   realign,         // pulse: it begins anew
    // As in crosslane_link_row_columns.
    output logic                   begins,
    output logic                   is_aligned,
    output logic                   present,
    output logic  [LANES-1:0]      header_errors,
    output logic                   dropped,
    output logic                   slipped,         // pulse: rows were lost before the crossing
    output logic                   column_valid,
    output logic  [LANES-1:0][7:0] column_symbols,
    output logic  [LANES-1:0]      column_control,
    output logic  [LANES-1:0]      column_error
);
  typedef struct packed {
    logic               turn;
    logic               slipped;
    logic               is_aligned;
    logic               present;
    block_t [LANES-1:0] blocks;
  } row_t;

  // Each request passes the crossing once; 16 rows lie between two.
  logic rx_realign, may_ask;
  crosslane_async_fifo #(
      .WIDTH(1),
      .DEPTH(4)
  ) requests (
      .s_clk  (clk),
      .s_rst  (rst),
      .s_valid(realign),
      .s_ready(may_ask),
      .s_data (1'b0),
      .m_clk  (rx_clk),
      .m_rst  (rx_rst),
      .m_valid(rx_realign),
      .m_ready(1'b1),
      .m_data ()
  );

  row_t rx_row, row;
  logic may_put, row_valid, row_ready, is_current, turn;

  crosslane_link_block_deskew #(
      .LANES(LANES)
  ) deskew (
      .clk       (rx_clk),
      .rst       (rx_rst),
      .realign   (rx_realign),
      .detected  (rx_detected),
      .words     (rx_words),
      .is_aligned(rx_row.is_aligned),
      .present   (rx_row.present),
      .blocks    (rx_row.blocks),
      .turn      (rx_row.turn),
      .row_ready (may_put),
      .has_lost  (rx_row.slipped)
  );

  crosslane_async_fifo #(
      .WIDTH($bits(row_t)),
      .DEPTH(16)
  ) crossing (
      .s_clk  (rx_clk),
      .s_rst  (rx_rst),
      .s_valid(1'b1),
      .s_ready(may_put),
      .s_data (rx_row),
      .m_clk  (clk),
      .m_rst  (rst),
      .m_valid(row_valid),
      .m_ready(row_ready || !is_current),
      .m_data (row)
  );

  always_ff @(posedge clk) begin
    if (realign && may_ask) turn <= !turn;
    slipped <= row_valid && (row_ready || !is_current) && row.slipped && !rst;
    if (rst) turn <= 1'b0;
  end
  // Those of a request that is still on its way are discarded.
  assign is_current = row.turn == turn && !realign;

  crosslane_link_row_columns #(
      .LANES(LANES)
  ) columns (
      .restart    (realign),
      .row_valid  (row_valid && is_current),
      .row_ready,
      .row_aligned(row.is_aligned),
      .row_present(row.present),
      .row_blocks (row.blocks),
      .*
  );
endmodule
