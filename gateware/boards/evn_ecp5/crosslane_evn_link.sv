// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// One of the links of crosslane_evn_ecp5: a port with generator and checker of datagrams. It
// has no parameters, so that `ecp5.py` may synthesise it once for both.

module crosslane_evn_link
  import crosslane_link_pkg::*;
(
    input  logic                         clk,
    input  logic                         rst,
    input  logic                         tests_line,
    input  logic                         stops,
    input  logic           [ 15:0]       first_session,
    // Of the transceiver, as in crosslane_link_line_port.
    output logic                         tx_enable,
    output logic                         tx_begins_word,
    output logic           [159:0]       tx_line,
    input  logic                         rx_clk,
    input  logic                         rx_detected,
    input  logic           [159:0]       rx_line,
    // For the report.
    output port_state_e                  state,
    output logic           [ 31:0]       sent,
    output logic           [ 31:0]       right,
    output logic           [ 31:0]       wrong,
    output link_counters_t               counters,
    output lane_counters_t               lane_counters,
    output logic           [  7:0][31:0] lane_errors,
    output logic                         line_in_step,
    output logic           [ 31:0]       line_wrong_bits,
    output logic           [ 31:0]       line_steps_lost
);
  localparam int unsigned LANES = 8;
  logic s_valid, s_ready, m_valid, m_first, m_last;
  logic [2:0] s_channel, m_channel;
  label_t s_label, m_label;
  logic [8*LANES-1:0] s_data, m_data;

  crosslane_link_line_port #(
      .LANES(LANES)
  ) link (
      // Behind a far end that was reset alone it begins anew.
      .enable (state != PORT_FAILED),
      .m_ready('1),
      .*
  );

  // A test of the line begins both anew: datagrams that were on their way are gone.
  crosslane_link_generator #(
      .LANES(LANES)
  ) source (
      .rst(rst || tests_line),
      .begins(1'b0),
      .seed('0),
      .runs(state == PORT_UP && !stops),
      .*
  );
  crosslane_link_checker #(
      .LANES(LANES)
  ) sink (
      .rst(rst || tests_line),
      .anew(1'b0),
      .counts(m_valid && m_last),
      .*
  );
endmodule
