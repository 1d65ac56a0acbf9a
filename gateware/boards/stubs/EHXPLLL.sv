// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A PLL of an ECP5, for the linter and for simulation: the clock that it makes is the bench's,
// `made`, with the frequency of CLKOP; CLKOS is divided from it.

module EHXPLLL #(
    parameter int unsigned        CLKI_DIV     = 1,
    parameter int unsigned        CLKFB_DIV    = 1,
    parameter int unsigned        CLKOP_DIV    = 8,
    parameter int unsigned        CLKOS_DIV    = 8,
    parameter logic        [63:0] CLKOS_ENABLE = "DISABLED",
    parameter logic        [63:0] FEEDBK_PATH  = "CLKOP"
) (
    input  logic CLKI,
    input  logic CLKFB,
    input  logic RST,
    output logic CLKOP,
    output logic CLKOS,
    output logic LOCK
);
  localparam int unsigned RATIO = CLKOS_DIV / CLKOP_DIV;
  /* verilator lint_off UNDRIVEN */
  logic made;
  /* verilator lint_on UNDRIVEN */
  logic [7:0] at;
  assign CLKOP = made;
  always_ff @(posedge made) begin
    at <= (at >= 8'(RATIO - 1)) ? '0 : at + 1'b1;
    CLKOS <= 32'(at) < RATIO / 2;
    LOCK <= !RST;
  end
  logic unused;
  assign unused = &{1'b0, CLKI, CLKFB};

  // 100 MHz in, 250 MHz out, from 400 to 800 MHz within.
  if (CLKFB_DIV * 2 != CLKI_DIV * 5 || CLKOP_DIV != 2 || CLKOS_ENABLE != "ENABLED"
      || FEEDBK_PATH != "CLKOP") begin : g_settings
    $error("CLKOP is not 250 MHz");
  end
endmodule
