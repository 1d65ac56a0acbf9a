// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Staging for descriptors that are fetched from host memory: the order of each fetcher's fetches,
// and a small memory for each that holds two batches. A fetch's descriptors are offered when all of
// it has arrived. After a failed fetch nothing more is offered: its requester is told once it has
// taken all descriptors before the failure, and gets no new fetch until it has forgotten its
// outstanding ones.

module crosslane_fetch_staging
  import crosslane_pkg::*;
  import crosslane_reads_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned FETCHERS = 3,
    parameter int unsigned TAG_BITS = 7,
    parameter int unsigned USE_BITS = 1,
    parameter int unsigned BATCH = 16,
    parameter int unsigned POSITION_BITS = 16,  // only the lower bits of positions are used
    localparam int unsigned FETCHER_BITS = (FETCHERS > 1) ? $clog2(FETCHERS) : 1,
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input  logic                               clk,
    input  logic                               rst,
    // A fetch begins.
    output logic    [     FETCHERS-1:0]        has_room,        // none has failed
    input  logic                               begin_valid,
    input  logic    [ FETCHER_BITS-1:0]        begin_fetcher,
    input  logic    [             12:0]        begin_bytes,
    // verilator lint_off UNUSEDSIGNAL
    input  logic    [     TAG_BITS-1:0]        begin_tag,
    // verilator lint_on UNUSEDSIGNAL
    input  logic    [     USE_BITS-1:0]        begin_use,
    output logic    [POSITION_BITS-1:0]        begin_end,
    // Progress of reads.
    input  logic                               known_valid,
    input  logic    [     TAG_BITS-1:0]        known_tag,
    input  logic                               known_parity,
    input  answer_t                            known_answer,
    // To the fetchers.
    output logic    [     FETCHERS-1:0]        fetched_valid,
    input  logic    [     FETCHERS-1:0]        fetched_ready,
    output logic    [     FETCHERS-1:0][255:0] fetched_data,
    input  logic    [     FETCHERS-1:0]        forget,
    output logic    [     FETCHERS-1:0]        giving_up,
    // The oldest fetch of the fetcher under inspection has arrived whole, or has failed.
    output logic    [ FETCHER_BITS-1:0]        looked_at,
    output logic                               done_valid,
    input  logic                               done_ready,
    output logic                               failed,
    input  logic                               failed_ready,
    output logic    [     TAG_BITS-1:0]        oldest_tag,
    output logic    [     USE_BITS-1:0]        oldest_use,
    output logic    [              2:0]        failed_error,
    output logic    [             12:0]        failed_good,
    output logic                               give_up_valid,
    input  logic                               give_up_ready,
    // Data. Positions are those in the fetcher's memory.
    input  logic                               write_valid,
    // verilator lint_off UNUSEDSIGNAL
    input  logic    [     TAG_BITS-1:0]        write_tag,
    input  logic    [POSITION_BITS-1:0]        write_position,
    input  logic    [        BYTES-1:0]        write_enable,
    // verilator lint_on UNUSEDSIGNAL
    input  logic    [    DATA_BITS-1:0]        write_data
);
  localparam int unsigned DESCRIPTOR_BYTES = 32;
  localparam int unsigned ROW_BITS = $clog2(2 * BATCH);
  localparam int unsigned ROWS = 1 << ROW_BITS;
  localparam int unsigned LIST_BITS = $clog2(FETCH_TAGS);
  localparam int unsigned ENTRIES = FETCH_TAGS << FETCHER_BITS;

  typedef struct packed {
    logic [LIST_BITS-1:0] tag;
    logic [USE_BITS-1:0]  number;
    logic [ROW_BITS:0]    rows;
  } fetch_t;

  // --- Order -----------------------------------------------------------------------------------
  (* ram_style = "distributed" *)logic [$bits(fetch_t)-1:0] fetches[ENTRIES];
  (* ram_style = "distributed" *)logic [ $bits(answer_t):0] answers[ENTRIES];
  logic [FETCHERS-1:0][LIST_BITS:0] heads, tails;
  logic [FETCHERS-1:0][ROW_BITS-1:0] reserved;
  logic [FETCHERS-1:0][ROW_BITS:0] offered;  // descriptors
  logic [FETCHERS-1:0] has_failed;
  fetch_t oldest;
  answer_t answer;
  logic parity, has_oldest, is_known, is_done;
  logic [ROW_BITS:0] begin_rows;

  // The fetcher that is looked at next, its head, and whether it has one are known a clock before.
  // (Of a fetch that begins in that clock nothing is to be done yet.)
  logic [FETCHER_BITS-1:0] looked_next;
  logic [LIST_BITS-1:0] head;
  logic [LIST_BITS:0] next_head;
  assign looked_next = (32'(looked_at) == FETCHERS - 1) ? '0 : looked_at + 1'b1;
  assign oldest = fetches[{looked_at, head}];
  assign oldest_tag = TAG_BITS'({looked_at, oldest.tag});
  assign oldest_use = oldest.number;
  assign {parity, answer} = answers[{looked_at, oldest.tag}];
  assign next_head = heads[looked_next] + (LIST_BITS + 1)'(FETCHERS == 1 && is_done);
  assign is_known = has_oldest && parity == oldest.number[0] && !giving_up[looked_at];
  assign done_valid = is_known && answer.whole;
  assign failed = is_known && answer.error != '0 && offered[looked_at] == '0;
  assign failed_error = answer.error;
  assign failed_good = answer.good;
  assign give_up_valid = giving_up[looked_at] && has_oldest;
  assign is_done = (done_valid && done_ready) || (give_up_valid && give_up_ready);

  assign begin_rows = (ROW_BITS + 1)'(begin_bytes / DESCRIPTOR_BYTES);
  assign begin_end = POSITION_BITS'({reserved[begin_fetcher] + begin_rows[ROW_BITS-1:0], 5'd0});
  assign has_room = ~(giving_up | has_failed);

  always_ff @(posedge clk) begin
    looked_at <= looked_next;
    head <= next_head[LIST_BITS-1:0];
    has_oldest <= next_head != tails[looked_next];
    if (known_valid && 32'(known_tag) < FETCHERS * FETCH_TAGS) begin
      answers[(FETCHER_BITS+LIST_BITS)'(known_tag)] <= {known_parity, known_answer};
    end
    if (begin_valid) begin
      fetches[{
        begin_fetcher, tails[begin_fetcher][LIST_BITS-1:0]
      }] <= {
        begin_tag[LIST_BITS-1:0], begin_use, begin_rows
      };
    end
    for (int unsigned f = 0; f < FETCHERS; f++) begin
      if (begin_valid && 32'(begin_fetcher) == f) tails[f] <= tails[f] + 1'b1;
      if (is_done && 32'(looked_at) == f) heads[f] <= heads[f] + 1'b1;
      if (is_known && answer.error != '0 && 32'(looked_at) == f) has_failed[f] <= 1'b1;
      if (forget[f]) giving_up[f] <= 1'b1;
      else if (failed && failed_ready && 32'(looked_at) == f) giving_up[f] <= 1'b1;
      else if (heads[f] == tails[f]) giving_up[f] <= 1'b0;
      if (forget[f]) has_failed[f] <= 1'b0;
    end
    if (rst) begin
      looked_at <= '0;
      head <= '0;
      has_oldest <= 1'b0;
      heads <= '0;
      tails <= '0;
      has_failed <= '0;
      giving_up <= '0;
    end
  end

  // --- Descriptors -----------------------------------------------------------------------------
  logic [FETCHERS-1:0][ROW_BITS-1:0] rows;  // the next of each that is offered

  for (genvar f = 0; f < FETCHERS; f++) begin : g_fetcher
    logic take, is_written;
    logic [ROW_BITS:0] more;
    assign fetched_valid[f] = offered[f] != '0;
    assign take = fetched_valid[f] && fetched_ready[f];
    assign more = (done_valid && done_ready && 32'(looked_at) == f) ? oldest.rows : '0;
    assign is_written = write_valid && 32'(write_tag >> LIST_BITS) == f;

    always_ff @(posedge clk) begin
      offered[f] <= offered[f] + more - (ROW_BITS + 1)'(take);
      rows[f] <= rows[f] + ROW_BITS'(take);
      if (begin_valid && 32'(begin_fetcher) == f) begin
        reserved[f] <= reserved[f] + begin_rows[ROW_BITS-1:0];
      end
      // The next descriptor goes to the row that is offered next.
      if (giving_up[f]) reserved[f] <= rows[f] + offered[f][ROW_BITS-1:0];
      if (forget[f]) offered[f] <= '0;
      if (rst) begin
        offered[f] <= '0;
        rows[f] <= '0;
        reserved[f] <= '0;
      end
    end

    if (DATA_BITS <= 256) begin : g_narrow
      // One word of the data path at a time.
      for (genvar word = 0; word < 256 / DATA_BITS; word++) begin : g_word
        localparam int unsigned WORD_BYTES = 256 / 8 / (256 / DATA_BITS);
        (* ram_style = "distributed" *) logic [DATA_BITS-1:0] memory[ROWS];
        assign fetched_data[f][word*DATA_BITS+:DATA_BITS] = memory[rows[f]];
        always_ff @(posedge clk) begin
          if (is_written && 32'(write_position[4:0]) / WORD_BYTES == word) begin
            memory[write_position[5+:ROW_BITS]] <= write_data;
          end
        end
      end
    end else begin : g_wide
      // Two descriptors at a time, the first of which may be in any row.
      localparam int unsigned PAIR_BITS = (ROW_BITS > 1) ? ROW_BITS - 1 : 1;
      logic [ROW_BITS-1:0] first;
      logic [1:0][PAIR_BITS-1:0] pair;
      logic [1:0][255:0] shown;
      assign first   = write_position[5+:ROW_BITS];
      assign pair[0] = PAIR_BITS'((first + 1'b1) >> 1);
      assign pair[1] = PAIR_BITS'(first >> 1);
      for (genvar bank = 0; bank < 2; bank++) begin : g_bank
        (* ram_style = "distributed" *) logic [255:0] memory[1 << PAIR_BITS];
        logic which;
        assign which = first[0] != bank[0];
        assign shown[bank] = memory[PAIR_BITS'(rows[f]>>1)];
        always_ff @(posedge clk) begin
          if (is_written && write_enable[32'(which)*DESCRIPTOR_BYTES]) begin
            memory[pair[bank]] <= write_data[32'(which)*256+:256];
          end
        end
      end
      assign fetched_data[f] = shown[rows[f][0]];
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert (!begin_valid || !forget[begin_fetcher])
      else $error("a fetch begins as its fetcher forgets all of them");
    end
  end
`endif
endmodule
