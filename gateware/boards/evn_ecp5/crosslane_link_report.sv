// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Counters of two links as lines of text on a serial port (8 bits, no parity, one stop bit), a line
// for one link and then for the other, numbers in hexadecimal.

module crosslane_link_report
  import crosslane_link_pkg::*;
#(
    parameter  int unsigned LANES    = 8,
    parameter  int unsigned BIT      = 271,         // clocks of a bit
    parameter  int unsigned INTERVAL = 15_625_000,  // clocks from line to line
    localparam int unsigned ERRORS   = 32 * LANES
) (
    input  logic                                  clk,
    input  logic                                  rst,
    input  port_state_e    [1:0]                  state,
    input  logic           [1:0][     31:0]       sent,             // datagrams of the generator
    input  logic           [1:0][     31:0]       right,            // of the checker
    input  logic           [1:0][     31:0]       wrong,
    input  link_counters_t [1:0]                  counters,
    input  lane_counters_t [1:0]                  lane_counters,
    input  logic           [1:0][LANES-1:0][31:0] lane_errors,
    input  logic           [1:0]                  line_in_step,
    input  logic           [1:0][     31:0]       line_wrong_bits,
    input  logic           [1:0][     31:0]       line_steps_lost,
    output logic                                  tx
);
  // --- Text: a # is a digit ------------------------------------------------------------------
  localparam int unsigned HEAD = 146;
  localparam int unsigned TAIL = 38;
  localparam int unsigned CHARACTERS = HEAD + 9 * LANES + TAIL;
  localparam int unsigned DIGITS = 2 + 8 * 8 + 8 * LANES + 1 + 16;
  localparam int unsigned AT_BITS = $clog2(CHARACTERS);
  localparam logic [8*HEAD-1:0] HEAD_TEXT = {
    "link # state # sent ######## right ######## wrong ######## repeated ######## ",
    "damaged ######## restarts ######## up ######## losses ######## errors"
  };
  localparam logic [8*TAIL-1:0] TAIL_TEXT = {" line # wrong ######## lost ########", 8'h0d, 8'h0a};
  localparam logic [8*CHARACTERS-1:0] TEXT = {HEAD_TEXT, {LANES{" ########"}}, TAIL_TEXT};

  logic [1:0][4*DIGITS-1:0] values;
  always_comb begin
    for (int unsigned n = 0; n < 2; n++) begin
      values[n] = {
        4'(n),
        1'b0,
        state[n],
        sent[n],
        right[n],
        wrong[n],
        counters[n].repeated,
        counters[n].damaged,
        counters[n].restarts,
        counters[n].trainings,
        lane_counters[n].losses,
        lane_errors[n],
        3'd0,
        line_in_step[n],
        line_wrong_bits[n],
        line_steps_lost[n]
      };
    end
  end

  // --- Characters ----------------------------------------------------------------------------
  logic [$clog2(INTERVAL)-1:0] waited;
  logic [AT_BITS-1:0] at;
  logic [4*DIGITS-1:0] digits;
  logic [7:0] character, shown;
  logic link, is_printing, is_digit, takes;
  assign character = TEXT[8*(CHARACTERS-1-32'(at))+:8];
  assign is_digit  = character == "#";
  always_comb begin
    logic [3:0] digit;
    digit = digits[4*DIGITS-1-:4];
    shown = !is_digit ? character : (digit < 4'd10) ? "0" + 8'(digit) : "a" - 8'd10 + 8'(digit);
  end

  always_ff @(posedge clk) begin
    waited <= (waited == $bits(waited)'(INTERVAL - 1)) ? '0 : waited + 1'b1;
    if (takes) begin
      at <= at + 1'b1;
      if (is_digit) digits <= digits << 4;
      if (at == AT_BITS'(CHARACTERS - 1)) is_printing <= 1'b0;
    end
    if (waited == '0 && !is_printing) begin
      is_printing <= 1'b1;
      at <= '0;
      link <= !link;
      digits <= values[link];
    end
    if (rst) begin
      waited <= '0;
      is_printing <= 1'b0;
      link <= 1'b0;
    end
  end

  // --- Bits ----------------------------------------------------------------------------------
  logic [$clog2(BIT)-1:0] bit_time;
  logic [3:0] bits_left;
  logic [9:0] frame;
  assign takes = is_printing && bits_left == '0;
  assign tx = bits_left == '0 || frame[0];
  always_ff @(posedge clk) begin
    if (takes) begin
      frame <= {1'b1, shown, 1'b0};
      bits_left <= 4'd10;
      bit_time <= '0;
    end else if (bits_left != '0) begin
      bit_time <= bit_time + 1'b1;
      if (bit_time == $bits(bit_time)'(BIT - 1)) begin
        bit_time <= '0;
        frame <= frame >> 1;
        bits_left <= bits_left - 1'b1;
      end
    end
    if (rst) bits_left <= '0;
  end
endmodule
