// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A ring of bytes in block memory: takes up to BYTES bytes a clock at any byte position, and
// delivers any window of BYTES bytes, without a clock lost to alignment. There is a bank for each
// byte lane; lane n of a window that begins at a position lies in bank (position + n) modulo BYTES.
// It may be divided into RINGS rings of equal size: a position's highest bits select one, and
// windows wrap within it.
// Timing: crosslane_pkg, RING_WRITE_CLOCKS and RING_READ_CLOCKS.

module crosslane_byte_ring #(
    parameter  int unsigned DATA_BITS     = 256,
    parameter  int unsigned SIZE_BYTES    = 65536,              // of all rings; a power of two
    parameter  int unsigned RINGS         = 1,                  // a power of two
    localparam int unsigned BYTES         = DATA_BITS / 8,
    localparam int unsigned POSITION_BITS = $clog2(SIZE_BYTES)
) (
    input  logic                     clk,
    input  logic                     rst,
    // Write: lane 0 goes to write_position, each next lane one further; enabled lanes are written.
    input  logic                     write_valid,
    input  logic [POSITION_BITS-1:0] write_position,
    input  logic [    DATA_BITS-1:0] write_data,
    input  logic [        BYTES-1:0] write_enable,
    // Read: the window that begins read_back bytes ahead of read_position, fewer than BYTES.
    input  logic                     read_enable,     // the pipeline moves on
    input  logic [POSITION_BITS-1:0] read_position,
    input  logic [              5:0] read_back,
    output logic [    DATA_BITS-1:0] read_data
);
  localparam int unsigned LANE_BITS = $clog2(BYTES);
  localparam int unsigned WORD_BITS = POSITION_BITS - LANE_BITS;
  localparam int unsigned DEPTH = SIZE_BYTES / BYTES;
  // Bits of a word's number that count within its ring.
  localparam logic [WORD_BITS-1:0] WITHIN = WORD_BITS'(DEPTH / RINGS - 1);
  // Rotations are split between two clocks.
  localparam int unsigned LOW_BITS = LANE_BITS / 2;

  typedef logic [LANE_BITS-1:0] amount_t;

  // Moves lane n to lane n + amount, for the bits of amount from `from` on, `to` excluded.
  function automatic logic [DATA_BITS-1:0] rotate_up(input logic [DATA_BITS-1:0] data,
                                                     input amount_t amount, input int unsigned from,
                                                     input int unsigned to);
    logic [DATA_BITS-1:0] turned;
    turned = data;
    for (int unsigned level = 0; level < LANE_BITS; level++) begin
      if (level >= from && level < to && amount[level]) begin
        turned = (turned << (8 << level)) | (turned >> (DATA_BITS - (8 << level)));
      end
    end
    return turned;
  endfunction

  function automatic logic [BYTES-1:0] rotate_enables(
      input logic [BYTES-1:0] enables, input amount_t amount, input int unsigned from,
      input int unsigned to);
    logic [BYTES-1:0] turned;
    turned = enables;
    for (int unsigned level = 0; level < LANE_BITS; level++) begin
      if (level >= from && level < to && amount[level]) begin
        turned = (turned << (1 << level)) | (turned >> (BYTES - (1 << level)));
      end
    end
    return turned;
  endfunction

  // The word `step` words further, 1 or -1.
  function automatic logic [WORD_BITS-1:0] word_at(input logic [WORD_BITS-1:0] word,
                                                   input logic [WORD_BITS-1:0] step);
    return (word & ~WITHIN) | ((word + step) & WITHIN);
  endfunction

  // --- Write ---------------------------------------------------------------------------------
  logic [DATA_BITS-1:0] write_data_1, write_data_2;
  logic [BYTES-1:0] write_enable_1, write_enable_2;
  logic [POSITION_BITS-1:0] write_position_1, write_position_2;

  always_ff @(posedge clk) begin
    write_data_1 <= rotate_up(write_data, write_position[LANE_BITS-1:0], 0, LOW_BITS);
    write_enable_1 <= rotate_enables(
        write_valid ? write_enable : '0, write_position[LANE_BITS-1:0], 0, LOW_BITS
    );
    write_position_1 <= write_position;
    write_data_2 <= rotate_up(write_data_1, write_position_1[LANE_BITS-1:0], LOW_BITS, LANE_BITS);
    write_enable_2 <= rotate_enables(
        write_enable_1, write_position_1[LANE_BITS-1:0], LOW_BITS, LANE_BITS
    );
    write_position_2 <= write_position_1;
    if (rst) begin
      write_enable_1 <= '0;
      write_enable_2 <= '0;
    end
  end

  logic [WORD_BITS-1:0] write_word, write_next_word, read_word, read_next_word, word;
  logic is_before;  // the window begins in the word before that of read_position
  amount_t read_lane;
  assign write_word = write_position_2[POSITION_BITS-1:LANE_BITS];
  assign write_next_word = word_at(write_word, WORD_BITS'(1));
  // No sum waits for another one.
  assign word = read_position[POSITION_BITS-1:LANE_BITS];
  assign is_before = read_position[LANE_BITS-1:0] < LANE_BITS'(read_back);
  assign read_lane = read_position[LANE_BITS-1:0] - LANE_BITS'(read_back);
  assign read_word = is_before ? word_at(word, '1) : word;
  assign read_next_word = is_before ? word : word_at(word, WORD_BITS'(1));

  // --- Banks ---------------------------------------------------------------------------------
  logic [DATA_BITS-1:0] banks;

  for (genvar bank = 0; bank < BYTES; bank++) begin : g_bank
    // A byte that is written in the clock of its reading is not among those that the window is for.
    (* ram_style = "block", no_rw_check *) logic [7:0] memory[DEPTH];
    logic [WORD_BITS-1:0] write_at, read_at;
    logic [7:0] read_byte;
    // A bank before the position's lane holds the next word. (The last bank never does.)
    // verilator lint_off CMPCONST
    assign write_at = (LANE_BITS'(bank) < write_position_2[LANE_BITS-1:0]) ?
                      write_next_word : write_word;
    assign read_at = (LANE_BITS'(bank) < read_lane) ? read_next_word : read_word;
    // verilator lint_on CMPCONST
    always_ff @(posedge clk) begin
      if (write_enable_2[bank]) memory[write_at] <= write_data_2[8*bank+:8];
      if (read_enable) read_byte <= memory[read_at];
    end
    assign banks[8*bank+:8] = read_byte;
  end

  // --- Read ----------------------------------------------------------------------------------
  // Rotating up by the two's complement is rotating down.
  amount_t read_amount_1, read_amount_2;
  logic [DATA_BITS-1:0] read_data_2;

  always_ff @(posedge clk) begin
    if (read_enable) begin
      read_amount_1 <= -read_lane;
      read_data_2 <= rotate_up(banks, read_amount_1, 0, LOW_BITS);
      read_amount_2 <= read_amount_1;
      read_data <= rotate_up(read_data_2, read_amount_2, LOW_BITS, LANE_BITS);
    end
  end

`ifndef SYNTHESIS
  if (SIZE_BYTES != 1 << POSITION_BITS || SIZE_BYTES < 2 * BYTES * RINGS || RINGS != 1 << $clog2(
          RINGS
      )) begin : g_size
    $error("SIZE_BYTES and RINGS are powers of two, and a ring has two beats or more");
  end
  always_ff @(posedge clk) begin
    if (!rst && read_enable) begin
      assert (32'(read_back) < BYTES)
      else $error("the window begins too far ahead");
    end
  end
`endif
endmodule
