// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Tags of the get engine's reads: completions of any order become bytes at their positions in the
// staging memory; each read ends once. A tag whose read timed out, or had a completion that did not
// fit, rests for as long again before it is used.

module crosslane_get_tags
  import crosslane_pkg::*;
  import crosslane_network_pkg::*;
  import crosslane_nget_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned TAGS = 64,  // power of two, 2 to 256
    parameter int unsigned STAGING_BYTES = 4096,  // of a channel
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned TAG_BITS = $clog2(TAGS),
    localparam int unsigned POSITION_BITS = 3 + $clog2(STAGING_BYTES)
) (
    input  logic                            clk,
    input  logic                            rst,
    // Number of the link, constant: on the wire its tags begin at `link` * TAGS.
    input  logic        [              2:0] link,
    // Takes the tag that is free.
    output logic                            has_free,
    output logic        [     TAG_BITS-1:0] free_tag,
    input  logic                            take,
    input  get_read_t                       take_read,
    // Completions; they do not wait.
    input  logic                            s_valid,
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t                     s_header,        // only some fields are used
    // verilator lint_on UNUSEDSIGNAL
    input  logic                            s_first,
    input  logic                            s_last,
    input  logic                            s_aborted,
    input  logic        [    DATA_BITS-1:0] s_data,
    // To the staging memory.
    output logic                            write_valid,
    output logic        [POSITION_BITS-1:0] write_position,
    output logic        [    DATA_BITS-1:0] write_data,
    output logic        [        BYTES-1:0] write_enable,
    // Reads of which more has come, without waiting, and ends of reads.
    output logic                            come_valid,
    output get_come_t                       come_read,
    output logic                            end_valid,
    input  logic                            end_ready,
    output get_end_t                        ended,
    // Pulses.
    output logic                            unexpected,
    output logic                            timed_out
);
  localparam int unsigned PLACE_BITS = $clog2(STAGING_BYTES);
  localparam int unsigned TICK_CLOCKS = (TIMEOUT_CLOCKS > 32) ? TIMEOUT_CLOCKS / 32 : 1;
  localparam int unsigned COUNT_BITS = $clog2(TICK_CLOCKS + 1);

  typedef enum logic [1:0] {
    TAG_FREE,
    TAG_WAITS,
    TAG_RESTS
  } tag_state_e;

  (* ram_style = "distributed" *) get_read_t reads[TAGS];
  (* ram_style = "distributed" *) logic [12:0] missing[TAGS];  // bytes of a read begun
  (* ram_style = "distributed" *) logic [7:0] begun[TAGS];  // ticks
  tag_state_e [TAGS-1:0] states;
  logic [TAGS-1:0] has_begun;  // a completion of it has come

  // --- Time ----------------------------------------------------------------------------------
  logic [COUNT_BITS-1:0] clocks;
  logic [7:0] now;
  logic [TAG_BITS-1:0] visited;
  logic visits, gives_up;
  tag_state_e visited_state;
  logic is_old, is_looked;

  always_ff @(posedge clk) begin
    clocks <= clocks + 1'b1;
    if (clocks == COUNT_BITS'(TICK_CLOCKS - 1)) begin
      clocks <= '0;
      now <= now + 1'b1;
    end
    if (rst) begin
      clocks <= '0;
      now <= '0;
    end
  end

  // --- Completions ---------------------------------------------------------------------------
  // A tag's read is looked up as the header comes, and compared a clock later.
  logic valid, first, last, aborted;
  // verilator lint_off UNUSEDSIGNAL
  tlp_header_t header;
  get_read_t read;
  // verilator lint_on UNUSEDSIGNAL
  logic [DATA_BITS-1:0] data;
  logic [TAG_BITS-1:0] s_tag, tag;
  logic [12:0] left, left_1, left_behind, come, offset, s_offset, rest;
  logic [15:0] read_end;  // of its bytes, in the staging memory
  logic [6:0] low_end, come_low_end;  // of the read, and by the completion, in host memory
  logic is_tag, is_whole, is_waiting, is_behind, has_ended, taken_since;
  logic waits, fits, good, has_all, ends_read, is_final, completes;
  logic [ 9:0] beat;
  logic [12:0] at;  // of the beat's lane 0, from the first double word

  assign s_tag = TAG_BITS'(s_header.tag);
  assign s_offset = 13'(s_header.address[1:0]);
  assign tag = TAG_BITS'(header.tag);
  // Bytes of this completion, if it fits.
  assign come = has_all ? header.byte_count : {header.length_dw, 2'b00} - offset;
  assign rest = header.byte_count - come;

  always_ff @(posedge clk) begin
    valid <= s_valid && !rst;
    first <= s_first;
    last <= s_last;
    aborted <= s_aborted;
    data <= s_data;
    left_behind <= rest;
    has_ended <= completes;
    is_behind <= 1'b0;
    left_1 <= left;
    is_waiting <= waits && !(gives_up && visited == tag);
    if (s_valid && s_first) begin
      header <= s_header;
      read <= reads[s_tag];
      read_end <= reads[s_tag].position + 16'(reads[s_tag].bytes);
      low_end <= 7'(reads[s_tag].address) + 7'(reads[s_tag].bytes);
      come_low_end <= s_header.address[6:0] + 7'(s_header.byte_count);
      left_1 <= has_begun[s_tag] ? missing[s_tag] : reads[s_tag].bytes;
      // Of two in a row the second begins with what the first leaves.
      is_behind <= valid && last && is_tag && s_tag == tag;
      is_tag <= s_header.tag >> TAG_BITS == 10'(link);
      is_whole <= s_header.kind == COMPLETION_DATA && s_header.status == STATUS_SUCCESSFUL &&
          !s_header.poisoned;
      is_waiting <= s_header.tag >> TAG_BITS == 10'(link) && states[s_tag] == TAG_WAITS &&
          !(gives_up && visited == s_tag);
      has_all <= {s_header.length_dw, 2'b00} - s_offset >= s_header.byte_count;
      taken_since <= take && s_tag == free_tag;
    end else if (take && tag == free_tag) begin
      taken_since <= 1'b1;
    end
  end

  assign left = is_behind ? left_behind : left_1;
  assign waits = is_waiting && !(is_behind && has_ended);
  assign offset = 13'(header.address[1:0]);
  assign fits = is_whole && header.byte_count == left && come_low_end == low_end;
  assign good = waits && fits && !(last && aborted);
  assign ends_read = good && has_all;
  assign come_valid = valid && last && good && !has_all;
  assign come_read = '{channel: read.channel, record_: read.record_, bytes: read.bytes - rest};
  // An answer without data ends its read for good.
  assign is_final = header.kind == COMPLETION && header.status != STATUS_SUCCESSFUL;

  always_ff @(posedge clk) beat <= (valid && !last) ? (first ? 10'd1 : beat + 1'b1) : '0;
  assign at = 13'(32'(first ? 10'd0 : beat) * BYTES);
  assign write_valid = valid && waits && fits;
  assign write_position = {
    read.channel, PLACE_BITS'(read_end - 16'(header.byte_count) + 16'(at) - 16'(offset))
  };
  assign write_data = data;
  always_comb begin
    for (int unsigned n = 0; n < BYTES; n++) begin
      write_enable[n] = at + 13'(n) >= offset && at + 13'(n) < offset + come;
    end
  end

  // --- Ends and free tags --------------------------------------------------------------------
  logic frees, initialises;
  logic [TAG_BITS:0] initial_tag;
  logic [TAG_BITS-1:0] freed;
  // verilator lint_off UNUSEDSIGNAL
  get_read_t end_read;
  // verilator lint_on UNUSEDSIGNAL
  get_end_t pushed;

  // Of the tag that is visited, a clock ago. A completion of it may have changed its state since.
  always_ff @(posedge clk) begin
    visited_state <= states[visited];
    is_old <= 8'(now - begun[visited]) > 8'd32 && !(take && free_tag == visited);
    is_looked <= !visits && !(valid && tag == visited) && !rst;
  end

  assign completes = valid && last && waits && (ends_read || !good);
  assign visits = is_looked && !valid && !take && !initialises;
  assign gives_up = visits && visited_state == TAG_WAITS && is_old;
  assign initialises = !initial_tag[TAG_BITS];
  assign frees = initialises || (completes && (ends_read || is_final)) ||
      (visits && visited_state == TAG_RESTS && is_old);
  always_comb begin
    freed = visited;
    if (initialises) freed = TAG_BITS'(initial_tag);
    else if (completes) freed = tag;
  end
  assign end_read = completes ? read : reads[visited];
  assign pushed = '{
          good: completes && ends_read,
          channel: end_read.channel,
          tag: end_read.tag,
          record_: end_read.record_,
          bytes: end_read.bytes
      };

  always_ff @(posedge clk) begin
    if (visits) visited <= visited + 1'b1;
    if (initialises) initial_tag <= initial_tag + 1'b1;
    if (take) begin
      reads[free_tag] <= take_read;
      states[free_tag] <= TAG_WAITS;
      has_begun[free_tag] <= 1'b0;
    end
    if (valid && last && good) begin
      missing[tag]   <= rest;
      has_begun[tag] <= 1'b1;
    end
    if (take || gives_up) begin
      begun[take?free_tag : visited] <= now;
    end
    if (completes) states[tag] <= (ends_read || is_final) ? TAG_FREE : TAG_RESTS;
    if (gives_up) states[visited] <= TAG_RESTS;
    else if (visits && visited_state == TAG_RESTS && is_old) states[visited] <= TAG_FREE;
    unexpected <= valid && last && (!is_tag || states[tag] == TAG_FREE || taken_since);
    timed_out  <= gives_up;
    if (rst) begin
      states <= {TAGS{TAG_FREE}};
      initial_tag <= '0;
      visited <= '0;
      unexpected <= 1'b0;
      timed_out <= 1'b0;
    end
  end

  crosslane_fifo #(
      .WIDTH(TAG_BITS),
      .DEPTH(TAGS)
  ) free_tags (
      .clk,
      .rst,
      .s_valid(frees),
      .s_ready(),
      .s_data (freed),
      .m_valid(has_free),
      .m_ready(take),
      .m_data (free_tag),
      .count  ()
  );

  // A read under way has one end; those that wait here are dealt with before more reads are sent.
  crosslane_fifo #(
      .WIDTH($bits(get_end_t)),
      .DEPTH(2 * TAGS),
      .REGISTERED(1)
  ) ends (
      .clk,
      .rst,
      .s_valid(completes || gives_up),
      .s_ready(),
      .s_data (pushed),
      .m_valid(end_valid),
      .m_ready(end_ready),
      .m_data (ended),
      .count  ()
  );

`ifndef SYNTHESIS
  if (TAGS != 1 << TAG_BITS || TAGS < 2 || TAGS > MAX_TAGS) begin : g_tags
    $error("TAGS is a power of two, 2 to 256");
  end
`endif
endmodule
