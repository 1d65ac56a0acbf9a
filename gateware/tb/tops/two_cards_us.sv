// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Two cards, each behind a separate hard block, for a test that puts them below one switch.

module two_cards_us #(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned RC_TLPS = 1,
    parameter bit GEN3 = 0,
    localparam int unsigned LANES = DATA_BITS / 32,
    localparam bit WIDE = DATA_BITS == 512,
    localparam int unsigned CQ_USER_BITS = WIDE ? 183 : GEN3 ? 85 : 88,
    localparam int unsigned CC_USER_BITS = WIDE ? 81 : 33,
    localparam int unsigned RQ_USER_BITS = WIDE ? 137 : GEN3 ? 60 : 62,
    localparam int unsigned RC_USER_BITS = WIDE ? 161 : 75
) ();
  // The test drives a card's inputs and reads its outputs here.
  // verilator lint_off UNDRIVEN
  // verilator lint_off UNUSEDSIGNAL
  for (genvar n = 0; n < 2; n++) begin : g_cards
    logic clk, rst;

    logic m_axis_cq_tvalid, m_axis_cq_tready, m_axis_cq_tlast;
    logic [DATA_BITS-1:0] m_axis_cq_tdata;
    logic [LANES-1:0] m_axis_cq_tkeep;
    logic [CQ_USER_BITS-1:0] m_axis_cq_tuser;
    logic [1:0] pcie_cq_np_req;

    logic m_axis_rc_tvalid, m_axis_rc_tready, m_axis_rc_tlast;
    logic [DATA_BITS-1:0] m_axis_rc_tdata;
    logic [LANES-1:0] m_axis_rc_tkeep;
    logic [RC_USER_BITS-1:0] m_axis_rc_tuser;

    logic s_axis_rq_tvalid, s_axis_rq_tready, s_axis_rq_tlast;
    logic [DATA_BITS-1:0] s_axis_rq_tdata;
    logic [LANES-1:0] s_axis_rq_tkeep;
    logic [RQ_USER_BITS-1:0] s_axis_rq_tuser;
    logic [5:0] pcie_rq_seq_num0, pcie_rq_seq_num1;
    logic pcie_rq_seq_num_vld0, pcie_rq_seq_num_vld1;

    logic s_axis_cc_tvalid, s_axis_cc_tready, s_axis_cc_tlast;
    logic [DATA_BITS-1:0] s_axis_cc_tdata;
    logic [LANES-1:0] s_axis_cc_tkeep;
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

    crosslane_card_us #(
        .DATA_BITS(DATA_BITS),
        .RC_TLPS(RC_TLPS),
        .GEN3(GEN3),
        .TAGS(32),
        .STAGING_BYTES(32768),
        .LANE_FIFO(8192),
        .LANE_WINDOW(65536),
        .TIMEOUT_CLOCKS(5000)
    ) card (
        .*,
        .memory_o  (),
        .memory_i  ('0),
        .memory_rst()
    );
  end
  // verilator lint_on UNUSEDSIGNAL
  // verilator lint_on UNDRIVEN
endmodule
