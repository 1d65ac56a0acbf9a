// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Takes whole words off a feed that has no consumer, one beat a clock, and marks them when they
// arrive.

module crosslane_drain
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS  = 256,
    localparam int unsigned BYTES      = DATA_BITS / 8,
    localparam int unsigned COUNT_BITS = $clog2(BYTES / 4 + 1)
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic                  leads_nowhere,
    input  logic [          15:0] feed_available,
    input  logic                  feed_move,       // by the consumer of the feed
    output logic                  take,
    output logic [           6:0] take_bytes,
    output logic                  shown,           // the feed's data are a beat that was taken here
    output logic [COUNT_BITS-1:0] shown_words,
    output logic                  busy
);
  logic [COUNT_BITS-1:0] words;
  logic [RING_READ_CLOCKS-1:0] on_way;
  logic [RING_READ_CLOCKS-1:0][COUNT_BITS-1:0] on_way_words;
  logic moved;

  assign words = (feed_available >= 16'(BYTES)) ? COUNT_BITS'(BYTES / 4)
                                                : COUNT_BITS'(feed_available >> 2);
  assign take = leads_nowhere && feed_available[15:2] != '0;
  assign take_bytes = 7'({words, 2'b00});
  assign shown = on_way[RING_READ_CLOCKS-1] && moved;
  assign shown_words = on_way_words[RING_READ_CLOCKS-1];
  assign busy = take || on_way != '0;

  always_ff @(posedge clk) begin
    moved <= feed_move;
    if (feed_move) begin
      on_way <= {on_way[RING_READ_CLOCKS-2:0], take};
      on_way_words <= {on_way_words[RING_READ_CLOCKS-2:0], words};
    end
    if (rst) on_way <= '0;
  end
endmodule
