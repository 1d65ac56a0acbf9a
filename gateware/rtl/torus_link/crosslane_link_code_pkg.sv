// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The 8b/10b code: groups of six and four bits, and how they are joined. Read first: Widmer and
// Franaszek, IBM J. Res. Dev. 27 (1983) 440; docs/torus-link.md, Symbols and columns.

package crosslane_link_code_pkg;

  typedef struct packed {
    logic [9:0] code;
    logic       positive;  // the disparity behind it
  } coded_t;

  typedef struct packed {
    logic [7:0] symbol;
    logic       control;
    logic       code_error;    // no symbol has this code
    logic       turned_error;  // one has, but at the other disparity
    logic       positive;      // the disparity behind it
  } decoded_t;

  // abcdei of D.0 to D.31 at negative disparity, D.0 last.
  localparam logic [31:0][5:0] SIX = {
    6'b101011,
    6'b011110,
    6'b101110,
    6'b001110,
    6'b110110,
    6'b010110,
    6'b100110,
    6'b110011,
    6'b111010,
    6'b011010,
    6'b101010,
    6'b001011,
    6'b110010,
    6'b010011,
    6'b100011,
    6'b011011,
    6'b010111,
    6'b011100,
    6'b101100,
    6'b001101,
    6'b110100,
    6'b010101,
    6'b100101,
    6'b111001,
    6'b111000,
    6'b011001,
    6'b101001,
    6'b110101,
    6'b110001,
    6'b101101,
    6'b011101,
    6'b100111
  };
  localparam logic [5:0] SIX_K28 = 6'b001111;
  // fghj of D.x.0 to D.x.6 and D.x.P7, and of K.x.0 to K.x.7, the first last.
  localparam logic [7:0][3:0] FOUR = {
    4'b1110, 4'b0110, 4'b1010, 4'b1101, 4'b1100, 4'b0101, 4'b1001, 4'b1011
  };
  localparam logic [7:0][3:0] FOUR_K = {
    4'b0111, 4'b1001, 4'b0101, 4'b1101, 4'b1100, 4'b1010, 4'b0110, 4'b1011
  };
  localparam logic [3:0] FOUR_A7 = 4'b0111;

  // The number of ones of a code, by full adders: a synthesis would make chains of carries of sums.
  function automatic logic [3:0] ones_of(logic [9:0] code);
    logic [3:0] ones;
    logic [4:0] twos;
    logic [1:0] fours;
    logic two;
    for (int unsigned n = 0; n < 3; n++) begin
      ones[n] = ^code[3*n+:3];
      twos[n] = most_of(code[3*n+:3]);
    end
    ones[3] = ^ones[2:0];
    twos[3] = most_of(ones[2:0]);
    twos[4] = ones[3] && code[9];
    two = ^twos[2:0];
    fours = {most_of({two, twos[4:3]}), most_of(twos[2:0])};
    return {&fours, ^fours, ^twos, ones[3] ^ code[9]};
  endfunction

  // Whether two or more bits are set: the carry of a full adder.
  function automatic logic most_of(logic [2:0] bits);
    return (bits[0] && bits[1]) || (bits[2] && (bits[0] || bits[1]));
  endfunction

  // The code of a symbol at a disparity, and the disparity behind it. A group with more ones than
  // zeros or fewer turns the disparity, and is inverted if it is positive; so is a balanced one
  // that alternates. The group is found by comparison: a synthesis would take an index into the
  // table for a memory, and move the register of the symbol behind it.
  function automatic coded_t encoded(logic [7:0] symbol, logic control, logic positive);
    // verilator no_inline_task
    logic [4:0] low;
    logic [2:0] high;
    logic [5:0] six;
    logic [3:0] four;
    logic six_balanced, four_balanced, between, takes_a7;
    coded_t result;
    low = symbol[4:0];
    high = symbol[7:5];
    six = '0;
    six_balanced = 1'b0;
    for (int unsigned n = 0; n < 32; n++) begin
      if (low == 5'(n)) begin
        six |= SIX[n];
        six_balanced |= $countones(SIX[n]) == 3;
      end
    end
    if (control && low == 5'd28) begin
      six = SIX_K28;
      six_balanced = 1'b0;
    end
    between = positive ^ !six_balanced;
    if (positive && (!six_balanced || low == 5'd7)) six = ~six;
    takes_a7 = between ? (low == 5'd11 || low == 5'd13 || low == 5'd14)
                       : (low == 5'd17 || low == 5'd18 || low == 5'd20);
    if (control) four = FOUR_K[high];
    else if (high == 3'd7 && takes_a7) four = FOUR_A7;
    else four = FOUR[high];
    // Whatever the table.
    four_balanced = 1'b0;
    for (int unsigned n = 0; n < 8; n++) begin
      four_balanced |= high == 3'(n) && $countones(FOUR[n]) == 2;
    end
    if (between && (!four_balanced || control || high == 3'd3)) four = ~four;
    result.code = {six, four};
    result.positive = between ^ !four_balanced;
    return result;
  endfunction

  // The symbol of a code at a disparity. The group's value is found by comparison; both encodings
  // of it are in the code's tables. A code is right at a disparity if the symbol found is encoded to
  // it there. Behind an error the disparity follows the bits themselves.
  function automatic decoded_t decoded(logic [9:0] code, logic now);
    // verilator no_inline_task
    logic [5:0] six, upright_six;
    logic [3:0] four;
    logic [4:0] low;
    logic [2:0] high;
    logic is_control, six_turns, at_this, at_other;
    coded_t this_way, other_way;
    logic [3:0] ones;
    decoded_t result;
    six  = code[9:4];
    four = code[3:0];
    ones = ones_of(code);
    // D.x with this group, upright or inverted; D.7 has both forms in balance.
    low  = '0;
    for (int unsigned n = 0; n < 32; n++) begin
      upright_six = SIX[n];
      six_turns   = $countones(upright_six) != 3 || n == 7;
      if (six == upright_six || (six_turns && six == ~upright_six)) low = 5'(n);
    end
    // K28 has a group of its own; K23, K27, K29, K30 have that of the data symbol, and K.x.7.
    is_control = six == SIX_K28 || six == ~SIX_K28;
    if (is_control) low = 5'd28;
    high = '0;
    for (int unsigned n = 0; n < 8; n++) begin
      if (is_control) begin
        // Behind 001111 the disparity is positive, so the group is inverted.
        if (four == (six[5] ? FOUR_K[n] : ~FOUR_K[n])) high = 3'(n);
      end else if (four == FOUR[n] || (four == ~FOUR[n] && ($countones(FOUR[n]) != 2 || n == 3)))
        high = 3'(n);
    end
    if (!is_control && (four == FOUR_A7 || four == ~FOUR_A7)) begin
      high = 3'd7;
      // Data with this group have other low bits than the control symbols.
      is_control = low == 5'd23 || low == 5'd27 || low == 5'd29 || low == 5'd30;
    end
    this_way = encoded({high, low}, is_control, now);
    other_way = encoded({high, low}, is_control, !now);
    at_this = this_way.code == code;
    at_other = other_way.code == code;
    result.symbol = {high, low};
    result.control = is_control;
    result.code_error = !at_this && !at_other;
    result.turned_error = !at_this && at_other;
    // Of codes that are in no table the bits tell; a balanced one tells nothing.
    if (at_this) result.positive = this_way.positive;
    else if (at_other) result.positive = other_way.positive;
    else result.positive = (ones == 4'd5) ? now : ones[3] || (ones[2:1] == '1);
    return result;
  endfunction

endpackage
