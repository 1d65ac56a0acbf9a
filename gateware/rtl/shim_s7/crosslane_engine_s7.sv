// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The engine with AXI-Streams behind the 7-series integrated block for PCI Express: shim and
// crosslane_engine_axis. Its ports have the names of the hard block's, and of the streams.

module crosslane_engine_s7
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 64,  // or 128
    parameter bit WIDE_BARS = 1'b0,  // BARs of 64 bits: README.md
    // The engine: crosslane_engine_axis.
    parameter int unsigned H2C = 1,
    parameter int unsigned C2H = 1,
    parameter int unsigned PEER = 0,
    parameter int unsigned LANES = 0,
    parameter int unsigned LANE = 0,
    parameter int unsigned TAGS = 32,
    parameter int unsigned MAX_WRITE = 512,
    parameter int unsigned MAX_READ = 1024,
    parameter int unsigned STAGING_BYTES = 32768,
    parameter int unsigned RING_BYTES = 16384,
    parameter int unsigned LANE_FIFO = 16384,
    parameter int unsigned LANE_WINDOW = 524288,
    parameter int unsigned TABLE_ENTRIES = 1024,
    parameter int unsigned BATCH = 16,
    parameter int unsigned COMPLETION_HEADER_CREDITS = 0,
    parameter int unsigned COMPLETION_DATA_CREDITS = 0,
    parameter int unsigned VECTORS = 8,
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter bit PACKETS = 0,
    parameter int unsigned FIFO_DEPTH = 16
) (
    input logic clk,  // user_clk_out
    input logic rst,  // user_reset_out

    input  logic                   m_axis_rx_tvalid,
    output logic                   m_axis_rx_tready,
    input  logic [  DATA_BITS-1:0] m_axis_rx_tdata,
    input  logic [DATA_BITS/8-1:0] m_axis_rx_tkeep,
    input  logic                   m_axis_rx_tlast,
    input  logic [           21:0] m_axis_rx_tuser,
    output logic                   rx_np_ok,
    output logic                   rx_np_req,

    output logic                   s_axis_tx_tvalid,
    input  logic                   s_axis_tx_tready,
    output logic [  DATA_BITS-1:0] s_axis_tx_tdata,
    output logic [DATA_BITS/8-1:0] s_axis_tx_tkeep,
    output logic                   s_axis_tx_tlast,
    output logic [            3:0] s_axis_tx_tuser,
    output logic                   tx_cfg_gnt,
    input  logic [            5:0] tx_buf_av,

    input  logic        user_lnk_up,
    input  logic [ 7:0] cfg_bus_number,
    input  logic [ 4:0] cfg_device_number,
    input  logic [ 2:0] cfg_function_number,
    input  logic [15:0] cfg_command,
    input  logic [15:0] cfg_dcommand,
    input  logic        cfg_interrupt_msixenable,
    input  logic        cfg_interrupt_msixfm,
    input  logic        cfg_received_func_lvl_rst,
    output logic        cfg_err_cpl_timeout,
    output logic        cfg_err_cpl_unexpect,
    input  logic [ 7:0] fc_ph,
    input  logic [11:0] fc_pd,
    input  logic [ 7:0] fc_nph,
    input  logic [ 7:0] fc_cplh,
    input  logic [11:0] fc_cpld,
    output logic [ 2:0] fc_sel,

    // All ports below: user_clk (crosslane_engine_axis).
    input logic user_clk,
    input logic user_rst,
    output logic user_rst_o,
    output logic [H2C-1:0][DATA_BITS-1:0] m_axis_h2c_tdata,
    output logic [H2C-1:0][DATA_BITS/8-1:0] m_axis_h2c_tkeep,
    output logic [H2C-1:0] m_axis_h2c_tlast,
    output logic [H2C-1:0][15:0] m_axis_h2c_tuser,
    output logic [H2C-1:0] m_axis_h2c_tvalid,
    input logic [H2C-1:0] m_axis_h2c_tready,
    output logic [DATA_BITS-1:0] m_axis_lane_tdata,
    output logic [DATA_BITS/8-1:0] m_axis_lane_tkeep,
    output logic m_axis_lane_tvalid,
    input logic m_axis_lane_tready,
    input logic [C2H+PEER-1:0][DATA_BITS-1:0] s_axis_write_tdata,
    input logic [C2H+PEER-1:0][DATA_BITS/8-1:0] s_axis_write_tkeep,
    input logic [C2H+PEER-1:0] s_axis_write_tlast,
    input logic [C2H+PEER-1:0][15:0] s_axis_write_tuser,
    input logic [C2H+PEER-1:0] s_axis_write_tvalid,
    output logic [C2H+PEER-1:0] s_axis_write_tready
);
  logic engine_rst;
  function_t function_i;
  room_t link_room;
  logic rx_valid, rx_ready, rx_first, rx_last;
  tlp_header_t rx_header, tx_header;
  logic [DATA_BITS-1:0] rx_data, tx_data;
  logic tx_valid, tx_ready, tx_first, tx_last;

  // Answers of the hard block itself (configuration) may go between any two TLPs.
  assign tx_cfg_gnt = 1'b1;

  crosslane_shim_s7 #(
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

  crosslane_engine_axis #(
      .DATA_BITS(DATA_BITS),
      .H2C(H2C),
      .C2H(C2H),
      .PEER(PEER),
      .LANES(LANES),
      .LANE(LANE),
      .TAGS(TAGS),
      .MAX_WRITE(MAX_WRITE),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .RING_BYTES(RING_BYTES),
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
      .FIFO_DEPTH(FIFO_DEPTH)
  ) engine (
      .*,
      .rst(engine_rst),
      .room_i(link_room),
      .time_o(),
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
      .unexpected_completion(cfg_err_cpl_unexpect),
      .completion_timeout(cfg_err_cpl_timeout)
  );
endmodule
