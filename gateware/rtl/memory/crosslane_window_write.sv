// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Writes into the card's memory: a TLP becomes one AXI4 burst, its double words moved to their
// lanes of the bus. One beat a clock, and one more where the alignment requires it. A poisoned
// write has no effect.

module crosslane_window_write
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS    = 256,
    parameter  int unsigned ADDRESS_BITS = 40,
    localparam int unsigned BYTES        = DATA_BITS / 8
) (
    input  logic                           clk,
    input  logic                           rst,
    // Write TLPs. One of more than 256 beats is not supported.
    input  logic                           s_valid,
    output logic                           s_ready,
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t                    s_header,       // only some fields are used
    // verilator lint_on UNUSEDSIGNAL
    input  logic                           s_first,
    input  logic                           s_last,
    input  logic        [   DATA_BITS-1:0] s_data,
    output logic                           idle,           // all writes taken are in the memory
    output logic                           failed,         // pulse: the memory refused one
    output logic                           m_axi_awvalid,
    input  logic                           m_axi_awready,
    output logic        [ADDRESS_BITS-1:0] m_axi_awaddr,
    output logic        [             7:0] m_axi_awlen,
    output logic                           m_axi_wvalid,
    input  logic                           m_axi_wready,
    output logic        [   DATA_BITS-1:0] m_axi_wdata,
    output logic        [       BYTES-1:0] m_axi_wstrb,
    output logic                           m_axi_wlast,
    input  logic                           m_axi_bvalid,
    output logic                           m_axi_bready,
    // verilator lint_off UNUSEDSIGNAL
    input  logic        [             1:0] m_axi_bresp     // bit 0 tells two kinds of error apart
    // verilator lint_on UNUSEDSIGNAL
);
  localparam int unsigned WORDS = BYTES / 4;
  localparam int unsigned LANE_BITS = $clog2(BYTES);
  localparam int unsigned SHIFT_BITS = LANE_BITS - 2;
  localparam int unsigned OUTSTANDING = 32;

  // --- Position of the beat ------------------------------------------------------------------
  logic [SHIFT_BITS-1:0] shift, own_shift;
  logic [10:0] left, own_left;  // double words from this beat on
  logic [3:0] last_be;
  logic drop, own_drop, over;
  logic [BYTES-1:0] enables;
  logic [2*DATA_BITS-1:0] wide_data;
  logic [2*BYTES-1:0] wide_enables;

  assign shift = s_first ? s_header.address[LANE_BITS-1:2] : own_shift;
  assign left  = s_first ? s_header.length_dw : own_left;
  assign drop  = s_first ? s_header.poisoned : own_drop;
  // The last double words of this beat spill into the next one of the bus.
  assign over  = s_last && 12'(shift) + 12'(left) > 12'(WORDS);

  always_comb begin
    for (int unsigned n = 0; n < WORDS; n++) begin
      enables[4*n+:4] = (11'(n) < left) ? 4'hf : 4'h0;
      if (left == 11'(n + 1)) enables[4*n+:4] = s_first ? s_header.last_be : last_be;
    end
    if (s_first) enables[3:0] = s_header.first_be;
    wide_data = (2 * DATA_BITS)'(s_data) << {shift, 5'd0};
    wide_enables = (2 * BYTES)'(enables) << {shift, 2'd0};
  end

  // --- Bursts --------------------------------------------------------------------------------
  logic take, flushing, room, burst_ready, first_taken;
  logic [11:0] burst_words;
  logic [7:0] burst_length;
  logic [$clog2(OUTSTANDING):0] outstanding;

  assign room = burst_ready && !outstanding[$clog2(OUTSTANDING)];
  assign s_ready = drop ? !flushing || !s_first
                        : !flushing && (!m_axi_wvalid || m_axi_wready) && (!s_first || room);
  assign take = s_valid && s_ready && !drop;
  assign first_taken = take && s_first;
  assign burst_words = 12'(shift) + 12'(s_header.length_dw) - 12'd1;
  assign burst_length = 8'(burst_words >> SHIFT_BITS);

  crosslane_fifo #(
      .WIDTH(ADDRESS_BITS + 8),
      .DEPTH(4)
  ) bursts (
      .clk,
      .rst,
      .s_valid(first_taken),
      .s_ready(burst_ready),
      .s_data ({ADDRESS_BITS'(s_header.address) & ~ADDRESS_BITS'(BYTES - 1), burst_length}),
      .m_valid(m_axi_awvalid),
      .m_ready(m_axi_awready),
      .m_data ({m_axi_awaddr, m_axi_awlen}),
      .count  ()
  );

  logic [DATA_BITS-1:0] rest_data;
  logic [BYTES-1:0] rest_enables;

  always_ff @(posedge clk) begin
    if (s_valid && s_ready) begin
      own_drop  <= drop;
      own_shift <= shift;
      own_left  <= left - 11'(WORDS);
      if (s_first) last_be <= s_header.last_be;
    end
    if (m_axi_wready) m_axi_wvalid <= 1'b0;
    if (take || (flushing && (!m_axi_wvalid || m_axi_wready))) begin
      m_axi_wvalid <= 1'b1;
      m_axi_wdata <= (take ? wide_data[DATA_BITS-1:0] : '0) | (take && s_first ? '0 : rest_data);
      m_axi_wstrb <= (take ? wide_enables[BYTES-1:0] : '0) | (take && s_first ? '0 : rest_enables);
      m_axi_wlast <= take ? s_last && !over : 1'b1;
      rest_data <= wide_data[2*DATA_BITS-1:DATA_BITS];
      rest_enables <= wide_enables[2*BYTES-1:BYTES];
      flushing <= take && over;
    end
    if (rst) begin
      m_axi_wvalid <= 1'b0;
      flushing <= 1'b0;
      own_drop <= 1'b0;
    end
  end

  // --- Answers -------------------------------------------------------------------------------
  assign m_axi_bready = 1'b1;
  assign idle = outstanding == '0;

  always_ff @(posedge clk) begin
    failed <= m_axi_bvalid && m_axi_bresp[1] && !rst;
    if (first_taken && !m_axi_bvalid) outstanding <= outstanding + 1'b1;
    if (!first_taken && m_axi_bvalid) outstanding <= outstanding - 1'b1;
    if (rst) outstanding <= '0;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst && first_taken) begin
      assert (burst_words >> SHIFT_BITS < 12'd256)
      else $error("a write of more than 256 beats");
    end
  end
`endif
endmodule
