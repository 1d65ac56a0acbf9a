// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Arbitrates the TLPs that leave: answers first, then the sources in turn, one TLP each. A source
// that waits for room in its class holds up no other. The output is registered; TLPs follow each
// other without an idle clock.
//
// A source may withdraw a TLP of which no beat has been taken (crosslane_writer). `room` is sampled
// in the clock in which a TLP's first beat enters the output register; the TLP before it may have
// left that register in the same clock, so a shim keeps room for one TLP more than it reports.

module crosslane_arbiter
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned SOURCES   = 5
) (
    input  logic                                       clk,
    input  logic                                       rst,
    input  room_t                                      room_i,
    // Answers.
    input  logic                                       s_answer_valid,
    output logic                                       s_answer_ready,
    input  tlp_header_t                                s_answer_header,
    input  logic                                       s_answer_first,
    input  logic                                       s_answer_last,
    input  logic        [DATA_BITS-1:0]                s_answer_data,
    // Sources, in the order of their turn.
    input  logic        [  SOURCES-1:0]                s_valid,
    output logic        [  SOURCES-1:0]                s_ready,
    input  tlp_header_t [  SOURCES-1:0]                s_header,
    input  logic        [  SOURCES-1:0]                s_first,
    input  logic        [  SOURCES-1:0]                s_last,
    input  logic        [  SOURCES-1:0][DATA_BITS-1:0] s_data,
    // To the link.
    output logic                                       m_tx_valid,
    input  logic                                       m_tx_ready,
    output tlp_header_t                                m_tx_header,
    output logic                                       m_tx_first,
    output logic                                       m_tx_last,
    output logic        [DATA_BITS-1:0]                m_tx_data
);
  // Index 0 is the answers; the sources follow.
  localparam int unsigned PLACES = SOURCES + 1;
  typedef logic [PLACES-1:0] places_t;

  // Whether the link has room for a TLP of this kind.
  function automatic logic has_room(input tlp_kind_e kind, input room_t room);
    unique case (kind)
      MEMORY_READ: return room.nonposted;
      MEMORY_WRITE: return room.posted;
      default: return room.completion;
    endcase
  endfunction

  // --- Arbitration ---------------------------------------------------------------------------
  // Short paths: the choice is gates on `can` and on registers, who has had the turn and whether
  // there is one are worked out beside it, and whether the output is free comes in last.
  places_t valid, last, ready, chosen, holder;
  logic is_free, is_within;  // within a TLP, which is the holder's
  logic next_is_answer;
  // Round robin: those behind the one that had the last turn go first, then the others.
  logic [SOURCES-1:0] can, next;
  // [n][m]: m goes before n. Registers for m < n.
  logic [SOURCES-1:0][SOURCES-1:0] goes_before, lower_first;

  assign valid = {s_valid, s_answer_valid};
  assign last = {s_last, s_answer_last};
  assign next_is_answer = s_answer_valid && room_i.completion;

  always_comb begin
    for (int unsigned n = 0; n < SOURCES; n++) begin
      can[n] = s_valid[n] && has_room(s_header[n].kind, room_i);
    end
    for (int unsigned n = 0; n < SOURCES; n++) begin
      for (int unsigned m = 0; m < SOURCES; m++) begin
        goes_before[n][m] = (m < n) ? lower_first[n][m] : (m > n) && !lower_first[m][n];
      end
      next[n] = can[n] && (can & goes_before[n]) == '0 && !next_is_answer;
    end
  end

  always_ff @(posedge clk) begin
    for (int unsigned n = 0; n < SOURCES; n++) begin
      for (int unsigned m = 0; m < SOURCES; m++) begin
        // Of two sources the lower one goes first, unless the turn was its own or between them.
        if (!is_within && is_free && next != '0) begin
          lower_first[n][m] <= m < n && (next & SOURCES'((1 << n) - (1 << m))) == '0;
        end
        if (rst) lower_first[n][m] <= m < n;
      end
    end
  end

  assign chosen = is_within ? holder : {next, next_is_answer};
  assign is_free = !m_tx_valid || m_tx_ready;
  assign ready = is_free ? chosen : '0;
  assign {s_ready, s_answer_ready} = ready;

  logic has_beat, moves, ends;
  assign has_beat = is_within ? |(valid & holder) : can != '0 || next_is_answer;
  assign moves = has_beat && is_free;
  assign ends = |(last & chosen);

  always_ff @(posedge clk) begin
    if (moves) begin
      is_within <= !ends;
      holder <= chosen;
    end
    if (rst) begin
      is_within <= 1'b0;
    end
  end

  // --- Out -----------------------------------------------------------------------------------
  // Gates and one wide OR: a field that a source ties to 0 costs nothing. A TLP's header is taken
  // with its first beat and stays: its path does not wait for whether there is a holder.
  tlp_header_t header;
  logic [DATA_BITS-1:0] data;

  always_comb begin
    header = next_is_answer ? s_answer_header : '0;
    data   = chosen[0] ? s_answer_data : '0;
    for (int unsigned n = 0; n < SOURCES; n++) begin
      if (next[n]) header |= s_header[n];
      if (chosen[n+1]) data |= s_data[n];
    end
  end

  always_ff @(posedge clk) begin
    if (is_free) begin
      m_tx_valid <= has_beat;
      m_tx_first <= !is_within;
      m_tx_last  <= ends;
      if (!is_within) m_tx_header <= header;
      m_tx_data <= data;
    end
    if (rst) m_tx_valid <= 1'b0;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst) begin
      if (is_within && is_free) begin
        assert (|(valid & holder))
        else $error("a pause within a TLP");
      end
      if (moves) begin
        assert (|({s_first, s_answer_first} & chosen) == !is_within)
        else $error("first");
      end
    end
  end
`endif
endmodule
