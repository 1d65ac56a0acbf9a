// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A board with the 7-series integrated block: clock buffer, block, card, lights. A board's top gives
// it parameters and pins. `crosslane_pcie` is the vendor's core (pcie_7x), made by ip/pcie_7x.tcl
// for the board's settings.

module crosslane_board_s7 #(
    parameter int unsigned LINK_LANES = 8,
    parameter int unsigned DATA_BITS = 128,
    // Shown by `crosslane device info` as the serial number: build.tcl sets it.
    parameter logic [63:0] BUILD_ID = 64'd0,
    // The card: crosslane_card_s7.
    parameter int unsigned LANES = 8,
    parameter int unsigned LANE_WINDOW = 524288,
    parameter int unsigned LANE_FIFO = 16384,
    parameter int unsigned STAGING_BYTES = 32768,
    parameter int unsigned TAGS = 64,
    parameter int unsigned BATCH = 4,
    // One less than the receive buffer of the smallest core takes of completions (docs/boards.md).
    parameter int unsigned COMPLETION_HEADER_CREDITS = 71,
    parameter int unsigned COMPLETION_DATA_CREDITS = 369,
    parameter int unsigned MAX_WRITE = 256,
    parameter int unsigned MAX_READ = 256,
    parameter int unsigned VECTORS = 8,
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000
) (
    input  logic                  refclk_p,    // 100 MHz from the slot
    input  logic                  refclk_n,
    input  logic                  perst_n,
    input  logic [LINK_LANES-1:0] pcie_rx_p,
    input  logic [LINK_LANES-1:0] pcie_rx_n,
    output logic [LINK_LANES-1:0] pcie_tx_p,
    output logic [LINK_LANES-1:0] pcie_tx_n,
    output logic                  link_up,
    output logic                  bus_master,
    output logic                  heartbeat    // of the clock
);
  logic refclk, user_clk_out, user_reset_out;

  // The core's clock comes through the transceivers' own buffer (UG476, UG482).
  IBUFDS_GTE2 refclk_buffer (
      .I    (refclk_p),
      .IB   (refclk_n),
      .CEB  (1'b0),
      .O    (refclk),
      .ODIV2()
  );

  logic m_axis_rx_tvalid, m_axis_rx_tready, m_axis_rx_tlast;
  logic [DATA_BITS-1:0] m_axis_rx_tdata;
  logic [DATA_BITS/8-1:0] m_axis_rx_tkeep;
  logic [21:0] m_axis_rx_tuser;
  logic rx_np_ok, rx_np_req;

  logic s_axis_tx_tvalid, s_axis_tx_tready, s_axis_tx_tlast;
  logic [DATA_BITS-1:0] s_axis_tx_tdata;
  logic [DATA_BITS/8-1:0] s_axis_tx_tkeep;
  logic [3:0] s_axis_tx_tuser;
  logic tx_cfg_gnt;
  logic [5:0] tx_buf_av;

  logic user_lnk_up;
  logic [7:0] cfg_bus_number;
  logic [4:0] cfg_device_number;
  logic [2:0] cfg_function_number;
  logic [15:0] cfg_command, cfg_dcommand;
  logic cfg_interrupt_msixenable, cfg_interrupt_msixfm;
  logic cfg_received_func_lvl_rst;
  logic cfg_err_cpl_timeout, cfg_err_cpl_unexpect;
  logic [7:0] fc_ph, fc_nph, fc_cplh;
  logic [11:0] fc_pd, fc_cpld;
  logic [2:0] fc_sel;
  logic cfg_to_turnoff, cfg_turnoff_ok;

  // By name, so that outputs of the core that no one uses may be missing here; a test looks whether
  // all inputs are connected.
  // verilator lint_off PINMISSING
  crosslane_pcie pcie (
      .sys_clk(refclk),
      .sys_rst_n(perst_n),
      .pci_exp_rxp(pcie_rx_p),
      .pci_exp_rxn(pcie_rx_n),
      .pci_exp_txp(pcie_tx_p),
      .pci_exp_txn(pcie_tx_n),
      .user_clk_out,
      .user_reset_out,
      .user_lnk_up,
      .m_axis_rx_tvalid,
      .m_axis_rx_tready,
      .m_axis_rx_tdata,
      .m_axis_rx_tkeep,
      .m_axis_rx_tlast,
      .m_axis_rx_tuser,
      .rx_np_ok,
      .rx_np_req,
      .s_axis_tx_tvalid,
      .s_axis_tx_tready,
      .s_axis_tx_tdata,
      .s_axis_tx_tkeep,
      .s_axis_tx_tlast,
      .s_axis_tx_tuser,
      .tx_cfg_gnt,
      .tx_buf_av,
      .fc_ph,
      .fc_pd,
      .fc_nph,
      .fc_cplh,
      .fc_cpld,
      .fc_sel,
      .cfg_dsn(BUILD_ID),
      .cfg_bus_number,
      .cfg_device_number,
      .cfg_function_number,
      .cfg_command,
      .cfg_dcommand,
      .cfg_received_func_lvl_rst,
      .cfg_interrupt_msixenable,
      .cfg_interrupt_msixfm,
      // The card has its own table and sends messages as writes.
      .cfg_interrupt(1'b0),
      .cfg_interrupt_assert(1'b0),
      .cfg_interrupt_di('0),
      .cfg_interrupt_stat(1'b0),
      .cfg_pciecap_interrupt_msgnum('0),
      .cfg_err_cpl_timeout,
      .cfg_err_cpl_unexpect,
      // Errors that the card does not report.
      .cfg_err_ecrc(1'b0),
      .cfg_err_ur(1'b0),
      .cfg_err_cpl_abort(1'b0),
      .cfg_err_posted(1'b0),
      .cfg_err_cor(1'b0),
      .cfg_err_atomic_egress_blocked(1'b0),
      .cfg_err_internal_cor(1'b0),
      .cfg_err_malformed(1'b0),
      .cfg_err_mc_blocked(1'b0),
      .cfg_err_poisoned(1'b0),
      .cfg_err_norecovery(1'b0),
      .cfg_err_tlp_cpl_header('0),
      .cfg_err_locked(1'b0),
      .cfg_err_acs(1'b0),
      .cfg_err_internal_uncor(1'b0),
      .cfg_err_aer_headerlog('0),
      .cfg_aer_interrupt_msgnum('0),
      // Power: nothing is held back.
      .cfg_to_turnoff,
      .cfg_turnoff_ok,
      .cfg_trn_pending(1'b0),
      .cfg_pm_halt_aspm_l0s(1'b0),
      .cfg_pm_halt_aspm_l1(1'b0),
      .cfg_pm_force_state_en(1'b0),
      .cfg_pm_force_state('0),
      .cfg_pm_wake(1'b0),
      .cfg_pm_send_pme_to(1'b0),
      .cfg_ds_bus_number('0),
      .cfg_ds_device_number('0),
      .cfg_ds_function_number('0)
  );
  // verilator lint_on PINMISSING

  // The system is about to be turned off: agreed to at once, writes under way may be lost.
  always_ff @(posedge user_clk_out) cfg_turnoff_ok <= cfg_to_turnoff && !user_reset_out;

  crosslane_card_s7 #(
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
      .VECTORS(VECTORS),
      .CLOCK_PS(CLOCK_PS),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS)
  ) card (
      .*,
      .clk(user_clk_out),
      .rst(user_reset_out)
  );

  crosslane_board_lights #(
      .CLOCK_PS(CLOCK_PS)
  ) lights (
      .clk(user_clk_out),
      .rst(user_reset_out),
      .link_up_i(user_lnk_up),
      .bus_master_i(cfg_command[2]),
      .link_up,
      .bus_master,
      .heartbeat
  );

endmodule
