// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Converts the P-Tile's receive stream to the engine's TLP stream. Read first: README.md beside
// this file. The hard block goes on for up to 27 clocks after `rx_st_ready` has fallen: segments
// wait in a FIFO. At 512 bits two FIFOs take segments in turn, so their heads are always the next
// two, in whichever half of a beat they came.

module crosslane_shim_ptile_rx
  import crosslane_pkg::*;
  import crosslane_wire_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter bit WIDE_BARS = 1'b0,
    localparam int unsigned SEGMENTS = DATA_BITS / 256
) (
    input logic clk,
    input logic rst,

    input  logic [    SEGMENTS-1:0] rx_st_valid,
    output logic                    rx_st_ready,
    input  logic [    SEGMENTS-1:0] rx_st_sop,
    input  logic [    SEGMENTS-1:0] rx_st_eop,
    input  logic [   DATA_BITS-1:0] rx_st_data,
    input  logic [SEGMENTS*128-1:0] rx_st_hdr,
    input  logic [  SEGMENTS*3-1:0] rx_st_bar_range,
    input  logic [    SEGMENTS-1:0] rx_st_tlp_abort,

    input  logic discard,  // the engine is being reset: input is taken and discarded
    output logic between,

    output logic                        m_valid,
    input  logic                        m_ready,
    output tlp_header_t                 m_header,
    output logic                        m_first,
    output logic                        m_last,
    output logic                        m_aborted,        // beside the last beat
    output logic                        m_is_completion,  // beside each beat
    output logic        [DATA_BITS-1:0] m_data
);

  localparam int unsigned DEPTH = 64;
  // Beats that may still come once the FIFO is seen this full: 27, and those of the two registers.
  localparam int unsigned READY_CLOCKS = 27;
  localparam int unsigned FULL = DEPTH - READY_CLOCKS - 4;
  localparam int unsigned COUNT_BITS = $clog2(DEPTH) + 1;

  typedef struct packed {
    logic         sop;
    logic         eop;
    logic         aborted;
    logic [2:0]   bar;
    logic [127:0] header;
    logic [255:0] data;
  } segment_t;

  segment_t [SEGMENTS-1:0] come, put, head;
  logic [SEGMENTS-1:0] put_valid, head_valid, head_taken;
  logic [SEGMENTS-1:0][COUNT_BITS-1:0] count;

  for (genvar n = 0; n < SEGMENTS; n++) begin : g_segment
    assign come[n] = '{
            sop: rx_st_sop[n],
            eop: rx_st_eop[n],
            aborted: rx_st_tlp_abort[n],
            bar: rx_st_bar_range[3*n+:3],
            header: rx_st_hdr[128*n+:128],
            data: rx_st_data[256*n+:256]
        };
    // verilator lint_off UNUSEDSIGNAL
    logic s_ready;  // checked below
    // verilator lint_on UNUSEDSIGNAL
    crosslane_fifo #(
        .WIDTH($bits(segment_t)),
        .DEPTH(DEPTH)
    ) fifo (
        .clk,
        .rst,
        .s_valid(put_valid[n]),
        .s_ready,
        .s_data (put[n]),
        .m_valid(head_valid[n]),
        .m_ready(head_taken[n]),
        .m_data (head[n]),
        .count  (count[n])
    );
`ifndef SYNTHESIS
    always_ff @(posedge clk) begin
      if (!rst && put_valid[n]) begin
        assert (s_ready)
        else $error("a segment came %0d clocks after ready fell", READY_CLOCKS);
      end
    end
`endif
  end

  // The next segment, and the one behind it.
  segment_t s;
  // verilator lint_off UNUSEDSIGNAL
  segment_t t;  // its data, and how it ends
  // verilator lint_on UNUSEDSIGNAL
  logic s_valid, t_valid, takes_s, takes_t;

  if (SEGMENTS == 2) begin : g_turn
    logic put_at, take_at;  // FIFO of the next segment
    assign put[0] = (&rx_st_valid) ? come[put_at] : come[!rx_st_valid[0]];
    assign put[1] = (&rx_st_valid) ? come[!put_at] : come[!rx_st_valid[0]];
    assign put_valid = (&rx_st_valid) ? 2'b11 : (|rx_st_valid) ? (put_at ? 2'b10 : 2'b01) : 2'b00;
    assign s = head[take_at];
    assign t = head[!take_at];
    assign s_valid = head_valid[take_at];
    assign t_valid = head_valid[!take_at];
    assign head_taken = take_at ? {takes_s, takes_t} : {takes_t, takes_s};
    always_ff @(posedge clk) begin
      put_at  <= put_at ^ (^rx_st_valid);
      take_at <= take_at ^ takes_s ^ takes_t;
      if (rst) begin
        put_at  <= 1'b0;
        take_at <= 1'b0;
      end
    end
  end else begin : g_turn
    assign put = come;
    assign put_valid = rx_st_valid;
    assign s = head[0];
    assign t = '0;
    assign s_valid = head_valid[0];
    assign t_valid = 1'b0;
    assign head_taken = takes_s;
  end

  always_ff @(posedge clk) begin
    rx_st_ready <= !rst && count[0] < COUNT_BITS'(FULL);
    if (SEGMENTS == 2 && count[SEGMENTS-1] >= COUNT_BITS'(FULL)) rx_st_ready <= 1'b0;
  end

  wire_header_t words;
  tlp_header_t  header;
  logic pairs, emit, free, partway, losing, tainted, spoilt, lost, is_completion, completes;
  assign words = {s.header[31:0], s.header[63:32], s.header[95:64], s.header[127:96]};
  assign pairs = SEGMENTS == 2 && !s.eop;  // a beat is of both
  assign free = !m_valid || m_ready;
  assign emit = s_valid && (!pairs || t_valid) && free && !discard;
  assign takes_s = discard ? s_valid : emit;
  assign takes_t = discard ? s_valid && t_valid : emit && pairs;
  // Including what is taken now: a TLP that has lost its beginning is dropped whole.
  assign between = takes_t ? t.eop : takes_s ? s.eop : !partway;

  assign spoilt = s.aborted || (pairs && t.aborted) || (!s.sop && tainted);
  assign is_completion = s.sop ? wire_is_completion(words) : completes;
  // A request that is bad from its first beat on has no effect.
  assign lost = s.sop ? wire_is_message(words) || (spoilt && !is_completion) : losing;

  always_comb begin
    header = from_wire(words);
    header.poisoned |= spoilt;
    // 6 is a BAR for I/O, 7 the expansion ROM.
    if (wire_is_memory(words) && s.bar < 3'd6) header.bar = WIDE_BARS ? 3'(s.bar[2:1]) : s.bar;
  end

  always_ff @(posedge clk) begin
    if (free) begin
      m_header <= header;
      m_first <= s.sop;
      m_last <= s.eop || (pairs && t.eop);
      m_aborted <= spoilt && (s.eop || (pairs && t.eop));
      m_is_completion <= is_completion;
      m_data <= DATA_BITS'({t.data, s.data});
    end
    if (emit) begin
      losing <= lost;
      tainted <= spoilt;
      completes <= is_completion;
    end
    partway <= !between;
    if (free) m_valid <= emit && !lost;
    if (discard) m_valid <= 1'b0;
    if (rst) begin
      m_valid <= 1'b0;
      partway <= 1'b0;
    end
  end

endmodule
