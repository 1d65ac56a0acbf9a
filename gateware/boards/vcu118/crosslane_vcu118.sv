// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// VCU118 (VU9P, PCIE4): Gen3 x16, 512 bits at 250 MHz.

module crosslane_vcu118 #(
    parameter logic [63:0] BUILD_ID = 64'd0,
    localparam int unsigned LINK_LANES = 16
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
  crosslane_board_us #(
      .LINK_LANES(LINK_LANES),
      .DATA_BITS(512),
      .BUILD_ID(BUILD_ID),
      .CLOCK_PS(4000),
      .TIMEOUT_CLOCKS(12500000)
  ) board (
      .*,
      .user_clk(),
      .memory_o(),
      .memory_i('0),
      .memory_rst(),
      .link_up(led[0]),
      .bus_master(led[1]),
      .heartbeat(led[2])
  );
endmodule
