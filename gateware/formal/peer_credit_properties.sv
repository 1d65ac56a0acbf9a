// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// crosslane_peer_credit: a sender that obeys `next_fits` never has more in flight than its credit
// window, whatever happens to the receiver's counts on their way: late, lost, doubled, out of
// order. A count never goes back. A descriptor that waits for credit completes only when it is
// covered.

module peer_credit_properties
  import crosslane_pkg::*;
(
    input logic clk,
    input logic rst,
    input logic restart,
    input logic credit_written,
    input logic [31:0] credit_value,
    input logic [31:0] window,
    input logic [12:0] bytes,  // of the next TLP
    input logic wants,  // the sender wants to send it
    input logic ends,  // it is the last of its descriptor
    input logic awaits
);
  channel_settings_t settings;
  always_comb begin
    settings = '0;
    settings.restart = restart;
    settings.credit = credit_value;
    settings.credit_written = credit_written;
    settings.credit_window = window;
  end

  logic [31:0] credit, sent, next_sent, window_before, waiting_bytes;
  logic next_fits, sends, waiting, waiting_awaits, complete_valid;
  logic complete_status, complete_interrupt;
  logic is_reset = 1'b0;

  assign next_sent = sent + 32'(bytes);
  assign sends = wants && next_fits && !rst && !restart;

  crosslane_peer_credit #(
      .DEPTH(4)
  ) credits (
      .clk,
      .rst,
      .forget(1'b0),
      .settings,
      .credit,
      .next_sent,
      .next_fits,
      .sent_valid(sends && ends),
      .sent(next_sent),
      .sent_bytes(32'(bytes)),
      .sent_awaits(awaits),
      .sent_status(1'b0),
      .sent_interrupt(1'b0),
      .waiting,
      .waiting_awaits,
      .waiting_bytes,
      .complete_valid,
      .complete_status,
      .complete_interrupt
  );

  logic [31:0] credit_before;
  logic was_cleared;

  always_ff @(posedge clk) begin
    is_reset <= 1'b1;
    window_before <= window;
    credit_before <= credit;
    was_cleared <= rst || restart;
    if (sends) sent <= next_sent;
    if (rst || restart) sent <= '0;
  end

  always_comb begin
    if (!is_reset) begin
      assume (rst);
    end else begin
      // The driver sets the window while nothing is sent.
      assume (window == window_before || was_cleared);
      assume (window != '0 && window < 32'h4000_0000);
      assume (bytes != '0 && bytes <= 13'd4096);
      // A receiver cannot have taken out more than was sent; it may repeat an older count.
      assume (!credit_written || (sent - credit_value) < 32'h8000_0000);

      assert (sent - credit <= window);
      if (!was_cleared) assert ((credit - credit_before) < 32'h8000_0000);
      if (complete_valid && waiting_awaits) begin
        assert ((credit - credits.waiting_sent) < 32'h8000_0000);
      end
    end
  end
endmodule
