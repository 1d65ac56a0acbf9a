// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Engine and reference user circuit behind one pair of TLP streams: the content of a demonstration
// board behind its shim, and the gateware that the lab runs in place of its model.

module crosslane_card
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
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
    parameter int unsigned COMPLETION_HEADER_CREDITS = 0,
    parameter int unsigned COMPLETION_DATA_CREDITS = 0,
    parameter int unsigned VECTORS = 8,
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter bit PACKETS = 0,
    parameter bit PUSH = 0
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input room_t room_i,
    // Engine time. A simulation that skips idle clocks sets it forward.
    input logic time_set_valid,
    input logic [63:0] time_set_value,
    output logic [63:0] time_o,
    output logic busy_o,
    input logic s_rx_valid,
    output logic s_rx_ready,
    input tlp_header_t s_rx_header,
    input logic s_rx_first,
    input logic s_rx_last,
    input logic [DATA_BITS-1:0] s_rx_data,
    input logic s_rx_aborted,
    output logic m_tx_valid,
    input logic m_tx_ready,
    output tlp_header_t m_tx_header,
    output logic m_tx_first,
    output logic m_tx_last,
    output logic [DATA_BITS-1:0] m_tx_data,
    output logic poisoned_write,
    output logic unexpected_completion,
    output logic completion_timeout
);
  localparam int unsigned WRITERS = C2H + PEER;
  localparam int unsigned LANE_PLACES = (LANES > 0) ? LANES : 1;

  logic engine_busy, user_busy;
  assign busy_o = engine_busy || user_busy;

  always_ff @(posedge clk) begin
    time_o <= time_set_valid ? time_set_value : time_o + 1'b1;
    if (rst) time_o <= '0;
  end

  user_settings_t user_settings;
  user_readings_t user_readings;
  logic [H2C-1:0][15:0] h2c_available;
  logic [H2C-1:0] h2c_move, h2c_take, h2c_goes_on, h2c_drained;
  logic [H2C-1:0][5:0] h2c_take_back;
  logic [H2C-1:0][6:0] h2c_take_bytes;
  logic [H2C-1:0][DATA_BITS-1:0] h2c_data;
  packet_end_t [H2C-1:0] h2c_end;
  packet_end_t [WRITERS-1:0] write_end;
  logic [WRITERS-1:0][15:0] write_available;
  logic [WRITERS-1:0] write_move, write_take, write_goes_on, write_generated;
  logic [WRITERS-1:0][5:0] write_take_back;
  logic [WRITERS-1:0][6:0] write_take_bytes;
  logic [WRITERS-1:0][DATA_BITS-1:0] write_data;
  logic [LANE_PLACES-1:0] lane_kept;
  logic [3:0] lane_select, received_lane;
  logic [15:0] lane_available;
  logic lane_move, lane_take, lane_goes_on, received_valid;
  logic [5:0] lane_take_back;
  logic [6:0] lane_take_bytes;
  logic [DATA_BITS-1:0] lane_data;
  logic [12:0] received_bytes;
  logic command_valid, command_ready, command_done, message_begun, peer_stopped;
  descriptor_t command_descriptor;

  crosslane_engine #(
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
  ) engine (
      .*,
      // This card has no memory.
      .m_memory_awvalid(),
      .m_memory_awaddr(),
      .m_memory_awlen(),
      .m_memory_awsize(),
      .m_memory_awburst(),
      .m_memory_wvalid(),
      .m_memory_wdata(),
      .m_memory_wstrb(),
      .m_memory_wlast(),
      .m_memory_bready(),
      .m_memory_arvalid(),
      .m_memory_araddr(),
      .m_memory_arlen(),
      .m_memory_arsize(),
      .m_memory_arburst(),
      .m_memory_rready(),
      .m_memory_awready('0),
      .m_memory_wready('0),
      .m_memory_bvalid('0),
      .m_memory_bresp('0),
      .m_memory_arready('0),
      .m_memory_rvalid('0),
      .m_memory_rdata('0),
      .m_memory_rresp('0),
      .m_memory_rlast('0),
      .m_window_awvalid(),
      .m_window_awaddr(),
      .m_window_awlen(),
      .m_window_awsize(),
      .m_window_awburst(),
      .m_window_wvalid(),
      .m_window_wdata(),
      .m_window_wstrb(),
      .m_window_wlast(),
      .m_window_bready(),
      .m_window_arvalid(),
      .m_window_araddr(),
      .m_window_arlen(),
      .m_window_arsize(),
      .m_window_arburst(),
      .m_window_rready(),
      .m_window_awready('0),
      .m_window_wready('0),
      .m_window_bvalid('0),
      .m_window_bresp('0),
      .m_window_arready('0),
      .m_window_rvalid('0),
      .m_window_rdata('0),
      .m_window_rresp('0),
      .m_window_rlast('0),
      .window_failed(),
      .time_i(time_o),
      .busy(engine_busy)
  );

  crosslane_user #(
      .DATA_BITS(DATA_BITS),
      .H2C(H2C),
      .C2H(C2H),
      .PEER(PEER),
      .LANES(LANES)
  ) user (
      .*,
      .time_i(time_o)
  );

endmodule
