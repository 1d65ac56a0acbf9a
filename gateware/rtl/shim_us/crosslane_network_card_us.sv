// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A network processor behind the UltraScale+ integrated block for PCI Express, or the Gen3 block of
// Virtex-7: crosslane_network_card and shim. Its ports have the names of the UltraScale+ block's;
// those of its links are as in crosslane_network_card. Read first: README.md beside this file.

module crosslane_network_card_us
  import crosslane_pkg::*;
  import crosslane_link_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    // Settings of the hard block: TLPs that may begin in one beat (README.md).
    parameter int unsigned CQ_TLPS = 1,
    parameter int unsigned CC_TLPS = 1,
    parameter int unsigned RQ_TLPS = 1,
    parameter int unsigned RC_TLPS = 1,
    parameter bit GEN3 = 0,  // the Gen3 block of Virtex-7: README.md
    // The network processor: crosslane_network_card.
    parameter int unsigned LINKS = 1,
    parameter int unsigned PUT_SLOTS = 8,
    parameter int unsigned CREDIT_SLOTS = 64,
    parameter int unsigned GET_SLOTS = 64,
    parameter int unsigned TAGS = 32,
    parameter int unsigned MAX_READ = 512,
    parameter int unsigned STAGING_BYTES = 4096,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter int unsigned MAX_WRITE = 256,
    parameter int unsigned LANES = 8,
    parameter int unsigned LANE_RATE = 5,
    parameter int unsigned SYMBOLS = 2,
    parameter int unsigned CHANNEL_DATAGRAMS = 64,
    parameter int unsigned QUEUE_DATAGRAMS = 2,
    parameter int unsigned RETRY_DATAGRAMS = 32,
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 8,
    parameter int unsigned ACKNOWLEDGE_WITHIN = 204,
    parameter int unsigned RETRY_TIMEOUT = 918,
    parameter int unsigned REFRESH = 1598,
    parameter int unsigned NODES = 0,
    parameter bit LONG = 1'b0,
    parameter bit BLOCKS = 1'b0,
    localparam int unsigned WORD_BITS = word_bits(BLOCKS, SYMBOLS),
    localparam int unsigned DWORDS = DATA_BITS / 32,
    localparam bit WIDE = DATA_BITS == 512,
    localparam int unsigned CQ_USER_BITS = WIDE ? 183 : GEN3 ? 85 : 88,
    localparam int unsigned CC_USER_BITS = WIDE ? 81 : 33,
    localparam int unsigned RQ_USER_BITS = WIDE ? 137 : GEN3 ? 60 : 62,
    localparam int unsigned RC_USER_BITS = WIDE ? 161 : 75
) (
    input logic clk,  // user_clk
    input logic rst,  // user_reset

    input  logic                    m_axis_cq_tvalid,
    output logic                    m_axis_cq_tready,
    input  logic [   DATA_BITS-1:0] m_axis_cq_tdata,
    input  logic [      DWORDS-1:0] m_axis_cq_tkeep,
    input  logic                    m_axis_cq_tlast,
    input  logic [CQ_USER_BITS-1:0] m_axis_cq_tuser,
    output logic [             1:0] pcie_cq_np_req,

    input  logic                    m_axis_rc_tvalid,
    output logic                    m_axis_rc_tready,
    input  logic [   DATA_BITS-1:0] m_axis_rc_tdata,
    input  logic [      DWORDS-1:0] m_axis_rc_tkeep,
    input  logic                    m_axis_rc_tlast,
    input  logic [RC_USER_BITS-1:0] m_axis_rc_tuser,

    output logic                    s_axis_rq_tvalid,
    input  logic                    s_axis_rq_tready,
    output logic [   DATA_BITS-1:0] s_axis_rq_tdata,
    output logic [      DWORDS-1:0] s_axis_rq_tkeep,
    output logic                    s_axis_rq_tlast,
    output logic [RQ_USER_BITS-1:0] s_axis_rq_tuser,
    input  logic [             5:0] pcie_rq_seq_num0,
    input  logic                    pcie_rq_seq_num_vld0,
    input  logic [             5:0] pcie_rq_seq_num1,
    input  logic                    pcie_rq_seq_num_vld1,

    output logic                    s_axis_cc_tvalid,
    input  logic                    s_axis_cc_tready,
    output logic [   DATA_BITS-1:0] s_axis_cc_tdata,
    output logic [      DWORDS-1:0] s_axis_cc_tkeep,
    output logic                    s_axis_cc_tlast,
    output logic [CC_USER_BITS-1:0] s_axis_cc_tuser,

    input  logic        user_lnk_up,
    input  logic [ 7:0] cfg_bus_number,
    input  logic [ 1:0] cfg_max_payload,
    input  logic [ 2:0] cfg_max_read_req,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [15:0] cfg_function_status,        // of function 0 Bus Master Enable is used
    input  logic [ 3:0] cfg_interrupt_msix_enable,  // here and below: function 0 is the engine
    input  logic [ 3:0] cfg_interrupt_msix_mask,
    input  logic [ 3:0] cfg_flr_in_process,
    // verilator lint_on UNUSEDSIGNAL
    output logic [ 3:0] cfg_flr_done,
    output logic [ 9:0] cfg_mgmt_addr,
    output logic [ 7:0] cfg_mgmt_function_number,
    output logic        cfg_mgmt_read,
    output logic        cfg_mgmt_write,
    output logic [31:0] cfg_mgmt_write_data,
    output logic [ 3:0] cfg_mgmt_byte_enable,
    output logic        cfg_mgmt_debug_access,
    input  logic [31:0] cfg_mgmt_read_data,
    input  logic        cfg_mgmt_read_write_done,
    input  logic [ 7:0] cfg_fc_ph,
    input  logic [11:0] cfg_fc_pd,
    input  logic [ 7:0] cfg_fc_nph,
    input  logic [ 7:0] cfg_fc_cplh,
    input  logic [11:0] cfg_fc_cpld,
    output logic [ 2:0] cfg_fc_sel,

    // Of the links: a clock for each column is `clk`. `links_rst` and each `rx_rst` are one event
    // (crosslane_reset_pair); it lasts for 64 clocks or more.
    input  logic [     15:0]                           first_session,   // another in each reset
    output logic                                       links_rst,
    output logic [LINKS-1:0]                           tx_enable,
    output logic [LINKS-1:0]                           tx_begins_word,
    output logic [LINKS-1:0][LANES-1:0][WORD_BITS-1:0] tx_words,
    input  logic [LINKS-1:0]                           rx_clk,
    input  logic [LINKS-1:0]                           rx_rst,
    input  logic [LINKS-1:0][LANES-1:0]                rx_detected,
    input  logic [LINKS-1:0][LANES-1:0][WORD_BITS-1:0] rx_words
);
  logic engine_rst;
  function_t function_i;
  room_t link_room;
  logic rx_valid, rx_ready, rx_first, rx_last, rx_discontinued, rx_is_completion;
  tlp_header_t rx_header, tx_header;
  logic [DATA_BITS-1:0] rx_data, tx_data;
  logic tx_valid, tx_ready, tx_first, tx_last;
  logic card_rx_valid, card_rx_ready, card_tx_valid;

  crosslane_shim_us #(
      .DATA_BITS(DATA_BITS),
      .CQ_TLPS  (CQ_TLPS),
      .CC_TLPS  (CC_TLPS),
      .RQ_TLPS  (RQ_TLPS),
      .RC_TLPS  (RC_TLPS),
      .GEN3     (GEN3)
  ) shim (
      .*,
      .function_o(function_i),
      .room(link_room),
      .m_rx_valid(rx_valid),
      .m_rx_ready(rx_ready),
      .m_rx_header(rx_header),
      .m_rx_first(rx_first),
      .m_rx_last(rx_last),
      .m_rx_discontinued(rx_discontinued),
      .m_rx_is_completion(rx_is_completion),
      .m_rx_data(rx_data),
      .s_tx_valid(tx_valid),
      .s_tx_ready(tx_ready),
      .s_tx_header(tx_header),
      .s_tx_first(tx_first),
      .s_tx_last(tx_last),
      .s_tx_data(tx_data)
  );

  // --- Resets --------------------------------------------------------------------------------
  // All is reset when the link to the host is down (docs/network-processor.md, Reset), and when the
  // hard block discontinues a write that it has begun to deliver: it has taken partial effect. A
  // TLP that is being sent is finished first. TLPs wait in the shim meanwhile; of one of which the
  // card has had a part, the rest is dropped.
  localparam logic [5:0] RESET_CLOCKS = '1;
  logic fails, ends, resets, tx_within, tx_ends, waits, rx_begun;
  logic [5:0] clocks;
  assign fails = !function_i.link_up ||
      (rx_valid && rx_ready && rx_discontinued && !rx_is_completion);
  assign tx_ends = card_tx_valid ? tx_ready && tx_last : !tx_within;
  assign links_rst = engine_rst || resets;
  assign waits = ends || links_rst;

  always_ff @(posedge clk) begin
    if (card_tx_valid && tx_ready) tx_within <= !tx_last;
    if (resets) clocks <= clocks + 1'b1;
    if (resets && clocks == RESET_CLOCKS) resets <= 1'b0;
    if (fails && !resets) ends <= 1'b1;
    if (ends && tx_ends) begin
      ends   <= 1'b0;
      resets <= 1'b1;
    end
    if ((fails && resets) || !resets) clocks <= '0;
    if (links_rst) begin
      tx_within <= 1'b0;
      rx_begun  <= 1'b0;
    end else if (!waits && rx_valid && rx_first) begin
      rx_begun <= 1'b1;
    end
    if (engine_rst) begin
      ends   <= 1'b0;
      resets <= 1'b1;
      clocks <= '0;
    end
  end

  // TLPs are whole on both sides: one that has begun is sent, and the card has each from its first
  // beat on.
  logic card_rx_within, was_reset;
  always_ff @(posedge clk) begin
    was_reset <= links_rst;
    if (card_rx_valid && card_rx_ready) card_rx_within <= !rx_last;
    if (links_rst) card_rx_within <= 1'b0;
    if (!rst && !engine_rst) begin
      assert (was_reset || !links_rst || !tx_within)
      else $error("a reset cuts a TLP that has begun");
      assert (!card_rx_valid || rx_first != card_rx_within)
      else $error("the card has part of a TLP");
    end
  end

  assign tx_valid = card_tx_valid && !links_rst;
  assign card_rx_valid = rx_valid && !waits && (rx_first || rx_begun);
  assign rx_ready = !waits && (card_rx_ready || !(rx_first || rx_begun));

  // --- The network processor -----------------------------------------------------------------
  crosslane_network_card #(
      .DATA_BITS(DATA_BITS),
      .LINKS(LINKS),
      .PUT_SLOTS(PUT_SLOTS),
      .CREDIT_SLOTS(CREDIT_SLOTS),
      .GET_SLOTS(GET_SLOTS),
      .TAGS(TAGS),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS),
      .MAX_WRITE(MAX_WRITE),
      .LANES(LANES),
      .LANE_RATE(LANE_RATE),
      .SYMBOLS(SYMBOLS),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
      .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
      .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
      .ACKNOWLEDGE_WITHIN(ACKNOWLEDGE_WITHIN),
      .RETRY_TIMEOUT(RETRY_TIMEOUT),
      .REFRESH(REFRESH),
      .NODES(NODES),
      .LONG(LONG),
      .BLOCKS(BLOCKS)
  ) card (
      .clk,
      .rst(links_rst),
      .function_i,
      .room_i(link_room),
      .first_session,
      .busy_o(),
      .settled_o(),
      .s_rx_valid(card_rx_valid),
      .s_rx_ready(card_rx_ready),
      .s_rx_header(rx_header),
      .s_rx_first(rx_first),
      .s_rx_last(rx_last),
      .s_rx_data(rx_data),
      .s_rx_aborted(rx_discontinued),
      .m_tx_valid(card_tx_valid),
      .m_tx_ready(tx_ready && !links_rst),
      .m_tx_header(tx_header),
      .m_tx_first(tx_first),
      .m_tx_last(tx_last),
      .m_tx_data(tx_data),
      .tx_enable,
      .tx_begins_word,
      .tx_words,
      .rx_clk,
      .rx_rst,
      .rx_detected,
      .rx_words
  );

  if (LINKS * TAGS > (GEN3 ? 64 : 256)) begin : g_check
    $error("reads have tags of 8 bits, those of the Gen3 block 6: LINKS * TAGS is too many");
  end

endmodule
