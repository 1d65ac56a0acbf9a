// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Stands in front of a C2H channel. With `enable` the data written to the host come from the card's
// memory, otherwise from the stream, as if this module were absent. `enable` changes only while the
// channel is idle, apart from work that a restart gives up. Descriptors that copy within the memory
// go no further: one is taken up when the channel has none of its own, and the channel gets the
// next one of its own when the copies are complete.

module crosslane_memory_c2h
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned ADDRESS_BITS = 40,
    parameter bit COPIES = 0,  // within the memory; without, their ports are unused
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input logic clk,
    input logic rst,
    input logic enable,
    input logic forget,  // the channel is stopped or restarts
    // Descriptors: from their supply, and to the channel.
    input logic s_descriptor_valid,
    output logic s_descriptor_ready,
    input descriptor_t s_descriptor,
    // verilator lint_off UNUSEDSIGNAL
    input logic s_to_card,  // its address is one of the card's memory
    // verilator lint_on UNUSEDSIGNAL
    output logic m_descriptor_valid,
    input logic m_descriptor_ready,
    output descriptor_t m_descriptor,
    // Copies: whether the channel would take up a descriptor and has none; bus master; run.
    // verilator lint_off UNUSEDSIGNAL
    input logic channel_waits,
    input logic bus_master,
    input logic run,
    // verilator lint_on UNUSEDSIGNAL
    output copies_t copies,
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
    input logic m_axi_rlast,
    // verilator lint_off UNUSEDSIGNAL
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [ADDRESS_BITS-1:0] m_axi_awaddr,
    output logic [7:0] m_axi_awlen,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    output logic [DATA_BITS-1:0] m_axi_wdata,
    output logic [BYTES-1:0] m_axi_wstrb,
    output logic m_axi_wlast,
    input logic m_axi_bvalid,
    output logic m_axi_bready,
    input logic [1:0] m_axi_bresp
    // verilator lint_on UNUSEDSIGNAL
);
  logic read_ready, read_valid, read_failed, in_memory, offers;
  logic
      to_card,
      is_copy,
      copy_takes,
      read_taken,
      copy_ready,
      clearing,
      read_move,
      read_take,
      copy_move,
      copy_take;
  logic [5:0] read_take_back, copy_take_back;
  logic [6:0] read_take_bytes, copy_take_bytes;
  logic [15:0] read_available;
  logic [DATA_BITS-1:0] read_data;
  descriptor_t read_descriptor;

  // A copy of no bytes, or without leave to be bus master, is the channel's: it stops there.
  assign is_copy = COPIES && to_card && read_descriptor.error == ERROR_NONE &&
      read_descriptor.bytes != '0 && bus_master;

  assign read_taken = enable && (is_copy ? copy_takes : m_descriptor_ready && !copies.open);
  assign copy_takes = read_valid && is_copy && enable && channel_waits && copy_ready;

  assign s_descriptor_ready = enable ? read_ready && !clearing : m_descriptor_ready;
  assign m_descriptor_valid = enable ? read_valid && !is_copy && !copies.open : s_descriptor_valid;
  always_comb begin
    m_descriptor = enable ? read_descriptor : s_descriptor;
    if (COPIES && !enable && s_to_card) m_descriptor.error = ERROR_BAD_DESCRIPTOR;
  end

  assign s_feed_take = m_feed_take && !in_memory;
  assign m_feed_available = !in_memory ? s_feed_available : offers ? read_available : '0;
  assign m_feed_data = in_memory ? read_data : s_feed_data;
  assign m_feed_failed = in_memory && offers && read_failed;

  assign read_move = copies.open ? copy_move : m_feed_move;
  assign read_take = copies.open ? copy_take : m_feed_take && in_memory && offers;
  assign read_take_back = copies.open ? copy_take_back : m_feed_take_back;
  assign read_take_bytes = copies.open ? copy_take_bytes : m_feed_take_bytes;

  // After a restart the channel may still have to finish a TLP begun before it. That is done when
  // it takes up a descriptor: data of the new one must not go into the old TLP.
  always_ff @(posedge clk) begin
    if (((m_descriptor_valid && m_descriptor_ready) || copy_takes) && !forget) begin
      in_memory <= enable;
      offers <= 1'b1;
    end
    // Nothing is read ahead while data of copies that were given up are on their way.
    clearing <= (forget || clearing) && copies.open;
    if (rst || forget) offers <= 1'b0;
    if (rst) begin
      in_memory <= 1'b0;
      clearing  <= 1'b0;
    end
  end

  crosslane_memory_read #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) read (
      .*,
      .s_descriptor_valid(s_descriptor_valid && enable && !clearing),
      .s_descriptor_ready(read_ready),
      .m_descriptor_valid(read_valid),
      .m_descriptor_ready(read_taken),
      .m_descriptor(read_descriptor),
      .feed_available(read_available),
      .feed_move(read_move),
      .feed_take(read_take),
      .feed_take_back(read_take_back),
      .feed_take_bytes(read_take_bytes),
      .feed_data(read_data),
      .failed(read_failed)
  );

  if (COPIES) begin : g_copy
    // Beside the descriptors that are read ahead.
    crosslane_fifo #(
        .WIDTH(1),
        .DEPTH(8)
    ) copies_read (
        .clk,
        .rst(rst || forget),
        .s_valid(s_descriptor_valid && s_descriptor_ready && enable),
        .s_ready(),
        .s_data(s_to_card),
        .m_valid(),
        .m_ready(read_valid && read_taken),
        .m_data(to_card),
        .count()
    );

    crosslane_memory_copy #(
        .DATA_BITS(DATA_BITS),
        .ADDRESS_BITS(ADDRESS_BITS)
    ) copy (
        .*,
        .running(run),
        .descriptor_valid(copy_takes),
        .descriptor_ready(copy_ready),
        .descriptor(read_descriptor),
        .feed_available(offers ? read_available : '0),
        .feed_move(copy_move),
        .feed_take(copy_take),
        .feed_take_back(copy_take_back),
        .feed_take_bytes(copy_take_bytes),
        .feed_data(read_data),
        .read_failed(read_failed && offers)
    );
  end else begin : g_no_copy
    assign copies = '0;
    assign to_card = 1'b0;
    assign {copy_ready, copy_move, copy_take, copy_take_back, copy_take_bytes} = '0;
    assign {m_axi_awvalid, m_axi_awaddr, m_axi_awlen, m_axi_wvalid, m_axi_wdata} = '0;
    assign {m_axi_wstrb, m_axi_wlast, m_axi_bready} = '0;
  end
endmodule
