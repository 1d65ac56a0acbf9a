// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Connects the engine's TLP streams to the P-Tile's (and F-Tile's) hard block for PCI Express:
// Avalon-ST with the header beside the data, one segment of 256 bits or two. Read first: README.md
// beside this file. Signals of the hard block have its names, without port number and direction.

module crosslane_shim_ptile
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter bit WIDE_BARS = 1'b0,  // BARs of 64 bits: 0, 2, 4 are the engine's 0, 1, 2
    localparam int unsigned SEGMENTS = DATA_BITS / 256
) (
    input logic clk,  // coreclkout_hip
    input logic rst,  // reset_status_n, inverted

    input  logic [    SEGMENTS-1:0] rx_st_valid,
    output logic                    rx_st_ready,
    input  logic [    SEGMENTS-1:0] rx_st_sop,
    input  logic [    SEGMENTS-1:0] rx_st_eop,
    input  logic [   DATA_BITS-1:0] rx_st_data,
    input  logic [SEGMENTS*128-1:0] rx_st_hdr,
    input  logic [  SEGMENTS*3-1:0] rx_st_bar_range,
    input  logic [    SEGMENTS-1:0] rx_st_tlp_abort,
    // The length tells the end of the data; prefixes are not for the engine.
    // verilator lint_off UNUSEDSIGNAL
    input  logic [  SEGMENTS*3-1:0] rx_st_empty,
    input  logic [ SEGMENTS*32-1:0] rx_st_tlp_prfx,
    // verilator lint_on UNUSEDSIGNAL

    output logic [    SEGMENTS-1:0] tx_st_valid,
    input  logic                    tx_st_ready,
    output logic [    SEGMENTS-1:0] tx_st_sop,
    output logic [    SEGMENTS-1:0] tx_st_eop,
    output logic [    SEGMENTS-1:0] tx_st_err,
    output logic [   DATA_BITS-1:0] tx_st_data,
    output logic [SEGMENTS*128-1:0] tx_st_hdr,
    output logic [ SEGMENTS*32-1:0] tx_st_tlp_prfx,
    input  logic [            15:0] tx_cdts_limit,
    input  logic [             2:0] tx_cdts_limit_tdm_idx,

    input  logic        dl_up,
    input  logic [ 2:0] tl_cfg_func,
    input  logic [ 4:0] tl_cfg_add,
    input  logic [15:0] tl_cfg_ctl,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [ 7:0] flr_rcvd_pf,      // function 0 is the engine
    // verilator lint_on UNUSEDSIGNAL
    output logic [ 7:0] flr_completed_pf,

    output logic      engine_rst,
    output function_t function_o,
    output room_t     room,

    output logic                        m_rx_valid,
    input  logic                        m_rx_ready,
    output tlp_header_t                 m_rx_header,
    output logic                        m_rx_first,
    output logic                        m_rx_last,
    output logic                        m_rx_aborted,        // beside the last beat
    output logic                        m_rx_is_completion,  // beside each beat
    output logic        [DATA_BITS-1:0] m_rx_data,

    input  logic                        s_tx_valid,
    output logic                        s_tx_ready,
    input  tlp_header_t                 s_tx_header,
    input  logic                        s_tx_first,
    input  logic                        s_tx_last,
    input  logic        [DATA_BITS-1:0] s_tx_data
);

  logic discard, rx_between, tx_between, gives_up, waits;

  crosslane_shim_ptile_rx #(
      .DATA_BITS(DATA_BITS),
      .WIDE_BARS(WIDE_BARS)
  ) rx (
      .*,
      .between(rx_between),
      .m_valid(m_rx_valid),
      .m_ready(m_rx_ready),
      .m_header(m_rx_header),
      .m_first(m_rx_first),
      .m_last(m_rx_last),
      .m_aborted(m_rx_aborted),
      .m_is_completion(m_rx_is_completion),
      .m_data(m_rx_data)
  );

  crosslane_shim_ptile_tx #(
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
  assign tx_st_tlp_prfx = '0;

  assign waits = s_tx_valid && s_tx_first && !discard;
  crosslane_shim_ptile_credits credits (
      .*,
      .link_up(dl_up),
      .max_payload(function_o.max_payload),
      .s_waits(waits),
      .s_taken(waits && s_tx_ready),
      .s_header(s_tx_header)
  );

  crosslane_shim_ptile_function settings (
      .*,
      .flr_rcvd(flr_rcvd_pf[0]),
      .flr_completed(flr_completed_pf[0])
  );
  assign flr_completed_pf[7:1] = '0;

  if (!(DATA_BITS inside {256, 512})) begin : g_check
    $error("the P-Tile's endpoints are 256 or 512 bits wide");
  end

endmodule
