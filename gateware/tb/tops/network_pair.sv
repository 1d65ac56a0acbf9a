// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_network_processor.py: two network processors, whose links are joined by cables of bits,
// and what their receive engines take. Link n of the one leads to link LINKS - 1 - n of the other.

module network_pair
  import crosslane_pkg::*;
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned DATA_BITS             = 256,
    parameter int unsigned LINKS                 = 1,
    parameter int unsigned PUT_SLOTS             = 4,
    parameter int unsigned CREDIT_SLOTS          = 16,
    parameter int unsigned MAX_WRITE             = 128,
    parameter int unsigned LANES                 = 8,
    parameter int unsigned SYMBOLS               = 2,
    parameter int unsigned CHANNEL_DATAGRAMS     = 8,
    parameter int unsigned QUEUE_DATAGRAMS       = 2,
    parameter int unsigned RETRY_DATAGRAMS       = 32,
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 8,
    parameter bit          LONG                  = 1'b0,
    parameter bit          BLOCKS                = 1'b0
) (
    input logic clk,
    input logic rst,
    input logic [1:0] node_rst,  // of one alone
    input function_t function_i,
    input logic [1:0] reset_i,
    input logic [1:0][LINKS-1:0] enable,
    input logic [1:0][63:0] counts_address,
    input logic [1:0] counts_written,
    input logic [1:0][15:0] first_session,
    input logic is_cut,
    input logic [31:0] error_odds,
    output logic [1:0] quiet,
    output network_counters_t [1:0] counters,
    output logic [1:0][LINKS-1:0][2:0] state,
    output logic [1:0][31:0] repeated,  // of link 0
    // TLPs of each host.
    input logic rx_0_valid,
    output logic rx_0_ready,
    input tlp_header_t rx_0_header,
    input logic rx_0_first,
    input logic rx_0_last,
    input logic [DATA_BITS-1:0] rx_0_data,
    input logic rx_1_valid,
    output logic rx_1_ready,
    input tlp_header_t rx_1_header,
    input logic rx_1_first,
    input logic rx_1_last,
    input logic [DATA_BITS-1:0] rx_1_data,
    output logic tx_0_valid,
    input logic tx_0_ready,
    output tlp_header_t tx_0_header,
    output logic tx_0_first,
    output logic tx_0_last,
    output logic [DATA_BITS-1:0] tx_0_data,
    output logic tx_1_valid,
    input logic tx_1_ready,
    output tlp_header_t tx_1_header,
    output logic tx_1_first,
    output logic tx_1_last,
    output logic [DATA_BITS-1:0] tx_1_data,
    // In each receive engine: a request or a datagram is taken, and what it is.
    output logic [1:0] event_is_request,
    output logic [1:0][255:0] event_request,
    output logic [1:0] event_is_datagram,
    output logic [1:0][2:0] event_link,
    output logic [1:0][$bits(arrived_t)-1:0] event_datagram
);
  // Times in clocks, by docs/torus-link.md, Budget. The last term is lanes and cable, both ways.
  localparam int unsigned FRAME = (payload_bytes(LONG) + OVERHEAD_BYTES) / LANES;
  localparam int unsigned ROUND_TRIP = (ACKNOWLEDGE_DATAGRAMS + 1) * FRAME + COMMAND_BYTES / LANES +
      3 + (BLOCKS ? 240 : 98);
  localparam int unsigned WITHIN = 12 * FRAME;
  localparam int unsigned REFRESH = 8 * ACKNOWLEDGE_DATAGRAMS * FRAME + 2 * ROUND_TRIP;

  logic [1:0] rx_valid, rx_ready, rx_first, rx_last, tx_valid, tx_ready, tx_first, tx_last;
  tlp_header_t [1:0] rx_header, tx_header;
  logic [1:0][DATA_BITS-1:0] rx_data, tx_data;
  assign rx_valid = {rx_1_valid, rx_0_valid};
  assign rx_header = {rx_1_header, rx_0_header};
  assign rx_first = {rx_1_first, rx_0_first};
  assign rx_last = {rx_1_last, rx_0_last};
  assign rx_data = {rx_1_data, rx_0_data};
  assign {rx_1_ready, rx_0_ready} = rx_ready;
  assign {tx_1_valid, tx_0_valid} = tx_valid;
  assign {tx_1_header, tx_0_header} = tx_header;
  assign {tx_1_first, tx_0_first} = tx_first;
  assign {tx_1_last, tx_0_last} = tx_last;
  assign {tx_1_data, tx_0_data} = tx_data;
  assign tx_ready = {tx_1_ready, tx_0_ready};

  logic [1:0][LINKS-1:0] tx_enable, tx_begins_word, rx_clk, rx_rst;
  localparam int unsigned WORD_BITS = word_bits(BLOCKS, SYMBOLS);
  localparam int unsigned WORD_CLOCKS = BLOCKS ? 8 : SYMBOLS;
  logic [1:0][LINKS-1:0][LANES-1:0][WORD_BITS-1:0] tx_words, rx_words;
  logic [1:0][LINKS-1:0][LANES-1:0] rx_detected;
  link_counters_t [1:0][LINKS-1:0] link_counters;

  for (genvar n = 0; n < 2; n++) begin : g_node
    for (genvar link = 0; link < LINKS; link++) begin : g_cable
      localparam int unsigned FAR = LINKS - 1 - link;
      for (genvar lane = 0; lane < LANES; lane++) begin : g_line
        link_line #(
            .BITS(WORD_BITS),
            .SEED(16 * link + 2 * lane + n)
        ) lane_line (
            .clk,
            .rst,
            .begins(tx_begins_word[n][link]),
            .is_sent(tx_enable[n][link]),
            .word(tx_words[n][link][lane]),
            .delay(8'd20),
            .error_odds,
            .is_cut,
            .is_noisy(1'b0),
            .detected(rx_detected[1-n][FAR][lane]),
            .received(rx_words[1-n][FAR][lane])
        );
      end
      logic [$clog2(WORD_CLOCKS)-1:0] phase;
      always_ff @(posedge clk) phase <= tx_begins_word[n][link] ? '0 : phase + 1'b1;
      assign rx_clk[1-n][FAR] = phase[$clog2(WORD_CLOCKS)-1];

      crosslane_reset_pair resets (
          .a_clk  (clk),
          .a_rst  (rst || node_rst[n]),
          .a_rst_o(),
          .b_clk  (rx_clk[n][link]),
          .b_rst  (1'b0),
          .b_rst_o(rx_rst[n][link])
      );
    end

    crosslane_network_processor #(
        .DATA_BITS(DATA_BITS),
        .LINKS(LINKS),
        .PUT_SLOTS(PUT_SLOTS),
        .CREDIT_SLOTS(CREDIT_SLOTS),
        .MAX_WRITE(MAX_WRITE),
        .LANES(LANES),
        .SYMBOLS(SYMBOLS),
        .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
        .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
        .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
        .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
        .ACKNOWLEDGE_WITHIN(WITHIN),
        .RETRY_TIMEOUT(2 * (ROUND_TRIP + WITHIN)),
        .REFRESH(REFRESH),
        .LONG(LONG),
        .BLOCKS(BLOCKS)
    ) node (
        .clk,
        .rst(rst || node_rst[n]),
        .function_i,
        .reset_i(reset_i[n]),
        .enable(enable[n]),
        .mode({LINKS{MODE_NORMAL}}),
        .retrain('0),
        .generates('0),
        .checks('0),
        .first_session(first_session[n]),
        .counts_address(counts_address[n]),
        .counts_written(counts_written[n]),
        .extents('0),
        .extents_written(1'b0),
        .hold_routed(1'b0),
        .quiet(quiet[n]),
        .settled(),
        .counters(counters[n]),
        .s_rx_valid(rx_valid[n]),
        .s_rx_ready(rx_ready[n]),
        .s_rx_header(rx_header[n]),
        .s_rx_first(rx_first[n]),
        .s_rx_last(rx_last[n]),
        .s_rx_data(rx_data[n]),
        .s_completion_valid(1'b0),
        .s_completion_header('0),
        .s_completion_first(1'b0),
        .s_completion_last(1'b0),
        .s_completion_data('0),
        .s_completion_aborted(1'b0),
        .m_read_valid(),
        .m_read_ready('1),
        .m_read_header(),
        .m_tx_valid(tx_valid[n]),
        .m_tx_ready(tx_ready[n]),
        .m_tx_header(tx_header[n]),
        .m_tx_first(tx_first[n]),
        .m_tx_last(tx_last[n]),
        .m_tx_data(tx_data[n]),
        .tx_enable(tx_enable[n]),
        .tx_begins_word(tx_begins_word[n]),
        .tx_words(tx_words[n]),
        .rx_clk(rx_clk[n]),
        .rx_rst(rx_rst[n]),
        .rx_detected(rx_detected[n]),
        .rx_words(rx_words[n]),
        .state(state[n]),
        .far_channel_datagrams(),
        .lane_counters(),
        .lane_errors(),
        .link_counters(link_counters[n]),
        .checked(),
        .wrong()
    );
    assign event_is_request[n] = node.engine.takes_request;
    assign event_request[n] = node.engine.request;
    assign event_is_datagram[n] = node.engine.takes_datagram;
    assign event_link[n] = 3'(node.engine.index);
    assign event_datagram[n] = node.engine.arrived[node.engine.index];
    assign repeated[n] = link_counters[n][0].repeated;
  end
endmodule
