// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// One end of a torus link above its lanes: datagrams on one side, columns of symbols on the other.
// Each datagram is delivered once and in the order of its channel, whatever happens to columns.
// Read first: docs/torus-link.md. Times are in clocks, a clock for each column.

module crosslane_link_end
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES = 8,  // 1, 4 or 8
    parameter int unsigned CHANNEL_DATAGRAMS = 64,  // receive buffers: power of two, 2 to 512
    parameter int unsigned QUEUE_DATAGRAMS = 2,  // of each channel: a power of two, from 2
    parameter int unsigned RETRY_DATAGRAMS = 32,  // sent and not acknowledged, 1 to 127
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 8,  // that one ACK covers at most
    parameter int unsigned ACKNOWLEDGE_WITHIN = 204,  // longest wait of an ACK or a count
    parameter int unsigned RETRY_TIMEOUT = 918,  // until datagrams are sent again
    parameter int unsigned REFRESH = 1598,  // until COUNT and, at most, NACK are repeated
    parameter bit STEADY = 1'b0,  // as in crosslane_link_transmit
    parameter bit LONG = 1'b0  // datagrams carry 256 B, not 128 B
) (
    input  logic                               clk,
    input  logic                               rst,                    // forgets everything
    // Of the lanes: trained, with receive buffers there of this number of datagrams.
    input  logic                               link_up,
    input  logic           [         9:0]      far_channel_datagrams,
    // Datagrams to send: 128 B each, or 256 B; their label beside the first beat.
    input  logic                               s_valid,
    output logic                               s_ready,
    input  logic           [         2:0]      s_channel,
    input  label_t                             s_label,
    input  logic           [ 8*LANES-1:0]      s_data,
    output logic           [CHANNELS-1:0]      room,                   // channels that take one
    // Datagrams delivered. `m_ready`, a bit a channel: a whole one would be taken.
    output logic                               m_valid,
    input  logic           [CHANNELS-1:0]      m_ready,
    output logic           [         2:0]      m_channel,
    output label_t                             m_label,
    output logic                               m_first,
    output logic                               m_last,
    output logic           [ 8*LANES-1:0]      m_data,
    // Columns to send; `tx_begins` at the first of a frame and if idle.
    input  logic                               tx_ready,
    output logic           [   LANES-1:0][7:0] tx_symbols,
    output logic           [   LANES-1:0]      tx_control,
    output logic                               tx_begins,
    // Columns received, and what they ended, a clock later.
    input  logic                               rx_restart,             // hunts for the next frame
    input  logic                               rx_valid,
    input  logic           [   LANES-1:0][7:0] rx_symbols,
    input  logic           [   LANES-1:0]      rx_control,
    input  logic           [   LANES-1:0]      rx_error,
    output link_events_t                       rx_events,
    output training_set_t                      rx_set,
    // State and counters.
    output logic                               in_error,               // waits for a RESTART
    output logic                               is_settled,             // nothing to send, ever
    output logic           [         6:0]      unacknowledged,
    output logic           [         7:0]      expected,
    output logic           [         2:0]      timeouts_in_a_row,      // 7: or more
    output logic           [CHANNELS-1:0][9:0] credit,
    output link_counters_t                     counters
);
  localparam int unsigned BEAT_BITS = $clog2(payload_bytes(LONG) / LANES);
  header_t header;
  logic beat_valid, has_room, delivers, frees;
  logic [BEAT_BITS-1:0] beat_index;
  logic [  8*LANES-1:0] beat_data;
  logic [CHANNELS-1:0][9:0] delivered, freed;
  logic [2:0] frees_channel;

  crosslane_link_core #(
      .LANES(LANES),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
      .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
      .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
      .ACKNOWLEDGE_WITHIN(ACKNOWLEDGE_WITHIN),
      .RETRY_TIMEOUT(RETRY_TIMEOUT),
      .REFRESH(REFRESH),
      .STEADY(STEADY),
      .LONG(LONG)
  ) core (
      .counters_rst(rst),
      .room_more(),
      .*
  );

  crosslane_link_buffers #(
      .LANES(LANES),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .LONG(LONG)
  ) buffers (
      .*
  );

  // Delivered datagrams are counted in `delivered`.
  logic unused;
  assign unused = delivers;
endmodule
