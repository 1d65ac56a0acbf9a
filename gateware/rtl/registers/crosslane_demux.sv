// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Distributes received TLPs. All outputs share one register: a TLP that its output does not
// take holds up those behind it, as the ordering rules require for posted requests and completions.
//
//   output      TLPs
//   lane        writes that hit BAR 1
//   window      requests that hit BAR 2
//   line        writes that hit BAR 4, the push aperture
//   completion  completions
//   request     all others: BAR 0, reads of BAR 1, requests that hit no BAR (to be refused)
//
// Poisoned writes have no effect. The receive queues and the apertures have to see theirs, so these
// are passed on; all others are dropped here.
//
// A line takes effect in the clock of a register access behind it, and no register access before it
// is held up: so lines and doorbells keep their order.

module crosslane_demux
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS  = 256,
    parameter bit          HAS_LANES  = 1,
    parameter bit          HAS_WINDOW = 0,
    parameter bit          HAS_PUSH   = 0
) (
    input logic clk,
    input logic rst,
    input logic s_rx_valid,
    output logic s_rx_ready,
    input tlp_header_t s_rx_header,
    input logic s_rx_first,
    input logic s_rx_last,
    input logic [DATA_BITS-1:0] s_rx_data,
    input logic s_rx_aborted,  // with a completion's last beat: discard its data
    output logic m_request_valid,
    input logic m_request_ready,
    output tlp_header_t m_request_header,
    output logic m_request_first,
    output logic m_request_last,
    output logic [DATA_BITS-1:0] m_request_data,
    output logic m_lane_valid,
    input logic m_lane_ready,
    output tlp_header_t m_lane_header,
    output logic m_lane_first,
    output logic m_lane_last,
    output logic [DATA_BITS-1:0] m_lane_data,
    output logic m_window_valid,
    input logic m_window_ready,
    output tlp_header_t m_window_header,
    output logic m_window_first,
    output logic m_window_last,
    output logic [DATA_BITS-1:0] m_window_data,
    output logic m_completion_valid,
    input logic m_completion_ready,
    output tlp_header_t m_completion_header,
    output logic m_completion_first,
    output logic m_completion_last,
    output logic [DATA_BITS-1:0] m_completion_data,
    output logic m_completion_aborted,
    output line_write_t line_write,
    // verilator lint_off UNUSEDSIGNAL
    input logic access_held,  // a register access waits to be made; without lines unused
    // verilator lint_on UNUSEDSIGNAL
    output logic poisoned_write  // pulse: a poisoned memory write has arrived
);
  localparam logic [2:0] LANES_BAR = 3'd1;
  localparam logic [2:0] WINDOW_BAR = 3'd2;
  localparam logic [2:0] PUSH_BAR = 3'd4;

  typedef enum logic [2:0] {
    TO_NOWHERE,
    TO_REQUEST,
    TO_LANE,
    TO_WINDOW,
    TO_LINE,
    TO_COMPLETION
  } way_e;

  // --- Output of the TLP -----------------------------------------------------------------------
  way_e way, first_way, begun_way;  // of the beat; of its header; of the TLP in progress
  logic is_write, is_completion;

  assign is_write = s_rx_header.kind == MEMORY_WRITE;
  assign is_completion = s_rx_header.kind == COMPLETION || s_rx_header.kind == COMPLETION_DATA;

  always_comb begin
    first_way = TO_REQUEST;
    if (is_completion) first_way = TO_COMPLETION;
    else if (HAS_LANES && is_write && s_rx_header.bar == LANES_BAR) first_way = TO_LANE;
    else if (HAS_WINDOW && s_rx_header.bar == WINDOW_BAR) first_way = TO_WINDOW;
    else if (HAS_PUSH && is_write && s_rx_header.bar == PUSH_BAR) first_way = TO_LINE;
    else if (is_write && s_rx_header.poisoned) first_way = TO_NOWHERE;
  end
  assign way = s_rx_first ? first_way : begun_way;

  // --- The register ----------------------------------------------------------------------------
  logic [TO_COMPLETION:TO_REQUEST] valid;  // at most one
  logic first, last, aborted;
  tlp_header_t header;
  logic [DATA_BITS-1:0] data;
  logic takes_line;

  assign s_rx_ready = valid == '0 || (m_request_valid && m_request_ready) ||
                      (m_lane_valid && m_lane_ready) || (m_window_valid && m_window_ready) ||
                      (m_completion_valid && m_completion_ready) || takes_line;

  always_ff @(posedge clk) begin
    if (s_rx_ready) begin
      valid <= '0;
      if (s_rx_valid && way != TO_NOWHERE) valid[way] <= 1'b1;
      header <= s_rx_header;
      first <= s_rx_first;
      last <= s_rx_last;
      data <= s_rx_data;
      aborted <= s_rx_aborted;
      if (s_rx_valid) begun_way <= way;
    end
    poisoned_write <= s_rx_valid && s_rx_ready && s_rx_first && is_write && s_rx_header.poisoned;
    if (rst) begin
      valid <= '0;
      poisoned_write <= 1'b0;
    end
  end

  assign m_request_valid = valid[TO_REQUEST];
  assign m_request_header = header;
  assign m_request_first = first;
  assign m_request_last = last;
  assign m_request_data = data;

  assign m_lane_valid = HAS_LANES && valid[TO_LANE];
  assign m_lane_header = header;
  assign m_lane_first = first;
  assign m_lane_last = last;
  assign m_lane_data = data;

  assign m_window_valid = HAS_WINDOW && valid[TO_WINDOW];
  assign m_window_header = header;
  assign m_window_first = first;
  assign m_window_last = last;
  assign m_window_data = data;

  if (HAS_PUSH) begin : g_push
    assign takes_line = valid[TO_LINE] && !access_held;
    crosslane_push_lines #(
        .DATA_BITS(DATA_BITS)
    ) lines (
        .clk,
        .rst,
        .s_valid (takes_line),
        .s_header(header),
        .s_first (first),
        .s_last  (last),
        .s_data  (data),
        .line_write
    );
  end else begin : g_no_push
    assign takes_line = 1'b0;
    assign line_write = '0;
  end

  assign m_completion_valid = valid[TO_COMPLETION];
  assign m_completion_header = header;
  assign m_completion_first = first;
  assign m_completion_last = last;
  assign m_completion_data = data;
  assign m_completion_aborted = aborted;
endmodule
