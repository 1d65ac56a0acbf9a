// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_link_receiver: whatever comes, only the expected number is delivered, once, and nothing
// behind damage before a RESTART that fits; a NACK is due or will be until then. No count is
// forgotten: one that was not told is untold, one not confirmed is asked for or will be.

module link_receiver_properties
  import crosslane_link_pkg::*;
#(
    parameter int unsigned TIME_BITS = 5
) (
    input logic           clk,
    input logic           rst,
    input logic           comes_up,
    input logic           choose,
    input logic           restart_due,
    input arrival_t       arrival,
    input logic           has_room,
    input logic           frees,
    input logic     [2:0] frees_channel,
    input logic     [2:0] followed
);
  logic [TIME_BITS-1:0] now;
  logic command_due, restart_first, in_error, is_settled;
  logic delivers, is_double, is_discarded, is_overrun, is_stale;
  operation_e operation;
  logic [CHANNELS-1:0] channel, to_confirm;
  logic [7:0] expected;
  logic [CHANNELS-1:0][9:0] freed, delivered, told;

  crosslane_link_receiver #(
      .CHANNEL_DATAGRAMS(8),
      .ACKNOWLEDGE_DATAGRAMS(3),
      .ACKNOWLEDGE_WITHIN(5),
      .REFRESH(9),
      .TIME_BITS(TIME_BITS)
  ) receiver (
      .*
  );

  logic is_reset = 1'b0;
  logic was_reset, delivered_before, was_in_error, left;
  logic [7:0] expected_before;
  logic [2:0] followed_before;
  header_t header;
  command_t command;
  assign header  = arrival.word;
  assign command = arrival.word;

  always_ff @(posedge clk) begin
    is_reset <= 1'b1;
    was_reset <= rst;
    delivered_before <= delivers;
    expected_before <= expected;
    was_in_error <= in_error;
    left <= comes_up || (arrival.command && command.operation == OPERATION_RESTART);
    followed_before <= followed;
    now <= now + 1'b1;
    if (rst) now <= '0;
  end

  always_comb begin
    if (!is_reset) begin
      assume (rst);
    end else begin
      assume (followed == followed_before);
      assume (!(arrival.command && arrival.datagram));
      assume (!arrival.command || (command.operation >= OPERATION_ACK
                                   && command.operation <= OPERATION_CONFIRM));
      assume (!(comes_up && (choose || arrival.broken || arrival.damaged || arrival.command
                             || arrival.datagram)));
      assume (!frees || freed[frees_channel] != delivered[frees_channel]);

      if (delivers) begin
        assert (header.number == expected && has_room && !in_error);
        assert (!arrival.broken && !arrival.damaged);
      end
      if (!was_reset) begin
        assert (expected == expected_before + 8'(delivered_before));
        if (was_in_error) assert (in_error || left);
      end
      assert (!in_error || receiver.nack_pending || receiver.nack_armed);
      assert (in_error || !(receiver.nack_pending || receiver.nack_armed));
      // A NACK without an answer waits ever longer.
      assert (receiver.nacks != '1 && (in_error || receiver.nacks == '0));
      assert (receiver.untold[followed] || receiver.told[followed] == freed[followed]);
      assert ((receiver.urgent & ~receiver.untold) == '0);
      assert (!(receiver.flush || receiver.due_armed) || receiver.owed != '0
              || receiver.untold != '0);
      // Untold, or asked for in time, until it is confirmed.
      assert (!receiver.unconfirmed[followed] || receiver.untold[followed]
              || receiver.ask[followed] || receiver.ask_armed[followed]);
      if (is_settled) begin
        assert (!receiver.nack_due && receiver.confirm == '0 && !receiver.ack_due);
      end
    end
  end
endmodule
