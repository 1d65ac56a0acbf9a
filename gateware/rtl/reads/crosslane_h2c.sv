// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// An H2C channel: turns descriptors into read requests, cut at multiples of the longest read, and
// arrived bytes into completed descriptors. Several descriptors are in progress at once, with any
// byte address and length. docs/engine.md, "Errors and restart", says what stops it and how.

module crosslane_h2c
  import crosslane_pkg::*;
#(
    parameter int unsigned MAX_READ = 1024,  // bytes, a power of two, 128 to 4096
    parameter int unsigned READING  = 64,    // descriptors in progress, a power of two
    parameter bit          PACKETS  = 0,
    parameter bit          PUSH     = 0      // descriptors may have their data with them
) (
    input  logic                     clk,
    input  logic                     rst,
    // Only some fields are used here.
    // verilator lint_off UNUSEDSIGNAL
    input  channel_settings_t        settings,
    input  function_t                function_i,
    // verilator lint_on UNUSEDSIGNAL
    input  logic              [63:0] time_i,             // clocks
    input  logic                     reset_counters,     // pulse
    // Descriptors.
    input  logic                     descriptor_valid,
    output logic                     descriptor_ready,
    // verilator lint_off UNUSEDSIGNAL
    input  descriptor_t              descriptor,
    // Data with the descriptor: valid when all descriptors before it are complete, until they are
    // taken into the stream. Unused without them.
    input  logic                     descriptor_inline,
    output logic                     inline_valid,
    input  logic                     inline_taken,
    // verilator lint_on UNUSEDSIGNAL
    // Status writer.
    input  logic                     status_taken,
    input  logic                     interrupt_taken,
    output due_t                     due,
    output channel_readings_t        readings,
    output logic                     stopped,
    // crosslane_reads.
    output logic                     read_valid,
    input  logic                     read_ready,
    output logic              [63:0] read_address,
    output logic              [12:0] read_bytes,
    output logic                     read_relaxed,
    // Packet mode. Unused without it.
    // verilator lint_off UNUSEDSIGNAL
    input  logic                     packets,            // packet mode
    input  logic                     ends_room,          // for the end of another packet
    output logic                     read_ends_packet,   // with read_valid
    output logic              [15:0] read_user,
    // verilator lint_on UNUSEDSIGNAL
    input  logic                     read_blocked,
    input  logic                     data_came,
    input  logic                     arrived_valid,
    input  logic              [12:0] arrived_bytes,
    input  logic                     failed_valid,
    input  error_e                   failed_error,
    input  logic              [63:0] failed_address,
    output logic                     forget,
    output logic                     clear,
    input  logic              [15:0] in_flight,
    // The stream has no consumer and is not fully drained yet. When the channel is idle or has
    // stopped, all bytes counted as moved have been drained: a restart then discards none of them.
    input  logic                     draining
);
  localparam int unsigned STAGED_BITS = 17;  // all that a staging ring holds
  localparam logic [11:0] OWN_MASK = 12'(MAX_READ - 1);

  logic running, restart;
  assign restart = settings.restart;
  assign clear   = restart;

  // --- Longest read: the bits of an address below it -------------------------------------------
  // That of a descriptor is the one in force as it is taken up.
  logic [11:0] wanted_mask, allowed_mask, new_mask, mask;

  always_comb begin
    // The largest power of two in the setting, at least a double word.
    for (int unsigned n = 0; n < 12; n++) wanted_mask[n] = (settings.payload >> (n + 1)) != '0;
    wanted_mask[1:0] = '1;
    if (settings.payload == '0) wanted_mask = '1;
    allowed_mask = settings.oversize ? '1 : 12'(size_bytes(function_i.max_read_request) - 1'b1);
  end
  always_ff @(posedge clk) new_mask <= wanted_mask & allowed_mask & OWN_MASK;

  // --- Descriptors in progress, and their reads ------------------------------------------------
  logic current_valid, ends, is_good, take_up, reading_ready, can_take_up;
  logic [63:0] address;
  logic [31:0] last, next_last;  // bytes that are left, less one
  logic [11:0] gap;  // bytes up to the next multiple of the longest read, less one
  logic halting, stopping, is_inline, may_take_up;
  logic reading_valid;  // reads are in progress
  error_e halting_error, stopping_error, descriptor_error;

  assign next_last = last - 32'(gap) - 32'd1;
  assign ends = last[31:12] == '0 && last[11:0] <= gap;
  assign read_valid = current_valid && running && function_i.bus_master && !stopping &&
                      !failed_valid;
  assign read_address = address;
  // Two lengths, ready before it is known which of them counts.
  assign read_bytes = ends ? 13'(last[11:0]) + 13'd1 : 13'(gap) + 13'd1;
  assign read_relaxed = settings.relaxed_ordering;

  always_comb begin
    descriptor_error = descriptor.error;
    if (descriptor.error == ERROR_NONE) begin
      if (PACKETS && packets && settings.source != SOURCE_RING) begin
        descriptor_error = ERROR_BAD_DESCRIPTOR;
      end else if (!function_i.bus_master) descriptor_error = ERROR_NOT_BUS_MASTER;
    end
  end
  assign is_good = descriptor_error == ERROR_NONE;
  assign is_inline = PUSH && descriptor_inline && is_good;
  assign may_take_up = running && !halting && !stopping && !failed_valid && reading_ready &&
                       !(PACKETS && packets && !ends_room);
  assign can_take_up = may_take_up && (is_inline ? inline_taken :
                       !current_valid || (read_valid && read_ready && ends));
  assign inline_valid = descriptor_valid && is_inline && may_take_up && !current_valid &&
                        !reading_valid;
  assign take_up = descriptor_valid && can_take_up && is_good;
  // A bad descriptor waits until all before it are done: its address is needed then.
  assign descriptor_ready = can_take_up && is_good;

  always_ff @(posedge clk) begin
    if (read_valid && read_ready) begin
      address <= {address[63:12], address[11:0] | mask} + 1'b1;
      last <= next_last;
      gap <= mask;
      if (ends) current_valid <= 1'b0;
    end
    if (take_up) begin
      current_valid <= !is_inline;
      address <= descriptor.address;
      last <= descriptor.bytes - 1'b1;
      mask <= new_mask;
      gap <= ~descriptor.address[11:0] & new_mask;
    end
    if (rst || restart || stopped) current_valid <= 1'b0;
  end

  // --- Arrived bytes ---------------------------------------------------------------------------
  logic waiting_valid, head_valid, head_moves, complete, head_status, head_interrupt;
  logic [$clog2(READING)-1:0] waiting_count;
  logic [31:0] head_bytes, moved;
  logic [31:0] sum, beyond;  // with bytes that are not in `moved`; what the head leaves of it
  logic is_short, all_moved;  // `sum` is `moved`
  logic [12:0] arrived;

  logic [33+32'(PACKETS):0] reading_in, reading_out, head;
  assign {head_bytes, head_status, head_interrupt} = head[33:0];
  assign reading_in[33:0] = {descriptor.bytes, descriptor.write_status, descriptor.send_interrupt};

  crosslane_fifo #(
      .WIDTH(34 + 32'(PACKETS)),
      .DEPTH(READING)
  ) reading (
      .clk,
      .rst(rst || restart || stopped),
      .s_valid(take_up),
      .s_ready(),
      .s_data(reading_in),
      .m_valid(waiting_valid),
      .m_ready(!head_valid || complete),
      .m_data(reading_out),
      .count()
  );

  // The oldest descriptor is in a register, as its bytes are compared in each clock. With it there
  // are READING in progress.
  assign reading_ready = waiting_count != '1;
  assign reading_valid = head_valid || waiting_valid;
  assign head_moves = waiting_valid && (!head_valid || complete);
  always_ff @(posedge clk) begin
    if (!head_valid || complete) begin
      head_valid <= waiting_valid;
      head <= reading_out;
    end
    if (take_up != head_moves) waiting_count <= waiting_count + (take_up ? 1 : '1);
    if (rst || restart || stopped) begin
      head_valid <= 1'b0;
      waiting_count <= '0;
    end
  end

  assign {is_short, beyond} = {1'b0, sum} - {1'b0, head_bytes};
  assign complete = head_valid && !is_short && !stopped;
  assign arrived = arrived_valid ? arrived_bytes : '0;

  // `sum` is kept, so that `complete` is one comparison.
  always_ff @(posedge clk) begin
    sum <= (complete ? beyond : sum) + 32'(arrived);
    moved <= complete ? '0 : sum;
    all_moved <= arrived == '0 && !(complete && STAGED_BITS'(beyond) != '0);
    if (rst || restart || stopped) begin
      sum <= '0;
      moved <= '0;
      all_moved <= 1'b1;
    end
  end

  // --- Packets -----------------------------------------------------------------------------------
  logic [31:0] packet_count;
  if (PACKETS) begin : g_packets
    logic current_ends, head_ends;
    logic [15:0] current_user;
    assign reading_in[34] = descriptor.end_of_packet && packets;
    assign head_ends = head[34];
    assign read_ends_packet = current_ends && ends;
    assign read_user = current_user;
    always_ff @(posedge clk) begin
      if (take_up) begin
        current_ends <= descriptor.end_of_packet && packets;
        current_user <= descriptor.user;
      end
      if (complete && head_ends) packet_count <= packet_count + 1'b1;
      if (rst || reset_counters) packet_count <= '0;
    end
  end else begin : g_no_packets
    assign {read_ends_packet, read_user, packet_count} = '0;
  end

  // --- Faults ----------------------------------------------------------------------------------
  // A descriptor's fault is taken in its turn, when all descriptors before it are done; a read's
  // fault when all bytes before it have arrived. Link down and no bus master are taken at once,
  // after outstanding reads have been given up.
  logic link_was_up, settled, fault_valid, nothing_reads;
  error_e fault_error;
  logic [63:0] fault_address;

  // Reports made in the clock of `forget` still count. No descriptor completes while all is moved.
  assign settled = !forget && !draining;

  always_comb begin
    fault_valid   = 1'b0;
    fault_error   = halting_error;
    fault_address = descriptor.address;
    if (stopping) begin
      fault_valid   = settled && all_moved;
      fault_error   = stopping_error;
      fault_address = current_valid ? address : '0;
    end else if (failed_valid) begin
      fault_valid   = settled && all_moved && !stopped;
      fault_error   = failed_error;
      fault_address = failed_address;
    end else if (halting) begin
      fault_valid = nothing_reads && running && !draining;
    end
  end

  always_ff @(posedge clk) begin
    link_was_up <= function_i.link_up;
    // While it is halting none is taken up: what was so a clock ago is so.
    nothing_reads <= !current_valid && !reading_valid && !rst;
    forget <= 1'b0;
    if (descriptor_valid && can_take_up && !is_good) begin
      halting <= 1'b1;
      halting_error <= descriptor_error;
    end
    if (running && !stopping && !fault_valid) begin
      if (link_was_up && !function_i.link_up) begin
        stopping <= 1'b1;
        stopping_error <= ERROR_LINK_DOWN;
        forget <= 1'b1;
      end else if (current_valid && !function_i.bus_master) begin
        stopping <= 1'b1;
        stopping_error <= ERROR_NOT_BUS_MASTER;
        forget <= 1'b1;
      end
    end
    if (fault_valid && !stopping) forget <= 1'b1;
    if (fault_valid) begin
      halting  <= 1'b0;
      stopping <= 1'b0;
    end
    if (rst || restart) begin
      halting  <= 1'b0;
      stopping <= 1'b0;
      forget   <= 1'b0;
    end
    if (rst) link_was_up <= 1'b0;
  end

  // --- State and counters ----------------------------------------------------------------------
  channel_readings_t state_readings;

  crosslane_channel_state #(
      .KIND(KIND_H2C)
  ) state (
      .clk,
      .rst,
      .settings,
      .time_i,
      .reset_counters,
      .status_taken,
      .interrupt_taken,
      .due,
      .complete_valid(complete),
      .complete_status(head_status),
      .complete_interrupt(head_interrupt),
      .fault_valid,
      .fault_error,
      .fault_address,
      .fault_moved(reading_valid ? moved : '0),
      .moved,
      .in_flight,
      .busy(in_flight != '0 || reading_valid || draining),
      .tlp_begun(read_valid && read_ready),
      .data_begun(take_up && is_inline),
      .moved_valid(arrived_valid),
      .moved_bytes(arrived_bytes),
      .last_event(data_came || (take_up && is_inline)),
      .wait_descriptor(running && !current_valid && !descriptor_valid),
      .wait_data(1'b0),
      .wait_tag(running && ((current_valid && read_blocked) ||
                            (!current_valid && descriptor_valid && !reading_ready))),
      .wait_link(read_valid && !read_ready && !read_blocked),
      .wait_credit(1'b0),
      .running,
      .stopped,
      .readings(state_readings)
  );

  always_comb begin
    readings = state_readings;
    readings.packets = packet_count;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert (!complete || !all_moved)
      else $error("a descriptor completes by bytes that were moved before");
      assert (!descriptor_valid || descriptor.error != ERROR_NONE || descriptor.bytes != '0)
      else $error("a descriptor without bytes is an error by then");
    end
  end
  if (MAX_READ < 128 || MAX_READ > 4096 || MAX_READ != 1 << $clog2(MAX_READ)) begin : g_max_read
    $error("MAX_READ is a power of two from 128 to 4096");
  end
`endif
endmodule
