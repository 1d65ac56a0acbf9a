// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Of crosslane_link_line_test: wrong bits of one lane.

module crosslane_link_line_check #(
    parameter int unsigned BITS = 20
) (
    input  logic            clk,
    input  logic            rst,
    input  logic [BITS-1:0] word,        // in each clock
    output logic            in_step,
    output logic [    31:0] wrong_bits,  // while in step
    output logic [    31:0] steps_lost
);
  // Words in a row that must fit, and wrong bits of a word that are too many.
  localparam logic [2:0] FITTING = 3'd4;
  localparam logic [5:0] MANY = 6'(BITS / 4);

  logic [BITS-1:0] next;
  logic [5:0] wrong;
  logic [2:0] fitting;
  // A line that stands still at 0 follows from itself.
  logic fits;
  assign wrong = 6'($countones(word ^ next));
  assign fits  = word == next && word != '0;

  crosslane_link_prbs #(
      .BITS(BITS)
  ) prbs (
      .clk,
      .rst,
      .valid  (1'b1),
      .follows(!in_step),
      .word,
      .next
  );

  always_ff @(posedge clk) begin
    if (in_step) begin
      if (wrong >= MANY) begin
        in_step <= 1'b0;
        fitting <= '0;
        steps_lost <= steps_lost + 1'b1;
      end else wrong_bits <= wrong_bits + 32'(wrong);
    end else begin
      fitting <= fits ? fitting + 1'b1 : '0;
      in_step <= fits && fitting == FITTING - 1'b1;
    end
    if (rst) begin
      in_step <= 1'b0;
      fitting <= '0;
      wrong_bits <= '0;
      steps_lost <= '0;
    end
  end
endmodule
