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
  typedef enum logic [1:0] {
    TX_ALL_RESET,
    TX_LOCKING,
    TX_READY
  } tx_state_e;
  tx_state_e tx_state;
  time_t tx_time;  // since a reason to stay was last seen

  always_ff @(posedge clk) begin
    tx_time <= tx_time + 1'b1;
    unique case (tx_state)
      TX_ALL_RESET: if (&tx_time) tx_state <= TX_LOCKING;
      TX_LOCKING: begin
        if (!has_tx) tx_time <= '0;
        else if (&tx_time) tx_state <= TX_READY;
      end
      default: begin
        tx_time <= '0;
        if (!has_tx) tx_state <= TX_ALL_RESET;
      end
    endcase
    // A core is not reset before it has power, nor while the port has its receivers' clock.
    reset_all <= tx_state == TX_ALL_RESET && is_powered && tx_time[TIME_BITS-1];
    tx_ready  <= tx_state == TX_READY && has_tx;
    if (is_rst || !is_powered) begin
      tx_state <= TX_ALL_RESET;
      tx_time  <= '0;
      tx_ready <= 1'b0;
    end
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
    if (tx_state != TX_READY) rx_next = RX_STOPPING;
  end

  always_ff @(posedge clk) begin
    rx_state <= rx_next;
    rx_time  <= rx_time + 1'b1;
    if (rx_next != rx_state || tx_state != TX_READY) rx_time <= '0;
    if (rx_state == RX_STARTING && !has_rx) rx_time <= '0;
    if (rx_state == RX_LOST && !all_coded) rx_time <= '0;
    waited <= waited + 1'b1;
    if (is_off || (rx_state == RX_READY && is_up)) waited <= '0;
    reset_rx <= rx_state == RX_RESET;
    rx_runs  <= !is_off && has_rx;
    rx_ready <= rx_state == RX_READY && all_coded;
  end
endmodule
