// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Stands between crosslane_reads and an H2C channel. With `enable` the read data go into the card's
// memory, otherwise to the stream, as if this module were absent. The channel is told of bytes when
// they are in the memory. `enable` changes only while the channel is idle, apart from work that a
// restart gives up: until the bursts that have begun are done, the feed belongs to the memory.

module crosslane_memory_h2c
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS    = 256,
    parameter  int unsigned ADDRESS_BITS = 40,
    localparam int unsigned BYTES        = DATA_BITS / 8
) (
    input  logic                      clk,
    input  logic                      rst,
    input  logic                      enable,
    input  logic                      forget,              // the channel stops or restarts
    // Descriptors: the channel takes one up when it is also recorded here.
    input  logic                      s_descriptor_valid,
    output logic                      s_descriptor_ready,
    input  logic   [            63:0] s_descriptor_card,
    input  logic   [            31:0] s_descriptor_bytes,
    output logic                      m_descriptor_valid,
    input  logic                      m_descriptor_ready,
    // Arrived bytes: from the reads, and for the channel.
    input  logic                      s_arrived_valid,
    input  logic   [            12:0] s_arrived_bytes,
    input  logic                      s_failed_valid,
    input  error_e                    s_failed_error,
    input  logic   [            63:0] s_failed_address,
    output logic                      m_arrived_valid,
    output logic   [            12:0] m_arrived_bytes,
    output logic                      m_failed_valid,
    output error_e                    m_failed_error,
    output logic   [            63:0] m_failed_address,
    // Feeds: from the reads, and to the stream.
    input  logic   [            15:0] s_feed_available,
    output logic                      s_feed_move,
    output logic                      s_feed_take,
    output logic   [             5:0] s_feed_take_back,
    output logic   [             6:0] s_feed_take_bytes,
    output logic                      s_feed_goes_on,
    input  logic   [   DATA_BITS-1:0] s_feed_data,
    output logic   [            15:0] m_feed_available,
    input  logic                      m_feed_move,
    input  logic                      m_feed_take,
    input  logic   [             5:0] m_feed_take_back,
    input  logic   [             6:0] m_feed_take_bytes,
    input  logic                      m_feed_goes_on,
    output logic                      busy,
    // AXI4.
    output logic                      m_axi_awvalid,
    input  logic                      m_axi_awready,
    output logic   [ADDRESS_BITS-1:0] m_axi_awaddr,
    output logic   [             7:0] m_axi_awlen,
    output logic                      m_axi_wvalid,
    input  logic                      m_axi_wready,
    output logic   [   DATA_BITS-1:0] m_axi_wdata,
    output logic   [       BYTES-1:0] m_axi_wstrb,
    output logic                      m_axi_wlast,
    input  logic                      m_axi_bvalid,
    output logic                      m_axi_bready,
    input  logic   [             1:0] m_axi_bresp
);
  logic jobs_ready, written_valid, stop_valid, write_move, write_take;
  logic [12:0] written_bytes;
  logic [5:0] write_take_back;
  logic [6:0] write_take_bytes;
  error_e stop_error;
  logic [63:0] stop_address;
  logic in_memory;  // the feed belongs to the memory, not to the stream

  assign in_memory = enable || busy;

  assign m_descriptor_valid = s_descriptor_valid && (!enable || jobs_ready);
  assign s_descriptor_ready = m_descriptor_ready && (!enable || jobs_ready);

  assign m_arrived_valid = enable ? written_valid : s_arrived_valid;
  assign m_arrived_bytes = enable ? written_bytes : s_arrived_bytes;
  assign m_failed_valid = enable ? stop_valid : s_failed_valid;
  assign m_failed_error = enable ? stop_error : s_failed_error;
  assign m_failed_address = enable ? stop_address : s_failed_address;

  assign m_feed_available = in_memory ? '0 : s_feed_available;
  assign s_feed_move = in_memory ? write_move : m_feed_move;
  assign s_feed_take = in_memory ? write_take : m_feed_take;
  assign s_feed_take_back = in_memory ? write_take_back : m_feed_take_back;
  assign s_feed_take_bytes = in_memory ? write_take_bytes : m_feed_take_bytes;
  assign s_feed_goes_on = m_feed_goes_on && !in_memory;

  crosslane_memory_write #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) write (
      .*,
      .descriptor_valid(s_descriptor_valid && m_descriptor_ready && enable),
      .descriptor_ready(jobs_ready),
      .descriptor_card(s_descriptor_card),
      .descriptor_bytes(s_descriptor_bytes),
      .arrived_valid(s_arrived_valid && enable),
      .arrived_bytes(s_arrived_bytes),
      .failed_valid(s_failed_valid && enable),
      .failed_error(s_failed_error),
      .failed_address(s_failed_address),
      .starved(),
      .next_address(),
      .feed_available(s_feed_available),
      .feed_move(write_move),
      .feed_take(write_take),
      .feed_take_back(write_take_back),
      .feed_take_bytes(write_take_bytes),
      .feed_data(s_feed_data)
  );
endmodule
