// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Two memories as one of twice their width: the lower half of each beat lies in the first, the upper
// half in the second, at half the address. Both get the same bursts, and are waited for.

module crosslane_memory_halves
  import crosslane_memory_pkg::*;
#(
    parameter int unsigned DATA_BITS = 512,  // of both
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned HALF = DATA_BITS / 2
) (
    input  logic                  clk,
    input  logic                  rst,
    // verilator lint_off UNUSEDSIGNAL
    input  memory_request_t       s_request,
    // verilator lint_on UNUSEDSIGNAL
    output memory_answer_t        s_answer,
    output memory_request_t [1:0] m_request,
    // verilator lint_off UNUSEDSIGNAL
    input  memory_answer_t  [1:0] m_answer
    // verilator lint_on UNUSEDSIGNAL
);
  localparam int unsigned LANE_BITS = $clog2(BYTES);
  typedef logic [MEMORY_ADDRESS_BITS-1:0] address_t;

  // At half the address, whole beats.
  function automatic address_t halved(input address_t address);
    return (address >> LANE_BITS) << (LANE_BITS - 1);
  endfunction

  // Each has taken what the other has not.
  logic [1:0] has_address, has_data, has_read;
  logic [1:0] address_ready, data_ready, read_ready;

  always_comb begin
    for (int unsigned n = 0; n < 2; n++) begin
      address_ready[n] = has_address[n] || m_answer[n].awready;
      data_ready[n] = has_data[n] || m_answer[n].wready;
      read_ready[n] = has_read[n] || m_answer[n].arready;
      m_request[n] = '0;
      m_request[n].awvalid = s_request.awvalid && !has_address[n];
      m_request[n].awaddr = halved(s_request.awaddr);
      m_request[n].awlen = s_request.awlen;
      m_request[n].wvalid = s_request.wvalid && !has_data[n];
      m_request[n].wdata[HALF-1:0] = s_request.wdata[HALF*n+:HALF];
      m_request[n].wstrb[BYTES/2-1:0] = s_request.wstrb[BYTES/2*n+:BYTES/2];
      m_request[n].wlast = s_request.wlast;
      m_request[n].bready = s_answer.bvalid && s_request.bready;
      m_request[n].arvalid = s_request.arvalid && !has_read[n];
      m_request[n].araddr = halved(s_request.araddr);
      m_request[n].arlen = s_request.arlen;
      m_request[n].rready = s_answer.rvalid && s_request.rready;
    end
  end

  always_ff @(posedge clk) begin
    for (int unsigned n = 0; n < 2; n++) begin
      has_address[n] <= !(&address_ready) && address_ready[n] && s_request.awvalid;
      has_data[n] <= !(&data_ready) && data_ready[n] && s_request.wvalid;
      has_read[n] <= !(&read_ready) && read_ready[n] && s_request.arvalid;
    end
    if (rst) begin
      has_address <= '0;
      has_data <= '0;
      has_read <= '0;
    end
  end

  // The worse of two answers: no error is 0, those of a memory are 2 and 3. Both end alike.
  assign s_answer.awready = &address_ready;
  assign s_answer.wready = &data_ready;
  assign s_answer.bvalid = m_answer[0].bvalid && m_answer[1].bvalid;
  assign s_answer.bresp = m_answer[0].bresp | m_answer[1].bresp;
  assign s_answer.arready = &read_ready;
  assign s_answer.rvalid = m_answer[0].rvalid && m_answer[1].rvalid;
  assign s_answer.rdata = MEMORY_DATA_BITS'({
    m_answer[1].rdata[HALF-1:0], m_answer[0].rdata[HALF-1:0]
  });
  assign s_answer.rresp = m_answer[0].rresp | m_answer[1].rresp;
  assign s_answer.rlast = m_answer[0].rlast;
endmodule
