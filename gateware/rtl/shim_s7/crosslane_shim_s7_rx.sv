// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Converts the 7-series block's receive stream to the engine's TLP stream. Read first: README.md
// beside this file. Two beats are held, X and the younger Y; the payload is passed on in windows of
// one beat over {Y, X}. At most one window begins in a beat, so no beat ever costs a second clock.

module crosslane_shim_s7_rx
  import crosslane_pkg::*;
  import crosslane_wire_pkg::*;
#(
    parameter int unsigned DATA_BITS = 64,
    parameter bit WIDE_BARS = 1'b0
) (
    input logic clk,
    input logic rst,

    input  logic                 s_valid,
    output logic                 s_ready,
    input  logic [DATA_BITS-1:0] s_data,
    input  logic                 s_starts_lower,  // a TLP begins in the first lane
    input  logic                 s_starts_upper,  // at 128 bits: in the third
    input  logic [          5:0] s_bar_hit,
    input  logic                 s_poisoned,

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
  localparam bit NARROW = LANES == 2;

  logic x_valid, y_valid, y_lower, y_upper, y_poisoned;
  logic [DATA_BITS-1:0] x_data, y_data;
  logic [5:0] y_bar_hit;
  // The TLP whose header ends in X: entirely in X, or begun in the beat before.
  logic x_whole, x_split, x_starts_upper, x_poisoned, split_poisoned;
  logic [63:0] ahead;
  logic [5:0] x_bar_hit, split_bar_hit;

  logic [10:0] rest;  // double words that windows have yet to deliver
  logic split, wide;  // where they begin

  logic begins, split_now, wide_now, shift, y_moves, full_window, whole, free, emit;
  logic source_first, source_last, lost;
  logic [10:0] payload, remaining;
  wire_header_t words;
  tlp_header_t received;
  // verilator lint_off UNUSEDSIGNAL
  logic [127:0] h;  // header: double words 0 to 3, as numbers; some bits are unused
  // verilator lint_on UNUSEDSIGNAL
  logic [3*DATA_BITS-1:0] all;  // a window may begin behind X

  assign all = {{DATA_BITS{1'b0}}, y_data, x_data};
  assign begins = rest == '0 && (x_whole || x_split);
  if (NARROW) begin : g_header
    assign h = {x_data[63:0], ahead};
  end else begin : g_header
    assign h = x_whole ? x_data[DATA_BITS-1-:128] : {x_data[63:0], ahead};
  end
  assign split_now = begins ? (NARROW || !x_whole) : split;
  assign wide_now  = begins ? h[29] : wide;

  // Lane of X at which the window begins: header's lanes, less those of the beat before.
  logic [2:0] from;
  assign from = (split_now ? 3'd1 : 3'd3) + 3'(wide_now);
  logic [DATA_BITS-1:0] window;
  always_comb begin
    window = '0;
    for (int lane = 1; lane <= 4; lane++) if (from == 3'(lane)) window |= all[lane*32+:DATA_BITS];
  end

  assign words = h;
  assign received = from_wire(words);
  assign payload = wire_has_data(words) ? received.length_dw : '0;
  assign lost = begins && wire_is_message(words);

  assign remaining = begins ? payload : rest;
  assign full_window = remaining > 11'(LANES);
  assign whole = remaining + 11'(from) <= 11'(LANES) || remaining == '0;
  assign source_first = begins;
  assign source_last = !full_window;
  assign free = !m_valid || m_ready || discard;
  assign emit = x_valid && (begins || rest != '0) && (y_valid || whole) && free;
  assign shift = x_valid && ((!begins && rest == '0) || emit);
  assign y_moves = y_valid && (!x_valid || shift);
  assign s_ready = !y_valid || y_moves;
  // Including the beat taken now: a TLP that has lost its beginning is dropped whole.
  assign between = emit ? source_last : rest == '0;

  // This interface carries the first byte of a double word in its top bits.
  logic [DATA_BITS-1:0] swapped;
  for (genvar i = 0; i < LANES; i++) begin : g_swap
    assign swapped[i*32+:32] = {
      window[i*32+:8], window[i*32+8+:8], window[i*32+16+:8], window[i*32+24+:8]
    };
  end

  tlp_header_t header;
  logic [5:0] bar_hit;
  always_comb begin
    bar_hit = split_now ? split_bar_hit : x_bar_hit;
    header  = received;
    header.poisoned |= split_now ? split_poisoned : x_poisoned;
    if (wire_is_memory(words)) begin
      for (int i = 5; i >= 0; i--) if (bar_hit[i]) header.bar = 3'(WIDE_BARS ? i / 2 : i);
    end
  end

  always_ff @(posedge clk) begin
    if (s_ready) begin
      y_data <= s_data;
      y_lower <= s_starts_lower;
      y_upper <= s_starts_upper;
      y_bar_hit <= s_bar_hit;
      y_poisoned <= s_poisoned;
    end
    if (y_moves) begin
      x_data <= y_data;
      ahead <= x_data[DATA_BITS-1-:64];
      x_whole <= !NARROW && y_lower;
      x_split <= x_starts_upper;
      x_starts_upper <= NARROW ? y_lower : y_upper;
      x_bar_hit <= y_bar_hit;
      split_bar_hit <= x_bar_hit;
      x_poisoned <= y_poisoned;
      split_poisoned <= x_poisoned;
    end
    if (free) begin
      m_header <= header;
      m_first  <= source_first;
      m_last   <= source_last;
      m_data   <= swapped;
    end
    if (emit) begin
      rest  <= full_window ? remaining - 11'(LANES) : '0;
      split <= split_now;
      wide  <= wide_now;
    end
    if (rst) begin
      rest <= '0;
      x_valid <= 1'b0;
      y_valid <= 1'b0;
      m_valid <= 1'b0;
      x_starts_upper <= 1'b0;
    end else begin
      if (s_ready) y_valid <= s_valid;
      if (!x_valid || shift) x_valid <= y_valid;
      if (free) m_valid <= emit && !lost && !discard;
    end
  end

endmodule
