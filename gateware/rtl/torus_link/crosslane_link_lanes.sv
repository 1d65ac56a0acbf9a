// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The lanes of a torus link: between the columns of an end and the words of the transceivers. Code,
// skip sets, alignment, deskew, clocks that differ, training. Read first: docs/torus-link.md.

module crosslane_link_lanes
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES = 8,  // 1, 4 or 8
    parameter int unsigned SYMBOLS = 2,  // of a word of a transceiver: 2 or 4
    parameter int unsigned CHANNEL_DATAGRAMS = 64,  // of the end
    parameter bit LONG = 1'b0,  // datagrams of the end carry 256 B
    parameter bit BLOCKS = 1'b0,  // 64b/66b: words of 66 bits, and no SYMBOLS
    localparam int unsigned WORD_BITS = word_bits(BLOCKS, SYMBOLS)
) (
    // A column in each clock; with BLOCKS eight for each 66 line bits of a lane.
    input  logic                                      clk,
    input  logic                                      rst,
    input  logic                                      enable,
    input  logic                                      retrain,                // pulse
    input  logic           [     15:0]                first_session,
    input  logic                                      counters_rst,           // with `rst`
    // Of the transceivers. Bit 0 of a word is sent, and comes, first. What is to be sent changes with
    // `tx_begins_word`, every SYMBOLS clocks (BLOCKS: 8); received is a word in each of the recovered clock's.
    output logic                                      tx_enable,
    output logic                                      tx_begins_word,
    output logic           [LANES-1:0][WORD_BITS-1:0] tx_words,
    input  logic                                      rx_clk,
    input  logic                                      rx_rst,                 // with `rst`
    input  logic           [LANES-1:0]                rx_detected,            // has a signal
    input  logic           [LANES-1:0][WORD_BITS-1:0] rx_words,
    // Of the end.
    output logic                                      end_rst,
    output logic                                      link_up,
    output logic           [      9:0]                far_channel_datagrams,
    input  logic           [      2:0]                timeouts_in_a_row,
    output logic                                      end_ready,
    input  logic           [LANES-1:0][          7:0] end_symbols,
    input  logic           [LANES-1:0]                end_control,
    input  logic                                      end_begins,
    output logic                                      column_restart,
    output logic                                      column_valid,
    output logic           [LANES-1:0][          7:0] column_symbols,
    output logic           [LANES-1:0]                column_control,
    output logic           [LANES-1:0]                column_error,
    input  link_events_t                              column_events,
    input  training_set_t                             column_set,
    // State and counters.
    output port_state_e                               state,
    output logic           [     15:0]                session,
    output logic           [     15:0]                session_seen,
    output progress_t                                 progress,
    output lane_counters_t                            counters,
    output logic           [LANES-1:0][         31:0] errors,                 // while up
    output logic           [LANES-1:0][         31:0] turned                  // of disparity
);
  logic counts, present, whole, dropped, doubled, slipped, realign, lost, disables, retrains;
  logic stage_2_sent, is_confirming;
  logic [LANES-1:0] wrong, wrong_turned;  // symbols or blocks, for the counters
  // Of a column, for training, two clocks later: beside the frame or set that it ended.
  logic counts_1, present_1, whole_1, counts_2, present_2, whole_2;
  assign is_confirming = state == PORT_CONFIRM;

  // --- Training ------------------------------------------------------------------------------
  logic [2:0] up_for;
  assign link_up = state == PORT_UP;
  assign realign = column_restart || disables;

  crosslane_link_training #(
      .LANES(LANES),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .LONG(LONG),
      .STEP(BLOCKS ? 8 : 1)
  ) training (
      .retrain(retrains),
      .counts (counts_2),
      .present(present_2),
      .whole  (whole_2),
      .events (column_events),
      .set    (column_set),
      .restart(column_restart),
      .*
  );

  always_ff @(posedge clk) begin
    if (!link_up) up_for <= '0;
    else if (up_for != '1) up_for <= up_for + 1'b1;
    // The end forgets its time-outs as the link comes up; `up_for` waits for that.
    retrains <= retrain || (up_for == '1 && timeouts_in_a_row >= 3'd4);
    if (rst) begin
      up_for   <= '0;
      retrains <= 1'b0;
    end
  end

  always_ff @(posedge clk) begin
    {counts_1, counts_2}   <= {counts, counts_1};
    {present_1, present_2} <= {present, present_1};
    {whole_1, whole_2}     <= {whole, whole_1};
    if (rst) begin
      {counts_1, counts_2}   <= {2{!BLOCKS}};
      {present_1, present_2} <= '0;
    end
  end
  assign end_rst = rst || state == PORT_DISABLED;

  if (BLOCKS) begin : g_blocks
    // --- 64b/66b -----------------------------------------------------------------------------
    logic begins, is_aligned;
    crosslane_link_receive_rows #(
        .LANES(LANES)
    ) receive (
        .header_errors(wrong),
        .*
    );
    assign wrong_turned = '0;
    assign doubled = 1'b0;
    // Rows are not counted before the lanes are aligned, which takes more of them than training may.
    assign counts = begins && (is_aligned || link_up);
    assign whole = wrong == '0;

    crosslane_link_rows #(
        .LANES(LANES),
        .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
        .LONG(LONG)
    ) rows (
        .is_off    (end_rst),
        .row_begins(tx_begins_word),
        .row_enable(tx_enable),
        .row       (tx_words),
        .*
    );
  end else begin : g_columns
    // --- 8b/10b, receiving -------------------------------------------------------------------
    logic [LANES-1:0][SYMBOLS-1:0][9:0] rx_codes;
    lane_symbol_t [LANES-1:0] column;
    assign counts = 1'b1;

    always_comb begin
      for (int unsigned lane = 0; lane < LANES; lane++) begin
        for (int unsigned s = 0; s < SYMBOLS; s++) begin
          for (int unsigned n = 0; n < 10; n++) rx_codes[lane][s][9-n] = rx_words[lane][10*s+n];
        end
      end
    end

    crosslane_link_receive_lanes #(
        .LANES  (LANES),
        .SYMBOLS(SYMBOLS)
    ) receive (
        .rx_words(rx_codes),
        .*
    );

    always_comb begin
      for (int unsigned lane = 0; lane < LANES; lane++) begin
        column_symbols[lane] = column[lane].value;
        column_control[lane] = column[lane].control;
        column_error[lane]   = column[lane].error;
      end
    end
    assign column_valid = present;
    assign whole = column_error == '0;
    assign wrong = present ? column_error : '0;
    assign wrong_turned = wrong & column_control;

    // --- 8b/10b, sending -------------------------------------------------------------------------
    logic [LANES-1:0][7:0] symbols;
    logic [LANES-1:0] control;
    logic [LANES-1:0][9:0] codes;
    logic [1:0] is_enabled;

    crosslane_link_columns #(
        .LANES(LANES),
        .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
        .LONG(LONG)
    ) columns (
        .rst(end_rst),
        .*
    );

    for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
      crosslane_link_encode encode (
          .clk,
          .rst(!is_enabled[0]),
          .valid(is_enabled[0]),
          .symbol(symbols[lane]),
          .control(control[lane]),
          .code(codes[lane]),
          .positive()
      );
    end

    logic [$clog2(SYMBOLS)-1:0] tx_at;
    logic [LANES-1:0][10*SYMBOLS-1:0] tx_next, gathered;
    always_comb begin
      for (int unsigned lane = 0; lane < LANES; lane++) begin
        // The newest bits are the highest.
        gathered[lane] = {10'd0, tx_next[lane][10*SYMBOLS-1:10]};
        for (int unsigned n = 0; n < 10; n++) begin
          gathered[lane][10*(SYMBOLS-1)+n] = codes[lane][9-n];
        end
      end
    end
    always_ff @(posedge clk) begin
      is_enabled <= {is_enabled[0], !end_rst};
      tx_next <= gathered;
      tx_at <= tx_at + 1'b1;
      tx_begins_word <= tx_at == '0;
      if (tx_at == '0) begin
        tx_words  <= gathered;
        tx_enable <= is_enabled[1];
      end
      if (rst) begin
        is_enabled <= '0;
        tx_at <= '0;
        tx_begins_word <= 1'b0;
        tx_enable <= 1'b0;
      end
    end
  end

  // --- Counters ------------------------------------------------------------------------------
  always_ff @(posedge clk) begin
    counters.losses <= counters.losses + 32'(lost);
    counters.realigned <= counters.realigned + 32'(column_restart);
    counters.slipped <= counters.slipped + 32'(slipped);
    counters.dropped <= counters.dropped + 32'(dropped);
    counters.doubled <= counters.doubled + 32'(doubled);
    counters.skip_sets <= counters.skip_sets + 32'(column_events.comma && link_up);
    counters.bad_sets <= counters.bad_sets + 32'(column_events.set_bad);
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      errors[lane] <= errors[lane] + 32'(wrong[lane] && link_up);
      turned[lane] <= turned[lane] + 32'(wrong_turned[lane] && link_up);
    end
    if (counters_rst) begin
      counters <= '0;
      errors   <= '0;
      turned   <= '0;
    end
  end

`ifndef SYNTHESIS
  if (LANES != 1 && LANES != 4 && LANES != 8) begin : g_lanes
    $error("LANES is 1, 4 or 8");
  end
  if (SYMBOLS != 2 && SYMBOLS != 4) begin : g_symbols
    $error("SYMBOLS is 2 or 4");
  end
`endif
endmodule
