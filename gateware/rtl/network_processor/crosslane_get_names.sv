// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Names of routed gets. A request for (node, tag) gets the link and channel of its message's first
// hop, and a name of 6 bits that no other message has: the get engine of that link knows it by
// channel and name. Requests between neighbours pass by.

module crosslane_get_names
  import crosslane_network_pkg::*;
#(
    parameter int unsigned LINKS = 2,
    parameter int unsigned GET_SLOTS = 64
) (
    input  logic                      clk,
    input  logic                      rst,
    input  logic                      s_valid,
    output logic                      s_ready,
    input  request_t                  s_request,
    output logic                      m_valid,
    input  logic                      m_ready,
    output request_t                  m_request,
    output logic     [      5:0]      m_tag,
    output logic                      m_is_lost,      // no message may have it
    // The first hop.
    output logic                      look,
    output logic     [     15:0]      look_node,
    input  logic                      hop_known,
    // verilator lint_off UNUSEDSIGNAL
    input  hop_t                      hop,            // not whether it is this node
    // verilator lint_on UNUSEDSIGNAL
    // Of the get engines: the request has been looked at, has begun its message; a message has
    // ended.
    input  logic                      looked,
    input  logic                      begun,
    input  logic     [LINKS-1:0]      released,
    input  logic     [LINKS-1:0][5:0] released_names
);
  localparam int unsigned NAMES = (GET_SLOTS < 64) ? GET_SLOTS : 64;
  localparam int unsigned NAME_BITS = $clog2(NAMES);
  typedef struct packed {
    logic [15:0] node;
    logic [5:0]  tag;
    logic [2:0]  link;
    logic        is_behind_edge;
  } named_t;
  typedef enum logic [1:0] {
    IDLE,
    LOOKS,
    OFFERS,
    WAITS
  } step_e;

  step_e step;
  named_t [NAMES-1:0] names;
  logic [NAMES-1:0] is_used, is_match, first_free;
  logic is_lost, has_match, has_free;
  logic [5:0] name, next_match, next_free, match_name, free_name;
  named_t named;

  assign first_free = ~is_used & (is_used + 1'b1);
  always_comb begin
    next_match = '0;
    next_free  = '0;
    for (int unsigned n = 0; n < NAMES; n++) begin
      is_match[n] = is_used[n] && names[n].node == s_request.node && names[n].tag == s_request.tag;
      if (is_match[n]) next_match |= 6'(n);
      if (first_free[n]) next_free |= 6'(n);
    end
  end
  // Known a clock before the first hop is.
  always_ff @(posedge clk) begin
    has_match  <= is_match != '0;
    has_free   <= !(&is_used);
    match_name <= next_match;
    free_name  <= next_free;
  end

  assign look = step == LOOKS;
  assign look_node = s_request.node;

  always_comb begin
    m_request = s_request;
    if (s_request.routed) begin
      m_request.link = named.link;
      m_request.channel = {2'b11, named.is_behind_edge};
      m_request.tag = name;
      // Another channel than 6 is refused there.
      if (s_request.channel != ROUTED_CHANNEL) m_request.reserved = '1;
    end
  end
  assign m_valid = s_request.routed ? step == OFFERS : s_valid && step == IDLE;
  assign m_tag = s_request.tag;
  assign m_is_lost = is_lost;
  assign s_ready = m_valid && m_ready;

  always_ff @(posedge clk) begin
    unique case (step)
      IDLE: if (s_valid && s_request.routed) step <= LOOKS;
      LOOKS: begin
        if (hop_known) begin
          name <= has_match ? match_name : free_name;
          named <= has_match ? names[NAME_BITS'(match_name)] : '{
              node: s_request.node,
              tag: s_request.tag,
              link: hop.link,
              is_behind_edge: hop.is_behind_edge
          };
          is_lost <= !has_match && (!hop.has_link || 4'(hop.link) >= 4'(LINKS) || !has_free);
          step <= OFFERS;
        end
      end
      OFFERS: if (m_ready) step <= WAITS;
      default: if (looked) step <= IDLE;
    endcase
    if (begun) begin
      is_used[NAME_BITS'(name)] <= 1'b1;
      names[NAME_BITS'(name)]   <= named;
    end
    for (int unsigned n = 0; n < LINKS; n++) begin
      if (released[n]) is_used[NAME_BITS'(released_names[n])] <= 1'b0;
    end
    if (rst) begin
      step <= IDLE;
      is_used <= '0;
    end
  end
endmodule
