// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Connects the engine's TLP streams to the shell of AWS F2: registers by AXI4-Lite, host memory by
// AXI4, interrupts by pulses. Read first: README.md beside this file. Signals of the shell have its
// names, without `cl_sh_` and `sh_cl_`.

module crosslane_shim_f2
  import crosslane_pkg::*;
#(
    parameter int unsigned VECTORS = 8,  // to 16
    parameter int unsigned TAGS = 64     // reads at once: a power of two
) (
    input logic clk,  // clk_main_a0
    input logic rst,  // rst_main_n, inverted

    input  logic       flr_assert,
    output logic       flr_done,
    input  logic [1:0] cfg_max_payload,
    input  logic [2:0] cfg_max_read_req,

    output logic [ 63:0] pcim_awaddr,
    output logic [  7:0] pcim_awlen,
    output logic [  2:0] pcim_awsize,
    output logic [  1:0] pcim_awburst,
    output logic         pcim_awvalid,
    input  logic         pcim_awready,
    output logic [511:0] pcim_wdata,
    output logic [ 63:0] pcim_wstrb,
    output logic         pcim_wlast,
    output logic         pcim_wvalid,
    input  logic         pcim_wready,
    // A write that was refused is lost, as on PCI Express.
    // verilator lint_off UNUSEDSIGNAL
    input  logic [  1:0] pcim_bresp,
    // verilator lint_on UNUSEDSIGNAL
    input  logic         pcim_bvalid,
    output logic         pcim_bready,
    output logic [ 63:0] pcim_araddr,
    output logic [  7:0] pcim_arlen,
    output logic [  2:0] pcim_arsize,
    output logic [  1:0] pcim_arburst,
    output logic         pcim_arvalid,
    input  logic         pcim_arready,
    input  logic [511:0] pcim_rdata,
    input  logic [  1:0] pcim_rresp,
    input  logic         pcim_rlast,
    input  logic         pcim_rvalid,
    output logic         pcim_rready,

    input  logic [31:0] ocl_awaddr,
    input  logic        ocl_awvalid,
    output logic        ocl_awready,
    input  logic [31:0] ocl_wdata,
    input  logic [ 3:0] ocl_wstrb,
    input  logic        ocl_wvalid,
    output logic        ocl_wready,
    output logic [ 1:0] ocl_bresp,
    output logic        ocl_bvalid,
    input  logic        ocl_bready,
    input  logic [31:0] ocl_araddr,
    input  logic        ocl_arvalid,
    output logic        ocl_arready,
    output logic [31:0] ocl_rdata,
    output logic [ 1:0] ocl_rresp,
    output logic        ocl_rvalid,
    input  logic        ocl_rready,

    output logic [15:0] apppf_irq_req,
    input  logic [15:0] apppf_irq_ack,

    output logic      engine_rst,
    output function_t function_o,
    output room_t     room,

    output logic                m_rx_valid,
    input  logic                m_rx_ready,
    output tlp_header_t         m_rx_header,
    output logic                m_rx_first,
    output logic                m_rx_last,
    output logic                m_rx_aborted,  // beside the last beat of a completion
    output logic        [511:0] m_rx_data,

    input  logic                s_tx_valid,
    output logic                s_tx_ready,
    input  tlp_header_t         s_tx_header,
    input  logic                s_tx_first,
    input  logic                s_tx_last,
    input  logic        [511:0] s_tx_data
);
  logic hold, hold_tx, tx_idle, reads_idle, ocl_idle, write_room, read_valid, read_ready;
  logic answer_valid, answer_ready, answer_failed;
  logic [31:0] answer_data;

  // The shell shows neither the function's number nor its other settings.
  always_ff @(posedge clk) begin
    function_o <= '0;
    function_o.routing_id <= 16'h0100;
    function_o.max_payload <= 3'(cfg_max_payload);
    function_o.max_read_request <= cfg_max_read_req;
    function_o.bus_master <= 1'b1;
    function_o.extended_tags <= 1'b1;
    function_o.msix_enabled <= 1'b1;
    function_o.link_up <= !rst;
  end
  assign room = '{posted: write_room, nonposted: read_ready, completion: 1'b1};
  assign pcim_bready = 1'b1;
  // Bursts of whole beats, as the shell asks for.
  assign {pcim_awsize, pcim_arsize} = {2{3'd6}};
  assign {pcim_awburst, pcim_arburst} = {2{2'd1}};

  crosslane_shim_f2_tx #(
      .VECTORS(VECTORS)
  ) tx (
      .clk,
      .rst,
      .s_valid(s_tx_valid),
      .s_ready(s_tx_ready),
      .s_header(s_tx_header),
      .s_first(s_tx_first),
      .s_last(s_tx_last),
      .s_data(s_tx_data),
      .hold(hold_tx),
      .idle(tx_idle),
      .has_room(write_room),
      .awaddr(pcim_awaddr),
      .awlen(pcim_awlen),
      .awvalid(pcim_awvalid),
      .awready(pcim_awready),
      .wdata(pcim_wdata),
      .wstrb(pcim_wstrb),
      .wlast(pcim_wlast),
      .wvalid(pcim_wvalid),
      .wready(pcim_wready),
      .bvalid(pcim_bvalid),
      .read_valid,
      .read_ready,
      .answer_valid,
      .answer_ready,
      .answer_data,
      .answer_failed,
      .irq_req(apppf_irq_req),
      .irq_ack(apppf_irq_ack)
  );

  logic completion_valid, completion_ready, completion_first, completion_last, completion_aborted;
  tlp_header_t completion_header, access_header;
  logic [511:0] completion_data;
  logic access_valid, access_ready;
  logic [31:0] access_data;

  crosslane_shim_f2_reads #(
      .TAGS(TAGS)
  ) reads (
      .clk,
      .rst,
      .s_valid(read_valid),
      .s_ready(read_ready),
      .s_header(s_tx_header),
      .idle(reads_idle),
      .araddr(pcim_araddr),
      .arlen(pcim_arlen),
      .arvalid(pcim_arvalid),
      .arready(pcim_arready),
      .rdata(pcim_rdata),
      .rresp(pcim_rresp),
      .rlast(pcim_rlast),
      .rvalid(pcim_rvalid),
      .rready(pcim_rready),
      .m_valid(completion_valid),
      .m_ready(completion_ready),
      .m_header(completion_header),
      .m_first(completion_first),
      .m_last(completion_last),
      .m_aborted(completion_aborted),
      .m_data(completion_data)
  );

  crosslane_shim_f2_ocl #(
      .VECTORS(VECTORS)
  ) ocl (
      .clk,
      .rst,
      .engine_rst,
      .hold,
      .idle(ocl_idle),
      .awaddr(ocl_awaddr),
      .awvalid(ocl_awvalid),
      .awready(ocl_awready),
      .wdata(ocl_wdata),
      .wstrb(ocl_wstrb),
      .wvalid(ocl_wvalid),
      .wready(ocl_wready),
      .bresp(ocl_bresp),
      .bvalid(ocl_bvalid),
      .bready(ocl_bready),
      .araddr(ocl_araddr),
      .arvalid(ocl_arvalid),
      .arready(ocl_arready),
      .rdata(ocl_rdata),
      .rresp(ocl_rresp),
      .rvalid(ocl_rvalid),
      .rready(ocl_rready),
      .m_valid(access_valid),
      .m_ready(access_ready),
      .m_header(access_header),
      .m_data(access_data),
      .answer_valid,
      .answer_ready,
      .answer_data,
      .answer_failed
  );

  // --- To the engine: completions and accesses by turns, each whole ------------------------------
  logic goes_on, access_first, waits, was_access, takes_access;
  assign takes_access = waits ? was_access :
      !goes_on && access_valid && (access_first || !completion_valid);
  always_comb begin
    m_rx_valid = completion_valid || access_valid;
    m_rx_header = completion_header;
    m_rx_first = completion_first;
    m_rx_last = completion_last;
    m_rx_aborted = completion_aborted;
    m_rx_data = completion_data;
    if (goes_on) m_rx_valid = completion_valid;
    if (takes_access) begin
      m_rx_header = access_header;
      {m_rx_first, m_rx_last, m_rx_aborted} = 3'b110;
      m_rx_data = 512'(access_data);
    end
  end
  assign access_ready = takes_access && m_rx_ready;
  assign completion_ready = !takes_access && m_rx_ready;
  always_ff @(posedge clk) begin
    // An offered TLP stays until it is taken.
    waits <= m_rx_valid && !m_rx_ready;
    was_access <= takes_access;
    if (m_rx_valid && m_rx_ready) begin
      goes_on <= !m_rx_last;
      access_first <= !takes_access;
    end
    if (rst) begin
      goes_on <= 1'b0;
      access_first <= 1'b0;
      waits <= 1'b0;
    end
  end

  // --- Function-level reset ----------------------------------------------------------------------
  // All that has begun ends first, the access of a register before the rest: the shell knows no burst
  // that breaks off.
  localparam int unsigned RESET_CLOCKS = 16;
  logic [4:0] clocks;
  logic is_done;
  assign engine_rst = rst || clocks != '0;
  assign hold = (flr_assert && !is_done) || engine_rst;
  assign hold_tx = hold && (ocl_idle || engine_rst);
  assign flr_done = is_done && clocks == '0;
  always_ff @(posedge clk) begin
    if (clocks != '0) clocks <= clocks - 1'b1;
    if (flr_assert && !is_done && clocks == '0 && tx_idle && reads_idle && ocl_idle) begin
      clocks  <= 5'(RESET_CLOCKS);
      is_done <= 1'b1;
    end
    if (!flr_assert && clocks == '0) is_done <= 1'b0;
    if (rst) begin
      clocks  <= '0;
      is_done <= 1'b0;
    end
  end
endmodule
