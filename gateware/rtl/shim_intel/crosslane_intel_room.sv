// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Determines for which classes of TLP the link has credits: room_t, from those that are free. A
// class is open while what may be under way fits beside one largest TLP, and one clock in eight,
// with less, if one largest TLP fits and none of the class is under way. The classes are, from bit
// 0 on: posted, non-posted, completion.

module crosslane_intel_room
  import crosslane_pkg::*;
#(
    localparam int unsigned CLASSES = 3
) (
    input logic clk,
    input logic rst,

    input logic       settled,     // the credits are known
    input logic [2:0] max_payload,

    // The TLP that leaves: its first beat waits.
    input  logic                    s_waits,
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t             s_header,          // kind and length
    // verilator lint_on UNUSEDSIGNAL
    output logic        [2:0]       is_class,          // its class
    output logic        [8:0]       used,              // its credits of data, 16 bytes each
    // Credits that are free: a TLP shows two clocks after it has been taken.
    input  logic        [2:0]       headers_infinite,
    input  logic        [2:0][11:0] headers_free,
    input  logic        [2:0]       data_infinite,
    input  logic        [2:0][15:0] data_free,
    output logic                    tick,              // every eighth clock
    output room_t                   room
);

  logic [2:0] phase;
  logic [CLASSES-1:0] open;
  logic [15:0] largest;

  assign tick = phase == '0;
  assign is_class = {
    s_header.kind inside {COMPLETION, COMPLETION_DATA},
    s_header.kind == MEMORY_READ,
    s_header.kind == MEMORY_WRITE
  };
  assign used = s_header.kind inside {MEMORY_WRITE, COMPLETION_DATA} ?
      9'((s_header.length_dw + 11'd3) >> 2) : '0;

  always_ff @(posedge clk) begin
    phase   <= phase + 3'd1;
    largest <= 16'd8 << max_payload;
    if (rst) phase <= '0;
    room.posted <= settled && open[0];
    room.nonposted <= settled && open[1];
    room.completion <= settled && open[2];
    if (rst) room <= '0;
  end

  for (genvar n = 0; n < CLASSES; n++) begin : g_class
    logic [3:0] recent;
    logic has_plenty, has_one;

    // Until a TLP shows in what is free, up to four more may begin, one of them long.
    always_ff @(posedge clk) begin
      recent <= {recent[2:0], s_waits && is_class[n]};
      has_plenty <= (headers_infinite[n] || headers_free[n] >= 12'd5) &&
          (data_infinite[n] || data_free[n] >= 2 * largest + 16'd16);
      has_one <= (headers_infinite[n] || headers_free[n] != '0) &&
          (data_infinite[n] || data_free[n] >= largest);
      if (rst) recent <= '0;
    end
    // With few credits one TLP is let in, then another when it shows.
    assign open[n] = has_plenty || (has_one && tick && recent == '0 && !(s_waits && is_class[n]));
  end

endmodule
