// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Symbols 1 to 15 of the training sets that are sent, of all lanes: one a clock behind the first
// (docs/torus-link.md, Bring-up and loss).

module crosslane_link_set_symbols
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES             = 8,
    parameter int unsigned CHANNEL_DATAGRAMS = 64,
    parameter bit          LONG              = 1'b0
) (
    input  logic                  clk,
    input  logic                  begins,        // the set's first symbol is sent
    input  logic [      3:0]      at,            // symbol
    input  logic                  is_stage_2,
    input  logic [     15:0]      session,
    input  logic [     15:0]      session_seen,
    output logic [LANES-1:0][7:0] symbols
);
  localparam logic [3:0] LANE_AT = 4'd1;
  localparam logic [3:0] CRC_AT = 4'd12;

  // Of lane 0; those of the other lanes differ in the lane's number, and in what it adds to the CRC.
  // Ten bytes follow the number, which are nothing by themselves.
  function automatic logic [31:0] added(logic [7:0] lane);
    logic [31:0] r;
    r = crc_step('0, lane);
    for (int unsigned n = 0; n < 10; n++) r = crc_step(r, '0);
    return r;
  endfunction

  logic [15:0] session_now, seen_now;
  logic [31:0] crc, crc_behind;
  logic [7:0] value;
  always_comb begin
    unique case (at)
      4'd2: value = LINK_VERSION;
      4'd3: value = 8'(LANES);
      4'd4: value = 8'(CHANNEL_DATAGRAMS);
      4'd5: value = 8'(CHANNEL_DATAGRAMS >> 8);
      4'd6: value = session_now[7:0];
      4'd7: value = session_now[15:8];
      4'd8: value = seen_now[7:0];
      4'd9: value = seen_now[15:8];
      4'd10: value = is_stage_2 ? 8'd2 : 8'd1;
      4'd11: value = 8'(LONG);
      4'd12: value = ~crc[7:0];
      4'd13: value = ~crc[15:8];
      4'd14: value = ~crc[23:16];
      4'd15: value = ~crc[31:24];
      default: value = '0;
    endcase
  end

  crosslane_link_crc #(
      .BYTES(1)
  ) crc_of_value (
      .crc,
      .data  (value),
      .behind(crc_behind)
  );
  always_ff @(posedge clk) begin
    if (begins) begin
      session_now <= session;
      seen_now <= session_seen;
      crc <= crc_step('1, K_COMMA);
    end else if (at < CRC_AT) crc <= crc_behind;
  end

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    localparam logic [31:0] ADDED = added(8'(lane));
    always_comb begin
      symbols[lane] = value;
      if (at == LANE_AT) symbols[lane] = 8'(lane);
      if (at >= CRC_AT) symbols[lane] = value ^ ADDED[8*2'(at)+:8];
    end
  end
endmodule
