// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The registers of the user circuit: a block that PeakRDL has generated, with the circuit's settings
// and readings on its wires.

module crosslane_user_registers
  import crosslane_pkg::*;
(
    input logic clk,
    input logic rst,
    input logic access_valid,
    input logic access_write,
    input logic [15:2] access_address,
    input logic [31:0] access_data,
    output logic [31:0] read_data,  // in the clock of the access
    output user_settings_t settings,
    input user_readings_t readings
);
  crosslane_user_block_pkg::engine__in_t  in;
  crosslane_user_block_pkg::engine__out_t out;
  logic interconnect_written, seed_written;

  crosslane_user_block registers (
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

  // In the clock in which what was written is first to be seen.
  always_ff @(posedge clk) begin
    interconnect_written <= out.user.interconnect_.c2h_source.swmod && !rst;
    seed_written <= out.user.generator_seed.seed.swmod && !rst;
  end

  always_comb begin
    in.user.h2c_check_errors.count.next = readings.h2c_check_errors;
    in.user.h2c_check_first.word.next = readings.h2c_check_first;
    in.user.command_status.busy.next = readings.command_busy;
    in.user.command_done.count.next = readings.command_done;
    in.user.ping_done.count.next = readings.ping_done;
    in.user.ping_sum_low.clocks.next = readings.ping_sum[31:0];
    in.user.ping_sum_high.clocks.next = readings.ping_sum[63:32];
    in.user.ping_sum_high.clocks.we = out.user.ping_sum_low.clocks.swacc;
    in.user.ping_least.clocks.next = readings.ping_least;
    in.user.ping_most.clocks.next = readings.ping_most;
  end

  always_comb begin
    settings.c2h_source = out.user.interconnect_.c2h_source.value;
    settings.peer_source = out.user.interconnect_.peer_source.value;
    settings.lane = out.user.interconnect_.lane.value;
    settings.interconnect_written = interconnect_written;
    settings.generator_seed = out.user.generator_seed.seed.value;
    settings.generator_restart = seed_written;
    settings.h2c_check = out.user.h2c_check.enable.value;
    settings.h2c_check_restart = out.user.h2c_check.restart.value;
    settings.h2c_check_seed = out.user.h2c_check_seed.seed.value;
    settings.command_address = {
      out.user.command_high.address.value, out.user.command_low.address.value
    };
    settings.command_bytes = out.user.command_bytes.bytes.value;
    settings.command_start = out.user.command.start.value;
    settings.ping_start = out.user.ping.start.value;
    settings.ping_rounds = out.user.ping.rounds.value;
  end
endmodule
