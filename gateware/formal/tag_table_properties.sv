// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_tag_table: each use of a tag ends with the tag being freed once, and not before its
// requester is done with it, whatever completions arrive: none, too many, bad ones, of other uses,
// and whenever its time-out expires. Each read is told once as no longer open, given up or not. One
// tag, chosen by the solver, is followed. Its requester takes a free tag and is done with it once,
// as crosslane_reads ensures. With AHEAD the table sees the tag of each event a clock before it.

module tag_table_properties
  import crosslane_pkg::*;
  import crosslane_reads_pkg::*;
#(
    parameter int unsigned TAG_BITS = 2,
    parameter int unsigned USE_BITS = 6,
    parameter bit AHEAD = 0
) (
    input logic                       clk,
    input logic                       rst,
    input function_t                  function_i,
    input logic        [         5:0] tick,
    input logic                       initialising,
    input logic                       begin_valid,
    input logic        [TAG_BITS-1:0] begin_tag,
    input logic        [USE_BITS-1:0] begin_use,
    input logic        [        12:0] begin_bytes,
    input logic        [         6:0] begin_low,
    input logic        [TAG_BITS-1:0] next_tag,
    input logic                       event_valid,
    input tag_event_e                 event_kind,
    input logic        [         9:0] event_tag,
    input completion_t                event_completion,
    input logic                       aborted,
    input logic                       giving_up,
    input logic        [TAG_BITS-1:0] followed
);
  localparam int unsigned POSITION_BITS = 8;
  // As in crosslane_tag_table: width of the fields below `number` in read_t, and the states.
  localparam int unsigned BELOW_NUMBER = POSITION_BITS + 13 + 7 + 6 + 1;
  localparam logic [2:0] ANSWERED = 3'd0;
  localparam logic [2:0] WAITING = 3'd1;
  localparam logic [2:0] ORPHAN = 3'd2;
  localparam logic [2:0] RESTING = 3'd3;
  localparam logic [2:0] RESTING_IN_LINE = 3'd4;

  logic [TAG_BITS-1:0] tag, followed_before;
  logic [USE_BITS-1:0] tag_use, last_use;
  logic is_fetch, channel, placed, answer_valid, answer_good, no_longer_waits, freed;
  logic no_longer_open, unexpected, timed_out, refused;
  logic [POSITION_BITS-1:0] place;
  logic [2:0] answer_error;
  logic [12:0] answer_missing, answer_bytes, to_come, still_to_come, expected;
  logic less_to_come;
  logic is_reset = 1'b0;

  crosslane_tag_table #(
      .FETCHERS(0),
      .H2C(1),
      .USED_TAGS(1 << TAG_BITS),
      .TAG_BITS(TAG_BITS),
      .USE_BITS(USE_BITS),
      .POSITION_BITS(POSITION_BITS),
      .TICK_BITS(6),
      .TIMEOUT_TICKS(5),
      .AHEAD(AHEAD)
  ) dut (
      .clk,
      .function_i,
      .tick,
      .initialising,
      .begin_valid,
      .begin_tag,
      .begin_use,
      .begin_end('0),
      .begin_bytes,
      .begin_low,
      .begin_channel(1'b0),
      .next_tag,
      .next_is_same(next_tag == event_tag[TAG_BITS-1:0]),
      .event_valid,
      .event_kind,
      .event_tag,
      .event_completion,
      .aborted,
      .giving_up,
      .tag,
      .tag_use,
      .is_fetch,
      .channel,
      .placed,
      .place,
      .answer_valid,
      .answer_error,
      .answer_good,
      .answer_missing,
      .answer_bytes,
      .no_longer_waits,
      .no_longer_open,
      .freed,
      .less_to_come,
      .to_come_low(),
      .to_come,
      .still_to_come,
      .unexpected,
      .timed_out,
      .refused
  );

  // The followed tag: whether it is initialised, used, its requester done with it, and its read
  // without an end.
  logic is_prepared, is_known, is_used, is_done, is_open, is_ours, begins, gives_up, has_begun;
  logic [TAG_BITS-1:0] tag_before;
  logic [2:0] state;
  logic [USE_BITS-1:0] number;
  assign is_ours  = event_valid && tag == followed;
  assign begins   = begin_valid && begin_tag == followed;
  assign gives_up = is_ours && event_kind == EVENT_GIVE_UP;
  assign number   = dut.reads[followed][BELOW_NUMBER+:USE_BITS];
  // The table's view of the bytes that are to come: of the whole read, or behind its progress.
  logic [12:0] left;
  assign left = (dut.conditions[followed][5] == number[0] && dut.conditions[followed][0]) ?
      dut.progresses[followed][19:7] : dut.reads[followed][BELOW_NUMBER-POSITION_BITS-1-:13];
  assign state = (dut.conditions[followed][5] == number[0]) ? dut.conditions[followed][4:2] :
      WAITING;

  always_ff @(posedge clk) begin
    is_reset <= 1'b1;
    followed_before <= followed;
    tag_before <= next_tag;
    has_begun <= begins;
    if (begins) is_prepared <= 1'b1;
    if (is_ours && event_kind == EVENT_INITIALISE) is_known <= 1'b1;
    if (begins && is_known) begin
      is_used  <= 1'b1;
      is_done  <= 1'b0;
      is_open  <= 1'b1;
      last_use <= begin_use;
      expected <= begin_bytes;
    end else begin
      if (is_ours && less_to_come) expected <= still_to_come;
      if (gives_up) is_done <= 1'b1;
      if (is_ours && freed) is_used <= 1'b0;
      if (is_ours && no_longer_open) is_open <= 1'b0;
    end
    if (rst) begin
      has_begun <= 1'b0;
      is_prepared <= 1'b0;
      is_known <= 1'b0;
      is_used <= 1'b0;
      is_done <= 1'b0;
      is_open <= 1'b0;
      expected <= '0;
    end
  end

  always_comb begin
    if (!is_reset) begin
      assume (rst);
    end else if (!rst) begin
      assume (followed == followed_before);
      // Tags are initialised one by one, each with its event in the next clock.
      assume (!initialising || (begin_valid && begin_tag == next_tag && !(begins && is_known)));
      assume (!begins || is_known || initialising);
      assert (!is_known || is_prepared);
      if (AHEAD) begin
        assume (tag == tag_before);
        assume (!gives_up || !has_begun);
        // The table shows the followed tag as it is, or as it was before a read that has just begun.
        if (tag == followed) begin
          assert (dut.condition == dut.conditions[followed]);
          assert (dut.progress == dut.progresses[followed]);
          if (is_prepared) begin
            if (!has_begun) begin
              assert (dut.read == dut.reads[followed]);
            end else if (!is_known) begin
              assert (dut.read.number == number);
            end else begin
              assert (dut.read.number + 1'b1 == number && dut.state == ANSWERED);
            end
          end
        end
      end
      // As crosslane_completion_intake decodes them: a refusal has no data.
      assume (!event_completion.refused || !event_completion.well_formed);
      assume (event_completion.refusal == ERROR_NONE || !event_completion.well_formed);
      // Discarded data belong to an event before this clock.
      assume (!aborted || (!event_valid && (is_known || tag != followed)));
      // A tag is initialised once, by a read that stands for none; no other event comes before.
      if (!is_known) begin
        assume (!is_ours || (event_kind == EVENT_INITIALISE && is_prepared));
        assume (!begins || (!is_prepared && begin_use == '1));
        if (is_prepared) assert (number == '1);
        assert (!is_open && expected == '0);
      end else begin
        assume (!is_ours || event_kind != EVENT_INITIALISE);
        // Only a free tag is taken, with the next use number, and its requester is done with it
        // once.
        assume (!begins || (!is_used && begin_use == number + 1'b1));
        assume (!gives_up || (is_used && !is_done));

        if (is_used && !is_done) begin
          assert (state == WAITING || state == ANSWERED || state == RESTING_IN_LINE);
        end
        // The tag is about to be freed: by the last answer, or by its time-out.
        if (is_used && is_done) assert (state == ORPHAN || state == RESTING);
        if (!is_used) assert (state == ANSWERED);
        if (is_ours && freed) assert (is_used && (is_done || gives_up));
        // Data are placed, and answers reported, only for a waiting read.
        if (is_ours && placed) assert (is_used && !is_done);
        // A read is open until its last answer or its time-out, which is told once.
        assert (is_open == (state == WAITING || state == ORPHAN));
        if (is_ours && no_longer_open) assert (is_open);
        // Bytes of completions that may still come are told once as fewer, and none are left when
        // the tag is freed.
        assert (expected == ((state == ANSWERED) ? '0 : left));
        if (is_ours && less_to_come) assert (to_come == expected);
        if (is_ours && freed && state != ANSWERED) assert (less_to_come && still_to_come == '0);
      end
    end
  end
endmodule
