// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Aperture of requests: words of slots become requests, each when all of its bytes have come. The
// slot is empty then.

module crosslane_request_window
  import crosslane_network_pkg::*;
#(
    parameter  int unsigned DATA_BITS = 256,
    parameter  int unsigned SLOTS     = 64,                                 // power of two
    localparam int unsigned BYTES     = DATA_BITS / 8,
    localparam int unsigned STRIDE    = REQUEST_STRIDE / BYTES,             // words of a slot
    localparam int unsigned WITHIN    = (STRIDE > 1) ? $clog2(STRIDE) : 1,
    localparam int unsigned SLOT_BITS = $clog2(SLOTS)
) (
    input  logic                     clk,
    input  logic                     rst,           // empties all slots
    input  logic                     word_valid,
    input  logic     [SLOT_BITS-1:0] word_slot,
    input  logic     [   WITHIN-1:0] word_within,   // 0 where a slot is a word
    input  logic                     word_last,
    input  logic     [DATA_BITS-1:0] word_data,
    input  logic     [    BYTES-1:0] word_enables,
    output logic                     found,         // pulse
    output request_t                 request
);
  localparam int unsigned REQUEST_BITS = 8 * REQUEST_BYTES;
  (* ram_style = "distributed" *) logic [REQUEST_BITS-1:0] requests[SLOTS];
  (* ram_style = "distributed" *) logic [REQUEST_BYTES-1:0] there[SLOTS];
  logic [SLOTS-1:0] touched;  // else no byte of it has come
  logic [REQUEST_BYTES-1:0] mask;
  logic [REQUEST_BITS-1:0] assembled;
  logic part_ends;

  always_comb begin
    mask = touched[word_slot] ? there[word_slot] : '0;
    assembled = requests[word_slot];
    for (int unsigned n = 0; n < REQUEST_BYTES; n++) begin
      if (word_within == WITHIN'(n / BYTES) && word_enables[n%BYTES]) begin
        mask[n] = 1'b1;
        assembled[8*n+:8] = word_data[8*(n%BYTES)+:8];
      end
    end
  end

  // A slot is looked at behind all words of a TLP in it.
  assign part_ends = word_last || 32'(word_within) == STRIDE - 1;
  assign found = word_valid && part_ends && mask == '1;
  assign request = assembled;

  always_ff @(posedge clk) begin
    if (word_valid) begin
      requests[word_slot] <= assembled;
      there[word_slot] <= mask;
      touched[word_slot] <= !found;
    end
    if (rst) touched <= '0;
  end

`ifndef SYNTHESIS
  if (SLOTS != 1 << SLOT_BITS || SLOTS < 2 || SLOTS > MAX_CREDIT_SLOTS) begin : g_slots
    $error("SLOTS is a power of two, 2 to 256");
  end
`endif
endmodule
