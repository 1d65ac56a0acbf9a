// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A channel that writes: turns descriptors and a stream's bytes into memory write TLPs. For C2H
// channels and for peer channels, which also obey the receiver's credits.
//
//   descriptor -> crosslane_write_chunks -> FIFO -> beats -> RING_READ_CLOCKS stages -> m_write
//                                                    |  take         data ^
//                                                    +------> feed -------+
//
// The header moves along with the feed's read pipeline, and all of it advances when the output is
// free. A TLP is begun when the stream has all of its data and the credits cover it. A fault passes
// the same stages as a TLP, so that it takes effect in its turn, with the count of descriptors
// complete then.
//
// With SHORT_PATHS a beat that the arbiter does not take steps aside into a register, so that the
// stages move by what registers say; a beat passes that register by where it is empty.
//
// A TLP of which a beat has been taken on m_write is always finished. One that is only offered is
// withdrawn when the channel is restarted or the link is lost: none of it is sent later.

module crosslane_writer
  import crosslane_pkg::*;
#(
    parameter kind_e       KIND        = KIND_C2H,
    parameter int unsigned DATA_BITS   = 256,
    parameter int unsigned MAX_WRITE   = 1024,      // longest payload, bytes
    parameter bit          PACKETS     = 0,         // C2H: it has a packet mode
    parameter bit          COPIES      = 0,         // C2H: it copies within the card's memory
    parameter bit          SHORT_PATHS = 0          // costs LUTs
) (
    input logic clk,
    input logic rst,
    input channel_settings_t settings,
    input function_t function_i,
    input logic [63:0] time_i,
    input logic reset_counters,
    // Descriptors.
    input logic descriptor_valid,
    output logic descriptor_ready,
    input descriptor_t descriptor,
    // Feed.
    input logic [15:0] feed_available,
    output logic feed_move,
    output logic feed_take,
    output logic [5:0] feed_take_back,
    output logic [6:0] feed_take_bytes,
    output logic feed_goes_on,
    input logic [DATA_BITS-1:0] feed_data,
    // Packets, and whether descriptors are posted that it has not taken up. Without packets unused.
    // verilator lint_off UNUSEDSIGNAL
    input logic packets,  // packet mode
    input packet_end_t feed_end,
    input logic posted,
    // verilator lint_on UNUSEDSIGNAL
    input logic feed_failed,  // level: no more data come into the feed
    output logic feed_generated,  // take the generator's data, whatever the source
    // Copies, and for them whether it would take up a descriptor and has none. Unused without
    // COPIES.
    output logic waits_for_work,
    // verilator lint_off UNUSEDSIGNAL
    input copies_t copies,
    // verilator lint_on UNUSEDSIGNAL
    // Commands of the user circuit.
    output logic command_done,  // pulse: handed on
    output logic message_begun,  // pulse: first TLP of a message
    // TLPs.
    output logic m_write_valid,
    input logic m_write_ready,
    output tlp_header_t m_write_header,
    output logic m_write_first,
    output logic m_write_last,
    output logic [DATA_BITS-1:0] m_write_data,
    // Status.
    input logic status_taken,
    input logic interrupt_taken,
    output due_t due,
    output channel_readings_t readings,
    output logic stopped
);
  localparam bit IS_PEER = KIND == KIND_PEER;
  localparam int unsigned LANE_BITS = $clog2(DATA_BITS / 8);
  localparam int unsigned BEAT_BITS = 12 - LANE_BITS;
  localparam int unsigned OUT = RING_READ_CLOCKS - 1;
  // Descriptors of a peer channel that are taken up and not complete.
  localparam int unsigned OPEN = 64;

  logic running, busy, fault_valid;
  // After a restart: TLPs begun before are finished, or withdrawn.
  logic abandon, next_abandon;
  // The link went down while the channel ran: it stops before the next TLP.
  logic link_lost, next_lost, link_was_up;
  // For either reason one that is only offered is withdrawn; the one at the output is.
  logic withdraws, drop;

  // --- Chunks: the TLPs to build -------------------------------------------------------------
  logic chunk_valid, chunk_ready, head_valid, head_taken, too_many_open;
  logic chunk_cut, is_record, discard;
  write_chunk_t chunk, head;
  logic              started;  // the head's first beat has been made
  logic [31:0]       record;
  logic [ 6:0]       discard_bytes;
  // verilator lint_off UNUSEDSIGNAL
  logic [ 2:0][31:0] packet_counts;
  // verilator lint_on UNUSEDSIGNAL

  crosslane_write_chunks #(
      .KIND(KIND),
      .MAX_WRITE(MAX_WRITE),
      .PACKETS(PACKETS)
  ) chunks (
      .clk,
      .rst,
      .flush(fault_valid || settings.restart),
      .take_up(running && !abandon && !link_lost && !too_many_open),
      .packets,
      .cut(chunk_cut),
      .settings,
      .function_i,
      .descriptor,
      .descriptor_valid,
      .descriptor_ready,
      .m_valid(chunk_valid),
      .m_ready(chunk_ready),
      .m_chunk(chunk)
  );

  logic last_beat, all_there, is_covered, starved, fits, move, go, refused, halted;

  crosslane_write_heads #(
      .KIND(KIND),
      .DATA_BITS(DATA_BITS),
      .PACKETS(PACKETS),
      .REGISTERED(SHORT_PATHS)
  ) heads (
      .*
  );

  // --- Beats ---------------------------------------------------------------------------------
  typedef struct packed {
    logic         first;
    logic         last;
    logic         in_turn;    // a fault that waits for all earlier descriptors to complete
    logic         is_record;
    logic [31:0]  record;     // its second word; the first one is in the chunk
    write_chunk_t chunk;
  } stage_t;

  logic [BEAT_BITS-1:0] beats_left, beats;  // of the TLP, behind this one
  logic [LANE_BITS-1:0] lanes;  // of this beat, less 1
  // Stages beside the feed's.
  stage_t stage[RING_READ_CLOCKS];
  stage_t out;
  logic [RING_READ_CLOCKS-1:0] stage_valid;
  logic out_valid, is_held, taken;  // is_held: `out` is the beat that stepped aside
  logic [DATA_BITS-1:0] out_data;

  assign beats = started ? beats_left : head.extent[11:LANE_BITS];
  assign last_beat = beats == '0;
  assign lanes = last_beat ? head.extent[LANE_BITS-1:0] : '1;
  // Before the first beat: all data of the TLP are available. After it: a restarted source has kept
  // the rest for it; a source that was reset has not, and then the beat's data are undefined.
  assign all_there = is_record || feed_available > 16'(head.rest);
  assign is_covered = started ? feed_available > 16'(lanes) : all_there;
  assign starved = feed_failed && !all_there;
  assign refused = !started && (head.fault || link_lost || !function_i.bus_master || starved);
  assign go = move && head_valid && !halted && (started || link_lost
      || (running && !abandon && (head.fault || (all_there && fits) || starved)));
  assign head_taken = go && last_beat;

  assign feed_move = move;
  assign feed_take = (go && is_covered && !refused && !is_record) || discard;
  assign feed_take_back = (started || discard) ? 6'd0 : 6'(head.address[1:0]);
  assign feed_take_bytes = discard ? discard_bytes : 7'(lanes) + 7'd1 - 7'(feed_take_back);
  assign feed_goes_on = go ? !last_beat && !refused : started;
  assign feed_generated = IS_PEER && head_valid && head.generated;

  always_ff @(posedge clk) begin
    if (go) begin
      started <= !last_beat && !refused;
      beats_left <= beats - 1'b1;
      if (refused) halted <= 1'b1;
    end
    if (move) begin
      stage_valid <= {stage_valid[OUT-1:0], go};
      stage[0].first <= !started;
      stage[0].last <= last_beat;
      stage[0].in_turn <= head.fault;
      stage[0].is_record <= is_record;
      stage[0].record <= record;
      stage[0].chunk <= head;
      stage[0].chunk.fault <= refused;
      if (!head.fault) begin
        stage[0].chunk.error <= function_i.bus_master ? ERROR_CARD_MEMORY : ERROR_NOT_BUS_MASTER;
      end
      for (int unsigned n = 1; n < RING_READ_CLOCKS; n++) stage[n] <= stage[n-1];
    end
    // Registers: a shift register in memory has its output late in the clock.
    if (rst) stage[1] <= '0;
    if (rst || fault_valid || (abandon && drop)) begin
      started <= 1'b0;
      stage_valid <= '0;
    end
    if (rst || fault_valid || settings.restart) halted <= 1'b0;
  end

  // --- Out -----------------------------------------------------------------------------------
  if (SHORT_PATHS) begin : g_aside
    // Only TLPs step aside. None does in a clock in which it is withdrawn: `move` waits then.
    stage_t held;
    logic [DATA_BITS-1:0] held_data;
    logic stage_offers;  // the last stage has a TLP
    logic next_held, shows_stage;  // !is_held, for the wide choices alone
    assign next_held = (is_held ? !taken : m_write_valid && !m_write_ready) &&
                       !(rst || fault_valid || (abandon && drop));
    assign out = shows_stage ? stage[OUT] : held;
    assign out_data = shows_stage ? feed_data : held_data;
    assign out_valid = is_held || stage_valid[OUT];
    assign move = !stage_valid[OUT] ||
                  (stage_offers && !is_held && !(stage[OUT].first && withdraws));
    // For the arbiter a register, worked out a clock ahead.
    logic next_stage_offers, next_withdraws;
    assign next_withdraws = next_lost || next_abandon;
    assign next_stage_offers = (move ? stage_valid[OUT-1] && !stage[OUT-1].chunk.fault :
                                       stage_offers) &&
                               !(rst || fault_valid || (abandon && drop));
    always_ff @(posedge clk) begin
      m_write_valid <= next_held ?
          !((is_held ? held.first : stage[OUT].first) && next_withdraws) :
          next_stage_offers && !((move ? stage[OUT-1].first : stage[OUT].first) && next_withdraws);
      if (!is_held) begin
        held <= stage[OUT];
        held_data <= feed_data;
      end
      stage_offers <= next_stage_offers;
      is_held <= next_held;
      shows_stage <= !next_held;
    end
  end else begin : g_stays
    assign out = stage[OUT];
    assign out_data = feed_data;
    assign out_valid = stage_valid[OUT];
    assign is_held = 1'b0;
    assign move = !stage_valid[OUT] || (m_write_valid && m_write_ready);
    assign m_write_valid = stage_valid[OUT] && !out.chunk.fault && !drop;
  end
  assign drop = out_valid && out.first && withdraws;
  assign taken = m_write_valid && m_write_ready;
  assign m_write_first = out.first;
  assign m_write_last = out.last;
  assign m_write_data = out.is_record ? DATA_BITS'({out.record, out.chunk.sent}) : out_data;

  logic is_single;
  logic [3:0] end_enables;
  assign is_single   = out.chunk.extent[11:2] == '0;
  assign end_enables = 4'hf >> (2'd3 - out.chunk.extent[1:0]);

  always_comb begin
    m_write_header = '0;
    m_write_header.kind = MEMORY_WRITE;
    m_write_header.address = {out.chunk.address[63:2], 2'b00};
    m_write_header.length_dw = 11'(out.chunk.extent[11:2]) + 11'd1;
    m_write_header.first_be = (4'hf << out.chunk.address[1:0]) & (is_single ? end_enables : 4'hf);
    m_write_header.last_be = is_single ? 4'h0 : end_enables;
    m_write_header.requester = function_i.routing_id;
    m_write_header.attributes[RELAXED_ORDERING] =
        settings.relaxed_ordering && function_i.relaxed_ordering && !out.is_record;
    m_write_header.bar = NO_BAR;
  end

  // --- A TLP has been passed on --------------------------------------------------------------
  logic done_valid, done_counts, done_host;  // counts: it was not begun before a restart
  logic copied;  // the memory has confirmed bytes of a copy: of no TLP
  logic done_data;  // not a record
  logic [31:0] moved, moved_with;  // of the descriptor; with this TLP
  logic [12:0] done_bytes;
  // verilator lint_off UNUSEDSIGNAL
  write_chunk_t done;
  // verilator lint_on UNUSEDSIGNAL

  assign copied = COPIES && copies.moved;
  assign done_bytes = copied ? copies.moved_bytes : done_data ? 13'(done.rest) + 13'd1 : '0;
  assign done_host = done_valid && done_counts && !(IS_PEER && done.command);
  assign moved_with = moved + 32'(done_bytes);

  always_ff @(posedge clk) begin
    done_valid <= taken && out.last && !rst;
    done_counts <= !abandon && !settings.restart;
    done_data <= !(PACKETS && out.is_record);
    done <= out.chunk;
    if (done_host || copied) moved <= moved_with;
    if (rst || settings.restart || (done_host && done.ends) || (copied && copies.complete)) begin
      moved <= '0;
    end
  end

  assign command_done = IS_PEER && done_valid && done_counts && done.ends && done.command
                     && !done.generated;
  assign message_begun = IS_PEER && taken && out.first && out.chunk.begins && out.chunk.generated;

  // --- Complete, and credits -----------------------------------------------------------------
  logic waiting, complete_valid, complete_status, complete_interrupt, settles;
  logic [31:0] shown_moved, credit, sent;

  if (IS_PEER) begin : g_peer
    logic waiting_awaits;
    logic [31:0] waiting_bytes;
    logic [$clog2(OPEN):0] open;
    logic taken_up;

    crosslane_peer_credit #(
        .DEPTH(OPEN)
    ) credits (
        .clk,
        .rst,
        .forget(fault_valid),
        .settings,
        .credit,
        .next_sent(head.sent),
        .next_fits(fits),
        .sent_valid(done_host && done.ends),
        .sent(done.sent),
        .sent_bytes(moved_with),
        .sent_awaits(done.await_credit),
        .sent_status(done.write_status),
        .sent_interrupt(done.send_interrupt),
        .waiting,
        .waiting_awaits,
        .waiting_bytes,
        .complete_valid,
        .complete_status,
        .complete_interrupt
    );
    assign shown_moved = waiting ? waiting_bytes : moved;
    assign settles = waiting && !waiting_awaits;
    assign too_many_open = open[$clog2(OPEN)];
    assign taken_up = descriptor_valid && descriptor_ready && !descriptor.command;

    always_ff @(posedge clk) begin
      if (taken_up != complete_valid) open <= taken_up ? open + 1'b1 : open - 1'b1;
      if (done_valid && done_counts) sent <= done.sent;
      if (rst || fault_valid || settings.restart) open <= '0;
      if (rst || settings.restart) sent <= '0;
    end
  end else begin : g_c2h
    assign fits = 1'b1;
    assign waiting = 1'b0;
    assign settles = 1'b0;
    assign complete_valid = (done_host && done.ends) || (copied && copies.complete);
    assign complete_status = copied ? copies.write_status : done.write_status;
    assign complete_interrupt = copied ? copies.send_interrupt : done.send_interrupt;
    assign shown_moved = moved;
    assign too_many_open = 1'b0;
    assign credit = '0;
    assign sent = '0;
  end

  // --- Faults, restart -----------------------------------------------------------------------
  logic is_empty, turn_fault, link_fault, copy_fault;

  assign is_empty = stage_valid == '0 && !is_held && !head_valid && !chunk_valid;
  assign link_fault = link_lost && !abandon && !done_valid && (drop || is_empty);
  assign turn_fault = out_valid && out.chunk.fault && running && !link_lost && !abandon
                   && !done_valid && !(out.in_turn && waiting);
  assign copy_fault = COPIES && copies.failed && !stopped && !link_lost && !abandon;
  // A completion in this clock counts: it is counted first.
  assign fault_valid = (link_fault || turn_fault || copy_fault) && !complete_valid;
  assign waits_for_work = running && !abandon && !link_lost && is_empty && !done_valid;

  assign next_lost = (link_lost || (link_was_up && !function_i.link_up && running)) &&
                     !(rst || fault_valid || settings.restart);
  assign next_abandon = (settings.restart || (abandon && !drop &&
                         (started || stage_valid != '0 || is_held))) && !rst;

  always_ff @(posedge clk) begin
    link_was_up <= function_i.link_up;
    link_lost <= next_lost;
    abandon <= next_abandon;
  end
  if (SHORT_PATHS) begin : g_withdraws
    always_ff @(posedge clk) withdraws <= next_lost || next_abandon;
  end else begin : g_no_withdraws
    assign withdraws = abandon || link_lost;
  end

  // --- State ---------------------------------------------------------------------------------
  channel_readings_t state_readings;
  logic waits, copies_open;
  error_e fault_error;
  logic [63:0] fault_address;

  assign busy = started || done_valid || settles
      || (stage_valid != '0 && !(out_valid && out.chunk.fault)) || is_held || copies_open;
  assign waits = running && head_valid && !started && !head.fault;
  assign copies_open = COPIES && copies.open;
  assign fault_error = link_fault ? ERROR_LINK_DOWN : copy_fault ? ERROR_CARD_MEMORY :
                       out.chunk.error;
  assign fault_address = (copy_fault && !link_fault) ? copies.failed_address :
                         is_empty ? 64'd0 : out.chunk.address;

  crosslane_channel_state #(
      .KIND(KIND)
  ) state (
      .clk,
      .rst,
      .settings,
      .time_i,
      .reset_counters,
      .status_taken,
      .interrupt_taken,
      .due,
      .complete_valid,
      .complete_status,
      .complete_interrupt,
      .fault_valid,
      .fault_error,
      .fault_address,
      .fault_moved(shown_moved),
      .moved(shown_moved),
      .in_flight('0),
      .busy,
      .tlp_begun(taken && out.first && !out.is_record),
      .data_begun(COPIES && copies.begun),
      .moved_valid((done_valid && done_data) || copied),
      .moved_bytes(done_bytes),
      .last_event((taken && out.last && !out.is_record) || copied),
      .wait_descriptor(running && !head_valid && !chunk_valid && !descriptor_valid && !copies_open),
      .wait_data((waits && fits && !is_covered) || (COPIES && copies.starved)),
      .wait_tag(1'b0),
      .wait_link(running && m_write_valid && !m_write_ready),
      .wait_credit(waits && !fits),
      .running,
      .stopped,
      .readings(state_readings)
  );

  always_comb begin
    readings = state_readings;
    readings.credit = credit;
    readings.sent = sent;
    {readings.packets_truncated, readings.packets_dropped, readings.packets} = packet_counts;
  end

endmodule
