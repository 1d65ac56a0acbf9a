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
    parameter  int unsigned LINKS             = 1,                               // 1 to 8
    parameter  int unsigned CHANNEL_DATAGRAMS = 64,                              // of a link
    parameter  int unsigned CREDIT_SLOTS      = 64,
    localparam int unsigned LINK_BITS         = (LINKS > 1) ? $clog2(LINKS) : 1
) (
    input  logic                       clk,
    input  logic                       rst,
    output logic                       idle,            // nothing is being looked at
    // Requests, and whether each link takes them.
    input  logic                       request_valid,
    output logic                       request_ready,
    input  request_t                   request,
    input  logic     [LINKS-1:0]       takes,
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
  localparam int unsigned KEYS = LINKS * 512;
  localparam int unsigned KEY_BITS = $clog2(KEYS);

  typedef enum logic [3:0] {
    CLEARS,     // the memory, after a reset
    IDLE,
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
    STORES      // the key's word
  } step_e;

  typedef enum logic [1:0] {
    ON_REQUEST,
    ON_DATAGRAM,
    ON_FORGET
  } work_e;

  step_e step;
  work_e work;
  message_key_t key;
  key_state_t state;
  request_t asked;
  // The key has the rest of them.
  // verilator lint_off UNUSEDSIGNAL
  arrived_t came;
  label_t label;
  // verilator lint_on UNUSEDSIGNAL
  outcome_e outcome;
  logic has_link, is_bad;

  // --- Memories ------------------------------------------------------------------------------
  key_state_t keys[KEYS];
  key_state_t key_read;
  logic [KEY_BITS-1:0] key_at;
  assign key_at = KEY_BITS'(key);

  // verilator lint_off UNUSEDSIGNAL
  function automatic message_key_t key_of(logic [LINK_BITS-1:0] link, arrived_t datagram);
    label_t of;
    of = label_t'(datagram.label);
    return '{link: 3'(link), channel: datagram.channel, tag: of.tag};
  endfunction
  // verilator lint_on UNUSEDSIGNAL

  always_ff @(posedge clk) begin
    key_read <= keys[key_at];
    if (step == CLEARS || (step == STORES && has_link)) begin
      keys[key_at] <= (step == CLEARS || work == ON_FORGET) ? '0 : state;
    end
  end

  // --- Datagrams that wait -------------------------------------------------------------------
  logic waits_now;
  logic [7:0] head_byte;
  logic [20:0] head_label;
  logic [8:0] next_head;

  crosslane_receive_waiting #(
      .LINKS(LINKS),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS)
  ) waiting_lists (
      .datagram (came),
      .head     (state.head),
      .tail     (state.tail),
      .add      (waits_now),
      .append   (state.waits),
      .remove   (step == FETCHED),
      .last_byte(head_byte),
      .label    (head_label),
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
      .clk,
      .rst,
      .has_free,
      .free_place,
      .take    (takes_place),
      .take_run(new_run),
      .place,
      .run     (run_now),
      .free    (frees_place)
  );

  // --- The next work -------------------------------------------------------------------------
  logic [LINKS-1:0] chosen, pending, first_forget;
  logic [LINK_BITS-1:0] index, forget_index;
  logic datagrams_first, takes_request, takes_datagram, forgets;

  crosslane_turn #(
      .COUNT(LINKS)
  ) turn (
      .clk,
      .rst,
      .valid(arrived_valid & ~forget),
      .taken(takes_datagram ? chosen : '0),
      .chosen,
      .index
  );

  assign pending = forget & ~forgotten;
  assign first_forget = pending & (~pending + 1'b1);
  always_comb begin
    forget_index = '0;
    for (int unsigned n = 0; n < LINKS; n++) if (first_forget[n]) forget_index |= LINK_BITS'(n);
  end
  assign forgets = step == IDLE && pending != '0;
  assign takes_request = step == IDLE && !forgets && request_valid &&
      !(datagrams_first && chosen != '0);
  assign takes_datagram = step == IDLE && !forgets && !takes_request && chosen != '0;
  assign idle = step == IDLE;
  assign request_ready = takes_request;
  assign arrived_ready = takes_datagram ? chosen : '0;

  // --- A request -----------------------------------------------------------------------------
  logic is_next, is_cancelled, is_behind, is_taken, is_refused, is_down, is_misplaced, is_accepted;

  assign is_next = state.state == CREDIT_OPEN && state.token == asked.token;
  assign is_cancelled = asked.cancel && !asked.routed && state.state != CREDIT_NONE &&
      state.token == asked.token;
  assign is_behind = !is_next && asked.index != '0;
  assign is_taken = !is_next && state.state != CREDIT_NONE;
  assign is_refused = is_bad || !has_free || !has_link || asked.routed;
  assign is_down = !takes[LINK_BITS'(key.link)];
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
  logic is_last, is_abort;
  logic [7:0] bytes, fits;
  progress_of_message_t progress, dropped;
  logic [12:0] run_offset;  // of the datagram in its run, in datagrams
  logic [21:0] room;  // of the run behind it; negative: none
  logic        is_short;

  assign label = label_t'(came.label);
  assign is_short = label.kind == KIND_SHORT;
  assign is_last = label.kind != KIND_MIDDLE;
  assign is_abort = is_short && came.last_byte == ABORT;
  always_comb begin
    bytes = 8'd128;
    if (is_short) bytes = is_abort ? '0 : (came.last_byte > 8'd127) ? 8'd127 : came.last_byte;
  end
  assign progress = progress_behind(state.progress, label.index, is_last);
  assign dropped = progress_behind(state.dropped, label.index, is_last);
  assign run_offset = label.index - run.index;
  assign room = 22'(run.bytes) - {2'd0, run_offset, 7'd0};
  always_comb begin
    fits = bytes;
    if (room[21]) fits = '0;
    else if (22'(bytes) > room) fits = 8'(room);
  end

  assign waits_now = step == CAME && label.kind != KIND_ROUTED && !state.is_dropped &&
      !(state.state == CREDIT_WHOLE && !state.waits);
  assign misrouted = step == CAME && label.kind == KIND_ROUTED;

  // --- Writes --------------------------------------------------------------------------------
  write_of_data_t data_work;
  write_of_notification_t notification;
  logic own_valid;  // the request's own notification can be written

  assign own_valid = asked.notify != '0 && asked.notify[2:0] == '0;
  assign data_work = '{slot: came.slot, channel: key.channel, link: key.link, bytes: fits};
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
      write.address = run.address + 64'({run_offset, 7'd0});
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
  logic sweep_ends;
  logic [8:0] next_key;
  assign next_key   = {key.channel, key.tag} + 1'b1;
  assign sweep_ends = {key.channel, key.tag} == LAST_KEY;

  always_ff @(posedge clk) begin
    forgotten <= '0;
    unique case (step)
      CLEARS: begin
        key <= message_key_t'(12'(key) + 1'b1);
        if (key_at == KEY_BITS'(KEYS - 1)) step <= IDLE;
      end

      IDLE: begin
        datagrams_first <= takes_request || (datagrams_first && !takes_datagram);
        has_link <= 1'b1;
        if (forgets && !touched[forget_index]) begin
          forgotten[forget_index] <= 1'b1;
        end else if (forgets) begin
          touched[forget_index] <= 1'b0;
          work <= ON_FORGET;
          key <= '{link: 3'(forget_index), channel: '0, tag: '0};
          step <= READS;
        end else if (takes_request) begin
          work <= ON_REQUEST;
          asked <= request;
          key <= '{link: request.link, channel: request.channel, tag: request.tag};
          has_link <= 4'(request.link) < 4'(LINKS);
          for (int unsigned n = 0; n < LINKS; n++) touched[n] <= touched[n] | request.link == 3'(n);
          step <= READS;
        end else if (takes_datagram) begin
          work <= ON_DATAGRAM;
          touched[index] <= 1'b1;
          came <= arrived[index];
          key <= key_of(index, arrived[index]);
          step <= READS;
        end
      end

      READS: begin
        is_bad <= is_impossible(asked);
        step   <= LOADS;
      end

      LOADS: begin
        state <= (has_link && !(work == ON_REQUEST && asked.routed)) ? key_read : '0;
        unique case (work)
          ON_REQUEST:  step <= REQUESTED;
          ON_DATAGRAM: step <= CAME;
          default: begin
            outcome <= forget_outcome;
            step <= (key_read.state != CREDIT_NONE) ? ENDS : STORES;
          end
        endcase
      end

      REQUESTED: begin
        if (asked.cancel) begin
          outcome <= OUTCOME_CANCELLED;
          step <= is_cancelled ? ENDS : IDLE;
        end else if (is_behind) begin
          step <= IDLE;
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
            state.next_index <= 14'(asked.index) + asked.bytes[20:7] + 14'(asked.bytes[6:0] != '0);
          end
          if (!is_next) begin
            state.token <= asked.token;
            state.progress <= '0;
            state.bytes <= '0;
            state.is_too_long <= 1'b0;
          end
          step <= is_misplaced ? ENDS : (asked.last && state.waits) ? FETCHES : STORES;
        end
      end

      CAME: begin
        place <= state.place;
        if (label.kind == KIND_ROUTED) begin
          step <= DROPS;
        end else if (state.is_dropped) begin
          state.dropped <= dropped;
          state.is_dropped <= !is_abort && !is_whole(dropped);
          step <= DROPS;
        end else if (waits_now) begin
          state.waits <= 1'b1;
          state.tail  <= came.slot;
          if (!state.waits) state.head <= came.slot;
          step <= STORES;
        end else begin
          step <= SEEKS;
        end
      end

      SEEKS: begin
        run   <= run_now;
        place <= run_now.previous;
        if (is_abort) begin
          outcome <= OUTCOME_FAR_END;
          step <= DROPS;
        end else if (run_now.index <= label.index) begin
          step <= TAKES;
        end
      end

      TAKES: begin
        if (write_ready) begin
          state.progress <= progress;
          state.bytes <= state.bytes + 32'(fits);
          state.is_too_long <= state.is_too_long || fits < bytes;
          outcome <= (state.is_too_long || fits < bytes) ? OUTCOME_TOO_LONG : OUTCOME_DONE;
          step <= is_whole(progress) ? ENDS : state.waits ? FETCHES : STORES;
        end
      end

      FETCHES: step <= FETCHED;

      FETCHED: begin
        came <= '{
            last_byte: head_byte,
            label: head_label,
            channel: key.channel,
            slot: state.head
        };
        state.head <= next_head;
        state.waits <= state.head != state.tail;
        place <= state.place;
        step <= SEEKS;
      end

      REFUSES: if (write_ready || !own_valid) step <= IDLE;

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
          if ((outcome == OUTCOME_CANCELLED || outcome == OUTCOME_REFUSED) &&
              state.progress.taken != '0) begin
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

      default: begin  // STORES
        step <= IDLE;
        if (work == ON_FORGET) begin
          key <= '{link: key.link, channel: next_key[8:6], tag: next_key[5:0]};
          if (sweep_ends) forgotten[LINK_BITS'(key.link)] <= 1'b1;
          else step <= READS;
        end
        outcome <= OUTCOME_NONE;
      end
    endcase
    if (rst) begin
      step <= CLEARS;
      key <= '0;
      outcome <= OUTCOME_NONE;
      datagrams_first <= 1'b0;
      forgotten <= '0;
      touched <= '0;
    end
  end
endmodule
