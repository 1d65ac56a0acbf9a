// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_transceivers.py: two ends of a link on transceivers, each with its own clocks, generator
// and checker, and a cable. Direction n of the cable leads from end n.

module transceiver_cables
  import crosslane_link_pkg::*;
#(
    parameter bit          IS_GTX                = 1'b0,  // or GTH; else GTY
    parameter bit          IS_GTH                = 1'b0,
    parameter int unsigned LANES                 = 4,
    parameter int unsigned SETTLE                = 256,
    parameter int unsigned PATIENCE              = 8192,
    parameter int unsigned CHANNEL_DATAGRAMS     = 16,
    parameter int unsigned RETRY_DATAGRAMS       = 32,
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 8,
    parameter int unsigned ACKNOWLEDGE_WITHIN    = 204,
    parameter int unsigned RETRY_TIMEOUT         = 918,
    parameter int unsigned REFRESH               = 1598
) (
    // Twice the clock of words; one that runs always.
    input  logic                                 double_clk_0,
    input  logic                                 double_clk_1,
    input  logic                                 free_clk_0,
    input  logic                                 free_clk_1,
    input  logic           [1:0]                 rst,
    input  logic           [1:0]                 no_refclk,
    input  logic           [1:0]                 stops,
    // Of each direction, and of each of its lanes.
    input  logic           [1:0][LANES-1:0][7:0] delay,
    input  logic           [1:0][LANES-1:0]      is_cut,
    input  logic           [1:0][     31:0]      error_odds,
    // Of each end.
    output port_state_e    [1:0]                 state,
    output logic           [1:0]                 tx_ready,
    output logic           [1:0]                 rx_ready,
    output logic           [1:0][     31:0]      sent,
    output logic           [1:0][     31:0]      right,
    output logic           [1:0][     31:0]      wrong,
    output logic           [1:0][     31:0]      resets,         // of receivers
    output lane_counters_t [1:0]                 lane_counters,
    output link_counters_t [1:0]                 counters
);
  localparam int unsigned WORD_BITS = 20;
  logic [1:0] double_clk, free_clk, line_clk, word_clk;
  assign double_clk = {double_clk_1, double_clk_0};
  assign free_clk   = {free_clk_1, free_clk_0};
  // It rises in the middle of a word that comes.
  assign word_clk   = ~{line_clk[0], line_clk[1]};
  logic [1:0][LANES-1:0][WORD_BITS-1:0] line_tx_words, line_rx_words;
  logic [1:0][LANES-1:0] line_is_driven, line_has_signal;

  for (genvar n = 0; n < 2; n++) begin : g_end
    // --- The cable from this end --------------------------------------------------------------
    for (genvar lane = 0; lane < LANES; lane++) begin : g_line
      link_line #(
          .BITS(WORD_BITS),
          .SEED(2 * lane + n)
      ) lane_line (
          .clk(line_clk[n]),
          .rst(rst[n]),
          .begins(1'b1),
          .is_sent(line_is_driven[n][lane]),
          .word(line_tx_words[n][lane]),
          .delay(delay[n][lane]),
          .error_odds(error_odds[n]),
          .is_cut(is_cut[n][lane]),
          .is_noisy(1'b0),
          .detected(line_has_signal[1-n][lane]),
          .received(line_rx_words[1-n][lane])
      );
    end

    // --- The transceivers ---------------------------------------------------------------------
    logic clk, port_rst, tx_enable, rx_clk, rx_rst, is_up, pma_done, reset_rx;
    logic [LANES-1:0][WORD_BITS-1:0] tx_words, rx_words;
    logic [LANES-1:0] rx_detected;
    assign is_up = state[n] == PORT_UP;
    if (IS_GTX) begin : g_family
      crosslane_link_gtx #(
          .IS_GTH(IS_GTH),
          .SETTLE(SETTLE),
          .PATIENCE(PATIENCE),
          .REFCLK_NS(IS_GTH ? 6.4 : 8.0),
          .TIMES(IS_GTH ? 6 : 8)
      ) link (
          .free_clk(free_clk[n]),
          .rst(rst[n]),
          .refclk(double_clk[n]),
          .no_refclk(no_refclk[n]),
          .line_rx_p('0),
          .line_rx_n('0),
          .line_tx_p(),
          .line_tx_n(),
          .link_up(is_up),
          .tx_ready(tx_ready[n]),
          .rx_ready(rx_ready[n]),
          .*
      );
      assign line_clk[n] = link.g_core.transceivers.model.line_tx_clk;
      assign line_tx_words[n] = link.g_core.transceivers.model.line_tx_words;
      assign line_is_driven[n] = link.g_core.transceivers.model.line_is_driven;
      assign link.g_core.transceivers.model.line_rx_words = line_rx_words[n];
      assign link.g_core.transceivers.model.line_has_signal = line_has_signal[n];
      assign link.g_core.transceivers.model.line_rx_clk = word_clk[n];
      assign pma_done = link.g_core.transceivers.model.rx_pma_done;
    end else begin : g_family
      crosslane_link_gty #(
          .SETTLE  (SETTLE),
          .PATIENCE(PATIENCE)
      ) link (
          .free_clk(free_clk[n]),
          .rst(rst[n]),
          .refclk(double_clk[n]),
          .line_rx_p('0),
          .line_rx_n('0),
          .line_tx_p(),
          .line_tx_n(),
          .link_up(is_up),
          .tx_ready(tx_ready[n]),
          .rx_ready(rx_ready[n]),
          .*
      );
      assign line_clk[n] = link.transceivers.model.line_tx_clk;
      assign line_tx_words[n] = link.transceivers.model.line_tx_words;
      assign line_is_driven[n] = link.transceivers.model.line_is_driven;
      assign link.transceivers.model.line_rx_words = line_rx_words[n];
      assign link.transceivers.model.line_has_signal = line_has_signal[n];
      assign link.transceivers.model.line_rx_clk = word_clk[n];
      assign pma_done = link.transceivers.model.rx_pma_done;
      logic unused;
      assign unused = no_refclk[n];
    end
    assign reset_rx = g_family.link.reset_rx;

    // The port has no clock of a receiver in reset, which may be anything.
    logic begun;
    initial begun = 1'b0;
    always_ff @(posedge free_clk[n]) if (tx_ready[n]) begun <= 1'b1;
    always_ff @(posedge rx_clk) assert (pma_done || !begun);
    logic was_reset_rx;
    logic [31:0] resets_seen;
    assign resets[n] = resets_seen;
    always_ff @(posedge free_clk[n]) begin
      was_reset_rx <= reset_rx;
      if (reset_rx && !was_reset_rx) resets_seen <= resets_seen + 1'b1;
      if (rst[n]) resets_seen <= '0;
    end

    // --- The port, with generator and checker -------------------------------------------------
    logic s_valid, s_ready, m_valid, m_first, m_last;
    logic [2:0] s_channel, m_channel;
    label_t s_label, m_label;
    logic [8*LANES-1:0] s_data, m_data;
    // Sessions differ: the time of a reset does.
    logic [15:0] first_session;
    always_ff @(posedge free_clk[n]) first_session <= first_session + 1'b1;

    crosslane_link_port #(
        .LANES(LANES),
        .SYMBOLS(2),
        .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
        .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
        .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
        .ACKNOWLEDGE_WITHIN(ACKNOWLEDGE_WITHIN),
        .RETRY_TIMEOUT(RETRY_TIMEOUT),
        .REFRESH(REFRESH)
    ) link_port (
        .rst(port_rst),
        // Behind a far end that was reset alone it begins anew.
        .enable(state[n] != PORT_FAILED),
        .retrain(1'b0),
        .tx_begins_word(),
        .room(),
        .m_ready('1),
        .state(state[n]),
        .session(),
        .session_seen(),
        .progress(),
        .lane_counters(lane_counters[n]),
        .lane_errors(),
        .lane_turned(),
        .in_error(),
        .is_settled(),
        .unacknowledged(),
        .expected(),
        .timeouts_in_a_row(),
        .credit(),
        .counters(counters[n]),
        .*
    );
    crosslane_link_generator #(
        .LANES(LANES)
    ) source (
        .rst(port_rst),
        .begins(1'b0),
        .seed('0),
        .runs(is_up && !stops[n]),
        .sent(sent[n]),
        .*
    );
    crosslane_link_checker #(
        .LANES(LANES)
    ) sink (
        .rst(port_rst),
        .anew(1'b0),
        .counts(m_valid && m_last),
        .right(right[n]),
        .wrong(wrong[n]),
        .*
    );
  end
endmodule
