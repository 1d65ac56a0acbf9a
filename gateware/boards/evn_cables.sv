// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_evn.py: two boards, each with its own clock, cabled to each other link by link.
// A cable is two lines, from board A to B and from B to A.

module evn_cables
  import crosslane_link_pkg::*;
#(
    parameter int unsigned RATE     = 2500,
    parameter int unsigned INTERVAL = 200,         // us
    parameter int unsigned BAUD     = 15_625_000,
    parameter int unsigned SETTLE   = 64
) (
    // 250 MHz of each board.
    input  logic                          clk_a,
    input  logic                          clk_b,
    input  logic        [1:0]             rst_n,
    input  logic                          tests_line,
    input  logic                          stops,
    // Of each line: that of link n from board A is n, from board B 2 + n.
    input  logic        [3:0][ 7:0]       delay,
    input  logic        [3:0][31:0]       error_odds,
    input  logic        [3:0]             is_cut,
    input  logic        [3:0]             is_noisy,
    // Of each link: n of board A, 2 + n of board B.
    output port_state_e [3:0]             state,
    output logic        [3:0][31:0]       sent,
    output logic        [3:0][31:0]       right,
    output logic        [3:0][31:0]       wrong,
    output logic        [3:0][31:0]       repeated,
    output logic        [3:0][31:0]       damaged,
    output logic        [3:0][31:0]       restarts,
    output logic        [3:0][31:0]       trainings,
    output logic        [3:0][31:0]       losses,
    output logic        [3:0][ 7:0][31:0] lane_errors,
    output logic        [3:0]             line_in_step,
    output logic        [3:0][31:0]       line_wrong_bits,
    output logic        [3:0][31:0]       line_steps_lost,
    output logic        [1:0]             uart,
    output logic        [1:0][ 7:0]       led_n
);
  logic [1:0] clk250, tx_clk;
  assign clk250 = {clk_b, clk_a};
  logic [3:0][19:0] tx_words, received;
  logic [3:0] is_driven, detected;

  for (genvar n = 0; n < 4; n++) begin : g_line
    link_line #(
        .SEED(n + 1)
    ) line (
        .clk(tx_clk[n/2]),
        .rst(!rst_n[n/2]),
        .begins(1'b1),
        .is_sent(is_driven[n]),
        .word(tx_words[n]),
        .delay(delay[n]),
        .error_odds(error_odds[n]),
        .is_cut(is_cut[n]),
        .is_noisy(is_noisy[n]),
        .detected(detected[n]),
        .received(received[n])
    );
  end

  for (genvar n = 0; n < 2; n++) begin : g_board
    // 12.5 MHz.
    logic control;
    logic [4:0] divided;
    crosslane_evn_ecp5 #(
        .RATE(RATE),
        .INTERVAL(INTERVAL),
        .BAUD(BAUD),
        .SETTLE(SETTLE)
    ) board (
        .clk12  (control),
        .rst_n  (rst_n[n]),
        .uart_tx(uart[n]),
        .led_n  (led_n[n]),
        .*
    );
    assign board.reference.made = clk250[n];
    always_ff @(posedge clk250[n]) begin
      divided <= (divided >= 5'd19) ? '0 : divided + 1'b1;
      control <= divided < 5'd10;
    end
    assign tx_clk[n] = board.transceiver.dcu.line_tx_clk;
    assign tx_words[2*n+:2] = board.transceiver.dcu.line_tx_words;
    assign is_driven[2*n+:2] = board.transceiver.dcu.line_is_driven;
    // The far board's lines.
    assign board.transceiver.dcu.line_rx_words = received[2*(1-n)+:2];
    assign board.transceiver.dcu.line_has_signal = detected[2*(1-n)+:2];
    assign board.transceiver.dcu.line_rx_clk = {2{tx_clk[1-n]}};

    for (genvar link = 0; link < 2; link++) begin : g_link
      localparam int unsigned AT = 2 * n + link;
      assign state[AT] = board.state[link];
      assign sent[AT] = board.sent[link];
      assign right[AT] = board.right[link];
      assign wrong[AT] = board.wrong[link];
      assign repeated[AT] = board.counters[link].repeated;
      assign damaged[AT] = board.counters[link].damaged;
      assign restarts[AT] = board.counters[link].restarts;
      assign trainings[AT] = board.counters[link].trainings;
      assign losses[AT] = board.lane_counters[link].losses;
      assign lane_errors[AT] = board.lane_errors[link];
      assign line_in_step[AT] = board.line_in_step[link];
      assign line_wrong_bits[AT] = board.line_wrong_bits[link];
      assign line_steps_lost[AT] = board.line_steps_lost[link];
    end
  end
endmodule
