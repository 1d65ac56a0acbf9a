// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_tag_lists: a free tag is in its list exactly once, and none is lost. One tag, chosen by
// the solver, is followed: of data, or of a fetcher. The assumptions about freed tags are those that
// crosslane_tag_table guarantees: it frees none twice (tag_table_properties.sv). Without extended
// tags only small ones are handed out for data.

module tag_lists_properties
  import crosslane_reads_pkg::*;
#(
    parameter int unsigned TAGS = 4,
    parameter int unsigned TAG_BITS = 6,
    parameter int unsigned FETCHERS = 0,
    localparam int unsigned FETCHER_COUNT = (FETCHERS > 0) ? FETCHERS : 1,
    localparam int unsigned FETCHER_BITS = (FETCHERS > 1) ? $clog2(FETCHERS) : 1
) (
    input logic                    clk,
    input logic                    rst,
    input logic                    extended_tags,
    input logic                    free_valid,
    input logic [    TAG_BITS-1:0] free_tag,
    input logic                    fetched_valid,
    input logic [    TAG_BITS-1:0] fetched_tag,
    input logic                    wants,          // a read wants a tag
    input logic                    fetch_wants,
    input logic [FETCHER_BITS-1:0] fetcher,
    input logic [    TAG_BITS-1:0] followed
);
  localparam int unsigned INDEX_BITS = $clog2(TAGS);
  localparam int unsigned LIST_BITS = $clog2(FETCH_TAGS);

  logic data_valid, data_take, data_use, fetch_take, fetch_use;
  logic [FETCHER_COUNT-1:0] fetch_valid;
  logic [TAG_BITS-1:0] data_tag, fetch_tag, followed_before;
  logic is_reset = 1'b0;
  assign data_take  = wants && data_valid;
  assign fetch_take = fetch_wants && fetch_valid[fetcher];

  function automatic logic is_fetch(input logic [TAG_BITS-1:0] tag);
    return 32'(tag) < FETCHERS * FETCH_TAGS;
  endfunction

  crosslane_tag_lists #(
      .FETCHERS(FETCHERS),
      .TAGS(TAGS),
      .TAG_BITS(TAG_BITS),
      .USE_BITS(1)
  ) lists (
      .clk,
      .rst,
      .extended_tags,
      .free_valid,
      .free_tag,
      .free_use(1'b0),
      .fetched_valid,
      .fetched_tag,
      .fetched_use(1'b0),
      .data_valid,
      .data_take,
      .data_tag,
      .data_use,
      .fetch_valid,
      .fetch_take,
      .fetcher,
      .fetch_tag,
      .fetch_use
  );

  // Whether the followed tag is free, and the number of free tags for data.
  logic is_free, frees_data;
  logic [INDEX_BITS:0] free_count, places;
  assign frees_data = free_valid && !is_fetch(free_tag);

  always_ff @(posedge clk) begin
    is_reset <= 1'b1;
    followed_before <= followed;
    if (free_valid && free_tag == followed) is_free <= 1'b1;
    if (fetched_valid && fetched_tag == followed) is_free <= 1'b1;
    if (data_take && data_tag == followed) is_free <= 1'b0;
    if (fetch_take && fetch_tag == followed) is_free <= 1'b0;
    free_count <= free_count + (INDEX_BITS + 1)'(frees_data) - (INDEX_BITS + 1)'(data_take);
    if (rst) begin
      is_free <= 1'b0;
      free_count <= '0;
    end
  end

  // Places of the list for data that hold the followed tag, with the register in front of it.
  always_comb begin
    places = (INDEX_BITS + 1)'(lists.is_shown && data_tag == followed);
    for (int unsigned n = 0; n < TAGS; n++) begin
      if ((INDEX_BITS + 1)'(n) < lists.tail - lists.head &&
          TAG_BITS'(lists.tags[INDEX_BITS'(lists.head[INDEX_BITS-1:0] + INDEX_BITS'(n))]) ==
          followed) begin
        places = places + 1'b1;
      end
    end
  end

  always_comb begin
    if (!is_reset) begin
      assume (rst);
    end else if (!rst) begin
      assume (followed == followed_before);
      assume (32'(fetcher) < FETCHER_COUNT);
      // A free tag is not freed again, and there are no more than TAGS of them for data.
      assume (!(free_valid && free_tag == followed && is_free));
      assume (!(fetched_valid && fetched_tag == followed && is_free));
      assume (!frees_data || free_count < (INDEX_BITS + 1)'(TAGS));
      assume (!fetched_valid || (is_fetch(fetched_tag) && !(free_valid && is_fetch(free_tag))));

      assert (places == (INDEX_BITS + 1)'(is_free && !is_fetch(followed)));
      assert (free_count == lists.tail - lists.head + (INDEX_BITS + 1)'(lists.is_shown));
      assert (free_count <= (INDEX_BITS + 1)'(TAGS));
      assert (lists.tail - lists.head <= (INDEX_BITS + 1)'(TAGS));
      if (data_take && data_tag == followed) assert (is_free);
      if (data_valid && !extended_tags) assert (data_tag < 6'd32);
    end
  end

  if (FETCHERS > 0) begin : g_fetchers
    logic [LIST_BITS:0] fetch_places, listed;
    logic [FETCHER_BITS-1:0] list;  // of the followed tag
    logic [TAG_BITS-1:0] back_tag;
    logic comes_back;
    assign list = FETCHER_BITS'(followed >> LIST_BITS);
    assign listed = lists.g_fetchers.tails[list] - lists.g_fetchers.heads[list];
    assign comes_back = fetched_valid || (free_valid && is_fetch(free_tag));
    assign back_tag = fetched_valid ? fetched_tag : free_tag;

    // The same of the fetcher's list. Its memory has the tag's low bits, behind the use.
    always_comb begin
      fetch_places = '0;
      for (int unsigned n = 0; n < FETCH_TAGS; n++) begin
        if ((LIST_BITS + 1)'(n) < listed && LIST_BITS'(lists.g_fetchers.memory[{
              list, LIST_BITS'(lists.g_fetchers.heads[list][LIST_BITS-1:0] + LIST_BITS'(n))
            }]) == followed[LIST_BITS-1:0]) begin
          fetch_places = fetch_places + 1'b1;
        end
      end
    end

    always_comb begin
      if (is_reset && !rst) begin
        // There are no more than FETCH_TAGS of a fetcher.
        assume (!comes_back || FETCHER_BITS'(back_tag >> LIST_BITS) != list ||
                listed < (LIST_BITS + 1)'(FETCH_TAGS));

        assert (!is_fetch(followed) || fetch_places == (LIST_BITS + 1)'(is_free));
        assert (!is_fetch(followed) || listed <= (LIST_BITS + 1)'(FETCH_TAGS));
        if (fetch_take && fetch_tag == followed) assert (is_free);
      end
    end
  end
endmodule
