// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A board with the Gen3 block of Virtex-7: clock buffer, block, card, lights. A board's top gives it
// parameters and pins. `crosslane_pcie` is the vendor's core (pcie3_7x), made by ip/pcie3_7x.tcl for
// the board's settings.

module crosslane_board_v7 #(
    parameter int unsigned LINK_LANES = 8,
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned RC_TLPS = 2,
    // Shown by `crosslane device info` as the serial number: build.tcl sets it.
    parameter logic [63:0] BUILD_ID = 64'd0,
    // The card: crosslane_card_us.
    parameter int unsigned LANES = 8,
    parameter int unsigned LANE_WINDOW = 524288,
    parameter int unsigned LANE_FIFO = 16384,
    parameter int unsigned STAGING_BYTES = 65536,
    parameter int unsigned TAGS = 52,  // the block's 64 without those for descriptors
    parameter int unsigned BATCH = 4,
    // One less than the block's receive buffer takes of completions: docs/boards.md.
    parameter int unsigned COMPLETION_HEADER_CREDITS = 63,
    parameter int unsigned COMPLETION_DATA_CREDITS = 959,
    parameter int unsigned MAX_WRITE = 512,
    parameter int unsigned MAX_READ = 512,
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
  localparam int unsigned KEEP_BITS = DATA_BITS / 32;

  logic refclk, user_clk, user_reset;

  // The core's clock comes through the transceivers' own buffer (UG476).
  IBUFDS_GTE2 refclk_buffer (
      .I    (refclk_p),
      .IB   (refclk_n),
      .CEB  (1'b0),
      .O    (refclk),
      .ODIV2()
  );

  logic m_axis_cq_tvalid, m_axis_cq_tready, m_axis_cq_tlast;
  logic [DATA_BITS-1:0] m_axis_cq_tdata;
  logic [KEEP_BITS-1:0] m_axis_cq_tkeep;
  logic [84:0] m_axis_cq_tuser;

  logic m_axis_rc_tvalid, m_axis_rc_tready, m_axis_rc_tlast;
  logic [DATA_BITS-1:0] m_axis_rc_tdata;
  logic [KEEP_BITS-1:0] m_axis_rc_tkeep;
  logic [74:0] m_axis_rc_tuser;

  logic s_axis_rq_tvalid, s_axis_rq_tlast;
  logic [DATA_BITS-1:0] s_axis_rq_tdata;
  logic [KEEP_BITS-1:0] s_axis_rq_tkeep;
  logic [59:0] s_axis_rq_tuser;

  logic s_axis_cc_tvalid, s_axis_cc_tlast;
  logic [DATA_BITS-1:0] s_axis_cc_tdata;
  logic [KEEP_BITS-1:0] s_axis_cc_tkeep;
  logic [32:0] s_axis_cc_tuser;

  // Each bit of these is the same.
  // verilator lint_off UNUSEDSIGNAL
  logic [3:0] s_axis_rq_tready, s_axis_cc_tready;
  // verilator lint_on UNUSEDSIGNAL
  logic [3:0] pcie_rq_seq_num;
  logic pcie_rq_seq_num_vld;

  logic user_lnk_up;
  // verilator lint_off UNUSEDSIGNAL
  logic [2:0] cfg_max_payload;  // at most 1024 B: two bits
  // verilator lint_on UNUSEDSIGNAL
  logic [2:0] cfg_max_read_req;
  logic [7:0] cfg_function_status;
  logic [1:0] cfg_interrupt_msix_enable, cfg_interrupt_msix_mask, cfg_flr_in_process;
  // verilator lint_off UNUSEDSIGNAL
  logic [3:0] flr_done;  // of four functions, the block has two
  // verilator lint_on UNUSEDSIGNAL
  logic [9:0] mgmt_address;
  logic cfg_mgmt_read, cfg_mgmt_write, cfg_mgmt_read_write_done;
  logic [31:0] cfg_mgmt_write_data, cfg_mgmt_read_data;
  logic [3:0] cfg_mgmt_byte_enable;
  logic [7:0] cfg_fc_ph, cfg_fc_nph, cfg_fc_cplh;
  logic [11:0] cfg_fc_pd, cfg_fc_cpld;
  logic [2:0] cfg_fc_sel;

  // By name, so that outputs of the core that no one uses may be missing here; a test looks whether
  // all inputs are connected.
  // verilator lint_off PINMISSING
  crosslane_pcie pcie (
      .sys_clk(refclk),
      .sys_reset(!perst_n),
      .pci_exp_rxp(pcie_rx_p),
      .pci_exp_rxn(pcie_rx_n),
      .pci_exp_txp(pcie_tx_p),
      .pci_exp_txn(pcie_tx_n),
      .user_clk,
      .user_reset,
      .user_lnk_up,
      .m_axis_cq_tvalid,
      .m_axis_cq_tready,
      .m_axis_cq_tdata,
      .m_axis_cq_tkeep,
      .m_axis_cq_tlast,
      .m_axis_cq_tuser,
      // All non-posted requests that the block has, as with UltraScale+.
      .pcie_cq_np_req(1'b1),
      .m_axis_rc_tvalid,
      .m_axis_rc_tready,
      .m_axis_rc_tdata,
      .m_axis_rc_tkeep,
      .m_axis_rc_tlast,
      .m_axis_rc_tuser,
      .s_axis_rq_tvalid,
      .s_axis_rq_tready,
      .s_axis_rq_tdata,
      .s_axis_rq_tkeep,
      .s_axis_rq_tlast,
      .s_axis_rq_tuser,
      .pcie_rq_seq_num,
      .pcie_rq_seq_num_vld,
      .s_axis_cc_tvalid,
      .s_axis_cc_tready,
      .s_axis_cc_tdata,
      .s_axis_cc_tkeep,
      .s_axis_cc_tlast,
      .s_axis_cc_tuser,
      .cfg_max_payload,
      .cfg_max_read_req,
      .cfg_function_status,
      .cfg_interrupt_msix_enable,
      .cfg_interrupt_msix_mask,
      .cfg_flr_in_process,
      .cfg_flr_done(flr_done[1:0]),
      .cfg_vf_flr_done('0),
      .cfg_mgmt_addr({9'd0, mgmt_address}),  // function 0
      .cfg_mgmt_read,
      .cfg_mgmt_write,
      .cfg_mgmt_write_data,
      .cfg_mgmt_byte_enable,
      .cfg_mgmt_type1_cfg_reg_access(1'b0),
      .cfg_mgmt_read_data,
      .cfg_mgmt_read_write_done,
      .cfg_fc_ph,
      .cfg_fc_pd,
      .cfg_fc_nph,
      .cfg_fc_cplh,
      .cfg_fc_cpld,
      .cfg_fc_sel,
      .cfg_dsn(BUILD_ID),
      .cfg_subsys_vend_id(16'h10ee),
      // The card has its own table and sends messages as writes.
      .cfg_interrupt_int('0),
      .cfg_interrupt_pending('0),
      .cfg_interrupt_msix_address('0),
      .cfg_interrupt_msix_data('0),
      .cfg_interrupt_msix_int(1'b0),
      .cfg_interrupt_msi_function_number('0),
      // Errors are not reported, power changes are agreed to.
      .cfg_err_cor_in(1'b0),
      .cfg_err_uncor_in(1'b0),
      .cfg_power_state_change_ack(1'b1),
      .cfg_req_pm_transition_l23_ready(1'b0),
      .cfg_link_training_enable(1'b1),
      .cfg_config_space_enable(1'b1),
      .cfg_hot_reset_in(1'b0),
      .cfg_per_function_number('0),
      .cfg_per_function_output_request(1'b0),
      .cfg_ds_port_number('0),
      .cfg_ds_bus_number('0),
      .cfg_ds_device_number('0),
      .cfg_ds_function_number('0)
  );
  // verilator lint_on PINMISSING

  crosslane_card_us #(
      .DATA_BITS(DATA_BITS),
      .RC_TLPS(RC_TLPS),
      .GEN3(1),
      .LANES_RECEIVED(LANES),
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
      .memory_o(),
      .memory_i('0),
      .memory_rst(),
      .clk(user_clk),
      .rst(user_reset),
      .pcie_cq_np_req(),
      .s_axis_rq_tready(s_axis_rq_tready[0]),
      .s_axis_cc_tready(s_axis_cc_tready[0]),
      .pcie_rq_seq_num0({2'd0, pcie_rq_seq_num}),
      .pcie_rq_seq_num_vld0(pcie_rq_seq_num_vld),
      .pcie_rq_seq_num1('0),
      .pcie_rq_seq_num_vld1(1'b0),
      .cfg_bus_number('0),
      .cfg_max_payload(cfg_max_payload[1:0]),
      .cfg_function_status({8'd0, cfg_function_status}),
      .cfg_interrupt_msix_enable({2'd0, cfg_interrupt_msix_enable}),
      .cfg_interrupt_msix_mask({2'd0, cfg_interrupt_msix_mask}),
      .cfg_flr_in_process({2'd0, cfg_flr_in_process}),
      .cfg_flr_done(flr_done),
      .cfg_mgmt_addr(mgmt_address),
      .cfg_mgmt_function_number(),
      .cfg_mgmt_debug_access()
  );

  crosslane_board_lights #(
      .CLOCK_PS(CLOCK_PS)
  ) lights (
      .clk(user_clk),
      .rst(user_reset),
      .link_up_i(user_lnk_up),
      .bus_master_i(cfg_function_status[2]),
      .link_up,
      .bus_master,
      .heartbeat
  );

endmodule
