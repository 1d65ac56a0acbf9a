// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A board with the UltraScale+ integrated block (PCIE4, PCIE4C): clock buffer, block, card, lights.
// A board's top gives it parameters and pins. `crosslane_pcie` is the vendor's core, made by
// ip/pcie4_uscale_plus.tcl or ip/pcie4c_uscale_plus.tcl for the board's settings.

module crosslane_board_us
  import crosslane_memory_pkg::*;
#(
    parameter int unsigned LINK_LANES = 16,
    parameter int unsigned DATA_BITS = 512,
    parameter int unsigned RC_TLPS = 4,
    // Shown by `crosslane device info` as the serial number: build.tcl sets it.
    parameter logic [63:0] BUILD_ID = 64'd0,
    // The card: crosslane_card_us.
    parameter int unsigned LANES = 8,
    parameter int unsigned LANE_WINDOW = 524288,
    parameter int unsigned LANE_FIFO = 16384,
    parameter int unsigned STAGING_BYTES = 65536,
    parameter int unsigned TAGS = 64,
    parameter int unsigned BATCH = 4,
    // One less than the block's receive buffer takes of completions: PG213, Completion Space.
    parameter int unsigned COMPLETION_HEADER_CREDITS = 127,
    parameter int unsigned COMPLETION_DATA_CREDITS = 2047,
    parameter int unsigned MAX_WRITE = 512,
    parameter int unsigned MAX_READ = 512,
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter bit MEMORY = 0,
    parameter int unsigned MEMORY_BITS = 33,
    parameter bit WINDOW = 0,
    parameter int unsigned WINDOW_BITS = 28
) (
    input  logic                             refclk_p,    // 100 MHz from the slot
    input  logic                             refclk_n,
    input  logic                             perst_n,
    input  logic            [LINK_LANES-1:0] pcie_rx_p,
    input  logic            [LINK_LANES-1:0] pcie_rx_n,
    output logic            [LINK_LANES-1:0] pcie_tx_p,
    output logic            [LINK_LANES-1:0] pcie_tx_n,
    output logic                             link_up,
    output logic                             bus_master,
    output logic                             heartbeat,   // of the clock
    // The board's memory, if there is one; else `memory_i` is 0.
    output logic                             user_clk,
    output memory_request_t                  memory_o,
    input  memory_answer_t                   memory_i,
    output logic                             memory_rst   // what uses it is reset
);
  localparam int unsigned KEEP_BITS = DATA_BITS / 32;
  localparam bit WIDE = DATA_BITS == 512;
  localparam int unsigned CQ_USER_BITS = WIDE ? 183 : 88;
  localparam int unsigned CC_USER_BITS = WIDE ? 81 : 33;
  localparam int unsigned RQ_USER_BITS = WIDE ? 137 : 62;
  localparam int unsigned RC_USER_BITS = WIDE ? 161 : 75;

  logic refclk, refclk_gt, user_reset;

  // Half of the buffer's outputs goes to the transceivers, the other to the core's logic (PG213).
  IBUFDS_GTE4 #(
      .REFCLK_HROW_CK_SEL(2'b00)
  ) refclk_buffer (
      .I    (refclk_p),
      .IB   (refclk_n),
      .CEB  (1'b0),
      .O    (refclk_gt),
      .ODIV2(refclk)
  );

  logic m_axis_cq_tvalid, m_axis_cq_tready, m_axis_cq_tlast;
  logic [DATA_BITS-1:0] m_axis_cq_tdata;
  logic [KEEP_BITS-1:0] m_axis_cq_tkeep;
  logic [CQ_USER_BITS-1:0] m_axis_cq_tuser;
  logic [1:0] pcie_cq_np_req;

  logic m_axis_rc_tvalid, m_axis_rc_tready, m_axis_rc_tlast;
  logic [DATA_BITS-1:0] m_axis_rc_tdata;
  logic [KEEP_BITS-1:0] m_axis_rc_tkeep;
  logic [RC_USER_BITS-1:0] m_axis_rc_tuser;

  logic s_axis_rq_tvalid, s_axis_rq_tready, s_axis_rq_tlast;
  logic [DATA_BITS-1:0] s_axis_rq_tdata;
  logic [KEEP_BITS-1:0] s_axis_rq_tkeep;
  logic [RQ_USER_BITS-1:0] s_axis_rq_tuser;
  logic [5:0] pcie_rq_seq_num0, pcie_rq_seq_num1;
  logic pcie_rq_seq_num_vld0, pcie_rq_seq_num_vld1;

  logic s_axis_cc_tvalid, s_axis_cc_tready, s_axis_cc_tlast;
  logic [DATA_BITS-1:0] s_axis_cc_tdata;
  logic [KEEP_BITS-1:0] s_axis_cc_tkeep;
  logic [CC_USER_BITS-1:0] s_axis_cc_tuser;

  logic user_lnk_up;
  logic [7:0] cfg_bus_number;
  logic [1:0] cfg_max_payload;
  logic [2:0] cfg_max_read_req;
  logic [15:0] cfg_function_status;
  logic [3:0] cfg_interrupt_msix_enable, cfg_interrupt_msix_mask;
  logic [3:0] cfg_flr_in_process, cfg_flr_done;
  logic [9:0] cfg_mgmt_addr;
  logic [7:0] cfg_mgmt_function_number;
  logic cfg_mgmt_read, cfg_mgmt_write, cfg_mgmt_debug_access, cfg_mgmt_read_write_done;
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
      .sys_clk_gt(refclk_gt),
      .sys_reset(perst_n),
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
      .pcie_cq_np_req,
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
      .pcie_rq_seq_num0,
      .pcie_rq_seq_num_vld0,
      .pcie_rq_seq_num1,
      .pcie_rq_seq_num_vld1,
      .s_axis_cc_tvalid,
      .s_axis_cc_tready,
      .s_axis_cc_tdata,
      .s_axis_cc_tkeep,
      .s_axis_cc_tlast,
      .s_axis_cc_tuser,
      .cfg_bus_number,
      .cfg_max_payload,
      .cfg_max_read_req,
      .cfg_function_status,
      .cfg_interrupt_msix_enable,
      .cfg_interrupt_msix_mask,
      .cfg_flr_in_process,
      .cfg_flr_done,
      .cfg_vf_flr_func_num('0),
      .cfg_vf_flr_done(1'b0),
      .cfg_mgmt_addr,
      .cfg_mgmt_function_number,
      .cfg_mgmt_read,
      .cfg_mgmt_write,
      .cfg_mgmt_write_data,
      .cfg_mgmt_byte_enable,
      .cfg_mgmt_debug_access,
      .cfg_mgmt_read_data,
      .cfg_mgmt_read_write_done,
      .cfg_fc_ph,
      .cfg_fc_pd,
      .cfg_fc_nph,
      .cfg_fc_cplh,
      .cfg_fc_cpld,
      .cfg_fc_sel,
      .cfg_dsn(BUILD_ID),
      // The card has its own table and sends messages as writes.
      .cfg_interrupt_int('0),
      .cfg_interrupt_pending('0),
      .cfg_interrupt_msix_address('0),
      .cfg_interrupt_msix_data('0),
      .cfg_interrupt_msix_int(1'b0),
      .cfg_interrupt_msix_vec_pending('0),
      .cfg_interrupt_msi_function_number('0),
      .cfg_msg_transmit(1'b0),
      .cfg_msg_transmit_type('0),
      .cfg_msg_transmit_data('0),
      // Errors are not reported, power changes are agreed to.
      .cfg_err_cor_in(1'b0),
      .cfg_err_uncor_in(1'b0),
      .cfg_power_state_change_ack(1'b1),
      .cfg_req_pm_transition_l23_ready(1'b0),
      .cfg_pm_aspm_l1_entry_reject(1'b0),
      .cfg_pm_aspm_tx_l0s_entry_disable(1'b0),
      .cfg_link_training_enable(1'b1),
      .cfg_config_space_enable(1'b1),
      .cfg_hot_reset_in(1'b0),
      .cfg_ds_port_number('0),
      .cfg_ds_bus_number('0),
      .cfg_ds_device_number('0)
  );
  // verilator lint_on PINMISSING

  crosslane_card_us #(
      .DATA_BITS(DATA_BITS),
      .RC_TLPS(RC_TLPS),
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
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS),
      .MEMORY(MEMORY),
      .MEMORY_BITS(MEMORY_BITS),
      .WINDOW(WINDOW),
      .WINDOW_BITS(WINDOW_BITS)
  ) card (
      .*,
      .clk(user_clk),
      .rst(user_reset)
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
