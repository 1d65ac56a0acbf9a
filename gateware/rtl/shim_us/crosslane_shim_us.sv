// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Connects the engine's TLP streams to the UltraScale+ integrated block for PCI Express (PCIE4), or
// to the Gen3 block of Virtex-7: AXI streams RQ, RC, CQ, CC with descriptors in band, DW-aligned. Read
// first: README.md beside this file. Signals of the UltraScale+ block keep their names.

module crosslane_shim_us
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    // Settings of the hard block: TLPs that may begin in one beat.
    parameter int unsigned CQ_TLPS = 1,  // 512 bits: 1, 2
    parameter int unsigned CC_TLPS = 1,  // 512 bits: 1, 2
    parameter int unsigned RQ_TLPS = 1,  // 512 bits: 1, 2
    parameter int unsigned RC_TLPS = 1,  // 256 bits: 1, 2; 512 bits: 1, 2, 4
    parameter bit WIDE_BARS = 1'b0,  // BARs of 64 bits: 0, 2, 4 are the engine's 0, 1, 2
    parameter bit GEN3 = 1'b0,  // the Gen3 block of Virtex-7 (PCIE3), at most 256 bits
    parameter logic [9:0] DEVICE_CONTROL = GEN3 ? 10'h032 : 10'h01e,
    localparam int unsigned LANES = DATA_BITS / 32,
    localparam bit WIDE = DATA_BITS == 512,
    localparam int unsigned CQ_USER_BITS = WIDE ? 183 : GEN3 ? 85 : 88,
    localparam int unsigned CC_USER_BITS = WIDE ? 81 : 33,
    localparam int unsigned RQ_USER_BITS = WIDE ? 137 : GEN3 ? 60 : 62,
    localparam int unsigned RC_USER_BITS = WIDE ? 161 : 75
) (
    input logic clk,  // user_clk
    input logic rst,  // user_reset

    // verilator lint_off UNUSEDSIGNAL
    input  logic                    m_axis_cq_tvalid,
    output logic                    m_axis_cq_tready,
    input  logic [   DATA_BITS-1:0] m_axis_cq_tdata,
    input  logic [       LANES-1:0] m_axis_cq_tkeep,
    input  logic                    m_axis_cq_tlast,
    input  logic [CQ_USER_BITS-1:0] m_axis_cq_tuser,
    output logic [             1:0] pcie_cq_np_req,

    input  logic                    m_axis_rc_tvalid,
    output logic                    m_axis_rc_tready,
    input  logic [   DATA_BITS-1:0] m_axis_rc_tdata,
    input  logic [       LANES-1:0] m_axis_rc_tkeep,
    input  logic                    m_axis_rc_tlast,
    input  logic [RC_USER_BITS-1:0] m_axis_rc_tuser,
    // verilator lint_on UNUSEDSIGNAL

    output logic                    s_axis_rq_tvalid,
    input  logic                    s_axis_rq_tready,
    output logic [   DATA_BITS-1:0] s_axis_rq_tdata,
    output logic [       LANES-1:0] s_axis_rq_tkeep,
    output logic                    s_axis_rq_tlast,
    output logic [RQ_USER_BITS-1:0] s_axis_rq_tuser,
    input  logic [             5:0] pcie_rq_seq_num0,
    input  logic                    pcie_rq_seq_num_vld0,
    input  logic [             5:0] pcie_rq_seq_num1,
    input  logic                    pcie_rq_seq_num_vld1,

    output logic                    s_axis_cc_tvalid,
    input  logic                    s_axis_cc_tready,
    output logic [   DATA_BITS-1:0] s_axis_cc_tdata,
    output logic [       LANES-1:0] s_axis_cc_tkeep,
    output logic                    s_axis_cc_tlast,
    output logic [CC_USER_BITS-1:0] s_axis_cc_tuser,

    input  logic        user_lnk_up,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [ 7:0] cfg_bus_number,             // not used with GEN3
    // verilator lint_on UNUSEDSIGNAL
    input  logic [ 1:0] cfg_max_payload,
    input  logic [ 2:0] cfg_max_read_req,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [15:0] cfg_function_status,        // of function 0 Bus Master Enable is used
    input  logic [ 3:0] cfg_interrupt_msix_enable,  // here and below: function 0 is the engine
    input  logic [ 3:0] cfg_interrupt_msix_mask,
    input  logic [ 3:0] cfg_flr_in_process,
    // verilator lint_on UNUSEDSIGNAL
    output logic [ 3:0] cfg_flr_done,
    output logic [ 9:0] cfg_mgmt_addr,
    output logic [ 7:0] cfg_mgmt_function_number,
    output logic        cfg_mgmt_read,
    output logic        cfg_mgmt_write,
    output logic [31:0] cfg_mgmt_write_data,
    output logic [ 3:0] cfg_mgmt_byte_enable,
    output logic        cfg_mgmt_debug_access,
    input  logic [31:0] cfg_mgmt_read_data,
    input  logic        cfg_mgmt_read_write_done,
    input  logic [ 7:0] cfg_fc_ph,
    input  logic [11:0] cfg_fc_pd,
    input  logic [ 7:0] cfg_fc_nph,
    input  logic [ 7:0] cfg_fc_cplh,
    input  logic [11:0] cfg_fc_cpld,
    output logic [ 2:0] cfg_fc_sel,

    output logic      engine_rst,
    output function_t function_o,
    output room_t     room,

    output logic                        m_rx_valid,
    input  logic                        m_rx_ready,
    output tlp_header_t                 m_rx_header,
    output logic                        m_rx_first,
    output logic                        m_rx_last,
    output logic                        m_rx_discontinued,   // this beat's data are to be discarded
    output logic                        m_rx_is_completion,  // beside each beat
    output logic        [DATA_BITS-1:0] m_rx_data,

    input  logic                        s_tx_valid,
    output logic                        s_tx_ready,
    input  tlp_header_t                 s_tx_header,
    input  logic                        s_tx_first,
    input  logic                        s_tx_last,
    input  logic        [DATA_BITS-1:0] s_tx_data
);

  logic discard, rx_between, tx_between, tx_heading;

  // Segments in which TLPs begin. Without straddling: the first lane, after tlast.
  logic [  CQ_TLPS-1:0] cq_starts;
  logic [CQ_TLPS*8-1:0] cq_enables;
  logic [  RC_TLPS-1:0] rc_starts;

  if (CQ_TLPS == 1) begin : g_cq
    logic partway;
    always_ff @(posedge clk) begin
      if (rst) partway <= 1'b0;
      else if (m_axis_cq_tvalid && m_axis_cq_tready) partway <= !m_axis_cq_tlast;
    end
    assign cq_starts = !partway;
    assign cq_enables = WIDE ? {m_axis_cq_tuser[11:8], m_axis_cq_tuser[3:0]} : m_axis_cq_tuser[7:0];
  end else begin : g_cq
    always_comb begin
      cq_starts = '0;
      for (int i = 0; i < 2; i++) begin
        if (m_axis_cq_tuser[80+i]) cq_starts[m_axis_cq_tuser[83+2*i]] = 1'b1;
      end
      // The first nibble belongs to the first TLP that begins, in whichever segment.
      cq_enables[7:0] = {m_axis_cq_tuser[11:8], m_axis_cq_tuser[3:0]};
      cq_enables[15:8] = cq_starts[0] ? {m_axis_cq_tuser[15:12], m_axis_cq_tuser[7:4]} :
          {m_axis_cq_tuser[11:8], m_axis_cq_tuser[3:0]};
    end
  end

  if (RC_TLPS == 1) begin : g_rc
    logic partway;
    always_ff @(posedge clk) begin
      if (rst) partway <= 1'b0;
      else if (m_axis_rc_tvalid && m_axis_rc_tready) partway <= !m_axis_rc_tlast;
    end
    assign rc_starts = !partway;
  end else if (WIDE) begin : g_rc
    always_comb begin
      rc_starts = '0;
      for (int i = 0; i < RC_TLPS; i++) begin
        // The pointers are in quarters of a beat.
        if (m_axis_rc_tuser[64+i])
          rc_starts[m_axis_rc_tuser[69+2*i-$clog2(RC_TLPS)+1+:$clog2(RC_TLPS)]] = 1'b1;
      end
    end
  end else begin : g_rc
    // No pointers: the first TLP begins behind the one in progress, else in the first lane.
    logic partway;
    logic [2:0] open;
    assign open = 3'(partway) + 3'(m_axis_rc_tuser[32]) + 3'(m_axis_rc_tuser[33]) -
        3'(m_axis_rc_tuser[34]) - 3'(m_axis_rc_tuser[38]);
    always_ff @(posedge clk) begin
      if (rst) partway <= 1'b0;
      else if (m_axis_rc_tvalid && m_axis_rc_tready) partway <= open != '0;
    end
    assign rc_starts = {
      m_axis_rc_tuser[33] || (m_axis_rc_tuser[32] && partway), m_axis_rc_tuser[32] && !partway
    };
  end

  crosslane_shim_us_rx #(
      .DATA_BITS(DATA_BITS),
      .CQ_STARTS(CQ_TLPS),
      .RC_STARTS(RC_TLPS),
      .WIDE_BARS(WIDE_BARS),
      .GEN3     (GEN3)
  ) rx (
      .*,
      .read_begins(s_tx_valid && s_tx_first && s_tx_header.kind == MEMORY_READ),
      .read_tag(s_tx_header.tag[7:0]),
      .cq_valid(m_axis_cq_tvalid),
      .cq_ready(m_axis_cq_tready),
      .cq_data(m_axis_cq_tdata),
      .cq_discontinue(m_axis_cq_tuser[WIDE?96 : 41]),
      .rc_valid(m_axis_rc_tvalid),
      .rc_ready(m_axis_rc_tready),
      .rc_data(m_axis_rc_tdata),
      .rc_discontinue(m_axis_rc_tuser[WIDE?96 : 42]),
      .between(rx_between),
      .m_valid(m_rx_valid),
      .m_ready(m_rx_ready),
      .m_header(m_rx_header),
      .m_first(m_rx_first),
      .m_last(m_rx_last),
      .m_discontinued(m_rx_discontinued),
      .m_is_completion(m_rx_is_completion),
      .m_data(m_rx_data)
  );
  // All non-posted requests that the hard block has: they keep their order among the writes.
  assign pcie_cq_np_req = 2'b01;

  logic [4:0] posted_under_way, nonposted_under_way;
  logic completion_held;
  crosslane_shim_us_tx #(
      .DATA_BITS  (DATA_BITS),
      .RQ_STRADDLE(RQ_TLPS == 2),
      .CC_STRADDLE(CC_TLPS == 2),
      .GEN3       (GEN3)
  ) tx (
      .*,
      .s_valid(s_tx_valid),
      .s_ready(s_tx_ready),
      .s_header(s_tx_header),
      .s_first(s_tx_first),
      .s_last(s_tx_last),
      .s_data(s_tx_data),
      .between(tx_between),
      .heading(tx_heading),
      .bus_master(cfg_function_status[2]),
      .settle(cfg_flr_done[0]),
      .rq_valid(s_axis_rq_tvalid),
      .rq_ready(s_axis_rq_tready),
      .rq_data(s_axis_rq_tdata),
      .rq_keep(s_axis_rq_tkeep),
      .rq_last(s_axis_rq_tlast),
      .rq_user(s_axis_rq_tuser),
      .cc_valid(s_axis_cc_tvalid),
      .cc_ready(s_axis_cc_tready),
      .cc_data(s_axis_cc_tdata),
      .cc_keep(s_axis_cc_tkeep),
      .cc_last(s_axis_cc_tlast),
      .cc_user(s_axis_cc_tuser),
      .number_valid({pcie_rq_seq_num_vld1, pcie_rq_seq_num_vld0}),
      .number({pcie_rq_seq_num1, pcie_rq_seq_num0})
  );

  crosslane_shim_us_credits credits (
      .*,
      .link_up(user_lnk_up),
      .max_payload({1'b0, cfg_max_payload})
  );

  // This port only reads.
  assign cfg_mgmt_function_number = '0;
  assign cfg_mgmt_write = 1'b0;
  assign cfg_mgmt_write_data = '0;
  assign cfg_mgmt_byte_enable = '0;
  assign cfg_mgmt_debug_access = 1'b0;
  assign cfg_flr_done[3:1] = '0;
  crosslane_shim_us_function #(
      .DEVICE_CONTROL(DEVICE_CONTROL)
  ) settings (
      .*,
      .cfg_bus_number(GEN3 ? 8'd0 : cfg_bus_number),
      .cfg_bus_master(cfg_function_status[2]),
      .cfg_interrupt_msix_enable(cfg_interrupt_msix_enable[0]),
      .cfg_interrupt_msix_mask(cfg_interrupt_msix_mask[0]),
      .cfg_flr_in_process(cfg_flr_in_process[0]),
      .cfg_flr_done(cfg_flr_done[0])
  );

  if (!(RC_TLPS inside {1, 2, 4}) || (RC_TLPS == 4 && !WIDE) || (RC_TLPS == 2 && DATA_BITS < 256)
      || CQ_TLPS > 2 || CC_TLPS > 2 || RQ_TLPS > 2
      || (CQ_TLPS + CC_TLPS + RQ_TLPS > 3 && !WIDE)) begin : g_check
    $error("the hard block has no such straddling at this width");
  end
  if (GEN3 && WIDE) begin : g_check_gen3
    $error("the Gen3 block has at most 256 bits");
  end

endmodule
