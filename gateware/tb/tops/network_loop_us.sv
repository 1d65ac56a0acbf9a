// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_network_card_us.py: a network processor behind a hard block, with two links, which a cable
// joins.

module network_loop_us #(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned RC_TLPS = 1,
    parameter bit GEN3 = 0,
    parameter int unsigned LANES = 8,
    parameter bit LONG = 1'b0,
    localparam int unsigned DWORDS = DATA_BITS / 32,
    localparam bit WIDE = DATA_BITS == 512,
    localparam int unsigned CQ_USER_BITS = WIDE ? 183 : GEN3 ? 85 : 88,
    localparam int unsigned CC_USER_BITS = WIDE ? 81 : 33,
    localparam int unsigned RQ_USER_BITS = WIDE ? 137 : GEN3 ? 60 : 62,
    localparam int unsigned RC_USER_BITS = WIDE ? 161 : 75
) ();
  // The test drives the card's inputs and reads its outputs here.
  // verilator lint_off UNDRIVEN
  // verilator lint_off UNUSEDSIGNAL
  logic clk, rst;

  logic m_axis_cq_tvalid, m_axis_cq_tready, m_axis_cq_tlast;
  logic [DATA_BITS-1:0] m_axis_cq_tdata;
  logic [DWORDS-1:0] m_axis_cq_tkeep;
  logic [CQ_USER_BITS-1:0] m_axis_cq_tuser;
  logic [1:0] pcie_cq_np_req;

  logic m_axis_rc_tvalid, m_axis_rc_tready, m_axis_rc_tlast;
  logic [DATA_BITS-1:0] m_axis_rc_tdata;
  logic [DWORDS-1:0] m_axis_rc_tkeep;
  logic [RC_USER_BITS-1:0] m_axis_rc_tuser;

  logic s_axis_rq_tvalid, s_axis_rq_tready, s_axis_rq_tlast;
  logic [DATA_BITS-1:0] s_axis_rq_tdata;
  logic [DWORDS-1:0] s_axis_rq_tkeep;
  logic [RQ_USER_BITS-1:0] s_axis_rq_tuser;
  logic [5:0] pcie_rq_seq_num0, pcie_rq_seq_num1;
  logic pcie_rq_seq_num_vld0, pcie_rq_seq_num_vld1;

  logic s_axis_cc_tvalid, s_axis_cc_tready, s_axis_cc_tlast;
  logic [DATA_BITS-1:0] s_axis_cc_tdata;
  logic [DWORDS-1:0] s_axis_cc_tkeep;
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
  // verilator lint_on UNUSEDSIGNAL
  // verilator lint_on UNDRIVEN

  localparam int unsigned SYMBOLS = 2;
  localparam int unsigned FRAME = ((LONG ? 256 : 128) + 8) / LANES;
  logic [15:0] first_session;
  logic links_rst;
  logic [1:0] tx_enable, tx_begins_word, rx_clk, rx_rst;
  logic [1:0][LANES-1:0][10*SYMBOLS-1:0] tx_words, rx_words;
  logic [1:0][LANES-1:0] rx_detected;

  initial first_session = '0;
  always_ff @(posedge clk) first_session <= first_session + 1'b1;

  link_cable #(
      .LANES  (LANES),
      .SYMBOLS(SYMBOLS)
  ) cable (
      .rst(links_rst),
      .*
  );

  crosslane_network_card_us #(
      .DATA_BITS(DATA_BITS),
      .RC_TLPS(RC_TLPS),
      .GEN3(GEN3),
      .LINKS(2),
      .PUT_SLOTS(4),
      .CREDIT_SLOTS(16),
      .GET_SLOTS(16),
      .TAGS(16),
      .MAX_READ(256),
      .STAGING_BYTES(1024),
      .TIMEOUT_CLOCKS(5000),
      .MAX_WRITE(128),
      .LANES(LANES),
      .SYMBOLS(SYMBOLS),
      .CHANNEL_DATAGRAMS(8),
      .ACKNOWLEDGE_WITHIN(12 * FRAME),
      .RETRY_TIMEOUT(LONG ? 1590 : 918),
      .REFRESH(LONG ? 2910 : 1598),
      .LONG(LONG)
  ) card (
      .*
  );
endmodule
