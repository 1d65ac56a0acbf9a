// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Connects the engine's TLP streams to the hard block for PCI Express of Stratix 10's L-Tile and
// H-Tile: Avalon-ST with TLPs in band, one segment of 256 bits or (H-Tile) two. Read first:
// README.md beside this file. Signals of the hard block have its names.

module crosslane_shim_s10
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter bit WIDE_BARS = 1'b0,  // BARs of 64 bits: 0, 2, 4 are the engine's 0, 1, 2
    localparam int unsigned SEGMENTS = DATA_BITS / 256
) (
    input logic clk,  // coreclkout_hip
    input logic rst,  // reset_status

    input  logic [  SEGMENTS-1:0] rx_st_valid,
    output logic                  rx_st_ready,
    input  logic [  SEGMENTS-1:0] rx_st_sop,
    input  logic [  SEGMENTS-1:0] rx_st_eop,
    input  logic [ DATA_BITS-1:0] rx_st_data,
    input  logic [SEGMENTS*3-1:0] rx_st_bar_range,
    // The header tells the length.
    // verilator lint_off UNUSEDSIGNAL
    input  logic [SEGMENTS*3-1:0] rx_st_empty,
    // verilator lint_on UNUSEDSIGNAL

    output logic [ SEGMENTS-1:0] tx_st_valid,
    input  logic                 tx_st_ready,
    output logic [ SEGMENTS-1:0] tx_st_sop,
    output logic [ SEGMENTS-1:0] tx_st_eop,
    output logic [ SEGMENTS-1:0] tx_st_err,
    output logic [DATA_BITS-1:0] tx_st_data,

    input logic [           7:0] tx_ph_cdts,
    input logic [          11:0] tx_pd_cdts,
    input logic [           7:0] tx_nph_cdts,
    input logic [           7:0] tx_cplh_cdts,
    input logic [          11:0] tx_cpld_cdts,           // H-Tile: 0
    input logic [  SEGMENTS-1:0] tx_hdr_cdts_consumed,
    input logic [  SEGMENTS-1:0] tx_data_cdts_consumed,
    input logic [SEGMENTS*2-1:0] tx_cdts_type,
    input logic [  SEGMENTS-1:0] tx_cdts_data_value,

    input  logic        link_up,
    input  logic [ 1:0] tl_cfg_func,
    input  logic [ 4:0] tl_cfg_add,     // H-Tile: bit 4 is 0
    input  logic [31:0] tl_cfg_ctl,
    input  logic        flr_pf_active,  // of function 0; L-Tile: 0
    output logic        flr_pf_done,

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

  logic discard, rx_between, tx_between, gives_up, waits;

  crosslane_shim_s10_rx #(
      .DATA_BITS(DATA_BITS),
      .WIDE_BARS(WIDE_BARS)
  ) rx (
      .*,
      .between (rx_between),
      .m_valid (m_rx_valid),
      .m_ready (m_rx_ready),
      .m_header(m_rx_header),
      .m_first (m_rx_first),
      .m_last  (m_rx_last),
      .m_data  (m_rx_data)
  );

  crosslane_shim_s10_tx #(
      .DATA_BITS(DATA_BITS)
  ) tx (
      .*,
      .between (tx_between),
      .s_valid (s_tx_valid),
      .s_ready (s_tx_ready),
      .s_header(s_tx_header),
      .s_first (s_tx_first),
      .s_last  (s_tx_last),
      .s_data  (s_tx_data)
  );

  assign waits = s_tx_valid && s_tx_first && !discard;
  crosslane_shim_s10_credits #(
      .SEGMENTS(SEGMENTS)
  ) credits (
      .*,
      .max_payload(function_o.max_payload),
      .s_waits(waits),
      .s_taken(waits && s_tx_ready),
      .s_header(s_tx_header)
  );

  crosslane_shim_s10_function settings (.*);

  crosslane_intel_reset resets (
      .*,
      .requested(flr_pf_active),
      .completed(flr_pf_done)
  );

  if (!(DATA_BITS inside {256, 512})) begin : g_check
    $error("the hard block of Stratix 10 is 256 or 512 bits wide");
  end

endmodule
