// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// One transmit interface of the hard block, RQ or CC: puts the descriptor in front of each TLP's
// payload. Read first: README.md beside this file.
//
// Lanes that do not fit into a beat are kept and lead the next one. With STRADDLE (512 bits) a TLP
// that has ended in the lower half of a beat is kept as well, and leaves together with the
// beginning of the next one if that is available by the next clock.

module crosslane_shim_us_send #(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned DESCRIPTOR_DW = 4,
    parameter bit STRADDLE = 1'b0,
    parameter int unsigned SIDE_BITS = 1,
    localparam int unsigned LANES = DATA_BITS / 32,
    localparam int unsigned LANE_BITS = $clog2(LANES)
) (
    input logic clk,
    input logic rst,

    input  logic                        s_valid,
    output logic                        s_ready,
    input  logic                        s_first,
    input  logic                        s_last,
    input  logic [DESCRIPTOR_DW*32-1:0] s_descriptor,  // beside the first beat
    input  logic [       SIDE_BITS-1:0] s_side,        // beside the first beat
    input  logic [                10:0] s_length_dw,   // beside the first beat; 0: no payload
    input  logic                        s_abandoned,
    input  logic [       DATA_BITS-1:0] s_data,
    // From the next clock on a descriptor has left in part, and nothing of its TLP has been taken.
    output logic                        heading,

    output logic m_valid,
    input logic m_ready,
    output logic [DATA_BITS-1:0] m_data,
    output logic [LANES-1:0] m_keep,
    output logic m_last,  // of a TLP that this beat ends with
    output logic m_abandoned,
    output logic [1:0] m_starts,  // TLPs that begin: one, two
    output logic m_start_upper,  // the first of them in the upper half
    output logic [1:0][SIDE_BITS-1:0] m_sides,
    output logic [1:0] m_ends,  // TLPs that end: one, two
    output logic [1:0][LANE_BITS-1:0] m_end_lanes
);

  localparam int unsigned HEADS = DESCRIPTOR_DW / LANES;  // descriptor-only beats
  localparam int unsigned SKEW = DESCRIPTOR_DW % LANES;
  localparam int unsigned HALF = LANES / 2;
  localparam int unsigned KEPT = STRADDLE ? HALF + SKEW : ((SKEW == 0) ? 1 : SKEW);

  // A TLP's remainder, or all of it, waiting for its beat.
  logic pending;
  logic pending_starts;
  logic [LANE_BITS-1:0] pending_end;  // its last lane
  logic [SIDE_BITS-1:0] pending_side;
  logic [KEPT*32-1:0] kept;

  logic upper, upper_now;  // the TLP's descriptor is in the upper half
  logic [LANE_BITS-1:0] tail;  // last lane of the payload's last beat
  logic payload;
  logic [1:0] head, head_next;

  logic free, merge, alone, heads_done, body, consumed;
  logic [LANE_BITS-1:0] tail_now;
  logic payload_now;
  logic [LANE_BITS:0] offset, lanes_used;  // lanes before the payload; with the payload
  logic ends_here, spills, waits;
  logic [DATA_BITS-1:0] beat;

  assign free = !m_valid || m_ready;
  assign merge = STRADDLE && pending && pending_end < LANE_BITS'(HALF) && s_valid;
  assign alone = pending && !merge;
  assign heads_done = !s_first || head == 2'(HEADS);
  assign payload_now = s_first ? s_length_dw != '0 : payload;
  assign tail_now = s_first ? s_length_dw[LANE_BITS-1:0] - 1'b1 : tail;
  assign upper_now = STRADDLE && (s_first ? pending : upper);
  assign offset = (LANE_BITS + 1)'(SKEW) + (upper_now ? (LANE_BITS + 1)'(HALF) : '0);
  // At its last beat. One bit more than a lane's number: up to LANES - 1 + LANES - 4 + 1.
  assign lanes_used = offset + (payload_now ? (LANE_BITS + 1)'(tail_now) + 1'b1 : '0);
  assign spills = s_last && lanes_used > (LANE_BITS + 1)'(LANES);
  assign ends_here = s_last && !spills;
  assign waits = STRADDLE && ends_here && lanes_used <= (LANE_BITS + 1)'(HALF);
  assign body = s_valid && !alone && heads_done;

  // A TLP without payload whose descriptor fills whole beats has no body.
  logic head_is_all;
  assign head_is_all = HEADS != 0 && SKEW == 0 && s_first && !payload_now &&
      head == 2'((HEADS == 0) ? 0 : HEADS - 1);
  assign s_ready = free && !alone && (heads_done || head_is_all);
  assign consumed = s_valid && s_ready;

  assign head_next = !(free && s_valid && !alone) ? head :
      (consumed || HEADS == 0) ? '0 : head + 2'(!heads_done);
  assign heading = head_next != '0;

  // Descriptor-only beats: two at most, at 64 bits.
  logic [1:0][DATA_BITS-1:0] heads;
  if (HEADS == 0) begin : g_heads
    assign heads = '0;
  end else begin : g_heads
    for (genvar h = 0; h < 2; h++) begin : g_head
      assign heads[h] = s_descriptor[(h%HEADS)*DATA_BITS+:DATA_BITS];
    end
  end

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    always_comb begin
      beat[i*32+:32] = '0;
      if (alone) begin
        if (i < KEPT) beat[i*32+:32] = kept[(i%KEPT)*32+:32];
      end else if (!heads_done) begin
        beat[i*32+:32] = heads[head[0]][i*32+:32];
      end else if (STRADDLE && upper_now) begin
        if (i >= HALF + SKEW) beat[i*32+:32] = s_data[((i+2*LANES-HALF-SKEW)%LANES)*32+:32];
        else if (s_first && i >= HALF)
          beat[i*32+:32] = s_descriptor[((i+DESCRIPTOR_DW*LANES-HALF)%DESCRIPTOR_DW)*32+:32];
        else beat[i*32+:32] = kept[(i%KEPT)*32+:32];
      end else begin
        if (i >= SKEW) beat[i*32+:32] = s_data[((i+LANES-SKEW)%LANES)*32+:32];
        else if (s_first) beat[i*32+:32] = s_descriptor[((HEADS*LANES+i)%DESCRIPTOR_DW)*32+:32];
        else beat[i*32+:32] = kept[(i%KEPT)*32+:32];
      end
    end
  end

  logic [LANE_BITS-1:0] last_lane;
  assign last_lane = alone ? pending_end :
      (!heads_done || !ends_here) ? '1 : LANE_BITS'(lanes_used - 1'b1);

  always_ff @(posedge clk) begin
    if (free) begin
      m_data <= beat;
      m_keep <= ~(({LANES{1'b1}} << 1) << last_lane);  // lanes up to the last
      m_last <= alone || (heads_done ? ends_here : head_is_all);
      m_abandoned <= s_abandoned;
      m_starts <= {
        merge && pending_starts,
        alone ? pending_starts :
                   (s_first && (HEADS == 0 || head == '0)) || (merge && pending_starts)
      };
      m_start_upper <= !alone && upper_now && !pending_starts;
      m_sides <= {s_side, (pending && pending_starts) ? pending_side : s_side};
      m_ends <= {merge && ends_here, alone || merge || ends_here};
      m_end_lanes <= {
        LANE_BITS'(lanes_used - 1'b1), pending ? pending_end : LANE_BITS'(lanes_used - 1'b1)
      };
      if (body) begin
        upper <= upper_now;
        payload <= payload_now;
        tail <= tail_now;
        pending_end <= LANE_BITS'(lanes_used - 1'b1);  // modulo the lanes of a beat
        pending_side <= s_side;
        pending_starts <= waits && s_first;
        for (int i = 0; i < KEPT; i++) begin
          if (waits) kept[i*32+:32] <= beat[i*32+:32];
          else if (STRADDLE && upper_now)
            kept[i*32+:32] <= s_data[((LANES-HALF-SKEW+i)%LANES)*32+:32];
          else kept[i*32+:32] <= s_data[((LANES-SKEW+i)%LANES)*32+:32];
        end
      end
    end
    head <= head_next;
    if (rst) begin
      m_valid <= 1'b0;
      pending <= 1'b0;
      head <= '0;
    end else if (free) begin
      m_valid <= alone || (s_valid && !waits);
      if (alone) pending <= 1'b0;
      else if (body) pending <= spills || waits;
    end
  end

  if (STRADDLE && LANES != 16) begin : g_check
    $error("straddling needs 512 bits");
  end

`ifndef SYNTHESIS
  // The engine never lets valid fall within a TLP; the hard block's straddling relies on it.
  logic partway;
  always_ff @(posedge clk) begin
    if (rst) partway <= 1'b0;
    else if (consumed) partway <= !s_last;
    if (!rst && s_valid)
      assert (s_first == !partway)
      else $error("first does not fit");
  end
`endif

endmodule
