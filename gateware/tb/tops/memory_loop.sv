// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_memory_write behind a ring that the test fills, and crosslane_memory_read in front of a
// stream that it reads; both on one AXI4 bus to the test's memory.

module memory_loop
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS = 256,
    localparam int unsigned BYTES     = DATA_BITS / 8
) (
    input logic clk,
    input logic rst,
    // Into the ring: data that H2C has read.
    input logic [DATA_BITS-1:0] s_tdata,
    input logic [BYTES-1:0] s_tkeep,
    input logic s_tvalid,
    output logic s_tready,
    input logic write_forget,
    input logic write_descriptor_valid,
    output logic write_descriptor_ready,
    input logic [63:0] write_descriptor_card,
    input logic [31:0] write_descriptor_bytes,
    input logic failed_valid,
    output logic written_valid,
    output logic [12:0] written_bytes,
    output logic stop_valid,
    output logic [3:0] stop_error,
    output logic [63:0] stop_address,
    output logic busy,
    // Out of the memory.
    input logic read_forget,
    input logic read_descriptor_valid,
    output logic read_descriptor_ready,
    input logic [63:0] read_descriptor_card,
    input logic [31:0] read_descriptor_bytes,
    output logic read_failed,
    output logic [DATA_BITS-1:0] m_tdata,
    output logic [BYTES-1:0] m_tkeep,
    output logic m_tvalid,
    input logic m_tready,
    // AXI4.
    output logic [39:0] m_axi_awaddr,
    output logic [7:0] m_axi_awlen,
    output logic [2:0] m_axi_awsize,
    output logic [1:0] m_axi_awburst,
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [DATA_BITS-1:0] m_axi_wdata,
    output logic [BYTES-1:0] m_axi_wstrb,
    output logic m_axi_wlast,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    input logic [1:0] m_axi_bresp,
    input logic m_axi_bvalid,
    output logic m_axi_bready,
    output logic [39:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    output logic [2:0] m_axi_arsize,
    output logic [1:0] m_axi_arburst,
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    input logic [DATA_BITS-1:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast,
    input logic m_axi_rvalid,
    output logic m_axi_rready
);
  assign m_axi_awsize  = 3'($clog2(BYTES));
  assign m_axi_arsize  = 3'($clog2(BYTES));
  assign m_axi_awburst = 2'b01;
  assign m_axi_arburst = 2'b01;

  logic [15:0] in_available;
  logic in_move, in_take;
  logic [5:0] in_take_back;
  logic [6:0] in_take_bytes;
  logic [DATA_BITS-1:0] in_data;

  crosslane_stream_in #(
      .DATA_BITS(DATA_BITS)
  ) stream_in (
      .*,
      .s_tlast(1'b0),
      .s_tuser('0),
      .feed_end(),
      .rst(rst || write_forget),
      .feed_available(in_available),
      .feed_move(in_move),
      .feed_take(in_take),
      .feed_take_back(in_take_back),
      .feed_take_bytes(in_take_bytes),
      .feed_data(in_data)
  );

  // All data in the ring have arrived: reported as they are taken in.
  logic [12:0] put_bytes;
  always_comb begin
    put_bytes = '0;
    for (int unsigned lane = 0; lane < BYTES; lane++) put_bytes += 13'(s_tkeep[lane]);
  end

  error_e stop;
  assign stop_error = stop;

  crosslane_memory_write #(
      .DATA_BITS(DATA_BITS)
  ) memory_write (
      .*,
      .forget(write_forget),
      .descriptor_valid(write_descriptor_valid),
      .descriptor_ready(write_descriptor_ready),
      .descriptor_card(write_descriptor_card),
      .descriptor_bytes(write_descriptor_bytes),
      .arrived_valid(s_tvalid && s_tready),
      .arrived_bytes(put_bytes),
      .failed_error(ERROR_POISONED),
      .failed_address(64'h1234),
      .stop_error(stop),
      .starved(),
      .next_address(),
      .feed_available(in_available),
      .feed_move(in_move),
      .feed_take(in_take),
      .feed_take_back(in_take_back),
      .feed_take_bytes(in_take_bytes),
      .feed_data(in_data)
  );

  descriptor_t asked;
  always_comb begin
    asked = '0;
    asked.card = read_descriptor_card;
    asked.bytes = read_descriptor_bytes;
  end

  logic [15:0] out_available;
  logic out_move, out_take;
  logic [5:0] out_take_back;
  logic [6:0] out_take_bytes;
  logic [DATA_BITS-1:0] out_data;

  crosslane_memory_read #(
      .DATA_BITS(DATA_BITS)
  ) memory_read (
      .*,
      .forget(read_forget),
      .s_descriptor_valid(read_descriptor_valid),
      .s_descriptor_ready(read_descriptor_ready),
      .s_descriptor(asked),
      .m_descriptor_valid(),
      .m_descriptor_ready(1'b1),
      .m_descriptor(),
      .feed_available(out_available),
      .feed_move(out_move),
      .feed_take(out_take),
      .feed_take_back(out_take_back),
      .feed_take_bytes(out_take_bytes),
      .feed_data(out_data),
      .failed(read_failed)
  );

  crosslane_stream_out #(
      .DATA_BITS(DATA_BITS)
  ) stream_out (
      .*,
      .feed_end('0),
      .m_tlast(),
      .m_tuser(),
      .rst(rst || read_forget),
      .flush(1'b1),
      .feed_available(out_available),
      .feed_move(out_move),
      .feed_take(out_take),
      .feed_take_back(out_take_back),
      .feed_take_bytes(out_take_bytes),
      .feed_data(out_data)
  );

endmodule
