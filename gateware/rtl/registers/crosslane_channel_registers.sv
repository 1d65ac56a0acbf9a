// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The registers of one channel: a generated block, connected to its settings and readings. Settings
// show a written value from the clock after the access.

module crosslane_channel_registers
  import crosslane_pkg::*;
#(
    parameter kind_e KIND = KIND_H2C,
    parameter bit HAS_PACKETS = 0,
    parameter bit HAS_PUSH = 0,
    parameter bit IS_BARE = 0  // without rings, doorbell, status block and counters
) (
    input logic clk,
    input logic rst,
    input logic access_valid,
    input logic access_write,
    input logic [7:2] access_address,
    input logic [31:0] access_data,
    output logic [31:0] read_data,  // in the clock of the access
    output channel_settings_t settings,
    // Each kind of channel uses some of the fields.
    // verilator lint_off UNUSEDSIGNAL
    input channel_readings_t readings
    // verilator lint_on UNUSEDSIGNAL
);
  crosslane_channel_block_pkg::in_t in;
  crosslane_channel_block_pkg::out_t out;
  crosslane_channel_block_pkg::accessed_t accessed;
  logic restart, run;
  assign restart = out.control.restart.value;

  // As the register has it, and 0 in the clock of `restart`, which many wait for.
  always_ff @(posedge clk) begin
    if (access_valid && access_write && access_address == '0) begin
      run <= access_data[0] && !access_data[31];
    end
    if (rst) run <= 1'b0;
  end

  crosslane_channel_block #(
      .IS_PEER(KIND == KIND_PEER),
      .IS_BARE(IS_BARE),
      .HAS_PACKETS(HAS_PACKETS),
      .HAS_PUSH(HAS_PUSH)
  ) registers (
      .*
  );

  // The register reads as the channel's value, except in the clock after a write: then as the
  // written one.
  logic credit_written;
  always_ff @(posedge clk) credit_written <= accessed.credit && !rst;

  always_comb begin
    in.control.run.hwclr = restart;
    in.doorbell.count.hwclr = restart;
    in.doorbell.count.next = out.doorbell.count.value + 1'b1;
    in.doorbell.count.we = HAS_PUSH && readings.line_taken;
    // A stopped channel ignores the doorbell; after a restart it does not, whatever state it
    // still shows.
    in.doorbell.count.swwe = readings.state != STATE_STOPPED || restart;
    in.status.state.next = readings.state;
    in.status.error.next = readings.error;
    in.status.in_flight.next = readings.in_flight;
    in.completed.count.next = readings.completed;
    in.stopped_at.bytes.next = readings.stopped_at;
    in.error_low.address.next = readings.error_address[31:0];
    in.error_high.address.next = readings.error_address[63:32];
    in.bytes_low.count.next = readings.bytes[31:0];
    in.bytes_high.count.next = readings.bytes[63:32];
    in.bytes_high.count.we = accessed.bytes_low;
    in.tlps.count.next = readings.tlps;
    in.fetched.count.next = readings.fetched;
    in.first_low.clocks.next = readings.first[31:0];
    in.first_high.clocks.next = readings.first[63:32];
    in.first_high.clocks.we = accessed.first_low;
    in.last_low.clocks.next = readings.last[31:0];
    in.last_high.clocks.next = readings.last[63:32];
    in.last_high.clocks.we = accessed.last_low;
    in.idle_no_descriptor.clocks.next = readings.idle_no_descriptor;
    in.idle_no_data.clocks.next = readings.idle_no_data;
    in.idle_no_tag.clocks.next = readings.idle_no_tag;
    in.idle_link.clocks.next = readings.idle_link;
    in.idle_no_credit.clocks.next = readings.idle_no_credit;
    in.idle_gap.clocks.next = '0;  // this engine has no gap
    in.credit.bytes.next = readings.credit;
    in.sent.bytes.next = readings.sent;
    in.packets.count.next = readings.packets;
    in.packets_dropped.count.next = readings.packets_dropped;
    in.packets_truncated.count.next = readings.packets_truncated;
    in.pushed.count.next = readings.pushed;
    in.pushes_dropped.count.next = readings.pushes_dropped;
  end
  always_comb begin
    settings = '0;
    settings.run = run;
    settings.source = source_e'(out.control.source.value);
    settings.interrupt_enable = out.control.interrupt_enable.value;
    settings.status_enable = out.control.status_enable.value;
    settings.relaxed_ordering = out.control.relaxed_ordering.value;
    settings.oversize = out.control.oversize.value;
    settings.card_memory = out.control.card_memory.value;
    settings.packets = HAS_PACKETS && out.control.packets.value;
    settings.drop_packets = HAS_PACKETS && out.control.drop_packets.value;
    settings.restart = restart;
    settings.payload = out.payload.bytes.value;
    settings.vector = out.vector.value.value;
    settings.ring = {out.ring_high.address.value, out.ring_low.address.value};
    settings.ring_entries = out.ring_entries.value.value;
    settings.doorbell = out.doorbell.count.value;
    settings.status_address = {out.status_high.address.value, out.status_low.address.value};
    settings.credit_written = credit_written;
    settings.credit = out.credit.bytes.value;
    settings.credit_window = out.credit_window.bytes.value;
    settings.aperture = out.aperture.bytes.value;
  end
endmodule
