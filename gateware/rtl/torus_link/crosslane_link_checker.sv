// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Checks datagrams of the pattern, out of the `m_*` of an end (docs/torus-link.md, Pattern): a
// datagram is wrong unless each word is the one behind the word before it, across datagrams as well,
// and its label follows that before. The first one after a reset, or behind `anew`, may be any.
// Beats of datagrams that do not count, damaged ones and repeats, may come between.

module crosslane_link_checker
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES = 8  // 1, 4 or 8
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic                 anew,
    input  logic                 m_valid,
    input  logic   [        2:0] m_channel,
    input  label_t               m_label,
    input  logic                 m_first,
    input  logic                 counts,     // with a datagram's last beat or behind it
    input  logic   [8*LANES-1:0] m_data,
    output logic   [       31:0] right,      // datagrams
    output logic   [       31:0] wrong
);
  // --- Words ---------------------------------------------------------------------------------
  logic word_valid, word_first, is_next;
  logic [31:0] first_word, last_word;  // of this clock: one, or two
  if (LANES == 8) begin : g_two
    assign {last_word, first_word} = m_data;
    assign word_valid = m_valid;
    assign word_first = m_first;
    assign is_next = last_word == first_word + PATTERN_STEP;
  end else if (LANES == 4) begin : g_one
    assign first_word = m_data;
    assign last_word = m_data;
    assign word_valid = m_valid;
    assign word_first = m_first;
    assign is_next = 1'b1;
  end else begin : g_bytes
    logic [23:0] held;
    logic [ 1:0] at;
    logic        begins;
    assign first_word = {m_data, held};
    assign last_word = first_word;
    assign word_valid = m_valid && !m_first && at == '1;
    assign word_first = begins;
    assign is_next = 1'b1;
    always_ff @(posedge clk) begin
      if (m_valid) begin
        held <= {m_data, held[23:8]};
        at   <= m_first ? 2'd1 : at + 1'b1;
        if (m_first) begins <= 1'b1;
        else if (at == '1) begins <= 1'b0;
      end
    end
  end

  // --- Whether they follow each other --------------------------------------------------------
  logic is_known, is_right, right_next, label_fits;
  logic [31:0] next_word, next_last;  // behind the last word; `wanted`: behind the last datagram
  logic [31:0] wanted;
  logic [12:0] index;
  assign label_fits = m_channel == PATTERN_CHANNEL && m_label.kind == '0 && m_label.tag == '0
                      && (!is_known || m_label.index == index);
  always_comb begin
    next_last  = next_word;
    right_next = is_right;
    if (word_valid) begin
      next_last = last_word + PATTERN_STEP;
      right_next = is_next && (word_first ? label_fits && (!is_known || first_word == wanted)
                                          : is_right && first_word == next_word);
    end
  end

  always_ff @(posedge clk) begin
    next_word <= next_last;
    is_right  <= right_next;
    if (counts) begin
      is_known <= 1'b1;
      wanted <= next_last;
      index <= m_label.index + 1'b1;
      if (right_next) right <= right + 1'b1;
      else wrong <= wrong + 1'b1;
    end
    if (rst || anew) is_known <= 1'b0;
    if (rst) begin
      right <= '0;
      wrong <= '0;
    end
  end
endmodule
