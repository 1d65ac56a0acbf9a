// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Keeps the segments of a receive stream of Intel's hard blocks, which go on for some clocks after
// `rx_st_ready` has fallen. They lie in FIFOs that take them in turn, so the oldest ones are always
// visible together, in whichever half of a beat they came.

module crosslane_intel_segments #(
    parameter int unsigned SEGMENTS = 1,  // of a beat: 1 or 2
    parameter int unsigned WIDTH = 256,  // of a segment with its signals
    parameter int unsigned VIEW = 1,  // segments that are visible
    parameter int unsigned FIFOS = 1,  // a power of two, at least VIEW and SEGMENTS
    parameter int unsigned DEPTH = 64,  // of a FIFO
    parameter int unsigned READY_CLOCKS = 27,  // beats that may come after ready has fallen
    localparam int unsigned TAKE_BITS = $clog2(VIEW + 1)
) (
    input logic clk,
    input logic rst,

    input  logic [SEGMENTS-1:0]            rx_st_valid,
    output logic                           rx_st_ready,
    input  logic [SEGMENTS-1:0][WIDTH-1:0] come,

    output logic [     VIEW-1:0]            view_valid,  // from 0 on
    output logic [     VIEW-1:0][WIDTH-1:0] view,
    input  logic [TAKE_BITS-1:0]            taken        // of those that are valid
);

  localparam int unsigned COUNT_BITS = $clog2(DEPTH) + 1;
  localparam int unsigned TURN_BITS = FIFOS > 1 ? $clog2(FIFOS) : 1;
  // Beats that may still come once a FIFO is seen this full: and those of the registers, 4.
  localparam int unsigned LATE = ((READY_CLOCKS + 4) * SEGMENTS + FIFOS - 1) / FIFOS;
  localparam int unsigned FULL = DEPTH - LATE;

  typedef logic [TURN_BITS-1:0] turn_t;

  turn_t put_at, take_at;  // FIFO of the next segment
  logic [SEGMENTS-1:0][WIDTH-1:0] packed_come;
  logic [1:0] number;  // of those that come
  logic [FIFOS-1:0][WIDTH-1:0] head;
  logic [FIFOS-1:0] head_valid, full;

  assign number = 2'(rx_st_valid[0]) + (SEGMENTS == 2 ? 2'(rx_st_valid[SEGMENTS-1]) : 2'd0);
  always_comb begin
    packed_come = come;
    if (!rx_st_valid[0]) packed_come[0] = come[SEGMENTS-1];
  end

  for (genvar n = 0; n < FIFOS; n++) begin : g_fifo
    turn_t put_turn, take_turn;
    logic put, take;
    logic [WIDTH-1:0] put_data;
    logic [COUNT_BITS-1:0] count;
    // verilator lint_off UNUSEDSIGNAL
    logic s_ready;  // checked below
    // verilator lint_on UNUSEDSIGNAL
    // With one FIFO each turn is its own.
    assign put_turn = FIFOS == 1 ? '0 : turn_t'(n) - put_at;
    assign take_turn = FIFOS == 1 ? '0 : turn_t'(n) - take_at;
    assign put = 32'(put_turn) < 32'(number);
    assign put_data = put_turn == '0 ? packed_come[0] : packed_come[SEGMENTS-1];
    assign take = 32'(take_turn) < 32'(taken);
    crosslane_fifo #(
        .WIDTH(WIDTH),
        .DEPTH(DEPTH)
    ) fifo (
        .clk,
        .rst,
        .s_valid(put),
        .s_ready,
        .s_data (put_data),
        .m_valid(head_valid[n]),
        .m_ready(take),
        .m_data (head[n]),
        .count
    );
    assign full[n] = count >= COUNT_BITS'(FULL);
`ifndef SYNTHESIS
    always_ff @(posedge clk) begin
      if (!rst && put) begin
        assert (s_ready)
        else $error("a segment came %0d clocks after ready fell", READY_CLOCKS);
      end
    end
`endif
  end

  for (genvar n = 0; n < VIEW; n++) begin : g_view
    turn_t at;
    assign at = FIFOS == 1 ? '0 : take_at + turn_t'(n);
    assign view_valid[n] = head_valid[at];
    assign view[n] = head[at];
  end

  always_ff @(posedge clk) begin
    if (FIFOS > 1) begin
      put_at  <= put_at + turn_t'(number);
      take_at <= take_at + turn_t'(taken);
    end
    rx_st_ready <= !rst && full == '0;
    if (rst) begin
      put_at  <= '0;
      take_at <= '0;
    end
  end

`ifndef SYNTHESIS
  if (FIFOS < VIEW || FIFOS < SEGMENTS || LATE >= DEPTH) begin : g_check
    $error("too few FIFOs, or too small");
  end
`endif
endmodule
