// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Round trips of messages: decides when to send one, and measures the time until the beginning of
// its echo is in the routed receive queue, and until all of it is.

module crosslane_ping (
    input  logic        clk,
    input  logic        rst,
    input  logic [63:0] time_i,          // clocks
    input  logic        start,           // pulse: begins anew
    input  logic [15:0] rounds,
    input  logic        stop,            // pulse: sends no more
    input  logic [31:0] message_bytes,
    input  logic [ 3:0] lane,
    output logic        ready,           // a message is to be sent
    input  logic        taken,           // pulse: the channel has it
    input  logic        begun,           // pulse: its first TLP is handed on
    input  logic        received_valid,
    input  logic [ 3:0] received_lane,
    input  logic [12:0] received_bytes,
    output logic [31:0] done,
    output logic [63:0] sum,             // clocks, as the others
    output logic [31:0] least,
    output logic [31:0] most
);
  // Width of a round trip in clocks: 13 days at 250 MHz.
  localparam int unsigned ROUND_BITS = 48;

  logic [15:0] rounds_left;
  logic waiting;  // a message or its echo is in flight
  logic echoing;  // some of it has come back
  logic [31:0] returned;
  logic [32:0] returned_now;
  logic counts, whole;
  logic [ROUND_BITS-1:0] begun_at;

  assign counts = received_valid && received_lane == lane && waiting && rounds_left != '0;
  assign returned_now = 33'(returned) + 33'(received_bytes);
  assign whole = counts && returned_now >= 33'(message_bytes);

  always_ff @(posedge clk) begin
    if (taken) ready <= 1'b0;
    if (counts) begin
      echoing  <= 1'b1;
      returned <= returned_now[31:0];
    end
    if (whole) begin
      waiting <= 1'b0;
      rounds_left <= rounds_left - 1'b1;
      ready <= rounds_left != 16'd1;
      done <= done + 1'b1;
    end
    if (begun) begin
      waiting  <= 1'b1;
      echoing  <= 1'b0;
      returned <= '0;
      begun_at <= time_i[ROUND_BITS-1:0];
    end
    if (stop) begin
      rounds_left <= '0;
      ready <= 1'b0;
    end
    if (start) begin
      rounds_left <= rounds;
      ready <= rounds != '0;
      waiting <= 1'b0;
      done <= '0;
    end
    if (rst) begin
      rounds_left <= '0;
      ready <= 1'b0;
      waiting <= 1'b0;
      done <= '0;
    end
  end

  // The sums, two clocks later.
  logic measured, is_first, is_first_2, measured_2;
  logic [ROUND_BITS-1:0] round, round_2;
  logic [31:0] round_shown;

  assign round_shown = (round_2[ROUND_BITS-1:32] != '0) ? '1 : round_2[31:0];
  assign measured = counts && !echoing;
  assign is_first = done == '0;
  assign round = time_i[ROUND_BITS-1:0] - begun_at;

  always_ff @(posedge clk) begin
    measured_2 <= measured;
    is_first_2 <= is_first;
    round_2 <= round;
    if (measured_2) begin
      sum <= sum + 64'(round_2);
      if (is_first_2 || round_shown < least) least <= round_shown;
      if (round_shown > most) most <= round_shown;
    end
    if (rst || start) begin
      measured_2 <= 1'b0;
      sum <= '0;
      least <= '0;
      most <= '0;
    end
  end

  // verilator lint_off UNUSEDSIGNAL
  logic unused;
  assign unused = &time_i[63:ROUND_BITS];
  // verilator lint_on UNUSEDSIGNAL
endmodule
