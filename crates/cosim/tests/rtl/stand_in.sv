// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A circuit with the ports of `crosslane_card`, for the tests of what is around it. It sends back
// what is written to it, to 16 MiB and the same offset; a read of a double word is answered with
// the engine time.

module crosslane_card
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 64,
    parameter int unsigned H2C = 1,
    parameter int unsigned C2H = 1,
    parameter int unsigned PEER = 1,
    parameter int unsigned LANES = 8,
    parameter int unsigned TAGS = 64,
    parameter int unsigned MAX_WRITE = 256,
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
    input logic time_set_valid,
    input logic [63:0] time_set_value,
    output logic [63:0] time_o,
    output logic busy_o,
    input logic s_rx_valid,
    output logic s_rx_ready,
    input tlp_header_t s_rx_header,
    input logic s_rx_first,
    input logic s_rx_last,
    input logic s_rx_aborted,
    input logic [DATA_BITS-1:0] s_rx_data,
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
  logic is_completion, is_dropped;

  assign is_completion = s_rx_header.kind == COMPLETION || s_rx_header.kind == COMPLETION_DATA;
  assign s_rx_ready = !m_tx_valid || m_tx_ready;
  assign busy_o = m_tx_valid;
  assign poisoned_write = 1'b0;
  assign completion_timeout = 1'b0;

  always_ff @(posedge clk) begin
    time_o <= time_set_valid ? time_set_value : time_o + 1'b1;
    unexpected_completion <= s_rx_valid && s_rx_ready && s_rx_first && is_completion;
    if (s_rx_ready) begin
      m_tx_valid <= s_rx_valid && room_i.posted && room_i.completion &&
          !(s_rx_first ? is_completion : is_dropped);
      if (s_rx_valid && s_rx_first) is_dropped <= is_completion;
      m_tx_first <= s_rx_first;
      m_tx_last <= s_rx_last;
      m_tx_data <= s_rx_data;
      m_tx_header <= s_rx_header;
      m_tx_header.requester <= function_i.routing_id;
      m_tx_header.address <= {40'h1, s_rx_header.address[23:0]};
      if (s_rx_header.kind == MEMORY_READ) begin
        m_tx_header.kind <= COMPLETION_DATA;
        m_tx_header.requester <= s_rx_header.requester;
        m_tx_header.completer <= function_i.routing_id;
        m_tx_header.address <= s_rx_header.address;
        m_tx_header.byte_count <= 13'd4;
        m_tx_header.status <= STATUS_SUCCESSFUL;
        m_tx_data <= DATA_BITS'(time_o);
      end
    end
    if (rst) begin
      m_tx_valid <= 1'b0;
      time_o <= '0;
      is_dropped <= 1'b0;
      unexpected_completion <= 1'b0;
    end
  end
endmodule
