// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// C2H descriptors that copy within the card's memory: writes what crosslane_memory_read has read to
// their card addresses, and tells the channel what the memory has confirmed. A burst begins when
// all of its data are there. After an error of the memory nothing more begins, and `copies.failed`
// has the address to which the next data should have gone.

module crosslane_memory_copy
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS    = 256,
    parameter  int unsigned ADDRESS_BITS = 40,
    localparam int unsigned BYTES        = DATA_BITS / 8
) (
    input  logic                           clk,
    input  logic                           rst,
    input  logic                           forget,            // the channel stops or restarts
    input  logic                           running,           // bursts may begin
    input  logic                           descriptor_valid,
    output logic                           descriptor_ready,
    // verilator lint_off UNUSEDSIGNAL
    input  descriptor_t                    descriptor,
    // verilator lint_on UNUSEDSIGNAL
    output copies_t                        copies,
    // Feed, consumer's side.
    input  logic        [            15:0] feed_available,
    output logic                           feed_move,
    output logic                           feed_take,
    output logic        [             5:0] feed_take_back,
    output logic        [             6:0] feed_take_bytes,
    input  logic        [   DATA_BITS-1:0] feed_data,
    input  logic                           read_failed,       // no data beyond those available
    // AXI4.
    output logic                           m_axi_awvalid,
    input  logic                           m_axi_awready,
    output logic        [ADDRESS_BITS-1:0] m_axi_awaddr,
    output logic        [             7:0] m_axi_awlen,
    output logic                           m_axi_wvalid,
    input  logic                           m_axi_wready,
    output logic        [   DATA_BITS-1:0] m_axi_wdata,
    output logic        [       BYTES-1:0] m_axi_wstrb,
    output logic                           m_axi_wlast,
    input  logic                           m_axi_bvalid,
    output logic                           m_axi_bready,
    input  logic        [             1:0] m_axi_bresp
);
  localparam int unsigned OPEN = 64;  // copies that are not complete

  typedef struct packed {
    logic [31:0] bytes;
    logic        write_status;
    logic        send_interrupt;
  } copy_t;

  // --- Copies that are not complete ------------------------------------------------------------
  logic takes, open_valid, open_ready, jobs_ready, ends;
  copy_t oldest;

  assign descriptor_ready = open_ready && jobs_ready && !forget;
  assign takes = descriptor_valid && descriptor_ready;

  crosslane_fifo #(
      .WIDTH($bits(copy_t)),
      .DEPTH(OPEN)
  ) open (
      .clk,
      .rst(rst || forget),
      .s_valid(takes),
      .s_ready(open_ready),
      .s_data({descriptor.bytes, descriptor.write_status, descriptor.send_interrupt}),
      .m_valid(open_valid),
      .m_ready(ends),
      .m_data(oldest),
      .count()
  );

  // --- Bursts ----------------------------------------------------------------------------------
  logic written_valid, stop_valid, busy, starved, was_busy;
  logic [12:0] written_bytes;
  logic [63:0] stop_address;
  logic [ADDRESS_BITS-1:0] next_address;

  crosslane_memory_write #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) write (
      .*,
      .descriptor_valid(takes),
      .descriptor_ready(jobs_ready),
      .descriptor_card(descriptor.address),
      .descriptor_bytes(descriptor.bytes),
      // `starved` tells of data that have been read and are not written.
      .arrived_valid(written_valid),
      .arrived_bytes(written_bytes),
      .failed_valid(1'b0),
      .failed_error(ERROR_NONE),
      .failed_address('0),
      .stop_error(),
      .feed_available(running ? feed_available : '0)
  );

  // --- Confirmed -------------------------------------------------------------------------------
  logic [31:0] confirmed, confirmed_with;  // of the oldest copy; with these bytes
  assign confirmed_with = confirmed + 32'(written_bytes);
  assign ends = written_valid && confirmed_with == oldest.bytes;

  always_ff @(posedge clk) begin
    if (written_valid) confirmed <= ends ? '0 : confirmed_with;
    copies.open <= (open_valid || takes || busy) && !rst;
    copies.starved <= starved && running;
    copies.begun <= busy && !was_busy;
    was_busy <= busy;
    copies.moved <= written_valid && !forget && !rst;
    copies.moved_bytes <= written_bytes;
    copies.complete <= ends && !forget && !rst;
    copies.write_status <= oldest.write_status;
    copies.send_interrupt <= oldest.send_interrupt;
    copies.failed <= (stop_valid || (read_failed && starved)) && !forget && !rst;
    copies.failed_address <= stop_valid ? stop_address : 64'(next_address);
    if (rst || forget) confirmed <= '0;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst && written_valid && !forget) begin
      assert (open_valid && confirmed_with <= oldest.bytes)
      else $error("more is confirmed than the oldest copy has");
    end
  end
`endif
endmodule
