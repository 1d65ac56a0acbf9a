// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The engine with the card's memory and BAR 2 as an aperture onto it. In place of a user circuit,
// H2C data go to C2H unchanged.

// A host sets the engine time of a whole card.
// verilator lint_off UNUSEDSIGNAL
module card_memory
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned TAGS = 64,
    parameter int unsigned MAX_WRITE = 1024,
    parameter int unsigned TIMEOUT_CLOCKS = 12000,  // the data of all tags take 4096 at 64 bits
    parameter int unsigned MEMORY_BITS = 20,
    parameter int unsigned WINDOW_BITS = 16,
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input room_t room_i,
    input logic time_set_valid,
    input logic [63:0] time_set_value,
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
    output logic [15:0] stream_beats,  // beats passed through the stream
    output logic window_failed,
    output logic busy,
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
);

  logic [63:0] time_i;
  logic [15:0] available;
  logic move, take, goes_on;
  logic [5:0] take_back;
  logic [6:0] take_bytes;
  logic [DATA_BITS-1:0] data;

  always_ff @(posedge clk) begin
    time_i <= time_i + 1'b1;
    if (move && take) stream_beats <= stream_beats + 1'b1;
    if (rst) begin
      time_i <= '0;
      stream_beats <= '0;
    end
  end

  crosslane_engine #(
      .DATA_BITS(DATA_BITS),
      .PEER(0),
      .LANES(0),
      .TAGS(TAGS),
      .MAX_WRITE(MAX_WRITE),
      .TABLE_ENTRIES(64),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS),
      .MEMORY(1),
      .MEMORY_BITS(MEMORY_BITS),
      .COPY(1),
      .WINDOW(1),
      .WINDOW_BITS(WINDOW_BITS)
  ) engine (
      .*,
      .user_settings(),
      .user_readings('0),
      .h2c_available(available),
      .h2c_move(move),
      .h2c_take(take),
      .h2c_take_back(take_back),
      .h2c_take_bytes(take_bytes),
      .h2c_goes_on(goes_on),
      .h2c_data(data),
      .h2c_end(),
      .h2c_drained('0),
      .s_rx_aborted(1'b0),
      .write_available(available),
      .write_move(move),
      .write_take(take),
      .write_take_back(take_back),
      .write_take_bytes(take_bytes),
      .write_goes_on(goes_on),
      .write_data(data),
      .write_end('0),
      .write_generated(),
      .lane_kept('0),
      .lane_select('0),
      .lane_available(),
      .lane_move(1'b0),
      .lane_take(1'b0),
      .lane_take_back('0),
      .lane_take_bytes('0),
      .lane_goes_on(1'b0),
      .lane_data(),
      .received_valid(),
      .received_lane(),
      .received_bytes(),
      .command_valid(1'b0),
      .command_ready(),
      .command_descriptor('0),
      .command_done(),
      .message_begun(),
      .peer_stopped(),
      .poisoned_write(),
      .unexpected_completion(),
      .completion_timeout()
  );
endmodule
