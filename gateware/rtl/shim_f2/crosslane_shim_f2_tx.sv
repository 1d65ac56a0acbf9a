// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The engine's TLPs to the shell: writes become bursts of PCIM, reads and answers go to the other
// modules, and writes to addresses of the MSI-X table that the shim has filled are interrupts.
// Interrupts and answers wait until the shell has confirmed the writes before them. Read first:
// README.md beside this file.

module crosslane_shim_f2_tx
  import crosslane_pkg::*;
#(
    parameter int unsigned VECTORS = 8  // to 16
) (
    input logic clk,
    input logic rst,

    input  logic                s_valid,
    output logic                s_ready,
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t         s_header,
    // verilator lint_on UNUSEDSIGNAL
    input  logic                s_first,
    input  logic                s_last,
    input  logic        [511:0] s_data,
    input  logic                hold,      // no TLP begins
    output logic                idle,      // none is partway, and all writes are confirmed
    output logic                has_room,  // for another write

    output logic [63:0] awaddr,
    output logic [7:0] awlen,
    output logic awvalid,
    input logic awready,
    output logic [511:0] wdata,
    output logic [63:0] wstrb,
    output logic wlast,
    output logic wvalid,
    input logic wready,
    input logic bvalid,  // always taken

    output logic read_valid,
    input  logic read_ready,

    // The answer to the one read of a register.
    output logic answer_valid,
    input logic answer_ready,
    output logic [31:0] answer_data,
    output logic answer_failed,

    output logic [15:0] irq_req,
    input  logic [15:0] irq_ack
);
  localparam int unsigned MOST_WRITES = 256;  // not confirmed
  localparam int unsigned COUNT_BITS = $clog2(MOST_WRITES) + 2;
  localparam int unsigned VECTOR_BITS = 4;

  // --- Kinds -----------------------------------------------------------------------------------
  typedef logic [COUNT_BITS-1:0] count_t;
  count_t begun, ended, open;
  logic is_interrupt, is_write, is_read, is_answer, goes_on, flushes, may_begin, takes;
  logic aw_valid, aw_ready, w_valid, w_ready, interrupt_ready;
  logic partway;  // of a TLP
  logic answer_waits, answer_room, interrupt_waits;

  assign open = begun - ended;
  assign has_room = open < count_t'(MOST_WRITES);
  assign is_interrupt = s_header.kind == MEMORY_WRITE && s_header.address[63];
  assign is_write = s_header.kind == MEMORY_WRITE && !s_header.address[63];
  assign is_read = s_header.kind == MEMORY_READ;
  assign is_answer = s_header.kind inside {COMPLETION, COMPLETION_DATA};
  assign may_begin = !hold && !flushes && (is_write ? aw_ready && w_ready && has_room :
      is_read ? read_ready : is_answer ? answer_room : interrupt_ready);
  assign s_ready = s_first ? may_begin : !flushes && (!goes_on || w_ready);
  assign takes = s_valid && s_ready;
  assign read_valid = s_valid && s_first && is_read && !hold && !flushes;
  assign idle = !partway && !flushes && open == '0 && !interrupt_waits && !answer_waits;

  always_ff @(posedge clk) begin
    if (takes) begin
      partway <= !s_last;
      goes_on <= (s_first ? is_write : goes_on) && !s_last;
    end
    begun <= begun + count_t'(aw_valid);
    ended <= ended + count_t'(bvalid);
    if (rst) begin
      partway <= 1'b0;
      goes_on <= 1'b0;
      begun   <= '0;
      ended   <= '0;
    end
  end

  // --- Writes ----------------------------------------------------------------------------------
  // The first double word is in the lane of its address, so all turn by as many lanes. What turns
  // beyond the last lane belongs to the next beat.
  logic [15:0][31:0] turned, rest, beat;
  logic [15:0][3:0] enables;
  logic [3:0] offset, offset_kept, last_lane, last_lane_now;
  logic [3:0] last_be, last_be_now;
  logic [7:0] left, left_now;  // beats behind this one
  logic [11:0] last_index;  // of the last double word, from lane 0 of the first beat
  logic begins, is_single;

  assign begins = s_first && is_write && !flushes;
  assign offset = begins ? s_header.address[5:2] : offset_kept;
  assign last_index = 12'(s_header.address[5:2]) + 12'(s_header.length_dw) - 12'd1;
  assign last_lane_now = begins ? last_index[3:0] : last_lane;
  assign left_now = begins ? last_index[11:4] : left;
  assign is_single = s_header.length_dw == 11'd1;
  assign last_be_now = begins ? (is_single ? s_header.first_be : s_header.last_be) : last_be;

  always_comb begin
    for (int unsigned n = 0; n < 16; n++) turned[n] = s_data[32*4'(4'(n)-offset)+:32];
    for (int unsigned n = 0; n < 16; n++) begin
      beat[n] = (4'(n) >= offset && !flushes) ? turned[n] : rest[n];
      enables[n] = '1;
      if (begins && 4'(n) < offset) enables[n] = '0;
      if (left_now == '0 && 4'(n) > last_lane_now) enables[n] = '0;
      if (left_now == '0 && 4'(n) == last_lane_now) enables[n] = last_be_now;
      if (begins && 4'(n) == offset) enables[n] = s_header.first_be;
    end
  end

  assign aw_valid = takes && begins;
  assign w_valid  = flushes || (takes && (begins || goes_on));
  always_ff @(posedge clk) begin
    if (w_valid && w_ready) begin
      rest <= turned;
      offset_kept <= offset;
      last_lane <= last_lane_now;
      last_be <= last_be_now;
      left <= left_now - 8'd1;
      // The last beat that came has more than this beat holds.
      flushes <= !flushes && s_last && left_now != '0;
    end
    if (rst) flushes <= 1'b0;
  end

  crosslane_skid #(
      .WIDTH(72)
  ) addresses (
      .clk,
      .rst,
      .s_valid(aw_valid),
      .s_ready(aw_ready),
      .s_data ({last_index[11:4], s_header.address}),
      .m_valid(awvalid),
      .m_ready(awready),
      .m_data ({awlen, awaddr})
  );
  crosslane_skid #(
      .WIDTH(577)
  ) beats (
      .clk,
      .rst,
      .s_valid(w_valid),
      .s_ready(w_ready),
      .s_data ({left_now == '0, enables, beat}),
      .m_valid(wvalid),
      .m_ready(wready),
      .m_data ({wlast, wstrb, wdata})
  );

  // --- What waits for the writes before it -----------------------------------------------------
  function automatic logic is_reached(count_t by, count_t count);
    count_t behind;
    behind = by - count;
    return !behind[COUNT_BITS-1];
  endfunction

  // Answers: there is one read at a time.
  count_t answer_behind;
  assign answer_room  = !answer_waits;
  assign answer_valid = answer_waits && is_reached(ended, answer_behind);
  always_ff @(posedge clk) begin
    if (answer_valid && answer_ready) answer_waits <= 1'b0;
    if (takes && s_first && is_answer) begin
      answer_waits  <= 1'b1;
      answer_behind <= begun;
      answer_data   <= s_data[31:0];
      answer_failed <= s_header.kind != COMPLETION_DATA || s_header.status != STATUS_SUCCESSFUL;
    end
    if (rst) answer_waits <= 1'b0;
  end

  // Interrupts. A vector waits for the acknowledgement of its last request outside the queue, where no
  // count grows old; what comes meanwhile is one more request.
  logic interrupt_goes;
  logic [VECTOR_BITS-1:0] vector;
  logic [15:0] unacknowledged, pending, sent;
  count_t interrupt_behind;
  crosslane_fifo #(
      .WIDTH(VECTOR_BITS + COUNT_BITS),
      .DEPTH(16)
  ) interrupts (
      .clk,
      .rst,
      .s_valid(takes && s_first && is_interrupt),
      .s_ready(interrupt_ready),
      .s_data ({s_header.address[4+:VECTOR_BITS], begun}),
      .m_valid(interrupt_waits),
      .m_ready(interrupt_goes),
      .m_data ({vector, interrupt_behind}),
      .count  ()
  );
  assign sent = pending & ~unacknowledged;
  assign interrupt_goes = interrupt_waits && is_reached(ended, interrupt_behind);
  always_ff @(posedge clk) begin
    irq_req <= sent;
    unacknowledged <= (unacknowledged & ~irq_ack) | sent;
    pending <= (pending & ~sent) | (interrupt_goes ? 16'd1 << vector : '0);
    if (rst) begin
      irq_req <= '0;
      unacknowledged <= '0;
      pending <= '0;
    end
  end

`ifndef SYNTHESIS
  if (VECTORS > 16) begin : g_check
    $error("the shell has 16 interrupts");
  end
`endif
endmodule
