// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The memory's port of an engine in the clock of a memory controller, which may be any. The engine
// may be reset at any time, also amidst bursts, and its clock may stand still: the controller gets
// whole bursts (crosslane_memory_guard). Then nothing new goes to the memory before all that was
// under way has ended.
//
// `memory_rst` is for the time until the memory can be used. A controller that is reset later loses
// bursts, and channels that wait for them have to be restarted.

module crosslane_memory_crossing
  import crosslane_memory_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned ADDRESS_BITS = 40,
    parameter int unsigned OUTSTANDING = 32,  // bursts each way, a power of two
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input  logic            clk,         // of the engine
    input  logic            rst,
    // verilator lint_off UNUSEDSIGNAL
    input  memory_request_t s_request,
    // verilator lint_on UNUSEDSIGNAL
    output memory_answer_t  s_answer,
    input  logic            memory_clk,
    input  logic            memory_rst,
    output memory_request_t m_request,
    input  memory_answer_t  m_answer
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
  assign s_answer.awready = aw_ready && !is_reset;
  assign s_answer.wready  = w_ready && !is_reset;
  assign s_answer.bvalid  = b_valid && !is_reset;
  assign s_answer.arready = ar_ready && !is_reset;
  assign s_answer.rvalid  = r_valid && !is_reset;

  // In the memory's clock, in front of the guard.
  memory_request_t request;
  memory_answer_t  answer;
  logic awvalid, wvalid, bready, arvalid, rready;
  logic [ADDRESS_BITS-1:0] awaddr, araddr;
  logic [7:0] awlen, arlen;
  logic [DATA_BITS-1:0] wdata, rdata;
  logic [BYTES-1:0] wstrb;
  assign request = '{
          awvalid: awvalid,
          awaddr: MEMORY_ADDRESS_BITS'(awaddr),
          awlen: awlen,
          wvalid: wvalid,
          wdata: MEMORY_DATA_BITS'(wdata),
          wstrb: (MEMORY_DATA_BITS / 8)'(wstrb),
          wlast: 1'b0,
          bready: bready,
          arvalid: arvalid,
          araddr: MEMORY_ADDRESS_BITS'(araddr),
          arlen: arlen,
          rready: rready
      };
  assign s_answer.rdata = MEMORY_DATA_BITS'(rdata);

  crosslane_async_fifo #(
      .WIDTH(ADDRESS_BITS + 8)
  ) write_addresses (
      .s_clk  (clk),
      .s_rst  (engine_clear),
      .s_valid(s_request.awvalid && !is_reset),
      .s_ready(aw_ready),
      .s_data ({s_request.awaddr[ADDRESS_BITS-1:0], s_request.awlen}),
      .m_clk  (memory_clk),
      .m_rst  (memory_clear),
      .m_valid(awvalid),
      .m_ready(answer.awready),
      .m_data ({awaddr, awlen})
  );

  crosslane_async_fifo #(
      .WIDTH(DATA_BITS + BYTES)
  ) write_data (
      .s_clk  (clk),
      .s_rst  (engine_clear),
      .s_valid(s_request.wvalid && !is_reset),
      .s_ready(w_ready),
      .s_data ({s_request.wdata[DATA_BITS-1:0], s_request.wstrb[BYTES-1:0]}),
      .m_clk  (memory_clk),
      .m_rst  (memory_clear),
      .m_valid(wvalid),
      .m_ready(answer.wready),
      .m_data ({wdata, wstrb})
  );

  crosslane_async_fifo #(
      .WIDTH(2)
  ) write_answers (
      .s_clk  (memory_clk),
      .s_rst  (memory_clear),
      .s_valid(answer.bvalid),
      .s_ready(bready),
      .s_data (answer.bresp),
      .m_clk  (clk),
      .m_rst  (engine_clear),
      .m_valid(b_valid),
      .m_ready(s_request.bready),
      .m_data (s_answer.bresp)
  );

  crosslane_async_fifo #(
      .WIDTH(ADDRESS_BITS + 8)
  ) read_addresses (
      .s_clk  (clk),
      .s_rst  (engine_clear),
      .s_valid(s_request.arvalid && !is_reset),
      .s_ready(ar_ready),
      .s_data ({s_request.araddr[ADDRESS_BITS-1:0], s_request.arlen}),
      .m_clk  (memory_clk),
      .m_rst  (memory_clear),
      .m_valid(arvalid),
      .m_ready(answer.arready),
      .m_data ({araddr, arlen})
  );

  crosslane_async_fifo #(
      .WIDTH(DATA_BITS + 3)
  ) read_data (
      .s_clk  (memory_clk),
      .s_rst  (memory_clear),
      .s_valid(answer.rvalid),
      .s_ready(rready),
      .s_data ({answer.rdata[DATA_BITS-1:0], answer.rresp, answer.rlast}),
      .m_clk  (clk),
      .m_rst  (engine_clear),
      .m_valid(r_valid),
      .m_ready(s_request.rready),
      .m_data ({rdata, s_answer.rresp, s_answer.rlast})
  );

  crosslane_memory_guard #(
      .OUTSTANDING(OUTSTANDING)
  ) guard (
      .clk(memory_clk),
      .rst(memory_rst),
      .stop,
      .s_request(request),
      .s_answer(answer),
      .m_request,
      .m_answer
  );
endmodule
