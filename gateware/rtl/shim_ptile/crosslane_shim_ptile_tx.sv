// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Converts the engine's TLPs to the P-Tile's transmit stream: the header stands beside the first
// beat in both. Read first: README.md beside this file. `tx_st_ready` opens the clock that comes 3
// clocks later; no beat waits in the output.

module crosslane_shim_ptile_tx
  import crosslane_pkg::*;
  import crosslane_wire_pkg::*;
#(
    parameter  int unsigned DATA_BITS = 256,
    localparam int unsigned SEGMENTS  = DATA_BITS / 256
) (
    input logic clk,
    input logic rst,

    input  logic                        s_valid,
    output logic                        s_ready,
    input  tlp_header_t                 s_header,
    input  logic                        s_first,
    input  logic                        s_last,
    input  logic        [DATA_BITS-1:0] s_data,

    input  logic discard,  // the engine is being reset: a TLP that has begun is abandoned
    output logic between,
    output logic gives_up, // pulse: the end of an abandoned TLP

    output logic [    SEGMENTS-1:0] tx_st_valid,
    input  logic                    tx_st_ready,
    output logic [    SEGMENTS-1:0] tx_st_sop,
    output logic [    SEGMENTS-1:0] tx_st_eop,
    output logic [    SEGMENTS-1:0] tx_st_err,
    output logic [   DATA_BITS-1:0] tx_st_data,
    output logic [SEGMENTS*128-1:0] tx_st_hdr
);

  localparam int unsigned LANES = DATA_BITS / 32;
  localparam int unsigned LANE_BITS = $clog2(LANES);

  logic go, go_next, partway, valid, first, last, upper_now;
  logic [9:0] beats_left;  // without the one that is due: of an abandoned TLP
  wire_header_t words;

  assign words = to_wire(s_header);
  assign valid = discard ? partway : s_valid;
  assign first = !discard && s_first;
  assign last = discard ? beats_left == '0 : s_last;
  assign s_ready = go && !discard;
  assign between = go && valid ? last : !partway;
  assign gives_up = go && discard && partway && last;

  // Whether the last beat has data in its upper half.
  if (SEGMENTS == 2) begin : g_upper
    // verilator lint_off UNUSEDSIGNAL
    logic [10:0] tail;  // of a length
    // verilator lint_on UNUSEDSIGNAL
    logic upper;
    assign tail = s_header.length_dw - 11'd1;
    assign upper_now = !first ? upper :
        tail[LANE_BITS-1] && s_header.kind inside {MEMORY_WRITE, COMPLETION_DATA};
    always_ff @(posedge clk) if (go && valid) upper <= upper_now;
  end else begin : g_upper
    assign upper_now = 1'b0;
  end

  always_ff @(posedge clk) begin
    go_next <= tx_st_ready;
    go <= go_next;
    tx_st_valid <= '0;
    if (go && valid) begin
      tx_st_valid[0] <= 1'b1;
      tx_st_valid[SEGMENTS-1] <= SEGMENTS == 1 || !last || upper_now;
      beats_left <= first ? 10'((s_header.length_dw - 11'd1) >> LANE_BITS) - 10'd1 :
          beats_left - 10'd1;
      partway <= !last;
    end
    tx_st_sop  <= SEGMENTS'(first);
    tx_st_eop  <= last ? SEGMENTS'(1) << upper_now : '0;
    tx_st_err  <= discard && last ? SEGMENTS'(1) << upper_now : '0;
    tx_st_data <= s_data;
    tx_st_hdr  <= (SEGMENTS * 128)'({words[0], words[1], words[2], words[3]});
    if (rst) begin
      go <= 1'b0;
      go_next <= 1'b0;
      partway <= 1'b0;
      tx_st_valid <= '0;
    end
  end

endmodule
