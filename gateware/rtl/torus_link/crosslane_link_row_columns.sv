// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Rows of blocks to the columns of the end, as on 8b/10b lanes: eight of a row, one a clock; lane 0
// tells rows of training sets and skip rows (docs/torus-link.md, 64b/66b, Columns). A skip row takes
// two clocks, and one if a row waits behind it, which is dropped: so rows of a faster end keep up.

module crosslane_link_row_columns
  import crosslane_link_pkg::*;
  import crosslane_link_block_pkg::*;
#(
    parameter int unsigned LANES = 8  // 1, 4 or 8
) (
    input  logic                    clk,
    input  logic                    rst,
    input  logic                    restart,         // no more of the rows before
    input  logic                    row_valid,
    output logic                    row_ready,
    input  logic                    row_aligned,     // all lanes are
    input  logic                    row_present,     // deskewed
    input  block_t [LANES-1:0]      row_blocks,
    // A row begins, beside its first column.
    output logic                    begins,
    output logic                    is_aligned,
    output logic                    present,
    output logic   [LANES-1:0]      header_errors,
    output logic                    dropped,
    output logic                    column_valid,
    output logic   [LANES-1:0][7:0] column_symbols,
    output logic   [LANES-1:0]      column_control,
    output logic   [LANES-1:0]      column_error
);
  typedef enum logic [2:0] {
    FRAMES,   // blocks one behind the other
    FIRST,    // a training set's first half, across the lanes
    SECOND,
    PADDING,
    SKIP,
    NOTHING   // not deskewed
  } kind_e;
  localparam logic [2:0] LAST = 3'(ROW_COLUMNS - 1);
  localparam logic [63:0] IDLE_BLOCK = 64'(K_IDLE);
  localparam logic [63:0] SKIP_BLOCK = 64'(K_SKIP);

  // --- The row -------------------------------------------------------------------------------
  logic busy, aligned, is_last, drops;
  block_t [LANES-1:0] blocks;
  kind_e kind, kind_next;
  logic [2:0] at;
  // Rows of a training set that are to come; the first of them is its second half.
  logic [1:0] to_come, to_come_next;

  always_comb begin
    to_come_next = '0;
    if (!row_present) kind_next = NOTHING;
    else if ((!row_blocks[0].error && row_blocks[0].control)) begin
      if (row_blocks[0].payload[7:0] == K_COMMA) begin
        kind_next = FIRST;
        to_come_next = 2'(SET_ROWS - 1);
      end else kind_next = (row_blocks[0].payload == SKIP_BLOCK) ? SKIP : FRAMES;
    end else if (to_come == '0) kind_next = FRAMES;
    else begin
      kind_next = (to_come == 2'(SET_ROWS - 1)) ? SECOND : PADDING;
      to_come_next = to_come - 1'b1;
    end
  end

  logic [LANES-1:0] skips, wrong;
  always_comb begin
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      skips[lane] = !blocks[lane].error && blocks[lane].control
                    && blocks[lane].payload == SKIP_BLOCK;
      wrong[lane] = blocks[lane].error;
    end
  end
  assign drops = busy && kind == SKIP && at == '0 && skips == '1 && row_valid;

  always_comb begin
    unique case (kind)
      SKIP: is_last = drops || at == 3'd1;
      PADDING, NOTHING: is_last = 1'b1;
      default: is_last = at == LAST;
    endcase
  end
  assign row_ready = !busy || is_last;

  always_ff @(posedge clk) begin
    at <= at + 1'b1;
    if (row_ready) begin
      busy <= row_valid;
      at   <= '0;
      if (row_valid) begin
        kind <= kind_next;
        to_come <= to_come_next;
        blocks <= row_blocks;
        aligned <= row_aligned;
      end
    end
    if (rst || restart) begin
      busy <= 1'b0;
      to_come <= '0;
    end
  end

  // --- The column ----------------------------------------------------------------------------
  localparam int unsigned BLOCK_COLUMNS = ROW_COLUMNS / LANES;
  block_t here;  // the block that this column is a part of
  logic [LANES-1:0][7:0] part, symbols;
  logic [LANES-1:0] control, error;
  logic is_command, is_idle, is_shown;
  if (LANES == 1) begin : g_one
    assign here = blocks[0];
    assign part = here.payload[8*at+:8];
  end else if (LANES == 4) begin : g_four
    assign here = blocks[at[2:1]];
    assign part = here.payload[32*at[0]+:32];
  end else begin : g_eight
    assign here = blocks[at];
    assign part = here.payload;
  end
  assign is_command = (!here.error && here.control) && here.payload[7:0] == K_COMMAND;
  assign is_idle = (!here.error && here.control) && here.payload == IDLE_BLOCK;
  assign is_shown = busy && !drops && kind != PADDING && kind != NOTHING;

  always_comb begin
    symbols = part;
    control = '0;
    error   = '0;
    unique case (kind)
      FRAMES: begin
        if (is_idle) begin
          symbols = {LANES{K_IDLE}};
          control = '1;
        end else if (here.error || (here.control && !is_command)) error = '1;
        else control[0] = is_command && 3'(32'(at) % BLOCK_COLUMNS) == '0;
      end
      FIRST, SECOND: begin
        for (int unsigned lane = 0; lane < LANES; lane++) begin
          symbols[lane] = blocks[lane].payload[8*at+:8];
          error[lane] = blocks[lane].error || blocks[lane].control != (kind == FIRST)
                        || (kind == FIRST && blocks[lane].payload[7:0] != K_COMMA);
          control[lane] = kind == FIRST && at == '0 && !error[lane];
        end
      end
      default: begin
        symbols = (at == '0) ? {LANES{K_COMMA}} : {LANES{K_SKIP}};
        error   = (at == '0) ? ~skips : '0;
        control = ~error;
      end
    endcase
  end

  always_ff @(posedge clk) begin
    begins <= busy && at == '0 && !rst && !restart;
    is_aligned <= aligned;
    present <= kind != NOTHING;
    header_errors <= (busy && at == '0 && kind != NOTHING && !restart) ? wrong : '0;
    dropped <= drops && !rst && !restart;
    column_valid <= is_shown && !rst && !restart;
    column_symbols <= symbols;
    column_control <= control;
    column_error <= error;
  end

`ifndef SYNTHESIS
  if (LANES != 1 && LANES != 4 && LANES != 8) begin : g_lanes
    $error("LANES is 1, 4 or 8");
  end
`endif
endmodule
