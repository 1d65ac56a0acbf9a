// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The reset release IP of Stratix 10 and Agilex, for the linter and for simulation, where a bus model
// drives it.

module crosslane_reset_release (
    // verilator lint_off UNDRIVEN
    output logic ninit_done  /* verilator public_flat_rw */  // 0 once the device is configured
    // verilator lint_on UNDRIVEN
);
endmodule
