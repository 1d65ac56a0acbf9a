// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_link_pattern.py: a generator and a checker, with the test between them.

module link_pattern
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES = 8,
    parameter bit          LONG  = 1'b0
) (
    input  logic                 clk,
    input  logic                 rst,
    input  logic                 begins,
    input  logic   [       31:0] seed,
    input  logic                 runs,
    output logic                 s_valid,
    input  logic                 s_ready,
    output logic   [        2:0] s_channel,
    output label_t               s_label,
    output logic   [8*LANES-1:0] s_data,
    output logic   [       31:0] sent,
    input  logic                 anew,
    input  logic                 m_valid,
    input  logic   [        2:0] m_channel,
    input  label_t               m_label,
    input  logic                 m_first,
    input  logic                 counts,
    input  logic   [8*LANES-1:0] m_data,
    output logic   [       31:0] right,
    output logic   [       31:0] wrong
);
  crosslane_link_generator #(
      .LANES(LANES),
      .LONG (LONG)
  ) generator (
      .*
  );

  crosslane_link_checker #(.LANES(LANES)) checks (.*);
endmodule
