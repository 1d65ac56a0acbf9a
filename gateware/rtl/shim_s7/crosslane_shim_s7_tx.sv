// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Converts the engine's TLPs to the 7-series block's transmit stream: a header of 3 or 4 double
// words in front of the payload. Read first: README.md beside this file.

module crosslane_shim_s7_tx
  import crosslane_pkg::*;
  import crosslane_wire_pkg::*;
#(
    parameter int unsigned DATA_BITS = 64
) (
    input logic clk,
    input logic rst,

    input  logic                        s_valid,
    output logic                        s_ready,
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t                 s_header,  // also has fields of received TLPs
    // verilator lint_on UNUSEDSIGNAL
    input  logic                        s_first,
    input  logic                        s_last,
    input  logic        [DATA_BITS-1:0] s_data,

    input  logic discard,  // the engine is being reset: a TLP that has begun is abandoned
    output logic between,
    output logic holds,    // a TLP that the hard block has not received yet

    output logic                   m_valid,
    input  logic                   m_ready,
    output logic [  DATA_BITS-1:0] m_data,
    output logic [DATA_BITS/8-1:0] m_keep,
    output logic                   m_last,
    output logic                   m_discontinue
);

  localparam int unsigned LANES = DATA_BITS / 32;
  localparam int unsigned LANE_BITS = $clog2(LANES);
  localparam int unsigned SKEW = LANES - 1;  // lanes of a header of 3 in the payload's first beat

  logic partway, cut, valid, first, last;
  logic [1:0] head;
  logic [9:0] beats_left;
  // The engine was reset while only header beats of a TLP had left: one more beat ends it.
  assign cut = discard && !partway && head != '0;
  assign valid = discard ? partway || cut : s_valid;
  assign first = s_first && !discard;
  assign last = discard ? beats_left == 10'd1 : s_last;
  assign between = !partway && head == '0;

  logic is_wide, has_data, wide, data, pending, free, alone;
  logic [LANE_BITS-1:0] tail, tail_now, pending_last, last_lane;
  logic wide_now, data_now, heads_done, head_is_all, ready, body, spills;
  logic [LANE_BITS:0] used;  // lanes at the TLP's last beat
  logic [SKEW*32-1:0] kept;
  logic [DATA_BITS-1:0] swapped, beat;
  logic [127:0] h;

  assign has_data = s_header.kind inside {MEMORY_WRITE, COMPLETION_DATA};
  assign is_wide = wire_is_wide(s_header);
  assign h = to_wire(s_header);

  for (genvar i = 0; i < LANES; i++) begin : g_swap
    assign swapped[i*32+:32] = {
      s_data[i*32+:8], s_data[i*32+8+:8], s_data[i*32+16+:8], s_data[i*32+24+:8]
    };
  end

  assign free = !m_valid || m_ready;
  assign alone = pending;
  assign wide_now = first ? is_wide : wide;
  assign data_now = first ? has_data : data;
  assign tail_now = first ? s_header.length_dw[LANE_BITS-1:0] - 1'b1 : tail;
  // Header-only beats: 3 / LANES for 3 double words, 4 / LANES for 4.
  assign heads_done = !first || head == (wide_now ? 2'(4 / LANES) : 2'(3 / LANES));
  assign head_is_all = first && wide_now && !data_now && head == 2'(4 / LANES - 1);
  assign used = (wide_now ? '0 : (LANE_BITS + 1)'(SKEW)) +
      (data_now ? (LANE_BITS + 1)'(tail_now) + 1'b1 : '0);
  assign spills = last && used > (LANE_BITS + 1)'(LANES);
  assign body = valid && !alone && heads_done && !cut;
  assign ready = free && !alone && !cut && (heads_done || head_is_all);
  assign s_ready = ready && !discard;
  assign holds = m_valid || pending || partway;

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    always_comb begin
      if (alone) beat[i*32+:32] = (i < SKEW) ? kept[(i%SKEW)*32+:32] : '0;
      else if (!heads_done) beat[i*32+:32] = h[((32'(head[0])*LANES+i)%4)*32+:32];
      else if (wide_now) beat[i*32+:32] = swapped[i*32+:32];
      else if (i >= SKEW) beat[i*32+:32] = swapped[((i+LANES-SKEW)%LANES)*32+:32];
      else beat[i*32+:32] = first ? h[(3-SKEW+i)%4*32+:32] : kept[(i%SKEW)*32+:32];
    end
  end

  assign last_lane = alone ? pending_last :
      (heads_done && last && !spills) ? LANE_BITS'(used - 1'b1) : '1;

  always_ff @(posedge clk) begin
    if (free) begin
      m_data <= beat;
      for (int i = 0; i < LANES; i++) m_keep[i*4+:4] <= {4{32'(last_lane) >= i}};
      m_last <= alone || cut || (heads_done ? last && !spills : head_is_all);
      m_discontinue <= discard && (partway || cut);
      if (valid && !alone) head <= (heads_done || head_is_all) ? '0 : head + 2'd1;
      if (body) begin
        wide <= wide_now;
        data <= data_now;
        tail <= tail_now;
        pending_last <= LANE_BITS'(used - 1'b1);
        kept <= swapped[DATA_BITS-1-:SKEW*32];
      end
    end
    if (valid && ready)
      beats_left <= partway ? beats_left - 1'b1 : 10'((s_header.length_dw - 11'd1) >> LANE_BITS);
    if (rst) begin
      m_valid <= 1'b0;
      pending <= 1'b0;
      partway <= 1'b0;
      head <= '0;
    end else begin
      if (valid && ready) partway <= !last;
      if (free) begin
        m_valid <= alone || valid;
        pending <= body && spills;
      end
    end
  end

endmodule
