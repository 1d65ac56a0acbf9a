// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A board with the P-Tile: reset release, block, card, lights. A board's top gives it parameters and
// pins. `crosslane_pcie` is the vendor's core, made by ip/ptile_system.tcl for the board's settings.
//
// The core has no function-level reset; a host resets the link. When the link goes down, the engine
// is reset at once and TLPs in progress may end; if it stays down, all that remains is reset, too.

module crosslane_board_ptile #(
    parameter int unsigned DATA_BITS = 512,
    // The card: crosslane_card_ptile.
    parameter int unsigned LANES = 8,
    parameter int unsigned LANE_WINDOW = 524288,
    parameter int unsigned LANE_FIFO = 16384,
    parameter int unsigned STAGING_BYTES = 65536,
    parameter int unsigned TAGS = 64,
    parameter int unsigned BATCH = 4,
    // The block's receive buffer keeps completions in 1,444 places of 32 B: one with data of an odd
    // number of credits leaves half of a place. Half the sum of both fits, however they come.
    parameter int unsigned COMPLETION_HEADER_CREDITS = 700,
    parameter int unsigned COMPLETION_DATA_CREDITS = 2180,
    parameter int unsigned MAX_WRITE = 512,
    parameter int unsigned MAX_READ = 512,
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    localparam int unsigned LINK_LANES = 16
) (
    input  logic [           1:0] refclk_p,    // 100 MHz from the slot
    input  logic                  perst_n,
    input  logic [LINK_LANES-1:0] pcie_rx_p,
    input  logic [LINK_LANES-1:0] pcie_rx_n,
    output logic [LINK_LANES-1:0] pcie_tx_p,
    output logic [LINK_LANES-1:0] pcie_tx_n,
    output logic                  link_up,
    output logic                  bus_master,
    output logic                  heartbeat    // of the clock
);
  localparam int unsigned SEGMENTS = DATA_BITS / 256;
  // Clocks after which nothing is in progress that could end.
  localparam int unsigned DOWN_BITS = 10;

  logic clk, rst, reset_status_n, ninit_done, dl_up;
  logic [DOWN_BITS-1:0] down_clocks;

  logic [SEGMENTS-1:0] rx_st_valid, rx_st_sop, rx_st_eop, rx_st_tlp_abort;
  logic rx_st_ready;
  logic [DATA_BITS-1:0] rx_st_data;
  logic [SEGMENTS*128-1:0] rx_st_hdr;
  logic [SEGMENTS*3-1:0] rx_st_bar_range, rx_st_empty;
  logic [SEGMENTS*32-1:0] rx_st_tlp_prfx;

  logic [SEGMENTS-1:0] tx_st_valid, tx_st_sop, tx_st_eop, tx_st_err;
  logic tx_st_ready;
  logic [DATA_BITS-1:0] tx_st_data;
  logic [SEGMENTS*128-1:0] tx_st_hdr;
  logic [SEGMENTS*32-1:0] tx_st_tlp_prfx;
  logic [15:0] tx_cdts_limit;
  logic [2:0] tx_cdts_limit_tdm_idx;

  logic [2:0] tl_cfg_func;
  logic [4:0] tl_cfg_add;
  logic [15:0] tl_cfg_ctl;

  crosslane_reset_release release_ip (.ninit_done);

  // By name, so that outputs of the core that no one uses may be missing here; a test looks whether
  // all inputs are connected.
  // verilator lint_off PINMISSING
  crosslane_pcie pcie (
      .refclk0(refclk_p[0]),
      .refclk1(refclk_p[1]),
      .pin_perst_n(perst_n),
      .ninit_done,
      .coreclkout_hip(clk),
      .p0_reset_status_n(reset_status_n),
      .p0_dl_up_o(dl_up),
      .rx_p_in0(pcie_rx_p[0]),
      .rx_n_in0(pcie_rx_n[0]),
      .tx_p_out0(pcie_tx_p[0]),
      .tx_n_out0(pcie_tx_n[0]),
      .rx_p_in1(pcie_rx_p[1]),
      .rx_n_in1(pcie_rx_n[1]),
      .tx_p_out1(pcie_tx_p[1]),
      .tx_n_out1(pcie_tx_n[1]),
      .rx_p_in2(pcie_rx_p[2]),
      .rx_n_in2(pcie_rx_n[2]),
      .tx_p_out2(pcie_tx_p[2]),
      .tx_n_out2(pcie_tx_n[2]),
      .rx_p_in3(pcie_rx_p[3]),
      .rx_n_in3(pcie_rx_n[3]),
      .tx_p_out3(pcie_tx_p[3]),
      .tx_n_out3(pcie_tx_n[3]),
      .rx_p_in4(pcie_rx_p[4]),
      .rx_n_in4(pcie_rx_n[4]),
      .tx_p_out4(pcie_tx_p[4]),
      .tx_n_out4(pcie_tx_n[4]),
      .rx_p_in5(pcie_rx_p[5]),
      .rx_n_in5(pcie_rx_n[5]),
      .tx_p_out5(pcie_tx_p[5]),
      .tx_n_out5(pcie_tx_n[5]),
      .rx_p_in6(pcie_rx_p[6]),
      .rx_n_in6(pcie_rx_n[6]),
      .tx_p_out6(pcie_tx_p[6]),
      .tx_n_out6(pcie_tx_n[6]),
      .rx_p_in7(pcie_rx_p[7]),
      .rx_n_in7(pcie_rx_n[7]),
      .tx_p_out7(pcie_tx_p[7]),
      .tx_n_out7(pcie_tx_n[7]),
      .rx_p_in8(pcie_rx_p[8]),
      .rx_n_in8(pcie_rx_n[8]),
      .tx_p_out8(pcie_tx_p[8]),
      .tx_n_out8(pcie_tx_n[8]),
      .rx_p_in9(pcie_rx_p[9]),
      .rx_n_in9(pcie_rx_n[9]),
      .tx_p_out9(pcie_tx_p[9]),
      .tx_n_out9(pcie_tx_n[9]),
      .rx_p_in10(pcie_rx_p[10]),
      .rx_n_in10(pcie_rx_n[10]),
      .tx_p_out10(pcie_tx_p[10]),
      .tx_n_out10(pcie_tx_n[10]),
      .rx_p_in11(pcie_rx_p[11]),
      .rx_n_in11(pcie_rx_n[11]),
      .tx_p_out11(pcie_tx_p[11]),
      .tx_n_out11(pcie_tx_n[11]),
      .rx_p_in12(pcie_rx_p[12]),
      .rx_n_in12(pcie_rx_n[12]),
      .tx_p_out12(pcie_tx_p[12]),
      .tx_n_out12(pcie_tx_n[12]),
      .rx_p_in13(pcie_rx_p[13]),
      .rx_n_in13(pcie_rx_n[13]),
      .tx_p_out13(pcie_tx_p[13]),
      .tx_n_out13(pcie_tx_n[13]),
      .rx_p_in14(pcie_rx_p[14]),
      .rx_n_in14(pcie_rx_n[14]),
      .tx_p_out14(pcie_tx_p[14]),
      .tx_n_out14(pcie_tx_n[14]),
      .rx_p_in15(pcie_rx_p[15]),
      .rx_n_in15(pcie_rx_n[15]),
      .tx_p_out15(pcie_tx_p[15]),
      .tx_n_out15(pcie_tx_n[15]),
      .p0_rx_st_valid_o(rx_st_valid),
      .p0_rx_st_ready_i(rx_st_ready),
      .p0_rx_st_sop_o(rx_st_sop),
      .p0_rx_st_eop_o(rx_st_eop),
      .p0_rx_st_data_o(rx_st_data),
      .p0_rx_st_empty_o(rx_st_empty),
      .p0_rx_st_hdr_o(rx_st_hdr),
      .p0_rx_st_tlp_prfx_o(rx_st_tlp_prfx),
      .p0_rx_st_bar_range_o(rx_st_bar_range),
      .p0_rx_st_tlp_abort_o(rx_st_tlp_abort),
      .p0_tx_st_valid_i(tx_st_valid),
      .p0_tx_st_ready_o(tx_st_ready),
      .p0_tx_st_sop_i(tx_st_sop),
      .p0_tx_st_eop_i(tx_st_eop),
      .p0_tx_st_err_i(tx_st_err),
      .p0_tx_st_data_i(tx_st_data),
      .p0_tx_st_hdr_i(tx_st_hdr),
      .p0_tx_st_tlp_prfx_i(tx_st_tlp_prfx),
      .p0_tx_cdts_limit_o(tx_cdts_limit),
      .p0_tx_cdts_limit_tdm_idx_o(tx_cdts_limit_tdm_idx),
      .p0_tl_cfg_func_o(tl_cfg_func),
      .p0_tl_cfg_add_o(tl_cfg_add),
      .p0_tl_cfg_ctl_o(tl_cfg_ctl)
  );
  // verilator lint_on PINMISSING

  always_ff @(posedge clk) begin
    if (dl_up || !reset_status_n) down_clocks <= '0;
    else if (!(&down_clocks)) down_clocks <= down_clocks + 1'b1;
    rst <= !reset_status_n || &down_clocks;
  end

  crosslane_card_ptile #(
      .DATA_BITS(DATA_BITS),
      .LANES(LANES),
      .LANE_WINDOW(LANE_WINDOW),
      .LANE_FIFO(LANE_FIFO),
      .STAGING_BYTES(STAGING_BYTES),
      .TAGS(TAGS),
      .BATCH(BATCH),
      .COMPLETION_HEADER_CREDITS(COMPLETION_HEADER_CREDITS),
      .COMPLETION_DATA_CREDITS(COMPLETION_DATA_CREDITS),
      .MAX_WRITE(MAX_WRITE),
      .MAX_READ(MAX_READ),
      .CLOCK_PS(CLOCK_PS),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS)
  ) card (
      .*,
      .flr_rcvd_pf({7'd0, !dl_up}),
      .flr_completed_pf()
  );

  // Bus mastering as the block tells it: crosslane_shim_ptile_function.
  logic bus_master_enable;
  always_ff @(posedge clk) begin
    if (tl_cfg_func == '0 && tl_cfg_add == 5'h00) bus_master_enable <= tl_cfg_ctl[7];
    if (rst) bus_master_enable <= 1'b0;
  end

  crosslane_board_lights #(
      .CLOCK_PS(CLOCK_PS)
  ) lights (
      .clk,
      .rst,
      .link_up_i(dl_up),
      .bus_master_i(bus_master_enable),
      .link_up,
      .bus_master,
      .heartbeat
  );

endmodule
