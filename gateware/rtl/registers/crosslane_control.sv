// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The software interface of an engine: registers, and status blocks and interrupts of all channels.

module crosslane_control
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
    parameter int unsigned LANE_FIFO = 16384,
    parameter int unsigned LANE_WINDOW = 524288,
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TABLE_ENTRIES = 1024,
    parameter int unsigned FETCH_BATCH = 16,
    parameter bit MEMORY = 0,
    parameter bit COPY = 0,
    parameter bit PACKETS = 0,
    parameter bit PUSH = 0,
    parameter int unsigned VECTORS = 8,
    localparam int unsigned CHANNELS = H2C + C2H + PEER,
    localparam int unsigned LANE_PLACES = (LANES > 0) ? LANES : 1
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input logic [63:0] time_i,
    // Register accesses and their answers.
    input logic s_request_valid,
    output logic s_request_ready,
    input tlp_header_t s_request_header,
    input logic s_request_first,
    input logic s_request_last,
    input logic [DATA_BITS-1:0] s_request_data,
    output logic m_answer_valid,
    input logic m_answer_ready,
    output tlp_header_t m_answer_header,
    output logic m_answer_first,
    output logic m_answer_last,
    output logic [DATA_BITS-1:0] m_answer_data,
    // Status blocks and interrupts.
    output logic m_status_valid,
    input logic m_status_ready,
    output tlp_header_t m_status_header,
    output logic m_status_first,
    output logic m_status_last,
    output logic [DATA_BITS-1:0] m_status_data,
    // Channels, lanes, user circuit.
    output channel_settings_t [CHANNELS-1:0] settings,
    input channel_readings_t [CHANNELS-1:0] readings,
    input due_t [CHANNELS-1:0] due,
    output logic [CHANNELS-1:0] status_taken,
    output logic [CHANNELS-1:0] interrupt_taken,
    output lane_settings_t [LANE_PLACES-1:0] lane_settings,
    input lane_readings_t [LANE_PLACES-1:0] lane_readings,
    output user_settings_t user_settings,
    input user_readings_t user_readings,
    output logic reset_counters,
    output logic access_held,
    // Descriptor tables of H2C 0 and of C2H 0.
    input logic [1:0] table_take,
    input logic [1:0][9:0] table_index,
    output logic [1:0][127:0] table_entry,
    output logic [1:0] table_whole
);
  logic [ 4:0] msix_vector;
  logic [63:0] msix_address;
  logic [31:0] msix_data, msix_masked, msix_pending;
  logic msix_ready;

  crosslane_registers #(
      .DATA_BITS(DATA_BITS),
      .H2C(H2C),
      .C2H(C2H),
      .PEER(PEER),
      .LANES(LANES),
      .TAGS(TAGS),
      .MAX_WRITE(MAX_WRITE),
      .MAX_READ(MAX_READ),
      .LANE_FIFO(LANE_FIFO),
      .LANE_WINDOW(LANE_WINDOW),
      .CLOCK_PS(CLOCK_PS),
      .TABLE_ENTRIES(TABLE_ENTRIES),
      .FETCH_BATCH(FETCH_BATCH),
      .MEMORY(MEMORY),
      .COPY(COPY),
      .PACKETS(PACKETS),
      .PUSH(PUSH),
      .VECTORS(VECTORS)
  ) registers (
      .*
  );

  crosslane_status #(
      .DATA_BITS(DATA_BITS),
      .CHANNELS (CHANNELS),
      .VECTORS  (VECTORS)
  ) status (
      .*
  );
endmodule
