// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// An AXI4 port behind which there is nothing: writes are taken, reads have an answer in time, with
// the data that the module above gives.

module crosslane_nothing_there (
    input  logic        clk,
    input  logic        rst,
    input  logic [15:0] awid,
    input  logic        awvalid,
    output logic        awready,
    input  logic        wlast,
    input  logic        wvalid,
    output logic        wready,
    output logic [15:0] bid,
    output logic        bvalid,
    input  logic        bready,
    input  logic [15:0] arid,
    input  logic [ 7:0] arlen,
    input  logic        arvalid,
    output logic        arready,
    output logic [15:0] rid,
    output logic        rlast,
    output logic        rvalid,
    input  logic        rready
);
  logic has_address;
  logic [7:0] left;

  assign awready = !has_address && !bvalid;
  assign wready  = has_address && !bvalid;
  assign arready = !rvalid;
  assign rlast   = left == '0;

  always_ff @(posedge clk) begin
    if (awvalid && awready) begin
      has_address <= 1'b1;
      bid <= awid;
    end
    if (wvalid && wready && wlast) begin
      has_address <= 1'b0;
      bvalid <= 1'b1;
    end
    if (bvalid && bready) bvalid <= 1'b0;
    if (arvalid && arready) begin
      rvalid <= 1'b1;
      rid <= arid;
      left <= arlen;
    end
    if (rvalid && rready) begin
      left   <= left - 1'b1;
      rvalid <= !rlast;
    end
    if (rst) begin
      has_address <= 1'b0;
      bvalid <= 1'b0;
      rvalid <= 1'b0;
    end
  end
endmodule
