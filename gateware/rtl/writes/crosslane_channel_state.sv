// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The part that every channel has: state and error, the count of complete descriptors, status
// blocks and interrupts that are due to the host, and the counters. The channel reports its events;
// a fault stops it in the clock in which it is reported, and later reports are ignored until
// `settings.restart`.
//
// `readings` has all fields but fetched, credit and sent.

module crosslane_channel_state
  import crosslane_pkg::*;
#(
    parameter kind_e KIND = KIND_H2C
) (
    input  logic                     clk,
    input  logic                     rst,
    // Only run, restart, status_enable and interrupt_enable are used.
    // verilator lint_off UNUSEDSIGNAL
    input  channel_settings_t        settings,
    // verilator lint_on UNUSEDSIGNAL
    input  logic              [63:0] time_i,              // clocks
    input  logic                     reset_counters,      // pulse
    // Status writer.
    input  logic                     status_taken,        // pulse: the readings are being sent
    input  logic                     interrupt_taken,     // pulse
    output due_t                     due,
    // One descriptor is complete; the actions that it asks for.
    input  logic                     complete_valid,
    input  logic                     complete_status,
    input  logic                     complete_interrupt,
    // The channel stops now. A completion in the same clock counts.
    input  logic                     fault_valid,
    input  error_e                   fault_error,
    input  logic              [63:0] fault_address,
    input  logic              [31:0] fault_moved,
    // Progress of the channel in descriptor `completed`; outstanding TLPs; whether work is in
    // progress, running or not.
    input  logic              [31:0] moved,
    input  logic              [15:0] in_flight,
    input  logic                     busy,
    // Counters.
    input  logic                     tlp_begun,           // pulse
    input  logic                     data_begun,          // pulse: data that no TLP asks for
    input  logic                     moved_valid,         // pulse
    input  logic              [12:0] moved_bytes,
    input  logic                     last_event,          // pulse: data came, a TLP was handed on
    // Reasons for idle clocks: each is counted while it is set. A kind counts those that it can
    // wait for.
    // verilator lint_off UNUSEDSIGNAL
    input  logic                     wait_descriptor,
    input  logic                     wait_data,
    input  logic                     wait_tag,
    input  logic                     wait_link,
    input  logic                     wait_credit,
    // verilator lint_on UNUSEDSIGNAL
    // The channel may take up descriptors and build TLPs; it has been stopped by an error.
    output logic                     running,
    output logic                     stopped,
    output channel_readings_t        readings
);

  // --- State ---------------------------------------------------------------------------------
  error_e error;
  logic [63:0] error_address;
  logic [31:0] stopped_at, completed;

  assign running = settings.run && !stopped;

  always_ff @(posedge clk) begin
    if (complete_valid && !stopped) completed <= completed + 1'b1;
    if (fault_valid && !stopped) begin
      stopped <= 1'b1;
      error <= fault_error;
      error_address <= fault_address;
      stopped_at <= fault_moved;
    end
    if (rst || settings.restart) begin
      completed <= '0;
      stopped <= 1'b0;
      error <= ERROR_NONE;
      error_address <= '0;
    end
  end

  // --- Due blocks and interrupts -------------------------------------------------------------
  // An event in the clock in which a block or interrupt is taken is not part of that one.
  always_ff @(posedge clk) begin
    if (status_taken) due.status_due <= 1'b0;
    if (interrupt_taken) due.interrupt_due <= 1'b0;
    if (!stopped) begin
      if (complete_valid && complete_status && settings.status_enable) due.status_due <= 1'b1;
      if (complete_valid && complete_interrupt && settings.interrupt_enable) begin
        due.interrupt_due <= 1'b1;
      end
      if (fault_valid) begin
        due.status_due <= settings.status_enable;
        due.interrupt_due <= settings.interrupt_enable;
      end
    end
    if (rst || settings.restart) due <= '0;
  end

  // --- Counters ------------------------------------------------------------------------------
  logic [63:0] bytes, first, last;
  logic [31:0] tlps;
  // Whether a TLP has begun comes late: it counts, and its time is noted, a clock later.
  logic begun, tlp_was_begun, has_first;
  logic [63:0] time_before;
  // A write has been passed on whole at the end of the clock of its last beat.
  logic last_event_at;

  if (KIND == KIND_H2C) begin : g_last_read
    assign last_event_at = last_event;
  end else begin : g_last_write
    always_ff @(posedge clk) last_event_at <= last_event && !rst;
  end

  always_ff @(posedge clk) begin
    time_before <= time_i;
    begun <= (tlp_begun || data_begun) && !(rst || reset_counters);
    tlp_was_begun <= tlp_begun && !(rst || reset_counters);
  end

  always_ff @(posedge clk) begin
    if (moved_valid) bytes <= bytes + 64'(moved_bytes);
    if (tlp_was_begun) tlps <= tlps + 1'b1;
    if (begun) has_first <= 1'b1;
    if (begun && !has_first) first <= time_before;
    if (last_event_at) last <= time_i;
    if (rst || reset_counters) begin
      bytes <= '0;
      tlps <= '0;
      has_first <= 1'b0;
      first <= '0;
      last <= '0;
    end
  end

  // Idle reasons: descriptor, data, tag, link, credit.
  localparam int unsigned REASONS = 5;
  localparam logic [REASONS-1:0] COUNTED =
      (KIND == KIND_H2C) ? 5'b01101 : (KIND == KIND_C2H) ? 5'b01011 : 5'b11011;
  // verilator lint_off UNUSEDSIGNAL
  logic [REASONS-1:0] waits;
  // verilator lint_on UNUSEDSIGNAL
  logic [REASONS-1:0][31:0] idle;

  assign waits = {wait_credit, wait_link, wait_tag, wait_data, wait_descriptor};

  for (genvar reason = 0; reason < REASONS; reason++) begin : g_idle
    if (COUNTED[reason]) begin : g_counted
      logic waited;  // comes late: counts a clock later
      always_ff @(posedge clk) begin
        waited <= waits[reason] && !(rst || reset_counters);
        if (waited) idle[reason] <= idle[reason] + 1'b1;
        if (rst || reset_counters) idle[reason] <= '0;
      end
    end else begin : g_never
      assign idle[reason] = '0;
    end
  end

  // --- Readings ------------------------------------------------------------------------------
  always_comb begin
    readings = '0;
    if (stopped) begin
      readings.state = STATE_STOPPED;
    end else if (settings.run || busy) begin
      readings.state = STATE_RUNNING;
    end else begin
      readings.state = STATE_IDLE;
    end
    readings.error = error;
    readings.in_flight = in_flight;
    readings.completed = completed;
    readings.stopped_at = stopped ? stopped_at : moved;
    readings.error_address = error_address;
    readings.bytes = bytes;
    readings.tlps = tlps;
    readings.first = first;
    readings.last = last;
    readings.idle_no_descriptor = idle[0];
    readings.idle_no_data = idle[1];
    readings.idle_no_tag = idle[2];
    readings.idle_link = idle[3];
    readings.idle_no_credit = idle[4];
  end

endmodule
