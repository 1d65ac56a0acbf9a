// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// How many datagrams a request's run has, and whether it breaks a rule, wherever the other runs of
// its message are. Known in the third clock behind that in which the request is taken.

module crosslane_request_check
  import crosslane_network_pkg::*;
#(
    parameter bit ROUTED = 1'b0,  // routed requests are looked at, else refused elsewhere
    parameter bit LONG   = 1'b0   // datagrams carry 256 B, not 128 B
) (
    input  logic            clk,
    input  logic            take,
    // verilator lint_off UNUSEDSIGNAL
    input  request_t        request,    // that is taken: its length
    // verilator lint_on UNUSEDSIGNAL
    input  request_t        asked,      // the same from a clock later on
    output logic     [13:0] datagrams,
    output logic            is_bad
);
  localparam int unsigned PAYLOAD_BITS = LONG ? 8 : 7;
  logic [13:0] datagrams_1, datagrams_now;
  logic is_full_1, is_full_now, is_full;

  always_ff @(posedge clk) begin
    if (take) begin
      datagrams_1 <= 14'(request.bytes[20:PAYLOAD_BITS]) +
          14'(request.bytes[PAYLOAD_BITS-1:0] != '0);
      is_full_1 <= request.bytes[PAYLOAD_BITS-1:0] == '0;
    end
  end

  if (ROUTED) begin : g_routed
    // Division by 120 = 8 * 15: the factor is (2^24 + 14) / 15, exact for all x of 18 bits; by
    // 248 = 8 * 31: (2^24 + 15) / 31. Without a rest the fraction is below 2^18, else above 2^19.
    localparam logic [23:0] FACTOR = LONG ? 24'h08_4211 : 24'h11_1112;
    logic [17:0] eights;
    logic [38:0] product_low_1;  // with the lowest 16 bits of the factor
    // verilator lint_off UNUSEDSIGNAL
    logic [38:0] product;
    // verilator lint_on UNUSEDSIGNAL
    logic [22:0] high_1;
    logic [13:0] whole;
    logic odd_1, is_full_routed;

    assign eights = request.bytes[20:3];
    always_ff @(posedge clk) begin
      if (take) begin
        product_low_1 <= 39'(eights) * 39'(FACTOR[15:0]);
        high_1 <= 23'(eights) * 23'(FACTOR[23:16]);
        odd_1 <= request.bytes[2:0] != '0;
      end
    end
    assign product = product_low_1 + {high_1, 16'd0};
    assign whole = product[37:24];
    assign is_full_routed = product[23:19] == '0 && !odd_1;
    assign datagrams_now = asked.routed ? whole + 14'(!is_full_routed) : datagrams_1;
    assign is_full_now = asked.routed ? is_full_routed : is_full_1;
  end else begin : g_neighbours
    assign datagrams_now = datagrams_1;
    assign is_full_now   = is_full_1;
  end

  always_ff @(posedge clk) begin
    datagrams <= datagrams_now;
    is_full <= is_full_now;
    is_bad <= is_impossible(asked, datagrams, is_full);
  end
endmodule
