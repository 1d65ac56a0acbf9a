// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The UltraScale+ clock manager, for the linter and for simulation: its output has the frequency
// that comes in, as a bench gives it the one that goes out.

module MMCME4_BASE #(
    parameter real CLKIN1_PERIOD    = 0.0,
    parameter real CLKFBOUT_MULT_F  = 5.0,
    parameter real CLKOUT0_DIVIDE_F = 1.0
) (
    input  logic CLKIN1,
    input  logic CLKFBIN,
    input  logic RST,
    input  logic PWRDWN,
    output logic CLKFBOUT,
    output logic CLKOUT0,
    output logic LOCKED
);
  localparam logic [7:0] LOCK = 8'd100;
  logic [7:0] time_on;
  always_ff @(posedge CLKIN1) begin
    if (time_on != LOCK) time_on <= time_on + 1'b1;
    if (RST || PWRDWN) time_on <= '0;
  end
  assign CLKFBOUT = CLKIN1;
  assign CLKOUT0  = CLKIN1 && !RST;
  assign LOCKED   = time_on == LOCK && !RST;
  logic unused;
  assign unused = &{1'b0, CLKFBIN};

  if (CLKOUT0_DIVIDE_F < 1.0) begin : g_divider
    $error("no divider");
  end
  // Data sheets of UltraScale+: 800 to 1,600 MHz.
  if (1000.0 * CLKFBOUT_MULT_F < 800.0 * CLKIN1_PERIOD
      || 1000.0 * CLKFBOUT_MULT_F > 1600.0 * CLKIN1_PERIOD) begin : g_oscillator
    $error("the oscillator has 800 to 1,600 MHz");
  end
endmodule
