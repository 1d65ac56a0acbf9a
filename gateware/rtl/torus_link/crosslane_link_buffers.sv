// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Receive buffers of the eight channels. A payload is written into the next place of its channel
// as it comes; it counts when the receiver has delivered it. A place is freed when its datagram
// has gone out.

module crosslane_link_buffers
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES = 8,  // 1, 4 or 8
    parameter int unsigned CHANNEL_DATAGRAMS = 64,  // power of two, 2 to 512
    parameter bit LONG = 1'b0,  // datagrams carry 256 B, not 128 B
    localparam int unsigned BEATS = payload_bytes(LONG) / LANES,
    localparam int unsigned BEAT_BITS = $clog2(BEATS),
    localparam int unsigned SLOT_BITS = $clog2(CHANNEL_DATAGRAMS)
) (
    input  logic                         clk,
    input  logic                         rst,
    // Datagrams of each channel that have been delivered and freed.
    input  logic    [ CHANNELS-1:0][9:0] delivered,
    input  logic    [ CHANNELS-1:0][9:0] freed,
    input  header_t                      header,         // of the beat
    input  logic                         beat_valid,
    input  logic    [BEAT_BITS-1:0]      beat_index,
    input  logic    [  8*LANES-1:0]      beat_data,
    output logic                         has_room,       // for the datagram of the last beats
    output logic                         frees,
    output logic    [          2:0]      frees_channel,
    // Datagrams. `m_ready`, a bit a channel: a whole one would be taken; its beats do not pause.
    output logic                         m_valid,
    input  logic    [ CHANNELS-1:0]      m_ready,
    output logic    [          2:0]      m_channel,
    output label_t                       m_label,
    output logic                         m_first,
    output logic                         m_last,
    output logic    [  8*LANES-1:0]      m_data
);
  logic [8*LANES-1:0] memory[CHANNELS*CHANNEL_DATAGRAMS*BEATS];
  (* ram_style = "distributed" *) label_t labels[CHANNELS*CHANNEL_DATAGRAMS];

  // --- In ------------------------------------------------------------------------------------
  logic fits, fits_now, fits_here;
  logic [9:0] held;
  assign held = delivered[header.channel] - freed[header.channel];
  assign fits_now = held < 10'(CHANNEL_DATAGRAMS);
  assign fits_here = (beat_valid && beat_index == '0) ? fits_now : fits;
  // A datagram has come long after its first beat, and before that of the next.
  assign has_room = fits;

  always_ff @(posedge clk) begin
    if (beat_valid && fits_here) begin
      memory[{header.channel, SLOT_BITS'(delivered[header.channel]), beat_index}] <= beat_data;
      if (beat_index == '0) begin
        labels[{header.channel, SLOT_BITS'(delivered[header.channel])}] <= header.label;
      end
    end
    fits <= fits_here && !rst;
  end
  logic unused;
  assign unused = &{1'b0, header.number};

  // --- Out: a clock for the choice, then a beat each clock -----------------------------------
  logic [CHANNELS-1:0] waiting, chosen;
  logic [2:0] index, channel;
  logic busy, begins;
  logic [BEAT_BITS-1:0] at;
  logic [SLOT_BITS-1:0] slot;

  always_comb begin
    for (int unsigned n = 0; n < CHANNELS; n++) waiting[n] = delivered[n] != freed[n];
  end

  crosslane_turn #(
      .COUNT(CHANNELS)
  ) turn (
      .clk,
      .rst,
      .valid(waiting & m_ready),
      .taken(begins ? chosen : '0),
      .chosen,
      .index
  );

  assign begins = !busy && chosen != '0;
  assign frees = busy && at == BEAT_BITS'(BEATS - 1);
  assign frees_channel = channel;
  assign slot = SLOT_BITS'(freed[channel]);

  always_ff @(posedge clk) begin
    if (begins) begin
      busy <= 1'b1;
      channel <= index;
    end
    at <= busy ? at + 1'b1 : '0;
    if (frees) busy <= 1'b0;
    m_valid <= busy;
    m_first <= busy && at == '0;
    m_last <= frees;
    m_channel <= channel;
    m_data <= memory[{channel, slot, at}];
    m_label <= labels[{channel, slot}];
    if (rst) begin
      busy <= 1'b0;
      m_valid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  if (CHANNEL_DATAGRAMS != 1 << SLOT_BITS || CHANNEL_DATAGRAMS < 2 || CHANNEL_DATAGRAMS > 512)
  begin : g_channel
    $error("CHANNEL_DATAGRAMS is a power of two, 2 to 512");
  end
`endif
endmodule
