// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Stands in front of a C2H channel. With `enable` the data written to the host come from the card's
// memory, otherwise from the stream, as if this module were absent. `enable` changes only while the
// channel is idle, apart from work that a restart gives up.

module crosslane_memory_c2h
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned ADDRESS_BITS = 40
) (
    input logic clk,
    input logic rst,
    input logic enable,
    input logic forget,  // the channel is stopped or restarts
    // Descriptors: from their supply, and to the channel.
    input logic s_descriptor_valid,
    output logic s_descriptor_ready,
    input descriptor_t s_descriptor,
    output logic m_descriptor_valid,
    input logic m_descriptor_ready,
    output descriptor_t m_descriptor,
    // Feeds: from the stream, and to the channel.
    input logic [15:0] s_feed_available,
    output logic s_feed_take,
    input logic [DATA_BITS-1:0] s_feed_data,
    output logic [15:0] m_feed_available,
    input logic m_feed_move,
    input logic m_feed_take,
    input logic [5:0] m_feed_take_back,
    input logic [6:0] m_feed_take_bytes,
    output logic [DATA_BITS-1:0] m_feed_data,
    output logic m_feed_failed,
    // AXI4.
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    output logic [ADDRESS_BITS-1:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    input logic m_axi_rvalid,
    output logic m_axi_rready,
    input logic [DATA_BITS-1:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast
);
  logic read_ready, read_valid, read_failed, in_memory, offers;
  logic [15:0] read_available;
  logic [DATA_BITS-1:0] read_data;
  descriptor_t read_descriptor;

  assign s_descriptor_ready = enable ? read_ready : m_descriptor_ready;
  assign m_descriptor_valid = enable ? read_valid : s_descriptor_valid;
  assign m_descriptor = enable ? read_descriptor : s_descriptor;

  assign s_feed_take = m_feed_take && !in_memory;
  assign m_feed_available = !in_memory ? s_feed_available : offers ? read_available : '0;
  assign m_feed_data = in_memory ? read_data : s_feed_data;
  assign m_feed_failed = in_memory && offers && read_failed;

  // After a restart the channel may still have to finish a TLP begun before it. That is done when
  // it takes up a descriptor: data of the new one must not go into the old TLP.
  always_ff @(posedge clk) begin
    if (m_descriptor_valid && m_descriptor_ready && !forget) begin
      in_memory <= enable;
      offers <= 1'b1;
    end
    if (rst || forget) offers <= 1'b0;
    if (rst) in_memory <= 1'b0;
  end

  crosslane_memory_read #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) read (
      .*,
      .s_descriptor_valid(s_descriptor_valid && enable),
      .s_descriptor_ready(read_ready),
      .m_descriptor_valid(read_valid),
      .m_descriptor_ready(m_descriptor_ready && enable),
      .m_descriptor(read_descriptor),
      .feed_available(read_available),
      .feed_move(m_feed_move),
      .feed_take(m_feed_take && in_memory && offers),
      .feed_take_back(m_feed_take_back),
      .feed_take_bytes(m_feed_take_bytes),
      .feed_data(read_data),
      .failed(read_failed)
  );
endmodule
