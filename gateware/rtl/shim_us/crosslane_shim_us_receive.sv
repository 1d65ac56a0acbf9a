// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// One receive interface of the hard block, CQ or RC: takes the descriptor off the front of each TLP
// and moves the payload to lane 0. Read first: README.md beside this file.
//
// Two beats of the interface are held, X and the younger Y. The payload is passed on in windows of
// one beat over {Y, X}; a window begins behind the descriptor, so at one position for each segment
// in which a TLP may begin. A beat stays in X while windows begin in it, one a clock.

module crosslane_shim_us_receive #(
    parameter int unsigned DATA_BITS = 256,
    parameter bit REQUESTS = 1'b0,  // CQ: descriptor of 4 double words; else RC: 3
    parameter int unsigned STARTS = 1,  // segments of a beat at which a TLP may begin
    localparam int unsigned DESCRIPTOR_DW = REQUESTS ? 4 : 3
) (
    input logic clk,
    input logic rst,

    input  logic                 s_valid,
    output logic                 s_ready,
    input  logic [DATA_BITS-1:0] s_data,
    input  logic [   STARTS-1:0] s_starts,       // a TLP begins at this segment
    input  logic [ STARTS*8-1:0] s_enables,      // {last, first} byte enables of each
    input  logic                 s_discontinue,
    // TLPs of another stream that must go before one that begins in this beat; one of them has gone
    input  logic [          2:0] s_behind,
    input  logic                 behind_gone,

    output logic                        m_valid,
    input  logic                        m_ready,
    output logic                        m_first,
    output logic                        m_last,
    output logic [DESCRIPTOR_DW*32-1:0] m_descriptor,
    output logic [                 7:0] m_enables,
    output logic                        m_discontinued,
    output logic                        m_behind,        // must wait for the other stream
    output logic [       DATA_BITS-1:0] m_data
);

  localparam int unsigned LANES = DATA_BITS / 32;
  localparam int unsigned SEGMENT = LANES / STARTS;
  // At 64 bits the first beat has half of the descriptor and stands before X.
  localparam bit SPLIT = (LANES == 2);
  localparam int unsigned SKIP = SPLIT ? DESCRIPTOR_DW - 2 : DESCRIPTOR_DW;
  localparam int unsigned SELECT_BITS = (STARTS > 1) ? $clog2(STARTS) : 1;

  // Double words of payload. Requests other than writes have none to pass on.
  // verilator lint_off UNUSEDSIGNAL
  function automatic logic [10:0] payload(input logic [DESCRIPTOR_DW*32-1:0] descriptor);
    // verilator lint_on UNUSEDSIGNAL
    if (!REQUESTS) return descriptor[42:32];
    return (descriptor[78:75] == 4'd1) ? descriptor[74:64] : '0;
  endfunction

  logic x_valid, y_valid;
  logic [DATA_BITS-1:0] x_data, y_data;
  logic [STARTS-1:0] x_starts, y_starts;
  logic [STARTS*8-1:0] x_enables, y_enables;
  logic x_discontinue, y_discontinue;
  logic [2:0] x_behind, y_behind;

  // The TLP in progress. Its remainder is compared when it is set, that of a TLP which begins as its
  // beat comes to X: what lies between X and `m_ready` is short.
  logic going_on;
  logic [10:0] rest;  // double words that windows have yet to deliver
  logic rest_fits, rest_exceeds;  // they lie in X; they need more than one window
  logic [SELECT_BITS-1:0] place;  // segment that its windows follow
  logic [STARTS-1:0] x_fits, x_exceeds;  // the same of a TLP that begins at a segment

  logic begins;
  logic [SELECT_BITS-1:0] segment;
  logic [STARTS-1:0] this_start, later_starts;
  logic [10:0] remaining;
  logic whole, shift, y_moves, full_window;

  always_comb begin
    begins  = !going_on && x_starts != '0;
    segment = place;
    if (!going_on) begin
      segment = '0;
      for (int i = STARTS - 1; i >= 0; i--) if (x_starts[i]) segment = SELECT_BITS'(i);
    end
    this_start   = going_on ? '0 : (x_starts & (~x_starts + 1'b1));
    later_starts = x_starts & ~this_start;
  end

  // Window and descriptor of each segment, and the descriptor once Y has moved to X.
  logic [STARTS-1:0][DATA_BITS-1:0] windows;
  logic [STARTS-1:0][DESCRIPTOR_DW*32-1:0] descriptors, next_descriptors;
  logic [STARTS-1:0] next_fits, next_exceeds;
  logic [STARTS-1:0] rest_will_fit;  // of the TLP in progress, after a full window

  // verilator lint_off UNUSEDSIGNAL
  logic [2*DATA_BITS-1:0] both;  // a window begins behind a descriptor, and ends before Y does
  // verilator lint_on UNUSEDSIGNAL
  assign both = {y_data, x_data};
  for (genvar i = 0; i < STARTS; i++) begin : g_segment
    localparam int unsigned FROM = i * SEGMENT + SKIP;
    assign windows[i] = both[FROM*32+:DATA_BITS];
    assign next_fits[i] = payload(next_descriptors[i]) <= 11'(LANES - FROM);
    assign next_exceeds[i] = payload(next_descriptors[i]) > 11'(LANES);
    assign rest_will_fit[i] = remaining <= 11'(2 * LANES - FROM);
  end

  if (SPLIT) begin : g_split
    logic [63:0] head;  // the beat before X
    logic head_starts;
    logic [7:0] head_enables;
    always_ff @(posedge clk) begin
      if (y_moves) begin
        head <= x_data;
        head_starts <= y_starts[0];
        head_enables <= y_enables;
        x_starts <= head_starts;
        x_enables <= head_enables;
      end else if (m_valid && m_ready) begin
        x_starts <= '0;
      end
      if (rst) head_starts <= 1'b0;
    end
    assign descriptors[0] = {x_data[SKIP*32-1:0], head};
    assign next_descriptors[0] = {y_data[SKIP*32-1:0], x_data};
  end else begin : g_whole
    for (genvar i = 0; i < STARTS; i++) begin : g_descriptor
      assign descriptors[i] = x_data[i*SEGMENT*32+:DESCRIPTOR_DW*32];
      assign next_descriptors[i] = y_data[i*SEGMENT*32+:DESCRIPTOR_DW*32];
    end
    always_ff @(posedge clk) begin
      if (y_moves) begin
        x_starts  <= y_starts;
        x_enables <= y_enables;
      end else if (m_valid && m_ready) begin
        x_starts <= later_starts;
      end
    end
  end

  always_comb begin
    m_descriptor = '0;
    m_enables = '0;
    m_data = '0;
    for (int i = 0; i < STARTS; i++) begin
      if (segment == SELECT_BITS'(i)) begin
        m_descriptor |= descriptors[i];
        m_enables |= x_enables[i*8+:8];
        m_data |= windows[i];
      end
    end
  end

  assign remaining = going_on ? rest : payload(m_descriptor);
  assign whole = going_on ? rest_fits : x_fits[segment];
  assign full_window = going_on ? rest_exceeds : x_exceeds[segment];
  assign m_first = begins;
  assign m_last = !full_window;
  assign m_behind = begins && x_behind != '0;
  assign m_discontinued = x_discontinue || (!whole && y_discontinue);
  assign m_valid = x_valid && (going_on || begins) && (y_valid || whole);

  // X is finished when the last window that begins in it has gone.
  assign shift = x_valid && ((!going_on && !begins) || (m_valid && m_ready && later_starts == '0));
  assign y_moves = y_valid && (!x_valid || shift);
  assign s_ready = !y_valid || y_moves;

  always_ff @(posedge clk) begin
    if (s_ready) begin
      y_data <= s_data;
      y_starts <= s_starts;
      y_enables <= s_enables;
      y_discontinue <= s_discontinue;
      y_behind <= s_behind;
    end else if (behind_gone && y_behind != '0) begin
      y_behind <= y_behind - 3'd1;
    end
    if (y_moves) begin
      x_data <= y_data;
      x_discontinue <= y_discontinue;
      x_fits <= next_fits;
      x_exceeds <= next_exceeds;
      x_behind <= y_behind - 3'(behind_gone && y_behind != '0);
    end else if (behind_gone && x_behind != '0) begin
      x_behind <= x_behind - 3'd1;
    end
    if (m_valid && m_ready) begin
      going_on <= full_window;
      rest <= remaining - 11'(LANES);
      rest_fits <= rest_will_fit[segment];
      rest_exceeds <= remaining > 11'(2 * LANES);
      place <= segment;
    end
    if (rst) begin
      going_on <= 1'b0;
      x_valid  <= 1'b0;
      y_valid  <= 1'b0;
    end else begin
      if (s_ready) y_valid <= s_valid;
      if (!x_valid || shift) x_valid <= y_valid;
    end
  end

  if (!(DATA_BITS inside {64, 128, 256, 512}) || (SEGMENT < 4 && STARTS > 1)) begin : g_check
    $error("DATA_BITS is 64, 128, 256 or 512; a segment has at least 4 double words");
  end

endmodule
