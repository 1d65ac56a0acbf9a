// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Writes the beats of completions to their positions, and reports each read's progress to its
// requester once the data can be read back: the answer to an event follows the event's last beat.
// Two register stages: the write, and the answer.

module crosslane_placement
  import crosslane_pkg::*;
  import crosslane_reads_pkg::*;
#(
    parameter  int unsigned DATA_BITS     = 256,
    parameter  int unsigned TAG_BITS      = 7,
    parameter  int unsigned H2C_BITS      = 1,
    parameter  int unsigned POSITION_BITS = 16,
    localparam int unsigned BYTES         = DATA_BITS / 8,
    localparam int unsigned LANE_BITS     = $clog2(BYTES)
) (
    input  logic                        clk,
    input  logic                        rst,
    // From the intake.
    input  logic                        beat_valid,
    input  logic                        beat_first,
    input  logic                        beat_last,
    input  logic    [    DATA_BITS-1:0] beat_data,
    input  logic    [              1:0] beat_skip,
    input  logic    [    LANE_BITS-1:0] beat_end,
    // From the tag table, beside the first beat.
    input  logic    [     TAG_BITS-1:0] tag,
    input  logic                        tag_parity,
    input  logic                        is_fetch,
    input  logic    [     H2C_BITS-1:0] channel,
    input  logic    [POSITION_BITS-1:0] place,
    input  logic                        answer_valid,
    input  logic    [              2:0] answer_error,
    input  logic                        answer_good,      // the beats are placed
    input  logic    [             12:0] answer_missing,   // otherwise
    input  logic    [             12:0] answer_rest,      // missing if it is good
    input  logic                        answer_ends,
    input  logic    [             12:0] answer_bytes,
    // With the last of several beats: all are to be discarded; aborted_missing bytes are still
    // missing.
    input  logic                        beat_aborted,
    input  logic    [             12:0] aborted_missing,
    output logic                        is_told,          // these beats are reported to a requester
    // The write, and the tag that it belongs to.
    output logic                        write_valid,
    output logic                        write_is_fetch,
    output logic    [     H2C_BITS-1:0] write_channel,
    output logic    [     TAG_BITS-1:0] write_tag,
    output logic    [POSITION_BITS-1:0] write_position,
    output logic    [    DATA_BITS-1:0] write_data,
    output logic    [        BYTES-1:0] write_enable,
    output logic                        write_last,       // the last of a completion
    // One clock later: progress of a tag's read.
    output logic                        known_valid,
    output logic    [     TAG_BITS-1:0] known_tag,
    output logic                        known_parity,
    output answer_t                     known_answer
);
  // Whether a completion is good is known late in the clock: all that follows from it is behind the
  // registers.
  logic has_beat, is_answer, is_good, rest_counts, is_last, parity;
  logic [2:0] error;
  logic ends;
  logic [12:0] missing, rest, bytes;
  logic [BYTES-1:0] from_first, to_last;

  // Lanes before the completion's first byte and behind its last one belong to others.
  always_comb begin
    from_first = '1;
    if (beat_first) from_first = '1 << beat_skip;
    for (int unsigned lane = 0; lane < BYTES; lane++) begin
      to_last[lane] = !beat_last || beat_end == '0 || LANE_BITS'(lane) < beat_end;
    end
  end

  assign write_valid = has_beat && is_answer && is_good;
  assign write_last = write_valid && is_last;
  assign is_told = is_answer;

  always_ff @(posedge clk) begin
    if (beat_valid && beat_first) begin
      is_answer <= answer_valid;
      is_good <= answer_good;
      rest_counts <= answer_good;
      write_is_fetch <= is_fetch;
      write_channel <= channel;
      write_tag <= tag;
      parity <= tag_parity;
      error <= answer_error;
      ends <= answer_ends;
      missing <= answer_missing;
      rest <= answer_rest;
      bytes <= answer_bytes;
    end
    // An earlier error is reported unchanged.
    if (beat_aborted && error == '0) begin
      error <= 3'(ERROR_POISONED);
      rest_counts <= 1'b0;
      missing <= aborted_missing;
    end
    if (beat_valid) begin
      write_position <= beat_first ? place : write_position + POSITION_BITS'(BYTES);
      write_data <= beat_data;
      write_enable <= from_first & to_last;
    end
    has_beat <= beat_valid;
    is_last <= beat_valid && beat_last;
    known_valid <= is_last && is_answer;
    known_tag <= write_tag;
    known_parity <= parity;
    known_answer <= '{
        error: error,
        whole: ends && rest_counts,
        good: bytes - (rest_counts ? rest : missing)
    };
    if (rst) begin
      has_beat <= 1'b0;
      is_last <= 1'b0;
      known_valid <= 1'b0;
    end
  end

endmodule
