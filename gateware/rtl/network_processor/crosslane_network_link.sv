// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A link of a network processor: lanes and end of a torus link, its put aperture, its receive
// buffers, generator and checker of its tests. Puts go into the link's queues; what the link
// delivers waits for the receive engine, or is checked.

module crosslane_network_link
  import crosslane_pkg::*;
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned PUT_SLOTS = 8,
    parameter int unsigned GET_SLOTS = 64,  // these as in crosslane_get_engine
    parameter int unsigned TAGS = 32,
    parameter int unsigned MAX_READ = 512,
    parameter int unsigned STAGING_BYTES = 4096,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter int unsigned LANES = 8,  // these as in crosslane_link_port
    parameter int unsigned SYMBOLS = 2,
    parameter int unsigned CHANNEL_DATAGRAMS = 64,
    parameter int unsigned QUEUE_DATAGRAMS = 2,
    parameter int unsigned RETRY_DATAGRAMS = 32,
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 8,
    parameter int unsigned ACKNOWLEDGE_WITHIN = 204,
    parameter int unsigned RETRY_TIMEOUT = 918,
    parameter int unsigned REFRESH = 1598,
    parameter bit ROUTED = 1'b0,
    parameter bit LONG = 1'b0,  // datagrams carry 256 B, not 128 B
    parameter bit BLOCKS = 1'b0,  // 64b/66b: words of 66 bits, and no SYMBOLS
    localparam int unsigned WORD_BITS = word_bits(BLOCKS, SYMBOLS),
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned WITHIN = $clog2(put_stride(LONG) / BYTES),
    localparam int unsigned PUT_BITS = 3 + $clog2(PUT_SLOTS),
    localparam int unsigned SLOT_BITS = $clog2(CHANNEL_DATAGRAMS),
    localparam int unsigned POSITION_BITS = 3 + SLOT_BITS + $clog2(payload_bytes(LONG)),
    localparam int unsigned BEAT_BITS = $clog2(payload_bytes(LONG) / LANES),
    localparam int unsigned THROUGH_BITS = 1 + SLOT_BITS + BEAT_BITS
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input logic [2:0] link,  // its number, constant
    input logic enable,  // falls: forgets everything
    input logic [1:0] mode,  // changes: forgets everything
    input logic retrain,  // pulse
    input logic generates,
    input logic checks,
    input logic [15:0] first_session,
    // `resets`, level: software has reset the network processor. `forget`: the receive engine is to
    // end all of the link, then pulses `forgotten`; the link goes on when none of its datagrams
    // are `held` by the writer.
    input logic resets,
    output logic forget,
    input outcome_e forget_outcome,
    input logic forgotten,
    input logic held,
    output logic takes,  // datagrams are taken: the link is up or trains
    output logic changes,  // its mode: requests wait
    output logic quiet,  // nothing is being forgotten, no get is under way
    output logic settled,  // off, or up and with nothing to send, ever
    // Words of the put aperture.
    input logic word_valid,
    input logic [PUT_BITS-1:0] word_slot,
    input logic [WITHIN-1:0] word_within,
    input logic word_last,
    input logic [DATA_BITS-1:0] word_data,
    input logic [BYTES-1:0] word_enables,
    output logic put_accepted,
    output logic put_refused,
    output logic [CHANNELS-1:0][31:0] put_counts,
    output logic [CHANNELS-1:0] put_counted,
    // Gets: requests, reads, completions, notifications, as in crosslane_get_engine.
    input torus_t torus,
    input logic request_valid,
    output logic request_ready,
    input request_t request,
    input logic [5:0] routed_tag,
    input logic is_lost,
    output logic looked,
    output logic begun,
    output logic released,
    output logic [5:0] released_name,
    output logic m_read_valid,
    input logic m_read_ready,
    output tlp_header_t m_read_header,
    input logic s_completion_valid,
    input tlp_header_t s_completion_header,
    input logic s_completion_first,
    input logic s_completion_last,
    input logic [DATA_BITS-1:0] s_completion_data,
    input logic s_completion_aborted,
    output logic write_valid,
    input logic write_ready,
    output write_t write,
    output logic get_accepted,
    output logic get_refused,
    // Datagrams delivered, as in crosslane_receive_store.
    output logic arrived_valid,
    input logic arrived_ready,
    output arrived_t arrived,
    output logic arrived_is_coming,
    output coming_t coming,
    input logic frees,
    input logic [2:0] frees_channel,
    input logic [SLOT_BITS-1:0] frees_slot,
    input logic read_enable,
    input logic [POSITION_BITS-1:0] read_position,
    output logic [DATA_BITS-1:0] read_data,
    // Datagrams on their way through, from buffers of this link and to its queues, as in
    // crosslane_through.
    output logic forgets,
    input logic through_clear,
    input logic through_enable,
    input logic [THROUGH_BITS-1:0] through_position,
    output logic [8*LANES-1:0] through_data,
    input logic through_frees,
    output logic through_frees_ready,
    input logic through_frees_channel,
    input logic [SLOT_BITS-1:0] through_frees_slot,
    output logic [1:0] through_room,
    input logic [1:0] through_on_way,
    input logic [1:0] through_waits,
    input logic through_may_begin,
    input logic through_valid,
    output logic through_ready,
    input logic [2:0] through_channel,
    input label_t through_label,
    input logic [8*LANES-1:0] through_beat,
    // Of the transceivers, as in crosslane_link_port.
    output logic tx_enable,
    output logic tx_begins_word,
    output logic [LANES-1:0][WORD_BITS-1:0] tx_words,
    input logic rx_clk,
    input logic rx_rst,
    input logic [LANES-1:0] rx_detected,
    input logic [LANES-1:0][WORD_BITS-1:0] rx_words,
    output port_state_e state,
    output logic [9:0] far_channel_datagrams,
    output lane_counters_t lane_counters,
    output logic [LANES-1:0][31:0] lane_errors,
    output link_counters_t counters,
    output logic [31:0] checked,  // datagrams of the generator that are right
    output logic [31:0] wrong
);
  // --- Forgetting ----------------------------------------------------------------------------
  // All of the link goes, in the link and in the receive engine, before it may train again.
  logic forgetting, swept, gets_swept, gets_forgotten, gets_quiet;
  logic made_valid, is_checked, checked_frees;
  logic is_disabled, was_failed, begins, is_normal, is_sink, is_looped, is_changing;
  // The other end did not fit, and again since: it has been reset, and there is more that does not.
  logic has_failed, keeps_failing;
  logic core_settled;
  logic [1:0] mode_now;
  port_state_e lanes_state;

  assign begins = resets || (!enable && !is_disabled) || mode != mode_now ||
      (lanes_state == PORT_FAILED && !was_failed);
  assign forget = forgetting && !swept;
  assign forgets = forgetting;
  assign quiet = !forgetting && !begins && gets_quiet;
  assign settled = !enable || is_sink || (state == PORT_UP && core_settled);
  assign is_sink = mode_now == MODE_SINK;
  assign is_looped = mode_now == MODE_LOOPBACK;
  assign is_normal = !is_sink && !is_looped;
  assign changes = mode != mode_now || (is_changing && (forgetting || (enable && is_disabled)));
  assign takes = !forgetting &&
      (!is_normal || (enable && !is_disabled && lanes_state != PORT_FAILED && !keeps_failing));

  always_ff @(posedge clk) begin
    mode_now <= mode;
    is_changing <= changes;
    was_failed <= lanes_state == PORT_FAILED;
    if (forgotten) swept <= 1'b1;
    if (gets_forgotten) gets_swept <= 1'b1;
    if (swept && gets_swept && !held && through_clear && !made_valid) forgetting <= 1'b0;
    if (!forgetting && enable && !resets) is_disabled <= 1'b0;
    // Lanes that have failed begin anew, with another session.
    if (resets || !enable || mode != mode_now || lanes_state == PORT_FAILED) is_disabled <= 1'b1;
    if (lanes_state == PORT_FAILED && !was_failed) begin
      has_failed <= 1'b1;
      keeps_failing <= has_failed;
    end
    if (resets || !enable || mode != mode_now || lanes_state == PORT_UP) begin
      has_failed <= 1'b0;
      keeps_failing <= 1'b0;
    end
    if (begins) begin
      forgetting <= 1'b1;
      swept <= 1'b0;
      gets_swept <= 1'b0;
    end
    if (rst) begin
      forgetting    <= 1'b0;
      gets_swept    <= 1'b0;
      swept         <= 1'b0;
      is_disabled   <= 1'b1;
      has_failed    <= 1'b0;
      keeps_failing <= 1'b0;
      was_failed    <= 1'b0;
      mode_now      <= MODE_NORMAL;
      is_changing   <= 1'b0;
    end
  end

  // The lanes are for mode normal: a sink looks as if they trained, a loopback as if they were up.
  always_comb begin
    state = has_failed && lanes_state != PORT_UP ? PORT_ALIGN : lanes_state;
    if (keeps_failing) state = PORT_FAILED;
    if (is_sink && enable) state = PORT_ALIGN;
    if (is_looped) state = forgetting ? PORT_ALIGN : PORT_UP;
  end

  // --- Lanes and end -------------------------------------------------------------------------
  logic end_rst, core_rst, link_up, end_ready, end_begins, column_restart, column_valid;
  logic [LANES-1:0][7:0] end_symbols, column_symbols, looped_symbols;
  logic [LANES-1:0] end_control, column_control, column_error, looped_control;
  link_events_t column_events;
  training_set_t column_set;
  logic [2:0] timeouts_in_a_row;
  logic [9:0] lanes_far_datagrams;
  link_counters_t core_counters;
  logic s_valid, s_ready, core_ready;
  logic [2:0] s_channel;
  label_t s_label;
  logic [8*LANES-1:0] s_data;
  logic [CHANNELS-1:0] room, room_more, core_room, core_room_more;
  header_t header;
  logic beat_valid, has_room, delivers;
  logic [BEAT_BITS-1:0] beat_index;
  logic [  8*LANES-1:0] beat_data;
  logic [CHANNELS-1:0][9:0] delivered, freed;
  logic place_frees;
  logic [2:0] place_channel;
  logic [SLOT_BITS-1:0] place_slot, slot, checked_slot;

  assign core_rst = rst || forgetting || (end_rst && is_normal);
  assign far_channel_datagrams = is_looped ? 10'(CHANNEL_DATAGRAMS) : lanes_far_datagrams;

  // In a loopback the end has its own columns, and is its own other end.
  always_ff @(posedge clk) begin
    looped_symbols <= end_symbols;
    looped_control <= end_control;
  end

  crosslane_link_lanes #(
      .LANES(LANES),
      .SYMBOLS(SYMBOLS),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .LONG(LONG),
      .BLOCKS(BLOCKS)
  ) lanes (
      .enable(enable && !is_disabled && is_normal),
      .state(lanes_state),
      .far_channel_datagrams(lanes_far_datagrams),
      .counters_rst(rst || resets),
      .counters(lane_counters),
      .session(),
      .session_seen(),
      .progress(),
      .errors(lane_errors),
      .turned(),
      .*
  );

  crosslane_link_core #(
      .LANES(LANES),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
      .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
      .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
      .ACKNOWLEDGE_WITHIN(ACKNOWLEDGE_WITHIN),
      .RETRY_TIMEOUT(RETRY_TIMEOUT),
      .REFRESH(REFRESH),
      .LONG(LONG),
      // Neither source pauses within a datagram.
      .STEADY(1'b1)
  ) core (
      .rst           (core_rst),
      .counters_rst  (rst || resets),
      .link_up       (is_normal ? link_up : is_looped && !forgetting),
      .s_valid       (s_valid && !is_sink),
      .s_ready       (core_ready),
      .room          (core_room),
      .room_more     (core_room_more),
      .counters      (core_counters),
      .tx_ready      (end_ready || is_looped),
      .tx_symbols    (end_symbols),
      .tx_control    (end_control),
      .tx_begins     (end_begins),
      .rx_restart    (column_restart && !is_looped),
      .rx_valid      (column_valid || is_looped),
      .rx_symbols    (is_looped ? looped_symbols : column_symbols),
      .rx_control    (is_looped ? looped_control : column_control),
      .rx_error      (is_looped ? '0 : column_error),
      .rx_events     (column_events),
      .rx_set        (column_set),
      .frees         (place_frees),
      .frees_channel (place_channel),
      .in_error      (),
      .is_settled    (core_settled),
      .unacknowledged(),
      .expected      (),
      .credit        (),
      .*
  );

  // Places that the writer frees come first: it does not wait.
  assign place_frees = frees || checked_frees || through_frees;
  assign through_frees_ready = !frees && !checked_frees;
  always_comb begin
    {place_channel, place_slot} = {2'b11, through_frees_channel, through_frees_slot};
    if (checked_frees) {place_channel, place_slot} = {PATTERN_CHANNEL, checked_slot};
    if (frees) {place_channel, place_slot} = {frees_channel, frees_slot};
  end

  // --- Tests of the link: datagrams of the pattern ----------------------------------------------
  // The checker takes its channel's datagrams out of the buffer as they are delivered.
  assign is_checked = checks && header.channel == PATTERN_CHANNEL;

  crosslane_link_checker #(
      .LANES(LANES)
  ) checker_i (
      .rst      (rst || resets),
      .anew     (!checks),
      .m_valid  (beat_valid),
      .m_channel(header.channel),
      .m_label  (label_t'(header.label)),
      .m_first  (beat_index == '0),
      .counts   (delivers && is_checked),
      .m_data   (beat_data),
      .right    (checked),
      .wrong    (wrong),
      .*
  );

  always_ff @(posedge clk) begin
    if (!frees) checked_frees <= 1'b0;
    if (delivers && is_checked) begin
      checked_frees <= 1'b1;
      checked_slot  <= slot;
    end
    if (core_rst) checked_frees <= 1'b0;
  end

  // --- The generator, puts, gets and what goes through: a datagram each, by turns -----------------
  localparam int unsigned SOURCES = ROUTED ? 4 : 3;
  logic put_valid, put_ready, get_valid, get_ready, made_ready, made_begins;
  logic [2:0] put_channel, get_channel, made_channel;
  label_t put_label, get_label, made_label;
  logic [8*LANES-1:0] put_data, get_data, made_data;
  logic [CHANNELS-1:0] put_on_way, get_on_way, get_waits;
  logic put_may_begin, get_may_begin, others_may_begin, is_within;
  logic [3:0] source, source_now, all_valid;  // generator, put, get, through
  logic [SOURCES-1:0] source_valid, source_chosen;
  logic [BEAT_BITS-1:0] s_at;

  assign all_valid = {through_valid, get_valid, put_valid, made_valid};
  assign source_valid = SOURCES'(all_valid);
  crosslane_turn #(
      .COUNT(SOURCES)
  ) source_turn (
      .clk,
      .rst,
      .valid (source_valid),
      .taken ((s_valid && s_ready && s_at == '1) ? SOURCES'(source) : '0),
      .chosen(source_chosen),
      .index ()
  );

  // Within a datagram the source stays.
  assign source  = is_within ? source_now : 4'(source_chosen);
  assign s_valid = (source & all_valid) != '0;
  always_comb begin
    {s_channel, s_label, s_data} = {put_channel, put_label, put_data};
    if (source[0]) {s_channel, s_label, s_data} = {made_channel, made_label, made_data};
    if (source[2]) {s_channel, s_label, s_data} = {get_channel, get_label, get_data};
    if (source[3]) {s_channel, s_label, s_data} = {through_channel, through_label, through_beat};
  end
  assign {through_ready, get_ready, put_ready, made_ready} =
      (source & {4{s_ready}}) | {ROUTED && forgetting, 2'b00, forgetting};

  // A sink takes all, and counts it.
  logic [31:0] sunk;
  assign s_ready = core_ready || is_sink;
  always_comb begin
    room = core_room | {CHANNELS{is_sink}};
    room_more = core_room_more | {CHANNELS{is_sink}};
    if (made_valid) begin
      room[PATTERN_CHANNEL] = room_more[PATTERN_CHANNEL];
      room_more[PATTERN_CHANNEL] = 1'b0;
    end
  end

  // Places of a queue that another source will take, or has taken, are not there. Gets and what goes
  // through take turns: one is left for the other.
  logic [CHANNELS-1:0] get_on_way_more, get_room, get_room_more;
  logic [1:0] is_gets_turn, through_leaves, get_leaves;
  assign through_leaves = through_on_way | (through_waits & ~is_gets_turn);
  assign get_leaves = get_on_way[7:6] | (get_waits[7:6] & is_gets_turn);
  // In one clock one of them begins, for `on_way` is of the next.
  assign others_may_begin = put_may_begin || through_may_begin;

  always_comb begin
    get_room = room;
    get_room_more = room_more;
    for (int unsigned at = 0; at < 2; at++) begin
      if (through_leaves[at]) begin
        get_room[6+at] = room_more[6+at] && !(through_on_way[at] && through_waits[at]);
        get_room_more[6+at] = 1'b0;
      end
      unique case ({
        through_on_way[at], get_leaves[at]
      })
        2'b00: through_room[at] = room[6+at];
        2'b01:
        through_room[at] = room_more[6+at] && !(get_on_way[6+at] &&
            (get_on_way_more[6+at] || (get_waits[6+at] && is_gets_turn[at])));
        2'b10: through_room[at] = room_more[6+at];
        default: through_room[at] = 1'b0;
      endcase
    end
  end

  // The generator begins a datagram if nothing else is to be sent, and nothing waits for its place
  // in the queue.
  assign made_begins = generates && !made_valid && !forgetting && (is_looped || link_up) &&
      {through_valid, get_valid, put_valid, get_may_begin, others_may_begin} == '0 &&
      core_room[PATTERN_CHANNEL] && !put_on_way[PATTERN_CHANNEL] && !through_on_way[1] &&
      !get_on_way[PATTERN_CHANNEL] && !get_waits[PATTERN_CHANNEL] && !through_waits[1];

  crosslane_link_generator #(
      .LANES(LANES),
      .LONG (LONG)
  ) generator (
      .rst      (rst || resets),
      .begins   (!generates),
      .seed     ('0),
      .runs     (made_begins),
      .s_valid  (made_valid),
      .s_ready  (made_ready),
      .s_channel(made_channel),
      .s_label  (made_label),
      .s_data   (made_data),
      .sent     (),
      .*
  );

  always_comb begin
    counters = core_counters;
    counters.sent += sunk;
  end

  always_ff @(posedge clk) begin
    if (s_valid && s_ready) begin
      s_at <= s_at + 1'b1;
      is_within <= s_at != '1;
      source_now <= source;
      // Only routed datagrams have these channels, and the generator's.
      if (s_channel >= ROUTED_CHANNEL && !source[0]) is_gets_turn[s_channel[0]] <= source[3];
    end
    sunk <= sunk + 32'(s_valid && is_sink && s_at == '1);
    if (core_rst) begin
      s_at <= '0;
      is_within <= 1'b0;
      is_gets_turn <= '0;
    end
    if (rst || resets) sunk <= '0;
  end

  crosslane_get_engine #(
      .DATA_BITS(DATA_BITS),
      .LANES(LANES),
      .GET_SLOTS(GET_SLOTS),
      .TAGS(TAGS),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS),
      .ROUTED(ROUTED),
      .LONG(LONG)
  ) get_engine (
      .idle       (),
      .quiet      (gets_quiet),
      .forget     (forgetting && !gets_swept),
      .forgotten  (gets_forgotten),
      .room       (get_room & ~put_on_way),
      .room_more  (get_room_more & ~put_on_way),
      .on_way     (get_on_way),
      .on_way_more(get_on_way_more),
      .waits      (get_waits),
      .may_begin  (get_may_begin),
      .others_may (others_may_begin),
      .m_valid    (get_valid),
      .m_ready    (get_ready || forgetting),
      .m_channel  (get_channel),
      .m_label    (get_label),
      .m_data     (get_data),
      .accepted   (get_accepted),
      .refused    (get_refused),
      .unexpected (),
      .timed_out  (),
      .*
  );

  // --- Puts and receive buffers --------------------------------------------------------------
  crosslane_put_window #(
      .DATA_BITS(DATA_BITS),
      .LANES(LANES),
      .SLOTS(PUT_SLOTS),
      .LONG(LONG)
  ) put_window (
      .rst       (rst || resets),
      .reserved  (ROUTED && torus.is_there),
      .forget    (forgetting),
      .accepted  (put_accepted),
      .refused   (put_refused),
      .counts    (put_counts),
      .counted   (put_counted),
      .room      (room & ~get_on_way & ~{through_on_way, 6'd0}),
      .on_way    (put_on_way),
      .may_begin (put_may_begin),
      .others_may(get_may_begin || generates),
      .m_valid   (put_valid),
      .m_ready   (put_ready),
      .m_channel (put_channel),
      .m_label   (put_label),
      .m_data    (put_data),
      .*
  );

  crosslane_receive_store #(
      .DATA_BITS(DATA_BITS),
      .LANES(LANES),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .ROUTED(ROUTED),
      .LONG(LONG)
  ) store (
      .rst          (core_rst),
      .frees        (place_frees),
      .frees_channel(place_channel),
      .frees_slot   (place_slot),
      .m_valid      (arrived_valid),
      .m_ready      (arrived_ready),
      .m_arrived    (arrived),
      .m_is_coming  (arrived_is_coming),
      .tells        (delivers && !is_checked),
      .*
  );

`ifndef SYNTHESIS
  // The writer frees no places for as long as a datagram takes.
  always_ff @(posedge clk) begin
    if (!rst && delivers && is_checked) assert (!(checked_frees && frees));
  end
`endif
endmodule
