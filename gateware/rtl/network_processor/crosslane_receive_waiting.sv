// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Datagrams that wait for a credit: those of a key are a list through their places in the receive
// buffers. The ends of the lists are with the keys.

module crosslane_receive_waiting
  import crosslane_network_pkg::*;
#(
    parameter int unsigned LINKS             = 1,
    parameter int unsigned CHANNEL_DATAGRAMS = 64  // of a link
) (
    input  logic                           clk,
    input  logic                           rst,
    // Only some bits are used.
    // verilator lint_off UNUSEDSIGNAL
    input  message_key_t                   key,        // of all that follows
    input  arrived_t                       datagram,
    input  logic         [      8:0]       head,
    input  logic         [      8:0]       tail,
    // verilator lint_on UNUSEDSIGNAL
    input  logic                           add,        // the datagram waits
    input  logic                           append,     // with `add`: behind the tail
    input  logic                           remove,     // the head waits no longer
    // A clock later: the head, and the slot of the one behind it.
    output logic         [      7:0]       last_byte,
    output logic         [     20:0]       label,
    output logic         [      8:0]       next,
    input  logic         [LINKS-1:0]       forgotten,  // none of the link waits
    output logic         [LINKS-1:0][12:0] waiting     // datagrams of each link
);
  localparam int unsigned SLOT_BITS = $clog2(CHANNEL_DATAGRAMS);
  localparam int unsigned PLACES = LINKS * 8 * CHANNEL_DATAGRAMS;
  localparam int unsigned PLACE_BITS = $clog2(PLACES);
  typedef struct packed {
    logic [7:0]  last_byte;
    logic [20:0] label;
  } kept_t;

  kept_t kept[PLACES];
  logic [8:0] behind[PLACES];
  logic [PLACE_BITS-1:0] place, head_place, tail_place;

  assign place = PLACE_BITS'({key.link, key.channel, SLOT_BITS'(datagram.slot)});
  assign head_place = PLACE_BITS'({key.link, key.channel, SLOT_BITS'(head)});
  assign tail_place = PLACE_BITS'({key.link, key.channel, SLOT_BITS'(tail)});

  always_ff @(posedge clk) begin
    {last_byte, label} <= kept[head_place];
    next <= behind[head_place];
    if (add) kept[place] <= '{last_byte: datagram.last_byte, label: datagram.label};
    if (add && append) behind[tail_place] <= datagram.slot;
    for (int unsigned n = 0; n < LINKS; n++) begin
      if (key.link == 3'(n)) waiting[n] <= waiting[n] + 13'(add) - 13'(remove);
      if (rst || forgotten[n]) waiting[n] <= '0;
    end
  end
endmodule
