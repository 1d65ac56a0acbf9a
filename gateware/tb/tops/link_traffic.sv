// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For link_ports.sv: numbered datagrams of all channels, and whether those of the other side come
// once each and in order. A channel is sent until `wanted` of its datagrams have been.

module link_traffic
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES = 8,
    parameter bit          LONG  = 1'b0,
    parameter int unsigned SIDE  = 0
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic   [CHANNELS-1:0]       active,     // channels that send
    input  logic                        ends,       // no more datagrams are begun
    input  logic   [CHANNELS-1:0]       accepts,    // channels that take
    output logic                        s_valid,
    input  logic                        s_ready,
    output logic   [         2:0]       s_channel,
    output label_t                      s_label,
    output logic   [ 8*LANES-1:0]       s_data,
    input  logic   [CHANNELS-1:0]       room,
    input  logic                        m_valid,
    output logic   [CHANNELS-1:0]       m_ready,
    input  logic   [         2:0]       m_channel,
    input  label_t                      m_label,
    input  logic                        m_first,
    input  logic                        m_last,
    input  logic   [ 8*LANES-1:0]       m_data,
    output logic   [CHANNELS-1:0][31:0] sent,
    output logic   [CHANNELS-1:0][31:0] taken,
    output logic   [        31:0]       wrong       // beats
);
  localparam int unsigned BEATS = payload_bytes(LONG) / LANES;
  typedef logic [7:0] at_t;

  function automatic logic [31:0] word(logic side, logic [2:0] channel, logic [31:0] number,
                                       logic [31:0] at);
    return ({number[28:0], channel} ^ {side, 31'd0}) * 32'h85eb_ca6b + at * 32'h9e37_79b1
           + {number[31:29], 29'd0};
  endfunction

  function automatic logic [8*LANES-1:0] beat(logic side, logic [2:0] channel, logic [31:0] number,
                                              at_t at);
    logic [63:0] both;
    int unsigned first;
    first = (32'(at) * LANES) / 4;
    both  = {word(side, channel, number, first + 1), word(side, channel, number, first)};
    return (8 * LANES)'(both >> (8 * ((32'(at) * LANES) % 4)));
  endfunction

  function automatic label_t label(logic [2:0] channel, logic [12:0] number);
    return '{index: number, tag: {3'd5, channel}, kind: 2'(number)};
  endfunction

  // --- Out -----------------------------------------------------------------------------------
  at_t  s_at;
  logic busy;
  logic [2:0] channel, next_channel;
  logic [CHANNELS-1:0] open;
  assign open = room & active;
  always_comb begin
    next_channel = channel;
    for (int unsigned n = CHANNELS; n > 0; n--) begin
      if (open[3'(32'(channel)+n)]) next_channel = 3'(32'(channel) + n);
    end
  end
  assign s_valid = busy;
  assign s_channel = channel;
  assign s_label = label(channel, 13'(sent[channel]));
  assign s_data = beat(1'(SIDE), channel, sent[channel], s_at);

  always_ff @(posedge clk) begin
    if (!busy || (s_ready && s_at == at_t'(BEATS - 1))) begin
      busy <= open != '0 && !ends;
      if (busy) sent[channel] <= sent[channel] + 1'b1;
      // Its room falls a clock later: another channel is next.
      if (!busy || next_channel != channel) channel <= next_channel;
      else busy <= 1'b0;
      s_at <= '0;
    end else if (s_ready) s_at <= s_at + 1'b1;
    if (rst) begin
      busy <= 1'b0;
      sent <= '0;
      channel <= '0;
      s_at <= '0;
    end
  end

  // --- In ------------------------------------------------------------------------------------
  at_t m_at, m_at_now;
  assign m_ready  = accepts;
  assign m_at_now = m_first ? '0 : m_at;
  logic [8*LANES-1:0] wanted;
  label_t wanted_label;
  logic is_last;
  assign wanted = beat(1'(1 - SIDE), m_channel, taken[m_channel], m_at_now);
  assign wanted_label = label(m_channel, 13'(taken[m_channel]));
  assign is_last = m_at_now == at_t'(BEATS - 1);
  always_ff @(posedge clk) begin
    if (m_valid) begin
      if (m_data != wanted || m_label != wanted_label || m_last != is_last) wrong <= wrong + 1'b1;
      if (m_last) taken[m_channel] <= taken[m_channel] + 1'b1;
      m_at <= m_at_now + 1'b1;
    end
    if (rst) begin
      taken <= '0;
      wrong <= '0;
    end
  end
endmodule
