// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Messages of the get engine: requests, reads of their runs, ends of reads, notifications. One thing
// at a time; all that is known of a key is a word of a memory. Ends of reads come first.
// Read first: docs/network-processor.md, Requests and Get engine.

module crosslane_get_messages
  import crosslane_pkg::*;
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
  import crosslane_nget_pkg::*;
#(
    parameter int unsigned GET_SLOTS = 64,    // power of two, 2 to 256
    parameter int unsigned MAX_READ  = 512,
    parameter bit          ROUTED    = 1'b0,
    parameter bit          LONG      = 1'b0   // datagrams carry 256 B, not 128 B
) (
    input  logic                       clk,
    input  logic                       rst,
    // verilator lint_off UNUSEDSIGNAL
    input  function_t                  function_i,      // only some fields are used
    // verilator lint_on UNUSEDSIGNAL
    input  logic        [         2:0] link,            // its number, constant
    output logic                       idle,            // no message, nothing to look at
    input  logic                       request_valid,
    output logic                       request_ready,
    input  request_t                   request,
    input  logic        [         5:0] routed_tag,
    input  logic                       is_lost,
    // verilator lint_off UNUSEDSIGNAL
    input  torus_t                     torus,           // only some fields are used
    // verilator lint_on UNUSEDSIGNAL
    output logic                       looked,
    output logic                       begun,
    output logic                       released,
    output logic        [         5:0] released_name,
    input  logic                       takes,           // the link takes datagrams
    // Level: all messages end with this outcome; pulse: they have.
    input  logic                       forget,
    input  outcome_e                   forget_outcome,
    output logic                       forgotten,
    // Reads.
    input  logic                       has_tag,
    output logic                       read_sent,
    output get_read_t                  read,
    input  logic                       end_valid,
    output logic                       end_ready,
    input  get_end_t                   ended,
    // The sender.
    input  logic                       sender_empty,
    input  logic        [CHANNELS-1:0] has_space,
    output logic                       push,
    output logic        [         2:0] push_channel,
    output logic                       push_done,
    output get_record_t                push_record,
    input  logic        [         7:0] push_place,
    input  logic        [        15:0] push_position,
    output logic                       done,
    output logic        [         2:0] done_channel,
    output logic        [         7:0] done_place,
    output get_void_t                  void_o,
    // Notifications.
    output logic                       write_valid,
    input  logic                       write_ready,
    output write_t                     write,
    // Pulses.
    output logic                       accepted,        // the last run of a message
    output logic                       refused
);
  localparam int unsigned PLACE_BITS = $clog2(GET_SLOTS);
  // Messages of a channel that wait for their reads, those among them that have ended, too.
  localparam int unsigned LISTED = 128;
  localparam int unsigned LIST_BITS = $clog2(LISTED);

  typedef enum logic [3:0] {
    CLEARS,
    IDLE,
    READS,
    LOADS,
    REQUESTED,
    ASKS,
    ASKED,
    ENDED,
    CHECKS,
    REFUSES,
    NOTIFIES,
    STORES
  } step_e;

  typedef enum logic [1:0] {
    ON_REQUEST,
    ON_READ,
    ON_END,
    ON_FORGET
  } work_e;

  typedef struct packed {
    logic [5:0] tag;
    logic [7:0] sequence_;
  } listed_t;

  step_e step;
  work_e work;
  logic [8:0] key;  // channel, tag
  logic [2:0] channel;
  get_message_t message;
  request_t asked;
  // verilator lint_off UNUSEDSIGNAL
  get_end_t end_1;
  // verilator lint_on UNUSEDSIGNAL
  outcome_e outcome;
  logic is_bad, is_lost_1;
  logic [ 5:0] routed_tag_1;
  logic [13:0] asked_datagrams;

  crosslane_request_check #(
      .ROUTED(ROUTED),
      .LONG  (LONG)
  ) check (
      .clk,
      .take     (request_ready),
      .request,
      .asked,
      .datagrams(asked_datagrams),
      .is_bad
  );

  get_message_t messages[512];
  get_message_t message_read;
  (* ram_style = "distributed" *) get_run_t runs[GET_SLOTS];
  (* ram_style = "distributed" *) logic [7:0] behind[GET_SLOTS];  // the next place of a list
  (* ram_style = "distributed" *) listed_t list[CHANNELS*LISTED];
  logic [CHANNELS-1:0][LIST_BITS:0] list_head, list_tail;
  logic [CHANNELS-1:0][7:0] next_sequence;
  logic [CHANNELS-1:0] has_list;
  logic [CHANNELS-1:0] stalled;  // the message that is read waits for its next run

  assign channel = key[8:6];

  always_ff @(posedge clk) begin
    message_read <= messages[key];
    if (step == CLEARS || step == STORES) messages[key] <= (step == CLEARS) ? '0 : message;
  end

  // --- Places --------------------------------------------------------------------------------
  logic [PLACE_BITS:0] fresh, listed;
  logic [7:0] free_list, place;
  logic has_place, frees, takes_place, links_place;

  assign has_place = listed != '0 || !fresh[PLACE_BITS];
  assign place = (listed != '0) ? free_list : 8'(fresh);

  always_ff @(posedge clk) begin
    if (takes_place) begin
      runs[PLACE_BITS'(place)] <= '{
          is_last: asked.last,
          bytes: asked.bytes,
          address: asked.buffer
      };
      if (listed != '0) begin
        listed <= listed - 1'b1;
        free_list <= behind[PLACE_BITS'(free_list)];
      end else begin
        fresh <= fresh + 1'b1;
      end
    end
    if (links_place || frees) begin
      behind[PLACE_BITS'(message.last)] <= frees ? free_list : place;
    end
    if (frees) begin
      listed <= listed + (PLACE_BITS + 1)'(message.places);
      free_list <= message.first;
    end
    if (rst) begin
      fresh  <= '0;
      listed <= '0;
    end
  end

  // --- The next work -------------------------------------------------------------------------
  // The choice of a channel is a clock old, so what it rests on has changed two clocks before IDLE.
  logic [CHANNELS-1:0] readable, turn_chosen, chosen;
  logic [2:0] turn_index, index;
  logic takes_end, takes_request, takes_read, sweeps, swept, is_forgetting;
  logic [9:0] alive;  // messages

  always_comb begin
    for (int unsigned n = 0; n < CHANNELS; n++) begin
      readable[n] = has_list[n] && !stalled[n] && has_space[n];
    end
  end

  crosslane_turn #(
      .COUNT(CHANNELS)
  ) turn (
      .clk,
      .rst,
      .valid (readable),
      .taken (takes_read ? chosen : '0),
      .chosen(turn_chosen),
      .index (turn_index)
  );
  always_ff @(posedge clk) begin
    chosen <= rst ? '0 : turn_chosen;
    index  <= turn_index;
  end

  assign takes_end = step == IDLE && end_valid;
  assign sweeps = step == IDLE && !end_valid && forget && !is_forgetting && !forgotten;
  assign takes_request = step == IDLE && !end_valid && !sweeps && request_valid;
  assign takes_read = step == IDLE && !end_valid && !sweeps && !request_valid && has_tag &&
      chosen != '0;
  assign end_ready = takes_end;
  assign request_ready = takes_request;
  assign idle = step == IDLE && alive == '0;

  listed_t oldest;
  logic [7:0] oldest_sequence;
  logic is_oldest;  // the message is the oldest of its list
  assign oldest = list[{index, list_head[index][LIST_BITS-1:0]}];

  // --- A request -----------------------------------------------------------------------------
  logic exists, is_ending, is_next, is_cancelled, is_behind, is_taken, is_refused, is_misplaced;
  logic is_accepted, took, lacks_place, list_full, is_foreign, is_same_token, is_next_index;
  logic has_index;
  logic [LIST_BITS:0] list_length;  // before a step that changes it

  assign list_full = list_length[LIST_BITS];
  assign exists = message.state != GET_NONE;
  assign is_ending = message.state == GET_ENDING;
  always_ff @(posedge clk) begin
    is_foreign <= asked.routed ? !ROUTED || is_lost_1
        : asked.link != link || (ROUTED && torus.is_there && asked.channel >= ROUTED_CHANNEL);
    lacks_place <= !has_place;
    has_index <= asked.index != '0;
    took <= takes;
  end
  assign looked = step == LOADS && work == ON_REQUEST && asked.routed;
  assign begun = is_accepted && !is_next && asked.routed;
  assign is_cancelled = asked.cancel && exists && !is_ending && is_same_token;
  assign is_behind = !is_next && has_index;
  assign is_taken = !is_next && exists;
  assign is_refused = is_bad || is_foreign || lacks_place || (!is_next && list_full);
  assign is_misplaced = is_next && !is_next_index;
  assign is_accepted = step == REQUESTED && !asked.cancel && !is_behind && !is_taken &&
      !is_refused && took && !is_misplaced;
  assign takes_place = is_accepted;
  assign links_place = is_accepted && is_next;
  assign accepted = is_accepted && asked.last;
  assign refused = step == REQUESTED && !asked.cancel && !is_accepted;

  // --- A read --------------------------------------------------------------------------------
  logic is_stale, ends_run, ends_message, run_is_last, has_bytes;
  get_run_t run;
  logic [63:0] address, next_address;
  logic [12:0] most, room, bytes;  // of a read: at most, up to its next boundary, asked for
  logic [20:0] left;

  assign is_stale = !exists || is_ending || !is_oldest;
  assign run = runs[PLACE_BITS'(message.current)];
  assign most = (size_bytes(
      function_i.max_read_request
  ) < 13'(MAX_READ)) ? size_bytes(
      function_i.max_read_request
  ) : 13'(MAX_READ);
  // Of a step before: where the run goes on.
  assign next_address = run.address + 64'(message.asked);
  always_ff @(posedge clk) begin
    address <= next_address;
    room <= most - (13'(next_address[11:0]) & (most - 1'b1));
    left <= run.bytes - message.asked;
    run_is_last <= run.is_last;
  end
  assign ends_run = left <= 21'(room);
  assign bytes = ends_run ? 13'(left) : room;
  assign ends_message = ends_run && run_is_last;
  assign has_bytes = left != '0;

  assign push = step == ASKED;
  assign push_channel = channel;
  assign push_done = !has_bytes;
  assign push_record = '{
          is_routed: message.is_routed,
          node: message.node,
          sequence_: message.sequence_,
          tag: message.is_routed ? message.routed_tag : key[5:0],
          bytes: bytes,
          ends: ends_message
      };
  assign read_sent = step == ASKED && has_bytes;
  assign read = '{
          channel: channel,
          tag: key[5:0],
          record_: push_place,
          position: push_position,
          bytes: bytes,
          address: address
      };

  // --- The end of a read, and of a message ----------------------------------------------------
  logic is_over, is_done, begins_end;
  // Data that have come are sent before the message takes note of them.
  assign done = (takes_end && ended.good) || (step == CHECKS && work == ON_END && !end_1.good);
  assign done_channel = takes_end ? ended.channel : end_1.channel;
  assign done_place = takes_end ? ended.record_ : end_1.record_;
  assign is_done = message.state == GET_WHOLE && message.missing == '0 && !message.has_run;
  assign is_over = is_ending ? message.reads == '0 : is_done;
  // A message begins to end: nothing more of it is read or sent.
  assign begins_end = (step == REQUESTED && (is_cancelled || (refused && is_next))) ||
      (step == ASKS && !is_stale && message.has_run && !function_i.bus_master) ||
      (step == ENDED && !end_1.good && !is_ending) ||
      (step == LOADS && work == ON_FORGET && message_read.state != GET_NONE &&
       message_read.state != GET_ENDING);
  assign frees = step == NOTIFIES && write_ready;
  assign released = frees && message.is_routed;
  assign released_name = key[5:0];

  always_comb begin
    void_o.write = begins_end || (is_accepted && !is_next);
    void_o.is_void = begins_end;
    void_o.channel = channel;
    void_o.sequence_ = (step == LOADS) ? message_read.sequence_
                       : (is_accepted && !is_next) ? next_sequence[channel] : message.sequence_;
  end

  // --- Notifications -------------------------------------------------------------------------
  write_of_notification_t notification;
  logic own_valid;
  assign own_valid = asked.notify != '0 && asked.notify[2:0] == '0;
  assign notification = (step == REFUSES) ?
      '{bytes: '0, outcome: outcome, token: asked.token}
      : '{
          bytes: message.bytes,
          outcome: is_ending ? message.outcome : OUTCOME_DONE,
          token: message.token
      };
  assign write_valid = step == NOTIFIES || (step == REFUSES && own_valid);
  assign write.kind = WRITE_NOTIFY;
  assign write.address = (step == REFUSES) ? asked.notify : {message.notify, 3'd0};
  assign write.what = notification;

  // --- Steps ---------------------------------------------------------------------------------
  always_ff @(posedge clk) begin
    forgotten <= 1'b0;
    unique case (step)
      CLEARS: begin
        key <= key + 1'b1;
        if (key == '1) step <= IDLE;
      end

      IDLE: begin
        if (takes_end || takes_request || takes_read || sweeps) step <= READS;
        if (takes_end) begin
          work  <= ON_END;
          end_1 <= ended;
          key   <= {ended.channel, ended.tag};
        end else if (sweeps) begin
          work <= ON_FORGET;
          key <= '0;
          is_forgetting <= 1'b1;
        end else if (takes_request) begin
          work <= ON_REQUEST;
          asked <= request;
          routed_tag_1 <= routed_tag;
          is_lost_1 <= is_lost;
          key <= {request.channel, request.tag};
        end else if (takes_read) begin
          work <= ON_READ;
          key <= {index, oldest.tag};
          oldest_sequence <= oldest.sequence_;
        end
      end

      READS: step <= LOADS;

      LOADS: begin
        // A request of another link has no message here, and is refused.
        message <= (work == ON_REQUEST && is_foreign) ? '0 : message_read;
        is_oldest <= message_read.sequence_ == oldest_sequence;
        is_same_token <= message_read.token == asked.token;
        is_next <= message_read.state == GET_OPEN && message_read.token == asked.token &&
            !is_foreign;
        is_next_index <= message_read.next_index == 14'(asked.index);
        list_length <= list_tail[channel] - list_head[channel];
        unique case (work)
          ON_REQUEST: step <= REQUESTED;
          ON_READ: step <= ASKS;
          ON_END: step <= ENDED;
          default: begin
            if (begins_end) begin
              message.state   <= GET_ENDING;
              message.outcome <= forget_outcome;
            end
            step <= (message_read.state != GET_NONE) ? CHECKS : STORES;
          end
        endcase
        if (work == ON_REQUEST && is_foreign && asked.cancel) step <= IDLE;
      end

      REQUESTED: begin
        step <= STORES;
        if (asked.cancel) begin
          if (is_cancelled) begin
            message.state <= GET_ENDING;
            message.outcome <= OUTCOME_CANCELLED;
            stalled[channel] <= 1'b0;
            step <= CHECKS;
          end
        end else if (is_behind) begin
          step <= IDLE;
        end else if (is_taken) begin
          outcome <= OUTCOME_TAKEN;
          step <= REFUSES;
        end else if (is_refused || !took || is_misplaced) begin
          outcome <= (is_refused || took) ? OUTCOME_REFUSED : OUTCOME_LINK_DOWN;
          step <= REFUSES;
          if (is_next) begin
            message.state   <= GET_ENDING;
            message.outcome <= (is_refused || took) ? OUTCOME_REFUSED : OUTCOME_LINK_DOWN;
            if (!is_refused && took) message.notify <= asked.notify[63:3];
            stalled[channel] <= 1'b0;
            step <= CHECKS;
          end
        end else begin
          message.state <= asked.last ? GET_WHOLE : GET_OPEN;
          message.notify <= asked.notify[63:3];
          message.last <= place;
          message.next_index <= 14'(asked.index) + asked_datagrams;
          message.has_run <= 1'b1;
          stalled[channel] <= 1'b0;
          if (is_next) begin
            message.places  <= message.places + 1'b1;
            message.missing <= message.missing + 32'(asked.bytes);
            if (!message.has_run) begin
              message.current <= place;
              message.asked   <= '0;
            end
          end else begin
            message.token <= asked.token;
            message.is_routed <= ROUTED && asked.routed;
            message.node <= ROUTED ? asked.node : '0;
            message.routed_tag <= ROUTED ? routed_tag_1 : '0;
            message.sequence_ <= next_sequence[channel];
            message.first <= place;
            message.current <= place;
            message.places <= 9'd1;
            message.asked <= '0;
            message.bytes <= '0;
            message.missing <= 32'(asked.bytes);
            message.reads <= '0;
            alive <= alive + 1'b1;
            next_sequence[channel] <= next_sequence[channel] + 1'b1;
            list[{
              channel, list_tail[channel][LIST_BITS-1:0]
            }] <=
            '{tag: asked.tag, sequence_: next_sequence[channel]};
            list_tail[channel] <= list_tail[channel] + 1'b1;
            list_length <= list_length + 1'b1;
            has_list[channel] <= 1'b1;
            // With no message before it, it reads at once.
            is_oldest <= 1'b1;
            if (list_length == '0 && has_space[channel] && has_tag) step <= ASKS;
          end
        end
      end

      ASKS: begin
        step <= ASKED;
        if (is_stale || (!message.has_run && message.state == GET_WHOLE)) begin
          list_head[channel] <= list_head[channel] + 1'b1;
          has_list[channel] <= list_length != (LIST_BITS + 1)'(1);
          step <= STORES;
        end else if (!message.has_run) begin
          stalled[channel] <= 1'b1;
          step <= STORES;
        end else if (!function_i.bus_master) begin
          message.state <= GET_ENDING;
          message.outcome <= OUTCOME_HOST_MEMORY;
          step <= CHECKS;
        end
      end

      ASKED: begin
        message.reads <= message.reads + 9'(has_bytes);
        message.asked <= message.asked + 21'(bytes);
        if (ends_run) begin
          message.asked   <= '0;
          message.current <= behind[PLACE_BITS'(message.current)];
          message.has_run <= message.current != message.last;
        end
        step <= CHECKS;
      end

      ENDED: begin
        message.reads <= message.reads - 1'b1;
        if (!is_ending) begin
          if (end_1.good) begin
            message.bytes   <= message.bytes + 32'(end_1.bytes);
            message.missing <= message.missing - 32'(end_1.bytes);
          end else begin
            message.state <= GET_ENDING;
            message.outcome <= OUTCOME_HOST_MEMORY;
            stalled[channel] <= 1'b0;
          end
        end
        step <= CHECKS;
      end

      CHECKS: step <= is_over ? NOTIFIES : STORES;

      REFUSES: if (write_ready || !own_valid) step <= IDLE;

      NOTIFIES: begin
        if (write_ready) begin
          message.state <= GET_NONE;
          alive <= alive - 1'b1;
          step <= STORES;
        end
      end

      default: begin  // STORES
        step <= IDLE;
        if (work == ON_FORGET) begin
          key <= key + 1'b1;
          if (key == '1) swept <= 1'b1;
          else step <= READS;
          stalled[channel] <= 1'b0;
        end
      end
    endcase
    if (is_forgetting && swept && alive == '0 && sender_empty && has_list == '0) begin
      forgotten <= 1'b1;
      swept <= 1'b0;
      is_forgetting <= 1'b0;
    end
    if (rst) begin
      step <= CLEARS;
      key <= '0;
      list_head <= '0;
      list_tail <= '0;
      has_list <= '0;
      next_sequence <= '0;
      stalled <= '0;
      alive <= '0;
      swept <= 1'b0;
      is_forgetting <= 1'b0;
      forgotten <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  if (GET_SLOTS != 1 << PLACE_BITS || GET_SLOTS < 2 || GET_SLOTS > 256) begin : g_slots
    $error("GET_SLOTS is a power of two, 2 to 256");
  end
`endif
endmodule
