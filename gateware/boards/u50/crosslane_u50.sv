// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Alveo U50 (VU35P, PCIE4C): Gen3 x16, 512 bits at 250 MHz, 8 GiB of HBM. Its lights belong to the
// network cage and stay off.

module crosslane_u50
  import crosslane_memory_pkg::*;
#(
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
    input  logic                  sysclk_p,
    input  logic                  sysclk_n,
    output logic                  hbm_cattrip
);
  logic user_clk, memory_rst;
  memory_request_t memory_o;
  memory_answer_t  memory_i;

  crosslane_board_us #(
      .LINK_LANES(LINK_LANES),
      .DATA_BITS(512),
      .BUILD_ID(BUILD_ID),
      .CLOCK_PS(4000),
      .TIMEOUT_CLOCKS(12500000),
      .MEMORY(1),
      .MEMORY_BITS(33),
      .WINDOW(1),
      .WINDOW_BITS(28)
  ) board (
      .*,
      .link_up(),
      .bus_master(),
      .heartbeat()
  );

  crosslane_u50_memory memory (
      .sysclk_p,
      .sysclk_n,
      .clk(user_clk),
      .rst(memory_rst),
      .request(memory_o),
      .answer(memory_i),
      .too_hot(hbm_cattrip)
  );
endmodule
