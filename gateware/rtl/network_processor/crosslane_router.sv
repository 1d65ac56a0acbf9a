// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Router: looks at the datagrams that links have delivered. Those that are for this node, or for
// none, go to the receive engine; the others to the queue of the next link. Says the first hop of
// gets, too. Datagrams that are not routed pass by.

module crosslane_router
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned LINKS = 2,
    parameter int unsigned NODES = 64
) (
    input  logic                      clk,
    input  logic                      rst,
    input  extent_t  [DIMENSIONS-1:0] extents,
    input  logic                      written,
    output torus_t                    torus,
    input  logic     [     LINKS-1:0] takes,             // the link takes datagrams
    // Datagrams delivered by each link.
    input  logic     [     LINKS-1:0] s_valid,
    output logic     [     LINKS-1:0] s_ready,
    input  arrived_t [     LINKS-1:0] s_arrived,
    // The datagram that comes, and whether `s_arrived` is the same, in the first clock in which it
    // is valid.
    input  coming_t  [     LINKS-1:0] coming,
    input  logic     [     LINKS-1:0] s_is_coming,
    // Those for the receive engine.
    output logic     [     LINKS-1:0] m_valid,
    input  logic     [     LINKS-1:0] m_ready,
    output arrived_t [     LINKS-1:0] m_arrived,
    // To a queue of another link, one at a time.
    output logic                      push,
    input  logic                      push_ready,
    output logic     [           2:0] push_link,
    output logic                      push_behind_edge,
    output place_t                    push_place,
    output label_t                    push_label,
    // The first hop to a node. `look` stays until `looked`.
    input  logic                      look,
    input  logic     [          15:0] look_node,
    output logic                      looked,
    output hop_t                      hop
);
  localparam int unsigned ASKERS = LINKS + 1;  // the links, and gets
  localparam int unsigned ID_BITS = $clog2(ASKERS);
  logic [ASKERS-1:0] asks, chosen, waits, answered;
  logic [ID_BITS-1:0] index, found_id;
  logic [15:0] source, destination;
  logic found;
  hop_t found_hop;
  logic [LINKS-1:0] is_routed, has_hop, passes, pushable, pushes;
  // The look-up under way is of the datagram that has come, or of the one that comes.
  logic [LINKS-1:0] asks_now, asked_now, asked_early;
  logic [LINKS-1:0] has_early, knows;
  hop_t [LINKS-1:0] hops, early_hops, next_hops;
  label_t [LINKS-1:0] labels, own_labels;

  // --- Their next steps, by turns ------------------------------------------------------------
  for (genvar n = 0; n < LINKS; n++) begin : g_label
    assign labels[n] = label_t'(s_arrived[n].label);
    assign is_routed[n] = labels[n].kind == KIND_ROUTED && s_arrived[n].channel >= ROUTED_CHANNEL &&
        (torus.is_there || torus.is_new);
  end

  // The next step of a datagram is known when it has come, if none has come before it that waits.
  always_comb begin
    for (int unsigned n = 0; n < LINKS; n++) begin
      knows[n] = has_hop[n] || (s_is_coming[n] && has_early[n]);
      next_hops[n] = has_hop[n] ? hops[n] : early_hops[n];
      asks_now[n] = s_valid[n] && is_routed[n] && !knows[n];
      asks[n] = !waits[n] && !torus.is_new &&
          (asks_now[n] || (coming[n].is_routed && (coming[n].begins || !has_early[n])));
      own_labels[n] = labels[n];
      if (is_routed[n]) own_labels[n].index = s_arrived[n].index;
    end
    asks[LINKS] = look && !waits[LINKS] && !looked && !torus.is_new;
  end

  always_comb begin
    source = torus.node;
    destination = look_node;
    for (int unsigned n = 0; n < LINKS; n++) begin
      if (chosen[n]) begin
        source = asks_now[n] ? s_arrived[n].source : coming[n].source;
        destination = asks_now[n] ? s_arrived[n].destination : coming[n].destination;
      end
    end
    for (int unsigned n = 0; n < ASKERS; n++) answered[n] = found && found_id == ID_BITS'(n);
  end

  crosslane_turn #(
      .COUNT(ASKERS)
  ) turn (
      .clk,
      .rst,
      .valid(asks),
      .taken(chosen),
      .chosen,
      .index
  );

  crosslane_route_table #(
      .NODES  (NODES),
      .ID_BITS(ID_BITS)
  ) route_table (
      .look(chosen != '0),
      .look_id(index),
      .hop(found_hop),
      .*
  );

  always_ff @(posedge clk) begin
    waits  <= (waits | chosen) & ~answered;
    looked <= answered[LINKS];
    if (found) hop <= found_hop;
    for (int unsigned n = 0; n < LINKS; n++) begin
      has_early[n] <= has_early[n] && !coming[n].begins && !written;
      if (coming[n].begins || written) asked_early[n] <= 1'b0;
      if (answered[n] && asked_early[n] && !coming[n].begins && !written) begin
        early_hops[n] <= found_hop;
        has_early[n]  <= 1'b1;
      end
      if (chosen[n]) begin
        asked_now[n]   <= asks_now[n];
        asked_early[n] <= !asks_now[n];
      end
      if (answered[n] && asked_now[n]) begin
        hops[n] <= found_hop;
        has_hop[n] <= 1'b1;
      end else if (knows[n] && !has_hop[n]) begin
        hops[n] <= early_hops[n];
        has_hop[n] <= 1'b1;
      end
      if (!s_valid[n] || s_ready[n]) has_hop[n] <= 1'b0;
    end
    if (rst) begin
      waits <= '0;
      looked <= 1'b0;
      has_hop <= '0;
      has_early <= '0;
    end
  end

  // --- On: to the receive engine, or to a link that takes datagrams and is not the same ---------
  logic [LINKS-1:0] next_takes, next_push;
  logic [((LINKS > 1) ? $clog2(LINKS) : 1)-1:0] push_index;

  always_comb begin
    for (int unsigned n = 0; n < LINKS; n++) begin
      next_takes[n] = 1'b0;
      for (int unsigned other = 0; other < LINKS; other++) begin
        if (other != n && next_hops[n].link == 3'(other)) next_takes[n] |= takes[other];
      end
      pushable[n] = s_valid[n] && is_routed[n] && knows[n] && next_hops[n].has_link &&
          next_takes[n];
      passes[n] = !is_routed[n] || (knows[n] && !(next_hops[n].has_link && next_takes[n]));
      m_arrived[n] = s_arrived[n];
      m_arrived[n].label = own_labels[n];
      m_arrived[n].is_here = is_routed[n] && knows[n] && next_hops[n].is_here;
      m_valid[n] = s_valid[n] && passes[n];
    end
  end

  crosslane_turn #(
      .COUNT(LINKS)
  ) push_turn (
      .clk,
      .rst,
      .valid (pushable & takes),
      .taken (pushes),
      .chosen(next_push),
      .index (push_index)
  );

  always_comb begin
    push = next_push != '0;
    pushes = push_ready ? next_push : '0;
    push_link = next_hops[push_index].link;
    push_behind_edge = next_hops[push_index].is_behind_edge;
    push_label = labels[push_index];
    push_place = '{
        link: 3'(push_index),
        channel: s_arrived[push_index].channel,
        slot: s_arrived[push_index].slot
    };
    s_ready = (m_valid & m_ready) | pushes;
  end
endmodule
