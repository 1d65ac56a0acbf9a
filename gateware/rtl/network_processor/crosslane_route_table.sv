// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The torus that the registers describe, and the next step of a datagram in it. A table has the
// position of each node; it is written anew, node by node, when a dimension changes, which also
// finds this node's number. Read first: docs/network-processor.md, Routing.

module crosslane_route_table
  import crosslane_network_pkg::*;
#(
    parameter  int unsigned NODES     = 64,            // that the table has: power of two, from 2
    parameter  int unsigned ID_BITS   = 3,
    localparam int unsigned NODE_BITS = $clog2(NODES)
) (
    input  logic                     clk,
    input  logic                     rst,
    // Dimensions, and a pulse when one has been written. A torus with more nodes than the table is
    // none.
    input  extent_t [DIMENSIONS-1:0] extents,
    input  logic                     written,
    output torus_t                   torus,
    // A datagram from `source` is here; HOP_CLOCKS clocks later its next step.
    input  logic                     look,
    input  logic    [   ID_BITS-1:0] look_id,
    input  logic    [          15:0] source,
    input  logic    [          15:0] destination,
    output logic                     found,
    output logic    [   ID_BITS-1:0] found_id,
    output hop_t                     hop
);
  typedef logic [NODE_BITS-1:0] coordinate_t;
  typedef coordinate_t [DIMENSIONS-1:0] position_t;
  typedef logic [NODE_BITS:0] size_t;

  // --- The table -----------------------------------------------------------------------------
  position_t sources[NODES], destinations[NODES];  // the same
  position_t own, at, next;
  logic  [ NODE_BITS-1:0] number;
  size_t [DIMENSIONS-1:0] sizes;
  logic fills, is_possible, is_own, ends;

  always_comb begin
    is_possible = 1'b1;
    for (int unsigned n = 0; n < DIMENSIONS; n++) begin
      sizes[n] = (extents[n].size == '0) ? size_t'(1) : size_t'(extents[n].size);
      own[n]   = coordinate_t'(extents[n].position);
      is_possible &= 17'(extents[n].size) <= 17'(NODES) && 17'(extents[n].position) < 17'(sizes[n]);
    end
  end

  // The position behind the one that is written.
  always_comb begin
    logic carry;
    carry = 1'b1;
    next  = at;
    for (int unsigned n = 0; n < DIMENSIONS; n++) begin
      if (carry) begin
        carry   = size_t'(at[n]) + 1'b1 == sizes[n];
        next[n] = carry ? '0 : at[n] + 1'b1;
      end
    end
    ends = carry;
  end
  assign is_own = at == own;
  assign torus.is_new = fills || written;

  always_ff @(posedge clk) begin
    if (fills) begin
      sources[number] <= at;
      destinations[number] <= at;
      number <= number + 1'b1;
      at <= next;
      if (is_own) torus.node <= 16'(number);
      if (ends || number == '1) begin
        fills <= 1'b0;
        torus.is_there <= ends && is_possible && number != '0;
        torus.nodes <= 17'(number) + 1'b1;
      end
    end
    if (rst || written) begin
      fills <= !rst;
      number <= '0;
      at <= '0;
      torus.is_there <= 1'b0;
      torus.node <= '0;
    end
  end

  // --- First clock: the positions ------------------------------------------------------------
  logic look_1, exists_1;
  logic [ID_BITS-1:0] id_1;
  position_t from_1, to_1;
  always_ff @(posedge clk) begin
    look_1 <= look && !rst;
    id_1 <= look_id;
    from_1 <= sources[NODE_BITS'(source)];
    to_1 <= destinations[NODE_BITS'(destination)];
    exists_1 <= torus.is_there && 17'(source) < torus.nodes && 17'(destination) < torus.nodes;
  end

  // --- Second: the dimension in which it goes ------------------------------------------------
  logic look_2, exists_2, is_here_2, is_off_2, is_ring_2;
  logic [ID_BITS-1:0] id_2;
  logic [1:0] dimension_1, dimension_2;
  logic is_here_1, is_off_1;
  coordinate_t from_2, is_2, to_2;
  size_t size_2;

  always_comb begin
    is_here_1   = to_1 == own;
    dimension_1 = '0;
    for (int n = DIMENSIONS - 1; n >= 0; n--) if (to_1[n] != own[n]) dimension_1 = 2'(n);
    // Dimensions above it have not begun.
    is_off_1 = 1'b0;
    for (int unsigned n = 0; n < DIMENSIONS; n++) begin
      is_off_1 |= 2'(n) > dimension_1 && own[n] != from_1[n];
    end
  end
  always_ff @(posedge clk) begin
    look_2 <= look_1 && !rst;
    id_2 <= id_1;
    exists_2 <= exists_1;
    is_here_2 <= is_here_1;
    is_off_2 <= is_off_1;
    dimension_2 <= dimension_1;
    is_ring_2 <= !extents[dimension_1].is_open;
    from_2 <= from_1[dimension_1];
    is_2 <= own[dimension_1];
    to_2 <= to_1[dimension_1];
    size_2 <= sizes[dimension_1];
  end

  // --- Third: the way, and whether this node is on it ----------------------------------------
  logic look_3, exists_3, is_here_3, is_up_3, is_on_way_3, is_behind_3;
  logic [ID_BITS-1:0] id_3;
  logic [1:0] dimension_3;
  size_t up_all, up_to_here, up_from_here, down_all, down_to_here, down_from_here, up_sum, down_sum;
  logic is_up, is_first, is_last;
  coordinate_t next_up, next_down;

  // Hops upwards, around the ring if necessary.
  function automatic size_t up(coordinate_t from, coordinate_t to, size_t size);
    return (to >= from) ? size_t'(to - from) : size - size_t'(from - to);
  endfunction

  always_comb begin
    up_all = up(from_2, to_2, size_2);
    up_to_here = up(from_2, is_2, size_2);
    up_from_here = up(is_2, to_2, size_2);
    down_all = up(to_2, from_2, size_2);
    down_to_here = up(is_2, from_2, size_2);
    down_from_here = up(to_2, is_2, size_2);
    up_sum = up_to_here + up_from_here;
    down_sum = down_to_here + down_from_here;
    is_up = is_ring_2 ? up_all <= (size_2 >> 1) : to_2 > from_2;
    is_last = size_t'(is_2) + 1'b1 == size_2;
    is_first = is_2 == '0;
    next_up = is_last ? '0 : is_2 + 1'b1;
    next_down = is_first ? coordinate_t'(size_2 - 1'b1) : is_2 - 1'b1;
  end
  always_ff @(posedge clk) begin
    look_3 <= look_2 && !rst;
    id_3 <= id_2;
    exists_3 <= exists_2;
    is_here_3 <= is_here_2;
    is_up_3 <= is_up;
    dimension_3 <= dimension_2;
    is_on_way_3 <= !is_off_2 && from_2 != to_2 &&
        (is_up ? up_sum == up_all && (is_ring_2 || !is_last)
               : down_sum == down_all && (is_ring_2 || !is_first));
    is_behind_3 <= is_up ? next_up < from_2 : next_down > from_2;
  end

  assign found = look_3;
  assign found_id = id_3;
  assign hop.is_here = exists_3 && is_here_3;
  assign hop.has_link = exists_3 && !is_here_3 && is_on_way_3;
  assign hop.link = {dimension_3, !is_up_3};
  assign hop.is_behind_edge = is_behind_3;

`ifndef SYNTHESIS
  if (NODES != 1 << NODE_BITS || NODES < 2 || NODES > MAX_NODES) begin : g_nodes
    $error("NODES is a power of two, 2 to 65536");
  end
`endif
endmodule
