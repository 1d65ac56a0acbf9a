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
  logic tx_held, tx_locked;
  crosslane_lock_reset #(
      .CLOCKS(CLOCKS)
  ) senders (
      .clk,
      .rst,
      .is_locked(!no_pll),
      .is_held  (tx_held),
      .is_ending(),
      .is_ready (tx_locked)
  );
  always_ff @(posedge clk) begin
    macro_rst <= tx_held;
    tx_rst <= tx_held;
    tx_pcs_rst <= !tx_locked;
    tx_ready <= tx_locked;
  end

  // --- Receivers -----------------------------------------------------------------------------
  logic [1:0] is_good, rx_held, rx_locked;
  assign is_good = ~silent & ~unlocked;
  for (genvar n = 0; n < 2; n++) begin : g_rx
    // Without a signal the recovered clock runs on, near that of this board: no reset for that.
    crosslane_lock_reset #(
        .CLOCKS(CLOCKS),
        .AGAIN (1'b0)
    ) receiver (
        .clk,
        .rst(rst || !tx_locked),
        .is_locked(is_good[n]),
        .is_held(rx_held[n]),
        .is_ending(),
        .is_ready(rx_locked[n])
    );
  end
  always_ff @(posedge clk) begin
    rx_rst <= rx_held;
    rx_pcs_rst <= rx_held;
    rx_ready <= rx_locked & is_good;
  end
endmodule
