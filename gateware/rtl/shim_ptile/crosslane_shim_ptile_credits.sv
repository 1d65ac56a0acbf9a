// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Determines for which classes of TLP the link has credits: room_t. The hard block tells limits,
// one after the other, as totals since the link came up; this module counts what it has used.
// Read first: README.md beside this file.

module crosslane_shim_ptile_credits
  import crosslane_pkg::*;
(
    input logic clk,
    input logic rst,

    input logic        link_up,
    input logic [ 2:0] max_payload,
    input logic [15:0] tx_cdts_limit,
    input logic [ 2:0] tx_cdts_limit_tdm_idx,

    // The TLPs that leave: the first beat waits, and is taken.
    input  logic        s_waits,
    input  logic        s_taken,
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t s_header,  // kind and length
    // verilator lint_on UNUSEDSIGNAL
    input  logic        gives_up,  // the last TLP that was taken does not arrive
    output room_t       room
);

  // A type of credit, in the classes' order of tx_cdts_limit_tdm_idx: posted, nonposted, completion.
  localparam int unsigned CLASSES = 3;
  localparam logic [4:0] SETTLED = 5'd31;  // clocks in which all limits are told

  logic [4:0] settling;
  logic settled, tick;
  logic [CLASSES-1:0] is_class, was_class, headers_infinite, data_infinite;
  logic [CLASSES-1:0][11:0] headers_free;
  logic [CLASSES-1:0][15:0] data_free;
  logic [8:0] used, was_used;  // data credits of a TLP, of 16 bytes

  assign settled = settling == SETTLED;
  always_ff @(posedge clk) begin
    if (s_taken) begin
      was_class <= is_class;
      was_used  <= used;
    end
    if (!settled) settling <= settling + 5'd1;
    if (rst || !link_up) settling <= '0;
  end

  for (genvar n = 0; n < CLASSES; n++) begin : g_class
    logic takes, returns;

    assign takes   = s_taken && is_class[n];
    assign returns = gives_up && was_class[n];
    crosslane_shim_ptile_credit #(
        .BITS(12),
        .FEW_BITS(8)
    ) headers (
        .clk,
        .rst(rst || !link_up),
        .told(tx_cdts_limit_tdm_idx == 3'(n)),
        .limit(tx_cdts_limit[11:0]),
        .tick,
        .takes,
        .returns,
        .used(12'd1),
        .was_used(12'd1),
        .free(headers_free[n]),
        .infinite(headers_infinite[n])
    );
    if (n == 1) begin : g_data
      // Reads have none.
      assign data_free[n] = '0;
      assign data_infinite[n] = 1'b1;
    end else begin : g_data
      crosslane_shim_ptile_credit #(
          .BITS(16),
          .FEW_BITS(12)
      ) data (
          .clk,
          .rst(rst || !link_up),
          .told(tx_cdts_limit_tdm_idx == 3'(n + 4)),
          .limit(tx_cdts_limit),
          .tick,
          .takes,
          .returns,
          .used(16'(used)),
          .was_used(16'(was_used)),
          .free(data_free[n]),
          .infinite(data_infinite[n])
      );
    end
  end

  crosslane_intel_room opener (.*);

endmodule
