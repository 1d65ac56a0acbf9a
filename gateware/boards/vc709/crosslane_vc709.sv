// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// VC709 (Virtex-7 690T): Gen3 x8, 256 bits at 250 MHz.

module crosslane_vc709 #(
    parameter logic [63:0] BUILD_ID = 64'd0,
    localparam int unsigned LINK_LANES = 8
) (
    input  logic                  refclk_p,
    input  logic                  refclk_n,
    input  logic                  perst_n,
    input  logic [LINK_LANES-1:0] pcie_rx_p,
    input  logic [LINK_LANES-1:0] pcie_rx_n,
    output logic [LINK_LANES-1:0] pcie_tx_p,
    output logic [LINK_LANES-1:0] pcie_tx_n,
    output logic [           2:0] led
);
  crosslane_board_v7 #(
      .LINK_LANES(LINK_LANES),
      .DATA_BITS(256),
      .BUILD_ID(BUILD_ID),
      .CLOCK_PS(4000),
      .TIMEOUT_CLOCKS(12500000)
  ) board (
      .*,
      .link_up(led[0]),
      .bus_master(led[1]),
      .heartbeat(led[2])
  );
endmodule
