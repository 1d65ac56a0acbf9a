// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A card behind the P-Tile's (and F-Tile's) hard block for PCI Express: engine, reference user
// circuit and shim. Its ports have the names of the hard block's, without port number and
// direction; a board's top joins them and gives the clock.

module crosslane_card_ptile
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
    // The receive buffer of the block's port 0: README.md.
    parameter int unsigned COMPLETION_HEADER_CREDITS = 1144,
    parameter int unsigned COMPLETION_DATA_CREDITS = 2888,
    parameter int unsigned VECTORS = 8,
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter bit PACKETS = 0,
    parameter bit PUSH = 0,
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
    output logic [ 7:0] flr_completed_pf
);
  logic engine_rst;
  function_t core_function, function_i;
  room_t link_room;
  logic rx_valid, rx_ready, rx_first, rx_last, rx_aborted, rx_is_completion;
  tlp_header_t rx_header, tx_header;
  logic [DATA_BITS-1:0] rx_data, tx_data;
  logic tx_valid, tx_ready, tx_first, tx_last;

  crosslane_shim_ptile #(
      .DATA_BITS(DATA_BITS),
      .WIDE_BARS(WIDE_BARS)
  ) shim (
      .*,
      .function_o(core_function),
      .room(link_room),
      .m_rx_valid(rx_valid),
      .m_rx_ready(rx_ready),
      .m_rx_header(rx_header),
      .m_rx_first(rx_first),
      .m_rx_last(rx_last),
      .m_rx_aborted(rx_aborted),
      .m_rx_is_completion(rx_is_completion),
      .m_rx_data(rx_data),
      .s_tx_valid(tx_valid),
      .s_tx_ready(tx_ready),
      .s_tx_header(tx_header),
      .s_tx_first(tx_first),
      .s_tx_last(tx_last),
      .s_tx_data(tx_data)
  );

  // The hard block may abort a TLP that it has begun to deliver. A completion belongs to one read,
  // whose channel stops. A write has taken partial effect: all channels that run stop, as when the
  // link goes down.
  always_comb begin
    function_i = core_function;
    function_i.link_up = core_function.link_up && !(rx_valid && rx_aborted && !rx_is_completion);
  end

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
      .s_rx_aborted(rx_aborted),
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
