// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Datagrams that wait for a credit: those of a key are a list through their places in the receive
// buffers. The ends of the lists are with the keys. Those of a routed key are in buffers of any
// link.

module crosslane_receive_waiting
  import crosslane_network_pkg::*;
#(
    parameter int unsigned LINKS             = 1,
    parameter int unsigned CHANNEL_DATAGRAMS = 64,    // of a link
    parameter bit          ROUTED            = 1'b0,
    parameter bit          LONG              = 1'b0   // the marks of datagrams count
) (
    input  logic                       clk,
    input  logic                       rst,
    // Only some bits are used.
    // verilator lint_off UNUSEDSIGNAL
    input  logic     [      2:0]       link,           // of the datagram
    input  arrived_t                   datagram,
    input  place_t                     head,
    input  place_t                     tail,
    // verilator lint_on UNUSEDSIGNAL
    input  logic                       is_routed,      // the key
    input  logic                       add,            // the datagram waits
    input  logic                       append,         // it comes behind the tail
    input  logic                       remove,         // the head waits no longer
    // A clock later: the head, and the slot of the one behind it.
    output arrived_t                   head_datagram,
    output place_t                     next,
    input  logic     [LINKS-1:0]       forgotten,      // none of the link waits
    output logic     [LINKS-1:0][12:0] waiting,        // datagrams of each link
    // Routed ones have half of the places, of channels 6 and 7 of each link.
    output logic     [LINKS-1:0][ 1:0] is_half
);
  localparam int unsigned SLOT_BITS = $clog2(CHANNEL_DATAGRAMS);
  localparam int unsigned PLACES = LINKS * 8 * CHANNEL_DATAGRAMS;
  localparam int unsigned PLACE_BITS = $clog2(PLACES);
  typedef struct packed {
    logic        is_routed;
    logic        is_beyond;
    logic [7:0]  last_byte;
    logic [20:0] label;
  } kept_t;
  // Between neighbours the link and channel are those of the list.
  localparam int unsigned WHAT_BITS = ROUTED ? $bits(kept_t) : $bits(kept_t) - 2;
  localparam int unsigned KEPT_BITS = WHAT_BITS + 32'(LONG);  // the mark on top
  localparam int unsigned BEHIND_BITS = ROUTED ? $bits(place_t) : 9;

  localparam int unsigned HALF = (CHANNEL_DATAGRAMS + 1) / 2;
  localparam int unsigned COUNT_BITS = $clog2(CHANNEL_DATAGRAMS + 1);

  logic [LINKS-1:0][1:0][COUNT_BITS-1:0] routed;
  logic [KEPT_BITS-1:0] kept[PLACES];
  logic [BEHIND_BITS-1:0] behind[PLACES];
  logic [PLACE_BITS-1:0] place, head_place, tail_place;
  place_t own, head_1;
  // verilator lint_off UNUSEDSIGNAL
  kept_t own_kept;  // between neighbours not all of it
  // verilator lint_on UNUSEDSIGNAL
  kept_t head_kept;
  logic [KEPT_BITS-1:0] head_read;
  logic [BEHIND_BITS-1:0] next_read;

  function automatic logic [PLACE_BITS-1:0] place_of(place_t at);
    return PLACE_BITS'({at.link, at.channel, SLOT_BITS'(at.slot)});
  endfunction

  assign own = '{link: link, channel: datagram.channel, slot: datagram.slot};
  assign own_kept = '{
          is_routed: datagram.is_here,
          is_beyond: datagram.is_beyond,
          last_byte: datagram.last_byte,
          label: datagram.label
      };
  assign place = place_of(own);
  assign head_place = place_of(head);
  assign tail_place = place_of(tail);

  always_ff @(posedge clk) begin
    head_1 <= head;
    head_read <= kept[head_place];
    next_read <= behind[head_place];
    if (add) kept[place] <= KEPT_BITS'({datagram.mark, WHAT_BITS'(own_kept)});
    if (append) behind[tail_place] <= BEHIND_BITS'(own);
    for (int unsigned n = 0; n < LINKS; n++) begin
      waiting[n] <= waiting[n] + 13'(add && link == 3'(n)) - 13'(remove && head.link == 3'(n));
      if (rst || forgotten[n]) waiting[n] <= '0;
      for (int unsigned at = 0; at < 2; at++) begin
        if (is_routed && add && link == 3'(n) && datagram.channel[0] == 1'(at)) begin
          routed[n][at] <= routed[n][at] + 1'b1;
        end
        if (is_routed && remove && head.link == 3'(n) && head.channel[0] == 1'(at)) begin
          routed[n][at] <= routed[n][at] - 1'b1;
        end
        if (rst || forgotten[n] || !ROUTED) routed[n][at] <= '0;
        is_half[n][at] <= routed[n][at] >= COUNT_BITS'(HALF);
      end
    end
  end

  assign head_kept = $bits(kept_t)'(WHAT_BITS'(head_read));
  always_comb begin
    head_datagram = '0;
    head_datagram.mark = LONG && head_read[KEPT_BITS-1];
    head_datagram.is_here = head_kept.is_routed;
    head_datagram.is_beyond = head_kept.is_beyond;
    head_datagram.last_byte = head_kept.last_byte;
    head_datagram.label = head_kept.label;
    head_datagram.channel = head_1.channel;
    head_datagram.slot = head_1.slot;
    next = ROUTED ? place_t'(next_read) : '{
        link: head_1.link,
        channel: head_1.channel,
        slot: 9'(next_read)
    };
  end
endmodule
