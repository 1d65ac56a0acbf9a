// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Test of the lines of a cable, in place of a port: PRBS-31 on each lane, and the wrong bits of each,
// counted in the recovered clock. A lane is in step behind four words in a row that fit, and out of
// step when a quarter of the bits of a word are wrong: it then takes up the pattern again.

module crosslane_link_line_test #(
    parameter int unsigned LANES = 8,
    parameter int unsigned BITS = 20,  // of a word: 20 or 40
    parameter logic [LANES-1:0][30:0] SEEDS = '1  // as in crosslane_link_prbs
) (
    input  logic                       clk,
    input  logic                       rst,
    input  logic                       tx_begins_word,  // words change behind this clock
    output logic [LANES-1:0][BITS-1:0] tx_words,
    input  logic                       rx_clk,
    input  logic                       rx_rst,          // counters and steps begin anew
    input  logic [LANES-1:0][BITS-1:0] rx_words,
    output logic [LANES-1:0]           in_step,
    output logic [LANES-1:0][    31:0] wrong_bits,
    output logic [LANES-1:0][    31:0] steps_lost
);
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    crosslane_link_prbs #(
        .BITS(BITS),
        .SEED(SEEDS[lane])
    ) source (
        .clk,
        .rst,
        .valid(tx_begins_word),
        .follows(1'b0),
        .word('0),
        .next(tx_words[lane])
    );

    crosslane_link_line_check #(
        .BITS(BITS)
    ) check (
        .clk(rx_clk),
        .rst(rx_rst),
        .word(rx_words[lane]),
        .in_step(in_step[lane]),
        .wrong_bits(wrong_bits[lane]),
        .steps_lost(steps_lost[lane])
    );
  end
endmodule
