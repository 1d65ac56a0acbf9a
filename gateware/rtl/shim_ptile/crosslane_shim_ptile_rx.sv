// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Converts the P-Tile's receive stream to the engine's TLP stream. Read first: README.md beside
// this file. The hard block goes on for up to 27 clocks after `rx_st_ready` has fallen: segments
// wait in crosslane_intel_segments.

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

  typedef struct packed {
    logic         sop;
    logic         eop;
    logic         aborted;
    logic [2:0]   bar;
    logic [127:0] header;
    logic [255:0] data;
  } segment_t;

  segment_t [SEGMENTS-1:0] come, view;
  logic [SEGMENTS-1:0] view_valid;
  // The next segment, and the one behind it.
  segment_t s;
  // verilator lint_off UNUSEDSIGNAL
  segment_t t;  // its data, and how it ends
  // verilator lint_on UNUSEDSIGNAL
  logic s_valid, t_valid, takes_s, takes_t;

  for (genvar n = 0; n < SEGMENTS; n++) begin : g_segment
    assign come[n] = '{
            sop: rx_st_sop[n],
            eop: rx_st_eop[n],
            aborted: rx_st_tlp_abort[n],
            bar: rx_st_bar_range[3*n+:3],
            header: rx_st_hdr[128*n+:128],
            data: rx_st_data[256*n+:256]
        };
  end
  crosslane_intel_segments #(
      .SEGMENTS(SEGMENTS),
      .WIDTH($bits(segment_t)),
      .VIEW(SEGMENTS),
      .FIFOS(SEGMENTS),
      .DEPTH(64),
      .READY_CLOCKS(27)
  ) segments (
      .*,
      .taken(SEGMENTS'(takes_s) + SEGMENTS'(takes_t))
  );
  assign s = view[0];
  assign s_valid = view_valid[0];
  assign t = SEGMENTS == 2 ? view[SEGMENTS-1] : '0;
  assign t_valid = SEGMENTS == 2 && view_valid[SEGMENTS-1];

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
