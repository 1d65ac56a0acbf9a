// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The engine's reads as bursts of PCIM, in order, and each one's data as one completion. Whole beats
// are read from the first double word on; those behind the last are dropped. Read first: README.md
// beside this file.

module crosslane_shim_f2_reads
  import crosslane_pkg::*;
#(
    parameter int unsigned TAGS = 64  // reads at once: a power of two
) (
    input logic clk,
    input logic rst,

    input  logic        s_valid,   // a read, beside the first beat of its TLP
    output logic        s_ready,
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t s_header,
    // verilator lint_on UNUSEDSIGNAL
    output logic        idle,

    output logic [63:0] araddr,
    output logic [7:0] arlen,
    output logic arvalid,
    input logic arready,
    input logic [511:0] rdata,
    input logic [1:0] rresp,
    input logic rlast,
    input logic rvalid,
    output logic rready,

    output logic m_valid,
    input logic m_ready,
    output tlp_header_t m_header,
    output logic m_first,
    output logic m_last,
    output logic m_aborted,  // beside the last beat: a beat behind the first was refused
    output logic [511:0] m_data
);
  typedef struct packed {
    logic [9:0]  tag;
    logic [15:0] requester;
    logic [4:0]  address;    // of its first double word, in double words
    logic [10:0] length_dw;
    logic [3:0]  first_be;
    logic [3:0]  last_be;
  } read_t;

  read_t asked, next, current;
  logic asks, entry_ready, address_ready, entry_valid, ends;
  // verilator lint_off UNUSEDSIGNAL
  logic [11:0] last_index;
  // verilator lint_on UNUSEDSIGNAL

  assign asked = '{
          tag: s_header.tag,
          requester: s_header.requester,
          address: s_header.address[6:2],
          length_dw: s_header.length_dw,
          first_be: s_header.first_be,
          last_be: s_header.last_be
      };
  assign last_index = 12'(s_header.address[5:2]) + 12'(s_header.length_dw) - 12'd1;
  assign s_ready = entry_ready && address_ready;
  assign asks = s_valid && s_ready;

  // Room for all reads that the engine has tags for: one that waited would hold up the answers behind
  // it, for which the engine may be waiting before it takes the data of others.
  crosslane_fifo #(
      .WIDTH(72),
      .DEPTH(TAGS),
      .REGISTERED(1)
  ) addresses (
      .clk,
      .rst,
      .s_valid(asks),
      .s_ready(address_ready),
      .s_data ({last_index[11:4], s_header.address}),
      .m_valid(arvalid),
      .m_ready(arready),
      .m_data ({arlen, araddr}),
      .count  ()
  );
  crosslane_fifo #(
      .WIDTH($bits(read_t)),
      .DEPTH(TAGS)
  ) entries (
      .clk,
      .rst,
      .s_valid(asks),
      .s_ready(entry_ready),
      .s_data (asked),
      .m_valid(entry_valid),
      .m_ready(ends),
      .m_data (next),
      .count  ()
  );

  // --- Data: turned so that the first double word is in lane 0 -----------------------------------
  // A beat of the completion has the upper lanes of one beat and the lower ones of the next.
  logic [15:0][31:0] turned, kept, data;
  logic [3:0] offset;  // of the read whose beats come
  logic kept_valid, kept_last, is_begun, failed, failed_now, takes, emits, is_rest, out_ready, last;
  // Refused from the first beat on: an answer without data, and nothing of the rest.
  logic refuses, is_refused;
  tlp_header_t header;

  assign offset = next.address[3:0];
  always_comb begin
    for (int unsigned n = 0; n < 16; n++) turned[n] = rdata[32*4'(4'(n)+offset)+:32];
    for (int unsigned n = 0; n < 16; n++) begin
      data[n] = (kept_last || 5'(n) + 5'(current.address[3:0]) < 5'd16) ? kept[n] : turned[n];
    end
  end

  // The last beat of a read may end the completion's last beat, and leave nothing.
  logic [11:0] beats_in, beats_out;
  assign beats_in = (12'(offset) + 12'(next.length_dw) + 12'd15) >> 4;
  assign beats_out = (12'(next.length_dw) + 12'd15) >> 4;
  assign is_rest = rlast && beats_in != beats_out;
  assign rready = out_ready;
  assign takes = rvalid && rready && entry_valid;
  assign ends = takes && rlast;
  assign emits = out_ready && kept_valid && (kept_last || takes);
  assign last = kept_last || is_rest;
  assign refuses = failed_now && !is_begun;
  assign failed_now = failed || (!kept_last && takes && rresp != '0);

  always_ff @(posedge clk) begin
    if (takes) begin
      kept <= turned;
      current <= next;
      kept_last <= rlast;
      // Of a single read's beats, or of the next one's.
      failed <= (rresp != '0) || (kept_valid && !kept_last && failed);
    end
    if (emits) begin
      is_begun   <= !last;
      is_refused <= !last && (refuses || is_refused);
    end
    if (takes) kept_valid <= !(kept_valid && !kept_last && is_rest);
    else if (emits) kept_valid <= 1'b0;
    if (rst) begin
      kept_valid <= 1'b0;
      is_begun   <= 1'b0;
      is_refused <= 1'b0;
    end
  end

  // --- Header ------------------------------------------------------------------------------------
  logic [1:0] before_first, behind_last;
  logic [3:0] end_be;
  assign end_be = current.length_dw == 11'd1 ? current.first_be : current.last_be;
  always_comb begin
    before_first = '0;
    for (int n = 3; n >= 0; n--) if (current.first_be[n]) before_first = 2'(n);
    behind_last = '0;
    for (int n = 0; n < 4; n++) if (end_be[n]) behind_last = 2'(3 - n);
    header = '0;
    header.kind = COMPLETION_DATA;
    header.address = 64'({current.address, before_first});
    header.length_dw = current.length_dw;
    header.requester = current.requester;
    header.tag = current.tag;
    header.byte_count = {current.length_dw, 2'b00} - 13'(before_first) - 13'(behind_last);
    header.bar = NO_BAR;
    if (refuses) begin
      header.kind = COMPLETION;
      header.length_dw = '0;
      header.status = STATUS_UNSUPPORTED_REQUEST;
    end
  end

  crosslane_skid #(
      .WIDTH($bits(tlp_header_t) + 515)
  ) completions (
      .clk,
      .rst,
      .s_valid(emits && !is_refused),
      .s_ready(out_ready),
      .s_data ({header, !is_begun, last || refuses, last && failed_now && !refuses, data}),
      .m_valid,
      .m_ready,
      .m_data ({m_header, m_first, m_last, m_aborted, m_data})
  );
  assign idle = !entry_valid && !kept_valid && !m_valid;
endmodule
