// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The memory's port of an engine in the clock of a memory controller, which may be any. The engine
// may be reset at any time, also amidst bursts, and its clock may stand still: the controller gets
// whole bursts (crosslane_memory_guard). Then nothing new goes to the memory before all that was
// under way has ended.
//
// `memory_rst` is for the time until the memory can be used. A controller that is reset later loses
// bursts, and channels that wait for them have to be restarted.

module crosslane_memory_crossing #(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned ADDRESS_BITS = 40,
    parameter int unsigned OUTSTANDING = 32,  // bursts each way, a power of two
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input  logic                    clk,            // of the engine
    input  logic                    rst,
    input  logic                    s_axi_awvalid,
    output logic                    s_axi_awready,
    input  logic [ADDRESS_BITS-1:0] s_axi_awaddr,
    input  logic [             7:0] s_axi_awlen,
    input  logic                    s_axi_wvalid,
    output logic                    s_axi_wready,
    input  logic [   DATA_BITS-1:0] s_axi_wdata,
    input  logic [       BYTES-1:0] s_axi_wstrb,
    output logic                    s_axi_bvalid,
    input  logic                    s_axi_bready,
    output logic [             1:0] s_axi_bresp,
    input  logic                    s_axi_arvalid,
    output logic                    s_axi_arready,
    input  logic [ADDRESS_BITS-1:0] s_axi_araddr,
    input  logic [             7:0] s_axi_arlen,
    output logic                    s_axi_rvalid,
    input  logic                    s_axi_rready,
    output logic [   DATA_BITS-1:0] s_axi_rdata,
    output logic [             1:0] s_axi_rresp,
    output logic                    s_axi_rlast,
    input  logic                    memory_clk,
    input  logic                    memory_rst,
    output logic                    m_axi_awvalid,
    input  logic                    m_axi_awready,
    output logic [ADDRESS_BITS-1:0] m_axi_awaddr,
    output logic [             7:0] m_axi_awlen,
    output logic                    m_axi_wvalid,
    input  logic                    m_axi_wready,
    output logic [   DATA_BITS-1:0] m_axi_wdata,
    output logic [       BYTES-1:0] m_axi_wstrb,
    output logic                    m_axi_wlast,
    input  logic                    m_axi_bvalid,
    output logic                    m_axi_bready,
    input  logic [             1:0] m_axi_bresp,
    output logic                    m_axi_arvalid,
    input  logic                    m_axi_arready,
    output logic [ADDRESS_BITS-1:0] m_axi_araddr,
    output logic [             7:0] m_axi_arlen,
    input  logic                    m_axi_rvalid,
    output logic                    m_axi_rready,
    input  logic [   DATA_BITS-1:0] m_axi_rdata,
    input  logic [             1:0] m_axi_rresp,
    input  logic                    m_axi_rlast
);
  logic is_reset, engine_clear, stop, memory_clear;

  crosslane_fifo_resets resets (
      .a_clk    (clk),
      .a_rst    (rst),
      .a_rst_o  (is_reset),
      .a_clear_o(engine_clear),
      .b_clk    (memory_clk),
      .b_rst    (memory_rst),
      .b_rst_o  (stop),
      .b_clear_o(memory_clear)
  );

  // The engine's side while the FIFOs are reset. The other one is the guard's.
  logic aw_ready, w_ready, b_valid, ar_ready, r_valid;
  assign s_axi_awready = aw_ready && !is_reset;
  assign s_axi_wready  = w_ready && !is_reset;
  assign s_axi_bvalid  = b_valid && !is_reset;
  assign s_axi_arready = ar_ready && !is_reset;
  assign s_axi_rvalid  = r_valid && !is_reset;

  logic awvalid, awready, wvalid, wready, bvalid, bready, arvalid, arready, rvalid, rready, rlast;
  logic [ADDRESS_BITS-1:0] awaddr, araddr;
  logic [7:0] awlen, arlen;
  logic [DATA_BITS-1:0] wdata, rdata;
  logic [BYTES-1:0] wstrb;
  logic [1:0] bresp, rresp;

  crosslane_async_fifo #(
      .WIDTH(ADDRESS_BITS + 8)
  ) write_addresses (
      .s_clk  (clk),
      .s_rst  (engine_clear),
      .s_valid(s_axi_awvalid && !is_reset),
      .s_ready(aw_ready),
      .s_data ({s_axi_awaddr, s_axi_awlen}),
      .m_clk  (memory_clk),
      .m_rst  (memory_clear),
      .m_valid(awvalid),
      .m_ready(awready),
      .m_data ({awaddr, awlen})
  );

  crosslane_async_fifo #(
      .WIDTH(DATA_BITS + BYTES)
  ) write_data (
      .s_clk  (clk),
      .s_rst  (engine_clear),
      .s_valid(s_axi_wvalid && !is_reset),
      .s_ready(w_ready),
      .s_data ({s_axi_wdata, s_axi_wstrb}),
      .m_clk  (memory_clk),
      .m_rst  (memory_clear),
      .m_valid(wvalid),
      .m_ready(wready),
      .m_data ({wdata, wstrb})
  );

  crosslane_async_fifo #(
      .WIDTH(2)
  ) write_answers (
      .s_clk  (memory_clk),
      .s_rst  (memory_clear),
      .s_valid(bvalid),
      .s_ready(bready),
      .s_data (bresp),
      .m_clk  (clk),
      .m_rst  (engine_clear),
      .m_valid(b_valid),
      .m_ready(s_axi_bready),
      .m_data (s_axi_bresp)
  );

  crosslane_async_fifo #(
      .WIDTH(ADDRESS_BITS + 8)
  ) read_addresses (
      .s_clk  (clk),
      .s_rst  (engine_clear),
      .s_valid(s_axi_arvalid && !is_reset),
      .s_ready(ar_ready),
      .s_data ({s_axi_araddr, s_axi_arlen}),
      .m_clk  (memory_clk),
      .m_rst  (memory_clear),
      .m_valid(arvalid),
      .m_ready(arready),
      .m_data ({araddr, arlen})
  );

  crosslane_async_fifo #(
      .WIDTH(DATA_BITS + 3)
  ) read_data (
      .s_clk  (memory_clk),
      .s_rst  (memory_clear),
      .s_valid(rvalid),
      .s_ready(rready),
      .s_data ({rdata, rresp, rlast}),
      .m_clk  (clk),
      .m_rst  (engine_clear),
      .m_valid(r_valid),
      .m_ready(s_axi_rready),
      .m_data ({s_axi_rdata, s_axi_rresp, s_axi_rlast})
  );

  crosslane_memory_guard #(
      .DATA_BITS(DATA_BITS),
      .ADDRESS_BITS(ADDRESS_BITS),
      .OUTSTANDING(OUTSTANDING)
  ) guard (
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
      .*
  );
endmodule
