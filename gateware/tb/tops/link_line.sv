// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For link_ports.sv: one lane of a cable. Bits come later by `delay`; a change of it loses or doubles
// bits. Wrong bits by chance, noise, or no signal.

module link_line #(
    parameter int unsigned SYMBOLS = 2,
    parameter int unsigned SEED    = 1,
    parameter int unsigned BITS    = 10 * SYMBOLS  // of a word
) (
    input  logic            clk,         // that of the sender's columns
    input  logic            rst,
    input  logic            begins,      // a word
    input  logic            is_sent,
    input  logic [BITS-1:0] word,
    input  logic [     7:0] delay,       // bits
    input  logic [    31:0] error_odds,  // of a wrong bit in a word, in 2^32
    input  logic            is_cut,      // no signal
    input  logic            is_noisy,    // nothing but noise
    output logic            detected,
    output logic [BITS-1:0] received
);
  localparam int unsigned KEPT = 256 + BITS;
  logic [KEPT-1:0] bits;  // the newest bits are the highest
  logic [63:0] random;
  logic was_sent;

  function automatic logic [63:0] next(logic [63:0] x);
    logic [63:0] y;
    y = x ^ (x << 13);
    y = y ^ (y >> 7);
    return y ^ (y << 17);
  endfunction

  always_ff @(posedge clk) begin
    if (begins) begin
      random <= next(random);
      bits <= {word, bits[KEPT-1:BITS]};
      was_sent <= is_sent;
    end
    if (rst) random <= 64'h9e37_79b9_7f4a_7c15 ^ 64'(SEED);
  end

  logic [BITS-1:0] wrong;
  always_comb begin
    wrong = '0;
    if (random[31:0] < error_odds) wrong[32'(random[63:40])%BITS] = 1'b1;
  end
  assign detected = was_sent && !is_cut;
  assign received = !detected ? '0 : is_noisy ? BITS'({random, random})
                    : BITS'(bits >> (256 - 32'(delay))) ^ wrong;
endmodule
