// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// For test_torus_link.py: two ends, whose columns the test carries, and what happens in them.

module link_pair
  import crosslane_link_pkg::*;
#(
    parameter int unsigned LANES                 = 8,
    parameter int unsigned CHANNEL_DATAGRAMS     = 4,
    parameter int unsigned QUEUE_DATAGRAMS       = 2,
    parameter int unsigned RETRY_DATAGRAMS       = 8,
    parameter int unsigned ACKNOWLEDGE_DATAGRAMS = 4,
    parameter int unsigned ACKNOWLEDGE_WITHIN    = 100,
    parameter int unsigned RETRY_TIMEOUT         = 400,
    parameter int unsigned REFRESH               = 500,
    parameter bit          STEADY                = 1'b0,
    parameter bit          LONG                  = 1'b0
) (
    input  logic                                       clk,
    input  logic                                       rst,
    input  logic           [1:0]                       link_up,
    input  logic           [9:0]                       far_channel_datagrams,
    input  logic           [1:0]                       s_valid,
    output logic           [1:0]                       s_ready,
    input  logic           [1:0][            2:0]      s_channel,
    input  label_t         [1:0]                       s_label,
    input  logic           [1:0][    8*LANES-1:0]      s_data,
    output logic           [1:0][   CHANNELS-1:0]      room,
    output logic           [1:0]                       m_valid,
    input  logic           [1:0][   CHANNELS-1:0]      m_ready,
    output logic           [1:0][            2:0]      m_channel,
    output label_t         [1:0]                       m_label,
    output logic           [1:0]                       m_first,
    output logic           [1:0]                       m_last,
    output logic           [1:0][    8*LANES-1:0]      m_data,
    input  logic           [1:0]                       tx_ready,
    output logic           [1:0][      LANES-1:0][7:0] tx_symbols,
    output logic           [1:0][      LANES-1:0]      tx_control,
    output logic           [1:0]                       tx_begins,
    input  logic           [1:0]                       rx_valid,
    input  logic           [1:0][      LANES-1:0][7:0] rx_symbols,
    input  logic           [1:0][      LANES-1:0]      rx_control,
    input  logic           [1:0][      LANES-1:0]      rx_error,
    output logic           [1:0]                       in_error,
    output logic           [1:0]                       is_settled,
    output logic           [1:0][            6:0]      unacknowledged,
    output logic           [1:0][            7:0]      expected,
    output logic           [1:0][            2:0]      timeouts_in_a_row,
    output logic           [1:0][CHANNELS*10-1:0]      credit,
    output link_counters_t [1:0]                       counters,
    // Within the ends: the state above in one vector; what happens in this clock.
    output logic           [1:0][          515:0]      state,
    output logic           [1:0][            7:0]      happens
);
  for (genvar n = 0; n < 2; n++) begin : g_end
    crosslane_link_end #(
        .LANES(LANES),
        .CHANNEL_DATAGRAMS(CHANNEL_DATAGRAMS),
        .QUEUE_DATAGRAMS(QUEUE_DATAGRAMS),
        .RETRY_DATAGRAMS(RETRY_DATAGRAMS),
        .ACKNOWLEDGE_DATAGRAMS(ACKNOWLEDGE_DATAGRAMS),
        .ACKNOWLEDGE_WITHIN(ACKNOWLEDGE_WITHIN),
        .RETRY_TIMEOUT(RETRY_TIMEOUT),
        .REFRESH(REFRESH),
        .STEADY(STEADY),
        .LONG(LONG)
    ) link_end (
        .clk,
        .rst,
        .link_up(link_up[n]),
        .far_channel_datagrams,
        .s_valid(s_valid[n]),
        .s_ready(s_ready[n]),
        .s_channel(s_channel[n]),
        .s_label(s_label[n]),
        .s_data(s_data[n]),
        .room(room[n]),
        .m_valid(m_valid[n]),
        .m_ready(m_ready[n]),
        .m_channel(m_channel[n]),
        .m_label(m_label[n]),
        .m_first(m_first[n]),
        .m_last(m_last[n]),
        .m_data(m_data[n]),
        .tx_ready(tx_ready[n]),
        .tx_symbols(tx_symbols[n]),
        .tx_control(tx_control[n]),
        .tx_begins(tx_begins[n]),
        .rx_restart(1'b0),
        .rx_valid(rx_valid[n]),
        .rx_symbols(rx_symbols[n]),
        .rx_control(rx_control[n]),
        .rx_error(rx_error[n]),
        .rx_events(),
        .rx_set(),
        .in_error(in_error[n]),
        .is_settled(is_settled[n]),
        .unacknowledged(unacknowledged[n]),
        .expected(expected[n]),
        .timeouts_in_a_row(timeouts_in_a_row[n]),
        .credit(credit[n]),
        .counters(counters[n])
    );
    assign state[n] = {
      counters[n],
      credit[n],
      1'b0,
      timeouts_in_a_row[n],
      expected[n],
      unacknowledged[n],
      is_settled[n]
    };
    // A frame may be chosen; the end is up; a datagram may be sent; a buffer is freed, and its
    // channel; the end waits for a RESTART.
    assign happens[n] = {
      link_end.core.boundary,
      link_end.core.is_up,
      link_end.core.submits,
      link_end.frees,
      link_end.frees_channel,
      in_error[n]
    };
  end
endmodule
