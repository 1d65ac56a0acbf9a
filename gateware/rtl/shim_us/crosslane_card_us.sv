// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A card behind the UltraScale+ integrated block for PCI Express, or the Gen3 block of Virtex-7:
// engine, reference user circuit and shim. Its ports have the names of the UltraScale+ block's; a
// board's top joins them and gives the clock.

module crosslane_card_us
  import crosslane_pkg::*;
  import crosslane_memory_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    // Settings of the hard block: TLPs that may begin in one beat (README.md).
    parameter int unsigned CQ_TLPS = 1,
    parameter int unsigned CC_TLPS = 1,
    parameter int unsigned RQ_TLPS = 1,
    parameter int unsigned RC_TLPS = 1,
    parameter bit GEN3 = 0,  // the Gen3 block of Virtex-7: README.md
    // The card: crosslane_card.
    parameter int unsigned H2C = 1,
    parameter int unsigned C2H = 1,
    parameter int unsigned PEER = 1,
    parameter int unsigned LANES_RECEIVED = 8,
    parameter int unsigned TAGS = 64,
    parameter int unsigned MAX_WRITE = 512,
    parameter int unsigned MAX_READ = 1024,
    parameter int unsigned STAGING_BYTES = 65536,
    parameter int unsigned LANE_FIFO = 16384,
    parameter int unsigned LANE_WINDOW = 524288,
    parameter int unsigned TABLE_ENTRIES = 1024,
    parameter int unsigned BATCH = 16,
    parameter int unsigned COMPLETION_HEADER_CREDITS = 0,
    parameter int unsigned COMPLETION_DATA_CREDITS = 0,
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter bit PACKETS = 0,
    parameter bit PUSH = 0,
    parameter bit MEMORY = 0,  // these five as in crosslane_engine
    parameter int unsigned MEMORY_BITS = 33,
    parameter bit COPY = 1,
    parameter bit WINDOW = 0,
    parameter int unsigned WINDOW_BITS = 28,
    localparam int unsigned LANES = DATA_BITS / 32,
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
    input  logic [       LANES-1:0] m_axis_cq_tkeep,
    input  logic                    m_axis_cq_tlast,
    input  logic [CQ_USER_BITS-1:0] m_axis_cq_tuser,
    output logic [             1:0] pcie_cq_np_req,

    input  logic                    m_axis_rc_tvalid,
    output logic                    m_axis_rc_tready,
    input  logic [   DATA_BITS-1:0] m_axis_rc_tdata,
    input  logic [       LANES-1:0] m_axis_rc_tkeep,
    input  logic                    m_axis_rc_tlast,
    input  logic [RC_USER_BITS-1:0] m_axis_rc_tuser,
    // verilator lint_on UNUSEDSIGNAL

    output logic                    s_axis_rq_tvalid,
    input  logic                    s_axis_rq_tready,
    output logic [   DATA_BITS-1:0] s_axis_rq_tdata,
    output logic [       LANES-1:0] s_axis_rq_tkeep,
    output logic                    s_axis_rq_tlast,
    output logic [RQ_USER_BITS-1:0] s_axis_rq_tuser,
    input  logic [             5:0] pcie_rq_seq_num0,
    input  logic                    pcie_rq_seq_num_vld0,
    input  logic [             5:0] pcie_rq_seq_num1,
    input  logic                    pcie_rq_seq_num_vld1,

    output logic                    s_axis_cc_tvalid,
    input  logic                    s_axis_cc_tready,
    output logic [   DATA_BITS-1:0] s_axis_cc_tdata,
    output logic [       LANES-1:0] s_axis_cc_tkeep,
    output logic                    s_axis_cc_tlast,
    output logic [CC_USER_BITS-1:0] s_axis_cc_tuser,

    input logic user_lnk_up,
    input logic [7:0] cfg_bus_number,
    input logic [1:0] cfg_max_payload,
    input logic [2:0] cfg_max_read_req,
    // verilator lint_off UNUSEDSIGNAL
    input logic [15:0] cfg_function_status,  // of function 0 Bus Master Enable is used
    input logic [3:0] cfg_interrupt_msix_enable,  // here and below: function 0 is the engine
    input logic [3:0] cfg_interrupt_msix_mask,
    input logic [3:0] cfg_flr_in_process,
    // verilator lint_on UNUSEDSIGNAL
    output logic [3:0] cfg_flr_done,
    output logic [9:0] cfg_mgmt_addr,
    output logic [7:0] cfg_mgmt_function_number,
    output logic cfg_mgmt_read,
    output logic cfg_mgmt_write,
    output logic [31:0] cfg_mgmt_write_data,
    output logic [3:0] cfg_mgmt_byte_enable,
    output logic cfg_mgmt_debug_access,
    input logic [31:0] cfg_mgmt_read_data,
    input logic cfg_mgmt_read_write_done,
    input logic [7:0] cfg_fc_ph,
    input logic [11:0] cfg_fc_pd,
    input logic [7:0] cfg_fc_nph,
    input logic [7:0] cfg_fc_cplh,
    input logic [11:0] cfg_fc_cpld,
    output logic [2:0] cfg_fc_sel,
    // The board's memory, if there is one; else `memory_i` is 0.
    output memory_request_t memory_o,
    // verilator lint_off UNUSEDSIGNAL
    input memory_answer_t memory_i,
    // verilator lint_on UNUSEDSIGNAL
    // The engine and the memory's port are reset.
    output logic memory_rst
);
  logic engine_rst;
  function_t core_function, function_i;
  room_t link_room;
  logic rx_valid, rx_ready, rx_first, rx_last, rx_discontinued, rx_is_completion;
  tlp_header_t rx_header, tx_header;
  logic [DATA_BITS-1:0] rx_data, tx_data;
  logic tx_valid, tx_ready, tx_first, tx_last;

  crosslane_shim_us #(
      .DATA_BITS(DATA_BITS),
      .CQ_TLPS  (CQ_TLPS),
      .CC_TLPS  (CC_TLPS),
      .RQ_TLPS  (RQ_TLPS),
      .RC_TLPS  (RC_TLPS),
      .GEN3     (GEN3)
  ) shim (
      .*,
      .function_o(core_function),
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

  // The hard block may discontinue a TLP that it has begun to deliver, when its own memory fails. A
  // completion belongs to one read, whose channel stops. A write has taken partial effect: all
  // channels that run stop, as when the link goes down.
  always_comb begin
    function_i = core_function;
    function_i.link_up = core_function.link_up &&
        !(rx_valid && rx_discontinued && !rx_is_completion);
  end

  // --- The board's memory: of the engine, and of the aperture ------------------------------------
  // Without memory or aperture some are not used.
  // verilator lint_off UNUSEDSIGNAL
  memory_request_t [1:0] user_request;
  memory_answer_t [1:0] user_answer;
  // verilator lint_on UNUSEDSIGNAL
  logic [1:0][DATA_BITS-1:0] wdata;
  logic [1:0][DATA_BITS/8-1:0] wstrb;
  logic [1:0][MEMORY_BITS-1:0] awaddr, araddr;
  logic [WINDOW_BITS-1:0] window_awaddr, window_araddr;
  assign awaddr[1] = MEMORY_BITS'(window_awaddr);
  assign araddr[1] = MEMORY_BITS'(window_araddr);
  for (genvar n = 0; n < 2; n++) begin : g_request
    assign user_request[n].awaddr = MEMORY_ADDRESS_BITS'(awaddr[n]);
    assign user_request[n].wdata  = MEMORY_DATA_BITS'(wdata[n]);
    assign user_request[n].wstrb  = (MEMORY_DATA_BITS / 8)'(wstrb[n]);
    assign user_request[n].araddr = MEMORY_ADDRESS_BITS'(araddr[n]);
  end
  assign memory_rst = engine_rst;

  if (WINDOW) begin : g_window
    crosslane_memory_share #(
        .DATA_BITS(DATA_BITS),
        .ADDRESS_BITS(MEMORY_BITS)
    ) share (
        .clk,
        .rst(engine_rst),
        .s_request(user_request),
        .s_answer(user_answer),
        .m_request(memory_o),
        .m_answer(memory_i)
    );
  end else begin : g_no_window
    assign memory_o = user_request[0];
    assign user_answer = {memory_answer_t'('0), memory_i};
  end

  crosslane_card_with_memory #(
      .DATA_BITS(DATA_BITS),
      .H2C(H2C),
      .C2H(C2H),
      .PEER(PEER),
      .LANES(LANES_RECEIVED),
      .TAGS(TAGS),
      .MAX_WRITE(MAX_WRITE),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .LANE_FIFO(LANE_FIFO),
      .LANE_WINDOW(LANE_WINDOW),
      .TABLE_ENTRIES(TABLE_ENTRIES),
      .BATCH(BATCH),
      .COMPLETION_HEADER_CREDITS(COMPLETION_HEADER_CREDITS),
      .COMPLETION_DATA_CREDITS(COMPLETION_DATA_CREDITS),
      .CLOCK_PS(CLOCK_PS),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS),
      .PACKETS(PACKETS),
      .PUSH(PUSH),
      .MEMORY(MEMORY),
      .MEMORY_BITS(MEMORY_BITS),
      .COPY(COPY),
      .WINDOW(WINDOW),
      .WINDOW_BITS(WINDOW_BITS)
  ) card (
      .clk,
      .rst(engine_rst),
      .function_i,
      .room_i(link_room),
      .time_set_valid(1'b0),
      .time_set_value('0),
      .time_o(),
      .busy_o(),
      .s_rx_valid(rx_valid),
      .s_rx_ready(rx_ready),
      .s_rx_header(rx_header),
      .s_rx_first(rx_first),
      .s_rx_last(rx_last),
      .s_rx_data(rx_data),
      .s_rx_aborted(rx_discontinued),
      .m_tx_valid(tx_valid),
      .m_tx_ready(tx_ready),
      .m_tx_header(tx_header),
      .m_tx_first(tx_first),
      .m_tx_last(tx_last),
      .m_tx_data(tx_data),
      .poisoned_write(),
      .unexpected_completion(),
      .completion_timeout(),
      .m_memory_awvalid(user_request[0].awvalid),
      .m_memory_awready(user_answer[0].awready),
      .m_memory_awaddr(awaddr[0]),
      .m_memory_awlen(user_request[0].awlen),
      .m_memory_awsize(),
      .m_memory_awburst(),
      .m_memory_wvalid(user_request[0].wvalid),
      .m_memory_wready(user_answer[0].wready),
      .m_memory_wdata(wdata[0]),
      .m_memory_wstrb(wstrb[0]),
      .m_memory_wlast(user_request[0].wlast),
      .m_memory_bvalid(user_answer[0].bvalid),
      .m_memory_bready(user_request[0].bready),
      .m_memory_bresp(user_answer[0].bresp),
      .m_memory_arvalid(user_request[0].arvalid),
      .m_memory_arready(user_answer[0].arready),
      .m_memory_araddr(araddr[0]),
      .m_memory_arlen(user_request[0].arlen),
      .m_memory_arsize(),
      .m_memory_arburst(),
      .m_memory_rvalid(user_answer[0].rvalid),
      .m_memory_rready(user_request[0].rready),
      .m_memory_rdata(user_answer[0].rdata[DATA_BITS-1:0]),
      .m_memory_rresp(user_answer[0].rresp),
      .m_memory_rlast(user_answer[0].rlast),
      .m_window_awvalid(user_request[1].awvalid),
      .m_window_awready(user_answer[1].awready),
      .m_window_awaddr(window_awaddr),
      .m_window_awlen(user_request[1].awlen),
      .m_window_awsize(),
      .m_window_awburst(),
      .m_window_wvalid(user_request[1].wvalid),
      .m_window_wready(user_answer[1].wready),
      .m_window_wdata(wdata[1]),
      .m_window_wstrb(wstrb[1]),
      .m_window_wlast(user_request[1].wlast),
      .m_window_bvalid(user_answer[1].bvalid),
      .m_window_bready(user_request[1].bready),
      .m_window_bresp(user_answer[1].bresp),
      .m_window_arvalid(user_request[1].arvalid),
      .m_window_arready(user_answer[1].arready),
      .m_window_araddr(window_araddr),
      .m_window_arlen(user_request[1].arlen),
      .m_window_arsize(),
      .m_window_arburst(),
      .m_window_rvalid(user_answer[1].rvalid),
      .m_window_rready(user_request[1].rready),
      .m_window_rdata(user_answer[1].rdata[DATA_BITS-1:0]),
      .m_window_rresp(user_answer[1].rresp),
      .m_window_rlast(user_answer[1].rlast)
  );

  if (GEN3 && TAGS + 4 * (H2C + C2H + PEER) > 64) begin : g_check
    $error("the Gen3 block has 64 tags, of which each channel has four for its descriptors");
  end

endmodule
