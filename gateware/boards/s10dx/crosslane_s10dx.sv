// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Stratix 10 DX development kit (P-Tile): Gen3 x16, 512 bits at 250 MHz. The identity of the build is
// a setting of the core.

module crosslane_s10dx #(
    localparam int unsigned LINK_LANES = 16
) (
    input  logic [           1:0] refclk_p,
    input  logic                  perst_n,
    input  logic [LINK_LANES-1:0] pcie_rx_p,
    input  logic [LINK_LANES-1:0] pcie_rx_n,
    output logic [LINK_LANES-1:0] pcie_tx_p,
    output logic [LINK_LANES-1:0] pcie_tx_n,
    output logic [           2:0] led
);
  crosslane_board_ptile #(
      .DATA_BITS(512),
      .CLOCK_PS(4000),
      .TIMEOUT_CLOCKS(12500000)
  ) board (
      .*,
      .link_up(led[0]),
      .bus_master(led[1]),
      .heartbeat(led[2])
  );
endmodule
