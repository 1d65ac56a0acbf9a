// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// One lane of 64b/66b: from unaligned line bits to blocks (docs/torus-link.md, 64b/66b, Alignment).
// 66 line bits a clock; their block comes a clock later, descrambled.

module crosslane_link_block_align
  import crosslane_link_pkg::*;
  import crosslane_link_block_pkg::*;
(
    input  logic   clk,
    input  logic   rst,
    input  logic   realign,     // pulse: the lane's place is tested anew, from this word on
    input  logic   detected,    // the line has a signal
    input  line_t  word,        // bit 0 came first
    output logic   is_aligned,  // of the block
    output block_t block,
    output logic   beginning    // the first half of a training set
);
  // Headers in a row without an error until a lane is aligned; those of which so many may be wrong.
  localparam logic [6:0] HEADERS = 7'd64;
  localparam logic [4:0] HEADER_ERRORS = 5'd16;
  localparam logic [6:0] LAST_PLACE = 7'(BLOCK_BITS - 1);

  line_t earlier, here;
  state_t state;
  logic [6:0] place;  // bits of `earlier` in front of the block
  logic locked, locked_now, locked_next, is_right, gives_up;
  logic [6:0] headers, headers_now, headers_next;
  logic [4:0] errors, errors_now, errors_next;

  assign here = line_t'({(detected ? word : line_t'(0)), earlier} >> place);
  assign is_right = here[0] != here[1];

  always_comb begin
    locked_now = locked && !realign;
    headers_now = realign ? '0 : headers;
    errors_now = realign ? '0 : errors;
    locked_next = locked_now;
    headers_next = headers_now + 1'b1;
    errors_next = errors_now + 5'(!is_right);
    gives_up = detected && (errors_next == HEADER_ERRORS || (!locked_now && !is_right));
    if (!detected || gives_up) begin
      locked_next  = 1'b0;
      headers_next = '0;
      errors_next  = '0;
    end else if (headers_next == HEADERS) begin
      locked_next  = 1'b1;
      headers_next = '0;
      errors_next  = '0;
    end
  end

  block_t block_next;
  assign block_next.error   = !locked_now || !detected || !is_right;
  assign block_next.control = here[1:0] == CONTROL_HEADER;
  assign block_next.payload = descrambled(here[65:2], state);

  always_ff @(posedge clk) begin
    earlier <= detected ? word : '0;
    state   <= state_behind(here[65:2]);
    locked  <= locked_next;
    headers <= headers_next;
    errors  <= errors_next;
    if (gives_up) place <= (place == LAST_PLACE) ? '0 : place + 1'b1;
    is_aligned <= locked_now && detected;
    block <= block_next;
    beginning <= !block_next.error && block_next.control && block_next.payload[7:0] == K_COMMA;
    if (rst) begin
      earlier <= '0;
      state <= '1;
      place <= '0;
      locked <= 1'b0;
      headers <= '0;
      errors <= '0;
      is_aligned <= 1'b0;
      block <= '{error: 1'b1, default: '0};
      beginning <= 1'b0;
    end
  end
endmodule
