// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Determines for which classes of TLP the link has credits: room_t. A class is open while the
// credits cover one TLP of the largest size beside those still on the way to the link. A limit of 0
// when the link comes up means infinite credits (PCIe 6.x 2.6.1); after that the hard block is
// polled for available credits.

module crosslane_shim_us_credits
  import crosslane_pkg::*;
(
    input logic clk,
    input logic rst,

    input  logic        link_up,
    input  logic [ 2:0] max_payload,
    input  logic [ 7:0] cfg_fc_ph,
    input  logic [11:0] cfg_fc_pd,
    input  logic [ 7:0] cfg_fc_nph,
    input  logic [ 7:0] cfg_fc_cplh,
    input  logic [11:0] cfg_fc_cpld,
    output logic [ 2:0] cfg_fc_sel,

    input  logic  [4:0] posted_under_way,
    input  logic  [4:0] nonposted_under_way,
    input  logic        completion_held,
    output room_t       room
);

  localparam logic [2:0] SELECT_AVAILABLE = 3'b100;
  localparam logic [2:0] SELECT_LIMIT = 3'b101;
  localparam logic [3:0] ASK_CLOCKS = 4'd15;  // for the hard block to answer a new query

  logic [3:0] asked;  // clocks since cfg_fc_sel was set
  logic known;
  // Infinite.
  logic ph_inf, pd_inf, nph_inf, cplh_inf, cpld_inf;
  // Data credits (16 bytes) required; one TLP needs 8 << max_payload.
  logic [12:0] pd_needed, cpld_needed;

  assign cfg_fc_sel = known ? SELECT_AVAILABLE : SELECT_LIMIT;

  always_ff @(posedge clk) begin
    if (rst || !link_up) begin
      asked <= '0;
      known <= 1'b0;
    end else if (asked != ASK_CLOCKS) begin
      asked <= asked + 1'b1;
    end else if (!known) begin
      known <= 1'b1;
      asked <= '0;
      ph_inf <= cfg_fc_ph == '0;
      pd_inf <= cfg_fc_pd == '0;
      nph_inf <= cfg_fc_nph == '0;
      cplh_inf <= cfg_fc_cplh == '0;
      cpld_inf <= cfg_fc_cpld == '0;
    end
    pd_needed <= (13'(posted_under_way) + 13'd1) << (4'd3 + 4'(max_payload));
    cpld_needed <= (13'(completion_held) + 13'd1) << (4'd3 + 4'(max_payload));
    room.posted <= known && asked == ASK_CLOCKS &&
        (ph_inf || cfg_fc_ph > 8'(posted_under_way)) &&
        (pd_inf || 13'(cfg_fc_pd) >= pd_needed);
    room.nonposted <= known && asked == ASK_CLOCKS &&
        (nph_inf || cfg_fc_nph > 8'(nonposted_under_way));
    room.completion <= known && asked == ASK_CLOCKS &&
        (cplh_inf || cfg_fc_cplh > 8'(completion_held)) &&
        (cpld_inf || 13'(cfg_fc_cpld) >= cpld_needed);
    if (rst) room <= '0;
  end

endmodule
