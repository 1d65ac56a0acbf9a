// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The CRC of Ethernet behind some more bytes, each bit as one sum: bytes in a row would be a chain of
// as many levels of logic as there are bits.

module crosslane_link_crc
  import crosslane_link_pkg::*;
#(
    parameter int unsigned BYTES = 8
) (
    input  logic [       31:0] crc,
    input  logic [8*BYTES-1:0] data,
    output logic [       31:0] behind
);
  localparam int unsigned INPUTS = 32 + 8 * BYTES;
  typedef logic [31:0][INPUTS-1:0] sums_t;

  // The inputs that each bit is the sum of.
  function automatic sums_t sums();
    sums_t members;
    for (int unsigned n = 0; n < INPUTS; n++) begin
      logic [INPUTS-1:0] one;
      logic [31:0] r;
      one = INPUTS'(1) << n;
      r   = one[31:0];
      for (int unsigned b = 0; b < BYTES; b++) r = crc_step(r, one[32+8*b+:8]);
      for (int unsigned bit_of = 0; bit_of < 32; bit_of++) members[bit_of][n] = r[bit_of];
    end
    return members;
  endfunction
  localparam sums_t SUMS = sums();

  always_comb begin
    for (int unsigned n = 0; n < 32; n++) behind[n] = ^({data, crc} & SUMS[n]);
  end
endmodule
