// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Engine and reference user circuit behind one pair of TLP streams, with ports for the memory of
// their board.

module crosslane_card_with_memory
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
    parameter bit PUSH = 0,
    parameter bit MEMORY = 1,  // these five as in crosslane_engine
    parameter int unsigned MEMORY_BITS = 40,
    parameter bit COPY = 1,
    parameter bit WINDOW = 0,
    parameter int unsigned WINDOW_BITS = 20,
    localparam int unsigned BYTES = DATA_BITS / 8
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
    output logic completion_timeout,
    // The board's memory, as in crosslane_engine.
    // verilator lint_off UNUSEDSIGNAL
    output logic m_memory_awvalid,
    input logic m_memory_awready,
    output logic [MEMORY_BITS-1:0] m_memory_awaddr,
    output logic [7:0] m_memory_awlen,
    output logic [2:0] m_memory_awsize,
    output logic [1:0] m_memory_awburst,
    output logic m_memory_wvalid,
    input logic m_memory_wready,
    output logic [DATA_BITS-1:0] m_memory_wdata,
    output logic [BYTES-1:0] m_memory_wstrb,
    output logic m_memory_wlast,
    input logic m_memory_bvalid,
    output logic m_memory_bready,
    input logic [1:0] m_memory_bresp,
    output logic m_memory_arvalid,
    input logic m_memory_arready,
    output logic [MEMORY_BITS-1:0] m_memory_araddr,
    output logic [7:0] m_memory_arlen,
    output logic [2:0] m_memory_arsize,
    output logic [1:0] m_memory_arburst,
    input logic m_memory_rvalid,
    output logic m_memory_rready,
    input logic [DATA_BITS-1:0] m_memory_rdata,
    input logic [1:0] m_memory_rresp,
    input logic m_memory_rlast,
    output logic m_window_awvalid,
    input logic m_window_awready,
    output logic [WINDOW_BITS-1:0] m_window_awaddr,
    output logic [7:0] m_window_awlen,
    output logic [2:0] m_window_awsize,
    output logic [1:0] m_window_awburst,
    output logic m_window_wvalid,
    input logic m_window_wready,
    output logic [DATA_BITS-1:0] m_window_wdata,
    output logic [BYTES-1:0] m_window_wstrb,
    output logic m_window_wlast,
    input logic m_window_bvalid,
    output logic m_window_bready,
    input logic [1:0] m_window_bresp,
    output logic m_window_arvalid,
    input logic m_window_arready,
    output logic [WINDOW_BITS-1:0] m_window_araddr,
    output logic [7:0] m_window_arlen,
    output logic [2:0] m_window_arsize,
    output logic [1:0] m_window_arburst,
    input logic m_window_rvalid,
    output logic m_window_rready,
    input logic [DATA_BITS-1:0] m_window_rdata,
    input logic [1:0] m_window_rresp,
    input logic m_window_rlast
    // verilator lint_on UNUSEDSIGNAL
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
      .PUSH(PUSH),
      .MEMORY(MEMORY),
      .MEMORY_BITS(MEMORY_BITS),
      .COPY(COPY),
      .WINDOW(WINDOW),
      .WINDOW_BITS(WINDOW_BITS)
  ) engine (
      .*,
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
