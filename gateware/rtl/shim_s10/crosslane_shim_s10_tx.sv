// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Converts the engine's TLPs to the transmit stream of Stratix 10's hard block: a header of 3 or 4
// double words in front of the payload. Read first: README.md beside this file. `tx_st_ready` opens
// the clock that comes 3 clocks later; no beat waits in the output. A beat of the engine's gives as
// many segments as the output takes in a clock, a TLP's last one more or fewer: those that are too
// many are held, and the next TLP begins behind them.

module crosslane_shim_s10_tx
  import crosslane_pkg::*;
  import crosslane_wire_pkg::*;
#(
    parameter  int unsigned DATA_BITS = 256,
    localparam int unsigned SEGMENTS  = DATA_BITS / 256
) (
    input logic clk,
    input logic rst,

    input  logic                        s_valid,
    output logic                        s_ready,
    input  tlp_header_t                 s_header,
    input  logic                        s_first,
    input  logic                        s_last,
    input  logic        [DATA_BITS-1:0] s_data,

    input  logic discard,  // the engine is being reset: a TLP that has begun is abandoned
    output logic between,
    output logic gives_up, // pulse: the end of an abandoned TLP

    output logic [ SEGMENTS-1:0] tx_st_valid,
    input  logic                 tx_st_ready,
    output logic [ SEGMENTS-1:0] tx_st_sop,
    output logic [ SEGMENTS-1:0] tx_st_eop,
    output logic [ SEGMENTS-1:0] tx_st_err,
    output logic [DATA_BITS-1:0] tx_st_data
);

  localparam int unsigned LANES = DATA_BITS / 32;
  localparam int unsigned LANE_BITS = $clog2(LANES);
  localparam int unsigned MOST = SEGMENTS + 1;  // segments of a beat

  typedef struct packed {
    logic         sop;
    logic         eop;
    logic         err;
    logic [255:0] data;
  } segment_t;

  logic go, go_next, partway, valid, first, last, accept, leaves;
  logic [9:0] beats_left;  // without the one that is due: of an abandoned TLP
  logic wide, wide_now;
  logic [LANE_BITS:0] tail, tail_now;  // lanes of the payload's last beat
  logic [LANE_BITS+1:0] ends;  // lanes up to the end of the TLP
  logic [127:0] kept, words;
  logic [MOST*256-1:0] all;
  segment_t [MOST-1:0] beat;
  segment_t [SEGMENTS-1:0] held, leaving;
  logic [2:0] holds, count, total;  // segments: held, of the beat, both

  assign words = to_wire(s_header);
  assign valid = discard ? partway : s_valid;
  assign first = !discard && s_first;
  assign last = discard ? beats_left == '0 : s_last;
  assign accept = go && valid && holds < 3'(SEGMENTS);
  assign s_ready = go && holds < 3'(SEGMENTS) && !discard;
  assign between = !partway && holds == '0;
  assign gives_up = accept && discard && last;

  assign wide_now = first ? wire_is_wide(s_header) : wide;
  always_comb begin
    tail_now = tail;
    if (first) begin
      tail_now = '0;
      if (s_header.kind inside {MEMORY_WRITE, COMPLETION_DATA}) begin
        tail_now = {1'b0, s_header.length_dw[LANE_BITS-1:0] - 1'b1} + 1'b1;
      end
    end
  end

  // The header, or the end of the beat before; then this one's payload.
  assign all = (MOST * 256)'(wide_now ? {s_data, first ? words : kept} :
      {32'd0, s_data, first ? words[95:0] : kept[127:32]});
  assign ends = (LANE_BITS + 2)'(tail_now) + (wide_now ? (LANE_BITS + 2)'(4) : (LANE_BITS + 2)'(3));

  always_comb begin
    count = last ? 3'd1 : 3'(SEGMENTS);
    for (int unsigned n = 1; n < MOST; n++) begin
      if (last && ends > (LANE_BITS + 2)'(8 * n)) count = 3'(n + 1);
    end
    for (int unsigned n = 0; n < MOST; n++) begin
      beat[n].sop  = first && n == 0;
      beat[n].eop  = last && count == 3'(n + 1);
      beat[n].err  = discard && beat[n].eop;
      beat[n].data = all[256*n+:256];
    end
    if (!accept) count = '0;
  end

  assign total = holds + count;
  for (genvar n = 0; n < SEGMENTS; n++) begin : g_leaving
    assign leaving[n] = 3'(n) < holds ? held[n] : beat[2'(n)-holds[1:0]];
  end
  // A segment leaves alone if it ends its TLP, else with the next.
  assign leaves = go && (total >= 3'(SEGMENTS) || (total != '0 && leaving[0].eop));

  always_ff @(posedge clk) begin
    go_next <= tx_st_ready;
    go <= go_next;
    for (int unsigned n = 0; n < SEGMENTS; n++) begin
      tx_st_valid[n] <= leaves && 3'(n) < total;
      tx_st_sop[n] <= leaving[n].sop && 3'(n) < total;
      tx_st_eop[n] <= leaving[n].eop && 3'(n) < total;
      tx_st_err[n] <= leaving[n].err && 3'(n) < total;
      tx_st_data[256*n+:256] <= leaving[n].data;
      if (accept) held[n] <= beat[2'(SEGMENTS+n)-holds[1:0]];
    end
    if (leaves) holds <= total > 3'(SEGMENTS) ? total - 3'(SEGMENTS) : '0;
    if (accept) begin
      wide <= wide_now;
      tail <= tail_now;
      kept <= s_data[DATA_BITS-1-:128];
      beats_left <= first ? 10'((s_header.length_dw - 11'd1) >> LANE_BITS) - 10'd1 :
          beats_left - 10'd1;
      partway <= !last;
    end
    if (rst) begin
      go <= 1'b0;
      go_next <= 1'b0;
      holds <= '0;
      partway <= 1'b0;
      tx_st_valid <= '0;
    end
  end

endmodule
