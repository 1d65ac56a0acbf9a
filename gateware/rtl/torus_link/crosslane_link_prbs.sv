// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// PRBS-31 (x^31 + x^28 + 1, ITU-T O.150, not inverted) in words, for the line of one lane without a
// code: a source, or the bits that must follow those that have come.

module crosslane_link_prbs #(
    parameter int unsigned BITS = 20,  // of a word; bit 0 comes first
    parameter logic [30:0] SEED = '1  // bits before the first, the last of them highest
) (
    input  logic            clk,
    input  logic            rst,
    input  logic            valid,    // a word goes by
    input  logic            follows,  // the next word follows from `word`, not from the one shown
    input  logic [BITS-1:0] word,
    output logic [BITS-1:0] next      // the next word
);
  // The last 31 bits, the newest in bit 30.
  logic [30:0] state, taken;

  always_comb begin
    logic [30:0] s;
    s = state;
    for (int unsigned n = 0; n < BITS; n++) begin
      next[n] = s[3] ^ s[0];
      s = {next[n], s[30:1]};
    end
    // With a word that has come, or with the one that follows.
    taken = 31'({follows ? word : next, state} >> BITS);
  end

  always_ff @(posedge clk) begin
    if (valid) state <= taken;
    if (rst) state <= SEED;
  end
endmodule
