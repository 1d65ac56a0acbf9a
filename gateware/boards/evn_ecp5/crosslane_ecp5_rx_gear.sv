// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Words of 20 bits in the recovered clock to long words in that clock divided by SLOTS. The long
// word stands still from SLOTS / 2 clocks of `pclk` before the edge of `clk` until as many behind it,
// so the registers of `clk` may take it although the two clocks' insertion delays differ.

module crosslane_ecp5_rx_gear #(
    parameter int unsigned SLOTS = 8  // words of 20 bits in a long one: 4 or 8
) (
    input  logic                pclk,
    input  logic [        19:0] s_word,
    output logic                clk,
    output logic [20*SLOTS-1:0] word     // the first bit is the lowest
);
  localparam int unsigned HALF = SLOTS / 2;
  localparam int unsigned AT_BITS = $clog2(SLOTS);

  logic [AT_BITS-1:0] at;
  logic [SLOTS-1:0] turn;
  logic [19:0] taken;
  logic [SLOTS-1:0][19:0] slots;

  always_ff @(posedge pclk) begin
    taken <= s_word;
    at <= at + 1'b1;
    for (int unsigned n = 0; n < SLOTS; n++) begin
      turn[n] <= at == AT_BITS'(n);
      if (turn[n]) slots[n] <= taken;
    end
    if (turn[0]) word <= slots;
    clk <= |turn[HALF+:HALF];
  end

`ifndef SYNTHESIS
  if (SLOTS != 4 && SLOTS != 8) begin : g_slots
    $error("SLOTS is 4 or 8");
  end
`endif
endmodule
