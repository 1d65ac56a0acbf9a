// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// 8b/10b decoder of one lane: the code's symbol, or an error, in the clock behind it. Behind an
// error the disparity follows the bits themselves.

module crosslane_link_decode
  import crosslane_link_code_pkg::*;
(
    input  logic       clk,
    input  logic       rst,
    input  logic       aligns,        // the disparity is set, to `aligned` (with the first comma)
    input  logic       aligned,
    input  logic       valid,         // a code
    input  logic [9:0] code,
    output logic [7:0] symbol,
    output logic       control,
    output logic       code_error,    // no symbol has this code
    output logic       turned_error,  // one has, but at the other disparity
    output logic       positive
);
  // --- Bits to a symbol ----------------------------------------------------------------------
  // The group's value is found by comparison; both encodings of it are in the code's tables. A
  // code is right at a disparity if the symbol found is encoded to it there.
  logic [5:0] six, upright_six;
  logic [3:0] four;
  logic [4:0] low;
  logic [2:0] high;
  logic is_control, now, at_this, at_other, six_turns;
  logic [3:0] ones;
  coded_t this_way, other_way;

  assign six  = code[9:4];
  assign four = code[3:0];
  assign now  = aligns ? aligned : positive;
  assign ones = 4'($countones(code));

  always_comb begin
    // D.x with this group, upright or inverted; D.7 has both forms in balance.
    low = '0;
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
  end

  assign this_way  = encoded({high, low}, is_control, now);
  assign other_way = encoded({high, low}, is_control, !now);
  assign at_this   = this_way.code == code;
  assign at_other  = other_way.code == code;

  always_ff @(posedge clk) begin
    if (valid) begin
      symbol <= {high, low};
      control <= is_control;
      code_error <= !at_this && !at_other;
      turned_error <= !at_this && at_other;
      // A balanced code of the other disparity shows that of the line.
      if (ones < 4'd5) positive <= 1'b0;
      else if (ones > 4'd5) positive <= 1'b1;
      else positive <= now ^ (!at_this && at_other);
    end else if (aligns) positive <= aligned;
    if (rst) positive <= 1'b0;
  end
  logic unused;
  assign unused = &{1'b0, this_way.positive, other_way.positive};
endmodule
