// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// VCU118 (VU9P, PCIE4): Gen3 x16, 512 bits at 250 MHz, 2 GiB of DDR4 in one of its two channels.

module crosslane_vcu118
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
    output logic [           2:0] led,
    input  logic                  sysclk_p,
    input  logic                  sysclk_n,
    output logic [          16:0] ddr4_adr,
    output logic [           1:0] ddr4_ba,
    output logic                  ddr4_bg,
    output logic                  ddr4_ck_t,
    output logic                  ddr4_ck_c,
    output logic                  ddr4_cke,
    output logic                  ddr4_cs_n,
    output logic                  ddr4_act_n,
    output logic                  ddr4_odt,
    output logic                  ddr4_parity,
    output logic                  ddr4_ten,
    output logic                  ddr4_reset_n,
    inout  wire  [          63:0] ddr4_dq,
    inout  wire  [           7:0] ddr4_dqs_t,
    inout  wire  [           7:0] ddr4_dqs_c,
    inout  wire  [           7:0] ddr4_dm_dbi_n
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
      .MEMORY_BITS(31),
      .WINDOW(1),
      .WINDOW_BITS(28)
  ) board (
      .*,
      .link_up(led[0]),
      .bus_master(led[1]),
      .heartbeat(led[2])
  );
  assign {ddr4_parity, ddr4_ten} = '0;

  crosslane_vcu118_memory memory (
      .*,
      .clk(user_clk),
      .rst(memory_rst),
      .request(memory_o),
      .answer(memory_i)
  );
endmodule
