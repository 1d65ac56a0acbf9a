// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The registers of one channel: a block that PeakRDL has generated, with the channel's settings and
// readings on its wires. Settings show what was written from the clock after the access.

module crosslane_channel_registers
  import crosslane_pkg::*;
#(
    parameter kind_e KIND = KIND_H2C,
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
    // A channel shows a part of it.
    // verilator lint_off UNUSEDSIGNAL
    input channel_readings_t readings
    // verilator lint_on UNUSEDSIGNAL
);
  if (IS_BARE) begin : g_bare
    crosslane_bare_block_pkg::crosslane_bare_block__in_t in;
    crosslane_bare_block_pkg::crosslane_bare_block__out_t out;
    logic restart;
    assign restart = out.channel.control.restart.value;

    crosslane_bare_block registers (
        .clk,
        .rst,
        .s_cpuif_req(access_valid),
        .s_cpuif_req_is_wr(access_write),
        .s_cpuif_addr({access_address, 2'b00}),
        .s_cpuif_wr_data(access_data),
        .s_cpuif_wr_biten('1),
        .s_cpuif_req_stall_wr(),
        .s_cpuif_req_stall_rd(),
        .s_cpuif_rd_ack(),
        .s_cpuif_rd_err(),
        .s_cpuif_rd_data(read_data),
        .s_cpuif_wr_ack(),
        .s_cpuif_wr_err(),
        .hwif_in(in),
        .hwif_out(out)
    );

    always_comb begin
      in.channel.control.run.hwclr = restart;
      in.channel.status.state.next = readings.state;
      in.channel.status.error.next = readings.error;
      in.channel.status.in_flight.next = readings.in_flight;
      in.channel.completed.count.next = readings.completed;
      in.channel.stopped_at.bytes.next = readings.stopped_at;
      in.channel.error_low.address.next = readings.error_address[31:0];
      in.channel.error_high.address.next = readings.error_address[63:32];
    end
    always_comb begin
      settings = '0;
      settings.run = out.channel.control.run.value && !restart;
      settings.source = source_e'(out.channel.control.source.value);
      settings.interrupt_enable = out.channel.control.interrupt_enable.value;
      settings.status_enable = out.channel.control.status_enable.value;
      settings.relaxed_ordering = out.channel.control.relaxed_ordering.value;
      settings.oversize = out.channel.control.oversize.value;
      settings.restart = restart;
      settings.payload = out.channel.payload.bytes.value;
    end
  end else if (KIND == KIND_PEER) begin : g_peer
    crosslane_peer_block_pkg::crosslane_peer_block__in_t in;
    crosslane_peer_block_pkg::crosslane_peer_block__out_t out;
    logic restart;
    assign restart = out.channel.control.restart.value;

    crosslane_peer_block registers (
        .clk,
        .rst,
        .s_cpuif_req(access_valid),
        .s_cpuif_req_is_wr(access_write),
        .s_cpuif_addr({access_address, 2'b00}),
        .s_cpuif_wr_data(access_data),
        .s_cpuif_wr_biten('1),
        .s_cpuif_req_stall_wr(),
        .s_cpuif_req_stall_rd(),
        .s_cpuif_rd_ack(),
        .s_cpuif_rd_err(),
        .s_cpuif_rd_data(read_data),
        .s_cpuif_wr_ack(),
        .s_cpuif_wr_err(),
        .hwif_in(in),
        .hwif_out(out)
    );

    // The register shows what the channel holds, but in the clock behind a write what was written.
    logic credit_written;
    always_ff @(posedge clk) credit_written <= out.channel.credit.bytes.swmod && !rst;

    always_comb begin
      in.channel.control.run.hwclr = restart;
      in.channel.doorbell.count.hwclr = restart;
      // A stopped channel takes no doorbell; behind a restart it does, whatever it still shows.
      in.channel.doorbell.count.swwe = readings.state != STATE_STOPPED || restart;
      in.channel.status.state.next = readings.state;
      in.channel.status.error.next = readings.error;
      in.channel.status.in_flight.next = readings.in_flight;
      in.channel.completed.count.next = readings.completed;
      in.channel.stopped_at.bytes.next = readings.stopped_at;
      in.channel.error_low.address.next = readings.error_address[31:0];
      in.channel.error_high.address.next = readings.error_address[63:32];
      in.channel.bytes_low.count.next = readings.bytes[31:0];
      in.channel.bytes_high.count.next = readings.bytes[63:32];
      in.channel.bytes_high.count.we = out.channel.bytes_low.count.swacc;
      in.channel.tlps.count.next = readings.tlps;
      in.channel.fetched.count.next = readings.fetched;
      in.channel.first_low.clocks.next = readings.first[31:0];
      in.channel.first_high.clocks.next = readings.first[63:32];
      in.channel.first_high.clocks.we = out.channel.first_low.clocks.swacc;
      in.channel.last_low.clocks.next = readings.last[31:0];
      in.channel.last_high.clocks.next = readings.last[63:32];
      in.channel.last_high.clocks.we = out.channel.last_low.clocks.swacc;
      in.channel.idle_no_descriptor.clocks.next = readings.idle_no_descriptor;
      in.channel.idle_no_data.clocks.next = readings.idle_no_data;
      in.channel.idle_no_tag.clocks.next = readings.idle_no_tag;
      in.channel.idle_link.clocks.next = readings.idle_link;
      in.channel.idle_no_credit.clocks.next = readings.idle_no_credit;
      in.channel.idle_gap.clocks.next = '0;  // this engine has no gap
      in.channel.credit.bytes.next = readings.credit;
      in.channel.sent.bytes.next = readings.sent;
    end
    always_comb begin
      settings = '0;
      settings.run = out.channel.control.run.value && !restart;
      settings.source = source_e'(out.channel.control.source.value);
      settings.interrupt_enable = out.channel.control.interrupt_enable.value;
      settings.status_enable = out.channel.control.status_enable.value;
      settings.relaxed_ordering = out.channel.control.relaxed_ordering.value;
      settings.oversize = out.channel.control.oversize.value;
      settings.restart = restart;
      settings.payload = out.channel.payload.bytes.value;
      settings.vector = out.channel.vector.value.value;
      settings.ring = {out.channel.ring_high.address.value, out.channel.ring_low.address.value};
      settings.ring_entries = out.channel.ring_entries.value.value;
      settings.doorbell = out.channel.doorbell.count.value;
      settings.status_address = {
        out.channel.status_high.address.value, out.channel.status_low.address.value
      };
      settings.credit_written = credit_written;
      settings.credit = out.channel.credit.bytes.value;
      settings.credit_window = out.channel.credit_window.bytes.value;
      settings.aperture = out.channel.aperture.bytes.value;
    end
  end else begin : g_channel
    crosslane_channel_block_pkg::crosslane_channel_block__in_t in;
    crosslane_channel_block_pkg::crosslane_channel_block__out_t out;
    logic restart;
    assign restart = out.channel.control.restart.value;

    crosslane_channel_block registers (
        .clk,
        .rst,
        .s_cpuif_req(access_valid),
        .s_cpuif_req_is_wr(access_write),
        .s_cpuif_addr({access_address, 2'b00}),
        .s_cpuif_wr_data(access_data),
        .s_cpuif_wr_biten('1),
        .s_cpuif_req_stall_wr(),
        .s_cpuif_req_stall_rd(),
        .s_cpuif_rd_ack(),
        .s_cpuif_rd_err(),
        .s_cpuif_rd_data(read_data),
        .s_cpuif_wr_ack(),
        .s_cpuif_wr_err(),
        .hwif_in(in),
        .hwif_out(out)
    );

    always_comb begin
      in.channel.control.run.hwclr = restart;
      in.channel.doorbell.count.hwclr = restart;
      // A stopped channel takes no doorbell; behind a restart it does, whatever it still shows.
      in.channel.doorbell.count.swwe = readings.state != STATE_STOPPED || restart;
      in.channel.status.state.next = readings.state;
      in.channel.status.error.next = readings.error;
      in.channel.status.in_flight.next = readings.in_flight;
      in.channel.completed.count.next = readings.completed;
      in.channel.stopped_at.bytes.next = readings.stopped_at;
      in.channel.error_low.address.next = readings.error_address[31:0];
      in.channel.error_high.address.next = readings.error_address[63:32];
      in.channel.bytes_low.count.next = readings.bytes[31:0];
      in.channel.bytes_high.count.next = readings.bytes[63:32];
      in.channel.bytes_high.count.we = out.channel.bytes_low.count.swacc;
      in.channel.tlps.count.next = readings.tlps;
      in.channel.fetched.count.next = readings.fetched;
      in.channel.first_low.clocks.next = readings.first[31:0];
      in.channel.first_high.clocks.next = readings.first[63:32];
      in.channel.first_high.clocks.we = out.channel.first_low.clocks.swacc;
      in.channel.last_low.clocks.next = readings.last[31:0];
      in.channel.last_high.clocks.next = readings.last[63:32];
      in.channel.last_high.clocks.we = out.channel.last_low.clocks.swacc;
      in.channel.idle_no_descriptor.clocks.next = readings.idle_no_descriptor;
      in.channel.idle_no_data.clocks.next = readings.idle_no_data;
      in.channel.idle_no_tag.clocks.next = readings.idle_no_tag;
      in.channel.idle_link.clocks.next = readings.idle_link;
      in.channel.idle_no_credit.clocks.next = readings.idle_no_credit;
      in.channel.idle_gap.clocks.next = '0;  // this engine has no gap
    end
    always_comb begin
      settings = '0;
      settings.run = out.channel.control.run.value && !restart;
      settings.source = source_e'(out.channel.control.source.value);
      settings.interrupt_enable = out.channel.control.interrupt_enable.value;
      settings.status_enable = out.channel.control.status_enable.value;
      settings.relaxed_ordering = out.channel.control.relaxed_ordering.value;
      settings.oversize = out.channel.control.oversize.value;
      settings.card_memory = out.channel.control.card_memory.value;
      settings.restart = restart;
      settings.payload = out.channel.payload.bytes.value;
      settings.vector = out.channel.vector.value.value;
      settings.ring = {out.channel.ring_high.address.value, out.channel.ring_low.address.value};
      settings.ring_entries = out.channel.ring_entries.value.value;
      settings.doorbell = out.channel.doorbell.count.value;
      settings.status_address = {
        out.channel.status_high.address.value, out.channel.status_low.address.value
      };
    end
  end
endmodule
