// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A core that knows nothing of Crosslane: it reads a range of host memory, writes it inverted to
// another range, and raises an interrupt. Its TLP streams are those of many open cores: a header of
// 128 bits, first byte highest, beside 128 bits of data; data begin at the lowest double word.
//
//   rx_req (from the host) --> registers, MSI-X table --> start      +--> answers
//   rx_cpl (data of its reads) --> inverted --> writes               +--> tx
//   reads of CHUNK bytes, one for each free tag                      +-->
//
// Registers of BAR 0, 32 bits each: 00 and 04 source, 08 and 0c target, 10 bytes (multiples of
// CHUNK), 14 start, 18 status (0 busy, 1 done, 2 failed). 800: MSI-X table, one vector.
// Source and target are multiples of CHUNK.

module invert_dma #(
    parameter int TAGS  = 8,
    parameter int CHUNK = 128
) (
    input logic clk,
    input logic rst,
    input logic [15:0] function_id,

    // Most of what a header has is of no use to this core.
    /* verilator lint_off UNUSEDSIGNAL */
    input  logic         rx_req_valid,
    output logic         rx_req_ready,
    input  logic         rx_req_sop,
    input  logic         rx_req_eop,
    input  logic [127:0] rx_req_hdr,
    input  logic [127:0] rx_req_data,

    input  logic         rx_cpl_valid,
    output logic         rx_cpl_ready,
    input  logic         rx_cpl_sop,
    input  logic         rx_cpl_eop,
    input  logic [127:0] rx_cpl_hdr,
    input  logic [127:0] rx_cpl_data,
    /* verilator lint_on UNUSEDSIGNAL */

    output logic         tx_valid,
    input  logic         tx_ready,
    output logic         tx_sop,
    output logic         tx_eop,
    output logic [127:0] tx_hdr,
    output logic [127:0] tx_data
);
  localparam logic [7:0] MEMORY_READ = 8'h00, MEMORY_WRITE = 8'h40, COMPLETION_DATA = 8'h4A;

  // A header of 4 DW where the address needs one.
  function automatic logic [127:0] request(logic [7:0] kind, logic [9:0] length, logic [7:0] tag,
                                           logic [63:0] address);
    logic is_long;
    logic [31:0] first, second;
    is_long = address[63:32] != 0;
    first   = {kind | {2'b0, is_long, 5'b0}, 14'b0, length};
    second  = {function_id, tag, length == 1 ? 4'h0 : 4'hF, 4'hF};
    return is_long ? {first, second, address} : {first, second, address[31:0], 32'b0};
  endfunction

  // Registers: the host's writes and reads of single double words.
  logic [63:0] source, target, vector_address;
  logic [31:0] bytes, vector_data;
  logic vector_masked, busy, done, failed;
  logic answer_due;
  logic [127:0] answer_header;
  logic [31:0] answer_word;

  logic [11:0] offset;
  logic is_write;
  assign offset = rx_req_hdr[125] ? {rx_req_hdr[11:2], 2'b0} : {rx_req_hdr[43:34], 2'b0};
  assign is_write = rx_req_hdr[126];
  assign rx_req_ready = !answer_due;

  logic [31:0] word;
  always_comb
    case (offset)
      12'h000: word = source[31:0];
      12'h004: word = source[63:32];
      12'h008: word = target[31:0];
      12'h00C: word = target[63:32];
      12'h010: word = bytes;
      12'h018: word = {29'b0, failed, done, busy};
      12'h800: word = vector_address[31:0];
      12'h804: word = vector_address[63:32];
      12'h808: word = vector_data;
      12'h80C: word = {31'b0, vector_masked};
      default: word = 0;
    endcase

  // Reads: as many as there are tags.
  logic [TAGS-1:0] in_use;
  logic [63:0] tag_target[TAGS];
  logic [31:0] asked, written;
  logic [$clog2(TAGS)-1:0] next_tag;

  logic [$clog2(TAGS)-1:0] cpl_tag;
  logic [11:0] cpl_left;
  logic [9:0] cpl_length;
  assign cpl_tag = rx_cpl_hdr[40+:$clog2(TAGS)];
  assign cpl_left = rx_cpl_hdr[75:64];
  assign cpl_length = rx_cpl_hdr[105:96];

  // The beat that leaves next: answers first, then data, the interrupt, and further reads.
  logic slot, in_cpl, takes_answer, takes_cpl, takes_interrupt, takes_read, is_refused, drops;
  assign slot = !tx_valid || tx_ready;
  assign takes_answer = slot && answer_due && !in_cpl;
  assign is_refused = rx_cpl_sop && rx_cpl_hdr[79:77] != 0;
  assign takes_cpl = slot && rx_cpl_valid && !takes_answer;
  assign drops = takes_cpl && is_refused;
  assign takes_interrupt = slot && !in_cpl && !answer_due && !rx_cpl_valid && busy &&
      (written == bytes || failed && in_use == 0);
  assign takes_read = slot && !in_cpl && !answer_due && !rx_cpl_valid && busy && !failed &&
      asked != bytes && !in_use[next_tag];
  assign rx_cpl_ready = slot && !takes_answer;

  always_ff @(posedge clk) begin
    if (slot) begin
      tx_valid <= takes_answer || takes_cpl && !drops || takes_read ||
          takes_interrupt && !vector_masked;
      tx_sop <= takes_cpl ? rx_cpl_sop : 1'b1;
      tx_eop <= takes_cpl ? rx_cpl_eop : 1'b1;
      tx_data <= takes_answer ? {96'b0, answer_word} :
          takes_cpl ? ~rx_cpl_data : {96'b0, vector_data};
      if (takes_answer) tx_hdr <= answer_header;
      else if (takes_cpl)
        tx_hdr <= request(
            MEMORY_WRITE, cpl_length, 0, tag_target[cpl_tag] + 64'(CHUNK) - 64'(cpl_left)
        );
      else if (takes_interrupt) tx_hdr <= request(MEMORY_WRITE, 1, 0, vector_address);
      else tx_hdr <= request(MEMORY_READ, 10'(CHUNK / 4), 8'(next_tag), source + 64'(asked));
    end

    if (takes_answer) answer_due <= 0;
    if (takes_cpl) in_cpl <= !rx_cpl_eop;
    if (takes_cpl && rx_cpl_sop) begin
      if (is_refused) failed <= 1;
      else written <= written + 32'(cpl_length) * 4;
      if (is_refused || cpl_left == 12'(cpl_length) * 4) in_use[cpl_tag] <= 0;
    end
    if (takes_read) begin
      in_use[next_tag] <= 1;
      tag_target[next_tag] <= target + 64'(asked);
      asked <= asked + CHUNK;
      next_tag <= next_tag + 1;
    end
    if (takes_interrupt) {busy, done} <= 2'b01;

    if (rx_req_valid && rx_req_ready && rx_req_sop) begin
      answer_header <= {
        COMPLETION_DATA,
        14'b0,
        10'd1,
        function_id,
        4'b0,
        12'd4,
        rx_req_hdr[95:72],
        1'b0,
        offset[6:0],
        32'b0
      };
      answer_word <= word;
      answer_due <= !is_write;
      if (is_write)
        case (offset)
          12'h000: source[31:0] <= rx_req_data[31:0];
          12'h004: source[63:32] <= rx_req_data[31:0];
          12'h008: target[31:0] <= rx_req_data[31:0];
          12'h00C: target[63:32] <= rx_req_data[31:0];
          12'h010: bytes <= rx_req_data[31:0];
          12'h014: begin
            {busy, done, failed} <= 3'b100;
            {asked, written} <= 0;
          end
          12'h800: vector_address[31:0] <= rx_req_data[31:0];
          12'h804: vector_address[63:32] <= rx_req_data[31:0];
          12'h808: vector_data <= rx_req_data[31:0];
          12'h80C: vector_masked <= rx_req_data[0];
          default: ;
        endcase
    end
    if (rst) begin
      {tx_valid, answer_due, in_cpl, busy, done, failed} <= 0;
      {in_use, next_tag} <= 0;
      vector_masked <= 1;
    end
  end
endmodule
