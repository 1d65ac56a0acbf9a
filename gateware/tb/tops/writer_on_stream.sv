// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_writer.py: a writer that takes its data from a ring that the test fills.

module writer_on_stream
  import crosslane_pkg::*;
#(
    parameter  kind_e       KIND        = KIND_C2H,
    parameter  int unsigned DATA_BITS   = 256,
    parameter  int unsigned MAX_WRITE   = 1024,
    parameter  bit          PACKETS     = 0,
    parameter  bit          SHORT_PATHS = 1,
    localparam int unsigned BYTES       = DATA_BITS / 8
) (
    input logic clk,
    input logic rst,
    input channel_settings_t settings,
    input function_t function_i,
    input logic [63:0] time_i,
    input logic reset_counters,
    input logic [DATA_BITS-1:0] s_tdata,
    input logic [BYTES-1:0] s_tkeep,
    input logic s_tlast,
    input logic [15:0] s_tuser,
    input logic s_tvalid,
    output logic s_tready,
    input logic descriptor_valid,
    output logic descriptor_ready,
    input descriptor_t descriptor,
    output logic [15:0] feed_available,
    output logic feed_move,
    output logic feed_take,
    output logic [5:0] feed_take_back,
    output logic [6:0] feed_take_bytes,
    output logic feed_goes_on,
    input logic feed_failed,
    input logic cut,  // the stream's source was restarted
    input logic posted,
    output logic feed_generated,
    output logic command_done,
    output logic message_begun,
    output logic m_write_valid,
    input logic m_write_ready,
    output tlp_header_t m_write_header,
    output logic m_write_first,
    output logic m_write_last,
    output logic [DATA_BITS-1:0] m_write_data,
    input logic status_taken,
    input logic interrupt_taken,
    output due_t due,
    output channel_readings_t readings,
    output logic stopped
);
  logic [DATA_BITS-1:0] feed_data;
  packet_end_t feed_end, stream_end;

  always_comb begin
    feed_end = stream_end;
    feed_end.cut = cut;
  end

  crosslane_stream_in #(
      .DATA_BITS (DATA_BITS),
      .SIZE_BYTES(16384),
      .PACKETS   (PACKETS)
  ) stream (
      .*,
      .rst(rst || cut),
      .feed_end(stream_end)
  );

  crosslane_writer #(
      .KIND(KIND),
      .DATA_BITS(DATA_BITS),
      .MAX_WRITE(MAX_WRITE),
      .PACKETS(PACKETS),
      .SHORT_PATHS(SHORT_PATHS)
  ) writer (
      .*,
      .waits_for_work(),
      .copies('0),
      .packets(settings.packets)
  );

endmodule
