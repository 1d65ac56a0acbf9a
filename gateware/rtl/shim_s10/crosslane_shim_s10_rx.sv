// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Converts the receive stream of Stratix 10's hard block to the engine's TLP stream: the header is
// in front of the payload. Read first: README.md beside this file. The segments of a beat and the
// one behind them are visible; the payload is passed on in windows of one beat over them, which
// begin behind the header, so no TLP takes longer than it came.

module crosslane_shim_s10_rx
  import crosslane_pkg::*;
  import crosslane_wire_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter bit WIDE_BARS = 1'b0,
    localparam int unsigned SEGMENTS = DATA_BITS / 256
) (
    input logic clk,
    input logic rst,

    input  logic [  SEGMENTS-1:0] rx_st_valid,
    output logic                  rx_st_ready,
    input  logic [  SEGMENTS-1:0] rx_st_sop,
    input  logic [  SEGMENTS-1:0] rx_st_eop,
    input  logic [ DATA_BITS-1:0] rx_st_data,
    input  logic [SEGMENTS*3-1:0] rx_st_bar_range,

    input  logic discard,  // the engine is being reset: input is taken and discarded
    output logic between,

    output logic                        m_valid,
    input  logic                        m_ready,
    output tlp_header_t                 m_header,
    output logic                        m_first,
    output logic                        m_last,
    output logic        [DATA_BITS-1:0] m_data
);

  localparam int unsigned LANES = DATA_BITS / 32;
  localparam int unsigned VIEW = SEGMENTS + 1;
  localparam int unsigned TAKE_BITS = 2;

  typedef struct packed {
    logic         sop;
    logic         eop;
    logic [2:0]   bar;
    logic [255:0] data;
  } segment_t;

  segment_t [SEGMENTS-1:0] come;
  // verilator lint_off UNUSEDSIGNAL
  segment_t [VIEW-1:0] view;  // of the later ones the data, and how they end
  // verilator lint_on UNUSEDSIGNAL
  logic [VIEW-1:0] view_valid;
  logic [TAKE_BITS-1:0] taken;

  for (genvar n = 0; n < SEGMENTS; n++) begin : g_segment
    assign come[n] = '{
            sop: rx_st_sop[n],
            eop: rx_st_eop[n],
            bar: rx_st_bar_range[3*n+:3],
            data: rx_st_data[256*n+:256]
        };
  end
  crosslane_intel_segments #(
      .SEGMENTS(SEGMENTS),
      .WIDTH($bits(segment_t)),
      .VIEW(VIEW),
      .FIFOS(2 * SEGMENTS),
      .DEPTH(32),
      .READY_CLOCKS(18)
  ) segments (
      .*
  );

  logic [10:0] rest;  // double words that windows have yet to deliver
  logic draining;  // what is left of a TLP is not for the engine
  logic wide, partway;

  logic begins, wide_now, full_window, emit, free, lost, ended;
  logic [10:0] remaining, ends;
  logic [VIEW-1:0] touched;  // segments under the window
  logic [TAKE_BITS-1:0] behind;  // the first segment that is not
  wire_header_t words;
  tlp_header_t received, header;
  // verilator lint_off UNUSEDSIGNAL
  logic [ VIEW*256-1:0] all;  // from the end of the header on
  // verilator lint_on UNUSEDSIGNAL
  logic [DATA_BITS-1:0] window;

  for (genvar n = 0; n < VIEW; n++) begin : g_all
    assign all[256*n+:256] = view[n].data;
  end
  assign words = view[0].data[127:0];
  assign received = from_wire(words);
  assign begins = rest == '0;
  assign wide_now = begins ? words[0][29] : wide;
  assign remaining = !begins ? rest : wire_has_data(words) ? received.length_dw : '0;
  assign full_window = remaining > 11'(LANES);
  assign ends = remaining + (wide_now ? 11'd4 : 11'd3);
  assign window = wide_now ? all[128+:DATA_BITS] : all[96+:DATA_BITS];
  assign lost = begins && wire_is_message(words);

  always_comb begin
    touched = '0;
    behind  = '0;
    for (int unsigned n = 0; n < VIEW; n++) begin
      touched[n] = n == 0 || full_window || ends > 11'(8 * n);
      if (touched[n]) behind = TAKE_BITS'(n + 1);
    end
  end

  assign free = !m_valid || m_ready;
  assign emit = (view_valid & touched) == touched && free && !draining && !discard;

  // The last segment under a window that is not the last is also the next one's first.
  always_comb begin
    taken = '0;
    if (discard) begin
      for (int unsigned n = 0; n < VIEW; n++) if (view_valid[n]) taken = TAKE_BITS'(n + 1);
    end else if (draining) begin
      taken = TAKE_BITS'(view_valid[0]);
    end else if (emit) begin
      taken = full_window ? TAKE_BITS'(SEGMENTS) : behind;
    end
    ended = 1'b0;
    for (int unsigned n = 0; n < VIEW; n++) begin
      if (taken == TAKE_BITS'(n + 1)) ended = view[n].eop;
    end
  end
  // Including what is taken now: a TLP that has lost its beginning is dropped whole.
  assign between = taken != '0 ? ended : !partway;

  always_comb begin
    header = received;
    // 6 is a BAR for I/O, 7 the expansion ROM.
    if (wire_is_memory(words) && view[0].bar < 3'd6) begin
      header.bar = WIDE_BARS ? 3'(view[0].bar[2:1]) : view[0].bar;
    end
  end

  always_ff @(posedge clk) begin
    if (free) begin
      m_header <= header;
      m_first  <= begins;
      m_last   <= !full_window;
      m_data   <= window;
    end
    if (emit) begin
      rest <= full_window ? remaining - 11'(LANES) : '0;
      wide <= wide_now;
    end
    if (draining || (emit && !full_window)) draining <= !between;
    partway <= !between;
    if (free) m_valid <= emit && !lost;
    if (discard) begin
      m_valid <= 1'b0;
      rest <= '0;
      draining <= 1'b0;
    end
    if (rst) begin
      m_valid <= 1'b0;
      rest <= '0;
      draining <= 1'b0;
      partway <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst && emit) begin
      assert (view[0].sop == begins)
      else $error("the length of a TLP is not that of its header");
    end
  end
`endif
endmodule
