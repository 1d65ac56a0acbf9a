// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The command port of peer channel 0: offers the channel the command that was started, one at a
// time, or else the ping-pong's message. An offer may change until it is taken.

module crosslane_command_port
  import crosslane_pkg::*;
(
    input  logic               clk,
    input  logic               rst,
    // From the registers.
    input  logic        [63:0] address,
    input  logic        [31:0] bytes,
    input  logic               start,          // pulse: ignored while a command is in progress
    output logic               busy,
    output logic        [31:0] done,
    // The ping-pong.
    input  logic               ping_ready,
    output logic               ping_taken,
    // The channel.
    input  logic               stopped,        // pulse: the started command is dropped
    output logic               command_valid,
    input  logic               command_ready,
    output descriptor_t        descriptor,
    input  logic               command_done    // pulse
);
  logic waits;
  logic [63:0] own_address;
  logic [31:0] own_bytes;

  assign command_valid = waits || ping_ready;
  assign ping_taken = command_ready && !waits && ping_ready;

  always_comb begin
    descriptor = '0;
    descriptor.error = ERROR_NONE;
    descriptor.address = waits ? own_address : address;
    descriptor.bytes = waits ? own_bytes : bytes;
    descriptor.command = 1'b1;
    descriptor.generated = !waits;
  end

  always_ff @(posedge clk) begin
    if (command_ready) waits <= 1'b0;
    if (command_done) begin
      busy <= 1'b0;
      done <= done + 1'b1;
    end
    if (stopped) begin
      waits <= 1'b0;
      busy  <= 1'b0;
    end
    if (start && !busy) begin
      waits <= 1'b1;
      busy <= 1'b1;
      own_address <= address;
      own_bytes <= bytes;
    end
    if (rst) begin
      waits <= 1'b0;
      busy  <= 1'b0;
      done  <= '0;
    end
  end
endmodule
