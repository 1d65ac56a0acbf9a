// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A peer channel's credits: the receiver's count of bytes taken out, whether the next TLP is within
// the credit window, and the descriptors sent and not complete, in order.

module crosslane_peer_credit
  import crosslane_pkg::*;
#(
    parameter int unsigned DEPTH = 64  // descriptors sent and not complete
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     forget,             // pulse: waiting descriptors are forgotten
    // Only restart, credit, credit_written and credit_window are used.
    // verilator lint_off UNUSEDSIGNAL
    input  channel_settings_t        settings,
    // verilator lint_on UNUSEDSIGNAL
    output logic              [31:0] credit,
    // The channel's count of bytes with the TLP that is next; whether it may be sent.
    input  logic              [31:0] next_sent,
    output logic                     next_fits,
    // A descriptor has been sent: count of bytes at its end, its length.
    input  logic                     sent_valid,
    input  logic              [31:0] sent,
    input  logic              [31:0] sent_bytes,
    input  logic                     sent_awaits,
    input  logic                     sent_status,
    input  logic                     sent_interrupt,
    // The oldest one that is not complete.
    output logic                     waiting,
    output logic                     waiting_awaits,     // for credit
    output logic              [31:0] waiting_bytes,
    // It is complete.
    output logic                     complete_valid,
    output logic                     complete_status,
    output logic                     complete_interrupt
);
  // --- Credit --------------------------------------------------------------------------------
  // Counts wrap at 2^32: differences are signed. An older count is ignored. Of some differences
  // only the sign is used.
  // verilator lint_off UNUSEDSIGNAL
  logic [31:0] step, beyond;
  // verilator lint_on UNUSEDSIGNAL
  logic [31:0] ahead;
  assign step = settings.credit - credit;

  always_ff @(posedge clk) begin
    if (settings.credit_written && !step[31]) credit <= settings.credit;
    if (rst || settings.restart) credit <= '0;
  end

  assign ahead = next_sent - credit;
  assign next_fits = settings.credit_window == '0 || ahead[31] || ahead <= settings.credit_window;

  // --- Descriptors that wait -----------------------------------------------------------------
  logic [31:0] waiting_sent;

  assign beyond = credit - waiting_sent;
  assign complete_valid = waiting && !(waiting_awaits && beyond[31]);

  crosslane_fifo #(
      .WIDTH(67),
      .DEPTH(DEPTH)
  ) queue (
      .clk,
      .rst(rst || forget || settings.restart),
      .s_valid(sent_valid),
      .s_ready(),
      .s_data({sent_awaits, sent_status, sent_interrupt, sent, sent_bytes}),
      .m_valid(waiting),
      .m_ready(complete_valid),
      .m_data({waiting_awaits, complete_status, complete_interrupt, waiting_sent, waiting_bytes}),
      .count()
  );

endmodule
