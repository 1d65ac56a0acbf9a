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
  localparam int unsigned HALF = DATA_BITS / 2;
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
  memory_request_t memory_request;
  memory_answer_t memory_answer;
  memory_request_t [1:0] port_request;
  memory_answer_t [1:0] port_answer;

  crosslane_memory_crossing #(
      .DATA_BITS(DATA_BITS),
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
  crosslane_memory_halves #(
      .DATA_BITS(DATA_BITS)
  ) halves (
      .clk(memory_clk),
      .rst(memory_rst),
      .s_request(memory_request),
      .s_answer(memory_answer),
      .m_request(port_request),
      .m_answer(port_answer)
  );
  for (genvar stack = 0; stack < 2; stack++) begin : g_upper
    assign port_answer[stack].rdata[MEMORY_DATA_BITS-1:HALF] = '0;
  end

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
      .AXI_00_AWADDR({1'b0, port_request[0].awaddr[STACK_BITS-1:0]}),
      .AXI_00_AWBURST(INCREMENTING),
      .AXI_00_AWID('0),
      .AXI_00_AWLEN(port_request[0].awlen[3:0]),
      .AXI_00_AWSIZE(BEAT_OF_32_BYTES),
      .AXI_00_AWVALID(port_request[0].awvalid),
      .AXI_00_AWREADY(port_answer[0].awready),
      .AXI_00_ARADDR({1'b0, port_request[0].araddr[STACK_BITS-1:0]}),
      .AXI_00_ARBURST(INCREMENTING),
      .AXI_00_ARID('0),
      .AXI_00_ARLEN(port_request[0].arlen[3:0]),
      .AXI_00_ARSIZE(BEAT_OF_32_BYTES),
      .AXI_00_ARVALID(port_request[0].arvalid),
      .AXI_00_ARREADY(port_answer[0].arready),
      .AXI_00_WDATA(port_request[0].wdata[HALF-1:0]),
      .AXI_00_WDATA_PARITY('0),
      .AXI_00_WSTRB(port_request[0].wstrb[HALF/8-1:0]),
      .AXI_00_WLAST(port_request[0].wlast),
      .AXI_00_WVALID(port_request[0].wvalid),
      .AXI_00_WREADY(port_answer[0].wready),
      .AXI_00_BRESP(port_answer[0].bresp),
      .AXI_00_BVALID(port_answer[0].bvalid),
      .AXI_00_BREADY(port_request[0].bready),
      .AXI_00_RDATA(port_answer[0].rdata[HALF-1:0]),
      .AXI_00_RRESP(port_answer[0].rresp),
      .AXI_00_RLAST(port_answer[0].rlast),
      .AXI_00_RVALID(port_answer[0].rvalid),
      .AXI_00_RREADY(port_request[0].rready),
      .AXI_16_ACLK(memory_clk),
      .AXI_16_ARESET_N(!port_resetting[3]),
      .AXI_16_AWADDR({1'b1, port_request[1].awaddr[STACK_BITS-1:0]}),
      .AXI_16_AWBURST(INCREMENTING),
      .AXI_16_AWID('0),
      .AXI_16_AWLEN(port_request[1].awlen[3:0]),
      .AXI_16_AWSIZE(BEAT_OF_32_BYTES),
      .AXI_16_AWVALID(port_request[1].awvalid),
      .AXI_16_AWREADY(port_answer[1].awready),
      .AXI_16_ARADDR({1'b1, port_request[1].araddr[STACK_BITS-1:0]}),
      .AXI_16_ARBURST(INCREMENTING),
      .AXI_16_ARID('0),
      .AXI_16_ARLEN(port_request[1].arlen[3:0]),
      .AXI_16_ARSIZE(BEAT_OF_32_BYTES),
      .AXI_16_ARVALID(port_request[1].arvalid),
      .AXI_16_ARREADY(port_answer[1].arready),
      .AXI_16_WDATA(port_request[1].wdata[HALF-1:0]),
      .AXI_16_WDATA_PARITY('0),
      .AXI_16_WSTRB(port_request[1].wstrb[HALF/8-1:0]),
      .AXI_16_WLAST(port_request[1].wlast),
      .AXI_16_WVALID(port_request[1].wvalid),
      .AXI_16_WREADY(port_answer[1].wready),
      .AXI_16_BRESP(port_answer[1].bresp),
      .AXI_16_BVALID(port_answer[1].bvalid),
      .AXI_16_BREADY(port_request[1].bready),
      .AXI_16_RDATA(port_answer[1].rdata[HALF-1:0]),
      .AXI_16_RRESP(port_answer[1].rresp),
      .AXI_16_RLAST(port_answer[1].rlast),
      .AXI_16_RVALID(port_answer[1].rvalid),
      .AXI_16_RREADY(port_request[1].rready)
  );

  logic unused;
  assign unused = &{1'b0, port_request};

`ifndef SYNTHESIS
  always_ff @(posedge memory_clk) begin
    if (!memory_rst) begin
      assert (!memory_request.awvalid || memory_request.awlen[7:4] == '0)
      else $error("a burst of more than 16 beats");
      assert (!memory_request.arvalid || memory_request.arlen[7:4] == '0)
      else $error("a burst of more than 16 beats");
    end
  end
`endif
endmodule
