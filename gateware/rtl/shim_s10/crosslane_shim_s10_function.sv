// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The function's settings for the engine, from the configuration interface of the Transaction
// Layer. Read first: README.md beside this file.

module crosslane_shim_s10_function
  import crosslane_pkg::*;
(
    input logic clk,
    input logic rst,

    input  logic             link_up,
    input  logic      [ 1:0] tl_cfg_func,
    input  logic      [ 4:0] tl_cfg_add,
    // verilator lint_off UNUSEDSIGNAL
    input  logic      [31:0] tl_cfg_ctl,   // of each address some bits
    // verilator lint_on UNUSEDSIGNAL
    output function_t        function_o
);

  always_ff @(posedge clk) begin
    if (tl_cfg_func == '0) begin
      case (tl_cfg_add)
        5'h00: begin
          function_o.relaxed_ordering <= tl_cfg_ctl[29];
          function_o.routing_id <= {tl_cfg_ctl[23:16], tl_cfg_ctl[28:24], 3'd0};
          function_o.bus_master <= tl_cfg_ctl[7];
          function_o.extended_tags <= tl_cfg_ctl[6];
          function_o.max_read_request <= tl_cfg_ctl[5:3];
          function_o.max_payload <= tl_cfg_ctl[2:0];
        end
        5'h06:   function_o.msix_enabled <= tl_cfg_ctl[5] && !tl_cfg_ctl[6];
        default: ;
      endcase
    end
    function_o.link_up <= link_up;
    if (rst) function_o <= '0;
  end

endmodule
