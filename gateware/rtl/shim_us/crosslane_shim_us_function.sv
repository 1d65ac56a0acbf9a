// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The function's settings for the engine, and function-level reset. Settings for which the hard
// block has no output (Enable Relaxed Ordering, Extended Tag Enable) are polled in Device Control
// through the configuration management port.

module crosslane_shim_us_function
  import crosslane_pkg::*;
#(
    // Device Control (and Status) in double words: the PCIe capability is at 0x70.
    parameter logic [9:0] DEVICE_CONTROL = 10'h01e
) (
    input logic clk,
    input logic rst,

    input  logic        user_lnk_up,
    input  logic [ 7:0] cfg_bus_number,
    input  logic [ 1:0] cfg_max_payload,
    input  logic [ 2:0] cfg_max_read_req,
    input  logic        cfg_bus_master,             // cfg_function_status[2]
    input  logic        cfg_interrupt_msix_enable,
    input  logic        cfg_interrupt_msix_mask,
    output logic [ 9:0] cfg_mgmt_addr,
    output logic        cfg_mgmt_read,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [31:0] cfg_mgmt_read_data,         // two bits of it are used
    // verilator lint_on UNUSEDSIGNAL
    input  logic        cfg_mgmt_read_write_done,
    input  logic        cfg_flr_in_process,
    output logic        cfg_flr_done,

    input  logic      rx_between,
    input  logic      tx_between,
    input  logic      tx_heading,
    output logic      discard,     // the shim discards its input, and abandons TLPs in progress
    output logic      engine_rst,
    output function_t function_o
);

  localparam logic [3:0] RESET_CLOCKS = 4'd15;  // at least, for a function-level reset

  logic relaxed_ordering, extended_tags;
  assign cfg_mgmt_addr = DEVICE_CONTROL;

  always_ff @(posedge clk) begin
    cfg_mgmt_read <= !cfg_mgmt_read_write_done;
    if (cfg_mgmt_read && cfg_mgmt_read_write_done) begin
      relaxed_ordering <= cfg_mgmt_read_data[4];
      extended_tags <= cfg_mgmt_read_data[8];
    end
    if (rst) begin
      cfg_mgmt_read <= 1'b0;
      relaxed_ordering <= 1'b0;
      extended_tags <= 1'b0;
    end
    function_o.routing_id <= {cfg_bus_number, 8'd0};
    function_o.max_payload <= {1'b0, cfg_max_payload};
    function_o.max_read_request <= cfg_max_read_req;
    function_o.bus_master <= cfg_bus_master;
    function_o.relaxed_ordering <= relaxed_ordering;
    function_o.extended_tags <= extended_tags;
    function_o.msix_enabled <= cfg_interrupt_msix_enable && !cfg_interrupt_msix_mask;
    function_o.link_up <= user_lnk_up;
  end

  // Function-level reset: the engine is reset at once, the shim finishes TLPs in progress; then the
  // hard block is told. A descriptor that has left in part is completed first: at most two of the
  // hard block's beats. `seen` waits for the hard block to withdraw its request.
  logic seen;
  logic [3:0] clocks;
  always_ff @(posedge clk) begin
    cfg_flr_done <= 1'b0;
    engine_rst   <= discard;
    if (!cfg_flr_in_process) seen <= 1'b0;
    if (discard) begin
      if (clocks != RESET_CLOCKS) clocks <= clocks + 1'b1;
      else if (rx_between && tx_between) begin
        discard <= 1'b0;
        cfg_flr_done <= 1'b1;
      end
    end else if (cfg_flr_in_process && !seen && !tx_heading) begin
      discard <= 1'b1;
      seen <= 1'b1;
      clocks <= '0;
    end
    if (rst) begin
      discard <= 1'b0;
      seen <= 1'b0;
      engine_rst <= 1'b1;
      cfg_flr_done <= 1'b0;
    end
  end

endmodule
