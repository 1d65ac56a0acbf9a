// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The DDR4 of a VCU118's channel 1 as the engine's memory: 2 GiB in four of its five chips, without ECC.
// `crosslane_ddr4_vcu118` is the vendor's core, made by ip/ddr4.tcl. It is reset when the bitstream is
// loaded, and never again.

module crosslane_vcu118_memory
  import crosslane_memory_pkg::*;
(
    input  logic                   sysclk_p,
    input  logic                   sysclk_n,
    input  logic                   clk,           // the engine's
    input  logic                   rst,           // what uses the memory is reset
    input  memory_request_t        request,
    output memory_answer_t         answer,
    output logic            [16:0] ddr4_adr,
    output logic            [ 1:0] ddr4_ba,
    output logic                   ddr4_bg,
    output logic                   ddr4_ck_t,
    output logic                   ddr4_ck_c,
    output logic                   ddr4_cke,
    output logic                   ddr4_cs_n,
    output logic                   ddr4_act_n,
    output logic                   ddr4_odt,
    output logic                   ddr4_reset_n,
    inout  wire             [63:0] ddr4_dq,
    inout  wire             [ 7:0] ddr4_dqs_t,
    inout  wire             [ 7:0] ddr4_dqs_c,
    inout  wire             [ 7:0] ddr4_dm_dbi_n
);
  localparam int unsigned MEMORY_BITS = 31;
  localparam logic [2:0] BEAT_OF_64_BYTES = 3'd6;
  localparam logic [1:0] INCREMENTING = 2'd1;
  localparam logic [3:0] MODIFIABLE_BUFFERABLE = 4'b0011;

  logic memory_clk, core_rst, is_calibrated, memory_rst;
  assign memory_rst = core_rst || !is_calibrated;

  memory_request_t memory_request;
  memory_answer_t  memory_answer;

  crosslane_memory_crossing #(
      .DATA_BITS(512),
      .ADDRESS_BITS(MEMORY_BITS)
  ) crossing (
      .clk,
      .rst,
      .s_request(request),
      .s_answer (answer),
      .memory_clk,
      .memory_rst,
      .m_request(memory_request),
      .m_answer (memory_answer)
  );

  // Whole beats: byte enables say which of their bytes are written.
  logic [MEMORY_BITS-1:0] awaddr, araddr;
  assign awaddr = {memory_request.awaddr[MEMORY_BITS-1:6], 6'd0};
  assign araddr = {memory_request.araddr[MEMORY_BITS-1:6], 6'd0};

  crosslane_ddr4_vcu118 ddr4 (
      .c0_sys_clk_p(sysclk_p),
      .c0_sys_clk_n(sysclk_n),
      .sys_rst(1'b0),
      .c0_ddr4_adr(ddr4_adr),
      .c0_ddr4_ba(ddr4_ba),
      .c0_ddr4_bg(ddr4_bg),
      .c0_ddr4_ck_t(ddr4_ck_t),
      .c0_ddr4_ck_c(ddr4_ck_c),
      .c0_ddr4_cke(ddr4_cke),
      .c0_ddr4_cs_n(ddr4_cs_n),
      .c0_ddr4_act_n(ddr4_act_n),
      .c0_ddr4_odt(ddr4_odt),
      .c0_ddr4_reset_n(ddr4_reset_n),
      .c0_ddr4_dq(ddr4_dq),
      .c0_ddr4_dqs_t(ddr4_dqs_t),
      .c0_ddr4_dqs_c(ddr4_dqs_c),
      .c0_ddr4_dm_dbi_n(ddr4_dm_dbi_n),
      .c0_ddr4_ui_clk(memory_clk),
      .c0_ddr4_ui_clk_sync_rst(core_rst),
      .c0_init_calib_complete(is_calibrated),
      .dbg_clk(),
      .dbg_bus(),
      .c0_ddr4_aresetn(!core_rst),
      .c0_ddr4_s_axi_awid('0),
      .c0_ddr4_s_axi_awaddr(awaddr),
      .c0_ddr4_s_axi_awlen(memory_request.awlen),
      .c0_ddr4_s_axi_awsize(BEAT_OF_64_BYTES),
      .c0_ddr4_s_axi_awburst(INCREMENTING),
      .c0_ddr4_s_axi_awlock('0),
      .c0_ddr4_s_axi_awcache(MODIFIABLE_BUFFERABLE),
      .c0_ddr4_s_axi_awprot('0),
      .c0_ddr4_s_axi_awqos('0),
      .c0_ddr4_s_axi_awvalid(memory_request.awvalid),
      .c0_ddr4_s_axi_awready(memory_answer.awready),
      .c0_ddr4_s_axi_arid('0),
      .c0_ddr4_s_axi_araddr(araddr),
      .c0_ddr4_s_axi_arlen(memory_request.arlen),
      .c0_ddr4_s_axi_arsize(BEAT_OF_64_BYTES),
      .c0_ddr4_s_axi_arburst(INCREMENTING),
      .c0_ddr4_s_axi_arlock('0),
      .c0_ddr4_s_axi_arcache(MODIFIABLE_BUFFERABLE),
      .c0_ddr4_s_axi_arprot('0),
      .c0_ddr4_s_axi_arqos('0),
      .c0_ddr4_s_axi_arvalid(memory_request.arvalid),
      .c0_ddr4_s_axi_arready(memory_answer.arready),
      .c0_ddr4_s_axi_wdata(memory_request.wdata),
      .c0_ddr4_s_axi_wstrb(memory_request.wstrb),
      .c0_ddr4_s_axi_wlast(memory_request.wlast),
      .c0_ddr4_s_axi_wvalid(memory_request.wvalid),
      .c0_ddr4_s_axi_wready(memory_answer.wready),
      .c0_ddr4_s_axi_bid(),
      .c0_ddr4_s_axi_bresp(memory_answer.bresp),
      .c0_ddr4_s_axi_bvalid(memory_answer.bvalid),
      .c0_ddr4_s_axi_bready(memory_request.bready),
      .c0_ddr4_s_axi_rid(),
      .c0_ddr4_s_axi_rdata(memory_answer.rdata),
      .c0_ddr4_s_axi_rresp(memory_answer.rresp),
      .c0_ddr4_s_axi_rlast(memory_answer.rlast),
      .c0_ddr4_s_axi_rvalid(memory_answer.rvalid),
      .c0_ddr4_s_axi_rready(memory_request.rready)
  );

  logic unused;
  assign unused = &{1'b0, memory_request.awaddr, memory_request.araddr};
endmodule
