// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Order of the resets of a DCU with two channels (Lattice TN1261, SerDes/PCS reset): all of it;
// then senders once the PLL has locked; then each receiver by itself, once there is a signal and
// the recovered clock has locked to it. Senders do not wait for receivers: two ends would wait for
// each other. A lock that is lost brings back the state before it.

module crosslane_ecp5_reset #(
    parameter int unsigned CLOCKS = 1024  // of `clk`, that a state lasts at least
) (
    input  logic       clk,
    input  logic       rst,
    // From the DCU, in no clock.
    input  logic       pll_unlocked,
    input  logic [1:0] rx_silent,
    input  logic [1:0] rx_unlocked,
    // To the DCU.
    output logic       macro_rst,
    output logic       tx_rst,
    output logic       tx_pcs_rst,
    output logic [1:0] rx_rst,
    output logic [1:0] rx_pcs_rst,
    // Words go out; words come in.
    output logic       tx_ready,
    output logic [1:0] rx_ready
);
  localparam int unsigned TIME_BITS = $clog2(CLOCKS);

  logic no_pll;
  logic [1:0] silent, unlocked;
  crosslane_synchronizer #(
      .WIDTH(5)
  ) seen (
      .clk,
      .rst(1'b0),
      .s  ({pll_unlocked, rx_silent, rx_unlocked}),
      .m  ({no_pll, silent, unlocked})
  );

  // --- Senders -------------------------------------------------------------------------------
  typedef enum logic [1:0] {
    TX_ALL_RESET,
    TX_LOCKING,
    TX_READY
  } tx_state_e;
  tx_state_e tx_state;
  logic [TIME_BITS-1:0] tx_time;

  // `tx_time` is that since a reason to stay was last seen.
  always_ff @(posedge clk) begin
    tx_time <= tx_time + 1'b1;
    unique case (tx_state)
      TX_ALL_RESET: if (&tx_time) tx_state <= TX_LOCKING;
      TX_LOCKING: begin
        if (no_pll) tx_time <= '0;
        else if (&tx_time) tx_state <= TX_READY;
      end
      default: begin
        tx_time <= '0;
        if (no_pll) tx_state <= TX_ALL_RESET;
      end
    endcase
    macro_rst <= tx_state == TX_ALL_RESET;
    tx_rst <= tx_state == TX_ALL_RESET;
    tx_pcs_rst <= tx_state != TX_READY;
    tx_ready <= tx_state == TX_READY;
    if (rst) begin
      tx_state <= TX_ALL_RESET;
      tx_time  <= '0;
    end
  end

  // --- Receivers -----------------------------------------------------------------------------
  typedef enum logic [1:0] {
    RX_RESET,
    RX_LOCKING,
    RX_READY
  } rx_state_e;
  for (genvar n = 0; n < 2; n++) begin : g_rx
    rx_state_e rx_state;
    logic [TIME_BITS-1:0] rx_time;
    logic is_good;
    assign is_good = !silent[n] && !unlocked[n];

    // Without a signal the recovered clock runs on, near that of this board: no reset for that.
    always_ff @(posedge clk) begin
      rx_time <= rx_time + 1'b1;
      unique case (rx_state)
        RX_RESET: if (&rx_time) rx_state <= RX_LOCKING;
        RX_LOCKING: begin
          if (!is_good) rx_time <= '0;
          else if (&rx_time) rx_state <= RX_READY;
        end
        default: begin
          rx_time <= '0;
          if (!is_good) rx_state <= RX_LOCKING;
        end
      endcase
      rx_rst[n] <= rx_state == RX_RESET;
      rx_pcs_rst[n] <= rx_state == RX_RESET;
      rx_ready[n] <= rx_state == RX_READY && is_good;
      if (rst || tx_state != TX_READY) begin
        rx_state <= RX_RESET;
        rx_time  <= '0;
      end
    end
  end
endmodule
