// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A card behind the hard block for PCI Express of Stratix 10's L-Tile and H-Tile: engine, reference
// user circuit and shim. Its ports have the names of the hard block's; a board's top joins them and
// gives the clock.

module crosslane_card_s10
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,  // or 512
    parameter bit WIDE_BARS = 1'b0,  // BARs of 64 bits: README.md
    // The card: crosslane_card.
    parameter int unsigned H2C = 1,
    parameter int unsigned C2H = 1,
    parameter int unsigned PEER = 1,
    parameter int unsigned LANES = 8,
    parameter int unsigned TAGS = 64,
    parameter int unsigned MAX_WRITE = 512,
    parameter int unsigned MAX_READ = 1024,
    parameter int unsigned STAGING_BYTES = 65536,
    parameter int unsigned LANE_FIFO = 16384,
    parameter int unsigned LANE_WINDOW = 524288,
    parameter int unsigned TABLE_ENTRIES = 1024,
    parameter int unsigned BATCH = 16,
    // The receive buffer of the block: README.md.
    parameter int unsigned COMPLETION_HEADER_CREDITS = 770,
    parameter int unsigned COMPLETION_DATA_CREDITS = 2400,
    parameter int unsigned VECTORS = 8,
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter bit PACKETS = 0,
    parameter bit PUSH = 0,
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
    output logic        flr_pf_done
);
  logic engine_rst;
  function_t function_i;
  room_t link_room;
  logic rx_valid, rx_ready, rx_first, rx_last;
  tlp_header_t rx_header, tx_header;
  logic [DATA_BITS-1:0] rx_data, tx_data;
  logic tx_valid, tx_ready, tx_first, tx_last;

  crosslane_shim_s10 #(
      .DATA_BITS(DATA_BITS),
      .WIDE_BARS(WIDE_BARS)
  ) shim (
      .*,
      .function_o(function_i),
      .room(link_room),
      .m_rx_valid(rx_valid),
      .m_rx_ready(rx_ready),
      .m_rx_header(rx_header),
      .m_rx_first(rx_first),
      .m_rx_last(rx_last),
      .m_rx_data(rx_data),
      .s_tx_valid(tx_valid),
      .s_tx_ready(tx_ready),
      .s_tx_header(tx_header),
      .s_tx_first(tx_first),
      .s_tx_last(tx_last),
      .s_tx_data(tx_data)
  );

  crosslane_card #(
      .DATA_BITS(DATA_BITS),
      .H2C(H2C),
      .C2H(C2H),
      .PEER(PEER),
      .LANES(LANES),
      .TAGS(TAGS),
      .MAX_WRITE(MAX_WRITE),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .LANE_FIFO(LANE_FIFO),
      .LANE_WINDOW(LANE_WINDOW),
      .TABLE_ENTRIES(TABLE_ENTRIES),
      .BATCH(BATCH),
      .COMPLETION_HEADER_CREDITS(COMPLETION_HEADER_CREDITS),
      .COMPLETION_DATA_CREDITS(COMPLETION_DATA_CREDITS),
      .VECTORS(VECTORS),
      .CLOCK_PS(CLOCK_PS),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS),
      .PACKETS(PACKETS),
      .PUSH(PUSH)
  ) card (
      .clk,
      .rst(engine_rst),
      .function_i,
      .room_i(link_room),
      .time_set_valid(1'b0),
      .time_set_value('0),
      .time_o(),
      .busy_o(),
      .s_rx_valid(rx_valid),
      .s_rx_ready(rx_ready),
      .s_rx_header(rx_header),
      .s_rx_first(rx_first),
      .s_rx_last(rx_last),
      .s_rx_data(rx_data),
      .s_rx_aborted(1'b0),
      .m_tx_valid(tx_valid),
      .m_tx_ready(tx_ready),
      .m_tx_header(tx_header),
      .m_tx_first(tx_first),
      .m_tx_last(tx_last),
      .m_tx_data(tx_data),
      .poisoned_write(),
      .unexpected_completion(),
      .completion_timeout()
  );

`ifndef SYNTHESIS
  if (PUSH && WIDE_BARS) begin : g_push
    $error("PUSH: not with WIDE_BARS");
  end
`endif
endmodule
