// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A test of cables on Lattice's ECP5 Evaluation Board: two links, each with a generator and a checker
// of datagrams, on the two channels of DCU 0, at SMA connectors. Read first: README.md beside this
// file.

module crosslane_evn_ecp5
  import crosslane_link_pkg::*;
#(
    parameter int unsigned RATE     = 2500,     // of the lines, Mb/s: 2,500 or 5,000
    parameter int unsigned LINKS    = 2,        // 1: without link 1, to be placed sooner
    parameter int unsigned INTERVAL = 500_000,  // from line to line of the report, us
    parameter int unsigned BAUD     = 115_200,
    // Clocks of 12 MHz that a state of the reset lasts.
    parameter int unsigned SETTLE   = 16384
) (
    input  logic       clk12,
    input  logic       rst_n,
    input  logic       tests_line,  // a switch: PRBS-31 on the lines
    input  logic       stops,       // a switch: no new datagrams
    output logic       uart_tx,
    output logic [7:0] led_n
);
  localparam int unsigned LANES = 8;
  // Clock of the links in kHz: a column of 80 bits in each.
  localparam int unsigned CLK_KHZ = RATE * 1000 / 80;

  // --- Clocks --------------------------------------------------------------------------------
  // Nets that are kept have constraints by these names.
  logic refclk;
  EXTREFB #(
      .REFCK_PWDNB("0b1"),
      // 100 ohms between its pins; the board has capacitors before them.
      .REFCK_RTERM("0b1"),
      .REFCK_DCBIAS_EN("0b0")
  ) reference (
      .REFCLKO(refclk)
  );

  logic control_rst;
  crosslane_synchronizer resets (
      .clk(clk12),
      .rst(1'b0),
      .s  (!rst_n),
      .m  (control_rst)
  );

  // --- Transceiver ---------------------------------------------------------------------------
  logic macro_rst, tx_rst, tx_pcs_rst, pll_unlocked, tx_ready;
  (* keep = "true" *) logic tx_pclk;
  (* keep = "true" *) logic [1:0] rx_pclk;
  logic [1:0] rx_rst, rx_pcs_rst, rx_silent, rx_unlocked, rx_ready, tx_idle;
  logic [1:0][19:0] tx_words, rx_words;
  crosslane_ecp5_reset #(
      .CLOCKS(SETTLE)
  ) order (
      .clk(clk12),
      .rst(control_rst),
      .*
  );
  crosslane_ecp5_dcu #(.RATE(RATE)) transceiver (.*);

  // --- Links ---------------------------------------------------------------------------------
  // Both links in the clock of the PLL; each receives in a clock of its own.
  (* keep = "true" *) logic clk;
  (* keep = "true" *) logic [1:0] rx_clk;
  logic rst, is_line, is_stopped, has_tx;
  logic [1:0] tx_begins_word, tx_enable;
  logic [1:0][20*LANES-1:0] tx_line, rx_line;
  assign rst = !has_tx;
  crosslane_synchronizer #(
      .WIDTH(3)
  ) settings (
      .clk,
      .rst(1'b0),
      .s  ({tx_ready, tests_line, stops}),
      .m  ({has_tx, is_line, is_stopped})
  );

  // Sessions differ: the time of a reset does.
  logic [15:0] first_session;
  always_ff @(posedge clk) first_session <= first_session + 1'b1;

  port_state_e [1:0] state;
  link_counters_t [1:0] counters;
  lane_counters_t [1:0] lane_counters;
  logic [1:0][LANES-1:0][31:0] lane_errors;
  logic [1:0][31:0] sent, right, wrong, line_wrong_bits, line_steps_lost;
  logic [1:0] line_in_step;

  crosslane_ecp5_tx_gear #(
      .SLOTS(LANES)
  ) tx_gear (
      .pclk(tx_pclk),
      .clk,
      .begins(tx_begins_word),
      .words(tx_line),
      .m_words(tx_words)
  );

  for (genvar n = LINKS; n < 2; n++) begin : g_no_link
    assign rx_clk[n] = 1'b0;
    assign tx_enable[n] = 1'b0;
    assign tx_begins_word[n] = 1'b0;
    assign tx_line[n] = '0;
    assign rx_line[n] = '0;
    assign state[n] = PORT_DISABLED;
    assign {sent[n], right[n], wrong[n]} = '0;
    assign counters[n] = '0;
    assign lane_counters[n] = '0;
    assign lane_errors[n] = '0;
    assign line_in_step[n] = 1'b0;
    assign {line_wrong_bits[n], line_steps_lost[n]} = '0;
    logic unused;
    assign unused = &{1'b0, rx_words[n], rx_pclk[n]};
  end
  for (genvar n = 0; n < LINKS; n++) begin : g_link
    crosslane_ecp5_rx_gear #(
        .SLOTS(LANES)
    ) rx_gear (
        .pclk(rx_pclk[n]),
        .s_word(rx_words[n]),
        .clk(rx_clk[n]),
        .word(rx_line[n])
    );

    crosslane_evn_link link (
        .tests_line(is_line),
        .stops(is_stopped),
        .tx_enable(tx_enable[n]),
        .tx_begins_word(tx_begins_word[n]),
        .tx_line(tx_line[n]),
        .rx_clk(rx_clk[n]),
        .rx_detected(rx_ready[n]),
        .rx_line(rx_line[n]),
        .state(state[n]),
        .sent(sent[n]),
        .right(right[n]),
        .wrong(wrong[n]),
        .counters(counters[n]),
        .lane_counters(lane_counters[n]),
        .lane_errors(lane_errors[n]),
        .line_in_step(line_in_step[n]),
        .line_wrong_bits(line_wrong_bits[n]),
        .line_steps_lost(line_steps_lost[n]),
        .*
    );
  end
  always_ff @(posedge clk) tx_idle <= ~tx_enable;

  // --- Report --------------------------------------------------------------------------------
  crosslane_link_report #(
      .LANES(LANES),
      .BIT(CLK_KHZ * 1000 / BAUD),
      .INTERVAL(CLK_KHZ / 50 * (INTERVAL / 20))
  ) report (
      .tx(uart_tx),
      .*
  );

  logic [24:0] blinks;
  logic [1:0] is_up, is_wrong;
  always_ff @(posedge clk) blinks <= blinks + 1'b1;
  always_comb begin
    for (int unsigned n = 0; n < 2; n++) begin
      is_up[n] = state[n] == PORT_UP;
      is_wrong[n] = wrong[n] != '0;
    end
  end
  // Lights are thought to be on where the pin is low.
  assign led_n = ~{blinks[24], has_tx, is_wrong, rx_ready, is_up};
endmodule
