// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A register stage in front of the receive queues: decodes a beat and its TLP as far as possible
// without the lane's state.

module crosslane_lane_input
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned LANES = 8,
    parameter int unsigned WINDOW_BYTES = 65536,  // of BAR 1, each lane; a power of two
    localparam int unsigned WORDS = DATA_BITS / 32,
    localparam int unsigned COUNT_BITS = $clog2(WORDS + 1),
    localparam int unsigned LANE_BITS = (LANES == 1) ? 1 : $clog2(LANES)
) (
    input  logic                         clk,
    input  logic                         rst,
    input  logic                         s_lane_valid,
    output logic                         s_lane_ready,
    // Only some fields are used.
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t                  s_lane_header,
    // verilator lint_on UNUSEDSIGNAL
    input  logic                         s_lane_first,
    input  logic                         s_lane_last,
    input  logic        [ DATA_BITS-1:0] s_lane_data,
    output logic                         beat_valid,
    input  logic                         beat_ready,
    output logic                         beat_first,
    output logic                         beat_last,
    output logic        [ DATA_BITS-1:0] beat_data,
    output logic        [COUNT_BITS-1:0] beat_words,     // of the beat
    // The same for all beats of a TLP.
    output logic        [ LANE_BITS-1:0] beat_lane,
    output logic                         beat_absent,    // there is no such lane
    output logic                         beat_bad,       // poisoned, or not all bytes enabled
    output logic        [          12:0] beat_tlp_bytes
);
  localparam int unsigned PLACES = 1 << $clog2(LANES);

  logic [10:0] left, words_left;
  logic [3:0] lane;  // of 16 at most

  assign s_lane_ready = !beat_valid || beat_ready;
  assign words_left = s_lane_first ? s_lane_header.length_dw : left;
  assign lane = 4'(s_lane_header.address >> $clog2(WINDOW_BYTES)) & 4'(PLACES - 1);

  always_ff @(posedge clk) begin
    if (s_lane_ready) begin
      beat_valid <= s_lane_valid;
      beat_first <= s_lane_first;
      beat_last  <= s_lane_last;
      beat_data  <= s_lane_data;
      beat_words <= (words_left >= 11'(WORDS)) ? COUNT_BITS'(WORDS) : words_left[COUNT_BITS-1:0];
      if (s_lane_first) begin
        beat_lane <= LANE_BITS'(lane);
        beat_absent <= 5'(lane) >= 5'(LANES);
        beat_bad <= s_lane_header.poisoned || s_lane_header.first_be != 4'hf ||
            (s_lane_header.length_dw != 11'd1 && s_lane_header.last_be != 4'hf);
        beat_tlp_bytes <= {s_lane_header.length_dw, 2'b00};
      end
      if (s_lane_valid) left <= words_left - 11'(WORDS);
    end
    if (rst) beat_valid <= 1'b0;
  end

`ifndef SYNTHESIS
  if (WINDOW_BYTES != 1 << $clog2(WINDOW_BYTES)) begin : g_window
    $error("WINDOW_BYTES is a power of two");
  end
`endif
endmodule
