// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Write TLPs to words of an aperture: the double words of a beat move to their lanes. A word a
// clock, and one more where the alignment requires it. Poisoned writes, and TLPs of other kinds,
// have no effect.

module crosslane_network_words
  import crosslane_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned PLACE_BITS = APERTURE_BITS,  // of a byte in the largest aperture
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned LANE_BITS = $clog2(BYTES),
    localparam int unsigned WORD_BITS = PLACE_BITS - LANE_BITS
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic                        s_valid,
    output logic                        s_ready,
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t                 s_header,     // only some fields are used
    // verilator lint_on UNUSEDSIGNAL
    input  logic                        s_first,
    input  logic                        s_last,
    input  logic        [DATA_BITS-1:0] s_data,
    output logic                        word_valid,
    input  logic                        word_ready,
    output logic        [          2:0] word_bar,
    output logic        [WORD_BITS-1:0] word_number,  // in the aperture
    output logic                        word_last,    // of its TLP
    output logic        [DATA_BITS-1:0] word_data,
    output logic        [    BYTES-1:0] word_enables
);
  localparam int unsigned WORDS = BYTES / 4;
  localparam int unsigned SHIFT_BITS = LANE_BITS - 2;

  logic [SHIFT_BITS-1:0] shift, own_shift;
  logic [10:0] left, own_left;  // double words from this beat on
  logic [3:0] last_be;
  logic drop, own_drop, over, flushing, moves;
  logic [BYTES-1:0] enables, rest_enables;
  logic [DATA_BITS-1:0] rest_data;
  logic [2*DATA_BITS-1:0] wide_data;
  logic [2*BYTES-1:0] wide_enables;

  assign shift = s_first ? s_header.address[LANE_BITS-1:2] : own_shift;
  assign left  = s_first ? s_header.length_dw : own_left;
  assign drop  = s_first ? s_header.poisoned || s_header.kind != MEMORY_WRITE : own_drop;
  // The last double words of this beat spill into the next word.
  assign over  = s_last && 12'(shift) + 12'(left) > 12'(WORDS);

  always_comb begin
    for (int unsigned n = 0; n < WORDS; n++) begin
      enables[4*n+:4] = (11'(n) < left) ? 4'hf : 4'h0;
      if (left == 11'(n + 1)) enables[4*n+:4] = s_first ? s_header.last_be : last_be;
    end
    if (s_first) enables[3:0] = s_header.first_be;
    wide_data = (2 * DATA_BITS)'(s_data) << {shift, 5'd0};
    wide_enables = (2 * BYTES)'(enables) << {shift, 2'd0};
  end

  assign moves   = !word_valid || word_ready;
  assign s_ready = moves && !flushing;

  always_ff @(posedge clk) begin
    if (moves) begin
      word_valid <= flushing || (s_valid && !drop);
      word_last <= flushing || (s_last && !over);
      word_data <= (flushing ? '0 : wide_data[DATA_BITS-1:0]) |
          (!flushing && s_first ? '0 : rest_data);
      word_enables <= (flushing ? '0 : wide_enables[BYTES-1:0]) |
          (!flushing && s_first ? '0 : rest_enables);
      if (flushing || s_valid) begin
        word_number <= word_number + 1'b1;
        flushing <= !flushing && over && !drop;
      end
      if (s_valid && !flushing) begin
        if (s_first) begin
          word_bar <= s_header.bar;
          word_number <= s_header.address[PLACE_BITS-1:LANE_BITS];
          last_be <= s_header.last_be;
        end
        own_drop <= drop;
        own_shift <= shift;
        own_left <= left - 11'(WORDS);
        rest_data <= wide_data[2*DATA_BITS-1:DATA_BITS];
        rest_enables <= wide_enables[2*BYTES-1:BYTES];
      end
    end
    if (rst) begin
      word_valid <= 1'b0;
      flushing   <= 1'b0;
    end
  end
endmodule
