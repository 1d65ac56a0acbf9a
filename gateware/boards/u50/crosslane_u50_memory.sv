// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The HBM of an Alveo U50 as the engine's memory: 8 GiB, half of each beat in each stack, at 300 MHz
// from an oscillator of the board. `crosslane_hbm` is the vendor's core, made by ip/hbm.tcl.

module crosslane_u50_memory
  import crosslane_memory_pkg::*;
(
    input  logic            sysclk_p,  // 100 MHz
    input  logic            sysclk_n,
    input  logic            clk,       // the engine's
    input  logic            rst,       // what uses the memory is reset
    input  memory_request_t request,
    output memory_answer_t  answer,
    output logic            too_hot
);
  localparam int unsigned DATA_BITS = 512;
  localparam int unsigned BYTES = DATA_BITS / 8;
  localparam int unsigned MEMORY_BITS = 33;
  localparam int unsigned STACK_BITS = MEMORY_BITS - 1;
  localparam logic [2:0] BEAT_OF_32_BYTES = 3'd5;
  localparam logic [1:0] INCREMENTING = 2'd1;

  // --- Clock and resets --------------------------------------------------------------------------
  logic sysclk_in, sysclk, feedback, memory_clk_out, memory_clk, is_locked;

  IBUFDS sysclk_buffer (
      .I (sysclk_p),
      .IB(sysclk_n),
      .O (sysclk_in)
  );
  BUFG sysclk_global (
      .I(sysclk_in),
      .O(sysclk)
  );
  MMCME4_BASE #(
      .CLKIN1_PERIOD(10.0),
      .CLKFBOUT_MULT_F(12.0),
      .CLKOUT0_DIVIDE_F(4.0)
  ) mmcm (
      .CLKIN1(sysclk),
      .CLKFBIN(feedback),
      .RST(1'b0),
      .PWRDWN(1'b0),
      .CLKFBOUT(feedback),
      .CLKOUT0(memory_clk_out),
      .LOCKED(is_locked)
  );
  BUFG memory_global (
      .I(memory_clk_out),
      .O(memory_clk)
  );

  // The core's ports are reset once, before their first burst (PG276, Port Descriptions).
  logic is_running, memory_rst;
  logic [1:0] is_complete, is_ready, temperature_trip;
  logic [3:0] port_resetting;
  crosslane_synchronizer #(
      .WIDTH(3)
  ) seen (
      .clk(memory_clk),
      .rst(1'b0),
      .s  ({is_locked, is_complete}),
      .m  ({is_running, is_ready})
  );
  always_ff @(posedge memory_clk) begin
    port_resetting <= is_running ? {port_resetting[2:0], 1'b0} : '1;
    memory_rst <= port_resetting != '0 || !(&is_ready);
  end

  // The satellite controller turns the board off when this rises.
  assign too_hot = |temperature_trip;

  // --- From the engine to the stacks -------------------------------------------------------------
  logic awvalid, awready, wvalid, wready, wlast, bvalid, bready;
  logic arvalid, arready, rvalid, rready, rlast;
  logic [MEMORY_BITS-1:0] awaddr, araddr;
  logic [7:0] awlen, arlen;
  logic [DATA_BITS-1:0] wdata, rdata;
  logic [BYTES-1:0] wstrb;
  logic [1:0] bresp, rresp;

  crosslane_memory_crossing #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(MEMORY_BITS)
  ) crossing (
      .clk,
      .rst,
      .s_axi_awvalid(request.awvalid),
      .s_axi_awready(answer.awready),
      .s_axi_awaddr (request.awaddr[MEMORY_BITS-1:0]),
      .s_axi_awlen  (request.awlen),
      .s_axi_wvalid (request.wvalid),
      .s_axi_wready (answer.wready),
      .s_axi_wdata  (request.wdata),
      .s_axi_wstrb  (request.wstrb),
      .s_axi_bvalid (answer.bvalid),
      .s_axi_bready (request.bready),
      .s_axi_bresp  (answer.bresp),
      .s_axi_arvalid(request.arvalid),
      .s_axi_arready(answer.arready),
      .s_axi_araddr (request.araddr[MEMORY_BITS-1:0]),
      .s_axi_arlen  (request.arlen),
      .s_axi_rvalid (answer.rvalid),
      .s_axi_rready (request.rready),
      .s_axi_rdata  (answer.rdata),
      .s_axi_rresp  (answer.rresp),
      .s_axi_rlast  (answer.rlast),
      .memory_clk,
      .memory_rst,
      .m_axi_awvalid(awvalid),
      .m_axi_awready(awready),
      .m_axi_awaddr (awaddr),
      .m_axi_awlen  (awlen),
      .m_axi_wvalid (wvalid),
      .m_axi_wready (wready),
      .m_axi_wdata  (wdata),
      .m_axi_wstrb  (wstrb),
      .m_axi_wlast  (wlast),
      .m_axi_bvalid (bvalid),
      .m_axi_bready (bready),
      .m_axi_bresp  (bresp),
      .m_axi_arvalid(arvalid),
      .m_axi_arready(arready),
      .m_axi_araddr (araddr),
      .m_axi_arlen  (arlen),
      .m_axi_rvalid (rvalid),
      .m_axi_rready (rready),
      .m_axi_rdata  (rdata),
      .m_axi_rresp  (rresp),
      .m_axi_rlast  (rlast)
  );

  logic [1:0] port_awvalid, port_awready, port_wvalid, port_wready, port_bvalid, port_bready;
  logic [1:0] port_arvalid, port_arready, port_rvalid, port_rready, port_rlast;
  logic [STACK_BITS-1:0] port_awaddr, port_araddr;
  logic [7:0] port_awlen, port_arlen;
  logic [1:0][DATA_BITS/2-1:0] port_wdata, port_rdata;
  logic [1:0][BYTES/2-1:0] port_wstrb;
  logic [1:0][1:0] port_bresp, port_rresp;
  logic port_wlast;

  crosslane_memory_halves #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(MEMORY_BITS)
  ) halves (
      .clk(memory_clk),
      .rst(memory_rst),
      .s_axi_awvalid(awvalid),
      .s_axi_awready(awready),
      .s_axi_awaddr(awaddr),
      .s_axi_awlen(awlen),
      .s_axi_wvalid(wvalid),
      .s_axi_wready(wready),
      .s_axi_wdata(wdata),
      .s_axi_wstrb(wstrb),
      .s_axi_wlast(wlast),
      .s_axi_bvalid(bvalid),
      .s_axi_bready(bready),
      .s_axi_bresp(bresp),
      .s_axi_arvalid(arvalid),
      .s_axi_arready(arready),
      .s_axi_araddr(araddr),
      .s_axi_arlen(arlen),
      .s_axi_rvalid(rvalid),
      .s_axi_rready(rready),
      .s_axi_rdata(rdata),
      .s_axi_rresp(rresp),
      .s_axi_rlast(rlast),
      .m_axi_awvalid(port_awvalid),
      .m_axi_awready(port_awready),
      .m_axi_awaddr(port_awaddr),
      .m_axi_awlen(port_awlen),
      .m_axi_wvalid(port_wvalid),
      .m_axi_wready(port_wready),
      .m_axi_wdata(port_wdata),
      .m_axi_wstrb(port_wstrb),
      .m_axi_wlast(port_wlast),
      .m_axi_bvalid(port_bvalid),
      .m_axi_bready(port_bready),
      .m_axi_bresp(port_bresp),
      .m_axi_arvalid(port_arvalid),
      .m_axi_arready(port_arready),
      .m_axi_araddr(port_araddr),
      .m_axi_arlen(port_arlen),
      .m_axi_rvalid(port_rvalid),
      .m_axi_rready(port_rready),
      .m_axi_rdata(port_rdata),
      .m_axi_rresp(port_rresp),
      .m_axi_rlast(port_rlast)
  );

  // AXI3: bursts of the engine have 16 beats at most. The upper bit of an address chooses the stack.
  crosslane_hbm hbm (
      .HBM_REF_CLK_0(sysclk),
      .HBM_REF_CLK_1(sysclk),
      .APB_0_PWDATA('0),
      .APB_0_PADDR('0),
      .APB_0_PCLK(sysclk),
      .APB_0_PENABLE(1'b0),
      .APB_0_PRESET_N(1'b1),
      .APB_0_PSEL(1'b0),
      .APB_0_PWRITE(1'b0),
      .apb_complete_0(is_complete[0]),
      .DRAM_0_STAT_CATTRIP(temperature_trip[0]),
      .APB_1_PWDATA('0),
      .APB_1_PADDR('0),
      .APB_1_PCLK(sysclk),
      .APB_1_PENABLE(1'b0),
      .APB_1_PRESET_N(1'b1),
      .APB_1_PSEL(1'b0),
      .APB_1_PWRITE(1'b0),
      .apb_complete_1(is_complete[1]),
      .DRAM_1_STAT_CATTRIP(temperature_trip[1]),
      .AXI_00_ACLK(memory_clk),
      .AXI_00_ARESET_N(!port_resetting[3]),
      .AXI_00_AWADDR({1'b0, port_awaddr}),
      .AXI_00_AWBURST(INCREMENTING),
      .AXI_00_AWID('0),
      .AXI_00_AWLEN(port_awlen[3:0]),
      .AXI_00_AWSIZE(BEAT_OF_32_BYTES),
      .AXI_00_AWVALID(port_awvalid[0]),
      .AXI_00_AWREADY(port_awready[0]),
      .AXI_00_ARADDR({1'b0, port_araddr}),
      .AXI_00_ARBURST(INCREMENTING),
      .AXI_00_ARID('0),
      .AXI_00_ARLEN(port_arlen[3:0]),
      .AXI_00_ARSIZE(BEAT_OF_32_BYTES),
      .AXI_00_ARVALID(port_arvalid[0]),
      .AXI_00_ARREADY(port_arready[0]),
      .AXI_00_WDATA(port_wdata[0]),
      .AXI_00_WDATA_PARITY('0),
      .AXI_00_WSTRB(port_wstrb[0]),
      .AXI_00_WLAST(port_wlast),
      .AXI_00_WVALID(port_wvalid[0]),
      .AXI_00_WREADY(port_wready[0]),
      .AXI_00_BRESP(port_bresp[0]),
      .AXI_00_BVALID(port_bvalid[0]),
      .AXI_00_BREADY(port_bready[0]),
      .AXI_00_RDATA(port_rdata[0]),
      .AXI_00_RRESP(port_rresp[0]),
      .AXI_00_RLAST(port_rlast[0]),
      .AXI_00_RVALID(port_rvalid[0]),
      .AXI_00_RREADY(port_rready[0]),
      .AXI_16_ACLK(memory_clk),
      .AXI_16_ARESET_N(!port_resetting[3]),
      .AXI_16_AWADDR({1'b1, port_awaddr}),
      .AXI_16_AWBURST(INCREMENTING),
      .AXI_16_AWID('0),
      .AXI_16_AWLEN(port_awlen[3:0]),
      .AXI_16_AWSIZE(BEAT_OF_32_BYTES),
      .AXI_16_AWVALID(port_awvalid[1]),
      .AXI_16_AWREADY(port_awready[1]),
      .AXI_16_ARADDR({1'b1, port_araddr}),
      .AXI_16_ARBURST(INCREMENTING),
      .AXI_16_ARID('0),
      .AXI_16_ARLEN(port_arlen[3:0]),
      .AXI_16_ARSIZE(BEAT_OF_32_BYTES),
      .AXI_16_ARVALID(port_arvalid[1]),
      .AXI_16_ARREADY(port_arready[1]),
      .AXI_16_WDATA(port_wdata[1]),
      .AXI_16_WDATA_PARITY('0),
      .AXI_16_WSTRB(port_wstrb[1]),
      .AXI_16_WLAST(port_wlast),
      .AXI_16_WVALID(port_wvalid[1]),
      .AXI_16_WREADY(port_wready[1]),
      .AXI_16_BRESP(port_bresp[1]),
      .AXI_16_BVALID(port_bvalid[1]),
      .AXI_16_BREADY(port_bready[1]),
      .AXI_16_RDATA(port_rdata[1]),
      .AXI_16_RRESP(port_rresp[1]),
      .AXI_16_RLAST(port_rlast[1]),
      .AXI_16_RVALID(port_rvalid[1]),
      .AXI_16_RREADY(port_rready[1])
  );

  logic unused;
  assign unused = &{1'b0, port_awlen[7:4], port_arlen[7:4], request};

`ifndef SYNTHESIS
  always_ff @(posedge memory_clk) begin
    if (!memory_rst) begin
      assert (!awvalid || awlen[7:4] == '0)
      else $error("a burst of more than 16 beats");
      assert (!arvalid || arlen[7:4] == '0)
      else $error("a burst of more than 16 beats");
    end
  end
`endif
endmodule
