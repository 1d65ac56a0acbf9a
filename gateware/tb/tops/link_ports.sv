// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_link_port.py: two ports with clocks of their own, a cable, traffic, and a file for each
// port with all that its training sees and does.

module link_ports
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES                 = 8,
    parameter int unsigned SYMBOLS               = 2,
    parameter int unsigned CHANNEL_DATAGRAMS     = 16,
    parameter int unsigned QUEUE_DATAGRAMS       = 2,
    parameter int unsigned RETRY_DATAGRAMS       = 32,
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 8,
    parameter int unsigned ACKNOWLEDGE_WITHIN    = 204,
    parameter int unsigned RETRY_TIMEOUT         = 918,
    parameter int unsigned REFRESH               = 1598,
    parameter bit          LONG                  = 1'b0,
    parameter bit          BLOCKS                = 1'b0
) (
    input  logic                                       clk_0,
    input  logic                                       clk_1,
    input  logic           [1:0]                       rst,
    input  logic           [1:0]                       enable,
    input  logic           [1:0]                       retrain,
    input  logic           [1:0][           15:0]      first_session,
    // Of the cable's direction from each port, and of each of its lanes.
    input  logic           [1:0][      LANES-1:0][7:0] delay,
    input  logic           [1:0][      LANES-1:0]      is_cut,
    input  logic           [1:0][      LANES-1:0]      is_noisy,
    input  logic           [1:0][           31:0]      error_odds,
    input  logic                                       flush,           // files
    // Of the traffic.
    input  logic           [1:0][            7:0]      active,
    input  logic           [1:0]                       ends,
    input  logic           [1:0][            7:0]      accepts,
    output logic           [1:0][CHANNELS*32-1:0]      sent,
    output logic           [1:0][CHANNELS*32-1:0]      taken,
    output logic           [1:0][           31:0]      wrong,
    output logic           [1:0][            2:0]      state,
    output logic           [1:0][            6:0]      unacknowledged,
    output logic           [1:0]                       is_settled,
    output lane_counters_t [1:0]                       lane_counters,
    output logic           [1:0][   LANES*32-1:0]      lane_errors,
    output link_counters_t [1:0]                       counters
);
  logic [1:0] clk;
  assign clk = {clk_1, clk_0};
  logic [1:0] tx_enable, tx_begins_word;
  localparam int unsigned WORD_BITS = word_bits(BLOCKS, SYMBOLS);
  localparam int unsigned WORD_COLUMNS = BLOCKS ? 8 : SYMBOLS;
  logic [1:0][LANES-1:0][WORD_BITS-1:0] tx_words, rx_words;
  logic [1:0][LANES-1:0] rx_detected;
  logic [1:0] rx_clk, port_rst, rx_rst;

  for (genvar n = 0; n < 2; n++) begin : g_port
    // --- The cable from this port, and the clock that the other one recovers ------------------
    for (genvar lane = 0; lane < LANES; lane++) begin : g_line
      link_line #(
          .BITS(WORD_BITS),
          .SEED(2 * lane + n)
      ) lane_line (
          .clk(clk[n]),
          .rst(rst[n]),
          .begins(tx_begins_word[n]),
          .is_sent(tx_enable[n]),
          .word(tx_words[n][lane]),
          .delay(delay[n][lane]),
          .error_odds(error_odds[n]),
          .is_cut(is_cut[n][lane]),
          .is_noisy(is_noisy[n][lane]),
          .detected(rx_detected[1-n][lane]),
          .received(rx_words[1-n][lane])
      );
    end
    // It rises in the middle of a word; it runs on without a signal.
    logic [$clog2(WORD_COLUMNS)-1:0] phase;
    always_ff @(posedge clk[n]) phase <= tx_begins_word[n] ? '0 : phase + 1'b1;
    assign rx_clk[1-n] = phase[$clog2(WORD_COLUMNS)-1];

    crosslane_reset_pair resets (
        .a_clk  (clk[n]),
        .a_rst  (rst[n]),
        .a_rst_o(port_rst[n]),
        .b_clk  (rx_clk[n]),
        .b_rst  (1'b0),
        .b_rst_o(rx_rst[n])
    );

    // --- The port and its traffic -------------------------------------------------------------
    logic s_valid, s_ready, m_valid, m_first, m_last;
    logic [2:0] s_channel, m_channel;
    label_t s_label, m_label;
    logic [8*LANES-1:0] s_data, m_data;
    logic [CHANNELS-1:0] room, m_ready;

    crosslane_link_port #(
        .LANES(LANES),
        .SYMBOLS(SYMBOLS),
        .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
        .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
        .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
        .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
        .ACKNOWLEDGE_WITHIN(ACKNOWLEDGE_WITHIN),
        .RETRY_TIMEOUT(RETRY_TIMEOUT),
        .REFRESH(REFRESH),
        .LONG(LONG),
        .BLOCKS(BLOCKS)
    ) link_port (
        .clk(clk[n]),
        .rst(port_rst[n]),
        .enable(enable[n]),
        .retrain(retrain[n]),
        .first_session(first_session[n]),
        .tx_enable(tx_enable[n]),
        .tx_begins_word(tx_begins_word[n]),
        .tx_words(tx_words[n]),
        .rx_clk(rx_clk[n]),
        .rx_rst(rx_rst[n]),
        .rx_detected(rx_detected[n]),
        .rx_words(rx_words[n]),
        .s_valid,
        .s_ready,
        .s_channel,
        .s_label,
        .s_data,
        .room,
        .m_valid,
        .m_ready,
        .m_channel,
        .m_label,
        .m_first,
        .m_last,
        .m_data,
        .state(state[n]),
        .session(),
        .session_seen(),
        .progress(),
        .lane_counters(lane_counters[n]),
        .lane_errors(lane_errors[n]),
        .lane_turned(),
        .in_error(),
        .is_settled(is_settled[n]),
        .unacknowledged(unacknowledged[n]),
        .expected(),
        .timeouts_in_a_row(),
        .credit(),
        .counters(counters[n])
    );

    link_traffic #(
        .LANES(LANES),
        .LONG (LONG),
        .SIDE (n)
    ) traffic (
        .clk(clk[n]),
        .rst(link_port.end_rst),
        .active(active[n]),
        .ends(ends[n]),
        .accepts(accepts[n]),
        .s_valid,
        .s_ready,
        .s_channel,
        .s_label,
        .s_data,
        .room,
        .m_valid,
        .m_ready,
        .m_channel,
        .m_label,
        .m_first,
        .m_last,
        .m_data,
        .sent(sent[n]),
        .taken(taken[n]),
        .wrong(wrong[n])
    );

    // --- What is sent -------------------------------------------------------------------------
    if (BLOCKS) begin : g_rows
      // Each word, and in each clock what decides the rows, as link_traces.py reads it.
      localparam string FILE = (n == 0) ? "sent-0.txt" : "sent-1.txt";
      int file;
      initial file = $fopen(FILE, "w");
      logic was_reset;
      always_ff @(posedge clk[n]) begin
        was_reset <= port_rst[n];
        if (flush) $fflush(file);
        if (port_rst[n] && !was_reset) $fwrite(file, "reset %0d\n", first_session[n]);
        if (!port_rst[n]) begin
          if (tx_begins_word[n]) $fwrite(file, "%0d:%x", tx_enable[n], tx_words[n]);
          else $fwrite(file, "-");
          if (link_port.lanes.link_up) $fwrite(file, " up");
          else
            $fwrite(
                file,
                " %0d:%0d:%0d",
                link_port.session,
                link_port.session_seen,
                link_port.lanes.is_confirming ? 2 : 1
            );
          $fwrite(file, " %0d%0d%0d%0d %x %x\n", link_port.end_rst, link_port.lanes.stage_2_sent,
                  link_port.lanes.end_ready, link_port.lanes.end_begins,
                  link_port.lanes.end_control, link_port.lanes.end_symbols);
        end
      end
    end else begin : g_columns
      // A skip set begins 1,280 columns and at most a frame behind the one before; behind the last training set
      // come eight idle columns at least.
      localparam logic [11:0] SKIP_MOST = 12'(1279 + payload_bytes(LONG) + OVERHEAD_BYTES);
      logic [11:0] since_skip;
      logic [ 3:0] idles;
      logic was_comma, skips, is_known;
      logic [LANES-1:0][7:0] symbols;
      logic [LANES-1:0] control;
      assign symbols = link_port.lanes.g_columns.symbols;
      assign control = link_port.lanes.g_columns.control;
      assign skips   = was_comma && control == '1 && symbols == {LANES{K_SKIP}};
      always_ff @(posedge clk[n]) begin
        was_comma  <= control == '1 && symbols == {LANES{K_COMMA}};
        since_skip <= skips ? 12'd1 : since_skip + 12'(since_skip != '1);
        if (control == '1 && symbols == {LANES{K_IDLE}}) idles <= idles + 4'(idles != '1);
        else if (was_comma && !skips) idles <= '0;
        if (skips) is_known <= 1'b1;
        if (link_port.end_rst) begin
          is_known <= 1'b0;
          idles <= '1;
        end else begin
          assert (!is_known || (skips ? since_skip >= 1280 : since_skip <= SKIP_MOST));
          assert (!(control == LANES'(1) && symbols[0] == K_COMMAND) || idles >= 8);
        end
      end
    end

    // --- What training sees, as link_reference.py says it, and its state before ---------------
    localparam string FILE = (n == 0) ? "training-0.txt" : "training-1.txt";
    int file;
    initial file = $fopen(FILE, "w");
    logic was_reset;
    logic [1:0] present;
    logic [1:0][LANES-1:0][11:0] column;
    progress_t p;
    assign p = link_port.progress;
    always_ff @(posedge clk[n]) begin
      was_reset <= port_rst[n];
      present   <= {present[0], link_port.column_valid};
      column[1] <= column[0];
      for (int unsigned lane = 0; lane < LANES; lane++) begin
        column[0][LANES-1-lane] <= link_port.column_error[lane] ? 12'h200
            : {3'b0, link_port.column_control[lane], link_port.column_symbols[lane]};
      end
      if (flush) $fflush(file);
      if (port_rst[n] && !was_reset) $fwrite(file, "reset %0d\n", first_session[n]);
      if (!port_rst[n]) begin
        if (link_port.lanes.training.now.state == PORT_DISABLED && enable[n]) $fwrite(file, "e ");
        if (link_port.lanes.disables) $fwrite(file, "d ");
        if (link_port.lanes.retrains) $fwrite(file, "r ");
        if (link_port.lanes.stage_2_sent) $fwrite(file, "s2 ");
        if (BLOCKS && link_port.lanes.counts_2) begin
          if (!link_port.lanes.present_2) $fwrite(file, "w- ");
          else $fwrite(file, "w%0d ", link_port.lanes.whole_2);
        end
        if (present[1]) $fwrite(file, "c%x", column[1]);
        else if (BLOCKS) $fwrite(file, "q");
        else $fwrite(file, "c-");
        $fwrite(file, "|%0d|%0d|%0d %0d %0d %0d %0d", link_port.column_restart,
                link_port.lanes.lost, state[n], link_port.session, link_port.session_seen,
                link_port.lanes.is_confirming ? 2 : 1, link_port.far_channel_datagrams);
        $fwrite(file, " %0d %0d %0d %0d %0d %0d %0d %0d %0d %0d\n", p.good_sets, p.knowing_sets,
                p.sent_sets, p.idle_in_a_row, p.misfits, p.errors, p.skewed, p.damaged_in_a_row,
                p.columns_in_state, p.columns_since_good);
      end
    end
  end
endmodule
