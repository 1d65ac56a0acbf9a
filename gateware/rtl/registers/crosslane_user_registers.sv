// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The registers of the user circuit: a generated block, connected to the circuit's
// settings and readings.

module crosslane_user_registers
  import crosslane_pkg::*;
(
    input logic clk,
    input logic rst,
    input logic access_valid,
    input logic access_write,
    input logic [6:2] access_address,
    input logic [31:0] access_data,
    output logic [31:0] read_data,  // in the clock of the access
    output user_settings_t settings,
    input user_readings_t readings
);
  crosslane_user_block_pkg::in_t in;
  crosslane_user_block_pkg::out_t out;
  crosslane_user_block_pkg::accessed_t accessed;
  logic interconnect_written, seed_written;

  crosslane_user_block registers (.*);

  // In the first clock in which the written value is visible.
  always_ff @(posedge clk) begin
    interconnect_written <= accessed.interconnect_ && !rst;
    seed_written <= accessed.generator_seed && !rst;
  end

  always_comb begin
    in.h2c_check_errors.count.next = readings.h2c_check_errors;
    in.h2c_check_first.word.next = readings.h2c_check_first;
    in.command_status.busy.next = readings.command_busy;
    in.command_done.count.next = readings.command_done;
    in.ping_done.count.next = readings.ping_done;
    in.ping_sum_low.clocks.next = readings.ping_sum[31:0];
    in.ping_sum_high.clocks.next = readings.ping_sum[63:32];
    in.ping_sum_high.clocks.we = accessed.ping_sum_low;
    in.ping_least.clocks.next = readings.ping_least;
    in.ping_most.clocks.next = readings.ping_most;
  end

  always_comb begin
    settings.c2h_source = out.interconnect_.c2h_source.value;
    settings.peer_source = out.interconnect_.peer_source.value;
    settings.lane = out.interconnect_.lane.value;
    settings.interconnect_written = interconnect_written;
    settings.generator_seed = out.generator_seed.seed.value;
    settings.generator_restart = seed_written;
    settings.h2c_check = out.h2c_check.enable.value;
    settings.h2c_check_restart = out.h2c_check.restart.value;
    settings.h2c_check_seed = out.h2c_check_seed.seed.value;
    settings.command_address = {out.command_high.address.value, out.command_low.address.value};
    settings.command_bytes = out.command_bytes.bytes.value;
    settings.command_start = out.command.start.value;
    settings.ping_start = out.ping.start.value;
    settings.ping_rounds = out.ping.rounds.value;
  end
endmodule
