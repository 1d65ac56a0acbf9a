// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A network processor: apertures of puts and credits on the host's side, links on the other.
// Read first: docs/network-processor.md, and README.md for the parts of it that are here.

module crosslane_network_processor
  import crosslane_pkg::*;
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,  // 64, 128, 256, 512
    parameter int unsigned LINKS = 1,  // 1 to 8
    parameter int unsigned PUT_SLOTS = 8,  // of each channel: power of two, 2 to 32
    parameter int unsigned CREDIT_SLOTS = 64,  // power of two, 2 to 256
    parameter int unsigned GET_SLOTS = 64,  // power of two, 2 to 256
    parameter int unsigned TAGS = 32,  // of each link: a power of two; all, to 256
    parameter int unsigned MAX_READ = 512,  // bytes: power of two, 128 to 4096
    parameter int unsigned STAGING_BYTES = 4096,  // of each channel: crosslane_get_engine
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter int unsigned MAX_WRITE = 256,  // bytes: power of two, 128 to 4096
    parameter int unsigned LANES = 8,  // these of each link: crosslane_link_port
    parameter int unsigned SYMBOLS = 2,
    parameter int unsigned CHANNEL_DATAGRAMS = 64,
    parameter int unsigned QUEUE_DATAGRAMS = 2,
    parameter int unsigned RETRY_DATAGRAMS = 32,
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 8,
    parameter int unsigned ACKNOWLEDGE_WITHIN = 204,
    parameter int unsigned RETRY_TIMEOUT = 918,
    parameter int unsigned REFRESH = 1598,
    parameter int unsigned NODES = 0,  // of the largest torus: a power of two; 0: does not route
    parameter bit LONG = 1'b0,  // datagrams carry 256 B, not 128 B
    parameter bit BLOCKS = 1'b0,  // 64b/66b: words of 66 bits, and no SYMBOLS
    localparam int unsigned WORD_BITS = word_bits(BLOCKS, SYMBOLS)
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    // Of registers: links, counts of puts. Pulses: `reset_i`, `counts_written` (put_counts_high).
    input logic reset_i,
    input logic [LINKS-1:0] enable,
    input logic [LINKS-1:0][1:0] mode,
    input logic [LINKS-1:0] retrain,
    input logic [LINKS-1:0] generates,
    input logic [LINKS-1:0] checks,
    input logic [15:0] first_session,
    input logic [63:0] counts_address,
    input logic counts_written,
    input extent_t [DIMENSIONS-1:0] extents,  // of the torus, and a pulse when they have changed
    input logic extents_written,
    input logic hold_routed,  // datagrams without a credit may take all places
    output logic quiet,
    output logic [LINKS-1:0] settled,  // each link: as in crosslane_network_link
    output network_counters_t counters,
    // TLPs.
    input logic s_rx_valid,
    output logic s_rx_ready,
    input tlp_header_t s_rx_header,
    input logic s_rx_first,
    input logic s_rx_last,
    input logic [DATA_BITS-1:0] s_rx_data,
    input logic s_completion_valid,  // completions do not wait
    input tlp_header_t s_completion_header,
    input logic s_completion_first,
    input logic s_completion_last,
    input logic [DATA_BITS-1:0] s_completion_data,
    input logic s_completion_aborted,
    output logic [LINKS-1:0] m_read_valid,
    input logic [LINKS-1:0] m_read_ready,
    output tlp_header_t [LINKS-1:0] m_read_header,
    output logic m_tx_valid,
    input logic m_tx_ready,
    output tlp_header_t m_tx_header,
    output logic m_tx_first,
    output logic m_tx_last,
    output logic [DATA_BITS-1:0] m_tx_data,
    // Of the transceivers of each link, as in crosslane_link_port.
    output logic [LINKS-1:0] tx_enable,
    output logic [LINKS-1:0] tx_begins_word,
    output logic [LINKS-1:0][LANES-1:0][WORD_BITS-1:0] tx_words,
    input logic [LINKS-1:0] rx_clk,
    input logic [LINKS-1:0] rx_rst,
    input logic [LINKS-1:0][LANES-1:0] rx_detected,
    input logic [LINKS-1:0][LANES-1:0][WORD_BITS-1:0] rx_words,
    output port_state_e [LINKS-1:0] state,
    output logic [LINKS-1:0][9:0] far_channel_datagrams,
    output lane_counters_t [LINKS-1:0] lane_counters,
    output logic [LINKS-1:0][LANES-1:0][31:0] lane_errors,
    output link_counters_t [LINKS-1:0] link_counters,
    output logic [LINKS-1:0][31:0] checked,
    output logic [LINKS-1:0][31:0] wrong
);
  localparam bit ROUTED = NODES != 0;
  localparam int unsigned BYTES = DATA_BITS / 8;
  localparam int unsigned LANE_BITS = $clog2(BYTES);
  localparam int unsigned PLACE_BITS = APERTURE_BITS + 32'(LONG);
  localparam int unsigned NUMBER_BITS = PLACE_BITS - LANE_BITS;
  localparam int unsigned SLOT_BITS = $clog2(CHANNEL_DATAGRAMS);
  localparam int unsigned POSITION_BITS = 3 + SLOT_BITS + $clog2(payload_bytes(LONG));

  // --- Between the links ---------------------------------------------------------------------
  localparam int unsigned THROUGH_BITS = 1 + SLOT_BITS + $clog2(payload_bytes(LONG) / LANES);
  torus_t torus;
  logic [LINKS-1:0] come_valid, come_ready;
  arrived_t [LINKS-1:0] come;
  // verilator lint_off UNUSEDSIGNAL
  logic [LINKS-1:0] come_is_coming;  // of routed ones
  coming_t [LINKS-1:0] coming;
  // verilator lint_on UNUSEDSIGNAL
  logic hop_known;
  hop_t hop;
  logic [LINKS-1:0] forgets, through_clear, through_enable, through_frees, through_frees_ready;
  logic [LINKS-1:0] through_frees_channel, through_may_begin, through_valid, through_ready;
  logic [LINKS-1:0] forwarded;
  logic [LINKS-1:0][THROUGH_BITS-1:0] through_position;
  logic [LINKS-1:0][8*LANES-1:0] through_data, through_beat;
  logic [LINKS-1:0][SLOT_BITS-1:0] through_frees_slot;
  logic [LINKS-1:0][1:0] through_room, through_on_way, through_waits;
  logic [LINKS-1:0][2:0] through_channel;
  label_t [LINKS-1:0] through_label;

  // --- Words of the apertures ----------------------------------------------------------------
  logic word_valid, word_ready, word_last;
  logic [2:0] word_bar;
  logic [NUMBER_BITS-1:0] word_number;
  // verilator lint_off UNUSEDSIGNAL
  logic [PLACE_BITS-1:0] place;  // words have no lowest bits
  // verilator lint_on UNUSEDSIGNAL
  logic [DATA_BITS-1:0] word_data;
  logic [BYTES-1:0] word_enables;

  crosslane_network_words #(
      .DATA_BITS (DATA_BITS),
      .PLACE_BITS(PLACE_BITS)
  ) words (
      .s_valid (s_rx_valid),
      .s_ready (s_rx_ready),
      .s_header(s_rx_header),
      .s_first (s_rx_first),
      .s_last  (s_rx_last),
      .s_data  (s_rx_data),
      .*
  );
  assign place = {word_number, LANE_BITS'(0)};

  // --- Reset by software ---------------------------------------------------------------------
  logic resetting;
  logic [LINKS-1:0] link_quiet, forget, forgotten, takes, changes, held;
  always_ff @(posedge clk) begin
    if (&link_quiet) resetting <= 1'b0;
    if (reset_i) resetting <= 1'b1;
    if (rst) resetting <= 1'b0;
  end

  // --- Requests ------------------------------------------------------------------------------
  localparam int unsigned CREDIT_BITS = $clog2(CREDIT_SLOTS);
  localparam int unsigned STRIDE = REQUEST_STRIDE / BYTES;
  localparam int unsigned WITHIN = (STRIDE > 1) ? $clog2(STRIDE) : 1;
  localparam int unsigned GET_BITS = $clog2(GET_SLOTS);
  logic is_get, get_found, get_space, queued_get_valid, queued_get_ready, get_valid, get_ready;
  logic is_lost, name_look;
  logic [ 5:0] routed_tag;
  logic [15:0] name_node;
  request_t found_get, queued_get, get;
  logic is_credit, found, request_space, request_valid, request_ready, request_waits;
  logic queued_valid;
  request_t found_request, request;

  // Addresses are those of the bus: bits above the size of the aperture are its place there.
  localparam int unsigned SLOTS_TOP = REQUESTS_APERTURE_BITS - 1;
  assign is_get = word_bar == REQUEST_BAR && place[SLOTS_TOP:6+GET_BITS] == '0;
  assign is_credit = word_bar == REQUEST_BAR &&
      place[SLOTS_TOP:6+CREDIT_BITS] == (SLOTS_TOP-5-CREDIT_BITS)'(
          CREDITS_BASE >> (6 + CREDIT_BITS));
  // A request of 32 B is held up by a full queue; software that keeps to its places never does it.
  assign word_ready = request_space && get_space;

  crosslane_request_window #(
      .DATA_BITS(DATA_BITS),
      .SLOTS(CREDIT_SLOTS)
  ) request_window (
      .clk,
      .rst        (rst || reset_i || resetting),
      .word_valid (word_valid && word_ready && is_credit),
      .word_slot  (place[6+:CREDIT_BITS]),
      .word_within((STRIDE > 1) ? place[LANE_BITS+:WITHIN] : '0),
      .word_last,
      .word_data,
      .word_enables,
      .found,
      .request    (found_request)
  );

  // Each place's request and its cancel.
  crosslane_fifo #(
      .WIDTH($bits(request_t)),
      .DEPTH(2 * CREDIT_SLOTS)
  ) requests (
      .clk,
      .rst    (rst || reset_i || resetting),
      .s_valid(found),
      .s_ready(request_space),
      .s_data (found_request),
      .m_valid(queued_valid),
      .m_ready(request_ready && !request_waits),
      .m_data (request),
      .count  ()
  );

  crosslane_request_window #(
      .DATA_BITS(DATA_BITS),
      .SLOTS(GET_SLOTS)
  ) get_window (
      .clk,
      .rst        (rst || reset_i || resetting),
      .word_valid (word_valid && word_ready && is_get),
      .word_slot  (place[6+:GET_BITS]),
      .word_within((STRIDE > 1) ? place[LANE_BITS+:WITHIN] : '0),
      .word_last,
      .word_data,
      .word_enables,
      .found      (get_found),
      .request    (found_get)
  );

  crosslane_fifo #(
      .WIDTH($bits(request_t)),
      .DEPTH(2 * GET_SLOTS)
  ) get_requests (
      .clk,
      .rst    (rst || reset_i || resetting),
      .s_valid(get_found),
      .s_ready(get_space),
      .s_data (found_get),
      .m_valid(queued_get_valid),
      .m_ready(queued_get_ready),
      .m_data (queued_get),
      .count  ()
  );

  // A request waits while the torus is not known, or the mode of its link changes.
  always_comb begin
    request_waits = torus.is_new;
    for (int unsigned at = 0; at < LINKS; at++) begin
      request_waits |= changes[at] && request.link == 3'(at) && !(ROUTED && request.routed);
    end
  end
  assign request_valid = queued_valid && !request_waits;

  // To the get engine of its link; link 0's refuses those of links that are not there.
  logic [LINKS-1:0] get_chosen, gets_ready, get_accepted, get_refused, looked, begun, released;
  logic [LINKS-1:0][5:0] released_names;
  always_comb begin
    for (int unsigned at = 0; at < LINKS; at++) begin
      get_chosen[at] = get_valid && !changes[at] &&
          (get.link == 3'(at) || (at == 0 && 4'(get.link) >= 4'(LINKS)));
    end
  end
  assign get_ready = |(get_chosen & gets_ready);

  // --- Links ---------------------------------------------------------------------------------
  localparam int unsigned PUT_BITS = 3 + $clog2(PUT_SLOTS);
  localparam int unsigned SLOT_FROM = $clog2(put_stride(LONG));
  localparam int unsigned LINK_FROM = SLOT_FROM + PUT_BITS;  // of the place in the put aperture
  localparam int unsigned LINK_BITS = (LINKS > 1) ? $clog2(LINKS) : 1;
  logic [LINKS-1:0] put_accepted, put_refused, arrived_valid, arrived_ready, frees;
  logic [LINKS-1:0][CHANNELS-1:0][31:0] put_counts;
  logic [LINKS-1:0][CHANNELS-1:0] put_counted;
  arrived_t [LINKS-1:0] arrived;
  logic [2:0] frees_channel;
  logic [SLOT_BITS-1:0] frees_slot;
  logic read_enable;
  logic [POSITION_BITS-1:0] read_position;
  logic [LINKS-1:0][DATA_BITS-1:0] read_data;

  // Work for the writer: of the receive engine, and notifications of gets.
  logic [LINKS:0] source_valid, source_ready;
  write_t [LINKS:0] source_write;
  outcome_e forget_outcome;
  assign forget_outcome = resetting ? OUTCOME_RESET : OUTCOME_LINK_DOWN;

  for (genvar n = 0; n < LINKS; n++) begin : g_link
    crosslane_network_link #(
        .DATA_BITS(DATA_BITS),
        .PUT_SLOTS(PUT_SLOTS),
        .GET_SLOTS(GET_SLOTS),
        .TAGS(TAGS),
        .MAX_READ(MAX_READ),
        .STAGING_BYTES(STAGING_BYTES),
        .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS),
        .LANES(LANES),
        .SYMBOLS(SYMBOLS),
        .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
        .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
        .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
        .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
        .ACKNOWLEDGE_WITHIN(ACKNOWLEDGE_WITHIN),
        .RETRY_TIMEOUT(RETRY_TIMEOUT),
        .REFRESH(REFRESH),
        .ROUTED(ROUTED),
        .LONG(LONG),
        .BLOCKS(BLOCKS)
    ) network_link (
        .clk,
        .rst,
        .link(3'(n)),
        .enable(enable[n] && !resetting),
        .mode(mode[n]),
        .retrain(retrain[n]),
        .generates(generates[n]),
        .checks(checks[n]),
        .first_session,
        .resets(reset_i),
        .forget(forget[n]),
        .function_i,
        .forget_outcome,
        .request_valid(get_chosen[n]),
        .request_ready(gets_ready[n]),
        .request(get),
        .torus,
        .routed_tag,
        .is_lost,
        .looked(looked[n]),
        .begun(begun[n]),
        .released(released[n]),
        .released_name(released_names[n]),
        .m_read_valid(m_read_valid[n]),
        .m_read_ready(m_read_ready[n]),
        .m_read_header(m_read_header[n]),
        .s_completion_valid,
        .s_completion_header,
        .s_completion_first,
        .s_completion_last,
        .s_completion_data,
        .s_completion_aborted,
        .write_valid(source_valid[n+1]),
        .write_ready(source_ready[n+1]),
        .write(source_write[n+1]),
        .get_accepted(get_accepted[n]),
        .get_refused(get_refused[n]),
        .forgotten(forgotten[n]),
        .held(held[n]),
        .takes(takes[n]),
        .changes(changes[n]),
        .quiet(link_quiet[n]),
        .settled(settled[n]),
        .word_valid(word_valid && word_ready && word_bar == PUT_BAR && !resetting &&
                    (LINKS == 1 || place[LINK_FROM+:LINK_BITS] == LINK_BITS'(n))),
        .word_slot(place[LINK_FROM-1:SLOT_FROM]),
        .word_within(place[SLOT_FROM-1:LANE_BITS]),
        .word_last,
        .word_data,
        .word_enables,
        .put_accepted(put_accepted[n]),
        .put_refused(put_refused[n]),
        .put_counts(put_counts[n]),
        .put_counted(put_counted[n]),
        .arrived_valid(come_valid[n]),
        .arrived_ready(come_ready[n]),
        .arrived(come[n]),
        .arrived_is_coming(come_is_coming[n]),
        .coming(coming[n]),
        .frees(frees[n]),
        .frees_channel,
        .frees_slot,
        .read_enable,
        .read_position,
        .read_data(read_data[n]),
        .forgets(forgets[n]),
        .through_clear(through_clear[n]),
        .through_enable(through_enable[n]),
        .through_position(through_position[n]),
        .through_data(through_data[n]),
        .through_frees(through_frees[n]),
        .through_frees_ready(through_frees_ready[n]),
        .through_frees_channel(through_frees_channel[n]),
        .through_frees_slot(through_frees_slot[n]),
        .through_room(through_room[n]),
        .through_on_way(through_on_way[n]),
        .through_waits(through_waits[n]),
        .through_may_begin(through_may_begin[n]),
        .through_valid(through_valid[n]),
        .through_ready(through_ready[n]),
        .through_channel(through_channel[n]),
        .through_label(through_label[n]),
        .through_beat(through_beat[n]),
        .tx_enable(tx_enable[n]),
        .tx_begins_word(tx_begins_word[n]),
        .tx_words(tx_words[n]),
        .rx_clk(rx_clk[n]),
        .rx_rst(rx_rst[n]),
        .rx_detected(rx_detected[n]),
        .rx_words(rx_words[n]),
        .state(state[n]),
        .far_channel_datagrams(far_channel_datagrams[n]),
        .lane_counters(lane_counters[n]),
        .lane_errors(lane_errors[n]),
        .counters(link_counters[n]),
        .checked(checked[n]),
        .wrong(wrong[n])
    );
  end

  // --- Datagrams that links have delivered, to the receive engine or to another link -------------
  if (ROUTED) begin : g_routed
    logic push, push_ready, push_behind_edge;
    logic [2:0] push_link;
    place_t push_place;
    label_t push_label;

    crosslane_router #(
        .LINKS(LINKS),
        .NODES(NODES)
    ) router (
        .written(extents_written),
        .s_valid(come_valid),
        .s_ready(come_ready),
        .s_arrived(come),
        .s_is_coming(come_is_coming),
        .m_valid(arrived_valid),
        .m_ready(arrived_ready),
        .m_arrived(arrived),
        .look(name_look),
        .look_node(name_node),
        .looked(hop_known),
        .*
    );

    crosslane_through #(
        .LINKS(LINKS),
        .LANES(LANES),
        .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
        .LONG(LONG)
    ) through (
        .forgetting(forgets),
        .clear(through_clear),
        .read_enable(through_enable),
        .read_position(through_position),
        .read_data(through_data),
        .frees(through_frees),
        .frees_ready(through_frees_ready),
        .frees_channel(through_frees_channel),
        .frees_slot(through_frees_slot),
        .room(through_room),
        .on_way(through_on_way),
        .waits(through_waits),
        .may_begin(through_may_begin),
        .m_valid(through_valid),
        .m_ready(through_ready),
        .m_channel(through_channel),
        .m_label(through_label),
        .m_data(through_beat),
        .*
    );

    crosslane_get_names #(
        .LINKS(LINKS),
        .GET_SLOTS(GET_SLOTS)
    ) get_names (
        .clk,
        .rst(rst || reset_i || resetting),
        .s_valid(queued_get_valid),
        .s_ready(queued_get_ready),
        .s_request(queued_get),
        .m_valid(get_valid),
        .m_ready(get_ready),
        .m_request(get),
        .m_tag(routed_tag),
        .m_is_lost(is_lost),
        .look(name_look),
        .look_node(name_node),
        .looked(looked != '0),
        .begun(begun != '0),
        .released,
        .released_names,
        .hop_known,
        .hop
    );
  end else begin : g_neighbours
    assign torus = '0;
    assign arrived_valid = come_valid;
    assign come_ready = arrived_ready;
    assign arrived = come;
    assign hop_known = 1'b0;
    assign hop = '0;
    assign through_clear = '1;
    assign through_enable = '0;
    assign through_position = '0;
    assign through_frees = '0;
    assign through_frees_channel = '0;
    assign through_frees_slot = '0;
    assign through_on_way = '0;
    assign through_waits = '0;
    assign through_may_begin = '0;
    assign through_valid = '0;
    assign through_channel = '0;
    assign through_label = '0;
    assign through_beat = '0;
    assign forwarded = '0;
    assign get_valid = queued_get_valid;
    assign queued_get_ready = get_ready;
    assign get = queued_get;
    assign routed_tag = '0;
    assign is_lost = 1'b1;
    assign name_look = 1'b0;
    assign name_node = '0;
    logic unused;
    assign unused = &{1'b0, extents, extents_written, hop_known, hop, forgets, through_data,
                      through_frees_ready, through_room, through_ready, looked, begun, released,
                      released_names, name_look, name_node};
  end

  // --- Receive engine ------------------------------------------------------------------------
  logic engine_idle, engine_valid, engine_ready, refused, credited, misrouted;
  write_t engine_write;
  logic [LINKS-1:0][12:0] waiting;

  crosslane_receive_engine #(
      .LINKS(LINKS),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .CREDIT_SLOTS(CREDIT_SLOTS),
      .ROUTED(ROUTED),
      .LONG(LONG)
  ) engine (
      .idle(engine_idle),
      .write_valid(engine_valid),
      .write_ready(engine_ready),
      .write(engine_write),
      .*
  );

  logic [LINKS:0] source_chosen;
  logic queue_valid, queue_ready;
  write_t queue_write;
  assign source_valid[0] = engine_valid;
  assign source_write[0] = engine_write;
  assign engine_ready = source_ready[0];
  assign source_ready = queue_ready ? source_chosen : '0;
  assign queue_valid = source_valid != '0;

  crosslane_turn #(
      .COUNT(LINKS + 1)
  ) source_turn (
      .clk,
      .rst,
      .valid (source_valid),
      .taken (source_valid & source_ready),
      .chosen(source_chosen),
      .index ()
  );

  always_comb begin
    queue_write = '0;
    for (int unsigned at = 0; at <= LINKS; at++) begin
      if (source_chosen[at]) queue_write |= source_write[at];
    end
  end

  // --- Writes --------------------------------------------------------------------------------
  logic write_valid, write_ready, writes_idle;
  write_t write;
  logic [LINKS-1:0][CHANNELS-1:0] counts_due, count_taken;

  crosslane_fifo #(
      .WIDTH($bits(write_t)),
      .DEPTH(16)
  ) writes (
      .clk,
      .rst,
      .s_valid(queue_valid),
      .s_ready(queue_ready),
      .s_data (queue_write),
      .m_valid(write_valid),
      .m_ready(write_ready),
      .m_data (write),
      .count  ()
  );

  crosslane_network_writes #(
      .DATA_BITS(DATA_BITS),
      .LINKS(LINKS),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .MAX_WRITE(MAX_WRITE),
      .LONG(LONG)
  ) writer (
      .clk,
      .rst,
      .function_i,
      .s_valid(write_valid),
      .s_ready(write_ready),
      .s_write(write),
      .counts_address,
      .counts_due,
      .counts(put_counts),
      .count_taken,
      .read_enable,
      .read_position,
      .read_data,
      .frees,
      .frees_channel,
      .frees_slot,
      .idle(writes_idle),
      .m_valid(m_tx_valid),
      .m_ready(m_tx_ready),
      .m_header(m_tx_header),
      .m_first(m_tx_first),
      .m_last(m_tx_last),
      .m_data(m_tx_data)
  );

  // Datagrams of each link that the writer has not handed on.
  localparam int unsigned HELD_BITS = 6;  // the queue's, and those in the writer
  logic [LINKS-1:0][HELD_BITS-1:0] holds;
  // verilator lint_off UNUSEDSIGNAL
  write_of_data_t engine_data;  // only its link
  // verilator lint_on UNUSEDSIGNAL
  assign engine_data = write_of_data_t'(engine_write.what);
  always_comb begin
    for (int unsigned at = 0; at < LINKS; at++) held[at] = holds[at] != '0;
  end

  always_ff @(posedge clk) begin
    for (int unsigned at = 0; at < LINKS; at++) begin
      holds[at] <= holds[at] - HELD_BITS'(frees[at]) + HELD_BITS'(engine_valid && engine_ready &&
          engine_write.kind != WRITE_NOTIFY && engine_data.link == 3'(at));
    end
    counts_due <= (counts_due & ~count_taken) | put_counted | {LINKS * CHANNELS{counts_written}};
    if (rst || reset_i || resetting || counts_address == '0) counts_due <= '0;
    if (rst) holds <= '0;
  end

  // --- Counters ------------------------------------------------------------------------------
  assign quiet = !resetting && (&link_quiet) && engine_idle && !queued_valid && writes_idle &&
      !write_valid && !queue_valid && !queued_get_valid && !torus.is_new &&
      counts_due == '0;

  always_comb begin
    counters.waiting = '0;
    for (int unsigned at = 0; at < LINKS; at++) counters.waiting += 32'(waiting[at]);
  end

  always_ff @(posedge clk) begin
    counters.gets <= counters.gets + 32'($countones(get_accepted));
    counters.credits <= counters.credits + 32'(credited);
    counters.puts <= counters.puts + 32'($countones(put_accepted));
    counters.refused <= counters.refused + 32'(refused) + 32'($countones(
        get_refused
    )) + 32'($countones(
        put_refused
    ));
    counters.misrouted <= counters.misrouted + 32'(misrouted);
    counters.forwarded <= counters.forwarded + 32'($countones(forwarded));
    if (rst || reset_i || resetting) begin
      counters.gets <= '0;
      counters.credits <= '0;
      counters.puts <= '0;
      counters.refused <= '0;
      counters.misrouted <= '0;
      counters.forwarded <= '0;
    end
  end
endmodule
