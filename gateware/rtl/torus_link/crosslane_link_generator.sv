// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Datagrams of the pattern, for tests of a cable (docs/torus-link.md, Pattern): to the `s_*` of an
// end.

module crosslane_link_generator
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES = 8,  // 1, 4 or 8
    parameter bit LONG = 1'b0  // datagrams carry 256 B, not 128 B
) (
    input logic clk,
    input logic rst,
    input logic begins,  // pulse: the pattern begins with `seed`, once none is sent
    input logic [31:0] seed,
    input logic runs,  // datagrams are sent
    output logic s_valid,
    input logic s_ready,
    output logic [2:0] s_channel,
    output label_t s_label,
    output logic [8*LANES-1:0] s_data,
    output logic [31:0] sent  // datagrams
);
  localparam int unsigned BEATS = payload_bytes(LONG) / LANES;
  localparam int unsigned AT_BITS = $clog2(BEATS);

  logic [31:0] word;
  logic [12:0] index;
  logic [AT_BITS-1:0] at;
  logic is_last, takes;
  assign is_last = at == AT_BITS'(BEATS - 1);
  assign takes = s_valid && s_ready;
  assign s_channel = PATTERN_CHANNEL;
  assign s_label = '{index: index, tag: '0, kind: '0};

  if (LANES == 8) begin : g_two
    assign s_data = {word + PATTERN_STEP, word};
  end else if (LANES == 4) begin : g_one
    assign s_data = word;
  end else begin : g_bytes
    assign s_data = word[8*at[1:0]+:8];
  end

  always_ff @(posedge clk) begin
    if (!s_valid) s_valid <= runs;
    else if (takes && is_last) s_valid <= runs;
    if (takes) begin
      at <= at + 1'b1;
      if (LANES == 8) word <= word + 2 * PATTERN_STEP;
      else if (LANES == 4 || at[1:0] == '1) word <= word + PATTERN_STEP;
      if (is_last) begin
        index <= index + 1'b1;
        sent  <= sent + 1'b1;
      end
    end
    if (begins && !s_valid) begin
      word  <= seed;
      index <= '0;
    end
    if (rst) begin
      s_valid <= 1'b0;
      at <= '0;
      word <= '0;
      index <= '0;
      sent <= '0;
    end
  end
endmodule
