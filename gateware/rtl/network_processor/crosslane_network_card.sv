// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A network processor with its registers: an endpoint between a shim and the transceivers of its
// links. BAR 0 has the registers; reads of the other apertures give zeros.

module crosslane_network_card
  import crosslane_pkg::*;
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,  // these as in crosslane_network_processor
    parameter int unsigned LINKS = 1,
    parameter int unsigned PUT_SLOTS = 8,
    parameter int unsigned CREDIT_SLOTS = 64,
    parameter int unsigned GET_SLOTS = 64,
    parameter int unsigned TAGS = 32,
    parameter int unsigned MAX_READ = 512,
    parameter int unsigned STAGING_BYTES = 4096,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter int unsigned MAX_WRITE = 256,
    parameter int unsigned LANES = 8,
    parameter int unsigned LANE_RATE = 5,  // in units of 0.5 Gb/s
    parameter int unsigned SYMBOLS = 2,
    parameter int unsigned CHANNEL_DATAGRAMS = 64,
    parameter int unsigned QUEUE_DATAGRAMS = 2,
    parameter int unsigned RETRY_DATAGRAMS = 32,
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 8,
    parameter int unsigned ACKNOWLEDGE_WITHIN = 204,
    parameter int unsigned RETRY_TIMEOUT = 918,
    parameter int unsigned REFRESH = 1598,
    parameter int unsigned NODES = 0,
    parameter bit LONG = 1'b0,
    parameter bit BLOCKS = 1'b0,
    localparam int unsigned WORD_BITS = word_bits(BLOCKS, SYMBOLS)
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input room_t room_i,
    input logic [15:0] first_session,  // another in each reset
    output logic busy_o,  // `status.quiet` is 0, or a generator runs
    output logic [LINKS-1:0] settled_o,  // each link: off, or up and with nothing to send
    // TLPs.
    input logic s_rx_valid,
    output logic s_rx_ready,
    input tlp_header_t s_rx_header,
    input logic s_rx_first,
    input logic s_rx_last,
    input logic [DATA_BITS-1:0] s_rx_data,
    input logic s_rx_aborted,  // with a completion's last beat: its data are bad
    output logic m_tx_valid,
    input logic m_tx_ready,
    output tlp_header_t m_tx_header,
    output logic m_tx_first,
    output logic m_tx_last,
    output logic [DATA_BITS-1:0] m_tx_data,
    // Of the transceivers of each link, as in crosslane_link_port.
    output logic [LINKS-1:0] tx_enable,
    output logic [LINKS-1:0] tx_begins_word,
    output logic [LINKS-1:0][LANES-1:0][WORD_BITS-1:0] tx_words,
    input logic [LINKS-1:0] rx_clk,
    input logic [LINKS-1:0] rx_rst,
    input logic [LINKS-1:0][LANES-1:0] rx_detected,
    input logic [LINKS-1:0][LANES-1:0][WORD_BITS-1:0] rx_words
);
  // --- Where a TLP goes ----------------------------------------------------------------------
  typedef enum logic [1:0] {
    TO_NOWHERE,
    TO_APERTURES,
    TO_GETS,
    TO_REGISTERS
  } way_e;
  way_e way, begun_way;
  logic is_write, is_completion, is_aperture, words_ready, access_ready;

  assign is_write = s_rx_header.kind == MEMORY_WRITE;
  assign is_completion = s_rx_header.kind == COMPLETION || s_rx_header.kind == COMPLETION_DATA;
  assign is_aperture = s_rx_header.bar == REQUEST_BAR || s_rx_header.bar == PUT_BAR;
  always_comb begin
    way = begun_way;
    if (s_rx_first) begin
      way = TO_REGISTERS;
      if (is_completion) way = TO_GETS;
      else if (is_write && is_aperture) way = TO_APERTURES;
      else if (is_write && s_rx_header.poisoned) way = TO_NOWHERE;
    end
  end

  always_comb begin
    unique case (way)
      TO_APERTURES: s_rx_ready = words_ready;
      TO_REGISTERS: s_rx_ready = access_ready;
      default: s_rx_ready = 1'b1;
    endcase
  end
  always_ff @(posedge clk) if (s_rx_valid) begun_way <= way;

  // --- Registers -----------------------------------------------------------------------------
  // Reads of the apertures are answered as those of receive queues are.
  localparam logic [2:0] ZEROS_BAR = 3'd1;
  tlp_header_t access_header;
  logic answer_valid, answer_ready, answer_first, answer_last;
  tlp_header_t answer_header;
  logic [DATA_BITS-1:0] answer_data;
  logic access_valid, access_write, reset_pulse, counts_written, quiet;
  // verilator lint_off UNUSEDSIGNAL
  logic [15:2] access_address;  // of a BAR of 4 KiB
  // verilator lint_on UNUSEDSIGNAL
  logic [31:0] access_data, read_data;
  logic [63:0] counts_address;
  logic [LINKS-1:0] enable, retrain, generates, checks;
  logic [LINKS-1:0][1:0] mode;
  extent_t [DIMENSIONS-1:0] extents;
  logic extents_written, hold_routed;
  assign busy_o = !quiet || generates != '0;
  network_counters_t counters;
  port_state_e [LINKS-1:0] state;
  logic [LINKS-1:0][9:0] far_channel_datagrams;
  link_counters_t [LINKS-1:0] link_counters;
  lane_counters_t [LINKS-1:0] lane_counters;
  logic [LINKS-1:0][LANES-1:0][31:0] lane_errors;
  logic [LINKS-1:0][31:0] checked, wrong;

  always_comb begin
    access_header = s_rx_header;
    if (s_rx_header.bar == ZEROS_BAR) access_header.bar = NO_BAR;
    else if (is_aperture) access_header.bar = ZEROS_BAR;
  end

  crosslane_register_access #(
      .DATA_BITS(DATA_BITS),
      .HAS_LANES(1'b1)
  ) register_access (
      .clk,
      .rst,
      .function_i,
      .s_request_header(access_header),
      .s_request_valid(s_rx_valid && way == TO_REGISTERS),
      .s_request_ready(access_ready),
      .s_request_first(s_rx_first),
      .s_request_last(s_rx_last),
      .s_request_data(s_rx_data),
      .m_answer_valid(answer_valid),
      .m_answer_ready(answer_ready),
      .m_answer_header(answer_header),
      .m_answer_first(answer_first),
      .m_answer_last(answer_last),
      .m_answer_data(answer_data),
      .access_valid,
      .access_write,
      .access_reads(),
      .access_address,
      .access_data,
      .access_wait(1'b0),
      .read_data
  );

  crosslane_network_registers #(
      .LINKS(LINKS),
      .PUT_SLOTS(PUT_SLOTS),
      .CREDIT_SLOTS(CREDIT_SLOTS),
      .GET_SLOTS(GET_SLOTS),
      .LANES(LANES),
      .LANE_RATE(LANE_RATE),
      .ROUTED(NODES != 0),
      .LONG(LONG)
  ) registers (
      .access_address(access_address[11:2]),
      .reset_o(reset_pulse),
      .*
  );

  // --- The network processor -----------------------------------------------------------------
  logic [LINKS-1:0] m_read_valid, m_read_ready;
  tlp_header_t [LINKS-1:0] m_read_header;
  logic write_valid, write_ready, write_first, write_last;
  tlp_header_t write_header;
  logic [DATA_BITS-1:0] write_data;

  crosslane_network_processor #(
      .DATA_BITS(DATA_BITS),
      .LINKS(LINKS),
      .PUT_SLOTS(PUT_SLOTS),
      .CREDIT_SLOTS(CREDIT_SLOTS),
      .GET_SLOTS(GET_SLOTS),
      .TAGS(TAGS),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS),
      .MAX_WRITE(MAX_WRITE),
      .LANES(LANES),
      .SYMBOLS(SYMBOLS),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
      .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
      .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
      .ACKNOWLEDGE_WITHIN(ACKNOWLEDGE_WITHIN),
      .RETRY_TIMEOUT(RETRY_TIMEOUT),
      .REFRESH(REFRESH),
      .NODES(NODES),
      .LONG(LONG),
      .BLOCKS(BLOCKS)
  ) processor (
      .reset_i(reset_pulse),
      .settled(settled_o),
      .s_rx_valid(s_rx_valid && way == TO_APERTURES),
      .s_rx_ready(words_ready),
      .s_completion_valid(s_rx_valid && way == TO_GETS),
      .s_completion_header(s_rx_header),
      .s_completion_first(s_rx_first),
      .s_completion_last(s_rx_last),
      .s_completion_data(s_rx_data),
      .s_completion_aborted(s_rx_aborted),
      .m_tx_valid(write_valid),
      .m_tx_ready(write_ready),
      .m_tx_header(write_header),
      .m_tx_first(write_first),
      .m_tx_last(write_last),
      .m_tx_data(write_data),
      .*
  );

  crosslane_arbiter #(
      .DATA_BITS(DATA_BITS),
      .SOURCES  (LINKS + 1)
  ) arbiter (
      .clk,
      .rst,
      .room_i,
      .s_answer_valid(answer_valid),
      .s_answer_ready(answer_ready),
      .s_answer_header(answer_header),
      .s_answer_first(answer_first),
      .s_answer_last(answer_last),
      .s_answer_data(answer_data),
      .s_valid({m_read_valid, write_valid}),
      .s_ready({m_read_ready, write_ready}),
      .s_header({m_read_header, write_header}),
      .s_first({{LINKS{1'b1}}, write_first}),
      .s_last({{LINKS{1'b1}}, write_last}),
      .s_data({(LINKS * DATA_BITS)'(0), write_data}),
      .m_tx_valid,
      .m_tx_ready,
      .m_tx_header,
      .m_tx_first,
      .m_tx_last,
      .m_tx_data
  );
endmodule
