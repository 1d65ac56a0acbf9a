// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The registers of one receive queue: a generated block, connected to its settings and
// readings.

module crosslane_lane_registers
  import crosslane_pkg::*;
(
    input logic clk,
    input logic rst,
    input logic access_valid,
    input logic access_write,
    input logic [5:2] access_address,
    input logic [31:0] access_data,
    output logic [31:0] read_data,  // in the clock of the access
    output lane_settings_t settings,
    input lane_readings_t readings
);
  crosslane_lane_block_pkg::in_t in;
  crosslane_lane_block_pkg::out_t out;
  crosslane_lane_block_pkg::accessed_t accessed;

  crosslane_lane_block registers (.*);

  always_comb begin
    in.status.overflow.next = readings.overflow;
    in.fill.bytes.next = readings.fill;
    in.received.bytes.next = readings.received;
    in.drained.bytes.next = readings.drained;
    in.check_errors.count.next = readings.check_errors;
    in.check_first.word.next = readings.check_first;
    in.first_low.clocks.next = readings.first[31:0];
    in.first_high.clocks.next = readings.first[63:32];
    in.first_high.clocks.we = accessed.first_low;
    in.last_low.clocks.next = readings.last[31:0];
    in.last_high.clocks.next = readings.last[63:32];
    in.last_high.clocks.we = accessed.last_low;
  end

  always_comb begin
    settings.enable = out.control.enable.value;
    settings.drop_when_full = out.control.drop_when_full.value;
    settings.return_credits = out.control.return_credits.value;
    settings.check = out.control.check.value;
    settings.restart = out.control.restart.value;
    settings.credit_address = {out.credit_high.address.value, out.credit_low.address.value};
    settings.check_seed = out.check_seed.seed.value;
  end
endmodule
