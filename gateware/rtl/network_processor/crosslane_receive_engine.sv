// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Receive engine: matches datagrams of the links with credits, and tells the writer what to write.
// One thing at a time: a request, a datagram, or the end of all that a link has. All that is known
// of a key is a word of a memory; it is read, changed and written back.
// Read first: docs/network-processor.md, Requests and Receive engine.

module crosslane_receive_engine
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned LINKS = 1,  // 1 to 8
    parameter int unsigned CHANNEL_DATAGRAMS = 64,  // of a link
    parameter int unsigned CREDIT_SLOTS = 64,
    parameter bit ROUTED = 1'b0,
    parameter bit LONG = 1'b0,  // datagrams carry 256 B, not 128 B
    localparam int unsigned LINK_BITS = (LINKS > 1) ? $clog2(LINKS) : 1
) (
    input  logic                       clk,
    input  logic                       rst,
    output logic                       idle,            // nothing is being looked at
    // Requests, and whether each link takes them.
    input  logic                       request_valid,
    output logic                       request_ready,
    input  request_t                   request,
    input  logic     [LINKS-1:0]       takes,
    input  logic                       hold_routed,     // those without a credit wait everywhere
    // verilator lint_off UNUSEDSIGNAL
    input  torus_t                     torus,           // known while requests come
    // verilator lint_on UNUSEDSIGNAL
    // Datagrams delivered by each link.
    input  logic     [LINKS-1:0]       arrived_valid,
    output logic     [LINKS-1:0]       arrived_ready,
    input  arrived_t [LINKS-1:0]       arrived,
    // Level: all of the link ends, with this outcome; pulse: it has.
    input  logic     [LINKS-1:0]       forget,
    input  outcome_e                   forget_outcome,
    output logic     [LINKS-1:0]       forgotten,
    // To the writer.
    output logic                       write_valid,
    input  logic                       write_ready,
    output write_t                     write,
    // Pulses; datagrams of each link that wait.
    output logic                       refused,
    output logic                       credited,
    output logic                       misrouted,
    output logic     [LINKS-1:0][12:0] waiting
);
  localparam int unsigned NEIGHBOUR_KEYS = LINKS * 512;
  // Routed keys: of credits, of remainders, of datagrams that wait, and of what is looked at.
  localparam int unsigned ROUTED_KEYS = 2 * CREDIT_SLOTS + 2 * LINKS * CHANNEL_DATAGRAMS + 2;
  localparam int unsigned NUMBER_BITS = $clog2(ROUTED_KEYS);
  localparam int unsigned KEYS = NEIGHBOUR_KEYS + (ROUTED ? ROUTED_KEYS : 0);
  localparam int unsigned KEY_BITS = $clog2(KEYS);

  typedef enum logic [4:0] {
    CLEARS,     // the memory, after a reset
    IDLE,
    FINDS,      // the number of a routed key
    READS,      // the key's word
    LOADS,
    REQUESTED,  // a request is looked at
    CAME,       // a datagram is looked at
    SEEKS,      // the run of a datagram
    TAKES,      // its data are written
    FETCHES,    // the next datagram that has waited
    FETCHED,
    REFUSES,    // a notification of a request without a message
    DROPS,      // a datagram
    ENDS,       // a notification of the credit
    FREES,      // its places
    FILTERS,    // the next datagram that waits, of a link that goes or of another
    FILTERED,
    STORES      // the key's word
  } step_e;

  typedef enum logic [1:0] {
    ON_REQUEST,
    ON_DATAGRAM,
    ON_FORGET,
    ON_OLDEST  // remainder of a routed key: one too many
  } work_e;

  step_e step;
  work_e work;
  message_key_t key;
  logic is_routed_key;
  logic [NUMBER_BITS-1:0] number;  // of a routed key
  key_state_t state;
  request_t asked;
  // The key has the rest of them.
  // verilator lint_off UNUSEDSIGNAL
  arrived_t came;
  logic [2:0] came_link;
  label_t label;
  // verilator lint_on UNUSEDSIGNAL
  outcome_e outcome;
  logic has_link, is_bad;
  logic [13:0] asked_datagrams;

  crosslane_request_check #(
      .ROUTED(ROUTED),
      .LONG  (LONG)
  ) check (
      .take     (request_ready),
      .datagrams(asked_datagrams),
      .*
  );

  // --- Memories ------------------------------------------------------------------------------
  key_state_t keys[KEYS];
  key_state_t key_read;
  logic [KEY_BITS-1:0] key_at, clear_at;
  always_comb begin
    key_at = KEY_BITS'(key);
    if (ROUTED && is_routed_key) key_at = KEY_BITS'(NEIGHBOUR_KEYS) + KEY_BITS'(number);
    if (step == CLEARS) key_at = clear_at;
  end

  // verilator lint_off UNUSEDSIGNAL
  function automatic message_key_t key_of(logic [LINK_BITS-1:0] link, arrived_t datagram);
    label_t of;
    of = label_t'(datagram.label);
    return '{link: 3'(link), channel: datagram.channel, tag: of.tag};
  endfunction
  // verilator lint_on UNUSEDSIGNAL

  // All of a link goes; of routed keys only with a reset.
  logic is_emptied, empties;
  assign is_emptied = work == ON_FORGET && (!is_routed_key || forget_outcome == OUTCOME_RESET);
  always_ff @(posedge clk) begin
    key_read <= keys[key_at];
    if (step == CLEARS || (step == STORES && has_link)) begin
      keys[key_at] <= (step == CLEARS || empties) ? '0 : state;
    end
  end

  // --- Routed keys ---------------------------------------------------------------------------
  logic finds, key_found, numbers_ready, removes_key, stores, is_nothing;
  logic [15:0] sought_node, which_node;
  logic [5:0] sought_tag, which_tag;
  logic [NUMBER_BITS-1:0] found_number, oldest;
  logic [NUMBER_BITS:0] numbers_used;
  logic adds_remainder, drops_remainder, remainders_ready, has_too_many;

  // verilator lint_off UNUSEDSIGNAL
  function automatic logic has_nothing(key_state_t of);
    // verilator lint_on UNUSEDSIGNAL
    return of.state == CREDIT_NONE && !of.is_dropped && of.losses == '0 && !of.waits;
  endfunction

  assign is_nothing = empties || has_nothing(state);
  // A routed key is stored when its number and its remainder have been dealt with.
  assign stores = step == STORES && (!is_routed_key || (numbers_ready && remainders_ready));

  if (ROUTED) begin : g_routed
    crosslane_routed_keys #(
        .KEYS(ROUTED_KEYS)
    ) routed_keys (
        .ready (numbers_ready),
        .used  (numbers_used),
        .find  (finds),
        .node  (sought_node),
        .tag   (sought_tag),
        .found (key_found),
        .number(found_number),
        .remove(removes_key),
        .which (number),
        .*
    );

    crosslane_remainders #(
        .SLOTS(CREDIT_SLOTS),
        .KEY_BITS(NUMBER_BITS)
    ) remainders (
        .ready  (remainders_ready),
        .add    (adds_remainder),
        .remove (drops_remainder),
        .key    (number),
        .clear  (step == STORES && is_routed_key && empties),
        .is_over(has_too_many),
        .*
    );
  end else begin : g_neighbours
    assign {numbers_ready, remainders_ready} = '1;
    assign {numbers_used, key_found, found_number, which_node, which_tag} = '0;
    assign {has_too_many, oldest} = '0;
    logic unused;
    assign unused = &{1'b0, finds, sought_node, sought_tag, removes_key, adds_remainder,
                      drops_remainder, torus, number};
  end

  // --- Datagrams that wait -------------------------------------------------------------------
  logic would_wait, waits_now, is_lost_now, is_half_now, filters, has_filtered, is_kept;
  logic [LINKS-1:0][1:0] is_half;
  arrived_t head_datagram;
  place_t next_head, came_place, filtered_head, filtered_tail;

  assign came_place = '{link: came_link, channel: came.channel, slot: came.slot};
  // Those that stay become a list again.
  assign filters = ROUTED && step == FILTERED;
  assign is_kept = state.head.link != key.link;

  crosslane_receive_waiting #(
      .LINKS(LINKS),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .ROUTED(ROUTED),
      .LONG(LONG)
  ) waiting_lists (
      .link     (filters ? state.head.link : came_link),
      .datagram (filters ? head_datagram : came),
      .head     (state.head),
      .is_routed(is_routed_key),
      .tail     (filters ? filtered_tail : state.tail),
      .add      (waits_now),
      .append   (filters ? is_kept && has_filtered : waits_now && state.waits),
      .remove   (step == FETCHED),
      .next     (next_head),
      .*
  );

  // --- Runs ----------------------------------------------------------------------------------
  logic has_free, takes_place, frees_place;
  logic [7:0] free_place, place;
  run_t new_run, run_now;
  // verilator lint_off UNUSEDSIGNAL
  run_t run;  // that of the datagram
  // verilator lint_on UNUSEDSIGNAL

  crosslane_credit_runs #(
      .CREDIT_SLOTS(CREDIT_SLOTS)
  ) runs (
      .take    (takes_place),
      .take_run(new_run),
      .run     (run_now),
      .free    (frees_place),
      .*
  );

  // --- The next work -------------------------------------------------------------------------
  // The choice of a link is a clock old; with none, the first of those that have come since.
  logic [LINKS-1:0] usable, turn_chosen, early, chosen, taken, pending, first_forget;
  logic [LINK_BITS-1:0] index, forget_index;
  logic has_datagram, datagrams_first, takes_request, takes_datagram, forgets;

  crosslane_turn #(
      .COUNT(LINKS)
  ) turn (
      .clk,
      .rst,
      .valid (usable),
      .taken,
      .chosen(turn_chosen),
      .index ()
  );
  always_ff @(posedge clk) begin
    early <= rst ? '0 : turn_chosen;
    taken <= takes_datagram ? chosen : '0;
  end

  assign usable = arrived_valid & ~forget;
  assign has_datagram = usable != '0;
  always_comb begin
    index = '0;
    for (int unsigned n = 0; n < LINKS; n++) begin
      chosen[n] = ((early & usable) != '0) ? early[n]
          : usable[n] && (usable & LINKS'((1 << n) - 1)) == '0;
      if (chosen[n]) index |= LINK_BITS'(n);
    end
  end
  assign pending = forget & ~forgotten;
  assign first_forget = pending & (~pending + 1'b1);
  always_comb begin
    forget_index = '0;
    for (int unsigned n = 0; n < LINKS; n++) if (first_forget[n]) forget_index |= LINK_BITS'(n);
  end
  assign forgets = step == IDLE && pending != '0;
  assign takes_request = step == IDLE && !forgets && request_valid &&
      !(datagrams_first && has_datagram);
  assign takes_datagram = step == IDLE && !forgets && !takes_request && has_datagram;
  assign idle = step == IDLE;
  assign request_ready = takes_request;
  assign arrived_ready = takes_datagram ? chosen : '0;

  // --- A request -----------------------------------------------------------------------------
  logic is_next, is_cancelled, is_behind, is_taken, is_refused, is_down, is_misplaced, is_accepted;
  logic is_same_token, is_no_node;

  // The state is loaded in this clock.
  always_ff @(posedge clk) begin
    is_same_token <= key_read.token == asked.token;
    is_no_node <= 17'(asked.node) >= torus.nodes || asked.node == torus.node;
  end
  assign is_next = state.state == CREDIT_OPEN && is_same_token;
  assign is_cancelled = asked.cancel && state.state != CREDIT_NONE && is_same_token;
  assign is_behind = !is_next && asked.index != '0;
  assign is_taken = !is_next && state.state != CREDIT_NONE;
  assign is_refused = is_bad || !has_free || (asked.routed
      ? !is_routed_key || asked.channel != ROUTED_CHANNEL || is_no_node
      : !has_link || (ROUTED && torus.is_there && asked.channel >= ROUTED_CHANNEL));
  assign is_down = !asked.routed && !takes[LINK_BITS'(key.link)];
  // Not behind the run before.
  assign is_misplaced = is_next && 14'(asked.index) != state.next_index;
  assign is_accepted = step == REQUESTED && !asked.cancel && !is_behind && !is_taken &&
      !is_refused && !is_down && !is_misplaced;
  assign takes_place = is_accepted;
  assign new_run = '{
          is_first: !is_next,
          previous: state.place,
          index: asked.index,
          bytes: asked.bytes,
          address: asked.buffer
      };
  assign refused = step == REQUESTED && !asked.cancel && !is_accepted;
  assign credited = is_accepted && asked.last;

  // --- A datagram ----------------------------------------------------------------------------
  localparam int unsigned PAYLOAD = payload_bytes(LONG);
  localparam int unsigned LENGTH_BITS = $clog2(PAYLOAD) + 1;
  localparam logic [LENGTH_BITS-1:0] ROUTED_FULL = LENGTH_BITS'(PAYLOAD - ROUTING_BYTES);
  logic is_last, is_abort, aborts;
  logic [LENGTH_BITS-1:0] came_bytes, bytes, fits;  // `bytes`: a clock later
  progress_of_message_t progress, dropped;
  logic has_all;
  logic [13:0] next_offset;  // negative: in a run before
  logic [12:0] run_offset;  // of the datagram in its run, in datagrams
  logic [21:0] room;  // of the run behind it; negative: none
  logic [20:0] byte_offset;
  logic is_short, is_routed, is_lost, is_beyond, drops_key, ends_dropped;

  assign label = label_t'(came.label);
  assign is_routed = ROUTED && came.is_here;
  assign is_lost = label.kind == KIND_ROUTED && !is_routed;
  assign is_short = label.kind == KIND_SHORT;
  assign is_last = !is_routed ? label.kind != KIND_MIDDLE : LONG ? came.mark : came.last_byte[7];
  assign aborts = LONG ? came.mark : came.last_byte == ABORT;
  assign is_abort = is_routed ? is_last && came_bytes == '0 : is_short && aborts;
  always_comb begin
    came_bytes = LENGTH_BITS'(PAYLOAD);
    if (is_short) begin
      came_bytes = LENGTH_BITS'(came.last_byte);
      if (aborts) came_bytes = '0;
      else if (!LONG && came.last_byte[7]) came_bytes = LENGTH_BITS'(PAYLOAD - 1);
    end
    if (is_routed) begin
      came_bytes = LONG ? LENGTH_BITS'(came.last_byte) : LENGTH_BITS'(came.last_byte[6:0]);
      if (came_bytes > ROUTED_FULL) came_bytes = ROUTED_FULL;
    end
  end
  assign is_beyond = ROUTED && came.is_beyond;
  // Worked out a clock ahead: of the key's word while it is loaded, and while the run is sought.
  always_ff @(posedge clk) begin
    bytes <= came_bytes;
    progress <= progress_behind(state.progress, label.index, is_beyond, is_last);
    has_all <= is_whole_behind(state.progress, label.index, is_beyond, is_last);
    dropped <= progress_behind(key_read.dropped, label.index, is_beyond, is_last);
    ends_dropped <= is_abort || is_whole_behind(key_read.dropped, label.index, is_beyond, is_last);
  end
  assign drops_key = state.is_dropped || state.losses != '0;
  assign next_offset = 14'(label.index) - 14'(run_now.index);
  assign byte_offset = (LONG ? {run_offset, 8'd0} : {1'b0, run_offset, 7'd0}) -
      (is_routed ? {5'd0, run_offset, 3'd0} : '0);
  assign room = 22'(run.bytes) - {1'b0, byte_offset};
  always_comb begin
    fits = bytes;
    if (room[21] || is_beyond) fits = '0;
    else if (22'(bytes) > room) fits = LENGTH_BITS'(room);
  end

  assign would_wait = step == CAME && !is_lost && !drops_key &&
      !(state.state == CREDIT_WHOLE && !state.waits);
  assign waits_now = would_wait && !is_half_now;
  assign is_lost_now = would_wait && is_half_now;
  assign misrouted = step == CAME && is_lost;

  // --- Writes --------------------------------------------------------------------------------
  write_of_data_t data_work;
  write_of_notification_t notification;
  logic own_valid;  // the request's own notification can be written

  assign own_valid = asked.notify != '0 && asked.notify[2:0] == '0;
  assign data_work = '{
          is_routed: is_routed,
          slot: came.slot,
          channel: came.channel,
          link: came_link,
          bytes: 9'(fits)
      };
  assign notification.token = (step == REFUSES) ? asked.token : state.token;
  assign notification.outcome = outcome;
  assign notification.bytes = (step == REFUSES) ? '0 : state.bytes;

  always_comb begin
    write_valid = step == TAKES || step == DROPS || step == ENDS || (step == REFUSES && own_valid);
    write.kind = WRITE_NOTIFY;
    write.address = (step == REFUSES) ? asked.notify : {state.notify, 3'd0};
    write.what = notification;
    if (step == TAKES) begin
      write.kind = (fits == '0) ? WRITE_DROP : WRITE_DATA;
      write.address = run.address + 64'(byte_offset);
      write.what = WRITE_BITS'(data_work);
    end
    if (step == DROPS) begin
      write.kind = WRITE_DROP;
      write.what = WRITE_BITS'(data_work);
    end
  end
  assign frees_place = step == FREES;

  // --- Steps ---------------------------------------------------------------------------------
  localparam logic [8:0] LAST_KEY = '1;
  logic [LINKS-1:0] touched;  // links with a request or datagram since all of them was forgotten
  logic sweep_ends, leaves_remainder, tells_loss, was_nothing;
  logic [8:0] next_key;
  assign next_key = {key.channel, key.tag} + 1'b1;
  assign sweep_ends = is_routed_key ? number == NUMBER_BITS'(ROUTED_KEYS - 1)
      : {key.channel, key.tag} == LAST_KEY && numbers_used == '0;
  assign leaves_remainder = step == ENDS && write_ready && state.progress.taken != '0 &&
      (outcome == OUTCOME_CANCELLED || outcome == OUTCOME_REFUSED);
  // A key is among the remainders while it drops what comes.
  assign adds_remainder = is_routed_key && (leaves_remainder || is_lost_now);
  assign drops_remainder = is_routed_key && (
      (step == CAME && state.is_dropped && state.losses == '0 && ends_dropped) ||
      (tells_loss && !state.is_dropped && state.losses == 8'd1) ||
      (step == LOADS && work == ON_OLDEST));
  assign tells_loss = step == ENDS && write_ready && outcome == OUTCOME_DROPPED;
  assign removes_key = stores && is_routed_key && is_nothing && !(work == ON_FORGET && was_nothing);

  // The number of a key is sought with the work itself; in a sweep, while its word is there.
  arrived_t next_came;
  // verilator lint_off UNUSEDSIGNAL
  label_t   next_label;  // only its tag
  // verilator lint_on UNUSEDSIGNAL
  logic asks_routed, is_new_routed, is_known, sought_again;
  always_comb begin
    next_came = '0;
    for (int unsigned n = 0; n < LINKS; n++) if (chosen[n]) next_came |= arrived[n];
  end
  assign next_label = label_t'(next_came.label);
  assign asks_routed = ROUTED && takes_request && request.routed && torus.is_there;
  assign is_new_routed = ROUTED && takes_datagram && next_came.is_here;
  assign is_known = !has_nothing(key_read);
  assign sought_again = is_routed_key && step == LOADS &&
      (work == ON_OLDEST || (work == ON_FORGET && is_known));
  assign finds = asks_routed || is_new_routed || sought_again;
  assign sought_node = sought_again ? which_node : asks_routed ? request.node : next_came.source;
  assign sought_tag = sought_again ? which_tag : asks_routed ? request.tag : next_label.tag;

  always_ff @(posedge clk) begin
    forgotten <= '0;
    unique case (step)
      CLEARS: begin
        clear_at <= clear_at + 1'b1;
        if (clear_at == KEY_BITS'(KEYS - 1) && numbers_ready) step <= IDLE;
      end

      IDLE: begin
        datagrams_first <= takes_request || (datagrams_first && !takes_datagram);
        has_link <= 1'b1;
        is_routed_key <= asks_routed || is_new_routed;
        if (forgets && !touched[forget_index] && numbers_used == '0) begin
          forgotten[forget_index] <= 1'b1;
        end else if (forgets) begin
          touched[forget_index] <= 1'b0;
          work <= ON_FORGET;
          key <= '{link: 3'(forget_index), channel: '0, tag: '0};
          is_routed_key <= !touched[forget_index];
          number <= '0;
          step <= READS;
        end else if (takes_request) begin
          work <= ON_REQUEST;
          asked <= request;
          key <= '{link: request.link, channel: request.channel, tag: request.tag};
          has_link <= asks_routed || 4'(request.link) < 4'(LINKS);
          for (int unsigned n = 0; n < LINKS; n++) begin
            touched[n] <= touched[n] || (!asks_routed && request.link == 3'(n));
          end
          step <= asks_routed ? FINDS : READS;
        end else if (takes_datagram) begin
          work <= ON_DATAGRAM;
          if (!is_new_routed) touched[index] <= 1'b1;
          came <= next_came;
          came_link <= 3'(index);
          key <= key_of(index, next_came);
          step <= is_new_routed ? FINDS : READS;
        end
      end

      FINDS: begin
        number <= found_number;
        if (key_found) step <= READS;
      end

      READS: step <= LOADS;

      LOADS: begin
        state <= (has_link && !(work == ON_REQUEST && asked.routed && !is_routed_key)) ? key_read
                 : '0;
        was_nothing <= has_nothing(key_read);
        is_half_now <= is_routed_key && !hold_routed &&
            is_half[LINK_BITS'(came_link)][came.channel[0]];
        has_filtered <= 1'b0;
        empties <= is_emptied;
        unique case (work)
          ON_REQUEST:  step <= REQUESTED;
          ON_DATAGRAM: step <= CAME;
          ON_OLDEST: begin
            state.is_dropped <= 1'b0;
            state.losses <= '0;
            if (!key_read.waits) state.dropped <= '0;
            step <= STORES;
          end
          default: begin
            outcome <= forget_outcome;
            step <= STORES;
            if (is_emptied) begin
              if (key_read.state != CREDIT_NONE) step <= ENDS;
            end else if (key_read.waits) begin
              step <= FILTERS;
            end
          end
        endcase
      end

      REQUESTED: begin
        if (asked.cancel) begin
          outcome <= OUTCOME_CANCELLED;
          step <= is_cancelled ? ENDS : is_routed_key ? STORES : IDLE;
        end else if (is_behind) begin
          step <= is_routed_key ? STORES : IDLE;
        end else if (is_taken) begin
          outcome <= OUTCOME_TAKEN;
          step <= REFUSES;
        end else if (is_refused || is_down) begin
          outcome <= is_refused ? OUTCOME_REFUSED : OUTCOME_LINK_DOWN;
          step <= is_next ? ENDS : REFUSES;
        end else begin
          state.notify <= asked.notify[63:3];
          outcome <= OUTCOME_REFUSED;
          if (!is_misplaced) begin
            state.state <= asked.last ? CREDIT_WHOLE : CREDIT_OPEN;
            state.place <= free_place;
            state.next_index <= 14'(asked.index) + asked_datagrams;
          end
          if (!is_next) begin
            state.token <= asked.token;
            state.progress <= '0;
            state.bytes <= '0;
            state.is_too_long <= 1'b0;
          end
          step <= is_misplaced ? ENDS : (asked.last && state.waits) ? FETCHES : STORES;
          if (!is_misplaced && asked.last && !state.waits && state.losses != '0) begin
            outcome <= OUTCOME_DROPPED;
            step <= ENDS;
          end
        end
      end

      CAME: begin
        place <= state.place;
        if (is_lost) begin
          step <= DROPS;
        end else if (drops_key || is_lost_now) begin
          // One more message begins to be dropped, or the one goes on.
          if (!state.is_dropped && state.losses != '1) state.losses <= state.losses + 1'b1;
          state.dropped <= ends_dropped ? '0 : dropped;
          state.is_dropped <= !ends_dropped;
          step <= DROPS;
        end else if (waits_now) begin
          state.dropped <= ends_dropped ? '0 : dropped;
          state.waits <= 1'b1;
          state.tail <= came_place;
          if (!state.waits) state.head <= came_place;
          step <= STORES;
        end else begin
          step <= SEEKS;
        end
      end

      SEEKS: begin
        run <= run_now;
        run_offset <= next_offset[12:0];
        place <= run_now.previous;
        if (is_abort) begin
          outcome <= OUTCOME_FAR_END;
          step <= DROPS;
        end else if (!next_offset[13] || is_beyond) begin
          step <= TAKES;
        end
      end

      TAKES: begin
        if (write_ready) begin
          state.progress <= progress;
          state.bytes <= state.bytes + 32'(fits);
          state.is_too_long <= state.is_too_long || fits < bytes;
          outcome <= (state.is_too_long || fits < bytes) ? OUTCOME_TOO_LONG : OUTCOME_DONE;
          step <= has_all ? ENDS : state.waits ? FETCHES : STORES;
          if (!has_all && !state.waits && state.losses != '0) begin
            outcome <= OUTCOME_DROPPED;
            step <= ENDS;
          end
        end
      end

      FETCHES: step <= FETCHED;

      FETCHED: begin
        came <= head_datagram;
        came_link <= state.head.link;
        state.head <= next_head;
        state.waits <= state.head != state.tail;
        if (state.head == state.tail && !state.is_dropped) state.dropped <= '0;
        place <= state.place;
        step  <= SEEKS;
      end

      REFUSES: if (write_ready || !own_valid) step <= is_routed_key ? STORES : IDLE;

      DROPS: begin
        if (write_ready) begin
          // An abort ends its credit; others were dropped for a message without one.
          step <= (is_abort && state.state == CREDIT_WHOLE && outcome == OUTCOME_FAR_END) ? ENDS
                  : STORES;
        end
      end

      ENDS: begin
        place <= state.place;
        if (write_ready) begin
          state.state <= CREDIT_NONE;
          if (tells_loss) state.losses <= state.losses - 1'b1;
          if (leaves_remainder) begin
            state.is_dropped <= 1'b1;
            state.dropped <= state.progress;
          end
          step <= FREES;
        end
      end

      FREES: begin
        place <= run_now.previous;
        if (run_now.is_first) step <= STORES;
      end

      FILTERS: step <= FILTERED;

      FILTERED: begin
        step <= FILTERS;
        state.head <= next_head;
        if (is_kept) begin
          has_filtered  <= 1'b1;
          filtered_tail <= state.head;
          if (!has_filtered) filtered_head <= state.head;
        end
        if (state.head == state.tail) begin
          state.head  <= has_filtered ? filtered_head : state.head;
          state.tail  <= is_kept ? state.head : filtered_tail;
          state.waits <= has_filtered || is_kept;
          if (!has_filtered && !is_kept && !state.is_dropped) state.dropped <= '0;
          step <= STORES;
        end
      end

      default: begin  // STORES
        if (stores) step <= IDLE;
        if (stores && work == ON_FORGET) begin
          if (is_routed_key) number <= number + 1'b1;
          else key <= '{link: key.link, channel: next_key[8:6], tag: next_key[5:0]};
          if (sweep_ends) begin
            forgotten[LINK_BITS'(key.link)] <= 1'b1;
          end else begin
            // Routed keys come behind the link's own.
            if (!is_routed_key && {key.channel, key.tag} == LAST_KEY) is_routed_key <= 1'b1;
            step <= READS;
          end
        end else if (stores && is_routed_key && has_too_many && work != ON_OLDEST) begin
          work   <= ON_OLDEST;
          number <= oldest;
          step   <= READS;
        end
        if (stores) outcome <= OUTCOME_NONE;
      end
    endcase
    if (!ROUTED) is_routed_key <= 1'b0;
    if (rst) begin
      step <= CLEARS;
      key <= '0;
      clear_at <= '0;
      is_routed_key <= 1'b0;
      outcome <= OUTCOME_NONE;
      datagrams_first <= 1'b0;
      forgotten <= '0;
      touched <= '0;
    end
  end
endmodule
