// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Order of the resets of the transceivers of a link, for a core whose own controller brings up PLL,
// senders and receivers. The receivers are reset together, and once more when a lane's signal has
// come back: their buffers have slipped meanwhile. The clock that the port has of them is off
// before they are reset and until they are done. Senders do not wait for receivers: two ends would
// wait for each other.

module crosslane_gt_reset #(
    parameter int unsigned LANES = 4,
    // Clocks, powers of two: that a state lasts, more than a signal takes to be seen (150 words);
    // until a link that does not come up has its receivers reset, more than their reset and
    // training take.
    parameter int unsigned SETTLE = 8192,
    parameter int unsigned PATIENCE = 1 << 25
) (
    input  logic             clk,
    // Levels, in no clock or another one.
    input  logic             rst,
    input  logic             powered,
    input  logic             tx_done,
    input  logic             rx_done,
    input  logic [LANES-1:0] is_coded,
    input  logic             link_up,
    // To the core.
    output logic             reset_all,
    output logic             reset_rx,
    output logic             rx_runs,    // the port has a clock of the receivers
    // Words go out; words come in.
    output logic             tx_ready,
    output logic             rx_ready
);
  localparam int unsigned TIME_BITS = $clog2(SETTLE);
  typedef logic [TIME_BITS-1:0] time_t;

  logic is_rst, is_powered, has_tx, has_rx, is_up;
  logic [LANES-1:0] coded;
  crosslane_synchronizer #(
      .WIDTH(LANES + 5)
  ) seen (
      .clk,
      .rst(1'b0),
      .s  ({rst, powered, tx_done, rx_done, link_up, is_coded}),
      .m  ({is_rst, is_powered, has_tx, has_rx, is_up, coded})
  );

  // --- All, and senders ----------------------------------------------------------------------
  // A core is not reset before it has power, nor while the port has its receivers' clock.
  logic has_no_power, resets_all, has_senders;
  assign has_no_power = is_rst || !is_powered;
  crosslane_lock_reset #(
      .CLOCKS(SETTLE)
  ) senders (
      .clk,
      .rst(has_no_power),
      .is_locked(has_tx),
      .is_held(),
      .is_ending(resets_all),
      .is_ready(has_senders)
  );
  always_ff @(posedge clk) begin
    reset_all <= resets_all;
    tx_ready  <= has_senders && has_tx && !has_no_power;
  end

  // --- Receivers -----------------------------------------------------------------------------
  typedef enum logic [2:0] {
    RX_STOPPING,
    RX_RESET,
    RX_STARTING,
    RX_READY,
    RX_LOST
  } rx_state_e;
  rx_state_e rx_state, rx_next;
  time_t rx_time;
  logic [$clog2(PATIENCE)-1:0] waited;
  logic all_coded, is_over, is_off;
  assign all_coded = &coded;
  assign is_over = &rx_time;
  assign is_off = rx_state == RX_STOPPING || rx_state == RX_RESET;

  always_comb begin
    rx_next = rx_state;
    unique case (rx_state)
      RX_STOPPING: if (is_over) rx_next = RX_RESET;
      RX_RESET: if (is_over) rx_next = RX_STARTING;
      RX_STARTING: begin
        // Buffers bear to be without a signal for so long, and slip later.
        if (has_rx && all_coded) rx_next = RX_READY;
        else if (is_over) rx_next = RX_LOST;
      end
      RX_READY: if (!all_coded) rx_next = RX_LOST;
      default: if (is_over) rx_next = RX_STOPPING;
    endcase
    // Receivers that have no end of their reset, no signal or no link for long are reset again.
    if (!is_off && (&waited || (!has_rx && rx_state != RX_STARTING))) rx_next = RX_STOPPING;
    if (!has_senders) rx_next = RX_STOPPING;
  end

  always_ff @(posedge clk) begin
    rx_state <= rx_next;
    rx_time  <= rx_time + 1'b1;
    if (rx_next != rx_state || !has_senders) rx_time <= '0;
    if (rx_state == RX_STARTING && !has_rx) rx_time <= '0;
    if (rx_state == RX_LOST && !all_coded) rx_time <= '0;
    waited <= waited + 1'b1;
    if (is_off || (rx_state == RX_READY && is_up)) waited <= '0;
    reset_rx <= rx_state == RX_RESET;
    rx_runs  <= !is_off && has_rx;
    rx_ready <= rx_state == RX_READY && all_coded;
  end
endmodule
