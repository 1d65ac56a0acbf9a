// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The push aperture's end of the receive path: puts the beats of a write together and says whether
// they are a whole line. Always ready. docs/engine.md, "Pushed descriptors".

module crosslane_push_lines
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256
) (
    input logic clk,
    input logic rst,
    // Beats of writes.
    input logic s_valid,
    // verilator lint_off UNUSEDSIGNAL
    input tlp_header_t s_header,
    // verilator lint_on UNUSEDSIGNAL
    input logic s_first,
    input logic s_last,
    input logic [DATA_BITS-1:0] s_data,
    output line_write_t line_write  // the clock behind its last beat
);
  localparam int unsigned LINE_BITS = $bits(line_write.data);
  localparam logic [10:0] LINE_DW = 11'(LINE_BITS / 32);

  always_ff @(posedge clk) begin
    line_write.valid <= s_valid && s_last && !rst;
    if (s_valid) begin
      // The first beat of a line ends up at the bottom.
      line_write.data <= LINE_BITS'({s_data, line_write.data} >> DATA_BITS);
      if (s_first) begin
        line_write.number <= s_header.address[11:6];
        line_write.whole <= s_header.length_dw == LINE_DW && s_header.address[5:2] == '0 &&
                            (&s_header.first_be) && (&s_header.last_be) && !s_header.poisoned;
      end
    end
  end
endmodule
