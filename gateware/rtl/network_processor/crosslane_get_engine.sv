// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Get engine of a link: messages from host memory into the link's queues. Requests become reads,
// their completions bytes of the staging memory of a channel, and these datagrams.
// Read first: docs/network-processor.md, Get engine.

module crosslane_get_engine
  import crosslane_pkg::*;
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
  import crosslane_nget_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned LANES = 8,  // of the link
    parameter int unsigned GET_SLOTS = 64,  // power of two, 2 to 256
    parameter int unsigned TAGS = 64,  // power of two, 2 to 256
    parameter int unsigned MAX_READ = 512,  // bytes: power of two, 128 to 4096
    // Of a channel: power of two, room for MAX_READ and two payloads.
    parameter int unsigned STAGING_BYTES = 4096,
    parameter int unsigned RECORDS = 32,  // reads of a channel: power of two to 256
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter bit ROUTED = 1'b0,
    parameter bit LONG = 1'b0  // datagrams carry 256 B, not 128 B
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input logic [2:0] link,  // its number, constant: its tags begin at `link` * TAGS
    output logic idle,  // no message, nothing to send
    output logic quiet,  // no message, so no read under way
    input logic request_valid,
    output logic request_ready,
    // Of a routed request the channel is that of the first hop and the tag its name here
    // (crosslane_get_names); `is_lost`: no message may have it.
    input request_t request,
    input logic [5:0] routed_tag,
    input logic is_lost,
    input torus_t torus,
    output logic looked,  // pulses: a request has been looked at; it has begun a routed message
    output logic begun,
    output logic released,  // pulse: the routed message of this name has ended
    output logic [5:0] released_name,
    input logic takes,  // the link takes datagrams
    // Level: all messages end with this outcome, and all data go; pulse: they have.
    input logic forget,
    input outcome_e forget_outcome,
    output logic forgotten,
    // Reads, headers only; completions do not wait.
    output logic m_read_valid,
    input logic m_read_ready,
    output tlp_header_t m_read_header,
    input logic s_completion_valid,
    input tlp_header_t s_completion_header,
    input logic s_completion_first,
    input logic s_completion_last,
    input logic [DATA_BITS-1:0] s_completion_data,
    input logic s_completion_aborted,
    // Notifications.
    output logic write_valid,
    input logic write_ready,
    output write_t write,
    // Datagrams, to the link's queues. `room_more`: channels that take two.
    input logic [CHANNELS-1:0] room,
    input logic [CHANNELS-1:0] room_more,
    output logic [CHANNELS-1:0] on_way,  // of those that it does not count yet, and of two such
    output logic [CHANNELS-1:0] on_way_more,
    output logic [CHANNELS-1:0] waits,  // channels of those that would take room
    output logic may_begin,  // known early: a datagram, in this clock
    input logic others_may,  // begin: then none does here
    output logic m_valid,
    input logic m_ready,
    output logic [2:0] m_channel,
    output label_t m_label,
    output logic [8*LANES-1:0] m_data,
    // Pulses.
    output logic accepted,
    output logic refused,
    output logic unexpected,
    output logic timed_out
);
  localparam int unsigned BYTES = DATA_BITS / 8;
  localparam int unsigned TAG_BITS = $clog2(TAGS);
  localparam int unsigned POSITION_BITS = 3 + $clog2(STAGING_BYTES);
  logic messages_idle, sender_empty, has_tag, has_free, header_ready, read_sent;
  logic [TAG_BITS-1:0] free_tag;
  get_read_t read;
  logic end_valid, end_ready, push, push_done, done;
  get_end_t ended;
  logic come_valid;
  get_come_t come_read;
  logic [CHANNELS-1:0] has_space;
  logic [2:0] push_channel, done_channel;
  get_record_t push_record;
  logic [7:0] push_place, done_place;
  logic [15:0] push_position;
  get_void_t void_word;
  logic ring_write_valid, read_enable;
  logic [POSITION_BITS-1:0] ring_write_position, read_position;
  logic [DATA_BITS-1:0] ring_write_data, read_data;
  logic [BYTES-1:0] ring_write_enable;
  tlp_header_t header;

  // A clock late: the next look at it is two behind the read before, or more.
  always_ff @(posedge clk) has_tag <= has_free && header_ready && !rst;
  assign quiet = messages_idle && !request_valid;
  assign idle  = messages_idle && sender_empty && !request_valid && !m_read_valid;

  crosslane_get_messages #(
      .GET_SLOTS(GET_SLOTS),
      .MAX_READ (MAX_READ),
      .ROUTED   (ROUTED),
      .LONG     (LONG)
  ) messages_of_link (
      .idle  (messages_idle),
      .void_o(void_word),
      .*
  );

  always_comb begin
    header = '0;
    header.kind = MEMORY_READ;
    header.address = {read.address[63:2], 2'b00};
    header.length_dw = length_dw(read.address[1:0], read.bytes);
    header.first_be = first_enables(read.address[1:0], read.bytes);
    header.last_be = (header.length_dw == 11'd1) ? '0 : last_enables(read.address[1:0], read.bytes);
    header.requester = function_i.routing_id;
    header.tag = 10'({link, free_tag});
  end

  // It has room: a read is sent when it has.
  logic [2:0] headers;
  crosslane_fifo #(
      .WIDTH($bits(tlp_header_t)),
      .DEPTH(4)
  ) read_headers (
      .clk,
      .rst,
      .s_valid(read_sent),
      .s_ready(),
      .s_data (header),
      .m_valid(m_read_valid),
      .m_ready(m_read_ready),
      .m_data (m_read_header),
      .count  (headers)
  );
  assign header_ready = headers < 3'd4;

  crosslane_get_tags #(
      .DATA_BITS(DATA_BITS),
      .TAGS(TAGS),
      .STAGING_BYTES(STAGING_BYTES),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS)
  ) tags (
      .clk,
      .rst,
      .has_free,
      .free_tag,
      .link,
      .take          (read_sent),
      .take_read     (read),
      .s_valid       (s_completion_valid),
      .s_header      (s_completion_header),
      .s_first       (s_completion_first),
      .s_last        (s_completion_last),
      .s_aborted     (s_completion_aborted),
      .s_data        (s_completion_data),
      .write_valid   (ring_write_valid),
      .write_position(ring_write_position),
      .write_data    (ring_write_data),
      .write_enable  (ring_write_enable),
      .come_valid,
      .come_read,
      .end_valid,
      .end_ready,
      .ended,
      .unexpected,
      .timed_out
  );

  crosslane_byte_ring #(
      .DATA_BITS (DATA_BITS),
      .SIZE_BYTES(CHANNELS * STAGING_BYTES),
      .RINGS     (CHANNELS)
  ) ring (
      .clk,
      .rst,
      .write_valid   (ring_write_valid),
      .write_position(ring_write_position),
      .write_data    (ring_write_data),
      .write_enable  (ring_write_enable),
      .read_enable,
      .read_position,
      .read_back     ('0),
      .read_data
  );

  crosslane_get_sender #(
      .DATA_BITS(DATA_BITS),
      .LANES(LANES),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .RECORDS(RECORDS),
      .ROUTED(ROUTED),
      .LONG(LONG)
  ) sender (
      .empty(sender_empty),
      .own_node(torus.node),
      .void_i(void_word),
      .*
  );

`ifndef SYNTHESIS
  if (STAGING_BYTES < MAX_READ + 2 * payload_bytes(LONG)) begin : g_staging
    $error("STAGING_BYTES is MAX_READ and two payloads, or more");
  end
`endif
endmodule
