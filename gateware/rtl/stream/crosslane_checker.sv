// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Compares streams of words with the generator's pattern: one beat of one stream a clock, one
// comparator for all. Word n of a stream must be seed + n x PATTERN_STEP. A stream that is not
// enabled is not compared, and its pattern does not advance.

module crosslane_checker
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS   = 256,
    parameter  int unsigned STREAMS     = 1,
    localparam int unsigned WORDS       = DATA_BITS / 32,
    localparam int unsigned COUNT_BITS  = $clog2(WORDS + 1),
    localparam int unsigned STREAM_BITS = (STREAMS == 1) ? 1 : $clog2(STREAMS)
) (
    input  logic                         clk,
    input  logic                         rst,
    input  logic [    STREAMS-1:0]       enable,
    input  logic [    STREAMS-1:0]       restart,  // pulse: begins at word 0, without errors
    input  logic [    STREAMS-1:0][31:0] seed,
    // A beat: its first words.
    input  logic                         valid,
    input  logic [STREAM_BITS-1:0]       stream,
    input  logic [ COUNT_BITS-1:0]       words,
    input  logic [  DATA_BITS-1:0]       data,
    // Wrong words, saturating; number of the first of them.
    output logic [    STREAMS-1:0][31:0] errors,
    output logic [    STREAMS-1:0][31:0] first
);
  localparam int unsigned INDEX_BITS = (WORDS == 1) ? 1 : $clog2(WORDS);

  // Whether sum is a + b modulo 2^32. The three bits at each position give the carry into it and
  // the carry out of it; neighbours have to agree. So no carry ripples.
  function automatic logic is_sum(input logic [31:0] a, input logic [31:0] b,
                                  input logic [31:0] sum);
    logic [31:0] needed;
    logic [30:0] made;
    needed = a ^ b ^ sum;
    made   = 31'(((a | b) & ~sum) | (a & b));
    return needed == {made, 1'b0};
  endfunction

  // --- 1: the stream's position in its pattern -----------------------------------------------
  // For each stream: number of the next word, and that number x PATTERN_STEP. Both are 0 while the
  // stream is fresh.
  (* ram_style = "distributed" *) logic [63:0] positions[STREAMS];
  logic [STREAMS-1:0] fresh;
  logic [31:0] number, steps;
  logic take;

  assign take = valid && enable[stream];
  assign {number, steps} = fresh[stream] ? '0 : positions[stream];

  logic valid_1;
  logic [STREAM_BITS-1:0] stream_1;
  logic [COUNT_BITS-1:0] words_1;
  logic [DATA_BITS-1:0] data_1;
  logic [31:0] number_1, start_1;

  always_ff @(posedge clk) begin
    valid_1  <= take;
    stream_1 <= stream;
    words_1  <= words;
    data_1   <= data;
    number_1 <= number;
    start_1  <= seed[stream] + steps;
    if (take) begin
      positions[stream] <= {number + 32'(words), steps + pattern_steps(5'(words))};
      fresh[stream] <= 1'b0;
    end
    for (int unsigned n = 0; n < STREAMS; n++) begin
      if (restart[n]) fresh[n] <= 1'b1;
    end
    // Beats in the pipeline belong to the time before the restart.
    if (rst || restart[stream]) valid_1 <= 1'b0;
    if (rst) fresh <= '1;
  end

  // --- 2: comparison -------------------------------------------------------------------------
  logic valid_2;
  logic [STREAM_BITS-1:0] stream_2;
  logic [WORDS-1:0] wrong_2;
  logic [31:0] number_2;

  always_ff @(posedge clk) begin
    valid_2  <= valid_1 && !rst && !restart[stream_1];
    stream_2 <= stream_1;
    number_2 <= number_1;
    for (int unsigned n = 0; n < WORDS; n++) begin
      wrong_2[n] <= COUNT_BITS'(n) < words_1 &&
          !is_sum(start_1, 32'(n) * PATTERN_STEP, data_1[32*n+:32]);
    end
  end

  // --- 3: number of wrong words, and the first of them ---------------------------------------
  logic valid_3;
  logic [STREAM_BITS-1:0] stream_3;
  logic [COUNT_BITS-1:0] count_3;
  logic [31:0] first_3;
  logic [COUNT_BITS-1:0] count;
  logic [INDEX_BITS-1:0] index;

  always_comb begin
    count = '0;
    index = '0;
    for (int unsigned n = 0; n < WORDS; n++) count += COUNT_BITS'(wrong_2[n]);
    for (int unsigned n = WORDS; n > 0; n--) if (wrong_2[n-1]) index = INDEX_BITS'(n - 1);
  end

  always_ff @(posedge clk) begin
    valid_3  <= valid_2 && wrong_2 != '0 && !rst && !restart[stream_2];
    stream_3 <= stream_2;
    count_3  <= count;
    first_3  <= number_2 + 32'(index);
  end

  // --- 4: the stream's counts ----------------------------------------------------------------
  logic [31:0] errors_before;
  logic [32:0] sum;

  assign errors_before = errors[stream_3];
  assign sum = {1'b0, errors_before} + 33'(count_3);

  always_ff @(posedge clk) begin
    if (valid_3) begin
      errors[stream_3] <= sum[32] ? '1 : sum[31:0];
      if (errors_before == '0) first[stream_3] <= first_3;
    end
    for (int unsigned n = 0; n < STREAMS; n++) begin
      if (rst || restart[n]) begin
        errors[n] <= '0;
        first[n]  <= '0;
      end
    end
  end
endmodule
