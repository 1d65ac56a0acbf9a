// SPDX-License-Identifier: Apache-2.0 OR MIT
// No gateware: a simulation of the bus model alone. The simulator wants a signal.
module nothing (
    input  logic none,
    output logic same
);
  assign same = none;
endmodule
