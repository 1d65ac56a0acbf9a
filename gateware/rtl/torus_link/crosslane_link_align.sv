// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// One lane: from unaligned line bits to symbols (docs/torus-link.md, Bring-up and loss). The first
// comma after a reset tells where symbols begin, and the disparity. A word of several symbols a
// clock; its symbols come two clocks later.

module crosslane_link_align
  import crosslane_link_pkg::*;
  import crosslane_link_code_pkg::*;
#(
    parameter int unsigned SYMBOLS = 2  // of a word
) (
    input  logic                            clk,
    input  logic                            rst,       // alignment begins anew
    input  logic                            detected,  // the line has a signal
    input  logic         [SYMBOLS-1:0][9:0] word,      // bit 9 of element 0 came first
    output lane_symbol_t [SYMBOLS-1:0]      symbols,
    output logic         [SYMBOLS-1:0]      beginning  // data behind a comma
);
  localparam logic [6:0] COMMA_MINUS = 7'b0011111;

  // --- Where symbols begin -------------------------------------------------------------------
  logic [9:0] last;
  logic is_locked, locked_next;
  // Newest bits that belong to the next symbol: a bit for each number of them.
  logic [9:0] place, place_next;
  logic [SYMBOLS-1:0][9:0] codes, codes_next;
  logic [SYMBOLS-1:0] has_code, has_code_next, is_first, is_first_next;

  // Whether a comma begins the ten bits before the newest `later`.
  function automatic logic has_comma(logic [19:0] bits, int unsigned later);
    // verilator no_inline_task
    logic [6:0] head;
    head = 7'(bits >> (later + 3));
    return head == COMMA_MINUS || head == ~COMMA_MINUS;
  endfunction

  always_comb begin
    logic [19:0] window;
    logic [9:0] commas, newest, at;
    locked_next = is_locked;
    place_next  = place;
    for (int unsigned s = 0; s < SYMBOLS; s++) begin
      window = {(s == 0) ? last : word[(s==0)?0 : s-1], word[s]};
      for (int unsigned n = 0; n < 10; n++) commas[n] = has_comma(window, n);
      // There may be two.
      for (int unsigned n = 0; n < 10; n++) begin
        newest[n] = commas[n] && (commas & 10'((1 << n) - 1)) == '0;
      end
      is_first_next[s] = detected && !locked_next && commas != '0;
      at = locked_next ? place_next : newest;
      place_next = at;
      locked_next |= is_first_next[s];
      codes_next[s] = '0;
      for (int unsigned n = 0; n < 10; n++) if (at[n]) codes_next[s] |= 10'(window >> n);
      has_code_next[s] = detected && locked_next;
    end
  end

  always_ff @(posedge clk) begin
    codes <= codes_next;
    has_code <= has_code_next;
    is_first <= is_first_next;
    is_locked <= locked_next;
    place <= place_next;
    if (detected) last <= word[SYMBOLS-1];
    if (rst) begin
      last <= '0;
      has_code <= '0;
      is_first <= '0;
      is_locked <= 1'b0;
    end
  end

  // --- Symbols -------------------------------------------------------------------------------
  logic positive, positive_next, was_comma, was_comma_next;
  lane_symbol_t [SYMBOLS-1:0] symbols_next;
  logic [SYMBOLS-1:0] beginning_next;

  // Each code is looked up at both disparities, beside the others.
  always_comb begin
    decoded_t at_minus, at_plus, found;
    logic is_right, is_plus;
    positive_next  = positive;
    was_comma_next = was_comma;
    for (int unsigned s = 0; s < SYMBOLS; s++) begin
      at_minus = decoded(codes[s], 1'b0);
      at_plus = decoded(codes[s], 1'b1);
      // A comma at negative disparity is 0011111.
      is_plus = is_first[s] ? codes[s][9] : positive_next;
      found = is_plus ? at_plus : at_minus;
      is_right = has_code[s] && !found.code_error && !found.turned_error;
      if (has_code[s]) positive_next = found.positive;
      symbols_next[s].error = !is_right;
      symbols_next[s].control = is_right ? found.control : has_code[s] && found.turned_error;
      symbols_next[s].value = at_minus.symbol;
      beginning_next[s] = was_comma_next && is_right && !found.control;
      was_comma_next = is_right && found.control && found.symbol == K_COMMA;
    end
  end

  always_ff @(posedge clk) begin
    symbols   <= symbols_next;
    beginning <= beginning_next;
    positive  <= positive_next;
    was_comma <= was_comma_next;
    if (rst) begin
      beginning <= '0;
      was_comma <= 1'b0;
    end
  end
endmodule
