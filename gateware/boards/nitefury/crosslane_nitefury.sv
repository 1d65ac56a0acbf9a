// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// NiteFury II (Artix-7 200T): Gen2 x4, 128 bits at 125 MHz. Whether its lights are on when
// the pin is low is not known.

module crosslane_nitefury #(
    parameter logic [63:0] BUILD_ID = 64'd0,
    localparam int unsigned LINK_LANES = 4
) (
    input  logic                  refclk_p,
    input  logic                  refclk_n,
    input  logic                  perst_n,
    output logic                  clkreq_n,
    input  logic [LINK_LANES-1:0] pcie_rx_p,
    input  logic [LINK_LANES-1:0] pcie_rx_n,
    output logic [LINK_LANES-1:0] pcie_tx_p,
    output logic [LINK_LANES-1:0] pcie_tx_n,
    output logic [           3:0] led
);
  logic link_up, bus_master, heartbeat;

  // The reference clock is always wanted.
  assign clkreq_n = 1'b0;
  assign led = {1'b0, heartbeat, bus_master, link_up};

  crosslane_board_s7 #(
      .LINK_LANES(LINK_LANES),
      .DATA_BITS(128),
      .BUILD_ID(BUILD_ID),
      .MAX_WRITE(512),
      .CLOCK_PS(8000),
      .TIMEOUT_CLOCKS(6250000)
  ) board (
      .*
  );
endmodule
