// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Connects the engine's TLP streams to the 7-series integrated block for PCI Express: AXI streams
// with TLPs in band, 64 or 128 bits. Read first: README.md beside this file. Signals of the hard
// block keep their names.

module crosslane_shim_s7
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 64,
    parameter bit WIDE_BARS = 1'b0  // BARs of 64 bits: 0, 2, 4 are the engine's 0, 1, 2
) (
    input logic clk,  // user_clk_out
    input logic rst,  // user_reset_out

    // verilator lint_off UNUSEDSIGNAL
    input  logic                   m_axis_rx_tvalid,
    output logic                   m_axis_rx_tready,
    input  logic [  DATA_BITS-1:0] m_axis_rx_tdata,
    input  logic [DATA_BITS/8-1:0] m_axis_rx_tkeep,
    input  logic                   m_axis_rx_tlast,
    input  logic [           21:0] m_axis_rx_tuser,
    // verilator lint_on UNUSEDSIGNAL
    output logic                   rx_np_ok,
    output logic                   rx_np_req,

    output logic                   s_axis_tx_tvalid,
    input  logic                   s_axis_tx_tready,
    output logic [  DATA_BITS-1:0] s_axis_tx_tdata,
    output logic [DATA_BITS/8-1:0] s_axis_tx_tkeep,
    output logic                   s_axis_tx_tlast,
    output logic [            3:0] s_axis_tx_tuser,
    input  logic [            5:0] tx_buf_av,

    input  logic        user_lnk_up,
    input  logic [ 7:0] cfg_bus_number,
    input  logic [ 4:0] cfg_device_number,
    input  logic [ 2:0] cfg_function_number,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [15:0] cfg_command,
    input  logic [15:0] cfg_dcommand,
    // verilator lint_on UNUSEDSIGNAL
    input  logic        cfg_interrupt_msixenable,
    input  logic        cfg_interrupt_msixfm,
    input  logic        cfg_received_func_lvl_rst,
    input  logic [ 7:0] fc_ph,
    input  logic [11:0] fc_pd,
    input  logic [ 7:0] fc_nph,
    input  logic [ 7:0] fc_cplh,
    input  logic [11:0] fc_cpld,
    output logic [ 2:0] fc_sel,

    output logic      engine_rst,
    output function_t function_o,
    output room_t     room,

    output logic                        m_rx_valid,
    input  logic                        m_rx_ready,
    output tlp_header_t                 m_rx_header,
    output logic                        m_rx_first,
    output logic                        m_rx_last,
    output logic        [DATA_BITS-1:0] m_rx_data,

    input  logic                        s_tx_valid,
    output logic                        s_tx_ready,
    input  tlp_header_t                 s_tx_header,
    input  logic                        s_tx_first,
    input  logic                        s_tx_last,
    input  logic        [DATA_BITS-1:0] s_tx_data
);

  localparam logic [3:0] RESET_CLOCKS = 4'd15;  // at least, for a function-level reset

  logic discard, rx_between, tx_between, tx_holds;
  logic starts_lower, starts_upper;
  room_t credits;

  if (DATA_BITS == 64) begin : g_starts
    logic partway;
    always_ff @(posedge clk) begin
      if (rst) partway <= 1'b0;
      else if (m_axis_rx_tvalid && m_axis_rx_tready) partway <= !m_axis_rx_tlast;
    end
    assign starts_lower = !partway;
    assign starts_upper = 1'b0;
  end else begin : g_starts
    // is_sof: valid, and the byte at which the TLP begins: 0 or 8.
    assign starts_lower = m_axis_rx_tuser[14] && !m_axis_rx_tuser[13];
    assign starts_upper = m_axis_rx_tuser[14] && m_axis_rx_tuser[13];
  end

  crosslane_shim_s7_rx #(
      .DATA_BITS(DATA_BITS),
      .WIDE_BARS(WIDE_BARS)
  ) rx (
      .clk,
      .rst,
      .s_valid(m_axis_rx_tvalid),
      .s_ready(m_axis_rx_tready),
      .s_data(m_axis_rx_tdata),
      .s_starts_lower(starts_lower),
      .s_starts_upper(starts_upper),
      .s_bar_hit(m_axis_rx_tuser[7:2]),
      .s_poisoned(m_axis_rx_tuser[1]),
      .discard,
      .between(rx_between),
      .m_valid(m_rx_valid),
      .m_ready(m_rx_ready),
      .m_header(m_rx_header),
      .m_first(m_rx_first),
      .m_last(m_rx_last),
      .m_data(m_rx_data)
  );
  // Non-posted requests are always accepted: they keep their order among the writes.
  assign rx_np_ok  = 1'b1;
  assign rx_np_req = 1'b1;

  crosslane_shim_s7_tx #(
      .DATA_BITS(DATA_BITS)
  ) tx (
      .clk,
      .rst,
      .s_valid(s_tx_valid),
      .s_ready(s_tx_ready),
      .s_header(s_tx_header),
      .s_first(s_tx_first),
      .s_last(s_tx_last),
      .s_data(s_tx_data),
      .discard,
      .between(tx_between),
      .holds(tx_holds),
      .m_valid(s_axis_tx_tvalid),
      .m_ready(s_axis_tx_tready),
      .m_data(s_axis_tx_tdata),
      .m_keep(s_axis_tx_tkeep),
      .m_last(s_axis_tx_tlast),
      .m_discontinue(s_axis_tx_tuser[3])
  );
  assign s_axis_tx_tuser[2:0] = '0;  // no streaming, no poison but the header's, no ECRC

  // Credits are queried as with the UltraScale+ block: same selector, same fields.
  crosslane_shim_us_credits fc (
      .clk,
      .rst,
      .link_up(user_lnk_up),
      .max_payload(function_o.max_payload),
      .cfg_fc_ph(fc_ph),
      .cfg_fc_pd(fc_pd),
      .cfg_fc_nph(fc_nph),
      .cfg_fc_cplh(fc_cplh),
      .cfg_fc_cpld(fc_cpld),
      .cfg_fc_sel(fc_sel),
      .posted_under_way(5'(tx_holds)),
      .nonposted_under_way(5'(tx_holds)),
      .completion_held(tx_holds),
      .room(credits)
  );
  // A buffer must be free beside that of the TLP in progress.
  assign room = (tx_buf_av > 6'd1) ? credits : '0;

  logic [3:0] clocks;
  always_ff @(posedge clk) begin
    function_o.routing_id <= {cfg_bus_number, cfg_device_number, cfg_function_number};
    function_o.max_payload <= cfg_dcommand[7:5];
    function_o.max_read_request <= cfg_dcommand[14:12];
    function_o.bus_master <= cfg_command[2];
    function_o.relaxed_ordering <= cfg_dcommand[4];
    function_o.extended_tags <= cfg_dcommand[8];
    function_o.msix_enabled <= cfg_interrupt_msixenable && !cfg_interrupt_msixfm;
    function_o.link_up <= user_lnk_up;
    engine_rst <= discard;
    if (cfg_received_func_lvl_rst) begin
      discard <= 1'b1;
      clocks  <= '0;
    end else if (discard) begin
      if (clocks != RESET_CLOCKS) clocks <= clocks + 1'b1;
      else if (rx_between && tx_between) discard <= 1'b0;
    end
    if (rst) begin
      discard <= 1'b0;
      engine_rst <= 1'b1;
    end
  end

  if (!(DATA_BITS inside {64, 128})) begin : g_check
    $error("the 7-series block is 64 or 128 bits wide");
  end

endmodule
