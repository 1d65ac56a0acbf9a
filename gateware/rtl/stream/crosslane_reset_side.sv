// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// One side of crosslane_reset_pair. A reset of this side asks the other one to hold its reset; it
// ends when the other has held it for long enough, and this side for as long again.

module crosslane_reset_side #(
    parameter int unsigned STAGES = 2  // of the synchronisers
) (
    input  logic clk,
    input  logic rst,
    output logic rst_o,      // this side is reset: by `rst`, or by the other side
    output logic asks,       // to the other side, registers
    output logic holds,
    input  logic was_asked,  // from it, of the other clock
    input  logic is_held
);
  logic waits, asked, held;
  logic [STAGES:0] asked_for, held_for;

  crosslane_synchronizer #(
      .WIDTH (2),
      .STAGES(STAGES)
  ) seen (
      .clk,
      .rst(1'b0),
      .s  ({was_asked, is_held}),
      .m  ({asked, held})
  );

  assign rst_o = rst || waits || asks || asked;

  always_ff @(posedge clk) begin
    // The other side must have released the last request: otherwise it would take two for one.
    if (rst && !asks) waits <= 1'b1;
    if (waits && !asks && !held) begin
      asks  <= 1'b1;
      waits <= 1'b0;
    end
    if (&held_for && !rst) asks <= 1'b0;
    held_for <= (asks && held) ? {held_for[STAGES-1:0], 1'b1} : '0;
    asked_for <= asked ? {asked_for[STAGES-1:0], 1'b1} : '0;
    holds <= &asked_for && asked;
  end
endmodule
