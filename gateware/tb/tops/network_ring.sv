// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_routing.py: four cards in a ring, link 0 of each joined to link 1 of the next one, and
// what their receive engines, get engines and routers take.

module network_ring
  import crosslane_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned DATA_BITS         = 256,
    parameter int unsigned PUT_SLOTS         = 4,
    parameter int unsigned CREDIT_SLOTS      = 16,
    parameter int unsigned GET_SLOTS         = 16,
    parameter int unsigned MAX_READ          = 256,
    parameter int unsigned MAX_WRITE         = 128,
    parameter int unsigned LANES             = 8,
    parameter int unsigned CHANNEL_DATAGRAMS = 8,
    parameter int unsigned QUEUE_DATAGRAMS   = 4,
    parameter int unsigned NODES             = 16,
    parameter bit          LONG              = 1'b0
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input room_t room_i,
    // Of the cable from each node to the next one.
    input logic [3:0] is_cut,
    input logic [31:0] error_odds,
    input logic rx_0_valid,
    output logic rx_0_ready,
    input tlp_header_t rx_0_header,
    input logic rx_0_first,
    input logic rx_0_last,
    input logic [DATA_BITS-1:0] rx_0_data,
    output logic tx_0_valid,
    input logic tx_0_ready,
    output tlp_header_t tx_0_header,
    output logic tx_0_first,
    output logic tx_0_last,
    output logic [DATA_BITS-1:0] tx_0_data,
    input logic rx_1_valid,
    output logic rx_1_ready,
    input tlp_header_t rx_1_header,
    input logic rx_1_first,
    input logic rx_1_last,
    input logic [DATA_BITS-1:0] rx_1_data,
    output logic tx_1_valid,
    input logic tx_1_ready,
    output tlp_header_t tx_1_header,
    output logic tx_1_first,
    output logic tx_1_last,
    output logic [DATA_BITS-1:0] tx_1_data,
    input logic rx_2_valid,
    output logic rx_2_ready,
    input tlp_header_t rx_2_header,
    input logic rx_2_first,
    input logic rx_2_last,
    input logic [DATA_BITS-1:0] rx_2_data,
    output logic tx_2_valid,
    input logic tx_2_ready,
    output tlp_header_t tx_2_header,
    output logic tx_2_first,
    output logic tx_2_last,
    output logic [DATA_BITS-1:0] tx_2_data,
    input logic rx_3_valid,
    output logic rx_3_ready,
    input tlp_header_t rx_3_header,
    input logic rx_3_first,
    input logic rx_3_last,
    input logic [DATA_BITS-1:0] rx_3_data,
    output logic tx_3_valid,
    input logic tx_3_ready,
    output tlp_header_t tx_3_header,
    output logic tx_3_first,
    output logic tx_3_last,
    output logic [DATA_BITS-1:0] tx_3_data,
    // In each card: a request or a datagram is taken, and what it is; a datagram goes on.
    output logic [3:0] event_is_credit,
    output logic [3:0][255:0] event_credit,
    output logic [3:0] event_is_get,
    output logic [3:0][255:0] event_get,
    output logic [3:0] event_is_datagram,
    output logic [3:0][2:0] event_link,
    output logic [3:0][$bits(arrived_t)-1:0] event_datagram,
    output logic [3:0] event_goes_on,
    output logic [3:0][2:0] event_from,
    output logic [3:0][$bits(arrived_t)-1:0] event_through,
    output logic [3:0][3:0] event_to  // link, channel 7
);
  localparam int unsigned SYMBOLS = 2;
  logic [3:0] rx_valid, rx_ready, rx_first, rx_last, tx_valid, tx_ready, tx_first, tx_last;
  tlp_header_t [3:0] rx_header, tx_header;
  logic [3:0][DATA_BITS-1:0] rx_data, tx_data;
  assign rx_valid = {rx_3_valid, rx_2_valid, rx_1_valid, rx_0_valid};
  assign {tx_3_valid, tx_2_valid, tx_1_valid, tx_0_valid} = tx_valid;
  assign rx_header = {rx_3_header, rx_2_header, rx_1_header, rx_0_header};
  assign {tx_3_header, tx_2_header, tx_1_header, tx_0_header} = tx_header;
  assign rx_first = {rx_3_first, rx_2_first, rx_1_first, rx_0_first};
  assign {tx_3_first, tx_2_first, tx_1_first, tx_0_first} = tx_first;
  assign rx_last = {rx_3_last, rx_2_last, rx_1_last, rx_0_last};
  assign {tx_3_last, tx_2_last, tx_1_last, tx_0_last} = tx_last;
  assign rx_data = {rx_3_data, rx_2_data, rx_1_data, rx_0_data};
  assign {tx_3_data, tx_2_data, tx_1_data, tx_0_data} = tx_data;
  assign {rx_3_ready, rx_2_ready, rx_1_ready, rx_0_ready} = rx_ready;
  assign tx_ready = {tx_3_ready, tx_2_ready, tx_1_ready, tx_0_ready};

  logic [3:0][1:0] tx_enable, tx_begins_word, rx_clk, rx_rst;
  logic [3:0][1:0][LANES-1:0][10*SYMBOLS-1:0] tx_words, rx_words;
  logic [3:0][1:0][LANES-1:0] rx_detected;

  for (genvar n = 0; n < 4; n++) begin : g_node
    for (genvar link = 0; link < 2; link++) begin : g_cable
      localparam int unsigned TO = (link == 0) ? (n + 1) % 4 : (n + 3) % 4;
      localparam int unsigned CABLE = (link == 0) ? n : TO;
      for (genvar lane = 0; lane < LANES; lane++) begin : g_line
        link_line #(
            .SYMBOLS(SYMBOLS),
            .SEED(64 * n + 2 * lane + link + 1)
        ) lane_line (
            .clk,
            .rst,
            .begins(tx_begins_word[n][link]),
            .is_sent(tx_enable[n][link]),
            .word(tx_words[n][link][lane]),
            .delay(8'd20),
            .error_odds,
            .is_cut(is_cut[CABLE]),
            .is_noisy(1'b0),
            .detected(rx_detected[TO][1-link][lane]),
            .received(rx_words[TO][1-link][lane])
        );
      end
      logic phase;
      always_ff @(posedge clk) phase <= tx_begins_word[n][link] ? '0 : phase + 1'b1;
      assign rx_clk[TO][1-link] = phase;

      crosslane_reset_pair resets (
          .a_clk  (clk),
          .a_rst  (rst),
          .a_rst_o(),
          .b_clk  (rx_clk[n][link]),
          .b_rst  (1'b0),
          .b_rst_o(rx_rst[n][link])
      );
    end

    crosslane_network_card #(
        .DATA_BITS(DATA_BITS),
        .LINKS(2),
        .PUT_SLOTS(PUT_SLOTS),
        .CREDIT_SLOTS(CREDIT_SLOTS),
        .GET_SLOTS(GET_SLOTS),
        .TAGS(16),
        .MAX_READ(MAX_READ),
        .STAGING_BYTES(1024),
        .MAX_WRITE(MAX_WRITE),
        .LANES(LANES),
        .SYMBOLS(SYMBOLS),
        .ACKNOWLEDGE_WITHIN(LONG ? 396 : 204),
        .RETRY_TIMEOUT(LONG ? 1590 : 918),
        .REFRESH(LONG ? 2910 : 1598),
        .LONG(LONG),
        .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
        .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
        .NODES(NODES)
    ) card (
        .clk,
        .rst,
        .function_i,
        .room_i,
        .first_session(16'd1 + 16'(n)),
        .busy_o(),
        .settled_o(),
        .s_rx_valid(rx_valid[n]),
        .s_rx_ready(rx_ready[n]),
        .s_rx_header(rx_header[n]),
        .s_rx_first(rx_first[n]),
        .s_rx_last(rx_last[n]),
        .s_rx_data(rx_data[n]),
        .s_rx_aborted(1'b0),
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
        .rx_words(rx_words[n])
    );
    assign event_is_credit[n] = card.processor.engine.takes_request;
    assign event_credit[n] = card.processor.engine.request;
    assign event_is_get[n] = card.processor.queued_get_valid && card.processor.queued_get_ready;
    assign event_get[n] = card.processor.queued_get;
    assign event_is_datagram[n] = card.processor.engine.takes_datagram;
    assign event_link[n] = 3'(card.processor.engine.index);
    assign event_datagram[n] = card.processor.come[card.processor.engine.index];
    assign event_goes_on[n] = card.processor.g_routed.router.pushes != '0;
    assign event_from[n] = card.processor.g_routed.push_place.link;
    assign event_through[n] = card.processor.come[card.processor.g_routed.router.push_index];
    assign event_to[n] = {
      card.processor.g_routed.push_link, card.processor.g_routed.push_behind_edge
    };
  end
endmodule
