// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A card behind the shell of AWS F2: engine, reference user circuit and shim. Its ports have the
// names of the shell, without `cl_sh_` and `sh_cl_`; a top for the shell joins them.

module crosslane_card_f2
  import crosslane_pkg::*;
#(
    // The card: crosslane_card. BAR 0 alone leads to it, so it has no lanes and no pushed lines.
    parameter int unsigned H2C = 1,
    parameter int unsigned C2H = 1,
    parameter int unsigned PEER = 1,
    parameter int unsigned LANES = 0,
    parameter int unsigned TAGS = 64,
    parameter int unsigned MAX_WRITE = 512,
    parameter int unsigned MAX_READ = 1024,
    parameter int unsigned STAGING_BYTES = 65536,
    parameter int unsigned LANE_FIFO = 16384,
    parameter int unsigned LANE_WINDOW = 524288,
    parameter int unsigned TABLE_ENTRIES = 1024,
    parameter int unsigned BATCH = 16,
    parameter int unsigned VECTORS = 8,
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter bit PACKETS = 0
) (
    input logic clk,  // clk_main_a0
    input logic rst,  // rst_main_n, inverted

    input  logic       flr_assert,
    output logic       flr_done,
    input  logic [1:0] cfg_max_payload,
    input  logic [2:0] cfg_max_read_req,

    output logic [ 63:0] pcim_awaddr,
    output logic [  7:0] pcim_awlen,
    output logic [  2:0] pcim_awsize,
    output logic [  1:0] pcim_awburst,
    output logic         pcim_awvalid,
    input  logic         pcim_awready,
    output logic [511:0] pcim_wdata,
    output logic [ 63:0] pcim_wstrb,
    output logic         pcim_wlast,
    output logic         pcim_wvalid,
    input  logic         pcim_wready,
    // A write that was refused is lost, as on PCI Express.
    // verilator lint_off UNUSEDSIGNAL
    input  logic [  1:0] pcim_bresp,
    // verilator lint_on UNUSEDSIGNAL
    input  logic         pcim_bvalid,
    output logic         pcim_bready,
    output logic [ 63:0] pcim_araddr,
    output logic [  7:0] pcim_arlen,
    output logic [  2:0] pcim_arsize,
    output logic [  1:0] pcim_arburst,
    output logic         pcim_arvalid,
    input  logic         pcim_arready,
    input  logic [511:0] pcim_rdata,
    input  logic [  1:0] pcim_rresp,
    input  logic         pcim_rlast,
    input  logic         pcim_rvalid,
    output logic         pcim_rready,

    input  logic [31:0] ocl_awaddr,
    input  logic        ocl_awvalid,
    output logic        ocl_awready,
    input  logic [31:0] ocl_wdata,
    input  logic [ 3:0] ocl_wstrb,
    input  logic        ocl_wvalid,
    output logic        ocl_wready,
    output logic [ 1:0] ocl_bresp,
    output logic        ocl_bvalid,
    input  logic        ocl_bready,
    input  logic [31:0] ocl_araddr,
    input  logic        ocl_arvalid,
    output logic        ocl_arready,
    output logic [31:0] ocl_rdata,
    output logic [ 1:0] ocl_rresp,
    output logic        ocl_rvalid,
    input  logic        ocl_rready,

    output logic [15:0] apppf_irq_req,
    input  logic [15:0] apppf_irq_ack
);
  logic engine_rst;
  function_t function_i;
  room_t link_room;
  logic rx_valid, rx_ready, rx_first, rx_last, rx_aborted;
  tlp_header_t rx_header, tx_header;
  logic [511:0] rx_data, tx_data;
  logic tx_valid, tx_ready, tx_first, tx_last;

  crosslane_shim_f2 #(
      .VECTORS(VECTORS),
      .TAGS(TAGS)
  ) shim (
      .*,
      .function_o(function_i),
      .room(link_room),
      .m_rx_valid(rx_valid),
      .m_rx_ready(rx_ready),
      .m_rx_header(rx_header),
      .m_rx_first(rx_first),
      .m_rx_last(rx_last),
      .m_rx_aborted(rx_aborted),
      .m_rx_data(rx_data),
      .s_tx_valid(tx_valid),
      .s_tx_ready(tx_ready),
      .s_tx_header(tx_header),
      .s_tx_first(tx_first),
      .s_tx_last(tx_last),
      .s_tx_data(tx_data)
  );

  crosslane_card #(
      .DATA_BITS(512),
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
      .VECTORS(VECTORS),
      .CLOCK_PS(CLOCK_PS),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS),
      .PACKETS(PACKETS)
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
endmodule
