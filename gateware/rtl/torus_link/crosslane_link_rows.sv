// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// 64b/66b: the rows of blocks that are sent, one every eight clocks: training sets while the link is
// not up, then idle blocks and the frames of the end, and a skip row whenever it is due
// (docs/torus-link.md, 64b/66b).

module crosslane_link_rows
  import crosslane_link_pkg::*;
  import crosslane_link_block_pkg::*;
#(
    parameter int unsigned LANES             = 8,    // 1, 4 or 8
    parameter int unsigned CHANNEL_DATAGRAMS = 64,
    parameter bit          LONG              = 1'b0
) (
    input  logic                   clk,
    input  logic                   rst,
    input  logic                   is_off,         // disabled: the line is idle
    input  logic                   link_up,
    input  logic                   is_confirming,  // sets of stage 2
    input  logic  [     15:0]      session,
    input  logic  [     15:0]      session_seen,
    output logic                   stage_2_sent,   // pulse: with the last clock of a set
    // Of the end.
    output logic                   end_ready,
    input  logic  [LANES-1:0][7:0] end_symbols,
    input  logic  [LANES-1:0]      end_control,
    input  logic                   end_begins,
    // A row: `row_begins` with its first clock.
    output logic                   row_begins,
    output logic                   row_enable,
    output line_t [LANES-1:0]      row
);
  localparam int unsigned SKIP_INTERVAL = 1280;
  // A frame that the end has chosen begins behind at most this number of idle columns less one.
  localparam int unsigned END_CLOCKS = 3;
  localparam int unsigned BLOCK_COLUMNS = ROW_COLUMNS / LANES;
  localparam logic [2:0] LAST = 3'(ROW_COLUMNS - 1);
  localparam logic [1:0] LAST_SET_ROW = 2'(SET_ROWS - 1);
  localparam logic [63:0] IDLE_BLOCK = 64'(K_IDLE);
  localparam logic [63:0] SKIP_BLOCK = 64'(K_SKIP);

  // --- The kind of row, at its first clock ---------------------------------------------------
  typedef enum logic [1:0] {
    FRAMES,
    IDLE,
    SKIP,
    SET
  } kind_e;
  kind_e kept, kind;
  logic [2:0] at;
  logic [1:0] set_row_kept, set_row;
  logic [10:0] since_skip;
  logic [ 1:0] idles;
  logic starts, is_drained, leads, waits, skip_due, trains, stage_2, stage_2_kept;

  assign starts = at == '0;
  assign is_drained = idles == 2'(END_CLOCKS);
  assign waits = link_up && leads;
  assign skip_due = since_skip >= 11'(SKIP_INTERVAL);

  always_comb begin
    kind = kept;
    set_row = set_row_kept;
    stage_2 = stage_2_kept;
    trains = 1'b0;
    if (starts) begin
      if (kept == SET && set_row_kept != LAST_SET_ROW) set_row = set_row_kept + 1'b1;
      else if (!end_begins) kind = FRAMES;
      else if (skip_due) kind = SKIP;
      // Frames that were chosen before the link was lost are finished.
      else if (!link_up && is_drained) begin
        kind = SET;
        set_row = '0;
        stage_2 = is_confirming;
        trains = 1'b1;
      end else kind = waits ? IDLE : FRAMES;
    end
  end
  assign stage_2_sent = kept == SET && set_row_kept == LAST_SET_ROW && at == LAST && stage_2_kept;

  // --- Blocks of frames ----------------------------------------------------------------------
  // An idle block takes no more of the end than its idle columns.
  logic begins_block, fills, fills_kept, is_idle_of_end, takes_end;
  assign begins_block   = 3'(32'(at) % BLOCK_COLUMNS) == '0;
  assign is_idle_of_end = end_begins && end_control == '1 && end_symbols[0] == K_IDLE;
  always_comb begin
    fills = fills_kept;
    if (begins_block)
      fills = end_begins && (is_idle_of_end || skip_due || waits || (!link_up && is_drained));
  end
  assign takes_end = kind == FRAMES && (!fills || is_idle_of_end);
  assign end_ready = takes_end && !rst && !is_off;

  always_ff @(posedge clk) begin
    at <= at + 1'b1;
    kept <= kind;
    set_row_kept <= set_row;
    stage_2_kept <= stage_2;
    fills_kept <= fills;
    if (starts) since_skip <= (kind == SKIP) ? 11'd1 : since_skip + 11'(since_skip != '1);
    if (!link_up) leads <= 1'b1;
    else if (starts && kind == IDLE) leads <= 1'b0;
    if (link_up) idles <= '0;
    else if (takes_end && !is_drained) idles <= is_idle_of_end ? idles + 1'b1 : '0;
    if (rst) at <= '0;
    if (rst || is_off) begin
      kept <= FRAMES;
      fills_kept <= 1'b1;
      since_skip <= '0;
      idles <= 2'(END_CLOCKS);
    end
  end

  // --- The row, as it is gathered ------------------------------------------------------------
  logic [LANES-1:0][7:0] set_symbols;
  crosslane_link_set_symbols #(
      .LANES(LANES),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .LONG(LONG)
  ) set_columns (
      .clk,
      .begins(trains),
      .at({set_row[0], at}),
      .is_stage_2(stage_2),
      .session,
      .session_seen,
      .symbols(set_symbols)
  );

  logic [LANES-1:0][63:0] payload;
  logic [LANES-1:0] control;
  logic [8*LANES-1:0] part;  // of a block
  always_comb begin
    part = end_symbols;
    if (fills) part = begins_block ? (8 * LANES)'(IDLE_BLOCK) : '0;
  end

  // The payloads, lane 0's first.
  logic [64*LANES-1:0] gathered;
  logic is_sent;
  assign payload = gathered;

  always_ff @(posedge clk) begin
    unique case (kind)
      FRAMES: begin
        gathered[8*LANES*at+:8*LANES] <= part;
        if (begins_block) control[32'(at)/BLOCK_COLUMNS] <= fills || end_control[0];
      end
      SET: begin
        for (int unsigned lane = 0; lane < LANES; lane++) begin
          gathered[64*lane+8*at+:8] <= trains ? K_COMMA : set_row[1] ? '0 : set_symbols[lane];
        end
        control <= (set_row == '0) ? '1 : '0;
      end
      default: begin
        gathered <= {LANES{(kind == SKIP) ? SKIP_BLOCK : IDLE_BLOCK}};
        control  <= '1;
      end
    endcase
    if (starts) is_sent <= !is_off;
    if (rst || is_off) is_sent <= 1'b0;
  end

  // --- The row before, scrambled -------------------------------------------------------------
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    state_t state;
    logic [63:0] line;
    assign line = scrambled(payload[lane], state);
    always_ff @(posedge clk) begin
      if (starts) begin
        row[lane] <= {line, control[lane] ? CONTROL_HEADER : DATA_HEADER};
        state <= state_behind(line);
      end
      if (!is_sent) state <= '1;
    end
  end

  always_ff @(posedge clk) begin
    row_begins <= starts && !rst;
    if (starts) row_enable <= is_sent;
    if (rst) row_enable <= 1'b0;
  end
endmodule
