// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_descriptors with a ring and a line of the push aperture: whatever comes in whichever
// clock (doorbells, writes to the line that are the next descriptor, or not, or no whole line,
// fetched descriptors early or late), the channel gets each posted descriptor once, in order, and
// none that is not posted; one whose data came with it has these data until it is taken up; and
// each write to the line is taken, or counted as dropped.

module descriptors_properties
  import crosslane_pkg::*;
(
    input logic clk,
    input logic rst,
    input logic [1:0] posts,  // descriptors that a doorbell posts
    input logic line_valid,
    input logic line_whole,
    input logic line_inline,
    input logic [1:0] line_ahead,  // 1: it is the next descriptor
    input logic fetch_ready,
    input logic arrives,  // a fetched descriptor, if one is on its way
    input logic descriptor_ready
);
  localparam int unsigned ENTRIES = 16;
  localparam int unsigned BATCH = 2;
  typedef logic [3:0] place_t;  // of a descriptor in the ring
  // In a descriptor's address: where it came from.
  typedef struct packed {
    logic   is_inline;
    logic   from_line;
    place_t place;
  } mark_t;

  logic is_reset = 1'b0;
  logic [31:0] doorbell = '0, taken = '0, completed = '0;
  channel_settings_t settings;
  function_t function_i;
  line_write_t line_write;
  mark_t line_mark, mark;
  place_t line_place;
  logic [31:0] line_posted;

  always_comb begin
    settings = '0;
    settings.run = 1'b1;
    settings.source = SOURCE_RING;
    settings.ring_entries = 32'(ENTRIES);
    settings.doorbell = doorbell;
    function_i = '0;
    function_i.bus_master = 1'b1;
    function_i.link_up = 1'b1;
  end

  assign line_posted = doorbell + 32'(line_ahead);
  assign line_place  = place_t'(line_posted - 1'b1);
  assign line_mark   = '{is_inline: line_inline, from_line: 1'b1, place: line_place};
  always_comb begin
    line_write = '0;
    line_write.valid = line_valid;
    line_write.whole = line_whole;
    // registers/descriptors.rdl, push_line: flags in a word, of which bit 3 says that data follow.
    line_write.data[31:0] = line_posted;
    line_write.data[35] = line_inline;
    line_write.data[63:40] = 24'd1;
    line_write.data[127:64] = 64'(line_mark);
    line_write.data[131:128] = line_place;
  end

  // --- Fetches: of each, its descriptors arrive in order -------------------------------------
  localparam int unsigned MOST = 4 * BATCH;
  place_t [MOST-1:0] coming, next_coming;
  logic [3:0] count, next_count;
  logic fetch_valid, fetched_valid, fetched_ready;
  logic [63:0] fetch_address;
  logic [12:0] fetch_bytes;
  assign fetched_valid = arrives && count != '0;

  always_comb begin
    next_coming = coming;
    next_count  = count;
    if (fetched_valid && fetched_ready) begin
      next_coming = next_coming >> $bits(place_t);
      next_count  = next_count - 1'b1;
    end
    if (fetch_valid && fetch_ready) begin
      for (int unsigned n = 0; n < BATCH; n++) begin
        if (13'(n) < (fetch_bytes >> 5)) begin
          next_coming[next_count[2:0]] = place_t'(fetch_address >> 5) + place_t'(n);
          next_count = next_count + 1'b1;
        end
      end
    end
  end

  always_ff @(posedge clk) begin
    coming <= next_coming;
    count  <= rst ? '0 : next_count;
  end

  // --- The channel ---------------------------------------------------------------------------
  logic line_taken, descriptor_valid, descriptor_inline;
  logic [31:0] pushed, pushes_dropped, lines, lines_taken;
  descriptor_t descriptor;
  logic [8*INLINE_BYTES-1:0] inline_data;
  assign mark = mark_t'(descriptor.address);

  crosslane_descriptors #(
      .HAS_TABLE(0),
      .HAS_RING(1),
      .BATCH(BATCH),
      .HAS_PUSH(1),
      .HAS_INLINE(1)
  ) descriptors (
      .clk,
      .rst,
      .settings,
      .function_i,
      .completed,
      .stopped(1'b0),
      .reset_counters(1'b0),
      .table_take(),
      .table_index(),
      .table_entry('0),
      .table_whole(1'b0),
      .fetch_asks(),
      .fetch_valid,
      .fetch_ready,
      .fetch_address,
      .fetch_bytes,
      .fetch_forget(),
      .fetched_valid,
      .fetched_ready,
      .fetched_data({96'd0, 32'd1, 64'd0, 64'(coming[0])}),
      .line_valid,
      .line_write,
      .line_taken,
      .pushed,
      .pushes_dropped,
      .fetch_failed(1'b0),
      .fetch_error(ERROR_NONE),
      .fetch_error_address('0),
      .command_valid(1'b0),
      .command_ready(),
      .command_descriptor('0),
      .descriptor_valid,
      .descriptor_ready,
      .descriptor,
      .descriptor_to_card(),
      .descriptor_inline,
      .inline_data,
      .posted(),
      .fetched()
  );

  always_ff @(posedge clk) begin
    is_reset <= 1'b1;
    doorbell <= doorbell + (line_taken ? 32'd1 : 32'(posts));
    if (descriptor_valid && descriptor_ready) taken <= taken + 1'b1;
    completed <= taken;
    if (line_valid) lines <= lines + 1'b1;
    if (line_taken) lines_taken <= lines_taken + 1'b1;
    if (rst) begin
      doorbell <= '0;
      taken <= '0;
      completed <= '0;
      lines <= '0;
      lines_taken <= '0;
    end
  end

  always_comb begin
    if (!is_reset) begin
      assume (rst);
    end else begin
      assume (!rst);
      // One write to the registers or the aperture comes at a time.
      assume (!line_valid || posts == '0);
      // The driver posts no more than the ring has.
      assume (doorbell - completed + 32'(posts) <= 32'(ENTRIES));
      assume (!line_valid || doorbell - completed < 32'(ENTRIES));

      assert (count <= 4'(2 * BATCH));
      if (descriptor_valid) begin
        assert (descriptor.error == ERROR_NONE);
        assert (taken != doorbell);
        assert (mark.place == place_t'(taken));
        assert (descriptor_inline == mark.is_inline);
        if (mark.is_inline) assert (inline_data[3:0] == mark.place);
      end
      if (line_taken) assert (line_valid && line_whole && line_ahead == 2'd1);
      assert (lines == lines_taken + pushes_dropped);
    end
  end
endmodule
