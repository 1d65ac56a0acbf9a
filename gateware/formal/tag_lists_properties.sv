// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_tag_lists: a free tag is in the list exactly once, and none is lost. One tag, chosen by
// the solver, is followed. The assumptions about freed tags are those that crosslane_tag_table
// guarantees: it frees none twice (tag_table_properties.sv). Without extended tags only small ones
// are handed out.

module tag_lists_properties #(
    parameter int unsigned TAGS = 4,
    parameter int unsigned TAG_BITS = 6
) (
    input logic                clk,
    input logic                rst,
    input logic                extended_tags,
    input logic                free_valid,
    input logic [TAG_BITS-1:0] free_tag,
    input logic                wants,          // a read wants a tag
    input logic [TAG_BITS-1:0] followed
);
  localparam int unsigned INDEX_BITS = $clog2(TAGS);

  logic data_valid, data_take, data_use, fetch_valid, fetch_use;
  logic [TAG_BITS-1:0] data_tag, fetch_tag, followed_before;
  logic is_reset = 1'b0;
  assign data_take = wants && data_valid;

  crosslane_tag_lists #(
      .FETCHERS(0),
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
      .data_valid,
      .data_take,
      .data_tag,
      .data_use,
      .fetch_valid,
      .fetch_take(1'b0),
      .fetcher(1'b0),
      .fetch_tag,
      .fetch_use
  );

  // Whether the followed tag is free, and the number of free tags.
  logic is_free;
  logic [INDEX_BITS:0] free_count, places;

  always_ff @(posedge clk) begin
    is_reset <= 1'b1;
    followed_before <= followed;
    if (free_valid && free_tag == followed) is_free <= 1'b1;
    if (data_take && data_tag == followed) is_free <= 1'b0;
    free_count <= free_count + (INDEX_BITS + 1)'(free_valid) - (INDEX_BITS + 1)'(data_take);
    if (rst) begin
      is_free <= 1'b0;
      free_count <= '0;
    end
  end

  // Places of the list that hold the followed tag, with the register in front of it.
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
      // A free tag is not freed again, and there are no more than TAGS of them.
      assume (!(free_valid && free_tag == followed && is_free));
      assume (!free_valid || free_count < (INDEX_BITS + 1)'(TAGS));

      assert (places == (INDEX_BITS + 1)'(is_free));
      assert (free_count == lists.tail - lists.head + (INDEX_BITS + 1)'(lists.is_shown));
      assert (free_count <= (INDEX_BITS + 1)'(TAGS));
      assert (lists.tail - lists.head <= (INDEX_BITS + 1)'(TAGS));
      if (data_take && data_tag == followed) assert (is_free);
      if (data_valid && !extended_tags) assert (data_tag < 6'd32);
    end
  end
endmodule
