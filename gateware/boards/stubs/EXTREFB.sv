// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The buffer of an ECP5's reference clock, for the linter and for simulation: the clock is that of
// a bench, `made`.

module EXTREFB #(
    parameter logic [63:0] REFCK_PWDNB = "DONTCARE",
    parameter logic [63:0] REFCK_RTERM = "DONTCARE",
    parameter logic [63:0] REFCK_DCBIAS_EN = "DONTCARE"
) (
    output logic REFCLKO
);
  /* verilator lint_off UNDRIVEN */
  logic made;
  /* verilator lint_on UNDRIVEN */
  assign REFCLKO = made && REFCK_PWDNB == "0b1" && REFCK_RTERM == "0b1" && REFCK_DCBIAS_EN == "0b0";
endmodule
