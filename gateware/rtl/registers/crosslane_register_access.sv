// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Turns requests into register accesses, and the values read into completions.
//
// Writes: one double word a clock, those with all bytes enabled. Reads: one at a time. A read waits
// until earlier writes have taken effect everywhere, then it becomes an access, and two clocks
// later its completion stands on m_answer:
//
//   clock    0           1, 2    3        4           5
//   request  to be seen  waits   access   read_data   m_answer
//
// A read of bytes of a double word is one of that double word. A read of a pair of double words,
// aligned and whole, is two accesses, the low one first, and its completion stands a clock later.
// Other reads that are answered: zero-length (a flush), and those of the apertures of the receive
// queues and of pushed descriptors (zeros, cut at Max_Payload_Size and at the read completion
// boundary). All others are refused. The request stays at the input until it is answered, so the fields that the answer repeats need no
// register.

module crosslane_register_access
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter bit          HAS_LANES = 1,    // BAR 1 exists
    parameter bit          HAS_PUSH  = 0     // BAR 4 exists
) (
    input logic clk,
    input logic rst,
    // Only some fields are used here.
    // verilator lint_off UNUSEDSIGNAL
    input function_t function_i,
    input tlp_header_t s_request_header,
    // verilator lint_on UNUSEDSIGNAL
    input logic s_request_valid,
    output logic s_request_ready,
    input logic s_request_first,
    input logic s_request_last,
    input logic [DATA_BITS-1:0] s_request_data,
    output logic m_answer_valid,
    input logic m_answer_ready,
    output tlp_header_t m_answer_header,
    output logic m_answer_first,
    output logic m_answer_last,
    output logic [DATA_BITS-1:0] m_answer_data,
    // Accesses, of double words of BAR 0.
    output logic access_valid,
    output logic access_write,
    output logic access_reads,  // valid, and not a write
    output logic [15:2] access_address,
    output logic [31:0] access_data,
    input logic access_wait,  // this one is held for another clock
    input logic [31:0] read_data  // the clock after a read's access
);
  localparam int unsigned DWS = DATA_BITS / 32;
  localparam int unsigned INDEX_BITS = $clog2(DWS);
  localparam logic [2:0] REGISTERS_BAR = 3'd0;
  localparam logic [2:0] LANES_BAR = 3'd1;
  localparam logic [2:0] PUSH_BAR = 3'd4;

  // Clocks of a read, as above; CUT is clock 4 again for each further completion.
  typedef enum logic [2:0] {
    SEEN,
    WAITS,
    ASKS,
    READS,
    CUT,
    HIGH,    // the high double word of a pair
    ANSWERS
  } step_e;
  step_e step;
  logic  is_register;  // the read is of registers
  logic  is_pair;  // of two
  logic  is_last_cut;  // the completion is the read's last

  // --- Writes ----------------------------------------------------------------------------------
  logic [INDEX_BITS-1:0] index, last_index, begun_last_index;  // double word of the beat
  logic [3:0] last_be, begun_last_be, enables;
  logic is_read, is_taken, begun_is_taken;  // is_taken: a write of registers
  logic is_start, is_end, ends_beat, is_free;
  logic [15:2] address, next_address;

  assign is_read = s_request_first && s_request_header.kind == MEMORY_READ;
  assign is_start = s_request_first && index == '0;
  assign is_end = s_request_last && index == last_index;
  assign ends_beat = (&index) || is_end;
  assign is_free = !access_valid || !access_wait;

  always_comb begin
    is_taken = begun_is_taken;
    last_index = begun_last_index;
    last_be = begun_last_be;
    if (s_request_first) begin
      is_taken = s_request_header.kind == MEMORY_WRITE && s_request_header.bar == REGISTERS_BAR;
      last_index = s_request_header.length_dw[INDEX_BITS-1:0] - 1'b1;
      last_be = s_request_header.last_be;
    end
    if (is_start) enables = s_request_header.first_be;
    else if (is_end) enables = last_be;
    else enables = 4'hf;
  end
  assign address = is_start ? s_request_header.address[15:2] : next_address;

  always_ff @(posedge clk) begin
    if (s_request_valid) begin
      begun_is_taken   <= is_taken;
      begun_last_index <= last_index;
      begun_last_be    <= last_be;
    end
    if (is_free) begin
      access_valid   <= 1'b0;
      access_reads   <= 1'b0;
      access_write   <= !is_read;
      access_address <= {address[15:3], address[2] || step == READS};
      access_data    <= s_request_data[32*index+:32];
      if (s_request_valid && !is_read && is_taken) begin
        access_valid <= enables == 4'hf;
        next_address <= address + 1'b1;
        index <= ends_beat ? '0 : index + 1'b1;
      end
      if (step == ASKS) {access_valid, access_reads} <= {2{is_register}};
      if (step == READS) {access_valid, access_reads} <= {2{is_pair}};
    end
    if (rst) begin
      access_valid <= 1'b0;
      access_reads <= 1'b0;
      index <= '0;
    end
  end

  always_comb begin
    if (is_read) s_request_ready = m_answer_valid && m_answer_ready && m_answer_last && is_last_cut;
    else if (is_taken) s_request_ready = is_free && ends_beat;
    else s_request_ready = 1'b1;
  end

  // --- Kind of read ----------------------------------------------------------------------------
  logic is_single, is_flush, is_window, is_refused;
  logic [3:0] tail_be;
  logic [1:0] skipped, missing;  // bytes ahead of the first and behind the last
  logic [12:0] count;
  logic [2:0] bar;
  logic has_bar;

  assign bar = s_request_header.bar;
  assign has_bar = bar == REGISTERS_BAR || is_window;
  assign is_single = s_request_header.length_dw == 11'd1;
  assign is_flush = is_single && s_request_header.first_be == '0;
  assign is_pair = bar == REGISTERS_BAR && s_request_header.length_dw == 11'd2 &&
                   !s_request_header.address[2] && (&s_request_header.first_be) &&
                   (&s_request_header.last_be);
  assign is_register = is_pair || (bar == REGISTERS_BAR && is_single && !is_flush);
  assign is_window = (HAS_LANES && bar == LANES_BAR) || (HAS_PUSH && bar == PUSH_BAR);
  assign is_refused = !(is_register || is_window || (is_flush && has_bar));
  assign tail_be = is_single ? s_request_header.first_be : s_request_header.last_be;

  always_comb begin
    casez (s_request_header.first_be)
      4'b??10: skipped = 2'd1;
      4'b?100: skipped = 2'd2;
      4'b1000: skipped = 2'd3;
      default: skipped = 2'd0;
    endcase
    casez (tail_be)
      4'b01??: missing = 2'd1;
      4'b001?: missing = 2'd2;
      4'b0001: missing = 2'd3;
      default: missing = 2'd0;
    endcase
    count = {s_request_header.length_dw, 2'b00} - 13'(skipped) - 13'(missing);
    if (is_flush) count = 13'd1;
  end

  // --- Completions -----------------------------------------------------------------------------
  logic [12:0] remaining;  // bytes from this completion on
  logic [ 6:0] lower;  // its Lower Address
  logic [10:0] length;  // double words, except of an error
  logic [31:0] word, high_word;

  if (HAS_LANES || HAS_PUSH) begin : g_cuts
    // A completion carries all that remains, or ends at the last multiple of the read completion
    // boundary (128 bytes) that Max_Payload_Size allows.
    logic [12:0] most, cut;
    logic [9:0] beats_left;
    logic is_begun, fits;
    assign most = size_bytes(function_i.max_payload);
    assign fits = remaining + 13'(lower[1:0]) <= most;
    assign cut  = fits ? remaining : most - 13'(lower);
    always_ff @(posedge clk) begin
      if (step == WAITS) begin
        remaining <= count;
        lower <= {s_request_header.address[6:2], skipped};
      end
      if (step == CUT) begin
        length <= length_dw(lower[1:0], cut);
        beats_left <= 10'((length_dw(lower[1:0], cut) + 11'(DWS - 1)) >> INDEX_BITS);
        is_last_cut <= fits || is_refused;
        is_begun <= 1'b0;
      end
      if (m_answer_valid && m_answer_ready) begin
        is_begun   <= 1'b1;
        beats_left <= beats_left - 1'b1;
        if (m_answer_last) begin
          remaining <= remaining - ({length, 2'b00} - 13'(lower[1:0]));
          lower <= '0;
        end
      end
    end
    assign m_answer_first = !is_begun;
    assign m_answer_last  = beats_left == 10'd1 || is_refused;
  end else begin : g_no_cuts
    assign remaining = count;
    assign lower = {s_request_header.address[6:2], skipped};
    assign length = is_pair ? 11'd2 : 11'd1;
    assign is_last_cut = 1'b1;
    assign m_answer_first = 1'b1;
    assign m_answer_last = 1'b1;
  end

  always_ff @(posedge clk) begin
    unique case (step)
      SEEN:  if (s_request_valid && is_read && is_free) step <= WAITS;
      WAITS: step <= ASKS;
      ASKS:  step <= READS;
      READS: step <= CUT;
      CUT:   step <= is_pair ? HIGH : ANSWERS;
      HIGH:  step <= ANSWERS;
      default:
      if (m_answer_ready && m_answer_last) begin
        step <= is_last_cut ? SEEN : CUT;
      end
    endcase
    if (step == CUT) word <= is_register ? read_data : '0;
    if (step == CUT) high_word <= '0;
    if (step == HIGH) high_word <= read_data;
    if (rst) step <= SEEN;
  end

  assign m_answer_valid = step == ANSWERS;
  assign m_answer_data  = DATA_BITS'({high_word, word});

  always_comb begin
    m_answer_header = '0;
    m_answer_header.kind = is_refused ? COMPLETION : COMPLETION_DATA;
    m_answer_header.address = 64'(lower);
    m_answer_header.length_dw = is_refused ? '0 : length;
    m_answer_header.requester = s_request_header.requester;
    m_answer_header.tag = s_request_header.tag;
    m_answer_header.traffic_class = s_request_header.traffic_class;
    m_answer_header.attributes = s_request_header.attributes;
    m_answer_header.byte_count = remaining;
    m_answer_header.completer = function_i.routing_id;
    if (is_refused) begin
      m_answer_header.status = has_bar ? STATUS_COMPLETER_ABORT : STATUS_UNSUPPORTED_REQUEST;
    end
  end
endmodule
