// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The elastic buffer behind the deskewed lanes, in the clock of the end: words of columns come at the
// other end's pace, and one column goes out in each clock. A column of K28.0 is dropped when there
// are many columns, doubled when there are few, at most one in each skip set; columns that are not
// deskewed are, too. If it is empty or full nevertheless, columns are lost, and counted as one slip.

module crosslane_link_elastic
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES   = 8,
    parameter int unsigned SYMBOLS = 2   // columns of a word: 2 or 4
) (
    input  logic                                  clk,
    input  logic                                  rst,
    input  logic                                  word_valid,
    input  logic         [SYMBOLS-1:0]            word_present,  // columns that are deskewed
    input  lane_symbol_t [SYMBOLS-1:0][LANES-1:0] word_columns,
    output logic                                  present,
    output lane_symbol_t [  LANES-1:0]            column,
    output logic                                  dropped,       // pulses
    output logic                                  doubled,
    output logic                                  slipped
);
  localparam int unsigned WORDS = 8;
  localparam int unsigned SIZE = WORDS * SYMBOLS;
  localparam int unsigned INDEX_BITS = $clog2(SIZE);
  typedef logic [INDEX_BITS:0] count_t;
  // Columns between which nothing is dropped or doubled: a word comes at once, a clock early or
  // late, and within 1,543 columns the clocks drift apart by one.
  localparam count_t FEW = count_t'(SYMBOLS + 1);
  localparam count_t BEGIN = count_t'(2 * SYMBOLS + 1);
  localparam count_t MANY = count_t'(3 * SYMBOLS + 2);

  typedef struct packed {
    logic                     present;
    lane_symbol_t [LANES-1:0] column;
  } entry_t;
  (* ram_style = "distributed" *) entry_t [SYMBOLS-1:0] memory[WORDS];

  // --- In ------------------------------------------------------------------------------------
  logic [INDEX_BITS-1:0] put_at, get_at;
  count_t count;
  entry_t [SYMBOLS-1:0] entries;
  logic is_full, puts;
  assign is_full = count > count_t'(SIZE - SYMBOLS);
  assign puts = word_valid && !is_full;
  always_comb begin
    for (int unsigned s = 0; s < SYMBOLS; s++) begin
      entries[s] = '{present: word_present[s], column: word_columns[s]};
    end
  end
  always_ff @(posedge clk) begin
    if (puts) memory[put_at[INDEX_BITS-1:$clog2(SYMBOLS)]] <= entries;
  end

  // --- Out -----------------------------------------------------------------------------------
  function automatic logic may_change(entry_t entry);
    return !entry.present || (!entry.column[0].error && entry.column[0].control
                              && entry.column[0].value == K_SKIP);
  endfunction

  entry_t [SYMBOLS-1:0] this_word, next_word;
  entry_t first, second, taken;
  logic is_running, has_changed, is_empty, changes, drops, doubles;
  logic [INDEX_BITS-1:0] second_at;
  logic [1:0] steps;

  assign second_at = get_at + 1'b1;
  assign this_word = memory[get_at[INDEX_BITS-1:$clog2(SYMBOLS)]];
  assign next_word = memory[second_at[INDEX_BITS-1:$clog2(SYMBOLS)]];
  assign first = this_word[get_at[$clog2(SYMBOLS)-1:0]];
  assign second = next_word[second_at[$clog2(SYMBOLS)-1:0]];
  assign is_empty = is_running && count == '0;
  assign changes = is_running && may_change(first) && !(has_changed && first.present);
  assign drops = changes && count >= MANY;
  assign doubles = changes && count <= FEW && !is_empty;
  assign taken = drops ? second : first;
  assign steps = (!is_running || is_empty || doubles) ? 2'd0 : drops ? 2'd2 : 2'd1;

  always_ff @(posedge clk) begin
    present <= is_running && !is_empty && taken.present;
    column  <= taken.column;
    get_at  <= get_at + INDEX_BITS'(steps);
    if (puts) put_at <= put_at + INDEX_BITS'(SYMBOLS);
    count <= count + (puts ? count_t'(SYMBOLS) : '0) - count_t'(steps);
    if (is_empty) is_running <= 1'b0;
    else if (count >= BEGIN) is_running <= 1'b1;
    has_changed <= may_change(first) && (has_changed || drops || doubles);
    dropped <= drops && first.present;
    doubled <= doubles && first.present;
    slipped <= is_empty || (word_valid && is_full);
    if (rst) begin
      present <= 1'b0;
      get_at <= '0;
      put_at <= '0;
      count <= '0;
      is_running <= 1'b0;
      has_changed <= 1'b0;
      dropped <= 1'b0;
      doubled <= 1'b0;
      slipped <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  if (SYMBOLS != 2 && SYMBOLS != 4) begin : g_symbols
    $error("SYMBOLS is 2 or 4");
  end
`endif
endmodule
