// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The ends of the packets in a stream of bytes, beside the ring that has the bytes: how far it is
// to the end of the oldest packet. A consumer that takes no bytes beyond that end sees the next
// packet in the clock after it has taken the last byte; one that heeds no ends may lag behind.

module crosslane_packet_ends
  import crosslane_pkg::*;
#(
    parameter int unsigned DEPTH = 64  // packets whose ends are kept, a power of two
) (
    input  logic               clk,
    input  logic               rst,
    input  logic               clear,        // pulse: the stream begins anew with what enters next
    // Bytes enter, or their place is reserved; a packet may end with them.
    input  logic               enter_valid,
    input  logic        [12:0] enter_bytes,
    input  logic               enter_ends,
    input  logic        [15:0] enter_user,
    output logic               has_room,     // for two ends
    // Bytes leave.
    input  logic        [ 6:0] leave_bytes,
    output packet_end_t        packet_end
);
  // Positions in the stream: more than twice the bytes of the largest ring.
  localparam int unsigned POSITION_BITS = 18;
  localparam int unsigned COUNT_BITS = $clog2(DEPTH) + 1;

  logic [POSITION_BITS-1:0] entered, left, next_left, base, enters_at, ends_at, ahead;
  logic is_anew, is_known, is_over;
  logic [15:0] user;
  logic [COUNT_BITS-1:0] count;

  assign next_left = left + POSITION_BITS'(leave_bytes);
  assign base = is_anew ? next_left : entered;
  assign enters_at = base + POSITION_BITS'(enter_bytes);
  // The sign of the distance that is left.
  assign ahead = ends_at - next_left;
  assign is_over = is_known && (ahead == '0 || ahead[POSITION_BITS-1]);
  assign has_room = count < COUNT_BITS'(DEPTH - 1);

  always_ff @(posedge clk) begin
    left <= next_left;
    if (enter_valid) begin
      entered <= enters_at;
      is_anew <= 1'b0;
    end
    if (rst || clear) is_anew <= 1'b1;
    if (rst) left <= '0;
  end

  crosslane_fifo #(
      .WIDTH(POSITION_BITS + 16),
      .DEPTH(DEPTH)
  ) ends (
      .clk,
      .rst(rst || clear),
      .s_valid(enter_valid && enter_ends),
      .s_ready(),
      .s_data({enters_at, enter_user}),
      .m_valid(is_known),
      .m_ready(is_over),
      .m_data({ends_at, user}),
      .count
  );

  logic [POSITION_BITS-1:0] distance;
  assign distance = ends_at - left;
  always_comb begin
    packet_end = '0;
    packet_end.has_ends = 1'b1;
    packet_end.known = is_known && !distance[POSITION_BITS-1] && distance != '0;
    packet_end.bytes = distance[16:0];
    packet_end.user = user;
    packet_end.cut = clear;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst && !clear && enter_valid && enter_ends) begin
      assert (count < COUNT_BITS'(DEPTH))
      else $error("more packets end than there is room for");
    end
  end
`endif
endmodule
