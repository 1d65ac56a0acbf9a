// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The reference user circuit: selects the source of each write channel.
//
//   h2c 0 ----+----------------> c2h 0  <-- generator       c2h 1.., peer 1..: a generator each
//             |      +---------> c2h 0
//             +------|---------> peer 0 <-- generator       h2c 1..: drained
//             |      +---------> peer 0 <-- command port, ping-pong
//   lanes ----|------+
//             +--> drained and checked, if not routed
//
// If C2H and peer both select the H2C stream or the lane, C2H gets it and peer gets nothing.

module crosslane_user
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS   = 256,
    parameter  int unsigned H2C         = 1,                       // from 1
    parameter  int unsigned C2H         = 1,                       // from 1
    parameter  int unsigned PEER        = 1,
    parameter  int unsigned LANES       = 8,
    localparam int unsigned WRITERS     = C2H + PEER,
    localparam int unsigned LANE_PLACES = (LANES > 0) ? LANES : 1
) (
    input logic clk,
    input logic rst,
    input logic [63:0] time_i,  // clocks
    // All but interconnect_written: the settings matter, not when they were written.
    // verilator lint_off UNUSEDSIGNAL
    input user_settings_t user_settings,
    // verilator lint_on UNUSEDSIGNAL
    output user_readings_t user_readings,
    output logic user_busy,  // H2C data are drained
    // Feeds of the H2C channels.
    input logic [H2C-1:0][15:0] h2c_available,
    output logic [H2C-1:0] h2c_move,
    output logic [H2C-1:0] h2c_take,
    output logic [H2C-1:0][5:0] h2c_take_back,
    output logic [H2C-1:0][6:0] h2c_take_bytes,
    output logic [H2C-1:0] h2c_goes_on,
    // Only the first channel's are looked at.
    // verilator lint_off UNUSEDSIGNAL
    input logic [H2C-1:0][DATA_BITS-1:0] h2c_data,
    // verilator lint_on UNUSEDSIGNAL
    // verilator lint_off UNUSEDSIGNAL
    input packet_end_t [H2C-1:0] h2c_end,
    // verilator lint_on UNUSEDSIGNAL
    output logic [H2C-1:0] h2c_drained,  // it has no consumer
    // Feed of the lanes.
    output logic [LANE_PLACES-1:0] lane_kept,
    output logic [3:0] lane_select,
    input logic [15:0] lane_available,
    output logic lane_move,
    output logic lane_take,
    output logic [5:0] lane_take_back,
    output logic [6:0] lane_take_bytes,
    output logic lane_goes_on,
    input logic [DATA_BITS-1:0] lane_data,
    input logic received_valid,
    input logic [3:0] received_lane,
    input logic [12:0] received_bytes,
    // Feeds for the write channels: C2H, then peer.
    output logic [WRITERS-1:0][15:0] write_available,
    input logic [WRITERS-1:0] write_move,
    input logic [WRITERS-1:0] write_take,
    input logic [WRITERS-1:0][5:0] write_take_back,
    input logic [WRITERS-1:0][6:0] write_take_bytes,
    // Of the first ones only.
    // verilator lint_off UNUSEDSIGNAL
    input logic [WRITERS-1:0] write_goes_on,
    // verilator lint_on UNUSEDSIGNAL
    output logic [WRITERS-1:0][DATA_BITS-1:0] write_data,
    output packet_end_t [WRITERS-1:0] write_end,  // packets of the first one only
    // Of peer channel 0: these data are to be the generator's.
    // verilator lint_off UNUSEDSIGNAL
    input logic [WRITERS-1:0] write_generated,
    // verilator lint_on UNUSEDSIGNAL
    // Command port of peer channel 0.
    output logic command_valid,
    input logic command_ready,
    output descriptor_t command_descriptor,
    input logic command_done,
    input logic message_begun,
    input logic peer_stopped
);
  localparam int unsigned BYTES = DATA_BITS / 8;
  localparam int unsigned COUNT_BITS = $clog2(BYTES / 4 + 1);
  localparam bit HAS_PEER = PEER > 0;
  localparam int unsigned PEER_PLACE = HAS_PEER ? C2H : 0;

  // --- Crossbar ------------------------------------------------------------------------------
  stream_e c2h_source, peer_source, peer_wanted;
  stream_e [WRITERS-1:0] source;
  logic generated, h2c_unrouted, lane_routed;

  assign c2h_source = stream_e'(user_settings.c2h_source);
  assign peer_wanted = stream_e'(user_settings.peer_source);
  assign generated = HAS_PEER && write_generated[PEER_PLACE];
  assign h2c_unrouted = c2h_source != STREAM_H2C && peer_wanted != STREAM_H2C;
  assign lane_routed = c2h_source == STREAM_LANE || peer_wanted == STREAM_LANE;
  assign lane_select = user_settings.lane;

  always_comb begin
    peer_source = peer_wanted;
    if (peer_wanted == c2h_source && peer_wanted != STREAM_GENERATOR) peer_source = STREAM_NOTHING;
    for (int unsigned n = 0; n < LANE_PLACES; n++) begin
      lane_kept[n] = lane_routed && lane_select == 4'(n);
    end
    source = {WRITERS{STREAM_GENERATOR}};
    if (HAS_PEER && !generated) source[PEER_PLACE] = peer_source;
    source[0] = c2h_source;
  end

  for (genvar n = 0; n < WRITERS; n++) begin : g_writer
    crosslane_source_select #(
        .DATA_BITS(DATA_BITS)
    ) select (
        .*,
        .source(source[n]),
        .generator_restart(user_settings.generator_restart),
        .generator_seed(user_settings.generator_seed),
        .write_available(write_available[n]),
        .write_move(write_move[n]),
        .write_take(write_take[n]),
        .write_take_back(write_take_back[n]),
        .write_take_bytes(write_take_bytes[n]),
        .write_data(write_data[n]),
        .h2c_available(h2c_available[0]),
        .h2c_data(h2c_data[0])
    );
  end

  // --- Owners of the H2C stream and of the lane ------------------------------------------------
  // A channel keeps its feed while a message of the ping-pong takes from the generator: data of
  // earlier takes are still in the pipeline.
  logic drain_take;
  logic [6:0] drain_bytes;

  always_comb begin
    write_end = '0;
    if (c2h_source == STREAM_H2C) write_end[0] = h2c_end[0];
    h2c_move[0] = 1'b1;
    h2c_take[0] = drain_take;
    h2c_take_back[0] = '0;
    h2c_take_bytes[0] = drain_bytes;
    h2c_goes_on = '0;
    h2c_drained = '1;
    h2c_drained[0] = h2c_unrouted;
    if (c2h_source == STREAM_H2C) begin
      h2c_move[0] = write_move[0];
      h2c_take[0] = write_take[0];
      h2c_take_back[0] = write_take_back[0];
      h2c_take_bytes[0] = write_take_bytes[0];
      h2c_goes_on[0] = write_goes_on[0];
    end else if (HAS_PEER && peer_source == STREAM_H2C) begin
      h2c_move[0] = write_move[PEER_PLACE];
      h2c_take[0] = write_take[PEER_PLACE] && !generated;
      h2c_take_back[0] = write_take_back[PEER_PLACE];
      h2c_take_bytes[0] = write_take_bytes[PEER_PLACE];
      h2c_goes_on[0] = write_goes_on[PEER_PLACE] && !generated;
    end
    for (int unsigned n = 1; n < H2C; n++) begin
      h2c_move[n] = 1'b1;
      h2c_take[n] = h2c_available[n] != '0;
      h2c_take_back[n] = '0;
      h2c_take_bytes[n] = (h2c_available[n] >= 16'(BYTES)) ? 7'(BYTES) : 7'(h2c_available[n]);
    end
    lane_move = 1'b1;
    lane_take = 1'b0;
    lane_take_back = write_take_back[0];
    lane_take_bytes = write_take_bytes[0];
    lane_goes_on = 1'b0;
    if (c2h_source == STREAM_LANE) begin
      lane_move = write_move[0];
      lane_take = write_take[0];
      lane_goes_on = write_goes_on[0];
    end else if (HAS_PEER && peer_source == STREAM_LANE) begin
      lane_move = write_move[PEER_PLACE];
      lane_take = write_take[PEER_PLACE] && !generated;
      lane_take_back = write_take_back[PEER_PLACE];
      lane_take_bytes = write_take_bytes[PEER_PLACE];
      lane_goes_on = write_goes_on[PEER_PLACE] && !generated;
    end
  end

  // --- Streams without a consumer ------------------------------------------------------------
  logic shown;
  logic [COUNT_BITS-1:0] shown_words;

  crosslane_drain #(
      .DATA_BITS(DATA_BITS)
  ) drain (
      .*,
      .leads_nowhere(h2c_unrouted),
      .feed_available(h2c_available[0]),
      .feed_move(h2c_move[0]),
      .take(drain_take),
      .take_bytes(drain_bytes),
      .busy(user_busy)
  );

  crosslane_checker #(
      .DATA_BITS(DATA_BITS),
      .STREAMS  (1)
  ) h2c_checker (
      .clk,
      .rst,
      .enable(user_settings.h2c_check),
      .restart(user_settings.h2c_check_restart),
      .seed(user_settings.h2c_check_seed),
      .valid(shown),
      .stream(1'b0),
      .words(shown_words),
      .data(h2c_data[0]),
      .errors(user_readings.h2c_check_errors),
      .first(user_readings.h2c_check_first)
  );

  // --- Command port and ping-pong ------------------------------------------------------------
  logic ping_ready, ping_taken;

  crosslane_command_port command_port (
      .*,
      .address(user_settings.command_address),
      .bytes(user_settings.command_bytes),
      .start(user_settings.command_start),
      .busy(user_readings.command_busy),
      .done(user_readings.command_done),
      .stopped(peer_stopped),
      .descriptor(command_descriptor)
  );

  crosslane_ping ping (
      .*,
      .start(user_settings.ping_start),
      .rounds(user_settings.ping_rounds),
      .stop(peer_stopped),
      .message_bytes(user_settings.command_bytes),
      .lane(user_settings.lane),
      .ready(ping_ready),
      .taken(ping_taken),
      .begun(message_begun),
      .done(user_readings.ping_done),
      .sum(user_readings.ping_sum),
      .least(user_readings.ping_least),
      .most(user_readings.ping_most)
  );

`ifndef SYNTHESIS
  if (H2C < 1 || C2H < 1 || LANES > 16) begin : g_parameters
    $error("one H2C and one C2H channel at least, 16 lanes at most");
  end
`endif
endmodule
