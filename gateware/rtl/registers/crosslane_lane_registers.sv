// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The registers of one receive lane: a block that PeakRDL has generated, with the lane's settings
// and readings on its wires.

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
  crosslane_lane_block_pkg::crosslane_lane_block__in_t  in;
  crosslane_lane_block_pkg::crosslane_lane_block__out_t out;

  crosslane_lane_block registers (
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
    in.lane.status.overflow.next = readings.overflow;
    in.lane.fill.bytes.next = readings.fill;
    in.lane.received.bytes.next = readings.received;
    in.lane.drained.bytes.next = readings.drained;
    in.lane.check_errors.count.next = readings.check_errors;
    in.lane.check_first.word.next = readings.check_first;
    in.lane.first_low.clocks.next = readings.first[31:0];
    in.lane.first_high.clocks.next = readings.first[63:32];
    in.lane.first_high.clocks.we = out.lane.first_low.clocks.swacc;
    in.lane.last_low.clocks.next = readings.last[31:0];
    in.lane.last_high.clocks.next = readings.last[63:32];
    in.lane.last_high.clocks.we = out.lane.last_low.clocks.swacc;
  end

  always_comb begin
    settings.enable = out.lane.control.enable.value;
    settings.drop_when_full = out.lane.control.drop_when_full.value;
    settings.return_credits = out.lane.control.return_credits.value;
    settings.check = out.lane.control.check.value;
    settings.restart = out.lane.control.restart.value;
    settings.credit_address = {
      out.lane.credit_high.address.value, out.lane.credit_low.address.value
    };
    settings.check_seed = out.lane.check_seed.seed.value;
  end
endmodule
