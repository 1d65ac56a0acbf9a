// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The function's settings for the engine, from the configuration output interface, and
// function-level reset. Read first: README.md beside this file.

module crosslane_shim_ptile_function
  import crosslane_pkg::*;
(
    input logic clk,
    input logic rst,

    input  logic        dl_up,
    input  logic [ 2:0] tl_cfg_func,
    input  logic [ 4:0] tl_cfg_add,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [15:0] tl_cfg_ctl,    // of each address some bits
    // verilator lint_on UNUSEDSIGNAL
    input  logic        flr_rcvd,
    output logic        flr_completed,

    input  logic      rx_between,
    input  logic      tx_between,
    output logic      discard,     // the shim discards its input, and abandons TLPs in progress
    output logic      engine_rst,
    output function_t function_o
);

  always_ff @(posedge clk) begin
    if (tl_cfg_func == '0) begin
      case (tl_cfg_add)
        5'h00: begin
          function_o.bus_master <= tl_cfg_ctl[7];
          function_o.extended_tags <= tl_cfg_ctl[6];
          function_o.max_read_request <= tl_cfg_ctl[5:3];
          function_o.max_payload <= tl_cfg_ctl[2:0];
        end
        5'h01: begin
          function_o.relaxed_ordering <= tl_cfg_ctl[13];
          function_o.routing_id <= {tl_cfg_ctl[7:0], tl_cfg_ctl[12:8], 3'd0};
        end
        5'h0c:   function_o.msix_enabled <= tl_cfg_ctl[5] && !tl_cfg_ctl[6];
        default: ;
      endcase
    end
    function_o.link_up <= dl_up;
    if (rst) function_o <= '0;
  end

  crosslane_intel_reset resets (
      .*,
      .requested(flr_rcvd),
      .completed(flr_completed)
  );

endmodule
