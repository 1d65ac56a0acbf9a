// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Blocks of the 64b/66b code and their scrambler (docs/torus-link.md, 64b/66b). Bit 0 of a block is
// sent first; of the scrambler's state bit 57 was sent last.

package crosslane_link_block_pkg;

  localparam int unsigned BLOCK_BITS = 66;
  localparam int unsigned STATE_BITS = 58;
  // Columns of the end in a row: as many bytes as a lane's block has.
  localparam int unsigned ROW_COLUMNS = 8;
  localparam int unsigned SET_ROWS = 4;

  localparam logic [1:0] DATA_HEADER = 2'b10;
  localparam logic [1:0] CONTROL_HEADER = 2'b01;

  typedef logic [BLOCK_BITS-1:0] line_t;
  typedef logic [STATE_BITS-1:0] state_t;

  // A block of a lane as it has come.
  typedef struct packed {
    logic        error;    // of its header, or the lane is not aligned
    logic        control;
    logic [63:0] payload;
  } block_t;

  // Each line bit is the sum of a payload bit and the line bits 39 and 58 before it, so those of the
  // first 39 are line bits of blocks before.
  function automatic logic [63:0] scrambled(logic [63:0] payload, state_t past);
    logic [63:0] line;
    line[38:0]  = payload[38:0] ^ past[57:19] ^ past[38:0];
    line[63:39] = payload[63:39] ^ line[24:0] ^ {line[5:0], past[57:39]};
    return line;
  endfunction

  function automatic logic [63:0] descrambled(logic [63:0] line, state_t past);
    return line ^ {line[24:0], past[57:19]} ^ {line[5:0], past};
  endfunction

  // The state behind a block.
  function automatic state_t state_behind(logic [63:0] line);
    logic unused;
    unused = &{1'b0, line[5:0]};
    return line[63:6];
  endfunction

endpackage
