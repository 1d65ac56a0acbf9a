// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The columns that are sent, one in each clock: training sets while the link is not up, then idle
// columns and the frames of the end, and a skip set whenever it is due (docs/torus-link.md).

module crosslane_link_columns
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES             = 8,
    parameter int unsigned CHANNEL_DATAGRAMS = 64,
    parameter bit          LONG              = 1'b0
) (
    input  logic                  clk,
    input  logic                  rst,            // or disabled
    input  logic                  link_up,
    input  logic                  is_confirming,  // sets of stage 2
    input  logic [     15:0]      session,
    input  logic [     15:0]      session_seen,
    output logic                  stage_2_sent,   // pulse: with the last column of a set
    // Of the end.
    output logic                  end_ready,
    input  logic [LANES-1:0][7:0] end_symbols,
    input  logic [LANES-1:0]      end_control,
    input  logic                  end_begins,
    output logic [LANES-1:0][7:0] symbols,
    output logic [LANES-1:0]      control
);
  localparam int unsigned SKIP_INTERVAL = 1280;
  localparam int unsigned SKIP_COLUMNS = 3;
  localparam int unsigned LEADING_IDLE_COLUMNS = 8;
  // A frame that the end has chosen begins behind at most this number of idle columns less one.
  localparam int unsigned END_CLOCKS = 3;
  localparam logic [3:0] LAST = 4'(SET_COLUMNS - 1);

  // --- What is sent --------------------------------------------------------------------------
  // Counts are compared a clock ahead.
  logic in_set, in_skip, begins, skips, trains, is_drained, takes_end, is_idle_of_end;
  logic skip_due, leads;
  logic [3:0] at, at_now;
  logic [10:0] since_skip;
  logic [3:0] leading;
  logic [1:0] idles;
  logic stage_2;

  assign begins = !in_set && !in_skip && end_begins;
  assign skips = begins && skip_due;
  // Frames that were chosen before the link was lost are finished.
  assign is_drained = idles == 2'(END_CLOCKS);
  assign trains = begins && !skips && !link_up && is_drained;
  assign takes_end = !in_set && !in_skip
                     && !(end_begins && (skip_due || (link_up ? leads : is_drained)));
  assign end_ready = takes_end && !rst;
  assign is_idle_of_end = end_begins && end_control[0] && end_symbols[0] == K_IDLE;
  assign at_now = (skips || trains) ? '0 : at;

  always_ff @(posedge clk) begin
    since_skip <= skips ? 11'd1 : since_skip + 1'b1;
    skip_due <= !skips && (skip_due || since_skip == 11'(SKIP_INTERVAL - 1));
    stage_2_sent <= in_set && at == LAST - 1'b1 && stage_2;
    at <= at_now + 1'b1;
    if (trains) begin
      in_set  <= 1'b1;
      stage_2 <= is_confirming;
    end else if (at == LAST) in_set <= 1'b0;
    if (skips) in_skip <= 1'b1;
    else if (at == 4'(SKIP_COLUMNS - 1)) in_skip <= 1'b0;
    if (!link_up) leading <= 4'(LEADING_IDLE_COLUMNS);
    else if (begins && !skips && leads) leading <= leading - 1'b1;
    leads <= !link_up || (leads && !(begins && !skips && leading == 4'd1));
    if (link_up) idles <= '0;
    else if (takes_end && !is_drained) idles <= is_idle_of_end ? idles + 1'b1 : '0;
    if (rst) begin
      since_skip <= '0;
      skip_due <= 1'b0;
      stage_2_sent <= 1'b0;
      in_set <= 1'b0;
      in_skip <= 1'b0;
      idles <= 2'(END_CLOCKS);
    end
  end

  // --- The column ----------------------------------------------------------------------------
  logic [LANES-1:0][7:0] set_symbols;
  crosslane_link_set_symbols #(
      .LANES(LANES),
      .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
      .LONG(LONG)
  ) set_columns (
      .clk,
      .begins(trains),
      .at,
      .is_stage_2(stage_2),
      .session,
      .session_seen,
      .symbols(set_symbols)
  );

  always_ff @(posedge clk) begin
    symbols <= {LANES{K_IDLE}};
    control <= '1;
    if (skips || trains) symbols <= {LANES{K_COMMA}};
    else if (in_skip) symbols <= {LANES{K_SKIP}};
    else if (in_set) begin
      symbols <= set_symbols;
      control <= '0;
    end else if (takes_end) begin
      symbols <= end_symbols;
      control <= end_control;
    end
  end
endmodule
