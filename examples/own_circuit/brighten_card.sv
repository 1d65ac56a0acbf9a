// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A card that brightens images: the engine with its AXI-Streams, and a user circuit between them in
// a clock of its own. Host memory -> H2C 0 -> brighten -> C2H 0 -> host memory. Towards the link it
// has the engine's TLP streams; a board joins them to its hard block by a shim (gateware/README.md).

module brighten_card
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 64,
    parameter logic [7:0] ADDED = 8'd40,
    parameter int unsigned CLOCK_PS = 4000
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input room_t room_i,
    input logic s_rx_valid,
    output logic s_rx_ready,
    input tlp_header_t s_rx_header,
    input logic s_rx_first,
    input logic s_rx_last,
    input logic [DATA_BITS-1:0] s_rx_data,
    output logic m_tx_valid,
    input logic m_tx_ready,
    output tlp_header_t m_tx_header,
    output logic m_tx_first,
    output logic m_tx_last,
    output logic [DATA_BITS-1:0] m_tx_data,
    input logic user_clk,
    input logic user_rst
);
  localparam int unsigned BYTES = DATA_BITS / 8;

  logic user_rst_o;
  logic [DATA_BITS-1:0] dark_tdata, bright_tdata;
  logic [BYTES-1:0] dark_tkeep, bright_tkeep;
  logic dark_tvalid, dark_tready, bright_tvalid, bright_tready;

  crosslane_engine_axis #(
      .DATA_BITS    (DATA_BITS),
      .LANES        (0),
      .STAGING_BYTES(16384),
      .TABLE_ENTRIES(0),
      .CLOCK_PS     (CLOCK_PS)
  ) engine (
      .*,
      .time_o               (),
      .s_rx_aborted         (1'b0),
      .poisoned_write       (),
      .unexpected_completion(),
      .completion_timeout   (),
      .m_axis_h2c_tdata     (dark_tdata),
      .m_axis_h2c_tkeep     (dark_tkeep),
      .m_axis_h2c_tlast     (),
      .m_axis_h2c_tuser     (),
      .m_axis_h2c_tvalid    (dark_tvalid),
      .m_axis_h2c_tready    (dark_tready),
      .m_axis_lane_tdata    (),
      .m_axis_lane_tkeep    (),
      .m_axis_lane_tvalid   (),
      .m_axis_lane_tready   (1'b1),
      .s_axis_write_tdata   (bright_tdata),
      .s_axis_write_tkeep   (bright_tkeep),
      .s_axis_write_tlast   (1'b0),
      .s_axis_write_tuser   ('0),
      .s_axis_write_tvalid  (bright_tvalid),
      .s_axis_write_tready  (bright_tready)
  );

  brighten #(
      .BYTES(BYTES),
      .ADDED(ADDED)
  ) circuit (
      .clk          (user_clk),
      .rst          (user_rst_o),
      .s_axis_tdata (dark_tdata),
      .s_axis_tkeep (dark_tkeep),
      .s_axis_tvalid(dark_tvalid),
      .s_axis_tready(dark_tready),
      .m_axis_tdata (bright_tdata),
      .m_axis_tkeep (bright_tkeep),
      .m_axis_tvalid(bright_tvalid),
      .m_axis_tready(bright_tready)
  );
endmodule
