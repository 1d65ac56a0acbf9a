// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The 7-series clock manager, for the linter and for simulation: outputs of the frequency that
// comes in and of half of it.

module MMCME2_BASE #(
    parameter real CLKIN1_PERIOD    = 0.0,
    parameter real CLKFBOUT_MULT_F  = 5.0,
    parameter real CLKOUT0_DIVIDE_F = 1.0,
    parameter int  CLKOUT1_DIVIDE   = 1
) (
    input  logic CLKIN1,
    input  logic CLKFBIN,
    input  logic RST,
    input  logic PWRDWN,
    output logic CLKFBOUT,
    output logic CLKOUT0,
    output logic CLKOUT1,
    output logic LOCKED
);
  localparam logic [7:0] LOCK = 8'd100;
  logic [7:0] time_on;
  logic half;
  always_ff @(posedge CLKIN1) begin
    half <= !half;
    if (time_on != LOCK) time_on <= time_on + 1'b1;
    if (RST || PWRDWN) time_on <= '0;
  end
  assign CLKFBOUT = CLKIN1;
  assign CLKOUT0  = CLKIN1 && !RST;
  assign CLKOUT1  = half && !RST;
  assign LOCKED   = time_on == LOCK && !RST;
  logic unused;
  assign unused = &{1'b0, CLKFBIN};

  if (CLKOUT0_DIVIDE_F != CLKFBOUT_MULT_F
      || 1.0 * CLKOUT1_DIVIDE != 2.0 * CLKFBOUT_MULT_F) begin : g_rates
    $error("not the outputs of this model");
  end
  if (1000.0 * CLKFBOUT_MULT_F < 600.0 * CLKIN1_PERIOD
      || 1000.0 * CLKFBOUT_MULT_F > 1200.0 * CLKIN1_PERIOD) begin : g_oscillator
    $error("the oscillator has 600 to 1,200 MHz");
  end
endmodule
