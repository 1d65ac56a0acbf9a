// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Free tags: one list for data, and one for each fetcher. The tag that has been free longest is
// taken first. Each entry includes the number of the tag's next use. The next tag for data is in a
// register: a read begins late in the clock.

module crosslane_tag_lists
  import crosslane_reads_pkg::*;
#(
    parameter  int unsigned FETCHERS      = 3,
    parameter  int unsigned TAGS          = 64,
    parameter  int unsigned TAG_BITS      = 7,
    parameter  int unsigned USE_BITS      = 1,
    localparam int unsigned FETCHER_COUNT = (FETCHERS > 0) ? FETCHERS : 1,
    localparam int unsigned FETCHER_BITS  = (FETCHERS > 1) ? $clog2(FETCHERS) : 1
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     extended_tags,  // else tags have five bits
    // A tag is free, and its next use.
    input  logic                     free_valid,
    input  logic [     TAG_BITS-1:0] free_tag,
    input  logic [     USE_BITS-1:0] free_use,
    // Another of a fetcher, in a clock in which the one above is of none.
    // verilator lint_off UNUSEDSIGNAL
    input  logic                     fetched_valid,
    input  logic [     TAG_BITS-1:0] fetched_tag,
    input  logic [     USE_BITS-1:0] fetched_use,
    // verilator lint_on UNUSEDSIGNAL
    // The next tag for data.
    output logic                     data_valid,
    input  logic                     data_take,
    output logic [     TAG_BITS-1:0] data_tag,
    output logic [     USE_BITS-1:0] data_use,
    // Fetchers that have a free tag, and the next tag of one.
    output logic [FETCHER_COUNT-1:0] fetch_valid,
    // verilator lint_off UNUSEDSIGNAL
    input  logic                     fetch_take,
    input  logic [ FETCHER_BITS-1:0] fetcher,
    // verilator lint_on UNUSEDSIGNAL
    output logic [     TAG_BITS-1:0] fetch_tag,
    output logic [     USE_BITS-1:0] fetch_use
);
  localparam int unsigned FIRST_DATA_TAG = FETCHERS * FETCH_TAGS;
  localparam int unsigned DEPTH_BITS = (TAGS > 1) ? $clog2(TAGS) : 1;
  localparam int unsigned DEPTH = 1 << DEPTH_BITS;
  localparam int unsigned SMALL_TAGS = 32;
  localparam int unsigned LIST_BITS = $clog2(FETCH_TAGS);

  logic is_fetch, push, has_next, is_shown, is_usable, renews, turn_away;

  assign is_fetch = FETCHERS > 0 && 32'(free_tag) < FIRST_DATA_TAG;
  // A tag that cannot be used now returns to the end when nothing else is pushed.
  assign is_usable = extended_tags || 32'(data_tag) < SMALL_TAGS;
  assign turn_away = is_shown && !is_usable && !free_valid;
  assign push = (free_valid && !is_fetch) || turn_away;
  assign data_valid = is_shown && is_usable;
  assign renews = !is_shown || data_take || turn_away;

  // When the list is full, a tag may be taken and another put in within the same clock.
  (* ram_style = "distributed" *) logic [USE_BITS+TAG_BITS-1:0] tags[DEPTH];
  logic [DEPTH_BITS:0] head, tail;

  assign has_next = head != tail;

  always_ff @(posedge clk) begin
    if (push) begin
      tags[tail[DEPTH_BITS-1:0]] <= turn_away ? {data_use, data_tag} : {free_use, free_tag};
      tail <= tail + 1'b1;
    end
    if (renews) begin
      is_shown <= has_next;
      {data_use, data_tag} <= tags[head[DEPTH_BITS-1:0]];
      if (has_next) head <= head + 1'b1;
    end
    if (rst) begin
      is_shown <= 1'b0;
      head <= '0;
      tail <= '0;
    end
  end

  if (FETCHERS > 0) begin : g_fetchers
    (* ram_style = "distributed" *)
    logic [USE_BITS+LIST_BITS-1:0] memory[1 << (FETCHER_BITS + LIST_BITS)];
    logic [FETCHERS-1:0][LIST_BITS:0] heads, tails;
    logic [TAG_BITS-1:0] back_tag, back_list;
    logic [USE_BITS-1:0] back_use;
    logic [LIST_BITS-1:0] place, next_tag;
    logic comes_back;
    assign comes_back = fetched_valid || (free_valid && is_fetch);
    assign {back_use, back_tag} = fetched_valid ? {fetched_use, fetched_tag} : {free_use, free_tag};
    assign back_list = back_tag >> LIST_BITS;

    always_comb begin
      place = '0;
      for (int unsigned f = 0; f < FETCHERS; f++) begin
        fetch_valid[f] = heads[f] != tails[f];
        if (32'(back_list) == f) place = tails[f][LIST_BITS-1:0];
      end
    end
    assign {fetch_use, next_tag} = memory[{fetcher, heads[fetcher][LIST_BITS-1:0]}];
    assign fetch_tag = TAG_BITS'({fetcher, next_tag});

    always_ff @(posedge clk) begin
      if (comes_back) begin
        memory[{back_list[FETCHER_BITS-1:0], place}] <= {back_use, back_tag[LIST_BITS-1:0]};
      end
      for (int unsigned f = 0; f < FETCHERS; f++) begin
        if (comes_back && 32'(back_list) == f) tails[f] <= tails[f] + 1'b1;
        if (fetch_take && 32'(fetcher) == f) heads[f] <= heads[f] + 1'b1;
      end
      if (rst) begin
        heads <= '0;
        tails <= '0;
      end
    end
`ifndef SYNTHESIS
    always_ff @(posedge clk) begin
      if (!rst) begin
        assert (!fetched_valid || !free_valid || !is_fetch)
        else $error("two tags of fetchers at once");
      end
    end
`endif
  end else begin : g_no_fetchers
    assign fetch_valid = '0;
    assign fetch_tag   = '0;
    assign fetch_use   = '0;
  end

endmodule
