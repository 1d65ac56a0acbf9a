// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A training set out of its columns (docs/torus-link.md, Bring-up and loss): good if each lane's CRC
// fits, all lanes say the same and no symbol was wrong. It is there a clock behind its last column.

module crosslane_link_set
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES = 8
) (
    input  logic                           clk,
    input  logic                           rst,
    // A column behind the comma, 1 to 15.
    input  logic                           valid,
    input  logic          [      3:0]      at,
    input  logic          [LANES-1:0][7:0] symbols,
    input  logic          [LANES-1:0]      control,
    input  logic          [LANES-1:0]      error,
    output logic                           set_good,  // pulses
    output logic                           set_bad,
    output training_set_t                  set
);
  localparam logic [31:0] CRC_OF_COMMA = crc_step('1, K_COMMA);
  localparam logic [3:0] FIRST = 4'd1;
  // Columns that are alike in all lanes.
  localparam logic [3:0] SAME_FROM = 4'd2;
  localparam logic [3:0] SAME_TO = 4'd10;
  localparam logic [3:0] CONTENT_TO = 4'd11;
  localparam logic [3:0] LAST = 4'(SET_COLUMNS - 1);

  logic [LANES-1:0][31:0] crc, crc_begun, crc_behind, crc_next;
  logic is_bad, bad_next, is_last, is_content;
  // Columns 2 to 11 of lane 0, as they come.
  logic [79:0] content;
  logic in_order;

  // The CRC is compared as it comes, least byte first.
  assign is_content = at <= CONTENT_TO;
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    assign crc_begun[lane] = (at == FIRST) ? CRC_OF_COMMA : crc[lane];
    crosslane_link_crc #(
        .BYTES(1)
    ) crc_of_symbol (
        .crc   (crc_begun[lane]),
        .data  (symbols[lane]),
        .behind(crc_behind[lane])
    );
  end
  always_comb begin
    bad_next = (at != FIRST && is_bad) || (control | error) != '0;
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      crc_next[lane] = is_content ? crc_behind[lane] : crc[lane] >> 8;
      bad_next |= !is_content && symbols[lane] != ~crc[lane][7:0];
      bad_next |= at inside {[SAME_FROM : SAME_TO]} && symbols[lane] != symbols[0];
    end
  end
  assign is_last = valid && at == LAST;

  always_ff @(posedge clk) begin
    set_good <= is_last && !bad_next && !rst;
    set_bad  <= is_last && bad_next && !rst;
    if (valid) begin
      crc <= crc_next;
      is_bad <= bad_next;
      if (at inside {[SAME_FROM : CONTENT_TO]}) content <= {symbols[0], content[79:8]};
      if (at == FIRST) begin
        in_order <= 1'b1;
        for (int unsigned lane = 0; lane < LANES; lane++) begin
          if (symbols[lane] != 8'(lane)) in_order <= 1'b0;
        end
      end
    end
  end

  // Least byte first.
  assign set.version = content[7:0];
  assign set.lanes = content[15:8];
  assign set.channel_datagrams = content[31:16];
  assign set.session = content[47:32];
  assign set.seen = content[63:48];
  assign set.stage = content[71:64];
  assign set.is_long = content[72];
  assign set.is_in_order = in_order;
  logic unused;
  assign unused = &{1'b0, content[79:73]};
endmodule
